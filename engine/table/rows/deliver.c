/* SPDX-License-Identifier: MIT
**
** deliver.c -- the rows of a Get that are in memory: looks them up, counts them
** on a bounded store, and copies their records.
**
** A million keys of 64 floats, batches of 1,024, in the same run, ns a key for
** uniform and Zipf-distributed keys (a bare gather: 33.4 and 17.2):
**   all rows looked up before the first copy             82.6  50.1
**   lookups two blocks ahead of the copies, AVX2 for the
**   keys of a bucket (index.c) and for copies            70.3  44.8
**   the same without AVX2 in the index                   75.5  49.4
**   the same without AVX2 in the copies                  75.8  48.1
**   the same with copies by 64 bytes, AVX-512            71.2  45.2
** Before AVX2 was used in the index, these did not help either (75.8, 50.5):
** prefetches into the first-level cache (90.0, 51.0), of every second line
** (96.0, 64.5), of one line in 128 bytes (108, 72.9), 24 rows ahead instead of
** 16 (76.8, 49.9), or 12 (81.4, 51.8).
**
** WIDE      read_wide is rec_read for the common case, and tried once; all the
**           other cases and processors use rec_read.
*/
#include "engine/table/bound/bound.h"
#include "get.h"
#include "rows.h"
#include "engine/table/session/txn_map.h"

