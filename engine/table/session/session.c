/* SPDX-License-Identifier: MIT
**
** session.c -- one user of a store: its slot in the epoch, its buffers, its
** last error.  Buffers are allocated once, so that the calls of a training loop
** allocate nothing.  The bottom layer of a session: it calls nothing that a
** session can open.
*/
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/table/store/metrics.h"
#include "session.h"
#include "engine/base/sort.h"

#define READ_BYTES (1u << 20)
#define READ_DEPTH 128u
#define POLL_US 5000
/* While waiting: this often in the time waited so far, and at least this
** often. */
#define POLL_SHARE 10
#define POLL_MOST_US 100000

static int make_buffers(emb_session *s) {
  struct core *core = s->core;
  const struct layout *l = &core->layout;
  struct env *env = core->env;
  size_t row = (size_t)l->dim * sizeof(float);
  size_t chunk = CHUNK_BYTES / row;
  s->chunk = (uint32_t)(chunk < 1 ? 1 : chunk > CHUNK_MAX ? CHUNK_MAX : chunk);
  size_t n = s->chunk;
  s->hashes = env->allocate(env, n * sizeof *s->hashes);
  s->entries = env->allocate(env, n * sizeof *s->entries);
  s->words = env->allocate(env, n * sizeof *s->words);
  s->cold = env->allocate(env, n * sizeof *s->cold);
  s->rows = env->allocate(env, n * sizeof *s->rows);
  s->scratch = env->allocate(env, (size_t)l->rec_bytes * 2 + 64);
  s->scratch_f32 = env->allocate(env, row + 64);
  s->slot = epoch_join(&core->epoch);
  return s->hashes && s->entries && s->words && s->cold && s->rows &&
                 s->scratch && s->scratch_f32 && s->slot
             ? EMB_OK
             : EMB_NOMEM;
}

/* ---- tallies ------------------------------------------------------------- */

/* The store's counter that receives a tally of closed sessions. */
static _Atomic uint64_t *counter_of(struct counters *c, int tally) {
  switch (tally) {
  case TALLY_GET:
    return &c->get_keys;
  case TALLY_MEMORY:
    return &c->get_memory;
  case TALLY_DISK:
    return &c->get_disk;
  case TALLY_ABSENT:
    return &c->get_absent;
  default:
    return &c->put_keys;
  }
}

static void session_enlist(emb_session *s) {
  pthread_mutex_lock(&s->store->sessions.lock);
  s->next = s->store->sessions.list;
  s->store->sessions.list = s;
  pthread_mutex_unlock(&s->store->sessions.lock);
}

static void session_delist(emb_session *s) {
  pthread_mutex_lock(&s->store->sessions.lock);
  emb_session **at = &s->store->sessions.list;
  while (*at && *at != s) {
    at = &(*at)->next;
  }
  if (*at) {
    *at = s->next;
  }
  for (int i = 0; i < TALLIES; i++) {
    count_add(counter_of(&s->core->counters, i), s->tally[i]);
  }
  pthread_mutex_unlock(&s->store->sessions.lock);
}

void session_tallies(emb_store *store, uint64_t sum[TALLIES]) {
  pthread_mutex_lock(&store->sessions.lock);
  for (int i = 0; i < TALLIES; i++) {
    sum[i] = atomic_load_explicit(counter_of(&store->core.counters, i),
                                  memory_order_relaxed);
    for (emb_session *s = store->sessions.list; s; s = s->next) {
      sum[i] += atomic_load_explicit(&s->tally[i], memory_order_relaxed);
    }
  }
  pthread_mutex_unlock(&store->sessions.lock);
}

static void session_metrics(emb_store *store, struct metrics *to) {
  struct counters *c = &store->core.counters;
  uint64_t tally[TALLIES];
  session_tallies(store, tally);
  metric_number(to, "get_keys", tally[TALLY_GET]);
  metric_number(to, "get_memory", tally[TALLY_MEMORY]);
  metric_count(to, "get_cache", &c->get_cache);
  metric_number(to, "get_disk", tally[TALLY_DISK]);
  metric_number(to, "get_absent", tally[TALLY_ABSENT]);
  metric_number(to, "put_keys", tally[TALLY_PUT]);
  metric_count(to, "put_in_place", &c->put_in_place);
  metric_count(to, "rmw_keys", &c->rmw_keys);
  metric_count(to, "delete_keys", &c->delete_keys);
  metric_count(to, "commits", &c->commits);
  metric_count(to, "rollbacks", &c->rollbacks);
  metric_number(to, "sessions", (uint64_t)atomic_load(&store->sessions.count));
}

const struct feature feature_session = {
    .name = "session",
    .metrics = session_metrics,
};

