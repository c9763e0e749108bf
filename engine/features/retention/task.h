/* SPDX-License-Identifier: MIT
**
** task.h -- the background tasks that remove rows and free space; see
** task_rows.c and task_space.c.
*/
#ifndef EMB_RETENTION_TASK_H
#define EMB_RETENTION_TASK_H

#include "engine/table/store/task.h"

extern const struct task task_readers, task_expire, task_evict, task_compact,
    task_checkpoint, task_shorten;

#endif
