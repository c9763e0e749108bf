/* SPDX-License-Identifier: MIT
**
** bound.c -- see bound.h.
*/
#include "bound.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/table/session/txn_map.h"
#include "engine/table/store/metrics.h"

/* A waiting session checks for interruption at least this often. */
#define WAIT_MS 10
/* An empty lease table with more slots than this is freed. */
#define ROOM_KEPT 65536
/* Keys between the prefetch of a key's buckets and their use.
** Giving back a million leases took 0.30 s without, 0.15 s with it. */
#define RELEASE_AHEAD 16

uint32_t bound_call(emb_session *s) {
  if (!s->leases.held) {
    atomic_store_explicit(&s->leases.since_us,
                          s->core->env->now_us(s->core->env),
                          memory_order_relaxed);
  }
  return lease_next_call(&s->leases);
}

int bound_reserve(emb_session *s, size_t n) {
  return lease_reserve(&s->leases, s->core->env, n)
             ? session_error(s, EMB_NOMEM, "out of memory")
             : EMB_OK;
}

int bound_try(emb_session *s, int64_t key, uint64_t hash, uint32_t call,
              struct entry **entry, uint64_t *word) {
  struct leases *leases = &s->leases;
  struct lease *lease = lease_find(leases, key, hash);
  emb_assert(!epoch_outside());
  if (lease && lease_counted_since(
                   lease, leases->statement ? leases->statement_call : call)) {
    return KEY_FOUND;
  }
  if ((*word & WORD_INTENT) || !word_address(*word)) {
    int own = 0;
    if (s->txn && (*word & WORD_INTENT)) {
      session_txn_find(s->txn, key, hash, &own);
    }
    if (own) {
      return KEY_FOUND; /* the session's own uncommitted Put is never stale */
    }
    if (!txn_word(s, key, hash, *word)) {
      return KEY_ABSENT;
    }
  }
  int rc = key_acquire(s->core, key, hash, entry, word);
  if (rc == KEY_FOUND) {
    lease_take(leases, lease, key, call);
    bound_note_statement(s);
  } else if (rc == KEY_ABSENT) {
    *word = 0;
  }
  return rc;
}

/* Subtracts n from the session's lease and from the key's pending reads. */
static void lease_settle(emb_session *s, struct lease *lease, uint32_t n) {
  uint64_t hash = hash_key(lease->key);
  key_release(s->core, lease->key, hash, n);
  released_add(&s->released, hash);
  lease_drop(&s->leases, lease, n);
}

/* Prefetches what giving back the i-th key's lease reads. */
static inline void release_prefetch(const emb_session *s, const int64_t *keys,
                                    size_t n, size_t i) {
  if (i < n) {
    uint64_t hash = hash_key(keys[i]);
    index_prefetch(&s->core->index, hash);
  }
}

void bound_release_call(emb_session *s, const int64_t *keys, size_t n,
                        uint32_t call) {
  for (size_t at = 0; at < n; at += CHUNK_MAX) {
    epoch_enter(&s->core->epoch, s->slot);
    for (size_t i = at; i < n && i < at + CHUNK_MAX; i++) {
      release_prefetch(s, keys, n, i + RELEASE_AHEAD);
      struct lease *lease = lease_find(&s->leases, keys[i], hash_key(keys[i]));
      if (lease && lease->call == call && !lease->put) {
        lease->put = 1; /* a repeated key is given back only once */
        lease_settle(s, lease, 1);
      }
    }
    epoch_leave(s->slot);
  }
  bound_signal(s, 0);
}

void bound_note_call(emb_session *s, const int64_t *keys, size_t n,
                     uint32_t call, uint8_t *counted) {
  for (size_t i = 0; i < n; i++) {
    const struct lease *lease =
        lease_find(&s->leases, keys[i], hash_key(keys[i]));
    counted[i] = lease && lease->call == call && !lease->put;
  }
}

void bound_release_rows(emb_session *s, const int64_t *keys, size_t n,
                        uint8_t *counted) {
  uint32_t call = lease_next_call(&s->leases);
  for (size_t at = 0; at < n; at += CHUNK_MAX) {
    epoch_enter(&s->core->epoch, s->slot);
    for (size_t i = at; i < n && i < at + CHUNK_MAX; i++) {
      uint64_t hash = hash_key(keys[i]);
      release_prefetch(s, keys, n, i + RELEASE_AHEAD);
      if (counted[i] && bound_take(s, keys[i], hash, call)) {
        key_release(s->core, keys[i], hash, 1);
      }
      counted[i] = 0;
    }
    epoch_leave(s->slot);
  }
  bound_signal(s, 0);
}

