/* SPDX-License-Identifier: MIT
**
** emb_data.h -- choosing training data: files of samples, coresets, drift,
** repeatable random numbers, and the differences of models.
**
** A product of its own beside emb.h: it needs no store, and emb.h does not know
** it.  It has emb.h's errors, and one rule with it: every int function returns
** EMB_OK or a code, and a call that fails has changed nothing, except where its
** comment says else.
*/
#ifndef EMB_DATA_H
#define EMB_DATA_H

#include "emb.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- samples: records of files that others write ------------------------ */

/* Files of records that stay where they are: which records a file has, found
** out once (emb_samples_survey), and many of them read at once
** (emb_samples_batch).  Needs no store.  FORMAT.md, "Files of samples", has the
** forms of files, and that of the blocks of spans. */
enum {
  EMB_SAMPLES_FIXED = 1, /* records of the same size, one behind the other */
  EMB_SAMPLES_FRAMED,    /* the length stands before each record */
  EMB_SAMPLES_INDEXED,   /* another file says where each record begins */
  EMB_SAMPLES_CSV,       /* RFC 4180 */
};
enum {
  EMB_SAMPLES_NONE = 0,
  EMB_SAMPLES_UINT, /* of 1, 2, 4 or 8 bytes; of 8 it is taken as int64 */
  EMB_SAMPLES_INT,
  EMB_SAMPLES_FLOAT, /* of 4 or 8 bytes */
  EMB_SAMPLES_BYTES, /* any number of them; in CSV a text */
};
#define EMB_SAMPLES_RECORD_MAX (UINT32_C(64) << 20)
#define EMB_SAMPLES_BLOCK 256 /* records */
typedef struct emb_samples_field {
  uint32_t type;  /* EMB_SAMPLES_NONE: there is none */
  uint32_t bytes; /* CSV: none */
  uint64_t at;    /* its first byte in the record; CSV: the column, from 0 */
} emb_samples_field;
typedef struct emb_samples_format {
  uint32_t kind;
  uint32_t big_endian; /* all its numbers */
  uint32_t separator;  /* CSV: of columns, a character of ASCII */
  uint32_t prefix;     /* FRAMED: bytes of a length: 1, 2, 4 or 8 */
  uint64_t header;     /* bytes before the first record; CSV: records */
  uint64_t record;     /* FIXED: bytes of one */
  emb_samples_field label, timestamp;
} emb_samples_format;
/* EMB_RANGE: what in it cannot be. */
int emb_samples_check(const emb_samples_format *format, emb_err *err);

/* A file as it was when it was surveyed. */
typedef struct emb_samples_file {
  const char *path;
  int64_t id; /* the caller's: the same of the same file */
  uint64_t bytes;
  int64_t changed_ns; /* time of its last change, since 1970 */
  uint64_t sum;       /* of its first and its last 4 KiB */
} emb_samples_file;

/* Records one behind the other: EMB_SAMPLES_BLOCK of them, or at a file's end
** fewer. */
typedef struct emb_samples_block {
  uint64_t number; /* from 0 */
  uint32_t records;
  int64_t least, most; /* their timestamps; 0 where these are no field */
  const void *spans;   /* where each is; FIXED: NULL */
  size_t bytes;        /* of spans */
} emb_samples_block;
typedef struct emb_samples_ask {
  const char *path;           /* absolute */
  const char *index;          /* INDEXED: the other file's path */
  const char *label_name;     /* CSV: the columns by the names that the first */
  const char *timestamp_name; /* record has; they are put into the format; or
                                 NULL */
  emb_samples_format *format;
  /* Gets each block; not of a FIXED file without a field of timestamps, which
  ** needs none.  Not 0: the survey ends with EMB_ABORT. */
  int (*block)(void *arg, const emb_samples_block *block);
  int (*stop)(void *arg); /* not 0: EMB_INTERRUPT; or NULL */
  void *arg;
} emb_samples_ask;
typedef struct emb_samples_found {
  uint64_t bytes, records;
  int64_t changed_ns;
  uint64_t sum;        /* of both ends */
  uint64_t all;        /* of the whole file; 0: it was not read */
  int64_t least, most; /* timestamps, where they are a field */
} emb_samples_found;
/* Memory: 2 MiB and the longest record.  Errors: CANTOPEN, IOERR, NOMEM,
** INTERRUPT, MISMATCH (the file is not of that format: the text says where),
** and those of emb_samples_check. */
int emb_samples_survey(const emb_samples_ask *ask, emb_samples_found *found,
                       emb_err *err);
/* Whether the file still is what it was: size, time, and both ends; with `all`
** not 0 every byte.  CANTOPEN: it is not there; MISMATCH: it has changed. */
int emb_samples_verify(const emb_samples_file *file, uint64_t all,
                       int (*stop)(void *), void *arg, emb_err *err);
