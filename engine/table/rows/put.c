/* SPDX-License-Identifier: MIT
**
** put.c -- immediate writes of whole vectors; README.md has the steps.
**
** TRACKS    A table that tracks, and has one vector and no optimizer, is
** written the same way: the new record takes over the old record's track, plus
** this Put.  The old record must be in memory for this.  From the first row
** whose record is on disk, the rest of the chunk is left to change.c, which
** reads it.
**
** VERSIONS  A row's version comes from the store's counter, taken when the
** pass in the epoch begins.  If the old record is in memory, the new version
** also exceeds its version.  If the old record was in the file before the
** versions were taken (or is on disk only: paging out waits for the epoch), it
** was written before, so its version is smaller anyway.  Such a record is not
** read, even if it is in memory: the first Put of a key after a checkpoint
** would wait for it.  Without that wait, and without a second lookup, such a
** Put of 64 floats takes 131 ns instead of 217, of a million keys in memory.
*/
#include <string.h>

#include "engine/storage/kernel/row_write.h"
#include "engine/table/jobs/begin.h"
#include "engine/table/owner/own.h"
#include "change.h"
#include "engine/table/bound/bound.h"
#include "put.h"
#include "rows.h"
#include "engine/table/session/txn_map.h"

struct put {
  emb_session *s;
  const int64_t *keys;
  const float *vectors;
  uint64_t *versions; /* or NULL */
  struct log_run run;
  uint32_t want;    /* slots that the rest of the chunk may need */
  uint64_t version; /* of row 0 */
  uint64_t flushed; /* the log's, before the versions were taken */
  uint32_t call;    /* 0: no Gets are counted */
  int tracks;
  uint64_t in_place;
};

/* One vector, no optimizer, and a track. */
static int only_tracks(const struct schema *schema) {
  return schema_tracks(schema) && schema->count == 1 && !schema->state_floats;
}

/* Fills a slot with a vector in its stored form.  old: the value of the record
** being replaced, which may be in the same slot; NULL for a new key. */
static inline void put_fill(const struct put *p, struct rec *rec, int64_t key,
                            const void *vector, const void *old,
                            uint64_t version) {
  emb_session *s = p->s;
  const struct schema *schema = &s->core->schema;
  if (!p->tracks) {
    rec_fill(rec, key, vector, s->core->layout.vector_bytes, version);
    return;
  }
  emb_track track = {0, 0};
  track = value_track(s,
                      old && !EMB_SEED(SEED_PUT_RESETS_TRACK)
                          ? schema_track(schema, old)
                          : track,
                      1);
#if FENCE_TSAN
  /* Concurrent readers load whole words. */
  char *value = s->scratch + s->core->layout.rec_bytes;
  memcpy(value, vector, s->core->layout.vector_bytes);
  schema_set_track(schema, value, track);
  rec_fill(rec, key, value, s->core->layout.value_bytes, version);
#else
  schema_set_track(schema, rec->vector, track);
  rec_fill(rec, key, vector, s->core->layout.vector_bytes, version);
#endif
}

static void put_set_version(struct put *p, uint32_t row, uint64_t version) {
  if (p->versions) {
    p->versions[row] = version;
  }
}

static int put_absent(struct put *p, uint32_t row, const void *vector) {
  emb_session *s = p->s;
  const struct schema *schema = &s->core->schema;
  if (p->tracks) {
    char *value = s->scratch + s->core->layout.rec_bytes;
    memcpy(value, vector, s->core->layout.vector_bytes);
    schema_set_track(schema, value, value_track(s, (emb_track){0, 0}, 1));
    vector = value;
  }
  int rc = row_insert(s->core, &p->run, p->want,
                      &(struct row_new){p->keys[row], s->hashes[row], vector,
                                        p->version + row});
  return rc == EMB_NOMEM ? session_error(s, EMB_NOMEM, "out of memory") : rc;
}

/* The word after returning one of this session's leases of the key. */
static inline uint64_t put_give_back(struct put *p, uint32_t row,
                                     uint64_t word) {
  return p->call
             ? bound_put(p->s, p->keys[row], p->s->hashes[row], p->call, word)
             : word;
}

