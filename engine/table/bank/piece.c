/* SPDX-License-Identifier: MIT
**
** piece.c -- a piece of keys: their averages, and one batch of steps.
**
** HELD      Keys held by a transaction are found beforehand and put back.  A
**           key claimed a moment later ends the batch immediately, because the
**           session's timeout is 0 here, and is put back, too (B3).
** ERROR     An error of a batch means that some row failed; the versions show
**           which rows were done.  The others are tried one by one: a row whose
**           result would not be finite is refused, a held one is put back, and
**           after any other error all remaining ones are put back.
** RUNS      A batch has one learning rate, step and time: keys whose latest
**           gradients differ in these make several batches.
*/
#include "piece.h"

#include <string.h>

#include "engine/table/rows/rmw.h"
#include "engine/table/rows/rows.h"

#define NOT_DONE UINT64_MAX

/* Maximum number of a key's gradients in a list (B2); 0: they are summed up. */
static uint32_t most_given(const struct bank *bank) {
  return bank->rule.outlier == OUTLIER_NONE ? 0 : 2 * bank->rule.max;
}

struct bank_piece *bank__piece_new(emb_session *s) {
  struct env *env = s->core->env;
  const struct bank *bank = bank_of(s->store);
  uint32_t most = most_given(bank);
  uint32_t room = s->chunk < BANK_PIECE ? s->chunk : BANK_PIECE;
  size_t rows = (size_t)room * bank->dim * sizeof(float);
  size_t list = most * sizeof(float *);
  size_t scratch = bank__scratch(most, bank->dim) * sizeof(double);
  rows = (rows + 15) / 16 * 16;
  struct bank_piece *piece =
      env->resize(env, NULL, sizeof *piece + 16 + scratch + list + rows);
  if (piece) {
    piece->n = 0;
    piece->room = room;
    piece->scratch = (double *)(void *)(piece + 1);
    piece->list = (const float **)(void *)((char *)piece->scratch + scratch);
    piece->rows = (float *)(void *)((char *)(void *)piece->list + list);
  }
  return piece;
}

void bank__piece_free(emb_session *s, struct bank_piece *piece) {
  emb_assert(!piece->n); /* each key taken was finished */
  s->core->env->release(s->core->env, piece);
}

/* ---- averages ------------------------------------------------------------ */

/* The average from the sums; no outliers are looked for. */
static void average_sums(const struct bank *bank, const struct bank_item *item,
                         double *sum, float *to) {
  memcpy(sum, item->first->u.sum, bank->dim * sizeof *sum);
  for (struct bank_given *g = item->first->next; g; g = g->next) {
    for (uint32_t k = 0; k < bank->dim; k++) {
      sum[k] += g->u.sum[k];
    }
  }
  for (uint32_t k = 0; k < bank->dim; k++) {
    to[k] = (float)(sum[k] / item->n);
  }
}

static void average_item(struct bank *bank, struct bank_piece *piece,
                         uint32_t i) {
  const struct bank_item *item = &piece->items[i];
  float *to = piece->rows + (size_t)i * bank->dim;
  uint32_t n = 0, times = 0;
  for (struct bank_given *g = item->first; g; g = g->next) {
    times = times < UINT32_MAX - g->times ? times + g->times : UINT32_MAX;
    if (bank->rule.outlier != OUTLIER_NONE) {
      piece->list[n++] = g->u.row;
    }
  }
  piece->times[i] = times;
  if (bank->rule.outlier == OUTLIER_NONE) {
    average_sums(bank, item, piece->scratch, to);
    return;
  }
  const struct bank_set set = {piece->list, n, bank->dim};
  uint32_t out = bank__average(&bank->rule, &set, piece->scratch, to);
  if (out) {
    count_add(&bank->outliers, out);
  }
}

/* ---- steps --------------------------------------------------------------- */

