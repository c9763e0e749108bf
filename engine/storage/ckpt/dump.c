/* SPDX-License-Identifier: MIT
**
** dump.c -- writing and loading the index file; see dump.h.
**
** The dump runs concurrently with readers and writers, partition by partition,
** so it is not a consistent snapshot.  It need not be: recovery replays the log
** from a page that was the tail before the dump began, and everything the dump
** can contain is durable before the manifest names it (checkpoint.c).
*/
#include "dump.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/storage/kernel/row_write.h"
#include "engine/emb.h"
#include "engine/storage/kernel/reserve.h"
#include "blocks.h"

#define DUE_SHIFT 32

void dump_path(char *to, size_t size, const char *dir, uint64_t generation) {
  reserve_index_path(to, size, dir, generation);
}

/* ---- writing ------------------------------------------------------------- */

static int dump_partition(struct blocks *w, struct epoch_slot *slot,
                          struct gather *g, uint32_t p) {
  int rc = gather_partition(g, slot, p);
  for (uint64_t i = 0; !rc && i < g->count; i++) {
    blocks_pair(w, BLOCK_ENTRIES, g->pairs[i * 2], g->pairs[i * 2 + 1]);
  }
  return rc;
}

static void dump_sizes(struct blocks *w) {
  struct index *index = &w->core->index;
  struct block *block = &w->blocks[w->filled];
  block->kind = BLOCK_SIZES;
  block->count = index_parts(index);
  for (uint32_t p = 0; p < block->count; p++) {
    block->u.sizes[p] = (uint32_t)atomic_load_explicit(&index->parts[p].count,
                                                       memory_order_relaxed);
  }
  blocks_finish(w);
}

static void dump_extents(struct blocks *w, const struct dump_calls *calls,
                         uint64_t tail) {
  struct log *log = &w->core->log;
  pthread_mutex_lock(&log->lock);
  uint64_t now = atomic_load(&log->tail);
  uint64_t end = ((tail < now ? tail : now) + log->layout->extent_pages - 1) >>
                 log->layout->extent_bits;
  for (uint64_t e = log->first; e < end; e++) {
    const struct extent *extent = log_extent(log, e);
    uint64_t phys = extent_phys(extent);
    uint64_t due =
        ttl_any(&w->core->schema.ttl) ? atomic_load(&extent->due) : 0;
    if (phys != EXTENT_NOWHERE && !calls->skip(calls->arg, e)) {
      blocks_pair(w, BLOCK_EXTENTS, e, due << DUE_SHIFT | phys);
    }
  }
  pthread_mutex_unlock(&log->lock);
}

void dump_undo(struct core *core, uint64_t generation) {
  if (!core->temporary) {
    reserve_index_undo(core, generation);
  }
}

int dump__write(struct core *core, struct epoch_slot *slot, uint64_t generation,
                const struct dump_calls *calls, struct manifest *m,
                emb_err *err) {
  struct env *env = core->env;
  char path[PATH_BYTES];
  struct blocks w = {core, NULL, core->salt + generation, NULL, 0, 0, 0};
  struct gather g = {core, NULL, 0, 0};
  int rc = EMB_OK, sealed = EMB_OK;
  dump_path(path, sizeof path, core->dir, generation);
  /* Reuse the blocks of the index before the last one: a full disk has no
  ** others. */
  if (!core->temporary) {
    reserve_index_begin(core, generation);
  }
  w.os = reserve_open(core, path, ENV_WRITE | ENV_CREATE | ENV_DIRECT, &w.file);
  if (w.os) {
    dump_undo(core, generation);
    return err_os(err, EMB_CANTOPEN, w.os, "cannot create %s", path);
  }
  w.blocks = env->map(env, (BLOCKS_BUFFER + 1) * (size_t)DUMP_BLOCK, 0);
  if (!w.blocks) {
    rc = EMB_NOMEM;
  }
  uint64_t keys = 0, tail = UINT64_MAX;
  if (!rc) {
    dump_sizes(&w);
    for (uint32_t p = 0; !rc && !w.os && p < index_parts(&core->index); p++) {
      rc = calls->stop(calls->arg) ? EMB_INTERRUPT
                                   : dump_partition(&w, slot, &g, p);
      keys += g.count;
    }
    if (!rc && !w.os && calls->seal) {
      rc = sealed = calls->seal(calls->arg, &tail);
    }
    dump_extents(&w, calls, tail);
    if (w.blocks[w.filled].count) {
      blocks_finish(&w);
    }
    blocks_flush(&w);
  }
  if (!rc && !w.os && !core->temporary &&
      !EMB_SEED(SEED_INDEX_FILE_NOT_SYNCED)) {
    w.os = env->sync(env, w.file);
  }
  if (!EMB_SEED(SEED_INDEX_FILE_NOT_CLOSED)) {
    env->close(env, w.file);
  }
  if (!rc && !w.os && !core->temporary &&
      !EMB_SEED(SEED_INDEX_DIR_NOT_SYNCED)) {
    w.os = core_sync_names(core);
  }
  if (w.blocks && !EMB_SEED(SEED_CHECKPOINT_LEAKS_MEMORY)) {
    env->unmap(env, w.blocks, (BLOCKS_BUFFER + 1) * (size_t)DUMP_BLOCK);
  }
  env->release(env, g.pairs);
  m->index_generation = generation;
  m->index_blocks = w.written;
  m->keys = keys;
  if (rc || w.os) {
    dump_undo(core, generation);
    return sealed ? sealed
           : rc   ? err_set(err, rc,
                          rc == EMB_NOMEM ? "out of memory" : "interrupted")
                  : err_os(err, EMB_IOERR, w.os, "cannot write %s", path);
  }
  return EMB_OK;
}

