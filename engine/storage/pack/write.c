/* SPDX-License-Identifier: MIT
**
** write.c -- writing a pack; see pack.h.
**
** SLOTS     A block of rows is gathered in a slot, packed there, and added to
**           the file.  Without a thread, a writer has one slot.  With a thread
**           (pack_hurry) it has a ring of SLOTS slots.  The thread packs full
**           slots, and so does the writer when it would otherwise have to wait:
**
**             empty --gathered--> full --taken--> taken --packed--> ready
**               ^-----------------added to the file by the writer-----'
**
**           A slot that is empty or ready belongs to the writer; a taken slot
**           belongs to the thread that took it.  Only the writer touches files.
*/
#include "write.h"

#include <string.h>

#include "engine/base/debug.h"

static int write_out_of_memory(emb_err *err) {
  return err_set(err, EMB_NOMEM, "out of memory");
}

/* ---- blocks -------------------------------------------------------------- */

/* Writes a block whose stored form is already in place after the room for its
** header. */
static int block_write(struct pack_writer *w, struct pack_block *block,
                       uint64_t position, emb_err *err) {
  char *at = sink_room(&w->sink);
  block->sum = block_sum(block, at + sizeof *block, w->head.sum, position);
  memcpy(at, block, sizeof *block);
  w->blocks++;
  return sink__add(&w->sink, sizeof *block + block->stored_bytes, err);
}

/* Writes `count` items of `each` bytes as an uncompressed block. */
static int emit_plain(struct pack_writer *w, uint32_t kind, const void *items,
                      uint32_t count, size_t each, emb_err *err) {
  uint32_t n = (uint32_t)(count * each);
  struct pack_block block = {
      .kind = kind, .stored_bytes = n, .raw_bytes = n, .count = count};
  memcpy(sink_room(&w->sink) + sizeof block, items, n);
  return block_write(w, &block,
                     kind == PACK_LAST ? PACK_END_POSITION : w->blocks, err);
}

/* ---- rows ---------------------------------------------------------------- */

static void to_planes(const struct pack_writer *w, struct slot *slot) {
  char *to = slot->raw;
  const char *from = slot->values;
  uint32_t n = slot->count;
  memcpy(to, slot->ops, n);
  to = block_planes((char *)slot->keys, 8, n, 1, 8, to + n);
  to = block_planes((char *)slot->versions, 8, n, 1, 8, to);
  for (uint32_t i = 0; i < w->head.column_count; i++) {
    const struct pack_column *c = &w->head.columns[i];
    to = block_planes(from, w->value_bytes, slot->puts, c->bytes / c->width,
                      c->width, to);
    from += c->bytes;
  }
  slot->raw_bytes = (size_t)(to - slot->raw);
}

/* Sets stored_bytes to 0 if memory ran out; no other error is possible. */
static void block_pack(struct pack_writer *w, struct slot *slot,
                       ZSTD_CCtx *zstd) {
  to_planes(w, slot);
  slot->stored_bytes = slot->raw_bytes;
  if (w->level) {
    size_t n =
        ZSTD_compressCCtx(zstd, slot->bytes, ZSTD_compressBound(w->raw_room),
                          slot->raw, slot->raw_bytes, w->level);
    slot->stored_bytes = ZSTD_isError(n)       ? 0
                         : n < slot->raw_bytes ? n
                                               : slot->raw_bytes;
  }
}

static int note_offset(struct pack_writer *w, emb_err *err) {
  if (w->end.row_blocks == w->offset_room) {
    uint64_t room = w->offset_room * 2 + 64;
    void *larger = w->env->resize(w->env, w->offsets, room * OFFSET_BYTES);
    if (!larger) {
      return write_out_of_memory(err);
    }
    w->offsets = larger;
    w->offset_room = room;
  }
  w->offsets[w->end.row_blocks++] = sink_offset(&w->sink);
  return EMB_OK;
}

