/* SPDX-License-Identifier: MIT
**
** change.c -- read-modify-write, atomic per key: emb_rmw, emb_apply_gradients,
** and Puts to records that hold more than the Put supplies.  README.md has the
** steps.
**
** With `wait` 0 the disk is not read either: the batch stops before the first
** row that would need it.
*/
#include "change.h"

#include <string.h>

#include "engine/storage/kernel/row_write.h"
#include "engine/table/bound/bound.h"
#include "rows.h"

struct work {
  emb_session *s;
  const struct row_change *change;
  const int64_t *keys; /* of the chunk, like found and versions */
  size_t first;        /* the chunk's first row in the change */
  uint8_t *found;
  uint64_t *versions; /* or NULL */
  struct log_run run;
  uint64_t version;
  uint32_t call; /* 0: no Gets are counted */
  uint32_t want; /* slots that the rest of the chunk may need */
  int grouped;   /* the session's groups are those of the batch */
  int in_place;  /* value__works_in_place */
  struct loaded loaded;
};

static uint64_t change_give_back(struct work *w, uint32_t row, uint64_t word) {
  int64_t key = w->keys[row];
  return w->call ? bound_put(w->s, key, w->s->hashes[row], w->call, word)
                 : word;
}

static void change_result(struct work *w, uint32_t row, int found,
                          uint64_t version) {
  if (w->found) {
    w->found[row] = (uint8_t)found;
  }
  if (w->versions) {
    w->versions[row] = version;
  }
}

/* Rows of the batch that this row stands for. */
static uint32_t times_of(const struct work *w, uint32_t row) {
  return w->change->times ? w->change->times[w->first + row]
         : w->grouped     ? group_times(&w->s->groups, w->first + row)
                          : 1;
}

/* May this absent key be added? */
static int admits_new_key(struct work *w, uint32_t row) {
  return value_adds(w->s, w->change) &&
         value_admits(w->s, w->change, w->keys[row], times_of(w, row));
}

/* The change's input for a row, and the values it was computed from. */
static struct value_row row_value(const struct work *w, uint32_t row,
                                  uint64_t version) {
  const struct row_change *c = w->change;
  const struct groups *g = &w->s->groups;
  size_t dim = w->s->core->layout.dim, at = w->first + row;
  int summed = w->grouped && g->any && c->kind == CHANGE_STEP && g->sum_at[at];
  return (struct value_row){.says = summed ? g->sums + (g->sum_at[at] - 1) * dim
                                    : c->rows ? c->rows + at * dim
                                              : NULL,
                            .read = c->read ? c->read + at * dim : NULL,
                            .times = times_of(w, row),
                            .key = w->keys[row],
                            .version = version};
}

static int not_finite(struct work *w, uint32_t row) {
  return session_error(
      w->s, EMB_NONFINITE, "row %zu (key %lld): the %s is not finite",
      w->first + row, (long long)w->keys[row],
      w->change->kind == CHANGE_STEP ? "updated vector" : "sum");
}

/* Computes the new value in s->scratch. */
static int make_new_value(struct work *w, uint32_t row, uint64_t version,
                          const void *old) {
  struct value_row value = row_value(w, row, version);
  return value_make(w->s, w->change, &value, old, w->s->scratch)
             ? EMB_OK
             : not_finite(w, row);
}

/* The record is in the mutable part of the log; its key is latched. */
static int replace_here(struct work *w, uint32_t row, struct rec *rec,
                        uint64_t old_version, uint64_t version) {
  if (w->in_place) {
    struct value_row value = row_value(w, row, version);
    rec_begin(rec);
    int good = value__update(w->s, w->change, &value, rec->vector);
    rec_end(rec, good ? version : old_version);
    return good ? EMB_OK : not_finite(w, row);
  }
  int rc = make_new_value(w, row, version, rec->vector);
  if (!rc) {
    rec_begin(rec);
    rec_fill(rec, w->keys[row], w->s->scratch, w->s->core->layout.value_bytes,
             version);
  }
  return rc;
}

