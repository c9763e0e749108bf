/* SPDX-License-Identifier: MIT
**
** env_os.h -- the part of the table without files: memory, time, randomness,
** threads, and places.  Contracts in env.h.  No function uses its env, which
** may be NULL.  Private to engine/base/env.
*/
#ifndef EMB_ENV_OS_H
#define EMB_ENV_OS_H

#include "env.h"

#include <poll.h>
#include <time.h>

struct env_dir {
  int fd;
};

void *env__allocate(struct env *, size_t bytes);
void *env__resize(struct env *, void *, size_t bytes);
void env__release(struct env *, void *);
void *env__map(struct env *, size_t bytes, int huge);
void env__unmap(struct env *, void *, size_t bytes);
void env__use_huge(struct env *, void *, size_t bytes, int is_used);
void env__populate(struct env *, void *, size_t bytes);
void env__discard(struct env *, void *, size_t bytes);
/* Addresses unmapped by one thread may be mapped again by another.  The kernel
** orders the two, but nothing in C says so, and ThreadSanitizer, which does not
** see liburing's system calls, reports a race.  So each call before an
** unmapping (release) is ordered before each call after a mapping by liburing
** (acquire). */
void env__before_unmap(void);
void env__after_map(void);
uint64_t env__memory_limit(struct env *, const char **whose); /* env_limit.c */
uint64_t env__now_us(struct env *);
uint32_t env__wall_s(struct env *);
void env__sleep_us(struct env *, uint64_t);
int env__wait_us(struct env *, pthread_cond_t *, pthread_mutex_t *, uint64_t);
int env__random(struct env *, void *, size_t);
int64_t env__process(struct env *);
int64_t env__user(struct env *);
int env__thread_start(struct env *, void (*run)(void *), void *arg,
                      void **thread);
void env__thread_join(struct env *, void *thread);
uint32_t env__processors(struct env *);
uint32_t env__processor(struct env *);
int env__stay_on(struct env *, uint32_t processor);

/* env_place.c */
const char *env__is_remote(struct env *, struct env_dir *);
int env__absolute(struct env *, const char *path, char *to, size_t size);

/* Takes the result of a call that creates a descriptor: -1 with errno, or the
** new descriptor.  *fd is never a standard one: if the host has closed stderr,
** its messages would go into the file.  After an error the descriptor is
** closed. */
int env__own_fd(int got, int *fd);
/* open() with the contract of env->open: only regular files, or a directory
** with O_DIRECTORY; does not wait. */
int env__open_fd(const char *path, int flags, int *fd);
/* poll() for at most wait_us (UINT64_MAX: without limit); EAGAIN: no event. */
int env__poll(struct pollfd *, unsigned n, uint64_t wait_us);
struct timespec env__timespec(uint64_t us);

#endif
