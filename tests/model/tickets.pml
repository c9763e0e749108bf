/* SPDX-License-Identifier: MIT
**
** tickets.pml -- a model of a session's calls in flight at an owner that
** leaves or dies: batches that were started and are synchronized later
** (emb_prefetch, emb_write_back).  tests/model/spin.sh explores it.
**
** MODELLED  Owners, one after another.  Each leaves or is killed at every
**           moment; the last stays until everything is synchronized.  A
**           client's session starts batches, and synchronizes them in any
**           order.  A ticket is three numbers: the session's own, which the
**           caller has; the owner; and the owner's own, which starts again
**           with each owner.  The result is in memory that client and owner
**           share.
**
**           prefetch     an owner that serves gives a ticket
**           carry_out    the owner's batch, later: the result, then `ready`
**           leave        serves no client, ends the batches in flight, signs
**                        LEFT
**           synchronize  asks the owner of the ticket, or finds the result
** CHECKED   A synchronize that succeeds has the result of its batch.  It
**           succeeds if the owner left cleanly.  It gives LOST, once, if the
**           owner was killed before answering, and only then.  No client
**           waits forever.
** NOT       Slots and messages (owner.pml); bounded stores, where a ticket has
**           leases; several sessions.
**
** Rules that are easily missed; without them the model fails:
**
**   After LEFT no owner can be asked: the results must be there before it.
**   A result's memory belongs to the ticket, and outlives the link.
**   An owner's number means another batch at the next owner, or none.
**
** OWNERS is the size.  With any one of these the model must fail:
**
**   TICKET_WITHOUT_OWNER  the owner's number alone is sent to the next owner
**   TICKETS_CANCELLED     a leaving owner cancels the batches in flight, and
**                         the client treats the memory as written
**   CANCELLED_IS_ERROR    the same, and the client gets an error
**   LEFT_EARLY            LEFT is signed before the batches in flight have
**                         ended
**   READY_EARLY           `ready` is set before the result is there
**   GOES_WITH_LINK        the client frees a result's memory with the link
**   TICKET_KEPT           a ticket stays after LOST
**   NO_NOTICE             a client waits for an owner that was killed
*/
#ifndef OWNERS
#define OWNERS 3
#endif
#define BATCHES 3

#define UNWRITTEN 0
#define FREED 99

/* Owners, from 1. */
#define STARTS 0
#define SERVES 1
#define LEAVES 2
#define LEFT 3
#define KILLED 4
byte fate[OWNERS + 1];
byte owner = 1; /* the newest */

/* State of the newest owner. */
byte given;                /* its last ticket */
byte batch[BATCHES + 1];   /* of a ticket; 0: there is none */
bool ended[BATCHES + 1];   /* the ticket's batch was carried out */

/* Batches, from 1: the session's numbers. */
byte result[BATCHES + 1];  /* in shared memory: the batch to which it belongs */
bool ready[BATCHES + 1];   /* the same */
#define NONE 0
#define HELD 1
#define GONE 2
byte state[BATCHES + 1];
byte owner_of[BATCHES + 1];
byte ticket_of[BATCHES + 1];
byte told[BATCHES + 1];    /* LOST */

#define OK 1
#define LOST 2
#define RANGE 3 /* no such ticket */
#define ERROR 4

#define is_held(b) (state[b] == HELD)
#define all_gone (state[1] == GONE && state[2] == GONE && state[3] == GONE)
#define in_flight(t) (batch[t] && !ended[t])

/* ---- the owner ---------------------------------------------------------- */

inline carry_out(t) {
#ifdef READY_EARLY
  ready[batch[t]] = 1;
#endif
  result[batch[t]] = batch[t];
#ifndef READY_EARLY
  ready[batch[t]] = 1;
#endif
  ended[t] = 1
}

#define RUN(t) :: in_flight(t) -> carry_out(t)
#define RUN_ALL RUN(1) RUN(2) RUN(3)
#define idle (!in_flight(1) && !in_flight(2) && !in_flight(3))

