/* SPDX-License-Identifier: MIT
**
** get.c -- Get, a batch at a time; README.md has the steps.
**
** On a bounded store each word is counted up before its record is read
** (get_acquire_row).  A Get that must wait first returns what the call took and
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

/* A row that may not be read yet: no key's word has this value. */
#define WORD_BLOCKED WORD_LATCH

void get_absent(struct get *g, uint32_t row) {
  uint32_t dim = g->s->core->layout.dim;
  if (g->vectors) {
    schema_initial(&g->s->core->schema, g->keys[row], get_vector(g, row, dim));
  }
  if (g->found) {
    g->found[row] = 0;
  }
  if (g->versions) {
    g->versions[row] = 0;
  }
  if (g->tracks) {
    g->tracks[row] = (emb_track){0, 0};
  }
  g->absent++;
}

static inline void deliver_found(struct get *g, uint32_t row,
                                 uint64_t version) {
  if (g->found) {
    g->found[row] = 1;
  }
  if (g->versions) {
    g->versions[row] = version;
  }
}

/* copy() of the whole value, with its track. */
static int copy_all(struct get *g, uint32_t row, const struct rec *rec) {
  emb_session *s = g->s;
  const struct layout *l = &s->core->layout;
  uint64_t version;
  if (!rec_read(rec, g->keys[row], s->scratch, l->value_bytes, &version)) {
    return 0;
  }
  if (g->vectors) {
    session_decode(s, get_vector(g, row, l->dim), s->scratch);
  }
  g->tracks[row] = schema_track(&s->core->schema, s->scratch);
  deliver_found(g, row, version);
  return 1;
}

/* Copies a record in memory; 0 if its slot now holds another key. */
static inline __attribute__((always_inline)) int
copy(struct get *g, uint32_t row, const struct rec *rec, uint32_t dim,
     uint32_t bytes, int half) {
  uint64_t version;
  if (__builtin_expect(g->tracks != NULL, 0)) {
    return copy_all(g, row, rec);
  }
  float *to = g->vectors ? get_vector(g, row, dim) : NULL;
  void *raw = to && half ? (void *)g->s->scratch : (void *)to;
  if (!rec_read(rec, g->keys[row], raw, bytes, &version)) {
    return 0;
  }
  if (to && half) {
    session_decode(g->s, to, raw);
  }
  deliver_found(g, row, version);
  return 1;
}

/* How often another key's record may be found at an address while the word
** stays the same.  Beyond that the files, and the memory read from them, are
** damaged. */
#define MISMATCHES 100

int get_row(struct get *g, uint32_t row, uint32_t *cold) {
  emb_session *s = g->s;
  emb_assert(!epoch_outside());
  const struct layout *l = &s->core->layout;
  int64_t key = g->keys[row];
  uint64_t hash = hash_key(key), before = 0;
  for (uint32_t same = 0;; same++) {
    uint64_t word;
    index_find(&s->core->index, key, hash, &word);
    uint64_t seen = word ? txn_word(s, key, hash, word) : 0;
    if (!seen) {
      get_absent(g, row);
      return 1;
    }
    struct rec *rec = key_rec(s->core, seen);
    same = seen == before && !(seen & WORD_CACHED) ? same : 0;
    before = seen;
    if (!rec || same > MISMATCHES) { /* the disk read reports the damage */
      s->cold[(*cold)++] = (struct cold){word_address(seen), row};
      return 0;
    }
    if (copy(g, row, rec, l->dim, l->vector_bytes, l->type != EMB_F32)) {
      return 1;
    }
  }
}

/* The word to read a row's record by, as the session sees it; 0 if the row is
** absent for the session. */
static inline uint64_t seen_word(emb_session *s, int64_t key, uint64_t word) {
  if (__builtin_expect((word & WORD_INTENT) ||
                           (!word_address(word) && word != WORD_BLOCKED),
                       0)) {
    return word ? txn_word(s, key, hash_key(key), word) : 0;
  }
  return word;
}

/* Delivers a row, whose entry is in s->entries, from rec, the record that its
** word names.  rec is NULL if the row is absent, on disk or blocked. */
static inline __attribute__((always_inline)) void
get_deliver(struct get *g, uint32_t row, uint64_t word, const struct rec *rec,
            const struct layout *l, uint32_t *cold) {
  emb_session *s = g->s;
  if (__builtin_expect(!rec, 0)) {
    if (!word) {
      get_absent(g, row);
    } else if (word != WORD_BLOCKED) {
      s->cold[(*cold)++] = (struct cold){word_address(word), row};
    }
  } else if (__builtin_expect(!copy(g, row, rec, l->dim, l->vector_bytes,
                                    l->type != EMB_F32),
                              0)) {
    g->in_memory += (uint64_t)get_row(g, row, cold);
  } else if (word & (WORD_CACHED | WORD_FREQ_MAX << WORD_FREQ_SHIFT)) {
    struct core *core = s->core;
    key_touch(s->entries[row], word);
    if (word & WORD_CACHED) {
      cache_unpin(&core->cache, cache_at(&core->cache, word_address(word)));
      g->in_cache++;
    } else {
      g->in_memory++;
    }
  } else {
    g->in_memory++;
  }
}

