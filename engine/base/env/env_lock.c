/* SPDX-License-Identifier: MIT
**
** env_lock.c -- lock files and byte locks: which process may write a store, and
** which checkpoint another process reads.
**
** Both are locks of the open file (open file description locks, Linux 3.15),
** not of the process.  A POSIX record lock would be dropped as soon as anything
** in the process, such as a backup tool or a hash, closed the file, and would
** also be granted to a second copy of this library in the process.
**
** LOCK FILE  The first LOCK_BYTES bytes, as one lock.  Its length says how it
**            is held, so that a single query suffices:
**
**              bytes 0 to the last   UNSETTLED; taken so in one step
**              bytes 0 and 1         SERVES
**              byte 0                ALONE
**
**            A lock to the end of the file, wherever that is, belongs to an
**            earlier version, and counts as SERVES: its socket will report that
**            it speaks another protocol.
**            The file contains the holder's process number (LOCK_TEXT), since
**            the system does not report the holder of an open file's lock.  The
**            number is valid only while the lock is held, and only in the same
**            PID namespace, whose number is stored with it.
** FORK       A child inherits the descriptors, and with them the locks, which
**            would be held until the child ended, too.  So all descriptors that
**            carry locks are on a list, and a handler closes them in the child.
**            It must not unlock them: that would drop the parent's locks.  A
**            child created without the handlers (vfork, posix_spawn) executes
**            another program at once, which closes the descriptors.
** INVARIANT  A descriptor is on the list before it has a lock, and leaves it
**            before it is closed; owned_mutex is held over both, and over a
**            fork.
** FAILURE    errno.  EINVAL: the system has no such locks.
** THREADS    Any.
*/
#include "env_lock.h"

#include "engine/base/debug.h"
#include "engine/base/seed.h"
#include "env_os.h"
#include "env_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct env_lock {
  int fd;
  enum env_lock_state state; /* how it is held */
  struct env__owned owned;
};

/* ---- descriptors that carry locks ---------------------------------------- */

static pthread_mutex_t owned_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct env__owned *owned_list; /* owned_mutex */
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static int fork_rc; /* fork_once */

static void lock_before_fork(void) { pthread_mutex_lock(&owned_mutex); }

static void lock_after_fork_in_parent(void) {
  pthread_mutex_unlock(&owned_mutex);
}

static void lock_after_fork_in_child(void) {
  while (owned_list && !EMB_SEED(SEED_CHILD_KEEPS_LOCK)) {
    struct env__owned *owned = owned_list;
    owned_list = owned->next;
    owned->at = NULL;
    (void)close(*owned->fd);
    *owned->fd = -1; /* a later use must not hit another file */
  }
  pthread_mutex_unlock(&owned_mutex);
}

static void lock_watch_forks(void) {
  fork_rc = pthread_atfork(lock_before_fork, lock_after_fork_in_parent,
                           lock_after_fork_in_child);
}

/* Under owned_mutex. */
static void own_descriptor(struct env__owned *owned, int *fd) {
  emb_assert(!owned->at);
  *owned = (struct env__owned){fd, owned_list, &owned_list};
  if (owned_list)
    owned_list->at = &owned->next;
  owned_list = owned;
}

/* Under owned_mutex. */
static void owned_close(struct env__owned *owned) {
  if (owned->at) {
    emb_assert(*owned->at == owned);
    emb_assert(!owned->next || owned->next->at == &owned->next);
    *owned->at = owned->next;
    if (owned->next)
      owned->next->at = owned->at;
    owned->at = NULL;
  }
}

void env__lock_disown(struct env__owned *owned) {
  pthread_mutex_lock(&owned_mutex);
  owned_close(owned);
  pthread_mutex_unlock(&owned_mutex);
}

/* ---- the lock file ------------------------------------------------------- */

#define LOCK_BYTES ((off_t)1 << 40)

static int set_lock(int fd, short type, off_t start, off_t bytes) {
  struct flock lock = {
      .l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = bytes};
  while (fcntl(fd, F_OFD_SETLK, &lock) != 0) {
    if (errno == EACCES)
      return EAGAIN; /* POSIX allows either */
    if (errno != EINTR)
      return errno;
  }
  return 0;
}

/* 1 if path no longer names the locked file: the previous owner has deleted it
** (emb_destroy) between the open and the lock. */
static int is_deleted(int fd, const char *path) {
  struct stat held, named;
  if (stat(path, &named) != 0)
    return errno == ENOENT;
  return fstat(fd, &held) == 0 &&
         (held.st_dev != named.st_dev || held.st_ino != named.st_ino);
}

/* The PID namespace of this process; 0: unknown. */
static unsigned long long number_space(void) {
  struct stat st;
  return stat("/proc/self/ns/pid", &st) == 0 ? (unsigned long long)st.st_ino
                                             : 0;
}

#define LOCK_TEXT "%lld %llu\n"
#define LOCK_TEXT_BYTES 48

/* If there is no room for the number, none is better than a wrong one. */
static void write_holder(int fd) {
  char text[LOCK_TEXT_BYTES] = "";
  int n = snprintf(text, sizeof text, LOCK_TEXT, (long long)getpid(),
                   number_space());
  if (ftruncate(fd, 0) == 0 && n > 0 && pwrite(fd, text, (size_t)n, 0) != n)
    (void)!ftruncate(fd, 0);
}