/* ---- waiting ------------------------------------------------------------- */

/* Tries once; *pending: the key's pending reads. */
static int try_key(emb_session *s, int64_t key, uint64_t hash, uint32_t call,
                   uint32_t *pending) {
  uint64_t word;
  epoch_enter(&s->core->epoch, s->slot);
  struct entry *entry = index_find(&s->core->index, key, hash, &word);
  int rc = entry ? bound_try(s, key, hash, call, &entry, &word) : KEY_ABSENT;
  epoch_leave(s->slot);
  *pending = word_pending(word);
  return rc;
}

/* The other sessions that hold leases on the key. */
struct holders {
  struct lease_seen oldest;
  int64_t process; /* of the oldest; below 0: its pid is not visible */
  uint64_t number; /* 0: a connection of the owner's own process */
  uint32_t held;   /* leases of all holders seen */
  size_t count;
};

static void note_holder(struct holders *h, const emb_session *other,
                        const struct lease_seen *seen) {
  h->held += seen->held;
  if (!h->count++ || seen->since_us < h->oldest.since_us) {
    h->oldest = *seen;
    h->process =
        other->client.process ? other->client.process : other->store->process;
    h->number = other->client.number;
  }
}

/* Tries again if the leases seen do not add up to `pending`. */
static void find_holders(emb_session *s, int64_t key, uint32_t pending,
                         struct holders *h) {
  uint64_t hash = hash_key(key);
  const struct lease *own = lease_find(&s->leases, key, hash);
  uint32_t others = pending - (own ? own->held : 0);
  for (int tries = 0; tries < 3; tries++) {
    struct lease_seen seen;
    memset(h, 0, sizeof *h);
    pthread_mutex_lock(&s->store->sessions.lock);
    for (emb_session *o = s->store->sessions.list; o; o = o->next) {
      if (o != s && lease_look(&o->leases, key, &seen)) {
        note_holder(h, o, &seen);
      }
    }
    pthread_mutex_unlock(&s->store->sessions.lock);
    if (h->held == others) {
      break;
    }
  }
}

/* "; connection 3 of process 4711 holds it, ...", or nothing. */
static void name_holders(emb_session *s, const struct holders *h, char *to,
                         size_t room) {
  uint64_t now = s->core->env->now_us(s->core->env);
  uint64_t tenths =
      now > h->oldest.since_us ? (now - h->oldest.since_us) / 100000 : 0;
  char who[80] = "a connection", process[40] = "another container",
       batch[60] = "", more[60] = "";
  to[0] = 0;
  if (!h->count) {
    return;
  }
  if (h->number) {
    snprintf(who, sizeof who, "connection %llu", (unsigned long long)h->number);
  }
  if (h->process > 0) {
    snprintf(process, sizeof process, "process %lld", (long long)h->process);
  }
  if (h->oldest.ticket) {
    snprintf(batch, sizeof batch, " by a batch in flight (prefetch %llu)",
             (unsigned long long)h->oldest.ticket);
  }
  if (h->count > 1) {
    snprintf(more, sizeof more, ", and %zu other connection%s too",
             h->count - 1, h->count > 2 ? "s" : "");
  }
  snprintf(to, room, "; %s of %s %s %llu.%llu s%s%s", who, process,
           h->oldest.ticket ? "has held it for"
                            : "holds it, and has had reads pending for",
           (unsigned long long)tenths / 10, (unsigned long long)tenths % 10,
           batch, more);
}

enum { BUSY_WAITED, BUSY_OWN };

