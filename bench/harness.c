/* SPDX-License-Identifier: MIT
**
** harness.c -- basics of the benchmarks; see harness.h.
*/
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HUGE_BYTES ((size_t)2 << 20)

void die(const char *format, ...) {
  va_list args;
  va_start(args, format);
  fflush(stdout);
  fputs("bench: ", stderr);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  va_end(args);
  exit(1);
}

/* ---- memory -------------------------------------------------------------- */

void *need(size_t count, size_t size) {
  void *memory = calloc(count ? count : 1, size);
  if (!memory) {
    die("out of memory");
  }
  return memory;
}

static size_t huge_length(size_t bytes) {
  return (bytes + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1);
}

/* Mapped with room to align and never partly unmapped: simple, and the programs
** are short-lived. */
void *need_huge(size_t bytes) {
  size_t length = huge_length(bytes);
  char *memory = mmap(NULL, length + HUGE_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    die("out of memory: %zu bytes", bytes);
  }
  memory += HUGE_BYTES - ((uintptr_t)memory & (HUGE_BYTES - 1));
  (void)madvise(memory, length, MADV_HUGEPAGE);
  return memory;
}

void drop_huge(void *memory, size_t bytes) {
  if (memory) {
    munmap(memory, huge_length(bytes));
  }
}

void touch_memory(size_t bytes) {
  char *memory = need_huge(bytes);
  for (size_t i = 0; i < bytes; i += 4096) {
    ((volatile char *)memory)[i] = 1;
  }
  drop_huge(memory, bytes);
}

/* ---- time and processors ------------------------------------------------- */

static double of_timespec(const struct timespec *t) {
  return (double)t->tv_sec + 1e-9 * (double)t->tv_nsec;
}

static double clock_of(clockid_t id) {
  struct timespec t;
  clock_gettime(id, &t);
  return of_timespec(&t);
}

double now(void) { return clock_of(CLOCK_MONOTONIC); }

void nap(double seconds) {
  struct timespec t = {(time_t)seconds,
                       (long)((seconds - (double)(time_t)seconds) * 1e9)};
  while (nanosleep(&t, &t) && errno == EINTR) {
  }
}

int processors(void) { return (int)sysconf(_SC_NPROCESSORS_ONLN); }

void pin(int number) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((size_t)(number % processors()), &set);
  if (sched_setaffinity(0, sizeof(set), &set)) {
    die("sched_setaffinity: %s", strerror(errno));
  }
}

struct pinned {
  void (*work)(void *arg);
  void *arg;
};

static void *do_pinned(void *arg) {
  struct pinned *pinned = arg;
  pin(0);
  pinned->work(pinned->arg);
  return NULL;
}

void run_pinned(void (*work)(void *arg), void *arg) {
  struct pinned pinned = {work, arg};
  pthread_t thread;
  if (pthread_create(&thread, NULL, do_pinned, &pinned) ||
      pthread_join(thread, NULL)) {
    die("no thread");
  }
}

double cpu_of_thread(void) { return clock_of(CLOCK_THREAD_CPUTIME_ID); }

double cpu_of_process(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return (double)u.ru_utime.tv_sec + 1e-6 * (double)u.ru_utime.tv_usec +
         (double)u.ru_stime.tv_sec + 1e-6 * (double)u.ru_stime.tv_usec;
}

double cpu_of_machine(void) {
  FILE *f = fopen("/proc/stat", "r");
  unsigned long long user, nice, system, idle, wait, irq, soft, steal;
  if (!f || fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user,
                   &nice, &system, &idle, &wait, &irq, &soft, &steal) != 8) {
    die("/proc/stat cannot be read");
  }
  fclose(f);
  return (double)(user + nice + system + irq + soft + steal) /
         (double)sysconf(_SC_CLK_TCK);
}

/* The number after `name` in a file of /proc/self. */
static uint64_t proc_number(const char *file, const char *name) {
  FILE *f = fopen(file, "r");
  char line[256];
  unsigned long long value = 0;
  while (f && fgets(line, sizeof(line), f)) {
    size_t n = strlen(name);
    if (!strncmp(line, name, n) && sscanf(line + n, "%llu", &value) == 1) {
      break;
    }
  }
  if (f) {
    fclose(f);
  }
  return value;
}

uint64_t disk_bytes_written(void) {
  return proc_number("/proc/self/io", "write_bytes:");
}

uint64_t disk_bytes_read(void) {
  return proc_number("/proc/self/io", "read_bytes:");
}

uint64_t resident_bytes(void) {
  return proc_number("/proc/self/status", "VmRSS:") * 1024;
}

uint64_t resident_peak_bytes(void) {
  return proc_number("/proc/self/status", "VmHWM:") * 1024;
}

void settle(void) {
  double end = now() + 30;
  for (int quiet = 0; quiet < 3 && now() < end;) {
    double before = cpu_of_process();
    nap(0.02);
    quiet = cpu_of_process() - before < 0.001 ? quiet + 1 : 0;
  }
}

/* ---- files --------------------------------------------------------------- */

const char *path(const char *format, ...) {
  static _Thread_local char ring[16][512];
  static _Thread_local unsigned at;
  char *to = ring[at++ % 16];
  va_list args;
  va_start(args, format);
  vsnprintf(to, sizeof(ring[0]), format, args);
  va_end(args);
  return to;
}

void make_directory(const char *directory) {
  char part[512];
  snprintf(part, sizeof(part), "%s", directory);
  for (char *p = part + 1;; p++) {
    if (*p == '/' || !*p) {
      char was = *p;
      *p = 0;
      if (mkdir(part, 0777) && errno != EEXIST) {
        die("mkdir %s: %s", part, strerror(errno));
      }
      *p = was;
      if (!was) {
        return;
      }
    }
  }
}

static int remove_one(const char *name, const struct stat *st, int type,
                      struct FTW *ftw) {
  (void)st, (void)type, (void)ftw;
  return remove(name);
}

void remove_tree(const char *directory) {
  struct stat st;
  if (!lstat(directory, &st) &&
      nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS)) {
    die("remove %s: %s", directory, strerror(errno));
  }
}

static uint64_t tree_sum;

static int add_one(const char *name, const struct stat *st, int type,
                   struct FTW *ftw) {
  (void)name, (void)ftw;
  tree_sum += type == FTW_F ? (uint64_t)st->st_blocks * 512 : 0;
  return 0;
}

uint64_t tree_bytes(const char *directory) {
  tree_sum = 0;
  nftw(directory, add_one, 16, FTW_PHYS);
  return tree_sum;
}

static int forget_one(const char *name, const struct stat *st, int type,
                      struct FTW *ftw) {
  (void)st, (void)ftw;
  int fd = type == FTW_F ? open(name, O_RDONLY) : -1;
  if (fd >= 0) {
    fdatasync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
  }
  return 0;
}

void forget_tree(const char *directory) {
  nftw(directory, forget_one, 16, FTW_PHYS);
}
