/* SPDX-License-Identifier: MIT
**
** write.c -- writing a pack; see pack.h.
**
** MEMORY    The rows of a block as they came; the same in planes; and what is
**           to be written, which leaves in pieces of WRITE_BYTES.
** DISK      Past the page cache where the file system allows it: a file as long
**           as the table would push everything else out of it.
*/
#include "block.h"

#include <errno.h>
#include <string.h>

#define UNIT 4096u
#define WRITE_BYTES (1u << 20)

struct pack_writer {
  struct env *env;
  struct env_file *file;
  char *path, *new_path;
  int created;
  uint64_t identity[2]; /* of the new file */
  struct pack_head head;
  int level;
  int failed; /* an add gave an error: there will be no file */
  uint32_t value_bytes;

  uint32_t count, puts; /* in the present block of rows */
  uint8_t *ops;
  int64_t *keys;
  uint64_t *versions;
  char *values; /* of the puts, one after the other */
  char *raw;
  ZSTD_CCtx *zstd;

  struct pack_end end;
  uint64_t blocks;   /* of all kinds */
  uint64_t *offsets; /* of blocks of rows; of env->resize */
  uint64_t offset_room;
  char *entries; /* FULL_BYTES: of the present block of the index */
  uint32_t entry_count;

  char *out; /* written_at is where it belongs in the file */
  size_t out_bytes, out_filled;
  uint64_t written_at;
};

static int out_of_memory(emb_err *err) {
  return err_set(err, EMB_NOMEM, "out of memory");
}

/* ---- the file --------------------------------------------------------------
 */

/* Power that failed while a pack was written may have left zeros only. */
static int is_nothing(const char *bytes, size_t n) {
  while (n && !*bytes) {
    bytes++;
    n--;
  }
  return n == 0;
}

/* May it be replaced?  Absent, empty, or a pack; cut_off: or one that was never
** complete. */
static int check_replaced(struct env *env, const char *path, int cut_off,
                          emb_err *err) {
  struct env_file *file;
  uint64_t bytes = 0;
  char magic[512] = {0}; /* a sector: it was written as a whole or not */
  int os = env->open(env, path, ENV_READ, &file);
  if (os == ENOENT) {
    return EMB_OK;
  }
  if (!os) {
    os = env->size(env, file, &bytes);
    size_t n = bytes < sizeof magic ? (size_t)bytes : sizeof magic;
    os = os || !n ? os : env->read(env, file, magic, n, 0);
    env->close(env, file);
  }
  if (os) {
    return err_os(err, EMB_CANTOPEN, os, "cannot replace %s", path);
  }
  return bytes && memcmp(magic + 8, PACK_MAGIC, 8) != 0 &&
                 !(cut_off && is_nothing(magic, sizeof magic))
             ? err_set(err, EMB_CANTOPEN,
                       "%s is there and no file of emb: it is not replaced",
                       path)
             : EMB_OK;
}

static int create_file(struct pack_writer *w, emb_err *err) {
  struct env *env = w->env;
  int rc = check_replaced(env, w->path, 0, err);
  rc = rc ? rc : check_replaced(env, w->new_path, 1, err);
  if (rc) {
    return rc;
  }
  int os = env->unlink(env, w->new_path); /* of one that was cut off */
  os = os == ENOENT ? 0 : os;
  os = os ? os
          : env->open(env, w->new_path,
                      ENV_WRITE | ENV_CREATE | ENV_EXCLUSIVE | ENV_DIRECT,
                      &w->file);
  w->created = !os;
  os = os ? os : env->identity(env, w->new_path, w->identity);
  return os ? err_os(err, EMB_CANTOPEN, os, "cannot create %s", w->new_path)
            : EMB_OK;
}

