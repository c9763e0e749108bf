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
static inline __attribute__((always_inline)) int
copy(struct get *g, uint32_t row, const struct rec *rec, uint32_t dim,
     uint32_t bytes, int half) {
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

/* What a row's record is read by: its word as the session sees it, 0 if the
** row is absent for it. */
static inline uint64_t seen_word(emb_session *s, int64_t key, uint64_t word) {
  if (__builtin_expect((word & WORD_INTENT) ||
                           (!word_address(word) && word != WORD_BLOCKED),
                       0)) {
    return word ? txn_word(s, key, hash_key(key), word) : 0;
  }
  return word;
}

/* Row is to be delivered from rec, which its word names; NULL: the row is
** absent, on disk or blocked. */
static inline __attribute__((always_inline)) void
deliver(struct get *g, uint32_t row, struct entry *entry, uint64_t word,
        const struct rec *rec, const struct layout *l, uint32_t *cold) {
  emb_session *s = g->s;
  if (__builtin_expect(!rec, 0)) {
    if (!word) {
      get_absent(g, row);
    } else if (word != WORD_BLOCKED) {
      s->cold[(*cold)++] = (struct cold){word_address(word), row};
    }
  } else if (__builtin_expect(!copy(g, row, rec, l->dim, l->vector_bytes,
                                    l->type == EMB_F16),
                              0)) {
    g->in_memory += (uint64_t)get_row(g, row, cold);
  } else if (word & (WORD_CACHED | WORD_FREQ_MAX << WORD_FREQ_SHIFT)) {
    struct core *core = s->core;
    key_touch(entry, word);
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

/* Rows that are on their way through the stages: what a stage needs of the one
** before.  Small, so that it stays in the nearest cache. */
#define RING 64
#define PART_AHEAD 8
#define BUCKET_AHEAD 16
#define RECORD_AHEAD 16
_Static_assert(BUCKET_AHEAD + RECORD_AHEAD < RING, "rows on their way");

struct ring {
  struct bucket *bucket[RING];
  struct entry *entry[RING];
  uint64_t word[RING];
  struct rec *rec[RING];
};

static inline struct rec *ask_record(const struct core *core, uint64_t word,
                                     uint32_t lines) {
  struct rec *rec = word && word != WORD_BLOCKED ? key_rec(core, word) : NULL;
  if (rec) {
    prefetch(rec, lines);
  }
  return rec;
}

/* Rows whose words are known. */
static void copy_found(struct get *g, uint32_t n, uint32_t lines,
                       uint32_t *cold) {
  emb_session *s = g->s;
  const struct core *core = s->core;
  const struct layout l = core->layout;
  struct rec *recs[RING];
  for (uint32_t i = 0; i < n + RECORD_AHEAD; i++) {
    if (i < n) {
      s->words[i] = seen_word(s, g->keys[i], s->words[i]);
      recs[i % RING] = ask_record(core, s->words[i], lines);
    }
    if (i >= RECORD_AHEAD) {
      uint32_t k = i - RECORD_AHEAD;
      deliver(g, k, s->entries[k], s->words[k], recs[k % RING], &l, cold);
    }
  }
}

/* The n rows in s->rows, which were not in their first bucket. */
static void copy_rest(struct get *g, uint32_t n, uint32_t lines,
                      uint32_t *cold) {
  emb_session *s = g->s;
  struct core *core = s->core;
  const struct layout l = core->layout;
  struct ring ring;
  for (uint32_t i = 0; i < n + RECORD_AHEAD; i++) {
    if (i < n) {
      int64_t key = g->keys[s->rows[i]];
      uint64_t hash = hash_key(key), word = 0;
      struct bucket *bucket = index_second_bucket(&core->index, hash);
      struct entry *entry = bucket ? index_match(bucket, key, &word) : NULL;
      if (!entry) {
        entry = index_find(&core->index, key, hash, &word);
      }
      word = seen_word(s, key, word);
      ring.entry[i % RING] = entry;
      ring.word[i % RING] = word;
      ring.rec[i % RING] = ask_record(core, word, lines);
    }
    if (i >= RECORD_AHEAD) {
      uint32_t k = (i - RECORD_AHEAD) % RING;
      deliver(g, s->rows[i - RECORD_AHEAD], ring.entry[k], ring.word[k],
              ring.rec[k], &l, cold);
    }
  }
}

/* All rows in one loop, in which each stage runs some rows ahead of the next:
** what waits for memory in one stage is work in another. */
static void find_and_copy(struct get *g, uint32_t n, uint32_t lines,
                          uint32_t *cold) {
  emb_session *s = g->s;
  struct core *core = s->core;
  const struct index *index = &core->index;
  const struct layout l = core->layout;
  const int64_t *keys = g->keys;
  uint64_t *hashes = s->hashes;
  struct ring ring;
  uint32_t rest = 0;
  for (uint32_t i = 0; i < n; i++) {
    hashes[i] = hash_key(keys[i]);
  }
  for (uint32_t i = 0; i < n + BUCKET_AHEAD + RECORD_AHEAD; i++) {
    if (i + PART_AHEAD < n) {
      __builtin_prefetch(index_part_of(index, hashes[i + PART_AHEAD]));
    }
    if (i < n) {
      struct bucket *bucket = index_first_bucket(index, hashes[i]);
      __builtin_prefetch(bucket);
      ring.bucket[i % RING] = bucket;
    }
    uint32_t at = i - BUCKET_AHEAD; /* wraps: then it is not below n */
    if (at < n) {
      struct bucket *bucket = ring.bucket[at % RING];
      uint64_t word = 0;
      struct entry *entry =
          bucket ? index_match(bucket, keys[at], &word) : NULL;
      struct rec *rec = NULL;
      if (entry) {
        word = seen_word(s, keys[at], word);
        rec = ask_record(core, word, lines);
      } else {
        __builtin_prefetch(index_second_bucket(index, hashes[at]));
        s->rows[rest++] = at;
      }
      ring.entry[at % RING] = entry;
      ring.word[at % RING] = word;
      ring.rec[at % RING] = rec;
    }
    at -= RECORD_AHEAD;
    if (at < n && ring.entry[at % RING]) {
      deliver(g, at, ring.entry[at % RING], ring.word[at % RING],
              ring.rec[at % RING], &l, cold);
    }
  }
  copy_rest(g, rest, lines, cold);
}

int get_in_memory(struct get *g, uint32_t n, uint32_t *cold,
                  uint32_t *blocked) {
  emb_session *s = g->s;
  struct core *core = s->core;
  uint32_t lines = core->layout.rec_bytes / 64 + 2;
  lines = lines < LINES_AHEAD ? lines : LINES_AHEAD;
  *cold = 0;
  epoch_enter(&core->epoch, s->slot);
  if (!g->call) {
    find_and_copy(g, n, lines, cold);
    epoch_leave(s->slot);
    return EMB_OK;
  }
  for (uint32_t i = 0; i < n; i++) {
    s->hashes[i] = hash_key(g->keys[i]);
  }
  index_find_batch(&core->index, g->keys, s->hashes, n, s->entries, s->words);
  int stop = admit(g, n, blocked);
  if (!stop) {
    copy_found(g, n, lines, cold);
  }
  epoch_leave(s->slot);
  return stop ? KEY_BLOCKED : EMB_OK;
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
