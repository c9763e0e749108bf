/* SPDX-License-Identifier: MIT
**
** ivf.h -- an index of nearest neighbours: candidates, by lists and codes.
**
** It works on vectors and keys, without any knowledge of a store.  Each key
** belongs to the centre nearest to its vector, and is in the list of a shell of
** that centre (shells.h), with a code of the residual (code.h): list number =
** centre * shells + shell.  A search scans the lists that are nearest to the
** query (order.h), and returns the keys whose codes are nearest.  The caller
** then compares the rows themselves.  So an outdated entry costs a candidate,
** but never causes a wrong answer.
**
** THREADS  One maintainer at a time creates, trains, adds, moves and closes;
**          other threads search (ivf_search) and remove (ivf_remove) at the
**          same time.
** FAILURE  0, or an error without a text, if memory runs out: existing entries
**          stay.
*/
#ifndef EMB_IVF_H
#define EMB_IVF_H

#include "centres.h"
#include "lists.h"
#include "places.h"
#include "shells.h"

struct ivf {
  struct env *env;
  struct ivf_form form;
  struct centres centres;
  struct shells shells;
  struct lists lists;
  struct places places;
  const struct ivf_ops *ops;
  /* Sum of the squared lengths of residuals, uncoded, over the keys passed to
  ** ivf_set since the last reset, and their number; only for the maintainer. */
  double error_sum;
  uint64_t error_rows;
  /* Written by the maintainer and by removals, relaxed; read for emb_stats. */
  _Atomic uint64_t rows;
};

/* ---- creation ------------------------------------------------------------ */

struct ivf_shape {
  uint32_t dim, bits, metric, centres, shells; /* 0 shells: one */
  uint64_t expected;                           /* rows, approximately */
};
/* *ivf must be zeroed.  The caller or ivf_train then fills in the centres.  0:
** no memory, and nothing was allocated. */
int ivf_init(struct ivf *ivf, struct env *env, const struct ivf_shape *shape);
void ivf_free(struct ivf *ivf);
/* For the maintainer, while no other thread uses the index.  Only in
** self-checking builds (ivf_valid.c). */
int ivf_valid(struct ivf *ivf);
/* Memory of an index of this many rows; an approximate upper bound. */
uint64_t ivf_bytes_of(const struct ivf_shape *shape, uint64_t rows);
/* Memory that the index uses now; for the maintainer. */
uint64_t ivf_bytes(const struct ivf *ivf);

/* Training: sample has n prepared rows, at least as many as centres, and
** belongs to the training.  Call ivf_train_step until it returns 1. */
struct ivf_training {
  struct training training;
  struct nearer nearer;
  int has_centres; /* and the sample's residuals are being measured */
  struct shells_sample residuals;
};
int ivf_train(struct ivf_training *t, struct ivf *ivf, float *sample, size_t n);
int ivf_train_step(struct ivf_training *t);
/* Fits the shells and the marks to the residuals of the sample, and ends the
** training, which may be incomplete if the index is then freed.  EMB_NOMEM. */
int ivf_train_end(struct ivf_training *t, struct ivf *ivf);

/* ---- maintaining --------------------------------------------------------- */

/* Converts a row to the form in which the index compares it; 0: the row cannot
** be found (zero under EMB_COSINE). */
int ivf_prepare(const struct ivf *ivf, float *vector);

struct ivf_writer { /* the maintainer's memory */
  struct ivf *ivf;
  struct nearer nearer;
  uint32_t *words;
  uint8_t marks[2];
  float *residual;
  /* Over all calls: keys moved to another list, and keys recoded in place. */
  uint64_t moved, same;
};
int ivf_writer_init(struct ivf_writer *writer, struct ivf *ivf);
void ivf_writer_free(struct ivf_writer *writer);
#define IVF_ROWS NEARER_ROWS
/* Adds n keys, at most IVF_ROWS, with prepared vectors, or moves them to
** where they now belong.  EMB_NOMEM: some were neither added nor moved. */
int ivf_set(struct ivf_writer *writer, const int64_t *keys,
            const float *vectors, size_t n);