/* Writes whole units; all: also the last one, filled up with zeros. */
static int drain(struct pack_writer *w, int all, emb_err *err) {
  size_t bytes = w->out_filled / UNIT * UNIT, rest = w->out_filled - bytes;
  if (all && rest) {
    memset(w->out + w->out_filled, 0, UNIT - rest);
    bytes += UNIT;
    rest = 0;
  }
  if (bytes) {
    int os = w->env->write(w->env, w->file, w->out, bytes, w->written_at);
    if (os) {
      return err_os(err, EMB_IOERR, os, "cannot write %s", w->new_path);
    }
    memmove(w->out, w->out + bytes, rest);
    w->written_at += bytes;
    w->out_filled = rest;
  }
  return EMB_OK;
}

static uint64_t offset_of_next(const struct pack_writer *w) {
  return w->written_at + w->out_filled;
}

/* A block whose stored form stands at its place in `out`. */
static int emit(struct pack_writer *w, struct pack_block *block,
                uint64_t position, emb_err *err) {
  char *at = w->out + w->out_filled;
  block->sum = block_sum(block, at + sizeof *block, w->head.sum, position);
  memcpy(at, block, sizeof *block);
  w->out_filled += sizeof *block + block->stored_bytes;
  w->blocks++;
  return w->out_filled >= WRITE_BYTES ? drain(w, 0, err) : EMB_OK;
}

static int emit_plain(struct pack_writer *w, uint32_t kind, const void *bytes,
                      size_t n, uint32_t count, uint64_t position,
                      emb_err *err) {
  struct pack_block block = {.kind = kind,
                             .stored_bytes = (uint32_t)n,
                             .raw_bytes = (uint32_t)n,
                             .count = count};
  memcpy(w->out + w->out_filled + sizeof block, bytes, n);
  return emit(w, &block, position, err);
}

/* ---- rows ---------------------------------------------------------------- */

static size_t to_planes(struct pack_writer *w) {
  char *to = w->raw;
  const char *from = w->values;
  memcpy(to, w->ops, w->count);
  to = block_planes((char *)w->keys, 8, w->count, 1, 8, to + w->count);
  to = block_planes((char *)w->versions, 8, w->count, 1, 8, to);
  for (uint32_t i = 0; i < w->head.column_count; i++) {
    const struct pack_column *c = &w->head.columns[i];
    to = block_planes(from, w->value_bytes, w->puts, c->bytes / c->width,
                      c->width, to);
    from += c->bytes;
  }
  return (size_t)(to - w->raw);
}

static int note_offset(struct pack_writer *w, emb_err *err) {
  if (w->end.row_blocks == w->offset_room) {
    uint64_t room = w->offset_room * 2 + 64;
    void *larger = w->env->resize(w->env, w->offsets, room * OFFSET_BYTES);
    if (!larger) {
      return out_of_memory(err);
    }
    w->offsets = larger;
    w->offset_room = room;
  }
  w->offsets[w->end.row_blocks++] = offset_of_next(w);
  return EMB_OK;
}

static int finish_rows(struct pack_writer *w, emb_err *err) {
  if (!w->count) {
    return EMB_OK;
  }
  size_t raw = to_planes(w), stored = 0;
  char *at = w->out + w->out_filled + sizeof(struct pack_block);
  if (w->level) {
    stored = ZSTD_compressCCtx(w->zstd, at, ZSTD_compressBound(raw), w->raw,
                               raw, w->level);
    if (ZSTD_isError(stored)) {
      return out_of_memory(err); /* nothing else can be */
    }
  }
  if (!stored || stored >= raw) {
    memcpy(at, w->raw, raw);
    stored = raw;
  }
  struct pack_block block = {.kind = PACK_ROWS,
                             .stored_bytes = (uint32_t)stored,
                             .raw_bytes = (uint32_t)raw,
                             .count = w->count,
                             .puts = w->puts};
  int rc = note_offset(w, err);
  w->count = 0;
  w->puts = 0;
  return rc ? rc : emit(w, &block, w->blocks, err);
}

static int add_row(struct pack_writer *w, const struct pack_row *row,
                   emb_err *err) {
  uint32_t i = w->count++;
  w->ops[i] = (uint8_t)row->op;
  w->keys[i] = row->key;
  w->versions[i] = row->version;
  w->end.rows[row->op]++;
  if (row->op == PACK_PUT) {
    memcpy(w->values + (size_t)w->puts++ * w->value_bytes, row->value,
           w->value_bytes);
  }
  return w->count == w->head.block_rows ? finish_rows(w, err) : EMB_OK;
}

