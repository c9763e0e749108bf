/* SPDX-License-Identifier: MIT
**
** env_sync.h -- the real operating system, except for batched disk access,
** which is done immediately in the caller's thread, and for mapped memory,
** which is kept and given out again, poisoned in between.  For tests that
** open a store so often that they would otherwise spend their time on the
** threads or rings of a real queue and on fresh pages.
*/
#ifndef EMB_TESTS_ENV_SYNC_H
#define EMB_TESTS_ENV_SYNC_H

#include "engine/base/env/env.h"

/* The same table at every call; for env_set_default. */
struct env *env_sync(void);

#endif
