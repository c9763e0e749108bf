/* SPDX-License-Identifier: MIT
**
** delta.c -- changes since a consumer's mark (consumer/consumer.h).
**
** A delta is a scan in storage order (scan.c) that begins at the mark's page
** instead of the log's first, leaves out records older than the mark
** (compaction has moved them), sees the committed rows whichever session reads
** it, and also takes the keys in pages of deletions.
**
** MOMENT    Every key that changed between the two marks is delivered, with a
**           state that it had at some moment from the mark to the delta's end.
**           So after the delta each row of a copy has such a state.  What
**           happens to a key while the delta is read:
**
**             the scan has passed its record    it came as of the mark
**             its record moves or is replaced   it comes as it is at the end
**             its record is removed             it comes as that removal
**             it was absent at the mark         it comes as absent, if the
**                                               delta has a deletion of it
**
**           The next delta has each of these changes again.
**
** Each key appears once: its record, or the last of its deletions.  Deletions
** are gathered (consumer/gone.h) and come at the end.  If the scan finds no
** record of a key in a page of deletions, no record of it below the mark is
** live.  A record may have been live when the delta read it: a deletion that
** was rolled back may follow a live record, which is deleted after the mark.
** Such keys are known (scan_watch.passed), and go into the next delta.
**
** DURABLE   A crash does not undo changes that a consumer has received, or
**           need not receive:
**           - Everything below the mark is synced before the first row.
**           - A record that was replaced or deleted since the mark goes into
**             the next delta.  So its replacement or deletion is synced before
**             this delta can be acknowledged: else the old record would come
**             back, below the mark, and never be delivered.
**           - A key in a page of deletions is delivered if it is absent when
**             that page is read; if a deletion after the mark may have caused
**             that, this deletion is synced first.
**           - A row that is newer than the mark, and a row that was removed
**             while the delta was read, is synced before it is delivered.
*/
#include <string.h>

#include "delta.h"
#include "engine/table/jobs/begin.h"
#include "engine/table/jobs/cold.h"
#include "engine/table/owner/own.h"

size_t emb_state_bytes(const emb_store *store) {
  const struct layout *l = &store->core.layout;
  const struct schema *schema = &store->core.schema;
  return schema->state_floats ? l->value_bytes - schema->state_at : 0;
}

/* ---- marks --------------------------------------------------------------- */

struct marking {
  emb_session *s;
  emb_scan *scan;
  struct mark *mark;
  uint64_t *first;
  int rc;
};

/* The scan begins when the log is sealed, so it sees everything below the mark
** in its final state; the scan's end may be slightly above the mark. */
static void delta_set_mark(void *arg, uint64_t tail) {
  struct marking *m = arg;
  const emb_store *store = m->s->store;
  struct core *core = m->s->core;
  struct scan_watch *watch = &m->scan->watch;
  struct mark *mark = m->mark;
  mark->end = mark->page = tail;
  watch->skip_txn = store->open_txn.number;
  watch->skip_from = store->open_txn.start;
  if (watch->skip_txn) {
    uint64_t page = layout_page(&core->layout, watch->skip_from);
    mark->page = page < tail ? page : tail;
    mark->version = store->open_txn.version < mark->version
                        ? store->open_txn.version
                        : mark->version;
  }
  m->rc = watch_open(core, watch, m->first);
}

int delta__take_mark(emb_session *s, emb_scan *scan, struct mark *mark,
                     uint64_t *first) {
  struct core *core = s->core;
  struct marking m = {s, scan, mark, first, EMB_OK};
  emb_assert(!s->txn); /* core_mark excludes commits */
  mark->version = atomic_load(&core->version);
  epoch_wait(&core->epoch);
  struct core_marking marking = {.settle = &s->store->open_txn.lock,
                                 .slot = s->slot,
                                 .then = delta_set_mark,
                                 .arg = &m};
  int rc = core_mark(core, &marking, &s->err);
  if (rc || m.rc) {
    return rc ? rc : session_error(s, m.rc, "out of memory");
  }
  rc = core_flush_all(core, !EMB_SEED(SEED_DELIVERED_DELTA_NOT_SYNCED), NULL,
                      &s->err);
  if (rc) {
    watch_close(core, &scan->watch);
  }
  return rc;
}

