/* SPDX-License-Identifier: MIT
**
** pack.h -- files of rows: snapshots, increments and deltas.
**
** A pack is one regular file, written once from front to back and then only
** read.  It holds keys, versions, operations, and values of a fixed size.  The
** layers above define the contents of a value and which marks fit together
** (schema/form.h, delta/, snapshot/).
**
**   head       4096 bytes, struct pack_head
**   rows       blocks of head.block_rows rows; the last may have fewer
**   texts      blocks of bytes; only for a table with text keys
**   index      blocks of key and row number, ordered by hash_key; optional
**   directory  blocks of the offsets of all blocks of rows
**   end        128 bytes, struct pack_block and struct pack_end
**
** BLOCK      A header (struct pack_block), then stored_bytes.  Its sum covers
**            both.  The salt is the head's sum, which is unique to the file
**            because the head has a random id.  The position is the block's
**            number, counted over all kinds.  So no block is valid in another
**            file, at another position, or with another head.  The end's
**            position is PACK_END_POSITION; it is last in the file and gives
**            the file's length, so truncation is detected.
**
** ROWS       Uncompressed, n rows with p puts among them:
**              n bytes              PACK_PUT, PACK_DELETE, ...
**              n keys, n versions   in planes of 8
**              for each column, p values in planes of its width
**            Planes of w: the first bytes of all elements of w bytes, then the
**            second bytes, ...  This groups the signs and exponents of floats,
**            which compress well.  The block is then compressed by zstd, unless
**            that makes it no smaller.
**
** TEXTS      For a table whose keys are numbers of texts: for each row in
**            order, deletions included, the length of its text in 4 bytes and
**            the text in UTF-8.  This stream is cut into blocks of
**            PACK_TEXTS_BYTES (the last may be shorter), regardless of where a
**            text begins; each block is compressed like rows.  The keys of such
**            a file are the source's numbers, which mean nothing elsewhere.
**            Its format is PACK_FORMAT_TEXTS, which older readers refuse, and
**            it has no index.
**
** WRITING    To PATH-new, which is synced and renamed; then the directory is
**            synced.  Until then PATH is unchanged; after any error PATH-new is
**            gone.  Only a pack, or an empty file, is ever replaced, so that a
**            mistyped path does not destroy a database.
** READING    Nothing in the file is trusted until its checksum is verified, and
**            no number until it has been compared with the file's size or a
**            limit.  A reader takes three times the memory of a block, which is
**            PACK_BLOCK_TARGET or a row.
** FAILURE    EMB_NOTADB: not a pack, or a newer format.  EMB_CORRUPT: the text
**            names the file and offset.
** THREADS    A writer and a reader belong to one thread at a time.  After
**            pack_hurry a writer has its own thread, which calls only zstd.
*/
#ifndef EMB_PACK_H
#define EMB_PACK_H

#include "engine/base/err.h"
#include "engine/base/env/env.h"

#include <stddef.h>
#include <stdint.h>

#define PACK_MAGIC "embpack1"
#define PACK_FORMAT 1
#define PACK_FORMAT_TEXTS 2 /* with texts */
#define PACK_NAME_BYTES 72
#define PACK_SCHEMA_BYTES 3584
#define PACK_COLUMNS_MAX 24
#define PACK_BLOCK_TARGET (256u << 10) /* uncompressed: fits an L2 cache */
#define PACK_VALUE_MAX (2u << 20)
#define PACK_TEXTS_BYTES (64u << 10) /* raw size of a block of texts */
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

/* A state of the source at which a file begins or ends. */
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
  struct pack_mark base;           /* 0064-0087 state required before */
  struct pack_mark end;            /* 0088-0111 state afterwards */
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
  uint32_t stored_bytes; /* 12-15 bytes that follow */
  uint32_t raw_bytes;    /* 16-19 before zstd; if equal, not compressed */
  uint32_t count;        /* 20-23 rows, entries, offsets; texts that begin */
  uint32_t puts;         /* 24-27 rows with a value */
  uint32_t zero;         /* 28-31 */
};
_Static_assert(sizeof(struct pack_block) == 32, "block of a pack");

/* Entries and offsets in a block; the last block of its kind may have fewer. */
#define PACK_ENTRIES_MAX 4096u
#define PACK_OFFSETS_MAX 8192u