/* Applies items [from, end) as one batch; clears `left` for those done. */
static int step_batch(emb_session *s, struct bank_piece *piece, uint32_t from,
                      uint32_t end) {
  const struct bank_given *last = piece->items[from].last;
  const struct rmw_batch batch = {.keys = piece->keys + from,
                                  .n = end - from,
                                  .rows = piece->rows +
                                          (size_t)from * s->core->layout.dim,
                                  .times = piece->times + from,
                                  .versions = piece->versions + from,
                                  .how = {.lr = last->lr, .step = last->step}};
  uint32_t time = s->clock.time;
  for (uint32_t i = from; i < end; i++) {
    piece->versions[i] = NOT_DONE;
  }
  s->clock.time = last->time ? last->time : time;
  int rc = rmw_steps(s, &batch);
  s->clock.time = time;
  for (uint32_t i = from; i < end; i++) {
    if (piece->versions[i] != NOT_DONE) {
      piece->left[i] = 0;
      piece->steps++;
    }
  }
  return rc;
}

static int is_for_one(int rc) {
  return rc == EMB_NONFINITE || rc == EMB_BUSY || rc == EMB_LOCKED;
}

static void note_held(struct bank_piece *piece, uint32_t i) {
  piece->any_held = 1;
  piece->held = piece->keys[i];
}

/* Applies, one by one, the items that a batch has left. */
static int step_singly(emb_session *s, struct bank_piece *piece, uint32_t from,
                       uint32_t end) {
  int rc = EMB_OK;
  for (uint32_t i = from; i < end && !rc; i++) {
    if (!piece->left[i]) {
      continue;
    }
    rc = step_batch(s, piece, i, i + 1);
    if (rc == EMB_NONFINITE) {
      piece->left[i] = 0;
      count_add(&bank_of(s->store)->refused, piece->items[i].n);
    } else if (is_for_one(rc)) {
      note_held(piece, i);
    }
    if (is_for_one(rc)) {
      err_clear(&s->err);
      rc = EMB_OK;
    }
  }
  return rc;
}

static int same_run(const struct bank_item *a, const struct bank_item *b) {
  return a->last->step == b->last->step && a->last->time == b->last->time &&
         memcmp(&a->last->lr, &b->last->lr, sizeof a->last->lr) == 0;
}

static int step_runs(emb_session *s, struct bank_piece *piece, uint32_t n) {
  int rc = EMB_OK;
  for (uint32_t from = 0, end; from < n && !rc; from = end) {
    end = from + 1;
    while (end < n && same_run(&piece->items[from], &piece->items[end])) {
      end++;
    }
    rc = step_batch(s, piece, from, end);
    if (is_for_one(rc)) {
      err_clear(&s->err);
      rc = step_singly(s, piece, from, end);
    }
  }
  return rc;
}

/* Puts back the items held by a transaction; returns how many remain. */
static uint32_t without_held(emb_session *s, struct bank_piece *piece,
                             uint64_t pass) {
  struct core *core = s->core;
  uint32_t n = 0;
  for (uint32_t i = 0; i < piece->n; i++) {
    piece->keys[i] = piece->items[i].key->key;
  }
  epoch_enter(&core->epoch, s->slot);
  rows_find(s, piece->keys, 0, piece->n);
  epoch_leave(s->slot);
  for (uint32_t i = 0; i < piece->n; i++) {
    if (s->words[i] & WORD_INTENT) {
      note_held(piece, i);
      bank__finish(bank_of(s->store), &piece->items[i], 0, pass);
    } else {
      piece->items[n] = piece->items[i];
      piece->keys[n] = piece->keys[i];
      piece->left[n++] = 1;
    }
  }
  return n;
}

int bank__apply(emb_session *s, struct bank_piece *piece, uint64_t pass) {
  struct bank *bank = bank_of(s->store);
  uint64_t timeout_ms = s->waits.timeout_ms;
  int has_timeout = s->waits.has_timeout;
  emb_assert(epoch_outside()); /* E1 */
  emb_assert(piece->n > 0 && piece->n <= piece->room);
  piece->steps = 0;
  piece->any_held = 0;
  uint32_t n = without_held(s, piece, pass);
  for (uint32_t i = 0; i < n; i++) {
    average_item(bank, piece, i);
  }
  s->waits.timeout_ms = 0;
  s->waits.has_timeout = 1;
  int rc = core_failed(s->core, &s->err);
  rc = rc ? rc : check_numbers(s);
  rc = rc ? rc : step_runs(s, piece, n);
  s->waits.timeout_ms = timeout_ms;
  s->waits.has_timeout = has_timeout;
  count_add(&bank->steps, piece->steps);
  for (uint32_t i = 0; i < n; i++) {
    bank__finish(bank, &piece->items[i], !piece->left[i], pass);
  }
  return rc;
}
