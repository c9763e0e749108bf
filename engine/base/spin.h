/* SPDX-License-Identifier: MIT
**
** spin.h -- waits for another thread to finish a few instructions.
**
** Only for critical sections that never sleep, allocate from the operating
** system or take another lock.  The holder may still be preempted, so a waiter
** yields its time slice after a while.
*/
#ifndef EMB_BASE_SPIN_H
#define EMB_BASE_SPIN_H

#include "debug.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

static inline void spin_pause(unsigned *spins) {
  if (++*spins < 64) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  } else {
    sched_yield();
  }
}

/* 0 free, 1 held.  Written by the locking threads, with acquire and release
** order. */
typedef _Atomic uint32_t spin_lock;

static inline void spin_acquire(spin_lock *lock) {
  unsigned spins = 0;
  while (atomic_exchange_explicit(lock, 1, memory_order_acquire)) {
    do {
      spin_pause(&spins);
    } while (atomic_load_explicit(lock, memory_order_relaxed));
  }
}

static inline void spin_release(spin_lock *lock) {
  emb_assert(atomic_load_explicit(lock, memory_order_relaxed) == 1);
  atomic_store_explicit(lock, 0, memory_order_release);
}

#endif
