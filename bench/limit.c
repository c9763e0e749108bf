/* SPDX-License-Identifier: MIT
**
** limit.c -- memory control groups; see limit.h.
*/
#include "limit.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

struct version {
  const char *root, *line, *limit, *peak;
};

static const struct version versions[] = {
    {"/sys/fs/cgroup/memory", ":memory:", "memory.limit_in_bytes",
     "memory.max_usage_in_bytes"},
    {"/sys/fs/cgroup", "0::", "memory.max", "memory.peak"},
};

static int write_text(const char *file, const char *text) {
  FILE *f = fopen(file, "r+"); /* never creates the file */
  int ok = f && fputs(text, f) >= 0;
  return f && !fclose(f) && ok;
}

/* Finds the directory of the process's group.  0: no such controller. */
static int group_of(const struct version *v, int process, char *to,
                    size_t size) {
  FILE *f = fopen("/proc/self/cgroup", "r");
  char line[512];
  int found = 0;
  while (f && !found && fgets(line, sizeof(line), f)) {
    char *at = strstr(line, v->line);
    if (at) {
      at += strlen(v->line);
      at[strcspn(at, "\n")] = 0;
      char *own = strstr(at, "/emb-bench-"); /* called by the child itself */
      if (own) {
        *own = 0;
      }
      snprintf(to, size, "%s%s/emb-bench-%d", v->root,
               strcmp(at, "/") ? at : "", process);
      found = 1;
    }
  }
  if (f) {
    fclose(f);
  }
  return found;
}

/* Makes a group and enters it.  Returns its version, or NULL. */
static const struct version *enter(uint64_t bytes) {
  for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
    const struct version *v = &versions[i];
    char group[512];
    if (!group_of(v, getpid(), group, sizeof(group)) || mkdir(group, 0755)) {
      continue;
    }
    if (write_text(path("%s/%s", group, v->limit),
                   path("%llu", (unsigned long long)bytes)) &&
        write_text(path("%s/cgroup.procs", group), path("%d", getpid()))) {
      return v;
    }
    rmdir(group);
  }
  return NULL;
}

static const struct version *entered;

int limit_memory(uint64_t bytes) {
  entered = enter(bytes);
  return entered != NULL;
}

uint64_t limit_peak(void) {
  char group[512];
  unsigned long long value = 0;
  if (entered && group_of(entered, getpid(), group, sizeof(group))) {
    FILE *f = fopen(path("%s/%s", group, entered->peak), "r");
    if (f) {
      if (fscanf(f, "%llu", &value) != 1) {
        value = 0;
      }
      fclose(f);
    }
  }
  return value;
}

void limit_remove(int process) {
  for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
    char group[512];
    if (group_of(&versions[i], process, group, sizeof(group))) {
      for (int tries = 0; tries < 50 && rmdir(group) && !access(group, F_OK);
           tries++) {
        nap(0.02);
      }
    }
  }
}

int limit_possible(void) {
  pid_t child = fork();
  if (!child) {
    _exit(limit_memory(UINT64_C(64) << 20) ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  limit_remove(child);
  return status == 0;
}
