/* SPDX-License-Identifier: MIT
**
** snapshot.c -- see snapshot.h.
*/
#include "snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../ckpt/manifest.h"

_Static_assert(EMB_SNAPSHOT_NAME_MAX == 64, "name in the head");

int snapshot__check_name(const char *name, emb_err *err) {
  size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz"
                          "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.");
  if (n == 0 || n > EMB_SNAPSHOT_NAME_MAX || name[n]) {
    return err_set(err, EMB_RANGE,
                   "a snapshot's name has 1 to %d letters, digits, '_', '-' "
                   "and '.', got '%.80s'",
                   EMB_SNAPSHOT_NAME_MAX, name);
  }
  return EMB_OK;
}

static void snapshot_path_of(char *to, const struct core *core,
                             const char *prefix, const char *name) {
  snprintf(to, PATH_BYTES, "%s/%s%s", core->dir, prefix, name);
}

static int snapshot_out_of_memory(emb_err *err) {
  return err_set(err, EMB_NOMEM, "out of memory");
}

/* ---- one snapshot in memory --------------------------------------------- */

static int snapshot_needs(const struct retention *hold, uint64_t extent) {
  const struct snapshot *s = (const struct snapshot *)(const void *)hold;
  uint64_t low = 0, high = s->head.extents;
  while (low < high) {
    uint64_t middle = (low + high) / 2;
    if (s->extents[middle][0] < extent) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < s->head.extents && s->extents[low][0] == extent;
}

static struct snapshot *new_snapshot(struct core *core, const char *name) {
  struct snapshot *s = core->env->allocate(core->env, sizeof *s);
  if (s) {
    s->retention.needs = snapshot_needs;
    snprintf(s->name, sizeof s->name, "%s", name);
    s->starts =
        core->env->allocate(core->env, (NOTES_PARTS + 1) * sizeof *s->starts);
    if (!s->starts) {
      snapshot__close(core, s);
      s = NULL;
    }
  }
  return s;
}

void snapshot__close(struct core *core, struct snapshot *s) {
  if (s) {
    if (s->file) {
      core->env->close(core->env, s->file);
    }
    core->env->release(core->env, s->starts);
    core->env->release(core->env, (void *)s->extents);
    core->env->release(core->env, s);
  }
}

static struct snapshot *snapshot_find(struct snapshots *list,
                                      const char *name) {
  for (struct snapshot *s = list->first; s; s = s->next) {
    if (!s->dropped && strcmp(s->name, name) == 0) {
      return s;
    }
  }
  return NULL;
}

/* Under ckpt_lock. */
static void snapshot_enlist(struct core *core, struct snapshots *list,
                            struct snapshot *s) {
  emb_check(snapshot_valid(core, s));
  if (!s->damaged) {
    retention_begin(core, &s->retention);
  }
  pthread_mutex_lock(&list->lock);
  s->next = list->first;
  list->first = s;
  pthread_mutex_unlock(&list->lock);
}

/* ---- making -------------------------------------------------------------- */

static void snapshot_set_mark(void *arg, uint64_t page) {
  struct snapshot_making *m = arg;
  atomic_store_explicit(&m->notes->mark,
                        layout_address(&m->core->layout, page, 0),
                        memory_order_release);
  m->s->head.mark = page;
  uint64_t open = atomic_load(&m->core->txn_first_page);
  m->settled = open && open < page ? open : page;
  m->txn_committed = atomic_load(&m->core->txn_committed);
}

static int make_counts(struct snapshot_making *m) {
  struct core *core = m->core;
  uint32_t bits = core->layout.extent_bits;
  pthread_mutex_lock(&core->log.lock);
  m->first = core->log.first;
  pthread_mutex_unlock(&core->log.lock);
  m->span = (m->s->head.mark >> bits) + 1 - m->first;
  m->counts = core->env->map(core->env, m->span * sizeof *m->counts, 0);
  return m->counts ? EMB_OK : snapshot_out_of_memory(m->err);
}

static int snapshot_write_entries(struct snapshot_making *m,
                                  int (*stop)(void *), void *arg) {
  struct core *core = m->core;
  struct gather g = {core, NULL, 0, 0};
  uint64_t *starts = m->s->starts;
  int rc = EMB_OK;
  for (uint32_t p = 0; !rc && !m->w.os && p < NOTES_PARTS; p++) {
    rc = stop && stop(arg) ? err_set(m->err, EMB_INTERRUPT, "interrupted")
                           : EMB_OK;
    if (!rc && (gather_partition(&g, m->slot, p) ||
                notes__apply(core, m->notes, p, &g.pairs, &g.count, &g.room))) {
      rc = snapshot_out_of_memory(m->err);
    }
    for (uint64_t i = 0; !rc && i < g.count; i++) {
      uint64_t address = g.pairs[i * 2 + 1];
      emb_assert(layout_extent(&core->layout, address) - m->first < m->span);
      blocks_pair(&m->w, BLOCK_ENTRIES, g.pairs[i * 2], address);
      m->counts[layout_extent(&core->layout, address) - m->first]++;
    }
    starts[p + 1] = starts[p] + g.count;
  }
  m->s->head.keys = starts[NOTES_PARTS];
  core->env->release(core->env, g.pairs);
  return rc;
}

static int write_extents(struct snapshot_making *m) {
  struct snapshot *s = m->s;
  uint64_t n = 0;
  for (uint64_t i = 0; i < m->span; i++) {
    n += m->counts[i] != 0;
  }
  s->extents =
      m->core->env->allocate(m->core->env, (n ? n : 1) * sizeof *s->extents);
  if (!s->extents) {
    return snapshot_out_of_memory(m->err);
  }
  for (uint64_t i = 0; i < m->span; i++) {
    if (m->counts[i]) {
      s->extents[s->head.extents][0] = m->first + i;
      s->extents[s->head.extents++][1] = m->counts[i];
      blocks_pair(&m->w, BLOCK_EXTENTS, m->first + i, m->counts[i]);
    }
  }
  if (m->w.blocks[m->w.filled].count) {
    blocks_finish(&m->w);
  }
  blocks_flush(&m->w);
  return EMB_OK;
}

/* Blocks 0 and 1, by the writer whose other blocks are in the file. */
static void snapshot_write_head(struct snapshot_making *m) {
  struct snapshot *s = m->s;
  struct block *head = &m->w.blocks[0], *sizes = &m->w.blocks[1];
  memset(m->w.blocks, 0, 2 * sizeof *head);
  memcpy(s->head.magic, SNAPSHOT_MAGIC, sizeof s->head.magic);
  s->head.format = SNAPSHOT_FORMAT;
  memcpy(s->head.name, s->name, sizeof s->name);
  head->kind = BLOCK_HEAD;
  head->count = 1;
  memcpy(head->u.bytes, &s->head, sizeof s->head);
  head->sum = hash_sum((char *)head + 8, BLOCK_BYTES - 8, m->core->salt, 0);
  sizes->kind = BLOCK_SIZES;
  sizes->count = NOTES_PARTS;
  for (uint32_t p = 0; p < NOTES_PARTS; p++) {
    sizes->u.sizes[p] = (uint32_t)(s->starts[p + 1] - s->starts[p]);
  }
  sizes->sum = hash_sum((char *)sizes + 8, BLOCK_BYTES - 8, m->w.salt, 1);
  m->w.filled = 2;
  m->w.written = 0;
  blocks_flush(&m->w);
}

/* Steps 1 and 2. */
static int snapshot_mark(struct snapshot_making *m, pthread_mutex_t *settle) {
  struct core *core = m->core;
  /* Sessions with a lower version leave the epoch before the mark is made. */
  m->s->head.version = atomic_load(&core->version);
  m->notes = notes__begin(core);
  if (!m->notes) {
    return snapshot_out_of_memory(m->err);
  }
  struct core_marking marking = {
      .settle = settle, .slot = m->slot, .then = snapshot_set_mark, .arg = m};
  int rc = core_mark(core, &marking, m->err);
  m->below = marking.below;
  return rc;
}

static void end_notes(struct snapshot_making *m) {
  if (m->notes) {
    notes__end(m->core, m->notes);
    m->notes = NULL;
  }
}

/* Step 3: the file is complete but for its head. */
static int write_body(struct snapshot_making *m, int (*stop)(void *),
                      void *arg) {
  struct core *core = m->core;
  int rc = make_counts(m);
  rc = rc ? rc : snapshot_write_entries(m, stop, arg);
  end_notes(m);
  rc = rc || m->w.os ? rc : write_extents(m);
  if (m->counts) {
    core->env->unmap(core->env, m->counts, m->span * sizeof *m->counts);
  }
  return rc;
}

static size_t snapshot_buffer_bytes(void) {
  return (BLOCKS_BUFFER + 1) * sizeof(struct block);
}

static int start_file(struct snapshot_making *m) {
  struct core *core = m->core;
  m->w.core = core;
  m->w.file = m->s->file;
  m->w.salt = core->salt + m->s->head.id;
  m->w.written = 2;
  m->w.blocks = core->env->map(core->env, snapshot_buffer_bytes(), 0);
  return m->w.blocks ? EMB_OK : snapshot_out_of_memory(m->err);
}

static void end_file(struct snapshot_making *m) {
  end_notes(m);
  if (m->w.blocks) {
    m->core->env->unmap(m->core->env, m->w.blocks, snapshot_buffer_bytes());
    m->w.blocks = NULL;
  }
}

/* Steps 3 and 4, and the head. */
static int finish_file(struct snapshot_making *m, int (*stop)(void *),
                       void *arg) {
  struct core *core = m->core;
  int rc = write_body(m, stop, arg);
  if (!rc && !m->w.os) {
    rc = EMB_SEED(SEED_SNAPSHOT_LOG_NOT_SEALED)
             ? core_flush_all(core, 1, NULL, m->err)
             : core_flush_below(core, m->below, m->err);
  }
  if (!rc && !m->w.os) {
    snapshot_write_head(m);
  }
  return rc;
}

static int snapshot_write_file(struct snapshot_making *m,
                               pthread_mutex_t *settle, int (*stop)(void *),
                               void *arg) {
  int rc = start_file(m);
  rc = rc ? rc : snapshot_mark(m, settle);
  rc = rc ? rc : finish_file(m, stop, arg);
  end_file(m);
  return rc;
}

/* A temporary store's snapshot has no name in the file system either. */
static int create_file(struct core *core, struct snapshot *s, char *path,
                       emb_err *err) {
  struct env *env = core->env;
  int os = env->random(env, &s->head.id, sizeof s->head.id);
  if (core->temporary) {
    snprintf(path, PATH_BYTES, "%s/emb-%016llx", core->dir,
             (unsigned long long)s->head.id);
  } else {
    snapshot_path_of(path, core, SNAPSHOT_NEW_PREFIX, s->name);
  }
  os = os ? os : replace_begin(env, path, ENV_DIRECT, &s->file);
  if (!os && core->temporary) {
    env->unlink(env, path);
  }
  return os ? err_os(err, EMB_CANTOPEN, os, "cannot create %s", path) : EMB_OK;
}

/* Step 5: durable under its name. */
static int snapshot_name_file(struct core *core, struct snapshot *s,
                              const char *path, emb_err *err) {
  struct env *env = core->env;
  char to[PATH_BYTES];
  if (core->temporary) {
    return EMB_OK;
  }
  snapshot_path_of(to, core, SNAPSHOT_PREFIX, s->name);
  int os =
      EMB_SEED(SEED_SNAPSHOT_FILE_NOT_SYNCED) ? 0 : env->sync(env, s->file);
  os = os ? os : replace_name(env, path, to, core->names);
  if (os) {
    env->unlink(env, to); /* there was none of this name */
  }
  return os ? err_os(err, EMB_IOERR, os, "cannot write %s", to) : EMB_OK;
}

static int check_new(const struct core *core, struct snapshots *list,
                     const char *name, emb_err *err) {
  int rc = snapshot__check_name(name, err);
  uint32_t n = 0;
  for (struct snapshot *s = list->first; s; s = s->next) {
    n++;
  }
  if (!rc && snapshot_find(list, name)) {
    rc = err_set(err, EMB_RANGE, "%s has a snapshot '%s' already", core->dir,
                 name);
  }
  if (!rc && n >= EMB_SNAPSHOTS_MAX) {
    rc = err_set(err, EMB_RANGE,
                 "%s has %u snapshots, of %d that there may be: drop one",
                 core->dir, n, EMB_SNAPSHOTS_MAX);
  }
  return rc;
}

int snapshot__make(struct core *core, struct snapshots *list, const char *name,
                   const struct snapshot_caller *caller, emb_err *err) {
  char path[PATH_BYTES];
  int rc = check_new(core, list, name, err);
  if (rc) {
    return rc;
  }
  struct snapshot_making m = {.core = core, .slot = caller->slot, .err = err};
  m.s = new_snapshot(core, name);
  if (!m.s) {
    return snapshot_out_of_memory(err);
  }
  rc = create_file(core, m.s, path, err);
  if (!rc) {
    rc = snapshot_write_file(&m, caller->settle, caller->stop, caller->arg);
    rc = rc       ? rc
         : m.w.os ? err_os(err, EMB_IOERR, m.w.os, "cannot write %s", path)
                  : snapshot_name_file(core, m.s, path, err);
    if (rc && !core->temporary) {
      core->env->unlink(core->env, path);
    }
  }
  if (rc) {
    snapshot__close(core, m.s);
  } else {
    snapshot_enlist(core, list, m.s);
    count_add(&core->counters.snapshots, 1);
  }
  return rc;
}

/* ---- one without a name -------------------------------------------------- */

/* Its file is in another directory, where it has no name either. */
static int create_nameless(struct snapshot_making *m, const char *dir) {
  struct env *env = m->core->env;
  struct snapshot *s = m->s;
  char path[PATH_BYTES];
  int os = env->random(env, &s->head.id, sizeof s->head.id);
  snprintf(path, sizeof path, "%s/spill-%016llx", dir,
           (unsigned long long)s->head.id);
  os = os ? os
          : env->open(env, path,
                      ENV_WRITE | ENV_CREATE | ENV_EXCLUSIVE | ENV_DIRECT,
                      &s->file);
  if (!os) {
    env->unlink(env, path);
  }
  return os ? err_os(m->err, EMB_CANTOPEN, os, "cannot create %s", path)
            : EMB_OK;
}

int snapshot_start(struct core *core, struct epoch_slot *slot, const char *dir,
                   pthread_mutex_t *settle, struct snapshot_making *m,
                   emb_err *err) {
  memset(m, 0, sizeof *m);
  m->core = core;
  m->slot = slot;
  m->err = err;
  m->s = new_snapshot(core, "");
  if (!m->s) {
    return snapshot_out_of_memory(err);
  }
  int rc = create_nameless(m, dir);
  rc = rc ? rc : start_file(m);
  rc = rc ? rc : snapshot_mark(m, settle);
  if (rc) {
    snapshot_give_up(m);
  }
  return rc;
}

void snapshot_give_up(struct snapshot_making *m) {
  end_file(m);
  snapshot__close(m->core, m->s);
  m->s = NULL;
}

int snapshot_finish(struct snapshot_making *m, struct snapshots *list,
                    int (*stop)(void *), void *arg, struct snapshot **out) {
  int rc = finish_file(m, stop, arg);
  end_file(m);
  if (!rc && m->w.os) {
    rc = err_os(m->err, EMB_IOERR, m->w.os, "cannot write the index");
  }
  if (rc) {
    snapshot_give_up(m);
    return rc;
  }
  *out = m->s;
  if (list) {
    m->s->users = 1;
    m->s->dropped = 1;
    snapshot_enlist(m->core, list, m->s);
  }
  m->s = NULL;
  return EMB_OK;
}

/* ---- dropping ------------------------------------------------------------ */

int snapshot__drop(struct core *core, struct snapshots *list, const char *name,
                   emb_err *err) {
  char path[PATH_BYTES];
  struct env *env = core->env;
  int rc = snapshot__check_name(name, err);
  struct snapshot *s = rc ? NULL : snapshot_find(list, name);
  if (rc || !s) {
    return rc ? rc
              : err_set(err, EMB_RANGE, "%s has no snapshot '%s'", core->dir,
                        name);
  }
  if (!core->temporary) {
    snapshot_path_of(path, core, SNAPSHOT_PREFIX, name);
    int os = env->unlink(env, path);
    os = os && os != ENOENT ? os : env->sync_dir(env, core->names);
    if (os) {
      return err_os(err, EMB_IOERR, os, "cannot remove %s", path);
    }
  }
  pthread_mutex_lock(&list->lock);
  s->dropped = 1;
  pthread_mutex_unlock(&list->lock);
  snapshots_reap(core, list);
  return EMB_OK;
}

int snapshots_reap(struct core *core, struct snapshots *list) {
  int some = 0;
  for (struct snapshot **at = &list->first; *at;) {
    struct snapshot *s = *at;
    pthread_mutex_lock(&list->lock);
    int gone = s->dropped && s->users == 0;
    if (gone) {
      *at = s->next;
    } else {
      at = &s->next;
    }
    pthread_mutex_unlock(&list->lock);
    if (gone) {
      retention_end(core, &s->retention);
      snapshot__close(core, s);
      some = 1;
    }
  }
  return some;
}

void snapshots_free(struct core *core, struct snapshots *list) {
  while (list->first) {
    struct snapshot *s = list->first;
    list->first = s->next;
    retention_end(core, &s->retention);
    snapshot__close(core, s);
  }
}

/* ---- reading ------------------------------------------------------------- */

static int snapshot_damaged(struct core *core, const struct snapshot *s,
                            uint64_t block, emb_err *err) {
  return err_set(err, EMB_CORRUPT,
                 "%s/%s%s: block %llu (offset %llu) is damaged", core->dir,
                 SNAPSHOT_PREFIX, s->name, (unsigned long long)block,
                 (unsigned long long)block * BLOCK_BYTES);
}

static int snapshot_read_block(struct core *core, const struct snapshot *s,
                               uint64_t number, uint32_t kind,
                               struct block *block, emb_err *err) {
  int os = core->env->read(core->env, s->file, block, BLOCK_BYTES,
                           number * BLOCK_BYTES);
  if (os) {
    return err_os(err, EMB_IOERR, os, "cannot read %s/%s%s", core->dir,
                  SNAPSHOT_PREFIX, s->name);
  }
  count_add(&core->counters.read_bytes, BLOCK_BYTES);
  uint64_t salt = core->salt + (number ? s->head.id : 0);
  int valid = number ? blocks_valid(block, salt, number)
                     : block->sum == hash_sum((char *)block + 8,
                                              BLOCK_BYTES - 8, salt, 0);
  return valid && block->kind == kind ? EMB_OK
                                      : snapshot_damaged(core, s, number, err);
}

int snapshot__read_entries(struct core *core, const struct snapshot *s,
                           uint64_t number, struct block *block, emb_err *err) {
  uint64_t left = s->head.keys - number * BLOCK_PAIRS;
  int rc = snapshot_read_block(core, s, number + 2, BLOCK_ENTRIES, block, err);
  if (!rc && block->count != (left < BLOCK_PAIRS ? left : BLOCK_PAIRS)) {
    rc = snapshot_damaged(core, s, number + 2, err);
  }
  return rc;
}

/* The numbers of a head whose checksum is right must fit its file all the same:
** they ask for memory. */
static int snapshot_read_head(struct core *core, struct snapshot *s,
                              struct block *block, emb_err *err) {
  uint64_t bytes = 0;
  int rc = snapshot_read_block(core, s, 0, BLOCK_HEAD, block, err);
  if (rc) {
    return rc;
  }
  memcpy(&s->head, block->u.bytes, sizeof s->head);
  int os = core->env->size(core->env, s->file, &bytes);
  if (os) {
    return err_os(err, EMB_IOERR, os, "cannot read %s/%s%s", core->dir,
                  SNAPSHOT_PREFIX, s->name);
  }
  uint64_t most = bytes / BLOCK_BYTES * BLOCK_PAIRS;
  if (memcmp(s->head.magic, SNAPSHOT_MAGIC, 8) != 0 ||
      strncmp(s->head.name, s->name, sizeof s->head.name) != 0 ||
      s->head.keys > most || s->head.extents > most) {
    s->head.keys = s->head.extents = 0;
    return snapshot_damaged(core, s, 0, err);
  }
  return s->head.format == SNAPSHOT_FORMAT
             ? EMB_OK
             : err_set(err, EMB_CORRUPT, "%s/%s%s is of format %u", core->dir,
                       SNAPSHOT_PREFIX, s->name, s->head.format);
}

static int read_sizes(struct core *core, struct snapshot *s,
                      struct block *block, emb_err *err) {
  int rc = snapshot_read_block(core, s, 1, BLOCK_SIZES, block, err);
  for (uint32_t p = 0; !rc && p < NOTES_PARTS; p++) {
    s->starts[p + 1] = s->starts[p] + block->u.sizes[p];
  }
  if (!rc &&
      (block->count != NOTES_PARTS || s->starts[NOTES_PARTS] != s->head.keys)) {
    rc = snapshot_damaged(core, s, 1, err);
  }
  return rc;
}

/* The extents must ascend, and the log have each of them. */
static int read_extents(struct core *core, struct snapshot *s,
                        struct block *block, emb_err *err) {
  uint64_t n = s->head.extents, number = 2 + snapshot_entry_blocks(s), keys = 0;
  s->extents = core->env->allocate(core->env, (n ? n : 1) * sizeof *s->extents);
  if (!s->extents) {
    return snapshot_out_of_memory(err);
  }
  for (uint64_t at = 0; at < n; number++) {
    int rc = snapshot_read_block(core, s, number, BLOCK_EXTENTS, block, err);
    if (rc) {
      return rc;
    }
    for (uint32_t i = 0; i < block->count && at < n; i++, at++) {
      uint64_t *extent = s->extents[at];
      memcpy(extent, &block->u.pairs[i * 2], sizeof *s->extents);
      keys += extent[1];
      if (at && extent[0] <= s->extents[at - 1][0]) {
        return snapshot_damaged(core, s, number, err);
      }
    }
    if (block->count == 0) {
      return snapshot_damaged(core, s, number, err);
    }
  }
  return keys == s->head.keys ? EMB_OK
                              : snapshot_damaged(core, s, number - 1, err);
}

int snapshot__open(struct core *core, const char *name, struct snapshot **out,
                   emb_err *err) {
  struct env *env = core->env;
  char path[PATH_BYTES];
  *out = NULL;
  struct snapshot *s = new_snapshot(core, name);
  struct block *block = env->map(env, sizeof *block, 0);
  int rc = s && block ? EMB_OK : snapshot_out_of_memory(err);
  if (!rc) {
    snapshot_path_of(path, core, SNAPSHOT_PREFIX, name);
    int os = env->open(env, path, ENV_READ, &s->file);
    rc = os == ENOENT ? err_set(err, EMB_RANGE, "%s has no snapshot '%s'",
                                core->dir, name)
         : os         ? err_os(err, EMB_CANTOPEN, os, "cannot open %s", path)
                      : EMB_OK;
  }
  if (!rc) {
    rc = snapshot_read_head(core, s, block, &s->err);
    rc = rc ? rc : read_sizes(core, s, block, &s->err);
    rc = rc ? rc : read_extents(core, s, block, &s->err);
    if (rc == EMB_CORRUPT) {
      s->damaged = 1;
      s->head.extents = s->extents ? s->head.extents : 0;
      rc = EMB_OK;
    } else if (rc) {
      err_set(err, rc, "%s", s->err.text);
    }
  }
  if (block) {
    env->unmap(env, block, sizeof *block);
  }
  if (rc) {
    snapshot__close(core, s);
  } else {
    *out = s;
  }
  return rc;
}

/* ---- all of them --------------------------------------------------------- */

struct snapshot_names {
  void (*each)(void *, const char *);
  void *arg;
};

static void each_file(void *arg, const char *name) {
  const struct snapshot_names *names = arg;
  size_t n = strlen(SNAPSHOT_PREFIX);
  if (strncmp(name, SNAPSHOT_PREFIX, n) == 0 &&
      snapshot__check_name(name + n, NULL) == EMB_OK) {
    names->each(names->arg, name + n);
  }
}

int snapshots__list(struct core *core, void (*each)(void *, const char *name),
                    void *arg, emb_err *err) {
  struct snapshot_names names = {each, arg};
  int os = core->temporary
               ? 0
               : core->env->list_dir(core->env, core->dir, each_file, &names);
  return os ? err_os(err, EMB_IOERR, os, "cannot read %s", core->dir) : EMB_OK;
}

struct snapshot_loading {
  struct core *core;
  struct snapshots *list;
  emb_err *err;
  int rc;
};

/* An extent that is not there was freed by a process that did not know of the
** snapshot, or never got into the log: its records are lost. */
static void snapshot_check_extents(struct core *core, struct snapshot *s) {
  uint64_t last = atomic_load(&core->log.tail) >> core->layout.extent_bits;
  for (uint64_t i = 0; !s->damaged && i < s->head.extents; i++) {
    uint64_t number = s->extents[i][0];
    if (number < core->log.first || number > last ||
        extent_phys(log_extent(&core->log, number)) == EXTENT_NOWHERE) {
      s->damaged = 1;
      err_set(&s->err, EMB_CORRUPT,
              "%s/%s%s: extent %llu is not in the log any more", core->dir,
              SNAPSHOT_PREFIX, s->name, (unsigned long long)number);
    }
  }
}

static void snapshot_load_one(void *arg, const char *name) {
  struct snapshot_loading *l = arg;
  struct snapshot *s;
  if (l->rc || snapshot_find(l->list, name)) {
    return;
  }
  l->rc = snapshot__open(l->core, name, &s, l->err);
  if (l->rc == EMB_RANGE) { /* it was listed, and only the owner drops one */
    char path[PATH_BYTES];
    snapshot_path_of(path, l->core, SNAPSHOT_PREFIX, name);
    l->rc = err_os(l->err, EMB_CANTOPEN, ENOENT, "cannot open %s", path);
  }
  if (!l->rc) {
    snapshot_check_extents(l->core, s);
    snapshot_enlist(l->core, l->list, s);
  }
}

int snapshots__load(struct core *core, struct snapshots *list, emb_err *err) {
  struct snapshot_loading l = {core, list, err, EMB_OK};
  snapshots_free(core, list); /* of an attempt that failed later */
  int rc = snapshots__list(core, snapshot_load_one, &l, err);
  rc = rc ? rc : l.rc;
  if (rc) {
    snapshots_free(core, list);
  }
  return rc;
}
