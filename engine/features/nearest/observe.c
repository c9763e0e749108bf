/* SPDX-License-Identifier: MIT
**
** observe.c -- the observer of an index of nearest neighbours; see index.h.
**
** A change is recorded once it is visible (`ended`), so a later read of the
** recorded row never returns an older version.
*/
#include "index.h"

#include <string.h>

#include "engine/emb.h"

/* ---- recent keys --------------------------------------------------------- */

static int recent_is_full(const struct nearest_index *x) {
  return !x->last || x->last->n == RECENT_KEYS;
}

int nearest_observe__add(struct nearest_index *x, int64_t key) {
  struct env *env = x->store->core.env;
  struct recent *spare = NULL;
  spin_acquire(&x->recent_lock);
  if (recent_is_full(x)) {
    spin_release(&x->recent_lock);
    spare = env->allocate(env, sizeof *spare);
    spin_acquire(&x->recent_lock);
  }
  if (recent_is_full(x) && spare) {
    spare->number = ++x->recent_number;
    if (x->last) {
      x->last->next = spare;
    } else {
      x->first = spare;
      x->first_at = 0;
    }
    x->last = spare;
    spare = NULL;
  }
  int fits = !recent_is_full(x);
  if (fits) {
    x->last->keys[x->last->n++] = key;
    atomic_fetch_add_explicit(&x->recent_count, 1, memory_order_relaxed);
  }
  emb_check_some(256, recent_valid(x));
  spin_release(&x->recent_lock);
  env->release(env, spare);
  if (!fits) {
    atomic_store(&x->incomplete, 1);
  }
  return fits;
}

size_t nearest_observe__oldest(struct nearest_index *x, int64_t *keys,
                               size_t most) {
  size_t n = 0;
  spin_acquire(&x->recent_lock);
  if (x->first) {
    n = x->first->n - x->first_at;
    n = n < most ? n : most;
    memcpy(keys, x->first->keys + x->first_at, n * sizeof *keys);
  }
  spin_release(&x->recent_lock);
  return n;
}

void nearest_observe__done(struct nearest_index *x, size_t n) {
  struct env *env = x->store->core.env;
  struct recent *gone = NULL;
  spin_acquire(&x->recent_lock);
  emb_assert(x->first && n <= x->first->n - x->first_at);
  x->first_at += (uint32_t)n;
  if (x->first_at == x->first->n &&
      (x->first_at == RECENT_KEYS || x->first == x->last)) {
    gone = x->first;
    x->first = gone->next;
    x->last = x->first ? x->last : NULL;
    x->first_at = 0;
  }
  atomic_fetch_sub_explicit(&x->recent_count, n, memory_order_relaxed);
  emb_check_some(8, recent_valid(x));
  spin_release(&x->recent_lock);
  env->release(env, gone);
}

size_t nearest_observe__piece(struct nearest_index *x, uint64_t *number,
                              int64_t *keys) {
  size_t n = 0;
  spin_acquire(&x->recent_lock);
  struct recent *piece = x->first;
  while (piece && piece->number < *number) {
    piece = piece->next;
  }
  if (piece) {
    uint32_t from = piece == x->first ? x->first_at : 0;
    n = piece->n - from;
    memcpy(keys, piece->keys + from, n * sizeof *keys);
    *number = piece->number + 1;
  }
  spin_release(&x->recent_lock);
  return n;
}

void nearest_observe__clear(struct nearest_index *x) {
  struct env *env = x->store->core.env;
  spin_acquire(&x->recent_lock);
  struct recent *piece = x->first;
  x->first = x->last = NULL;
  x->first_at = 0;
  atomic_store(&x->recent_count, 0);
  spin_release(&x->recent_lock);
  while (piece) {
    struct recent *next = piece->next;
    env->release(env, piece);
    piece = next;
  }
}

/* ---- dirty rows ---------------------------------------------------------- */

static void dirty_free(struct env *env, struct dirty *dirty) {
  if (dirty) {
    env->release(env, dirty->words[0]);
    env->release(env, dirty->words[1]);
    env->release(env, dirty);
  }
}

int nearest_observe__dirty(struct nearest_index *x, uint64_t rows) {
  struct env *env = x->store->core.env;
  struct dirty *old = atomic_load(&x->dirty), *dirty = NULL;
  uint64_t bits = 4096;
  while (rows && bits < rows) {
    bits *= 2;
  }
  if (rows) {
    dirty = env->allocate(env, sizeof *dirty);
    if (!dirty) {
      return 0;
    }
    dirty->mask = bits - 1;
    dirty->words[0] = env->allocate(env, bits / 8);
    dirty->words[1] = env->allocate(env, bits / 8);
    if (!dirty->words[0] || !dirty->words[1]) {
      dirty_free(env, dirty);
      return 0;
    }
    emb_check(dirty_valid(dirty));
  }
  atomic_store(&x->dirty, dirty);
  atomic_store(&x->behind, 0);
  epoch_wait(&x->store->core.epoch);
  dirty_free(env, old);
  return 1;
}

