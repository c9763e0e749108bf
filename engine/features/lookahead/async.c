/* SPDX-License-Identifier: MIT
**
** async.c -- background batches, after CAM: synchronize the last batch, start
** the next, compute.  README.md has the steps.
**
** INVARIANT P1  A running prefetch has counted all its keys, or none: if a key
**               was at its staleness bound (job->blocked), the counts are given
**               back before emb_prefetch returns, so that no session waits for
**               a batch that is itself waiting.  Synchronizing such a batch
**               counts it, waiting where it must, and reads it again, as
**               emb_get would.
**           P2  job->counted records, row by row, what a prefetch has counted.
**               The session's leases do not: each knows only the newest call
**               for its key, and while a batch is running the session gets and
**               puts the same keys.  So after emb_prefetch has returned,
**               job->counted decides what a batch gives back.
*/
#include "async.h"

#include <string.h>

#include "engine/table/bound/bound.h"
#include "engine/table/owner/own.h"
#include "engine/table/rows/get.h"
#include "engine/table/rows/put.h"
#include "engine/table/rows/rmw.h"

static void add_ticket(emb_session *s, struct job *job, uint64_t *ticket) {
  struct job **at = &s->tickets.first;
  while (*at) {
    at = &(*at)->sibling;
  }
  *at = job;
  atomic_fetch_add(&s->store->sessions.tickets, 1);
  job->number = ++s->tickets.last;
  job->returned_us = s->core->env->now_us(s->core->env);
  emb_check(async_tickets_valid(s));
  *ticket = job->number;
}

/* Removes the ticket of this kind (0: the oldest) from the list and returns its
** job, or NULL. */
static struct job *take_ticket(emb_session *s, int kind, uint64_t ticket) {
  struct job **at = &s->tickets.first;
  while (*at && ((*at)->kind != kind || (ticket && (*at)->number != ticket))) {
    at = &(*at)->sibling;
  }
  struct job *job = *at;
  if (job) {
    *at = job->sibling;
    return job;
  }
  const char *what = kind == JOB_READ ? "prefetch" : "write-back";
  if (ticket) {
    session_error(s, EMB_RANGE, "no %s with ticket %llu", what,
                  (unsigned long long)ticket);
  } else {
    session_error(s, EMB_RANGE, "no %s is in progress", what);
  }
  return NULL;
}

/* After an interrupt: puts the ticket back as the oldest. */
static int async_put_back(struct job *job, int rc) {
  job->sibling = job->session->tickets.first;
  job->session->tickets.first = job;
  emb_check(async_tickets_valid(job->session));
  return rc;
}

/* Waits for a job whose ticket was taken.  An interrupt puts it back. */
static int async_wait_for(struct job *job) {
  emb_session *s = job->session;
  struct env *env = s->core->env;
  struct jobs *jobs = &s->store->jobs;
  uint64_t before = env->now_us(env);
  int rc = job_wait(job, 1);
  if (rc) {
    return async_put_back(job, rc);
  }
  uint64_t now = env->now_us(env);
  pthread_mutex_lock(&jobs->lock);
  tune_batch(&jobs->tune, job->done_us - job->started_us,
             before - job->returned_us, now - before);
  pthread_mutex_unlock(&jobs->lock);
  return EMB_OK;
}

/* Returns to the session the leases of rows that a write-back could not
** write. */
static void async_take_back(struct job *job) {
  emb_session *s = job->session;
  for (size_t at = 0; job->rc && job->give && at < job->n; at += CHUNK_MAX) {
    epoch_enter(&s->core->epoch, s->slot);
    for (size_t i = at; i < job->n && i < at + CHUNK_MAX; i++) {
      if (job->give[i]) {
        bound_untake(s, job->keys[i], hash_key(job->keys[i]));
      }
    }
    epoch_leave(s->slot);
  }
}

/* Data loaded for tickets stays loaded until the last ticket has ended. */
static void ticket_over(emb_session *s) {
  atomic_fetch_sub(&s->store->sessions.tickets, 1);
  own_unload(s->store);
}

static int job_end(struct job *job, int rc) {
  emb_session *s = job->session;
  async_take_back(job);
  if (!rc && job->rc) {
    rc = job->rc;
    s->err = job->err;
  }
  if (job->kind == JOB_READ && job->call) {
    lease_batch_end(&s->leases, job->call);
  }
  job_free(job);
  ticket_over(s);
  return rc;
}

