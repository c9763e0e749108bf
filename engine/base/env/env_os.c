/* SPDX-License-Identifier: MIT
**
** env_os.c -- memory, time, randomness and threads of env_posix, and helpers
** for descriptors.
**
** FAILURE   NULL if there is no memory; the other calls return errno.
** THREADS   Any.  Shared state is atomic: a counter of unmappings, and the
**           cached process number.
*/
#include "engine/base/debug.h"
#include "env_os.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE /* Linux 6.1 */
#define MADV_COLLAPSE 25
#endif
#define PAGE_BYTES ((size_t)4096)
#define HUGE_BYTES ((size_t)2 << 20)
/* A cache line: some structures keep fields on lines of their own. */
#define LINE_BYTES ((size_t)64)
/* The engine's threads never recurse, and keep their buffers on the heap. */
#define STACK_BYTES ((size_t)256 << 10)

void *env__allocate(struct env *env, size_t bytes) {
  (void)env;
  if (bytes > SIZE_MAX - LINE_BYTES)
    return NULL;
  size_t size = (bytes / LINE_BYTES + 1) * LINE_BYTES;
  void *memory = aligned_alloc(LINE_BYTES, size);
  return memory ? memset(memory, 0, size) : NULL;
}

void *env__resize(struct env *env, void *old, size_t bytes) {
  (void)env;
  /* realloc(p, 0) may free p and return NULL, which reads as "no memory" */
  return realloc(old, bytes > 0 ? bytes : 1);
}

void env__release(struct env *env, void *memory) {
  (void)env;
  free(memory);
}

/* Written before each unmapping (release), read after a mapping (acquire); the
** number itself is not used. */
static _Atomic unsigned unmapped;

void env__before_unmap(void) {
  atomic_fetch_add_explicit(&unmapped, 1, memory_order_release);
}

void env__after_map(void) {
  (void)atomic_load_explicit(&unmapped, memory_order_acquire);
}

