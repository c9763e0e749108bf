/* SPDX-License-Identifier: MIT
**
** samples.h -- what the files of engine/data/dataset share.
**
** ROLE      The public calls are in emb_data.h.  Here: files that are
**           open (files.c), a file that is read from its beginning (window.c),
**           the records of a text file (csv.c), and how the places of records
**           are packed (spans.c).
** FAILURE   EMB_ codes; a text names the file, and where in it.
** THREADS   files.c has a lock; all else belongs to one thread.
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
/* An open file that was as `as` says when it was opened.  Given back by
** samples__give. */
int samples__take(const emb_samples_file *as, int direct,
                  struct samples_open **open, emb_err *err);
void samples__give(struct samples_open *open);
struct env_file *samples__file(const struct samples_open *open);
/* Whether it is still the same, and what is at its path. */
int samples__same(const struct samples_open *open, emb_err *err);
/* A reader came, or went: with the last all files are closed. */
void samples__come(void);
void samples__leave(void);
/* The sum of both ends of a file that is open for direct access or not. */
int samples__sum(struct env *env, struct env_file *file, uint64_t bytes,
                 uint64_t *sum);
/* Size and time against what they should be. */
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
  uint64_t next;   /* of what is read next */
  uint8_t *buffer;
  size_t capacity, at, filled;
  int hashes;
  XXH3_state_t *hash;     /* of all that was read */
  int (*stop)(void *arg); /* asked before each read; or NULL */
  void *arg;
};
/* After an error, too, samples__window_close is to be called. */
int samples__window_open(struct samples_window *window, const char *path,
                         int hashes, emb_err *err);
void samples__window_close(struct samples_window *window);
/* At least `need` bytes from where it is, or what there is up to the end. */
int samples__window_need(struct samples_window *window, uint64_t need,
                         emb_err *err);
static inline const uint8_t *
samples__window_at(const struct samples_window *window) {
  return window->buffer + window->at;
}
static inline size_t samples__window_have(const struct samples_window *window) {
  return window->filled - window->at;
}
/* Over so many of these. */
static inline void samples__window_skip(struct samples_window *window,
                                        size_t bytes) {
  window->at += bytes;
  window->offset += bytes;
}

/* ---- csv.c: where records and fields end --------------------------------- */

enum {
  CSV_BEGIN,  /* of a field */
  CSV_PLAIN,  /* in a field without quotes */
  CSV_QUOTED, /* in one with */
  CSV_CLOSED, /* behind a quote in it, which may be doubled */
  CSV_RETURN, /* behind a CR, which may be that of a CRLF */
  CSV_ENDING, /* behind a CR after a closing quote */
};
struct samples_csv {
  uint8_t separator;
  uint8_t state;
  uint8_t empty;   /* nothing of the record was seen yet */
  uint64_t lines;  /* that have ended */
  uint64_t fields; /* of this record, that have ended */
};
/* Goes on with n bytes: *used of them, and *ended when a record ends there.
** EMB_MISMATCH: something stands behind a closing quote. */
int samples__csv_scan(struct samples_csv *csv, const uint8_t *bytes, size_t n,
                      size_t *used, int *ended);
/* A record is over. */
void samples__csv_next(struct samples_csv *csv);

/* A field of a record: with its quotes, and what is in it. */
struct samples_cell {
  const uint8_t *from, *to;
  emb_samples_part text;
  int doubled; /* a doubled quote is in it */
};
/* The field at *at, which moves behind its separator; 0: there is none.  The
** record was scanned before; one that was not gives cells that are in it. */
int samples__csv_cell(const uint8_t **at, const uint8_t *end, uint8_t separator,
                      struct samples_cell *cell);

/* ---- spans.c: blocks of records ------------------------------------------ */

/* The offset of the first, and of each a varint of how far the next one is. */
#define SAMPLES_SPANS_MAX (8 + EMB_SAMPLES_BLOCK * 10)

struct samples_blocks {
  const emb_samples_ask *ask;
  emb_samples_found *found;
  int spans;       /* they are kept */
  int begun;       /* a record is */
  uint64_t record; /* where it does */
  emb_samples_block block;
  uint8_t bytes[SAMPLES_SPANS_MAX];
};
/* A record begins at this offset, where the one before it ends. */
int samples__blocks_begin(struct samples_blocks *blocks, uint64_t offset,
                          emb_err *err);
/* The timestamp of the record that has begun. */
void samples__blocks_time(struct samples_blocks *blocks, int64_t timestamp);
/* The last record ends. */
int samples__blocks_end(struct samples_blocks *blocks, uint64_t offset,
                        emb_err *err);

/* ---- record.c ------------------------------------------------------------ */

int64_t samples__integer(const uint8_t *at, const emb_samples_field *field,
                         uint32_t big_endian);

#endif
