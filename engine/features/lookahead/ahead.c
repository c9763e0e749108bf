/* SPDX-License-Identifier: MIT
**
** ahead.c -- look-ahead (MLKV, section 3.3): fetches records now that will be
** read soon.  README.md has the steps.
**
** EMB_AHEAD_BUFFER writes nothing; only the record's address in the key's word
** changes.  With EMB_AHEAD_CACHE the bound holds as for any Get: a record on
** disk never changes, and after a Put its key's word points elsewhere, so a
** record found by its address is the latest version.
*/
#include <string.h>

#include "engine/storage/index/index.h"
#include "engine/table/owner/own.h"
#include "async.h"
#include "engine/table/bound/bound.h"
#include "engine/table/rows/rows.h"
#include "engine/table/session/txn_map.h"
#include "engine/table/store/metrics.h"

/* How long a look-ahead waits for a frame of the log before it gives up on a
** record, in waits of core_wait_frame. */
#define FRAME_WAITS 50
/* Unused records kept by the session are dropped after this time. */
#define KEPT_US UINT64_C(60000000)

/* ---- the session's own cache --------------------------------------------- */

/* Removes a job's records from the session's cache. */
static void forget_kept(struct aheads *a, struct job *job) {
  for (size_t i = 0; job->merged && i < job->n; i++) {
    uint64_t hash = hash_key((int64_t)job->cold[i].address), word;
    struct entry *entry =
        index_find(&a->kept, (int64_t)job->cold[i].address, hash, &word);
    if (entry && word >> 32 == job->number % AHEADS) {
      index_remove(&a->kept, entry, hash);
    }
  }
  job->merged = 0;
}

/* Frees the records of a job, but keeps its metrics, which may still be
** needed. */
static void drop_kept(emb_session *s, struct job *job) {
  struct env *env = s->core->env;
  forget_kept(s->ahead.list, job);
  s->ahead.list->kept_bytes -= job->kept_bytes;
  job->kept_bytes = 0;
  env->release(env, job->kept);
  env->release(env, job->kept_versions);
  env->release(env, job->kept_state);
  job->kept = NULL;
  job->kept_versions = NULL;
  job->kept_state = NULL;
}

static void ahead_drop(emb_session *s, uint64_t slot) {
  struct job *job = s->ahead.list->jobs[slot];
  if (job) {
    job_cancel(job);
    if (job->kept) {
      drop_kept(s, job);
    }
    job_free(job);
    s->ahead.list->jobs[slot] = NULL;
  }
}

/* Is this still the key's current record? */
static int is_current(emb_session *s, const struct job *job, size_t i) {
  return key_find_address(s->core, job->cold_keys[i],
                          hash_key(job->cold_keys[i])) == job->cold[i].address;
}

/* Adds the records that a finished job has read.  If memory runs out, a record
** is simply not found. */
static void ahead_add_job(emb_session *s, struct job *job) {
  struct aheads *a = s->ahead.list;
  job->merged = 1;
  for (size_t i = 0; i < job->n; i++) {
    if (job->kept_state[i] == KEPT_READY) {
      int64_t address = (int64_t)job->cold[i].address;
      struct index_new new = {.key = address,
                              .hash = hash_key(address),
                              .word = (job->number % AHEADS) << 32 | (i + 1)};
      if (index_insert(&a->kept, &new) == EMB_OK) {
        job->kept_left++;
      }
    }
  }
}

/* Drops the kept records of each job that has no usable one left. */
static void ahead_drop_used(emb_session *s) {
  struct env *env = s->core->env;
  uint64_t now = env->now_us(env);
  for (uint64_t i = 0; i < AHEADS; i++) {
    struct job *job = s->ahead.list->jobs[i];
    if (!job || !job->kept || !job_is_done(job)) {
      continue;
    }
    size_t current = 0;
    if (now - job->done_us <= KEPT_US && (!job->merged || job->kept_left)) {
      epoch_enter(&s->core->epoch, s->slot);
      for (size_t r = 0; !current && r < job->n; r++) {
        current += job->kept_state[r] == KEPT_READY && is_current(s, job, r);
      }
      epoch_leave(s->slot);
    }
    if (!current) {
      drop_kept(s, job);
    }
  }
}

