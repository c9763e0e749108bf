/* SPDX-License-Identifier: MIT
**
** exact.h -- private to the files of an exact search: exact.c leads it, threads
** take extents of the log one after the other (extents.c), and compare the rows
** of their pages (compare.c).  What is farther than a sample of the rows allows
** is left out (limit.c).
*/
#ifndef EMB_NEAREST_EXACT_H
#define EMB_NEAREST_EXACT_H

#include "engine/math/vec/pick.h"
#include "engine/table/scan/scan.h"
#include "nearest.h"

/* What all threads of a search share. */
struct search {
  const struct ask *ask;
  struct core *core;
  const struct scan_watch
      *watch;          /* of the scan that is open: what is skipped */
  uint64_t first, end; /* pages */
  uint32_t group;      /* pages that are compared in one stay */
  /* Extent that is taken next; relaxed, as the next two. */
  _Atomic uint64_t next;
  _Atomic int stop;        /* something failed, or was interrupted */
  _Atomic uint64_t passed; /* extents: progress */
};

/* Rows against queries.  Of one query or few the rows of a page are compared
** where they are; for several, rows are gathered into a block first. */
struct compare {
  const struct ask *ask;
  const struct core *core;
  float error;    /* distance_error */
  size_t width;   /* queries of a block's comparison: whole panels, or 0 */
  float *panels;  /* of all queries */
  float *results; /* of a page's rows, or width of each of a block's */
  float *squares; /* of the same rows */
  float *least;   /* of each query: see compare.c */
  pick_form *pick;
  uint32_t *picked;   /* queries of a block's row */
  double *lengths;    /* sums of squares of the queries */
  uint64_t *stamps;   /* of a page's rows, before they were compared */
  char *page;         /* under ThreadSanitizer, a copy */
  char *values;       /* of one record, as it is stored; of all that are
                         gathered, if records are wanted */
  size_t value;       /* bytes from one of them to the next, or 0 */
  uint64_t *versions; /* of values */
  float *block;       /* gathered rows, decoded */
  int64_t *keys;      /* theirs */
  uint64_t *addresses;
  uint32_t rows;      /* gathered: less than a block, and those of a page */
  uint32_t room;      /* of a block */
  uint8_t *is_live;   /* of a block's rows: see LIVE_ */
  float *equal;       /* the last row that was offered, */
  uint64_t equals;    /* its number, */
  uint64_t *equal_to; /* and of each query the number of the row to which it */
  double *equal_far;  /* has this distance */
  struct best best;
};

/* One thread's part. */
struct extents {
  struct search *search;
  struct epoch_slot *slot;
  emb_session *caller; /* of the thread that made the call, else NULL */
  struct compare compare;
  struct env_queue *queue;
  char *buffers;
  void *thread;
  int rc; /* an error, or EXACT_BROKEN */
  emb_err err;
};

/* A page is not as it should be: the search is made again, by a scan, which
** knows what that means. */
#define EXACT_BROKEN (-6)

/* extents.c */
/* EMB_NOMEM.  To be ended in any case, of zeros before. */
int extents__begin(struct extents *e, struct search *search);
void extents__end(struct extents *e);
/* Until none is left. */
void exact__extents(struct extents *e);
/* Is there nothing to compare in the extent of this page?  Live records of the
** session's own transaction are not counted as such.  Inside the epoch. */
int extents__is_empty(const struct search *search, uint64_t page);
/* The search ends, and this is why; returns it. */
static inline int exact_failed(struct extents *e, int rc) {
  e->rc = e->rc ? e->rc : rc;
  atomic_store_explicit(&e->search->stop, 1, memory_order_relaxed);
  return rc;
}
/* May the thread go on?  The caller's also looks whether it is interrupted.
** Outside the epoch. */
static inline int exact_goes_on(struct extents *e) {
  if (e->caller && session_poll(e->caller)) {
    exact_failed(e, EMB_INTERRUPT);
  }
  return !atomic_load_explicit(&e->search->stop, memory_order_relaxed);
}

/* Rows of a page, in memory or as read from disk. */
struct page_rows {
  uint64_t page;
  const char *at; /* the first record */
  int from_disk;
  uint32_t n;
  uint32_t first; /* its place in the page */
};

/* compare.c */
int compare__init(struct compare *c, const struct ask *ask);
void compare__free(struct compare *c);
/* Some rows in memory, with few queries.  Inside the epoch. */
void compare__rows(struct compare *c, const struct page_rows *rows);
/* Inside the epoch.  After it, outside, compare__blocks. */
void compare__page(struct compare *c, const struct page_rows *rows);
/* What was gathered is compared as far as it makes whole blocks; all: what is
** left, too. */
void compare__blocks(struct extents *e, int all);

/* limit.c */
/* Of a search that has not begun: k rows are within *limit, most likely.  What
** is asked for at most, where that is not to be known.  EMB_NOMEM,
** EMB_INTERRUPT. */
int limit__sample(const struct search *search, double *limit);

#endif
