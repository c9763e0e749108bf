/* SPDX-License-Identifier: MIT
**
** test.c -- main of the unit tests, and the functions that the macros of
** test.h call.
*/
#include "test.h"

#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <time.h>

struct test_state test_state;

void test_register(struct test *test) {
  if (test_state.first == NULL)
    test_state.first = test;
  else
    test_state.last->next = test;
  test_state.last = test;
}

int test_check(int holds, const char *file, int line, const char *format, ...) {
  if (holds)
    return 1;
  unsigned before =
      atomic_fetch_add_explicit(&test_state.failures, 1, memory_order_relaxed);
  if (before >= TEST_PRINT_MAX)
    return 0;
  char text[512];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(text, sizeof text, format, args);
  va_end(args);
  printf("%s:%d: %s: %s\n", file, line, test_state.name, text);
  return 0;
}

int test_check_eq_int(intmax_t a, intmax_t b, const char *a_text,
                      const char *b_text, const char *file, int line) {
  return test_check(a == b, file, line,
                    "%s == %s: %" PRIdMAX " is not %" PRIdMAX, a_text, b_text,
                    a, b);
}

int test_check_str(const char *a, const char *b, const char *a_text,
                   const char *b_text, const char *file, int line) {
  int same = a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
  return test_check(same, file, line, "%s == %s: \"%s\" is not \"%s\"", a_text,
                    b_text, a != NULL ? a : "(null)", b != NULL ? b : "(null)");
}

void test_count(const char *what, uint64_t n) {
  printf("counted: %" PRIu64 " %s\n", n, what);
}

int test_remove_entry(const char *path, const struct stat *st, int type,
                      struct FTW *ftw) {
  (void)st, (void)type, (void)ftw;
  return remove(path);
}

void test_remove_dir(void) {
  if (test_state.dir[0] != '\0' &&
      nftw(test_state.dir, test_remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0)
    printf("cannot remove %s\n", test_state.dir);
  test_state.dir[0] = '\0';
}

const char *test_dir_in(const char *parent) {
  if (test_state.dir[0] == '\0') {
    (void)snprintf(test_state.dir, sizeof test_state.dir, "%s/emb-test-XXXXXX",
                   parent);
    if (mkdtemp(test_state.dir) == NULL) {
      test_state.dir[0] = '\0';
      (void)test_check(0, __FILE__, __LINE__, "mkdtemp in %s", parent);
      return NULL;
    }
  }
  return test_state.dir;
}

const char *test_dir(void) {
  const char *parent = getenv("TMPDIR");
  return test_dir_in(parent != NULL ? parent : "/tmp");
}

/* 1 passed, 0 failed, -1 skipped. */
static int test_run(const struct test *test) {
  test_state.name = test->name;
  test_state.random = test_state.seed;
  test_state.skipped = NULL;
  atomic_store_explicit(&test_state.failures, 0, memory_order_relaxed);
  test->run();
  test_remove_dir();
  unsigned failures =
      atomic_load_explicit(&test_state.failures, memory_order_relaxed);
  const char *share = getenv("SHARE");
  if (failures > 0)
    printf("%s: %u checks failed; SEED=%" PRIu64 "%s%s\n", test->name, failures,
           test_state.seed, share != NULL ? " SHARE=" : "",
           share != NULL ? share : "");
  else if (test_state.skipped != NULL)
    printf("%s: skipped: %s\n", test->name, test_state.skipped);
  return failures > 0 ? 0 : test_state.skipped != NULL ? -1 : 1;
}

/* run.tcl ends a program that takes too long.  Only functions that a signal
** handler may call. */
static void test_ended(int sig) {
  const char *words[] = {"ended in the test ", test_state.name, "\n"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (words[i] != NULL &&
        write(STDOUT_FILENO, words[i], strlen(words[i])) < 0)
      break;
  (void)signal(sig, SIG_DFL);
  (void)raise(sig);
}

int main(int argc, char **argv) {
  const char *part = argc > 1 ? argv[1] : "";
  const char *seed = getenv("SEED");
  struct timespec now;
  (void)clock_gettime(CLOCK_REALTIME, &now);
  test_state.seed =
      seed != NULL ? strtoull(seed, NULL, 10)
                   : (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
  /* A crash must not lose earlier output, nor a fork print it twice. */
  (void)setvbuf(stdout, NULL, _IOLBF, 0);
  test_state.program = argv[0];
  if (argc > 1 && strcmp(part, "-process") == 0 && test_state.process)
    return test_state.process(argc - 2, argv + 2);
  (void)signal(SIGTERM, test_ended);
  int passed = 0, failed = 0, skipped = 0;
  for (const struct test *test = test_state.first; test; test = test->next) {
    if (strstr(test->name, part) == NULL ||
        (THREAD_SANITIZED && test->of_one_thread && *part == 0))
      continue;
    int verdict = test_run(test);
    *(verdict > 0 ? &passed : verdict == 0 ? &failed : &skipped) += 1;
  }
  printf("%d passed, %d failed", passed, failed);
  if (skipped > 0)
    printf(", %d skipped", skipped);
  printf("\n");
  return failed > 0 || passed + skipped == 0;
}
