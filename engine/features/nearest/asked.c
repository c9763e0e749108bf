/* SPDX-License-Identifier: MIT
**
** asked.c -- see asked.h.
*/
#include "asked.h"

#include <string.h>

#include "engine/base/hash.h"

/* Queries noted of a call, evenly spaced. */
#define ASKED_OF_CALL 16

/* Makes the array.  0: no memory. */
static int asked_room(struct asked *asked, struct env *env, uint32_t dim) {
  float *at = env->allocate(env, (size_t)ASKED_KEPT * dim * sizeof *at);
  spin_acquire(&asked->lock);
  if (!asked->at) {
    asked->at = at;
    at = NULL;
  }
  int good = asked->at != NULL;
  spin_release(&asked->lock);
  env->release(env, at);
  return good;
}

/* Under the lock. */
static void note_one(struct asked *asked, const float *query, uint32_t dim) {
  uint64_t random = hash_mix(++asked->seen);
  uint32_t to = asked->n;
  if (asked->n < ASKED_KEPT) {
    asked->n++;
  } else if (random % ASKED_EACH == 0) {
    to = (uint32_t)(random / ASKED_EACH % ASKED_KEPT);
  }
  if (to < ASKED_KEPT) {
    memcpy(asked->at + (size_t)to * dim, query, dim * sizeof *query);
  }
}

void asked__note(struct asked *asked, struct env *env, const float *queries,
                 size_t n, uint32_t dim) {
  size_t step = n / ASKED_OF_CALL + 1;
  spin_acquire(&asked->lock);
  int good = asked->at != NULL;
  spin_release(&asked->lock);
  good = good || asked_room(asked, env, dim);
  for (size_t i = 0; good && i < n; i += step) {
    spin_acquire(&asked->lock);
    note_one(asked, queries + i * dim, dim);
    spin_release(&asked->lock);
  }
}

uint32_t asked__copy(struct asked *asked, float *to, uint32_t dim) {
  spin_acquire(&asked->lock);
  uint32_t n = asked->n;
  if (n) {
    memcpy(to, asked->at, (size_t)n * dim * sizeof *to);
  }
  spin_release(&asked->lock);
  return n;
}

void asked__set(struct asked *asked, struct env *env, const float *from,
                uint32_t n, uint32_t dim) {
  n = n < ASKED_KEPT ? n : ASKED_KEPT;
  if (n && asked_room(asked, env, dim)) {
    spin_acquire(&asked->lock);
    memcpy(asked->at, from, (size_t)n * dim * sizeof *from);
    asked->n = n;
    asked->seen = asked->seen > n ? asked->seen : n;
    spin_release(&asked->lock);
  }
}

uint64_t asked__seen(struct asked *asked) {
  spin_acquire(&asked->lock);
  uint64_t seen = asked->seen;
  spin_release(&asked->lock);
  return seen;
}

uint64_t asked__bytes(struct asked *asked, uint32_t dim) {
  spin_acquire(&asked->lock);
  uint64_t bytes =
      asked->at ? (uint64_t)ASKED_KEPT * dim * sizeof *asked->at : 0;
  spin_release(&asked->lock);
  return bytes;
}

void asked__free(struct asked *asked, struct env *env) {
  env->release(env, asked->at);
  asked->at = NULL;
  asked->n = 0;
}
