/* SPDX-License-Identifier: MIT
**
** nearest.h -- the parts of the nearest-neighbour benchmark: nearest.c
** calls them one after the other, and they call hunt.c, never each other.
*/
#ifndef BENCH_NEAREST_H
#define BENCH_NEAREST_H

#include "hunt.h"

void hunt_exact(struct hunt *hunt);    /* nearest_exact.c */
void hunt_indexed(struct hunt *hunt);  /* nearest_index.c */
void hunt_promises(struct hunt *hunt); /* nearest_recall.c */
void hunt_on_disk(struct hunt *hunt);  /* nearest_disk.c */
void hunt_building(struct hunt *hunt); /* nearest_train.c */
void hunt_training(struct hunt *hunt);
void hunt_drift(struct hunt *hunt);
void hunt_columns(struct hunt *hunt); /* nearest_columns.c */

#endif
