/* SPDX-License-Identifier: MIT
**
** owner.h -- for testfixture.c: gives the tables of a suite another owner.
*/
#ifndef OWNER_H
#define OWNER_H

/* From now on another process owns them (`which` is "process"), or a copy of
** the library `so` in this one ("copy").  0, or -1 with errno. */
int owner_start(const char *which, const char *so);

/* How often that owner got a store, and how often it could not. */
void owner_count(int *owned_stores, int *kept_stores);

#endif
