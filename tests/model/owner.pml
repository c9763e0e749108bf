/* SPDX-License-Identifier: MIT
**
** owner.pml -- a model of the processes that use one store: which of them owns
** it, serves the others, leaves, dies or is stopped, with calls in flight at
** every moment.  tests/model/spin.sh explores it.
**
** MODELLED  The directory: lock file, manifest (generation, clean, content of
**           its checkpoint), log (its durable part) and the name of a socket.
**           Processes with one session each.  A session shares one slot of
**           memory with its owner, through which it sends one call at a time.
**           A store's content is the set of the writes that were carried out.
**           A call reads, writes, or writes and makes durable; with TXN it
**           reads, or is a transaction that the database decides
**           (commit.pml), whose lock one process has.  A label or an inline
**           is one step or several:
**
**           look       a read without an owner               [store_refresh]
**           try_lock   the lock is taken or not               [own_take]
**           take_over  reads the manifest again, and loads    [become_owner]
**           claim      makes a checkpoint of the recovered state; the
**                      manifest names the writer          [own_settle_state]
**           serve      removes the name, then sets its own     [env->port_open]
**           connect    calls the process of the name         [env->peer_open]
**           await      a client's steps until it is answered
**           carry_out  a call in the owner's engine
**           leave      an owner's close          [emb_close, env->port_close]
**           kill       by the system: the lock is free, sockets hang up
**
**           A process that was killed, or stopped permanently, takes no
**           further steps; a process stopped for a while is one that others
**           overtake.  A timeout may happen in any wait.  A child that an
**           owner forked may keep its sockets open (inherited): then
**           connecting works, no process answers, and nothing hangs up.
** CHECKED   only the lock's holder writes; the name is the owner's while it
**           serves; a read that begins after a write was acknowledged sees it,
**           unless the owner was killed and the write was not durable; each
**           session whose owner was killed gets one error, at its next call
**           or the one in flight, and no other session gets one; a write is
**           carried out at most once, and never if its call ended with BUSY;
**           committed writes are there at the end; no call gives BUSY unless
**           another process has the lock; no process waits forever.
** NOT       fairness, power failures, several sessions of one process,
**           processes that may only read, bytes of messages.
**
** ANSWERS   OK       carried out
**           BUSY     not carried out, and never will be
**           UNKNOWN  begun by an owner that does not answer: at most once.
**                    The slot stays occupied until the call has ended
**           LOST     the owner was killed: writes that were not durable are
**                    gone, and this call may be among the lost or the durable
**                    ones
**
** Rules that are easily missed; without them the model fails:
**
**   A client goes elsewhere when its owner is LEFT, not LEAVING: it could die
**   before the checkpoint, and the client would not be told.
**   A client without a call begun had no owner: it retries silently.
**   An answer that is there counts, even if its owner has gone since.
**   xCommit cannot fail.  Its call is not withdrawn, an error is kept for the
**   next call, and the owner ends it before anything else, begun or not.
**   An owner that leaves while a transaction is prepared makes everything
**   durable, but takes no checkpoint: the next owner recovers and asks the
**   database.
**   "Not committed" is an answer only if no process is committing.
**
** PROCESSES, CALLS of each, KILLS, STOPS are the size.  An endless wait is
** found only when no kill is left, so each size is also run without kills.
** VOLATILE leaves out the writes that are durable immediately.  With any one
** of these the model must fail:
**
**   CLAIM_LATE        the manifest is written after the first write
**   SOCKET_FIRST      the port is opened before the lock is tried
**   NAME_REMOVED      the name is removed, whichever process owns it, without
**                     the lock
**   NAME_ASKED        the name's owner is checked, then the name is removed,
**                     also without the lock
**   LOCK_EARLY        the lock is dropped, then the checkpoint is taken
**   NO_LOOK           a reader does not look at the generation
**   NOT_AGAIN         a process that took the lock does not read the manifest
**                     again
**   WITHDRAW_PLAIN    a call is withdrawn without comparing
**   ASKED_AGAIN       a call that runs while the owner leaves is sent
**                     elsewhere
**   KILLED_AGAIN      a call that ran when the owner died is sent elsewhere
**   LEFT_EARLY        a client goes elsewhere before the checkpoint
**   NO_ERROR          a session continues without an error when its owner
**                     dies
**   NO_TIMEOUT        a client waits for its owner forever
**   NO_NOTICE         a client waits for its owner, whether it lives or not
** and of transactions:
**   PREPARED_UNDONE   a client's prepared transaction is rolled back when it
**                     dies
**   PREPARED_CLEAN    a checkpoint on leaving forgets the prepared
**                     transaction
**   RESOLVE_EARLY     "not committed" is believed while a commit is still
**                     possible
**   COMMIT_WITHDRAWN  xCommit's call is withdrawn at the timeout
**   COMMIT_ANY_TURN   xCommit's call is carried out when its turn comes
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
#ifndef STOPS
#define STOPS 0
#endif

/* A process p is stored as p + 1 where 0 means no process. */
#define NOBODY 0