/* A row that may not be read yet: no key's word has this value. */
#define WORD_BLOCKED WORD_LATCH
/* A read of such a record is noted in its word (key_touch). */
#define WORD_NOTED (WORD_CACHED | WORD_FREQ_MAX << WORD_FREQ_SHIFT)

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
  get_found(g, row, version);
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
  get_found(g, row, version);
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
  } else if (word & WORD_NOTED) {
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

/* Counts rows [from, n), which were just found.  Returns the first one that may
** not be read yet, or n. */
static uint32_t get_acquire_rows(struct get *g, uint32_t from, uint32_t n) {
  emb_session *s = g->s;
  for (uint32_t i = from; i < n; i++) {
    if (get_acquire_row(g, i, s->hashes[i], &s->entries[i], &s->words[i])) {
      return i;
    }
  }
  return n;
}

void get__hand_over(struct get *g, uint32_t row) {
  if (!g->taken_rc && row > g->taken) {
    g->taken_rc = g->taker->take(g->taker->arg, g->at + g->taken, g->vectors,
                                 row - g->taken);
  }
  g->taken = row;
}

/* Looks up further rows, from row `at` on, and counts them.  1: *blocked is a
** row that may not be read yet. */
static int get_find_more(struct get *g, struct rows_finder *find, uint32_t at,
                         uint32_t *blocked) {
  finder__until(find, at);
  if (g->call) {
    *blocked = get_acquire_rows(g, at, find->found);
    return *blocked < find->found;
  }
  return 0;
}

/* What delivering a chunk needs, apart from its rows. */
struct delivery {
  struct get *g;
  struct rows_finder *find; /* NULL: the rows were found */
  uint32_t n;
  uint32_t *cold, *blocked;
};

#if defined(__x86_64__) && !FENCE_TSAN
#define DELIVER_WIDE 32
typedef char deliver_piece
    __attribute__((vector_size(DELIVER_WIDE), aligned(1), may_alias));

/* One attempt of rec_read, of whole pieces; 0: try rec_read. */
static inline __attribute__((always_inline)) int
read_wide(const struct rec *rec, int64_t key, void *to, uint32_t bytes,
          uint64_t *version) {
  uint64_t before = atomic_load_explicit(&rec->stamp, memory_order_acquire);
  if ((before & REC_BUSY) ||
      atomic_load_explicit(&rec->key, memory_order_relaxed) != key) {
    return 0;
  }
#pragma GCC unroll 8
  for (uint32_t i = 0; i < bytes; i += DELIVER_WIDE) {
    *(deliver_piece *)(void *)((char *)to + i) =
        *(const deliver_piece *)(const void *)(rec->vector + i);
  }
  atomic_thread_fence(memory_order_acquire);
  *version = rec_version(before);
  return atomic_load_explicit(&rec->stamp, memory_order_relaxed) == before;
}
#else
static inline int read_wide(const struct rec *rec, int64_t key, void *to,
                            uint32_t bytes, uint64_t *version) {
  return rec_read(rec, key, to, bytes, version);
}
#endif

/* Delivers the rows.  1: row *blocked may not be read yet.  wide: of each row
** `bytes` bytes of float32 are wanted, which read_wide can copy. */
static inline __attribute__((always_inline)) int
deliver_with(const struct delivery *d, int wide, uint32_t bytes) {
  struct get *g = d->g;
  emb_session *s = g->s;
  struct core *core = s->core;
  struct rows_finder *find = d->find;
  const struct layout l = core->layout;
  const struct rec *recs[ROWS_AHEAD];
  const int64_t *keys = g->keys;
  uint64_t *words = s->words;
  uint32_t lines = rows_lines(l.vector_bytes), n = d->n;
  for (uint32_t i = 0; i < n + ROWS_AHEAD; i++) {
    uint32_t row = i - ROWS_AHEAD; /* may wrap, and is then not below n */
    const struct rec **rec = &recs[i % ROWS_AHEAD];
    if (row < n) {
      uint64_t version;
      if (wide && *rec && !(words[row] & WORD_NOTED) &&
          read_wide(*rec, keys[row], get_vector(g, row, l.dim), bytes,
                    &version)) {
        get_found(g, row, version);
        g->in_memory++;
      } else {
        get_deliver(g, row, words[row], *rec, &l, d->cold);
      }
      if (g->taker && row + 1 - g->taken >= g->taker->together && !*d->cold) {
        get__hand_over(g, row + 1);
      }
    }
    if (i < n) {
      if (find && i == find->found && get_find_more(g, find, i, d->blocked)) {
        return 1;
      }
      uint64_t word = seen_word(s, keys[i], words[i]);
      words[i] = word;
      *rec = word && word != WORD_BLOCKED ? key_rec(core, word) : NULL;
      rows_prefetch(*rec, lines);
    }
  }
  return 0;
}

static int deliver_any(const struct delivery *d) {
  return deliver_with(d, 0, 0);
}

#ifdef DELIVER_WIDE
__attribute__((target("avx2"))) static int
deliver_avx2(const struct delivery *d) {
  uint32_t bytes = d->g->s->core->layout.vector_bytes;
  return bytes == 256 ? deliver_with(d, 1, 256) : deliver_with(d, 1, bytes);
}
#endif

static int deliver_rows(const struct delivery *d) {
  emb_assert(!epoch_outside());
#ifdef DELIVER_WIDE
  const struct get *g = d->g;
  const struct core *core = g->s->core;
  if (g->vectors && !g->tracks && core->layout.type == EMB_F32 &&
      core->vec->width >= DELIVER_WIDE &&
      core->layout.vector_bytes % DELIVER_WIDE == 0) {
    return deliver_avx2(d);
  }
#endif
  return deliver_any(d);
}

void get_deliver_rows(struct get *g, uint32_t n, uint32_t *cold) {
  (void)deliver_rows(&(struct delivery){.g = g, .n = n, .cold = cold});
}

int get_in_memory(struct get *g, uint32_t n, uint32_t *cold,
                  uint32_t *blocked) {
  emb_session *s = g->s;
  struct core *core = s->core;
  struct rows_finder find;
  *cold = 0;
  emb_assert(n <= s->chunk); /* the session's arrays */
  epoch_enter(&core->epoch, s->slot);
  if (n == 1 && !g->call) {
    find_and_copy_one(g, cold);
    epoch_leave(s->slot);
    return EMB_OK;
  }
  finder_begin(&find, s, g->keys, 0, n);
  int is_blocked = deliver_rows(&(struct delivery){
      .g = g, .find = &find, .n = n, .cold = cold, .blocked = blocked});
  epoch_leave(s->slot);
  return is_blocked ? KEY_BLOCKED : EMB_OK;
}
