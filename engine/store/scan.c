/* SPDX-License-Identifier: MIT
**
** scan.c -- all rows in storage order: one sequential pass over the log.
**
** A record is delivered if the index says, when the scan passes it, that it is
** its key's latest; records that move away before the scan reaches them are
** reported to the scan (core/watch.h) and delivered at the end.  Memory: one
** extent, and the rows of one page.
*/
#include "scan.h"

#include <string.h>

#include "get.h"

int emb_scan_open(emb_session *s, int64_t lo, int64_t hi, int order,
                  emb_scan **out) {
  *out = NULL;
  int rc = session_begin(s);
  rc = rc ? rc : store_refresh(s);
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
  if (order == EMB_SCAN_ANY) {
    uint32_t slots = core->layout.slots;
    scan->row_bytes = schema_tracks(&core->schema) ? core->layout.value_bytes
                                                   : core->layout.vector_bytes;
    scan->row_keys = env->allocate(env, slots * sizeof *scan->row_keys);
    scan->row_versions = env->allocate(env, slots * sizeof *scan->row_versions);
    scan->row_values = env->allocate(env, (size_t)slots * scan->row_bytes + 8);
    if (!scan->row_keys || !scan->row_versions || !scan->row_values) {
      env->release(env, scan->row_keys);
      env->release(env, scan->row_versions);
      env->release(env, scan->row_values);
      env->release(env, scan);
      return session_error(s, EMB_NOMEM, "out of memory");
    }
    spill_init(&scan->watch.moved, env, core->dir, sizeof(int64_t));
    scan->watch.session = s;
    pthread_mutex_lock(&s->store->settle_lock);
    if (!s->txn) {
      scan->watch.skip_txn = s->store->txn_number;
      scan->watch.skip_from = s->store->txn_start;
    }
    rc = watch_open(core, &scan->watch, &scan->page);
    pthread_mutex_unlock(&s->store->settle_lock);
    if (rc) {
      env->release(env, scan->row_keys);
      env->release(env, scan->row_versions);
      env->release(env, scan->row_values);
      env->release(env, scan);
      return session_error(s, rc, "out of memory");
    }
  }
  s->scans++;
  atomic_fetch_add(&s->store->scans, 1);
  *out = scan;
  return EMB_OK;
}

void emb_scan_close(emb_scan *scan) {
  if (!scan || store_check(scan->s->store, NULL)) {
    return;
  }
  emb_session *s = scan->s;
  struct env *env = s->core->env;
  if (scan->order == EMB_SCAN_ANY) {
    watch_close(s->core, &scan->watch);
    spill_free(&scan->watch.moved);
  }
  if (scan->extent) {
    env->unmap(env, scan->extent, s->core->layout.extent_bytes);
  }
  env->release(env, scan->row_keys);
  env->release(env, scan->row_versions);
  env->release(env, scan->row_values);
  env->release(env, scan->keys);
  env->release(env, scan);
  s->scans--;
  atomic_fetch_sub(&s->store->scans, 1);
}

/* ---- one page ---------------------------------------------------------- */

/* Is the record at this log address what the session sees of its key?  Inside
** the epoch and under scan_lock: nothing moves, but the cache may change. */
static int is_live(emb_scan *scan, int64_t key, uint64_t address) {
  struct core *core = scan->s->core;
  uint64_t hash = hash_key(key), word, again;
  do {
    if (!index_find(&core->index, key, hash, &word)) {
      return 0;
    }
    word &= ~WORD_LATCH;
    uint64_t seen = txn_word(scan->s, key, hash, word);
    if (key_log_address(core, seen) == address) {
      return 1;
    }
    if (!(seen & WORD_CACHED)) {
      return 0;
    }
    index_find(&core->index, key, hash, &again);
  } while ((again & ~WORD_LATCH) != word);
  return 0;
}

/* Collects up to `most` live records of a page that stands at `bytes`, from
** slot scan->slot on.  Returns the slot to go on at.  Nobody writes to what
** came from disk, and what its stamps say about that means nothing. */
static uint32_t collect(emb_scan *scan, uint64_t page, const char *bytes,
                        int from_disk, uint32_t most) {
  struct core *core = scan->s->core;
  const struct layout *l = &core->layout;
  struct scan_watch *w = &scan->watch;
  if (page_kind(bytes) != PAGE_DATA) {
    return l->slots;
  }
  int skip = w->skip_txn && page_txn(bytes) == w->skip_txn;
  uint32_t i = scan->slot;
  for (; i < l->slots && scan->rows < most; i++) {
    const struct rec *rec =
        (const struct rec *)(const void *)(bytes + PAGE_HEAD_BYTES +
                                           (size_t)i * l->rec_bytes);
    uint64_t address = layout_address(l, page, i);
    uint64_t version =
        rec_version(atomic_load_explicit(&rec->stamp, memory_order_acquire));
    int64_t key = atomic_load_explicit(&rec->key, memory_order_relaxed);
    if (!version || key < scan->lo || key > scan->hi ||
        (skip && address >= w->skip_from) || !is_live(scan, key, address)) {
      continue;
    }
    char *to = scan->row_values + (size_t)scan->rows * scan->row_bytes;
    if (from_disk) {
      memcpy(to, rec->vector, scan->row_bytes);
    }
    if (from_disk || rec_read(rec, key, to, scan->row_bytes, &version)) {
      scan->row_keys[scan->rows] = key;
      scan->row_versions[scan->rows++] = version;
    }
  }
  return i;
}

