/* SPDX-License-Identifier: MIT
**
** word.pml -- a model of a key's word: every transition of the table in
** engine/storage/index/word.h, by sessions, a transaction and background work, in every
** order.  tests/model/spin.sh explores it.
**
** MODELLED  One key, the two entries of the index where it may be, records of
**           the log by address, one slot of the cache.  An atomic block is
**           one atomic instruction of the engine, or work that it does while
**           no other thread can look.  A second key appears in the entry that
**           the key was moved out of, as when an insert displaces it.
** CHECKED   at most BOUND + 1 Gets are pending; a Get that is counted sees
**           all Puts whose Gets were given back before; at the end nothing is
**           pending, the last Put (or deletion) is in effect, and an entry
**           without record and pending reads is empty; no wait lasts forever.
** NOT       memory orders (everything is sequentially consistent), several
**           keys of one batch, crashes, fairness.
**
** SESSIONS, ROUNDS, STEPS, BOUND are the size; TXN adds a transaction.  With
** any one of these the model must fail:
**
**   COLD_IGNORES_BOUND  a Get of a record on disk does not look at the bound
**   SPLIT               the bound is tested, then the count is raised
**   EARLY_GIVE          a Put gives back before its vector can be read
**   RELOCATE_FORGETS    compaction stores the word that it read before it
**                       copied the record
**   EMPTIED             a deletion empties the entry although leases are held
**   OWNER_LATE          a Get is counted, and only then checks whether the
**                       entry is still the key's
**   OWNER_NOT_ASKED     a word that looks the same is latched and treated as
**                       the key's
**   PROMOTE_FORGETS     a record enters the cache without comparing pending
*/
#ifndef SESSIONS
#define SESSIONS 2
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef STEPS
#define STEPS 2
#endif
#ifndef BOUND
#define BOUND 0
#endif

#define ADDRESSES 10
#define NONE 2 /* no entry */
#define KEY 1
#define OTHER 2
#define OTHER_ADDRESS 99

/* Two entries: their keys, and the fields of the word.  An address is one of
** the log whether the record is cached or not: the cache's slot has it. */
byte owner[2];
byte address[2];
byte pending[2];
bool latch[2], cached[2], intent[2];

byte value[ADDRESSES]; /* of the log's records */
byte tail;             /* last address handed out */
byte frozen;           /* records up to here no longer change */
byte slot_address;     /* the cache's slot; 0: free */
byte slot_value;
bool moving; /* the partition's lock */

/* For the checks. */
byte out;     /* Gets counted and not given back */
byte writes;  /* values given out */
byte newest;  /* current value; 0: deleted */
byte settled; /* newest value whose Put has given its Get back */
byte other_pending;
byte ended; /* processes */

#define empty(e)                                                               \
  (address[e] == 0 && pending[e] == 0 && !latch[e] && !intent[e])
#define is_key(e) (owner[e] == KEY && !empty(e))

/* Looks the key up: e, and the word as it was. */
inline find() {
  atomic {
    if
    :: is_key(0) -> e = 0
    :: is_key(1) -> e = 1
    :: !is_key(0) && !is_key(1) -> e = NONE
    fi;
    if
    :: e != NONE ->
       w_address = address[e]; w_pending = pending[e]; w_latch = latch[e];
       w_cached = cached[e]; w_intent = intent[e]
    :: else
    fi
  }
}

/* The word is as find saw it. */
#define same                                                                   \
  (address[e] == w_address && pending[e] == w_pending && latch[e] == w_latch &&    \
   cached[e] == w_cached && intent[e] == w_intent)

/* The holder of the latch stores the word; one that is 0 empties the entry. */
inline store(to, in_cache, n, claimed) {
  if
  :: cached[e] && !(in_cache) -> slot_address = 0
  :: else
  fi;
  address[e] = to; cached[e] = in_cache; pending[e] = pending[e] - (n);
  intent[e] = claimed; latch[e] = 0;
  if
  :: empty(e) -> owner[e] = 0
  :: else
  fi
}

