/* SPDX-License-Identifier: MIT
**
** fail_help.h -- a workload over emb.h in which calls of the env are failed,
** and an oracle that knows what may be left.
**
** BODY      A function that works on a store: each public call goes through
**           one of the operations below, which says beforehand what may
**           happen and checks the outcome.  A body goes on after an error.
** ORACLE    For each key two sets of values, as bits: `now`, what a read may
**           give, and `after`, what may be there when the store is opened
**           again.  Bit 0: the key is absent.  A write that failed may have
**           happened or not, so its value is added; one that succeeded is
**           the only value.  A checkpoint, or a commit after a prepare, makes
**           `after` the same as `now`.  Keys of transactions change together.
** LOOP      fail_each runs a body from a copy of a prepared directory, once
**           for each call that can be failed, until a run is over before its
**           turn came.  Without LONG, failures that last are tried for one
**           call in FAIL_STRIDE only.
** AFTER     a run: reads go on; writes are refused if the log or the manifest
**           could not be written; closing gives everything back to the env;
**           the store, or a copy of its files made before the close, as a
**           kill would leave them, opens, has nothing but what may be there,
**           verifies, and takes writes.
*/
#ifndef EMB_FAIL_HELP_H
#define EMB_FAIL_HELP_H

#include "store_help.h"

#include <fcntl.h>
#include <signal.h>

#include "../../engine/store/registry.h"
#include "../lib/failing.h"
#include "seen_help.h"

/* A record fills a page, 64 an extent; 1024 fit into the least memory. */
enum {
  FAIL_DIM = 1000,
  FAIL_KEYS = 1150, /* of immediate writes */
  FAIL_TXN = 24,    /* of transactions, above the others */
  FAIL_ALL = FAIL_KEYS + FAIL_TXN,
  FAIL_SAVES = 4,
  FAIL_STRIDE = 5,
  FAIL_CAPACITY = 1000,
};
#define FAIL_ABSENT UINT64_C(1)

struct fail {
  struct failing f;
  char dir[300];
  uint32_t flags; /* of emb_open, beside CREATE */
  int memory;     /* memory fails: nothing else is affected */
  uint32_t codes; /* bits of the codes that a call may give */

  emb_store *store;
  emb_session *s;
  uint64_t now[FAIL_ALL], after[FAIL_ALL];
  uint64_t mine[FAIL_TXN]; /* as the open transaction sees it; 0: as now */
  uint64_t saves[FAIL_SAVES][FAIL_TXN];
  int saved[FAIL_SAVES];
  uint64_t number, decided; /* prepared now; newest that was committed */
  int destroyed;            /* the store may be gone as a whole */
  int forgets;              /* any row may have been evicted, or expired */
  uint64_t counted, counted_most; /* a key that is no row came so often, */
  uint64_t kept; /* and so often at least for who opens the store again */
  int refused;   /* some call has failed */
  int whole;     /* nothing had failed when the store was opened */
  int stop;      /* a check failed: the rest would only repeat it */

  int64_t keys[FAIL_ALL];
  uint8_t found[FAIL_ALL];
  float *vectors; /* FAIL_ALL rows */
  char what[200]; /* the run, for messages */
};

/* ---- outcomes ------------------------------------------------------------ */

#define FAIL_CHECK(w_, holds_, ...)                                            \
  fail_check((w_), (holds_) ? 1 : 0, __LINE__, __VA_ARGS__)

__attribute__((format(printf, 4, 5))) static inline int
fail_check(struct fail *w, int holds, int line, const char *format, ...) {
  if (holds)
    return 1;
  char text[700];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(text, sizeof text, format, args);
  va_end(args);
  w->stop = 1;
  return test_check(0, __FILE__, line, "%s: %s (first failed: %s %s)", w->what,
                    text, w->f.fired ? failing_name(w->f.first) : "nothing",
                    w->f.first_path);
}