/* ---- opening and closing ------------------------------------------------- */

void session_free(emb_session *s) {
  struct env *env = s->core->env;
  emb_assert(!s->txn && !s->tickets.first && !s->leases.held); /* J1 */
  emb_assert(!s->tickets.remote);
  session_delist(s);
  emb_assert(!s->reads.queue.queue && !s->reads.pages);
  env->release(env, s->reads.ios);
  env->release(env, (void *)s->reads.io_list);
  env->release(env, s->hashes);
  env->release(env, s->entries);
  env->release(env, s->words);
  env->release(env, s->cold);
  env->release(env, s->rows);
  lease_free(&s->leases, env);
  group_free(&s->groups, env);
  env->release(env, s->scratch);
  env->release(env, s->scratch_f32);
  env->release(env, s->pool);
  if (s->slot) {
    epoch_part(s->slot);
  }
  env->release(env, s);
}

int session_new(emb_store *store, emb_session **session, emb_err *err) {
  struct env *env = store->core.env;
  emb_session *s = env->allocate(env, sizeof *s);
  if (s) {
    s->store = store;
    s->core = &store->core;
    s->reads.depth_max = READ_DEPTH;
    s->random = hash_key((int64_t)store->core.schema.seed) +
                atomic_fetch_add(&store->sessions.last, 1);
  }
  if (s && make_buffers(s)) {
    session_free(s);
    s = NULL;
  }
  if (s) {
    session_enlist(s);
  }
  *session = s;
  return s ? EMB_OK : err_set(err, EMB_NOMEM, "out of memory");
}

int emb_session_open(emb_store *store, emb_session **session, emb_err *err) {
  *session = NULL;
  int rc = store_check(store, err);
  rc = rc ? rc : session_new(store, session, err);
  if (!rc) {
    atomic_fetch_add(&store->sessions.count, 1);
  }
  return rc;
}

const char *emb_errmsg(const emb_session *s) { return s->err.text; }
int emb_errcode(const emb_session *s) { return s->err.code; }
void emb_session_time(emb_session *s, uint32_t seconds) {
  s->clock.time = seconds;
}
emb_store *emb_session_store(const emb_session *s) { return s->store; }

void emb_session_interrupt(emb_session *s, int (*interrupt)(void *),
                           void *arg) {
  s->waits.interrupt = interrupt;
  s->waits.interrupt_arg = arg;
}

void emb_session_blocks(emb_session *s, int (*blocks)(void *, int), void *arg) {
  s->blocks.ask = blocks;
  s->blocks.arg = arg;
}

int session_begin(emb_session *s) {
  emb_assert(session_valid(s));
  if (s->err.code) {
    err_clear(&s->err);
  }
  s->doubt.met = 0;
  int rc = store_check(s->store, &s->err);
  if (!rc && atomic_load_explicit(&s->core->resting, memory_order_relaxed) &
                 REST_CALLS) {
    core_rouse(s->core);
  }
  return rc;
}

int session_error(emb_session *s, int code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(s->err.text, sizeof s->err.text, format, args);
  va_end(args);
  s->err.code = code;
  return code;
}

int session_wait_room(emb_session *s) {
  return core_wait_room(s->core, 0, s->waits.interrupt, s->waits.interrupt_arg,
                        &s->err);
}

int session_wait_kept(emb_session *s) {
  return core_wait_room(s->core, 1, s->waits.interrupt, s->waits.interrupt_arg,
                        &s->err);
}

int session_interrupted(emb_session *s) {
  return s->waits.interrupt && s->waits.interrupt(s->waits.interrupt_arg)
             ? session_error(s, EMB_INTERRUPT, "interrupted")
             : EMB_OK;
}

int session_sort(emb_session *s, void *at, size_t n, size_t size,
                 int (*compare)(const void *, const void *)) {
  return sort_until(at, n, size, compare, s->waits.interrupt,
                    s->waits.interrupt_arg)
             ? session_error(s, EMB_INTERRUPT, "interrupted")
             : EMB_OK;
}

/* Polls if `us` microseconds have passed since the last poll. */
static int poll_after(emb_session *s, uint64_t us) {
  struct env *env = s->core->env;
  uint64_t now = s->waits.interrupt ? env->now_us(env) : 0;
  if (now - s->waits.polled_us < us) {
    return EMB_OK;
  }
  s->waits.polled_us = now;
  return session_interrupted(s);
}

int session_poll(emb_session *s) { return poll_after(s, POLL_US); }

int session_poll_waiting(emb_session *s, uint64_t waited_us) {
  uint64_t us = waited_us / POLL_SHARE;
  return poll_after(s, us < POLL_US        ? POLL_US
                       : us > POLL_MOST_US ? POLL_MOST_US
                                           : us);
}

