/* SPDX-License-Identifier: MIT
**
** apply.c -- emb_bag_apply: gradients of bags become gradients of keys.
**
** First the rows of each key are listed, in order; then the gradients of some
** hundred keys at a time are summed up and applied.  Each key makes one step,
** as in emb_apply_gradients of a matrix with a row for each key of the batch,
** but the matrix is never built.
**
** ORDER     Keys make their steps in order of first occurrence.  A key's sum is
**           added up in row order, in float32, without fused operations, so a
**           run repeats to the bit.
** FAILURE   Wrong arguments are found before the first step.  After a sum that
**           is not finite, lack of space or an interrupt, some keys, from the
**           first on, have made their steps.
*/
#include <string.h>

#include "engine/table/bank/bank.h"
#include "engine/table/jobs/begin.h"
#include "engine/base/env/env.h"
#include "engine/table/rows/rmw.h"
#include "engine/math/vec/pooling.h"
#include "bag.h"

/* Gradients that are summed up before they are applied: as many as fit the
** second-level cache together with their records, but enough keys for many
** concurrent disk reads. */
#define PIECE_BYTES (256u << 10)
#define PIECE_ROWS 128u

int bag_check_how(emb_session *s, const emb_update *how) {
  return !how || !how->read
             ? EMB_OK
             : session_error(s, EMB_RANGE,
                             "gradients of bags cannot be combined with "
                             "vectors that were read (emb_update.read)");
}

static int sums_check(emb_session *s, size_t n, const emb_bags *bags,
                      const float *gradients, const emb_update *how) {
  size_t dim = s->core->layout.dim, floats = bags->count * dim;
  int rc = begin_write(s);
  rc = rc ? rc : bag__check(s, n, bags);
  rc = rc ? rc : bag_check_how(s, how);
  size_t bad = rc ? floats : s->core->vec->find_bad(gradients, floats);
  return rc || bad == floats
             ? rc
             : session_error(s, EMB_NONFINITE,
                             "non-finite value in element %zu of gradient %zu",
                             bad % dim, bad / dim);
}

/* One allocation for all arrays, the widest elements first. */
static int sums_reserve(struct bag_sums *sums) {
  struct env *env = sums->s->core->env;
  size_t n = sums->n ? sums->n : 1;
  sums->memory =
      env->resize(env, NULL, n * (sizeof(int64_t) + 5 * sizeof(uint32_t) + 1));
  if (!sums->memory) {
    return session_error(sums->s, EMB_NOMEM, "out of memory");
  }
  sums->keys = sums->memory;
  sums->times = (uint32_t *)(sums->keys + n);
  sums->ends = sums->times + n;
  sums->rows = sums->ends + n;
  sums->bag = sums->rows + n;
  sums->number = sums->bag + n;
  sums->found = (uint8_t *)(sums->number + n);
  return EMB_OK;
}

/* Lists the rows of each key. */
static int sums_list(struct bag_sums *sums, const int64_t *keys) {
  emb_session *s = sums->s;
  uint32_t at = 0;
  if (!group_rows(&sums->groups, s->core->env,
                  &(struct group_batch){.keys = keys, .n = sums->n},
                  GROUP_FIRST)) {
    return session_error(s, EMB_NOMEM, "out of memory");
  }
  for (size_t bag = 0; bag < sums->bags->count; bag++) {
    size_t end = bag_end(sums->bags, sums->n, bag);
    for (size_t i = (size_t)sums->bags->offsets[bag]; i < end; i++) {
      sums->bag[i] = (uint32_t)bag;
    }
  }
  for (size_t i = 0; i < sums->n; i++) {
    if (group_stands(&sums->groups, i)) {
      size_t k = sums->distinct++;
      sums->keys[k] = keys[i];
      sums->times[k] = group_times(&sums->groups, i);
      sums->number[i] = (uint32_t)k;
      sums->ends[k] = at; /* for now, where they begin */
      at += sums->times[k];
    }
  }
  for (size_t i = 0; i < sums->n; i++) {
    sums->rows[sums->ends[bag__number_of(sums, i)]++] = (uint32_t)i;
  }
  emb_check(bag_sums_valid(sums));
  return EMB_OK;
}