/* The key is latched; it may have been removed while leased. */
static int put_replace(struct put *p, uint32_t row, struct entry *entry,
                       uint64_t word, const void *vector) {
  struct core *core = p->s->core;
  int64_t key = p->keys[row];
  uint64_t version = p->version + row;
  uint64_t above = key_log_address(core, word);
  int is_older = !p->tracks && layout_page(&core->layout, above) < p->flushed;
  struct rec *rec = above && !is_older ? key_rec(core, word) : NULL;
  if (rec) {
    uint64_t old =
        rec_version(atomic_load_explicit(&rec->stamp, memory_order_relaxed));
    version = core_version_above(core, version, old);
    if (!(word & WORD_CACHED) && log_mutable(&core->log, word_address(word))) {
      emb_assert(log_unwritten(&core->log, word_address(word))); /* L2 */
      rec_begin(rec);
      put_fill(p, rec, key, vector, rec->vector, version);
      row_changed_here(core, key, entry, put_give_back(p, row, word), rec,
                       ROW_PUT);
      put_set_version(p, row, version);
      p->in_place++;
      return EMB_OK;
    }
  }
  if (p->tracks && above && !rec) {
    key_unlatch(entry, word);
    return ROW_COLD;
  }
  uint64_t address;
  int rc = row_slot(core, &p->run, p->want, above ? above : row_tombs_end(core),
                    &address);
  if (rc) {
    key_unlatch(entry, word);
    return rc;
  }
  put_fill(p, log_rec(&core->log, address), key, vector,
           rec ? rec->vector : NULL, version);
  row_publish(core, key, entry, put_give_back(p, row, word), address, ROW_PUT);
  put_set_version(p, row, version);
  return EMB_OK;
}

static int put_row(struct put *p, uint32_t row) {
  emb_session *s = p->s;
  uint64_t hash = s->hashes[row];
  const void *vector =
      session_encode(s, p->vectors + (size_t)row * s->core->layout.dim);
  /* The first attempt believes the lookup of the chunk: latching checks a word,
  ** and row_insert an absent key. */
  struct entry *entry = s->entries[row];
  uint64_t word = s->words[row];
  int found = !word ? KEY_ABSENT
              : !(word & (WORD_LATCH | WORD_INTENT)) &&
                      key_latch_found(entry, p->keys[row], &word)
                  ? KEY_FOUND
                  : key_latch(s->core, p->keys[row], hash, &entry, &word);
  for (;;) {
    int rc;
    switch (found) {
    case KEY_FOUND:
      return put_replace(p, row, entry, word, vector);
    case KEY_INTENT:
      return ROW_HELD;
    default:
      rc = put_absent(p, row, vector);
      if (!rc) {
        put_set_version(p, row, p->version + row);
      }
      if (rc != INDEX_EXISTS && rc != ROW_HELD) {
        return rc;
      }
    }
    found = key_latch(s->core, p->keys[row], hash, &entry, &word);
  }
}

/* The record named by a word found a moment ago, if it can be changed in place;
** else NULL. */
static inline struct rec *mutable_rec(const struct core *core, uint64_t word) {
  return word_address(word) && !(word & WORD_CACHED) &&
                 log_mutable(&core->log, word_address(word))
             ? key_rec(core, word)
             : NULL;
}

/* The common case of put_row: the key is still in the entry that was found, and
** its record is changed in place.  0: not so, nothing was done. */
static inline int put_in_place(struct put *p, uint32_t row, struct entry *entry,
                               uint64_t word, struct rec *rec) {
  emb_session *s = p->s;
  struct core *core = s->core;
  int64_t key = p->keys[row];
  if ((word & (WORD_LATCH | WORD_INTENT)) ||
      !key_latch_found(entry, key, &word)) {
    return 0;
  }
  if (!log_mutable(&core->log, word_address(word))) {
    key_unlatch(entry, word);
    return 0;
  }
  uint64_t old =
      rec_version(atomic_load_explicit(&rec->stamp, memory_order_relaxed));
  uint64_t version = core_version_above(core, p->version + row, old);
  const void *vector =
      session_encode(s, p->vectors + (size_t)row * core->layout.dim);
  emb_assert(log_unwritten(&core->log, word_address(word))); /* L2 */
  rec_begin(rec);
  put_fill(p, rec, key, vector, rec->vector, version);
  row_changed_here(core, key, entry, put_give_back(p, row, word), rec, ROW_PUT);
  put_set_version(p, row, version);
  p->in_place++;
  return 1;
}

/* Rows [from, n) in one pass; *done: rows finished. */
static int put_in_epoch(struct put *p, uint32_t from, uint32_t n,
                        uint32_t *done) {
  emb_session *s = p->s;
  struct core *core = s->core;
  struct rec *recs[ROWS_AHEAD];
  struct rows_finder find;
  uint32_t lines = rows_lines(core->layout.vector_bytes);
  int rc = EMB_OK;
  memset(&p->run, 0, sizeof p->run); /* a run must not outlive its pass */
  p->want = 1;
  epoch_enter(&core->epoch, s->slot);
  p->flushed = atomic_load_explicit(&core->log.flushed, memory_order_acquire);
  p->version = core_versions(core, n);
  finder_begin(&find, s, p->keys, from, n);
  for (uint32_t i = from; i < n + ROWS_AHEAD; i++) {
    uint32_t row = i - ROWS_AHEAD; /* may wrap, and is then not below n */
    struct rec **rec = &recs[i % ROWS_AHEAD];
    if (i >= from + ROWS_AHEAD) {
      if (!*rec ||
          !put_in_place(p, row, s->entries[row], s->words[row], *rec)) {
        rc = put_row(p, row);
        p->want -= p->want > 1;
      }
      if (rc) {
        break;
      }
      *done = row + 1;
    }
    if (i < n) {
      if (i == find.found) {
        finder__until(&find, i);
      }
      *rec = mutable_rec(core, s->words[i]);
      p->want += !*rec;
      rows_prefetch(*rec, lines);
      if (*rec && p->tracks) {
        __builtin_prefetch((const char *)*rec + core->layout.rec_bytes - 8, 0,
                           2);
      }
    }
  }
  epoch_leave(s->slot);
  return rc;
}

