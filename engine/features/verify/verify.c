/* SPDX-License-Identifier: MIT
**
** verify.c -- checks the whole store (emb_verify).
**
** The check reads the manifest, the head of the log, the index file, and every
** extent that has live records.  It tests every block and page; asks the index
** about every record; compares a record that is also in memory with its copy on
** disk, and the records found with the live counters and the number of keys;
** and looks up every key of the index.  It runs while other sessions work: a
** difference is checked again, and counted with every session out of the epoch,
** before it is reported.  Then it reads every snapshot, and compares the index
** of neighbours with itself and with the table.
**
** Pages without live records count as free space: after a power failure some of
** them may be torn, and they are never read.
*/
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/storage/ckpt/dump.h"
#include "engine/table/jobs/progress.h"
#include "engine/table/owner/hold.h"
#include "engine/table/owner/own.h"
#include "engine/storage/kernel/log_head.h"
#include "engine/features/nearest/index.h"
#include "engine/table/store/dir.h"
#include "engine/features/snapshot/snap.h"

struct verify {
  emb_session *s;
  void (*report)(void *, const char *);
  void *arg;
  char *buffer;
};

__attribute__((format(printf, 2, 3))) static void say(struct verify *v,
                                                      const char *format, ...) {
  emb_err line;
  va_list args;
  va_start(args, format);
  (void)vsnprintf(line.text, sizeof line.text, format, args);
  va_end(args);
  v->report(v->arg, line.text);
}

/* Compares the record in memory of the key whose word is `word` with the one on
** disk.  Inside an epoch. */
static void check_copy(struct verify *v, int64_t key, uint64_t word,
                       const struct rec *disk, uint64_t page) {
  struct core *core = v->s->core;
  struct rec *rec = key_rec(core, word);
  uint64_t version, again;
  if (!rec ||
      !rec_read(rec, key, v->s->scratch, core->layout.value_bytes, &version)) {
    return;
  }
  if (version == rec_version(atomic_load(&disk->stamp)) &&
      memcmp(v->s->scratch, disk->vector, core->layout.value_bytes) == 0) {
    return;
  }
  index_find(&core->index, key, hash_key(key), &again);
  if (again == word) {
    say(v, "%s/log: key %lld of page %llu is not the same in memory", core->dir,
        (long long)key, (unsigned long long)page);
  }
}

/* Returns the number of live records in one page. */
static int32_t live_in_page(struct verify *v, uint64_t page,
                            const char *bytes) {
  struct core *core = v->s->core;
  const struct layout *l = &core->layout;
  int32_t live = 0;
  if (page_kind(bytes) != PAGE_DATA) {
    return 0;
  }
  epoch_enter(&core->epoch, v->s->slot);
  for (uint32_t i = 0; i < l->slots; i++) {
    const struct rec *rec =
        (const struct rec *)(const void *)(bytes + PAGE_HEAD_BYTES +
                                           (size_t)i * l->rec_bytes);
    int64_t key = atomic_load_explicit(&rec->key, memory_order_relaxed);
    uint64_t word;
    if (rec_version(atomic_load_explicit(&rec->stamp, memory_order_acquire)) &&
        index_find(&core->index, key, hash_key(key), &word) &&
        key_log_address(core, word) == layout_address(l, page, i)) {
      live++;
      check_copy(v, key, word, rec, page);
    }
  }
  epoch_leave(v->s->slot);
  return live;
}

/* Counts the live records of an extent on disk, and its damaged pages in
** *damaged. */
static int survey_extent(struct verify *v, uint64_t number, uint64_t flushed,
                         int32_t *live, uint64_t *damaged, uint64_t *at) {
  struct core *core = v->s->core;
  const struct layout *l = &core->layout;
  uint64_t page = number << l->extent_bits;
  epoch_enter(&core->epoch, v->s->slot);
  uint64_t offset = log_offset(&core->log, page);
  epoch_leave(v->s->slot);
  *live = 0;
  *damaged = 0;
  if (offset == UINT64_MAX) {
    return EMB_OK;
  }
  int os = core->env->read(core->env, core->log.file, v->buffer,
                           l->extent_bytes, offset);
  if (os) {
    return err_os(&v->s->err, EMB_IOERR, os, "cannot read %s/log", core->dir);
  }
  for (uint32_t i = 0; i < l->extent_pages && page + i < flushed; i++) {
    const char *bytes = v->buffer + (size_t)i * l->page_bytes;
    if (page_valid(l, bytes, core->salt, page + i)) {
      *live += live_in_page(v, page + i, bytes);
    } else if (!*damaged) {
      *damaged = page + i;
      *at = offset + (uint64_t)i * l->page_bytes;
    }
  }
  return EMB_OK;
}

