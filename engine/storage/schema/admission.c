/* SPDX-License-Identifier: MIT
**
** admission.c -- see admission.h.
*/
#include "admission.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/debug.h"
#include "engine/base/hash.h"
#include "engine/base/param.h"
#include "engine/base/seed.h"
#include "engine/emb.h"

/* ---- text ---------------------------------------------------------------- */

#define N(value_, high_)                                                       \
  {                                                                            \
    .name = "n", .at = offsetof(struct admission_rule, n), .value = (value_),  \
    .low = 1, .high = (high_), .whole = 1                                      \
  }
#define MEMORY                                                                 \
  {                                                                            \
    .name = "memory", .at = offsetof(struct admission_rule, memory),           \
    .value = 16e6, .low = 65536, .high = 1e12, .whole = 1, .is = PARAM_BYTES   \
  }
#define END                                                                    \
  { .name = NULL }

static const struct param none[] = {END};
static const struct param admission_count[] = {N(3, 1e9), MEMORY, END};
static const struct param bloom[] = {N(3, 15), MEMORY, END};
static const struct param probability[] = {N(10, 1e9), END};

static const struct param_kind admission_kinds[] = {
    [ADMISSION_NONE] = {"none", none},
    [ADMISSION_COUNT] = {"count", admission_count},
    [ADMISSION_BLOOM] = {"bloom", bloom},
    [ADMISSION_PROBABILITY] = {"probability", probability},
    {NULL, NULL}};
static const struct param_list admission_list = {"admission", admission_kinds,
                                                 none};

int admission__parse(struct admission_rule *rule, const char *text,
                     emb_err *err) {
  memset(rule, 0, sizeof *rule);
  return param_parse(&admission_list, text, rule, &rule->kind, err);
}

void admission_print(const struct admission_rule *rule, char *to, size_t size) {
  (void)param_print(&admission_list, rule->kind, rule, to, size);
}

/* ---- tables -------------------------------------------------------------- */

enum { LINE = 64, LINE_WORDS = LINE / 8, CELLS = 3, CELL_MAX = 15 };

int admission_init(struct admission *a, struct env *env,
                   const struct admission_rule *rule) {
  memset(a, 0, sizeof *a);
  a->env = env;
  a->rule = *rule;
  pthread_mutex_init(&a->lock, NULL);
  if (rule->kind != ADMISSION_COUNT && rule->kind != ADMISSION_BLOOM) {
    return EMB_OK;
  }
  a->bytes = (size_t)(rule->memory / 2) / LINE * LINE;
  a->limit = a->bytes * 2 / 10;
  if (rule->kind == ADMISSION_COUNT) {
    size_t entries = 1;
    while (entries * 2 * sizeof(struct admission_seen) <= a->bytes) {
      entries *= 2;
    }
    a->bytes = entries * sizeof(struct admission_seen);
    a->limit = entries / 4 * 3;
  }
  for (int i = 0; i < 2; i++) {
    a->tables[i] = env->map(env, a->bytes, 0);
    if (!a->tables[i]) {
      return EMB_NOMEM;
    }
  }
  emb_check(admission_valid(a));
  return EMB_OK;
}

void admission_free(struct admission *a) {
  for (int i = 0; a->env && i < 2; i++) {
    a->env->unmap(a->env, a->tables[i], a->bytes);
  }
  if (a->env) {
    pthread_mutex_destroy(&a->lock);
  }
  a->env = NULL;
}

/* Clears the older table, which becomes the younger.  Under lock.  Counts made
** concurrently in the cleared table may be lost. */
static void admission_rotate(struct admission *a) {
  uint32_t next = 1 - atomic_load_explicit(&a->young, memory_order_relaxed);
  _Atomic uint64_t *words = a->tables[next];
  for (size_t i = 0; i < a->bytes / 8; i++) {
    atomic_store_explicit(&words[i], 0, memory_order_relaxed);
  }
  atomic_store_explicit(&a->keys, 0, memory_order_relaxed);
  atomic_store_explicit(&a->young, next, memory_order_release);
}

/* ---- counting exactly ---------------------------------------------------- */

