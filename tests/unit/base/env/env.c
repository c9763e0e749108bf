/* SPDX-License-Identifier: MIT
**
** env.c -- tests of engine/base/env (the real operating system) and base/err.
**
** Each test of files runs on the disk (TMPDIR or /tmp) and in memory
** (/dev/shm), buffered and direct: a caller must see no difference.  Each test
** of queues runs with both kinds.
*/
#include "fork_help.h"
#include "store_help.h"

#include "engine/base/err.h"
#include "engine/base/env/env_queue.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#define BLOCK ((size_t)4096)

static struct env *const env = &env_posix;

static struct env_file *open_in_dir(const char *name, int flags) {
  struct env_file *file = NULL;
  CHECK_EQ_INT(env->open(env, help_path(name), flags, &file), 0);
  return file;
}

/* Runs body once for each place and way of access. */
static void everywhere(void (*body)(int direct)) {
  const char *disk = getenv("TMPDIR");
  const char *const places[] = {disk != NULL ? disk : "/tmp", "/dev/shm"};
  for (int i = 0; i < 4; i++) {
    if (test_dir_in(places[i / 2]) == NULL)
      return;
    body(i % 2 == 1 ? ENV_DIRECT : 0);
    test_remove_dir();
  }
}

static unsigned char *blocks_of(size_t count) {
  unsigned char *blocks = env->map(env, count * BLOCK, 0);
  CHECK(blocks != NULL);
  return blocks;
}

static void fill_random(unsigned char *to, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    to[i] = (unsigned char)test_random();
}

static int all_equal(const unsigned char *at, size_t bytes, int value) {
  for (size_t i = 0; i < bytes; i++)
    if (at[i] != value)
      return 0;
  return 1;
}

/* ---- files --------------------------------------------------------------- */

static void write_then_read(int direct) {
  enum { BLOCKS = 32 };
  struct env_file *file = open_in_dir("f", ENV_WRITE | ENV_CREATE | direct);
  unsigned char *model = blocks_of(BLOCKS), *got = blocks_of(BLOCKS);
  if (file == NULL || model == NULL || got == NULL)
    return;
  size_t unit = direct ? BLOCK : 1, units = BLOCKS * BLOCK / unit;
  for (int i = 0; i < 50; i++) {
    size_t from = test_random() % units;
    size_t count = test_random() % (units - from);
    fill_random(model + from * unit, count * unit);
    CHECK_EQ_INT(
        env->write(env, file, model + from * unit, count * unit, from * unit),
        0);
  }
  CHECK_EQ_INT(env->sync(env, file), 0);
  CHECK_EQ_INT(env->read(env, file, got, BLOCKS * BLOCK, 0), 0);
  CHECK(memcmp(model, got, BLOCKS * BLOCK) == 0);
  env->close(env, file);
  file = open_in_dir("f", ENV_READ | direct);
  if (file != NULL) {
    memset(got, 0xff, BLOCKS * BLOCK);
    CHECK_EQ_INT(env->read(env, file, got, BLOCKS * BLOCK, 0), 0);
    CHECK(memcmp(model, got, BLOCKS * BLOCK) == 0);
    env->close(env, file);
  }
  env->unmap(env, model, BLOCKS * BLOCK);
  env->unmap(env, got, BLOCKS * BLOCK);
}

TEST(file_gives_back_what_was_written) { everywhere(write_then_read); }

/* Large calls are cut into pieces. */
static void write_then_read_40_mib(int direct) {
  const size_t blocks = 40 * 256;
  struct env_file *file = open_in_dir("f", ENV_WRITE | ENV_CREATE | direct);
  unsigned char *data = blocks_of(blocks);
  if (file == NULL || data == NULL)
    return;
  for (size_t i = 0; i < blocks; i++)
    memcpy(data + i * BLOCK, &i, sizeof i);
  CHECK_EQ_INT(env->write(env, file, data, blocks * BLOCK, 0), 0);
  memset(data, 0xff, blocks * BLOCK);
  CHECK_EQ_INT(env->read(env, file, data, blocks * BLOCK, 0), 0);
  for (size_t i = 0; i < blocks; i++)
    CHECK(memcmp(data + i * BLOCK, &i, sizeof i) == 0);
  env->close(env, file);
  env->unmap(env, data, blocks * BLOCK);
}

TEST(file_transfers_of_any_size) { everywhere(write_then_read_40_mib); }

/* A file of 5000 bytes 'x': one block and a piece. */
static void make_file_of_5000(void) {
  char text[5000];
  memset(text, 'x', sizeof text);
  struct env_file *file = open_in_dir("short", ENV_WRITE | ENV_CREATE);
  if (file == NULL)
    return;
  CHECK_EQ_INT(env->write(env, file, text, sizeof text, 0), 0);
  env->close(env, file);
}

static void read_past_end(int direct) {
  make_file_of_5000();
  struct env_file *file = open_in_dir("short", ENV_READ | direct);
  unsigned char *got = blocks_of(3);
  if (file == NULL || got == NULL)
    return;
  memset(got, 0xff, 3 * BLOCK);
  CHECK_EQ_INT(env->read(env, file, got, 3 * BLOCK, 0), 0);
  CHECK(all_equal(got, 5000, 'x'));
  CHECK(all_equal(got + 5000, 3 * BLOCK - 5000, 0));
  memset(got, 0xff, BLOCK);
  CHECK_EQ_INT(env->read(env, file, got, BLOCK, BLOCK), 0);
  CHECK(all_equal(got, 5000 - BLOCK, 'x'));
  CHECK(all_equal(got + 5000 - BLOCK, 2 * BLOCK - 5000, 0));
  memset(got, 0xff, BLOCK);
  CHECK_EQ_INT(env->read(env, file, got, BLOCK, 1000 * BLOCK), 0);
  CHECK(all_equal(got, BLOCK, 0));
  env->close(env, file);
  env->unmap(env, got, 3 * BLOCK);
}

TEST(file_read_past_end_gives_zeros) { everywhere(read_past_end); }

static void size_and_truncate(int direct) {
  struct env_file *file = open_in_dir("f", ENV_WRITE | ENV_CREATE | direct);
  unsigned char *block = blocks_of(1);
  uint64_t bytes = 1;
  if (file == NULL || block == NULL)
    return;
  CHECK_EQ_INT(env->size(env, file, &bytes), 0);
  CHECK_EQ_INT(bytes, 0);
  CHECK_EQ_INT(env->write(env, file, block, BLOCK, 3 * BLOCK), 0);
  CHECK_EQ_INT(env->size(env, file, &bytes), 0);
  CHECK_EQ_INT(bytes, 4 * BLOCK);
  CHECK_EQ_INT(env->truncate(env, file, 2 * BLOCK), 0);
  CHECK_EQ_INT(env->size(env, file, &bytes), 0);
  CHECK_EQ_INT(bytes, 2 * BLOCK);
  CHECK_EQ_INT(env->truncate(env, file, UINT64_MAX), EINVAL);
  env->close(env, file);
  env->unmap(env, block, BLOCK);
}

TEST(file_size_and_truncate) { everywhere(size_and_truncate); }

static void refuse_bad_arguments(int direct) {
  make_file_of_5000();
  struct env_file *file = open_in_dir("short", ENV_READ | direct);
  unsigned char *block = blocks_of(2);
  if (file == NULL || block == NULL)
    return;
  CHECK_EQ_INT(env->write(env, file, block, BLOCK, 0), EBADF);
  CHECK_EQ_INT(env->read(env, file, block, BLOCK, UINT64_MAX), EINVAL);
  CHECK_EQ_INT(env->read(env, file, block, BLOCK, INT64_MAX), EINVAL);
  int misaligned = direct ? EINVAL : 0;
  CHECK_EQ_INT(env->read(env, file, block, BLOCK, 512), misaligned);
  CHECK_EQ_INT(env->read(env, file, block, 512, 0), misaligned);
  CHECK_EQ_INT(env->read(env, file, block + 512, BLOCK, 0), misaligned);
  CHECK_EQ_INT(env->read(env, file, block, 0, 0), 0);
  env->close(env, file);
  env->unmap(env, block, 2 * BLOCK);
}

