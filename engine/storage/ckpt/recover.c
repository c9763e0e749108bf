/* SPDX-License-Identifier: MIT
**
** recover.c -- see recover.h.  The caller is alone with the core.
*/
#include "recover.h"

#include <stdlib.h>
#include <string.h>

#include "engine/storage/kernel/row_write.h"
#include "engine/emb.h"
#include "dump.h"

struct found {
  uint64_t number;
  uint32_t phys;
};

/* Among extents with the same number the lower file slot sorts first: an extent
** takes the lowest free slot, so a leftover copy of it is in a higher one. */
static int by_number(const void *a, const void *b) {
  const struct found *x = a, *y = b;
  if (x->number != y->number) {
    return x->number < y->number ? -1 : 1;
  }
  return x->phys < y->phys ? -1 : x->phys > y->phys;
}

static int recover_out_of_memory(struct recovery *r) {
  return err_set(r->err, EMB_NOMEM, "out of memory");
}

static int read_error(struct recovery *r, int os) {
  return err_os(r->err, EMB_IOERR, os, "cannot read %s/log", r->core->dir);
}

static int file_slot_used(const struct log *log, uint32_t phys) {
  return phys < log->phys_end && (log->phys_used[phys / 64] >> (phys % 64) & 1);
}

/* Limits what a manifest with a correct checksum may claim about the log: it
** must not cost memory or time out of proportion to the files. */
static int check_manifest(struct recovery *r) {
  const struct log *log = &r->core->log;
  const struct layout *l = log->layout;
  const struct manifest *m = r->manifest;
  uint64_t used = log_extents_used(log), end = m->tail >> l->extent_bits;
  uint64_t last = atomic_load(&log->tail) >> l->extent_bits; /* of used */
  if (m->replay < l->extent_pages || m->replay > m->tail ||
      m->tail >> (WORD_ADDRESS_BITS - l->slot_bits) ||
      (used && (end < last || end - log->first >= LOG_SPAN_MAX))) {
    return err_set(r->err, EMB_CORRUPT,
                   "%s/manifest: pages %llu to %llu do not fit the log",
                   r->core->dir, (unsigned long long)m->replay,
                   (unsigned long long)m->tail);
  }
  return EMB_OK;
}

/* ---- 2: extents beyond the checkpoint ------------------------------------ */

static int extent_is_listed(const struct log *log, uint64_t number) {
  return number >= log->first &&
         number <= atomic_load(&log->tail) >> log->layout->extent_bits &&
         extent_phys(log_extent(log, number)) != EXTENT_NOWHERE;
}

static int add_found(struct recovery *r, struct found **found, size_t *room,
                     size_t count) {
  struct env *env = r->core->env;
  if (count < *room) {
    return EMB_OK;
  }
  size_t more = *room ? *room * 2 : 64;
  void *larger = env->resize(env, *found, more * sizeof **found);
  if (!larger) {
    return recover_out_of_memory(r);
  }
  *found = larger;
  *room = more;
  return EMB_OK;
}

