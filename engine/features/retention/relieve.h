/* SPDX-License-Identifier: MIT
**
** relieve.h -- makes space for a writer that finds none; see relieve.c.
*/
#ifndef EMB_RETENTION_RELIEVE_H
#define EMB_RETENTION_RELIEVE_H

#include "engine/table/session/session.h"

/* core->relieve: frees dead extents, and compacts, until there is a file slot
** for an extent; stops if nothing can be gained, or if interrupt says so. */
void relieve__space(struct core *core, int (*interrupt)(void *), void *arg);

#endif