/* Computes the gradient of a key: the sum over its rows. */
static int sum_key(struct bag_sums *sums, size_t k, float *to) {
  emb_session *s = sums->s;
  const emb_bags *bags = sums->bags;
  uint32_t dim = s->core->layout.dim, end = sums->ends[k];
  uint32_t first = end - sums->times[k];
  for (uint32_t i = first; i < end; i++) {
    uint32_t row = sums->rows[i], bag = sums->bag[row];
    size_t keys = bag_end(bags, sums->n, bag) - (size_t)bags->offsets[bag];
    float by =
        (bags->weights ? bags->weights[row] : 1) / bag__divisor(bags, keys);
    sums->form->add(
        to,
        &(struct pooling_rows){
            .first = sums->gradients + (size_t)bag * dim,
            .weights = bags->weights || (bags->mode != EMB_BAG_SUM &&
                                         !EMB_SEED(SEED_BAG_STEP_NOT_DIVIDED))
                           ? &by
                           : NULL,
            .n = 1,
            .dim = dim,
            .begins = i == first});
  }
  size_t bad = s->core->vec->find_bad(to, dim);
  return bad == dim ? EMB_OK
                    : session_error(s, EMB_NONFINITE,
                                    "key %lld: element %zu of the sum of its "
                                    "gradients is not finite",
                                    (long long)sums->keys[k], bad);
}

/* At most one chunk of the session, for which s->pool has room. */
static uint32_t sums_piece(const emb_session *s) {
  uint32_t rows = PIECE_BYTES / (s->core->layout.dim * (uint32_t)sizeof(float));
  rows = rows > PIECE_ROWS ? rows : PIECE_ROWS;
  return rows < s->chunk ? rows : s->chunk;
}

/* Makes the steps of all keys, a piece at a time.  If there are no keys, it
** still makes the checks that precede a step. */
static int sums_apply(struct bag_sums *sums, const emb_update *how) {
  emb_session *s = sums->s;
  uint32_t dim = s->core->layout.dim, piece = sums_piece(s);
  int at_once = bank_at_once(s, how), rc = EMB_OK;
  size_t at = 0;
  do {
    size_t left = sums->distinct - at, m = left < piece ? left : piece;
    const struct rmw_ask ask = {.keys = sums->keys + at,
                                .n = m,
                                .gradients = s->pool,
                                .times = sums->times + at,
                                .how = how,
                                .to = &(emb_rows){.found = sums->found + at}};
    for (size_t k = 0; !rc && k < m; k++) {
      rc = sum_key(sums, at + k, s->pool + k * dim);
    }
    rc = rc ? rc : bank_gradients(s, &ask, at_once);
    at += m;
    rc = rc || at == sums->distinct ? rc : session_interrupted(s);
  } while (!rc && at < sums->distinct);
  return rc;
}

int local_bag_apply(emb_session *s, const int64_t *keys, size_t n,
                    const emb_bags *bags, const float *gradients,
                    const emb_update *how) {
  struct env *env = s->core->env;
  struct bag_sums sums = {.s = s,
                          .bags = bags,
                          .form = pooling_best(),
                          .gradients = gradients,
                          .n = n};
  int rc = sums_check(s, n, bags, gradients, how);
  rc = rc ? rc : bag__room(s);
  rc = rc ? rc : sums_reserve(&sums);
  rc = rc ? rc : sums_list(&sums, keys);
  rc = rc ? rc : sums_apply(&sums, how);
  for (size_t i = 0; !rc && bags->found && i < n; i++) {
    bags->found[i] = sums.found[bag__number_of(&sums, i)];
  }
  group_free(&sums.groups, env);
  env->release(env, sums.memory);
  return rc;
}
