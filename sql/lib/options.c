/* SPDX-License-Identifier: MIT
**
** options.c -- the arguments of the programs; see options.h.
*/
#include "options.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "database.h"

static size_t value_of(const struct option *option, const char *text) {
  if (option->words) {
    for (size_t i = 0; option->words[i]; i++) {
      if (!strcmp(option->words[i], text)) {
        return i;
      }
    }
    die("--%s: there is no %s", option->name, text);
  }
  char *end;
  unsigned long value = strtoul(text, &end, 10);
  if (!*text || *end || *text == '-') {
    die("--%s: %s is no number", option->name, text);
  }
  return value;
}

void options_parse(struct options *options, const struct option *list, int argc,
                   char **argv) {
  if (argc < 4 || argc % 2) {
    die("usage: GRAPH EXTENSION DIRECTORY [--OPTION VALUE] ...");
  }
  options->graph = argv[1];
  options->extension = argv[2];
  options->directory = argv[3];
  for (int i = 4; i < argc; i += 2) {
    const struct option *option = list;
    while (option->name &&
           (strncmp(argv[i], "--", 2) || strcmp(argv[i] + 2, option->name))) {
      option++;
    }
    if (!option->name) {
      die("unknown option: %s", argv[i]);
    }
    *option->number = value_of(option, argv[i + 1]);
  }
}

void print_result(const char *example, uint64_t seed, const char *name,
                  const char *what, double value) {
  printf("%s\t%llu\t%s\t%s\t%.9g\n", example, (unsigned long long)seed, name,
         what, value);
  fflush(stdout);
}

void print_progress(const char *format, ...) {
  va_list args;
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fputc('\n', stderr);
}
