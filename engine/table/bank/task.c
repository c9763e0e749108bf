/* SPDX-License-Identifier: MIT
**
** task.c -- the bank of a store: opening and closing it, expiry, and the two
** calls that flush it and list it.
**
** EXPIRY    The task applies gradients that were pending for `expire`, a few
**           pieces a run, with a session of its own.  It does not wait for keys
**           that are taken or held: they are due again immediately.  After an
**           error it rests a little, since the cause is unlikely to have gone
**           away.  In emb_step, all pending gradients are due.
** LANE      A step may have to wait for room in the log, so the task runs under
**           no lock.
*/
#include "bank.h"
#include "engine/table/jobs/tasks.h"
#include "engine/table/jobs/begin.h"
#include "engine/table/owner/own.h"
#include "engine/table/store/metrics.h"

#include <string.h>

/* Maximum number of keys applied by one run. */
#define RUN_KEYS (16 * BANK_PIECE)
#define AGAIN_US 50000

/* ---- a store's bank ------------------------------------------------------ */

/* EMB_RANGE, EMB_NOMEM. */
static int bank_init(emb_store *store, emb_err *err) {
  struct bank *bank = bank_of(store);
  struct env *env = store->core.env;
  int rc = bank__parse(&bank->rule, store->config.gradients, err);
  bank->store = store;
  if (rc || !bank->rule.is_on) {
    return rc;
  }
  bank->shards = env->allocate(env, BANK_SHARDS * sizeof *bank->shards);
  rc = bank->shards ? EMB_OK : EMB_NOMEM;
  for (int i = 0; bank->shards && i < BANK_SHARDS; i++) {
    int failed = bank__shard_init(bank, &bank->shards[i]);
    rc = rc ? rc : failed;
  }
  return rc ? err_set(err, rc, "out of memory") : EMB_OK;
}

static int bank_begin(emb_store *store, emb_err *err) {
  (void)err;
  struct bank *bank = bank_of(store);
  size_t element =
      bank->rule.outlier == OUTLIER_NONE ? sizeof(double) : sizeof(float);
  bank->dim = store->core.layout.dim;
  bank->given_bytes =
      offsetof(struct bank_given, u) + (size_t)bank->dim * element;
  store->average = bank->rule.is_on ? bank__apply_gradients : NULL;
  return EMB_OK;
}

static int bank_is_empty(const struct bank *bank) {
  for (int i = 0; bank->shards && i < BANK_SHARDS; i++) {
    if (atomic_load(&bank->shards[i].keys)) {
      return 0;
    }
  }
  return 1;
}

/* Applies all pending gradients. */
static int bank_close(emb_store *store, emb_err *err) {
  const struct bank_want all = {.waits = 1};
  emb_session *s;
  if (bank_is_empty(bank_of(store)) || !atomic_load(&store->own.is_owner) ||
      atomic_load(&store->dropped)) {
    return EMB_OK;
  }
  int rc = session_new(store, &s, err);
  if (rc) {
    return rc;
  }
  rc = bank__settle(s, &all, NULL);
  if (rc && err) {
    *err = s->err;
  }
  session_free(s);
  return rc;
}

static void bank_free(emb_store *store) {
  struct bank *bank = bank_of(store);
  struct env *env = store->core.env;
  if (bank->s) {
    session_free(bank->s);
    bank->s = NULL;
  }
  for (int i = 0; bank->shards && i < BANK_SHARDS; i++) {
    bank__shard_free(bank, &bank->shards[i]);
  }
  env->release(env, bank->shards);
  bank->shards = NULL;
  store->average = NULL;
}

/* ---- expiry -------------------------------------------------------------- */

struct expiry_state {
  uint64_t failed_us; /* when a run had an error, 0: none since */
};
_Static_assert(sizeof(struct expiry_state) <= TASK_STATE * 8, "state");

/* When the oldest pending gradient came; 0: none is pending. */
static uint64_t oldest_us(const struct bank *bank) {
  uint64_t oldest = 0;
  for (int i = 0; bank->shards && i < BANK_SHARDS; i++) {
    struct bank_shard *shard = &bank->shards[i];
    if (!atomic_load_explicit(&shard->keys, memory_order_acquire)) {
      continue;
    }
    pthread_mutex_lock(&shard->lock);
    const struct bank_key *key = shard->oldest;
    while (key && !key->n) {
      key = key->newer;
    }
    if (key && (!oldest || key->since_us < oldest)) {
      oldest = key->since_us;
    }
    pthread_mutex_unlock(&shard->lock);
  }
  return oldest;
}

/* Gradients that came at this time or before are due; 0: none are. */
static uint64_t due_before(const struct pass *pass) {
  const struct bank *bank = bank_of(pass->store);
  const struct expiry_state *state = pass->state;
  struct env *env = pass->store->core.env;
  uint64_t oldest = oldest_us(bank), now = env->now_us(env);
  uint64_t age = pass->by_thread ? bank->rule.expire_us : 0;
  if (!oldest || !tasks_may_work(pass->store) ||
      atomic_load(&pass->store->dropped) ||
      (pass->by_thread && now - state->failed_us < AGAIN_US)) {
    return 0;
  }
  return oldest + age <= now ? now - age : 0;
}