TEST(file_refuses_bad_arguments) { everywhere(refuse_bad_arguments); }

TEST(open_reports_errors) {
  if (test_dir() == NULL)
    return;
  struct env_file *file = NULL;
  int create = ENV_WRITE | ENV_CREATE | ENV_EXCLUSIVE | ENV_DIRECT;
  CHECK_EQ_INT(env->open(env, help_path("f"), ENV_WRITE, &file), ENOENT);
  CHECK_EQ_INT(env->open(env, help_path("d/f"), create, &file), ENOENT);
  CHECK_EQ_INT(env->open(env, test_state.dir, ENV_WRITE, &file), EISDIR);
  CHECK(file == NULL);
  if (!CHECK_EQ_INT(env->open(env, help_path("f"), create, &file), 0))
    return;
  env->close(env, file);
  CHECK_EQ_INT(env->open(env, help_path("f"), create, &file), EEXIST);
  /* nothing is opened through a link */
  CHECK_EQ_INT(symlink("f", help_path("link")), 0);
  CHECK_EQ_INT(env->open(env, help_path("link"), ENV_READ, &file), ELOOP);
  CHECK_EQ_INT(env->open(env, help_path("link"), ENV_WRITE | ENV_CREATE, &file),
               ELOOP);
}

static int make_socket(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
  int rc = bind(fd, (struct sockaddr *)&address, sizeof address);
  (void)close(fd);
  return rc;
}

/* There is nothing at the other end of the FIFO: a wait would never end. */
TEST(only_regular_files_are_opened) {
  static const int flags[] = {ENV_READ, ENV_WRITE, ENV_WRITE | ENV_CREATE,
                              ENV_READ | ENV_DIRECT};
  struct env_file *file = NULL;
  struct env_lock *lock = NULL;
  if (test_dir() == NULL)
    return;
  CHECK_EQ_INT(mkfifo(help_path("fifo"), 0600), 0);
  CHECK_EQ_INT(make_socket(help_path("socket")), 0);
  CHECK_EQ_INT(mkdir(help_path("directory"), 0700), 0);
  CHECK_EQ_INT(symlink("nowhere", help_path("link")), 0);
  for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
    CHECK_EQ_INT(env->open(env, help_path("fifo"), flags[i], &file), ENOTBLK);
    CHECK_EQ_INT(env->open(env, help_path("socket"), flags[i], &file), ENOTBLK);
    CHECK_EQ_INT(env->open(env, "/dev/zero", flags[i], &file), ENOTBLK);
    CHECK_EQ_INT(env->open(env, help_path("directory"), flags[i], &file),
                 EISDIR);
    CHECK_EQ_INT(env->open(env, help_path("link"), flags[i], &file), ELOOP);
  }
  CHECK(file == NULL);
  CHECK_EQ_INT(env->lock(env, help_path("fifo"), &lock), ENOTBLK);
  CHECK_EQ_INT(env->lock(env, help_path("socket"), &lock), ENOTBLK);
  CHECK_EQ_INT(env->lock(env, "/dev/zero", &lock), ENOTBLK);
  CHECK_EQ_INT(env->lock(env, help_path("directory"), &lock), EISDIR);
  CHECK_EQ_INT(env->lock(env, help_path("link"), &lock), ELOOP);
  CHECK(lock == NULL);
  CHECK_EQ_INT(access(help_path("nowhere"), F_OK), -1);
}

/* O_NONBLOCK, which let a FIFO be refused without waiting, is cleared: with it
** a ring answers EAGAIN where it should wait for the disk. */
TEST(open_file_waits_for_the_disk) {
  if (test_dir() == NULL)
    return;
  make_file_of_5000();
  struct env_file *file = open_in_dir("short", ENV_WRITE);
  if (file == NULL)
    return;
  CHECK((fcntl(file->fd, F_GETFL) & O_NONBLOCK) == 0);
  env->close(env, file);
}

/* /proc has no direct access at all, and its files can only be read. */
TEST(direct_is_buffered_where_refused_at_open) {
  struct env_file *file = NULL;
  if (!CHECK_EQ_INT(
          env->open(env, "/proc/version", ENV_READ | ENV_DIRECT, &file), 0))
    return;
  unsigned char *got = blocks_of(1);
  if (got != NULL) {
    CHECK((fcntl(file->fd, F_GETFL) & O_DIRECT) == 0);
    CHECK_EQ_INT(env->read(env, file, got, BLOCK, 0), 0);
    CHECK(memcmp(got, "Linux version", 13) == 0);
    CHECK_EQ_INT(got[BLOCK - 1], 0);
    env->unmap(env, got, BLOCK);
  }
  env->close(env, file);
}

static int is_direct(const struct env_file *file) {
  return (fcntl(file->fd, F_GETFL) & O_DIRECT) != 0;
}

/* No file system here takes O_DIRECT at open and refuses the transfer, so the
** test makes up the outcomes of transfers. */
TEST(direct_is_buffered_where_refused_at_transfer) {
  if (test_dir() == NULL)
    return;
  make_file_of_5000();
  struct env_file *file = open_in_dir("short", ENV_WRITE | ENV_DIRECT);
  unsigned char *got = blocks_of(1);
  if (file == NULL || got == NULL)
    return;
  if (!is_direct(file))
    SKIP("no O_DIRECT in TMPDIR");
  struct env_io io = {.file = file, .buffer = got, .bytes = (uint32_t)BLOCK};
  CHECK_EQ_INT(env__io_begin(&io), 0);
  CHECK_EQ_INT(env__io_advance(&io, -EINVAL), 0);
  CHECK(!is_direct(file));
  CHECK_EQ_INT(env__io_advance(&io, -EINVAL), 1);
  CHECK_EQ_INT(io.result, EINVAL);
  CHECK_EQ_INT(env__io_run(&io), 0);
  CHECK(all_equal(got, BLOCK, 'x'));
  env->close(env, file);
  env->unmap(env, got, BLOCK);
}

TEST(transfers_are_continued) {
  if (test_dir() == NULL)
    return;
  make_file_of_5000();
  struct env_file *file = open_in_dir("short", ENV_WRITE | ENV_DIRECT);
  unsigned char *got = blocks_of(2);
  if (file == NULL || got == NULL)
    return;
  struct env_io io = {.file = file, .buffer = got, .bytes = 2 * BLOCK};
  memset(got, 0xff, 2 * BLOCK);
  CHECK_EQ_INT(env__io_begin(&io), 0);
  CHECK_EQ_INT(env__io_advance(&io, -EINTR), 0);
  CHECK_EQ_INT(env__io_advance(&io, -EAGAIN), 0);
  CHECK_EQ_INT(env__io_advance(&io, -ECANCELED), 0);
  CHECK_EQ_INT(env__io_left(&io), 2 * BLOCK);
  int direct = is_direct(file);
  CHECK_EQ_INT(env__io_advance(&io, BLOCK), 0);
  CHECK_EQ_INT(env__io_left(&io), BLOCK);
  CHECK_EQ_INT(is_direct(file), direct);
  CHECK_EQ_INT(env__io_advance(&io, 5000 - BLOCK), 1);
  CHECK_EQ_INT(io.result, 0);
  CHECK(all_equal(got, 5000, 0xff));
  CHECK(all_equal(got + 5000, 2 * BLOCK - 5000, 0));
  /* not at the end of the file: direct access cannot go on from there */
  CHECK_EQ_INT(env__io_begin(&io), 0);
  CHECK_EQ_INT(env__io_advance(&io, 512), 0);
  CHECK(!is_direct(file));
  io.is_write = 1;
  CHECK_EQ_INT(env__io_begin(&io), 0);
  CHECK_EQ_INT(env__io_advance(&io, 0), 1);
  CHECK_EQ_INT(io.result, EIO);
  env->close(env, file);
  env->unmap(env, got, 2 * BLOCK);
}