int pack_add(struct pack_writer *w, const struct pack_row *row, emb_err *err) {
  int rc = add_row(w, row, err);
  w->failed |= rc;
  return rc;
}

/* ---- index and directory ---------------------------------------------------
 */

static int finish_entries(struct pack_writer *w, emb_err *err) {
  uint32_t n = w->entry_count;
  w->entry_count = 0;
  return n ? emit_plain(w, PACK_ENTRIES, w->entries, n * ENTRY_BYTES, n,
                        w->blocks, err)
           : EMB_OK;
}

static int add_entry(struct pack_writer *w, int64_t key, uint64_t row,
                     emb_err *err) {
  int rc = finish_rows(w, err);
  if (rc) {
    return rc;
  }
  if (!w->end.entries++) {
    w->end.index_offset = offset_of_next(w);
  }
  char *at = w->entries + w->entry_count++ * ENTRY_BYTES;
  memcpy(at, &key, 8);
  memcpy(at + 8, &row, 8);
  return w->entry_count == PACK_ENTRIES_MAX ? finish_entries(w, err) : EMB_OK;
}

int pack_add_entry(struct pack_writer *w, int64_t key, uint64_t row,
                   emb_err *err) {
  int rc = add_entry(w, key, row, err);
  w->failed |= rc;
  return rc;
}

static int write_directory(struct pack_writer *w, emb_err *err) {
  int rc = EMB_OK;
  w->end.directory_offset = offset_of_next(w);
  if (!w->end.entries) {
    w->end.index_offset = w->end.directory_offset;
  }
  for (uint64_t i = 0; !rc && i < w->end.row_blocks; i += PACK_OFFSETS_MAX) {
    uint64_t n = w->end.row_blocks - i;
    n = n < PACK_OFFSETS_MAX ? n : PACK_OFFSETS_MAX;
    rc = emit_plain(w, PACK_OFFSETS, w->offsets + i, n * OFFSET_BYTES,
                    (uint32_t)n, w->blocks, err);
  }
  return rc;
}

/* ---- beginning and end -----------------------------------------------------
 */

static void free_writer(struct pack_writer *w) {
  struct env *env = w->env;
  if (w->file) {
    env->close(env, w->file);
  }
  if (w->out) {
    env->unmap(env, w->out, w->out_bytes);
  }
  ZSTD_freeCCtx(w->zstd);
  env->release(env, w->path);
  env->release(env, w->ops);
  env->release(env, w->keys);
  env->release(env, w->versions);
  env->release(env, w->values);
  env->release(env, w->raw);
  env->release(env, w->entries);
  env->release(env, w->offsets);
  env->release(env, w);
}

/* Is the file still the one that this writer made? */
static int is_ours(struct pack_writer *w) {
  uint64_t id[2];
  return w->created && w->env->identity(w->env, w->new_path, id) == 0 &&
         id[0] == w->identity[0] && id[1] == w->identity[1];
}

void pack_abandon(struct pack_writer *w) {
  if (!w) {
    return;
  }
  if (w->created && (is_ours(w) || !w->identity[1])) {
    w->env->unlink(w->env, w->new_path);
  }
  free_writer(w);
}

