/* SPDX-License-Identifier: MIT
**
** emb_file.h -- calls that need no open store: reading files of rows
** (emb_snapshot_export, emb_delta_export), the directories of stores and their
** copies, and vectors in the encodings used in files.
**
** Errors are those of emb.h.
*/
#ifndef EMB_FILE_H
#define EMB_FILE_H

#include "emb.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- files of rows ------------------------------------------------------- */

/* Reads a file of rows without a store; read-only.  Memory: a block of rows in
** three forms, which is 1 MiB or a few rows.  One thread at a time. */
typedef struct emb_file emb_file;
typedef struct emb_file_info {
  char name[EMB_SNAPSHOT_NAME_MAX + 8], base_name[EMB_SNAPSHOT_NAME_MAX + 8];
  uint8_t uuid[16]; /* of the store it comes from */
  uint32_t dim;     /* total of all vectors of a row */
  int64_t rows;     /* deletions included */
  uint64_t bytes;
  int tracks;    /* its rows record their updates */
  int has_index; /* else a lookup reads the whole file */
  int has_texts; /* one for each row, see emb_file_add_texts */
  uint64_t id;   /* random, of this file */
} emb_file_info;
typedef struct emb_file_row {
  int64_t key;
  uint64_t version; /* in the store it comes from */
  emb_track track;  /* zeros if the table did not track */
  int deleted;      /* in an increment: the key was removed */
  const char *text; /* until the next call; NULL: the file has no texts */
  size_t text_bytes;
} emb_file_row;
/* Checks the head and end; each block is checked when read.  Errors: CANTOPEN,
** NOTADB, CORRUPT, NOMEM, IOERR. */
int emb_file_open(const char *path, emb_file **file, emb_err *err);
void emb_file_close(emb_file *file);
void emb_file_about(const emb_file *file, emb_file_info *info);
/* Reads the next row in file order; *found = 0 at the end.  vector: dim
** floats. */
int emb_file_next(emb_file *file, emb_file_row *row, float *vector, int *found,
                  emb_err *err);
void emb_file_rewind(emb_file *file);
/* Reads the row of a key.  emb_file_next then continues after it. */
int emb_file_get(emb_file *file, int64_t key, emb_file_row *row, float *vector,
                 int *found, emb_err *err);
/* Finds the row of row->text; reads all texts before it. */
int emb_file_get_text(emb_file *file, emb_file_row *row, float *vector,
                      int *found, emb_err *err);
/* As emb_file_next, but without vector and track. */
int emb_file_next_key(emb_file *file, emb_file_row *row, int *found,
                      emb_err *err);
/* Reads and verifies the whole file, then rewinds to the first row.  stop (or
** NULL) is polled; non-zero results in EMB_INTERRUPT. */
int emb_file_verify(emb_file *file, int (*stop)(void *), void *arg,
                    emb_err *err);

/* If the keys of a store are numbers of texts, its user has the texts; the
** store's files have only the numbers, which mean nothing in another store.  So
** a file with texts is made in two steps: emb_snapshot_export or
** emb_delta_write to a private file, then a copy of that with the text of each
** row.  Reading also takes two steps: assign numbers to its texts
** (emb_file_next_key), then pass these to emb_delta_apply or
** emb_snapshot_restore_keys. */
typedef struct emb_file_texts {
  /* Returns the text of the row's key, UTF-8 of less than 2 GiB, valid until
  ** the next call; or an error, which is passed to the caller. */
  int (*text)(void *arg, const emb_file_row *row, const char **text,
              size_t *bytes, emb_err *err);
  int (*stop)(void *arg); /* non-zero: EMB_INTERRUPT; or NULL */
  void *arg;
  const char *options; /* the file's options; level= is for its texts */
} emb_file_texts;
typedef struct emb_file_writer emb_file_writer;
/* Writes the rows of `file` and their texts, without an index: complete and
** durable, but not named `path` until emb_file_finish.  Memory: emb_file's, and
** the longest text.  Errors: RANGE (a text that cannot be stored in a file),
** CANTOPEN, CORRUPT, FULL, IOERR, NOMEM, INTERRUPT. */
int emb_file_add_texts(emb_file *file, const char *path,
                       const emb_file_texts *how, emb_file_writer **writer,
                       emb_err *err);
