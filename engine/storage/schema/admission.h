/* SPDX-License-Identifier: MIT
**
** admission.h -- which keys become rows when first updated or looked up:
** only recurring keys.
**
**   count(n=3)         at the n-th occurrence, counted exactly
**   bloom(n=3)         the same with a counting Bloom filter, n <= 15: 8 times
**                      as many keys in the same memory.  A key may be admitted
**                      early; its count is never too low
**   probability(n=10)  with probability 1 - 0.05^(occurrences / n): 95 % within
**                      n
**
** WINDOW    count and bloom have two tables of half the memory each.  Keys are
**           counted in the younger one.  When it is full, the older is cleared
**           and becomes the younger.  So counts cover the most recent keys,
**           between half of what the memory holds and all of it, and keys that
**           stay rare are forgotten.
** BLOOM     A key has 3 of the 128 4-bit cells of one cache line, as in the
**           blocked filters of Putze, Sanders and Singler.  Its count is the
**           least of these, and only cells below the new count are raised
**           (Estan and Varghese, conservative update).  There are ten cells per
**           key.
** STATE     The tables are saved and loaded as pairs of words, table 0 first
**           (ckpt/seen.h).
** THREADS   Any session; cells are changed by compare-and-swap; the exact table
**           and the rotation of the tables are under a lock.
*/
#ifndef EMB_SCHEMA_ADMISSION_H
#define EMB_SCHEMA_ADMISSION_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/base/env/env.h"

enum {
  ADMISSION_NONE = 0,
  ADMISSION_COUNT,
  ADMISSION_BLOOM,
  ADMISSION_PROBABILITY,
};

struct admission_rule {
  uint32_t kind;
  double n;
  double memory; /* bytes, of count and bloom */
};

#define ADMISSION_TEXT_MAX 96

int admission__parse(struct admission_rule *rule, const char *text,
                     emb_err *err);
void admission_print(const struct admission_rule *rule, char *to, size_t size);

struct admission_seen { /* an entry of the exact table; 0 times: free */
  uint64_t hash;
  uint64_t times;
};

struct admission {
  struct env *env;
  struct admission_rule rule;
  size_t bytes;    /* of one table */
  uint64_t limit;  /* most keys in one table */
  void *tables[2]; /* cells in words of 8 bytes, or entries */
  pthread_mutex_t lock;
  _Atomic uint32_t young; /* the younger; written under lock, acquire */
  _Atomic uint64_t keys;  /* keys in it; relaxed */
};

/* Only in self-checking builds; where nothing counts, or under lock. */
int admission_valid(const struct admission *a);
/* EMB_NOMEM.  admission_free may be called after an error, and on zeros. */
int admission_init(struct admission *a, struct env *env,
                   const struct admission_rule *rule);
void admission_free(struct admission *a);
/* Prefetches the counts of a key. */
void admission_prefetch(const struct admission *a, uint64_t hash);
/* Counts `times` more occurrences of a key without a row: is the key admitted?
** random: the caller's own generator state. */
int admission_pass(struct admission *a, uint64_t hash, uint32_t times,
                   uint64_t *random);

/* Does it have tables? */
static inline int admission_counts(const struct admission *a) {
  return a->bytes != 0;
}
void admission_state(struct admission *a, uint32_t *young, uint64_t *keys);
/* Copies at most n pairs of words, from pair `at` of both tables on; returns
** how many. */
uint32_t admission_save(struct admission *a, size_t at, uint32_t n,
                        uint64_t *pairs);
/* Must not run concurrently with counting. */
void admission_load(struct admission *a, size_t at, uint32_t n,
                    const uint64_t *pairs);
/* Resumes counting in the loaded tables; 0: they are not valid. */
int admission_resume(struct admission *a, uint32_t young, uint64_t keys);
void admission_clear(struct admission *a);

#endif