/* Rows [from, n); the record of the first is on disk. */
static int put_cold(struct put *p, uint32_t from, uint32_t n, int wait,
                    size_t *finished) {
  struct row_change change = {.kind = CHANGE_SET,
                              .rows = p->vectors +
                                      (size_t)from * p->s->core->layout.dim};
  struct write_batch rest = {.keys = p->keys + from,
                             .n = n - from,
                             .versions =
                                 p->versions ? p->versions + from : NULL,
                             .call = p->call,
                             .wait = wait};
  int rc = change__rows(p->s, &rest, &change);
  *finished = from + rest.done;
  return rc;
}

static int put_chunk(struct put *p, uint32_t n, int wait, size_t *finished) {
  emb_session *s = p->s;
  uint64_t waited = 0;
  uint32_t done = 0;
  while (done < n) {
    int rc = put_in_epoch(p, done, n, &done);
    *finished = done;
    if (rc == ROW_COLD) {
      return put_cold(p, done, n, wait, finished);
    }
    if (!wait && (rc == ROW_ROOM || rc == ROW_HELD)) {
      return EMB_OK;
    }
    if (rc == ROW_ROOM) {
      rc = session_wait_room(s);
    } else if (rc == ROW_HELD) {
      if (s->txn) {
        return session_error(s, EMB_LOCKED,
                             "key %lld was changed by this connection's open "
                             "transaction",
                             (long long)p->keys[done]);
      }
      rc = session_wait_key(s, p->keys[done], &waited);
    } else if (rc == EMB_FULL) {
      session_no_address(s);
    }
    if (rc) {
      return rc;
    }
  }
  return EMB_OK;
}

int put_rows(emb_session *s, struct write_batch *batch, const float *vectors) {
  int tracks = only_tracks(&s->core->schema);
  emb_assert(epoch_outside()); /* E1 */
  emb_assert(!batch->found);   /* a blind write does not know */
  if (value_is_wide(&s->core->layout) &&
      !tracks) { /* the rest of each record must stay */
    struct row_change change = {.kind = CHANGE_SET, .rows = vectors};
    int rc = change__rows(s, batch, &change);
    count_add(&s->core->counters.put_keys, batch->done);
    return rc;
  }
  struct put p = {.s = s, .call = batch->call, .tracks = tracks};
  int rc = EMB_OK;
  size_t done = 0;
  value_begin_call(s);
  while (!rc && done < batch->n) {
    size_t left = batch->n - done, m = left < s->chunk ? left : s->chunk;
    size_t finished = 0;
    p.keys = batch->keys + done;
    p.vectors = vectors + done * s->core->layout.dim;
    p.versions = batch->versions ? batch->versions + done : NULL;
    rc = put_chunk(&p, (uint32_t)m, batch->wait, &finished);
    done += finished;
    if (finished < m) {
      break;
    }
    rc = rc || !batch->wait || done == batch->n ? rc : session_poll(s);
  }
  batch->done = done;
  bound_signal(s, 0);
  count_add(&s->core->counters.put_keys, done);
  count_add(&s->core->counters.put_in_place, p.in_place);
  core_wrote(s->core);
  if (batch->wait) {
    s->store->forget(s);
  }
  return rc;
}

int local_put(emb_session *s, const int64_t *keys, size_t n,
              const float *vectors, uint64_t *versions) {
  return local_put_parts(s, keys, n, vectors, 0, versions);
}

int local_put_parts(emb_session *s, const int64_t *keys, size_t n,
                    const float *vectors, uint32_t parts, uint64_t *versions) {
  int rc = begin_write(s);
  rc = rc ? rc : check_rows(s, keys, n, vectors, "row");
  rc = rc ? rc : own_claim(s);
  if (rc) {
    return rc;
  }
  struct write_batch batch = {
      .keys = keys,
      .n = n,
      .versions = versions,
      .call = core_bounded(s->core) ? lease_next_call(&s->leases) : 0,
      .wait = 1};
  if (!parts) {
    return put_rows(s, &batch, vectors);
  }
  struct row_change change = {
      .kind = CHANGE_SET, .parts = parts, .rows = vectors};
  rc = change__rows(s, &batch, &change);
  count_add(&s->core->counters.put_keys, batch.done);
  return rc;
}
