/* SPDX-License-Identifier: MIT
**
** rmw.c -- vector += delta, atomically per key.
**
** With the record in memory the sum is made under the key's latch.  With the
** record on disk it is read first, outside the epoch; then, under the latch,
** the key must still be where the read found it, else the row goes round again
** (two rows of one key in a batch do that: the second finds it in memory).
*/
#include <string.h>

#include "clock.h"
#include "txn.h"

enum { ROW_ROOM = LOG_ROOM, ROW_HELD = -3, ROW_COLD = -4 };

struct rmw {
  emb_session *s;
  const int64_t *keys;
  const float *deltas;
  uint8_t *found;
  uint64_t *versions; /* or NULL */
  struct run run;
  uint64_t version;
  uint32_t call;       /* 0: no Gets are counted */
  char *loaded;        /* stored vectors that were read from disk */
  uint64_t *loaded_at; /* per row: log address of its loaded vector, or 0 */
};

/* Sum of a stored vector and the row's delta, in stored form, in s->scratch.
** 0: an element is not finite. */
static int sum(struct rmw *r, uint32_t row, const void *stored) {
  emb_session *s = r->s;
  const struct layout *l = &s->core->layout;
  float *x = s->scratch_f32;
  session_decode(s, x, stored);
  s->core->vec->add(x, x, r->deltas + (size_t)row * l->dim, l->dim);
  if (s->core->vec->find_bad(x, l->dim) < l->dim) {
    return 0;
  }
  if (l->type == EMB_F32) {
    memcpy(s->scratch, x, l->vector_bytes);
    return 1;
  }
  uint16_t *half = (uint16_t *)(void *)s->scratch;
  s->core->vec->to_f16(half, x, l->dim);
  for (uint32_t i = 0; i < l->dim; i++) {
    if ((half[i] & 0x7c00) == 0x7c00) {
      return 0;
    }
  }
  return 1;
}

static uint64_t give_back(struct rmw *r, uint32_t row, uint64_t word) {
  int64_t key = r->keys[row];
  return r->call ? clock_put(r->s, key, hash_key(key), r->call, word) : word;
}

static void tell_version(struct rmw *r, uint32_t row, uint64_t version) {
  if (r->versions) {
    r->versions[row] = version;
  }
}

/* The key is latched; stored: its present vector. */
static int apply(struct rmw *r, uint32_t row, struct entry *entry,
                 uint64_t word, const void *stored, uint64_t old_version,
                 struct rec *rec) {
  struct core *core = r->s->core;
  int64_t key = r->keys[row];
  if (!sum(r, row, stored)) {
    key_unlatch(entry, word);
    return session_error(r->s, EMB_RANGE,
                         "row %u (key %lld): the sum is not finite", row,
                         (long long)key);
  }
  uint64_t version = r->version + row;
  version = version > old_version ? version : old_version + 1;
  size_t bytes = core->layout.vector_bytes;
  if (rec && !(word & WORD_CACHED) &&
      log_mutable(&core->log, word_address(word))) {
    rec_begin(rec);
    rec_fill(rec, key, r->s->scratch, bytes, version);
    key_unlatch(entry, give_back(r, row, word));
    tell_version(r, row, version);
    return EMB_OK;
  }
  uint64_t address;
  int rc = run_take(core, &r->run, 1, key_log_address(core, word), &address);
  if (rc) {
    key_unlatch(entry, word);
    return rc;
  }
  rec_fill(log_rec(&core->log, address), key, r->s->scratch, bytes, version);
  key_publish(core, key, entry, give_back(r, row, word), address);
  tell_version(r, row, version);
  return EMB_OK;
}

static int rmw_row(struct rmw *r, uint32_t row, uint64_t *cold_at) {
  emb_session *s = r->s;
  struct core *core = s->core;
  struct entry *entry;
  uint64_t word;
  int64_t key = r->keys[row];
  int found = key_latch(core, key, hash_key(key), &entry, &word);
  if (found == KEY_FOUND && !word_address(word)) {
    key_unlatch(entry, word); /* removed while it was leased */
    found = KEY_ABSENT;
  }
  switch (found) {
  case KEY_INTENT:
    return ROW_HELD;
  case KEY_ABSENT:
    if (r->found) {
      r->found[row] = 0;
    }
    tell_version(r, row, 0);
    return EMB_OK;
  }
  if (r->found) {
    r->found[row] = 1;
  }
  struct rec *rec = key_rec(core, word);
  uint64_t at = key_log_address(core, word);
  if (rec) {
    /* Nobody writes while we hold the latch: the record can be read as is. */
    return apply(
        r, row, entry, word, rec->vector,
        rec_version(atomic_load_explicit(&rec->stamp, memory_order_relaxed)),
        rec);
  }
  if (r->loaded_at[row] == at) {
    return apply(r, row, entry, word,
                 r->loaded + (size_t)row * core->layout.vector_bytes, 0, NULL);
  }
  key_unlatch(entry, word);
  *cold_at = at;
  return ROW_COLD;
}

