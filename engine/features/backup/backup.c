/* SPDX-License-Identifier: MIT
**
** backup.c -- a copy of the store as of one moment; see emb.h.
**
** The moment is that of a snapshot (snapshot/snapshot.h) without a name, whose
** file has no name either.  While the backup exists, the snapshot keeps the
** extents that it names.  The copy is a store that was closed at that moment:
**
**     source                              copy
**     extents with rows of the snapshot   the same numbers, in the file slots
**                                         0, 1, ...
**     entries of the snapshot             index file
**     mark, version, transaction numbers  manifest, clean
**
** Records are copied byte for byte in their pages; addresses do not change.
** The copy has its own uuid, so that it is not mistaken for the source (by a
** consumer of the source's deltas, say): pages get new checksums.  Pages that
** hold no row of the snapshot are zeros.
**
** GOING ON  A copy that continues from an earlier one (the base) shares its
**           log file, through a hard link.  Extents below the earlier mark are
**           there already and never change (backup/copied.h); if a transaction
**           was open then, only those below its first page count, because its
**           pages were left out.  New extents are written only to places that
**           the earlier copy does not use, so that the earlier copy is
**           complete at every moment, even if this one is cut off.  When the
**           earlier directory is removed, only its own files and one of the
**           two names go.  The copy has the base's uuid, because the pages'
**           checksums depend on it.
** FAILURE   Files and directories made by the backup are removed.  After a
**           crash there may be a directory without a manifest, which is not a
**           store.
** THREADS   The session's.  ckpt_lock is held from begin to freeze; a reader
**           also holds own.lock, so that it does not move to a newer
**           checkpoint.
*/
#include "engine/storage/pack/emb_file.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "backup.h"
#include "engine/table/jobs/tasks.h"
#include "engine/table/jobs/progress.h"
#include "engine/table/jobs/begin.h"
#include "engine/table/owner/own.h"
#include "engine/storage/ckpt/dump.h"
#include "engine/storage/kernel/log_head.h"
#include "engine/table/store/dir.h"
#include "place.h"
#include "engine/table/owner/registry.h"

/* ---- the moment ---------------------------------------------------------- */

/* A reader's checkpoint is complete only if the last owner closed cleanly. */
static int check_closed(emb_backup *b) {
  emb_session *s = b->s;
  struct manifest m;
  int rc = manifest_read(s->core->env, s->core->dir, &m, &s->err);
  if (!rc && !m.clean) {
    rc = session_error(s, EMB_BUSY,
                       "%s is open for writing in another process, or its last "
                       "writer died; a read-only session cannot copy it",
                       s->core->dir);
  }
  if (!rc && b->generation && m.generation != b->generation) {
    rc = session_error(s, EMB_BUSY,
                       "%s was written to by another process during the backup",
                       s->core->dir);
  }
  if (!rc) { /* after an error the next look finds the same difference */
    b->generation = m.generation;
  }
  return rc;
}

static int take_locks(emb_backup *b) {
  emb_session *s = b->s;
  emb_store *store = s->store;
  int rc = EMB_OK;
  if (!b->owner) {
    rc = session_lock(s, &store->own.lock);
    b->owner = !rc && atomic_load(&store->own.is_owner);
    if (b->owner) {
      pthread_mutex_unlock(&store->own.lock);
    }
  }
  if (!rc && !b->owner) {
    rc = check_closed(b);
    if (!rc && b->generation != store->checkpoint.manifest.generation) {
      rc = session_error(
          s, EMB_BUSY, "%s was written to by another process during the backup",
          s->core->dir);
    }
    if (rc) {
      pthread_mutex_unlock(&store->own.lock);
    }
  }
  if (rc) {
    return rc;
  }
  rc = session_lock(s, &s->core->ckpt_lock);
  if (rc && !b->owner) {
    pthread_mutex_unlock(&store->own.lock);
  }
  b->begun = !rc;
  return rc;
}

static void give_locks(emb_backup *b) {
  pthread_mutex_unlock(&b->s->core->ckpt_lock);
  if (!b->owner) {
    pthread_mutex_unlock(&b->s->store->own.lock);
  }
  b->begun = 0;
}

