/* SPDX-License-Identifier: MIT
**
** remote_bag.c -- emb_bag and emb_bag_apply in a client.
*/
#include "remote.h"

#include <string.h>

#include "engine/table/bag/bag.h"

int served_bag(emb_session *session, const int64_t *keys, size_t n,
               const emb_bags *bags, float *pooled) {
  const union word w[REQUEST_ARGS] = {
      {.c = keys},          {.u = n},
      {.c = bags->offsets}, {.u = bags->count},
      {.i = bags->mode},    {.u = bags->peek != 0},
      {.c = bags->weights}, {.u = bags->weights ? n : 0},
      {.p = pooled}};
  uint64_t result;
  int rc = session_begin(session);
  rc = rc ? rc : link__ask(session, CALL_bag, 0, w, &result);
  return rc ? rc : (int)(uint32_t)result;
}

int served_bag_apply(emb_session *session, const int64_t *keys, size_t n,
                     const emb_bags *bags, const float *gradients,
                     const emb_update *how) {
  uint32_t lr = 0;
  if (how) {
    memcpy(&lr, &how->lr, sizeof lr);
  }
  const union word w[REQUEST_ARGS] = {{.c = keys},
                                      {.u = n},
                                      {.c = bags->offsets},
                                      {.u = bags->count},
                                      {.i = bags->mode},
                                      {.c = bags->weights},
                                      {.u = bags->weights ? n : 0},
                                      {.c = gradients},
                                      {.u = lr},
                                      {.u = how ? how->step : 0},
                                      {.p = bags->found}};
  uint64_t result;
  int rc = session_begin(session);
  rc = rc ? rc : bag_check_how(session, how);
  rc = rc ? rc : link__ask(session, CALL_bag_apply, 0, w, &result);
  return rc ? rc : (int)(uint32_t)result;
}