/* why: a further reason for giving up, appended to the text. */
static int pending_reads_error(emb_session *s, int64_t key, uint32_t pending,
                               int kind, const char *why) {
  struct holders h = {0};
  char holders[256], larger[80] = "";
  count_add(&s->core->counters.staleness_busy, 1);
  if (kind == BUSY_OWN) {
    snprintf(holders, sizeof holders, "; this connection holds %s itself",
             pending == 1 ? "it" : "them all");
  } else {
    find_holders(s, key, pending, &h);
    name_holders(s, &h, holders, sizeof holders);
  }
  if (pending <= EMB_STALENESS_MAX) {
    snprintf(larger, sizeof larger,
             ", or make the table with a larger bound (staleness=%u or more)",
             pending);
  }
  return session_error(
      s, EMB_BUSY,
      "%s: key %lld has %u pending read%s and the staleness bound is %u%s%s: "
      "%s (emb_release), read it without counting (emb_peek)%s",
      s->core->dir, (long long)key, pending, pending == 1 ? "" : "s",
      s->core->staleness, holders, why,
      kind == BUSY_OWN  ? "write it or give it back"
      : h.oldest.ticket ? "synchronize and write it there, or give it back"
                        : "write it there or give it back",
      larger);
}

/* What a waiting session has seen of the other sessions, and since when. */
struct others {
  uint64_t undecided; /* number of the undecided transaction */
  uint64_t undecided_since;
  uint64_t rows_since; /* 0: no other session has leases of a statement */
};

/* Looks for a deadlock through the caller (SQLite).  The holder of the lease
** may be waiting to commit, or waiting for another session that waits to
** commit, and that commit may be waiting for a lock of this session's caller;
** or the holders need a statement to give their leases back, and the caller
** blocks all writers.  No session would proceed before the timeout.  Gives up
** only after WAIT_MS, since a commit that is past its decision looks the same.
** NULL: no reason to give up. */
static const char *in_the_way(emb_session *s, uint64_t now,
                              struct others *seen) {
  uint64_t undecided =
      s->txn && s->txn->prepared ? 0 : atomic_load(&s->store->txn.undecided);
  int rows = atomic_load(&s->store->txn.leases_of_rows) - s->leases.of_rows;
  if (undecided != seen->undecided) {
    seen->undecided = undecided;
    seen->undecided_since = now;
  }
  seen->rows_since = rows <= 0 ? 0 : seen->rows_since ? seen->rows_since : now;
  if (!s->blocks.ask) {
    return NULL;
  }
  if (undecided && now - seen->undecided_since >= WAIT_MS * 1000 &&
      s->blocks.ask(s->blocks.arg, EMB_BLOCKS_COMMIT)) {
    return ", and a COMMIT waits for this statement";
  }
  if (seen->rows_since && now - seen->rows_since >= WAIT_MS * 1000 &&
      s->blocks.ask(s->blocks.arg, EMB_BLOCKS_WRITE)) {
    return ", and its reader cannot write while this transaction is open";
  }
  return NULL;
}

/* Begins to wait for a lease on a key: from now on a release wakes the
** session. */
static void wait_begin(struct core *core, struct release_waiter *w,
                       uint64_t hash) {
  pthread_condattr_t clock;
  *w = (struct release_waiter){.hash = hash};
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&w->woken, &clock);
  pthread_condattr_destroy(&clock);
  pthread_mutex_lock(&core->wake_lock);
  w->next = core->waiting;
  core->waiting = w;
  pthread_mutex_unlock(&core->wake_lock);
  atomic_fetch_add(&core->release_waiters, 1);
}

static void wait_end(struct core *core, struct release_waiter *w) {
  atomic_fetch_sub(&core->release_waiters, 1);
  pthread_mutex_lock(&core->wake_lock);
  struct release_waiter **at = &core->waiting;
  while (*at != w) {
    at = &(*at)->next;
  }
  *at = w->next;
  pthread_mutex_unlock(&core->wake_lock);
  pthread_cond_destroy(&w->woken);
}

/* Before an attempt: a lease given back after it ends the next sleep. */
static void wait_again(struct core *core, struct release_waiter *w) {
  pthread_mutex_lock(&core->wake_lock);
  w->is_woken = 0;
  pthread_mutex_unlock(&core->wake_lock);
}

/* Sleeps until a lease on the key may have been given back, at most `ms` or
** WAIT_MS. */
static void wait_for_release(struct core *core, struct release_waiter *w,
                             uint64_t ms) {
  pthread_mutex_lock(&core->wake_lock);
  if (!w->is_woken) {
    core_wait_ms(core, &w->woken, &core->wake_lock,
                 ms < WAIT_MS ? ms : WAIT_MS);
  }
  pthread_mutex_unlock(&core->wake_lock);
}