void delta__init_scan(emb_session *s, emb_scan *scan) {
  scan->s = s;
  scan->order = EMB_SCAN_ANY;
  scan->lo = INT64_MIN;
  scan->hi = INT64_MAX;
  scan->changes = 1;
  spill_init(&scan->watch.moved, s->core->env, s->core->dir, sizeof(int64_t));
  spill_init(&scan->watch.passed, s->core->env, s->core->dir, sizeof(int64_t));
  spill_init(&scan->watch.removed, s->core->env, s->core->dir,
             sizeof(struct watch_removal));
}

void delta__hold(emb_session *s, struct hold *hold) {
  emb_store *store = s->store;
  emb_assert(!s->txn);
  pthread_mutex_lock(&store->open_txn.lock);
  uint64_t page = atomic_load(&s->core->log.tail);
  uint64_t open = layout_page(&s->core->layout, store->open_txn.start);
  consumers_hold(&store->consumers, hold,
                 store->open_txn.number && open < page ? open : page);
  pthread_mutex_unlock(&store->open_txn.lock);
}

int delta__begin_call(emb_session *s) {
  int rc = begin_write(s);
  if (!rc && s->txn) {
    rc = session_error(s, EMB_LOCKED, "no delta inside a transaction");
  }
  if (!rc && s->core->temporary) {
    rc = session_error(s, EMB_UNFIT, "%s is temporary: it has no deltas",
                       s->core->dir);
  }
  return rc ? rc : own_claim(s);
}

/* ---- opening and closing ------------------------------------------------- */

/* The scan begins at this page: older records count as passed. */
static void delta_begin_at(emb_scan *scan, uint64_t page) {
  struct core *core = scan->s->core;
  pthread_mutex_lock(&core->scan_lock);
  scan->page = page;
  scan->watch.cursor = layout_address(&core->layout, page, 0);
  pthread_mutex_unlock(&core->scan_lock);
}

static int delta_start(emb_delta *delta) {
  emb_scan *scan = &delta->scan;
  emb_session *s = scan->s;
  const struct mark *from = &delta->consumer.acked;
  uint64_t first;
  int rc = scan_buffers(scan, s->core->layout.value_bytes);
  if (rc) {
    return rc;
  }
  if (!from->page) {
    delta__hold(s, &delta->hold);
    delta->held = 1;
  }
  scan->watch.deletions = from->page != 0;
  rc = delta__take_mark(s, scan, &delta->mark, &first);
  if (rc) {
    return rc;
  }
  s->scan.open++;
  atomic_fetch_add(&s->store->sessions.scans, 1);
  scan->since = from->version;
  scan->consumer = from->page ? &delta->consumer : NULL;
  delta_begin_at(scan, from->page > first ? from->page : first);
  if (EMB_SEED(SEED_FIRST_DELTA_EMPTY) && !from->page) {
    scan->page = delta->mark.page;
  }
  return EMB_OK;
}

/* Frees a delta that was not started. */
static void free_delta(emb_delta *delta) {
  emb_session *s = delta->scan.s;
  if (delta->held) {
    consumers_let_go(&s->store->consumers, &delta->hold);
  }
  spill_free(&delta->scan.watch.moved);
  spill_free(&delta->scan.watch.passed);
  spill_free(&delta->scan.watch.removed);
  gone_free(&delta->gone);
  scan_free_buffers(&delta->scan);
  s->core->env->release(s->core->env, delta);
}

/* For consumer_change: copies the consumer, as it is or as just made. */
static int delta_look(void *arg, struct consumer *consumer, int made,
                      emb_err *err) {
  (void)err;
  *(struct consumer *)arg = *consumer;
  return made ? EMB_OK : CONSUMER_SAME;
}