TEST(reserve_takes_blocks) {
  if (test_dir() == NULL)
    return;
  uint64_t size, before, after;
  char bytes[8] = "abcdefg", back[8];
  struct env_file *file = open_in_dir("r", ENV_WRITE | ENV_CREATE);
  CHECK_EQ_INT(env->write(env, file, bytes, 8, 0), 0);
  CHECK_EQ_INT(env->room(env, file, &before), 0);
  CHECK_EQ_INT(env->reserve(env, file, 0, 16 * BLOCK), 0);
  CHECK_EQ_INT(env->size(env, file, &size), 0);
  CHECK_EQ_INT(size, 16 * BLOCK);
  struct stat st;
  CHECK_EQ_INT(stat(help_path("r"), &st), 0);
  CHECK((uint64_t)st.st_blocks * 512 >= 16 * BLOCK);
  CHECK_EQ_INT(env->read(env, file, back, 8, 0), 0);
  CHECK_STR(back, bytes);
  CHECK_EQ_INT(env->room(env, file, &after), 0);
  CHECK(before > 0 && after > 0); /* others use the disk, too */
  CHECK_EQ_INT(env->reserve(env, file, BLOCK, BLOCK), 0);
  CHECK_EQ_INT(env->size(env, file, &size), 0);
  CHECK_EQ_INT(size, 16 * BLOCK);
  CHECK_EQ_INT(env->reserve(env, file, 5, 0), 0);
  CHECK_EQ_INT(env->reserve(env, file, INT64_MAX, BLOCK), EINVAL);
  env->close(env, file);
}

TEST(punch_gives_blocks_back) {
  if (test_dir_in("/dev/shm") == NULL)
    return;
  enum { BLOCKS = 64 };
  struct env_file *file = open_in_dir("f", ENV_WRITE | ENV_CREATE);
  unsigned char *data = blocks_of(BLOCKS);
  if (file == NULL || data == NULL)
    return;
  struct stat before, after;
  memset(data, 'x', BLOCKS * BLOCK);
  CHECK_EQ_INT(env->write(env, file, data, BLOCKS * BLOCK, 0), 0);
  CHECK_EQ_INT(fstat(file->fd, &before), 0);
  CHECK_EQ_INT(env->punch(env, file, 16 * BLOCK, 32 * BLOCK), 0);
  CHECK_EQ_INT(env->punch(env, file, 0, 0), 0);
  CHECK_EQ_INT(env->punch(env, file, INT64_MAX, BLOCK), EINVAL);
  CHECK_EQ_INT(fstat(file->fd, &after), 0);
  CHECK_EQ_INT(after.st_size, before.st_size);
  CHECK_EQ_INT(before.st_blocks - after.st_blocks, 32 * BLOCK / 512);
  CHECK_EQ_INT(env->read(env, file, data, BLOCKS * BLOCK, 0), 0);
  CHECK(all_equal(data, 16 * BLOCK, 'x'));
  CHECK(all_equal(data + 16 * BLOCK, 32 * BLOCK, 0));
  CHECK(all_equal(data + 48 * BLOCK, 16 * BLOCK, 'x'));
  env->close(env, file);
  env->unmap(env, data, BLOCKS * BLOCK);
}

/* Runs in a child, since it closes the standard input. */
TEST(open_never_gives_a_standard_descriptor) {
  if (test_dir() == NULL)
    return;
  pid_t child = test_fork();
  if (child == 0) {
    struct env_file *file = NULL;
    (void)close(STDIN_FILENO);
    if (env->open(env, help_path("f"), ENV_WRITE | ENV_CREATE, &file) != 0)
      _exit(2);
    _exit(file->fd > STDERR_FILENO && fcntl(STDIN_FILENO, F_GETFD) < 0 ? 0 : 1);
  }
  int status = -1;
  CHECK_EQ_INT(waitpid(child, &status, 0), child);
  CHECK_EQ_INT(status, 0);
}

/* ---- names --------------------------------------------------------------- */

static void count_names(void *arg, const char *name) {
  int *counts = arg;
  counts[strcmp(name, "a") == 0 ? 0 : strcmp(name, "b") == 0 ? 1 : 2]++;
}

TEST(directories) {
  if (test_dir() == NULL)
    return;
  int counts[3] = {0};
  CHECK_EQ_INT(env->make_dir(env, help_path("d")), 0);
  CHECK_EQ_INT(env->make_dir(env, help_path("d")), EEXIST);
  CHECK_EQ_INT(env->list_dir(env, help_path("d"), count_names, counts), 0);
  CHECK_EQ_INT(counts[0] + counts[1] + counts[2], 0);
  CHECK_EQ_INT(env->make_dir(env, help_path("d/a")), 0);
  env->close(env, open_in_dir("d/x", ENV_WRITE | ENV_CREATE));
  CHECK_EQ_INT(env->rename(env, help_path("d/x"), help_path("d/b")), 0);
  struct env_dir *dir;
  CHECK_EQ_INT(env->open_dir(env, help_path("d"), &dir), 0);
  CHECK_EQ_INT(env->sync_dir(env, dir), 0);
  CHECK_EQ_INT(env->list_dir(env, help_path("d"), count_names, counts), 0);
  CHECK_EQ_INT(counts[0], 1);
  CHECK_EQ_INT(counts[1], 1);
  CHECK_EQ_INT(counts[2], 0);
  CHECK_EQ_INT(env->remove_dir(env, help_path("d")), ENOTEMPTY);
  CHECK_EQ_INT(env->unlink(env, help_path("d/b")), 0);
  CHECK_EQ_INT(env->unlink(env, help_path("d/b")), ENOENT);
  CHECK_EQ_INT(env->remove_dir(env, help_path("d/a")), 0);
  CHECK_EQ_INT(env->remove_dir(env, help_path("d")), 0);
  CHECK_EQ_INT(env->list_dir(env, help_path("d"), count_names, counts), ENOENT);
  CHECK_EQ_INT(env->sync_dir(env, dir), 0); /* still that directory */
  env->close_dir(env, dir);
  CHECK_EQ_INT(env->open_dir(env, help_path("d"), &dir), ENOENT);
}

TEST(identity_is_of_the_file_not_the_name) {
  if (test_dir() == NULL)
    return;
  uint64_t a[2], b[2], other[2];
  env->close(env, open_in_dir("a", ENV_WRITE | ENV_CREATE));
  env->close(env, open_in_dir("other", ENV_WRITE | ENV_CREATE));
  CHECK_EQ_INT(link(help_path("a"), help_path("b")), 0);
  CHECK_EQ_INT(env->identity(env, help_path("a"), a), 0);
  CHECK_EQ_INT(env->identity(env, help_path("b"), b), 0);
  CHECK_EQ_INT(env->identity(env, help_path("other"), other), 0);
  CHECK(memcmp(a, b, sizeof a) == 0);
  CHECK(memcmp(a, other, sizeof a) != 0);
  CHECK_EQ_INT(env->identity(env, help_path("absent"), a), ENOENT);
}

/* ---- lock files ---------------------------------------------------------- */