/* Each write is a bit. */
#define write_of(p, n) (1 << ((p) * CALLS + (n)))
#define writes_of(p) (((1 << CALLS) - 1) << ((p) * CALLS))

/* The directory. */
byte lock;
byte generation = 1;
bool clean = 1;
byte checkpoint; /* content of the manifest's checkpoint */
byte durable;    /* writes that recovery finds */
byte prepared;   /* and those it finds in doubt */
byte name;       /* the socket's; the process may be dead */

/* The database. */
byte database;      /* transactions that it has committed */
byte database_lock; /* from before prepare to its commit */

/* Processes. */
#define RUNS 0
#define ENDED 1
#define STOPPED 2
#define KILLED 3
byte fate[PROCESSES];
bool owner[PROCESSES];
byte memory[PROCESSES]; /* the writes it shows: as reader the checkpoint */
byte loaded[PROCESSES]; /* its generation */
bool listening[PROCESSES];
byte inherited; /* owner whose sockets a child has */

/* Shared by an owner and its clients. */
#define SERVING 0
#define LEAVING 1
#define LEFT 2
byte sign[PROCESSES]; /* the state that an owner announces */
byte link[PROCESSES]; /* a client's owner; NOBODY: it is reader or owner */
#define IDLE 0
#define ASKED 1 /* the client makes it IDLE, or the owner RUNNING: compared */
#define RUNNING 2
#define CARRIED 3
#define DONE 4
byte slot[PROCESSES];
bool begun[PROCESSES]; /* the owner has begun a call of this client */
#define READ 0
#define WRITE 1
#define COMMIT 2  /* a write that is durable */
#define PREPARE 3 /* xSync */
#define FINISH 4  /* xCommit */
byte kind[PROCESSES];
byte what[PROCESSES]; /* the write */

#define NONE 0
#define OK 1
#define BUSY 2
#define UNKNOWN 3
#define LOST 4

/* For the checks. */
byte must;             /* each read that begins now must see these */
byte need[PROCESSES];  /* must, when its call began */
byte kept;             /* durable already, so that no kill loses it */
byte ran;              /* begun, ever */
byte refused;          /* its call gave BUSY */
bool owed[PROCESSES];  /* a session whose owner was killed: one error */
byte ended;

#define is_client(c) (link[c] == me + 1)
#define hung_up(q) (fate[q] == KILLED && inherited != (q) + 1)

/* The owner asks the database about the prepared transaction. */
inline resolve(c) {
  x = prepared & database & writes_of(c);
  if
#ifdef COMMIT_ANY_TURN
  :: x && !is_client(c) ->
#else
  :: x && (!is_client(c) || (slot[c] != IDLE && kind[c] == FINISH)) ->
#endif
     prepared = prepared & ~x;
     memory[me] = memory[me] | x;
     durable = durable | x
  :: else
  fi;
  x = prepared & ~database & writes_of(c);
  if
#ifdef RESOLVE_EARLY
  :: x -> prepared = prepared & ~x
#else
  :: x && database_lock != c + 1 -> prepared = prepared & ~x
#endif
  :: else
  fi;
  x = 0
}

