/* SPDX-License-Identifier: MIT
**
** read.c -- opening a pack and reading its rows; see pack.h.
*/
#include "read.h"

#include "engine/base/debug.h"

static int read_out_of_memory(emb_err *err) {
  return err_set(err, EMB_NOMEM, "out of memory");
}

int read__bad(const struct pack_reader *r, uint64_t offset, const char *what,
              emb_err *err) {
  return err_set(err, EMB_CORRUPT, "%s is damaged at byte %llu: %s", r->path,
                 (unsigned long long)offset, what);
}

/* ---- blocks -------------------------------------------------------------- */

static int read_bytes(struct pack_reader *r, void *to, size_t n,
                      uint64_t offset, emb_err *err) {
  int os = r->env->read(r->env, r->file, to, n, offset);
  return os ? err_os(err, EMB_IOERR, os, "cannot read %s", r->path) : EMB_OK;
}

int read__block(struct pack_reader *r, const struct read_request *request,
                struct pack_block *block, emb_err *err) {
  uint64_t limit = r->end.file_bytes, offset = request->offset;
  if (offset > limit || limit - offset < sizeof *block) {
    return read__bad(r, offset, "no block can be at this position", err);
  }
  int rc = read_bytes(r, block, sizeof *block, offset, err);
  if (rc) {
    return rc;
  }
  if (block->kind != request->kind || block->stored_bytes > request->room ||
      block->stored_bytes > limit - offset - sizeof *block) {
    return read__bad(r, offset, "not the expected block", err);
  }
  rc = read_bytes(r, request->to, block->stored_bytes, offset + sizeof *block,
                  err);
  if (!rc && !EMB_SEED(SEED_BLOCK_SUM_UNCHECKED) &&
      (block->sum !=
           block_sum(block, request->to, r->head.sum, request->position) ||
       block->zero)) {
    rc = read__bad(r, offset, "checksum of a block", err);
  }
  return rc;
}

int read__plain(struct pack_reader *r, uint32_t kind, uint64_t i,
                emb_err *err) {
  int entries = kind == PACK_ENTRIES;
  uint64_t position = r->end.row_blocks + r->end.text_blocks + i;
  uint64_t offset = i * (FULL_BYTES + sizeof(struct pack_block)) +
                    (entries ? r->end.index_offset : r->end.directory_offset);
  uint64_t left = entries ? r->end.entries - i * PACK_ENTRIES_MAX
                          : r->end.row_blocks - i * PACK_OFFSETS_MAX;
  uint32_t most = entries ? PACK_ENTRIES_MAX : PACK_OFFSETS_MAX;
  uint32_t count = left < most ? (uint32_t)left : most;
  struct pack_block block;
  position += entries ? 0 : read_index_blocks(r);
  if (r->plain_have == position) {
    return EMB_OK;
  }
  r->plain_have = UINT64_MAX;
  int rc = read__block(
      r, &(struct read_request){offset, position, kind, r->plain, FULL_BYTES},
      &block, err);
  if (!rc &&
      (block.count != count ||
       block.stored_bytes != count * (entries ? ENTRY_BYTES : OFFSET_BYTES))) {
    rc = read__bad(r, offset, "length of a block", err);
  }
  r->plain_have = rc ? UINT64_MAX : position;
  return rc;
}

/* ---- rows ---------------------------------------------------------------- */

/* Finds the offset of a block of rows. */
static int locate_block(struct pack_reader *r, uint64_t b, uint64_t *offset,
                        emb_err *err) {
  if (b == r->next) {
    *offset = r->next_offset;
    return EMB_OK;
  }
  int rc = read__plain(r, PACK_OFFSETS, b / PACK_OFFSETS_MAX, err);
  if (!rc) {
    memcpy(offset, r->plain + b % PACK_OFFSETS_MAX * OFFSET_BYTES,
           OFFSET_BYTES);
    rc = *offset < sizeof r->head || *offset >= read_rows_end(r)
             ? read__bad(r, r->end.directory_offset, "a block's place", err)
             : EMB_OK;
  }
  return rc;
}

