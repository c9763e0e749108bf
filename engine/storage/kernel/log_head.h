/* SPDX-License-Identifier: MIT
**
** log_head.h -- the first block of the log's file; see log_head.c.
*/
#ifndef EMB_KERNEL_LOG_HEAD_H
#define EMB_KERNEL_LOG_HEAD_H

#include "core.h"

/* Fills in the head, LOG_FILE_HEAD bytes. */
void core_log_head_fill(void *head, const uint8_t uuid[16]);
/* Writes or checks the head of the log. */
int core_log_head(struct core *core, int write, emb_err *err);

#endif