/* Examines every file slot that the checkpoint does not use.  A missing extent
** may be older than the manifest's tail: the index file lists the extents that
** existed when it was written, and the tail moved on once more before the
** manifest was written. */
static int find_extents(struct recovery *r) {
  struct core *core = r->core;
  uint64_t floor = r->manifest->replay >> core->layout.extent_bits;
  struct log *log = &core->log;
  const struct layout *l = &core->layout;
  uint64_t bytes = 0;
  int os = core->env->size(core->env, log->file, &bytes);
  if (os) {
    return read_error(r, os);
  }
  uint64_t slots =
      bytes > LOG_FILE_HEAD
          ? (bytes - LOG_FILE_HEAD + l->extent_bytes - 1) / l->extent_bytes
          : 0;
  struct found *found = NULL;
  size_t count = 0, room = 0;
  uint64_t unused = 0;
  int rc = EMB_OK;
  if (log_extents_used(log) == 0) {
    log->first = floor;
  }
  for (uint64_t p = 0; !rc && p < slots && p < EXTENT_NOWHERE; p++) {
    if (file_slot_used(log, (uint32_t)p)) {
      continue;
    }
    unused++;
    os = core->env->read(core->env, log->file, r->buffer, l->page_bytes,
                         LOG_FILE_HEAD + p * l->extent_bytes);
    if (os) {
      rc = read_error(r, os);
      break;
    }
    uint64_t page = page_number(l, r->buffer, core->salt);
    uint64_t number = page >> l->extent_bits;
    if ((page & (l->extent_pages - 1)) == 0 && number >= floor &&
        number - floor < LOG_SPAN_MAX && !extent_is_listed(log, number) &&
        page_valid(l, r->buffer, core->salt, page)) {
      rc = add_found(r, &found, &room, count);
      if (!rc) {
        found[count++] = (struct found){number, (uint32_t)p};
      }
    }
  }
  if (!rc && count) {
    qsort(found, count, sizeof *found, by_number);
  }
  /* Only extents that follow without a gap belong to the log.  An extent after
  ** a gap was written while an earlier one was not. */
  uint64_t expected = floor;
  for (size_t i = 0; !rc && i < count; i++) {
    while (extent_is_listed(log, expected)) {
      expected++;
    }
    if (found[i].number == expected && expected - log->first < LOG_SPAN_MAX) {
      rc = log_adopt(log, expected, found[i].phys);
      if (rc) {
        rc = recover_out_of_memory(r);
      }
    }
  }
  /* Since the checkpoint, numbers were assigned one by one, each with its own
  ** file slot, and none was returned. */
  r->highest += unused;
  core->env->release(core->env, found);
  return rc;
}

/* ---- reading pages ------------------------------------------------------- */

/* Calls `each` for the pages [from, to) for which the log has a file slot, with
** valid = 0 if the checksum is wrong.  Stops when `each` returns non-zero. */
static int for_pages(struct recovery *r, uint64_t from, uint64_t to,
                     int (*each)(struct recovery *, uint64_t page,
                                 const char *bytes, int valid)) {
  struct core *core = r->core;
  const struct layout *l = &core->layout;
  for (uint64_t page = from; page < to;) {
    uint64_t end = (page | (l->extent_pages - 1)) + 1;
    end = end < to ? end : to;
    uint64_t number = page >> l->extent_bits;
    uint64_t offset = UINT64_MAX;
    if (number >= core->log.first &&
        number <= atomic_load(&core->log.tail) >> l->extent_bits) {
      offset = log_offset(&core->log, page);
    }
    if (offset != UINT64_MAX) {
      int os = core->env->read(core->env, core->log.file, r->buffer,
                               (end - page) * l->page_bytes, offset);
      if (os) {
        return read_error(r, os);
      }
    }
    for (uint64_t at = page; at < end; at++) {
      const char *bytes = r->buffer + (at - page) * l->page_bytes;
      int rc =
          each(r, at, bytes,
               offset != UINT64_MAX && page_valid(l, bytes, core->salt, at));
      if (rc) {
        return rc;
      }
    }
    page = end;
  }
  return EMB_OK;
}

/* ---- 3: the survey ------------------------------------------------------- */

static struct seen_txn *txn_of(struct recovery *r, uint64_t number,
                               uint64_t page) {
  if (r->txn_count && r->txns[r->txn_count - 1].number == number) {
    return &r->txns[r->txn_count - 1];
  }
  for (size_t i = r->txn_count; i > 0; i--) {
    if (r->txns[i - 1].number == number) {
      return &r->txns[i - 1];
    }
  }
  if (r->txn_count == r->txn_room) {
    size_t room = r->txn_room ? r->txn_room * 2 : 64;
    void *larger =
        r->core->env->resize(r->core->env, r->txns, room * sizeof *r->txns);
    if (!larger) {
      return NULL;
    }
    r->txns = larger;
    r->txn_room = room;
  }
  struct seen_txn *txn = &r->txns[r->txn_count++];
  memset(txn, 0, sizeof *txn);
  txn->number = number;
  txn->first = page;
  return txn;
}