uint32_t nearest_observe__turn(struct nearest_index *x) {
  struct dirty *dirty = atomic_load(&x->dirty);
  uint32_t old = atomic_load(&dirty->now);
  emb_check(dirty_valid(dirty));
  atomic_store(&dirty->now, 1 - old);
  epoch_wait(&x->store->core.epoch);
  return old;
}

void nearest_observe__clean(struct nearest_index *x, uint32_t which) {
  struct dirty *dirty = atomic_load(&x->dirty);
  emb_assert(which != atomic_load(&dirty->now)); /* no step sets bits there */
  for (uint64_t i = 0; i <= dirty->mask / 64; i++) {
    atomic_store_explicit(&dirty->words[which][i], 0, memory_order_relaxed);
  }
}

/* Most rows changed by steps are dirty already; for them this is a single
** load. */
void nearest_observe__dirty_key(struct nearest_index *x, int64_t key) {
  struct dirty *dirty = atomic_load_explicit(&x->dirty, memory_order_acquire);
  if (dirty) {
    uint64_t bit = hash_key(key) & dirty->mask;
    uint32_t now = atomic_load_explicit(&dirty->now, memory_order_acquire);
    _Atomic uint64_t *word = &dirty->words[now][bit / 64];
    uint64_t mask = UINT64_C(1) << (bit % 64);
    if (!(atomic_load_explicit(word, memory_order_relaxed) & mask)) {
      atomic_fetch_or_explicit(word, mask, memory_order_relaxed);
      atomic_fetch_add_explicit(&x->behind, 1, memory_order_relaxed);
    }
  }
}

/* ---- events -------------------------------------------------------------- */

/* Removes the row's entries.  If the task is processing the row, it will notice
** the count and look again. */
static void index_removed(struct nearest_index *x, int64_t key) {
  atomic_fetch_add(&x->removals[hash_key(key) % REMOVALS], 1);
  for (int i = 0; i < 2; i++) {
    struct index_set *set = index_set_at(x, i);
    for (uint32_t k = 0; set && k < x->store->core.schema.count; k++) {
      if (index_has(x, k)) {
        (void)ivf_remove(&set->ivf[k], key);
      }
    }
  }
}

static void index_ended(void *arg, const struct row_event *event) {
  struct nearest_index *x = arg;
  if (!atomic_load_explicit(&x->follows, memory_order_acquire)) {
    return;
  }
  switch (event->cause) {
  case ROW_STEP:
    if (event->from) {
      nearest_observe__dirty_key(x, event->key);
      break;
    }
    nearest_observe__add(x, event->key);
    break;
  case ROW_PUT:
    if (EMB_SEED(SEED_NEIGHBOUR_NOT_RECENT)) {
      break;
    }
    if (!event->from ||
        atomic_load_explicit(&x->recent_count, memory_order_relaxed) <
            RECENT_PUTS) {
      nearest_observe__add(x, event->key);
    } else {
      nearest_observe__dirty_key(x, event->key);
    }
    break;
  case ROW_REMOVED:
  case ROW_EXPIRED:
  case ROW_EVICTED:
    if (event->from) {
      index_removed(x, event->key);
    }
    break;
  case ROW_MOVED:
    break;
  }
}

/* The caller has the store to itself: the contents of the index are void. */
static void index_reset(void *arg) {
  struct nearest_index *x = arg;
  atomic_store(&x->follows, 0);
  atomic_store(&x->was_reset, 1);
}

int nearest_observe__begin(struct nearest_index *x) {
  struct core *core = &x->store->core;
  if (!x->observes) {
    x->observer = (struct observer){.name = "nearest",
                                    .ended = index_ended,
                                    .reset = index_reset,
                                    .arg = x,
                                    .all = 1};
    int rc = observe_begin(core, &x->observer);
    if (rc) {
      return rc;
    }
    x->observes = 1;
  }
  atomic_store(&x->follows, 1);
  epoch_wait(&core->epoch);
  return EMB_OK;
}

void nearest_observe__end(struct nearest_index *x) {
  atomic_store(&x->follows, 0);
  if (x->observes) {
    observe_end(&x->store->core, &x->observer);
    x->observes = 0;
  }
}