/* ---- prefetch ------------------------------------------------------------ */

static void async_give_back(struct job *job) {
  if (job->call && !EMB_SEED(SEED_BLOCKED_PREFETCH_KEEPS_COUNTS)) {
    bound_release_rows(job->session, job->keys, job->key_count, job->counted);
  }
}

/* Checks P1.  (P2 cannot be checked: a Put may have given back counts.) */
__attribute__((unused)) static inline int
job_counts_valid(const struct job *job) {
  emb_assert(!job->blocked || job->call);
  emb_assert(!job->blocked || !memchr(job->counted, 1, job->key_count));
  return 1;
}

/* For rows [at, at + m): copies those in memory, and collects those to be read
** and those blocked. */
static int begin_rows(struct job *job, size_t at, uint32_t m) {
  emb_session *s = job->session;
  struct counters *c = &s->core->counters;
  uint32_t cold, blocked;
  struct get g = {.s = s, .keys = job->keys + at, .call = job->call};
  g.vectors = job->vectors ? job->vectors + at * s->core->layout.dim : NULL;
  g.found = job->found ? job->found + at : NULL;
  g.versions = job->versions ? job->versions + at : NULL;
  g.state = job->state + at;
  g.counted = job->counted + at;
  int rc = job->call ? bound_reserve(s, m) : EMB_OK;
  rc = rc ? rc : get_in_memory(&g, m, &cold, &blocked);
  if (rc) {
    return rc;
  }
  for (uint32_t i = 0; i < cold; i++) {
    job->cold[job->n] = s->cold[i];
    job->cold[job->n].row += (uint32_t)at;
    job->state[job->cold[job->n++].row] = FETCH_COLD;
  }
  count_add(&c->get_keys, m);
  count_add(&c->get_memory, g.in_memory);
  count_add(&c->get_cache, g.in_cache);
  count_add(&c->get_absent, g.absent);
  return EMB_OK;
}

static int use_read(emb_session *w, void *arg, uint32_t row, int64_t key,
                    const struct rec *rec) {
  struct job *job = arg;
  (void)key;
  if (job->vectors) {
    session_decode(w, job->vectors + (size_t)row * w->core->layout.dim,
                   rec->vector);
  }
  if (job->found) {
    job->found[row] = 1;
  }
  if (job->versions) {
    job->versions[row] =
        rec_version(atomic_load_explicit(&rec->stamp, memory_order_relaxed));
  }
  job->state[row] = FETCH_DONE;
  count_add(&w->core->counters.get_disk, 1);
  return EMB_OK;
}

/* Does a prefetch of the session wait for a key?  Then a later prefetch must
** not take that key first. */
static int must_queue(const emb_session *s) {
  for (const struct job *job = s->tickets.first; job; job = job->sibling) {
    if (job->kind == JOB_READ && job->blocked) {
      return 1;
    }
  }
  return 0;
}

int local_prefetch(emb_session *s, const int64_t *keys, size_t n,
                   const emb_rows *to, uint64_t *ticket) {
  struct env *env = s->core->env;
  int rc = session_begin(s);
  if (!rc && n > UINT32_MAX) {
    rc = session_error(s, EMB_RANGE, "too many keys");
  }
  rc = rc ? rc : own_refresh(s);
  rc = rc || !rmw_creates(s) ? rc : rmw_create(s, keys, n);
  struct job *job = rc ? NULL : job_new(s, JOB_READ, keys, n);
  if (!job) {
    return rc ? rc : s->err.code;
  }
  job->run = job_read;
  job->use = use_read;
  job->vectors = to->vectors;
  job->found = to->found;
  job->versions = to->versions;
  job->cold = env->resize(env, NULL, (n + 1) * sizeof *job->cold);
  job->state = env->allocate(env, n + 1);
  job->counted = env->allocate(env, n + 1);
  int counts = 0;
  rc = job->cold && job->state && job->counted
           ? own_counts(s, &counts)
           : session_error(s, EMB_NOMEM, "out of memory");
  if (counts) {
    job->call = bound_call(s);
    job->statement = s->leases.statement;
    job->statement_call = s->leases.statement_call;
  }
  int later = !rc && job->call && must_queue(s);
  if (later) {
    memset(job->state, FETCH_BLOCKED, n);
  }
  for (size_t at = 0; !rc && !later && at < n; at += s->chunk) {
    rc = begin_rows(job, at, (uint32_t)(n - at < s->chunk ? n - at : s->chunk));
  }
  job->blocked = !rc && memchr(job->state, FETCH_BLOCKED, n) != NULL;
  rc = rc ? rc : job_start(job);
  if (rc || job->blocked) {
    async_give_back(job);
  }
  if (rc) {
    job_free(job);
    return rc;
  }
  emb_check(job_counts_valid(job));
  count_add(&s->core->counters.prefetches, 1);
  add_ticket(s, job, ticket);
  if (job->call && !job->blocked) {
    lease_batch_begin(&s->leases, job->call, *ticket, job->returned_us);
  }
  return EMB_OK;
}