static int add_voids(struct recovery *r, struct seen_txn *txn,
                     const char *bytes) {
  uint32_t n = page_count(bytes);
  if (n == 0) { /* the page only carries flags */
    return EMB_OK;
  }
  if (txn->void_count + n > txn->void_room) {
    size_t room = (txn->void_count + n) * 2;
    void *larger = r->core->env->resize(r->core->env, txn->voids,
                                        room * sizeof *txn->voids);
    if (!larger) {
      return recover_out_of_memory(r);
    }
    txn->voids = larger;
    txn->void_room = room;
  }
  memcpy(txn->voids + txn->void_count, bytes + PAGE_HEAD_BYTES,
         n * sizeof *txn->voids);
  txn->void_count += n;
  return EMB_OK;
}

/* Beyond the end of the log: does this page prove that the end was durable? */
static int survey_beyond(struct recovery *r, uint64_t page, const char *bytes,
                         int valid) {
  uint64_t number = valid ? page_txn(bytes) : 0;
  if (!number) {
    return EMB_OK;
  }
  int after = r->torn && (number > r->torn || page_kind(bytes) == PAGE_ABORT);
  int synced = (page_flags(bytes) & PAGE_SYNCED) != 0;
  if (after || (synced && number <= r->manifest->txn_committed)) {
    return err_set(r->err, EMB_CORRUPT,
                   "%s/log: page %llu is damaged, but page %llu was written "
                   "after it was durable",
                   r->core->dir, (unsigned long long)r->end,
                   (unsigned long long)page);
  }
  if (synced) {
    r->torn = number;
  }
  return EMB_OK;
}

static int survey_page(struct recovery *r, uint64_t page, const char *bytes,
                       int valid) {
  if (r->end) {
    return survey_beyond(r, page, bytes, valid);
  }
  if (!valid) {
    if (page < r->manifest->tail) {
      return err_set(r->err, EMB_CORRUPT,
                     "%s/log: page %llu is damaged (recovery needs it)",
                     r->core->dir, (unsigned long long)page);
    }
    r->end = page;
    return EMB_OK;
  }
  uint64_t number = page_txn(bytes);
  if (!number) {
    return EMB_OK;
  }
  struct seen_txn *txn = txn_of(r, number, page);
  if (!txn) {
    return recover_out_of_memory(r);
  }
  txn->last = page;
  /* The last page decides: after a prepare that the coordinator abandoned, the
  ** transaction may have continued, and even been committed by the engine
  ** alone. */
  txn->complete = (page_flags(bytes) & PAGE_LAST) != 0;
  txn->synced = (page_flags(bytes) & PAGE_SYNCED) != 0;
  if (page_kind(bytes) == PAGE_ABORT) {
    txn->aborted = 1;
  }
  return page_kind(bytes) == PAGE_VOID ? add_voids(r, txn, bytes) : EMB_OK;
}

/* ---- 4: applying --------------------------------------------------------- */

static int is_void(const struct seen_txn *txn, uint64_t address) {
  for (size_t i = 0; txn && i < txn->void_count; i++) {
    if (address >= txn->voids[i].from && address < txn->voids[i].to) {
      return 1;
    }
  }
  return 0;
}

/* The newest write time is in the checkpoint or in the log after it. */
static void see_time(struct core *core, const void *value) {
  const struct schema *schema = &core->schema;
  uint32_t time =
      schema_tracks(schema) ? schema_track(schema, value).updated_at : 0;
  if (time > atomic_load(&core->newest)) {
    atomic_store(&core->newest, time);
  }
}

static int apply_page(struct recovery *r, uint64_t page, const char *bytes,
                      const struct seen_txn *txn) {
  const struct layout *l = &r->core->layout;
  uint64_t base = layout_address(l, page, 0);
  if (page_kind(bytes) == PAGE_TOMB && !is_void(txn, base)) {
    for (uint32_t i = 0; i < page_count(bytes); i++) {
      int64_t key;
      memcpy(&key, bytes + PAGE_HEAD_BYTES + (size_t)i * 8, 8);
      row_replay_removal(r->core, key, base);
    }
  }
  if (page_kind(bytes) != PAGE_DATA) {
    return EMB_OK;
  }
  for (uint32_t i = 0; i < page_count(bytes); i++) {
    const struct rec *rec =
        (const struct rec *)(const void *)(bytes + PAGE_HEAD_BYTES +
                                           (size_t)i * l->rec_bytes);
    uint64_t version = rec_version(atomic_load(&rec->stamp));
    if (version == 0 || is_void(txn, base + i)) {
      continue;
    }
    if (version > atomic_load(&r->core->version)) {
      atomic_store(&r->core->version, version);
    }
    see_time(r->core, rec->vector);
    int rc = row_replay(r->core, rec, base + i);
    if (rc) {
      return rc == EMB_NOMEM ? recover_out_of_memory(r) : rc;
    }
  }
  return EMB_OK;
}

