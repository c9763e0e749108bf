/* SPDX-License-Identifier: MIT
**
** fork_busy.c -- children of a process whose other threads allocate memory
** without a pause can allocate memory, too (fork_help.h).
*/
#include "fork_help.h"
#include "test.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

enum { THREADS = 4, CHILDREN = 8, BLOCKS = 64, WAIT_MS = 60000 };

static _Atomic int stop;

static void allocate(uint64_t *random) {
  void *blocks[BLOCKS];
  size_t size = (size_t)16 << test_random_from(random) % 13;
  for (int i = 0; i < BLOCKS; i++)
    blocks[i] = malloc(size);
  for (int i = 0; i < BLOCKS; i++)
    free(blocks[i]);
}

static void *allocate_on(void *arg) {
  uint64_t random = (uint64_t)(uintptr_t)arg;
  while (!atomic_load(&stop))
    allocate(&random);
  return NULL;
}

/* Returns when the child has closed its end of the pipe. */
static int ends_in_time(pid_t child, int from) {
  struct pollfd wait = {.fd = from};
  int status = -1, in_time = poll(&wait, 1, WAIT_MS) == 1;
  if (!in_time)
    (void)kill(child, SIGKILL);
  return waitpid(child, &status, 0) == child && in_time && status == 0;
}

static int child_allocates(uint64_t seed) {
  int ends[2];
  if (!CHECK(pipe(ends) == 0))
    return 0;
  pid_t child = test_fork();
  if (child == 0) {
    for (int i = 0; i < 1000; i++)
      allocate(&seed);
    _exit(0);
  }
  (void)close(ends[1]);
  int good = CHECK(child > 0) && CHECK(ends_in_time(child, ends[0]));
  (void)close(ends[0]);
  return good;
}

TEST(children_of_busy_threads) {
  pthread_t threads[THREADS];
  atomic_store(&stop, 0);
  for (int i = 0; i < THREADS; i++)
    CHECK_EQ_INT(pthread_create(&threads[i], NULL, allocate_on,
                                (void *)(uintptr_t)(i + 1)),
                 0);
  for (uint64_t i = 1; i <= CHILDREN && child_allocates(i); i++)
    continue;
  atomic_store(&stop, 1);
  for (int i = 0; i < THREADS; i++)
    CHECK_EQ_INT(pthread_join(threads[i], NULL), 0);
}
