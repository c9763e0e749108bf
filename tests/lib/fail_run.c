/* SPDX-License-Identifier: MIT
**
** fail_run.c -- runs of a body, the checks after each, and the loop over the
** calls that fail: see fail_help.h.
*/
#include "fail_help.h"

#include "stacks.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>

/* ---- directories --------------------------------------------------------- */

void fail_remove(const char *dir) {
  if (access(dir, F_OK) == 0)
    (void)nftw(dir, test_remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static int fail_copy_file(const char *from, const char *to) {
  int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT, 0666);
  ssize_t n = in < 0 || out < 0 ? -1 : 1;
  while (n > 0)
    n = copy_file_range(in, NULL, out, NULL, (size_t)1 << 30, 0);
  if (in >= 0)
    (void)close(in);
  if (out >= 0)
    (void)close(out);
  return CHECK(n == 0);
}

void fail_copy(const char *from, const char *to) {
  fail_remove(to);
  DIR *d = opendir(from);
  if (d == NULL)
    return; /* an absent directory gives an absent copy */
  (void)mkdir(to, 0777);
  for (struct dirent *e; (e = readdir(d)) != NULL;) {
    char a[700], b[700];
    (void)snprintf(a, sizeof a, "%s/%s", from, e->d_name);
    (void)snprintf(b, sizeof b, "%s/%s", to, e->d_name);
    if (e->d_name[0] == '.')
      continue;
    if (e->d_type == DT_DIR)
      fail_copy(a, b);
    else
      (void)fail_copy_file(a, b);
  }
  (void)closedir(d);
}

/* ---- after a run --------------------------------------------------------- */

/* Opens what is left, and compares. */
static void fail_reopen(struct fail *w) {
  w->flags &= ~(uint32_t)EMB_OPEN_EXCLUSIVE;
  if (!FAIL_CHECK(w, fail_open(w), "it does not open again"))
    return;
  if (w->destroyed && emb_count(w->s) == 0)
    fail_is_empty(w);
  fail_read(w, FAIL_PEEK, 0, FAIL_ALL, 1);
  for (int i = 1; i < FAIL_TXN && !w->stop; i++)
    FAIL_CHECK(w, w->now[FAIL_KEYS + i] == w->now[FAIL_KEYS],
               "a transaction is there in part: %" PRIx64 " and %" PRIx64,
               w->now[FAIL_KEYS], w->now[FAIL_KEYS + i]);
  fail_put(w, 0, 15, 70, 60);
  FAIL_CHECK(w, help_verify(w->s), "it does not verify");
  fail_read(w, FAIL_PEEK, 0, 15, 70);
  if (w->forgets)
    fail_counts(w);
}

/* The only failure was a write to the log that found no space: it is
** retried. */
static int fail_must_go_on(const struct fail *w) {
  return w->f.fired && w->whole && emb_is_owner(w->store) && !w->f.forever &&
         w->f.first == FAILING_QUEUE_WRITE && w->f.error == ENOSPC;
}

/* Some write to the log or manifest failed: nothing more is written. */
static int fail_must_refuse(const struct fail *w) {
  const char *path = w->f.first_path;
  size_t n = strlen(path);
  int log = n > 4 && strcmp(path + n - 4, "/log") == 0;
  int manifest = n > 9 && strcmp(path + n - 9, "/manifest") == 0;
  return w->f.fired && w->whole && emb_is_owner(w->store) &&
         ((w->f.first == FAILING_QUEUE_WRITE && w->f.error != ENOSPC) ||
          (w->f.first == FAILING_SYNC && (log || manifest)) ||
          (w->f.first == FAILING_WRITE && manifest));
}

static void fail_finish(struct fail *w, int crash) {
  char copy[400];
  (void)snprintf(copy, sizeof copy, "%s-copy", w->dir);
  fail_rollback(w);
  if (w->memory || !w->f.forever)
    failing_disarm(&w->f);
  if (w->s && !w->f.nth) {
    if (fail_must_refuse(w) && !emb_in_doubt(w->store)) {
      fail_fill(w, 0, 1, 1, 61);
      int rc = emb_put(w->s, w->keys, 1, w->vectors, NULL);
      FAIL_CHECK(w, rc == EMB_FAILED || rc == EMB_FULL,
                 "a write after the failure gave %d", rc);
      FAIL_CHECK(w, strstr(emb_errmsg(w->s), "until reopened") != NULL,
                 "a refused write says only: %s", emb_errmsg(w->s));
    }
    if (fail_must_go_on(w) && !emb_in_doubt(w->store)) {
      fail_fill(w, 0, 1, 1, 62);
      fail_may(w, 1, UINT64_C(1) << 62);
      int rc = emb_put(w->s, w->keys, 1, w->vectors, NULL);
      FAIL_CHECK(w, rc == EMB_OK, "with space a write gave %d: %s", rc,
                 emb_errmsg(w->s));
      fail_has(w, 1, UINT64_C(1) << 62);
      fail_checkpoint(w);
    }
    if (w->destroyed && emb_count(w->s) == 0)
      fail_is_empty(w); /* the call that asks may have failed */
    if (!emb_in_doubt(w->store)) {
      fail_read(w, FAIL_PEEK, 0, FAIL_ALL, 1);
      if (w->memory)
        FAIL_CHECK(w, help_verify(w->s), "it does not verify");
    }
  }
  if (crash)
    fail_copy(w->dir, copy);
  if (crash && !w->stop) {
    /* The close may have saved everything, but the copy shows what a kill
    ** leaves. */
    uint64_t after[FAIL_ALL], kept = w->kept, before = w->kept_before;
    memcpy(after, w->after, sizeof after);
    fail_close(w);
    w->kept = kept;
    w->kept_before = before;
    memcpy(w->after, after, sizeof after);
    memcpy(w->now, after, sizeof after);
    fail_remove(w->dir);
    if (access(copy, F_OK) == 0)
      (void)rename(copy, w->dir);
  } else {
    fail_close(w);
  }
  failing_disarm(&w->f);
  FAIL_CHECK(w, w->f.resyncs == 0, "a sync that failed was tried again");
  if (!w->stop && !(w->flags & EMB_OPEN_TEMPORARY)) {
    fail_reopen(w);
    fail_close(w);
  }
}

/* ---- the loop ------------------------------------------------------------ */

char fail_watched[200];
void fail_alarm(int signal) {
  (void)signal;
  (void)!write(1, "hangs: ", 7);
  (void)!write(1, fail_watched, strlen(fail_watched));
  (void)!write(1, "\n", 1);
  _exit(3);
}

/* One run; 1: the call to fail was reached. */
static int fail_run(struct fail *w, const struct fail_case *c,
                    const struct fail_base *base, uint32_t kinds, uint64_t n,
                    int forever, int error) {
  (void)snprintf(w->what, sizeof w->what, "%s, call %d%s, %s", c->name, (int)n,
                 forever ? " and all later" : "", strerror(error));
  (void)snprintf(fail_watched, sizeof fail_watched, "%s", w->what);
  (void)signal(SIGALRM, fail_alarm);
  (void)alarm(120);
  w->store = NULL;
  w->s = NULL;
  w->flags = c->flags;
  w->refused = w->stop = w->destroyed = w->forgets = 0;
  memset(w->mine, 0, sizeof w->mine);
  w->number = w->decided = 0;
  w->counted = w->counted_most = w->kept = w->kept_before = 0;
  fail_remove(w->dir);
  for (int i = 0; i < FAIL_ALL; i++)
    w->after[i] = FAIL_ABSENT;
  if (base) {
    fail_copy(base->dir, w->dir);
    memcpy(w->after, base->after, sizeof w->after);
    w->decided = base->decided;
  }
  memcpy(w->now, w->after, sizeof w->now);
  failing_init(&w->f, &env_posix, test_state.seed);
  failing_arm(&w->f, kinds, n, forever, error);
  env_set_default(&w->f.env);
  c->body(w);
  int came = w->f.fired > 0;
  fail_finish(w, (int)(n + (uint64_t)forever) & 1);
  env_set_default(&env_posix);
  failing_free(&w->f);
  (void)alarm(0);
  return came;
}

/* What fails in the runs of a body. */
struct fail_kind {
  struct fail *w;
  const struct fail_case *c;
  const struct fail_base *base;
  uint32_t kinds;
  int error;
};

static int fail_nth(void *arg, uint64_t n, int forever) {
  const struct fail_kind *k = arg;
  return fail_run(k->w, k->c, k->base, k->kinds, n, forever, k->error);
}

uint64_t fail_each(struct fail *w, const struct fail_case *c,
                   const struct fail_base *base, uint32_t kinds, int error) {
  struct fail_kind kind = {w, c, base, kinds, error};
  return stacks_each(c->name, 4, FAIL_STRIDE, fail_nth, &kind);
}
