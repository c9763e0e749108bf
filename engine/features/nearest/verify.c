/* SPDX-License-Identifier: MIT
**
** verify.c -- checks that the index agrees with itself and with the table, for
** emb_verify.
**
** The task waits during the check; writers do not.  A difference found while
** rows come and go is checked again with every session out of the epoch
** (removals happen inside it) before it is reported.  Each key of the table
** must be in the lists or recent.  While the task waits, recent keys are only
** added, and a key is among them before its session leaves the epoch.
*/
#include <stdio.h>
#include <stdlib.h>

#include "engine/emb.h"
#include "index.h"

struct checking {
  emb_session *s;
  struct nearest_index *x;
  struct index_set *set;
  void (*report)(void *, const char *);
  void *arg;
  int64_t *missing; /* keys that the lists do not have */
  size_t n, room;
  int no_memory;
};

/* ---- lists --------------------------------------------------------------- */

static int index_differs(const struct ivf_checked *c) {
  return c->lost || c->wrong || c->rows != c->found;
}

static void verify_lists(struct checking *c, uint32_t segment) {
  struct core *core = c->s->core;
  struct ivf *ivf = &c->set->ivf[segment];
  struct ivf_checked checked;
  emb_err line;
  ivf_check(ivf, &checked);
  if (index_differs(&checked)) {
    pthread_mutex_lock(&core->flush_lock);
    epoch_close(&core->epoch);
    ivf_check(ivf, &checked);
    epoch_open(&core->epoch);
    pthread_mutex_unlock(&core->flush_lock);
  }
  if (index_differs(&checked)) {
    (void)snprintf(
        line.text, sizeof line.text,
        "%s: the index of neighbours %u has %llu rows in its lists; %llu of "
        "them are not found; %llu were counted, and %llu lists are broken",
        core->dir, segment, (unsigned long long)checked.rows,
        (unsigned long long)checked.lost, (unsigned long long)checked.found,
        (unsigned long long)checked.wrong);
    c->report(c->arg, line.text);
  }
}

/* ---- keys ---------------------------------------------------------------- */

static void note_missing(void *arg, int64_t key, uint64_t word) {
  struct checking *c = arg;
  if (!word_address(word) || build__has(c->x, c->set, key) || c->no_memory) {
    return;
  }
  if (c->n == c->room) {
    struct env *env = c->s->core->env;
    size_t room = c->room * 2 + 64;
    void *larger = env->resize(env, c->missing, room * sizeof *c->missing);
    c->no_memory = !larger;
    if (!larger) {
      return;
    }
    c->missing = larger;
    c->room = room;
  }
  c->missing[c->n++] = key;
}

/* Checks part by part, each with every session out of the epoch. */
static int find_missing(struct checking *c) {
  struct core *core = c->s->core;
  int rc = EMB_OK;
  for (uint32_t p = 0; !rc && p < index_parts(&core->index); p++) {
    pthread_mutex_lock(&core->flush_lock);
    epoch_close(&core->epoch);
    index_each(&core->index, p, note_missing, c);
    epoch_open(&core->epoch);
    pthread_mutex_unlock(&core->flush_lock);
    rc = c->no_memory ? session_error(c->s, EMB_NOMEM, "out of memory")
                      : session_interrupted(c->s);
  }
  return rc;
}

static int order_of_keys(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

/* Drops recent keys from the missing ones, and returns how many are left. */
static size_t drop_recent(struct checking *c) {
  int64_t keys[RECENT_KEYS];
  uint64_t number = 0;
  size_t n, missing = 0;
  uint8_t *is_recent = c->s->core->env->allocate(c->s->core->env, c->n);
  if (!is_recent) {
    c->no_memory = 1;
    return 0;
  }
  qsort(c->missing, c->n, sizeof *c->missing, order_of_keys);
  while ((n = nearest_observe__piece(c->x, &number, keys)) != 0) {
    for (size_t i = 0; i < n; i++) {
      const int64_t *at = bsearch(&keys[i], c->missing, c->n,
                                  sizeof *c->missing, order_of_keys);
      if (at) {
        is_recent[at - c->missing] = 1;
      }
    }
  }
  for (size_t i = 0; i < c->n; i++) {
    if (!is_recent[i]) {
      c->missing[missing++] = c->missing[i];
    }
  }
  c->s->core->env->release(c->s->core->env, is_recent);
  return missing;
}

static int verify_keys(struct checking *c) {
  emb_err line;
  int rc = find_missing(c);
  size_t missing = !rc && c->n ? drop_recent(c) : 0;
  if (!rc && c->no_memory) {
    rc = session_error(c->s, EMB_NOMEM, "out of memory");
  }
  if (!rc && missing && !atomic_load(&c->x->incomplete) &&
      !atomic_load(&c->x->was_reset)) {
    (void)snprintf(line.text, sizeof line.text,
                   "%s: the index of neighbours does not have %llu keys of the "
                   "table, %lld among them",
                   c->s->core->dir, (unsigned long long)missing,
                   (long long)c->missing[0]);
    c->report(c->arg, line.text);
  }
  c->s->core->env->release(c->s->core->env, c->missing);
  return rc;
}

int nearest_check(emb_session *s, void (*report)(void *, const char *),
                  void *arg) {
  struct nearest_index *x = nearest_of(s->store);
  struct checking c = {.s = s, .x = x, .report = report, .arg = arg};
  int rc = session_lock(s, &x->lock);
  if (rc) {
    return rc;
  }
  c.set = nearest__use(x);
  for (uint32_t k = 0; c.set && k < s->core->schema.count; k++) {
    if (index_has(x, k)) {
      verify_lists(&c, k);
    }
  }
  if (c.set) {
    rc = verify_keys(&c);
    nearest__unuse(x, c.set);
  }
  pthread_mutex_unlock(&x->lock);
  return rc;
}
