/* SPDX-License-Identifier: MIT
**
** ivf.h -- an index of nearest neighbours: candidates, by lists and codes.
**
** It knows vectors and keys, nothing of a store.  Each key is in the list of
** the centre that is nearest to its vector, with a code of what is left
** (code.h).  A search looks into the lists whose centres are nearest to the
** query, and gives out the keys whose codes are nearest; what these rows are
** worth is for the caller to find out, from the rows.  So an entry that is out
** of date costs a candidate, and never makes a wrong answer.
**
** THREADS  One maintainer at a time makes, trains, adds, moves and closes; the
**          others search (ivf_search) and remove (ivf_remove) beside it.
** FAILURE  0 or an error without a text where memory is short: what was there
**          before stays.
*/
#ifndef EMB_IVF_H
#define EMB_IVF_H

#include "centres.h"
#include "lists.h"
#include "places.h"

struct ivf {
  struct env *env;
  struct ivf_form form;
  struct centres centres;
  struct lists lists;
  struct places places;
  const struct ivf_ops *ops;
  /* Of the metric l2 and entries as they are: sums over the keys that were
  ** added or moved since the last look (ivf_error); the maintainer's. */
  double error_sum;
  uint64_t error_rows;
  /* Written by the maintainer and by removals, relaxed; read for emb_stats. */
  _Atomic uint64_t rows;
};

/* ---- making -------------------------------------------------------------- */

struct ivf_shape {
  uint32_t dim, bits, metric, lists;
  uint64_t expected; /* rows, about */
};
/* Zeros before; the centres are the caller's to fill in, or ivf_train's.  0: no
** memory, and nothing is there. */
int ivf_init(struct ivf *ivf, struct env *env, const struct ivf_shape *shape);
void ivf_free(struct ivf *ivf);
/* Memory of an index of so many rows, at most about. */
uint64_t ivf_bytes_of(const struct ivf_shape *shape, uint64_t rows);
/* What it takes now; the maintainer's. */
uint64_t ivf_bytes(const struct ivf *ivf);

/* Training: sample is n rows, at least as many as lists, which are prepared and
** belong to the training.  ivf_train_step until it says 1. */
struct ivf_training {
  struct training training;
  struct nearer nearer;
};
int ivf_train(struct ivf_training *t, struct ivf *ivf, float *sample, size_t n);
int ivf_train_step(struct ivf_training *t);
/* Marks for the residuals of the sample; and the end. */
void ivf_train_end(struct ivf_training *t, struct ivf *ivf);

/* ---- maintaining --------------------------------------------------------- */

/* Rows as the index compares them; 0: this one cannot be found (a zero under
** EMB_COSINE). */
int ivf_prepare(const struct ivf *ivf, float *vector);

struct ivf_writer { /* the maintainer's memory */
  struct ivf *ivf;
  struct nearer nearer;
  uint32_t *words;
  uint8_t marks[2];
  float *residual;
  /* Of all calls: keys that went to another list, and that got another code. */
  uint64_t moved, same;
};
int ivf_writer_init(struct ivf_writer *writer, struct ivf *ivf);
void ivf_writer_free(struct ivf_writer *writer);
#define IVF_ROWS NEARER_ROWS
/* n keys, at most IVF_ROWS, with prepared vectors: added, or put where they
** belong by now.  EMB_NOMEM: some are not. */
int ivf_set(struct ivf_writer *writer, const int64_t *keys,
            const float *vectors, size_t n);
/* Any thread's.  1: it was there. */
int ivf_remove(struct ivf *ivf, int64_t key);
static inline int ivf_has(struct ivf *ivf, int64_t key) {
  return ivf__places_find(&ivf->places, key) != PLACE_NONE;
}
/* The keys of one list from *block on, 0 at first, at most `most`, in whole
** blocks; *block is where to go on.  0: no more. */
size_t ivf_keys(struct ivf *ivf, uint32_t list, uint32_t *block, int64_t *keys,
                size_t most);
/* Fills the holes of one list. */
void ivf_close(struct ivf *ivf, uint32_t list);

/* ---- in a file ----------------------------------------------------------- */

/* Entries as a file has them: a block of a list as it is in memory.  Slots
** whose bit is not in `live` mean nothing. */
struct ivf_saved {
  uint32_t list, live;
  int64_t *keys;   /* [16] */
  uint32_t *words; /* [form.words][16] */
  uint8_t *marks;  /* [form.marks][16] */
};
/* The maintainer's: the first block of a list, and what a block has; returns
** the next one, BLOCK_NONE at the end.  Keys may be taken away meanwhile. */
static inline uint32_t ivf_first(const struct ivf *ivf, uint32_t list) {
  return ivf->lists.all[list].first;
}
uint32_t ivf_saved(struct ivf *ivf, uint32_t block, struct ivf_saved *saved);
/* The centres and the form are there.  Keys that are there already are left
** out.  EMB_CORRUPT: there is no such list; EMB_NOMEM. */
int ivf_restore(struct ivf *ivf, const struct ivf_saved *saved);
/* Marks are as the file's. */
void ivf_restore_form(struct ivf *ivf, uint32_t base);

/* ---- checking ------------------------------------------------------------ */

struct ivf_checked {
  uint64_t rows;  /* live entries */
  uint64_t lost;  /* of these, keys that are not found there */
  uint64_t found; /* keys that the places have */
  uint64_t wrong; /* lists whose blocks are not as many, or another's */
};
/* Beside searches, and removals, by which figures may differ; the
** maintainer's. */
void ivf_check(struct ivf *ivf, struct ivf_checked *checked);

/* ---- searching ----------------------------------------------------------- */

struct ivf_asked {
  const float *query;                    /* as it was asked */
  uint32_t probes;                       /* lists to look into */
  uint32_t most;                         /* candidates that are kept */
  int (*admits)(void *arg, int64_t key); /* NULL: all */
  /* NULL, or the same of the keys of a block, of those in `live`: for when few
  ** are admitted, as it is asked before codes are looked at. */
  uint32_t (*admitted)(void *arg, const int64_t *keys, uint32_t live);
  void *arg;
};
struct ivf_candidate {
  float estimate;
  uint32_t unused;
  int64_t key;
};
struct ivf_search { /* one thread's; kept from one query to the next */
  struct ivf *ivf;
  float *query, *part; /* prepared; less a centre */
  float *scores;       /* of the centres */
  uint32_t *order;
  int8_t *rounded;
  struct ivf_candidate *found;
  size_t n, room;
  uint64_t looked_at; /* entries, in all queries */
  uint32_t probed;    /* lists of the last query that have entries */
  /* With `admits`, of the last query: keys that were asked for it, whatever
  ** their codes, and of these the ones that it let in. */
  uint32_t sampled, admitted;
};
int ivf_search_init(struct ivf_search *search, struct ivf *ivf);
void ivf_search_free(struct ivf_search *search);
/* search->found[0..n): candidates in no order; without codes all of the lists.
** A key may be among them twice while it is being moved.  EMB_NOMEM. */
int ivf_search(struct ivf_search *search, const struct ivf_asked *asked);

#endif
