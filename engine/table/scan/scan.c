/* SPDX-License-Identifier: MIT
**
** scan.c -- all rows in storage order: one sequential pass over the log.
**
** A record is delivered if it is its key's latest according to the index when
** the scan passes it; records that move away before the scan reaches them are
** reported to the scan (kernel/watch.h) and delivered at the end.  Memory: one
** extent, and the rows of one page.
*/
#include "scan.h"
#include "engine/table/owner/hold.h"
#include "engine/table/owner/own.h"

#include <string.h>

#include "engine/table/rows/get.h"

void scan_free_buffers(emb_scan *scan) {
  struct env *env = scan->s->core->env;
  env->release(env, scan->row_keys);
  env->release(env, scan->row_versions);
  env->release(env, scan->row_ops);
  env->release(env, scan->row_values);
}

int scan_buffers(emb_scan *scan, uint32_t row_bytes) {
  struct env *env = scan->s->core->env;
  uint32_t slots = scan->s->core->layout.slots;
  scan->row_bytes = row_bytes;
  scan->row_keys = env->allocate(env, slots * sizeof *scan->row_keys);
  scan->row_versions = env->allocate(env, slots * sizeof *scan->row_versions);
  scan->row_ops = env->allocate(env, slots);
  scan->row_values = env->allocate(env, (size_t)slots * row_bytes + 8);
  if (scan->row_keys && scan->row_versions && scan->row_ops &&
      scan->row_values) {
    return EMB_OK;
  }
  scan_free_buffers(scan);
  scan->row_keys = NULL;
  scan->row_versions = NULL;
  scan->row_ops = NULL;
  scan->row_values = NULL;
  return session_error(scan->s, EMB_NOMEM, "out of memory");
}

int local_scan_open(emb_session *s, int64_t lo, int64_t hi, int order,
                    emb_scan **out) {
  *out = NULL;
  int rc = session_begin(s);
  if (!rc && (order < EMB_SCAN_ANY || order > EMB_SCAN_KEYS)) {
    rc = session_error(s, EMB_RANGE, "unknown order %d", order);
  }
  rc = rc ? rc : own_refresh(s);
  if (rc) {
    return rc;
  }
  struct core *core = s->core;
  struct env *env = core->env;
  emb_scan *scan = env->allocate(env, sizeof *scan);
  if (!scan) {
    return session_error(s, EMB_NOMEM, "out of memory");
  }
  scan->s = s;
  scan->order = order;
  scan->lo = lo;
  scan->hi = hi;
  scan->block = 1024;
  rc = hold_begin(s, &scan->held);
  if (rc) {
    env->release(env, scan);
    return rc;
  }
  scan->loads = atomic_load(&s->store->own.loads);
  if (order == EMB_SCAN_ANY) {
    rc = scan_buffers(scan, schema_tracks(&core->schema)
                                ? core->layout.value_bytes
                                : core->layout.vector_bytes);
    if (rc) {
      hold_end(s, scan->held);
      env->release(env, scan);
      return rc;
    }
    spill_init(&scan->watch.moved, env, core->dir, sizeof(int64_t));
    scan->watch.session = s;
    pthread_mutex_lock(&s->store->open_txn.lock);
    if (!s->txn) {
      scan->watch.skip_txn = s->store->open_txn.number;
      scan->watch.skip_from = s->store->open_txn.start;
    }
    rc = watch_open(core, &scan->watch, &scan->page);
    pthread_mutex_unlock(&s->store->open_txn.lock);
    if (rc) {
      hold_end(s, scan->held);
      scan_free_buffers(scan);
      env->release(env, scan);
      return session_error(s, rc, "out of memory");
    }
  }
  s->scan.open++;
  emb_check(scan_valid(scan));
  *out = scan;
  return EMB_OK;
}