/* The key is latched.  old: its present value, NULL if the entry exists only
** for its leases.  rec: the record, if it is in memory, or NULL. */
static int change_replace(struct work *w, uint32_t row, struct entry *entry,
                          uint64_t word, const void *old, struct rec *rec) {
  struct core *core = w->s->core;
  int64_t key = w->keys[row];
  /* No session writes while the latch is held, so plain reads are safe. */
  uint64_t old_version =
      rec ? rec_version(atomic_load_explicit(&rec->stamp, memory_order_relaxed))
          : 0;
  if (w->change->kind == CHANGE_CREATE && old) {
    key_unlatch(entry, word);
    change_result(w, row, 1, old_version);
    return EMB_OK;
  }
  uint64_t version = core_version_above(core, w->version + row, old_version);
  if (rec && !(word & WORD_CACHED) &&
      log_mutable(&core->log, word_address(word))) {
    emb_assert(log_unwritten(&core->log, word_address(word))); /* L2 */
    int rc = replace_here(w, row, rec, old_version, version);
    if (rc) {
      key_unlatch(entry, word);
      return rc;
    }
    row_changed_here(core, key, entry, change_give_back(w, row, word), rec,
                     ROW_STEP);
    change_result(w, row, 1, version);
    return EMB_OK;
  }
  uint64_t address, above = key_log_address(core, word);
  int rc = make_new_value(w, row, version, old);
  rc = rc ? rc
          : row_slot(core, &w->run, w->want,
                     above ? above : row_tombs_end(core), &address);
  if (rc) {
    key_unlatch(entry, word);
    return rc;
  }
  rec_fill(log_rec(&core->log, address), key, w->s->scratch,
           core->layout.value_bytes, version);
  row_publish(core, key, entry, change_give_back(w, row, word), address,
              ROW_STEP);
  change_result(w, row, old != NULL, version);
  return EMB_OK;
}

/* The key is latched and was found. */
static int change_found(struct work *w, uint32_t row, struct entry *entry,
                        uint64_t word, uint64_t *cold_at) {
  struct core *core = w->s->core;
  if (!word_address(word)) { /* removed while it was leased */
    if (admits_new_key(w, row)) {
      return change_replace(w, row, entry, word, NULL, NULL);
    }
    key_unlatch(entry, word);
    change_result(w, row, 0, 0);
    return EMB_OK;
  }
  struct rec *rec = key_rec(core, word);
  uint64_t at = key_log_address(core, word);
  if (rec) {
    return change_replace(w, row, entry, word, rec->vector, rec);
  }
  const void *loaded = loaded_value(w->s, &w->loaded, row, at);
  if (loaded) {
    return change_replace(w, row, entry, word, loaded, NULL);
  }
  key_unlatch(entry, word);
  *cold_at = at;
  return ROW_COLD;
}

static int change_absent(struct work *w, uint32_t row, int *asked) {
  if (!*asked && !admits_new_key(w, row)) {
    change_result(w, row, 0, 0);
    return EMB_OK;
  }
  *asked = 1;
  int rc = make_new_value(w, row, w->version + row, NULL);
  rc = rc ? rc
          : row_insert(w->s->core, &w->run, w->want,
                       &(struct row_new){w->keys[row], w->s->hashes[row],
                                         w->s->scratch, w->version + row});
  if (!rc) {
    change_result(w, row, 0, w->version + row);
  }
  return rc == EMB_NOMEM ? session_error(w->s, rc, "out of memory") : rc;
}

static int change_row(struct work *w, uint32_t row, uint64_t *cold_at) {
  int asked = 0;
  for (;;) {
    struct entry *entry;
    uint64_t word;
    int rc;
    switch (
        key_latch(w->s->core, w->keys[row], w->s->hashes[row], &entry, &word)) {
    case KEY_FOUND:
      return change_found(w, row, entry, word, cold_at);
    case KEY_INTENT:
      return ROW_HELD;
    default:
      rc = change_absent(w, row, &asked);
      if (rc != INDEX_EXISTS && rc != ROW_HELD) {
        return rc;
      }
    }
  }
}

/* As change_row, for a row whose entry and word were found a moment ago. */
static int change_row_found(struct work *w, uint32_t row, uint64_t *cold_at) {
  struct entry *entry = w->s->entries[row];
  uint64_t word = w->s->words[row];
  if (!word_address(word) || (word & (WORD_LATCH | WORD_INTENT)) ||
      !key_latch_found(entry, w->keys[row], &word)) {
    return change_row(w, row, cold_at);
  }
  return change_found(w, row, entry, word, cold_at);
}

static int row_stands(const struct work *w, uint32_t row) {
  return !w->grouped || group_stands(&w->s->groups, w->first + row);
}

/* The record that a row's word names, if it is in memory; else NULL. */
static struct rec *memory_rec(const struct core *core, uint64_t word) {
  return word_address(word) ? key_rec(core, word) : NULL;
}