/* Returns the key's entry, or the free entry where it would be.  Under lock. */
static struct admission_seen *admission_find(const struct admission *a,
                                             uint32_t table, uint64_t hash) {
  struct admission_seen *seen = a->tables[table];
  size_t mask = a->bytes / sizeof *seen - 1, at = hash & mask;
  while (seen[at].times && seen[at].hash != hash) {
    at = (at + 1) & mask;
  }
  return &seen[at];
}

static uint64_t count_exactly(struct admission *a, uint64_t hash,
                              uint32_t times) {
  pthread_mutex_lock(&a->lock);
  uint32_t young = atomic_load_explicit(&a->young, memory_order_relaxed);
  struct admission_seen *seen = admission_find(a, young, hash);
  if (!seen->times) {
    if (atomic_fetch_add_explicit(&a->keys, 1, memory_order_relaxed) ==
        a->limit) {
      admission_rotate(a);
      young = 1 - young;
      seen = admission_find(a, young, hash);
      atomic_store_explicit(&a->keys, 1, memory_order_relaxed);
    }
    seen->hash = hash;
  }
  seen->times += times;
  /* The table never fills: a search for a key ends at a free entry. */
  emb_assert(atomic_load_explicit(&a->keys, memory_order_relaxed) <= a->limit);
  uint64_t all =
      seen->times + (EMB_SEED(SEED_OLDER_OCCURRENCES_IGNORED)
                         ? 0
                         : admission_find(a, 1 - young, hash)->times);
  pthread_mutex_unlock(&a->lock);
  return all;
}

/* ---- counting in cells --------------------------------------------------- */

struct cell {
  _Atomic uint64_t *word;
  uint32_t shift;
};

static struct cell cell_of(const struct admission *a, uint32_t table,
                           uint64_t hash, int i) {
  uint64_t lines = a->bytes / LINE;
  uint64_t line = (hash >> 32) * lines >> 32;
  uint32_t number = (uint32_t)(hash >> (7 * i)) & 127;
  _Atomic uint64_t *words = a->tables[table];
  return (struct cell){words + line * LINE_WORDS + number / 16,
                       number % 16 * 4};
}

static uint32_t read_cell(struct cell cell) {
  return (uint32_t)(atomic_load_explicit(cell.word, memory_order_relaxed) >>
                    cell.shift) &
         CELL_MAX;
}

static uint32_t admission_least(const struct admission *a, uint32_t table,
                                uint64_t hash) {
  uint32_t all = CELL_MAX;
  for (int i = 0; i < CELLS; i++) {
    uint32_t times = read_cell(cell_of(a, table, hash, i));
    all = times < all ? times : all;
  }
  return all;
}

static void raise_cell(struct cell cell, uint32_t to) {
  uint64_t word = atomic_load_explicit(cell.word, memory_order_relaxed);
  while ((word >> cell.shift & CELL_MAX) < to) {
    uint64_t next = (word & ~((uint64_t)CELL_MAX << cell.shift)) |
                    (uint64_t)to << cell.shift;
    if (atomic_compare_exchange_weak_explicit(cell.word, &word, next,
                                              memory_order_relaxed,
                                              memory_order_relaxed)) {
      return;
    }
  }
}

static void admission_make_room(struct admission *a) {
  pthread_mutex_lock(&a->lock);
  if (atomic_load_explicit(&a->keys, memory_order_relaxed) >= a->limit) {
    admission_rotate(a);
  }
  pthread_mutex_unlock(&a->lock);
}

static uint64_t count_in_cells(struct admission *a, uint64_t hash,
                               uint32_t times) {
  uint32_t young = atomic_load_explicit(&a->young, memory_order_acquire);
  uint32_t before = admission_least(a, young, hash),
           old = admission_least(a, 1 - young, hash);
  uint32_t after = times < CELL_MAX - before ? before + times : CELL_MAX;
  for (int i = 0; i < CELLS; i++) {
    raise_cell(cell_of(a, young, hash, i), after);
  }
  if (!before &&
      atomic_fetch_add_explicit(&a->keys, 1, memory_order_relaxed) + 1 >=
          a->limit) {
    admission_make_room(a);
  }
  return old + after;
}

/* ---- chance -------------------------------------------------------------- */