static int allocate(struct pack_writer *w, const char *path, emb_err *err) {
  struct env *env = w->env;
  size_t n = strlen(path), rows = w->head.block_rows;
  size_t raw = block_raw_bytes(w->value_bytes, rows, rows);
  ZSTD_customMem memory = {block_allocate, block_release, env};
  if (n + 16 > PACK_PATH_BYTES) {
    return err_set(err, EMB_RANGE, "a path has at most %d bytes",
                   PACK_PATH_BYTES - 16);
  }
  w->out_bytes = WRITE_BYTES + UNIT + sizeof(struct pack_block) + FULL_BYTES +
                 ZSTD_compressBound(raw);
  w->path = env->allocate(env, (n + 8) * 2);
  w->ops = env->allocate(env, rows);
  w->keys = env->allocate(env, rows * sizeof *w->keys);
  w->versions = env->allocate(env, rows * sizeof *w->versions);
  w->values = env->allocate(env, rows * w->value_bytes);
  w->raw = env->allocate(env, raw);
  w->entries = env->allocate(env, FULL_BYTES);
  w->out = env->map(env, w->out_bytes, 0);
  w->zstd = ZSTD_createCCtx_advanced(memory);
  if (!w->path || !w->ops || !w->keys || !w->versions || !w->values ||
      !w->raw || !w->entries || !w->out || !w->zstd) {
    return out_of_memory(err);
  }
  memcpy(w->path, path, n + 1);
  w->new_path = w->path + n + 1;
  snprintf(w->new_path, n + 8, "%s-new", path);
  return EMB_OK;
}

int pack_create(struct env *env, const char *path, const struct pack_head *head,
                int level, struct pack_writer **out, emb_err *err) {
  struct pack_writer *w = env->allocate(env, sizeof *w);
  *out = NULL;
  if (!w) {
    return out_of_memory(err);
  }
  w->env = env;
  w->head = *head;
  w->level = level;
  w->value_bytes = pack_value_bytes(head);
  memcpy(w->head.magic, PACK_MAGIC, sizeof w->head.magic);
  w->head.format = PACK_FORMAT;
  w->head.block_rows = pack_block_rows(w->value_bytes);
  int os = env->random(env, &w->head.id, sizeof w->head.id);
  int rc = os ? err_os(err, EMB_IOERR, os, "no random number")
              : allocate(w, path, err);
  rc = rc ? rc : create_file(w, err);
  if (rc) {
    pack_abandon(w);
    return rc;
  }
  w->head.sum = hash_sum((char *)&w->head + 8, sizeof w->head - 8, 0, 0);
  memcpy(w->out, &w->head, sizeof w->head);
  w->out_filled = sizeof w->head;
  *out = w;
  return EMB_OK;
}

static int write_end(struct pack_writer *w, emb_err *err) {
  w->end.file_bytes = offset_of_next(w) + PACK_END_BYTES;
  int rc = emit_plain(w, PACK_LAST, &w->end, sizeof w->end, 1,
                      PACK_END_POSITION, err);
  rc = rc ? rc : drain(w, 1, err);
  if (rc) {
    return rc;
  }
  int os = w->env->truncate(w->env, w->file, w->end.file_bytes);
  os = os ? os : w->env->sync(w->env, w->file);
  return os ? err_os(err, EMB_IOERR, os, "cannot write %s", w->new_path)
            : EMB_OK;
}

static int give_name(struct pack_writer *w, emb_err *err) {
  struct env *env = w->env;
  if (!is_ours(w)) {
    return err_set(err, EMB_BUSY, "somebody else writes %s too", w->path);
  }
  int os = env->rename(env, w->new_path, w->path);
  if (os) {
    return err_os(err, EMB_IOERR, os, "cannot write %s", w->path);
  }
  w->created = 0;
  char *slash = strrchr(w->path, '/');
  const char *dir = slash ? w->path : ".";
  if (slash) {
    slash[slash == w->path] = 0;
  }
  os = env->sync_dir(env, dir);
  return os ? err_os(err, EMB_IOERR, os, "cannot sync %s", dir) : EMB_OK;
}

int pack_finish(struct pack_writer *w, uint64_t *bytes, emb_err *err) {
  int rc = w->failed ? err_set(err, EMB_MISUSE, "an earlier write failed")
                     : finish_rows(w, err);
  rc = rc ? rc : finish_entries(w, err);
  rc = rc ? rc : write_directory(w, err);
  rc = rc ? rc : write_end(w, err);
  rc = rc ? rc : give_name(w, err);
  if (bytes) {
    *bytes = w->end.file_bytes;
  }
  pack_abandon(w);
  return rc;
}
