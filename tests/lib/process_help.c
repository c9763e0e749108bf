/* SPDX-License-Identifier: MIT
**
** process_help.c -- see process_help.h.
*/
#include "fork_help.h"
#include "process_help.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Descriptors in the other process. */
enum { HEAR_FD = 3, SAY_FD = 4 };
/* A test that hangs ends by itself. */
enum { ALARM_S = 1200 };

extern char **environ;

static struct process_role *roles;
static char **process_arguments;
static int process_arguments_n;

/* ---- the other process --------------------------------------------------- */

/* program -process ROLE SEED PARENT ARGUMENT ... */
static int run_role(int argc, char **argv) {
  struct process_role *role = roles;
  while (argc > 3 && role && strcmp(role->name, argv[0]) != 0)
    role = role->next;
  if (argc <= 3 || !role)
    return 2;
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != (pid_t)strtol(argv[2], NULL, 10))
    return 2;
  (void)alarm(ALARM_S);
  test_state.name = role->name;
  test_state.random = strtoull(argv[1], NULL, 10);
  process_arguments = argv + 3;
  process_arguments_n = argc - 3;
  role->run();
  return atomic_load(&test_state.failures) > 0;
}

void process_register(struct process_role *role) {
  role->next = roles;
  roles = role;
  test_state.process = run_role;
}

const char *process_argument(int i) {
  return i < process_arguments_n ? process_arguments[i] : "";
}

uint64_t process_number(int i) {
  return strtoull(process_argument(i), NULL, 10);
}

/* ---- lines --------------------------------------------------------------- */

static void write_line(int fd, const char *line) {
  char text[256];
  int n = snprintf(text, sizeof text, "%s\n", line);
  (void)!write(fd, text, (size_t)n); /* an ended process hears nothing */
}

/* 0: there is no line. */
static int read_line(int fd, char *text, size_t room) {
  size_t n = 0;
  for (;;) {
    char c;
    ssize_t got = read(fd, &c, 1);
    if (got < 0 && errno == EINTR)
      continue;
    if (got != 1 || n + 1 == room)
      return 0;
    if (c == '\n')
      break;
    text[n++] = c;
  }
  text[n] = 0;
  return 1;
}

void process_tell(const char *line) { write_line(SAY_FD, line); }

int process_told(const char *line) {
  char text[256];
  return read_line(HEAR_FD, text, sizeof text) && strcmp(text, line) == 0;
}

void process_say(struct process *p, const char *line) {
  write_line(p->say, line);
}

int process_hear(struct process *p, const char *line) {
  char text[256] = "";
  int is = read_line(p->hear, text, sizeof text);
  return test_check(is && strcmp(text, line) == 0, __FILE__, __LINE__,
                    "a process said \"%s\", not \"%s\"", is ? text : "nothing",
                    line);
}

/* ---- starting and ending ------------------------------------------------- */

static int spawn(struct process *p, char **argv, int hear, int say) {
  posix_spawn_file_actions_t actions;
  int os = posix_spawn_file_actions_init(&actions);
  if (os)
    return os;
  os = posix_spawn_file_actions_adddup2(&actions, hear, HEAR_FD);
  os = os ? os : posix_spawn_file_actions_adddup2(&actions, say, SAY_FD);
  os = os ? os
          : posix_spawn(&p->pid, "/proc/self/exe", &actions, NULL, argv,
                        environ);
  (void)posix_spawn_file_actions_destroy(&actions);
  return os;
}

/* Moves both ends away from the descriptors that the other process needs. */
static int make_pipe(int ends[2]) {
  int low[2];
  if (pipe2(low, O_CLOEXEC))
    return errno;
  for (int i = 0; i < 2; i++) {
    ends[i] = fcntl(low[i], F_DUPFD_CLOEXEC, SAY_FD + 1);
    (void)close(low[i]);
  }
  return ends[0] < 0 || ends[1] < 0 ? EMFILE : 0;
}

int process_start(struct process *p, const char *role,
                  const char *const *arguments) {
  char seed[32], parent[32];
  char *argv[6 + PROCESS_ARGUMENTS] = {test_state.program, "-process",
                                       (char *)(uintptr_t)role, seed, parent};
  int down[2] = {-1, -1}, up[2] = {-1, -1};
  (void)signal(SIGPIPE, SIG_IGN);
  (void)snprintf(seed, sizeof seed, "%" PRIu64, test_random());
  (void)snprintf(parent, sizeof parent, "%d", (int)getpid());
  for (int i = 0; arguments[i] && i < PROCESS_ARGUMENTS; i++)
    argv[5 + i] = (char *)(uintptr_t)arguments[i];
  (void)fflush(stdout);
  p->pid = 0;
  int os = make_pipe(down);
  os = os ? os : make_pipe(up);
  os = os ? os : spawn(p, argv, down[0], up[1]);
  (void)close(down[0]);
  (void)close(up[1]);
  p->say = down[1];
  p->hear = up[0];
  if (!test_check(os == 0, __FILE__, __LINE__, "cannot start a process: %s",
                  strerror(os)))
    p->pid = 0;
  return p->pid != 0;
}

static int await_end(struct process *p) {
  int status = -1;
  (void)close(p->say);
  if (p->pid)
    CHECK_EQ_INT(waitpid(p->pid, &status, 0), p->pid);
  (void)close(p->hear);
  p->pid = 0;
  return status;
}

int process_end(struct process *p) {
  int status = await_end(p);
  return test_check(status == 0, __FILE__, __LINE__,
                    "a process ended with status 0x%x", (unsigned)status);
}

int process_fork(struct process *p, int *hear, int *say) {
  int down[2], up[2];
  *p = (struct process){0, -1, -1};
  if (!CHECK(pipe(down) == 0 && pipe(up) == 0))
    return 0;
  (void)fflush(stdout);
  pid_t pid = test_fork();
  int is_child = pid == 0;
  p->pid = pid > 0 ? pid : 0;
  (void)close(down[is_child]);
  (void)close(up[!is_child]);
  p->say = down[1];
  p->hear = up[0];
  *hear = down[0];
  *say = up[1];
  return is_child;
}

void process_kill(struct process *p) {
  CHECK(kill(p->pid, SIGKILL) == 0);
  process_end_killed(p);
}

void process_end_killed(struct process *p) {
  int status = await_end(p);
  test_check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, __FILE__,
             __LINE__, "a process had ended by itself, status 0x%x",
             (unsigned)status);
}

void process_stop(const struct process *p) {
  int status;
  CHECK(kill(p->pid, SIGSTOP) == 0);
  CHECK_EQ_INT(waitpid(p->pid, &status, WUNTRACED), p->pid);
  CHECK(WIFSTOPPED(status));
}

void process_go_on(const struct process *p) {
  CHECK(kill(p->pid, SIGCONT) == 0);
}

/* ---- memory -------------------------------------------------------------- */

void *process_memory(const char *path, size_t bytes) {
  void *memory = MAP_FAILED;
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0)
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fd >= 0)
    (void)close(fd);
  return CHECK(memory != MAP_FAILED) ? memory : NULL;
}

void process_memory_end(void *memory, size_t bytes) {
  if (memory)
    (void)munmap(memory, bytes);
}