static int bank_due(struct pass *pass) { return due_before(pass) != 0; }

static int bank_run(struct pass *pass, enum outcome *did, emb_err *err) {
  emb_store *store = pass->store;
  struct bank *bank = bank_of(store);
  struct expiry_state *state = pass->state;
  struct env *env = store->core.env;
  const struct bank_want want = {.most = RUN_KEYS,
                                 .before_us = due_before(pass)};
  uint64_t steps = 0;
  int rc =
      want.before_us && !bank->s ? session_new(store, &bank->s, err) : EMB_OK;
  if (!rc && want.before_us) {
    rc = bank__settle(bank->s, &want, &steps);
  }
  state->failed_us = rc || !steps ? env->now_us(env) : 0;
  *did = !steps ? PIECE_NONE : steps < RUN_KEYS || rc ? PIECE_DONE : PIECE_MORE;
  return EMB_OK; /* other tasks go on; calls that need the row get the error */
}

static uint64_t bank_rest(struct pass *pass) {
  const struct bank *bank = bank_of(pass->store);
  const struct expiry_state *state = pass->state;
  struct env *env = pass->store->core.env;
  uint64_t oldest = oldest_us(bank), now = env->now_us(env);
  if (!oldest || atomic_load(&pass->store->dropped)) {
    return TASKS_NEVER;
  }
  uint64_t at = oldest + bank->rule.expire_us;
  uint64_t again = state->failed_us ? state->failed_us + AGAIN_US : 0;
  at = at > again ? at : again;
  return at > now ? at - now : 0;
}

static const struct task task_bank = {
    TASK_NAMED("gradients"), .lane = LANE_AFTER, .due = bank_due,
    .rest = bank_rest,       .run = bank_run,
};

/* ---- calls --------------------------------------------------------------- */

int local_flush_gradients(emb_session *s, uint64_t *steps) {
  uint64_t done = 0;
  int rc = begin_write(s);
  rc = rc ? rc : own_claim(s);
  if (!rc && s->store->average) {
    rc = bank__settle(s, &(struct bank_want){.waits = 1}, &done);
  }
  if (steps) {
    *steps = done;
  }
  return rc;
}

static void list_key(const struct bank_key *key, uint64_t now,
                     emb_pending_key *to) {
  uint64_t since = key->taken ? key->taken_us : key->since_us;
  memset(to, 0, sizeof *to);
  to->key = key->key;
  to->gradients = key->n + key->taken_n;
  to->age_us = now > since ? now - since : 0;
}

int local_pending(emb_session *s, emb_pending_key *keys, size_t max,
                  size_t *n) {
  const struct bank *bank = bank_of(s->store);
  struct env *env = s->core->env;
  *n = 0;
  int rc = session_begin(s);
  rc = rc ? rc : own_refresh(s);
  for (int i = 0; !rc && bank->shards && i < BANK_SHARDS; i++) {
    struct bank_shard *shard = &bank->shards[i];
    pthread_mutex_lock(&shard->lock);
    uint64_t now = env->now_us(env);
    for (const struct bank_key *key = shard->oldest; key; key = key->newer) {
      if (*n < max) {
        list_key(key, now, &keys[*n]);
      }
      ++*n;
    }
    pthread_mutex_unlock(&shard->lock);
  }
  return rc;
}

/* ---- for emb_stats ------------------------------------------------------- */

static void bank_metrics(emb_store *store, struct metrics *to) {
  struct bank *bank = bank_of(store);
  uint64_t gradients = 0, keys = 0, bytes = 0;
  for (int i = 0; bank->shards && i < BANK_SHARDS; i++) {
    struct bank_shard *shard = &bank->shards[i];
    pthread_mutex_lock(&shard->lock);
    gradients += shard->gradients;
    keys += atomic_load_explicit(&shard->keys, memory_order_relaxed);
    bytes += atomic_load_explicit(&shard->bytes, memory_order_relaxed);
    pthread_mutex_unlock(&shard->lock);
  }
  metric_number(to, "gradients_pending", gradients);
  metric_number(to, "gradients_pending_keys", keys);
  metric_number(to, "gradients_pending_bytes", bytes);
  metric_count(to, "gradients_kept", &bank->kept);
  metric_count(to, "gradients_steps", &bank->steps);
  metric_count(to, "gradients_outliers", &bank->outliers);
  metric_count(to, "gradients_refused", &bank->refused);
  metric_count(to, "gradients_overflows", &bank->overflows);
}

const struct feature feature_bank = {
    .name = "bank",
    .state_bytes = sizeof(struct bank),
    .tasks = FEATURE_TASKS(&task_bank),
    .init = bank_init,
    .begin = bank_begin,
    .drain = bank_close,
    .free = bank_free,
    .metrics = bank_metrics,
};