/* The result of a public call: 1 for success.  An error needs a cause, one of
** the expected codes, and a text; NULL for a call that gives none. */
static inline int fail_did(struct fail *w, int rc, const char *text,
                           const char *call) {
  if (rc == EMB_OK)
    return 1;
  int first = !w->refused;
  w->refused = 1;
  FAIL_CHECK(w, w->f.fired > 0, "%s gave %d without a cause: %s", call, rc,
             text ? text : "");
  FAIL_CHECK(w, rc > 0 && rc < 32 && (w->codes >> rc & 1), "%s gave %d: %s",
             call, rc, text ? text : "");
  if (text == NULL)
    return 0;
  FAIL_CHECK(w, text[0] != '\0', "%s gave %d without a text", call, rc);
  if (first && rc != EMB_NOMEM && rc != EMB_FAILED && rc != EMB_FULL)
    FAIL_CHECK(w, strstr(text, strerror(w->f.error)) != NULL,
               "%s does not say why: %s", call, text);
  if (rc != EMB_NOMEM)
    FAIL_CHECK(w,
               strstr(text, "log") || strstr(text, w->dir) ||
                   strstr(text, "disk access") || strstr(text, "random"),
               "%s does not say where: %s", call, text);
  return 0;
}

/* A call of the session.  When memory failed once, the next try works. */
#define FAIL_TRY(w_, call_)                                                    \
  (fail_did((w_), (call_), emb_errmsg((w_)->s), #call_) ||                     \
   ((w_)->memory && !(w_)->f.forever &&                                        \
    FAIL_CHECK((w_), (call_) == EMB_OK, "a second %s: %s", #call_,             \
               emb_errmsg((w_)->s))))

/* ---- opening and closing ------------------------------------------------- */

static inline emb_config fail_config(const struct fail *w) {
  return (emb_config){.dim = FAIL_DIM,
                      .type = EMB_F32,
                      .flags = w->flags | EMB_OPEN_CREATE,
                      .memory_bytes = 1,
                      .timeout_ms = 50,
                      .capacity = w->forgets ? FAIL_CAPACITY : 0,
                      .ttl = w->forgets ? "1h" : NULL,
                      .admission = w->forgets ? SEEN_RULE : NULL,
                      .insert_on = w->forgets ? EMB_INSERT_ON_UPDATE : 0,
                      .staleness = 3};
}

/* A transaction in doubt is decided as its coordinator has noted. */
static inline int fail_resolve(struct fail *w) {
  emb_err err = {0, ""};
  uint64_t number = emb_in_doubt(w->store);
  if (number == 0)
    return 1;
  int rc = emb_resolve(w->store, number <= w->decided, &err);
  if (rc && w->memory && !w->f.forever)
    rc = emb_resolve(w->store, number <= w->decided, &err);
  return fail_did(w, rc, err.text, "emb_resolve");
}

static inline int fail_open(struct fail *w) {
  emb_config config = fail_config(w);
  emb_err err = {0, ""};
  for (int tries = 0; tries < 2 && !w->s; tries++) {
    int rc = w->store ? EMB_OK : emb_open(w->dir, &config, &w->store, &err);
    if (!fail_did(w, rc, err.text, "emb_open"))
      continue;
    w->whole = w->f.fired == 0;
    rc = emb_session_open(w->store, &w->s, &err);
    (void)fail_did(w, rc, err.text, "emb_session_open");
  }
  return w->s != NULL && fail_resolve(w);
}

static inline void fail_close(struct fail *w) {
  emb_err err = {0, ""};
  emb_session_close(w->s);
  int owner = w->store && emb_is_owner(w->store);
  int rc = emb_close(w->store, &err);
  if (fail_did(w, rc, err.text, "emb_close") && owner) {
    memcpy(w->after, w->now, sizeof w->after);
    w->kept = w->counted;
  }
  memcpy(w->now, w->after, sizeof w->now);
  w->store = NULL;
  w->s = NULL;
  FAIL_CHECK(w, failing_out(&w->f) == 0,
             "left: %d files, %d locks, %d queues, %d threads, %d blocks",
             (int)w->f.files, (int)w->f.locks, (int)w->f.queues,
             (int)w->f.threads, (int)w->f.blocks);
}

/* There is no key, and there was none. */
static inline void fail_is_empty(struct fail *w) {
  for (int i = 0; i < FAIL_ALL; i++)
    w->now[i] = w->after[i] = FAIL_ABSENT;
}

/* ---- operations ---------------------------------------------------------- */

static inline void fail_fill(struct fail *w, int from, int n, int stride,
                             int32_t value) {
  for (int i = 0; i < n; i++) {
    w->keys[i] = from + i * stride;
    help_vector(w->vectors + (size_t)i * FAIL_DIM, FAIL_DIM, w->keys[i], value);
  }
}

/* The n keys that were filled in may get these values, or have got them. */
static inline void fail_may(struct fail *w, int n, uint64_t bits) {
  for (int i = 0; i < n; i++) {
    w->now[w->keys[i]] |= bits;
    w->after[w->keys[i]] |= bits;
  }
}
static inline void fail_has(struct fail *w, int n, uint64_t bits) {
  for (int i = 0; i < n; i++)
    w->now[w->keys[i]] = bits;
}

static inline void fail_put(struct fail *w, int from, int n, int stride,
                            int32_t value) {
  if (!w->s)
    return;
  fail_fill(w, from, n, stride, value);
  fail_may(w, n, UINT64_C(1) << value);
  if (FAIL_TRY(w, emb_put(w->s, w->keys, (size_t)n, w->vectors, NULL)))
    fail_has(w, n, UINT64_C(1) << value);
}

static inline void fail_write_back(struct fail *w, int from, int n, int stride,
                                   int32_t value) {
  uint64_t ticket;
  if (!w->s)
    return;
  fail_fill(w, from, n, stride, value);
  fail_may(w, n, UINT64_C(1) << value);
  if (FAIL_TRY(w,
               emb_write_back(w->s, w->keys, (size_t)n, w->vectors, &ticket)) &&
      fail_did(w, emb_write_back_synchronize(w->s, ticket, NULL),
               emb_errmsg(w->s), "emb_write_back_synchronize"))
    fail_has(w, n, UINT64_C(1) << value);
}

static inline void fail_delete(struct fail *w, int from, int n, int stride) {
  if (!w->s)
    return;
  fail_fill(w, from, n, stride, 1);
  fail_may(w, n, FAIL_ABSENT);
  if (FAIL_TRY(w, emb_delete(w->s, w->keys, (size_t)n, w->found)))
    fail_has(w, n, FAIL_ABSENT);
}

/* Adds 1 to each element: the value becomes the next one. */
static inline void fail_rmw(struct fail *w, int from, int n, int stride) {
  if (!w->s)
    return;
  fail_fill(w, from, n, stride, 1);
  for (size_t i = 0; i < (size_t)n * FAIL_DIM; i++)
    w->vectors[i] = 1;
  uint64_t next[FAIL_ALL];
  for (int i = 0; i < n; i++) {
    uint64_t now = w->now[w->keys[i]];
    next[i] = (now & FAIL_ABSENT) | (now & ~FAIL_ABSENT) << 1;
    w->now[w->keys[i]] |= next[i];
    w->after[w->keys[i]] |= next[i];
  }
  /* Not tried twice: it may have been done for some keys. */
  if (fail_did(w, emb_rmw(w->s, w->keys, (size_t)n, w->vectors, NULL, NULL),
               emb_errmsg(w->s), "emb_rmw"))
    for (int i = 0; i < n; i++)
      w->now[w->keys[i]] = next[i];
}

/* The rows that a read gave are what may be there; from now on they are it. */
static inline void fail_saw(struct fail *w, int n) {
  for (int i = 0; i < n && !w->stop; i++) {
    int64_t key = w->keys[i];
    const float *row = w->vectors + (size_t)i * FAIL_DIM;
    int32_t value = w->found[i] ? help_value(row, FAIL_DIM, key) : 0;
    uint64_t *now = key >= FAIL_KEYS && w->mine[key - FAIL_KEYS]
                        ? &w->mine[key - FAIL_KEYS]
                        : &w->now[key];
    if (w->forgets)
      *now |= FAIL_ABSENT;
    if (FAIL_CHECK(w, value >= 0 && value < 64 && (*now >> value & 1),
                   "key %d has %d, which is not in %" PRIx64, (int)key, value,
                   *now))
      *now = UINT64_C(1) << value;
  }
}

enum { FAIL_GET, FAIL_PEEK, FAIL_PREFETCH };

static inline void fail_read(struct fail *w, int how, int from, int n,
                             int stride) {
  uint64_t ticket;
  if (!w->s)
    return;
  fail_fill(w, from, n, stride, 0);
  memset(w->vectors, 0x5a, (size_t)n * FAIL_DIM * sizeof *w->vectors);
  int got = how == FAIL_GET ? FAIL_TRY(w, emb_get(w->s, w->keys, (size_t)n,
                                                  w->vectors, w->found, NULL))
            : how == FAIL_PEEK
                ? FAIL_TRY(w, emb_peek(w->s, w->keys, (size_t)n, w->vectors,
                                       w->found, NULL))
                : FAIL_TRY(w, emb_prefetch(w->s, w->keys, (size_t)n, w->vectors,
                                           w->found, NULL, &ticket)) &&
                      fail_did(w, emb_prefetch_synchronize(w->s, ticket, NULL),
                               emb_errmsg(w->s), "emb_prefetch_synchronize");
  if (got)
    fail_saw(w, n);
  (void)emb_release(w->s);
}

static inline void fail_checkpoint(struct fail *w) {
  if (w->s && FAIL_TRY(w, emb_checkpoint(w->s))) {
    memcpy(w->after, w->now, sizeof w->after);
    w->kept = w->counted;
  }
}

static inline void fail_optimize(struct fail *w) {
  if (w->s && FAIL_TRY(w, emb_optimize(w->s)))
    memcpy(w->after, w->now, sizeof w->after);
}

/* A key that stays out comes n times.  What failed may have been counted. */
static inline void fail_count(struct fail *w, int n) {
  for (int i = 0; w->s && i < n; i++) {
    fail_fill(w, FAIL_ALL, 1, 1, 0);
    w->counted_most++;
    w->counted +=
        (uint64_t)fail_did(w, emb_rmw(w->s, w->keys, 1, w->vectors, NULL, NULL),
                           emb_errmsg(w->s), "emb_rmw");
  }
}

/* What was counted is what it was at a checkpoint, or nothing if the file could
** not be read. */
static inline void fail_counts(struct fail *w) {
  const char *name = strrchr(w->f.first_path, '/');
  int unread = w->f.fired &&
               (w->f.forever || (name && strcmp(name, "/" SEEN_NAME) == 0));
  uint64_t is = seen_times(w->store, FAIL_ALL);
  FAIL_CHECK(w, (is >= w->kept || (unread && is == 0)) && is <= w->counted_most,
             "%" PRIu64 " occurrences are known, of %" PRIu64 " to %" PRIu64,
             is, w->kept, w->counted_most);
  w->counted = w->kept = is;
}

/* Background work until there is none, at most n pieces.  It has no text. */
static inline void fail_step(struct fail *w, int n) {
  int more = 1;
  for (int i = 0; i < n && more && w->store; i++)
    if (!fail_did(w, emb_step(w->store, &more), NULL, "emb_step"))
      more = !w->f.forever;
}

/* ---- transactions: all of their keys, with one value --------------------- */

static inline int fail_begin(struct fail *w) {
  memset(w->mine, 0, sizeof w->mine);
  w->number = 0;
  return w->s && FAIL_TRY(w, emb_begin(w->s));
}

static inline void fail_txn_write(struct fail *w, int from, int n,
                                  int32_t value) {
  if (!w->s || !emb_in_transaction(w->s))
    return;
  fail_fill(w, FAIL_KEYS + from, n, 1, value);
  int done =
      value ? FAIL_TRY(w, emb_txn_put(w->s, w->keys, (size_t)n, w->vectors))
            : FAIL_TRY(w, emb_txn_delete(w->s, w->keys, (size_t)n, NULL));
  for (int i = 0; done && i < n; i++)
    w->mine[from + i] = UINT64_C(1) << value;
}

static inline void fail_savepoint(struct fail *w, int number) {
  w->saved[number] = w->s && emb_in_transaction(w->s) &&
                     FAIL_TRY(w, emb_savepoint(w->s, number));
  if (w->saved[number])
    memcpy(w->saves[number], w->mine, sizeof w->mine);
}

/* Of a savepoint that was made. */
static inline void fail_rollback_to(struct fail *w, int number) {
  if (w->saved[number] && w->s && emb_in_transaction(w->s) &&
      FAIL_TRY(w, emb_rollback_to(w->s, number)))
    memcpy(w->mine, w->saves[number], sizeof w->mine);
}

static inline void fail_prepare(struct fail *w) {
  if (w->s && emb_in_transaction(w->s) &&
      FAIL_TRY(w, emb_prepare(w->s, &w->number)) && w->number)
    memcpy(w->after, w->now, sizeof w->after);
}

static inline void fail_commit(struct fail *w) {
  if (!w->s || !emb_in_transaction(w->s))
    return;
  uint64_t was = w->decided;
  if (w->number) /* the coordinator notes it first */
    w->decided = w->number;
  int done = FAIL_TRY(w, emb_commit(w->s));
  if (w->number)
    FAIL_CHECK(w, done, "a prepared transaction cannot be committed: %s",
               emb_errmsg(w->s));
  else
    w->decided = was;
  for (int i = 0; i < FAIL_TXN; i++) {
    uint64_t *now = &w->now[FAIL_KEYS + i], *after = &w->after[FAIL_KEYS + i];
    if (w->mine[i] && done)
      *now = w->mine[i];
    *after = done && w->number ? *now : *after | *now | w->mine[i];
  }
  if (!done)
    emb_rollback(w->s);
  memset(w->mine, 0, sizeof w->mine);
  w->number = 0;
}

static inline void fail_rollback(struct fail *w) {
  if (w->s && emb_in_transaction(w->s))
    emb_rollback(w->s);
  memset(w->mine, 0, sizeof w->mine);
  w->number = 0;
}

/* ---- directories --------------------------------------------------------- */

static inline void fail_remove(const char *dir) {
  if (access(dir, F_OK) == 0)
    (void)nftw(dir, test_remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static inline int fail_copy_file(const char *from, const char *to) {
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

/* A directory as a kill would leave it now. */
static inline void fail_copy(const char *from, const char *to) {
  fail_remove(to);
  DIR *d = opendir(from);
  if (d == NULL)
    return; /* an absent one gives an absent one */
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
static inline void fail_reopen(struct fail *w) {
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

/* Some write to the log or manifest has failed: nothing more is written. */
static inline int fail_must_refuse(const struct fail *w) {
  const char *path = w->f.first_path;
  size_t n = strlen(path);
  int log = n > 4 && strcmp(path + n - 4, "/log") == 0;
  int manifest = n > 9 && strcmp(path + n - 9, "/manifest") == 0;
  return w->f.fired && w->whole && emb_is_owner(w->store) &&
         (w->f.first == FAILING_QUEUE_WRITE ||
          (w->f.first == FAILING_SYNC && (log || manifest)) ||
          (w->f.first == FAILING_WRITE && manifest));
}

static inline void fail_finish(struct fail *w, int crash) {
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
    if (!emb_in_doubt(w->store)) {
      fail_read(w, FAIL_PEEK, 0, FAIL_ALL, 1);
      if (w->memory)
        FAIL_CHECK(w, help_verify(w->s), "it does not verify");
    }
  }
  if (crash)
    fail_copy(w->dir, copy);
  if (crash && !w->stop) {
    /* What is closed now may be whole, but what a kill left counts. */
    uint64_t after[FAIL_ALL], kept = w->kept;
    memcpy(after, w->after, sizeof after);
    fail_close(w);
    w->kept = kept;
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

struct fail_case {
  const char *name;
  void (*body)(struct fail *);
  uint32_t flags;
};

struct fail_base { /* a prepared directory, and what is in it */
  char dir[320];
  uint64_t after[FAIL_ALL];
  uint64_t decided;
};

static char fail_watched[200];
static inline void fail_alarm(int signal) {
  (void)signal;
  (void)!write(1, "hangs: ", 7);
  (void)!write(1, fail_watched, strlen(fail_watched));
  (void)!write(1, "\n", 1);
  _exit(3);
}

/* One run; 1: its turn came. */
static inline int fail_run(struct fail *w, const struct fail_case *c,
                           const struct fail_base *base, uint32_t kinds,
                           uint64_t n, int forever, int error) {
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
  w->counted = w->counted_most = w->kept = 0;
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
  registry_set_env(&w->f.env);
  c->body(w);
  int came = w->f.fired > 0;
  fail_finish(w, (int)(n + (uint64_t)forever) & 1);
  registry_set_env(&env_posix);
  failing_free(&w->f);
  (void)alarm(0);
  return came;
}

/* Fails calls of these kinds in turn: one in `stride`, which the seed chooses.
** Returns how many. */
static inline int fail_each(struct fail *w, const struct fail_case *c,
                            const struct fail_base *base, uint32_t kinds,
                            int forever, int error, unsigned stride) {
  int runs = 0;
  uint64_t n = 1 + test_random() % stride;
  for (; fail_run(w, c, base, kinds, n, forever, error) &&
         test_state.failures < TEST_PRINT_MAX;
       n += stride)
    runs++;
  return runs;
}

#endif
