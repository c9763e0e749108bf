/* SPDX-License-Identifier: MIT
**
** env_shared.c -- memory shared by processes, and waiting for a word in it.
**
** STATES    of the memory, by the seals of its descriptor:
**
**     env__shared_make: SHRINK, GROW -- sent as SHARED --> and SEAL
**            |
**            +--- env__shared_fix ----> and WRITE, SEAL: sent as FIXED
**
**           SHRINK and GROW hold permanently: no access to the mapping can run
**           past the end of the file (SIGBUS), whatever the other process does.
**           With WRITE, nobody has it mapped for writing, or ever will.
** INVARIANT A mapping is not inherited across a fork.
** FAILURE   errno; EPROTO for memory from another process without these seals.
** THREADS   Any; one struct env_shared belongs to one thread at a time.
*/
#include "env_os.h"
#include "env_peer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Linux 6.3; a system can be configured to refuse memory without it. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

#define SEALS_SIZE (F_SEAL_SHRINK | F_SEAL_GROW)

/* Fixed memory is mapped privately: before Linux 6.7, a descriptor that is open
** for writing but sealed against it allows no other mapping.  The difference is
** not observable. */
static int shared_map(int fd, size_t bytes, int is_fixed, void **out) {
  void *base =
      is_fixed ? mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0)
               : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED)
    return errno;
  if (madvise(base, bytes, MADV_DONTFORK) != 0) {
    int rc = errno;
    env__before_unmap();
    (void)munmap(base, bytes);
    return rc;
  }
  *out = base;
  return 0;
}

static int memory_fd(size_t bytes, int *fd) {
  unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  int rc = env__own_fd(memfd_create("emb", flags | MFD_NOEXEC_SEAL), fd);
  if (rc == EINVAL)
    rc = env__own_fd(memfd_create("emb", flags), fd);
  if (rc != 0)
    return rc;
  while (rc = ftruncate(*fd, (off_t)bytes) != 0 ? errno : 0, rc == EINTR)
    ;
  if (rc == 0 && fcntl(*fd, F_ADD_SEALS, SEALS_SIZE) != 0)
    rc = errno;
  if (rc != 0)
    (void)close(*fd);
  return rc;
}

int env__shared_make(struct env *env, size_t bytes, struct env_shared *out) {
  struct env_shared shared = {.bytes = bytes};
  (void)env;
  if (bytes == 0 || bytes > (uint64_t)INT64_MAX)
    return EINVAL;
  int rc = memory_fd(bytes, &shared.fd);
  if (rc != 0)
    return rc;
  rc = shared_map(shared.fd, bytes, 0, &shared.base);
  if (rc != 0)
    (void)close(shared.fd);
  else
    *out = shared;
  return rc;
}

int env__shared_fix(struct env *env, struct env_shared *shared) {
  void *base;
  (void)env;
  int seals = shared->fd < 0 ? F_SEAL_SEAL : fcntl(shared->fd, F_GET_SEALS);
  if (seals < 0 || seals & F_SEAL_SEAL)
    return EPERM;
  /* The seal is refused while the memory is mapped for writing. */
  int rc = shared_map(shared->fd, shared->bytes, 1, &base);
  if (rc != 0)
    return rc;
  env__before_unmap();
  (void)munmap(shared->base, shared->bytes);
  shared->base = base;
  return fcntl(shared->fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SEAL) != 0 ? errno
                                                                         : 0;
}

void env__shared_sent(struct env *env, struct env_shared *shared) {
  (void)env;
  if (shared->base != NULL && shared->fd >= 0) {
    (void)close(shared->fd);
    shared->fd = -1;
  }
}

void env__shared_free(struct env *env, struct env_shared *shared) {
  (void)env;
  if (shared->base == NULL)
    return;
  env__before_unmap();
  (void)munmap(shared->base, shared->bytes);
  if (shared->fd >= 0)
    (void)close(shared->fd);
  *shared = (struct env_shared){.base = NULL};
}

int env__shared_take(int fd, int is_fixed, struct env_shared *out) {
  struct env_shared shared = {.fd = -1};
  int need = SEALS_SIZE | (is_fixed ? F_SEAL_WRITE : 0);
  struct statfs system;
  struct stat st;
  /* First, because the other checks could block on a remote file. */
  int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & need) != need)
    return EPROTO;
  /* Huge pages can have seals, too, but may run out when touched. */
  if (fstatfs(fd, &system) != 0 || system.f_type != TMPFS_MAGIC)
    return EPROTO;
  if (fstat(fd, &st) != 0 || st.st_size <= 0)
    return EPROTO;
  shared.bytes = (size_t)st.st_size;
  int rc = shared_map(fd, shared.bytes, is_fixed, &shared.base);
  if (rc == 0)
    *out = shared;
  return rc == EACCES || rc == EPERM ? EPROTO : rc;
}

/* ---- words --------------------------------------------------------------- */

void env__word_wait(struct env *env, _Atomic uint32_t *word, uint32_t is,
                    uint64_t wait_us) {
  struct timespec time = env__timespec(wait_us);
  (void)env;
  (void)syscall(SYS_futex, word, FUTEX_WAIT, is,
                wait_us == UINT64_MAX ? NULL : &time, NULL, 0);
}

void env__word_wake(struct env *env, _Atomic uint32_t *word) {
  (void)env;
  (void)syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