void scan_finish(emb_scan *scan) {
  emb_session *s = scan->s;
  struct env *env = s->core->env;
  emb_check(scan_valid(scan));
  emb_assert(s->scan.open > 0);
  if (scan->order == EMB_SCAN_ANY) {
    watch_close(s->core, &scan->watch);
    spill_free(&scan->watch.moved);
  }
  if (scan->extent) {
    env->unmap(env, scan->extent, s->core->layout.extent_bytes);
  }
  scan_free_buffers(scan);
  env->release(env, scan->keys);
  s->scan.open--;
  hold_end(s, scan->held);
}

void local_scan_close(emb_scan *scan) {
  if (scan && store_check(scan->s->store, NULL) == EMB_OK) {
    struct env *env = scan->s->core->env;
    scan_finish(scan);
    env->release(env, scan);
  }
}

/* ---- one page ------------------------------------------------------------ */

/* Is the record at this log address the one that the session sees, or, if
** `committed`, the committed one?  A cached record may leave the cache during
** the check. */
static int is_live(emb_session *s, int committed, int64_t key,
                   uint64_t address) {
  struct core *core = s->core;
  uint64_t hash = hash_key(key), word, again, at;
  do {
    if (!index_find(&core->index, key, hash, &word)) {
      return 0;
    }
    word &= ~WORD_LATCH;
    uint64_t seen = committed ? word : txn_word(s, key, hash, word);
    if (!(seen & WORD_CACHED)) {
      return seen && word_address(seen) == address;
    }
    at = key_cached_address(core, key, seen);
    index_find(&core->index, key, hash, &again);
  } while (!at || (again & ~WORD_LATCH) != word);
  return at == address;
}

int scan_sees_record(emb_session *s, int64_t key, uint64_t address) {
  return is_live(s, 0, key, address);
}

/* Makes a row of the record in this slot, if it is live.  A record read from
** disk is not being written, whatever its stamps say. */
static void collect_record(emb_scan *scan, const struct rec *rec,
                           uint64_t address, int from_disk) {
  uint64_t version =
      rec_version(atomic_load_explicit(&rec->stamp, memory_order_acquire));
  int64_t key = atomic_load_explicit(&rec->key, memory_order_relaxed);
  if (version <= scan->since || key < scan->lo || key > scan->hi ||
      !is_live(scan->s, scan->changes, key, address)) {
    return;
  }
  char *to = scan->row_values + (size_t)scan->rows * scan->row_bytes;
  if (from_disk) {
    memcpy(to, rec->vector, scan->row_bytes);
  }
  if (from_disk || rec_read(rec, key, to, scan->row_bytes, &version)) {
    scan->row_keys[scan->rows] = key;
    scan->row_ops[scan->rows] = EMB_DELTA_PUT;
    scan->row_versions[scan->rows++] = version;
  }
}

/* Why the keys in a page of deletions were removed. */
static uint8_t tomb_op(const char *page) {
  uint32_t flags = page_flags(page);
  return flags & PAGE_EXPIRED   ? EMB_DELTA_EXPIRE
         : flags & PAGE_EVICTED ? EMB_DELTA_EVICT
                                : EMB_DELTA_DELETE;
}

/* Makes a row of a key that was deleted once, unless the scan finds a record of
** the key that was there when it began.  A record added since then belongs to
** the next delta. */
static void collect_tomb(emb_scan *scan, const char *item, uint8_t op) {
  struct core *core = scan->s->core;
  int64_t key;
  memcpy(&key, item, sizeof key);
  if (!watch_covers(core, &scan->watch,
                    key_find_address(core, key, hash_key(key)))) {
    scan->row_keys[scan->rows] = key;
    scan->row_ops[scan->rows] = op;
    scan->row_versions[scan->rows++] = 0;
  }
}

