/* SPDX-License-Identifier: MIT
**
** relieve.h -- space for a writer that finds none; see relieve.c.
*/
#ifndef EMB_RETENTION_RELIEVE_H
#define EMB_RETENTION_RELIEVE_H

#include "engine/table/session/session.h"

/* core->relieve: frees what is dead, and makes more of it, until there is a
** file slot for an extent; stops where nothing can be gained, or interrupt says
** so. */
void relieve__space(struct core *core, int (*interrupt)(void *), void *arg);

#endif