static size_t whole_pages(size_t bytes) {
  return (bytes + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
}

/* mmap aligns only to a page: map one alignment more, and unmap both ends. */
static char *map_aligned(size_t length, size_t alignment) {
  if (length > SIZE_MAX - alignment)
    return NULL;
  size_t spare = alignment > PAGE_BYTES ? alignment : 0;
  char *start = mmap(NULL, length + spare, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED)
    return NULL;
  size_t before = (size_t)(-(uintptr_t)start & (alignment - 1));
  size_t after = spare - (spare > 0 ? before : 0);
  if (spare > 0 && before > 0)
    (void)munmap(start, before);
  if (after > 0)
    (void)munmap(start + before + length, after);
  return start + before;
}

void *env__map(struct env *env, size_t bytes, int huge) {
  (void)env;
  if (bytes == 0 || bytes > SIZE_MAX - PAGE_BYTES)
    return NULL;
  size_t length = whole_pages(bytes);
  char *start =
      map_aligned(length, bytes >= HUGE_BYTES ? HUGE_BYTES : PAGE_BYTES);
  if (start != NULL && huge)
    env__use_huge(env, start, length, 0);
  return start;
}

/* A kernel without huge pages refuses the first call, a kernel before 6.1 the
** second; it then creates huge pages when it finds time. */
void env__use_huge(struct env *env, void *start, size_t bytes, int is_used) {
  (void)env;
  bytes &= ~(PAGE_BYTES - 1);
  if (madvise(start, bytes, MADV_HUGEPAGE) == 0 && is_used)
    (void)madvise(start, bytes, MADV_COLLAPSE);
}

/* A kernel before 5.14 refuses. */
void env__populate(struct env *env, void *start, size_t bytes) {
  (void)env;
  emb_assert((uintptr_t)start % PAGE_BYTES == 0);
  (void)madvise(start, bytes & ~(PAGE_BYTES - 1), MADV_POPULATE_WRITE);
}

void env__unmap(struct env *env, void *start, size_t bytes) {
  (void)env;
  if (start != NULL) {
    emb_assert((uintptr_t)start % PAGE_BYTES == 0);
    env__before_unmap();
    (void)munmap(start, whole_pages(bytes));
  }
}

void env__discard(struct env *env, void *start, size_t bytes) {
  (void)env;
  emb_assert((uintptr_t)start % PAGE_BYTES == 0);
  (void)madvise(start, bytes & ~(PAGE_BYTES - 1), MADV_DONTNEED);
}

uint64_t env__now_us(struct env *env) {
  (void)env;
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

uint32_t env__wall_s(struct env *env) {
  (void)env;
  struct timespec now;
  (void)clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec < 0            ? 0
         : now.tv_sec > UINT32_MAX ? UINT32_MAX
                                   : (uint32_t)now.tv_sec;
}

struct timespec env__timespec(uint64_t us) {
  return (struct timespec){.tv_sec = (time_t)(us / 1000000u),
                           .tv_nsec = (long)(us % 1000000u) * 1000};
}

void env__sleep_us(struct env *env, uint64_t us) {
  (void)env;
  struct timespec left = env__timespec(us);
  while (nanosleep(&left, &left) != 0 && errno == EINTR)
    ;
}

int env__wait_us(struct env *env, pthread_cond_t *condition,
                 pthread_mutex_t *mutex, uint64_t us) {
  if (us == UINT64_MAX) {
    (void)pthread_cond_wait(condition, mutex);
    return 0;
  }
  struct timespec until = env__timespec(us + env__now_us(env));
  return pthread_cond_timedwait(condition, mutex, &until) == ETIMEDOUT;
}

int env__random(struct env *env, void *buffer, size_t bytes) {
  (void)env;
  char *to = buffer;
  while (bytes > 0) {
    ssize_t got = getrandom(to, bytes, 0);
    if (got < 0) {
      if (errno == EINTR)
        continue;
      return errno;
    }
    to += got;
    bytes -= (size_t)got;
  }
  return 0;
}

/* getpid() is a system call, and every call of a session needs its result, so
** it is cached, and fetched again in a child. */
static _Atomic int64_t process_id; /* 0: unknown; relaxed */
static pthread_once_t process_once = PTHREAD_ONCE_INIT;

static void forget_process(void) {
  atomic_store_explicit(&process_id, 0, memory_order_relaxed);
}

static void watch_forks(void) {
  (void)pthread_atfork(NULL, NULL, forget_process);
}

int64_t env__process(struct env *env) {
  (void)env;
  int64_t id = atomic_load_explicit(&process_id, memory_order_relaxed);
  if (id == 0) {
    pthread_once(&process_once, watch_forks);
    id = getpid();
    atomic_store_explicit(&process_id, id, memory_order_relaxed);
  }
  return id;
}

int64_t env__user(struct env *env) {
  (void)env;
  return geteuid();
}

/* ---- processors ---------------------------------------------------------- */

/* Where the thread could run before it was bound to one processor. */
static _Thread_local struct {
  cpu_set_t home;
  int is_away;
} stay;

uint32_t env__processors(struct env *env) {
  cpu_set_t set;
  (void)env;
  if (stay.is_away)
    return (uint32_t)CPU_COUNT(&stay.home);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set)
                                                     : 1;
}

uint32_t env__processor(struct env *env) {
  int processor = sched_getcpu();
  (void)env;
  return processor < 0 ? UINT32_MAX : (uint32_t)processor;
}

int env__stay_on(struct env *env, uint32_t processor) {
  cpu_set_t one;
  (void)env;
  if (!stay.is_away && sched_getaffinity(0, sizeof stay.home, &stay.home) != 0)
    return errno;
  if (processor >= CPU_SETSIZE || !CPU_ISSET(processor, &stay.home) ||
      CPU_COUNT(&stay.home) < 2)
    return EINVAL;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0)
    return errno;
  stay.is_away = 1;
  return 0;
}

struct thread {
  pthread_t id;
  void (*run)(void *);
  void *arg;
};

static void *thread_main(void *arg) {
  struct thread *thread = arg;
  thread->run(thread->arg);
  return NULL;
}