/* Collects up to `most` rows of the page at `bytes`, from scan->slot on.  1:
** all of the page was looked at. */
static int collect_page(emb_scan *scan, uint64_t page, const char *bytes,
                        int from_disk, uint32_t most) {
  const struct layout *l = &scan->s->core->layout;
  const struct scan_watch *w = &scan->watch;
  int tombs = page_kind(bytes) == PAGE_TOMB && scan->consumer;
  int skip = w->skip_txn && page_txn(bytes) == w->skip_txn;
  uint32_t items = page_kind(bytes) == PAGE_DATA ? l->slots
                   : tombs                       ? page_count(bytes)
                                                 : 0;
  for (; scan->slot < items && scan->rows < most; scan->slot++) {
    /* A page of deletions has more items than addresses. */
    uint64_t address = tombs ? 0 : layout_address(l, page, scan->slot);
    const char *at = bytes + PAGE_HEAD_BYTES +
                     (size_t)scan->slot * (tombs ? 8 : l->rec_bytes);
    if (tombs) {
      collect_tomb(scan, at, tomb_op(bytes));
    } else if (!skip || address < w->skip_from) {
      collect_record(scan, (const struct rec *)(const void *)at, address,
                     from_disk);
    }
  }
  return scan->slot >= items;
}

/* Can the extent be skipped?  Live records of the session's own transaction are
** not counted in `live`. */
static int is_empty(const emb_scan *scan, const struct extent *extent) {
  if (extent_phys(extent) == EXTENT_NOWHERE) {
    return 1;
  }
  return atomic_load(&extent->live) == 0 &&
         !(scan->changes ? scan->consumer && extent_tombs(extent)
                         : scan->s->txn != NULL);
}

/* Collects at most `most` rows of the next page: no row is kept for the next
** call, when it could be out of date.  PASS_READ: the extent must be read
** first; PASS_DAMAGED: the page is not valid. */
enum { PASS_READ = 1, PASS_DAMAGED = 2 };

static int pass_page(emb_scan *scan, size_t most) {
  struct core *core = scan->s->core;
  const struct layout *l = &core->layout;
  uint64_t page = scan->page, number = page >> l->extent_bits;
  uint64_t next = page + 1;
  int need = 0, from_disk = 0;
  /* In this order: a thread with the lock could be kept out of the epoch by a
  ** thread that waits for a session inside, while that session waits for the
  ** lock. */
  epoch_enter(&core->epoch, scan->s->slot);
  pthread_mutex_lock(&core->scan_lock);
  struct extent *extent = log_extent(&core->log, number);
  const char *bytes = NULL;
  if (is_empty(scan, extent) ||
      (core_is_blank(core, page) && !scan->consumer)) {
    next = (number + 1) << l->extent_bits;
  } else {
    bytes = log_page(&core->log, page);
    if (!bytes && scan->extent_no == number && page < scan->extent_to) {
      bytes = scan->extent + layout_page_offset(l, page);
      from_disk = 1;
      if (!page_valid(l, bytes, core->salt, page)) {
        bytes = NULL;
        need = page >= scan->sound_to ? PASS_DAMAGED : 0;
      }
    } else if (!bytes) {
      need = PASS_READ;
    }
  }
  int tombs = bytes && page_kind(bytes) == PAGE_TOMB;
  if (bytes ? collect_page(scan, page, bytes, from_disk,
                           most < l->slots ? (uint32_t)most : l->slots)
            : !need) {
    scan->page = next;
    scan->slot = 0;
    tombs = 0;
  }
  /* No record moves out of a page of deletions.  If the page must be read
  ** first, its kind is not known yet, so the cursor stays where it is. */
  if (!need) {
    scan->watch.cursor = layout_address(l, scan->page, tombs ? 0 : scan->slot);
  }
  pthread_mutex_unlock(&core->scan_lock);
  epoch_leave(scan->s->slot);
  return need;
}

struct lost {
  struct core *core;
  uint64_t page, end; /* the damaged page; end of its extent */
  uint64_t here, beyond;
};

static void count_lost(void *arg, int64_t key, uint64_t word) {
  struct lost *lost = arg;
  (void)key;
  uint64_t page =
      layout_page(&lost->core->layout, key_log_address(lost->core, word));
  lost->here += page == lost->page;
  lost->beyond += page > lost->page && page < lost->end;
}