inline leave() {
  fate[k] = LEAVES;
#ifdef LEFT_EARLY
  fate[k] = LEFT;
#endif
#if !defined(TICKETS_CANCELLED) && !defined(CANCELLED_IS_ERROR)
  do
  RUN_ALL
  :: idle -> break
  od;
#endif
  fate[k] = LEFT
}

proctype owners() {
  byte k = 1;
  do
  :: k <= OWNERS ->
     {
       d_step {
         owner = k;
         given = 0;
         batch[1] = 0; batch[2] = 0; batch[3] = 0;
         ended[1] = 0; ended[2] = 0; ended[3] = 0;
         fate[k] = SERVES
       };
       do
       RUN_ALL
       :: k < OWNERS -> leave(); break
       :: k == OWNERS && all_gone -> leave(); break
       od
     } unless {
       fate[k] == KILLED
     };
     k++
  :: else -> break
  od
}

/* At every moment except after LEFT; the last owner stays, and serves. */
proctype system() {
end:
  do
  :: d_step {
       owner < OWNERS && (fate[owner] == SERVES || fate[owner] == LEAVES) ->
       fate[owner] = KILLED
     }
  od
}

/* ---- the client --------------------------------------------------------- */

/* The link goes when its owner has. */
inline link_release(b) {
#ifdef GOES_WITH_LINK
  result[b] = FREED
#else
  skip
#endif
}

inline prefetch() {
  d_step { /* an owner that leaves does not begin it: the next one is asked */
    fate[owner] == SERVES ->
    given++;
    started++;
    batch[given] = started;
    owner_of[started] = owner;
    ticket_of[started] = given;
    state[started] = HELD
  }
}

/* The owner o is asked for its ticket t. */
#define is_there(o) (fate[o] == SERVES || fate[o] == LEAVES)

inline synchronize(b) {
  do
  :: atomic {
       is_there(owner_of[b]) ->
       if
       :: ended[ticket_of[b]] -> answer = OK; break
       :: ready[b] -> answer = OK; break /* it need not ask */
#ifdef NO_NOTICE
       :: fate[owner_of[b]] == LEFT
#else
       :: !is_there(owner_of[b]) /* waits, and notices */
#endif
       fi
     }
#ifdef TICKET_WITHOUT_OWNER
  :: atomic {
       !is_there(owner_of[b]) && owner != owner_of[b] && is_there(owner) ->
       if
       :: ended[ticket_of[b]] -> answer = OK; break
       :: !batch[ticket_of[b]] -> answer = RANGE; break
       :: !is_there(owner)
       fi
     }
#else
  :: atomic {
       fate[owner_of[b]] == LEFT ->
       link_release(b);
       if
#ifdef TICKETS_CANCELLED
       :: 1 -> answer = OK
#else
       :: ready[b] -> answer = OK
#endif
#ifdef CANCELLED_IS_ERROR
       :: !ready[b] -> answer = ERROR
#endif
#ifdef LEFT_EARLY
       :: !ready[b] -> answer = RANGE
#endif
       fi;
       break
     }
  :: atomic { fate[owner_of[b]] == KILLED -> answer = LOST; break }
#endif
  od;
  atomic {
    assert(state[b] == HELD);
    if
    :: answer == OK -> assert(result[b] == b)
    :: answer == LOST ->
       assert(fate[owner_of[b]] == KILLED);
       told[b]++;
       assert(told[b] == 1)
    :: else -> assert(0)
    fi;
    batch[ticket_of[b]] = (owner == owner_of[b] -> 0 : batch[ticket_of[b]]);
    if
#ifdef TICKET_KEPT
    :: answer == LOST
    :: answer != LOST ->
#else
    :: 1 ->
#endif
       state[b] = GONE;
       owner_of[b] = 0;
       ticket_of[b] = 0
    fi;
    answer = 0
  }
}

proctype client() {
  byte started, answer;
  do
  :: started < BATCHES -> prefetch()
  :: is_held(1) -> synchronize(1)
  :: is_held(2) -> synchronize(2)
  :: is_held(3) -> synchronize(3)
  :: all_gone -> break
  od
}

init { atomic { run owners(); run client(); run system() } }
