/* SPDX-License-Identifier: MIT
**
** get.c -- Get, a batch at a time; README.md has the steps.
**
** On a bounded store each word is counted up before its record is read
** (deliver.c).  A Get that must wait first returns what the call took and
** leaves the epoch; then bound_acquire takes all keys in the order of their
** hashes.
*/
#include <string.h>

#include "engine/table/bound/bound.h"
#include "engine/table/jobs/cold.h"
#include "engine/table/jobs/job.h"
#include "engine/table/owner/hold.h"
#include "engine/table/owner/own.h"
#include "get.h"
#include "rmw.h"
#include "rows.h"
#include "engine/table/session/txn_map.h"

static int use_cold(emb_session *s, void *arg, uint32_t row, int64_t key,
                    const struct rec *rec) {
  struct get *g = arg;
  (void)key;
  if (g->vectors) {
    session_decode(s, get_vector(g, row, s->core->layout.dim), rec->vector);
  }
  if (g->tracks) {
    g->tracks[row] = schema_track(&s->core->schema, rec->vector);
  }
  get_found(
      g, row,
      rec_version(atomic_load_explicit(&rec->stamp, memory_order_relaxed)));
  g->on_disk++;
  return EMB_OK;
}

static int read_until_found(struct get *g, uint32_t cold, int *holds,
                            int *held) {
  emb_session *s = g->s;
  while (cold) {
    uint32_t again = 0;
    uint64_t served = s->ahead.served;
    struct cold_batch batch = {.keys = g->keys,
                               .n = cold,
                               .promote = g->promote,
                               .use = use_cold,
                               .arg = g};
    int rc = cold_read(s, &batch, &again);
    g->in_cache += s->ahead.served - served;
    g->on_disk -= s->ahead.served - served;
    if (!rc && again && !*holds && !atomic_load(&s->store->own.is_owner)) {
      /* The owner replaced some records: hold them for the retry. */
      rc = hold_begin(s, held);
      *holds = !rc;
    }
    if (rc) {
      return rc;
    }
    cold = 0;
    epoch_enter(&s->core->epoch, s->slot);
    for (uint32_t i = 0; i < again; i++) {
      g->in_memory += (uint64_t)get_row(g, s->rows[i], &cold);
    }
    epoch_leave(s->slot);
  }
  return EMB_OK;
}

int get_from_disk(struct get *g, uint32_t cold) {
  int holds = 0, held;
  emb_assert(epoch_outside()); /* E1 */
  int rc = read_until_found(g, cold, &holds, &held);
  if (holds) {
    hold_end(g->s, held);
  }
  return rc;
}

void get_tally(const struct get *g, size_t n) {
  emb_session *s = g->s;
  session_count(s, TALLY_GET, n);
  session_count(s, TALLY_MEMORY, g->in_memory);
  if (g->in_cache) { /* cache sizing reads this counter */
    count_add(&s->core->counters.get_cache, g->in_cache);
  }
  session_count(s, TALLY_DISK, g->on_disk);
  session_count(s, TALLY_ABSENT, g->absent);
}

/* Rows [at, at + m) of a batch. */
static void get_window(struct get *g, const struct get *all, size_t at) {
  g->keys = all->keys + at;
  g->vectors = all->vectors && !all->taker
                   ? all->vectors + at * g->s->core->layout.dim
                   : all->vectors;
  g->found = all->found ? all->found + at : NULL;
  g->versions = all->versions ? all->versions + at : NULL;
  g->at = at;
  g->taken = 0;
  g->tracks = all->tracks ? all->tracks + at : NULL;
}

/* Tries the batch once.  GET_BLOCKED: row *blocked may not be read yet. */
static int get_batch(const struct get *all, size_t n, size_t *blocked) {
  emb_session *s = all->s;
  struct get g = *all;
  const struct get_taker *taker = all->taker;
  uint32_t most = taker ? taker->rows : s->chunk;
  int rc = EMB_OK;
  if (taker) {
    taker->begin(taker->arg);
  }
  for (size_t at = 0; !rc && at < n; at += most) {
    uint32_t m = (uint32_t)(n - at < most ? n - at : most);
    uint32_t cold, row;
    get_window(&g, all, at);
    rc = g.call ? bound_reserve(s, m) : EMB_OK;
    rc = rc ? rc : get_in_memory(&g, m, &cold, &row);
    if (rc == KEY_BLOCKED) {
      *blocked = at + row;
      return GET_BLOCKED;
    }
    rc = rc ? rc : get_from_disk(&g, cold);
    if (!rc && taker) {
      get__hand_over(&g, m);
      rc = g.taken_rc;
    }
    rc = rc || at + m == n ? rc : session_poll(s);
  }
  get_tally(&g, n);
  return rc;
}

