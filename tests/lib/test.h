/* SPDX-License-Identifier: MIT
**
** test.h -- the frame of all unit tests in C.
**
** A test program is one .c file that includes this header; test.c has its main:
**
**     #include "test.h"
**     TEST(sum_of_two) { CHECK_EQ_INT(1 + 1, 2); }
**
** RUN       program [part of a test's name]
**           Tests run in the order of the file.  Failures are printed; the
**           last line is "N passed, N failed" (and ", N skipped" if any
**           were).  Exit status 1 when a test failed or none was found.
** CHECKS    Report and go on; each gives 1 when it held, so that a test can
**           return: if (!CHECK(file != NULL)) return; They may be used from
**           any thread.  A forked child must end with _exit and report by its
**           status.
** RANDOM    test_random() starts each test from SEED (environment) or from the
**           clock; a failing test prints the seed that repeats it.
** COUNTS    test_count("kill points", n) prints "counted: n kill points", which
**           tests/run.tcl and tests/soak.sh add up over all programs.
** FILES     test_dir() is an empty directory of this test alone, removed when
**           it ends.
*/
#ifndef EMB_TEST_H
#define EMB_TEST_H

#include <ftw.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A sanitizer has its own memory and threads, and is slow. */
#ifdef __has_feature
#define TEST_HAS(feature) __has_feature(feature)
#else
#define TEST_HAS(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||           \
    TEST_HAS(address_sanitizer) || TEST_HAS(thread_sanitizer)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif
/* Sequential calls of one thread tell it nothing. */
#if defined(__SANITIZE_THREAD__) || TEST_HAS(thread_sanitizer)
enum { THREAD_SANITIZED = 1 };
#else
enum { THREAD_SANITIZED = 0 };
#endif

struct test {
  const char *name;
  void (*run)(void);
  int of_one_thread;
  struct test *next;
};

/* One program runs one test at a time. */
extern struct test_state {
  struct test *first, *last;
  const char *name;
  uint64_t seed;
  uint64_t random;
  const char *skipped; /* the reason */
  char *program;       /* argv[0] */
  /* process_help.h: this is another process of a test, with these arguments. */
  int (*process)(int argc, char **argv);
  char dir[256];
  /* Failed checks of this test; any thread counts, main reads after the test
  ** has joined its threads.  Relaxed. */
  _Atomic unsigned failures;
} test_state;

/* A loop that fails in every round prints only this often. */
enum { TEST_PRINT_MAX = 20 };

#define TEST(name_) TEST_OF(name_, 0)

/* All happens in one thread: not run under ThreadSanitizer, unless by name. */
#define TEST_OF_ONE_THREAD(name_) TEST_OF(name_, 1)

#define TEST_OF(name_, of_one_thread_)                                         \
  static void name_(void);                                                     \
  __attribute__((constructor)) static void test_register_##name_(void) {       \
    static struct test test = {                                                \
        .name = #name_, .run = name_, .of_one_thread = (of_one_thread_)};      \
    test_register(&test);                                                      \
  }                                                                            \
  static void name_(void)

#define CHECK(expr) test_check((expr) ? 1 : 0, __FILE__, __LINE__, "%s", #expr)

#define CHECK_EQ_INT(a, b)                                                     \
  test_check_eq_int((intmax_t)(a), (intmax_t)(b), #a, #b, __FILE__, __LINE__)

#define CHECK_STR(a, b) test_check_str(a, b, #a, #b, __FILE__, __LINE__)

/* Ends the test without a verdict, because the machine lacks what it needs:
** SKIP("no io_uring"); */
#define SKIP(reason)                                                           \
  do {                                                                         \
    test_state.skipped = (reason);                                             \
    return;                                                                    \
  } while (0)

void test_register(struct test *test);

__attribute__((format(printf, 4, 5))) int
test_check(int holds, const char *file, int line, const char *format, ...);

int test_check_eq_int(intmax_t a, intmax_t b, const char *a_text,
                      const char *b_text, const char *file, int line);

int test_check_str(const char *a, const char *b, const char *a_text,
                   const char *b_text, const char *file, int line);

void test_count(const char *what, uint64_t n);

/* splitmix64 (Steele, Lea, Flood 2014).  A thread of a test keeps its own
** state, started from test_random(). */
static inline uint64_t test_random_from(uint64_t *state) {
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

static inline uint64_t test_random(void) {
  return test_random_from(&test_state.random);
}

/* Below n. */
static inline uint32_t test_below(uint64_t n) {
  return (uint32_t)(test_random() % n);
}

/* 1 in so many of a hundred cases. */
static inline int test_chance(unsigned percent) {
  return test_below(100) < percent;
}

/* From -1 to 1. */
static inline double test_unit(void) {
  return (double)(int64_t)test_random() * 0x1p-63;
}

/* For nftw: removes a file or an empty directory. */
int test_remove_entry(const char *path, const struct stat *st, int type,
                      struct FTW *ftw);

/* The test's directory, made below parent at the first call; NULL, and a
** failed check, when that is impossible. */
const char *test_dir_in(const char *parent);

/* Below TMPDIR, or /tmp. */
const char *test_dir(void);

void test_remove_dir(void);

#endif