/* Returns the number of live records the counters give for an extent, or 0 if
** the extent is nowhere.  Inside an epoch a session changes the index and the
** count one after the other, and may lose the processor in between: with every
** session out they agree. */
static int32_t live_counted(struct verify *v, uint64_t number) {
  struct core *core = v->s->core;
  pthread_mutex_lock(&core->flush_lock);
  epoch_close(&core->epoch);
  struct extent *extent = log_extent(&core->log, number);
  int32_t live =
      extent_phys(extent) == EXTENT_NOWHERE ? 0 : atomic_load(&extent->live);
  epoch_open(&core->epoch);
  pthread_mutex_unlock(&core->flush_lock);
  return live;
}

static int has_live(struct verify *v, uint64_t number, int32_t *live) {
  struct core *core = v->s->core;
  epoch_enter(&core->epoch, v->s->slot);
  struct extent *extent = log_extent(&core->log, number);
  *live = atomic_load(&extent->live);
  int here = extent_phys(extent) != EXTENT_NOWHERE;
  epoch_leave(v->s->slot);
  return here && *live != 0;
}

/* Part of the last extent may not be in the file yet. */
static int is_partly_written(struct verify *v, uint64_t number,
                             uint64_t flushed) {
  struct core *core = v->s->core;
  return number == flushed >> core->layout.extent_bits &&
         atomic_load(&core->log.tail) > flushed;
}

static int check_extent(struct verify *v, uint64_t number, uint64_t flushed) {
  struct core *core = v->s->core;
  int32_t live, expected;
  uint64_t damaged, offset = 0;
  emb_assert(debug_is_locked(&core->ckpt_lock)); /* the extent stays */
  if (!has_live(v, number, &expected)) {
    return EMB_OK;
  }
  int rc = survey_extent(v, number, flushed, &live, &damaged, &offset);
  if (rc || live == expected || is_partly_written(v, number, flushed)) {
    return rc;
  }
  for (int tries = 0; tries < 3 && live != expected; tries++) {
    expected = live_counted(v, number);
    rc = survey_extent(v, number, flushed, &live, &damaged, &offset);
    if (rc) {
      return rc;
    }
  }
  if (live == expected || is_partly_written(v, number, flushed) ||
      live_counted(v, number) != expected) {
    return EMB_OK; /* or its records keep being moved */
  }
  if (damaged && EMB_SEED(SEED_DAMAGED_PAGE_NOT_REPORTED)) {
    return EMB_OK;
  }
  if (damaged) {
    say(v,
        "%s/log: page %llu (offset %llu) is damaged; of %d records in its "
        "extent, %d are left",
        core->dir, (unsigned long long)damaged, (unsigned long long)offset,
        expected, live);
  } else {
    say(v, "%s/log: extent %llu has %d live records, %d were counted",
        core->dir, (unsigned long long)number, live, expected);
  }
  return EMB_OK;
}

struct tally {
  struct index *index;
  uint64_t keys, lost;
};

static void tally_key(void *arg, int64_t key, uint64_t word) {
  struct tally *tally = arg;
  uint64_t found;
  tally->keys += word_address(word) != 0;
  index_find(tally->index, key, hash_key(key), &found);
  tally->lost += found != word;
}

/* Tallies a part of the index with every session out, as a key and the number
** of keys change together inside the epoch.  Returns the number of all keys at
** that moment. */
static int64_t tally_parts(struct verify *v, struct tally *tally,
                           uint32_t first, uint32_t end) {
  struct core *core = v->s->core;
  pthread_mutex_lock(&core->flush_lock);
  epoch_close(&core->epoch);
  for (uint32_t p = first; p < end; p++) {
    index_each(&core->index, p, tally_key, tally);
  }
  int64_t count = atomic_load(&core->count);
  epoch_open(&core->epoch);
  pthread_mutex_unlock(&core->flush_lock);
  return count;
}

/* Compares the keys in the index with their number, and looks up each.  Works
** part by part, so that other sessions can continue; only if keys were added
** or removed during the check, or something is wrong, all parts together. */
static int check_index(struct verify *v) {
  struct core *core = v->s->core;
  struct tally tally = {&core->index, 0, 0};
  uint32_t parts = index_parts(&core->index);
  int64_t count = 0;
  emb_assert(debug_is_locked(&core->ckpt_lock));
  int rc = EMB_OK;
  for (uint32_t p = 0; !rc && p < parts; p++) {
    count = tally_parts(v, &tally, p, p + 1);
    rc = session_interrupted(v->s);
  }
  if (!rc && ((int64_t)tally.keys != count || tally.lost)) {
    tally.keys = tally.lost = 0;
    count = tally_parts(v, &tally, 0, parts);
  }
  if (!rc && ((int64_t)tally.keys != count || tally.lost)) {
    say(v,
        "%s/log: the index has %llu keys; %llu of them are not found; %lld "
        "were counted",
        core->dir, (unsigned long long)tally.keys,
        (unsigned long long)tally.lost, (long long)count);
  }
  return rc;
}

