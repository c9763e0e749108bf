/* SPDX-License-Identifier: MIT
**
** debug.h -- assertions, for the variants that check themselves.
**
** emb_assert(x)   x provably holds here; costs a few instructions.
** emb_check(x)    the same for a whole structure: x calls its validity
**                 function, named after it (log_valid, index_valid), which
**                 asserts internally, so the message names the line, and
**                 returns 1.
**
** EMB_DEBUG is the level, set by the Makefile's CHECKS or by the variant.
**
**   0   release: nothing is compiled in.  A host process is never aborted
**   1   emb_assert: at every transition, where the state is at hand
**   2   emb_check as well: walks a structure where the transition itself costs
**       as much (a growth, a checkpoint, a commit, a close), and elsewhere only
**       occasionally [debug_sample]
**   3   all of these walks, every time
**
** The code itself checks input from disk, from SQL or from a caller of emb.h,
** and returns an error; no assertion depends on it.  A condition must have no
** side effects: release builds do not evaluate it.
*/
#ifndef EMB_BASE_DEBUG_H
#define EMB_BASE_DEBUG_H

#include <pthread.h>

#ifndef EMB_DEBUG
#define EMB_DEBUG 0
#endif

/* Mentions x, so that a variable read only by an assertion counts as used. */
#define EMB_UNEVALUATED(x) ((void)sizeof((x) ? 1 : 0))

#if EMB_DEBUG > 0
/* Prints the place and the condition to stderr, and aborts.  With
** EMB_ASSERT=report in the environment it prints only the first failure and
** continues, to show whether a test notices too (tests/defects.sh). */
void debug_failed(const char *what, const char *file, int line,
                  const char *function);
/* Returns 1 in one of n calls, at random but repeatably in each thread; always
** 1 from level 3 on. */
int debug_sample(unsigned n);
#define emb_assert(x)                                                          \
  ((x) ? (void)0 : debug_failed(#x, __FILE__, __LINE__, __func__))
#else
#define emb_assert(x) EMB_UNEVALUATED(x)
#endif

/* For assertions only: does some thread hold this mutex? */
int debug_is_locked(pthread_mutex_t *lock);

#if EMB_DEBUG > 1
#define emb_check(x) emb_assert(x)
#define emb_check_some(n, x) emb_assert(!debug_sample(n) || (x))
#else
#define emb_check(x) EMB_UNEVALUATED(x)
#define emb_check_some(n, x) EMB_UNEVALUATED(x)
#endif

#endif