/* Where the records of a block are: offsets[i] up to offsets[i + 1].  CORRUPT:
** that cannot be in a file of so many bytes. */
int emb_samples_offsets(const emb_samples_block *block, uint64_t file_bytes,
                        uint64_t offsets[EMB_SAMPLES_BLOCK + 1], emb_err *err);

/* What a record consists of; the parts point into it. */
typedef struct emb_samples_part {
  const uint8_t *at;
  size_t bytes;
} emb_samples_part;
typedef struct emb_samples_sample {
  uint32_t label_type; /* EMB_SAMPLES_; CSV: BYTES */
  int64_t label;       /* UINT, INT */
  double label_real;   /* FLOAT */
  emb_samples_part label_part;
  int label_quoted; /* CSV: it has doubled quotes in it */
  int64_t timestamp;
  /* The record without these fields, in so many parts. */
  emb_samples_part payload[3];
  uint32_t parts;
} emb_samples_sample;
/* MISMATCH: the record is not of that format. */
int emb_samples_split(const emb_samples_format *format, const void *record,
                      size_t bytes, emb_samples_sample *sample, emb_err *err);
/* A quoted field of CSV without its doubled quotes; returns how many bytes. */
size_t emb_samples_unquote(const emb_samples_part *part, char *to);
/* 1: a field of CSV is written as an integer that int64 holds. */
int emb_samples_integer(const emb_samples_part *part, int64_t *number);

/* Who reads.  One thread at a time; files that are open are shared by all
** readers of the process. */
typedef struct emb_samples_reader emb_samples_reader;
/* is_cached: through the system's page cache, else past it. */
int emb_samples_open(int is_cached, emb_samples_reader **reader, emb_err *err);
/* After its batches; NULL is allowed. */
void emb_samples_close(emb_samples_reader *reader);

/* Records that are read together.  They are added, in the order of their places
** where that can be, and reading begins while they are; several batches of a
** reader may be under way. */
typedef struct emb_samples_batch emb_samples_batch;
/* bytes: of memory, about; one record may take more. */
int emb_samples_batch_new(emb_samples_reader *reader, size_t bytes,
                          emb_samples_batch **batch, emb_err *err);
void emb_samples_batch_free(emb_samples_batch *batch);
/* Waits for what is under way, and has no records. */
void emb_samples_batch_clear(emb_samples_batch *batch);
/* *added = 0: it has no room for one more.  Errors: CANTOPEN and MISMATCH as
** emb_samples_verify, IOERR, NOMEM, CORRUPT (not in the file). */
int emb_samples_batch_add(emb_samples_batch *batch,
                          const emb_samples_file *file, uint64_t offset,
                          uint64_t bytes, int *added, emb_err *err);
/* All were added. */
int emb_samples_batch_start(emb_samples_batch *batch, emb_err *err);
/* All are there, and their files were as they should be after the reads. */
int emb_samples_batch_wait(emb_samples_batch *batch, emb_err *err);
/* The i-th that was added, after the wait, until the batch is cleared. */
const void *emb_samples_batch_record(const emb_samples_batch *batch, size_t i,
                                     size_t *bytes);
/* A path that means the same wherever the process works: as env->absolute. */
int emb_samples_absolute(const char *path, char *to, size_t size, emb_err *err);

/* The regular files in a directory, links to them too, in the order of the
** bytes of their names; without those in directories below it, and those whose
** names begin with a dot. */
typedef struct emb_samples_directory emb_samples_directory;
typedef struct emb_samples_entry {
  const char *path; /* an absolute one, until the next call; NULL: no more */
  uint64_t bytes;
  int64_t changed_ns; /* last, since 1970 */
} emb_samples_entry;
/* wanted, which may be NULL, says of a name whether it is.  To be closed after
** an error, too.  Errors: CANTOPEN, NOMEM. */
int emb_samples_directory_open(const char *path,
                               int (*wanted)(void *arg, const char *name),
                               void *arg, emb_samples_directory **directory,
                               emb_err *err);
/* Errors: CANTOPEN, RANGE (a path that is too long). */
int emb_samples_directory_next(emb_samples_directory *directory,
                               emb_samples_entry *entry, emb_err *err);
void emb_samples_directory_close(emb_samples_directory *directory);

/* ---- choosing data ------------------------------------------------------ */

/* A number x, 0 <= x < 1, a multiple of 2^-53, uniformly distributed over keys;
** the same on every machine and in every version.  Each argument is a word,
** from an integer or from bytes, which differ as text and as blob. */
uint64_t emb_random_integer(int64_t integer);
uint64_t emb_random_bytes(const void *bytes, size_t n, int is_text);
double emb_random(uint64_t seed, uint64_t stream, uint64_t key);

/* n vectors of dim elements, which are finite, each with a key. */
typedef struct emb_points {
  const int64_t *keys;
  const float *vectors;
  size_t n;
  uint32_t dim;
  int (*interrupted)(void *); /* asked now and then: not 0 ends the call with
                                 EMB_INTERRUPT; NULL: never */
  void *arg;                  /* what it is called with */
} emb_points;

