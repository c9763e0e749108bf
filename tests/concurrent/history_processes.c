/* SPDX-License-Identifier: MIT
**
** history_processes.c -- the history of a bounded store that four processes
** use: one owns it, the others are its clients, and each has two sessions.
** Their work is in tests/lib/history_work.h, and tests/lib/history.c decides
** whether their combined history keeps the bound, key by key, as in
** staleness_history.c.
**
** The counter of calls and returns is in memory that the processes share, so
** it gives one order for all.  This process has a session as well: it loads
** the table, and at the end it looks how much is pending.  In between it
** stops one process or another for a moment, too briefly to make it an owner
** that does not answer.
**
** The processes are not forked, so that ThreadSanitizer sees the owner's
** threads that serve others.
*/
#include "history_work.h"
#include "process_help.h"

enum {
  PROCESSES = 4,
  SESSIONS = HISTORY_WORKERS / PROCESSES,
  STOPPED_MS_MAX = 20,
};

/* ---- one of the processes ------------------------------------------------ */

/* Writes what a process leaves of one session to a file. */
static int write_history(const char *path, const struct history_worker *k) {
  FILE *f = fopen(path, "wbe");
  int good = f && fwrite(&k->history.n, sizeof k->history.n, 1, f) == 1 &&
             fwrite(k->history.ops, sizeof *k->history.ops, k->history.n, f) ==
                 k->history.n &&
             fwrite(&k->held_n, sizeof k->held_n, 1, f) == 1 &&
             fwrite(k->held, sizeof *k->held, k->held_n, f) == k->held_n;
  return CHECK(f && fclose(f) == 0 && good);
}

static void path_of(char *to, size_t room, const char *dir, uint32_t number) {
  (void)snprintf(to, room, "%s/history-%u", dir, number);
}

/* The owner checkpoints; the last of its clients adds keys. */
static uint32_t start(struct history_worker *workers, struct history_world *w,
                      uint32_t number) {
  uint32_t n = 0;
  for (; n < SESSIONS; n++)
    if (!history_start(&workers[n], w, number * SESSIONS + n + 1, history_work))
      return n;
  if (number == 0)
    n += (uint32_t)history_start(&workers[n], w, HISTORY_WORKERS + 1,
                                 history_keep);
  if (number == PROCESSES - 1)
    n += (uint32_t)history_start(&workers[n], w, HISTORY_WORKERS + 2,
                                 history_grow);
  return n;
}

static void work(struct history_world *w, uint32_t number, const char *dir) {
  struct history_worker *workers = calloc(SESSIONS + 1, sizeof *workers);
  struct history_watch watch = {{0}, {0}};
  char path[600];
  if (!CHECK(workers != NULL))
    return;
  uint32_t n = start(workers, w, number);
  while (!atomic_load_explicit(&w->shared->over, memory_order_relaxed) &&
         !atomic_load_explicit(&test_state.failures, memory_order_relaxed))
    history_look(&watch, workers, n);
  atomic_store(&w->shared->over, 1); /* one that fails ends all */
  for (uint32_t i = 0; i < n; i++)
    history_join(&workers[i]);
  for (uint32_t i = 0; i < SESSIONS && i < n; i++) {
    path_of(path, sizeof path, dir, workers[i].number);
    (void)write_history(path, &workers[i]);
  }
  process_tell("over");
  CHECK(process_told("close"));
  for (uint32_t i = 0; i < n; i++) {
    emb_session_close(workers[i].s);
    history_free(&workers[i].history);
  }
  free(workers);
  process_tell("closed");
}

/* Arguments: number, directory, bound, ordered, io. */
PROCESS(member) {
  uint32_t number = (uint32_t)process_number(0);
  const char *dir = process_argument(1);
  char path[600];
  (void)snprintf(path, sizeof path, "%s/shared", dir);
  struct history_shared *shared = process_memory(path, sizeof *shared);
  struct history_world w = {.bound = (uint32_t)process_number(2),
                            .ordered = (int)process_number(3),
                            .shared = shared};
  emb_config config =
      history_config(w.bound, w.ordered, (uint32_t)process_number(4));
  emb_session *s;
  (void)snprintf(path, sizeof path, "%s/store", dir);
  if (!shared || !help_open(path, &config, &w.store, &s))
    return;
  history_clock_at(&shared->clock);
  if (number == 0)
    OK(s, emb_own(s));
  process_tell("open");
  if (CHECK(process_told("work")))
    work(&w, number, dir);
  (void)process_told("end");
  help_close(w.store, s);
  process_memory_end(shared, sizeof *shared);
}

/* ---- the test ------------------------------------------------------------ */

struct group {
  struct history_world w;
  emb_session *s;
  struct process members[PROCESSES];
  int started;
  struct history histories[HISTORY_WORKERS + 1];
  uint32_t held[HISTORY_KEYS];
};

static int all_say(struct group *g, const char *word, const char *answer) {
  int good = 1;
  for (int i = 0; word && i < g->started; i++)
    process_say(&g->members[i], word);
  for (int i = 0; i < g->started; i++)
    good &= process_hear(&g->members[i], answer);
  return good;
}

