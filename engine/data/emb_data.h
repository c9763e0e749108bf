/* SPDX-License-Identifier: MIT
**
** emb_data.h -- choosing training data: files of samples, coresets, drift,
** repeatable random numbers, and differences between models.
**
** A separate product next to emb.h: it needs no store, and emb.h does not
** depend on it.  It shares emb.h's error codes and one rule: every int function
** returns EMB_OK or a code, and a failed call has changed nothing, unless its
** comment says otherwise.
*/
#ifndef EMB_DATA_H
#define EMB_DATA_H

#include "emb.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- samples: records of files that others write ------------------------- */

/* Files of records that stay in place.  A survey finds the records of a file
** once (emb_samples_survey), and a batch reads many of them at a time
** (emb_samples_batch).  Needs no store.  FORMAT.md, "Files of samples",
** describes the file formats, and the blocks of spans. */
enum {
  EMB_SAMPLES_FIXED = 1, /* consecutive records of the same size */
  EMB_SAMPLES_FRAMED,    /* each record is preceded by its length */
  EMB_SAMPLES_INDEXED,   /* another file says where each record begins */
  EMB_SAMPLES_CSV,       /* RFC 4180 */
};
enum {
  EMB_SAMPLES_NONE = 0,
  EMB_SAMPLES_UINT, /* of 1, 2, 4 or 8 bytes; 8 bytes are read as an int64 */
  EMB_SAMPLES_INT,
  EMB_SAMPLES_FLOAT, /* of 4 or 8 bytes */
  EMB_SAMPLES_BYTES, /* any number of bytes; in CSV a text */
};
#define EMB_SAMPLES_RECORD_MAX (UINT32_C(64) << 20)
#define EMB_SAMPLES_BLOCK 256 /* records */
typedef struct emb_samples_field {
  uint32_t type;  /* EMB_SAMPLES_NONE: no such field */
  uint32_t bytes; /* CSV: unused */
  uint64_t at;    /* its first byte in the record; CSV: the column, from 0 */
} emb_samples_field;
typedef struct emb_samples_format {
  uint32_t kind;
  uint32_t big_endian; /* applies to all numbers of the file */
  uint32_t separator;  /* CSV: column separator, an ASCII character */
  uint32_t prefix;     /* FRAMED: bytes of a length: 1, 2, 4 or 8 */
  uint64_t header;     /* bytes before the first record; CSV: records */
  uint64_t record;     /* FIXED: bytes of a record */
  emb_samples_field label, timestamp;
} emb_samples_format;
/* EMB_RANGE: the format is invalid; the text says why. */
int emb_samples_check(const emb_samples_format *format, emb_err *err);

/* A file as of its survey. */
typedef struct emb_samples_file {
  const char *path;
  int64_t id; /* chosen by the caller: equal for the same file */
  uint64_t bytes;
  int64_t changed_ns; /* time of its last change, since 1970 */
  uint64_t sum;       /* of its first and its last 4 KiB */
} emb_samples_file;

/* Consecutive records: EMB_SAMPLES_BLOCK of them, or fewer at the end of a
** file. */
typedef struct emb_samples_block {
  uint64_t number; /* from 0 */
  uint32_t records;
  int64_t least, most; /* timestamps; 0 if the format has no such field */
  const void *spans;   /* the place of each record; FIXED: NULL */
  size_t bytes;        /* of spans */
} emb_samples_block;
typedef struct emb_samples_ask {
  const char *path;           /* absolute */
  const char *index;          /* INDEXED: the other file's path */
  const char *label_name;     /* CSV: column names, looked up in the first */
  const char *timestamp_name; /* record and entered into the format; or
                                 NULL */
  emb_samples_format *format;
  /* Called with each block, except for a FIXED file without a timestamp field,
  ** which needs no blocks.  Nonzero ends the survey with EMB_ABORT. */
  int (*block)(void *arg, const emb_samples_block *block);
  int (*stop)(void *arg); /* nonzero: EMB_INTERRUPT; or NULL */
  void *arg;
} emb_samples_ask;
typedef struct emb_samples_found {
  uint64_t bytes, records;
  int64_t changed_ns;
  uint64_t sum;        /* of both ends */
  uint64_t all;        /* sum of the whole file; 0: it was not read */
  int64_t least, most; /* timestamps, if the format has such a field */
} emb_samples_found;
/* Memory: 2 MiB plus the longest record.  Errors: CANTOPEN, IOERR, NOMEM,
** INTERRUPT, MISMATCH (the file is not of that format; the text says where),
** and those of emb_samples_check. */
int emb_samples_survey(const emb_samples_ask *ask, emb_samples_found *found,
                       emb_err *err);
/* Checks that the file is unchanged: size, time, and both ends; if `all` is not
** 0, every byte.  CANTOPEN: there is no such file; MISMATCH: it has changed. */
int emb_samples_verify(const emb_samples_file *file, uint64_t all,
                       int (*stop)(void *), void *arg, emb_err *err);