/* Latches the key whatever its intent: got = 0 when there is no entry. */
inline take_latch() {
  got = 0;
  do
  :: find();
     if
     :: e == NONE -> break
     :: e != NONE && w_latch -> (!latch[e] || owner[e] != KEY)
     :: else ->
        atomic {
          if
          :: same -> latch[e] = 1; got = 1
          :: else
          fi
        };
        if
#ifdef OWNER_NOT_ASKED
        :: got -> break
#else
        :: got && owner[e] == KEY -> break
        :: got && owner[e] != KEY -> latch[e] = 0; got = 0
#endif
        :: else
        fi
     fi
  od
}

/* Latches the key unless a transaction has it. */
inline take_free_latch() {
  do
  :: take_latch();
     if
     :: got && intent[e] -> latch[e] = 0; (!intent[e] || owner[e] != KEY)
     :: else -> break
     fi
  od
}

inline counted() {
  out++;
  assert(out <= BOUND + 1);
  seen = settled;
  w_pending++
}

/* Get: leases is raised when it was counted; then the record is read. */
inline get() {
  do
  :: find();
     if
     :: e == NONE -> break
     :: e != NONE && w_latch -> (!latch[e] || owner[e] != KEY)
     :: e != NONE && !w_latch && w_address == 0 -> break /* absent */
#ifdef COLD_IGNORES_BOUND
     :: e != NONE && !w_latch && w_address && w_pending > BOUND &&
        w_address > frozen ->
#else
     :: e != NONE && !w_latch && w_address && w_pending > BOUND ->
#endif
        (!same || owner[e] != KEY) /* waits, outside the epoch */
     :: else ->
        got = 0;
#ifdef SPLIT
        atomic {
          if
          :: is_key(e) && !latch[e] && address[e] == w_address &&
             cached[e] == w_cached -> pending[e]++; counted(); got = 1
          :: else
          fi
        };
#else
#ifdef OWNER_LATE
        atomic {
          if
          :: same -> pending[e]++; got = 1; counted()
          :: else
          fi
        };
        if
        :: got && owner[e] != KEY ->
           atomic { /* back, to the present state */
             if
             :: pending[e] > 0 -> pending[e]--
             :: else
             fi;
             out--
           };
           got = 0
        :: else
        fi;
#else
        atomic {
          if
          :: same -> latch[e] = 1; got = 1
          :: else
          fi
        };
        if
        :: got && owner[e] == KEY -> atomic { pending[e]++; latch[e] = 0; counted() }
        :: got && owner[e] != KEY -> latch[e] = 0; got = 0
        :: else
        fi;
#endif
#endif
        if
        :: got -> leases++; break
        :: else
        fi
     fi
  od;
  if
  :: leases -> read()
  :: else
  fi
}

/* Without a lock, from the address in the word; again if the slot is
** another's. */
inline read() {
  got = 0;
  do
  :: atomic {
       if
       :: !w_cached -> got = value[w_address]
       :: w_cached && slot_address == w_address -> got = slot_value
       :: else -> got = 0
       fi
     };
     if
     :: got -> assert(got >= seen); break
     :: else ->
        find();
        if
        :: e == NONE || w_address == 0 -> break /* deleted since */
        :: else
        fi
     fi
  od
}

inline release() {
  take_latch();
  assert(got);
  atomic {
    out = out - leases;
    store(address[e], cached[e], leases, intent[e]);
    leases = 0
  }
}

inline written(v, n) {
  newest = v;
  out = out - (n);
  if
  :: (n) && v > settled -> settled = v
  :: else
  fi
}

inline new_record() {
  tail++;
  assert(tail < ADDRESSES);
  writes++;
  value[tail] = writes
}