int local_delta_open(emb_session *s, const char *name, emb_delta **out) {
  struct consumers *consumers = &s->store->consumers;
  struct env *env = s->core->env;
  *out = NULL;
  int rc = delta__begin_call(s);
  rc = rc ? rc : consumer_name_check(name, &s->err);
  if (rc) {
    return rc;
  }
  emb_delta *delta = env->allocate(env, sizeof *delta);
  if (!delta) {
    return session_error(s, EMB_NOMEM, "out of memory");
  }
  delta__init_scan(s, &delta->scan);
  gone_init(&delta->gone, env, s->core->dir);
  struct consumer_edit edit = {
      .make = MAKE_ABSENT, .change = delta_look, .arg = &delta->consumer};
  rc = consumer_change(consumers, name, &edit, &s->err);
  rc = rc ? rc : consumer_check(&delta->consumer, s->core, &s->err);
  rc = rc ? rc : delta_start(delta);
  if (rc) {
    free_delta(delta);
  } else {
    emb_check(delta_valid(delta));
    *out = delta;
  }
  return rc;
}

void local_delta_close(emb_delta *delta) {
  if (!delta || store_check(delta->scan.s->store, NULL)) {
    return;
  }
  if (delta->held) {
    consumers_let_go(&delta->scan.s->store->consumers, &delta->hold);
  }
  scan_finish(&delta->scan);
  spill_free(&delta->scan.watch.passed);
  spill_free(&delta->scan.watch.removed);
  gone_free(&delta->gone);
  delta->scan.s->core->env->release(delta->scan.s->core->env, delta);
}

void local_delta_range(const emb_delta *delta, uint64_t *from, uint64_t *to) {
  if (from) {
    *from = delta->consumer.acked.end;
  }
  if (to) {
    *to = delta->mark.end;
  }
}

/* ---- rows ---------------------------------------------------------------- */

struct delta_row {
  int64_t key;
  uint8_t op;
  uint64_t version;  /* 0 for a deletion, which has no value */
  const char *value; /* in stored form */
};

static void delta_deliver(emb_delta *delta, const struct delta_rows *rows,
                          size_t at, const struct delta_row *row) {
  emb_session *s = delta->scan.s;
  size_t state = emb_state_bytes(s->store);
  uint64_t version = row->version;
  const char *value = row->value;
  emb_assert((row->op == EMB_DELTA_PUT) == (version != 0));
  emb_assert(version == 0 || version > delta->scan.since);
  rows->keys[at] = row->key;
  rows->ops[at] = row->op;
  if (rows->versions) {
    rows->versions[at] = version;
  }
  if (version && rows->vectors) {
    session_decode(s, rows->vectors + at * s->core->layout.dim, value);
  }
  if (version && rows->states && state) {
    memcpy(rows->states + at * state, value + s->core->schema.state_at, state);
  }
  if (version && rows->values) {
    size_t bytes = s->core->layout.value_bytes;
    memcpy(rows->values + at * bytes, value, bytes);
  }
}

struct fetch {
  emb_delta *delta;
  const struct delta_rows *rows;
  size_t *n;
  int64_t present[SCAN_BATCH]; /* keys that were found */
  uint32_t presents;
};

/* Delivers the record of a key that moved.  If it was also changed, it comes as
** it is now, and again in the next delta. */
static void delta_take(struct fetch *f, int64_t key, uint64_t version,
                       const char *value) {
  int newer = version > f->delta->mark.version;
  f->present[f->presents++] = key;
  if (version > f->delta->scan.since &&
      !(newer && EMB_SEED(SEED_CHANGED_ROW_NOT_IN_DELTA))) {
    delta_deliver(f->delta, f->rows, (*f->n)++,
                  &(struct delta_row){key, EMB_DELTA_PUT, version, value});
    f->delta->ahead |= newer;
  }
}

