/* SPDX-License-Identifier: MIT
**
** coreset.c -- emb_coreset: rows that represent all others; see emb_data.h.
**
** MEMORY    In addition to the caller's vectors: 25 bytes a row, the memory of
**           the method (facility.c: vectors of its own), blocks of products.
**           Never a matrix of all pairs.
** ORDER     Among equally good rows the first is chosen, whatever the register
**           width: the final comparison is in double.
*/
#include "engine/data/emb_data.h"
#include "choose.h"

static int coreset_run(struct choose *c) {
  switch (c->how.kind) {
  case CHOOSE_CENTRES:
    return choose__centres(c);
  case CHOOSE_MATCHING:
    return choose__matching(c);
  case CHOOSE_CRAIG:
    return choose__facility(c);
  default:
    return c->how.function == CHOOSE_FACILITY ? choose__facility(c)
           : c->how.function == CHOOSE_CUT    ? choose__cut(c)
                                              : choose__determinant(c);
  }
}

int emb_coreset_check(const char *method, emb_err *err) {
  struct choose_method how;
  return choose__parse(method, &how, err);
}

int emb_coreset(const emb_points *points, size_t k, const char *method,
                emb_chosen *chosen, emb_err *err) {
  struct choose c = {.points = points,
                     .ops = choose__best(),
                     .k = k < points->n ? k : points->n,
                     .chosen = chosen,
                     .err = err};
  int rc = choose__parse(method, &c.how, err);
  if (rc == EMB_OK && points->n > UINT32_MAX) {
    rc = err_set(err, EMB_RANGE, "more than %u rows", UINT32_MAX);
  }
  if (rc || c.k == 0) {
    return rc;
  }
  emb_check(choose__method_valid(&c.how));
  c.gain = choose__memory(&c, points->n, sizeof *c.gain);
  c.taken = choose__memory(&c, points->n, sizeof *c.taken);
  c.wide = choose__memory(&c, points->dim, sizeof *c.wide);
  c.column = choose__memory(&c, points->n, sizeof *c.column);
  rc = c.gain && c.taken && c.wide && c.column ? choose__interrupted(&c)
                                               : EMB_NOMEM;
  if (rc == EMB_OK) {
    rc = coreset_run(&c);
  }
  env_posix.release(&env_posix, c.gain);
  env_posix.release(&env_posix, c.taken);
  env_posix.release(&env_posix, c.wide);
  env_posix.release(&env_posix, c.column);
  return rc;
}
