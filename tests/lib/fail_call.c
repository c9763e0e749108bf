/* SPDX-License-Identifier: MIT
**
** fail_call.c -- the operations of fail_help.h: public calls, and their
** possible outcomes.
*/
#include "fail_help.h"

/* ---- outcomes ------------------------------------------------------------ */

int fail_check(struct fail *w, int holds, int line, const char *format, ...) {
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

int fail_did(struct fail *w, int rc, const char *text, const char *call) {
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

/* ---- opening and closing ------------------------------------------------- */

static emb_config fail_config(const struct fail *w) {
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

/* Decides a transaction in doubt as its coordinator has noted. */
static int fail_resolve(struct fail *w) {
  emb_err err = {0, ""};
  uint64_t number = emb_in_doubt(w->store);
  if (number == 0)
    return 1;
  int rc =
      emb_resolve(w->store, emb_in_doubt(w->store), number <= w->decided, &err);
  if (rc && w->memory && !w->f.forever)
    rc = emb_resolve(w->store, emb_in_doubt(w->store), number <= w->decided,
                     &err);
  return fail_did(w, rc, err.text, "emb_resolve");
}

int fail_open(struct fail *w) {
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

/* A checkpoint was taken: the present rows stay. */
static void keep_all(struct fail *w) {
  memcpy(w->after, w->now, sizeof w->after);
  w->kept = w->counted;
  if (w->f.fired == 0)
    w->kept_before = w->counted;
}

void fail_close(struct fail *w) {
  emb_err err = {0, ""};
  emb_session_close(w->s);
  int owner = w->store && emb_is_owner(w->store);
  int rc = emb_close(w->store, &err);
  if (fail_did(w, rc, err.text, "emb_close") && owner)
    keep_all(w);
  memcpy(w->now, w->after, sizeof w->now);
  w->store = NULL;
  w->s = NULL;
  FAIL_CHECK(w, failing_out(&w->f) == 0,
             "left: %d files, %d locks, %d queues, %d threads, %d blocks",
             (int)w->f.files, (int)w->f.locks, (int)w->f.queues,
             (int)w->f.threads, (int)w->f.blocks);
}

void fail_is_empty(struct fail *w) {
  for (int i = 0; i < FAIL_ALL; i++)
    w->now[i] = w->after[i] = FAIL_ABSENT;
}

/* ---- operations ---------------------------------------------------------- */

void fail_fill(struct fail *w, int from, int n, int stride, int32_t value) {
  for (int i = 0; i < n; i++) {
    w->keys[i] = from + i * stride;
    help_vector(w->vectors + (size_t)i * FAIL_DIM, FAIL_DIM, w->keys[i], value);
  }
}

void fail_may(struct fail *w, int n, uint64_t bits) {
  for (int i = 0; i < n; i++) {
    w->now[w->keys[i]] |= bits;
    w->after[w->keys[i]] |= bits;
  }
}

void fail_has(struct fail *w, int n, uint64_t bits) {
  for (int i = 0; i < n; i++)
    w->now[w->keys[i]] = bits;
}

void fail_put(struct fail *w, int from, int n, int stride, int32_t value) {
  if (!w->s)
    return;
  fail_fill(w, from, n, stride, value);
  fail_may(w, n, UINT64_C(1) << value);
  if (FAIL_TRY(w, emb_put(w->s, w->keys, (size_t)n, w->vectors, NULL)))
    fail_has(w, n, UINT64_C(1) << value);
}

void fail_write_back(struct fail *w, int from, int n, int stride,
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

void fail_delete(struct fail *w, int from, int n, int stride) {
  if (!w->s)
    return;
  fail_fill(w, from, n, stride, 1);
  fail_may(w, n, FAIL_ABSENT);
  if (FAIL_TRY(w, emb_delete(w->s, w->keys, (size_t)n, w->found)))
    fail_has(w, n, FAIL_ABSENT);
}

void fail_rmw(struct fail *w, int from, int n, int stride) {
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

void fail_saw(struct fail *w, int n) {
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

void fail_read(struct fail *w, int how, int from, int n, int stride) {
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
                : FAIL_TRY(w, emb_prefetch(w->s, w->keys, (size_t)n,
                                           &(emb_rows){.vectors = w->vectors,
                                                       .found = w->found},
                                           &ticket)) &&
                      fail_did(w, emb_prefetch_synchronize(w->s, ticket, NULL),
                               emb_errmsg(w->s), "emb_prefetch_synchronize");
  if (got)
    fail_saw(w, n);
  (void)emb_release(w->s);
}

void fail_checkpoint(struct fail *w) {
  if (w->s && FAIL_TRY(w, emb_checkpoint(w->s)))
    keep_all(w);
}

void fail_optimize(struct fail *w) {
  if (w->s && FAIL_TRY(w, emb_optimize(w->s)))
    memcpy(w->after, w->now, sizeof w->after);
}

void fail_count(struct fail *w, int n) {
  for (int i = 0; w->s && i < n; i++) {
    fail_fill(w, FAIL_ALL, 1, 1, 0);
    w->counted_most++;
    w->counted +=
        (uint64_t)fail_did(w, emb_rmw(w->s, w->keys, 1, w->vectors, NULL, NULL),
                           emb_errmsg(w->s), "emb_rmw");
  }
}

void fail_counts(struct fail *w) {
  const char *name = strrchr(w->f.first_path, '/');
  /* After a run with a lasting failure the store is opened on a sound
  ** machine. */
  int unread = w->f.fired && ((w->f.forever && w->f.nth) ||
                              (name && strcmp(name, "/" SEEN_NAME) == 0));
  int unwritten = w->f.fired && w->f.error == ENOSPC &&
                  (w->f.forever || (name && strcmp(name, "/" SEEN_NEW) == 0));
  uint64_t is = seen_times(w->store, FAIL_ALL);
  FAIL_CHECK(
      w,
      (is >= (unwritten ? w->kept_before : w->kept) || (unread && is == 0)) &&
          is <= w->counted_most,
      "%" PRIu64 " occurrences are known, of %" PRIu64 " to %" PRIu64, is,
      unwritten ? w->kept_before : w->kept, w->counted_most);
  w->counted = w->kept = w->kept_before = is;
}

void fail_step(struct fail *w, int n) {
  int more = 1;
  for (int i = 0; i < n && more && w->store; i++)
    if (!fail_did(w, emb_step(w->store, &more), NULL, "emb_step"))
      more = !w->f.forever;
}

/* ---- transactions: all of their keys, with one value --------------------- */

int fail_begin(struct fail *w) {
  memset(w->mine, 0, sizeof w->mine);
  w->number = 0;
  return w->s && FAIL_TRY(w, emb_begin(w->s));
}

void fail_txn_write(struct fail *w, int from, int n, int32_t value) {
  if (!w->s || !emb_in_transaction(w->s))
    return;
  fail_fill(w, FAIL_KEYS + from, n, 1, value);
  int done =
      value ? FAIL_TRY(w, emb_txn_put(w->s, w->keys, (size_t)n, w->vectors))
            : FAIL_TRY(w, emb_txn_delete(w->s, w->keys, (size_t)n, NULL));
  for (int i = 0; done && i < n; i++)
    w->mine[from + i] = UINT64_C(1) << value;
}

void fail_savepoint(struct fail *w, int number) {
  w->saved[number] = w->s && emb_in_transaction(w->s) &&
                     FAIL_TRY(w, emb_savepoint(w->s, number));
  if (w->saved[number])
    memcpy(w->saves[number], w->mine, sizeof w->mine);
}

void fail_rollback_to(struct fail *w, int number) {
  if (w->saved[number] && w->s && emb_in_transaction(w->s) &&
      FAIL_TRY(w, emb_rollback_to(w->s, number)))
    memcpy(w->mine, w->saves[number], sizeof w->mine);
}

void fail_prepare(struct fail *w) {
  if (w->s && emb_in_transaction(w->s) &&
      FAIL_TRY(w, emb_prepare(w->s, &w->number)) && w->number)
    memcpy(w->after, w->now, sizeof w->after);
}

void fail_commit(struct fail *w) {
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

void fail_rollback(struct fail *w) {
  if (w->s && emb_in_transaction(w->s))
    emb_rollback(w->s);
  memset(w->mine, 0, sizeof w->mine);
  w->number = 0;
}
