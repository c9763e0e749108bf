/* SPDX-License-Identifier: MIT
**
** owner.h -- for testfixture.c: the tables of a suite belong to somebody else.
*/
#ifndef OWNER_H
#define OWNER_H

/* From now on another process owns them (which is "process"), or a copy of the
** library so in this one ("copy").  0, or -1 with errno. */
int owner_start(const char *which, const char *so);

/* How often a store was given to that owner, and how often it could not be. */
void owner_count(int *owned_stores, int *kept_stores);

#endif