/* Looks at the next page, for at most so many rows: none is kept for the next
** call, in which it could be out of date.  PASS_READ: its extent must be read
** first; PASS_DAMAGED: it is not a page. */
enum { PASS_READ = 1, PASS_DAMAGED = 2 };

static int pass_page(emb_scan *scan, size_t most) {
  struct core *core = scan->s->core;
  const struct layout *l = &core->layout;
  uint64_t page = scan->page, number = page >> l->extent_bits;
  uint64_t next = page + 1;
  int need = 0, from_disk = 0;
  /* In this order: with the lock we could be kept out of the epoch by somebody
  ** who waits for a session inside, and that session for the lock. */
  epoch_enter(&core->epoch, scan->s->slot);
  pthread_mutex_lock(&core->scan_lock);
  struct extent *extent = log_extent(&core->log, number);
  const char *bytes = NULL;
  if (extent_phys(extent) == EXTENT_NOWHERE ||
      atomic_load(&extent->live) == 0) {
    /* Nothing there that is live, unless it is our own transaction's. */
    if (!scan->s->txn || extent_phys(extent) == EXTENT_NOWHERE) {
      next = (number + 1) << l->extent_bits;
    }
  }
  if (next == page + 1) {
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
  scan->slot = bytes  ? collect(scan, page, bytes, from_disk,
                               most < l->slots ? (uint32_t)most : l->slots)
               : need ? scan->slot
                      : l->slots;
  if (scan->slot == l->slots) {
    scan->page = next;
    scan->slot = 0;
  }
  scan->watch.cursor = layout_address(l, scan->page, scan->slot);
  pthread_mutex_unlock(&core->scan_lock);
  epoch_leave(scan->s->slot);
  return need;
}

struct lost {
  struct core *core;
  uint64_t page, end; /* of the damaged page; end of its extent */
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

/* A page of the log is unreadable.  That is no harm where a process died
** before it was written; it is corruption when records are expected there. */
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
  struct lost lost = {core, scan->page,
                      (scan->page | (l->extent_pages - 1)) + 1, 0, 0};
  for (uint32_t p = 0; p < index_parts(&core->index); p++) {
    epoch_enter(&core->epoch, s->slot);
    index_each(&core->index, p, count_lost, &lost);
    epoch_leave(s->slot);
  }
  if (lost.here) {
    int rc = store_reload(s);
    if (rc || scan->watch.aborted) {
      return rc; /* the owner has used its place again */
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

static int read_extent(emb_scan *scan) {
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
    return EMB_OK; /* freed: the next look skips it */
  }
  int os = core->env->read(core->env, core->log.file, scan->extent,
                           l->extent_bytes, offset);
  count_add(&core->counters.read_bytes, l->extent_bytes);
  if (os) {
    scan->extent_no = 0; /* the next call tries again */
    return err_os(&s->err, EMB_IOERR, os, "cannot read %s/log at offset %llu",
                  core->dir, (unsigned long long)offset);
  }
  return EMB_OK;
}

/* ---- delivery ---------------------------------------------------------- */

static void deliver(emb_scan *scan, int64_t *keys, float *vectors,
                    uint64_t *versions, emb_track *tracks, size_t at) {
  const struct core *core = scan->s->core;
  uint32_t i = scan->row_at++;
  const char *value = scan->row_values + (size_t)i * scan->row_bytes;
  keys[at] = scan->row_keys[i];
  if (versions) {
    versions[at] = scan->row_versions[i];
  }
  if (vectors) {
    session_decode(scan->s, vectors + at * core->layout.dim, value);
  }
  if (tracks) {
    tracks[at] = schema_track(&core->schema, value);
  }
}

/* A batch of keys that moved away; 0 in *got when there are none left. */
static int moved_rows(emb_scan *scan, size_t max, int64_t *keys, float *vectors,
                      uint64_t *versions, emb_track *tracks, size_t *got) {
  emb_session *s = scan->s;
  struct core *core = s->core;
  int64_t *batch = scan->batch;
  uint8_t found[SCAN_BATCH];
  int rc = EMB_OK;
  *got = 0;
  pthread_mutex_lock(&core->scan_lock);
  while (!rc && scan->batch_keys < SCAN_BATCH &&
         spill_count(&scan->watch.moved)) {
    rc = spill_pop(&scan->watch.moved, &batch[scan->batch_keys], &s->err);
    scan->batch_keys += !rc;
  }
  pthread_mutex_unlock(&core->scan_lock);
  size_t n = scan->batch_keys < max ? scan->batch_keys : max;
  if (rc || !n) {
    return rc;
  }
  uint32_t dim = core->layout.dim;
  uint64_t own[SCAN_BATCH];
  emb_track own_tracks[SCAN_BATCH];
  rc = get_peek(s, batch, n, vectors, found, versions ? own : NULL,
                tracks ? own_tracks : NULL);
  for (size_t i = 0; !rc && i < n; i++) {
    if (!found[i] || batch[i] < scan->lo || batch[i] > scan->hi) {
      continue;
    }
    if (vectors && *got != i) {
      memmove(vectors + *got * dim, vectors + i * dim, dim * sizeof(float));
    }
    if (versions) {
      versions[*got] = own[i];
    }
    if (tracks) {
      tracks[*got] = own_tracks[i];
    }
    keys[(*got)++] = batch[i];
  }
  if (!rc) { /* else the next call tries them again */
    scan->batch_keys -= (uint32_t)n;
    memmove(batch, batch + n, scan->batch_keys * sizeof *batch);
  }
  return rc;
}

static int any_next(emb_scan *scan, size_t max, int64_t *keys, float *vectors,
                    uint64_t *versions, emb_track *tracks, size_t *n) {
  emb_session *s = scan->s;
  uint64_t end = layout_page(&s->core->layout, scan->watch.end);
  while (*n < max) {
    if (scan->row_at < scan->rows) {
      deliver(scan, keys, vectors, versions, tracks, (*n)++);
      continue;
    }
    scan->rows = scan->row_at = 0;
    if (scan->page < end) {
      int need = pass_page(scan, max - *n);
      int rc = need ? session_ask(s) : EMB_OK;
      if (!rc && need) {
        rc = need == PASS_READ ? read_extent(scan) : check_lost(scan);
      }
      if (rc) {
        return *n ? EMB_OK : rc; /* what came is delivered; then it is told */
      }
      continue;
    }
    size_t got, dim = s->core->layout.dim;
    uint64_t left;
    int rc = moved_rows(
        scan, max - *n, keys + *n, vectors ? vectors + *n * dim : NULL,
        versions ? versions + *n : NULL, tracks ? tracks + *n : NULL, &got);
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

/* Something has happened after which the scan would not be complete. */
static int scan_ended(emb_scan *scan) {
  emb_session *s = scan->s;
  pthread_mutex_lock(&s->core->scan_lock);
  int aborted = scan->watch.aborted, failed = scan->watch.failed;
  pthread_mutex_unlock(&s->core->scan_lock);
  if (aborted == WATCH_ROLLBACK) {
    return session_error(s, EMB_ABORT, "the scan's changes were rolled back");
  }
  if (aborted) {
    return session_error(s, EMB_BUSY,
                         "the owner of %s replaced what was being read",
                         s->core->dir);
  }
  return failed ? session_error(s, EMB_IOERR,
                                "cannot keep track of records that moved")
                : EMB_OK;
}

int emb_scan_next(emb_scan *scan, size_t max, int64_t *keys, float *vectors,
                  uint64_t *versions, size_t *n) {
  return emb_scan_next_tracks(scan, max, keys, vectors, versions, NULL, n);
}

int emb_scan_next_tracks(emb_scan *scan, size_t max, int64_t *keys,
                         float *vectors, uint64_t *versions, emb_track *tracks,
                         size_t *n) {
  emb_session *s = scan->s;
  *n = 0;
  int rc = session_begin(s);
  if (!rc && tracks && !schema_tracks(&s->core->schema)) {
    rc = session_error(s, EMB_MISUSE, "%s does not track its rows",
                       s->core->dir);
  }
  if (rc) {
    return rc;
  }
  rc = session_ask(s);
  if (rc) {
    return rc;
  }
  if (scan->order == EMB_SCAN_KEYS) {
    return vectors || versions || tracks
               ? session_error(s, EMB_MISUSE, "a scan of keys has no vectors")
               : keys_next(scan, max, keys, n);
  }
  if (scan->order != EMB_SCAN_ANY) {
    return order_next(scan, max, keys, vectors, versions, tracks, n);
  }
  rc = scan_ended(scan);
  rc = rc ? rc : any_next(scan, max, keys, vectors, versions, tracks, n);
  rc = rc ? rc : scan_ended(scan); /* meanwhile, by another session */
  if (rc) {
    *n = 0;
  }
  return rc;
}