/* For any thread.  1: the key was there. */
int ivf_remove(struct ivf *ivf, int64_t key);
static inline int ivf_has(struct ivf *ivf, int64_t key) {
  return ivf__places_find(&ivf->places, key) != PLACE_NONE;
}
/* Gets at most `most` keys of one list, in whole blocks, from *block on (0 at
** first); *block: where to continue, 0: at the end.  Returns their number. */
size_t ivf_keys(struct ivf *ivf, uint32_t list, uint32_t *block, int64_t *keys,
                size_t most);
/* Fills the holes of one list. */
void ivf_close(struct ivf *ivf, uint32_t list);

/* ---- in a file ----------------------------------------------------------- */

/* Entries as saved in a file: a block of a list as it is in memory.  Slots
** whose bit is not in `live` are undefined. */
struct ivf_saved {
  uint32_t list, live;
  int64_t *keys;   /* [16] */
  uint32_t *words; /* [form.words][16] */
  uint8_t *marks;  /* [form.marks][16] */
};
/* For the maintainer: the first block of a list, and the content of a block,
** which returns the next one, BLOCK_NONE at the end.  Keys may be removed
** concurrently. */
static inline uint32_t ivf_first(const struct ivf *ivf, uint32_t list) {
  return ivf->lists.all[list].first;
}
uint32_t ivf_saved(struct ivf *ivf, uint32_t block, struct ivf_saved *saved);
/* Adds saved entries; the centres and the form must be there.  Skips existing
** keys.  EMB_CORRUPT: no such list, or an invalid `live`; EMB_NOMEM. */
int ivf_restore(struct ivf *ivf, const struct ivf_saved *saved);
/* Sets the marks' base from the file. */
void ivf_restore_form(struct ivf *ivf, uint32_t base);

/* ---- checking ------------------------------------------------------------ */

struct ivf_checked {
  uint64_t rows;  /* live entries */
  uint64_t lost;  /* of these, entries whose key has another place or none */
  uint64_t found; /* keys in the places */
  uint64_t wrong; /* lists with a wrong number of blocks, or another's block */
};
/* For the maintainer; searches and removals may run.  Removals may make the
** figures differ. */
void ivf_check(struct ivf *ivf, struct ivf_checked *checked);

/* ---- searching ----------------------------------------------------------- */

/* Orders in which lists are probed (order.h), from 0: by the centre alone. */
#define IVF_ORDERS 5

struct ivf_asked {
  const float *query;                    /* not prepared */
  uint32_t probes;                       /* lists to search, */
  uint32_t order;                        /* in this order */
  uint32_t most;                         /* candidates to keep */
  int (*admits)(void *arg, int64_t key); /* NULL: all */
  /* NULL, or `admits` for the keys in `live` of a block.  For conditions that
  ** admit few keys, because it is called before codes are compared. */
  uint32_t (*admitted)(void *arg, const int64_t *keys, uint32_t live);
  void *arg;
};
struct ivf_candidate {
  float estimate;
  uint32_t at; /* position of its list, in the order of the search */
  int64_t key;
};
struct ivf_search { /* of one thread; kept from one query to the next */
  struct ivf *ivf;
  float *query, *part; /* prepared; minus a centre */
  float *products;     /* with the centres */
  float *scores;       /* of the lists */
  uint32_t *order, *positions, *ranks;
  int8_t *rounded;
  struct ivf_candidate *found;
  size_t n, room;
  uint64_t looked_at; /* entries, in all queries */
  uint32_t probed;    /* nonempty lists searched by the last query */
  /* With `admits`, in the last query: keys tested regardless of their codes,
  ** and how many of these were admitted. */
  uint32_t sampled, admitted;
};
int ivf_search_init(struct ivf_search *search, struct ivf *ivf);
void ivf_search_free(struct ivf_search *search);
/* Sets search->found[0..n) to the candidates, in no order; without codes, all
** entries of the lists.  A key being moved may be found twice.  EMB_NOMEM. */
int ivf_search(struct ivf_search *search, const struct ivf_asked *asked);
/* Sets at[i] to the position of the list of key i among the lists in the order
** in which a search for the query probes them; UINT32_MAX: it is in none.  For
** the maintainer. */
void ivf_positions(struct ivf_search *search, const float *query,
                   uint32_t order, const int64_t *keys, size_t n, uint32_t *at);

#endif