static int may_begin(emb_session *s) {
  int rc = begin_write(s);
  if (!rc && s->txn) {
    rc = session_error(s, EMB_LOCKED, "no backup inside a transaction");
  }
  if (!rc && (atomic_load(&s->store->own.readonly) || s->client.only_reads)) {
    return own_refresh(s);
  }
  return rc ? rc : own_claim(s);
}

int local_backup_begin(emb_session *s, const char *scratch, emb_backup **out) {
  struct core *core = s->core;
  emb_store *store = s->store;
  *out = NULL;
  int rc = may_begin(s);
  if (rc) {
    return rc;
  }
  emb_backup *b = core->env->allocate(core->env, sizeof *b);
  if (!b) {
    return session_error(s, EMB_NOMEM, "out of memory");
  }
  b->s = s;
  b->owner = atomic_load(&store->own.is_owner);
  rc = take_locks(b);
  if (!rc && b->owner) {
    snapshots_reap(core, snapshots_of(store));
  }
  rc = rc ? rc
          : snapshot_start(core, store->work_slot, scratch,
                           &store->open_txn.lock, &b->making, &s->err);
  if (rc) {
    local_backup_end(b);
    return rc;
  }
  b->version = atomic_load(&core->version);
  b->txn_last = atomic_load(&core->txn_last);
  b->txn_committed = b->making.txn_committed;
  b->newest = atomic_load(&core->newest);
  b->settled = b->making.settled;
  emb_check(backup_valid(b));
  *out = b;
  return EMB_OK;
}

int local_backup_freeze(emb_backup *b) {
  emb_session *s = b->s;
  struct env *env = s->core->env;
  struct snapshot *snapshot = NULL;
  int rc = session_begin(s);
  if (rc || !b->making.s) {
    return rc ? rc
              : session_error(
                    s, EMB_MISUSE,
                    "the backup is already frozen, or freezing it failed");
  }
  /* Allocated first: an enlisted snapshot has a user that gives it back. */
  emb_snap *snap = env->allocate(env, sizeof *snap);
  rc = snap ? EMB_OK : session_error(s, EMB_NOMEM, "out of memory");
  rc = rc ? rc
          : snapshot_finish(
                &b->making, b->owner ? snapshots_of(s->store) : NULL,
                s->waits.interrupt, s->waits.interrupt_arg, &snapshot);
  if (rc) {
    env->release(env, snap);
    return rc;
  }
  give_locks(b);
  snap->s = s;
  snap->snapshot = snapshot;
  snap->listed = b->owner;
  atomic_fetch_add(&s->store->sessions.snaps, 1);
  b->snap = snap;
  emb_check(backup_valid(b));
  return EMB_OK;
}

void local_backup_end(emb_backup *b) {
  if (!b) {
    return;
  }
  struct env *env = b->s->core->env;
  emb_check(backup_valid(b));
  if (b->making.s) {
    snapshot_give_up(&b->making);
  }
  if (b->begun) {
    give_locks(b);
  }
  local_snapshot_close(b->snap);
  if (b->owner && pthread_mutex_trylock(&b->s->core->ckpt_lock) == 0) {
    if (snapshots_reap(b->s->core, snapshots_of(b->s->store))) {
      tasks_look_again(b->s->store); /* extents may be free now */
    }
    pthread_mutex_unlock(&b->s->core->ckpt_lock);
  }
  env->release(env, b);
}

/* ---- the base ------------------------------------------------------------ */

static int backup_failed(struct copying *c, int os, const char *name) {
  emb_err *err = &c->b->s->err;
  return err_os(err, EMB_IOERR, os, "cannot write %s/%s", c->dir, name);
}

static int backup_out_of_memory(struct copying *c) {
  return session_error(c->b->s, EMB_NOMEM, "out of memory");
}