/* Put, which gives one Get back if the session has one. */
inline put() {
  give = (leases > 0 -> 1 : 0);
  do
  :: take_free_latch();
     if
     :: got -> break
     :: else ->
        atomic { /* under the partition's lock */
          if
          :: !moving && !is_key(0) && !is_key(1) ->
             assert(give == 0);
             e = (empty(0) -> 0 : 1);
             assert(empty(e));
             new_record();
             owner[e] = KEY; address[e] = tail; cached[e] = 0;
             newest = writes;
             e = NONE
          :: else -> e = 0
          fi
        };
        if
        :: e == NONE -> break
        :: else -> (!moving)
        fi
     fi
  od;
  if
  :: got ->
#ifdef EARLY_GIVE
     atomic {
       pending[e] = pending[e] - give; out = out - give;
       if
       :: give && writes + 1 > settled -> settled = writes + 1
       :: else
       fi;
       give = 0
     };
     atomic { latch[e] = 0; got = 0 }; /* as if another word were latched */
     take_latch();
#endif
     if
     :: address[e] > frozen && !cached[e] -> /* in place */
        atomic { writes++; value[address[e]] = writes; newest = writes };
        atomic {
          written(newest, give);
          store(address[e], 0, give, 0)
        }
     :: else ->
        atomic {
          new_record();
          written(writes, give);
          store(tail, 0, give, 0)
        }
     fi
  :: else
  fi;
  leases = (leases > 0 -> leases - 1 : 0)
}

inline delete() {
  take_free_latch();
  if
  :: got && address[e] ->
     atomic {
       give = (leases > 0 -> 1 : 0);
       out = out - give; leases = leases - give; newest = 0;
#ifdef EMPTIED
       give = pending[e];
#endif
       store(0, 0, give, 0)
     }
  :: got && !address[e] -> atomic { store(0, 0, 0, 0) }
  :: else
  fi
}

proctype session() {
  byte e, leases, give, got, seen, i;
  byte w_address, w_pending;
  bool w_latch, w_cached, w_intent;
  do
  :: i < ROUNDS ->
     if
     :: get()
     :: skip /* a Put or deletion without a Get */
     fi;
     if
     :: put()
     :: delete()
     :: leases -> release()
     fi;
     if
     :: leases -> release() /* of a key that another session had deleted */
     :: else
     fi;
     i++
  :: else -> break
  od;
  ended++
}

/* Get, then a Put inside a transaction, which commits, deletes or rolls
** back. */
proctype transaction() {
  byte e, leases, got, seen, mine;
  byte w_address, w_pending;
  bool w_latch, w_cached, w_intent;
  get();
  do /* the claim */
  :: take_free_latch();
     if
     :: got -> atomic { store(address[e], cached[e], 0, 1) }; break
     :: else ->
        atomic {
          if
          :: !moving && !is_key(0) && !is_key(1) ->
             e = (empty(0) -> 0 : 1);
             owner[e] = KEY; address[e] = 0; cached[e] = 0; intent[e] = 1;
             e = NONE
          :: else -> e = 0
          fi
        };
        if
        :: e == NONE -> break
        :: else -> (!moving)
        fi
     fi
  od;
  atomic { new_record(); mine = tail };
  take_latch();
  assert(got && intent[e]);
  if
  :: atomic { /* commit */
       written(value[mine], leases);
       store(mine, 0, leases, 0);
       leases = 0
     }
  :: atomic { /* commit of a deletion */
       newest = 0; out = out - leases;
       store(0, 0, leases, 0);
       leases = 0
     }
  :: atomic { store(address[e], cached[e], 0, 0) } /* rollback */
  fi;
  if
  :: leases -> release()
  :: else
  fi;
  ended++
}

