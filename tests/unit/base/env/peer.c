/* SPDX-License-Identifier: MIT
**
** peer.c -- tests of what engine/base/env has for processes of one machine:
** ports, peers, messages with gifts, watches, shared memory, words.
**
** A hostile process is a raw socket, which sends what env->peer_send would not.
** No wait is longer than LONG_US, and nothing that works waits that long.
*/
#include "fork_help.h"
#include "store_help.h"

#include "engine/base/env/env.h"
#include "env_memory.h"
#include "failing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#define LONG_US UINT64_C(20000000)
#define PAGE ((size_t)4096)

static struct env *const env = &env_posix;

/* ---- helpers ------------------------------------------------------------- */

static int open_descriptors(void) {
  DIR *dir = opendir("/proc/self/fd");
  int n = 0;
  while (dir != NULL && readdir(dir) != NULL)
    n++;
  if (dir != NULL)
    (void)closedir(dir);
  return n;
}

static struct env_dir *dir_of(const char *path) {
  struct env_dir *dir = NULL;
  CHECK_EQ_INT(env->open_dir(env, path, &dir), 0);
  return dir;
}

/* A port, and both ends of a call to it by this process. */
struct line {
  struct env_dir *dir;
  struct env_port *port;
  struct env_peer *caller, *called;
};

static int line_port(struct line *line) {
  *line = (struct line){.dir = NULL};
  if (test_dir() == NULL)
    return 0;
  line->dir = dir_of(test_state.dir);
  return line->dir != NULL &&
         CHECK_EQ_INT(env->port_open(env, line->dir, "port", &line->port), 0);
}

static int line_open(struct line *line) {
  return line_port(line) &&
         CHECK_EQ_INT(env->peer_open(env, line->dir, "port", &line->caller),
                      0) &&
         CHECK_EQ_INT(env->port_accept(env, line->port, &line->called), 0);
}

static void line_close(struct line *line) {
  if (line->caller != NULL)
    env->peer_close(env, line->caller);
  if (line->called != NULL)
    env->peer_close(env, line->called);
  if (line->port != NULL)
    env->port_close(env, line->port);
  if (line->dir != NULL)
    env->close_dir(env, line->dir);
}

static int send_text(struct env_peer *peer, const char *text) {
  struct env_message m = {.bytes = (void *)(uintptr_t)text, .n = strlen(text)};
  return env->peer_send(env, peer, &m);
}

/* Returns the text received, or the name of the error. */
static const char *receive_text(struct env_peer *peer, uint64_t wait_us) {
  static char text[256];
  struct env_message m = {.bytes = text, .n = sizeof text - 1};
  int rc = env->peer_receive(env, peer, &m, wait_us);
  if (rc != 0)
    return strerrorname_np(rc);
  text[m.n] = '\0';
  return text;
}

/* For a child: its exit status tells the line that failed. */
#define TRY(expr)                                                              \
  do {                                                                         \
    if (!(expr))                                                               \
      return __LINE__ % 255 + 1;                                               \
  } while (0)

static pid_t start(int (*run)(void)) {
  pid_t child = test_fork();
  if (child == 0)
    _exit(run());
  CHECK(child > 0);
  return child;
}

