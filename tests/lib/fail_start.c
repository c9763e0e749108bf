/* SPDX-License-Identifier: MIT
**
** fail_start.c -- the directories from which the bodies start, and the loop
** over all bodies: see fail_body.h.
*/
#include "fail_body.h"

/* A separate run in which nothing fails, and a copy of its directory made
** before or after the close. */
static void make_base(struct fail *w, struct fail_base *base, int which) {
  struct failing *f = &w->f;
  (void)snprintf(base->dir, sizeof base->dir, "%s-base%d", w->dir, which);
  (void)snprintf(w->what, sizeof w->what, "base %d", which);
  fail_remove(w->dir);
  failing_init(f, &env_posix, 1);
  env_set_default(&f->env);
  w->flags = EMB_OPEN_STEP;
  for (int i = 0; i < FAIL_ALL; i++)
    w->now[i] = w->after[i] = FAIL_ABSENT;
  if (fail_open(w)) {
    fail_put(w, 0, FAIL_KEYS, 1, 1);
    if (fail_begin(w)) {
      fail_txn_all(w, 2);
      fail_prepare(w);
      fail_commit(w);
    }
    if (which != BASE_CLEAN) {
      fail_put(w, 0, 200, 5, 3);
      fail_checkpoint(w);
      fail_put(w, 0, 100, 7, 4);
      if (fail_begin(w)) {
        fail_txn_all(w, 5);
        fail_prepare(w);
        if (which == BASE_KILLED)
          fail_commit(w);
        else
          w->decided = w->number; /* the coordinator's note, then the kill */
      }
      fail_copy(w->dir, base->dir);
      memcpy(base->after, w->after, sizeof base->after);
      for (int i = 0; which == BASE_DOUBT && i < FAIL_TXN; i++)
        base->after[FAIL_KEYS + i] = UINT64_C(1) << 5;
      base->decided = w->decided;
      fail_rollback(w);
    }
    fail_close(w);
  }
  if (which == BASE_CLEAN) {
    fail_copy(w->dir, base->dir);
    memcpy(base->after, w->after, sizeof base->after);
    base->decided = w->decided;
  }
  env_set_default(&env_posix);
  failing_free(f);
}

struct fail *fail_start(struct fail_base bases[BASES], const char *dir) {
  struct fail *w = calloc(1, sizeof *w);
  if (!CHECK(w != NULL) || dir == NULL)
    return NULL;
  w->vectors = malloc(sizeof(float) * FAIL_DIM * FAIL_ALL);
  (void)snprintf(w->dir, sizeof w->dir, "%s/store", dir);
  for (int which = BASE_CLEAN; w->vectors && which < BASES; which++)
    make_base(w, &bases[which], which);
  return w;
}

void fail_end(struct fail *w) {
  if (w) {
    free(w->vectors);
    free(w);
  }
}

void fail_all(struct fail *w, const struct fail_base bases[BASES],
              uint32_t kinds, int error) {
  const char *part = getenv("BODY");
  uint64_t sum = 0;
  for (int i = 0; i < fail_case_count; i++) {
    const struct fail_body_case *c = &fail_cases[i];
    const struct fail_base *base = c->base ? &bases[c->base] : NULL;
    if (part && !strstr(c->c.name, part))
      continue;
    uint64_t runs = fail_each(w, &c->c, base, kinds, error);
    printf("%-16s %-26s %4d calls failed\n", c->c.name, strerror(error),
           (int)runs);
    sum += runs;
  }
  test_count(error == ENOMEM ? "allocations failed" : "I/O calls failed", sum);
}