/* Checks the manifest, the head of the log and the index file: what the next
** open will read.  Under ckpt_lock; if another process owns the store, that
** process may write a checkpoint during the check, which is not damage. */
static int check_files(struct verify *v) {
  emb_store *store = v->s->store;
  struct core *core = &store->core;
  struct manifest m, again;
  emb_err err = {EMB_OK, ""};
  emb_assert(debug_is_locked(&core->ckpt_lock)); /* no checkpoint is written */
  int damaged = -1, rc = core_log_head(core, 0, &err);
  if (rc == EMB_CORRUPT) {
    say(v, "%s", err.text);
    rc = EMB_OK;
  }
  for (int tries = 0; !rc && !core->temporary; tries++) {
    rc = manifest_read(core->env, core->dir, &m, &err);
    rc = rc ? rc : manifest_check(core->env, core->dir, &damaged, &err);
    rc = rc ? rc : dump_check(core, &m, &err);
    if (tries == 20 || manifest_read(core->env, core->dir, &again, NULL) ||
        again.generation == m.generation) {
      break;
    }
  }
  if (damaged >= 0) {
    say(v, "%s/manifest: slot %d (offset %d) is damaged", core->dir, damaged,
        damaged * MANIFEST_SLOT);
  }
  if (rc == EMB_CORRUPT || rc == EMB_NOTADB ||
      (rc == EMB_CANTOPEN && manifest_is_missing(core->env, core->dir))) {
    say(v, "%s", err.text);
    rc = EMB_OK;
  }
  return rc ? err_set(&v->s->err, rc, "%s", err.text) : EMB_OK;
}

/* A snapshot dropped during the check is not damage. */
static int check_snapshots(struct verify *v) {
  emb_session *s = v->s;
  emb_snapshot_info infos[EMB_SNAPSHOTS_MAX];
  size_t n;
  int rc = local_snapshots(s, infos, EMB_SNAPSHOTS_MAX, &n);
  n = n < EMB_SNAPSHOTS_MAX ? n : EMB_SNAPSHOTS_MAX;
  for (size_t i = 0; !rc && i < n; i++) {
    rc = snap_verify(s, infos[i].name);
    if (rc == EMB_CORRUPT) {
      say(v, "%s", s->err.text);
    }
    if (rc == EMB_CORRUPT || rc == EMB_RANGE ||
        (rc == EMB_BUSY && !atomic_load(&s->store->own.is_owner))) {
      rc = EMB_OK;
      err_clear(&s->err);
    }
  }
  return rc;
}

static int verify_all(emb_session *s, int begun,
                      void (*report)(void *, const char *), void *arg) {
  struct core *core = s->core;
  const struct layout *l = &core->layout;
  int owner =
      atomic_load(&s->store->own.is_owner) && !atomic_load(&core->log.failed);
  struct verify v = {s, report, arg,
                     core->env->map(core->env, l->extent_bytes, 0)};
  if (!v.buffer) {
    return session_error(s, EMB_NOMEM, "out of memory");
  }
  int rc = session_lock(s, &core->ckpt_lock);
  if (rc) {
    core->env->unmap(core->env, v.buffer, l->extent_bytes);
    return rc;
  }
  /* Flush, so that all but the newest records can be read back from disk. */
  if (owner) {
    rc = core_flush_all(core, 0, NULL, &s->err);
  }
  uint64_t flushed = atomic_load(&core->log.flushed);
  uint64_t end = (flushed + l->extent_pages - 1) >> l->extent_bits;
  uint64_t first = core->log.first;
  progress_of(s, begun,
              end > first ? (end - first) * (uint64_t)l->extent_bytes : 0);
  for (uint64_t e = first; !rc && e < end; e++) {
    rc = check_extent(&v, e, flushed);
    progress_at(s, begun, (e + 1 - first) * l->extent_bytes);
    rc = rc ? rc : session_interrupted(s);
  }
  if (!rc) {
    rc = check_index(&v);
    rc = rc ? rc : check_files(&v);
    rc = rc ? rc : dir_check(core, report, arg, &s->err);
  }
  pthread_mutex_unlock(&core->ckpt_lock);
  rc = rc ? rc : check_snapshots(&v);
  rc = rc ? rc : nearest_check(s, report, arg);
  core->env->unmap(core->env, v.buffer, l->extent_bytes);
  return rc;
}

int local_verify(emb_session *s, void (*report)(void *, const char *),
                 void *arg) {
  int held, begun = progress_begin(s, "integrity-check", "bytes", 0);
  int rc = session_begin(s);
  rc = rc ? rc : own_refresh(s);
  rc = rc ? rc : hold_begin(s, &held);
  if (!rc) {
    rc = verify_all(s, begun, report, arg);
    hold_end(s, held);
  }
  progress_end(s, begun);
  return rc;
}