/* Counts one key; waits until the time `until` at most. */
static int acquire_key(emb_session *s, int64_t key, uint32_t call,
                       uint64_t until) {
  struct core *core = s->core;
  uint64_t hash = hash_key(key);
  struct others seen = {0, 0, 0};
  struct release_waiter waiter;
  const char *why;
  uint64_t began = 0;
  int rc = EMB_OK, waits = 0;
  while (!rc) {
    uint32_t pending;
    if (waits) {
      wait_again(core, &waiter);
    }
    if (try_key(s, key, hash, call, &pending) != KEY_BLOCKED) {
      break;
    }
    const struct lease *lease = lease_find(&s->leases, key, hash);
    uint64_t now = core->env->now_us(core->env);
    if (lease && lease->held == pending) {
      rc = pending_reads_error(s, key, pending, BUSY_OWN, "");
    } else if (now >= until) {
      rc = pending_reads_error(s, key, pending, BUSY_WAITED, "");
    } else if ((why = in_the_way(s, now, &seen)) != NULL) {
      rc = pending_reads_error(s, key, pending, BUSY_WAITED, why);
    } else if ((rc = session_poll_waiting(s, waits ? now - began : 0)) !=
               EMB_OK) {
      break;
    } else if (!waits) {
      waits = 1;
      began = now;
      count_add(&core->counters.staleness_waits, 1);
      wait_begin(core, &waiter, hash);
    } else {
      session_waits(s, 1);
      wait_for_release(core, &waiter, (until - now) / 1000 + 1);
      session_waits(s, -1);
    }
  }
  if (waits) {
    wait_end(core, &waiter);
  }
  return rc;
}

static int bound_by_hash(const void *a, const void *b) {
  uint64_t x = hash_key(*(const int64_t *)a), y = hash_key(*(const int64_t *)b);
  return x < y ? -1 : x > y;
}

int bound_acquire(emb_session *s, const int64_t *keys, size_t n,
                  uint32_t call) {
  struct env *env = s->core->env;
  uint64_t until = env->now_us(env) + session_timeout_us(s);
  emb_assert(epoch_outside()); /* E1 */
  int rc = bound_reserve(s, n);
  int64_t *sorted = rc ? NULL : env->resize(env, NULL, n * sizeof *sorted + 1);
  if (!rc && !sorted) {
    rc = session_error(s, EMB_NOMEM, "out of memory");
  }
  if (rc) {
    return rc;
  }
  memcpy(sorted, keys, n * sizeof *sorted);
  rc = session_sort(s, sorted, n, sizeof *sorted, bound_by_hash);
  size_t i = 0;
  for (; !rc && i < n; i++) {
    rc = i % CHUNK_MAX ? EMB_OK : session_poll(s);
    rc = rc ? rc : acquire_key(s, sorted[i], call, until);
  }
  if (rc) {
    bound_release_call(s, sorted, i, call);
  }
  env->release(env, sorted);
  return rc;
}

/* ---- giving back --------------------------------------------------------- */

void bound_untake(emb_session *s, int64_t key, uint64_t hash) {
  if (bound_reserve(s, 1)) {
    key_release(s->core, key, hash, 1); /* rather than never */
    released_add(&s->released, hash);
    return;
  }
  struct leases *leases = &s->leases;
  lease_take(leases, lease_find(leases, key, hash), key, bound_call(s));
}

void bound_put_later(emb_session *s, int64_t key, uint64_t hash,
                     uint32_t call) {
  struct lease *lease = lease_find(&s->leases, key, hash);
  emb_assert(s->txn); /* whose commit gives the lease back */
  if (lease && !(lease->put && lease->call == call)) {
    lease_call(&s->leases, lease, call);
    lease->put = 1;
    if (lease->deferred < lease->held && lease->deferred < LEASE_DEFERRED_MAX) {
      lease->deferred = (lease->deferred + 1u) & LEASE_DEFERRED_MAX;
    }
  }
}

uint32_t bound_deferred(emb_session *s, int64_t key, uint64_t hash) {
  const struct lease *lease = lease_find(&s->leases, key, hash);
  return lease ? lease->deferred : 0;
}

void bound_defer(emb_session *s, int64_t key, uint64_t hash, uint32_t n) {
  struct lease *lease = lease_find(&s->leases, key, hash);
  if (lease) {
    lease->deferred = (n < lease->held ? n : lease->held) & LEASE_DEFERRED_MAX;
  }
}

