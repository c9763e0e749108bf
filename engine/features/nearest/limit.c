/* SPDX-License-Identifier: MIT
**
** limit.c -- a limit for a search of many neighbours, before its pass.
**
** Without one, the first rows of a pass all enter the heap, and later ones
** displace them: k ln(n/k) rows are looked up and copied for nothing, in each
** thread.  So a few rows of each page, or of each so many pages, are compared
** first, and the distance of the r-th nearest of these is the limit.  Where one
** row in f is in the sample, k/f of the k nearest are expected there; r is four
** standard deviations more.
**
** 100,000 rows of 64 floats, one thread, rows wanted: k = 1,000 took 3.3 ms
** without, and 2.35 with a limit; k = 10,000 took 15.1 ms and 9.2.
**
** FAILURE   The limit is a guess.  Where fewer than k rows are within it, the
**           caller makes the pass again without.
*/
#include <math.h>

#include "exact.h"

enum {
  MANY = 256,    /* neighbours for which it is worth it */
  EXPECTED = 64, /* of the nearest in the sample, at least if k is large */
  ROWS = 2,      /* of a page */
  STAY_PAGES = 64,
};

struct limit_sample {
  struct extents *e;
  uint64_t page, end;
  uint64_t step;  /* from one page of it to the next */
  uint32_t slots; /* of a page, and rows of it that are taken */
  uint32_t rows;
};

/* Not the same ones of each page. */
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

/* Some pages; 0: not all are in memory. */
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
