/* SPDX-License-Identifier: MIT
**
** commit.pml -- a model of COMMIT over SQLite's file and a store (ext/table/txn.c,
** engine/table/txn/txn_end.c, engine/storage/ckpt/recover.c), with a crash at
** every moment, and of the recovery by the next open.
**
** MODELLED  Transactions, one after another, each setting the same value in a
**           row and in a vector; the log as the transactions whose pages it
**           holds, in memory and on disk; SQLite's commit as one step that
**           can still be lost until the removal of its journal is durable
**           (rollback journal, synchronous=FULL) or is durable immediately; a
**           COMMIT that finds the file busy, so that xSync is called twice,
**           or is rolled back; a checkpoint.  Unsynced pages survive a crash
**           or not.
** CHECKED   after the crash row and vector agree, and acknowledged values are
**           there.
** NOT       more than one store, savepoints, a crash during recovery.
**
** With any one of these the model must fail:
**
**   PREPARE_UNSYNCED  xSync does not make the pages durable
**   DOUBT_YES         a transaction in doubt is always committed
**   DOUBT_NO          a transaction in doubt is never committed
**   NO_ABORT          a rollback after xSync leaves no sign in the log
**   NO_WAIT           xCommit does not wait until SQLite's commit is durable
**   CHECKPOINT_OPEN   a checkpoint includes a transaction that is only
**                     prepared
*/
#ifndef COMMITS
#define COMMITS 3
#endif
#define LAST 9 /* numbers */

/* The log: state of each transaction's pages, and whether they are synced. */
#define NOTHING 0
#define PREPARED 1
#define ABORTED 2
byte pages[LAST + 1];
byte values[LAST + 1];
bool synced[LAST + 1];      /* the prepared pages */
bool abort_synced[LAST + 1];
byte checkpoint;            /* newest transaction that it contains */
byte checkpoint_value;

/* SQLite's file: the row and the marker of the newest commit. */
byte row, marker;
/* and of the commit before, which comes back if the newest was not durable */
byte old_row, old_marker;
bool lazy; /* the newest commit may be lost */

byte number;       /* newest given out */
byte acknowledged; /* value of the newest COMMIT that returned */
byte vector;       /* of the running store */
byte committed;    /* newest transaction in it */


inline prepare(value) {
  number++;
  assert(number <= LAST);
  pages[number] = PREPARED;
  values[number] = value;
#ifndef PREPARE_UNSYNCED
  d_step { /* one sync makes everything before it durable */
    i = 0;
    do
    :: i <= number ->
       synced[i] = 1;
       abort_synced[i] = (pages[i] == ABORTED -> 1 : abort_synced[i]);
       i++
    :: else -> break
    od;
    i = 0
  }
#endif
}

inline abort() {
#ifndef NO_ABORT
  pages[number] = ABORTED
#else
  skip
#endif
}

inline take_checkpoint() {
  atomic {
    checkpoint = committed;
    checkpoint_value = vector;
#ifdef CHECKPOINT_OPEN
    if
    :: pages[number] == PREPARED ->
       checkpoint = number; checkpoint_value = values[number]
    :: else
    fi
#endif
  }
}

proctype process() {
  byte value, i;
  do
  :: value < COMMITS ->
     value++;
     prepare(value);
     if
     :: abort(); prepare(value) /* busy: xSync again, with a new number */
     :: skip
     fi;
     if
     :: abort() /* ROLLBACK after all */
     :: atomic {
          old_row = row; old_marker = marker;
          row = value; marker = number;
          if
          :: lazy = 1
          :: lazy = 0
          fi
        };
#ifndef NO_WAIT
        lazy = 0;
#endif
        atomic { vector = value; committed = number };
        acknowledged = value
     fi
  :: else -> break
  od;
  skip
}

proctype background() {
  take_checkpoint();
  take_checkpoint()
}

/* Recovery from the log, and from the marker. */
proctype power() {
  byte found, last, i;
  bool there;
  atomic {

    if
    :: lazy -> row = old_row; marker = old_marker
    :: 1
    fi;
    found = checkpoint_value;
    i = checkpoint + 1;
    last = 0;
    do
    :: i <= number ->
       there = 0;
       if
       :: synced[i] -> there = 1
       :: !synced[i] && pages[i] != NOTHING -> there = 1
       :: !synced[i] -> there = 0
       fi;
       if
       :: !there -> break /* the log ends here */
       :: else
       fi;
       /* Pages behind those of an earlier transaction: that one was decided,
       ** unless its end is in the log. */
       if
       :: last -> found = values[last]
       :: else
       fi;
       last = i;
       if
       :: pages[i] == ABORTED -> last = 0
       :: pages[i] == ABORTED && !abort_synced[i] -> break /* sign lost */
       :: pages[i] == PREPARED -> skip
       fi;
       i++
    :: else -> break
    od;
    if
#ifdef DOUBT_YES
    :: last -> found = values[last]
#else
#ifdef DOUBT_NO
    :: last -> skip
#else
    :: last && marker >= last -> found = values[last]
    :: last && marker < last -> skip
#endif
#endif
    :: !last
    fi;
    assert(found == row);
    assert(row >= acknowledged)
  }
}

init { atomic { run process(); run background(); run power() } }