uint32_t bound_settle(emb_session *s, int64_t key, uint64_t hash, int commit) {
  struct lease *lease = lease_find(&s->leases, key, hash);
  if (!lease) {
    return 0;
  }
  uint32_t n = commit ? lease->deferred : 0;
  emb_assert(lease->deferred <= lease->held);
  lease->deferred = 0;
  lease_drop(&s->leases, lease, n);
  return n;
}

enum { RELEASE_ALL, RELEASE_MARKED, RELEASE_STATEMENT };

/* How many Gets of a lease must be given back. */
static uint32_t release_most(const struct leases *leases,
                             const struct lease *lease, int which) {
  if (which == RELEASE_MARKED) {
    return lease_marked(leases, lease);
  }
  if (which == RELEASE_STATEMENT) {
    return lease_counted_since(lease, leases->statement_call) ? 1 : 0;
  }
  return lease->held;
}

/* Gives back up to n leases, from slot `at` on; returns where it stopped. */
static size_t release_some(emb_session *s, int which, size_t at, size_t n) {
  struct leases *leases = &s->leases;
  for (; at < leases->count && n; at++) {
    struct lease *lease = &leases->slots[at];
    size_t ahead = at + RELEASE_AHEAD;
    if (ahead < leases->count && leases->slots[ahead].held) {
      index_prefetch(&s->core->index, hash_key(leases->slots[ahead].key));
    }
    uint32_t most = release_most(leases, lease, which);
    if (lease->held && most) {
      if (which == RELEASE_STATEMENT) {
        lease->put = 1; /* no longer counted by the statement */
      } else {
        lease->marked = 0;
      }
      lease_settle(s, lease, most);
      n--;
    }
  }
  return at;
}

static size_t release_leases(emb_session *s, int which) {
  struct leases *leases = &s->leases;
  size_t before = leases->held, at = 0;
  while (leases->held && at < leases->count) {
    epoch_enter(&s->core->epoch, s->slot);
    at = release_some(s, which, at, CHUNK_MAX);
    epoch_leave(s->slot);
  }
  emb_assert(which != RELEASE_ALL || !leases->held);
  if (!leases->held && leases->room > ROOM_KEPT) {
    lease_free(leases, s->core->env);
  }
  bound_signal(s, 0);
  emb_check(!core_bounded(s->core) || bound_valid(s));
  return before - leases->held;
}

void local_statement(emb_session *s, uint64_t number) {
  struct leases *leases = &s->leases;
  if (number && number != leases->statement_last) {
    leases->statement_call = leases->calls + 1;
    leases->statement_last = number;
  }
  leases->statement = number;
}

size_t local_release(emb_session *s) {
  return session_begin(s) ? 0 : release_leases(s, RELEASE_ALL);
}

size_t local_release_marked(emb_session *s) {
  return session_begin(s) ? 0 : release_leases(s, RELEASE_MARKED);
}

size_t local_release_statement(emb_session *s) {
  return session_begin(s) || !s->leases.statement
             ? 0
             : release_leases(s, RELEASE_STATEMENT);
}

size_t local_leases(const emb_session *s) { return s->leases.held; }

void local_lease_mark(emb_session *s, int mark) {
  s->leases.since = s->leases.calls + 1;
  s->leases.mark = mark != 0;
}

int local_clocks(emb_session *s, const int64_t *keys, size_t n,
                 uint32_t *clocks) {
  int rc = session_begin(s);
  for (size_t at = 0; !rc && at < n; at += CHUNK_MAX) {
    epoch_enter(&s->core->epoch, s->slot);
    for (size_t i = at; i < n && i < at + CHUNK_MAX; i++) {
      uint64_t word;
      index_find(&s->core->index, keys[i], hash_key(keys[i]), &word);
      clocks[i] = word_pending(word);
    }
    epoch_leave(s->slot);
  }
  return rc;
}

/* ---- for emb_stats ------------------------------------------------------- */

static void bound_metrics(emb_store *store, struct metrics *to) {
  struct core *core = &store->core;
  if (core_bounded(core)) {
    metric_number(to, "staleness", core->staleness);
  } else {
    metric_text(to, "staleness", "none");
  }
  metric_count(to, "staleness_waits", &core->counters.staleness_waits);
  metric_count(to, "staleness_busy", &core->counters.staleness_busy);
}

const struct feature feature_bound = {
    .name = "bound",
    .metrics = bound_metrics,
};