/* Do a block's numbers agree with each other and with the file's head and
** end? */
static int read_check_rows(const struct pack_reader *r, uint64_t b,
                           const struct pack_block *block) {
  uint64_t rows = r->rows - b * r->head.block_rows;
  uint32_t want =
      rows < r->head.block_rows ? (uint32_t)rows : r->head.block_rows;
  return block->count == want && block->puts <= want &&
         block->raw_bytes ==
             block_raw_bytes(r->value_bytes, want, block->puts) &&
         block->stored_bytes <= block->raw_bytes;
}

/* Converts a block from planes to rows. */
static int planes_to_rows(struct pack_reader *r, uint64_t offset,
                          const char *from, emb_err *err) {
  uint32_t n = r->block.count, puts = 0;
  const uint8_t *ops = (const uint8_t *)from;
  char *values = r->values;
  for (uint32_t i = 0; i < n; i++) {
    if (ops[i] >= PACK_OPS) {
      return read__bad(r, offset, "state of a key", err);
    }
    r->value_at[i] = ops[i] == PACK_PUT ? puts++ : UINT32_MAX;
    r->ops[i] = ops[i];
  }
  if (puts != r->block.puts) {
    return read__bad(r, offset, "number of rows with a value", err);
  }
  from = block_rows(from + n, n, 1, 8, (char *)r->keys, 8);
  from = block_rows(from, n, 1, 8, (char *)r->versions, 8);
  for (uint32_t i = 0; i < r->head.column_count; i++) {
    const struct pack_column *c = &r->head.columns[i];
    from = block_rows(from, puts, c->bytes / c->width, c->width, values,
                      r->value_bytes);
    values += c->bytes;
  }
  return EMB_OK;
}

int read__rows(struct pack_reader *r, uint64_t b, emb_err *err) {
  uint64_t offset;
  const char *raw = r->stored;
  r->have = UINT64_MAX;
  int rc = locate_block(r, b, &offset, err);
  rc = rc ? rc
          : read__block(r,
                        &(struct read_request){offset, b, PACK_ROWS, r->stored,
                                               r->raw_room},
                        &r->block, err);
  if (!rc && !read_check_rows(r, b, &r->block)) {
    rc = read__bad(r, offset, "numbers of a block", err);
  }
  if (!rc && r->block.stored_bytes < r->block.raw_bytes) {
    size_t n = ZSTD_decompressDCtx(r->zstd, r->raw, r->block.raw_bytes,
                                   r->stored, r->block.stored_bytes);
    raw = r->raw;
    rc = n == r->block.raw_bytes ? EMB_OK
                                 : read__bad(r, offset, "its compression", err);
  }
  rc = rc ? rc : planes_to_rows(r, offset, raw, err);
  if (!rc) {
    r->have = b;
    r->next = b + 1;
    r->next_offset = offset + sizeof r->block + r->block.stored_bytes;
  }
  return rc;
}

void pack_seek(struct pack_reader *r, uint64_t row) { r->row = row; }

int pack_next(struct pack_reader *r, const struct pack_row **row,
              emb_err *err) {
  uint64_t b = r->row / r->head.block_rows;
  uint32_t i = (uint32_t)(r->row % r->head.block_rows);
  *row = NULL;
  if (r->row >= r->rows) {
    return EMB_OK;
  }
  if (b != r->have) {
    int rc = read__rows(r, b, err);
    if (rc) {
      return rc;
    }
  }
  emb_check_some(16, pack_reader_valid(r));
  r->row++;
  r->now.key = r->keys[i];
  r->now.version = r->versions[i];
  r->now.op = r->ops[i];
  r->now.value = r->now.op == PACK_PUT
                     ? r->values + (size_t)r->value_at[i] * r->value_bytes
                     : NULL;
  *row = &r->now;
  return EMB_OK;
}

void pack_rewind_texts(struct pack_reader *r) {
  r->texts_at = r->texts_n = r->texts_begin = 0;
  r->texts_block = r->text_count = 0;
  r->texts_offset = r->end.texts_offset;
}

/* ---- opening ------------------------------------------------------------- */

static int text_ends(const char *text, size_t size) {
  return memchr(text, 0, size) != NULL;
}