/* The first pass over a chunk of n rows; *done: rows finished.  Rows that need
** the disk are put into s->cold; without `wait` the first of them ends the
** pass, so that what the caller leaves to others is not done yet. */
static int change_first_pass(struct work *w, uint32_t n, int wait,
                             uint32_t *done, uint32_t *cold) {
  emb_session *s = w->s;
  struct core *core = s->core;
  int counts = core->schema.admission.kind != ADMISSION_NONE;
  int only_vectors = w->in_place && w->change->kind == CHANGE_SET;
  uint32_t lines = rows_lines(only_vectors ? core->layout.vector_bytes
                                           : core->layout.value_bytes);
  struct rows_finder find;
  int rc = EMB_OK;
  finder_begin(&find, s, w->keys, 0, n);
  for (uint32_t i = 0; i < n + ROWS_AHEAD; i++) {
    uint32_t row = i - ROWS_AHEAD; /* may wrap, and is then not below n */
    if (i >= ROWS_AHEAD) {
      uint64_t at = 0;
      rc = row_stands(w, row) ? change_row_found(w, row, &at) : EMB_OK;
      if (rc == ROW_COLD) {
        s->cold[(*cold)++] = (struct cold){at, row};
        rc = EMB_OK;
      }
      if (rc || (*cold && !wait)) {
        return rc;
      }
      w->want -= w->want > 1;
      *done = row + 1;
    }
    if (i < n) {
      if (i == find.found) {
        finder__until(&find, i);
      }
      struct rec *rec = memory_rec(core, s->words[i]);
      w->want += !rec || (s->words[i] & WORD_CACHED);
      rows_prefetch(rec, lines);
      if (!rec && counts && !word_address(s->words[i])) {
        admission_prefetch(&core->admission, s->hashes[i]);
      }
    }
  }
  return rc;
}

/* Retries rows s->rows[0..*n).  If the pass is interrupted, the remaining rows
** are moved to the front. */
static int change_next_pass(struct work *w, uint32_t *n, uint32_t *cold) {
  emb_session *s = w->s;
  int rc = EMB_OK;
  uint32_t i = 0;
  for (; !rc && i < *n; i += !rc) {
    uint64_t at = 0;
    /* The first pass may have ended before it looked the row up. */
    s->hashes[s->rows[i]] = hash_key(w->keys[s->rows[i]]);
    rc = change_row(w, s->rows[i], &at);
    if (rc == ROW_COLD) {
      s->cold[(*cold)++] = (struct cold){at, s->rows[i]};
      rc = EMB_OK;
    }
  }
  *n -= i;
  memmove(s->rows, s->rows + i, *n * sizeof *s->rows);
  return rc;
}

static void change_begin_pass(struct work *w, uint32_t n) {
  struct core *core = w->s->core;
  memset(&w->run, 0, sizeof w->run); /* a run must not outlive its pass */
  w->want = 1;
  epoch_enter(&core->epoch, w->s->slot);
  w->version = core_versions(core, n);
}

/* Waits as rc requires, after a pass that stopped at this row. */
static int wait_after(struct work *w, int rc, uint32_t row, uint64_t *waited) {
  emb_session *s = w->s;
  if (rc == ROW_ROOM) {
    return session_wait_room(s);
  }
  if (rc == ROW_HELD) {
    return s->txn ? session_error(s, EMB_LOCKED,
                                  "key %lld was changed by this connection's "
                                  "open transaction",
                                  (long long)w->keys[row])
                  : session_wait_key(s, w->keys[row], waited);
  }
  return rc == EMB_FULL ? session_no_address(s) : rc;
}

/* Reads the rows in s->cold; s->rows gets all rows that must be retried. */
static int read_rows(struct work *w, uint32_t cold, uint32_t *n) {
  emb_session *s = w->s;
  for (uint32_t i = 0; i < cold; i++) {
    w->loaded.rows[i] = s->cold[i].row; /* s->cold will be reordered */
  }
  /* Unfinished rows stay in s->rows; rows that moved are appended. */
  int rc = loaded_read(s, &w->loaded, w->keys, cold, n);
  for (uint32_t i = 0; !rc && i < cold; i++) {
    if (w->loaded.at[w->loaded.rows[i]]) {
      s->rows[(*n)++] = w->loaded.rows[i];
    }
  }
  return rc;
}