/* Serves one record; returns 0 if it is not here. */
static int ahead_serve_one(emb_session *s, const int64_t *keys,
                           struct cold cold, cold_use use, void *arg) {
  struct aheads *a = s->ahead.list;
  const struct layout *l = &s->core->layout;
  uint64_t hash = hash_key((int64_t)cold.address), word;
  struct entry *entry =
      index_find(&a->kept, (int64_t)cold.address, hash, &word);
  if (!entry) {
    return 0;
  }
  struct job *job = a->jobs[word >> 32];
  size_t i = (word & UINT32_MAX) - 1;
  index_remove(&a->kept, entry, hash);
  job->kept_left--;
  job->kept_state[i] = KEPT_USED;
  struct rec *rec = (struct rec *)(void *)s->scratch;
  memset(rec, 0, sizeof *rec);
  rec_fill(rec, keys[cold.row], job->kept + i * l->value_bytes, l->value_bytes,
           job->kept_versions[i]);
  use(s, arg, cold.row, keys[cold.row], rec);
  if (!job->kept_left) {
    drop_kept(s, job);
  }
  return 1;
}

/* Implements the session's `serve`. */
static uint32_t serve_all(emb_session *s, const int64_t *keys, uint32_t n,
                          cold_use use, void *arg) {
  struct aheads *a = s->ahead.list;
  uint32_t left = 0;
  if (!a->kept_bytes) {
    return n;
  }
  for (uint64_t i = 0; i < AHEADS; i++) {
    struct job *job = a->jobs[i];
    if (job && job->kept && !job->merged && job_is_done(job)) {
      ahead_add_job(s, job);
    }
  }
  for (uint32_t i = 0; i < n; i++) {
    if (!ahead_serve_one(s, keys, s->cold[i], use, arg)) {
      s->cold[left++] = s->cold[i];
    }
  }
  s->ahead.served += n - left;
  emb_check(async_aheads_valid(s));
  return left;
}

static int make_aheads(emb_session *s) {
  struct env *env = s->core->env;
  if (s->ahead.list) {
    return EMB_OK;
  }
  struct aheads *a = env->allocate(env, sizeof *a);
  if (!a || index_init(&a->kept, env, NULL, 1)) {
    env->release(env, a);
    return session_error(s, EMB_NOMEM, "out of memory");
  }
  s->ahead.list = a;
  s->ahead.serve = serve_all;
  return EMB_OK;
}

/* Makes room for a job's records in the session's cache; refuses records that
** do not fit. */
static int ahead_make_room(emb_session *s, struct job *job) {
  struct aheads *a = s->ahead.list;
  struct env *env = s->core->env;
  size_t each = s->core->layout.value_bytes + sizeof *job->kept_versions + 1;
  size_t most =
      (size_t)frames_count(&s->core->frames) * s->core->frames.frame_bytes / 4;
  ahead_drop_used(s);
  size_t n = most > a->kept_bytes ? (most - a->kept_bytes) / each : 0;
  if (n < job->n) {
    atomic_store(&job->refused, job->n - n);
    count_add(&s->core->counters.ahead_refused, job->n - n);
    job->n = n;
  }
  job->kept = env->resize(env, NULL, job->n * s->core->layout.value_bytes + 1);
  job->kept_versions =
      env->resize(env, NULL, job->n * sizeof *job->kept_versions + 1);
  job->kept_state = env->allocate(env, job->n + 1);
  if (!job->kept || !job->kept_versions || !job->kept_state) {
    return session_error(s, EMB_NOMEM, "out of memory");
  }
  job->kept_bytes = job->n * each;
  a->kept_bytes += job->kept_bytes;
  return EMB_OK;
}

/* ---- looking ahead ------------------------------------------------------- */

/* Puts a look-ahead's record into the store's cache. */
static int use_ahead(emb_session *w, void *arg, uint32_t row, int64_t key,
                     const struct rec *rec) {
  struct job *job = arg;
  struct core *core = w->core;
  uint64_t version =
      rec_version(atomic_load_explicit(&rec->stamp, memory_order_relaxed));
  struct cache_offer offer = {.key = key,
                              .hash = hash_key(key),
                              .address = job->cold[row].address,
                              .value = rec->vector,
                              .version = version};
  int got = CACHE_LATER;
  for (int wait = 0; got == CACHE_LATER && wait < FRAME_WAITS; wait++) {
    epoch_enter(&core->epoch, w->slot);
    got = promote_offer_ahead(core, &offer);
    epoch_leave(w->slot);
    if (got == CACHE_LATER) {
      core_wait_frame(core);
    }
  }
  int refused = got == CACHE_LATER || got == CACHE_REFUSED;
  count_add(refused ? &job->refused : &job->read, 1);
  count_add(
      refused ? &core->counters.ahead_refused : &core->counters.ahead_read, 1);
  return EMB_OK;
}