/* Numbers may be wrong even under a correct checksum. */
static int head_is_legal(const struct pack_head *h) {
  uint64_t bytes = 0;
  if (h->kind < PACK_SNAPSHOT || h->kind > PACK_DELTA ||
      h->column_count > PACK_COLUMNS_MAX ||
      !text_ends(h->name, sizeof h->name) ||
      !text_ends(h->base_name, sizeof h->base_name) ||
      !text_ends(h->schema, sizeof h->schema) ||
      !(h->flags & PACK_TEXTS) != (h->format == PACK_FORMAT) ||
      (h->flags & PACK_TEXTS && h->flags & PACK_INDEX)) {
    return 0;
  }
  for (uint32_t i = 0; i < h->column_count; i++) {
    const struct pack_column *c = &h->columns[i];
    if ((c->width != 1 && c->width != 2 && c->width != 4 && c->width != 8) ||
        c->bytes % c->width || c->bytes > PACK_VALUE_MAX) {
      return 0;
    }
    bytes += c->bytes;
  }
  return bytes <= PACK_VALUE_MAX &&
         h->block_rows == pack__block_rows((uint32_t)bytes);
}

static int texts_are_legal(const struct pack_reader *r, uint64_t rows) {
  const struct pack_end *e = &r->end;
  if (!(r->head.flags & PACK_TEXTS)) {
    return !e->texts_offset && !e->text_blocks && !e->text_bytes;
  }
  return e->texts_offset >= sizeof r->head &&
         e->texts_offset <= e->index_offset &&
         e->text_blocks <=
             (e->index_offset - e->texts_offset) / sizeof(struct pack_block) &&
         e->text_bytes <= e->text_blocks * PACK_TEXTS_BYTES &&
         (e->text_bytes + PACK_TEXTS_BYTES - 1) / PACK_TEXTS_BYTES ==
             e->text_blocks &&
         e->text_bytes / 4 >= rows;
}

static int end_is_legal(const struct pack_reader *r, uint64_t file_bytes) {
  const struct pack_end *e = &r->end;
  uint64_t rows = 0, full = r->head.block_rows;
  if (e->file_bytes != file_bytes || e->row_blocks > file_bytes / 32 ||
      e->entries > file_bytes / ENTRY_BYTES) {
    return 0;
  }
  for (int i = 0; i < PACK_OPS; i++) {
    if (e->rows[i] > e->row_blocks * full) {
      return 0;
    }
    rows += e->rows[i];
  }
  uint64_t index = read_index_blocks(r) * sizeof(struct pack_block) +
                   e->entries * ENTRY_BYTES;
  uint64_t directory = read_directory_blocks(r) * sizeof(struct pack_block) +
                       e->row_blocks * OFFSET_BYTES;
  return (rows + full - 1) / full == e->row_blocks &&
         e->entries == (r->head.flags & PACK_INDEX ? e->rows[PACK_PUT] : 0) &&
         e->index_offset >= sizeof r->head && e->index_offset <= file_bytes &&
         texts_are_legal(r, rows) &&
         e->directory_offset == e->index_offset + index &&
         file_bytes == e->directory_offset + directory + PACK_END_BYTES;
}

static int pack_read_head(struct pack_reader *r, uint64_t bytes, emb_err *err) {
  struct pack_head *h = &r->head;
  int rc = read_bytes(r, h, sizeof *h, 0, err);
  if (rc) {
    return rc;
  }
  if (bytes < 16 || memcmp(h->magic, PACK_MAGIC, sizeof h->magic) != 0) {
    return err_set(err, EMB_NOTADB, "%s is not an emb file", r->path);
  }
  if (h->format < PACK_FORMAT || h->format > PACK_FORMAT_TEXTS) {
    return err_set(err, EMB_NOTADB,
                   "%s has format %u, and this emb %s reads formats %u to %u; "
                   "read it with the newer emb that wrote it",
                   r->path, h->format, EMB_VERSION, PACK_FORMAT,
                   PACK_FORMAT_TEXTS);
  }
  if (h->sum != hash_sum((char *)h + 8, sizeof *h - 8, 0, 0) ||
      bytes < sizeof *h + PACK_END_BYTES) {
    return read__bad(r, 0, "its head", err);
  }
  if (!head_is_legal(h)) {
    return read__bad(r, 0, "numbers in its head", err);
  }
  return EMB_OK;
}

