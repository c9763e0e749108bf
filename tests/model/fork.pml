/* SPDX-License-Identifier: MIT
**
** fork.pml -- a model of the lock file, and of a fork's child, which inherits
** its descriptor.  tests/model/spin.sh explores it.
**
** MODELLED  The kernel's side: a lock belongs to an open file description.  It
**           ends when any process unlocks it through any descriptor of that
**           description, or when the last descriptor is closed.  A killed
**           process closes its descriptors.  An owner takes the lock, leaves
**           and takes it again; it may be killed at every step, and another
**           of its threads may fork at every step, once.  The child has the
**           owner's descriptor and a copy of its table of lock files.  The
**           child and an unrelated process take the lock in turn, each
**           through its own open.
**
**           env_lock    opens the file, notes it in the table, takes the lock
**           env_unlock  unlocks, closes, removes the note from the table
**           fork_now    waits for the table's mutex
**           in_child    the child's handler closes the files in its table
** CHECKED   Two processes never own the store at once.  After env_unlock the
**           lock is free.  The child closes no other file.  When the owner
**           has ended, both others get the lock: no process waits forever.
** NOT       The lock's states (takeover.pml); a fork that runs no handlers
**           (vfork, posix_spawn: exec closes the descriptor); a child that is
**           stopped before its handler runs: it keeps the lock of a killed
**           parent until it continues.
**
** Rules that are easily missed; without them the model fails:
**
**   The child closes, and does not unlock: the lock is the owner's, too.
**   An owner unlocks before it closes: the child may not have run yet.
**   A fork between an open and its note leaves a descriptor unknown to the
**   child.  A fork between a close and the removal of the note makes the child
**   close another file, which has got that number.
**
** ROUNDS of the owner are the size.  With any one of these the model must
** fail:
**
**   CHILD_KEEPS    the child does not close its inherited descriptor
**   CHILD_UNLOCKS  the child unlocks it
**   CLOSED_ONLY    an owner that leaves closes, and does not unlock
**   FORK_BETWEEN   a fork does not wait for the table's mutex
*/
#ifndef ROUNDS
#define ROUNDS 2
#endif

/* An open file description: the owner's opens have 1, 2, ... */
#define NONE 0
#define OF_CHILD 98
#define OF_STRANGER 99
byte lock; /* the description that has it */

/* The owner's descriptor, and the copy that its fork's child has. */
byte fd, child_fd;         /* the description, or NONE: closed */
bool noted, child_noted;   /* in the table of lock files */
bool reused, child_reused; /* the descriptor's number is another file's */
bool mutex;                /* of the owner's table */

#define RUNS 0
#define ENDED 1
#define KILLED 2
byte fate; /* the owner's */
bool forked;
byte owners; /* processes that own the store */

inline enter() {
  assert(!owners);
  owners++
}

/* The last descriptor of a description takes the lock with it. */
inline was_last() {
  lock = (lock < OF_CHILD && lock != fd && lock != child_fd -> NONE : lock)
}

inline mutex_enter() {
  atomic { !mutex -> mutex = 1 }
}

inline env_lock() {
  mutex_enter();
  d_step { opened++; fd = opened; reused = 0 };
  noted = 1;
  mutex = 0;
  d_step { lock == NONE -> lock = fd; enter(); owns = 1 }
}

inline env_unlock() {
  d_step { owns = 0; owners-- };
#ifndef CLOSED_ONLY
  d_step { lock = (lock == fd -> NONE : lock) };
#endif
  mutex_enter();
  d_step { left = fd; fd = NONE; was_last() };
  reused = 1;
  d_step { noted = 0; reused = 0 };
  mutex = 0;
  d_step { assert(lock != left); left = 0 }
}

proctype owner() {
  byte opened, left;
  bool owns;
  {
    do
    :: opened < ROUNDS -> env_lock(); env_unlock()
    :: opened == ROUNDS -> break
    od;
    fate = ENDED
  } unless {
    fate == KILLED
  };
  if
  :: d_step {
       fate == KILLED ->
       owners = owners - owns;
       owns = 0;
       fd = NONE;
       was_last()
     }
  :: fate == ENDED
  fi
}

/* Takes the lock through its own descriptor, and leaves. */
inline take_and_leave(description) {
  d_step { lock == NONE -> lock = description; enter() };
  owners--;
  lock = NONE
}

inline in_child() {
#ifdef CHILD_UNLOCKS
  if
  :: d_step { child_noted -> lock = (lock == child_fd -> NONE : lock) }
  :: else
  fi;
#endif
#ifndef CHILD_KEEPS
  if
  :: d_step {
       child_noted ->
       assert(!child_reused);
       child_fd = NONE;
       was_last();
       child_noted = 0
     }
  :: else
  fi
#else
  skip
#endif
}

proctype child() {
  in_child();
  take_and_leave(OF_CHILD)
}

proctype stranger() {
  take_and_leave(OF_STRANGER)
}

inline fork_now() {
  atomic {
    !forked && fate == RUNS &&
#ifndef FORK_BETWEEN
    !mutex &&
#endif
    1 ->
    forked = 1;
    child_fd = fd;
    child_noted = noted;
    child_reused = reused;
    run child()
  }
}

proctype system() {
end:
  do
  :: fork_now()
  :: d_step { fate == RUNS -> fate = KILLED }
  od
}

init { atomic { run owner(); run stranger(); run system() } }