/* Puts a look-ahead's record into the session's cache. */
static int use_kept(emb_session *w, void *arg, uint32_t row, int64_t key,
                    const struct rec *rec) {
  struct job *job = arg;
  size_t bytes = w->core->layout.value_bytes;
  (void)key;
  memcpy(job->kept + row * bytes, rec->vector, bytes);
  job->kept_versions[row] =
      rec_version(atomic_load_explicit(&rec->stamp, memory_order_relaxed));
  job->kept_state[row] = KEPT_READY;
  count_add(&job->read, 1);
  count_add(&w->core->counters.ahead_read, 1);
  return EMB_OK;
}

/* A set of keys, to skip repeated ones: open addressing over rows. */
struct ahead_seen {
  uint32_t *rows; /* row + 1 */
  size_t mask;
};

static int ahead_is_new(struct ahead_seen *seen, const int64_t *keys,
                        uint32_t row, uint64_t hash) {
  size_t at = hash & seen->mask;
  while (seen->rows[at]) {
    if (keys[seen->rows[at] - 1] == keys[row]) {
      return 0;
    }
    at = (at + 1) & seen->mask;
  }
  seen->rows[at] = row + 1;
  return 1;
}

/* Finds where a key's record is.  Inside an epoch. */
static void ahead_look(struct job *job, uint32_t row, struct entry *entry,
                       uint64_t word) {
  emb_session *s = job->session;
  struct core *core = s->core;
  uint64_t seen =
      word ? txn_word(s, job->keys[row], hash_key(job->keys[row]), word) : 0;
  job->ahead.asked++;
  if (!seen) {
    job->ahead.absent++;
  } else if (key_rec(core, seen)) {
    job->ahead.in_memory++;
    if (job->kind == JOB_AHEAD && seen == word) {
      if (word & WORD_CACHED) {
        cache_pin(&core->cache, cache_at(&core->cache, word_address(word)));
      } else {
        key_expect(entry, word);
      }
    }
  } else {
    job->cold[job->n++] = (struct cold){word_address(seen), row};
  }
}

static int ahead_look_up(struct job *job) {
  emb_session *s = job->session;
  struct core *core = s->core;
  struct env *env = core->env;
  size_t n = job->key_count, room = 16;
  while (room < n * 2) {
    room *= 2;
  }
  struct ahead_seen seen = {env->allocate(env, room * sizeof *seen.rows),
                            room - 1};
  if (!seen.rows) {
    return session_error(s, EMB_NOMEM, "out of memory");
  }
  int rc = EMB_OK;
  for (size_t at = 0; !rc && at < n; at += s->chunk) {
    size_t m = n - at < s->chunk ? n - at : s->chunk;
    epoch_enter(&core->epoch, s->slot);
    rows_find(s, job->keys + at, 0, (uint32_t)m);
    for (size_t i = 0; i < m; i++) {
      if (ahead_is_new(&seen, job->keys, (uint32_t)(at + i), s->hashes[i])) {
        ahead_look(job, (uint32_t)(at + i), s->entries[i], s->words[i]);
      }
    }
    epoch_leave(s->slot);
    rc = session_poll(s);
  }
  env->release(env, seen.rows);
  return rc;
}

static void ahead_report(struct job *job, emb_ahead *result) {
  if (result) {
    *result = job->ahead;
    result->done = job_is_done(job);
    result->read = atomic_load(&job->read);
    result->refused = atomic_load(&job->refused);
  }
}

static void ahead_count(const struct job *job) {
  struct counters *c = &job->session->core->counters;
  count_add(&c->ahead_asked, job->ahead.asked);
  count_add(&c->ahead_memory, job->ahead.in_memory);
  count_add(&c->ahead_absent, job->ahead.absent);
}

