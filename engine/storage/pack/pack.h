/* SPDX-License-Identifier: MIT
**
** pack.h -- files of rows: snapshots, increments and deltas.
**
** A pack is one regular file that is written once, from front to back, and then
** only read.  It holds keys, versions, what became of a key, and values of a
** fixed number of bytes; what is in a value, and which marks fit together, is
** defined in the layers above (schema/form.h, ckpt/).
**
**   head       4096 bytes, struct pack_head
**   rows       blocks of head.block_rows rows, the last one perhaps fewer
**   texts      blocks of bytes; of a table with text keys only
**   index      blocks of key and row number, ordered by hash_key; may be absent
**   directory  blocks of the offsets of all blocks of rows
**   end        128 bytes, struct pack_block and struct pack_end
**
** BLOCK      A header (struct pack_block), then stored_bytes.  Its sum covers
**            both; the salt is the head's sum, which no other file has because
**            the head has a random id, and the position is the block's number,
**            counted over all kinds.  So no block of another file or another
**            position fits, and none without the head it was written with.  The
**            end's position is PACK_END_POSITION; it is the last thing in the
**            file and says how long the file is: what was cut off is missed.
**
** ROWS       Uncompressed, n rows of which p are puts:
**              n bytes              PACK_PUT, PACK_DELETE, ...
**              n keys, n versions   in planes of 8
**              for each column, p times its bytes, in planes of its width
**            Planes of w: the first bytes of all elements of w bytes, then the
**            second ones, ...  Signs and exponents of floats come together so,
**            and are what a compressor finds.  Then zstd, unless that makes it
**            no smaller.
**
** TEXTS      Of a table whose keys are numbers of texts: for each row, in their
**            order, deletions included, its length in 4 bytes and its bytes,
**            UTF-8.  That goes into blocks of PACK_TEXTS_BYTES, the last one
**            fewer, without regard to where a text begins; each is compressed
**            as rows are.  The keys of such a file are the source's numbers,
**            which mean nothing elsewhere.  It has PACK_FORMAT_TEXTS, which
**            older readers refuse, and no index.
**
** WRITING    To PATH-new: sync, rename, sync of the directory.  Until then PATH
**            is as before; after any error PATH-new is gone.  Only a pack, or
**            an empty file, is ever replaced: a slip of the pen in a path does
**            not cost a database.
** READING    Nothing that the file says is believed before a checksum held, and
**            no number of it before it was compared with the file's size or a
**            limit: a reader takes three times the memory of a block, which
**            is PACK_BLOCK_TARGET or a row.
** FAILURE    EMB_NOTADB: no pack, or a newer format.  EMB_CORRUPT: text names
**            file and offset.
** THREADS    A writer and a reader belong to one thread at a time.  A writer in
**            a hurry has a thread of its own, which calls nothing but zstd.
*/
#ifndef EMB_PACK_H
#define EMB_PACK_H

#include "engine/base/err.h"
#include "engine/base/env/env.h"

#include <stddef.h>
#include <stdint.h>

#define PACK_MAGIC "embpack1"
#define PACK_FORMAT 1
#define PACK_FORMAT_TEXTS 2 /* the same, and texts */
#define PACK_NAME_BYTES 72
#define PACK_SCHEMA_BYTES 3584
#define PACK_COLUMNS_MAX 24
#define PACK_BLOCK_TARGET (256u << 10) /* uncompressed: fits a second cache */
#define PACK_VALUE_MAX (2u << 20)
#define PACK_TEXTS_BYTES (64u << 10) /* raw, of a block of texts */
#define PACK_TEXT_MAX 2147483647u    /* SQLite's texts are no longer */
#define PACK_PATH_BYTES 4096
#define PACK_LEVEL_MAX 19
#define PACK_LEVEL_DEFAULT 1
#define PACK_END_POSITION UINT64_MAX

enum { PACK_SNAPSHOT = 1, PACK_INCREMENT = 2, PACK_DELTA = 3 }; /* kinds */