/* Compaction copies the record to the tail. */
inline relocate() {
#ifdef RELOCATE_FORGETS
  find();
  if
  :: e != NONE && !w_latch && w_address && w_address <= frozen && !w_cached &&
     !w_intent ->
     atomic { tail++; value[tail] = value[w_address] };
     atomic {
       if
       :: is_key(e) && !latch[e] && address[e] == w_address && !cached[e] ->
          address[e] = tail; pending[e] = w_pending; intent[e] = 0
       :: else
       fi
     }
  :: else
  fi
#else
  take_free_latch();
  if
  :: got && address[e] && address[e] <= frozen ->
     atomic { tail++; assert(tail < ADDRESSES); value[tail] = value[address[e]] };
     atomic {
       if
       :: cached[e] -> slot_address = tail
       :: else
       fi;
       address[e] = tail; latch[e] = 0
     }
  :: got && !(address[e] && address[e] <= frozen) ->
     atomic { store(address[e], cached[e], 0, 0) }
  :: else
  fi
#endif
}

inline enter_cache() {
  find();
  if
  :: e != NONE && !w_latch && !w_cached && w_address && w_address <= frozen &&
     slot_address == 0 ->
     atomic { slot_address = w_address; slot_value = value[w_address] };
     atomic {
#ifdef PROMOTE_FORGETS
       if
       :: is_key(e) && !latch[e] && address[e] == w_address ->
          cached[e] = 1; pending[e] = w_pending
#else
       if
       :: same -> cached[e] = 1
#endif
       :: else -> slot_address = 0
       fi
     }
  :: else
  fi
}

inline leave_cache() {
  find();
  if
  :: e != NONE && !w_latch && w_cached ->
     atomic {
       if
       :: same -> cached[e] = 0; slot_address = 0
       :: else
       fi
     }
  :: else
  fi
}

/* An insert displaces the key and takes its entry immediately. */
inline displace() {
  atomic { (!moving); moving = 1 };
  take_latch();
  if
  :: got && empty(1 - e) ->
     atomic {
       owner[1 - e] = KEY; address[1 - e] = address[e];
       pending[1 - e] = pending[e]; cached[1 - e] = cached[e];
       intent[1 - e] = intent[e]
     };
     atomic {
       cached[e] = 0; intent[e] = 0; latch[e] = 0; owner[e] = OTHER;
       if
       :: address[e] = OTHER_ADDRESS; pending[e] = 0
       :: address[e] = 0; pending[e] = 1 /* removed, and a lease is held */
       fi;
       other_pending = pending[e]
     }
  :: got && !empty(1 - e) -> latch[e] = 0
  :: else
  fi;
  moving = 0
}

/* ... and is removed again. */
inline other_goes() {
  atomic {
    if
    :: owner[0] == OTHER && !latch[0] -> e = 0
    :: owner[1] == OTHER && !latch[1] -> e = 1
    :: else -> e = NONE
    fi;
    if
    :: e != NONE ->
       assert(pending[e] == other_pending);
       address[e] = 0; pending[e] = 0; owner[e] = 0
    :: else
    fi
  }
}

proctype background() {
  byte e, got, i;
  byte w_address, w_pending;
  bool w_latch, w_cached, w_intent;
  do
  :: i < STEPS ->
     if
     :: frozen = tail
     :: relocate()
     :: enter_cache()
     :: leave_cache()
     :: displace()
     :: other_goes()
     fi;
     i++
  :: else -> break
  od;
  ended++
}

inline check_end(e) {
  assert(!latch[e]);
  if
  :: is_key(e) ->
     assert(address[e] && pending[e] == 0 && !intent[e]);
     assert((cached[e] -> slot_value : value[address[e]]) == newest);
     assert(!cached[e] || slot_address == address[e])
  :: else
  fi
}

init {
  byte i;
  atomic {
    owner[0] = KEY; tail = 1; address[0] = 1; value[1] = 1; writes = 1;
    newest = 1; settled = 1;
#ifdef COLD
    frozen = 1;
#endif
    run background();
#ifdef TXN
    run transaction();
#endif
    do
    :: i < SESSIONS -> run session(); i++
    :: else -> break
    od
  };
#ifdef TXN
  (ended == SESSIONS + 2);
#else
  (ended == SESSIONS + 1);
#endif
  assert(out == 0);
  check_end(0);
  check_end(1);
  assert(!(is_key(0) && is_key(1)));
  assert((newest != 0) == (is_key(0) || is_key(1)))
}