/* The keys that were found existed at the mark, too: no deletion of them that
** the scan passed is the last one. */
static int note_present(struct fetch *f) {
  struct scan_watch *watch = &f->delta->scan.watch;
  struct core *core = f->delta->scan.s->core;
  int rc = EMB_OK;
  pthread_mutex_lock(&core->scan_lock);
  for (uint32_t i = 0; watch->deletions && !rc && i < f->presents; i++) {
    rc = spill_push(&watch->passed, &f->present[i], &f->delta->scan.s->err);
  }
  pthread_mutex_unlock(&core->scan_lock);
  return rc;
}

static int take_cold(emb_session *s, void *arg, uint32_t row, int64_t key,
                     const struct rec *rec) {
  (void)s;
  (void)row;
  delta_take(
      arg, key,
      rec_version(atomic_load_explicit(&rec->stamp, memory_order_relaxed)),
      rec->vector);
  return EMB_OK;
}

/* Finds a key's committed record: takes it from memory, or notes it as cold. */
static void delta_look_up(struct fetch *f, uint32_t row, int64_t key,
                          uint32_t *cold) {
  emb_session *s = f->delta->scan.s;
  struct core *core = s->core;
  uint64_t word, version, hash = hash_key(key);
  while (index_find(&core->index, key, hash, &word) && word_address(word)) {
    struct rec *rec = key_rec(core, word & ~WORD_LATCH);
    if (!rec) {
      s->cold[(*cold)++] = (struct cold){word_address(word), row};
      return;
    }
    if (rec_read(rec, key, s->scratch, core->layout.value_bytes, &version)) {
      delta_take(f, key, version, s->scratch);
      return;
    }
  }
}

/* Delivers keys that moved away while the scan ran.  Those that were removed
** after they moved are in scan_watch.removed. */
static int delta_moved_rows(emb_delta *delta, size_t max,
                            const struct delta_rows *rows, size_t *n) {
  emb_scan *scan = &delta->scan;
  emb_session *s = scan->s;
  struct fetch f = {.delta = delta, .rows = rows, .n = n};
  uint32_t todo[SCAN_BATCH], left, cold;
  int rc = scan_take_moved(scan);
  left = scan->batch_keys < max ? scan->batch_keys : (uint32_t)max;
  uint32_t took = left;
  for (uint32_t i = 0; i < left; i++) {
    todo[i] = i;
  }
  while (!rc && left) {
    uint32_t again = 0;
    cold = 0;
    epoch_enter(&s->core->epoch, s->slot);
    for (uint32_t i = 0; i < left; i++) {
      delta_look_up(&f, todo[i], scan->batch[todo[i]], &cold);
    }
    epoch_leave(s->slot);
    struct cold_batch batch = {
        .keys = scan->batch, .n = cold, .use = take_cold, .arg = &f};
    rc = cold ? cold_read(s, &batch, &again) : EMB_OK;
    memcpy(todo, s->rows, again * sizeof *todo);
    left = again;
  }
  rc = rc ? rc : note_present(&f);
  if (!rc) {
    scan->batch_keys -= took;
    memmove(scan->batch, scan->batch + took,
            scan->batch_keys * sizeof *scan->batch);
  }
  return rc;
}

static uint64_t moved_left(emb_scan *scan) {
  pthread_mutex_lock(&scan->s->core->scan_lock);
  uint64_t left = spill_count(&scan->watch.moved) + scan->batch_keys;
  pthread_mutex_unlock(&scan->s->core->scan_lock);
  return left;
}

/* Takes what the scan found: delivers a row, or keeps a deletion for later. */
static int found_row(emb_delta *delta, const struct delta_rows *rows,
                     size_t *n) {
  emb_scan *scan = &delta->scan;
  uint32_t i = scan->row_at++;
  uint8_t op = scan->row_ops[i];
  if (op != EMB_DELTA_PUT) {
    return gone_add(&delta->gone, scan->row_keys[i], op, &scan->s->err);
  }
  delta_deliver(
      delta, rows, (*n)++,
      &(struct delta_row){scan->row_keys[i], op, scan->row_versions[i],
                          scan->row_values + (size_t)i * scan->row_bytes});
  return EMB_OK;
}

