/* SPDX-License-Identifier: MIT
**
** emb_file.h -- what needs no open store: files of rows (emb_snapshot_export,
** emb_delta_export) as they stand, the directories of stores and of their
** copies, and vectors in the forms that files have them in.
**
** Errors are those of emb.h.
*/
#ifndef EMB_FILE_H
#define EMB_FILE_H

#include "emb.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- files of rows ----------------------------------------------------- */

/* Such a file as it stands, without a store; read-only.  Memory: a block of
** rows in three forms, which is 1 MiB or a few rows.  One thread at a time. */
typedef struct emb_file emb_file;
typedef struct emb_file_info {
  char name[EMB_SNAPSHOT_NAME_MAX + 8], base_name[EMB_SNAPSHOT_NAME_MAX + 8];
  uint8_t uuid[16]; /* of the store that it comes from */
  uint32_t dim;     /* of all vectors of a row together */
  int64_t rows;     /* deletions included */
  uint64_t bytes;
  int tracks;    /* its rows know of their updates */
  int has_index; /* else a lookup reads the whole file */
  int has_texts; /* of each row, see emb_file_add_texts */
  uint64_t id;   /* random, of this file */
} emb_file_info;
typedef struct emb_file_row {
  int64_t key;
  uint64_t version; /* in the store that it comes from */
  emb_track track;  /* zeros where the table did not track */
  int deleted;      /* in an increment: the key is gone */
  const char *text; /* of a file with texts, until the next call; NULL */
  size_t text_bytes;
} emb_file_row;
/* Checks head and end; each block is checked when it is read.  Errors:
** CANTOPEN, NOTADB, CORRUPT, NOMEM, IOERR. */
int emb_file_open(const char *path, emb_file **file, emb_err *err);
void emb_file_close(emb_file *file);
void emb_file_about(const emb_file *file, emb_file_info *info);
/* The next row, in the order of the file; *found = 0 at the end.  vector: dim
** floats. */
int emb_file_next(emb_file *file, emb_file_row *row, float *vector, int *found,
                  emb_err *err);
void emb_file_rewind(emb_file *file);
/* The row of a key.  The next row is then the one behind it. */
int emb_file_get(emb_file *file, int64_t key, emb_file_row *row, float *vector,
                 int *found, emb_err *err);
/* The same of row->text, for which all texts before it are read. */
int emb_file_get_text(emb_file *file, emb_file_row *row, float *vector,
                      int *found, emb_err *err);
/* As emb_file_next, without vector and track. */
int emb_file_next_key(emb_file *file, emb_file_row *row, int *found,
                      emb_err *err);
/* Reads all of it and sees that it is as it was written; the next row is the
** first.  stop (or NULL) is asked now and then: not 0 is EMB_INTERRUPT. */
int emb_file_verify(emb_file *file, int (*stop)(void *), void *arg,
                    emb_err *err);

/* Whoever uses a store with keys that are numbers of texts has the texts; the
** store's own files have the numbers, which mean nothing in another one.  So
** such a file is made in two steps: emb_snapshot_export, or emb_delta_write, to
** a file that nobody else sees, and from that one with the text of each row.
** It is taken in two steps, too: its texts get numbers (emb_file_next_key),
** and then emb_delta_apply or emb_snapshot_restore_keys gets those. */
typedef struct emb_file_texts {
  /* The text of the row's key, UTF-8 of less than 2 GiB, which stays until the
  ** next call; or an error, which goes to the caller. */
  int (*text)(void *arg, const emb_file_row *row, const char **text,
              size_t *bytes, emb_err *err);
  int (*stop)(void *arg); /* not 0: EMB_INTERRUPT; or NULL */
  void *arg;
  const char *options; /* those of the file; level= is that of its texts */
} emb_file_texts;
typedef struct emb_file_writer emb_file_writer;
/* The rows of `file` and their texts, without index, complete and durable, but
** under another name than path until emb_file_finish.  Memory: emb_file's, and
** the longest text.  Errors: RANGE (a text that cannot be in a file), CANTOPEN,
** CORRUPT, FULL, IOERR, NOMEM, INTERRUPT. */
int emb_file_add_texts(emb_file *file, const char *path,
                       const emb_file_texts *how, emb_file_writer **writer,
                       emb_err *err);