/* Adds a packed slot to the file, and empties the slot. */
static int add_slot(struct pack_writer *w, struct slot *slot, emb_err *err) {
  struct pack_block block = {.kind = PACK_ROWS,
                             .stored_bytes = (uint32_t)slot->stored_bytes,
                             .raw_bytes = (uint32_t)slot->raw_bytes,
                             .count = slot->count,
                             .puts = slot->puts};
  slot->count = 0;
  slot->puts = 0;
  if (!slot->stored_bytes) {
    return write_out_of_memory(err);
  }
  memcpy(sink_room(&w->sink) + sizeof block,
         slot->stored_bytes < slot->raw_bytes ? slot->bytes : slot->raw,
         slot->stored_bytes);
  int rc = note_offset(w, err);
  return rc ? rc : block_write(w, &block, w->blocks, err);
}

int write__block(struct pack_writer *w, struct pack_block *block,
                 const char *stored, emb_err *err) {
  emb_assert(!w->thread && !w->slots[w->now].count);
  memcpy(sink_room(&w->sink) + sizeof *block, stored, block->stored_bytes);
  int rc = block->kind == PACK_ROWS ? note_offset(w, err) : EMB_OK;
  rc = rc ? rc : block_write(w, block, w->blocks, err);
  w->failed |= rc;
  return rc;
}

/* ---- the thread ---------------------------------------------------------- */

static void set_state(struct pack_writer *w, struct slot *slot,
                      enum slot_state state) {
  pthread_mutex_lock(&w->lock);
  emb_assert(state == SLOT_FULL ? slot->state == SLOT_EMPTY
                                : slot->state == SLOT_TAKEN);
  slot->state = state;
  pthread_cond_broadcast(&w->changed);
  pthread_mutex_unlock(&w->lock);
}

/* Takes the first full slot from this one on for the caller; NULL: there is
** none.  Under the lock. */
static struct slot *take_full(struct pack_writer *w, uint32_t from) {
  for (uint32_t i = 0; i < SLOTS; i++) {
    struct slot *slot = &w->slots[(from + i) % SLOTS];
    if (slot->state == SLOT_FULL) {
      slot->state = SLOT_TAKEN;
      return slot;
    }
  }
  return NULL;
}