int session_lock(emb_session *s, pthread_mutex_t *lock) {
  emb_assert(epoch_outside()); /* E1 */
  if (!s->waits.interrupt) {
    pthread_mutex_lock(lock);
    return EMB_OK;
  }
  int rc = EMB_OK;
  while (!rc && pthread_mutex_trylock(lock)) {
    rc = session_interrupted(s);
    if (!rc) {
      s->core->env->sleep_us(s->core->env, 1000);
    }
  }
  return rc;
}

void session_sleep(emb_session *s, uint64_t us, uint64_t *waited_us) {
  struct env *env = s->core->env;
  uint64_t before = env->now_us(env);
  emb_assert(epoch_outside()); /* E1 */
  session_waits(s, 1);
  env->sleep_us(env, us);
  session_waits(s, -1);
  *waited_us += env->now_us(env) - before;
}

int session_owed(emb_session *s) {
  if (s->route.owed.code) {
    s->err = s->route.owed;
    s->route.owed.code = EMB_OK;
    return s->err.code;
  }
  return EMB_OK;
}

void emb_session_decides(emb_session *s, int (*decides)(void *, uint64_t, int),
                         void *arg) {
  s->doubt.decides = decides;
  s->doubt.arg = arg;
  s->doubt.seen = 0;
}

uint64_t emb_undecided(const emb_session *s) { return s->doubt.met; }

static int meet_doubt(emb_session *s, uint64_t number, int is_orphan) {
  s->doubt.met = number;
  s->doubt.is_orphan = is_orphan;
  return session_error(s, EMB_LOCKED, "%s: transaction %llu is not decided yet",
                       s->core->dir, (unsigned long long)number);
}

int session_check_doubt(emb_session *s) {
  uint64_t number =
      atomic_load_explicit(&s->store->own.in_doubt, memory_order_relaxed);
  return number ? meet_doubt(s, number, 1) : EMB_OK;
}

/* In this order: a transaction that loses its session is in in_doubt before it
** leaves undecided.  A reader of 0 sees all writes of earlier transactions. */
int session_ask_doubt(emb_session *s) {
  if (!s->doubt.asks || s->txn || EMB_SEED(SEED_DOUBT_READ_PAST)) {
    return EMB_OK;
  }
  uint64_t number = atomic_load(&s->store->txn.undecided);
  uint64_t orphan = atomic_load(&s->store->own.in_doubt);
  number = orphan ? orphan : number;
  return number && number != s->doubt.seen ? meet_doubt(s, number, orphan != 0)
                                           : EMB_OK;
}

int session_enter_exclusive(emb_session *s, struct emb_session **owner,
                            const char *taken) {
  emb_store *store = s->store;
  uint64_t waited = 0;
  for (;;) {
    pthread_mutex_lock(&store->txn.lock);
    int free = !*owner;
    if (free) {
      *owner = s;
    }
    pthread_mutex_unlock(&store->txn.lock);
    if (free) {
      return EMB_OK;
    }
    int rc = session_poll_waiting(s, waited);
    rc = rc ? rc : session_check_doubt(s); /* its client may have gone */
    if (rc) {
      return rc;
    }
    if (waited >= session_timeout_us(s)) {
      return session_error(s, EMB_BUSY, "%s %s", taken, s->core->dir);
    }
    session_sleep(s, 200, &waited);
  }
}

void session_leave_exclusive(emb_session *s, struct emb_session **owner) {
  pthread_mutex_lock(&s->store->txn.lock);
  emb_assert(*owner == s);
  *owner = NULL;
  pthread_mutex_unlock(&s->store->txn.lock);
}

int session_wait_key(emb_session *s, int64_t key, uint64_t *waited_us) {
  int rc = session_poll_waiting(s, *waited_us);
  if (rc) {
    return rc;
  }
  if (*waited_us >= session_timeout_us(s)) {
    return session_error(s, EMB_BUSY, "key %lld is held by another transaction",
                         (long long)key);
  }
  count_add(&s->core->counters.waits_key, 1);
  session_sleep(s, 200, waited_us);
  return EMB_OK;
}

