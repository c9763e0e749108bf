/* SPDX-License-Identifier: MIT
**
** commit.c -- the commit from which the library was built.
**
** In a git checkout the Makefile defines EMB_COMMIT.  In a release made by
** `git archive`, git has substituted the commit below.  This is the only object
** that every commit recompiles.
*/
#include "engine/emb.h"

#ifndef EMB_COMMIT
#define EMB_COMMIT "$Format:%H$" /* .gitattributes: export-subst */
#endif

const char *emb_source_id(void) {
  static const char commit[] = EMB_COMMIT;
  return commit[0] == '$' ? "unknown" : commit;
}
