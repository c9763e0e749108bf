/* SPDX-License-Identifier: MIT
**
** debug.h -- assertions, for the variants that check themselves.
**
** emb_assert(x)   x was proved where this stands; it costs a few instructions.
** emb_check(x)    the same of a whole structure: x calls its validity function,
**                 named after it (log_valid, index_valid), which asserts
**                 inside, so that the text names the line, and returns 1.
**
** EMB_DEBUG is the level; the Makefile's CHECKS sets it, or the variant does.
**
**   0   nothing is compiled in: release.  A host process is never aborted
**   1   emb_assert: at every transition, where the state is at hand
**   2   emb_check as well: a structure is walked where the transition itself
**       costs as much (a growth, a checkpoint, a commit, a close), elsewhere
**       one time in a few [debug_sample]
**   3   each of these walks, every time
**
** What comes from disk, from SQL or from a caller of emb.h is checked by the
** code itself and gives an error; no assertion depends on it.  A condition must
** not change anything: it is not evaluated in a product.
*/
#ifndef EMB_BASE_DEBUG_H
#define EMB_BASE_DEBUG_H

#ifndef EMB_DEBUG
#define EMB_DEBUG 0
#endif

/* Named, so that a variable that only an assertion reads counts as used. */
#define EMB_UNEVALUATED(x) ((void)sizeof((x) ? 1 : 0))

#if EMB_DEBUG > 0
/* Prints where and what to stderr, and aborts.  With EMB_ASSERT=report in the
** environment it prints the first one only and goes on, so that it is seen
** whether a test notices, too (tests/defects.sh). */
void debug_failed(const char *what, const char *file, int line,
                  const char *function);
/* 1 in one of n calls, at random but repeatable in each thread; always from
** level 3 on. */
int debug_sample(unsigned n);
#define emb_assert(x)                                                          \
  ((x) ? (void)0 : debug_failed(#x, __FILE__, __LINE__, __func__))
#else
#define emb_assert(x) EMB_UNEVALUATED(x)
#endif

#if EMB_DEBUG > 1
#define emb_check(x) emb_assert(x)
#define emb_check_some(n, x) emb_assert(!debug_sample(n) || (x))
#else
#define emb_check(x) EMB_UNEVALUATED(x)
#define emb_check_some(n, x) EMB_UNEVALUATED(x)
#endif

#endif