/* Collects the rows of a job in this state, at most a chunk, into s->rows,
** starting at *at. */
static uint32_t pick_rows(struct job *job, size_t *at, int state) {
  emb_session *s = job->session;
  uint32_t n = 0;
  for (; *at < job->key_count && n < s->chunk; ++*at) {
    if (job->state[*at] == state) {
      s->rows[n++] = (uint32_t)*at;
    }
  }
  return n;
}

/* Before the keys are counted again: a row read from disk may be kept if its
** record has not moved since. */
static void mark_rows(struct job *job) {
  for (size_t i = 0; i < job->n; i++) {
    uint8_t *state = &job->state[job->cold[i].row];
    *state = *state == FETCH_DONE ? FETCH_KEPT : *state;
  }
  for (size_t i = 0; i < job->key_count; i++) {
    job->state[i] = job->state[i] == FETCH_KEPT ? FETCH_KEPT : FETCH_AGAIN;
  }
}

static void keep_rows(struct job *job) {
  emb_session *s = job->session;
  for (size_t at = 0; at < job->n; at += CHUNK_MAX) {
    epoch_enter(&s->core->epoch, s->slot);
    for (size_t i = at; i < job->n && i < at + CHUNK_MAX; i++) {
      uint32_t row = job->cold[i].row;
      int64_t key = job->keys[row];
      if (job->state[row] == FETCH_KEPT) {
        job->state[row] = key_find_address(s->core, key, hash_key(key)) ==
                                  job->cold[i].address
                              ? FETCH_DONE
                              : FETCH_AGAIN;
      }
    }
    epoch_leave(s->slot);
  }
}

/* Counts, in order, the keys of a batch that has counted none.  Rows changed in
** between are read again. */
static int acquire_rows(struct job *job) {
  emb_session *s = job->session;
  struct leases *leases = &s->leases;
  uint64_t statement = leases->statement;
  uint32_t statement_call = leases->statement_call;
  if (!job->blocked) {
    return EMB_OK;
  }
  emb_check(job_counts_valid(job));
  job->call = bound_call(s);
  lease_batch_begin(leases, job->call, job->number,
                    s->core->env->now_us(s->core->env));
  mark_rows(job);
  /* Keys counted by the statement that began the batch are not counted
  ** again. */
  leases->statement = job->statement;
  leases->statement_call = job->statement_call;
  int rc = job_step_all(s);
  rc = rc ? rc : bound_acquire(s, job->keys, job->key_count, job->call);
  leases->statement = statement;
  leases->statement_call = statement_call;
  if (rc) {
    lease_batch_end(leases, job->call);
    return rc;
  }
  bound_note_call(s, job->keys, job->key_count, job->call, job->counted);
  job->blocked = 0;
  keep_rows(job);
  return EMB_OK;
}

/* Reads the missing rows in this thread.  They are already counted. */
static int async_finish_rows(struct job *job) {
  emb_session *s = job->session;
  struct get g = {.s = s,
                  .keys = job->keys,
                  .vectors = job->vectors,
                  .found = job->found,
                  .versions = job->versions,
                  .promote = 1};
  size_t at = 0;
  int rc = EMB_OK;
  uint32_t n;
  while (!rc && (n = pick_rows(job, &at, FETCH_AGAIN)) > 0) {
    uint32_t cold = 0;
    epoch_enter(&s->core->epoch, s->slot);
    for (uint32_t i = 0; i < n; i++) {
      get_row(&g, s->rows[i], &cold);
    }
    epoch_leave(s->slot);
    rc = get_from_disk(&g, cold);
  }
  return rc;
}