/* Counts a row whose entry and word were just found.  1: the row may not be
** read yet, so the batch cannot go on. */
static inline int get_acquire_row(struct get *g, uint32_t row, uint64_t hash,
                                  struct entry **entry, uint64_t *word) {
  size_t held = g->s->leases.held;
  if (!*word || bound_try_plain(g->s, g->keys[row], g->call, *entry, word) ||
      bound_try(g->s, g->keys[row], hash, g->call, entry, word) !=
          KEY_BLOCKED) {
    if (g->counted) {
      g->counted[row] = g->s->leases.held > held;
    }
    return 0;
  }
  if (!g->state) {
    return 1;
  }
  g->state[row] = FETCH_BLOCKED;
  *word = WORD_BLOCKED;
  return 0;
}

/* A single key, which does not need the loops for a chunk. */
static void find_and_copy_one(struct get *g, uint32_t *cold) {
  emb_session *s = g->s;
  struct core *core = s->core;
  int64_t key = g->keys[0];
  uint64_t word;
  s->entries[0] = session_find(s, key, hash_key(key), &word);
  word = seen_word(s, key, word);
  get_deliver(g, 0, word, word ? key_rec(core, word) : NULL, &core->layout,
              cold);
}

/* Counts the rows that were just found.  Returns the first one that may not be
** read yet, or n. */
static uint32_t get_acquire_rows(struct get *g, uint32_t n) {
  emb_session *s = g->s;
  for (uint32_t i = 0; i < n; i++) {
    if (get_acquire_row(g, i, s->hashes[i], &s->entries[i], &s->words[i])) {
      return i;
    }
  }
  return n;
}

/* Hands the rows of the chunk before this one to the taker; the buffer is then
** reused from its beginning. */
static void get_hand_over(struct get *g, uint32_t row) {
  if (!g->taken_rc && row > g->taken) {
    g->taken_rc = g->taker->take(g->taker->arg, g->at + g->taken, g->vectors,
                                 row - g->taken);
  }
  g->taken = row;
}

void get_deliver_rows(struct get *g, uint32_t n, uint32_t *cold) {
  emb_session *s = g->s;
  struct core *core = s->core;
  const struct layout l = core->layout;
  const struct rec *recs[ROWS_AHEAD];
  uint32_t lines = rows_lines(l.vector_bytes);
  emb_assert(!epoch_outside());
  for (uint32_t i = 0; i < n + ROWS_AHEAD; i++) {
    uint32_t row = i - ROWS_AHEAD; /* may wrap, and is then not below n */
    const struct rec **rec = &recs[i % ROWS_AHEAD];
    if (row < n) {
      get_deliver(g, row, s->words[row], *rec, &l, cold);
      if (g->taker && row + 1 - g->taken >= g->taker->together && !*cold) {
        get_hand_over(g, row + 1);
      }
    }
    if (i < n) {
      uint64_t word = seen_word(s, g->keys[i], s->words[i]);
      s->words[i] = word;
      *rec = word && word != WORD_BLOCKED ? key_rec(core, word) : NULL;
      rows_prefetch(*rec, lines);
    }
  }
}

int get_in_memory(struct get *g, uint32_t n, uint32_t *cold,
                  uint32_t *blocked) {
  emb_session *s = g->s;
  struct core *core = s->core;
  uint32_t acquired = n;
  *cold = 0;
  emb_assert(n <= s->chunk); /* the session's arrays */
  epoch_enter(&core->epoch, s->slot);
  if (n == 1 && !g->call) {
    find_and_copy_one(g, cold);
    epoch_leave(s->slot);
    return EMB_OK;
  }
  rows_find(s, g->keys, 0, n);
  if (g->call) {
    acquired = get_acquire_rows(g, n);
  }
  if (acquired == n) {
    get_deliver_rows(g, n, cold);
  }
  epoch_leave(s->slot);
  if (acquired < n) {
    *blocked = acquired;
    return KEY_BLOCKED;
  }
  return EMB_OK;
}

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
  deliver_found(
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
      get_hand_over(&g, m);
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
