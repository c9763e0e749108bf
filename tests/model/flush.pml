/* SPDX-License-Identifier: MIT
**
** flush.pml -- a model of the epoch, of sealing and flushing a page, and of
** taking its frame away (engine/base/epoch/epoch.h,
** engine/storage/log/log_flush.c), with concurrent sessions that read and
** write the record in it, in every order.
**
** MODELLED  One key, its record in page 1, and page 2 at the tail, to which a
**           Put copies when page 1 is read-only.  A record has two halves.  An
**           atomic block is one atomic instruction of the engine.
** CHECKED   a reader sees one whole vector, never older than the newest one
**           when it began, and never a frame that was given away; page 1 on
**           disk is as the last Put into it left it; at the end the key has
**           the newest vector, wherever it is read from.
** NOT       memory orders, several pages in flight, failing writes.
**
** With any one of these the model must fail:
**
**   NO_WAIT_SEAL   the page is written without waiting for sessions inside
**   NO_WAIT_REUSE  the frame is reused without waiting for sessions inside
**   SEAL_LATE      the flush waits for the epoch, then makes the page
**                  read-only
**   ASKED_OUTSIDE  a writer checks whether the page is mutable, then enters
**   OUT_UNWRITTEN  the frame is taken before the page is written
**   NO_CHECK       a reader does not compare the stamp after copying
*/
#ifndef WRITERS
#define WRITERS 1
#endif
#ifndef READERS
#define READERS 1
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#define SESSIONS (WRITERS + READERS)

byte now = 1;
byte inside[SESSIONS]; /* 0: outside */

byte address = 1; /* the key's word */
bool latch;
bool read_only;   /* page 1 */
bool frame = 1;   /* page 1 has one */
bool lost;        /* its frame belongs to another page now */
bool flushed;

/* Page 0 is not used. */
byte stamp[3], low[3], high[3];
byte disk_low, disk_high;

byte writes;  /* values given out */
byte newest;  /* of Puts that have returned */
byte in_page; /* last value put into page 1 */
byte ended;

inline enter() {
  at = now; /* loaded, then stored: a wait may come in between */
  inside[id] = at
}
inline leave() { inside[id] = 0 }

inline epoch_wait() {
  atomic { now++; until = now };
  i = 0;
  do
  :: i < SESSIONS -> (inside[i] == 0 || inside[i] >= until); i++
  :: else -> break
  od
}

/* rec_begin, rec_fill in page p. */
inline fill(p) {
  stamp[p] = stamp[p] | 1;
  assert(p != 1 || !lost);
  low[p] = mine;
  high[p] = mine;
  stamp[p] = stamp[p] + 1
}

proctype writer(byte id) {
  byte at, mine, round;
  bool is_mutable;
  do
  :: round < ROUNDS ->
#ifdef ASKED_OUTSIDE
     is_mutable = !read_only;
     enter();
#else
     enter();
#endif
     atomic { !latch -> latch = 1; writes++; mine = writes };
#ifndef ASKED_OUTSIDE
     is_mutable = !read_only;
#endif
     if
     :: address == 2 || is_mutable ->
        if
        :: address == 1 -> in_page = mine
        :: else
        fi;
        fill(address)
     :: else ->
        fill(2);
        address = 2
     fi;
     atomic { newest = mine; latch = 0 };
     leave();
     round++
  :: else -> break
  od;
  ended++
}

proctype reader(byte id) {
  byte at, least, p, before, one, two, round;
  do
  :: round < ROUNDS ->
     least = newest;
     enter();
     do
     :: p = address;
        if
        :: p == 1 && !frame ->
           leave();
           atomic { one = disk_low; two = disk_high }; /* checksum holds */
           enter();
           if
           :: address == 1 -> break /* it is still there */
           :: else
           fi
        :: else ->
           before = stamp[p];
           if
           :: before & 1 -> (stamp[p] != before || !frame)
           :: else ->
              assert(p != 1 || !lost);
              one = low[p];
              two = high[p];
#ifdef NO_CHECK
              break
#else
              if
              :: stamp[p] == before -> break
              :: else
              fi
#endif
           fi
        fi
     od;
     leave();
     assert(one == two);
     assert(one >= least);
     round++
  :: else -> break
  od;
  ended++
}

proctype flusher() {
  byte until, i;
#ifdef SEAL_LATE
  epoch_wait();
  read_only = 1;
#else
  read_only = 1;
#ifndef NO_WAIT_SEAL
  epoch_wait();
#endif
#endif
#ifdef OUT_UNWRITTEN
  frame = 0;
#endif
  disk_low = low[1];
  disk_high = high[1];
  flushed = 1;
  frame = 0;
#ifndef NO_WAIT_REUSE
  epoch_wait();
#endif
  atomic { lost = 1; low[1] = 99; high[1] = 98 };
  ended++
}

init {
  byte i;
  atomic {
    run flusher();
    do
    :: i < WRITERS -> run writer(i); i++
    :: else -> break
    od;
    do
    :: i < SESSIONS -> run reader(i); i++
    :: else -> break
    od
  };
  (ended == SESSIONS + 1);
  assert(flushed && disk_low == disk_high && disk_low == in_page);
  assert(!latch);
  if
  :: address == 1 -> assert(disk_low == newest)
  :: else -> assert(low[2] == newest && high[2] == newest)
  fi
}
