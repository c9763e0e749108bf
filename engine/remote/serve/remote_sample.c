/* SPDX-License-Identifier: MIT
**
** remote_sample.c -- emb_sample in a client.
*/
#include "remote.h"

#include "engine/features/negatives/sample.h"

int served_sample(emb_session *session, size_t n, const emb_sample_how *how,
                  const emb_samples *to, size_t *count) {
  const emb_sample_how all = {0};
  const emb_sample_how *h = how ? how : &all;
  const union word w[REQUEST_ARGS] = {{.c = h},
                                      {.c = h->without},
                                      {.u = h->without_count},
                                      {.u = n},
                                      {.p = to->keys},
                                      {.p = to->vectors},
                                      {.p = to->probabilities},
                                      {.p = to->expected_counts},
                                      {.p = count}};
  uint64_t result;
  *count = 0;
  int rc = session_begin(session);
  rc = rc ? rc : sample_check_size(session, n);
  rc = rc ? rc : link__ask(session, CALL_sample, 0, w, &result);
  return rc ? rc : (int)(uint32_t)result;
}
