/* SPDX-License-Identifier: MIT
**
** defect.c -- which seeded defect is on, and which seeds were reached
** (engine/base/seed.h).  Part of the variant `defect` only.
*/
#include "engine/base/seed.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef EMB_DEFECTS
enum { MANY_SEEDS = 4096 };

int emb_defect;
static unsigned char here[MANY_SEEDS];
volatile unsigned char *emb_seeds_reached = here;

/* The file EMB_SEEDS_REACHED gets a byte of 1 at the number of each seed that
** this process, or another one with the same environment, reaches.  A mapping:
** what a killed process has reached stays noted. */
static void note_in(const char *path) {
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  void *map = MAP_FAILED;
  if (fd >= 0 && ftruncate(fd, MANY_SEEDS) == 0)
    map = mmap(NULL, MANY_SEEDS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fd >= 0)
    (void)close(fd);
  if (map != MAP_FAILED)
    emb_seeds_reached = map;
}

__attribute__((constructor)) static void choose(void) {
  const char *text = getenv("EMB_DEFECT");
  const char *path = getenv("EMB_SEEDS_REACHED");
  emb_defect = text ? atoi(text) : 0;
  if (path)
    note_in(path);
}
#endif
