/* SPDX-License-Identifier: MIT
**
** staleness_history.c -- eight parallel sessions on a bounded store with the
** least memory, in threads of one process; afterwards tests/lib/history.c
** decides whether their histories keep the bound, key by key.  Their work is
** in tests/lib/history_work.h; history_processes.c is the same with
** processes.
*/
#include "history_work.h"

enum { SESSIONS = HISTORY_WORKERS + HISTORY_OTHERS };

static struct history_shared shared;

/* Waits until the time is over; longer on a slow machine, but not
** indefinitely. */
static void watch(struct history_world *w, struct history_worker *workers,
                  unsigned ms) {
  struct history_watch watch = {{0}, {0}};
  const char *missing;
  for (unsigned t = 0;
       t < ms || (t < HISTORY_STILL_MS && !history_was_everywhere(w, &missing));
       t += HISTORY_LOOK_MS) {
    history_look(&watch, workers, SESSIONS);
    if (atomic_load(&test_state.failures) > 0)
      break;
  }
  (void)test_check(history_was_everywhere(w, &missing), __FILE__, __LINE__,
                   "%s is 0", missing);
  atomic_store(&w->shared->over, 1);
}

/* The leases still out match the pending reads; and once the sessions are
** closed, none is out. */
static void check_pending(struct history_world *w,
                          struct history_worker *workers, emb_session *s) {
  static uint32_t held[HISTORY_KEYS];
  memset(held, 0, sizeof held);
  for (int i = 0; i < HISTORY_WORKERS; i++)
    for (uint32_t h = 0; h < workers[i].held_n; h++)
      held[workers[i].held[h].key] += (uint32_t)workers[i].held[h].leases;
  (void)history_pending(s, held);
  for (int i = 0; i < HISTORY_WORKERS; i++)
    emb_session_close(workers[i].s);
  memset(held, 0, sizeof held);
  (void)history_pending(s, held);
  if (!getenv("SERVED")) /* they are another process's */
    CHECK_EQ_INT(help_stat(w->store, "sessions"), 3);
}

static int start(struct history_world *w, struct history_worker *workers) {
  int good = 1;
  for (uint32_t i = 0; good && i < SESSIONS; i++)
    good = history_start(&workers[i], w, i + 1,
                         i < HISTORY_WORKERS    ? history_work
                         : i == HISTORY_WORKERS ? history_keep
                                                : history_grow);
  return good;
}

static void judge(const struct history_world *w,
                  const struct history_worker *workers) {
  struct history histories[HISTORY_WORKERS + 1];
  for (int i = 0; i < HISTORY_WORKERS; i++)
    histories[i] = workers[i].history;
  histories[HISTORY_WORKERS] = workers[SESSIONS].history; /* the loader's */
  history_judge(histories, HISTORY_WORKERS + 1, w->bound);
}

static void run(uint32_t bound, int ordered, uint32_t io, unsigned ms) {
  struct history_world *w = calloc(1, sizeof *w);
  struct history_worker *workers = calloc(SESSIONS + 1, sizeof *workers);
  struct history_worker *me = &workers[SESSIONS];
  emb_config config = history_config(bound, ordered, io);
  if (!w || !workers ||
      !help_open(help_path("store"), &config, &w->store, &me->s))
    goto out;
  memset(&shared, 0, sizeof shared);
  w->shared = &shared;
  w->bound = bound;
  w->ordered = ordered;
  me->w = w;
  me->random = test_random();
  history_load(me);
  if (!start(w, workers))
    goto out;
  watch(w, workers, ms * help_long());
  for (int i = 0; i < SESSIONS; i++)
    history_join(&workers[i]);
  check_pending(w, workers, me->s);
  judge(w, workers);
  CHECK(help_verify(me->s));
  for (int i = HISTORY_WORKERS; i < SESSIONS; i++)
    emb_session_close(workers[i].s);
  help_close(w->store, me->s);
out:
  for (int i = 0; workers && i <= SESSIONS; i++)
    history_free(&workers[i].history);
  free(workers);
  free(w);
}

TEST(history_mixed_0) { run(0, 0, EMB_IO_AUTO, 400); }
TEST(history_mixed_1) { run(1, 0, EMB_IO_PREAD, 400); }
TEST(history_mixed_2) { run(2, 0, EMB_IO_AUTO, 400); }
TEST(history_mixed_8) { run(8, 0, EMB_IO_PREAD, 400); }
TEST(history_ordered_0) { run(0, 1, EMB_IO_AUTO, 400); }
TEST(history_ordered_1) { run(1, 1, EMB_IO_PREAD, 400); }
