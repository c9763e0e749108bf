/* SPDX-License-Identifier: MIT
**
** snapshot_make.c -- taking a snapshot, by the steps of snapshot.h.
*/
#include "snapshot.h"

#include <stdio.h>
#include <string.h>

#include "engine/storage/ckpt/manifest.h"

static void snapshot_set_mark(void *arg, uint64_t page) {
  struct snapshot_making *m = arg;
  atomic_store_explicit(&m->notes->mark,
                        layout_address(&m->core->layout, page, 0),
                        memory_order_release);
  m->s->head.mark = page;
  uint64_t open = atomic_load(&m->core->txn_first_page);
  m->settled =
      open && open < page && !EMB_SEED(SEED_COPY_MARK_ABOVE_TXN) ? open : page;
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
  return m->counts ? EMB_OK : snapshot__no_memory(m->err);
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
      rc = snapshot__no_memory(m->err);
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
    return snapshot__no_memory(m->err);
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

/* Writes blocks 0 and 1, with the writer that wrote the other blocks. */
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
    return snapshot__no_memory(m->err);
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

/* Step 3: completes the file, except its head. */
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
  return m->w.blocks ? EMB_OK : snapshot__no_memory(m->err);
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

/* A temporary store's snapshot has no name in the file system. */
static int create_file(struct core *core, struct snapshot *s, char *path,
                       emb_err *err) {
  struct env *env = core->env;
  int os = env->random(env, &s->head.id, sizeof s->head.id);
  if (core->temporary) {
    snprintf(path, PATH_BYTES, "%s/emb-%016llx", core->dir,
             (unsigned long long)s->head.id);
  } else {
    snapshot__path(path, core, SNAPSHOT_NEW_PREFIX, s->name);
  }
  os = os ? os : replace_begin(env, path, ENV_DIRECT, &s->file);
  if (!os && core->temporary) {
    env->unlink(env, path);
  }
  return os ? err_os(err, EMB_CANTOPEN, os, "cannot create %s", path) : EMB_OK;
}

/* Step 5: makes the file durable under its name. */
static int snapshot_name_file(struct core *core, struct snapshot *s,
                              const char *path, emb_err *err) {
  struct env *env = core->env;
  char to[PATH_BYTES];
  if (core->temporary) {
    return EMB_OK;
  }
  snapshot__path(to, core, SNAPSHOT_PREFIX, s->name);
  int os =
      EMB_SEED(SEED_SNAPSHOT_FILE_NOT_SYNCED) ? 0 : env->sync(env, s->file);
  os = os ? os : core_replace_name(core, path, to);
  if (os) {
    env->unlink(env, to); /* no earlier file had this name */
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
  if (!rc && snapshot__find(list, name)) {
    rc = err_set(err, EMB_RANGE, "%s has a snapshot '%s' already", core->dir,
                 name);
  }
  if (!rc && n >= EMB_SNAPSHOTS_MAX) {
    rc = err_set(err, EMB_RANGE,
                 "%s has %u snapshots, and the maximum is %d: drop one",
                 core->dir, n, EMB_SNAPSHOTS_MAX);
  }
  return rc;
}

int snapshot__make(struct core *core, struct snapshots *list, const char *name,
                   const struct snapshot_caller *caller, emb_err *err) {
  char path[PATH_BYTES];
  emb_assert(debug_is_locked(&core->ckpt_lock));
  emb_assert(epoch_outside()); /* E1 */
  int rc = check_new(core, list, name, err);
  if (rc) {
    return rc;
  }
  struct snapshot_making m = {.core = core, .slot = caller->slot, .err = err};
  m.s = snapshot__new(core, name);
  if (!m.s) {
    return snapshot__no_memory(err);
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
    snapshot__enlist(core, list, m.s);
    count_add(&core->counters.snapshots, 1);
  }
  return rc;
}

/* ---- a snapshot without a name ------------------------------------------- */

/* Its file is in another directory, where it also has no name. */
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
  emb_assert(debug_is_locked(&core->ckpt_lock));
  memset(m, 0, sizeof *m);
  m->core = core;
  m->slot = slot;
  m->err = err;
  m->s = snapshot__new(core, "");
  if (!m->s) {
    return snapshot__no_memory(err);
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
  emb_assert(debug_is_locked(&m->core->ckpt_lock));
  emb_assert(m->s && m->notes); /* sessions have made notes since the start */
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
    snapshot__enlist(m->core, list, m->s);
  }
  m->s = NULL;
  return EMB_OK;
}
