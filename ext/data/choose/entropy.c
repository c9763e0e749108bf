/* SPDX-License-Identifier: MIT
**
** entropy.c -- emb_entropy(probabilities): how uncertain a prediction is, in
** nats.  Not every SQLite has a logarithm.
*/
#include "choose.h"
SQLITE_EXTENSION_INIT3

#include <math.h>
#include <string.h>

static void call_entropy(sqlite3_context *context, int argc,
                         sqlite3_value **argv) {
  struct ext_conn asked = ext_choose_asked(context);
  struct ext_floats p;
  double sum = 0;
  char *err = NULL;
  (void)argc;
  if (sqlite3_value_type(argv[0]) == SQLITE_NULL)
    return;
  int rc = ext_vec_from_value(argv[0],
                              &(struct ext_arg){"argument 1 of emb_entropy",
                                                ext_link_interrupted, &asked},
                              0, &p, &err);
  if (rc != SQLITE_OK) {
    ext_result_error(context, rc, err);
    return;
  }
  for (uint32_t i = 0; i < p.n; i++) {
    float x;
    memcpy(&x, (const char *)p.at + i * sizeof x, sizeof x);
    if (x > 0)
      sum -= (double)x * log((double)x);
  }
  ext_floats_free(&p);
  sqlite3_result_double(context, sum);
}

int ext_choose_entropy_register(sqlite3 *db) {
  return sqlite3_create_function_v2(db, "emb_entropy", 1, CHOOSE_FLAGS, NULL,
                                    call_entropy, NULL, NULL, NULL);
}