int local_prefetch_synchronize(emb_session *s, uint64_t ticket,
                               uint64_t *ended) {
  int rc = session_begin(s);
  struct job *job = rc ? NULL : take_ticket(s, JOB_READ, ticket);
  if (!job) {
    return rc ? rc : s->err.code;
  }
  rc = async_wait_for(job);
  if (rc) {
    return rc;
  }
  if (!job->rc) {
    rc = acquire_rows(job);
    rc = rc ? rc : async_finish_rows(job);
  }
  if (rc == EMB_INTERRUPT) {
    return async_put_back(job, rc); /* keeps its counts: P1 */
  }
  if (rc || job->rc) {
    async_give_back(job);
  }
  if (ended) {
    *ended = job->number;
  }
  return job_end(job, rc);
}

/* ---- write-back ---------------------------------------------------------- */

/* Copies the rows from `done` on, and moves their leases from the session to
** the job: the worker gives them back. */
static int copy_rows(struct job *job, const float *vectors, size_t done,
                     uint32_t call) {
  emb_session *s = job->session;
  struct env *env = s->core->env;
  size_t dim = s->core->layout.dim, n = job->key_count - done;
  job->copy = env->resize(env, NULL, n * dim * sizeof(float) + 1);
  job->give = env->allocate(env, n + 1);
  if (!job->copy || !job->give) {
    return session_error(s, EMB_NOMEM, "out of memory");
  }
  memcpy(job->copy, vectors + done * dim, n * dim * sizeof(float));
  memmove(job->keys, job->keys + done, n * sizeof *job->keys);
  job->time = s->clock.time;
  for (size_t i = 0; call && i < n; i++) {
    job->give[i] =
        (uint8_t)bound_take(s, job->keys[i], hash_key(job->keys[i]), call);
  }
  bound_note_none(s);
  job->n = n;
  return EMB_OK;
}

/* Gives back the leases of the rows [from, to), only now that the new vectors
** can be read; with `written`, of those that have a version there. */
static void release_written(emb_session *w, struct job *job, size_t from,
                            size_t to, const uint64_t *written) {
  for (size_t at = from; at < to; at += CHUNK_MAX) {
    epoch_enter(&w->core->epoch, w->slot);
    for (size_t i = at; i < to && i < at + CHUNK_MAX; i++) {
      if (job->give[i] && (!written || written[i])) {
        uint64_t hash = hash_key(job->keys[i]);
        key_release(w->core, job->keys[i], hash, 1);
        released_add(&w->released, hash);
        job->give[i] = 0;
      }
    }
    epoch_leave(w->slot);
  }
  bound_signal(w, 0);
}

/* Writes the rows [from, to). */
static int run_write(emb_session *w, struct job *job, size_t from, size_t to) {
  struct write_batch batch = {
      .keys = job->keys + from, .n = to - from, .wait = 1};
  w->clock.time = job->time;
  int rc = put_rows(w, &batch, job->copy + from * w->core->layout.dim);
  release_written(w, job, from, from + batch.done, NULL);
  return rc;
}

/* Claims the store for a batch that is written in the background. */
static int claim_for_job(emb_session *s, const char *what) {
  int rc = own_claim(s);
  return !rc && s->txn ? session_error(s, EMB_LOCKED,
                                       "cannot %s inside a transaction", what)
                       : rc;
}

/* Starts a job that writes, and makes its ticket; or frees it, and returns its
** leases to the session.  rc: an error before. */
static int start_writing(struct job *job, int rc, uint64_t *ticket) {
  emb_session *s = job->session;
  rc = rc ? rc : job_start(job);
  if (rc) {
    job->rc = rc;
    async_take_back(job);
    job_free(job);
    return rc;
  }
  count_add(&s->core->counters.write_backs, 1);
  add_ticket(s, job, ticket);
  return EMB_OK;
}

