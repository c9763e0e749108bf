/* SPDX-License-Identifier: MIT
**
** read.h -- private to pack/: the reader, shared by read.c (opening, rows),
** find.c (the index and checking a whole file) and texts.c.
*/
#ifndef EMB_PACK_READ_H
#define EMB_PACK_READ_H

#include "block.h"

struct pack_reader {
  struct env *env;
  struct env_file *file;
  char *path;
  struct pack_head head;
  struct pack_end end;
  uint64_t rows; /* of all operations */
  uint32_t value_bytes;

  uint64_t row;  /* the next row */
  uint64_t have; /* number of the block in memory; UINT64_MAX: none */
  uint64_t next; /* number of the block at next_offset */
  uint64_t next_offset;
  struct pack_block block; /* of `have` */
  struct pack_row now;

  char *stored, *raw; /* raw: planes, whose values begin at `values` */
  size_t raw_room;
  char *values;
  int64_t *keys;
  uint64_t *versions;
  uint8_t *ops;
  uint32_t *value_at; /* for each row: its number among the puts */
  ZSTD_DCtx *zstd;

  char *texts;           /* PACK_TEXTS_BYTES, raw; NULL: no texts */
  uint32_t texts_at;     /* where the next text begins */
  uint32_t texts_n;      /* bytes in `texts` */
  uint32_t texts_begin;  /* texts still to begin in them */
  uint64_t texts_block;  /* number of the next block */
  uint64_t texts_offset; /* offset of the next block */
  uint64_t text_count;   /* returned so far */
  char *text;            /* the last text; from env->resize */
  size_t text_room;

  char *plain;         /* FULL_BYTES: a block of entries or offsets */
  uint64_t plain_have; /* its number; UINT64_MAX: none */
};

/* Only in self-checking builds: between two calls. */
int pack_reader_valid(const struct pack_reader *r);

int read__bad(const struct pack_reader *r, uint64_t offset, const char *what,
              emb_err *err);
struct read_request {
  uint64_t offset;   /* in the file */
  uint64_t position; /* covered by its checksum */
  uint32_t kind;
  void *to; /* of `room` bytes */
  size_t room;
};
/* Reads the header and the stored bytes of a block. */
int read__block(struct pack_reader *r, const struct read_request *request,
                struct pack_block *block, emb_err *err);
/* Reads block b of the rows; its stored form is in r->stored until the next
** block. */
int read__rows(struct pack_reader *r, uint64_t b, emb_err *err);
/* Reads all texts. */
int texts__verify(struct pack_reader *r, int (*stop)(void *), void *arg,
                  emb_err *err);
/* Offset of the end of the rows. */
static inline uint64_t read_rows_end(const struct pack_reader *r) {
  return r->head.flags & PACK_TEXTS ? r->end.texts_offset : r->end.index_offset;
}
/* Reads block i of the entries or offsets into r->plain. */
int read__plain(struct pack_reader *r, uint32_t kind, uint64_t i, emb_err *err);
static inline uint64_t read_index_blocks(const struct pack_reader *r) {
  return (r->end.entries + PACK_ENTRIES_MAX - 1) / PACK_ENTRIES_MAX;
}
static inline uint64_t read_directory_blocks(const struct pack_reader *r) {
  return (r->end.row_blocks + PACK_OFFSETS_MAX - 1) / PACK_OFFSETS_MAX;
}

#endif