/* As check_lost, for a delta: deletions in the page, if any, are found nowhere
** else. */
static int check_hole(emb_scan *scan) {
  const struct consumer *consumer = scan->consumer;
  struct core *core = scan->s->core;
  uint64_t number = scan->page >> core->layout.extent_bits;
  pthread_mutex_lock(&core->log.lock);
  int gone = number < core->log.first; /* and its entry reused */
  pthread_mutex_unlock(&core->log.lock);
  if (gone) {
    scan->sound_to = (number + 1) << core->layout.extent_bits;
    return EMB_OK;
  }
  if (consumers_know_hole(&scan->s->store->consumers, scan->page)) {
    scan->sound_to = scan->page + 1;
    return EMB_OK;
  }
  return session_error(scan->s, EMB_CORRUPT,
                       "%s/log: page %llu is damaged; consumer %s must take a "
                       "snapshot and restart the consumer",
                       core->dir, (unsigned long long)scan->page,
                       consumer->name);
}

/* A page of the log is unreadable.  That is harmless if a process died before
** the page was written; it is corruption if records are expected there. */
static int check_lost(emb_scan *scan) {
  emb_session *s = scan->s;
  struct core *core = s->core;
  const struct layout *l = &core->layout;
  epoch_enter(&core->epoch, s->slot);
  uint64_t offset =
      log_offset(&core->log, scan->page & ~(uint64_t)(l->extent_pages - 1));
  epoch_leave(s->slot);
  if (offset != scan->extent_offset) { /* moved while it was being read */
    scan->extent_no = 0;
    return EMB_OK;
  }
  if (scan->consumer) {
    return check_hole(scan);
  }
  struct lost lost = {core, scan->page,
                      (scan->page | (l->extent_pages - 1)) + 1, 0, 0};
  for (uint32_t p = 0; p < index_parts(&core->index); p++) {
    epoch_enter(&core->epoch, s->slot);
    index_each(&core->index, p, count_lost, &lost);
    epoch_leave(s->slot);
  }
  if (lost.here) {
    int rc = own_reload(s);
    if (rc || scan->watch.aborted) {
      return rc; /* the owner has reused its file slot */
    }
    return session_error(
        s, EMB_CORRUPT,
        "%s/log: page %llu (offset %llu) is damaged, %llu "
        "keys are in it",
        core->dir, (unsigned long long)scan->page,
        (unsigned long long)(offset + layout_page_offset(l, scan->page)),
        (unsigned long long)lost.here);
  }
  scan->sound_to = lost.beyond ? scan->page + 1 : lost.end;
  return EMB_OK;
}

/* Keeps the extent just read in memory, if a frame is free. */
static void scan_keep_extent(const emb_scan *scan) {
  struct core *core = scan->s->core;
  const struct layout *l = &core->layout;
  uint64_t first = scan->extent_no << l->extent_bits, valid = 0;
  if (!core_may_keep(core)) {
    return;
  }
  for (uint64_t page = first; page < scan->extent_to; page++) {
    const char *bytes = scan->extent + layout_page_offset(l, page);
    valid |= (uint64_t)(page_valid(l, bytes, core->salt, page) != 0)
             << (page - first);
  }
  core_keep(core, scan->s->slot, scan->extent_no, scan->extent, valid);
}

static int scan_read_extent(emb_scan *scan) {
  emb_session *s = scan->s;
  struct core *core = s->core;
  const struct layout *l = &core->layout;
  if (!scan->extent) {
    scan->extent = core->env->map(core->env, l->extent_bytes, 0);
    if (!scan->extent) {
      return session_error(s, EMB_NOMEM, "out of memory");
    }
  }
  uint64_t number = scan->page >> l->extent_bits;
  epoch_enter(&core->epoch, s->slot);
  uint64_t offset = log_offset(&core->log, number << l->extent_bits);
  uint64_t flushed = atomic_load(&core->log.flushed);
  epoch_leave(s->slot);
  scan->extent_no = number;
  scan->extent_offset = offset;
  scan->extent_to = (number + 1) << l->extent_bits;
  if (scan->extent_to > flushed) {
    scan->extent_to = flushed;
  }
  if (offset == UINT64_MAX) {
    return EMB_OK; /* freed: the next pass skips it */
  }
  int os = core->env->read(core->env, core->log.file, scan->extent,
                           l->extent_bytes, offset);
  count_add(&core->counters.read_bytes, l->extent_bytes);
  if (os) {
    scan->extent_no = 0; /* the next call retries */
    return err_os(&s->err, EMB_IOERR, os, "cannot read %s/log at offset %llu",
                  core->dir, (unsigned long long)offset);
  }
  scan_keep_extent(scan);
  return EMB_OK;
}