static int sync_now(emb_session *s) {
  const struct log *log = &s->core->log;
  return atomic_load(&log->synced) >= atomic_load(&log->tail) ||
                 EMB_SEED(SEED_DELIVERED_DELTA_NOT_SYNCED)
             ? EMB_OK
             : core_flush_all(s->core, 1, NULL, &s->err);
}

/* Takes an item that the watch noted; *some = 0: there is none. */
static int take_noted(emb_delta *delta, struct spill *notes, void *item,
                      int *some) {
  emb_session *s = delta->scan.s;
  pthread_mutex_lock(&s->core->scan_lock);
  *some = spill_count(notes) != 0;
  int rc = *some ? spill_pop(notes, item, &s->err) : EMB_OK;
  pthread_mutex_unlock(&s->core->scan_lock);
  return rc;
}

/* Adds the rows that were removed before the delta could deliver them. */
static int add_removed(emb_delta *delta) {
  static const uint8_t ops[] = {[ROW_REMOVED] = EMB_DELTA_DELETE,
                                [ROW_EXPIRED] = EMB_DELTA_EXPIRE,
                                [ROW_EVICTED] = EMB_DELTA_EVICT};
  emb_session *s = delta->scan.s;
  struct watch_removal removal;
  int rc, some, any = 0;
  for (;; any = 1) {
    rc = take_noted(delta, &delta->scan.watch.removed, &removal, &some);
    if (rc || !some) {
      break;
    }
    emb_assert(removal.cause >= ROW_REMOVED && removal.cause <= ROW_EVICTED);
    rc = gone_add(&delta->gone, removal.key, ops[removal.cause], &s->err);
    if (rc) {
      break;
    }
  }
  return rc || !any ? rc : sync_now(s);
}

/* Removes from the deletions keys that had a record at the mark, and may be
** absent now: none of them is reported as deleted.  The last of a key's items
** counts. */
static int leave_passed(emb_delta *delta) {
  struct gone *gone = &delta->gone;
  int rc = EMB_OK, some = gone->count || gone->run_count;
  while (!rc && some) {
    int64_t key;
    rc = take_noted(delta, &delta->scan.watch.passed, &key, &some);
    if (!rc && some) {
      rc = gone_add(gone, key, EMB_DELTA_PUT, &delta->scan.s->err);
    }
  }
  return rc;
}

/* Call once every record was delivered: from now on the delta gathers no
** deletions. */
static int end_deletions(emb_delta *delta) {
  emb_session *s = delta->scan.s;
  int rc = add_removed(delta);
  rc = rc ? rc : leave_passed(delta);
  pthread_mutex_lock(&s->core->scan_lock);
  delta->scan.watch.deletions = 0;
  pthread_mutex_unlock(&s->core->scan_lock);
  return rc ? rc : gone_sort(&delta->gone, &s->err);
}

/* Delivers the deletions, at the end. */
static int gone_rows(emb_delta *delta, size_t max,
                     const struct delta_rows *rows, size_t *n) {
  struct gone *gone = &delta->gone;
  emb_err *err = &delta->scan.s->err;
  int rc = gone->sorted ? EMB_OK : end_deletions(delta), some = 1;
  while (!rc && *n < max) {
    int64_t key;
    uint8_t op;
    rc = gone_next(gone, &key, &op, &some, err);
    if (rc || !some) {
      break;
    }
    if (op != EMB_DELTA_PUT) {
      delta_deliver(delta, rows, (*n)++,
                    &(struct delta_row){.key = key, .op = op});
    }
  }
  return rc;
}

static int collect_rows(emb_delta *delta, size_t max,
                        const struct delta_rows *rows, size_t *n) {
  emb_scan *scan = &delta->scan;
  uint64_t end = layout_page(&scan->s->core->layout, scan->watch.end);
  int rc = EMB_OK;
  while (!rc && *n < max) {
    if (scan->row_at < scan->rows) {
      rc = found_row(delta, rows, n);
    } else if (scan->page < end) {
      rc = scan_fill(scan, max - *n);
    } else if (moved_left(scan)) {
      rc = delta_moved_rows(delta, max - *n, rows, n);
    } else {
      return gone_rows(delta, max, rows, n);
    }
  }
  return rc;
}