/* Decodes the places of a block's records: offsets[i] up to offsets[i + 1].
** CORRUPT: they are not possible in a file of file_bytes bytes. */
int emb_samples_offsets(const emb_samples_block *block, uint64_t file_bytes,
                        uint64_t offsets[EMB_SAMPLES_BLOCK + 1], emb_err *err);

/* The contents of a record; the parts point into it. */
typedef struct emb_samples_part {
  const uint8_t *at;
  size_t bytes;
} emb_samples_part;
typedef struct emb_samples_sample {
  uint32_t label_type; /* EMB_SAMPLES_; CSV: BYTES */
  int64_t label;       /* UINT, INT */
  double label_real;   /* FLOAT */
  emb_samples_part label_part;
  int label_quoted; /* CSV: the label contains doubled quotes */
  int64_t timestamp;
  /* The record without these fields, as `parts` parts. */
  emb_samples_part payload[3];
  uint32_t parts;
} emb_samples_sample;
/* MISMATCH: the record is not of that format. */
int emb_samples_split(const emb_samples_format *format, const void *record,
                      size_t bytes, emb_samples_sample *sample, emb_err *err);
/* Undoubles the quotes of a quoted CSV field; returns the number of bytes. */
size_t emb_samples_unquote(const emb_samples_part *part, char *to);
/* Returns 1 if a CSV field is an integer that fits an int64. */
int emb_samples_integer(const emb_samples_part *part, int64_t *number);

/* A reader is used by one thread at a time; open files are shared by all
** readers of the process. */
typedef struct emb_samples_reader emb_samples_reader;
/* is_cached: reads through the system's page cache, else past it. */
int emb_samples_open(int is_cached, emb_samples_reader **reader, emb_err *err);
/* Call it after the reader's batches were freed; NULL is allowed. */
void emb_samples_close(emb_samples_reader *reader);

/* A batch: records that are read together.  Add them in file order where
** possible.  Reading begins while records are still added.  A reader may have
** several batches in flight. */
typedef struct emb_samples_batch emb_samples_batch;
/* bytes: approximate memory; a single record may take more. */
int emb_samples_batch_new(emb_samples_reader *reader, size_t bytes,
                          emb_samples_batch **batch, emb_err *err);
void emb_samples_batch_free(emb_samples_batch *batch);
/* Waits for reads in flight, and removes all records. */
void emb_samples_batch_clear(emb_samples_batch *batch);
/* *added = 0: the batch has no room for the record.  Errors: CANTOPEN and
** MISMATCH as emb_samples_verify, IOERR, NOMEM, CORRUPT (not in the file). */
int emb_samples_batch_add(emb_samples_batch *batch,
                          const emb_samples_file *file, uint64_t offset,
                          uint64_t bytes, int *added, emb_err *err);
/* Submits all reads, once all records were added. */
int emb_samples_batch_start(emb_samples_batch *batch, emb_err *err);
/* Waits until all records are read, and then checks that their files are
** unchanged. */
int emb_samples_batch_wait(emb_samples_batch *batch, emb_err *err);
/* The i-th record added.  Valid after the wait, until the batch is cleared. */
const void *emb_samples_batch_record(const emb_samples_batch *batch, size_t i,
                                     size_t *bytes);
/* Makes a path independent of the working directory: as env->absolute. */
int emb_samples_absolute(const char *path, char *to, size_t size, emb_err *err);

/* The regular files in a directory, including links to such files, in byte
** order of their names.  Files in subdirectories, and files whose names begin
** with a dot, are left out. */
typedef struct emb_samples_directory emb_samples_directory;
typedef struct emb_samples_entry {
  const char *path; /* absolute, valid until the next call; NULL: no more */
  uint64_t bytes;
  int64_t changed_ns; /* time of the last change, since 1970 */
} emb_samples_entry;
/* wanted, which may be NULL, says whether a name is wanted.  The directory must
** be closed after an error, too.  Errors: CANTOPEN, NOMEM. */
int emb_samples_directory_open(const char *path,
                               int (*wanted)(void *arg, const char *name),
                               void *arg, emb_samples_directory **directory,
                               emb_err *err);
/* Errors: CANTOPEN, RANGE (a path that is too long). */
int emb_samples_directory_next(emb_samples_directory *directory,
                               emb_samples_entry *entry, emb_err *err);
void emb_samples_directory_close(emb_samples_directory *directory);

/* ---- choosing data ------------------------------------------------------- */

/* Returns a number x, 0 <= x < 1, a multiple of 2^-53, uniformly distributed
** over keys, and the same on every machine and in every version.  Each argument
** is a word made from an integer or from bytes; the same bytes give different
** words as text and as blob. */
uint64_t emb_random_integer(int64_t integer);
uint64_t emb_random_bytes(const void *bytes, size_t n, int is_text);
double emb_random(uint64_t seed, uint64_t stream, uint64_t key);

