/* SPDX-License-Identifier: MIT
**
** fail_body.h -- the bodies that fail_io.c and fail_memory.c run, and the
** directories from which they start.
*/
#ifndef EMB_FAIL_BODY_H
#define EMB_FAIL_BODY_H

#include "fail_help.h"

void fail_txn_all(struct fail *w, int32_t value);

enum { BASE_NONE, BASE_CLEAN, BASE_KILLED, BASE_DOUBT, BASES };

extern const struct fail_body_case {
  struct fail_case c;
  int base;
} fail_cases[];

extern const int fail_case_count;

/* Everything a test needs; 0 when it cannot start. */
struct fail *fail_start(struct fail_base bases[BASES], const char *dir);

void fail_end(struct fail *w);

/* All bodies whose name contains BODY: see fail_each. */
void fail_all(struct fail *w, const struct fail_base bases[BASES],
              uint32_t kinds, int error);

#endif