/* SplitMix64; returns a number in [0, 1). */
static double admission_draw(uint64_t *random) {
  *random += UINT64_C(0x9E3779B97F4A7C15);
  return (double)(hash_mix(*random) >> 11) * 0x1p-53;
}

/* ---- saving -------------------------------------------------------------- */

/* Returns the address of pair `at` of both tables. */
static _Atomic uint64_t *pair_at(const struct admission *a, size_t at) {
  size_t pairs = a->bytes / 16;
  return (_Atomic uint64_t *)a->tables[at / pairs] + at % pairs * 2;
}

void admission_state(struct admission *a, uint32_t *young, uint64_t *keys) {
  pthread_mutex_lock(&a->lock);
  *young = atomic_load_explicit(&a->young, memory_order_relaxed);
  *keys = atomic_load_explicit(&a->keys, memory_order_relaxed);
  pthread_mutex_unlock(&a->lock);
}

/* Under lock: an entry of the exact table is a pair. */
uint32_t admission_save(struct admission *a, size_t at, uint32_t n,
                        uint64_t *pairs) {
  uint32_t i;
  pthread_mutex_lock(&a->lock);
  for (i = 0; i < n && at + i < 2 * a->bytes / 16; i++) {
    _Atomic uint64_t *words = pair_at(a, at + i);
    pairs[i * 2] = atomic_load_explicit(&words[0], memory_order_relaxed);
    pairs[i * 2 + 1] = atomic_load_explicit(&words[1], memory_order_relaxed);
  }
  pthread_mutex_unlock(&a->lock);
  return i;
}

void admission_load(struct admission *a, size_t at, uint32_t n,
                    const uint64_t *pairs) {
  for (uint32_t i = 0; i < n; i++) {
    _Atomic uint64_t *words = pair_at(a, at + i);
    atomic_store_explicit(&words[0], pairs[i * 2], memory_order_relaxed);
    atomic_store_explicit(&words[1], pairs[i * 2 + 1], memory_order_relaxed);
  }
}

/* Counts the entries in use. */
static uint64_t count_entries(const struct admission *a, uint32_t table) {
  const struct admission_seen *seen = a->tables[table];
  uint64_t n = 0;
  for (size_t i = 0; i < a->bytes / sizeof *seen; i++) {
    n += seen[i].times != 0;
  }
  return n;
}

int admission_resume(struct admission *a, uint32_t young, uint64_t keys) {
  if (a->rule.kind == ADMISSION_COUNT) {
    keys = count_entries(a, young);
    if (keys > a->limit || count_entries(a, 1 - young) > a->limit) {
      return 0;
    }
  }
  atomic_store_explicit(&a->keys, keys < a->limit ? keys : a->limit,
                        memory_order_relaxed);
  atomic_store_explicit(&a->young, young, memory_order_release);
  emb_check(admission_valid(a));
  return 1;
}

void admission_clear(struct admission *a) {
  for (int i = 0; i < 2 && a->bytes; i++) {
    memset(a->tables[i], 0, a->bytes);
  }
  atomic_store_explicit(&a->keys, 0, memory_order_relaxed);
  atomic_store_explicit(&a->young, 0, memory_order_release);
}

void admission_prefetch(const struct admission *a, uint64_t hash) {
  for (uint32_t i = 0; a->tables[0] && i < 2; i++) {
    if (a->rule.kind == ADMISSION_COUNT) {
      const struct admission_seen *seen = a->tables[i];
      __builtin_prefetch(&seen[hash & (a->bytes / sizeof *seen - 1)]);
    } else {
      __builtin_prefetch(cell_of(a, i, hash, 0).word);
    }
  }
}

int admission_pass(struct admission *a, uint64_t hash, uint32_t times,
                   uint64_t *random) {
  switch (a->rule.kind) {
  case ADMISSION_COUNT:
    return (double)count_exactly(a, hash, times) >= a->rule.n;
  case ADMISSION_BLOOM:
    return (double)count_in_cells(a, hash, times) >= a->rule.n;
  case ADMISSION_PROBABILITY:
    return admission_draw(random) >= pow(0.05, times / a->rule.n);
  default:
    return 1;
  }
}
