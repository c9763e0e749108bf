/* SPDX-License-Identifier: MIT
**
** samples.h -- declarations that the files of engine/data/dataset share.
**
** ROLE      The public calls are in emb_data.h.  Here: open files (files.c), a
**           file read from its beginning (window.c), the records of a text file
**           (csv.c), and the packed places of records (spans.c).
** FAILURE   EMB_ codes; the error text names the file, and the place in it.
** THREADS   files.c has a lock; everything else belongs to one thread.
*/
#ifndef EMB_DATASET_SAMPLES_H
#define EMB_DATASET_SAMPLES_H

#include "engine/data/emb_data.h"
#include "engine/base/debug.h"
#include "engine/base/err.h"
#include "engine/base/hash.h"
#include "engine/base/env/env.h"

/* Unit of direct access. */
#define SAMPLES_BLOCK_BYTES 4096u

/* ---- files.c: files that are open ---------------------------------------- */

struct samples_open;
/* Takes an open file that matched `as` when it was opened.  Release it with
** samples__give. */
int samples__take(const emb_samples_file *as, int direct,
                  struct samples_open **open, emb_err *err);
void samples__give(struct samples_open *open);
struct env_file *samples__file(const struct samples_open *open);
/* Checks that the file is unchanged, and is still the one at its path. */
int samples__same(const struct samples_open *open, emb_err *err);
/* A reader was opened, or closed: with the last one all files are closed. */
void samples__come(void);
void samples__leave(void);
/* The sum of both ends of a file, open for direct access or not. */
int samples__sum(struct env *env, struct env_file *file, uint64_t bytes,
                 uint64_t *sum);
/* Compares size and time with those of the survey. */
int samples__compare(const emb_samples_file *as, const struct env_about *about,
                     emb_err *err);
int samples__cannot_open(int os, const char *path, emb_err *err);

/* ---- window.c: a file from its beginning --------------------------------- */

struct samples_window {
  struct env *env;
  struct env_file *file;
  const char *path;
  uint64_t size;   /* of the file */
  uint64_t offset; /* in the file, of buffer[at] */
  uint64_t next;   /* offset of the next read */
  uint8_t *buffer;
  size_t capacity, at, filled;
  int hashes;
  XXH3_state_t *hash;     /* of all bytes read */
  int (*stop)(void *arg); /* called before each read; or NULL */
  void *arg;
};
/* samples__window_close must be called after an error, too. */
int samples__window_open(struct samples_window *window, const char *path,
                         int hashes, emb_err *err);
void samples__window_close(struct samples_window *window);
/* Makes at least `need` bytes available, or all up to the end of the file. */
int samples__window_need(struct samples_window *window, uint64_t need,
                         emb_err *err);
static inline const uint8_t *
samples__window_at(const struct samples_window *window) {
  return window->buffer + window->at;
}
static inline size_t samples__window_have(const struct samples_window *window) {
  return window->filled - window->at;
}
/* Skips this number of available bytes. */
static inline void samples__window_skip(struct samples_window *window,
                                        size_t bytes) {
  emb_assert(bytes <= samples__window_have(window));
  window->at += bytes;
  window->offset += bytes;
}

/* Only in self-checking builds [dataset_valid.c]. */
int samples__window_valid(const struct samples_window *window);

/* ---- csv.c: where records and fields end --------------------------------- */

enum {
  CSV_BEGIN,  /* at the beginning of a field */
  CSV_PLAIN,  /* in a field without quotes */
  CSV_QUOTED, /* in a quoted field */
  CSV_CLOSED, /* after a quote in a quoted field: closing, or doubled */
  CSV_RETURN, /* after a CR, which may be part of a CRLF */
  CSV_ENDING, /* after a CR that follows a closing quote */
};
struct samples_csv {
  uint8_t separator;
  uint8_t state;
  uint8_t empty;   /* nothing of the record was seen yet */
  uint64_t lines;  /* lines ended */
  uint64_t fields; /* fields of this record ended */
};
/* Scans up to n bytes; *used: the number scanned; *ended: a record ends there.
** EMB_MISMATCH: something follows a closing quote. */
int samples__csv_scan(struct samples_csv *csv, const uint8_t *bytes, size_t n,
                      size_t *used, int *ended);
/* Starts the next record. */
void samples__csv_next(struct samples_csv *csv);
/* Only in self-checking builds [dataset_valid.c]. */
int samples__csv_valid(const struct samples_csv *csv);

/* A field of a record: with its quotes (from, to), and its text without. */
struct samples_cell {
  const uint8_t *from, *to;
  emb_samples_part text;
  int doubled; /* the text contains doubled quotes */
};
/* Reads the field at *at, and moves *at past its separator; 0: there is none.
** The record should have been scanned; even if not, cells stay within it. */
int samples__csv_cell(const uint8_t **at, const uint8_t *end, uint8_t separator,
                      struct samples_cell *cell);

/* ---- spans.c: blocks of records ------------------------------------------ */

/* The offset of the first record, and for each a varint, the distance to the
** next one. */
#define SAMPLES_SPANS_MAX (8 + EMB_SAMPLES_BLOCK * 10)

struct samples_blocks {
  const emb_samples_ask *ask;
  emb_samples_found *found;
  int spans;       /* spans are recorded */
  int begun;       /* a record has begun */
  uint64_t record; /* its offset */
  emb_samples_block block;
  uint8_t bytes[SAMPLES_SPANS_MAX];
};
/* A record begins at this offset; the one before it ends there. */
int samples__blocks_begin(struct samples_blocks *blocks, uint64_t offset,
                          emb_err *err);
/* Notes the timestamp of the record that has begun. */
void samples__blocks_time(struct samples_blocks *blocks, int64_t timestamp);
/* The last record ends at this offset. */
int samples__blocks_end(struct samples_blocks *blocks, uint64_t offset,
                        emb_err *err);
/* Only in self-checking builds [dataset_valid.c]; after an error the blocks
** are of no use. */
int samples__blocks_valid(const struct samples_blocks *blocks);

/* ---- record.c ------------------------------------------------------------ */

int64_t samples__integer(const uint8_t *at, const emb_samples_field *field,
                         uint32_t big_endian);

#endif