/* Finishes the rows that need the disk or follow one that had to wait. */
static int finish_chunk(struct work *w, uint32_t n, uint32_t cold) {
  emb_session *s = w->s;
  uint64_t waited = 0;
  for (;;) {
    int rc = cold ? read_rows(w, cold, &n) : EMB_OK;
    if (rc || !n) {
      return rc;
    }
    cold = 0;
    change_begin_pass(w, s->chunk);
    rc = change_next_pass(w, &n, &cold);
    epoch_leave(s->slot);
    rc = rc ? wait_after(w, rc, s->rows[0], &waited) : EMB_OK;
    if (rc) {
      return rc;
    }
  }
}

static int change_chunk(struct work *w, uint32_t n, int wait,
                        size_t *finished) {
  emb_session *s = w->s;
  uint32_t done = 0, cold = 0, left = 0;
  uint64_t waited = 0;
  memset(w->loaded.at, 0, n * sizeof *w->loaded.at);
  change_begin_pass(w, n);
  int rc = change_first_pass(w, n, wait, &done, &cold);
  epoch_leave(s->slot);
  if (!wait && (cold || rc == ROW_ROOM || rc == ROW_HELD)) {
    *finished = cold ? s->cold[0].row : done;
    return EMB_OK;
  }
  rc = rc ? wait_after(w, rc, done, &waited) : EMB_OK;
  for (uint32_t row = done; !rc && row < n; row++) {
    if (row_stands(w, row)) {
      s->rows[left++] = row;
    }
  }
  rc = rc ? rc : finish_chunk(w, left, cold);
  *finished = rc ? done : n;
  return rc;
}

/* Copies each result to the other rows of the batch with the same key. */
static void copy_to_repeated(const struct groups *g,
                             const struct write_batch *batch) {
  for (size_t i = 0; i < batch->n; i++) {
    if (batch->found) {
      batch->found[i] = batch->found[g->stands[i]];
    }
    if (batch->versions) {
      batch->versions[i] = batch->versions[g->stands[i]];
    }
  }
}

/* Repeated keys: sums commute; any other change needs one row per key. */
static int group_keys(struct work *w, const struct write_batch *batch) {
  emb_session *s = w->s;
  const struct row_change *c = w->change;
  if (c->kind == CHANGE_ADD) {
    return EMB_OK;
  }
  w->grouped = 1;
  return group_rows(&s->groups, s->core->env,
                    &(struct group_batch){batch->keys, batch->n, c->rows,
                                          s->core->layout.dim},
                    c->kind == CHANGE_STEP ? GROUP_SUM : GROUP_LAST)
             ? EMB_OK
             : session_error(s, EMB_NOMEM, "out of memory");
}

int change__rows(emb_session *s, struct write_batch *batch,
                 const struct row_change *change) {
  struct core *core = s->core;
  struct work w = {.s = s,
                   .change = change,
                   .call = batch->call,
                   .in_place = value__works_in_place(s, change)};
  emb_assert(epoch_outside()); /* E1 */
  emb_assert(!change->parts || change->kind == CHANGE_SET ||
             change->kind == CHANGE_STEP);
  emb_assert(!change->times || change->kind == CHANGE_STEP);
  int rc = group_keys(&w, batch);
  size_t done = 0;
  value_begin_call(s);
  rc = rc ? rc : loaded_init(s, &w.loaded);
  /* The rows of a repeated key must not be parted: one stands for all. */
  int whole = batch->wait || !w.grouped || !s->groups.any;
  while (!rc && whole && done < batch->n) {
    size_t left = batch->n - done, m = left < s->chunk ? left : s->chunk;
    size_t finished = 0;
    w.first = done;
    w.keys = batch->keys + done;
    w.found = batch->found ? batch->found + done : NULL;
    w.versions = batch->versions ? batch->versions + done : NULL;
    rc = change_chunk(&w, (uint32_t)m, batch->wait, &finished);
    done += finished;
    if (finished < m) {
      break;
    }
    rc = rc || !batch->wait || done == batch->n ? rc : session_poll(s);
  }
  batch->done = done;
  if (!rc && whole && w.grouped && s->groups.any) {
    copy_to_repeated(&s->groups, batch);
  }
  loaded_free(s, &w.loaded);
  group_end_call(&s->groups, core->env);
  bound_signal(s, 0);
  core_wrote(core);
  if (batch->wait) {
    s->store->forget(s);
  }
  return rc;
}
