/* SPDX-License-Identifier: MIT
**
** team.h -- a fixed team of threads that do one task together.
*/
#ifndef LIB_TEAM_H
#define LIB_TEAM_H

#include <stddef.h>

struct team;

/* One member's part of a task: member is 0 .. members-1. */
typedef void team_task(void *context, size_t member, size_t members);

/* A team with one member per available CPU (at most 16), including the
** caller.  NULL if memory or threads are short. */
struct team *team_new(void);
void team_free(struct team *team);
size_t team_members(const struct team *team);

/* Every member calls task once; returns when all have returned. */
void team_run(struct team *team, team_task *task, void *context);

#endif