/* ---- loading ------------------------------------------------------------- */

/* The sizes are only a hint.  A hint that asks for more room than the keys need
** is ignored. */
static int load_sizes(struct core *core, const struct block *block,
                      uint64_t keys) {
  struct index *index = &core->index;
  uint64_t all = 0;
  for (uint32_t p = 0; p < block->count; p++) {
    all += block->u.sizes[p];
  }
  if (block->count != index_parts(index) || all > 2 * keys) {
    return EMB_OK;
  }
  for (uint32_t p = 0; p < block->count; p++) {
    int rc = index_reserve(index, p, block->u.sizes[p]);
    if (rc) {
      return rc;
    }
  }
  return EMB_OK;
}

static int load_entries(struct core *core, const struct block *block) {
  for (uint32_t i = 0; i < block->count; i++) {
    int64_t key = (int64_t)block->u.pairs[i * 2];
    uint64_t address = block->u.pairs[i * 2 + 1];
    if (!address || address > WORD_ADDRESS_MASK) {
      return EMB_CORRUPT;
    }
    int rc = row_load(core, key, address);
    if (rc) {
      return rc == EMB_NOMEM ? rc : EMB_CORRUPT;
    }
  }
  return EMB_OK;
}

/* File slots that may be beyond the end of the log file, because nothing had
** been written there when the owner died: a terabyte of frames. */
#define FILE_SLOTS_BEYOND (UINT64_C(1) << 22)

/* Returns an extent's due time from the file, or 0 if it cannot be trusted: it
** depends on the times to live at that time, and later writes may have lowered
** it. */
static uint32_t trusted_due(const struct core *core, const struct manifest *m,
                            uint64_t number, uint64_t due) {
  char text[SCHEMA_TEXT_BYTES];
  int old = m->clean || number < m->replay >> core->layout.extent_bits;
  return old && schema_print(&core->schema, text, NULL) == EMB_OK &&
                 strcmp(text, m->schema) == 0
             ? (uint32_t)due
             : 0;
}

static int load_extents(struct core *core, const struct block *block,
                        const struct manifest *m, uint64_t log_bytes) {
  struct log *log = &core->log;
  uint64_t slots = log_bytes / core->layout.extent_bytes + FILE_SLOTS_BEYOND;
  for (uint32_t i = 0; i < block->count; i++) {
    uint64_t number = block->u.pairs[i * 2], phys = block->u.pairs[i * 2 + 1];
    uint64_t due = phys >> DUE_SHIFT;
    phys = m->format >= 3 ? (uint32_t)phys : phys;
    if (number >> (WORD_ADDRESS_BITS - core->layout.slot_bits -
                   core->layout.extent_bits) ||
        number < log->first || phys >= EXTENT_NOWHERE || phys > slots ||
        (log_extents_used(log) && number - log->first >= LOG_SPAN_MAX) ||
        (phys < log->phys_end &&
         (log->phys_used[phys / 64] >> (phys % 64) & 1))) {
      return EMB_CORRUPT;
    }
    if (log_extents_used(log) == 0) {
      log->first = number;
    }
    int rc = log_adopt(log, number, (uint32_t)phys);
    if (rc) {
      return rc;
    }
    atomic_store(&log_extent(log, number)->due,
                 ttl_any(&core->schema.ttl) ? trusted_due(core, m, number, due)
                                            : 0);
  }
  return EMB_OK;
}

struct live {
  struct core *core;
  int bad;
};