int session_read_begin(emb_session *s) {
  struct env *env = s->core->env;
  uint32_t bytes = s->core->layout.page_bytes;
  uint32_t depth = READ_BYTES / bytes;
  depth = depth < 4                    ? 4
          : depth > s->reads.depth_max ? s->reads.depth_max
                                       : depth;
  emb_assert(!s->reads.queue.queue && !s->reads.pages);
  s->reads.depth = depth; /* the same in each call */
  if (!s->reads.ios) {
    s->reads.ios = env->allocate(env, depth * sizeof *s->reads.ios);
  }
  if (!s->reads.io_list) {
    s->reads.io_list =
        env->allocate(env, (size_t)depth * 3 * sizeof(struct env_io *));
  }
  s->reads.pages = process_buffer_take(s->core->process, (size_t)depth * bytes);
  if (!s->reads.pages || !s->reads.ios || !s->reads.io_list) {
    session_read_end(s);
    return session_error(s, EMB_NOMEM, "out of memory");
  }
  int os = process_queue_take(s->core->process, s->core->queue_kind, depth,
                              &s->reads.queue);
  if (os) {
    session_read_end(s);
    return err_os(&s->err, EMB_IOERR, os, "cannot start disk access");
  }
  return EMB_OK;
}

void session_read_end(emb_session *s) {
  struct core *core = s->core;
  process_queue_give(core->process, &s->reads.queue);
  if (s->reads.pages) {
    process_buffer_give(core->process, s->reads.pages,
                        (size_t)s->reads.depth * core->layout.page_bytes);
    s->reads.pages = NULL;
  }
}

const void *session_encode(emb_session *s, const float *vector) {
  const struct layout *l = &s->core->layout;
  if (l->type == EMB_F32) {
    return vector;
  }
  schema_encode(&s->core->schema, s->core->vec, s->scratch, vector, 0);
  return s->scratch;
}

void session_decode(emb_session *s, float *to, const void *stored) {
  const struct layout *l = &s->core->layout;
  if (l->type == EMB_F32) {
    memcpy(to, stored, l->vector_bytes);
  } else {
    schema_decode(&s->core->schema, s->core->vec, to, stored);
  }
}

/* The first element of a finite row that does not fit its type; dim if none. */
static uint32_t too_large(emb_session *s, const float *row) {
  const struct schema *schema = &s->core->schema;
  uint16_t *half = (uint16_t *)(void *)s->scratch;
  for (uint32_t i = 0; i < schema->count; i++) {
    const struct segment *segment = &schema->segments[i];
    if (segment->type != EMB_F16) {
      continue;
    }
    s->core->vec->to_f16(half, row + segment->first, segment->dim);
    for (uint32_t k = 0; k < segment->dim; k++) {
      if ((half[k] & 0x7c00) == 0x7c00) {
        return segment->first + k;
      }
    }
  }
  return schema->dim;
}

#define WAY_OUT "export a snapshot and restore it into a new table"

int check_numbers(emb_session *s) {
  const struct core *core = s->core;
  if (atomic_load_explicit(&core->version, memory_order_relaxed) >=
      REC_VERSIONS_END) {
    return session_error(
        s, EMB_FULL, "%s has used up its 2^48 versions: " WAY_OUT, core->dir);
  }
  return log_span(&core->log) < LOG_SPAN_ROWS
             ? EMB_OK
             : session_error(s, EMB_FULL,
                             "the log of %s spans %llu extents, the maximum, "
                             "because the oldest is kept; drop the oldest "
                             "snapshot, and wait for compaction ('optimize')",
                             core->dir, (unsigned long long)LOG_SPAN_ROWS);
}

int session_no_address(emb_session *s) {
  return session_error(s, EMB_FULL,
                       "%s has used up the 2^%d addresses of its log: " WAY_OUT,
                       s->core->dir, WORD_ADDRESS_BITS);
}

int check_finite(emb_session *s, const int64_t *keys, size_t n,
                 const float *rows, const char *what) {
  size_t dim = s->core->layout.dim;
  int rc = check_numbers(s);
  if (rc) {
    return rc;
  }
  if (n > EMB_ROWS_MAX) {
    return session_error(s, EMB_RANGE, "a batch has at most %u rows, got %zu",
                         EMB_ROWS_MAX, n);
  }
  size_t bad = s->core->vec->find_bad(rows, n * dim);
  return bad == n * dim
             ? EMB_OK
             : session_error(s, EMB_NONFINITE,
                             "non-finite value in element %zu of %s %zu (key "
                             "%lld)",
                             bad % dim, what, bad / dim,
                             (long long)keys[bad / dim]);
}

int check_rows(emb_session *s, const int64_t *keys, size_t n,
               const float *vectors, const char *what) {
  const struct layout *l = &s->core->layout;
  int rc = check_finite(s, keys, n, vectors, what);
  for (size_t i = 0; !rc && l->type != EMB_F32 && i < n; i++) {
    uint32_t bad = too_large(s, vectors + i * l->dim);
    if (bad < l->dim) {
      rc = session_error(s, EMB_NONFINITE,
                         "element %u of %s %zu (key %lld) is too large for "
                         "float16",
                         bad, what, i, (long long)keys[i]);
    }
  }
  return rc;
}