/* n vectors of dim finite elements, each with a key. */
typedef struct emb_points {
  const int64_t *keys;
  const float *vectors;
  size_t n;
  uint32_t dim;
  int (*interrupted)(void *); /* called now and then; nonzero ends the call with
                                 EMB_INTERRUPT; NULL: never */
  void *arg;                  /* its argument */
} emb_points;

typedef struct emb_chosen {
  uint64_t row;  /* of the points, from 0 */
  double weight; /* its weight in training */
  double gain;   /* gain when it was chosen; k-center: distance from the nearest
                    row chosen before it, NaN for the first */
} emb_chosen;

/* Chooses k points, or all n if n is less, and lists them in the order of
** choice.  method is a text described in sql/manual/choosing.md: "k-center",
** "craig", "gradmatch", "submodular(facility_location)", ...  Among equally
** good points the first is chosen.  Only the memory of the call is touched.
** Errors: RANGE (method), NOMEM, INTERRUPT. */
int emb_coreset(const emb_points *points, size_t k, const char *method,
                emb_chosen *chosen, emb_err *err);
/* EMB_RANGE: the text is not a valid method; the error text says why. */
int emb_coreset_check(const char *method, emb_err *err);

/* Two samples of vectors: the first `references`, then the others. */
typedef struct emb_drift {
  const float *vectors;
  size_t references, others;
  uint32_t dim;
  double unit;  /* value of 1 in the vectors, for gamma: usually 1 */
  double gamma; /* of exp(-gamma * squared distance); 0: 1 / the median of the
                   squared distances of the references */
  int median_of_all;          /* the median of all vectors instead */
  int is_biased;              /* the biased estimate */
  int (*interrupted)(void *); /* as in emb_points */
  void *arg;
} emb_drift;

/* The squared maximum mean discrepancy.  Errors: RANGE (fewer than two vectors
** in a sample), NOMEM, INTERRUPT. */
int emb_drift_mmd(const emb_drift *ask, double *mmd, emb_err *err);

/* Statistics of two samples of n and m > 0 finite numbers, each in ascending
** order.  They return the greatest difference of the distribution functions
** (Kolmogorov-Smirnov); the two-sample statistic of Cramer and von Mises; the
** Hellinger distance of the histograms with `parts` equal bins from the least
** to the greatest number of both samples (0: Sturges' number of bins), which
** may change the numbers. */
double emb_drift_ks(const double *x, size_t n, const double *y, size_t m);
double emb_drift_cvm(const double *x, size_t n, const double *y, size_t m);
double emb_drift_hellinger(double *x, size_t n, double *y, size_t m,
                           size_t parts);

/* ---- differences --------------------------------------------------------- */

/* A difference tells how to make some bytes, the result, from others, the base,
** exact to the bit: for example, a model from an earlier one.  FORMAT.md,
** "Differences", describes the format.  Base and result are arrays of
** little-endian elements.  A base that is too short is padded with zeros, so a
** difference from nothing is a whole model.  Only the memory of the call is
** touched: a few blocks, and the memory of zstd. */
typedef struct emb_bytes {
  const void *at; /* NULL where n is 0 */
  size_t n;
} emb_bytes;

enum {
  EMB_DIFF_SUB = 1, /* bits as integers: result - base, modulo 2^bits; small
                       for floats that are close to each other */
  EMB_DIFF_XOR = 2
};

typedef struct emb_diff_how {
  int op;                     /* EMB_DIFF_SUB or EMB_DIFF_XOR */
  uint32_t width;             /* bytes of an element: 1, 2, 4 or 8 */
  int split_exponent;         /* exponents apart from the other bytes */
  int rle;                    /* run-length encoding */
  int level;                  /* of zstd, 1 to 19; 0: no zstd */
  int (*interrupted)(void *); /* as in emb_points */
  void *arg;
} emb_diff_how;

/* Maximum size of the difference of a result of n bytes; 0: `how` is invalid
** (RANGE). */
size_t emb_diff_room(const emb_diff_how *how, size_t n);
/* Writes the difference to a buffer of emb_diff_room(how, result->n) bytes;
** *bytes: its size.  err may be NULL.  Errors: RANGE (how), NOMEM,
** INTERRUPT. */
int emb_diff(const emb_diff_how *how, const emb_bytes *base,
             const emb_bytes *result, void *difference, size_t *bytes,
             emb_err *err);

/* The head of a difference. */
typedef struct emb_diff_head {
  uint64_t base_bytes, base_sum; /* of the base; a sum is XXH3-64 */
  uint64_t result_bytes, result_sum;
  int op;
  uint32_t width;
  int split_exponent;
} emb_diff_head;

/* Verifies the checksum of the whole difference, then reads its head.
** result_bytes is at most what a difference of this size can encode, which is
** 7,000 to 60,000 times its size.  Errors: NOTADB (not a difference, or a newer
** format), CORRUPT (damaged). */
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