enum { PACK_PUT, PACK_DELETE, PACK_EXPIRE, PACK_EVICT, PACK_OPS };

/* Flags. */
enum { PACK_STATE = 1, PACK_TRACK = 2, PACK_INDEX = 4, PACK_TEXTS = 8 };

struct pack_column {
  uint32_t bytes; /* of a value */
  uint32_t width; /* of an element: 1, 2, 4 or 8 */
};

/* A state of the source that a file begins or ends with. */
struct pack_mark {
  uint64_t id; /* random; 0: the empty table */
  uint64_t page;
  uint64_t version;
};

struct pack_head {
  uint64_t sum;        /* 0000-0007 hash_sum of the rest, salt 0, position 0 */
  char magic[8];       /* 0008-0015 */
  uint32_t format;     /* 0016-0019 */
  uint32_t kind;       /* 0020-0023 */
  uint8_t uuid[16];    /* 0024-0039 of the store it comes from */
  uint64_t id;         /* 0040-0047 random */
  uint32_t encoding;   /* 0048-0051 enum quant_type of vectors, 0: as is */
  uint32_t flags;      /* 0052-0055 */
  uint32_t block_rows; /* 0056-0059 */
  uint32_t column_count;           /* 0060-0063 */
  struct pack_mark base;           /* 0064-0087 what must be there before */
  struct pack_mark end;            /* 0088-0111 what is there then */
  uint64_t number;                 /* 0112-0119 in a chain, from 1 */
  uint64_t zero;                   /* 0120-0127 */
  char name[PACK_NAME_BYTES];      /* 0128-0199 snapshot or consumer */
  char base_name[PACK_NAME_BYTES]; /* 0200-0271 */
  struct pack_column columns[PACK_COLUMNS_MAX]; /* 0272-0463 */
  char zeros[48];                               /* 0464-0511 */
  char schema[PACK_SCHEMA_BYTES]; /* 0512-4095 text of schema/schema.h */
};
_Static_assert(sizeof(struct pack_head) == 4096, "head of a pack");
_Static_assert(offsetof(struct pack_head, schema) == 512, "head of a pack");

enum {
  PACK_ROWS = 1,
  PACK_ENTRIES = 2,
  PACK_OFFSETS = 3,
  PACK_LAST = 4,
  PACK_BYTES = 5
};

struct pack_block {
  uint64_t sum;          /* 00-07 */
  uint32_t kind;         /* 08-11 PACK_ROWS, ... */
  uint32_t stored_bytes; /* 12-15 what follows */
  uint32_t raw_bytes;    /* 16-19 the same before zstd; equal: not compressed */
  uint32_t count;        /* 20-23 rows, entries, offsets; texts that begin */
  uint32_t puts;         /* 24-27 rows with a value */
  uint32_t zero;         /* 28-31 */
};
_Static_assert(sizeof(struct pack_block) == 32, "block of a pack");

/* Entries in a block but the last of its kind, and offsets. */
#define PACK_ENTRIES_MAX 4096u
#define PACK_OFFSETS_MAX 8192u

struct pack_end {
  uint64_t rows[PACK_OPS];   /* 00-31 of each kind */
  uint64_t row_blocks;       /* 32-39 */
  uint64_t entries;          /* 40-47 of the index */
  uint64_t index_offset;     /* 48-55 first block of the index */
  uint64_t directory_offset; /* 56-63 */
  uint64_t file_bytes;       /* 64-71 */
  uint64_t texts_offset;     /* 72-79 first block of texts; 0: it has none */
  uint64_t text_blocks;      /* 80-87 */
  uint64_t text_bytes;       /* 88-95 raw, lengths included */
};
_Static_assert(sizeof(struct pack_end) == 96, "end of a pack");
#define PACK_END_BYTES (sizeof(struct pack_block) + sizeof(struct pack_end))

struct pack_row {
  int64_t key;
  uint64_t version;
  uint32_t op;
  const char *value; /* the columns; NULL unless it is a put */
};