static void count_live(void *arg, int64_t key, uint64_t word) {
  struct live *live = arg;
  struct log *log = &live->core->log;
  uint64_t number = layout_extent(&live->core->layout, word_address(word));
  (void)key;
  uint64_t end = atomic_load(&log->tail) >> log->layout->extent_bits;
  if (number < log->first || number > end ||
      extent_phys(log_extent(log, number)) == EXTENT_NOWHERE) {
    live->bad = 1;
    return;
  }
  log_live(log, word_address(word), 1);
}

static int load_block(struct core *core, const struct block *block,
                      const struct manifest *m, uint64_t log_bytes) {
  switch (block->kind) {
  case BLOCK_SIZES:
    return load_sizes(core, block, m->keys);
  case BLOCK_ENTRIES:
    return load_entries(core, block);
  case BLOCK_EXTENTS:
    return load_extents(core, block, m, log_bytes);
  default:
    return EMB_CORRUPT;
  }
}

/* Reads the blocks of the file that m names, and loads them if `load` is
** set. */
static int read_blocks(struct core *core, const struct manifest *m, int load,
                       emb_err *err) {
  struct env *env = core->env;
  char path[PATH_BYTES];
  struct env_file *file;
  dump_path(path, sizeof path, core->dir, m->index_generation);
  int os = env->open(env, path, ENV_READ | ENV_DIRECT, &file);
  if (os) {
    return err_os(err, os == ENOENT ? EMB_CORRUPT : EMB_CANTOPEN, os,
                  "cannot open %s", path);
  }
  uint64_t log_bytes = 0, bytes = 0;
  os = env->size(env, core->log.file, &log_bytes);
  os = os ? os : env->size(env, file, &bytes);
  struct block *blocks = env->map(env, BLOCKS_BUFFER * (size_t)DUMP_BLOCK, 0);
  int rc = blocks ? EMB_OK : err_set(err, EMB_NOMEM, "out of memory");
  uint64_t salt = core->salt + m->index_generation;
  if (!rc && !os &&
      (bytes / DUMP_BLOCK < m->index_blocks ||
       m->keys / BLOCK_PAIRS > m->index_blocks)) {
    rc = err_set(err, EMB_CORRUPT,
                 "%s: %llu bytes are not %llu blocks with %llu keys", path,
                 (unsigned long long)bytes, (unsigned long long)m->index_blocks,
                 (unsigned long long)m->keys);
  }
  for (uint64_t at = 0; !rc && !os && at < m->index_blocks;) {
    uint64_t n = m->index_blocks - at;
    n = n < BLOCKS_BUFFER ? n : BLOCKS_BUFFER;
    os = env->read(env, file, blocks, n * DUMP_BLOCK, at * DUMP_BLOCK);
    for (uint64_t i = 0; !rc && !os && i < n; i++, at++) {
      int valid = blocks_valid(&blocks[i], salt, at);
      rc = !valid ? EMB_CORRUPT
           : load ? load_block(core, &blocks[i], m, log_bytes)
                  : EMB_OK;
      if (rc == EMB_NOMEM) {
        err_set(err, rc, "out of memory");
      } else if (rc) {
        err_set(err, rc, "%s: block %llu (offset %llu) %s", path,
                (unsigned long long)at, (unsigned long long)at * DUMP_BLOCK,
                valid ? "holds an impossible entry" : "is damaged");
      }
    }
  }
  env->close(env, file);
  if (blocks) {
    env->unmap(env, blocks, BLOCKS_BUFFER * (size_t)DUMP_BLOCK);
  }
  return os ? err_os(err, EMB_IOERR, os, "cannot read %s", path) : rc;
}

int dump__load(struct core *core, const struct manifest *m, emb_err *err) {
  if (m->index_blocks == 0) {
    return EMB_OK; /* nothing was ever written */
  }
  int rc = read_blocks(core, m, 1, err);
  if (rc) {
    return rc;
  }
  struct live live = {core, 0};
  for (uint32_t p = 0; p < index_parts(&core->index); p++) {
    index_each(&core->index, p, count_live, &live);
  }
  if (live.bad || index_count(&core->index) != m->keys) {
    char path[PATH_BYTES];
    dump_path(path, sizeof path, core->dir, m->index_generation);
    return err_set(err, EMB_CORRUPT, "%s does not fit its manifest", path);
  }
  atomic_store(&core->count, (int64_t)m->keys);
  return EMB_OK;
}

int dump_check(struct core *core, const struct manifest *m, emb_err *err) {
  return m->index_blocks ? read_blocks(core, m, 0, err) : EMB_OK;
}
