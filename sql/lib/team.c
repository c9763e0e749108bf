/* SPDX-License-Identifier: MIT
**
** team.c -- a fixed team of threads; see team.h.
**
** The members meet twice per task at one barrier: to begin and to end.  Only
** the caller of team_run writes `task` and `context`, before the first
** meeting, and the barrier orders the memory.
*/
#define _POSIX_C_SOURCE 200809L
#include "team.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { MEMBERS_MAX = 16 };

struct member {
  struct team *team;
  size_t number;
  pthread_t thread;
};

struct team {
  size_t members;
  pthread_barrier_t barrier;
  team_task *task; /* NULL: exit */
  void *context;
  struct member member[MEMBERS_MAX];
};

static void *work(void *argument) {
  struct member *self = argument;
  struct team *team = self->team;
  for (;;) {
    pthread_barrier_wait(&team->barrier);
    if (!team->task) {
      return NULL;
    }
    team->task(team->context, self->number, team->members);
    pthread_barrier_wait(&team->barrier);
  }
}

struct team *team_new(void) {
  struct team *team = calloc(1, sizeof(struct team));
  if (!team) {
    return NULL;
  }
  long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  team->members = cpus < 1             ? 1
                  : cpus < MEMBERS_MAX ? (size_t)cpus
                                       : MEMBERS_MAX;
  if (pthread_barrier_init(&team->barrier, NULL, (unsigned)team->members)) {
    free(team);
    return NULL;
  }
  for (size_t i = 1; i < team->members; i++) {
    team->member[i].team = team;
    team->member[i].number = i;
    if (pthread_create(&team->member[i].thread, NULL, work, &team->member[i])) {
      return NULL; /* members wait at the barrier until the program ends */
    }
  }
  return team;
}

void team_free(struct team *team) {
  team->task = NULL;
  pthread_barrier_wait(&team->barrier);
  for (size_t i = 1; i < team->members; i++) {
    pthread_join(team->member[i].thread, NULL);
  }
  pthread_barrier_destroy(&team->barrier);
  free(team);
}

size_t team_members(const struct team *team) { return team->members; }

void team_run(struct team *team, team_task *task, void *context) {
  team->task = task;
  team->context = context;
  pthread_barrier_wait(&team->barrier);
  task(context, 0, team->members);
  pthread_barrier_wait(&team->barrier);
}