/* The first owns the store when the others open it. */
static int start_members(struct group *g, uint32_t io) {
  char number[16], bound[16], ordered[16], how[16];
  (void)snprintf(bound, sizeof bound, "%u", g->w.bound);
  (void)snprintf(ordered, sizeof ordered, "%d", g->w.ordered);
  (void)snprintf(how, sizeof how, "%u", io);
  for (int good = 1; good && g->started < PROCESSES; g->started += good) {
    (void)snprintf(number, sizeof number, "%d", g->started);
    struct process *p = &g->members[g->started];
    good = process_start(
        p, "member",
        (const char *[]){number, test_dir(), bound, ordered, how, NULL});
    if (!good || !process_hear(p, "open"))
      return 0;
  }
  return g->started == PROCESSES;
}

static void stop_one(const struct group *g) {
  const struct process *p = &g->members[test_random() % PROCESSES];
  process_stop(p);
  (void)usleep((useconds_t)(test_random() % (STOPPED_MS_MAX * 1000)));
  process_go_on(p);
}

static void wait_for_work(struct group *g, unsigned ms) {
  const char *missing;
  for (unsigned t = 0; t < ms || (t < HISTORY_STILL_MS &&
                                  !history_was_everywhere(&g->w, &missing));
       t += HISTORY_LOOK_MS) {
    (void)usleep(HISTORY_LOOK_MS * 1000);
    stop_one(g);
    if (atomic_load(&g->w.shared->over))
      break;
  }
  (void)test_check(history_was_everywhere(&g->w, &missing), __FILE__, __LINE__,
                   "%s is 0", missing);
  atomic_store(&g->w.shared->over, 1);
}

static int read_history(struct group *g, uint32_t number) {
  struct history *h = &g->histories[number - 1];
  struct history_held held[HISTORY_HELD + 3 * HISTORY_BATCH];
  uint32_t held_n = 0;
  char path[600];
  path_of(path, sizeof path, test_dir(), number);
  FILE *f = fopen(path, "rbe");
  int good = f && fread(&h->n, sizeof h->n, 1, f) == 1;
  h->ops = good ? malloc((h->n + 1) * sizeof *h->ops) : NULL;
  good = h->ops && fread(h->ops, sizeof *h->ops, h->n, f) == h->n &&
         fread(&held_n, sizeof held_n, 1, f) == 1 &&
         held_n <= sizeof held / sizeof *held &&
         fread(held, sizeof *held, held_n, f) == held_n;
  for (uint32_t i = 0; good && i < held_n; i++)
    g->held[held[i].key] += (uint32_t)held[i].leases;
  if (f)
    (void)fclose(f);
  return CHECK(good);
}

/* The leases still out match the pending reads, and closed sessions have none
** out, whichever process had them. */
static void judge(struct group *g) {
  int good = 1;
  for (uint32_t i = 1; i <= HISTORY_WORKERS; i++)
    good = good && read_history(g, i);
  good = good && history_pending(g->s, g->held);
  memset(g->held, 0, sizeof g->held);
  good = all_say(g, "close", "closed") && good &&
         history_pending(g->s, g->held) && help_verify(g->s);
  if (good)
    history_judge(g->histories, HISTORY_WORKERS + 1, g->w.bound);
}

static void use(struct group *g, emb_config *config, unsigned ms) {
  struct history_worker *me = calloc(1, sizeof *me);
  if (CHECK(me != NULL) &&
      help_open(help_path("store"), config, &g->w.store, &g->s)) {
    me->w = &g->w;
    me->s = g->s;
    me->random = test_random();
    history_load(me);
    g->histories[HISTORY_WORKERS] = me->history;
    CHECK(emb_is_owner(g->w.store)); /* of another process */
    for (int i = 0; i < g->started; i++)
      process_say(&g->members[i], "work");
    wait_for_work(g, ms);
    if (all_say(g, NULL, "over"))
      judge(g);
    help_close(g->w.store, g->s);
  }
  free(me);
}

static void run(uint32_t bound, int ordered, uint32_t io, unsigned ms) {
  struct group *g = calloc(1, sizeof *g);
  if (!CHECK(g != NULL))
    return;
  struct history_shared *shared =
      process_memory(help_path("shared"), sizeof *shared);
  g->w = (struct history_world){
      .bound = bound, .ordered = ordered, .shared = shared};
  if (shared) {
    emb_config config = history_config(bound, ordered, io);
    history_clock_at(&shared->clock);
    if (start_members(g, io))
      use(g, &config, ms * help_long());
    for (int i = g->started - 1; i >= 0; i--) /* the owner last */
      process_end(&g->members[i]);
  }
  history_clock_at(NULL);
  process_memory_end(shared, sizeof *shared);
  for (int i = 0; i <= HISTORY_WORKERS; i++)
    history_free(&g->histories[i]);
  free(g);
}

TEST(history_mixed_0) { run(0, 0, EMB_IO_AUTO, 400); }
TEST(history_mixed_1) { run(1, 0, EMB_IO_PREAD, 400); }
TEST(history_mixed_2) { run(2, 0, EMB_IO_AUTO, 400); }
TEST(history_mixed_8) { run(8, 0, EMB_IO_PREAD, 400); }
TEST(history_ordered_0) { run(0, 1, EMB_IO_AUTO, 400); }
TEST(history_ordered_1) { run(1, 1, EMB_IO_PREAD, 400); }