/* ---- delivery ------------------------------------------------------------ */

static void scan_deliver(emb_scan *scan, const emb_rows *to, size_t at) {
  const struct core *core = scan->s->core;
  uint32_t i = scan->row_at++;
  const char *value = scan->row_values + (size_t)i * scan->row_bytes;
  to->keys[at] = scan->row_keys[i];
  if (to->versions) {
    to->versions[at] = scan->row_versions[i];
  }
  if (to->vectors) {
    session_decode(scan->s, to->vectors + at * core->layout.dim, value);
  }
  if (to->tracks) {
    to->tracks[at] = schema_track(&core->schema, value);
  }
}

int scan_take_moved(emb_scan *scan) {
  emb_session *s = scan->s;
  int rc = EMB_OK;
  pthread_mutex_lock(&s->core->scan_lock);
  while (!rc && scan->batch_keys < SCAN_BATCH &&
         spill_count(&scan->watch.moved)) {
    rc = spill_pop(&scan->watch.moved, &scan->batch[scan->batch_keys], &s->err);
    scan->batch_keys += !rc;
  }
  pthread_mutex_unlock(&s->core->scan_lock);
  return rc;
}

/* Delivers a batch of keys that moved away; *got = 0 when none is left. */
static int scan_moved_rows(emb_scan *scan, size_t max, const emb_rows *to,
                           size_t *got) {
  emb_session *s = scan->s;
  int64_t *batch = scan->batch;
  uint8_t found[SCAN_BATCH];
  *got = 0;
  int rc = scan_take_moved(scan);
  size_t n = scan->batch_keys < max ? scan->batch_keys : max;
  if (rc || !n) {
    return rc;
  }
  uint32_t dim = s->core->layout.dim;
  uint64_t own[SCAN_BATCH];
  emb_track own_tracks[SCAN_BATCH];
  rc = get_peek(s, batch, n,
                &(emb_rows){.vectors = to->vectors,
                            .found = found,
                            .versions = to->versions ? own : NULL,
                            .tracks = to->tracks ? own_tracks : NULL});
  for (size_t i = 0; !rc && i < n; i++) {
    if (!found[i] || batch[i] < scan->lo || batch[i] > scan->hi) {
      continue;
    }
    if (to->vectors && *got != i) {
      memmove(to->vectors + *got * dim, to->vectors + i * dim,
              dim * sizeof(float));
    }
    if (to->versions) {
      to->versions[*got] = own[i];
    }
    if (to->tracks) {
      to->tracks[*got] = own_tracks[i];
    }
    to->keys[(*got)++] = batch[i];
  }
  if (!rc) { /* else the next call retries them */
    scan->batch_keys -=
        EMB_SEED(SEED_SCAN_MOVED_KEYS_LOST) ? scan->batch_keys : (uint32_t)n;
    memmove(batch, batch + n, scan->batch_keys * sizeof *batch);
  }
  return rc;
}

int scan_fill(emb_scan *scan, size_t most) {
  uint64_t end = layout_page(&scan->s->core->layout, scan->watch.end);
  int rc = EMB_OK;
  emb_assert(scan->row_at == scan->rows); /* no row is lost */
  scan->rows = scan->row_at = 0;
  while (!rc && !scan->rows && scan->page < end) {
    int need = pass_page(scan, most);
    rc = need ? session_interrupted(scan->s) : EMB_OK;
    if (!rc && need) {
      rc = need == PASS_READ ? scan_read_extent(scan) : check_lost(scan);
    }
  }
  return rc;
}

