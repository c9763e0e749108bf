/* SPDX-License-Identifier: MIT
**
** process_help.h -- other processes of a test: the same program, started at
** another function.
**
**     PROCESS(adder) {              in the other process: argument(0), ...
**       process_tell("ready");
**       while (process_told("go")) ...
**     }
**     TEST(two) {
**       struct process p;
**       if (process_start(&p, "adder", (const char *[]){dir, NULL}) &&
**           process_hear(&p, "ready")) ...
**       process_end(&p);
**     }
**
** They are started by exec, not by fork, so each may have threads and run
** under ThreadSanitizer.  A failed check in such a process is printed there
** and fails process_end here.  A process is killed when its parent ends.
*/
#ifndef EMB_PROCESS_HELP_H
#define EMB_PROCESS_HELP_H

#include "test.h"

#include <sys/types.h>

enum { PROCESS_ARGUMENTS = 8 };

struct process_role {
  const char *name;
  void (*run)(void);
  struct process_role *next;
};

#define PROCESS(name_)                                                         \
  static void name_(void);                                                     \
  __attribute__((constructor)) static void process_register_##name_(void) {    \
    static struct process_role role = {.name = #name_, .run = name_};          \
    process_register(&role);                                                   \
  }                                                                            \
  static void name_(void)

void process_register(struct process_role *role);

/* ---- in the test --------------------------------------------------------- */

struct process {
  pid_t pid; /* 0: it has ended */
  int say, hear;
};

/* The texts end with NULL.  1 when it runs. */
int process_start(struct process *p, const char *role,
                  const char *const *arguments);

/* Waits for this line from the process.  0, and a failed check: it said
** something else, or has ended. */
int process_hear(struct process *p, const char *line);
void process_say(struct process *p, const char *line);

/* Closes its input, and waits for its end: 1 when all its checks held. */
int process_end(struct process *p);
void process_kill(struct process *p);
/* Waits for a process that is killed by SIGKILL, from any source. */
void process_end_killed(struct process *p);
/* The process is stopped when process_stop returns; process_go_on continues
** it. */
void process_stop(const struct process *p);
void process_go_on(const struct process *p);

/* By fork: a child that goes on from here, and ends by _exit.  1 in the child,
** which reads from `hear` and writes to `say`.  0 in the test, which closes
** the ends of p itself; without a child, p->pid is 0 and p->hear has
** nothing to read. */
int process_fork(struct process *p, int *hear, int *say);

/* Memory shared by all processes that map the file, zero at first; NULL, and
** a failed check, if there is none. */
void *process_memory(const char *path, size_t bytes);
void process_memory_end(void *memory, size_t bytes);

/* ---- in the other process ------------------------------------------------ */

const char *process_argument(int i);
uint64_t process_number(int i);

void process_tell(const char *line);
/* Waits for a line; 1: it is `line`.  0: no line will come. */
int process_told(const char *line);

#endif
