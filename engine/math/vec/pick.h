/* SPDX-License-Identifier: MIT
**
** pick.h -- which of many results must not be discarded.
*/
#ifndef EMB_VEC_PICK_H
#define EMB_VEC_PICK_H

#include <stddef.h>
#include <stdint.h>

/* Writes, ascending, the indexes i of n results for which
** results[i] * factor < least[i] + add does not hold, and returns their number.
** A comparison with NaN does not hold. */
typedef size_t pick_form(uint32_t *to, const float *results, const float *least,
                         size_t n, float factor, float add);

pick_form pick__scalar;
/* Returns the i-th form that this processor can run, as in vec.h. */
pick_form *pick__form(int i);
/* The widest form that this processor can run. */
pick_form *pick_best(void);

#endif