inline resolve_all() {
#ifdef TXN
  resolve(0);
  resolve(1);
#if PROCESSES > 2
  resolve(2);
#endif
#endif
  skip
}

/* The call of process c in the engine of this owner. */
inline carry_out(c) {
  assert(lock == me + 1);
  resolve_all();
  if
  :: kind[c] == READ -> assert((need[c] & ~memory[me]) == 0)
  :: kind[c] == FINISH ->
     assert(database & what[c]);
     prepared = prepared & ~what[c];
     memory[me] = memory[me] | what[c];
     durable = durable | what[c]
  :: else ->
     assert(!(ran & what[c]) && !(refused & what[c]));
     ran = ran | what[c];
     if
     :: kind[c] == PREPARE -> prepared = prepared | what[c]
     :: else -> memory[me] = memory[me] | what[c]
     fi;
     if
     :: kind[c] == COMMIT -> durable = memory[me]; kept = kept | durable
     :: else
     fi
  fi
}

inline answer_is(a) {
  answer = a;
  if
  :: answer == OK ->
     assert(!due);
     if
     :: mine == WRITE || mine == COMMIT -> must = must | datum
     :: else
     fi
  :: answer == BUSY && mine != READ && mine != FINISH ->
     refused = refused | datum
  :: else
  fi
}

inline claim() {
  d_step {
    generation = loaded[me] + 1;
    loaded[me] = generation;
    clean = 0;
    checkpoint = memory[me];
    durable = memory[me]
  }
}

inline serve() {
  name = NOBODY; /* a process that connects now finds none */
  d_step { name = me + 1; listening[me] = 1 }
}

/* The lock was just taken. */
inline take_over() {
  d_step {
#ifndef NOT_AGAIN
    loaded[me] = generation;
    memory[me] = (clean -> checkpoint : durable);
#endif
    owner[me] = 1
  };
#ifndef CLAIM_LATE
  claim();
#endif
#ifndef SOCKET_FIRST
  serve()
#endif
}

#define somebody                                                               \
  (name != NOBODY && name != me + 1 &&                                         \
   (listening[name - 1] || inherited == name))

/* Another process has the lock. */
inline connect() {
  if
  :: d_step {
       somebody ->
       link[me] = name;
       begun[me] = 0;
       slot[me] = IDLE
     }
  :: !somebody /* it is starting, or leaving: everything is retried */
  :: d_step { lock != NOBODY -> answer_is(BUSY) } /* until the timeout */
  fi
}

inline try_lock() {
#ifdef SOCKET_FIRST
  serve();
#endif
  if
  :: atomic { lock == NOBODY -> lock = me + 1 }; take_over()
  :: lock != NOBODY ->
#ifdef SOCKET_FIRST
     listening[me] = 0;
#endif
     connect()
  fi
}