/* The text of a row; at is NULL where there is none. */
struct pack_text {
  const char *at;
  size_t n;
};

/* Bytes of a value, and rows in a block that hold about PACK_BLOCK_TARGET. */
uint32_t pack_value_bytes(const struct pack_head *head);
uint32_t pack__block_rows(uint32_t value_bytes);

/* ---- writing ------------------------------------------------------------- */

struct pack_writer;
struct pack_reader;

/* head: kind, uuid, encoding, flags, columns, marks, number, names and schema;
** the rest is filled in; with the flag PACK_TEXTS the format is the newer one.
** level: 0 stored, 1 .. PACK_LEVEL_MAX of zstd. */
int pack_create(struct env *env, const char *path, const struct pack_head *head,
                int level, struct pack_writer **out, emb_err *err);
/* Before the first row: compresses in a thread of its own as well, and writes
** through a queue of this kind (ENV_QUEUE_*), so far as either can be had. */
void pack_hurry(struct pack_writer *w, int queue_kind);
/* Adds a row. */
int pack_add(struct pack_writer *w, const struct pack_row *row, emb_err *err);
/* Adds an entry of the index, after all rows, ordered by hash_key: with the
** flag PACK_INDEX one for each put, else none. */
int pack_add_entry(struct pack_writer *w, int64_t key, uint64_t row,
                   emb_err *err);
/* Instead of adding rows: all of another file whose rows are of the same form,
** as they are stored there.  stop may be NULL. */
int pack_copy_rows(struct pack_writer *w, struct pack_reader *from,
                   int (*stop)(void *), void *arg, emb_err *err);
/* After all rows, with the flag PACK_TEXTS: one for each row, in their order.
** EMB_RANGE: too long, or not UTF-8. */
int pack_add_text(struct pack_writer *w, const struct pack_text *text,
                  emb_err *err);
/* The file is complete and durable, but not under its name yet.  What then is
** left to pack_finish takes no memory, no descriptor and no space, so a caller
** that has more to prepare does that in between.  After an error:
** pack_abandon. */
int pack_complete(struct pack_writer *w, emb_err *err);
/* The same if that was not done, and the file has its name.  bytes: its length,
** or NULL.  Frees the writer, whatever it returns.  After an error PATH is as
** it was; but if it was the directory's sync that failed, it may be the new
** file.
*/
int pack_finish(struct pack_writer *w, uint64_t *bytes, emb_err *err);
/* Removes what was written.  NULL is allowed. */
void pack_abandon(struct pack_writer *w);

/* ---- reading ------------------------------------------------------------- */

/* Checks head and end. */
int pack_open(struct env *env, const char *path, struct pack_reader **out,
              emb_err *err);
void pack_close(struct pack_reader *r); /* NULL is allowed */
const struct pack_head *pack_reader_head(const struct pack_reader *r);
const struct pack_end *pack_reader_end(const struct pack_reader *r);
/* The next row, whose value stays until the next call; *row is NULL at the end:
** then everything before it was read and is as it was written. */
int pack_next(struct pack_reader *r, const struct pack_row **row, emb_err *err);
/* The next row is this one, counted from 0. */
void pack_seek(struct pack_reader *r, uint64_t row);
/* Row number of a key in a file with an index; UINT64_MAX: it is not there. */
int pack_find(struct pack_reader *r, int64_t key, uint64_t *row, emb_err *err);
/* In a file with PACK_TEXTS the text of the next row, whatever row pack_next is
** at; it stays until the next call.  text->at is NULL behind the last one. */
int pack_next_text(struct pack_reader *r, struct pack_text *text, emb_err *err);
/* The next text is the first row's. */
void pack_rewind_texts(struct pack_reader *r);
/* Reads the whole file: each block, and that the end is right about them. */
int pack_verify(struct pack_reader *r, int (*stop)(void *), void *arg,
                emb_err *err);

#endif