/* Locks in another process; with die set, it dies holding the lock. */
static int lock_in_child(const char *path, int die) {
  pid_t child = test_fork();
  if (child == 0) {
    struct env_lock *lock = NULL;
    int rc = env->lock(env, path, &lock);
    if (rc == 0 && die)
      (void)raise(SIGKILL);
    if (rc == 0)
      env->unlock(env, lock);
    _exit(rc);
  }
  int status = -1;
  CHECK_EQ_INT(waitpid(child, &status, 0), child);
  if (die)
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? 0 : -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(lock_excludes_other_processes) {
  if (test_dir() == NULL)
    return;
  struct env_lock *lock = NULL;
  CHECK_EQ_INT(lock_in_child(help_path("lock"), 0), 0);
  if (!CHECK_EQ_INT(env->lock(env, help_path("lock"), &lock), 0))
    return;
  CHECK_EQ_INT(lock_in_child(help_path("lock"), 0), EAGAIN);
  /* the child has closed its copy of our descriptor: that changes nothing */
  CHECK_EQ_INT(lock_in_child(help_path("lock"), 0), EAGAIN);
  env->unlock(env, lock);
  CHECK_EQ_INT(lock_in_child(help_path("lock"), 0), 0);
  CHECK_EQ_INT(env->lock(env, help_path("no/lock"), &lock), ENOENT);
}

/* Returns how another process sees the lock held, or -1. */
static int seen_in_child(const char *path) {
  int status = -1;
  pid_t child = test_fork();
  if (child == 0) {
    enum env_lock_state state;
    int64_t process;
    _exit(env->lock_look(env, path, &state, &process) ? 99 : (int)state);
  }
  CHECK_EQ_INT(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Returns how this process sees the lock held. */
static int seen_here(const char *path, int64_t *process) {
  enum env_lock_state state = ENV_LOCK_FREE;
  CHECK_EQ_INT(env->lock_look(env, path, &state, process), 0);
  return (int)state;
}

TEST(lock_is_settled_or_not) {
  struct env_lock *lock = NULL;
  if (test_dir() == NULL)
    return;
  CHECK_EQ_INT(seen_in_child(help_path("absent")), ENV_LOCK_FREE);
  if (!CHECK_EQ_INT(env->lock(env, help_path("lock"), &lock), 0))
    return;
  CHECK_EQ_INT(seen_in_child(help_path("lock")), ENV_LOCK_UNSETTLED);
  CHECK_EQ_INT(lock_in_child(help_path("lock"), 0), EAGAIN);
  env->lock_settle(env, lock, ENV_LOCK_SERVES);
  CHECK_EQ_INT(seen_in_child(help_path("lock")), ENV_LOCK_SERVES);
  CHECK_EQ_INT(lock_in_child(help_path("lock"), 0), EAGAIN);
  env->lock_settle(env, lock, ENV_LOCK_ALONE);
  CHECK_EQ_INT(seen_in_child(help_path("lock")), ENV_LOCK_ALONE);
  CHECK_EQ_INT(lock_in_child(help_path("lock"), 0), EAGAIN);
  env->unlock(env, lock);
  CHECK_EQ_INT(seen_in_child(help_path("lock")), ENV_LOCK_FREE);
  /* An earlier version's lock: a record lock on the whole file. */
  int fd = open(help_path("lock"), O_RDWR | O_CLOEXEC);
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  CHECK(fd >= 0 && fcntl(fd, F_SETLK, &whole) == 0);
  CHECK_EQ_INT(seen_in_child(help_path("lock")), ENV_LOCK_SERVES);
  CHECK_EQ_INT(lock_in_child(help_path("lock"), 0), EAGAIN);
  (void)close(fd);
}

/* Nothing else in the process takes the lock, or drops it. */
TEST(lock_belongs_to_the_open_file) {
  struct env_lock *lock = NULL, *again = NULL;
  int64_t process = 0;
  if (test_dir() == NULL ||
      !CHECK_EQ_INT(env->lock(env, help_path("lock"), &lock), 0))
    return;
  CHECK_EQ_INT(env->lock(env, help_path("lock"), &again), EAGAIN);
  CHECK_EQ_INT(seen_here(help_path("lock"), &process), ENV_LOCK_UNSETTLED);
  CHECK_EQ_INT(process, getpid());
  int fd = open(help_path("lock"), O_RDWR | O_CLOEXEC);
  struct flock whole = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
  CHECK(fd >= 0 && fcntl(fd, F_SETLK, &whole) == 0);
  (void)close(fd);
  CHECK_EQ_INT(lock_in_child(help_path("lock"), 0), EAGAIN);
  env->unlock(env, lock);
  CHECK_EQ_INT(seen_here(help_path("lock"), &process), ENV_LOCK_FREE);
}

/* Starts a process that takes the lock and a byte lock, forks a child that
** lives on, and dies. Returns the number of that child, which waits for `until`
** to close. */
static pid_t leave_child_behind(const int until[2]) {
  int numbers[2], status = -1;
  pid_t left = -1;
  if (!CHECK(pipe(numbers) == 0))
    return -1;
  pid_t child = test_fork();
  if (child == 0) {
    struct env_lock *lock = NULL;
    struct env_file *file = NULL;
    char byte;
    if (env->lock(env, help_path("lock"), &lock) ||
        env->open(env, help_path("short"), ENV_WRITE, &file) ||
        env->byte_lock(env, file, 7, ENV_BYTE_SHARED))
      _exit(1);
    pid_t left_behind = test_fork();
    if (left_behind == 0) { /* it has closed the locked files by now */
      left_behind = getpid();
      (void)!write(numbers[1], &left_behind, sizeof left_behind);
      (void)close(numbers[1]);
      (void)close(until[1]);
      (void)!read(until[0], &byte, 1);
      _exit(0);
    }
    (void)pause();
  }
  (void)close(numbers[1]);
  CHECK(read(numbers[0], &left, sizeof left) == (ssize_t)sizeof left);
  (void)close(numbers[0]);
  CHECK(kill(child, SIGKILL) == 0);
  CHECK_EQ_INT(waitpid(child, &status, 0), child);
  CHECK(WIFSIGNALED(status));
  return left;
}

TEST(locks_do_not_live_on_in_a_child) {
  int until[2];
  int64_t process;
  if (test_dir() == NULL || !CHECK(pipe(until) == 0))
    return;
  make_file_of_5000();
  pid_t left = leave_child_behind(until);
  CHECK(left > 0 && kill(left, 0) == 0);
  CHECK_EQ_INT(seen_here(help_path("lock"), &process), ENV_LOCK_FREE);
  CHECK_EQ_INT(lock_in_child(help_path("lock"), 0), 0);
  struct env_file *file = open_in_dir("short", ENV_READ);
  uint64_t at = 0;
  if (file) {
    CHECK_EQ_INT(env->byte_lock_lowest(env, file, 100, &at), 0);
    CHECK_EQ_INT(at, UINT64_MAX);
    env->close(env, file);
  }
  (void)close(until[1]);
  (void)close(until[0]);
}

/* A child closes its copies without dropping its parent's locks. */
TEST(child_does_not_drop_locks) {
  struct env_lock *lock = NULL;
  int status = -1;
  if (test_dir() == NULL ||
      !CHECK_EQ_INT(env->lock(env, help_path("lock"), &lock), 0))
    return;
  env->lock_settle(env, lock, ENV_LOCK_SERVES);
  pid_t child = test_fork();
  if (child == 0)
    _exit(0);
  CHECK_EQ_INT(waitpid(child, &status, 0), child);
  CHECK_EQ_INT(seen_in_child(help_path("lock")), ENV_LOCK_SERVES);
  env->unlock(env, lock);
}

/* Returns the lowest lock that another process sees below a number, or -1. */
static int lowest_in_child(const char *path, uint64_t below) {
  int status = -1;
  pid_t child = test_fork();
  if (child == 0) {
    struct env_file *file;
    uint64_t at = 0;
    if (env->open(env, path, ENV_READ, &file) ||
        env->byte_lock_lowest(env, file, below, &at))
      _exit(99);
    _exit(at == UINT64_MAX ? 98 : (int)at);
  }
  CHECK_EQ_INT(waitpid(child, &status, 0), child);
  status = WIFEXITED(status) ? WEXITSTATUS(status) : 99;
  return status == 98 ? -1 : status;
}

TEST(byte_locks) {
  struct env_file *a, *b;
  uint64_t at;
  if (test_dir() == NULL)
    return;
  make_file_of_5000();
  a = open_in_dir("short", ENV_WRITE);
  b = open_in_dir("short", ENV_READ);
  if (a == NULL || b == NULL)
    return;
  CHECK_EQ_INT(lowest_in_child(help_path("short"), UINT64_C(1) << 61), -1);
  CHECK_EQ_INT(env->byte_lock(env, a, 30, ENV_BYTE_SHARED), 0);
  CHECK_EQ_INT(env->byte_lock(env, b, 20, ENV_BYTE_SHARED), 0);
  CHECK_EQ_INT(env->byte_lock(env, b, 30, ENV_BYTE_SHARED), 0);
  CHECK_EQ_INT(env->byte_lock(env, a, 0, ENV_BYTE_SHARED), 0);
  CHECK_EQ_INT(lowest_in_child(help_path("short"), 100), 0);
  CHECK_EQ_INT(lowest_in_child(help_path("short"), 0), -1);
  /* Locks of the file that asks do not count. */
  CHECK_EQ_INT(env->byte_lock_lowest(env, a, 100, &at), 0);
  CHECK_EQ_INT(at, 20);
  CHECK_EQ_INT(env->byte_lock_lowest(env, b, 100, &at), 0);
  CHECK_EQ_INT(at, 0);
  CHECK_EQ_INT(env->byte_lock(env, a, 0, ENV_BYTE_NONE), 0);
  CHECK_EQ_INT(env->byte_lock(env, a, 20, ENV_BYTE_EXCLUSIVE), EAGAIN);
  CHECK_EQ_INT(env->byte_lock(env, a, 50, ENV_BYTE_EXCLUSIVE), 0);
  CHECK_EQ_INT(env->byte_lock(env, b, 50, ENV_BYTE_SHARED), EAGAIN);
  CHECK_EQ_INT(env->byte_lock(env, a, 50, ENV_BYTE_NONE), 0);
  CHECK_EQ_INT(lowest_in_child(help_path("short"), 100), 20);
  CHECK_EQ_INT(lowest_in_child(help_path("short"), 20), -1);
  CHECK_EQ_INT(lowest_in_child(help_path("short"), 21), 20);
  env->close(env, b);
  CHECK_EQ_INT(lowest_in_child(help_path("short"), 100), 30);
  env->close(env, a);
  CHECK_EQ_INT(lowest_in_child(help_path("short"), 100), -1);
}

TEST(lock_dies_with_its_process) {
  if (test_dir() == NULL)
    return;
  struct env_lock *lock = NULL;
  CHECK_EQ_INT(lock_in_child(help_path("lock"), 1), 0);
  if (CHECK_EQ_INT(env->lock(env, help_path("lock"), &lock), 0))
    env->unlock(env, lock);
}

/* ---- queues -------------------------------------------------------------- */

static const char *const no_uring = "io_uring is forbidden here";

/* NULL with *absent set when the machine has no such queue. */
static struct env_queue *open_queue(int kind, unsigned depth, int *absent) {
  struct env_queue *queue = NULL;
  int rc = env->queue_open(env, kind, depth, &queue);
  *absent = kind == ENV_QUEUE_URING && rc == ENOSYS;
  if (!*absent)
    CHECK_EQ_INT(rc, 0);
  return queue;
}

/* TEST(name_of_kind) for both kinds; body gives 1 when the kind is absent. */
#define TEST_QUEUE(name)                                                       \
  static int name(int kind);                                                   \
  TEST(name##_uring) {                                                         \
    if (name(ENV_QUEUE_URING))                                                 \
      SKIP(no_uring);                                                          \
  }                                                                            \
  TEST(name##_pool) { (void)name(ENV_QUEUE_POOL); }                            \
  static int name(int kind)

/* Random reads and writes of single blocks, compared with a model in memory.
** A block has one request at a time, so the model knows what a read returns. */
struct traffic {
  struct env_file *file;
  struct env_queue *queue;
  uint64_t random;
  size_t outstanding;
  size_t blocks;
  unsigned char *model;   /* what the file will hold */
  unsigned char *buffers; /* a block for each request */
  struct env_io *ios;
  unsigned char *busy;
};

static void start_one(struct traffic *t, struct env_io **batch, size_t *n) {
  size_t block = test_random_from(&t->random) % t->blocks;
  if (t->busy[block])
    return;
  unsigned char *buffer = t->buffers + block * BLOCK;
  int is_write = test_random_from(&t->random) % 2 == 0;
  if (is_write) {
    uint64_t value = test_random_from(&t->random);
    for (size_t i = 0; i < BLOCK; i += sizeof value, value++)
      memcpy(t->model + block * BLOCK + i, &value, sizeof value);
    memcpy(buffer, t->model + block * BLOCK, BLOCK);
  } else {
    memset(buffer, 0xff, BLOCK);
  }
  t->ios[block] = (struct env_io){.file = t->file,
                                  .buffer = buffer,
                                  .offset = block * BLOCK,
                                  .bytes = (uint32_t)BLOCK,
                                  .is_write = is_write,
                                  .result = -1,
                                  .tag = &t->busy[block]};
  t->busy[block] = 1;
  t->outstanding++;
  batch[(*n)++] = &t->ios[block];
}

static void end_one(struct traffic *t, const struct env_io *io) {
  size_t block = (size_t)(io - t->ios);
  CHECK_EQ_INT(io->result, 0);
  CHECK(io->tag == &t->busy[block]);
  CHECK_EQ_INT(t->busy[block], 1);
  CHECK(memcmp(io->buffer, t->model + block * BLOCK, BLOCK) == 0);
  t->busy[block] = 0;
  t->outstanding--;
}

static void round_of_traffic(struct traffic *t, size_t most) {
  struct env_io *batch[64], *done[48];
  size_t n = 0, size = test_random_from(&t->random) % 64;
  while (t->outstanding < most && size-- > 0)
    start_one(t, batch, &n);
  CHECK_EQ_INT(env->queue_submit(env, t->queue, batch, n), 0);
  size_t max = 1 + test_random_from(&t->random) % 48;
  size_t min = test_random_from(&t->random) % (max + 1);
  size_t owed = min < t->outstanding ? min : t->outstanding;
  CHECK_EQ_INT(env->queue_wait(env, t->queue, min, done, max, &n), 0);
  CHECK(n >= owed && n <= max);
  for (size_t i = 0; i < n; i++)
    end_one(t, done[i]);
}

static void drain_traffic(struct traffic *t) {
  while (t->outstanding > 0) {
    struct env_io *done[64];
    size_t n = 0;
    CHECK_EQ_INT(env->queue_wait(env, t->queue, 64, done, 64, &n), 0);
    if (!CHECK(n > 0))
      return;
    for (size_t i = 0; i < n; i++)
      end_one(t, done[i]);
  }
}

static int run_traffic(int kind, unsigned depth, struct env_file *file,
                       uint64_t seed, int rounds) {
  int absent;
  struct traffic t = {.file = file, .random = seed, .blocks = 4 * depth + 64};
  t.queue = open_queue(kind, depth, &absent);
  if (t.queue == NULL)
    return absent;
  t.model = blocks_of(t.blocks);
  t.buffers = blocks_of(t.blocks);
  t.ios = calloc(t.blocks, sizeof *t.ios);
  t.busy = calloc(t.blocks, 1);
  CHECK_EQ_INT(env->truncate(env, file, 0), 0);
  for (int i = 0; i < rounds; i++)
    round_of_traffic(&t, 3 * depth);
  drain_traffic(&t);
  size_t n = 1;
  CHECK_EQ_INT(env->queue_wait(env, t.queue, 1, NULL, 1, &n), 0);
  CHECK_EQ_INT(n, 0);
  env->queue_close(env, t.queue);
  CHECK_EQ_INT(env->read(env, file, t.buffers, t.blocks * BLOCK, 0), 0);
  CHECK(memcmp(t.buffers, t.model, t.blocks * BLOCK) == 0);
  env->unmap(env, t.model, t.blocks * BLOCK);
  env->unmap(env, t.buffers, t.blocks * BLOCK);
  free(t.ios);
  free(t.busy);
  return 0;
}

static int traffic_kind;
static int traffic_absent;

static void traffic_at_all_depths(int direct) {
  /* 300 is more than the number of entries of the ring's SQ */
  static const unsigned depths[] = {1, 8, 128, 300};
  struct env_file *file = open_in_dir("f", ENV_WRITE | ENV_CREATE | direct);
  for (int i = 0; file != NULL && i < 4; i++)
    traffic_absent =
        run_traffic(traffic_kind, depths[i], file, test_random(), 100);
  if (file != NULL)
    env->close(env, file);
}

TEST_QUEUE(queue_random_traffic) {
  traffic_kind = kind;
  everywhere(traffic_at_all_depths);
  return traffic_absent;
}

/* Runs a whole batch; the results are in the requests. */
static void run_batch(struct env_queue *queue, struct env_io *ios, size_t n) {
  struct env_io *batch[16], *done[16];
  size_t delivered = 0;
  for (size_t i = 0; i < n; i++)
    batch[i] = &ios[i];
  CHECK_EQ_INT(env->queue_submit(env, queue, batch, n), 0);
  CHECK_EQ_INT(env->queue_wait(env, queue, n, done, n, &delivered), 0);
  CHECK_EQ_INT(delivered, n);
}

static void queue_past_end(int kind, int direct) {
  int absent;
  make_file_of_5000();
  struct env_file *file = open_in_dir("short", ENV_READ | direct);
  struct env_queue *queue = open_queue(kind, 8, &absent);
  unsigned char *got = blocks_of(5);
  if (file == NULL || queue == NULL || got == NULL)
    return;
  memset(got, 0xff, 5 * BLOCK);
  struct env_io ios[] = {
      {.file = file, .buffer = got, .bytes = 3 * BLOCK},
      {.file = file,
       .buffer = got + 3 * BLOCK,
       .bytes = BLOCK,
       .offset = BLOCK},
      {.file = file,
       .buffer = got + 4 * BLOCK,
       .bytes = BLOCK,
       .offset = 1000 * BLOCK},
  };
  run_batch(queue, ios, 3);
  for (int i = 0; i < 3; i++)
    CHECK_EQ_INT(ios[i].result, 0);
  CHECK(all_equal(got, 5000, 'x'));
  CHECK(all_equal(got + 5000, 3 * BLOCK - 5000, 0));
  CHECK(all_equal(got + 3 * BLOCK, 5000 - BLOCK, 'x'));
  CHECK(all_equal(got + 2 * BLOCK + 5000, 3 * BLOCK - 5000, 0));
  env->queue_close(env, queue);
  env->close(env, file);
  env->unmap(env, got, 5 * BLOCK);
}

static void uring_past_end(int direct) {
  queue_past_end(ENV_QUEUE_URING, direct);
}

static void pool_past_end(int direct) {
  queue_past_end(ENV_QUEUE_POOL, direct);
}

TEST(queue_read_past_end_gives_zeros) {
  everywhere(uring_past_end);
  everywhere(pool_past_end);
}

TEST_QUEUE(queue_delivers_errors) {
  int absent;
  if (test_dir() == NULL)
    return 0;
  make_file_of_5000();
  struct env_queue *queue = open_queue(kind, 2, &absent);
  struct env_file *file = open_in_dir("short", ENV_READ);
  struct env_file *direct = open_in_dir("short", ENV_READ | ENV_DIRECT);
  unsigned char *got = blocks_of(1);
  if (queue == NULL || file == NULL || direct == NULL || got == NULL)
    return absent;
  struct env_io ios[] = {
      {.file = file, .buffer = got, .bytes = BLOCK, .is_write = 1},
      {.file = file, .buffer = got, .bytes = BLOCK, .offset = UINT64_MAX},
      {.file = file, .buffer = got, .bytes = BLOCK, .offset = INT64_MAX},
      {.file = direct, .buffer = got, .bytes = BLOCK, .offset = 512},
      {.file = file, .buffer = got, .bytes = 0},
      {.file = file, .buffer = got, .bytes = BLOCK},
  };
  run_batch(queue, ios, 6);
  static const int results[] = {EBADF, EINVAL, EINVAL, EINVAL, 0, 0};
  for (int i = 0; i < 6; i++)
    CHECK_EQ_INT(ios[i].result, results[i]);
  CHECK(all_equal(got, BLOCK, 'x'));
  env->queue_close(env, queue);
  env->close(env, file);
  env->close(env, direct);
  env->unmap(env, got, BLOCK);
  return 0;
}

TEST(queue_open_refuses_bad_arguments) {
  struct env_queue *queue = NULL;
  CHECK_EQ_INT(env->queue_open(env, ENV_QUEUE_POOL, 0, &queue), EINVAL);
  CHECK_EQ_INT(env->queue_open(env, ENV_QUEUE_URING, 0, &queue), EINVAL);
  CHECK_EQ_INT(env->queue_open(env, 0, 8, &queue), EINVAL);
  CHECK(queue == NULL);
}

/* Requests of 4 KiB that write 'y' to the first n blocks of a file. */
static void make_writes(struct env_io *ios, struct env_io **batch, size_t n,
                        struct env_file *file, unsigned char *data) {
  memset(data, 'y', n * BLOCK);
  for (size_t i = 0; i < n; i++) {
    ios[i] = (struct env_io){.file = file,
                             .buffer = data + i * BLOCK,
                             .bytes = (uint32_t)BLOCK,
                             .offset = i * BLOCK,
                             .is_write = 1,
                             .result = -1};
    batch[i] = &ios[i];
  }
}

TEST_QUEUE(queue_close_waits_for_requests) {
  enum { N = 200 };
  static struct env_io ios[N], *batch[N];
  int absent;
  if (test_dir() == NULL)
    return 0;
  struct env_queue *queue = open_queue(kind, 8, &absent);
  /* keeps queue from being the last, whose close waits for all threads */
  struct env_queue *other = open_queue(kind, 8, &absent);
  struct env_file *file = open_in_dir("f", ENV_WRITE | ENV_CREATE | ENV_DIRECT);
  unsigned char *data = blocks_of(N);
  if (queue == NULL || file == NULL || data == NULL)
    return absent;
  make_writes(ios, batch, N, file, data);
  CHECK_EQ_INT(env->queue_submit(env, queue, batch, N), 0);
  env->queue_close(env, queue);
  for (size_t i = 0; i < N; i++)
    CHECK_EQ_INT(ios[i].result, 0);
  memset(data, 0, N * BLOCK);
  CHECK_EQ_INT(env->read(env, file, data, N * BLOCK, 0), 0);
  CHECK(all_equal(data, N * BLOCK, 'y'));
  env->queue_close(env, other);
  env->close(env, file);
  env->unmap(env, data, N * BLOCK);
  return 0;
}

/* min is limited to max and to the number of outstanding requests. */
TEST_QUEUE(queue_wait_bounds_min) {
  enum { N = 10 };
  struct env_io ios[N], *batch[N], *done[N];
  int absent;
  size_t n = 1;
  if (test_dir() == NULL)
    return 0;
  struct env_queue *queue = open_queue(kind, 4, &absent);
  struct env_file *file = open_in_dir("f", ENV_WRITE | ENV_CREATE);
  unsigned char *data = blocks_of(N);
  if (queue == NULL || file == NULL || data == NULL)
    return absent;
  CHECK_EQ_INT(env->queue_wait(env, queue, 5, done, N, &n), 0);
  CHECK_EQ_INT(n, 0);
  make_writes(ios, batch, N, file, data);
  CHECK_EQ_INT(env->queue_submit(env, queue, batch, N), 0);
  CHECK_EQ_INT(env->queue_wait(env, queue, 100, done, 3, &n), 0);
  CHECK_EQ_INT(n, 3);
  CHECK_EQ_INT(env->queue_wait(env, queue, 100, done, 0, &n), 0);
  CHECK_EQ_INT(n, 0);
  CHECK_EQ_INT(env->queue_wait(env, queue, 100, done, N, &n), 0);
  CHECK_EQ_INT(n, 7);
  env->queue_close(env, queue);
  env->close(env, file);
  env->unmap(env, data, N * BLOCK);
  return 0;
}

enum { HANDOVER = 100 };

struct handover {
  struct env_queue *queue;
  struct env_io ios[HANDOVER], *batch[HANDOVER];
};

static void submit_and_end(void *arg) {
  struct handover *h = arg;
  CHECK_EQ_INT(env->queue_submit(env, h->queue, h->batch, HANDOVER), 0);
}

/* A thread that ends leaves its requests to the next user of the queue. */
TEST_QUEUE(queue_outlives_its_thread) {
  static struct handover h;
  int absent;
  void *thread;
  if (test_dir() == NULL)
    return 0;
  h.queue = open_queue(kind, 32, &absent);
  struct env_file *file = open_in_dir("f", ENV_WRITE | ENV_CREATE | ENV_DIRECT);
  unsigned char *data = blocks_of(HANDOVER);
  if (h.queue == NULL || file == NULL || data == NULL)
    return absent;
  make_writes(h.ios, h.batch, HANDOVER, file, data);
  if (!CHECK_EQ_INT(env->thread_start(env, submit_and_end, &h, &thread), 0))
    return 0;
  env->thread_join(env, thread);
  struct env_io *done[HANDOVER];
  size_t n = 0;
  CHECK_EQ_INT(env->queue_wait(env, h.queue, HANDOVER, done, HANDOVER, &n), 0);
  CHECK_EQ_INT(n, HANDOVER);
  for (int i = 0; i < HANDOVER; i++)
    CHECK_EQ_INT(h.ios[i].result, 0);
  memset(data, 0, HANDOVER * BLOCK);
  CHECK_EQ_INT(env->read(env, file, data, HANDOVER * BLOCK, 0), 0);
  CHECK(all_equal(data, HANDOVER * BLOCK, 'y'));
  env->queue_close(env, h.queue);
  env->close(env, file);
  env->unmap(env, data, HANDOVER * BLOCK);
  return 0;
}

struct client {
  int kind;
  int absent;
  uint64_t seed;
  struct env_file *file;
};

static void use_queues(void *arg) {
  struct client *client = arg;
  for (unsigned i = 0; i < 6; i++)
    client->absent = run_traffic(client->kind, 1 + 7 * i, client->file,
                                 client->seed + i, 20);
}

TEST_QUEUE(queues_of_several_threads) {
  enum { CLIENTS = 4 };
  struct client clients[CLIENTS];
  void *threads[CLIENTS];
  if (test_dir() == NULL)
    return 0;
  for (int i = 0; i < CLIENTS; i++) {
    char name[] = {(char)('a' + i), '\0'};
    clients[i] = (struct client){.kind = kind, .seed = test_random()};
    clients[i].file = open_in_dir(name, ENV_WRITE | ENV_CREATE);
    if (clients[i].file == NULL)
      return 0;
  }
  for (int i = 0; i < CLIENTS; i++)
    CHECK_EQ_INT(env->thread_start(env, use_queues, &clients[i], &threads[i]),
                 0);
  for (int i = 0; i < CLIENTS; i++) {
    env->thread_join(env, threads[i]);
    env->close(env, clients[i].file);
  }
  return clients[0].absent;
}

/* ---- the pool's threads -------------------------------------------------- */

static int count_threads(void) {
  int n = 0;
  DIR *dir = opendir("/proc/self/task");
  while (dir != NULL && readdir(dir) != NULL)
    n++;
  if (dir != NULL)
    (void)closedir(dir);
  return n;
}

/* A thread is seen for a moment after it was joined.  Gives up and returns 0
** long after the pool's idle time. */
static int threads_fall_to(int n) {
  for (int i = 0; i < 2000 && count_threads() > n; i++)
    env->sleep_us(env, 10000);
  return count_threads() <= n;
}

static void write_and_wait(struct env_queue *queue, struct env_file *file) {
  enum { N = 100 };
  static struct env_io ios[N], *batch[N], *done[N];
  size_t n = 0;
  unsigned char *data = blocks_of(N);
  if (data == NULL)
    return;
  make_writes(ios, batch, N, file, data);
  CHECK_EQ_INT(env->queue_submit(env, queue, batch, N), 0);
  CHECK_EQ_INT(env->queue_wait(env, queue, N, done, N, &n), 0);
  CHECK_EQ_INT(n, N);
  env->unmap(env, data, N * BLOCK);
}

TEST(pool_threads_end_when_idle_and_at_close) {
  int absent, before = count_threads();
  if (test_dir() == NULL)
    return;
  struct env_file *file = open_in_dir("f", ENV_WRITE | ENV_CREATE);
  struct env_queue *queue = open_queue(ENV_QUEUE_POOL, 64, &absent);
  if (file == NULL || queue == NULL)
    return;
  CHECK_EQ_INT(count_threads(), before);
  write_and_wait(queue, file);
  CHECK(count_threads() > before);
  CHECK(count_threads() <= before + 16);
  CHECK(threads_fall_to(before));
  write_and_wait(queue, file);
  CHECK(count_threads() > before);
  env->queue_close(env, queue);
  CHECK(threads_fall_to(before));
  env->close(env, file);
}

TEST(pool_starts_anew_in_a_forked_child) {
  if (SANITIZED) {
    /* TSan forbids it; ASan's allocator may be locked when the child is made.
     */
    SKIP("no sanitizer allows threads in the child of a threaded process");
  }
  int absent;
  if (test_dir() == NULL)
    return;
  struct env_file *file = open_in_dir("f", ENV_WRITE | ENV_CREATE);
  struct env_queue *queue = open_queue(ENV_QUEUE_POOL, 64, &absent);
  if (file == NULL || queue == NULL)
    return;
  write_and_wait(queue, file);
  pid_t child = test_fork();
  if (child == 0) {
    int before = count_threads();
    struct env_queue *own = open_queue(ENV_QUEUE_POOL, 8, &absent);
    write_and_wait(own, file);
    env->queue_close(env, own);
    _exit(threads_fall_to(before) ? (int)test_state.failures : 99);
  }
  int status = -1;
  CHECK_EQ_INT(waitpid(child, &status, 0), child);
  CHECK_EQ_INT(status, 0);
  write_and_wait(queue, file);
  env->queue_close(env, queue);
  env->close(env, file);
}

/* ---- memory, time, threads ----------------------------------------------- */

TEST(memory_is_zeroed_and_never_null_for_nothing) {
  unsigned char *a = env->allocate(env, 1000);
  CHECK_EQ_INT((uintptr_t)a % 64, 0);
  if (!CHECK(a != NULL))
    return;
  CHECK(all_equal(a, 1000, 0));
  memset(a, 'a', 1000);
  a = env->resize(env, a, 100000);
  CHECK(a != NULL && all_equal(a, 1000, 'a'));
  a = env->resize(env, a, 0);
  CHECK(a != NULL);
  env->release(env, a);
  a = env->resize(env, NULL, 10);
  CHECK(a != NULL);
  env->release(env, a);
  a = env->allocate(env, 0);
  CHECK(a != NULL);
  env->release(env, a);
  env->release(env, NULL);
}

static int map_is_good(size_t bytes, int huge, size_t alignment) {
  unsigned char *at = env->map(env, bytes, huge);
  if (!CHECK(at != NULL))
    return 0;
  int good = CHECK_EQ_INT((uintptr_t)at % alignment, 0) &&
             CHECK(all_equal(at, bytes, 0));
  memset(at, 1, bytes);
  env->unmap(env, at, bytes);
  return good;
}

TEST(map_is_aligned) {
  const size_t mib = (size_t)1 << 20;
  for (int huge = 0; huge < 2; huge++) {
    map_is_good(1, huge, BLOCK);
    map_is_good(BLOCK + 1, huge, BLOCK);
    map_is_good(2 * mib - 1, huge, BLOCK);
    map_is_good(2 * mib, huge, 2 * mib);
    map_is_good(5 * mib + 1, huge, 2 * mib);
  }
  CHECK(env->map(env, 0, 0) == NULL);
  CHECK(env->map(env, SIZE_MAX, 0) == NULL);
  CHECK(env->map(env, SIZE_MAX / 2, 1) == NULL);
  env->unmap(env, NULL, 100);
}

/* unmap takes back exactly what map gave. Otherwise neighbours would be lost,
** or the address space would fill up. */
TEST(map_keeps_nothing_back) {
  const size_t bytes = ((size_t)8 << 20) + 5000;
  uint64_t lines[2] = {0, 0};
  for (int i = 0; i < 2; i++) {
    for (int j = 0; j < 200; j++)
      env->unmap(env, env->map(env, bytes, 1), bytes);
    FILE *maps = fopen("/proc/self/statm", "r");
    if (!CHECK(maps != NULL))
      return;
    CHECK_EQ_INT(fscanf(maps, "%" SCNu64, &lines[i]), 1);
    (void)fclose(maps);
  }
  CHECK(lines[1] <= lines[0] + (8 << 20) / BLOCK);
}

TEST(discard_keeps_addresses) {
  enum { BYTES = 4 << 20 };
  unsigned char *start = env->map(env, BYTES, 1);
  if (!CHECK(start != NULL))
    return;
  memset(start, 7, BYTES);
  env->discard(env, start + BLOCK, 2 * BLOCK);
  CHECK(start[BLOCK - 1] == 7 && start[3 * BLOCK] == 7);
  for (size_t i = BLOCK; i < 3 * (size_t)BLOCK; i++)
    if (!CHECK_EQ_INT(start[i], 0))
      break;
  start[BLOCK] = 1;
  CHECK_EQ_INT(start[BLOCK], 1);
  env->unmap(env, start, BYTES);
}

TEST(memory_limit_is_that_of_the_process) {
  const char *whose = NULL;
  struct rlimit was, less;
  uint64_t limit = env->memory_limit(env, &whose);
  CHECK(limit > 1 << 20 && limit < UINT64_MAX && whose != NULL);
  if (!CHECK_EQ_INT(getrlimit(RLIMIT_AS, &was), 0))
    return;
  less = was;
  less.rlim_cur = limit / 2;
  if (was.rlim_cur < limit || setrlimit(RLIMIT_AS, &less) != 0)
    return; /* it is lower already, or a sanitizer has taken more */
  CHECK_EQ_INT(env->memory_limit(env, &whose), limit / 2);
  CHECK(strstr(whose, "RLIMIT_AS") != NULL);
  CHECK_EQ_INT(setrlimit(RLIMIT_AS, &was), 0);
}

TEST(clock_and_sleep) {
  uint64_t before = env->now_us(env);
  env->sleep_us(env, 3000);
  CHECK(env->now_us(env) - before >= 3000);
}

TEST(random_differs) {
  unsigned char a[1000] = {0}, b[1000] = {0};
  CHECK_EQ_INT(env->random(env, a, sizeof a), 0);
  CHECK_EQ_INT(env->random(env, b, sizeof b), 0);
  CHECK(memcmp(a, b, sizeof a) != 0);
  CHECK(!all_equal(a + sizeof a - 16, 16, 0));
}

static void note_signal_mask(void *arg) {
  CHECK_EQ_INT(pthread_sigmask(SIG_SETMASK, NULL, arg), 0);
}

TEST(thread_takes_no_signals_of_the_host) {
  sigset_t in_thread, here;
  void *thread;
  (void)sigfillset(&here);
  (void)sigemptyset(&in_thread);
  CHECK_EQ_INT(env->process(env), getpid());
  if (!CHECK_EQ_INT(
          env->thread_start(env, note_signal_mask, &in_thread, &thread), 0))
    return;
  env->thread_join(env, thread);
  note_signal_mask(&here);
  CHECK_EQ_INT(sigismember(&in_thread, SIGTERM), 1);
  CHECK_EQ_INT(sigismember(&in_thread, SIGALRM), 1);
  CHECK_EQ_INT(sigismember(&in_thread, SIGSEGV), 0);
  CHECK_EQ_INT(sigismember(&here, SIGTERM), 0);
}

/* ---- err ----------------------------------------------------------------- */

TEST(err_carries_code_and_text) {
  emb_err err = {0};
  CHECK_EQ_INT(err_set(&err, EMB_CORRUPT, "page %d", 7), EMB_CORRUPT);
  CHECK_EQ_INT(err.code, EMB_CORRUPT);
  CHECK_STR(err.text, "page 7");
  CHECK_EQ_INT(err_os(&err, EMB_CANTOPEN, ENOENT, "log %s", "x"), EMB_CANTOPEN);
  CHECK_EQ_INT(err.code, EMB_CANTOPEN);
  CHECK_STR(err.text, "log x: No such file or directory");
  err_clear(&err);
  CHECK_EQ_INT(err.code, EMB_OK);
  CHECK_STR(err.text, "");
}

TEST(err_maps_system_errors) {
  CHECK_EQ_INT(err_os(NULL, EMB_IOERR, ENOSPC, "x"), EMB_FULL);
  CHECK_EQ_INT(err_os(NULL, EMB_IOERR, EDQUOT, "x"), EMB_FULL);
  CHECK_EQ_INT(err_os(NULL, EMB_IOERR, EFBIG, "x"), EMB_FULL);
  CHECK_EQ_INT(err_os(NULL, EMB_IOERR, ENOMEM, "x"), EMB_NOMEM);
  CHECK_EQ_INT(err_os(NULL, EMB_IOERR, EROFS, "x"), EMB_READONLY);
  CHECK_EQ_INT(err_os(NULL, EMB_IOERR, EIO, "x"), EMB_IOERR);
  CHECK_EQ_INT(err_set(NULL, EMB_BUSY, "x"), EMB_BUSY);
  err_clear(NULL);
}

TEST(err_cuts_long_texts_but_not_the_reason) {
  emb_err err;
  char path[1000];
  memset(path, 'p', sizeof path - 1);
  path[sizeof path - 1] = '\0';
  (void)err_set(&err, EMB_RANGE, "%s", path);
  CHECK_EQ_INT(strlen(err.text), sizeof err.text - 1);
  (void)err_os(&err, EMB_IOERR, EIO, "%s", path);
  CHECK_EQ_INT(strlen(err.text), sizeof err.text - 1);
  CHECK(strstr(err.text, "pp: Input/output error") != NULL);
}
