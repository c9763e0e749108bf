/* SPDX-License-Identifier: MIT
**
** seed.h -- places where the tests of the tests plant a defect.
**
** EMB_SEED(n) is 0 in every product and leaves nothing behind.  In the variant
** `defect` it is 1 when the environment has EMB_DEFECT=n; tests/defects.txt
** says what each number breaks and which suite must notice.
*/
#ifndef EMB_BASE_SEED_H
#define EMB_BASE_SEED_H

#ifdef EMB_DEFECTS
extern int emb_defect; /* tests/lib/defect.c */
#define EMB_SEED(n) (emb_defect == (n))
#else
#define EMB_SEED(n) 0
#endif

#endif
