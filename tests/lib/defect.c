/* SPDX-License-Identifier: MIT
**
** defect.c -- which seeded defect is on (engine/base/seed.h).  Part of the
** variant `defect` only.
*/
#include "engine/base/seed.h"

#include <stdlib.h>

#ifdef EMB_DEFECTS
int emb_defect;

__attribute__((constructor)) static void choose(void) {
  const char *text = getenv("EMB_DEFECT");
  emb_defect = text ? atoi(text) : 0;
}
#endif
