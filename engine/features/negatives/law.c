/* SPDX-License-Identifier: MIT
**
** law.c -- log-uniform draws: keys as ranks, the most frequent first.
**
** Key k of 0 .. range - 1 is drawn with probability
** ln((k + 2) / (k + 1)) / ln(range + 1), which is nearly Zipf's law: as
** floor(exp(u ln(range + 1))) - 1, u uniform from 0 to 1.  This is the
** distribution of TensorFlow's log_uniform_candidate_sampler and of CARLS.
** A rank that is not a key of the table is left out, but counts as a draw; so p
** is still the formula's, and the expected count, which counts draws, is right.
*/
#include <math.h>

#include "draw.h"

double law__of(const struct draw *d, int64_t key) {
  return log1p(1 / ((double)key + 1)) / d->log_range;
}

static uint32_t law_next(struct draw *d, uint32_t want) {
  uint32_t n = want < 64 && d->s->chunk >= 64 ? 64 : want;
  for (uint32_t i = 0; i < n; i++) {
    double x = exp(sample_unit(&d->random) * d->log_range);
    int64_t key =
        x >= (double)d->range ? d->range - 1 : (int64_t)x - 1; /* rounding */
    d->keys[i] = key < 0 ? 0 : key;
    d->p[i] = d->tells ? law__of(d, d->keys[i]) : 0;
  }
  return draw__keep(d, n, want);
}

/* Sets the range to the highest key plus one; 0 if no key is 0 or above. */
static int law_find_range(struct draw *d) {
  emb_scan *scan;
  int64_t key;
  size_t n = 0;
  int rc = local_scan_open(d->s, 0, INT64_MAX, EMB_SCAN_DESC, &scan);
  if (rc) {
    return rc;
  }
  rc = local_scan_next_rows(scan, 1, &(emb_rows){.keys = &key}, &n);
  local_scan_close(scan);
  d->range = !n ? 0 : key < INT64_MAX ? key + 1 : INT64_MAX;
  return rc;
}

int law__begin(struct draw *d) {
  d->range = d->how->range;
  int rc = d->range ? EMB_OK : law_find_range(d);
  if (d->range) {
    d->log_range = log1p((double)d->range);
    d->next = law_next;
    d->most = 64 * (double)d->n + 65536;
  }
  return rc;
}