/* Renames the file to its path, durably.  bytes (or NULL): its size.  Frees the
** writer.  After an error, path is unchanged. */
int emb_file_finish(emb_file_writer *writer, uint64_t *bytes, emb_err *err);
/* Removes the file; NULL is allowed. */
void emb_file_abandon(emb_file_writer *writer);

/* ---- directories of stores ----------------------------------------------- */

/* A copy records its source. */
typedef struct emb_backup_of {
  uint8_t uuid[16];   /* of the copy */
  uint8_t source[16]; /* of the store it was copied from; zeros: none */
  int untouched;      /* not changed since it was made */
  uint64_t number;    /* set by emb_backup_tag; 0: none */
} emb_backup_of;
/* Describes the store in dir without opening it.  EMB_CANTOPEN: there is no
** store. */
int emb_backup_look(const char *dir, emb_backup_of *of, emb_err *err);
/* Stores a number of the caller's in the copy in dir, durably. */
int emb_backup_tag(const char *dir, uint64_t number, emb_err *err);

/* Directories of stores, for callers of backups.  No store may be open in this
** process (LOCKED) or owned by another (BUSY). */
int emb_place_make(const char *dir, emb_err *err);
/* Renames one store's directory, durably.  CANTOPEN: `to` exists. */
int emb_store_rename(const char *from, const char *to, emb_err *err);
/* Renames a directory with stores in it, durably. */
int emb_place_rename(const char *from, const char *to, emb_err *err);
/* Removes all stores in dir, then dir itself.  An absent directory is no error;
** one with foreign files is kept, with those files. */
int emb_place_remove(const char *dir, emb_err *err);
/* Removes all stores in dir except n of them, and keeps dir. */
int emb_place_remove_others(const char *dir, const char *const *keep, size_t n,
                            emb_err *err);
/* Makes the names in dir durable. */
int emb_place_sync(const char *dir, emb_err *err);
/* Renames a file, durably.  An existing file is replaced only if `replace` is
** set; otherwise EMB_CANTOPEN. */
int emb_file_rename(const char *from, const char *to, int replace,
                    emb_err *err);

/* ---- vectors in fewer bits ----------------------------------------------- */

/* One vector, encoded as in files of rows with quantize=float16, int8 or int4;
** FORMAT.md, "Files of rows", specifies its bytes.  For vectors sent elsewhere;
** needs no store.  Pointers need not be aligned. */
enum { EMB_QUANT_F16 = 1, EMB_QUANT_INT8 = 2, EMB_QUANT_INT4 = 3 };

/* The type named "float16", "int8" or "int4"; 0 for any other name. */
int emb_quant_type(const char *name);
/* Bytes of dim elements, 1 .. INT32_MAX.  F16: 2 each; INT8: 8, plus 1 each;
** INT4: 8 for each 32 elements (the last group may be smaller), plus 1 for each
** 2 elements of a group.  0: type or dim is invalid. */
size_t emb_quant_bytes(int type, uint32_t dim);
/* The number of elements encoded in `bytes` bytes; 0: there is none.  An odd
** number of int4 elements takes as many bytes as the next even number, which is
** returned. */
uint32_t emb_quant_dim(int type, size_t bytes);
/* Encodes dim floats as emb_quant_bytes(type, dim) bytes.  A decoded element is
** within 2^-11 of its magnitude, or 2^-25 if that is more (F16); within 1/510
** of the range from the smallest to the largest of all elements (INT8); within
** 1/30 of the range of its group of 32 (INT4); plus float32 rounding.  The
** smallest element of a range is restored exactly.  err may be NULL.
** EMB_NONFINITE: an element is not finite, or out of range for float16 (the
** text names it).  EMB_RANGE: type, dim.  `bytes` is undefined after an
** error. */
int emb_quantize(int type, uint32_t dim, const float *vector, void *bytes,
                 emb_err *err);
/* Decodes a vector.  EMB_NONFINITE: an element would not be finite, which
** emb_quantize never produces (the text names it).  EMB_RANGE: type, dim. */
int emb_dequantize(int type, uint32_t dim, const void *bytes, float *vector,
                   emb_err *err);

#ifdef __cplusplus
}
#endif
#endif