/* It gets its name, durably; bytes (or NULL): of it.  Frees the writer; after
** an error path is as it was. */
int emb_file_finish(emb_file_writer *writer, uint64_t *bytes, emb_err *err);
/* Removes it; NULL is allowed. */
void emb_file_abandon(emb_file_writer *writer);

/* ---- directories of stores ----------------------------------------------- */

/* A copy records what it is a copy of. */
typedef struct emb_backup_of {
  uint8_t uuid[16];   /* of the copy */
  uint8_t source[16]; /* of the store that it is a copy of; zeros: of none */
  int untouched;      /* it is as it was made */
  uint64_t number;    /* what the caller of emb_backup_tag said; 0: nothing */
} emb_backup_of;
/* Of the store in dir, which is not opened.  EMB_CANTOPEN: there is none. */
int emb_backup_look(const char *dir, emb_backup_of *of, emb_err *err);
/* The copy in dir keeps a number of the caller's, durably. */
int emb_backup_tag(const char *dir, uint64_t number, emb_err *err);

/* Directories of stores, as the caller of backups needs them; none may be open
** here (LOCKED) or owned by another process (BUSY). */
int emb_place_make(const char *dir, emb_err *err);
/* Renames one store's directory, durably.  CANTOPEN: `to` exists. */
int emb_store_rename(const char *from, const char *to, emb_err *err);
/* Renames a directory with stores in it, durably. */
int emb_place_rename(const char *from, const char *to, emb_err *err);
/* Removes all stores in it, and itself.  An absent one is no error; one that
** has foreign files stays with them. */
int emb_place_remove(const char *dir, emb_err *err);
/* The same but for n of its stores; the directory stays. */
int emb_place_remove_others(const char *dir, const char *const *keep, size_t n,
                            emb_err *err);
/* The names in it are durable. */
int emb_place_sync(const char *dir, emb_err *err);
/* A file gets another name, durably; an existing one is replaced only if
** `replace` is set, else EMB_CANTOPEN. */
int emb_file_rename(const char *from, const char *to, int replace,
                    emb_err *err);

/* ---- vectors in fewer bits --------------------------------------------- */

/* One vector as files of rows have it with quantize=float16, int8 or int4:
** FORMAT.md, "Files of rows", says what is in its bytes.  For vectors on their
** way to somewhere else; needs no store.  No pointer need be aligned. */
enum { EMB_QUANT_F16 = 1, EMB_QUANT_INT8 = 2, EMB_QUANT_INT4 = 3 };

/* Of "float16", "int8" or "int4"; 0: of another name. */
int emb_quant_type(const char *name);
/* Bytes of dim elements, 1 .. INT32_MAX: 2 for each; 8 and 1 for each; 8 for
** each 32, the last ones perhaps fewer, and 1 for each 2 of these.  0: there is
** no such type, or dim is none. */
size_t emb_quant_bytes(int type, uint32_t dim);
/* Elements of so many bytes; 0: none have.  An odd number of int4 has the bytes
** of the even one above it, which is what this gives. */
uint32_t emb_quant_dim(int type, size_t bytes);
/* dim floats to emb_quant_bytes(type, dim) bytes.  Decoded, an element is
** within 2^-11 of its size, or 2^-25 if that is more (F16); within 1/510 of the
** difference between the largest and the smallest of all (INT8); within 1/30 of
** that of its 32 (INT4); plus the rounding of float32.  The smallest of these
** comes back exactly.  err may be NULL.
** EMB_NONFINITE: an element is not finite, or beyond what float16 holds (the
** text names it).  EMB_RANGE: type, dim.  `bytes` is then undefined. */
int emb_quantize(int type, uint32_t dim, const float *vector, void *bytes,
                 emb_err *err);
/* And back.  EMB_NONFINITE: an element would not be finite, which no quantised
** vector has (the text names it).  EMB_RANGE: type, dim. */
int emb_dequantize(int type, uint32_t dim, const void *bytes, float *vector,
                   emb_err *err);

#ifdef __cplusplus
}
#endif
#endif