static int keep(emb_session *s, void *arg, uint32_t row, int64_t key,
                const struct rec *rec) {
  struct rmw *r = arg;
  (void)key;
  memcpy(r->loaded + (size_t)row * s->core->layout.vector_bytes, rec->vector,
         s->core->layout.vector_bytes);
  return EMB_OK;
}

/* Rows s->rows[0..n) in one stay.  Rows that need the disk are put into
** s->cold, the rest of an interrupted stay is moved to the front of s->rows. */
static int stay(struct rmw *r, uint32_t *n, uint32_t *cold) {
  emb_session *s = r->s;
  int rc = EMB_OK;
  uint32_t i = 0;
  memset(&r->run, 0, sizeof r->run);
  epoch_enter(&s->core->epoch, s->slot);
  r->version = atomic_fetch_add_explicit(&s->core->version, s->chunk,
                                         memory_order_relaxed) +
               1;
  for (; i < *n; i++) {
    uint64_t at = 0;
    rc = rmw_row(r, s->rows[i], &at);
    if (rc == ROW_COLD) {
      s->cold[(*cold)++] = (struct cold){at, s->rows[i]};
      rc = EMB_OK;
    }
    if (rc) {
      break;
    }
  }
  epoch_leave(s->slot);
  *n -= i;
  memmove(s->rows, s->rows + i, *n * sizeof *s->rows);
  return rc;
}

static int rmw_chunk(struct rmw *r, uint32_t n) {
  emb_session *s = r->s;
  uint64_t waited = 0;
  memset(r->loaded_at, 0, n * sizeof *r->loaded_at);
  for (uint32_t i = 0; i < n; i++) {
    s->rows[i] = i;
  }
  while (n) {
    uint32_t cold = 0;
    int rc = stay(r, &n, &cold);
    if (rc == ROW_ROOM) {
      rc = session_wait_room(s);
    } else if (rc == ROW_HELD) {
      rc = s->txn ? session_error(s, EMB_LOCKED,
                                  "key %lld was changed by this connection's "
                                  "open transaction",
                                  (long long)r->keys[s->rows[0]])
                  : session_wait_key(s, r->keys[s->rows[0]], &waited);
    }
    if (rc) {
      return rc;
    }
    if (cold) {
      for (uint32_t i = 0; i < cold; i++) {
        r->loaded_at[s->cold[i].row] = s->cold[i].address;
      }
      /* Unfinished rows stay in s->rows, moved ones are appended. */
      uint32_t rest = n;
      rc = read_cold(s, r->keys, cold, 0, keep, r, &n);
      if (rc) {
        return rc;
      }
      for (uint32_t i = rest; i < n; i++) {
        r->loaded_at[s->rows[i]] = 0;
      }
      for (uint32_t i = 0; i < cold; i++) {
        if (r->loaded_at[s->cold[i].row]) {
          s->rows[n++] = s->cold[i].row;
        }
      }
    }
  }
  return EMB_OK;
}

int emb_rmw(emb_session *s, const int64_t *keys, size_t n, const float *deltas,
            uint8_t *found, uint64_t *versions) {
  int rc = session_begin_write(s);
  rc = rc ? rc : check_rows(s, keys, n, deltas, "row");
  rc = rc ? rc : store_own(s);
  if (rc) {
    return rc;
  }
  struct env *env = s->core->env;
  struct rmw r = {s,         keys, deltas, found, versions,
                  {0, 0, 0}, 0,    0,      NULL,  NULL};
  r.call = core_bounded(s->core) ? lease_next_call(&s->leases) : 0;
  size_t most = n < s->chunk ? n : s->chunk;
  r.loaded = env->resize(env, NULL, most * s->core->layout.vector_bytes + 1);
  r.loaded_at = env->resize(env, NULL, (most + 1) * sizeof *r.loaded_at);
  if (!r.loaded || !r.loaded_at) {
    rc = session_error(s, EMB_NOMEM, "out of memory");
  }
  for (size_t at = 0; !rc && at < n; at += s->chunk) {
    size_t m = n - at < s->chunk ? n - at : s->chunk;
    r.keys = keys + at;
    r.deltas = deltas + at * s->core->layout.dim;
    r.found = found ? found + at : NULL;
    r.versions = versions ? versions + at : NULL;
    rc = rmw_chunk(&r, (uint32_t)m);
  }
  env->release(env, r.loaded);
  env->release(env, r.loaded_at);
  clock_tell(s);
  count_add(&s->core->counters.rmw_keys, n);
  if (frames_left(&s->core->frames) < core_low_water(s->core)) {
    core_wake(s->core);
  }
  return rc;
}