int local_write_back(emb_session *s, const int64_t *keys, size_t n,
                     const float *vectors, uint64_t *ticket) {
  int rc = session_begin(s), behind = 0;
  rc = rc ? rc : check_rows(s, keys, n, vectors, "row");
  rc = rc ? rc : claim_for_job(s, "write back");
  struct job *job = rc ? NULL : job_new(s, JOB_WRITE, keys, n);
  if (!job) {
    return rc ? rc : s->err.code;
  }
  job->run = run_write;
  struct write_batch batch = {
      .keys = keys,
      .n = n,
      .call = core_bounded(s->core) ? lease_next_call(&s->leases) : 0};
  for (struct job *j = s->tickets.first; j; j = j->sibling) {
    behind |= j->kind == JOB_WRITE && !job_is_done(j);
  }
  if (!behind) {
    rc = put_rows(s, &batch, vectors);
  }
  if (!rc && batch.done < n) {
    rc = copy_rows(job, vectors, batch.done, batch.call);
  }
  return start_writing(job, rc, ticket);
}

int local_write_back_synchronize(emb_session *s, uint64_t ticket,
                                 uint64_t *ended) {
  int rc = session_begin(s);
  struct job *job = rc ? NULL : take_ticket(s, JOB_WRITE, ticket);
  if (!job) {
    return rc ? rc : s->err.code;
  }
  rc = async_wait_for(job);
  if (rc) {
    return rc;
  }
  if (ended) {
    *ended = job->number;
  }
  return job_end(job, EMB_OK);
}

/* ---- gradients ----------------------------------------------------------- */

int async_check_how(emb_session *s, const emb_update *how) {
  return !how || !how->read
             ? EMB_OK
             : session_error(s, EMB_RANGE,
                             "gradients in the background cannot be combined "
                             "with vectors that were read (emb_update.read)");
}

/* Makes the steps.  Rows of a repeated key are in one slice: they make one
** step. */
static int run_gradients(emb_session *w, struct job *job, size_t from,
                         size_t to) {
  const struct rmw_batch batch = {.keys = job->keys,
                                  .n = job->n,
                                  .rows = job->copy,
                                  .versions = job->written,
                                  .how = job->how};
  emb_assert(from == 0 && to == job->n);
  w->clock.time = job->time;
  int rc = rmw_steps(w, &batch);
  release_written(w, job, from, to, rc ? job->written : NULL);
  return rc;
}

/* Makes the job of a batch. */
static int gradients_job(struct job *job, const float *gradients) {
  emb_session *s = job->session;
  struct env *env = s->core->env;
  job->run = run_gradients;
  job->whole = 1;
  job->written = env->allocate(env, job->key_count * sizeof *job->written + 1);
  if (!job->written) {
    return session_error(s, EMB_NOMEM, "out of memory");
  }
  count_add(&s->core->counters.rmw_keys, job->key_count);
  return copy_rows(job, gradients, 0,
                   core_bounded(s->core) ? lease_next_call(&s->leases) : 0);
}

int local_apply_async(emb_session *s, const int64_t *keys, size_t n,
                      const float *gradients, const emb_update *how,
                      uint64_t *ticket) {
  const struct rmw_ask ask = {
      .keys = keys, .n = n, .gradients = gradients, .how = how};
  struct row_change change;
  int rc = session_begin(s);
  rc = rc ? rc : check_finite(s, keys, n, gradients, "gradient");
  rc = rc ? rc : async_check_how(s, how);
  rc = rc ? rc : claim_for_job(s, "apply gradients in the background");
  rc = rc ? rc : rmw_step(s, gradients, how, &change);
  struct job *job = rc ? NULL : job_new(s, JOB_WRITE, keys, n);
  if (!job) {
    return rc ? rc : s->err.code;
  }
  if (how) {
    job->how = *how;
  }
  if (s->store->average) {
    rc = s->store->average(s, &ask); /* the job has nothing to do */
  } else if (n) {
    rc = gradients_job(job, gradients);
  }
  return start_writing(job, rc, ticket);
}

/* ---- all ----------------------------------------------------------------- */

size_t local_tickets(const emb_session *s, size_t *write_backs) {
  size_t n[2] = {0, 0};
  for (const struct job *job = s->tickets.first; job; job = job->sibling) {
    n[job->kind == JOB_WRITE]++;
  }
  if (write_backs) {
    *write_backs = n[1];
  }
  return n[0];
}

void async_close(emb_session *s) {
  emb_check(async_tickets_valid(s));
  while (s->tickets.first) {
    struct job *job = s->tickets.first;
    s->tickets.first = job->sibling;
    job_cancel(job);
    async_take_back(job);
    job_free(job);
    ticket_over(s);
  }
  ahead__close(s);
}
