/* SPDX-License-Identifier: MIT
**
** env_limit.c -- how much memory this process can have.
**
** The minimum of the machine's memory, the limits of control groups (the
** process's own and all above it, in both versions of the interface), and
** RLIMIT_AS.  A container shows its own group at the root of its mount,
** whatever /proc/self/cgroup calls it, so that root is read, too.
**
** FAILURE   A limit that cannot be read is no limit.
** THREADS   Any.
*/
#include "env_os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define CGROUP_PATH_BYTES 4096

struct limit {
  uint64_t bytes;
  const char *whose;
};

static void env_limit_lower(struct limit *limit, uint64_t bytes,
                            const char *whose) {
  if (bytes < limit->bytes)
    *limit = (struct limit){bytes, whose};
}

/* Reads a file with one number in it; "max" is no limit. */
static void read_limit(struct limit *limit, const char *path) {
  FILE *f = fopen(path, "re");
  char text[32];
  if (f == NULL)
    return;
  if (fgets(text, sizeof text, f) != NULL && text[0] >= '0' && text[0] <= '9')
    env_limit_lower(limit, strtoull(text, NULL, 10),
                    "the control group of this process may have");
  (void)fclose(f);
}

/* Reads the group at `path` below `mount`, and the groups above it. */
static void read_groups(struct limit *limit, const char *mount, char *path,
                        const char *name) {
  char file[CGROUP_PATH_BYTES];
  for (;;) {
    char *slash = strrchr(path, '/');
    int n = snprintf(file, sizeof file, "%s%s/%s", mount, path, name);
    if (n > 0 && (size_t)n < sizeof file)
      read_limit(limit, file);
    if (slash == NULL)
      return;
    *slash = 0;
  }
}

/* Lines "number:controllers:path"; version 2 names no controllers. */
static void read_control_groups(struct limit *limit) {
  FILE *f = fopen("/proc/self/cgroup", "re");
  char line[CGROUP_PATH_BYTES];
  while (f != NULL && fgets(line, sizeof line, f) != NULL) {
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (path == NULL)
      continue;
    *path++ = 0;
    path[strcspn(path, "\n")] = 0;
    if (controllers[1] == 0)
      read_groups(limit, "/sys/fs/cgroup", path, "memory.max");
    else if (strstr(controllers, "memory") != NULL)
      read_groups(limit, "/sys/fs/cgroup/memory", path,
                  "memory.limit_in_bytes");
  }
  if (f != NULL)
    (void)fclose(f);
}

uint64_t env__memory_limit(struct env *env, const char **whose) {
  (void)env;
  struct limit limit = {UINT64_MAX, "this process may have"};
  struct rlimit space;
  long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
  if (pages > 0 && bytes > 0)
    env_limit_lower(&limit, (uint64_t)pages * (uint64_t)bytes,
                    "this machine has");
  read_control_groups(&limit);
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
    env_limit_lower(&limit, space.rlim_cur,
                    "this process may have (RLIMIT_AS)");
  *whose = limit.whose;
  return limit.bytes;
}