/* A batch of one key that is not counted. */
static int get_one(struct get *g) {
  uint32_t cold;
  int rc = get_in_memory(g, 1, &cold, NULL);
  rc = rc || !cold ? rc : get_from_disk(g, cold);
  get_tally(g, 1);
  return rc;
}

static int get_all(emb_session *s, const int64_t *keys, size_t n,
                   const emb_rows *to, int counts,
                   const struct get_taker *taker) {
  if (!to->vectors && !to->versions && !to->tracks) {
    return to->found ? local_exists(s, keys, n, to->found) /* needs no record */
                     : session_begin(s);
  }
  int rc = session_begin(s);
  rc = rc ? rc : own_refresh(s);
  if (!rc && counts && to->vectors && rmw_creates(s)) {
    rc = rmw_create(s, keys, n);
  }
  if (rc) {
    return rc;
  }
  size_t blocked;
  struct get g = {.s = s,
                  .keys = keys,
                  .vectors = to->vectors,
                  .found = to->found,
                  .versions = to->versions,
                  .tracks = to->tracks,
                  .taker = taker,
                  .promote = counts};
  int counted = 0;
  if (counts && to->vectors) {
    rc = own_counts(s, &counted);
  }
  if (rc) {
    return rc;
  }
  if (counted) {
    g.call = bound_call(s);
  }
  if (n == 1 && !g.call && !taker) {
    return get_one(&g);
  }
  rc = get_batch(&g, n, &blocked);
  while (rc == GET_BLOCKED) {
    /* Release all keys, also those behind the blocked one: the previous attempt
    ** may have taken them while the blocked key was absent. */
    bound_release_call(s, keys, n, g.call);
    rc = job_step_all(s);
    rc = rc ? rc : bound_acquire(s, keys, n, g.call);
    rc = rc ? rc : get_batch(&g, n, &blocked);
  }
  if (rc && g.call) {
    bound_release_call(s, keys, n, g.call);
  }
  return rc;
}

int local_get(emb_session *s, const int64_t *keys, size_t n, float *vectors,
              uint8_t *found, uint64_t *versions) {
  const emb_rows to = {
      .vectors = vectors, .found = found, .versions = versions};
  return get_all(s, keys, n, &to, 1, NULL);
}

int local_peek(emb_session *s, const int64_t *keys, size_t n, float *vectors,
               uint8_t *found, uint64_t *versions) {
  const emb_rows to = {
      .vectors = vectors, .found = found, .versions = versions};
  return get_all(s, keys, n, &to, 0, NULL);
}

int get_peek(emb_session *s, const int64_t *keys, size_t n,
             const emb_rows *to) {
  return get_all(s, keys, n, to, 0, NULL);
}

int get_by_pieces(emb_session *s, const int64_t *keys, size_t n, int counts,
                  const struct get_taker *taker) {
  const emb_rows to = {.vectors = taker->vectors};
  emb_assert(taker->rows <= s->chunk && taker->together > 0);
  return get_all(s, keys, n, &to, counts, taker);
}

int local_tracks(emb_session *s, const int64_t *keys, size_t n,
                 emb_track *tracks, uint8_t *found) {
  return schema_tracks(&s->core->schema)
             ? get_peek(s, keys, n,
                        &(emb_rows){.found = found, .tracks = tracks})
             : session_error(s, EMB_UNFIT,
                             "%s was created without track=", s->core->dir);
}

static void exists_one(emb_session *s, int64_t key, uint8_t *found) {
  uint64_t hash = hash_key(key), word;
  epoch_enter(&s->core->epoch, s->slot);
  session_find(s, key, hash, &word);
  *found = word && txn_word(s, key, hash, word) != 0;
  epoch_leave(s->slot);
}

int local_exists(emb_session *s, const int64_t *keys, size_t n,
                 uint8_t *found) {
  int rc = session_begin(s);
  rc = rc ? rc : own_refresh(s);
  if (!rc && n == 1) {
    exists_one(s, *keys, found);
    return EMB_OK;
  }
  for (size_t at = 0; !rc && at < n; at += s->chunk) {
    size_t m = n - at < s->chunk ? n - at : s->chunk;
    epoch_enter(&s->core->epoch, s->slot);
    rows_find(s, keys + at, 0, (uint32_t)m);
    for (size_t i = 0; i < m; i++) {
      found[at + i] = s->words[i] &&
                      txn_word(s, keys[at + i], s->hashes[i], s->words[i]) != 0;
    }
    epoch_leave(s->slot);
  }
  return rc;
}

int local_refresh(emb_session *s) {
  int rc = session_begin(s);
  return rc ? rc : own_refresh(s);
}

int64_t local_count(emb_session *s) {
  if (session_ask_doubt(s)) {
    return -1;
  }
  int64_t count = atomic_load_explicit(&s->core->count, memory_order_relaxed);
  return count + (s->txn ? s->txn->count_change : 0);
}