static int64_t read_holder(int fd) {
  char text[LOCK_TEXT_BYTES] = "";
  long long process = 0;
  unsigned long long space = 0;
  if (pread(fd, text, sizeof text - 1, 0) <= 0 ||
      sscanf(text, LOCK_TEXT, &process, &space) != 2)
    return 0;
  return process > 0 && space == number_space() ? process : 0;
}

int env__lock(struct env *env, const char *path, struct env_lock **out) {
  pthread_once(&fork_once, lock_watch_forks);
  struct env_lock *lock = fork_rc ? NULL : env__allocate(env, sizeof *lock);
  if (lock == NULL)
    return ENOMEM;
  int rc, again;
  do {
    pthread_mutex_lock(&owned_mutex);
    rc = env__open_fd(path, O_RDWR | O_CREAT | O_NOFOLLOW, &lock->fd);
    if (rc == 0) {
      own_descriptor(&lock->owned, &lock->fd);
      rc = set_lock(lock->fd, F_WRLCK, 0, LOCK_BYTES);
      again = rc == 0 && is_deleted(lock->fd, path);
      if (rc != 0 || again) {
        owned_close(&lock->owned);
        (void)close(lock->fd);
      }
    } else {
      again = 0;
    }
    pthread_mutex_unlock(&owned_mutex);
  } while (again);
  if (rc != 0) {
    env__release(env, lock);
    return rc;
  }
  write_holder(lock->fd);
  lock->state = ENV_LOCK_UNSETTLED;
  *out = lock;
  return 0;
}

/* Unlocks before closing: a child created without the handlers may still have
** the descriptor. */
void env__unlock(struct env *env, struct env_lock *lock) {
  env__lock_disown(&lock->owned);
  (void)set_lock(lock->fd, F_UNLCK, 0, LOCK_BYTES);
  (void)close(lock->fd);
  env__release(env, lock);
}

void env__lock_settle(struct env *env, struct env_lock *lock,
                      enum env_lock_state state) {
  off_t kept = state == ENV_LOCK_ALONE ? 1 : 2;
  (void)env;
  emb_assert(state == ENV_LOCK_ALONE || state == ENV_LOCK_SERVES);
  emb_assert(lock->state != ENV_LOCK_ALONE || state == ENV_LOCK_ALONE);
  lock->state = state;
  (void)set_lock(lock->fd, F_UNLCK, kept, LOCK_BYTES - kept);
}

int env__lock_look(struct env *env, const char *path,
                   enum env_lock_state *state, int64_t *process) {
  struct flock whole = {
      .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = LOCK_BYTES};
  int fd, rc;
  (void)env;
  *state = ENV_LOCK_FREE;
  *process = 0;
  rc = env__open_fd(path, O_RDONLY | O_NOFOLLOW, &fd);
  if (rc != 0)
    return rc == ENOENT ? 0 : rc;
  while ((rc = fcntl(fd, F_OFD_GETLK, &whole) != 0 ? errno : 0) == EINTR)
    ;
  if (rc == 0 && whole.l_type != F_UNLCK) {
    *state = whole.l_len == LOCK_BYTES ? ENV_LOCK_UNSETTLED
             : whole.l_len == 1        ? ENV_LOCK_ALONE
                                       : ENV_LOCK_SERVES;
    *process = whole.l_pid > 0 ? whole.l_pid : read_holder(fd);
  }
  (void)close(fd);
  return rc;
}

/* ---- byte locks ---------------------------------------------------------- */

/* The locked bytes are beyond any content of the file. */

#define BYTE_LOCK_FIRST ((off_t)1 << 62)
#define BYTE_LOCK_COUNT (UINT64_C(1) << 61)

int env__byte_lock(struct env *env, struct env_file *file, uint64_t at,
                   enum env_byte_lock how) {
  (void)env;
  emb_assert(at < BYTE_LOCK_COUNT);
  pthread_once(&fork_once, lock_watch_forks);
  if (fork_rc)
    return fork_rc;
  pthread_mutex_lock(&owned_mutex);
  if (!file->owned.at)
    own_descriptor(&file->owned, &file->fd);
  pthread_mutex_unlock(&owned_mutex);
  return set_lock(file->fd,
                  how == ENV_BYTE_EXCLUSIVE ? F_WRLCK
                  : how == ENV_BYTE_SHARED  ? F_RDLCK
                                            : F_UNLCK,
                  BYTE_LOCK_FIRST + (off_t)at, 1);
}

int env__byte_lock_lowest(struct env *env, struct env_file *file,
                          uint64_t below, uint64_t *at) {
  (void)env;
  emb_assert(below <= BYTE_LOCK_COUNT);
  *at = UINT64_MAX;
  while (below > 0) { /* fcntl may report any of the locks */
    struct flock lock = {.l_type = F_WRLCK,
                         .l_whence = SEEK_SET,
                         .l_start = BYTE_LOCK_FIRST,
                         .l_len = (off_t)below};
    if (fcntl(file->fd, F_OFD_GETLK, &lock) != 0) {
      if (errno != EINTR)
        return errno;
    } else if (lock.l_type == F_UNLCK) {
      break;
    } else {
      *at = below = lock.l_start > BYTE_LOCK_FIRST
                        ? (uint64_t)(lock.l_start - BYTE_LOCK_FIRST)
                        : 0;
    }
  }
  return 0;
}