static int env_os_create(struct thread *thread, size_t stack_bytes) {
  pthread_attr_t attr;
  int rc = pthread_attr_init(&attr);
  if (rc != 0)
    return rc;
  if (stack_bytes > 0)
    rc = pthread_attr_setstacksize(&attr, stack_bytes);
  if (rc == 0 && stay.is_away)
    rc = pthread_attr_setaffinity_np(&attr, sizeof stay.home, &stay.home);
  if (rc == 0)
    rc = pthread_create(&thread->id, &attr, thread_main, thread);
  (void)pthread_attr_destroy(&attr);
  return rc;
}

/* The host's signal handlers must not run on the engine's threads.  Signals
** raised by a thread's own fault stay unblocked: blocked, they would kill the
** process without running its crash handler. */
static void signals_to_block(sigset_t *set) {
  static const int own_fault[] = {SIGSEGV, SIGBUS,  SIGFPE,
                                  SIGILL,  SIGTRAP, SIGSYS};
  (void)sigfillset(set);
  for (size_t i = 0; i < sizeof own_fault / sizeof own_fault[0]; i++)
    (void)sigdelset(set, own_fault[i]);
}

int env__thread_start(struct env *env, void (*run)(void *), void *arg,
                      void **out) {
  struct thread *thread = env__allocate(env, sizeof *thread);
  if (thread == NULL)
    return ENOMEM;
  thread->run = run;
  thread->arg = arg;
  sigset_t block, before;
  signals_to_block(&block);
  int rc = pthread_sigmask(SIG_SETMASK, &block, &before);
  if (rc == 0) {
    rc = env_os_create(thread, STACK_BYTES);
    /* glibc takes the process's thread-local data from the stack: a host with
    ** much of it leaves too little stack */
    if (rc == EINVAL)
      rc = env_os_create(thread, 0);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  }
  if (rc != 0)
    env__release(env, thread);
  else
    *out = thread;
  return rc;
}

void env__thread_join(struct env *env, void *handle) {
  struct thread *thread = handle;
  (void)pthread_join(thread->id, NULL);
  env__release(env, thread);
}

/* ---- descriptors --------------------------------------------------------- */

int env__own_fd(int got, int *fd) {
  if (got < 0)
    return errno;
  if (got <= STDERR_FILENO) {
    int higher = fcntl(got, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int rc = higher < 0 ? errno : 0;
    (void)close(got);
    if (rc != 0)
      return rc;
    got = higher;
  }
  *fd = got;
  return 0;
}

/* 0 if fd is a file of the requested kind.  Clears O_NONBLOCK: it kept the open
** from waiting for a process at the other end, but it would also keep a ring
** from waiting for the disk. */
static int check_kind(int fd, int flags) {
  struct stat st;
  if (flags & O_DIRECTORY)
    return 0;
  if (fstat(fd, &st) != 0)
    return errno;
  if (!S_ISREG(st.st_mode))
    return S_ISDIR(st.st_mode) ? EISDIR : ENOTBLK;
  int now = fcntl(fd, F_GETFL);
  return now < 0 || fcntl(fd, F_SETFL, now & ~O_NONBLOCK) != 0 ? errno : 0;
}

int env__open_fd(const char *path, int flags, int *fd) {
  int got;
  do
    got = open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0644);
  while (got < 0 && errno == EINTR);
  if (got < 0)
    return errno == ENXIO ? ENOTBLK : errno; /* a socket */
  int kind = check_kind(got, flags);
  if (kind != 0) {
    (void)close(got);
    return kind;
  }
  return env__own_fd(got, fd);
}

int env__poll(struct pollfd *fds, unsigned n, uint64_t wait_us) {
  uint64_t begin = env__now_us(NULL), spent = 0;
  for (;;) {
    struct timespec left = env__timespec(wait_us - spent);
    int ready = ppoll(fds, n, wait_us == UINT64_MAX ? NULL : &left, NULL);
    if (ready > 0)
      return 0;
    if (ready < 0 && errno != EINTR)
      return errno;
    spent = env__now_us(NULL) - begin;
    if (ready == 0 || spent >= wait_us)
      return EAGAIN;
  }
}
