/* SPDX-License-Identifier: MIT
**
** death.c -- see death.h.
*/
#include "death.h"
#include "fork_help.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

/* The place of an assertion that fired. */
struct place {
  char path[256];
  int line;
};

static struct {
  pid_t pid;
  int pipe;
  char text[1024]; /* what the last child wrote */
  struct place *places;
  size_t count;
} death;

int death_fork(void) {
  int ends[2];
  fflush(stdout);
  death.pid = -1;
  if (!CHECK(pipe(ends) == 0)) {
    return 0;
  }
  death.pid = test_fork();
  if (death.pid == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    unsetenv("EMB_ASSERT"); /* tests/defects.sh: report and go on */
    return 1;
  }
  close(ends[1]);
  death.pipe = ends[0];
  CHECK(death.pid > 0);
  return 0;
}

void death_survived(void) { _exit(0); }

static void note_place(const char *path, int line) {
  void *places =
      realloc(death.places, (death.count + 1) * sizeof *death.places);
  if (!places) {
    abort();
  }
  death.places = places;
  struct place *place = &death.places[death.count++];
  snprintf(place->path, sizeof place->path, "%s", path);
  place->line = line;
}

/* Reads all that the child wrote; keeps what fits. */
static void read_text(void) {
  char *text = death.text;
  size_t used = 0, room = sizeof death.text;
  ssize_t n;
  char rest[256];
  while ((n = read(death.pipe, used + 1 < room ? text + used : rest,
                   used + 1 < room ? room - 1 - used : sizeof rest)) > 0 ||
         (n < 0 && errno == EINTR)) {
    used += used + 1 < room && n > 0 ? (size_t)n : 0;
  }
  text[used] = 0;
}

void death_check(const char *what, const char *file, int line) {
  char path[256];
  int status = 0, place = 0;
  const char *text = death.text;
  death.text[0] = 0;
  if (death.pid <= 0) {
    return;
  }
  read_text();
  close(death.pipe);
  while (waitpid(death.pid, &status, 0) < 0 && errno == EINTR) {
  }
  int fired =
      WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT &&
      sscanf(text, "emb: assertion failed: %255[^:]:%d", path, &place) == 2;
  test_check(fired, file, line, "no assertion fires: %s%s%s", what,
             text[0] ? "; it wrote: " : "", text);
  if (fired) {
    note_place(path, place);
  }
}

const char *death_text(void) { return death.text; }

static int has_fired(const char *path, int first, int last) {
  for (size_t i = 0; i < death.count; i++) {
    const struct place *place = &death.places[i];
    if (strcmp(place->path, path) == 0 && place->line >= first &&
        place->line <= last) {
      return 1;
    }
  }
  return 0;
}

/* Does an assertion begin in this line of C?  A name that only ends with it
** does not. */
static int begins(const char *line) {
  static const char *const names[] = {"emb_assert(", "emb_check(",
                                      "emb_check_some("};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *at = strstr(line, names[i]);
    if (at && (at == line || isspace((unsigned char)at[-1]))) {
      return 1;
    }
  }
  return 0;
}

void death_check_all(const char *path, const char *file, int line) {
  char text[512];
  int at = 0, first = 0, assertions = 0;
  FILE *source = fopen(path, "r");
  if (!test_check(source != NULL, file, line, "cannot open %s", path)) {
    return;
  }
  while (fgets(text, sizeof text, source)) {
    at++;
    if (begins(text)) {
      first = at;
      assertions++;
    }
    if (first && strstr(text, ");")) {
      test_check(has_fired(path, first, at), file, line,
                 "the assertion of %s:%d did not fire", path, first);
      first = 0;
    }
  }
  fclose(source);
  test_check(assertions > 0, file, line, "%s has no assertion", path);
}
