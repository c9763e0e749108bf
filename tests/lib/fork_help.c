/* SPDX-License-Identifier: MIT
**
** fork_help.c -- see fork_help.h.
*/
#include "fork_help.h"

#include "test.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || TEST_HAS(address_sanitizer)

enum {
  TRIES = 100,
  ANSWERS_MS = 2000,
  /* A thread keeps blocks of one size at hand, and takes the lock of that size
  ** only for more of them than these. */
  KEPT_BLOCKS = 512,
  KEPT_BYTES = 128 << 10,
  LARGEST = 512 << 10 /* beyond these the sanitizer maps each block */
};

static void try_size(size_t size) {
  static void *blocks[KEPT_BLOCKS + 1];
  size_t n = KEPT_BYTES / size < KEPT_BLOCKS ? KEPT_BYTES / size : KEPT_BLOCKS;
  for (size_t i = 0; i <= n; i++)
    blocks[i] = malloc(size);
  for (size_t i = 0; i <= n; i++)
    free(blocks[i]);
}

/* Takes the lock of every size. */
static void try_locks(void) {
  for (size_t size = 16; size <= LARGEST; size += size < 256 ? 16 : size / 8)
    try_size(size);
}

/* Does the child answer? */
static int answers(pid_t child, int from) {
  struct pollfd wait = {.fd = from, .events = POLLIN};
  char byte;
  if (poll(&wait, 1, ANSWERS_MS) == 1 && read(from, &byte, 1) == 1)
    return 1;
  (void)kill(child, SIGKILL);
  (void)waitpid(child, NULL, 0);
  return 0;
}

pid_t test_fork(void) {
  pid_t child = -1;
  int good = 0;
  for (int i = 0; i < TRIES && !good; i++) {
    int ends[2];
    if (pipe(ends) != 0 || (child = fork()) < 0)
      return -1;
    (void)close(ends[child != 0]);
    if (child == 0) {
      try_locks();
      good = write(ends[1], "a", 1) == 1;
    } else {
      good = answers(child, ends[0]);
    }
    (void)close(ends[child == 0]);
  }
  return good ? child : -1;
}

#else

pid_t test_fork(void) { return fork(); }

#endif