static int recover_apply(struct recovery *r, uint64_t page, const char *bytes,
                         int valid) {
  if (!valid) {
    return err_set(r->err, EMB_CORRUPT, "%s/log: page %llu changed",
                   r->core->dir, (unsigned long long)page);
  }
  const struct seen_txn *txn = NULL;
  if (page_txn(bytes)) {
    txn = txn_of(r, page_txn(bytes), page);
    if (!txn || !txn->complete || txn->aborted || txn->number == r->in_doubt) {
      return EMB_OK;
    }
  }
  return apply_page(r, page, bytes, txn);
}

static int apply_doubted(struct recovery *r, uint64_t page, const char *bytes,
                         int valid) {
  if (!valid) {
    return err_set(r->err, EMB_CORRUPT, "%s/log: page %llu is damaged",
                   r->core->dir, (unsigned long long)page);
  }
  if (page_txn(bytes) != r->in_doubt) {
    return EMB_OK;
  }
  return apply_page(r, page, bytes, &r->txns[r->txn_count - 1]);
}

/* ---- all of it ----------------------------------------------------------- */

/* Finds the one transaction, if any, that only its coordinator can decide. */
static int find_doubt(struct recovery *r) {
  struct core *core = r->core;
  struct seen_txn *last = r->txn_count ? &r->txns[r->txn_count - 1] : NULL;
  uint64_t newest = last && last->number > r->torn ? last->number : r->torn;
  int open = last && last->complete && last->synced && !last->aborted &&
             last->number > r->manifest->txn_committed &&
             !EMB_SEED(SEED_PREPARED_TXN_COMMITTED);
  if (newest > atomic_load(&core->txn_last)) {
    atomic_store(&core->txn_last, newest);
  }
  if (open && r->torn != last->number) {
    r->torn = 0; /* the older one comes first: its abort page may be torn too */
  } else if (r->torn) {
    last = txn_of(r, r->torn, r->end);
    if (!last) {
      return recover_out_of_memory(r);
    }
  }
  if (open || r->torn) {
    r->in_doubt = last->number;
    atomic_store(&core->txn_first_page, last->first);
  }
  return EMB_OK;
}

static int replay_log(struct recovery *r) {
  struct core *core = r->core;
  const struct manifest *m = r->manifest;
  struct log *log = &core->log;
  int rc = find_extents(r);
  if (rc) {
    return rc;
  }
  uint64_t limit = ((atomic_load(&log->tail) >> core->layout.extent_bits) + 1)
                   << core->layout.extent_bits;
  rc = for_pages(r, m->replay, limit, survey_page);
  if (rc) {
    return rc;
  }
  if (!r->end) {
    r->end = limit;
  }
  rc = find_doubt(r);
  if (rc) {
    return rc;
  }
  for (size_t i = 0; i < r->txn_count; i++) {
    struct seen_txn *txn = &r->txns[i];
    if (txn->complete && txn->synced && !txn->aborted &&
        txn->number != r->in_doubt &&
        txn->number > atomic_load(&core->txn_committed)) {
      atomic_store(&core->txn_committed, txn->number);
    }
  }
  return for_pages(r, m->replay, r->end, recover_apply);
}

/* Does the log have file slots for all pages of [replay, tail)?  An index file
** written by an earlier version may lack the last ones. */
static int has_file_slots(const struct recovery *r) {
  const struct layout *l = &r->core->layout;
  const struct manifest *m = r->manifest;
  uint64_t end = (m->tail - 1) >> l->extent_bits;
  for (uint64_t e = m->replay >> l->extent_bits; e <= end; e++) {
    if (!extent_is_listed(&r->core->log, e)) {
      return 0;
    }
  }
  return 1;
}

