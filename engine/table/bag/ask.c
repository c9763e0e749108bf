/* SPDX-License-Identifier: MIT
**
** ask.c -- the arguments of a bag lookup: parses the text of a mode, and checks
** that offsets and weights fit the keys.
*/
#include <stddef.h>

#include "engine/base/param.h"
#include "engine/math/vec/vec.h"
#include "bag.h"

struct bag_mode {
  double include_last_offset;
};

static const struct param no_bag_param[] = {{.name = NULL}};
static const struct param bag_common[] = {
    {.name = "include_last_offset",
     .at = offsetof(struct bag_mode, include_last_offset),
     .high = 1,
     .whole = 1,
     .is = PARAM_BOOL},
    {.name = NULL}};
static const struct param_kind bag_modes[] = {
    [EMB_BAG_SUM - 1] = {"sum", no_bag_param},
    [EMB_BAG_MEAN - 1] = {"mean", no_bag_param},
    [EMB_BAG_SQRTN - 1] = {"sqrtn", no_bag_param},
    {NULL, NULL}};
static const struct param_list bag_mode_list = {"mode", bag_modes, bag_common};

int emb_bag_mode(const char *text, int *mode, int *include_last_offset,
                 emb_err *err) {
  struct bag_mode parsed = {0};
  uint32_t kind = 0;
  int rc = param_parse(&bag_mode_list, text, &parsed, &kind, err);
  *mode = (int)kind + EMB_BAG_SUM;
  *include_last_offset = parsed.include_last_offset > 0;
  return rc;
}

static int bag_bad_offset(const emb_bags *bags, size_t i, size_t n,
                          emb_err *err) {
  long long at = (long long)bags->offsets[i];
  if (i == 0) {
    return err_set(err, EMB_RANGE, "offsets must begin with 0, got %lld", at);
  }
  return at < bags->offsets[i - 1]
             ? err_set(err, EMB_RANGE,
                       "offset %zu (%lld) is less than the one before it "
                       "(%lld)",
                       i, at, (long long)bags->offsets[i - 1])
             : err_set(err, EMB_RANGE,
                       "offset %zu (%lld) is beyond the end of the %zu keys", i,
                       at, n);
}

int emb_check_bags(const emb_bags *bags, size_t n, emb_err *err) {
  if (bags->mode < EMB_BAG_SUM || bags->mode > EMB_BAG_SQRTN) {
    return err_set(err, EMB_RANGE, "unknown pooling %d", bags->mode);
  }
  if (n > EMB_ROWS_MAX || bags->count > EMB_ROWS_MAX) {
    return err_set(err, EMB_RANGE,
                   "there are at most %u keys and bags, got %zu and %zu",
                   EMB_ROWS_MAX, n, bags->count);
  }
  if (n && !bags->count) {
    return err_set(err, EMB_RANGE, "there are %zu keys, but no offsets", n);
  }
  int64_t before = 0;
  for (size_t i = 0; i < bags->count; i++) {
    int64_t at = bags->offsets[i];
    if (at < before || at > (int64_t)n || (i == 0 && at != 0)) {
      return bag_bad_offset(bags, i, n, err);
    }
    before = at;
  }
  size_t bad = bags->weights ? vec_best()->find_bad(bags->weights, n) : n;
  return bad == n
             ? EMB_OK
             : err_set(err, EMB_NONFINITE, "weight %zu is not finite", bad);
}

int bag__check(emb_session *s, size_t n, const emb_bags *bags) {
  emb_err err;
  int rc = emb_check_bags(bags, n, &err);
  return rc ? session_error(s, rc, "%s", err.text) : EMB_OK;
}