/* See DURABLE.  Called at the end of the delta, or after some rows. */
static int delta_settle(emb_delta *delta, const uint8_t *ops, size_t n) {
  emb_session *s = delta->scan.s;
  int newer = atomic_load(&s->core->log.last_tomb) >= delta->mark.end;
  size_t i = 0;
  while (newer && i < n && ops[i] == EMB_DELTA_PUT) {
    i++;
  }
  int ahead = delta->ahead;
  delta->ahead = 0;
  return !n || ahead || (newer && i < n) ? sync_now(s) : EMB_OK;
}

/* Is the consumer still at the mark where the delta began, or beyond? */
static int check_still(const emb_delta *delta, const struct consumer *now,
                       emb_err *err) {
  const struct core *core = delta->scan.s->core;
  int rc = EMB_SEED(SEED_LOST_CONSUMER_IGNORED)
               ? EMB_OK
               : consumer_check(now, core, err);
  return rc || now->acked.end >= delta->consumer.acked.end
             ? rc
             : err_set(err, EMB_RANGE, "consumer %s was restarted", now->name);
}

static int still_good(emb_delta *delta) {
  emb_session *s = delta->scan.s;
  struct consumer now;
  int rc =
      consumer_find(&s->store->consumers, delta->consumer.name, &now, &s->err);
  return rc ? rc : check_still(delta, &now, &s->err);
}

int delta__read(emb_delta *delta, size_t max, const struct delta_rows *rows,
                size_t *n) {
  emb_session *s = delta->scan.s;
  *n = 0;
  int rc = session_begin(s);
  rc = rc ? rc : session_interrupted(s);
  rc = rc || delta->complete ? rc : scan_ended(&delta->scan);
  if (!rc && delta->failed) {
    rc = session_error(s, delta->failed,
                       "the delta was interrupted: open it again");
  }
  if (rc || delta->complete || max == 0) {
    return rc;
  }
  rc = collect_rows(delta, max, rows, n);
  rc = rc ? rc : scan_ended(&delta->scan);
  rc = rc ? rc : delta_settle(delta, rows->ops, *n);
  /* After the read: records a lost consumer needs may be freed at any time. */
  rc = rc ? rc : still_good(delta);
  if (rc) {
    delta->failed = rc;
    *n = 0;
  }
  emb_check(rc || delta_valid(delta));
  return rc;
}

static int note_sent(void *arg, struct consumer *now, int made, emb_err *err) {
  const emb_delta *delta = arg;
  int rc = check_still(delta, now, err);
  (void)made;
  if (rc || now->acked.end > delta->mark.end ||
      now->sent.end == delta->mark.end) {
    return rc ? rc : CONSUMER_SAME;
  }
  now->sent = delta->mark;
  return EMB_OK;
}

int delta__complete_with(emb_delta *delta, int (*last)(void *), void *arg) {
  emb_session *s = delta->scan.s;
  struct consumer_edit edit = {
      .change = note_sent, .arg = delta, .last = last, .last_arg = arg};
  int rc = delta->complete
               ? last(arg)
               : consumer_change(&s->store->consumers, delta->consumer.name,
                                 &edit, &s->err);
  if (rc) {
    delta->failed = rc;
  } else {
    delta->complete = 1;
  }
  emb_check(rc || delta_valid(delta));
  return rc;
}

static int delta_nothing(void *arg) {
  (void)arg;
  return EMB_OK;
}

int delta_complete(emb_delta *delta) {
  return delta__complete_with(delta, delta_nothing, NULL);
}

int local_delta_next(emb_delta *delta, size_t max, const emb_rows *to,
                     size_t *n) {
  const struct delta_rows rows = {.keys = to->keys,
                                  .ops = to->ops,
                                  .vectors = to->vectors,
                                  .versions = to->versions,
                                  .states = to->states};
  int rc = delta__read(delta, max, &rows, n);
  return rc || *n || max == 0 ? rc : delta_complete(delta);
}
