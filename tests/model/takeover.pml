/* SPDX-License-Identifier: MIT
**
** takeover.pml -- a model of readers' and writers' view of SQLite's file and
** of the store while the store changes hands.  tests/model/spin.sh explores
** it.  owner.pml models how a call reaches its owner, commit.pml the state
** after a crash.
**
** MODELLED  A counter, in SQLite's file and in the store.  A statement reads
**           it; a write transaction reads it and writes the next value to
**           both.  A process may be killed at every step, and a new one takes
**           its place.  An inline is one step or several:
**
**           look           the statement's view of SQLite's file: the newest
**                          row's number, and the counter
**           route          where the call is carried out      [route_session]
**           own_take       the lock; loads the newest state; a checkpoint of
**                          the recovered state, with the claim (clean = 0);
**                          settles; serves
**           await_decided  the store has the view's commits, or is in doubt
**           txn_resolve    decides the transaction in doubt
**           store_read     reads the value, as a separate call
**           emb_begin, emb_prepare, emb_commit, emb_rollback, emb_resolve
**           route_decided  ends a transaction that lost its owner
**           leave          an owner's close                   [emb_close]
**
**           LOCK      The holder announces what others may do:
**             FREE       no process has it
**             UNSETTLED  recovery, or a transaction in doubt; taken so
**             SERVES     settled: others ask the owner, or wait for its answer
**             ALONE      settled, serves no other process: others see its
**                        checkpoint
**           MANIFEST  Generation (incremented by each write), clean,
**                     checkpoint.
**           LOG       The state that recovery finds (durable), and in doubt
**                     (prepared).
**           SQLITE    Commits in one step, which releases the write lock.  A
**                     statement that began before keeps its view (WAL).
** CHECKED   In a write transaction the value read is SQLite's counter.  Any
**           other value read is not below the view's counter, not above
**           SQLite's committed counter, and never goes back in one process.
**           With an owner that is ALONE it is not below the counter at the
**           end of the previous owner.  At the end, recovered and decided,
**           both sides are equal.  No process waits forever.
** NOT       The moment between an owner's comparison of generations and its
**           write; power failures; messages and slots (owner.pml); several
**           sessions of one process; SQLite's rollback journal, where a reader
**           keeps a writer from committing.
**
** Rules that are easily missed; without them the model fails:
**
**   The store may come into doubt between the wait and the read: the commit
**   need not be durable, and the next owner finds it prepared.  A read that
**   finds a doubt about which this statement was not asked goes back to the
**   wait.
**   LOST does not cover this case: the wait is a call of the store's own
**   session, and this session may have had nothing at the dead owner.
**   A checkpoint that was loaded while another process was owner is used again
**   only if its manifest was clean: an owner continues under the generation
**   that it claimed.
**   "Not committed" needs SQLite's write lock, and the newest row.
**   A decision names its number: another may be in doubt by then.
**   An owner that leaves with a prepared transaction takes no checkpoint.
**
** PROCESSES, CALLS of each and KILLS are the size.  OFF: process 0 has
** serve='off'.  FLUSHED: a commit may be durable immediately.  LOCK_DROPPED:
** the system drops a living owner's lock, once.  There are two owners then,
** and the only check is that the first writes nothing after the second has
** claimed.  With any one of these the model must fail:
**
**   CHECKPOINT_SHOWN     the checkpoint of an owner that serves, but whose
**                        socket was not found at that moment, is shown
**   UNSETTLED_SHOWN      the same for an owner that is not settled
**   DOUBT_READ_PAST      a read shows the state before the transaction that
**                        came into doubt
**   NOT_AWAITED          a read does not wait for its view's commits
**   OLD_ROW_DECIDES      the view decides that a transaction is not committed
**   UNDONE_UNLOCKED      the newest row decides so, without SQLite's write
**                        lock
**   NUMBER_NOT_NAMED     a decision applies to any number in doubt by then
**                        (KILLS=2)
**   ORPHAN_KEPT          a dead client's prepared transaction is not in doubt
**   PREPARED_CLEAN       the last checkpoint forgets the prepared transaction
**   SETTLED_EARLY        an owner settles before its checkpoint (OFF)
**   CLAIMED_IS_NEWEST    a checkpoint is used again, clean or not (OFF)
**   NO_GENERATION_CHECK  an owner writes without comparing (LOCK_DROPPED)
*/
#ifndef PROCESSES
#define PROCESSES 2
#endif
#ifndef CALLS
#define CALLS 2
#endif
#ifndef KILLS
#define KILLS 1
#endif