int local_lookahead(emb_session *s, const int64_t *keys, size_t n, int dest,
                    emb_ahead *result) {
  struct env *env = s->core->env;
  int rc = session_begin(s);
  if (!rc && (dest < EMB_AHEAD_BUFFER || dest > EMB_AHEAD_CACHE)) {
    rc = session_error(s, EMB_RANGE, "unknown destination %d", dest);
  }
  if (!rc && n > UINT32_MAX / 2) {
    rc = session_error(s, EMB_RANGE, "too many keys");
  }
  rc = rc ? rc : own_refresh(s);
  rc = rc ? rc : make_aheads(s);
  int kind = dest == EMB_AHEAD_CACHE ? JOB_KEEP : JOB_AHEAD;
  struct job *job = rc ? NULL : job_new(s, kind, keys, n);
  if (!job) {
    return rc ? rc : s->err.code;
  }
  job->run = job_read;
  job->use = kind == JOB_KEEP ? use_kept : use_ahead;
  job->cold = env->resize(env, NULL, (n + 1) * sizeof *job->cold);
  rc = job->cold ? ahead_look_up(job)
                 : session_error(s, EMB_NOMEM, "out of memory");
  job->ahead.to_read = job->n;
  job->number = job->ahead.number = s->ahead.last + 1;
  if (!rc) {
    ahead_drop(s, job->number % AHEADS);
  }
  if (!rc && kind == JOB_KEEP) {
    rc = ahead_make_room(s, job);
  }
  rc = rc ? rc : job_start(job);
  if (rc) {
    s->ahead.list->kept_bytes -= job->kept_bytes;
    job_free(job);
    return rc;
  }
  ahead_count(job);
  atomic_store_explicit(&s->core->expected_until_us,
                        env->now_us(env) +
                            CACHE_PIN_SECONDS * UINT64_C(1000000),
                        memory_order_relaxed);
  s->ahead.last = job->number;
  s->ahead.list->jobs[job->number % AHEADS] = job;
  emb_check(async_aheads_valid(s));
  ahead_report(job, result);
  return EMB_OK;
}

/* Was the job begun in another process, and did it end with that process
** (serve/remote_calls.c)?  Then no job here has its number. */
static int was_elsewhere(const emb_session *s, uint64_t number) {
  const struct job *job =
      s->ahead.list ? s->ahead.list->jobs[number % AHEADS] : NULL;
  return number && number <= s->ahead.last && s->ahead.last - number < AHEADS &&
         (!job || job->number != number);
}

static struct job *ahead_find(emb_session *s, uint64_t number) {
  struct job *job =
      s->ahead.list && number ? s->ahead.list->jobs[number % AHEADS] : NULL;
  if (job && job->number == number) {
    return job;
  }
  session_error(s, EMB_RANGE, "no look-ahead with number %llu",
                (unsigned long long)number);
  return NULL;
}

int local_lookahead_progress(emb_session *s, uint64_t number,
                             emb_ahead *result) {
  int rc = session_begin(s);
  if (!rc && was_elsewhere(s, number)) {
    *result = (emb_ahead){.number = number, .done = 1};
    return EMB_OK;
  }
  struct job *job = rc ? NULL : ahead_find(s, number);
  if (!job) {
    return rc ? rc : s->err.code;
  }
  ahead_report(job, result);
  return EMB_OK;
}

int local_lookahead_wait(emb_session *s, uint64_t number) {
  int rc = session_begin(s);
  if (rc || was_elsewhere(s, number)) {
    return rc;
  }
  struct job *job = ahead_find(s, number);
  if (!job) {
    return s->err.code;
  }
  rc = job_wait(job, 1);
  if (!rc && job->rc) {
    s->err = job->err;
    rc = job->rc;
  }
  return rc;
}

void ahead__close(emb_session *s) {
  struct env *env = s->core->env;
  if (s->ahead.list) {
    emb_check(async_aheads_valid(s));
    for (uint64_t i = 0; i < AHEADS; i++) {
      ahead_drop(s, i);
    }
    index_free(&s->ahead.list->kept);
    env->release(env, s->ahead.list);
    s->ahead.list = NULL;
    s->ahead.serve = NULL;
  }
}

/* ---- for emb_stats ------------------------------------------------------- */

static void ahead_metrics(emb_store *store, struct metrics *to) {
  struct counters *c = &store->core.counters;
  metric_count(to, "lookahead_asked", &c->ahead_asked);
  metric_count(to, "lookahead_in_memory", &c->ahead_memory);
  metric_count(to, "lookahead_absent", &c->ahead_absent);
  metric_count(to, "lookahead_read", &c->ahead_read);
  metric_count(to, "lookahead_refused", &c->ahead_refused);
  metric_number(
      to, "lookahead_pinned",
      atomic_load_explicit(&store->core.cache.pinned, memory_order_relaxed));
  metric_count(to, "prefetch_batches", &c->prefetches);
  metric_count(to, "write_back_batches", &c->write_backs);
}

const struct feature feature_lookahead = {
    .name = "lookahead",
    .metrics = ahead_metrics,
};