typedef struct emb_chosen {
  uint64_t row;  /* of the points, from 0 */
  double weight; /* what it counts in training */
  double gain;   /* what it added when it was chosen; k-center: its distance
                    from the nearest of those before it, NaN for the first */
} emb_chosen;

/* Chooses k of them, or all n if that is less, in the order in which they were
** chosen.  method is a text that sql/manual/choosing.md describes: "k-center",
** "craig", "gradmatch", "submodular(facility_location)", ...  Of points that
** are as good the one that stands first is chosen.  Nothing but the memory of
** the call is touched.  Errors: RANGE (method), NOMEM, INTERRUPT. */
int emb_coreset(const emb_points *points, size_t k, const char *method,
                emb_chosen *chosen, emb_err *err);
/* EMB_RANGE, with what is wrong, when the method may not be this text. */
int emb_coreset_check(const char *method, emb_err *err);

/* Two samples of vectors: the first `references`, then the others. */
typedef struct emb_drift {
  const float *vectors;
  size_t references, others;
  uint32_t dim;
  double unit;  /* 1 in the vectors is this much, for gamma: as a rule 1 */
  double gamma; /* of exp(-gamma * squared distance); 0: 1 / the median of the
                   squared distances of the references */
  int median_of_all;          /* or of all vectors */
  int is_biased;              /* the biased estimate */
  int (*interrupted)(void *); /* as in emb_points */
  void *arg;
} emb_drift;

/* The squared maximum mean discrepancy.  Errors: RANGE (less than two vectors
** in a sample), NOMEM, INTERRUPT. */
int emb_drift_mmd(const emb_drift *ask, double *mmd, emb_err *err);

/* Of two samples of finite numbers, n and m > 0, which are sorted: the greatest
** difference of the distribution functions; the two-sample statistic of
** Cramer and von Mises; Hellinger's distance of the histograms with so many
** equal parts between the least and the greatest of all (0: Sturges' number of
** them), which may change the numbers. */
double emb_drift_ks(double *x, size_t n, double *y, size_t m);
double emb_drift_cvm(double *x, size_t n, double *y, size_t m);
double emb_drift_hellinger(double *x, size_t n, double *y, size_t m,
                           size_t parts);

/* ---- differences --------------------------------------------------------- */

/* How to make some bytes, the result, of others, the base, bit by bit: a model
** of the one that it was trained from, say.  FORMAT.md, "Differences", has the
** bytes.  Both are arrays of little-endian elements; where the base ends early
** it goes on with zeros, so a difference from nothing is a whole model.
** Nothing but the memory of the call is touched: some blocks, and what zstd
** takes. */
typedef struct emb_bytes {
  const void *at; /* NULL where n is 0 */
  size_t n;
} emb_bytes;

enum {
  EMB_DIFF_SUB = 1, /* the integers of the bits: result - base, modulo 2^bits;
                       of floats it is small where these are near */
  EMB_DIFF_XOR = 2
};

typedef struct emb_diff_how {
  int op;                     /* EMB_DIFF_SUB or EMB_DIFF_XOR */
  uint32_t width;             /* bytes of an element: 1, 2, 4 or 8 */
  int split_exponent;         /* exponents apart from the other bytes */
  int rle;                    /* equal bytes in a row, counted */
  int level;                  /* of zstd, 1 to 19; 0: without */
  int (*interrupted)(void *); /* as in emb_points */
  void *arg;
} emb_diff_how;

/* Bytes that the difference of a result of n bytes has at most; 0: RANGE. */
size_t emb_diff_room(const emb_diff_how *how, size_t n);
/* Writes the difference to emb_diff_room(how, result->n) bytes, of which it
** takes *bytes.  err may be NULL.  Errors: RANGE (how), NOMEM, INTERRUPT. */
int emb_diff(const emb_diff_how *how, const emb_bytes *base,
             const emb_bytes *result, void *difference, size_t *bytes,
             emb_err *err);

/* What a difference says of itself. */
typedef struct emb_diff_head {
  uint64_t base_bytes, base_sum; /* of the base; a sum is XXH3-64 */
  uint64_t result_bytes, result_sum;
  int op;
  uint32_t width;
  int split_exponent;
} emb_diff_head;

/* Reads that, after the checksum of all of it.  result_bytes is not more than
** what so many bytes can say, which is 7,000 to 60,000 times as many.  Errors:
** NOTADB (no difference, or a newer format), CORRUPT (damaged). */
int emb_diff_read(const emb_bytes *difference, emb_diff_head *head,
                  emb_err *err);
/* Writes the result to head.result_bytes bytes, which are undefined after an
** error.  interrupted may be NULL.  Errors: those of emb_diff_read, MISMATCH
** (another base), CORRUPT, NOMEM, INTERRUPT. */
int emb_patch(const emb_bytes *base, const emb_bytes *difference, void *result,
              int (*interrupted)(void *), void *arg, emb_err *err);

#ifdef __cplusplus
}
#endif
#endif