/* A process p is stored as p + 1 where 0 means no process. */
#define NOBODY 0

/* The directory. */
#define FREE 0
#define UNSETTLED 1
#define SERVES 2
#define ALONE 3
byte lock, lock_state;
byte generation = 1;
bool clean = 1;
byte saved, saved_number;       /* the manifest's checkpoint */
byte durable, durable_number;   /* the state that recovery finds, */
byte prepared, prepared_number; /* and in doubt, if that is newer */
byte last;                      /* number given out */

/* SQLite's file. */
byte marker, counter; /* the newest row */
byte writer;          /* holder of the write lock */

/* Processes.  A store's memory is an owner's or a reader's. */
#define RUNS 0
#define ENDED 1
#define KILLED 2
byte fate[PROCESSES];
bool owner[PROCESSES];
bool serving[PROCESSES];
bool failed[PROCESSES]; /* this owner found another's manifest */
byte value[PROCESSES];
byte number[PROCESSES];   /* emb_committed */
byte doubt[PROCESSES];    /* emb_in_doubt */
byte loaded[PROCESSES];   /* generation that it loaded, or wrote last */
bool is_clean[PROCESSES]; /* of that manifest */
byte in_txn[PROCESSES];   /* process whose transaction this owner has */
#define ORPHAN 9          /* prepared, and its client died */

/* Sessions, one of each process. */
byte link[PROCESSES]; /* its owner */
bool used[PROCESSES]; /* that owner has carried out a call for it */
bool lost[PROCESSES]; /* and was killed: the next call says LOST */
#define NONE 0
#define OPEN 1
#define PREPARED 2
#define BROKEN 3 /* its owner has gone */
byte txn[PROCESSES];

/* answer */
#define LOST 1
#define BUSY 2
#define FAILED 3
/* where */
#define OWNER 1  /* here or linked, at the moment of the call */
#define READER 2 /* the newest checkpoint, clean */
#define SHOWN 3  /* the checkpoint of an owner that is alone */
/* phase of a statement */
#define AWAIT 0
#define READ 1
#define BEGIN 2
#define DONE 3

/* For the checks. */
byte must;                /* SQLite's counter when the last owner ended */
byte claims;              /* owners that have claimed */
byte claim_of[PROCESSES]; /* claims when this one loaded, or claimed */
byte ended, kills;
bool dropped;
hidden byte c;

#ifdef OFF
#define is_off(p) ((p) == 0)
#else
#define is_off(p) 0
#endif

/* The owner that carries out calls now, or none. */
inline store_is() {
  o = (owner[me] -> me + 1
                  : (link[me] && serving[link[me] - 1] -> link[me] : NOBODY))
}

/* Before each checkpoint and each prepare of owner p. */
inline compare(p) {
#ifndef NO_GENERATION_CHECK
  failed[p] = failed[p] || generation != loaded[p];
#endif
  assert(failed[p] || claim_of[p] == claims) /* no process has claimed since */
}

inline checkpoint(p, as_clean) {
  generation++;
  loaded[p] = generation;
  clean = as_clean;
  saved = value[p];
  saved_number = number[p];
  durable = value[p];
  durable_number = number[p];
  prepared = 0;
  prepared_number = 0
}

inline own_settle_state(p) {
  compare(p);
  if
  :: !failed[p] ->
     claims++;
     claim_of[p] = claims;
     checkpoint(p, 0)
  :: else
  fi
}

inline own_settle(p) {
  if
  :: lock == p + 1 -> lock_state = (is_off(p) -> ALONE : SERVES)
  :: else
  fi
}

inline load(p, replay) {
  loaded[p] = generation;
  is_clean[p] = clean;
  value[p] = (replay -> durable : saved);
  number[p] = (replay -> durable_number : saved_number);
  doubt[p] =
    (replay && prepared_number > durable_number -> prepared_number : 0)
}

inline own_take() {
  if
  :: atomic { lock == NOBODY -> lock = me + 1; lock_state = UNSETTLED };
     d_step { /* become_owner */
       load(me, !clean);
       claim_of[me] = claims
     };
#ifdef SETTLED_EARLY
     own_settle(me);
#endif
     if
     :: !doubt[me] ->
        d_step { own_settle_state(me) };
        d_step { own_settle(me) }
     :: else
     fi;
     d_step { owner[me] = 1; serving[me] = !is_off(me) }
  :: lock != NOBODY /* everything is retried */
  fi
}