static int read_end(struct pack_reader *r, uint64_t bytes, emb_err *err) {
  uint64_t at = bytes - PACK_END_BYTES;
  struct pack_block block;
  r->end.file_bytes = bytes; /* bounds all reads */
  struct pack_end end;
  int rc = read__block(r,
                       &(struct read_request){at, PACK_END_POSITION, PACK_LAST,
                                              &end, sizeof end},
                       &block, err);
  if (rc == EMB_CORRUPT) {
    return read__bad(r, at, "its end is missing: the file was truncated", err);
  }
  r->end = end;
  if (!rc && (block.stored_bytes != sizeof end || !end_is_legal(r, bytes))) {
    rc = read__bad(r, at, "numbers at its end", err);
  }
  for (int i = 0; !rc && i < PACK_OPS; i++) {
    r->rows += r->end.rows[i];
  }
  return rc;
}

static int reader_allocate(struct pack_reader *r, emb_err *err) {
  struct env *env = r->env;
  size_t rows = r->head.block_rows;
  ZSTD_customMem memory = {block_allocate, block_release, env};
  r->value_bytes = pack_value_bytes(&r->head);
  r->raw_room = block_raw_bytes(r->value_bytes, rows, rows);
  r->raw_room = r->raw_room < FULL_BYTES ? FULL_BYTES : r->raw_room;
  r->stored = env->allocate(env, r->raw_room);
  r->raw = env->allocate(env, r->raw_room);
  r->values = env->allocate(env, rows * r->value_bytes + 1);
  r->keys = env->allocate(env, rows * sizeof *r->keys);
  r->versions = env->allocate(env, rows * sizeof *r->versions);
  r->value_at = env->allocate(env, rows * sizeof *r->value_at);
  r->ops = env->allocate(env, rows);
  r->plain = env->allocate(env, FULL_BYTES);
  if (r->head.flags & PACK_TEXTS) {
    r->texts = env->allocate(env, PACK_TEXTS_BYTES);
  }
  r->zstd = ZSTD_createDCtx_advanced(memory);
  return r->stored && r->raw && r->values && r->keys && r->versions &&
                 r->value_at && r->ops && r->plain && r->zstd &&
                 (r->texts || !(r->head.flags & PACK_TEXTS))
             ? EMB_OK
             : read_out_of_memory(err);
}

void pack_close(struct pack_reader *r) {
  if (!r) {
    return;
  }
  struct env *env = r->env;
  if (r->file) {
    env->close(env, r->file);
  }
  ZSTD_freeDCtx(r->zstd);
  env->release(env, r->path);
  env->release(env, r->stored);
  env->release(env, r->raw);
  env->release(env, r->values);
  env->release(env, r->keys);
  env->release(env, r->versions);
  env->release(env, r->value_at);
  env->release(env, r->ops);
  env->release(env, r->plain);
  env->release(env, r->texts);
  env->release(env, r->text);
  env->release(env, r);
}

static int open_file(struct pack_reader *r, const char *path, emb_err *err) {
  struct env *env = r->env;
  uint64_t bytes;
  r->path = env->allocate(env, strlen(path) + 1);
  if (!r->path) {
    return read_out_of_memory(err);
  }
  strcpy(r->path, path);
  int os = env->open(env, path, ENV_READ, &r->file);
  if (os) {
    return err_os(err, EMB_CANTOPEN, os, "cannot open %s", path);
  }
  os = env->size(env, r->file, &bytes);
  if (os) {
    return err_os(err, EMB_IOERR, os, "cannot read %s", path);
  }
  int rc = pack_read_head(r, bytes, err);
  rc = rc ? rc : read_end(r, bytes, err);
  return rc ? rc : reader_allocate(r, err);
}

int pack_open(struct env *env, const char *path, struct pack_reader **out,
              emb_err *err) {
  struct pack_reader *r = env->allocate(env, sizeof *r);
  *out = NULL;
  if (!r) {
    return read_out_of_memory(err);
  }
  r->env = env;
  r->have = UINT64_MAX;
  r->plain_have = UINT64_MAX;
  r->next_offset = sizeof r->head;
  int rc = open_file(r, path, err);
  pack_rewind_texts(r);
  if (rc) {
    pack_close(r);
  } else {
    *out = r;
  }
  return rc;
}

const struct pack_head *pack_reader_head(const struct pack_reader *r) {
  return &r->head;
}

const struct pack_end *pack_reader_end(const struct pack_reader *r) {
  return &r->end;
}
