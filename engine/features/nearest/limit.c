/* SPDX-License-Identifier: MIT
**
** limit.c -- a distance limit for a search of many neighbours, before its pass.
**
** Without a limit, the first rows of a pass all enter the heap, and later ones
** displace them: k ln(n/k) rows are looked up and copied for nothing, in each
** thread.  So a few rows of each page, or of one page in `step`, are compared
** first, and the distance of the r-th nearest of them is the limit.  If the
** sample has one row in f, k/f of the k nearest are expected in it; r is four
** standard deviations more.
**
** 100,000 rows of 64 floats, one thread, for k rows: k = 1,000 took 3.3 ms
** without a limit and 2.35 with one; k = 10,000 took 15.1 ms and 9.2.
**
** FAILURE   The limit is an estimate.  If fewer than k rows are within it, the
**           caller repeats the pass without a limit.
*/
#include <math.h>

#include "exact.h"

enum {
  MANY = 256,    /* from this many neighbours on it pays */
  EXPECTED = 64, /* nearest rows in the sample, at least if k is large */
  ROWS = 2,      /* per page */
  STAY_PAGES = 64,
};

struct limit_sample {
  struct extents *e;
  uint64_t page, end;
  uint64_t step;  /* from one sampled page to the next */
  uint32_t slots; /* per page, and rows sampled of it */
  uint32_t rows;
};

/* Compares some rows of a page, not the same slots in each page. */
static void limit_page(struct limit_sample *sample, const char *bytes) {
  const struct layout *l = &sample->e->search->core->layout;
  uint64_t places = sample->slots - sample->rows + 1;
  uint32_t first = (uint32_t)(sample->page / sample->step * 7 % places);
  const struct page_rows rows = {.page = sample->page,
                                 .at = bytes + PAGE_HEAD_BYTES +
                                       (size_t)first * l->rec_bytes,
                                 .n = sample->rows,
                                 .first = first};
  if (page_kind(bytes) == PAGE_DATA) {
    compare__rows(&sample->e->compare, &rows);
  }
}

/* Compares some pages.  0: not all are in memory. */
static int limit_some(struct limit_sample *sample) {
  const struct search *search = sample->e->search;
  struct core *core = search->core;
  int there = 1;
  epoch_enter(&core->epoch, sample->e->slot);
  for (uint32_t left = STAY_PAGES; left && sample->page < sample->end; left--) {
    const char *bytes = log_page(&core->log, sample->page);
    if (bytes) {
      limit_page(sample, bytes);
    } else {
      there = there && (extents__is_empty(search, sample->page) ||
                        core_is_blank(core, sample->page));
    }
    sample->page += sample->step;
  }
  epoch_leave(sample->e->slot);
  return there;
}

static int limit_of(struct limit_sample *sample, double *limit) {
  emb_session *s = sample->e->search->ask->s;
  int all = 1;
  int rc = EMB_OK;
  while (!rc && all && sample->page < sample->end) {
    all = limit_some(sample);
    rc = session_poll(s);
  }
  compare__blocks(sample->e, 1);
  if (all) {
    *limit = best_limit(&sample->e->compare.best, 0);
  }
  return rc;
}

int limit__sample(const struct search *search, double *limit) {
  struct ask ask = *search->ask;
  uint32_t slots = search->core->layout.slots;
  struct limit_sample sample = {.page = search->first,
                                .end = search->end,
                                .slots = slots,
                                .rows = slots < ROWS ? slots : ROWS};
  *limit = ask.most;
  if (ask.n != 1 || ask.k < MANY) {
    return EMB_OK;
  }
  double expected = (double)ask.k * sample.rows / slots;
  sample.step = (uint64_t)(expected / EXPECTED) + 1;
  expected /= (double)sample.step;
  ask.k = (size_t)(expected + 4 * sqrt(expected)) + 4;
  ask.vectors = ask.versions = 0;
  struct search part = *search;
  struct extents e = {0};
  part.ask = &ask;
  sample.e = &e;
  int rc = extents__begin(&e, &part);
  rc =
      rc ? session_error(ask.s, rc, "out of memory") : limit_of(&sample, limit);
  extents__end(&e);
  return rc;
}