static int add_file_slots(struct base *base, struct env *env,
                          const struct block *block) {
  void *larger =
      env->resize(env, base->slots,
                  (base->count + block->count) * sizeof(struct file_slot));
  if (!larger) {
    return EMB_NOMEM;
  }
  base->slots = larger;
  for (uint32_t i = 0; i < block->count; i++) {
    struct file_slot *to = &base->slots[base->count++];
    to->number = block->u.pairs[i * 2];
    to->phys = (uint32_t)block->u.pairs[i * 2 + 1];
    base->end = to->phys >= base->end ? to->phys + 1 : base->end;
    if (to->phys >= EXTENT_NOWHERE ||
        (base->count > 1 && to->number <= to[-1].number)) {
      return EMB_CORRUPT;
    }
  }
  return EMB_OK;
}

/* The last blocks of the index file list the extents. */
static int read_file_slots(struct base *base, struct env *env) {
  const struct manifest *m = &base->manifest;
  uint64_t salt = hash_salt(m->uuid) + m->index_generation;
  char path[PATH_BYTES];
  struct env_file *file;
  struct block *block = env->map(env, sizeof *block, 0);
  int rc = block ? EMB_OK : EMB_NOMEM;
  dump_path(path, sizeof path, base->dir, m->index_generation);
  if (!rc && env->open(env, path, ENV_READ, &file)) {
    rc = EMB_CANTOPEN;
  } else if (!rc) {
    uint64_t entries = (m->keys + BLOCK_PAIRS - 1) / BLOCK_PAIRS;
    for (uint64_t i = 1 + entries; !rc && i < m->index_blocks; i++) {
      rc = env->read(env, file, block, BLOCK_BYTES, i * BLOCK_BYTES) ||
                   !blocks_valid(block, salt, i) || block->kind != BLOCK_EXTENTS
               ? EMB_CORRUPT
               : add_file_slots(base, env, block);
    }
    env->close(env, file);
  }
  if (block) {
    env->unmap(env, block, sizeof *block);
  }
  return rc;
}

/* Is the base an unmodified copy of this store, and does the store still have
** the mark of that copy? */
static int base_fits(struct copying *c, struct base *base) {
  struct core *core = c->b->s->core;
  struct manifest *m = &base->manifest, here;
  struct copied of, marks;
  memset(&here, 0, sizeof here);
  checkpoint_describe(core, &here);
  if (manifest_read(c->env, base->dir, m, NULL) || !m->clean ||
      !m->index_blocks ||
      copied__read(c->env, base->dir, COPIED_OF, m->uuid, &of, NULL) ||
      of.count != 1 || of.generation != m->generation ||
      memcmp(of.source, core->uuid, sizeof of.source) != 0 ||
      copied__read(c->env, core->dir, COPIED_MARKS_NAME, core->uuid, &marks,
                   NULL) ||
      !copied__has(&marks, of.marks[0]) || m->page_bytes != here.page_bytes ||
      m->extent_bytes != here.extent_bytes) {
    return 0;
  }
  base->below = of.marks[0].page >> core->layout.extent_bits;
  return of.marks[0].page <= c->b->snap->snapshot->head.mark;
}

