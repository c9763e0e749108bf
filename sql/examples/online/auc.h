/* SPDX-License-Identifier: MIT
**
** auc.h -- area under the ROC curve.
*/
#ifndef ONLINE_AUC_H
#define ONLINE_AUC_H

#include <stddef.h>

/* What was predicted, and what came. */
struct outcome {
  float score;
  int clicked;
};

/* The probability that a click has a higher score than a click that did not
** come, half for equal scores; NAN when there is only one kind.  Sorts. */
double auc(struct outcome *outcomes, size_t count);

#endif
