/* SPDX-License-Identifier: MIT
**
** get.c -- Get, a batch at a time.
**
** Inside one stay in the epoch the whole chunk goes through each stage before
** the next: buckets, words, records, copies; so the memory accesses of a stage
** overlap.  What is in memory is copied there and then, beside any writer
** (rec_read).  What is on disk is noted, and read after leaving the epoch;
** rows whose record moved meanwhile are looked up anew.
**
** On a bounded store each word is counted up before its record is looked at
** (admit).  A Get that must wait first gives back what the call took and leaves
** the epoch; then clock.c acquires all keys in the order of their hashes.
*/
#include <string.h>

#include "clock.h"
#include "get.h"
#include "txn.h"

/* A row that may not be read yet: no word of a key looks like this. */
#define WORD_BLOCKED WORD_LATCH

/* Cache lines of a record that are requested ahead; the processor's own
** prefetcher sees the pattern after that. */
#define LINES_AHEAD 5

void get_absent(struct get *g, uint32_t row) {
  uint32_t dim = g->s->core->layout.dim;
  if (g->vectors) {
    memset(g->vectors + (size_t)row * dim, 0, dim * sizeof(float));
  }
  if (g->found) {
    g->found[row] = 0;
  }
  if (g->versions) {
    g->versions[row] = 0;
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

/* Copies a record in memory; 0 if its slot holds another key by now. */
static inline int copy(struct get *g, uint32_t row, const struct rec *rec,
                       uint32_t dim, uint32_t bytes, int half) {
  uint64_t version;
  float *to = g->vectors ? g->vectors + (size_t)row * dim : NULL;
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

static inline void prefetch(const struct rec *rec, uint32_t lines) {
  for (uint32_t i = 0; i < lines; i++) {
    __builtin_prefetch((const char *)rec + (size_t)i * 64);
  }
}

int get_row(struct get *g, uint32_t row, uint32_t *cold) {
  emb_session *s = g->s;
  const struct layout *l = &s->core->layout;
  int64_t key = g->keys[row];
  uint64_t hash = hash_key(key);
  for (;;) {
    uint64_t word;
    index_find(&s->core->index, key, hash, &word);
    uint64_t seen = word ? txn_word(s, key, hash, word) : 0;
    if (!seen) {
      get_absent(g, row);
      return 1;
    }
    struct rec *rec = key_rec(s->core, seen);
    if (!rec) {
      s->cold[(*cold)++] = (struct cold){word_address(seen), row};
      return 0;
    }
    if (copy(g, row, rec, l->dim, l->vector_bytes, l->type == EMB_F16)) {
      return 1;
    }
  }
}

/* Counts the rows [0, n), whose words have been found.  1: row *blocked may not
** be read yet. */
static int admit(struct get *g, uint32_t n, uint32_t *blocked) {
  emb_session *s = g->s;
  for (uint32_t i = 0; i < n; i++) {
    if (s->words[i] &&
        clock_admit(s, g->keys[i], s->hashes[i], g->call, &s->entries[i],
                    &s->words[i]) == KEY_BLOCKED) {
      *blocked = i;
      if (!g->state) {
        return 1;
      }
      g->state[i] = ROW_BLOCKED;
      s->words[i] = WORD_BLOCKED;
    }
  }
  return 0;
}

/* Where the rows' records are, and asks for their lines. */
static void find_records(struct get *g, uint32_t n) {
  emb_session *s = g->s;
  struct core *core = s->core;
  uint32_t bytes = core->layout.rec_bytes / 64 + 2;
  uint32_t lines = bytes < LINES_AHEAD ? bytes : LINES_AHEAD;
  int in_txn = s->txn != NULL;
  for (uint32_t i = 0; i < n; i++) {
    uint64_t word = s->words[i];
    if (word == WORD_BLOCKED) {
      s->recs[i] = NULL;
      continue;
    }
    if (in_txn || (word & WORD_INTENT) || !word_address(word)) {
      word = word ? txn_word(s, g->keys[i], s->hashes[i], word) : 0;
      s->words[i] = word;
    }
    struct rec *rec = word ? key_rec(core, word) : NULL;
    s->recs[i] = rec;
    if (rec) {
      prefetch(rec, lines);
    }
  }
}

int get_in_memory(struct get *g, uint32_t n, uint32_t *cold,
                  uint32_t *blocked) {
  emb_session *s = g->s;
  struct core *core = s->core;
  const struct layout l = core->layout;
  *cold = 0;
  epoch_enter(&core->epoch, s->slot);
  for (uint32_t i = 0; i < n; i++) {
    s->hashes[i] = hash_key(g->keys[i]);
  }
  index_find_batch(&core->index, g->keys, s->hashes, n, s->entries, s->words);
  if (g->call && admit(g, n, blocked)) {
    epoch_leave(s->slot);
    return KEY_BLOCKED;
  }
  find_records(g, n);
  for (uint32_t i = 0; i < n; i++) {
    uint64_t word = s->words[i];
    if (!word) {
      get_absent(g, i);
    } else if (!s->recs[i]) {
      if (word == WORD_BLOCKED) {
        continue;
      }
      s->cold[(*cold)++] = (struct cold){word_address(word), i};
    } else if (!copy(g, i, s->recs[i], l.dim, l.vector_bytes,
                     l.type == EMB_F16)) {
      g->in_memory += (uint64_t)get_row(g, i, cold);
    } else if (word & WORD_CACHED) {
      key_touch(s->entries[i], word);
      cache_unpin(&core->cache, cache_at(&core->cache, word_address(word)));
      g->in_cache++;
    } else {
      if (word_freq(word)) {
        key_touch(s->entries[i], word);
      }
      g->in_memory++;
    }
  }
  epoch_leave(s->slot);
  return EMB_OK;
}

static int use_cold(emb_session *s, void *arg, uint32_t row, int64_t key,
                    const struct rec *rec) {
  struct get *g = arg;
  (void)key;
  if (g->vectors) {
    session_decode(s, g->vectors + (size_t)row * s->core->layout.dim,
                   rec->vector);
  }
  deliver_found(
      g, row,
      rec_version(atomic_load_explicit(&rec->stamp, memory_order_relaxed)));
  g->on_disk++;
  return EMB_OK;
}

int get_from_disk(struct get *g, uint32_t cold) {
  emb_session *s = g->s;
  while (cold) {
    uint32_t again = 0;
    uint64_t served = s->served;
    int rc = read_cold(s, g->keys, cold, g->admit, use_cold, g, &again);
    g->in_cache += s->served - served;
    g->on_disk -= s->served - served;
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

static void count(const struct get *g, size_t n) {
  struct counters *c = &g->s->core->counters;
  count_add(&c->get_keys, n);
  count_add(&c->get_memory, g->in_memory);
  count_add(&c->get_cache, g->in_cache);
  count_add(&c->get_disk, g->on_disk);
  count_add(&c->get_absent, g->absent);
}

/* Rows [at, at + m) of a batch. */
static void window(struct get *g, const struct get *all, size_t at) {
  g->keys = all->keys + at;
  g->vectors = all->vectors ? all->vectors + at * g->s->core->layout.dim : NULL;
  g->found = all->found ? all->found + at : NULL;
  g->versions = all->versions ? all->versions + at : NULL;
}

/* The whole batch once.  KEY_BLOCKED: *blocked may not be read yet. */
static int get_batch(const struct get *all, size_t n, size_t *blocked) {
  emb_session *s = all->s;
  struct get g = *all;
  int rc = EMB_OK;
  for (size_t at = 0; !rc && at < n; at += s->chunk) {
    uint32_t m = (uint32_t)(n - at < s->chunk ? n - at : s->chunk);
    uint32_t cold, row;
    window(&g, all, at);
    rc = g.call ? clock_reserve(s, m) : EMB_OK;
    rc = rc ? rc : get_in_memory(&g, m, &cold, &row);
    if (rc == KEY_BLOCKED) {
      *blocked = at + row;
      return GET_BLOCKED;
    }
    rc = rc ? rc : get_from_disk(&g, cold);
  }
  count(&g, n);
  return rc;
}

static int get(emb_session *s, const int64_t *keys, size_t n, float *vectors,
               uint8_t *found, uint64_t *versions, int counts) {
  if (!vectors && !versions) { /* no record is needed for that */
    return found ? emb_exists(s, keys, n, found) : session_begin(s);
  }
  int rc = session_begin(s);
  rc = rc ? rc : store_refresh(s);
  if (rc) {
    return rc;
  }
  size_t blocked;
  struct get g = {.s = s,
                  .keys = keys,
                  .vectors = vectors,
                  .found = found,
                  .versions = versions,
                  .admit = counts};
  if (counts && vectors && store_counts(s)) {
    g.call = clock_call(s);
  }
  rc = get_batch(&g, n, &blocked);
  while (rc == GET_BLOCKED) {
    clock_give_call(s, keys, blocked + 1, g.call);
    rc = clock_acquire(s, keys, n, g.call);
    rc = rc ? rc : get_batch(&g, n, &blocked);
  }
  if (rc && g.call) {
    clock_give_call(s, keys, n, g.call);
  }
  return rc;
}

int emb_get(emb_session *s, const int64_t *keys, size_t n, float *vectors,
            uint8_t *found, uint64_t *versions) {
  return get(s, keys, n, vectors, found, versions, 1);
}

int emb_peek(emb_session *s, const int64_t *keys, size_t n, float *vectors,
             uint8_t *found, uint64_t *versions) {
  return get(s, keys, n, vectors, found, versions, 0);
}

int emb_exists(emb_session *s, const int64_t *keys, size_t n, uint8_t *found) {
  int rc = session_begin(s);
  rc = rc ? rc : store_refresh(s);
  for (size_t at = 0; !rc && at < n; at += s->chunk) {
    size_t m = n - at < s->chunk ? n - at : s->chunk;
    epoch_enter(&s->core->epoch, s->slot);
    for (size_t i = 0; i < m; i++) {
      s->hashes[i] = hash_key(keys[at + i]);
    }
    index_find_batch(&s->core->index, keys + at, s->hashes, m, s->entries,
                     s->words);
    for (size_t i = 0; i < m; i++) {
      found[at + i] = s->words[i] &&
                      txn_word(s, keys[at + i], s->hashes[i], s->words[i]) != 0;
    }
    epoch_leave(s->slot);
  }
  return rc;
}

int64_t emb_count(emb_session *s) {
  int64_t count = atomic_load_explicit(&s->core->count, memory_order_relaxed);
  return count + (s->txn ? s->txn->count_change : 0);
}