/* Returns how a child ended: 0, a TRY, or minus its signal. */
static int end_of(pid_t child) {
  int status = 0;
  CHECK_EQ_INT(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* For a child: a peer of the port. */
static struct env_peer *call_port(void) {
  struct env_dir *dir = NULL;
  struct env_peer *peer = NULL;
  if (env->open_dir(env, test_state.dir, &dir) == 0)
    (void)env->peer_open(env, dir, "port", &peer);
  return peer;
}

/* Accepts the peer that a child opens, which may take a while. */
static struct env_peer *accept_child(struct line *line) {
  struct env_watch *watch = NULL;
  void *tag = NULL;
  int what = 0;
  if (!CHECK_EQ_INT(env->watch_open(env, &watch), 0))
    return NULL;
  CHECK_EQ_INT(env->watch_port(env, watch, line->port, line), 0);
  CHECK_EQ_INT(env->watch_wait(env, watch, LONG_US, &tag, &what), 0);
  CHECK(tag == line);
  CHECK_EQ_INT(what, ENV_WATCH_MESSAGE);
  CHECK_EQ_INT(env->port_accept(env, line->port, &line->called), 0);
  env->watch_close(env, watch);
  return line->called;
}

/* ---- ports --------------------------------------------------------------- */

TEST(messages_go_both_ways) {
  struct line line;
  int before = open_descriptors();
  struct env_peer *nobody = NULL;
  if (!line_port(&line))
    return;
  CHECK_EQ_INT(env->port_accept(env, line.port, &nobody), EAGAIN);
  line_close(&line);
  if (!line_open(&line))
    return;
  CHECK_STR(receive_text(line.called, 0), "EAGAIN");
  CHECK_STR(receive_text(line.called, 1000), "EAGAIN");
  CHECK_EQ_INT(send_text(line.caller, "one"), 0);
  CHECK_EQ_INT(send_text(line.caller, ""), 0);
  CHECK_EQ_INT(send_text(line.caller, "three"), 0);
  CHECK_EQ_INT(send_text(line.called, "answer"), 0);
  CHECK_STR(receive_text(line.called, 0), "one");
  CHECK_STR(receive_text(line.called, 0), "");
  CHECK_STR(receive_text(line.called, UINT64_MAX), "three");
  CHECK_STR(receive_text(line.caller, LONG_US), "answer");
  CHECK_STR(receive_text(line.caller, 0), "EAGAIN");
  line_close(&line);
  CHECK_EQ_INT(open_descriptors(), before);
}

TEST(message_sizes) {
  struct line line;
  static char out[ENV_MESSAGE_MAX + 1], in[ENV_MESSAGE_MAX];
  if (!line_open(&line))
    return;
  for (size_t i = 0; i < sizeof out; i++)
    out[i] = (char)test_random();
  struct env_message m = {.bytes = out, .n = sizeof out};
  CHECK_EQ_INT(env->peer_send(env, line.caller, &m), EMSGSIZE);
  m.n = ENV_MESSAGE_MAX;
  CHECK_EQ_INT(env->peer_send(env, line.caller, &m), 0);
  CHECK_EQ_INT(env->peer_send(env, line.caller, &m), 0);
  CHECK_EQ_INT(send_text(line.caller, "next"), 0);
  struct env_message got = {.bytes = in, .n = sizeof in};
  CHECK_EQ_INT(env->peer_receive(env, line.called, &got, 0), 0);
  CHECK_EQ_INT(got.n, ENV_MESSAGE_MAX);
  CHECK(memcmp(in, out, ENV_MESSAGE_MAX) == 0);
  got.n = ENV_MESSAGE_MAX - 1;
  CHECK_EQ_INT(env->peer_receive(env, line.called, &got, 0), EMSGSIZE);
  CHECK_EQ_INT(got.n, ENV_MESSAGE_MAX - 1);
  CHECK_STR(receive_text(line.called, 0), "next");
  line_close(&line);
}

/* Sending never waits; no message that was taken is lost. */
TEST(unread_messages_have_a_limit) {
  struct line line;
  uint32_t sent = 0, got = 0;
  int rc;
  if (!line_open(&line))
    return;
  struct env_message m = {.bytes = &sent, .n = sizeof sent};
  while ((rc = env->peer_send(env, line.caller, &m)) == 0 && sent < 1000000)
    sent++;
  CHECK_EQ_INT(rc, EAGAIN);
  CHECK(sent >= 10);
  struct env_message in = {.bytes = &got, .n = sizeof got};
  for (uint32_t i = 0; i < sent; i++) {
    CHECK_EQ_INT(env->peer_receive(env, line.called, &in, 0), 0);
    CHECK_EQ_INT(got, i);
  }
  CHECK_EQ_INT(env->peer_receive(env, line.called, &in, 0), EAGAIN);
  CHECK_EQ_INT(env->peer_send(env, line.caller, &m), 0);
  line_close(&line);
}

TEST(closed_peer_has_gone_after_its_last_message) {
  struct line line;
  for (int unread = 0; unread < 2; unread++) {
    if (!line_open(&line))
      return;
    CHECK_EQ_INT(env->peer_gone(env, line.called), 0);
    CHECK_EQ_INT(send_text(line.caller, "last"), 0);
    if (unread)
      CHECK_EQ_INT(send_text(line.called, "not read"), 0);
    CHECK_EQ_INT(env->peer_gone(env, line.called), 0);
    env->peer_close(env, line.caller);
    line.caller = NULL;
    CHECK_EQ_INT(env->peer_gone(env, line.called), 1);
    CHECK_EQ_INT(send_text(line.called, "too late"), EPIPE);
    CHECK_STR(receive_text(line.called, LONG_US), "last");
    CHECK_STR(receive_text(line.called, LONG_US), "EPIPE");
    CHECK_STR(receive_text(line.called, 0), "EPIPE");
    line_close(&line);
  }
}

/* The name of a socket has 108 bytes. */
TEST(port_path_may_be_long) {
  if (test_dir() == NULL)
    return;
  char path[1024], name[121];
  struct env_port *port = NULL;
  struct env_peer *caller = NULL, *called = NULL;
  int n = snprintf(path, sizeof path, "%s", test_state.dir);
  for (int i = 0; i < 6; i++) {
    n += snprintf(path + n, sizeof path - (size_t)n, "/%0100d", i);
    CHECK_EQ_INT(env->make_dir(env, path), 0);
  }
  struct env_dir *dir = dir_of(path);
  if (dir == NULL)
    return;
  memset(name, 'n', sizeof name);
  name[80] = '\0';
  CHECK_EQ_INT(env->port_open(env, dir, name, &port), 0);
  CHECK_EQ_INT(env->peer_open(env, dir, name, &caller), 0);
  CHECK_EQ_INT(env->port_accept(env, port, &called), 0);
  CHECK_EQ_INT(send_text(caller, "far"), 0);
  CHECK_STR(receive_text(called, 0), "far");
  env->peer_close(env, caller);
  env->peer_close(env, called);
  env->port_close(env, port);
  name[80] = 'n';
  name[120] = '\0';
  CHECK_EQ_INT(env->port_open(env, dir, name, &port), ENAMETOOLONG);
  CHECK_EQ_INT(env->peer_open(env, dir, name, &caller), ENAMETOOLONG);
  CHECK_EQ_INT(env->port_open(env, dir, "", &port), EINVAL);
  CHECK_EQ_INT(env->port_open(env, dir, "../port", &port), EINVAL);
  CHECK_EQ_INT(env->peer_open(env, dir, "../port", &caller), EINVAL);
  env->close_dir(env, dir);
}

TEST(port_name_is_replaced) {
  struct line line;
  struct env_port *second = NULL;
  struct env_peer *nobody = NULL;
  struct stat st;
  if (!line_port(&line))
    return;
  mode_t mask = umask(077);
  CHECK_EQ_INT(env->port_open(env, line.dir, "port", &second), 0);
  (void)umask(mask);
  CHECK_EQ_INT(stat(help_path("port"), &st), 0);
  CHECK_EQ_INT(st.st_mode & 07777, 0666);
  CHECK_EQ_INT(env->peer_open(env, line.dir, "port", &line.caller), 0);
  CHECK_EQ_INT(env->port_accept(env, line.port, &nobody), EAGAIN);
  CHECK_EQ_INT(env->port_accept(env, second, &line.called), 0);
  /* closing the first port leaves the name */
  env->port_close(env, line.port);
  line.port = second;
  CHECK_EQ_INT(env->peer_open(env, line.dir, "port", &nobody), 0);
  env->peer_close(env, nobody);
  CHECK_EQ_INT(mkdir(help_path("directory"), 0700), 0);
  CHECK_EQ_INT(env->port_open(env, line.dir, "directory", &second), EISDIR);
  /* a link is replaced, not its target */
  int fd = open(help_path("target"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  (void)close(fd);
  CHECK_EQ_INT(symlink("target", help_path("link")), 0);
  CHECK_EQ_INT(env->port_open(env, line.dir, "link", &second), 0);
  CHECK_EQ_INT(stat(help_path("target"), &st), 0);
  CHECK_EQ_INT(st.st_mode & 07777, 0600);
  CHECK_EQ_INT(lstat(help_path("link"), &st), 0);
  CHECK(S_ISSOCK(st.st_mode));
  env->port_close(env, second);
  line_close(&line);
}

TEST(nobody_is_there) {
  struct line line;
  struct env_peer *peer = NULL;
  int before = open_descriptors();
  if (!line_port(&line))
    return;
  CHECK_EQ_INT(env->peer_open(env, line.dir, "absent", &peer), ENOENT);
  env->port_close(env, line.port);
  line.port = NULL;
  CHECK_EQ_INT(env->peer_open(env, line.dir, "port", &peer), ECONNREFUSED);
  int fd = open(help_path("file"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  (void)close(fd);
  CHECK_EQ_INT(env->peer_open(env, line.dir, "file", &peer), ECONNREFUSED);
  CHECK(peer == NULL);
  line_close(&line);
  CHECK_EQ_INT(open_descriptors(), before);
}

TEST(callers_that_wait_have_a_limit) {
  struct line line;
  enum { MOST = 600, WAITING = 512 };
  static struct env_peer *callers[MOST];
  int n = 0, rc = 0, limit = 0, before = open_descriptors();
  FILE *file = fopen("/proc/sys/net/core/somaxconn", "r");
  CHECK(file && fscanf(file, "%d", &limit) == 1);
  if (file)
    (void)fclose(file);
  limit = limit < WAITING ? limit : WAITING;
  if (!line_port(&line))
    return;
  while (n < MOST &&
         (rc = env->peer_open(env, line.dir, "port", &callers[n])) == 0)
    n++;
  CHECK_EQ_INT(rc, EAGAIN);
  CHECK(n == limit || n == limit + 1);
  CHECK_EQ_INT(env->port_accept(env, line.port, &line.called), 0);
  CHECK_EQ_INT(env->peer_open(env, line.dir, "port", &line.caller), 0);
  for (int i = 0; i < n; i++)
    env->peer_close(env, callers[i]);
  line_close(&line);
  CHECK_EQ_INT(open_descriptors(), before);
}

/* ---- the peer ------------------------------------------------------------ */

static int call_and_wait(void) {
  struct env_peer *peer = call_port();
  struct env_who who;
  TRY(peer != NULL);
  env->peer_who(env, peer, &who);
  TRY(who.process == getppid());
  TRY(who.is_same_user);
  TRY(send_text(peer, "here") == 0);
  TRY(strcmp(receive_text(peer, LONG_US), "go") == 0);
  return 0;
}

static int call_as_another(void) {
  TRY(setgid(65534) == 0 && setuid(65534) == 0);
  struct env_peer *peer = call_port();
  TRY(peer != NULL);
  TRY(strcmp(receive_text(peer, LONG_US), "go") == 0);
  return 0;
}

static void check_who(int (*run)(void), int64_t user, int is_same) {
  struct line line;
  struct env_who who;
  if (!line_port(&line))
    return;
  CHECK_EQ_INT(chmod(test_state.dir, 0755), 0);
  pid_t child = start(run);
  if (accept_child(&line) != NULL) {
    env->peer_who(env, line.called, &who);
    CHECK_EQ_INT(who.process, child);
    CHECK_EQ_INT(who.user, user);
    CHECK_EQ_INT(who.is_same_user, is_same);
    CHECK_EQ_INT(send_text(line.called, "go"), 0);
  }
  CHECK_EQ_INT(end_of(child), 0);
  line_close(&line);
}

TEST(who_is_the_process_that_called) { check_who(call_and_wait, geteuid(), 1); }

TEST(who_is_another_user) {
  if (geteuid() != 0)
    SKIP("only the superuser can be another");
  check_who(call_as_another, 65534, 0);
}

TEST(who_is_this_process) {
  struct line line;
  struct env_who who;
  if (!line_open(&line))
    return;
  env->peer_who(env, line.caller, &who);
  CHECK_EQ_INT(who.process, getpid());
  env->peer_who(env, line.called, &who);
  CHECK_EQ_INT(who.process, getpid());
  CHECK_EQ_INT(who.is_same_user, 1);
  CHECK_EQ_INT(env->peer_gone(env, line.caller), 0);
  line_close(&line);
}

/* ---- processes that have exited ------------------------------------------ */

static int hold[2]; /* a pipe; children that inherited it end at its close */

static int call_and_die(void) {
  struct env_peer *peer = call_port();
  TRY(peer != NULL);
  if (test_fork() == 0) {
    char byte;
    (void)close(hold[1]);
    (void)!read(hold[0], &byte, 1);
    _exit(0);
  }
  TRY(send_text(peer, "last") == 0);
  for (;;)
    (void)pause();
}

/* The grandchild holds the caller's end of the socket all the time. */
TEST(killed_process_has_gone_though_another_has_its_socket) {
  struct line line;
  struct env_watch *watch = NULL;
  void *tag = NULL;
  int what = 0;
  if (!line_port(&line) || !CHECK_EQ_INT(pipe2(hold, O_CLOEXEC), 0))
    return;
  pid_t child = start(call_and_die);
  if (accept_child(&line) != NULL &&
      CHECK_EQ_INT(env->watch_open(env, &watch), 0)) {
    CHECK_EQ_INT(env->watch_peer(env, watch, line.called, &line), 0);
    CHECK_EQ_INT(env->watch_wait(env, watch, LONG_US, &tag, &what), 0);
    CHECK_EQ_INT(what, ENV_WATCH_MESSAGE);
    CHECK_EQ_INT(env->peer_gone(env, line.called), 0);
    CHECK_EQ_INT(kill(child, SIGKILL), 0);
    do { /* its message is reported, too, until received */
      tag = NULL;
      if (!CHECK_EQ_INT(env->watch_wait(env, watch, LONG_US, &tag, &what), 0))
        break;
      CHECK(tag == &line);
    } while (what != ENV_WATCH_GONE);
    CHECK_EQ_INT(env->peer_gone(env, line.called), 1);
    CHECK_STR(receive_text(line.called, LONG_US), "last");
    CHECK_STR(receive_text(line.called, LONG_US), "EPIPE");
    env->unwatch_peer(env, watch, line.called);
    CHECK_EQ_INT(env->watch_wait(env, watch, 1000, &tag, &what), EAGAIN);
    env->watch_close(env, watch);
  }
  CHECK_EQ_INT(end_of(child), -SIGKILL);
  (void)close(hold[0]);
  (void)close(hold[1]);
  line_close(&line);
}

/* The caller has ended, and left its message, before it is accepted. */
TEST(caller_that_ended_before_it_was_heard) {
  struct line line;
  struct env_watch *watch = NULL;
  void *tag = NULL;
  int what = 0;
  if (!line_port(&line) || !CHECK_EQ_INT(pipe2(hold, O_CLOEXEC), 0))
    return;
  pid_t child = start(call_and_die);
  CHECK_EQ_INT(env->watch_open(env, &watch), 0);
  CHECK_EQ_INT(env->watch_port(env, watch, line.port, NULL), 0);
  CHECK_EQ_INT(env->watch_wait(env, watch, LONG_US, &tag, &what), 0);
  CHECK_EQ_INT(kill(child, SIGKILL), 0);
  CHECK_EQ_INT(end_of(child), -SIGKILL);
  if (CHECK_EQ_INT(env->port_accept(env, line.port, &line.called), 0)) {
    CHECK_EQ_INT(env->peer_gone(env, line.called), 1);
    CHECK_EQ_INT(env->watch_peer(env, watch, line.called, &line), 0);
    CHECK_EQ_INT(env->watch_wait(env, watch, LONG_US, &tag, &what), 0);
    CHECK(tag == &line);
  }
  env->watch_close(env, watch);
  (void)close(hold[0]);
  (void)close(hold[1]);
  line_close(&line);
}

static int open_port_and_die(void) {
  struct env_dir *dir = NULL;
  struct env_port *port = NULL;
  TRY(env->open_dir(env, test_state.dir, &dir) == 0);
  TRY(env->port_open(env, dir, "port", &port) == 0);
  if (test_fork() == 0) {
    char byte;
    (void)close(hold[1]);
    (void)!read(hold[0], &byte, 1);
    _exit(0);
  }
  return 0;
}

TEST(port_of_a_process_that_ended_is_nobody) {
  struct env_peer *peer = NULL;
  if (test_dir() == NULL || !CHECK_EQ_INT(pipe2(hold, O_CLOEXEC), 0))
    return;
  CHECK_EQ_INT(end_of(start(open_port_and_die)), 0);
  struct env_dir *dir = dir_of(test_state.dir);
  CHECK_EQ_INT(env->peer_open(env, dir, "port", &peer), ECONNREFUSED);
  (void)close(hold[0]);
  (void)close(hold[1]);
  env->close_dir(env, dir);
}

TEST(stopped_process_has_not_gone) {
  struct line line;
  struct env_watch *watch = NULL;
  void *tag = NULL;
  int what = 0, status = 0;
  if (!line_port(&line))
    return;
  pid_t child = start(call_and_wait);
  if (accept_child(&line) == NULL)
    return;
  CHECK_STR(receive_text(line.called, LONG_US), "here");
  CHECK_EQ_INT(kill(child, SIGSTOP), 0);
  CHECK_EQ_INT(waitpid(child, &status, WUNTRACED), child);
  CHECK(WIFSTOPPED(status));
  CHECK_EQ_INT(env->peer_gone(env, line.called), 0);
  CHECK_EQ_INT(env->watch_open(env, &watch), 0);
  CHECK_EQ_INT(env->watch_peer(env, watch, line.called, NULL), 0);
  CHECK_EQ_INT(env->watch_wait(env, watch, 20000, &tag, &what), EAGAIN);
  CHECK_STR(receive_text(line.called, 20000), "EAGAIN");
  CHECK_EQ_INT(send_text(line.called, "go"), 0);
  CHECK_EQ_INT(kill(child, SIGCONT), 0);
  CHECK_EQ_INT(env->watch_wait(env, watch, LONG_US, &tag, &what), 0);
  CHECK_EQ_INT(what, ENV_WATCH_GONE);
  CHECK_EQ_INT(end_of(child), 0);
  env->watch_close(env, watch);
  line_close(&line);
}

/* ---- watches ------------------------------------------------------------- */

TEST(watch_tells_of_each) {
  struct line a;
  struct env_peer *caller = NULL, *called = NULL;
  struct env_watch *watch = NULL;
  void *tag = NULL;
  int what = 0, seen[2] = {0};
  if (!line_open(&a) || !CHECK_EQ_INT(env->watch_open(env, &watch), 0))
    return;
  CHECK_EQ_INT(env->watch_port(env, watch, a.port, &a.port), 0);
  CHECK_EQ_INT(env->watch_peer(env, watch, a.called, &a.called), 0);
  CHECK_EQ_INT(env->watch_peer(env, watch, a.called, &a.called), EEXIST);
  CHECK_EQ_INT(env->watch_wait(env, watch, 0, &tag, &what), EAGAIN);
  CHECK_EQ_INT(env->peer_open(env, a.dir, "port", &caller), 0);
  CHECK_EQ_INT(send_text(a.caller, "x"), 0);
  for (int i = 0; i < 20; i++) { /* neither keeps the other waiting */
    CHECK_EQ_INT(env->watch_wait(env, watch, LONG_US, &tag, &what), 0);
    CHECK_EQ_INT(what, ENV_WATCH_MESSAGE);
    seen[tag == &a.called]++;
  }
  CHECK(seen[0] > 0 && seen[1] > 0);
  CHECK_EQ_INT(env->port_accept(env, a.port, &called), 0);
  CHECK_STR(receive_text(a.called, 0), "x");
  CHECK_EQ_INT(env->watch_wait(env, watch, 0, &tag, &what), EAGAIN);
  env->peer_close(env, a.caller);
  a.caller = NULL;
  CHECK_EQ_INT(env->watch_wait(env, watch, 0, &tag, &what), 0);
  CHECK_EQ_INT(what, ENV_WATCH_GONE);
  CHECK(tag == &a.called);
  env->unwatch_peer(env, watch, a.called);
  CHECK_EQ_INT(env->watch_wait(env, watch, 0, &tag, &what), EAGAIN);
  env->peer_close(env, caller);
  env->peer_close(env, called);
  env->watch_close(env, watch);
  line_close(&a);
}

static void wake_soon(void *watch) {
  env->sleep_us(env, 10000);
  env->watch_wake(env, watch);
}

TEST(watch_is_woken) {
  struct env_watch *watch = NULL;
  void *tag, *thread = NULL;
  int what, before = open_descriptors();
  if (!CHECK_EQ_INT(env->watch_open(env, &watch), 0))
    return;
  CHECK_EQ_INT(env->thread_start(env, wake_soon, watch, &thread), 0);
  uint64_t begin = env->now_us(env);
  CHECK_EQ_INT(env->watch_wait(env, watch, UINT64_MAX, &tag, &what), EAGAIN);
  env->thread_join(env, thread);
  /* wakes end one wait, even when they came first */
  env->watch_wake(env, watch);
  env->watch_wake(env, watch);
  CHECK_EQ_INT(env->watch_wait(env, watch, UINT64_MAX, &tag, &what), EAGAIN);
  CHECK(env->now_us(env) >= begin);
  CHECK_EQ_INT(env->watch_wait(env, watch, 1000, &tag, &what), EAGAIN);
  env->watch_close(env, watch);
  CHECK_EQ_INT(open_descriptors(), before);
}

/* ---- memory -------------------------------------------------------------- */

static void *shared_base;

/* Nothing is at the range, or what the child's allocator has put there: the
** parent's memory begins with an x. */
static int has_not_inherited(void) {
  char first = 0;
  int self = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  TRY(self >= 0);
  TRY(pread(self, &first, 1, (off_t)(uintptr_t)shared_base) == -1 ||
      first != 'x');
  return close(self);
}

TEST(shared_memory_is_zeroed_and_not_inherited) {
  struct env_shared shared = {0};
  int before = open_descriptors();
  CHECK_EQ_INT(env->shared_make(env, 0, &shared), EINVAL);
  env->shared_free(env, &shared);
  if (!CHECK_EQ_INT(env->shared_make(env, 3 * PAGE + 5, &shared), 0))
    return;
  CHECK_EQ_INT(shared.bytes, 3 * PAGE + 5);
  for (size_t i = 0; i < shared.bytes; i++)
    CHECK_EQ_INT(((char *)shared.base)[i], 0);
  memset(shared.base, 'x', shared.bytes);
  shared_base = shared.base;
  CHECK_EQ_INT(end_of(start(has_not_inherited)), 0);
  CHECK_EQ_INT(env->shared_fix(env, &shared), 0);
  shared_base = shared.base;
  CHECK_EQ_INT(end_of(start(has_not_inherited)), 0);
  env->shared_free(env, &shared);
  CHECK(shared.base == NULL);
  env->shared_free(env, &shared);
  /* address space, none of it touched */
  if (!SANITIZED &&
      CHECK_EQ_INT(env->shared_make(env, (size_t)1 << 36, &shared), 0))
    env->shared_free(env, &shared);
  CHECK_EQ_INT(open_descriptors(), before);
}

/* True if the system may write there for us. */
static int can_write(void *at) {
  int zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC);
  ssize_t got = read(zeros, at, 1);
  (void)close(zeros);
  return got == 1;
}

TEST(fixed_memory_cannot_be_written) {
  struct env_shared shared;
  if (!CHECK_EQ_INT(env->shared_make(env, PAGE, &shared), 0))
    return;
  memcpy(shared.base, "for ever", 9);
  CHECK(can_write((char *)shared.base + 100));
  CHECK_EQ_INT(env->shared_fix(env, &shared), 0);
  CHECK_STR(shared.base, "for ever");
  CHECK_EQ_INT(shared.bytes, PAGE);
  CHECK(!can_write(shared.base));
  CHECK(pwrite(shared.fd, "x", 1, 0) == -1 && errno == EPERM);
  CHECK(ftruncate(shared.fd, 1) == -1 && errno == EPERM);
  CHECK(mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED, shared.fd, 0) == MAP_FAILED);
  CHECK_EQ_INT(env->shared_fix(env, &shared), EPERM);
  env->shared_free(env, &shared);
}

/* ---- gifts --------------------------------------------------------------- */

/* Both processes write the first gift and read the second; each waits for a
** word of the first. */
static int work_with_gifts(void) {
  char text[16];
  struct env_message m = {.bytes = text, .n = sizeof text};
  struct env_peer *peer = call_port();
  TRY(peer != NULL);
  TRY(env->peer_receive(env, peer, &m, LONG_US) == 0);
  TRY(m.n == 4 && memcmp(text, "take", 4) == 0);
  TRY(m.gifts[0].kind == ENV_GIFT_SHARED && m.gifts[1].kind == ENV_GIFT_FIXED);
  TRY(m.gifts[0].shared.bytes == PAGE && m.gifts[1].shared.bytes == 3 * PAGE);
  TRY(strcmp(m.gifts[1].shared.base, "fixed") == 0);
  TRY(!can_write(m.gifts[1].shared.base));
  TRY(strcmp((char *)m.gifts[0].shared.base + 64, "shared") == 0);
  strcpy((char *)m.gifts[0].shared.base + 64, "answer");
  _Atomic uint32_t *word = m.gifts[0].shared.base;
  uint64_t until = env->now_us(env) + LONG_US;
  TRY(send_text(peer, "ready") == 0);
  while (atomic_load(word) == 0 && env->now_us(env) < until)
    env->word_wait(env, word, 0, LONG_US);
  TRY(atomic_load(word) == 1);
  atomic_store(word, 2);
  env->word_wake(env, word);
  env->shared_free(env, &m.gifts[0].shared);
  env->shared_free(env, &m.gifts[1].shared);
  TRY(strcmp(receive_text(peer, LONG_US), "go") == 0);
  return 0;
}

TEST(memory_is_given_to_another_process) {
  struct line line;
  struct env_shared both = {0}, fixed = {0};
  int before = open_descriptors();
  if (!line_port(&line) ||
      !CHECK_EQ_INT(env->shared_make(env, PAGE, &both), 0) ||
      !CHECK_EQ_INT(env->shared_make(env, 3 * PAGE, &fixed), 0))
    return;
  pid_t child = start(work_with_gifts);
  if (accept_child(&line) == NULL)
    return;
  strcpy((char *)both.base + 64, "shared");
  strcpy(fixed.base, "fixed");
  struct env_message m = {.bytes = (void *)(uintptr_t) "take", .n = 4};
  m.gifts[0].kind = ENV_GIFT_SHARED;
  m.gifts[0].shared = both;
  m.gifts[1].kind = ENV_GIFT_FIXED;
  m.gifts[1].shared = fixed;
  CHECK_EQ_INT(env->peer_send(env, line.called, &m), EINVAL); /* not yet */
  CHECK_EQ_INT(env->shared_fix(env, &fixed), 0);
  m.gifts[1].shared = fixed;
  CHECK_EQ_INT(env->peer_send(env, line.called, &m), 0);
  CHECK_EQ_INT(env->shared_fix(env, &both), EPERM);
  CHECK_STR(receive_text(line.called, LONG_US), "ready");
  _Atomic uint32_t *word = both.base;
  uint64_t until = env->now_us(env) + LONG_US;
  env->sleep_us(env, 5000); /* the child waits by now */
  atomic_store(word, 1);
  env->word_wake(env, word);
  while (atomic_load(word) == 1 && env->now_us(env) < until)
    env->word_wait(env, word, 1, LONG_US);
  CHECK_EQ_INT(atomic_load(word), 2);
  CHECK(env->now_us(env) < until); /* it was woken */
  CHECK_STR((char *)both.base + 64, "answer");
  env->word_wait(env, word, 2, 1000);
  env->word_wait(env, word, 1, UINT64_MAX);
  CHECK_EQ_INT(send_text(line.called, "go"), 0);
  CHECK_EQ_INT(end_of(child), 0);
  env->shared_free(env, &both);
  env->shared_free(env, &fixed);
  line_close(&line);
  CHECK_EQ_INT(open_descriptors(), before);
}

TEST(file_is_shown_not_given) {
  struct line line;
  struct env_file *files[2] = {NULL};
  uint64_t id[2];
  int before = open_descriptors();
  if (!line_open(&line))
    return;
  CHECK_EQ_INT(
      env->open(env, help_path("file"), ENV_WRITE | ENV_CREATE, &files[1]), 0);
  CHECK_EQ_INT(env->open(env, help_path("file"), ENV_READ, &files[0]), 0);
  CHECK_EQ_INT(env->identity(env, help_path("file"), id), 0);
  struct env_message m = {.n = 0};
  for (int i = 0; i < 2; i++) {
    m.gifts[i].kind = ENV_GIFT_FILE;
    m.gifts[i].file = files[i];
  }
  CHECK_EQ_INT(env->peer_send(env, line.caller, &m), 0);
  env->close(env, files[0]);
  env->close(env, files[1]);
  int open_now = open_descriptors();
  CHECK_EQ_INT(env->peer_receive(env, line.called, &m, 0), 0);
  CHECK_EQ_INT(open_descriptors(), open_now);
  for (int i = 0; i < 2; i++) {
    CHECK_EQ_INT(m.gifts[i].kind, ENV_GIFT_FILE);
    CHECK(memcmp(m.gifts[i].id, id, sizeof id) == 0);
    CHECK_EQ_INT(m.gifts[i].writable, i);
  }
  line_close(&line);
  CHECK_EQ_INT(open_descriptors(), before);
}

TEST(received_memory_cannot_be_passed_on) {
  struct line line;
  struct env_message m = {.n = 0};
  if (!line_open(&line) ||
      !CHECK_EQ_INT(env->shared_make(env, PAGE, &m.gifts[0].shared), 0))
    return;
  struct env_shared made = m.gifts[0].shared;
  m.gifts[0].kind = ENV_GIFT_SHARED;
  CHECK_EQ_INT(env->peer_send(env, line.caller, &m), 0);
  CHECK_EQ_INT(env->peer_receive(env, line.called, &m, 0), 0);
  CHECK(m.gifts[0].shared.base != made.base);
  memcpy(made.base, "seen", 5);
  CHECK_STR(m.gifts[0].shared.base, "seen");
  CHECK_EQ_INT(env->peer_send(env, line.called, &m), EINVAL);
  CHECK_EQ_INT(env->shared_fix(env, &m.gifts[0].shared), EPERM);
  env->shared_free(env, &made);
  CHECK_STR(m.gifts[0].shared.base, "seen");
  env->shared_free(env, &m.gifts[0].shared);
  /* a gift without memory */
  m.gifts[0].kind = ENV_GIFT_SHARED;
  CHECK_EQ_INT(env->peer_send(env, line.called, &m), EINVAL);
  line_close(&line);
}

/* ---- hostile processes --------------------------------------------------- */

enum { HEAD = 8, KIND = 4, FDS_MAX = 8 };

/* The caller is a raw socket; `head` is the head of a message without gifts. */
struct raw {
  struct line line;
  int fd;
  unsigned char head[HEAD];
};

static int raw_open(struct raw *raw) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  char text[64];
  if (!line_port(&raw->line))
    return 0;
  raw->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  (void)snprintf(address.sun_path, sizeof address.sun_path, "%s",
                 help_path("port"));
  if (!CHECK_EQ_INT(
          connect(raw->fd, (struct sockaddr *)&address, sizeof address), 0) ||
      !CHECK_EQ_INT(env->port_accept(env, raw->line.port, &raw->line.called),
                    0))
    return 0;
  CHECK_EQ_INT(send_text(raw->line.called, "head"), 0);
  CHECK_EQ_INT(recv(raw->fd, text, sizeof text, 0), HEAD + 4);
  memcpy(raw->head, text, HEAD);
  return 1;
}

static void raw_close(struct raw *raw) {
  (void)close(raw->fd);
  line_close(&raw->line);
}

static void raw_send(struct raw *raw, const void *bytes, size_t n,
                     const int *fds, size_t fd_count) {
  union {
    char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
    struct cmsghdr aligned;
  } control = {{0}};
  struct iovec part = {(void *)(uintptr_t)bytes, n};
  struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};
  if (fd_count > 0) {
    packet.msg_control = &control;
    packet.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
    struct cmsghdr *rights = CMSG_FIRSTHDR(&packet);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
    memcpy(CMSG_DATA(rights), fds, fd_count * sizeof(int));
  }
  CHECK_EQ_INT(sendmsg(raw->fd, &packet, MSG_NOSIGNAL), n);
}

static int raw_received(struct raw *raw) {
  char room[64];
  struct env_message m = {.bytes = room, .n = sizeof room};
  int before = open_descriptors();
  int rc = env->peer_receive(env, raw->line.called, &m, 0);
  CHECK_EQ_INT(open_descriptors(), before);
  for (int i = 0; i < ENV_GIFTS_MAX; i++) {
    CHECK(rc == 0 || m.gifts[i].kind == ENV_GIFT_NONE);
    CHECK(rc != 0 || m.n <= sizeof room);
    env->shared_free(env, &m.gifts[i].shared);
  }
  return rc;
}

/* Sends one gift that is said to be of that kind, and closes fd; returns how
** the gift was received. */
static int give_raw(struct raw *raw, int kind, int fd) {
  unsigned char head[HEAD];
  memcpy(head, raw->head, HEAD);
  head[KIND] = (unsigned char)kind;
  raw_send(raw, head, HEAD, &fd, 1);
  (void)close(fd);
  return raw_received(raw);
}

static int sealed(size_t bytes, unsigned flags, int seals) {
  int fd = memfd_create("raw", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
  if (fd >= 0 && (ftruncate(fd, (off_t)bytes) != 0 ||
                  fcntl(fd, F_ADD_SEALS, seals) != 0)) {
    (void)close(fd);
    fd = -1;
  }
  return fd;
}

/* The same memory, open for reading only. */
static int read_only(int fd) {
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  int other = open(path, O_RDONLY | O_CLOEXEC);
  (void)close(fd);
  return other;
}

TEST(memory_that_can_change_is_refused) {
  static const int size = F_SEAL_SHRINK | F_SEAL_GROW;
  struct raw raw;
  if (!raw_open(&raw))
    return;
  CHECK_EQ_INT(give_raw(&raw, ENV_GIFT_SHARED, sealed(PAGE, 0, size)), 0);
  CHECK_EQ_INT(
      give_raw(&raw, ENV_GIFT_FIXED, sealed(PAGE, 0, size | F_SEAL_WRITE)), 0);
  for (int kind = ENV_GIFT_SHARED; kind <= ENV_GIFT_FIXED; kind++) {
    int write = kind == ENV_GIFT_FIXED ? F_SEAL_WRITE : 0;
    CHECK_EQ_INT(give_raw(&raw, kind, sealed(PAGE, 0, write)), EPROTO);
    CHECK_EQ_INT(give_raw(&raw, kind, sealed(PAGE, 0, write | F_SEAL_SHRINK)),
                 EPROTO);
    CHECK_EQ_INT(give_raw(&raw, kind, sealed(PAGE, 0, write | F_SEAL_GROW)),
                 EPROTO);
    CHECK_EQ_INT(give_raw(&raw, kind, sealed(0, 0, write | size)), EPROTO);
    CHECK_EQ_INT(give_raw(&raw, kind, open("/dev/zero", O_RDWR)), EPROTO);
    CHECK_EQ_INT(
        give_raw(&raw, kind, open(help_path("file"), O_RDWR | O_CREAT, 0600)),
        EPROTO);
    int huge = sealed((size_t)2 << 20, MFD_HUGETLB, write | size);
    if (huge >= 0)
      CHECK_EQ_INT(give_raw(&raw, kind, huge), EPROTO);
  }
  CHECK_EQ_INT(give_raw(&raw, ENV_GIFT_FIXED, sealed(PAGE, 0, size)), EPROTO);
  CHECK_EQ_INT(
      give_raw(&raw, ENV_GIFT_SHARED, sealed(PAGE, 0, size | F_SEAL_WRITE)),
      EPROTO);
  CHECK_EQ_INT(
      give_raw(&raw, ENV_GIFT_SHARED, read_only(sealed(PAGE, 0, size))),
      EPROTO);
  CHECK_EQ_INT(give_raw(&raw, ENV_GIFT_FIXED,
                        read_only(sealed(PAGE, 0, size | F_SEAL_WRITE))),
               0);
  raw_close(&raw);
}

TEST(what_is_no_regular_file_is_refused) {
  struct raw raw;
  if (!raw_open(&raw))
    return;
  const char *file = help_path("file");
  CHECK_EQ_INT(
      give_raw(&raw, ENV_GIFT_FILE, open(file, O_RDWR | O_CREAT, 0600)), 0);
  CHECK_EQ_INT(give_raw(&raw, ENV_GIFT_FILE, open(file, O_PATH)), EPROTO);
  CHECK_EQ_INT(give_raw(&raw, ENV_GIFT_FILE, open("/", O_RDONLY)), EPROTO);
  CHECK_EQ_INT(give_raw(&raw, ENV_GIFT_FILE, open("/dev/null", O_RDWR)),
               EPROTO);
  CHECK_EQ_INT(give_raw(&raw, ENV_GIFT_FILE, dup(raw.fd)), EPROTO);
  raw_close(&raw);
}

TEST(head_and_gifts_must_agree) {
  struct raw raw;
  int fds[FDS_MAX];
  unsigned char head[HEAD];
  if (!raw_open(&raw))
    return;
  for (int i = 0; i < FDS_MAX; i++)
    fds[i] = open(help_path("file"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  for (int named = 0; named <= ENV_GIFTS_MAX; named++)
    for (size_t sent = 0; sent <= FDS_MAX; sent++) {
      memcpy(head, raw.head, HEAD);
      memset(head + KIND, ENV_GIFT_FILE, (size_t)named);
      raw_send(&raw, head, HEAD, fds, sent);
      CHECK_EQ_INT(raw_received(&raw), sent == (size_t)named ? 0 : EPROTO);
    }
  /* a gap, an unknown kind, a wrong byte in the head */
  memcpy(head, raw.head, HEAD);
  head[KIND + 1] = ENV_GIFT_FILE;
  raw_send(&raw, head, HEAD, fds, 1);
  CHECK_EQ_INT(raw_received(&raw), EPROTO);
  head[KIND] = ENV_GIFT_FILE + 1;
  raw_send(&raw, head, HEAD, fds, 2);
  CHECK_EQ_INT(raw_received(&raw), EPROTO);
  for (int i = 0; i < HEAD; i++) {
    memcpy(head, raw.head, HEAD);
    head[i] ^= 0x80;
    raw_send(&raw, head, HEAD, NULL, 0);
    CHECK_EQ_INT(raw_received(&raw), EPROTO);
    raw_send(&raw, raw.head, (size_t)i, NULL, 0);
    CHECK_EQ_INT(raw_received(&raw), EPROTO);
    raw_send(&raw, raw.head, (size_t)i, fds, 1);
    CHECK_EQ_INT(raw_received(&raw), EPROTO);
  }
  raw_send(&raw, raw.head, HEAD, NULL, 0);
  CHECK_EQ_INT(raw_received(&raw), 0);
  for (int i = 0; i < FDS_MAX; i++)
    (void)close(fds[i]);
  raw_close(&raw);
}

/* A message that is too long and has gifts: nothing of it stays. */
TEST(gifts_of_a_lost_message_are_closed) {
  struct raw raw;
  unsigned char bytes[HEAD + 1000] = {0};
  if (!raw_open(&raw))
    return;
  int fd = sealed(PAGE, 0, F_SEAL_SHRINK | F_SEAL_GROW);
  memcpy(bytes, raw.head, HEAD);
  bytes[KIND] = ENV_GIFT_SHARED;
  raw_send(&raw, bytes, sizeof bytes, &fd, 1);
  CHECK_EQ_INT(raw_received(&raw), EMSGSIZE);
  /* the second is refused after the first was mapped */
  int fds[2] = {fd, raw.fd};
  bytes[KIND + 1] = ENV_GIFT_FILE;
  raw_send(&raw, bytes, HEAD, fds, 2);
  CHECK_EQ_INT(raw_received(&raw), EPROTO);
  (void)close(fd);
  raw_close(&raw);
}

/* This is not the other end's fault. */
TEST(no_room_for_a_gift) {
  struct raw raw;
  struct rlimit limit, low;
  char room[8];
  if (!raw_open(&raw))
    return;
  int fd = sealed(PAGE, 0, F_SEAL_SHRINK | F_SEAL_GROW);
  unsigned char head[HEAD];
  memcpy(head, raw.head, HEAD);
  head[KIND] = ENV_GIFT_SHARED;
  raw_send(&raw, head, HEAD, &fd, 1);
  CHECK_EQ_INT(getrlimit(RLIMIT_NOFILE, &limit), 0);
  int lowest_free = dup(fd);
  (void)close(lowest_free);
  low = limit;
  low.rlim_cur = (rlim_t)lowest_free;
  CHECK_EQ_INT(setrlimit(RLIMIT_NOFILE, &low), 0);
  struct env_message m = {.bytes = room, .n = sizeof room};
  int rc = env->peer_receive(env, raw.line.called, &m, 0);
  CHECK_EQ_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);
  CHECK_EQ_INT(rc, EMFILE);
  CHECK_EQ_INT(m.gifts[0].kind, ENV_GIFT_NONE);
  (void)close(fd);
  raw_close(&raw);
}

/* Makes descriptors of all sorts, each somebody's mistake or malice. */
static void some_descriptors(struct raw *raw, int fds[FDS_MAX]) {
  int size = F_SEAL_SHRINK | F_SEAL_GROW, pipes[2];
  CHECK_EQ_INT(pipe2(pipes, O_CLOEXEC), 0);
  fds[0] = sealed(PAGE, 0, 0);
  fds[1] = sealed(PAGE, 0, size);
  fds[2] = sealed(PAGE, 0, size | F_SEAL_WRITE);
  fds[3] = open(help_path("file"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  fds[4] = open("/", O_RDONLY | O_CLOEXEC);
  fds[5] = pipes[0];
  fds[6] = pipes[1];
  fds[7] = dup(raw->fd);
}

TEST(garbage_is_refused) {
  enum { ROUNDS = 2000 };
  struct raw raw;
  int all[FDS_MAX], fds[FDS_MAX], taken = 0;
  unsigned char bytes[100];
  int before = open_descriptors();
  if (!raw_open(&raw))
    return;
  some_descriptors(&raw, all);
  for (int i = 0; i < ROUNDS; i++) {
    size_t n = test_random() % (sizeof bytes + 1);
    size_t fd_count = test_random() % (FDS_MAX + 1);
    for (size_t j = 0; j < sizeof bytes; j++)
      bytes[j] = (unsigned char)test_random();
    if (test_random() % 4) { /* almost right */
      memcpy(bytes, raw.head, HEAD);
      for (int j = 0; j < ENV_GIFTS_MAX; j++)
        bytes[KIND + j] = (unsigned char)(test_random() % 5);
      fd_count = test_random() % 4;
    }
    for (size_t j = 0; j < fd_count; j++)
      fds[j] = all[test_random() % FDS_MAX];
    raw_send(&raw, bytes, n, fds, fd_count);
    int rc = raw_received(&raw);
    CHECK(rc == 0 || rc == EPROTO || rc == EMSGSIZE);
    taken += rc == 0;
  }
  CHECK(taken > 0); /* else the test shows little */
  for (int i = 0; i < FDS_MAX; i++)
    (void)close(all[i]);
  /* an empty packet, and then the end */
  raw_send(&raw, bytes, 0, NULL, 0);
  CHECK_EQ_INT(raw_received(&raw), EPROTO);
  CHECK_EQ_INT(raw_received(&raw), EAGAIN);
  (void)shutdown(raw.fd, SHUT_WR);
  CHECK_EQ_INT(raw_received(&raw), EPIPE);
  raw_close(&raw);
  CHECK_EQ_INT(open_descriptors(), before);
}

/* ---- places, and holders of a lock --------------------------------------- */

static int lock_and_wait(void) {
  struct env_lock *lock = NULL;
  struct env_peer *peer = call_port();
  TRY(peer != NULL);
  TRY(env->lock(env, help_path("lock"), &lock) == 0);
  TRY(send_text(peer, "locked") == 0);
  TRY(strcmp(receive_text(peer, LONG_US), "settle") == 0);
  env->lock_settle(env, lock, ENV_LOCK_SERVES);
  TRY(send_text(peer, "settled") == 0);
  TRY(strcmp(receive_text(peer, LONG_US), "go") == 0);
  return 0;
}

static int held_as(enum env_lock_state state, int64_t process) {
  enum env_lock_state is = ENV_LOCK_FREE;
  int64_t who = -1;
  return CHECK_EQ_INT(env->lock_look(env, help_path("lock"), &is, &who), 0) &
         CHECK_EQ_INT(is, state) & CHECK_EQ_INT(who, process);
}

TEST(lock_has_a_holder) {
  struct line line;
  if (!line_port(&line))
    return;
  held_as(ENV_LOCK_FREE, 0);
  pid_t child = start(lock_and_wait);
  if (accept_child(&line) == NULL)
    return;
  CHECK_STR(receive_text(line.called, LONG_US), "locked");
  held_as(ENV_LOCK_UNSETTLED, child);
  CHECK_EQ_INT(send_text(line.called, "settle"), 0);
  CHECK_STR(receive_text(line.called, LONG_US), "settled");
  held_as(ENV_LOCK_SERVES, child);
  CHECK_EQ_INT(send_text(line.called, "go"), 0);
  CHECK_EQ_INT(end_of(child), 0);
  held_as(ENV_LOCK_FREE, 0);
  line_close(&line);
}

static int absolute_there(void) {
  char want[300], got[300];
  size_t n =
      (size_t)snprintf(want, sizeof want, "%s/d/e.emb", test_state.dir) + 1;
  TRY(chdir(test_state.dir) == 0);
  TRY(env->absolute(env, "d/e.emb", got, sizeof got) == 0);
  TRY(strcmp(got, want) == 0);
  TRY(env->absolute(env, "d/e.emb", got, n) == 0);
  for (size_t size = 0; size < n; size++)
    TRY(env->absolute(env, "d/e.emb", got, size) == ENAMETOOLONG);
  TRY(env->absolute(env, "/d", got, 3) == 0 && strcmp(got, "/d") == 0);
  TRY(env->absolute(env, "/d", got, 2) == ENAMETOOLONG);
  TRY(env->absolute(env, "", got, sizeof got) == ENOENT);
  TRY(chdir("/") == 0);
  TRY(env->absolute(env, "d", got, 3) == 0 && strcmp(got, "/d") == 0);
  TRY(env->absolute(env, "d", got, 2) == ENAMETOOLONG);
  TRY(mkdir(help_path("left"), 0700) == 0 && chdir(help_path("left")) == 0);
  TRY(rmdir(help_path("left")) == 0);
  TRY(env->absolute(env, "d", got, sizeof got) == ENOENT);
  return 0;
}

TEST(absolute_path) {
  if (test_dir() != NULL && CHECK(test_state.dir[0] == '/'))
    CHECK_EQ_INT(end_of(start(absolute_there)), 0);
}

TEST(local_file_systems_are_not_remote) {
  static const char *const places[] = {"/dev/shm", "/proc"};
  for (int i = 0; i < 2; i++) {
    struct env_dir *dir = dir_of(places[i]);
    CHECK(dir != NULL && env->is_remote(env, dir) == NULL);
    if (dir != NULL)
      env->close_dir(env, dir);
  }
}

/* ---- the tables that stand in for this one ------------------------------- */

TEST(files_in_memory_have_no_ports) {
  struct env *memory = env_memory();
  struct env_dir *dir = NULL;
  struct env_port *port = NULL;
  struct env_peer *peer = NULL;
  char path[8];
  CHECK_EQ_INT(memory->open_dir(memory, "dir", &dir), 0);
  CHECK_EQ_INT(memory->port_open(memory, dir, "port", &port), ENOTSUP);
  CHECK_EQ_INT(memory->peer_open(memory, dir, "port", &peer), ENOTSUP);
  CHECK(memory->is_remote(memory, dir) == NULL);
  CHECK_EQ_INT(memory->absolute(memory, "dir", path, 4), 0);
  CHECK_EQ_INT(memory->absolute(memory, "dir", path, 3), ENAMETOOLONG);
  memory->close_dir(memory, dir);
}

/* Opens and closes one of each; returns the first error. */
static int open_all(struct env *table, const char *path) {
  struct env_dir *dir = NULL;
  struct env_port *port = NULL;
  struct env_peer *peer = NULL;
  struct env_watch *watch = NULL;
  struct env_shared shared = {.base = NULL};
  int rc = table->open_dir(table, path, &dir);
  if (rc == 0)
    rc = table->port_open(table, dir, "port", &port);
  if (rc == 0)
    rc = table->peer_open(table, dir, "port", &peer);
  if (rc == 0)
    rc = table->watch_open(table, &watch);
  if (rc == 0)
    rc = table->shared_make(table, PAGE, &shared);
  table->shared_free(table, &shared);
  if (watch != NULL)
    table->watch_close(table, watch);
  if (peer != NULL)
    table->peer_close(table, peer);
  if (port != NULL)
    table->port_close(table, port);
  if (dir != NULL)
    table->close_dir(table, dir);
  return rc;
}

TEST(each_open_can_fail) {
  static struct failing f;
  uint64_t n = 1;
  int before = open_descriptors();
  if (test_dir() == NULL)
    return;
  failing_init(&f, env, 1);
  for (;; n++) {
    failing_arm(&f, FAILING_DESCRIPTORS, n, 0, EMFILE);
    int rc = open_all(&f.env, test_state.dir);
    CHECK_EQ_INT(failing_out(&f), 0);
    CHECK_EQ_INT(rc, f.fired > 0 ? EMFILE : 0);
    if (f.fired == 0)
      break;
  }
  CHECK_EQ_INT(n, 6);
  failing_free(&f);
  CHECK_EQ_INT(open_descriptors(), before);
}

/* ---- processors ---------------------------------------------------------- */

static int processors(void) {
  cpu_set_t set;
  CHECK_EQ_INT(sched_getaffinity(0, sizeof set, &set), 0);
  return CPU_COUNT(&set);
}

static void count_processors(void *arg) { *(int *)arg = processors(); }

struct staying {
  int all, alone, of_thread;
};

static void stay(void *arg) {
  struct staying *found = arg;
  void *thread;
  uint32_t here = env->processor(env);
  CHECK_EQ_INT(env->stay_on(env, UINT32_MAX), EINVAL);
  if (found->all < 2) {
    CHECK(env->stay_on(env, here) != 0);
    return;
  }
  for (int again = 0; again < 2; again++) {
    CHECK_EQ_INT(env->stay_on(env, here), 0);
    found->alone = processors();
    CHECK_EQ_INT(env->processor(env), here);
  }
  CHECK_EQ_INT(
      env->thread_start(env, count_processors, &found->of_thread, &thread), 0);
  env->thread_join(env, thread);
  CHECK_EQ_INT(found->alone, 1);
  CHECK_EQ_INT(found->of_thread, found->all);
}

TEST(stays_on_a_processor) {
  struct staying found = {.all = processors()};
  void *thread;
  CHECK_EQ_INT(env->thread_start(env, stay, &found, &thread), 0);
  env->thread_join(env, thread);
  CHECK_EQ_INT(processors(), found.all);
}