static const struct file_slot *find_file_slot(const struct base *base,
                                              uint64_t number) {
  uint64_t low = 0, high = base->count;
  while (low < high) {
    uint64_t middle = (low + high) / 2;
    if (base->slots[middle].number < number) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < base->count && base->slots[low].number == number &&
                 number < base->below
             ? &base->slots[low]
             : NULL;
}

static void end_base(struct copying *c) {
  struct base *base = c->base;
  if (base) {
    place__let_go(base->lock);
    c->env->release(c->env, base->slots);
    c->env->release(c->env, base);
    c->base = NULL;
  }
}

/* Sets c->base to the usable base, or NULL.  A copy whose file would be more
** than half holes starts a new file. */
static int begin_base(struct copying *c, const char *dir) {
  emb_session *s = c->b->s;
  if (!dir || s->core->temporary) {
    return EMB_OK;
  }
  struct base *base = c->env->allocate(c->env, sizeof *base);
  if (!base) {
    return backup_out_of_memory(c);
  }
  base->dir = dir;
  c->base = base;
  if (place__hold(dir, &base->lock, NULL) || !base->lock ||
      !base_fits(c, base)) {
    end_base(c);
    return EMB_OK;
  }
  int rc = read_file_slots(base, c->env);
  if (rc == EMB_NOMEM) {
    return backup_out_of_memory(c);
  }
  if (rc || base->end > 2 * c->b->snap->snapshot->head.extents + 64) {
    end_base(c);
  }
  return EMB_OK;
}

/* ---- the log ------------------------------------------------------------- */

static int backup_write_head(struct copying *c) {
  char *head = c->env->map(c->env, LOG_FILE_HEAD, 0);
  if (!head) {
    return backup_out_of_memory(c);
  }
  core_log_head_fill(head, c->uuid);
  int os = c->env->write(c->env, c->log, head, LOG_FILE_HEAD, 0);
  c->env->unmap(c->env, head, LOG_FILE_HEAD);
  return os ? backup_failed(c, os, "log") : EMB_OK;
}

static int create_log(struct copying *c) {
  char path[PATH_BYTES], there[PATH_BYTES];
  struct env *env = c->env;
  emb_err *err = &c->b->s->err;
  int rc = path_join(path, sizeof path, c->dir, FILE_LOG, err);
  if (!rc && c->base) {
    rc = path_join(there, sizeof there, c->base->dir, FILE_LOG, err);
    if (!rc && env->link(env, there, path)) {
      end_base(c); /* no hard links on this file system */
    }
  }
  if (rc) {
    return rc;
  }
  int os;
  if (c->base) {
    memcpy(c->uuid, c->base->manifest.uuid, sizeof c->uuid);
    os = env->open(env, path, ENV_WRITE | ENV_DIRECT, &c->log);
  } else {
    os = env->random(env, c->uuid, sizeof c->uuid);
    os = os ? os
            : env->open(env, path,
                        ENV_WRITE | ENV_CREATE | ENV_EXCLUSIVE | ENV_DIRECT,
                        &c->log);
  }
  c->salt = hash_salt(c->uuid);
  if (os) {
    c->log = NULL;
    return err_os(err, EMB_CANTOPEN, os, "cannot create %s", path);
  }
  return c->base ? EMB_OK : backup_write_head(c);
}

/* Returns the lowest file slot that neither the base nor this copy uses. */
static uint64_t take_file_slot(struct copying *c) {
  while (c->base && c->next < c->base->end &&
         !EMB_SEED(SEED_BACKUP_OVERWRITES_BASE) &&
         (c->used[c->next / 8] >> c->next % 8 & 1)) {
    c->next++;
  }
  return c->next++;
}

static int backup_make_room(struct copying *c) {
  const struct snapshot *snapshot = c->b->snap->snapshot;
  uint64_t n = snapshot->head.extents;
  c->slots = c->env->allocate(c->env, (n ? n : 1) * sizeof *c->slots);
  c->piece = c->env->map(
      c->env, PIECE_MAX * (size_t)c->b->s->core->layout.extent_bytes, 0);
  if (c->base) {
    c->used = c->env->allocate(c->env, c->base->end / 8 + 1);
  }
  if (!c->slots || !c->piece || (c->base && !c->used)) {
    return backup_out_of_memory(c);
  }
  for (uint64_t i = 0; c->base && i < c->base->count; i++) {
    uint64_t phys = c->base->slots[i].phys;
    c->used[phys / 8] |= (uint8_t)(1u << phys % 8);
  }
  return EMB_OK;
}

static int flush_piece(struct copying *c) {
  uint64_t extent_bytes = c->b->s->core->layout.extent_bytes;
  int os = 0;
  if (c->pieces) {
    os = c->env->write(c->env, c->log, c->piece, c->pieces * extent_bytes,
                       LOG_FILE_HEAD + c->piece_slot * extent_bytes);
    c->copied += c->pieces * extent_bytes;
    c->pieces = 0;
  }
  return os ? backup_failed(c, os, "log") : EMB_OK;
}

/* Copies pages with rows, with the copy's checksum; zeros the others. */
static void backup_fill(struct copying *c, char *to, const char *from,
                        uint64_t number, const uint8_t *wanted,
                        uint32_t pages) {
  const struct layout *l = &c->b->s->core->layout;
  for (uint32_t i = 0; i < l->extent_pages; i++, to += l->page_bytes) {
    if (i < pages && wanted[i]) {
      struct page_head *head = (struct page_head *)(void *)to;
      memcpy(to, from + (size_t)i * l->page_bytes, l->page_bytes);
      head->sum = page_sum(l, to, c->salt, (number << l->extent_bits) + i);
    } else {
      memset(to, 0, l->page_bytes);
    }
  }
}

static int copy_extent(struct copying *c, uint64_t *phys) {
  emb_snap *snap = c->b->snap;
  size_t extent_bytes = c->b->s->core->layout.extent_bytes;
  uint8_t wanted[SNAP_PAGES_MAX];
  uint32_t pages = 0;
  uint64_t number = 0;
  char *bytes;
  int rc = snap_next_extent(snap, &number, wanted, &pages, &bytes);
  *phys = take_file_slot(c);
  if (!rc && (c->pieces == PIECE_MAX ||
              (c->pieces && *phys != c->piece_slot + c->pieces))) {
    rc = flush_piece(c);
  }
  if (rc) {
    return rc;
  }
  if (!c->pieces) {
    c->piece_slot = *phys;
  }
  backup_fill(c, c->piece + c->pieces * extent_bytes, bytes, number, wanted,
              pages);
  c->pieces++;
  emb_check(copying_valid(c));
  return EMB_OK;
}

static int copy_extents(struct copying *c, int begun) {
  emb_session *s = c->b->s;
  const struct snapshot *snapshot = c->b->snap->snapshot;
  uint64_t extent_bytes = s->core->layout.extent_bytes;
  int rc = backup_make_room(c);
  if (!rc && !c->base && !s->core->step_mode) {
    snap_hurry(c->b->snap);
  }
  c->end = c->base ? c->base->end : 0;
  for (uint64_t i = 0; !rc && i < snapshot->head.extents; i++) {
    uint64_t number = snapshot->extents[i][0];
    const struct file_slot *there =
        c->base ? find_file_slot(c->base, number) : NULL;
    c->slots[i].number = number;
    if (there) {
      c->slots[i].phys = there->phys;
      snap_pass_extent(c->b->snap);
    } else {
      rc = copy_extent(c, &c->slots[i].phys);
    }
    c->end = c->slots[i].phys >= c->end ? c->slots[i].phys + 1 : c->end;
    progress_at(s, begun, (i + 1) * extent_bytes);
    rc = rc || i % 64 ? rc : session_interrupted(s);
  }
  rc = rc ? rc : flush_piece(c);
  emb_check(rc || copying_slots_valid(c));
  if (!rc) {
    int os = c->env->sync(c->env, c->log);
    rc = os ? backup_failed(c, os, "log") : EMB_OK;
  }
  return rc;
}

/* ---- index and manifest -------------------------------------------------- */

static int backup_write_entries(struct copying *c, struct blocks *w) {
  emb_snap *snap = c->b->snap;
  const struct snapshot *snapshot = snap->snapshot;
  uint64_t blocks = snapshot_entry_blocks(snapshot);
  struct block *sizes = &w->blocks[0];
  int rc = EMB_OK;
  sizes->kind = BLOCK_SIZES;
  sizes->count = NOTES_PARTS;
  for (uint32_t p = 0; p < NOTES_PARTS; p++) {
    sizes->u.sizes[p] =
        (uint32_t)(snapshot->starts[p + 1] - snapshot->starts[p]);
  }
  blocks_finish(w);
  for (uint64_t b = 0; !rc && !w->os && b < blocks; b++) {
    const struct block *block;
    rc = snap_entries(snap, b, &block);
    for (uint32_t i = 0; !rc && i < block->count; i++) {
      blocks_pair(w, BLOCK_ENTRIES, block->u.pairs[i * 2],
                  block->u.pairs[i * 2 + 1]);
    }
    rc = rc ? rc : session_interrupted(c->b->s);
  }
  for (uint64_t i = 0; !rc && i < snapshot->head.extents; i++) {
    blocks_pair(w, BLOCK_EXTENTS, c->slots[i].number, c->slots[i].phys);
  }
  if (w->blocks[w->filled].count) {
    blocks_finish(w);
  }
  blocks_flush(w);
  return rc;
}

#define INDEX_GENERATION 1

static int backup_write_index(struct copying *c) {
  emb_session *s = c->b->s;
  struct env *env = c->env;
  char path[PATH_BYTES];
  size_t bytes = (BLOCKS_BUFFER + 1) * sizeof(struct block);
  struct blocks w = {.core = s->core, .salt = c->salt + INDEX_GENERATION};
  dump_path(path, sizeof path, c->dir, INDEX_GENERATION);
  w.os = env->open(
      env, path, ENV_WRITE | ENV_CREATE | ENV_EXCLUSIVE | ENV_DIRECT, &w.file);
  if (w.os) {
    return err_os(&s->err, EMB_CANTOPEN, w.os, "cannot create %s", path);
  }
  w.blocks = env->map(env, bytes, 0);
  int rc = w.blocks ? backup_write_entries(c, &w) : backup_out_of_memory(c);
  w.os = rc || w.os ? w.os : env->sync(env, w.file);
  env->close(env, w.file);
  if (w.blocks) {
    env->unmap(env, w.blocks, bytes);
  }
  c->index_blocks = w.written;
  c->copied += w.written * BLOCK_BYTES;
  return rc ? rc : w.os ? backup_failed(c, w.os, "index") : EMB_OK;
}

static int backup_write_manifest(struct copying *c, uint64_t *generation) {
  emb_backup *b = c->b;
  struct core *core = b->s->core;
  const struct snapshot_head *head = &b->snap->snapshot->head;
  uint64_t mask = core->layout.extent_pages - 1;
  struct manifest m;
  memset(&m, 0, sizeof m);
  memcpy(m.uuid, c->uuid, sizeof m.uuid);
  m.clean = 1;
  checkpoint_describe(core, &m);
  m.index_generation = INDEX_GENERATION;
  m.index_blocks = c->index_blocks;
  m.keys = head->keys;
  /* The extent containing the mark continues in the source, but not here. */
  m.tail = m.replay = (head->mark + mask) & ~mask;
  m.version = b->version;
  m.txn_last = b->txn_last;
  m.txn_committed = b->txn_committed;
  m.newest = b->newest;
  struct env_dir *names;
  int os = c->env->open_dir(c->env, c->dir, &names);
  if (os) {
    return err_os(&b->s->err, EMB_CANTOPEN, os, "cannot open %s", c->dir);
  }
  int rc = manifest_create(c->env, c->dir, names, &m, &b->s->err);
  c->env->close_dir(c->env, names);
  *generation = m.generation;
  return rc;
}

/* ---- recording the mark -------------------------------------------------- */

static int note_copy(struct copying *c, uint64_t generation) {
  const struct core *core = c->b->s->core;
  const struct snapshot_head *head = &c->b->snap->snapshot->head;
  struct copied of;
  memset(&of, 0, sizeof of);
  memcpy(of.uuid, c->uuid, sizeof of.uuid);
  memcpy(of.source, core->uuid, sizeof of.source);
  of.generation = generation;
  copied__add(&of, (struct copied_mark){head->id, c->b->settled});
  return copied__write(c->env, c->dir, COPIED_OF, &of, &c->b->s->err);
}

/* A failure here only makes the next backup more expensive. */
static void note_mark(struct copying *c) {
  emb_session *s = c->b->s;
  struct core *core = s->core;
  const struct snapshot_head *head = &c->b->snap->snapshot->head;
  struct copied marks;
  if (core->temporary || !c->b->owner) {
    return;
  }
  pthread_mutex_lock(&core->ckpt_lock);
  if (copied__read(c->env, core->dir, COPIED_MARKS_NAME, core->uuid, &marks,
                   NULL)) {
    memset(&marks, 0, sizeof marks);
    memcpy(marks.uuid, core->uuid, sizeof marks.uuid);
  }
  copied__add(&marks, (struct copied_mark){head->id, c->b->settled});
  (void)copied__write(c->env, core->dir, COPIED_MARKS_NAME, &marks, NULL);
  pthread_mutex_unlock(&core->ckpt_lock);
}

/* ---- the call ------------------------------------------------------------ */

/* Removes the files of a failed copy, the manifest first. */
static void remove_copy(struct copying *c) {
  struct env *env = c->env;
  char path[PATH_BYTES];
  dir_remove_copy(env, c->dir);
  dump_path(path, sizeof path, c->dir, INDEX_GENERATION);
  env->unlink(env, path);
  env->remove_dir(env, c->dir);
}

static int write_copy(struct copying *c, int begun) {
  emb_session *s = c->b->s;
  uint64_t generation = 0;
  int rc = create_log(c);
  rc = rc ? rc : copy_extents(c, begun);
  rc = rc ? rc : backup_write_index(c);
  rc = rc || c->b->owner ? rc : check_closed(c->b);
  rc = rc ? rc : session_interrupted(s);
  rc = rc ? rc : backup_write_manifest(c, &generation);
  rc = rc ? rc : note_copy(c, generation);
  if (!rc) {
    note_mark(c);
  }
  return rc;
}

static void backup_report_copied(struct copying *c) {
  emb_backup_info *info = c->info;
  const struct core *core = c->b->s->core;
  memcpy(info->uuid, c->uuid, sizeof info->uuid);
  info->rows = (int64_t)c->b->snap->snapshot->head.keys;
  info->bytes = LOG_FILE_HEAD + c->end * (uint64_t)core->layout.extent_bytes +
                c->index_blocks * BLOCK_BYTES + 2 * MANIFEST_SLOT;
  info->copied = c->copied + 2 * MANIFEST_SLOT;
  info->base_used = c->base != NULL;
}

int local_backup_write(emb_backup *b, const char *dir, const char *base,
                       emb_backup_info *info) {
  emb_session *s = b->s;
  struct env *env = s->core->env;
  struct copying c = {.b = b, .env = env, .dir = dir, .info = info};
  int rc = session_begin(s);
  if (rc || !b->snap) {
    return rc ? rc : session_error(s, EMB_MISUSE, "the backup is not frozen");
  }
  int os = env->make_dir(env, dir);
  if (os) {
    return err_os(&s->err, EMB_CANTOPEN, os, "cannot create %s", dir);
  }
  int begun = progress_begin(s, "backup", "bytes",
                             b->snap->snapshot->head.extents *
                                 s->core->layout.extent_bytes);
  local_snapshot_rewind(b->snap);
  rc = begin_base(&c, base);
  rc = rc ? rc : write_copy(&c, begun);
  if (!rc) {
    backup_report_copied(&c);
  } else {
    emb_err first = s->err;
    remove_copy(&c);
    s->err = first;
  }
  progress_end(s, begun);
  if (c.log) {
    env->close(env, c.log);
  }
  if (c.piece) {
    env->unmap(env, c.piece, PIECE_MAX * (size_t)s->core->layout.extent_bytes);
  }
  env->release(env, c.slots);
  env->release(env, c.used);
  end_base(&c);
  return rc;
}

/* ---- looking at a copy --------------------------------------------------- */

int emb_backup_look(const char *dir, emb_backup_of *of, emb_err *err) {
  struct env *env = env_default();
  struct manifest m;
  struct copied copied;
  memset(of, 0, sizeof *of);
  err_clear(err);
  int rc = manifest_read(env, dir, &m, err);
  if (rc) {
    return rc;
  }
  memcpy(of->uuid, m.uuid, sizeof of->uuid);
  rc = copied__read(env, dir, COPIED_OF, m.uuid, &copied, err);
  if (!rc) {
    memcpy(of->source, copied.source, sizeof of->source);
    of->untouched =
        copied.count == 1 && m.clean && m.generation == copied.generation;
    of->number = copied.number;
  }
  return rc;
}

int emb_backup_tag(const char *dir, uint64_t number, emb_err *err) {
  struct env *env = env_default();
  struct manifest m;
  struct copied copied;
  err_clear(err);
  int rc = manifest_read(env, dir, &m, err);
  rc = rc ? rc : copied__read(env, dir, COPIED_OF, m.uuid, &copied, err);
  if (!rc && copied.count != 1) {
    rc = err_set(err, EMB_RANGE, "%s is not a copy", dir);
  }
  copied.number = number;
  return rc ? rc : copied__write(env, dir, COPIED_OF, &copied, err);
}
