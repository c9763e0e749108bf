/* SPDX-License-Identifier: MIT
**
** debug.c -- see debug.h; compiled out of release builds.
*/
#include "debug.h"

#if EMB_DEBUG > 0
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void debug_failed(const char *what, const char *file, int line,
                  const char *function) {
  static atomic_int reported;
  const char *mode = getenv("EMB_ASSERT");
  int goes_on = mode && strcmp(mode, "report") == 0;
  if (!goes_on || !atomic_exchange(&reported, 1)) {
    fprintf(stderr, "emb: assertion failed: %s:%d: %s: %s\n", file, line,
            function, what);
  }
  if (!goes_on) {
    abort();
  }
}

int debug_is_locked(pthread_mutex_t *lock) {
  if (pthread_mutex_trylock(lock)) {
    return 1;
  }
  pthread_mutex_unlock(lock);
  return 0;
}

int debug_sample(unsigned n) {
  static _Thread_local uint32_t random = 2463534242u; /* xorshift, Marsaglia */
  emb_assert(n > 0);
  random ^= random << 13;
  random ^= random >> 17;
  random ^= random << 5;
  return EMB_DEBUG > 2 || random % n == 0;
}
#endif