struct pack_end {
  uint64_t rows[PACK_OPS];   /* 00-31 of each operation */
  uint64_t row_blocks;       /* 32-39 */
  uint64_t entries;          /* 40-47 of the index */
  uint64_t index_offset;     /* 48-55 first block of the index */
  uint64_t directory_offset; /* 56-63 */
  uint64_t file_bytes;       /* 64-71 */
  uint64_t texts_offset;     /* 72-79 first block of texts; 0: no texts */
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

/* The text of a row; `at` is NULL if there is none. */
struct pack_text {
  const char *at;
  size_t n;
};

/* Bytes of a value, and number of rows in a block of about
** PACK_BLOCK_TARGET. */
uint32_t pack_value_bytes(const struct pack_head *head);
uint32_t pack__block_rows(uint32_t value_bytes);

/* ---- writing ------------------------------------------------------------- */

struct pack_writer;
struct pack_reader;

/* head: kind, uuid, encoding, flags, columns, marks, number, names and schema;
** the rest is filled in.  The flag PACK_TEXTS selects the newer format.  level:
** 0 uncompressed, 1 .. PACK_LEVEL_MAX for zstd. */
int pack_create(struct env *env, const char *path, const struct pack_head *head,
                int level, struct pack_writer **out, emb_err *err);
/* Call before the first row.  Adds a thread that also compresses, and writes
** through a queue of this kind (ENV_QUEUE_*), as far as either is available. */
void pack_hurry(struct pack_writer *w, int queue_kind);
/* Adds a row. */
int pack_add(struct pack_writer *w, const struct pack_row *row, emb_err *err);
/* Adds an entry of the index, after all rows, ordered by hash_key: with the
** flag PACK_INDEX one for each put, else none. */
int pack_add_entry(struct pack_writer *w, int64_t key, uint64_t row,
                   emb_err *err);
/* Instead of adding rows: copies all rows of another file with rows of the same
** form, as stored.  stop may be NULL. */
int pack_copy_rows(struct pack_writer *w, struct pack_reader *from,
                   int (*stop)(void *), void *arg, emb_err *err);
/* After all rows, with the flag PACK_TEXTS: adds one text for each row, in row
** order.  EMB_RANGE: too long, or not UTF-8. */
int pack_add_text(struct pack_writer *w, const struct pack_text *text,
                  emb_err *err);
/* Makes the file complete and durable, but not yet under its name.  After this
** pack_finish needs no memory, descriptor or space, so the caller can do its
** own preparations in between.  After an error call pack_abandon. */
int pack_complete(struct pack_writer *w, emb_err *err);
/* Calls pack_complete if that was not done, and renames the file to its name.
** bytes: its length, or NULL.  Always frees the writer.  After an error PATH is
** unchanged, except that if the directory's sync failed it may be the new
** file. */
int pack_finish(struct pack_writer *w, uint64_t *bytes, emb_err *err);
/* Removes the unfinished file.  NULL is allowed. */
void pack_abandon(struct pack_writer *w);

/* ---- reading ------------------------------------------------------------- */

/* Checks the head and end. */
int pack_open(struct env *env, const char *path, struct pack_reader **out,
              emb_err *err);
void pack_close(struct pack_reader *r); /* NULL is allowed */
const struct pack_head *pack_reader_head(const struct pack_reader *r);
const struct pack_end *pack_reader_end(const struct pack_reader *r);
/* Reads the next row, whose value is valid until the next call.  *row is NULL
** at the end; every row before it has then been read and verified. */
int pack_next(struct pack_reader *r, const struct pack_row **row, emb_err *err);
/* Makes this row, counted from 0, the next. */
void pack_seek(struct pack_reader *r, uint64_t row);
/* Finds the row number of a key in a file with an index; UINT64_MAX: not
** found. */
int pack_find(struct pack_reader *r, int64_t key, uint64_t *row, emb_err *err);
/* In a file with PACK_TEXTS, reads the next row's text, independently of
** pack_next; it is valid until the next call.  text->at is NULL after the last
** text. */
int pack_next_text(struct pack_reader *r, struct pack_text *text, emb_err *err);
/* Makes the first row's text the next. */
void pack_rewind_texts(struct pack_reader *r);
/* Reads the whole file, and checks each block and the counts in the end. */
int pack_verify(struct pack_reader *r, int (*stop)(void *), void *arg,
                emb_err *err);

#endif