/* Loads a checkpoint, to answer from it. */
inline own_load_newest(as) {
  load(me, 0);
  where = as;
  lags = as == SHOWN && state == ALONE
}

/* Where is this call carried out?  The store's own session (not as_session)
** gets no error for a killed owner. */
inline route(as_session) {
  where = 0;
  do
  :: atomic { as_session && lost[me] -> lost[me] = 0; answer = LOST; break }
  :: atomic {
       !(as_session && lost[me]) && owner[me] ->
       if
       :: failed[me] -> answer = FAILED
       :: else -> where = OWNER
       fi;
       break
     }
  :: atomic {
       !(as_session && lost[me]) && link[me] && serving[link[me] - 1] ->
       where = OWNER;
       break
     }
  :: atomic { link[me] && !serving[link[me] - 1] -> /* it leaves */
       if
       :: link[me] == NOBODY
       :: answer = BUSY; break
       fi
     }
  :: atomic {
       !(as_session && lost[me]) && !owner[me] && !link[me] ->
       if
       :: !writes && loaded[me] == generation && /* own_is_current */
#ifndef CLAIMED_IS_NEWEST
          is_clean[me] &&
#endif
          1 ->
          where = READER;
          lags = !is_clean[me] && lock_state == ALONE;
          break
       :: else -> state = lock_state
       fi
     };
     if
     :: state == FREE ->
        if
        :: atomic { !writes && clean -> own_load_newest(READER); break }
        :: writes || !clean -> own_take()
        fi
     :: atomic { state == ALONE && !writes -> own_load_newest(SHOWN); break }
     :: atomic {
          state == SERVES || state == UNSETTLED ->
          if
          :: !is_off(me) && lock && serving[lock - 1] -> /* link__open */
             link[me] = lock;
             loaded[me] = 0
#ifdef CHECKPOINT_SHOWN
          :: state == SERVES && !writes -> own_load_newest(SHOWN); break
#endif
#ifdef UNSETTLED_SHOWN
          :: state == UNSETTLED && !writes -> own_load_newest(SHOWN); break
#endif
          :: lock_state != state /* waits: the owner does not answer yet */
          :: answer = BUSY; break
          fi
        }
     :: state == ALONE && writes -> answer = BUSY; break
     fi
  od;
  state = 0
}

/* Tells the owner how y ends.  It settles if nothing else is left to do. */
inline emb_resolve(y, commits) {
  d_step {
    store_is();
    if
#ifdef NUMBER_NOT_NAMED
    :: o && doubt[o - 1] ->
#else
    :: o && y && doubt[o - 1] == y ->
#endif
       if
       :: commits ->
          value[o - 1] = prepared;
          number[o - 1] = doubt[o - 1]
       :: else
       fi;
       doubt[o - 1] = 0;
       if
       :: lock == o && lock_state == UNSETTLED ->
          own_settle_state(o - 1);
          own_settle(o - 1)
       :: else
       fi
    :: else
    fi;
    o = 0
  }
}

/* Number y is in doubt: what does SQLite's file say? */
inline txn_resolve() {
  if
  :: row >= y -> emb_resolve(y, 1)
#ifdef OLD_ROW_DECIDES
  :: row < y -> emb_resolve(y, 0)
#else
  :: row < y && writer == me + 1 -> emb_resolve(y, 0)
#ifdef UNDONE_UNLOCKED
  :: atomic { row < y && writer != me + 1 -> is_newer = marker >= y };
     emb_resolve(y, is_newer);
#else
  :: atomic { /* ext_place_read_newest */
       row < y && writer == NOBODY ->
       writer = me + 1;
       is_newer = marker >= y
     };
     emb_resolve(y, is_newer);
     writer = NOBODY;
#endif
     is_newer = 0
  :: atomic { row < y && writer != NOBODY && writer != me + 1 -> asked = y }
#endif
  fi;
  y = 0
}

/* The store of owner o is in doubt, and this statement was not asked of it. */
#define is_unasked(o) (doubt[o - 1] && doubt[o - 1] != asked)

inline await_decided() {
  route(0);
  if
  :: where == OWNER ->
     atomic {
       store_is();
       if
       :: o && is_unasked(o) -> y = doubt[o - 1]
#ifdef NOT_AWAITED
       :: o && !is_unasked(o) -> phase = READ
#else
       :: o && !is_unasked(o) && number[o - 1] >= row -> phase = READ
       :: o && !is_unasked(o) && number[o - 1] < row ->
          if
          :: number[o - 1] >= row || doubt[o - 1] || !owner[o - 1]
#ifdef LOCK_DROPPED
          :: answer = BUSY /* the first owner's writes are missing */
#endif
          fi
#endif
       :: !o
       fi;
       o = 0
     };
     if
     :: y -> txn_resolve()
     :: else
     fi
  :: where > OWNER -> phase = READ
  :: else
  fi
}