/* Returns the last transaction if it was prepared but still undecided when the
** manifest was written, else 0: it is not part of the checkpoint. */
static uint64_t undecided_txn(const struct recovery *r) {
  const struct seen_txn *last =
      r->txn_count ? &r->txns[r->txn_count - 1] : NULL;
  return last && last->complete && last->synced && !last->aborted &&
                 last->number > r->manifest->txn_committed
             ? last->number
             : 0;
}

/* Completes the checkpoint as of the manifest's tail.  The index file was
** written partition by partition while writers ran, so it may have some keys of
** a concurrent commit and not others. */
static int complete_checkpoint(struct recovery *r) {
  const struct manifest *m = r->manifest;
  if (m->clean || m->replay >= m->tail ||
      EMB_SEED(SEED_READER_CHECKPOINT_INCOMPLETE)) {
    return EMB_OK;
  }
  int rc = has_file_slots(r) ? EMB_OK : find_extents(r);
  rc = rc ? rc : for_pages(r, m->replay, m->tail, survey_page);
  if (rc) {
    return rc;
  }
  r->end = m->tail;
  r->in_doubt = undecided_txn(r);
  rc = for_pages(r, m->replay, m->tail, recover_apply);
  r->in_doubt = 0;
  return rc;
}

void recovery_free(struct recovery *r) {
  if (!r) {
    return;
  }
  struct env *env = r->core->env;
  for (size_t i = 0; i < r->txn_count; i++) {
    env->release(env, r->txns[i].voids);
  }
  env->release(env, r->txns);
  if (r->buffer) {
    env->unmap(env, r->buffer, r->core->layout.extent_bytes);
  }
  env->release(env, r);
}

int recover(struct core *core, const struct manifest *m, int replay,
            struct recovery **recovery, emb_err *err) {
  struct env *env = core->env;
  *recovery = NULL;
  atomic_store(&core->version, m->version);
  atomic_store(&core->newest, m->newest);
  atomic_store(&core->txn_last, m->txn_last);
  atomic_store(&core->txn_committed, m->txn_committed);
  atomic_store(&core->txn_first_page, 0);
  int rc = dump__load(core, m, err);
  if (rc) {
    return rc;
  }
  struct recovery *r = env->allocate(env, sizeof *r);
  if (!r) {
    return err_set(err, EMB_NOMEM, "out of memory");
  }
  r->core = core;
  r->manifest = m;
  r->err = err;
  r->highest = m->tail ? (m->tail - 1) >> core->layout.extent_bits : 0;
  r->buffer = env->map(env, core->layout.extent_bytes, 0);
  rc = r->buffer ? check_manifest(r) : recover_out_of_memory(r);
  if (!rc) {
    rc = replay ? replay_log(r) : complete_checkpoint(r);
  }
  if (!rc) {
    /* Start above everything ever written, so that no leftover page can be
    ** mistaken for a new one. */
    if (log_extents_used(&core->log) == 0) {
      core->log.first = r->highest + 1;
    }
    rc = r->highest + 1 - core->log.first >= LOG_SPAN_MAX
             ? err_set(err, EMB_CORRUPT, "%s/log: it is too long", core->dir)
             : EMB_OK;
    if (!rc && log_fit_table(&core->log, r->highest + 1)) {
      rc = recover_out_of_memory(r);
    } else if (!rc) {
      log_start_at(&core->log, r->highest + 1);
    }
  }
  uint64_t end = r->end ? r->end : m->tail;
  atomic_store(&core->log_end, end);
  atomic_store(&core->blank_end,
               ((end - 1) | (core->layout.extent_pages - 1)) + 1);
  if (!rc && r->in_doubt) {
    *recovery = r;
    return EMB_OK;
  }
  recovery_free(r);
  return rc;
}

int recover_commit(struct recovery *r, emb_err *err) {
  struct seen_txn *txn = &r->txns[r->txn_count - 1];
  r->err = err;
  if (r->torn) {
    return err_set(err, EMB_CORRUPT,
                   "%s/log: page %llu is damaged; transaction %llu, which was "
                   "prepared after it, cannot be committed",
                   r->core->dir, (unsigned long long)r->end,
                   (unsigned long long)r->torn);
  }
  int rc = for_pages(r, txn->first, txn->last + 1, apply_doubted);
  if (!rc) {
    atomic_store(&r->core->txn_committed, r->in_doubt);
  }
  return rc;
}
