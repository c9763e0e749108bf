/* SPDX-License-Identifier: MIT
**
** get.c -- Get, a batch at a time.
**
** Inside one stay in the epoch the whole chunk goes through each stage before
** the next: hashes and buckets, words, records, copies; so the memory accesses
** of a stage overlap.  What is in memory is copied there and then, beside any
** writer (rec_read).  What is on disk is noted, and read after leaving the
** epoch; rows whose record moved meanwhile go round again.
*/
#include <string.h>

#include "store.h"
#include "txn.h"

/* Records whose lines are requested before the first is copied. */
#define LOOK_AHEAD 12
#define LINES_AHEAD 5

struct get {
  emb_session *s;
  const int64_t *keys;
  float *vectors;
  uint8_t *found;
  uint64_t *versions;
  int admit;
  uint64_t in_memory, in_cache, on_disk, absent;
};

static void deliver_absent(struct get *g, uint32_t row) {
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

static void deliver_found(struct get *g, uint32_t row, uint64_t version) {
  if (g->found) {
    g->found[row] = 1;
  }
  if (g->versions) {
    g->versions[row] = version;
  }
}

/* Copies a record in memory; 0 if its slot holds another key by now. */
static int copy(struct get *g, uint32_t row, const struct rec *rec) {
  const struct layout *l = &g->s->core->layout;
  uint64_t version;
  float *to = g->vectors ? g->vectors + (size_t)row * l->dim : NULL;
  void *raw = to && l->type == EMB_F16 ? (void *)g->s->scratch : (void *)to;
  if (!rec_read(rec, g->keys[row], raw, l->vector_bytes, &version)) {
    return 0;
  }
  if (to && raw != (void *)to) {
    session_decode(g->s, to, raw);
  }
  deliver_found(g, row, version);
  return 1;
}

static void prefetch(const struct rec *rec, uint32_t bytes) {
  uint32_t lines = bytes / 64 + 2;
  for (uint32_t i = 0; i < (lines < LINES_AHEAD ? lines : LINES_AHEAD); i++) {
    __builtin_prefetch((const char *)rec + (size_t)i * 64);
  }
}

/* One row by itself, from the index on.  1: done; 0: on disk, noted. */
static int row_again(struct get *g, uint32_t row, uint64_t hash,
                     uint32_t *cold) {
  emb_session *s = g->s;
  int64_t key = g->keys[row];
  for (;;) {
    uint64_t word;
    index_find(&s->core->index, key, hash, &word);
    uint64_t seen = word ? txn_word(s, key, hash, word) : 0;
    if (!seen) {
      deliver_absent(g, row);
      return 1;
    }
    struct rec *rec = key_rec(s->core, seen);
    if (!rec) {
      s->cold[(*cold)++] = (struct cold){word_address(seen), row};
      return 0;
    }
    if (copy(g, row, rec)) {
      return 1;
    }
  }
}

/* The n rows in s->rows; *cold: how many of them are on disk. */
static void in_memory(struct get *g, uint32_t n, uint32_t *cold) {
  emb_session *s = g->s;
  struct core *core = s->core;
  uint32_t bytes = core->layout.rec_bytes;
  int64_t keys[64];
  *cold = 0;
  epoch_enter(&core->epoch, s->slot);
  for (uint32_t base = 0; base < n; base += 64) { /* gathers keys by row */
    uint32_t m = n - base < 64 ? n - base : 64;
    for (uint32_t i = 0; i < m; i++) {
      keys[i] = g->keys[s->rows[base + i]];
      s->hashes[base + i] = hash_key(keys[i]);
    }
    index_find_batch(&core->index, keys, s->hashes + base, m, s->entries + base,
                     s->words + base);
  }
  for (uint32_t i = 0; i < n + LOOK_AHEAD; i++) {
    if (i < n) {
      uint64_t word = s->words[i];
      if (word) {
        word = txn_word(s, g->keys[s->rows[i]], s->hashes[i], word);
        s->words[i] = word;
      }
      s->recs[i] = word ? key_rec(core, word) : NULL;
      if (s->recs[i]) {
        prefetch(s->recs[i], bytes);
      }
    }
    if (i < LOOK_AHEAD) {
      continue;
    }
    uint32_t k = i - LOOK_AHEAD, row = s->rows[k];
    uint64_t word = s->words[k];
    if (!word) {
      deliver_absent(g, row);
    } else if (!s->recs[k]) {
      s->cold[(*cold)++] = (struct cold){word_address(word), row};
    } else if (!copy(g, row, s->recs[k])) {
      g->in_memory += (uint64_t)row_again(g, row, s->hashes[k], cold);
    } else if (word & WORD_CACHED) {
      key_touch(s->entries[k], word);
      g->in_cache++;
    } else {
      g->in_memory++;
    }
  }
  epoch_leave(s->slot);
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

static int get_chunk(struct get *g, uint32_t n) {
  emb_session *s = g->s;
  for (uint32_t i = 0; i < n; i++) {
    s->rows[i] = i;
  }
  while (n) {
    uint32_t cold, again = 0;
    in_memory(g, n, &cold);
    if (cold) {
      int rc = read_cold(s, g->keys, cold, g->admit, use_cold, g, &again);
      if (rc) {
        return rc;
      }
    }
    n = again;
  }
  return EMB_OK;
}

static int get(emb_session *s, const int64_t *keys, size_t n, float *vectors,
               uint8_t *found, uint64_t *versions, int admit) {
  if (!vectors && !versions) { /* no record is needed for that */
    return found ? emb_exists(s, keys, n, found) : session_begin(s);
  }
  int rc = session_begin(s);
  rc = rc ? rc : store_refresh(s);
  if (rc) {
    return rc;
  }
  struct counters *c = &s->core->counters;
  struct get g = {s, keys, vectors, found, versions, admit, 0, 0, 0, 0};
  uint32_t dim = s->core->layout.dim;
  for (size_t at = 0; !rc && at < n; at += s->chunk) {
    size_t m = n - at < s->chunk ? n - at : s->chunk;
    g.keys = keys + at;
    g.vectors = vectors ? vectors + at * dim : NULL;
    g.found = found ? found + at : NULL;
    g.versions = versions ? versions + at : NULL;
    rc = get_chunk(&g, (uint32_t)m);
  }
  count_add(&c->get_keys, n);
  count_add(&c->get_memory, g.in_memory);
  count_add(&c->get_cache, g.in_cache);
  count_add(&c->get_disk, g.on_disk);
  count_add(&c->get_absent, g.absent);
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
