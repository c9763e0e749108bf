/* SPDX-License-Identifier: MIT
**
** process_valid.c -- each assertion about what the stores of a process share
** fires.
*/
#include "death.h"

#include "engine/base/process/process_parts.h"

static struct process *process;
static struct background work[3];

static uint64_t later(void *arg) {
  (void)arg;
  return env_posix.now_us(&env_posix) + UINT64_C(1000000000);
}

static uint64_t breaks_its_state(void *arg) {
  struct background *b = arg;
  b->state = BACKGROUND_IDLE;
  return BACKGROUND_NEVER;
}

/* A thread has run each of them, and sleeps until the first is due again. */
static int begin(void) {
  if (!CHECK_EQ_INT(process_join(&env_posix, &process), 0))
    return 0;
  for (int i = 0; i < 3; i++) {
    CHECK_EQ_INT(
        background_start(&work[i], process, BACKGROUND_WORK, later, NULL), 0);
    background_wake(&work[i]);
  }
  struct crew *crew = &process->crews[BACKGROUND_WORK];
  for (;;) {
    pthread_mutex_lock(&process->lock);
    int is_quiet = crew->sleeping == crew->threads && crew->waiting == 3 &&
                   crew->heap[0]->due_us > env_posix.now_us(&env_posix);
    CHECK(crews_valid(process));
    pthread_mutex_unlock(&process->lock);
    if (is_quiet)
      return 1;
    env_posix.sleep_us(&env_posix, 1000);
  }
}

static void break_in_a_run(void) {
  static struct background b;
  if (process_join(&env_posix, &process) == 0 &&
      background_start(&b, process, BACKGROUND_JOBS, breaks_its_state, &b) ==
          0) {
    background_wake(&b);
    env_posix.sleep_us(&env_posix, 10000000);
  }
}

TEST(broken_crews) {
  if (!begin())
    return;
  struct crew *crew = &process->crews[BACKGROUND_WORK];
  struct background *first = crew->heap[0];
  CHECK_FIRES(first->at = 1; crews_valid(process));
  CHECK_FIRES(first->state = BACKGROUND_RUNNING; crews_valid(process));
  CHECK_FIRES(first->is_ending = 1; crews_valid(process));
  CHECK_FIRES(first->due_us = BACKGROUND_NEVER; crews_valid(process));
  CHECK_FIRES(crew->members = 2; crews_valid(process));
  CHECK_FIRES(crew->room = 2; crews_valid(process));
  CHECK_FIRES(crew->threads++; crews_valid(process));
  CHECK_FIRES(crew->working++; crews_valid(process));
  CHECK_FIRES(background_waits(first, -1));
  CHECK_FIRES(process_count(process, PROCESS_LINKS, -1));
  CHECK_FIRES(break_in_a_run());
  for (int i = 0; i < 3; i++)
    background_end(&work[i]);
  process_leave(process);
}

TEST(a_broken_stock) {
  struct process_queue q[2];
  void *buffers[2];
  if (!CHECK_EQ_INT(process_join(&env_posix, &process), 0))
    return;
  for (int i = 0; i < 2; i++) {
    process_queue_take(process, ENV_QUEUE_POOL, 4, &q[i]);
    buffers[i] = process_buffer_take(process, 4096);
  }
  for (int i = 0; i < 2; i++) {
    process_queue_give(process, &q[i]);
    process_buffer_give(process, buffers[i], 4096);
  }
  CHECK(stock_valid(process));
  CHECK_FIRES(process->queue_count = QUEUES_KEPT + 1; stock_valid(process));
  CHECK_FIRES(process->queues[1].queue = NULL; stock_valid(process));
  CHECK_FIRES(process->buffer_count = BUFFERS_KEPT + 1; stock_valid(process));
  CHECK_FIRES(process->buffers[0].bytes = 0; stock_valid(process));
  CHECK_FIRES(process_buffer_give(process, buffers[0], 4096)); /* twice */
  CHECK_ALL_FIRED("engine/base/process/process_valid.c");
  process_leave(process);
}