static int any_next(emb_scan *scan, size_t max, const emb_rows *to, size_t *n) {
  emb_session *s = scan->s;
  uint64_t end = layout_page(&s->core->layout, scan->watch.end);
  while (*n < max) {
    if (scan->row_at < scan->rows) {
      scan_deliver(scan, to, (*n)++);
      continue;
    }
    if (scan->page < end) {
      int rc = scan_fill(scan, max - *n);
      if (rc) {
        return *n ? EMB_OK : rc; /* first deliver these rows, then the error */
      }
      continue;
    }
    scan->rows = scan->row_at = 0;
    size_t got;
    uint64_t left;
    emb_rows rest = scan_rows_from(scan, to, *n);
    int rc = scan_moved_rows(scan, max - *n, &rest, &got);
    if (rc) {
      return *n ? EMB_OK : rc;
    }
    *n += got;
    pthread_mutex_lock(&s->core->scan_lock);
    left = spill_count(&scan->watch.moved) + scan->batch_keys;
    pthread_mutex_unlock(&s->core->scan_lock);
    if (!got && !left) {
      break;
    }
  }
  return EMB_OK;
}

static int scan_replaced(emb_session *s) {
  return session_error(s, EMB_BUSY,
                       "the owner of %s replaced the data being read",
                       s->core->dir);
}

/* A reader in key order that has loaded another checkpoint would go on with
** that one, because the owner does not wait for it (ckpt/readers.h): the rows
** would not be of one state. */
static int order_ended(emb_scan *scan) {
  emb_store *store = scan->s->store;
  return scan->held && !atomic_load(&store->own.is_owner) &&
                 atomic_load(&store->own.loads) != scan->loads
             ? scan_replaced(scan->s)
             : EMB_OK;
}

/* Has something happened that makes the scan incomplete? */
int scan_ended(emb_scan *scan) {
  emb_session *s = scan->s;
  pthread_mutex_lock(&s->core->scan_lock);
  int aborted = scan->watch.aborted, failed = scan->watch.failed;
  pthread_mutex_unlock(&s->core->scan_lock);
  if (aborted == WATCH_ROLLBACK) {
    return session_error(s, EMB_ABORT, "the scan's changes were rolled back");
  }
  if (aborted) {
    return scan_replaced(s);
  }
  return failed ? session_error(s, EMB_IOERR,
                                "cannot keep track of records that moved")
                : EMB_OK;
}

static int next_of_scan(emb_scan *scan, size_t max, const emb_rows *to,
                        size_t *n) {
  emb_session *s = scan->s;
  *n = 0;
  int rc = session_begin(s);
  if (!rc && to->tracks && !schema_tracks(&s->core->schema)) {
    rc = session_error(s, EMB_UNFIT,
                       "%s was created without track=", s->core->dir);
  }
  if (rc) {
    return rc;
  }
  rc = session_interrupted(s);
  if (rc) {
    return rc;
  }
  if (scan->order == EMB_SCAN_KEYS &&
      (to->vectors || to->versions || to->tracks)) {
    return session_error(s, EMB_MISUSE, "a scan of keys has no vectors");
  }
  if (scan->order != EMB_SCAN_ANY) {
    rc = scan->order == EMB_SCAN_KEYS ? keys__next(scan, max, to->keys, n)
                                      : order__next(scan, max, to, n);
    rc = rc ? rc : order_ended(scan);
    *n = rc ? 0 : *n;
    return rc;
  }
  rc = scan_ended(scan);
  rc = rc ? rc : any_next(scan, max, to, n);
  rc = rc ? rc : scan_ended(scan); /* another session may have ended it */
  if (rc) {
    *n = 0;
  }
  return rc;
}

int local_scan_next_rows(emb_scan *scan, size_t max, const emb_rows *to,
                         size_t *n) {
  scan->s->scan.is_reading = 1; /* its own reads use the held checkpoint */
  int rc = next_of_scan(scan, max, to, n);
  emb_check(scan_valid(scan));
  scan->s->scan.is_reading = 0;
  return rc;
}