inline check_read() {
#ifndef LOCK_DROPPED
  assert(!writes || read == counter);
  assert(lags || read >= view);
  assert(read >= at_least);
  assert(read <= counter);
  assert(read >= seen);
#endif
  seen = read
}

inline store_read() {
  route(1);
  atomic {
    store_is();
    if
    :: where == OWNER && o ->
       used[me] = used[me] || !owner[me];
       if
#ifndef DOUBT_READ_PAST
       :: is_unasked(o) -> phase = AWAIT
#endif
       :: else ->
          lags = 0;
          read = value[o - 1];
          check_read();
          phase = (writes -> BEGIN : DONE)
       fi
    :: where > OWNER ->
       read = value[me];
       check_read();
       phase = DONE
    :: else
    fi;
    o = 0
  }
}

/* And writes the next value. */
inline emb_begin() {
  route(1);
  atomic {
    store_is();
    if
    :: where == OWNER && o ->
       used[me] = used[me] || !owner[me];
       if
       :: doubt[o - 1] -> phase = AWAIT; asked = 0
       :: !doubt[o - 1] && in_txn[o - 1] -> (!in_txn[o - 1])
       :: !doubt[o - 1] && !in_txn[o - 1] ->
          in_txn[o - 1] = me + 1;
          txn[me] = OPEN;
          phase = DONE
       fi
    :: else
    fi;
    o = 0
  }
}

/* xSync */
inline emb_prepare() {
  d_step {
    o = (owner[me] -> me + 1 : link[me]);
    if
    :: txn[me] == OPEN ->
       compare(o - 1);
       if
       :: failed[o - 1] -> answer = FAILED
       :: else ->
          last++;
          mine = last;
          durable = value[o - 1]; /* the previous commit is decided */
          durable_number = number[o - 1];
          prepared = read + 1;
          prepared_number = mine;
          txn[me] = PREPARED
       fi
    :: else -> answer = LOST
    fi;
    o = 0
  }
}

inline txn_leaves() {
  in_txn[o - 1] = 0;
  txn[me] = NONE;
  o = 0
}

/* If no owner is found in time, the next user of the store decides. */
inline route_decided(commits) {
  route(0);
  if
  :: where == OWNER && mine -> emb_resolve(mine, commits)
  :: else
  fi;
  txn[me] = NONE
}

/* xCommit: in memory; the log may have it later, or immediately (FLUSHED). */
inline emb_commit() {
  if
  :: atomic {
       txn[me] == PREPARED ->
       o = (owner[me] -> me + 1 : link[me]);
       value[o - 1] = read + 1;
       number[o - 1] = mine;
#ifdef FLUSHED
       if
       :: 1
       :: generation == loaded[o - 1] ->
          durable = read + 1;
          durable_number = mine
       fi;
#endif
       txn_leaves()
     }
  :: txn[me] == BROKEN -> route_decided(1)
  fi
}

inline emb_rollback() {
  if
  :: atomic {
       txn[me] == OPEN || txn[me] == PREPARED ->
       o = (owner[me] -> me + 1 : link[me]);
       txn_leaves()
     }
  :: txn[me] == BROKEN -> answer = 0; route_decided(0)
  :: txn[me] == NONE
  fi
}

/* A statement, or a write transaction of one. */
inline statement() {
  if
  :: atomic { writes && writer == NOBODY -> writer = me + 1; look() }
  :: atomic { !writes -> look() }
  fi;
  do
  :: phase == AWAIT && !answer -> await_decided()
  :: phase == READ && !answer -> store_read()
  :: phase == BEGIN && !answer -> emb_begin()
  :: phase == DONE || answer -> break
  od;
  if
  :: writes ->
     if
     :: !answer -> emb_prepare()
     :: else
     fi;
     if
     :: d_step {
          !answer ->
          marker = mine;
          counter++;
          writer = NOBODY
        };
        emb_commit()
     :: writer = NOBODY; emb_rollback()
     fi
  :: else
  fi;
  d_step { forget() }
}

inline look() {
  row = marker;
  view = counter;
  at_least = must
}

inline forget() {
  writes = 0; row = 0; view = 0; at_least = 0; where = 0; answer = 0;
  asked = 0; o = 0; y = 0; state = 0; read = 0; mine = 0; phase = AWAIT;
  is_newer = 0; lags = 0
}

