/* SPDX-License-Identifier: MIT
**
** auc.h -- area under the ROC curve.
*/
#ifndef ONLINE_AUC_H
#define ONLINE_AUC_H

#include <stddef.h>

/* A prediction, and whether the click came. */
struct outcome {
  float score;
  int clicked;
};

/* The probability that a clicked outcome has a higher score than one without a
** click, half for equal scores; NAN if there is only one kind.  Sorts. */
double auc(struct outcome *outcomes, size_t count);

#endif
