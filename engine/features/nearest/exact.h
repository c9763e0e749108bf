/* SPDX-License-Identifier: MIT
**
** exact.h -- private to the files of an exact search.  exact.c runs it; threads
** take extents of the log one after the other (extents.c) and compare the rows
** of their pages (compare.c).  limit.c derives a distance limit from a sample
** of the rows.
*/
#ifndef EMB_NEAREST_EXACT_H
#define EMB_NEAREST_EXACT_H

#include "engine/math/vec/pick.h"
#include "engine/table/scan/scan.h"
#include "gathered.h"
#include "nearest.h"

/* More queries than this are compared in blocks: for fewer, copying each row
** costs more than it saves. */
#define FEW_QUERIES 3

/* Shared by all threads of a search. */
struct search {
  const struct ask *ask;
  struct core *core;
  const struct scan_watch *watch; /* of the open scan: what to skip */
  uint64_t first, end;            /* pages */
  uint32_t group;                 /* pages compared per stay in the epoch */
  /* Next extent to take; relaxed, as the next two. */
  _Atomic uint64_t next;
  _Atomic int stop;        /* a thread failed or was interrupted */
  _Atomic uint64_t passed; /* extents done, for progress */
};

/* Compares rows with queries.  With few queries the rows of a page are compared
** in place, and only records equal to the last near row are gathered; with
** more, all rows are first gathered into a block. */
struct compare {
  const struct ask *ask;
  const struct core *core;
  float error;    /* distance_error */
  size_t width;   /* queries compared per block: whole panels, or 0 */
  float *panels;  /* of all queries */
  float *results; /* of a page's rows, or width per row of a block */
  float *squares; /* of the same rows */
  float *least;   /* of each query: see compare.c */
  pick_form *pick;
  uint32_t *picked; /* queries of a block's row */
  double *lengths;  /* sums of squares of the queries */
  uint64_t *stamps; /* of a page's rows, before they were compared */
  char *page;       /* under ThreadSanitizer, a copy */
  uint8_t *near;    /* of a page's rows: see NEAR_ in compare.c */
  int has_stamps;   /* were they read before the rows? */
  int is_busy;      /* was a writer in the page? */
  struct gathered gather;
  uint32_t room; /* rows of a block */
  uint32_t most; /* records gathered before they are compared */
  /* Few queries: the row last gathered, as stored, and its distances. */
  char *equal;
  size_t equal_bytes;
  double equal_far[FEW_QUERIES];
  int in_run;        /* the last near row was equal to it */
  int equal_all;     /* some query would take it with any key, */
  int64_t equal_key; /* or else only with a key below this one */
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

/* A page cannot be used: the search is repeated as a scan, which can tell
** why. */
#define EXACT_BROKEN (-6)

/* extents.c */
/* EMB_NOMEM.  `e` must be zeroed before the call.  extents__end must follow,
** even after an error. */
int extents__begin(struct extents *e, struct search *search);
void extents__end(struct extents *e);
/* Compares extents until none is left. */
void exact__extents(struct extents *e);
/* Has the extent of this page nothing to compare?  Its count of live records
** does not include those of the session's own transaction.  Inside the
** epoch. */
int extents__is_empty(const struct search *search, uint64_t page);
/* Stops the search with error rc, and returns rc. */
static inline int exact_failed(struct extents *e, int rc) {
  e->rc = e->rc ? e->rc : rc;
  atomic_store_explicit(&e->search->stop, 1, memory_order_relaxed);
  return rc;
}
/* May the thread continue?  The caller's thread also polls for an interrupt.
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
/* Compares some rows in memory with few queries.  Inside the epoch; the search
** must end with compare__blocks. */
void compare__rows(struct compare *c, const struct page_rows *rows);
/* Compares or gathers the rows of a page.  Inside the epoch; call
** compare__blocks after leaving it. */
void compare__page(struct compare *c, const struct page_rows *rows);
/* Gathers a row that is known to be current, for several queries that want no
** records; at most as many as a page has between two calls of
** compare__blocks. */
void compare__row(struct compare *c, int64_t key, const float *vector);
/* Compares the gathered rows in whole blocks; all: also the rest.  Outside the
** epoch. */
void compare__blocks(struct extents *e, int all);

/* limit.c */
/* Estimates a limit before a search: most likely k rows are within *limit.  If
** no estimate is possible, *limit is the maximum distance the query allows.
** EMB_NOMEM, EMB_INTERRUPT. */
int limit__sample(const struct search *search, double *limit);

#endif