/* The owner p is about to end: a transaction there has no owner any more. */
inline break_off(p) {
  if
  :: in_txn[p] && in_txn[p] != ORPHAN -> txn[in_txn[p] - 1] = BROKEN
  :: else
  fi;
  in_txn[p] = 0
}

/* It has ended, cleanly or killed. */
inline hang_up(p, in_peace) {
  for (c : 0 .. PROCESSES - 1) {
    if
    :: link[c] == p + 1 ->
       link[c] = NOBODY;
       lost[c] = lost[c] || (used[c] && !in_peace);
       used[c] = 0
    :: else
    fi
  }
}

inline unlock(p) {
  if
  :: lock == p + 1 ->
     lock = NOBODY;
     lock_state = FREE;
     must = counter
  :: else
  fi;
  owner[p] = 0;
  failed[p] = 0;
  value[p] = 0;
  number[p] = 0;
  doubt[p] = 0;
  loaded[p] = 0;
  is_clean[p] = 0
}

inline leave() {
  d_step { /* server__stop: a prepared transaction has time to end */
    serving[me] = 0;
    if
    :: in_txn[me] && in_txn[me] != ORPHAN && txn[in_txn[me] - 1] == OPEN ->
       break_off(me)
    :: else
    fi
  };
  d_step { /* the last checkpoint */
    compare(me);
    if
    :: failed[me]
#ifdef PREPARED_CLEAN
    :: else -> checkpoint(me, 1)
#else
    :: !failed[me] && (in_txn[me] || doubt[me]) ->
       durable = value[me];
       durable_number = number[me]
    :: !failed[me] && !in_txn[me] && !doubt[me] -> checkpoint(me, 1)
#endif
    fi;
    break_off(me)
  };
  d_step { hang_up(me, 1) }; /* LEFT */
  d_step { unlock(me) }
}

proctype process(byte me) {
  byte calls, row, view, at_least, where, answer, asked, o, y, state, read,
       seen, mine, phase;
  bool writes, is_newer, lags;
life:
  {
    do
    :: atomic {
         calls < CALLS ->
         calls++;
         if
         :: writes = 1
         :: writes = 0
         fi
       };
       statement()
    :: calls < CALLS && owner[me] -> leave() /* and reopens it */
    :: calls == CALLS -> break
    od;
    if
    :: owner[me] -> leave()
    :: else
    fi;
    d_step { fate[me] = ENDED; ended++ }
  } unless {
    fate[me] == KILLED
  };
  if
  :: d_step {
       fate[me] == KILLED ->
       forget();
       seen = 0;
       calls = CALLS - 1;
       fate[me] = RUNS
     };
     goto life
  :: else
  fi
}

/* A client's death, as its owner sees it. */
inline client_died(p) {
  for (c : 0 .. PROCESSES - 1) {
    if
    :: in_txn[c] == p + 1 -> in_txn[c] = (txn[p] == PREPARED -> ORPHAN : 0)
    :: else
    fi
  }
}

inline kill(p) {
  fate[p] = KILLED;
  writer = (writer == p + 1 -> NOBODY : writer);
  break_off(p);
  hang_up(p, 0);
  client_died(p);
  serving[p] = 0;
  unlock(p);
  txn[p] = NONE;
  link[p] = NOBODY;
  used[p] = 0;
  lost[p] = 0
}

/* The events that hit process p. */
proctype system(byte p) {
end:
  do
  :: d_step { kills < KILLS && fate[p] == RUNS -> kills++; kill(p) }
#ifndef ORPHAN_KEPT
  :: d_step { in_txn[p] == ORPHAN -> /* orphan__adopt */
       in_txn[p] = 0;
       doubt[p] = prepared_number
     }
#endif
#ifdef LOCK_DROPPED
  :: d_step { !dropped && lock == p + 1 ->
       dropped = 1;
       lock = NOBODY;
       lock_state = FREE
     }
#endif
  od
}

init {
  atomic {
    for (c : 0 .. PROCESSES - 1) {
      run process(c);
      run system(c)
    }
  };
  atomic {
    (ended == PROCESSES);
    assert(lock == NOBODY && writer == NOBODY);
#ifndef LOCK_DROPPED
    if
    :: clean -> assert(saved == counter)
    :: !clean && prepared_number > durable_number &&
       marker >= prepared_number ->
       assert(prepared == counter)
    :: else -> assert(durable == counter)
    fi
#endif
  }
}
