/* SPDX-License-Identifier: MIT
**
** commit.c -- the commit that the library was built from.
**
** The Makefile defines EMB_COMMIT where it builds in a checkout of git; in what
** `git archive` makes, a release, git has put the commit in here.  It is the
** only object that is compiled anew at each commit.
*/
#include "engine/emb.h"

#ifndef EMB_COMMIT
#define EMB_COMMIT "$Format:%H$" /* .gitattributes: export-subst */
#endif

const char *emb_source_id(void) {
  static const char commit[] = EMB_COMMIT;
  return commit[0] == '$' ? "unknown" : commit;
}
