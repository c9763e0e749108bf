/* SPDX-License-Identifier: MIT
**
** env_sync.h -- the real operating system, but for batched disk access, which
** is done at once in the caller's thread, and for mapped memory, which is kept
** and given out again, poisoned in between.  For tests that open a store so
** often that threads or rings of a real queue, and fresh pages, would be all
** they do.
*/
#ifndef EMB_TESTS_ENV_SYNC_H
#define EMB_TESTS_ENV_SYNC_H

#include "engine/base/env/env.h"

/* The same table at every call; for env_set_default. */
struct env *env_sync(void);

#endif