static void pack_write_run(void *arg) {
  struct pack_writer *w = arg;
  for (uint32_t from = 0;;) {
    struct slot *slot = NULL;
    pthread_mutex_lock(&w->lock);
    while (!w->stopping && !(slot = take_full(w, from))) {
      pthread_cond_wait(&w->changed, &w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    if (!slot) {
      return;
    }
    block_pack(w, slot, w->thread_zstd);
    set_state(w, slot, SLOT_READY);
    from = (uint32_t)(slot - w->slots) + 1;
  }
}

static void stop_thread(struct pack_writer *w) {
  if (w->thread) {
    pthread_mutex_lock(&w->lock);
    w->stopping = 1;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    w->env->thread_join(w->env, w->thread);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    w->thread = NULL;
  }
}

/* Waits until no other thread has the slot, and packs other slots while
** waiting. */
static enum slot_state write_wait_for(struct pack_writer *w, uint32_t at) {
  struct slot *slot = &w->slots[at];
  pthread_mutex_lock(&w->lock);
  while (slot->state == SLOT_FULL || slot->state == SLOT_TAKEN) {
    struct slot *full = take_full(w, at);
    if (full) {
      pthread_mutex_unlock(&w->lock);
      block_pack(w, full, w->zstd);
      set_state(w, full, SLOT_READY);
      pthread_mutex_lock(&w->lock);
    } else {
      pthread_cond_wait(&w->changed, &w->lock);
    }
  }
  enum slot_state state = slot->state;
  slot->state = SLOT_EMPTY;
  pthread_mutex_unlock(&w->lock);
  return state;
}

/* Adds the slot to the file if it holds rows. */
static int write_empty_slot(struct pack_writer *w, uint32_t at, emb_err *err) {
  return write_wait_for(w, at) == SLOT_READY ? add_slot(w, &w->slots[at], err)
                                             : EMB_OK;
}

/* Completes the current slot. */
static int finish_slot(struct pack_writer *w, emb_err *err) {
  struct slot *slot = &w->slots[w->now];
  if (!slot->count) {
    return EMB_OK;
  }
  if (!w->thread) {
    block_pack(w, slot, w->zstd);
    return add_slot(w, slot, err);
  }
  set_state(w, slot, SLOT_FULL);
  w->now = (w->now + 1) % SLOTS;
  return write_empty_slot(w, w->now, err);
}

/* Makes sure that all rows are in the file; may be called repeatedly. */
static int write_finish_rows(struct pack_writer *w, emb_err *err) {
  int rc = finish_slot(w, err);
  for (uint32_t i = 0; !rc && w->thread && i < SLOTS; i++) {
    rc = write_empty_slot(w, (w->now + i) % SLOTS, err);
  }
  return rc;
}

static int write_add_row(struct pack_writer *w, const struct pack_row *row,
                         emb_err *err) {
  struct slot *slot = &w->slots[w->now];
  emb_assert(slot->state == SLOT_EMPTY && slot->count < w->head.block_rows);
  uint32_t i = slot->count++;
  slot->ops[i] = (uint8_t)row->op;
  slot->keys[i] = row->key;
  slot->versions[i] = row->version;
  w->end.rows[row->op]++;
  if (row->op == PACK_PUT) {
    memcpy(slot->values + (size_t)slot->puts++ * w->value_bytes, row->value,
           w->value_bytes);
  }
  return slot->count == w->head.block_rows ? finish_slot(w, err) : EMB_OK;
}

int pack_add(struct pack_writer *w, const struct pack_row *row, emb_err *err) {
  emb_assert(!w->complete && !w->end.entries && !w->end.texts_offset);
  int rc = write_add_row(w, row, err);
  w->failed |= rc;
  emb_check_some(16, w->failed || pack_writer_valid(w));
  return rc;
}

/* ---- texts (texts.c) ----------------------------------------------------- */

int write__begin_texts(struct pack_writer *w, emb_err *err) {
  int rc = w->end.texts_offset ? EMB_OK : write_finish_rows(w, err);
  if (!rc && !w->end.texts_offset) {
    w->end.texts_offset = sink_offset(&w->sink);
  }
  return rc;
}

int write__texts(struct pack_writer *w, emb_err *err) {
  uint32_t n = w->texts_filled;
  struct pack_block block = {.kind = PACK_BYTES,
                             .stored_bytes = n,
                             .raw_bytes = n,
                             .count = w->texts_begun};
  const char *stored = w->texts;
  if (w->level) {
    size_t packed = ZSTD_compressCCtx(w->zstd, w->texts_packed,
                                      ZSTD_compressBound(PACK_TEXTS_BYTES),
                                      w->texts, n, w->level);
    if (ZSTD_isError(packed)) {
      return write_out_of_memory(err); /* the only possible error */
    }
    if (packed < n) {
      block.stored_bytes = (uint32_t)packed;
      stored = w->texts_packed;
    }
  }
  w->texts_filled = w->texts_begun = 0;
  w->end.text_blocks++;
  return write__block(w, &block, stored, err);
}

static int write_finish_texts(struct pack_writer *w, emb_err *err) {
  uint64_t rows = 0;
  if (!w->texts) {
    return EMB_OK;
  }
  for (int i = 0; i < PACK_OPS; i++) {
    rows += w->end.rows[i];
  }
  int rc = w->text_count == rows
               ? write__begin_texts(w, err)
               : err_set(err, EMB_MISUSE, "%llu texts for %llu rows",
                         (unsigned long long)w->text_count,
                         (unsigned long long)rows);
  return rc || !w->texts_filled ? rc : write__texts(w, err);
}

/* ---- index and directory ------------------------------------------------- */

static int finish_entries(struct pack_writer *w, emb_err *err) {
  uint32_t n = w->entry_count;
  w->entry_count = 0;
  return n ? emit_plain(w, PACK_ENTRIES, w->entries, n, ENTRY_BYTES, err)
           : EMB_OK;
}

static int write_add_entry(struct pack_writer *w, int64_t key, uint64_t row,
                           emb_err *err) {
  int rc = w->end.entries ? EMB_OK : write_finish_rows(w, err);
  if (rc) {
    return rc;
  }
  if (!w->end.entries++) {
    w->end.index_offset = sink_offset(&w->sink);
  }
  char *at = w->entries + w->entry_count++ * ENTRY_BYTES;
  memcpy(at, &key, 8);
  memcpy(at + 8, &row, 8);
  return w->entry_count == PACK_ENTRIES_MAX ? finish_entries(w, err) : EMB_OK;
}

int pack_add_entry(struct pack_writer *w, int64_t key, uint64_t row,
                   emb_err *err) {
  emb_assert(!w->complete);
  int rc = write_add_entry(w, key, row, err);
  w->failed |= rc;
  emb_check_some(16, w->failed || pack_writer_valid(w));
  return rc;
}

static int write_directory(struct pack_writer *w, emb_err *err) {
  int rc = EMB_OK;
  w->end.directory_offset = sink_offset(&w->sink);
  if (!w->end.entries) {
    w->end.index_offset = w->end.directory_offset;
  }
  for (uint64_t i = 0; !rc && i < w->end.row_blocks; i += PACK_OFFSETS_MAX) {
    uint64_t n = w->end.row_blocks - i;
    n = n < PACK_OFFSETS_MAX ? n : PACK_OFFSETS_MAX;
    rc = emit_plain(w, PACK_OFFSETS, w->offsets + i, (uint32_t)n, OFFSET_BYTES,
                    err);
  }
  return rc;
}

/* ---- beginning and end --------------------------------------------------- */

static void free_slot(struct env *env, struct slot *slot) {
  env->release(env, slot->ops);
  env->release(env, slot->keys);
  env->release(env, slot->versions);
  env->release(env, slot->values);
  env->release(env, slot->raw);
  env->release(env, slot->bytes);
  memset(slot, 0, sizeof *slot);
}

static int make_slot(struct pack_writer *w, struct slot *slot) {
  struct env *env = w->env;
  size_t rows = w->head.block_rows;
  slot->ops = env->allocate(env, rows);
  slot->keys = env->allocate(env, rows * sizeof *slot->keys);
  slot->versions = env->allocate(env, rows * sizeof *slot->versions);
  slot->values = env->allocate(env, rows * w->value_bytes + 1);
  slot->raw = env->allocate(env, w->raw_room);
  slot->bytes = env->allocate(env, ZSTD_compressBound(w->raw_room));
  return slot->ops && slot->keys && slot->versions && slot->values &&
         slot->raw && slot->bytes;
}

void pack_abandon(struct pack_writer *w) {
  if (!w) {
    return;
  }
  struct env *env = w->env;
  stop_thread(w);
  sink__close(&w->sink);
  ZSTD_freeCCtx(w->zstd);
  ZSTD_freeCCtx(w->thread_zstd);
  for (int i = 0; i < SLOTS; i++) {
    free_slot(env, &w->slots[i]);
  }
  env->release(env, w->entries);
  env->release(env, w->offsets);
  env->release(env, w->texts);
  env->release(env, w->texts_packed);
  env->release(env, w);
}

static int write_prepare(struct pack_writer *w, const char *path,
                         emb_err *err) {
  struct env *env = w->env;
  ZSTD_customMem memory = {block_allocate, block_release, env};
  size_t rows = w->head.block_rows;
  w->raw_room = block_raw_bytes(w->value_bytes, rows, rows);
  w->entries = env->allocate(env, FULL_BYTES);
  w->zstd = ZSTD_createCCtx_advanced(memory);
  int texts = (w->head.flags & PACK_TEXTS) != 0;
  if (texts) {
    w->texts = env->allocate(env, PACK_TEXTS_BYTES);
    w->texts_packed = env->allocate(env, ZSTD_compressBound(PACK_TEXTS_BYTES));
  }
  if (!make_slot(w, &w->slots[0]) || !w->entries || !w->zstd ||
      (texts && !(w->texts && w->texts_packed))) {
    return write_out_of_memory(err);
  }
  return sink__open(&w->sink, env, path,
                    sizeof(struct pack_block) + FULL_BYTES + w->raw_room, err);
}

int pack_create(struct env *env, const char *path, const struct pack_head *head,
                int level, struct pack_writer **out, emb_err *err) {
  struct pack_writer *w = env->allocate(env, sizeof *w);
  *out = NULL;
  if (!w) {
    return write_out_of_memory(err);
  }
  w->env = env;
  w->sink.env = env;
  w->head = *head;
  w->level = level;
  w->value_bytes = pack_value_bytes(head);
  memcpy(w->head.magic, PACK_MAGIC, sizeof w->head.magic);
  w->head.format = head->flags & PACK_TEXTS ? PACK_FORMAT_TEXTS : PACK_FORMAT;
  w->head.block_rows = pack__block_rows(w->value_bytes);
  int os = env->random(env, &w->head.id, sizeof w->head.id);
  int rc = os ? err_os(err, EMB_IOERR, os, "no random number")
              : write_prepare(w, path, err);
  w->head.sum = hash_sum((char *)&w->head + 8, sizeof w->head - 8, 0, 0);
  if (!rc) {
    memcpy(sink_room(&w->sink), &w->head, sizeof w->head);
    rc = sink__add(&w->sink, sizeof w->head, err);
  }
  if (rc) {
    pack_abandon(w);
    return rc;
  }
  *out = w;
  return EMB_OK;
}

void pack_hurry(struct pack_writer *w, int queue_kind) {
  struct env *env = w->env;
  ZSTD_customMem memory = {block_allocate, block_release, env};
  int good = 1;
  sink__queue(&w->sink, queue_kind);
  for (int i = 1; i < SLOTS && good; i++) {
    good = make_slot(w, &w->slots[i]);
  }
  if (!good || !w->level) {
    return;
  }
  w->thread_zstd = ZSTD_createCCtx_advanced(memory);
  if (!w->thread_zstd) {
    return;
  }
  pthread_mutex_init(&w->lock, NULL);
  pthread_cond_init(&w->changed, NULL);
  if (env->thread_start(env, pack_write_run, w, &w->thread)) {
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    w->thread = NULL;
  }
}

static int write_end(struct pack_writer *w, emb_err *err) {
  w->end.file_bytes = sink_offset(&w->sink) + PACK_END_BYTES;
  int rc = emit_plain(w, PACK_LAST, &w->end, 1, sizeof w->end, err);
  return rc ? rc : sink__finish(&w->sink, err);
}

int pack_complete(struct pack_writer *w, emb_err *err) {
  emb_assert(!w->complete);
  int rc = w->failed ? err_set(err, EMB_MISUSE, "an earlier write failed")
                     : write_finish_rows(w, err);
  rc = rc ? rc : write_finish_texts(w, err);
  rc = rc ? rc : finish_entries(w, err);
  rc = rc ? rc : write_directory(w, err);
  rc = rc ? rc : write_end(w, err);
  w->complete = !rc;
  return rc;
}

int pack_finish(struct pack_writer *w, uint64_t *bytes, emb_err *err) {
  int rc = w->complete ? EMB_OK : pack_complete(w, err);
  rc = rc ? rc : sink__give_name(&w->sink, err);
  if (bytes) {
    *bytes = w->end.file_bytes;
  }
  pack_abandon(w);
  return rc;
}
