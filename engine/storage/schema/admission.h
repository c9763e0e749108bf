/* SPDX-License-Identifier: MIT
**
** admission.h -- which keys become rows when they are first updated or looked
** up: those that come again.
**
**   count(n=3)         at the n-th occurrence, counted exactly
**   bloom(n=3)         the same in a counting Bloom filter of n <= 15: 8
**                      times as many keys in the same memory; a key may come
**                      in early, as its count is never too low
**   probability(n=10)  with 1 - 0.05^(occurrences / n), by chance: 95 %
**                      within n
**
** WINDOW    count and bloom have two tables of half the memory each.  What
**           comes is counted in the younger; when that is full the older is
**           emptied and becomes the younger.  So a count is that of the last
**           keys, between half and all that the memory holds, and what is rare
**           for ever is forgotten.
** BLOOM     A key has 3 of the 128 cells of 4 bits of one cache line, as Putze,
**           Sanders and Singler's blocked filters; its count is the least of
**           them, and only cells below the new count are raised (Estan and
**           Varghese, conservative update).  Ten cells for each key.
** STATE     The tables are saved and loaded as pairs of words, first those of
**           table 0 (ckpt/seen.h).
** THREADS   Any session; cells are changed by compare-and-swap, the exact table
**           and the change of tables are under a lock.
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
  uint64_t limit;  /* keys in one */
  void *tables[2]; /* cells in words of 8 bytes, or entries */
  pthread_mutex_t lock;
  _Atomic uint32_t young; /* which of them; written under lock, acquire */
  _Atomic uint64_t keys;  /* in it; relaxed */
};

/* EMB_NOMEM; admission_free takes what is there, and also zeros. */
int admission_init(struct admission *a, struct env *env,
                   const struct admission_rule *rule);
void admission_free(struct admission *a);
/* Its counts are wanted soon. */
void admission_prefetch(const struct admission *a, uint64_t hash);
/* A key that is not there has come so many times more: does it come in?
** random: of the caller, a state of its own. */
int admission_pass(struct admission *a, uint64_t hash, uint32_t times,
                   uint64_t *random);

/* Does it have tables? */
static inline int admission_counts(const struct admission *a) {
  return a->bytes != 0;
}
void admission_state(struct admission *a, uint32_t *young, uint64_t *keys);
/* Pairs of words from number `at` of both tables on, at most n; how many. */
uint32_t admission_save(struct admission *a, size_t at, uint32_t n,
                        uint64_t *pairs);
/* Nothing is counted meanwhile. */
void admission_load(struct admission *a, size_t at, uint32_t n,
                    const uint64_t *pairs);
/* Counting goes on in what was loaded; 0: that cannot be. */
int admission_resume(struct admission *a, uint32_t young, uint64_t keys);
void admission_clear(struct admission *a);

#endif