inline look() {
  d_step { g = generation; c = clean; x = checkpoint };
  if
#ifdef NO_LOOK
  :: d_step {
       1 ->
#else
  :: d_step {
       g == loaded[me] ->
#endif
       assert((need[me] & ~memory[me]) == 0);
       answer_is(OK)
     }
#ifndef NO_LOOK
  :: d_step {
       g != loaded[me] && lock == NOBODY && c ->
       loaded[me] = g;
       memory[me] = x;
       assert((need[me] & ~memory[me]) == 0);
       answer_is(OK)
     }
  :: g != loaded[me] && lock == NOBODY && !c -> try_lock()
  :: g != loaded[me] && lock != NOBODY -> connect()
#endif
  fi;
  d_step { g = 0; c = 0; x = 0 }
}

/* The owner q has gone: the effect on this session. */
inline gone() {
  if
  :: sign[q] != LEFT && begun[me] && mine == FINISH && !earlier ->
     answer_is(OK) /* the next call notices it again */
#ifdef KILLED_AGAIN
  :: sign[q] != LEFT && begun[me] && slot[me] != IDLE && !earlier ->
     owed[me] = 0; link[me] = NOBODY; slot[me] = IDLE
#endif
  :: else ->
     if
#ifndef NO_ERROR
     :: sign[q] != LEFT && begun[me] ->
        assert(owed[me]);
        owed[me] = 0;
        answer_is(LOST)
#endif
     :: else
     fi;
     link[me] = NOBODY;
     slot[me] = IDLE
  fi
}

/* After the timeout: checks the lock's holder, then withdraws the call. */
inline over() {
  if
#ifdef NO_NOTICE
  :: 1 ->
#else
  :: lock == q + 1 ->
#endif
     assert(lock != NOBODY);
     if
#ifndef COMMIT_WITHDRAWN
     :: mine == FINISH && !earlier -> answer_is(OK) /* it stays in the slot */
#endif
     :: earlier -> answer_is(BUSY)
     :: !earlier && slot[me] == ASKED -> slot[me] = IDLE; answer_is(BUSY)
     :: !earlier && (slot[me] == RUNNING || slot[me] == CARRIED) ->
        answer_is(UNKNOWN)
     fi
  :: else -> gone()
  fi
}

/* A client sends a call; if an abandoned call occupies the slot (earlier), it
** waits for that call first. */
inline await() {
  d_step { q = link[me] - 1; earlier = (slot[me] != IDLE) };
  do
  :: d_step {
       slot[me] == IDLE && sign[q] != LEFT && !hung_up(q) ->
       kind[me] = mine;
       what[me] = datum;
       earlier = 0;
       slot[me] = ASKED
     }
  :: atomic {
       slot[me] == DONE ->
       slot[me] = IDLE;
       if
       :: earlier -> earlier = 0
       :: !earlier && (mine == WRITE || mine == COMMIT) &&
          fate[q] == KILLED && sign[q] != LEFT && !(kept & datum) ->
          answer = OK; /* the owner is gone already; the next call says so */
          break
       :: else -> d_step { answer_is(OK) }; break
       fi
     }
#ifdef LEFT_EARLY
  :: atomic { sign[q] != SERVING && (slot[me] == IDLE || slot[me] == ASKED) ->
#else
  :: atomic { sign[q] == LEFT && (slot[me] == IDLE || slot[me] == ASKED) ->
#endif
       link[me] = NOBODY;
       slot[me] = IDLE;
       break
     }
#ifdef ASKED_AGAIN
  :: atomic {
       sign[q] != SERVING && (slot[me] == RUNNING || slot[me] == CARRIED) ->
       slot[me] = IDLE;
       link[me] = NOBODY;
       break
     }
#endif
#ifndef NO_NOTICE
  :: atomic {
       hung_up(q) && slot[me] != DONE && sign[q] != LEFT ->
       d_step { gone() };
       break
     }
#endif
#ifdef WITHDRAW_PLAIN
  :: slot[me] == ASKED && !earlier && mine != FINISH && lock == q + 1 ->
     d_step {
       slot[me] = (slot[me] == ASKED -> IDLE : slot[me]); /* it runs on */
       answer_is(BUSY)
     };
     break
#endif
#ifndef NO_TIMEOUT
  :: atomic {
       slot[me] != IDLE && slot[me] != DONE -> /* not in time after all */
       d_step { over() };
       if
       :: answer || link[me] == NOBODY -> break
       :: else
       fi
     }
#endif
  od;
  atomic { q = 0; earlier = 0 }
}

/* A call, of the kind mine, with the write datum. */
inline call() {
  do
  :: atomic {
       owner[me] ->
       d_step {
         kind[me] = mine;
         what[me] = datum;
         assert(name == me + 1);
         carry_out(me);
         answer_is(OK)
       };
       break
     }
  :: !owner[me] && !answer && link[me] != NOBODY -> await()
  :: !owner[me] && !answer && link[me] == NOBODY && mine == READ -> look()
  :: !owner[me] && !answer && link[me] == NOBODY && mine != READ -> try_lock()
  :: !owner[me] && answer -> break
  od
#ifdef CLAIM_LATE
  ;
  if
  :: owner[me] && clean -> claim()
  :: else
  fi
#endif
}

/* A transaction: xSync, the database's commit or rollback, xCommit. */
inline transaction() {
  if
  :: atomic { database_lock == NOBODY -> database_lock = me + 1 };
     call();
     if
     :: d_step {
          answer == OK ->
          database = database | datum;
          kept = kept | datum;
          database_lock = NOBODY;
          due = 0;
          answer = NONE;
          mine = FINISH
        };
        call();
        must = must | datum
     :: database_lock = NOBODY
     fi
  :: database_lock != NOBODY /* BUSY from the database */
  fi
}

/* Steps of an owner for its client c. */
#define FOR_CLIENT(c)                                                          \
  :: d_step {                                                                  \
       owner[me] && is_client(c) && slot[c] == ASKED && sign[me] == SERVING -> \
       assert(name == me + 1);                                                 \
       slot[c] = RUNNING;                                                      \
       begun[c] = 1                                                            \
     }                                                                         \
     END_OF_CALL(c)                                                            \
     CLIENT_DIED(c)
#define END_OF_CALL(c)                                                         \
  :: d_step {                                                                  \
       owner[me] && is_client(c) && slot[c] == RUNNING ->                      \
       carry_out(c);                                                           \
       slot[c] = CARRIED                                                       \
     }                                                                         \
  :: d_step { owner[me] && is_client(c) && slot[c] == CARRIED -> slot[c] = DONE }
#ifdef TXN
#ifdef PREPARED_UNDONE
#define UNDO(c) prepared = prepared & ~writes_of(c)
#else
#define UNDO(c) skip
#endif
#define CLIENT_DIED(c)                                                         \
  :: d_step {                                                                  \
       owner[me] && is_client(c) && (fate[c] == KILLED || fate[c] == ENDED) && \
       slot[c] != RUNNING && slot[c] != CARRIED ->                             \
       resolve(c);                                                             \
       UNDO(c);                                                                \
       link[c] = NOBODY                                                        \
     }
#else
#define CLIENT_DIED(c)
#endif
#define runs_for(c)                                                            \
  (is_client(c) && (slot[c] == RUNNING || slot[c] == CARRIED))

inline remove_name() {
  if
#ifdef NAME_REMOVED
  :: 1 -> name = NOBODY
#else
  :: name == me + 1 -> name = NOBODY
  :: name != me + 1
#endif
  fi
}

inline last_checkpoint() {
  d_step {
    if
#ifndef PREPARED_CLEAN
    :: prepared -> durable = memory[me]
#endif
    :: else ->
       generation++;
       clean = 1;
       checkpoint = memory[me];
       durable = memory[me];
       prepared = 0
    fi;
    kept = kept | durable
  }
}

inline leave() {
#if !defined(NAME_REMOVED) && !defined(NAME_ASKED)
  remove_name();
#endif
  d_step { listening[me] = 0; sign[me] = LEAVING };
  do
  END_OF_CALL(0)
  END_OF_CALL(1)
#if PROCESSES > 2
  END_OF_CALL(2)
  :: !runs_for(0) && !runs_for(1) && !runs_for(2) -> break
#else
  :: !runs_for(0) && !runs_for(1) -> break
#endif
  od;
#ifdef LOCK_EARLY
  lock = NOBODY;
#endif
  last_checkpoint();
  sign[me] = LEFT;
#ifndef LOCK_EARLY
  lock = NOBODY;
#endif
#if defined(NAME_REMOVED) || defined(NAME_ASKED)
  remove_name();
#endif
  owner[me] = 0
}

proctype process(byte me) {
  byte calls, mine, datum, answer, q, g, x;
  bool due, c, earlier;
  {
    do
    :: atomic {
         calls < CALLS ->
         d_step {
           datum = write_of(me, calls);
           calls++;
           need[me] = must;
           due = owed[me]
         };
         if
#ifndef TXN
         :: mine = WRITE
#ifndef VOLATILE
         :: mine = COMMIT
#endif
#else
         :: mine = PREPARE
#endif
         :: mine = READ
         fi
       };
#ifdef TXN
       if
       :: mine == PREPARE -> transaction()
       :: mine != PREPARE -> call()
       fi;
#else
       call();
#endif
       atomic {
         answer = NONE;
         due = 0;
         need[me] = 0;
         datum = 0;
         mine = 0
       }
    FOR_CLIENT(0)
    FOR_CLIENT(1)
#if PROCESSES > 2
    FOR_CLIENT(2)
#endif
    :: calls == CALLS -> break
    od;
    if
    :: owner[me] -> leave()
    :: else
    fi;
    d_step { fate[me] = ENDED; ended++ }
  } unless {
    (fate[me] == KILLED || fate[me] == STOPPED)
  }
}

inline lose(c) {
  need[c] = need[c] & ~x;
  owed[c] = (link[c] == p + 1 && begun[c] && sign[p] != LEFT && fate[c] == RUNS
             -> 1 : owed[c])
}

inline kill() {
  d_step {
    fate[p] == RUNS || fate[p] == STOPPED ->
    ended = (fate[p] == RUNS -> ended + 1 : ended);
    fate[p] = KILLED;
    if
    :: owner[p] && lock == p + 1 -> x = memory[p] & ~kept
    :: else -> x = 0
    fi;
    must = must & ~x;
    lose(0);
    lose(1);
#if PROCESSES > 2
    lose(2);
#endif
    x = 0;
    listening[p] = 0;
    lock = (lock == p + 1 -> NOBODY : lock);
    database_lock = (database_lock == p + 1 -> NOBODY : database_lock)
  }
}

#define MAY_KILL(q)                                                            \
  :: atomic {                                                                  \
       kills < KILLS && (fate[q] == RUNS || fate[q] == STOPPED) ->             \
       kills++;                                                                \
       p = q;                                                                  \
       kill();                                                                 \
       p = 0                                                                   \
     }                                                                         \
  :: atomic {                                                                  \
       kills < KILLS && fate[q] == RUNS && listening[q] && !inherited ->       \
       kills++;                                                                \
       inherited = q + 1;                                                      \
       p = q;                                                                  \
       kill();                                                                 \
       p = 0                                                                   \
     }                                                                         \
  :: d_step {                                                                  \
       stops < STOPS && fate[q] == RUNS ->                                     \
       stops++;                                                                \
       fate[q] = STOPPED;                                                      \
       ended++                                                                 \
     }

proctype system() {
  byte p, x, kills, stops;
end:
  do
  MAY_KILL(0)
  MAY_KILL(1)
#if PROCESSES > 2
  MAY_KILL(2)
#endif
  od
}

init {
  atomic {
    run process(0);
    run process(1);
#if PROCESSES > 2
    run process(2);
#endif
    run system()
  };
  atomic {
    (ended == PROCESSES);
    if
    :: lock == NOBODY ->
       if
       :: clean -> assert(!prepared && (must & ~checkpoint) == 0)
       :: else ->
          assert((must & ~(durable | (prepared & database))) == 0)
       fi;
       assert((database & ~((clean -> checkpoint : durable) | prepared)) == 0)
    :: else /* the owner is stopped, and has it in its memory */
    fi
  }
}
