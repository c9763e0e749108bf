/* SPDX-License-Identifier: MIT
**
** bench.c -- runs one benchmark.
**
**   bench NAME [--quick] [--rounds=N] [--seconds=S] [--keys=N] [--only=TEXT]
**              [--data=DIRECTORY] [--out=DIRECTORY] [--extension=FILE]
**              [--base=FILE] [--trainer=FILE]
**
** Writes OUT/NAME.tsv, for bench/report.tcl, and prints it.
*/
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
  const char *name;
  void (*run)(const struct options *options);
} benchmarks[] = {
    {"memory", bench_memory},   {"rows", bench_rows},
    {"disk", bench_disk},       {"skew", bench_skew},
    {"put", bench_put},         {"growth", bench_growth},
    {"load", bench_load},       {"clock", bench_clock},
    {"update", bench_update},   {"lookahead", bench_lookahead},
    {"bound", bench_bound},     {"wordnet", bench_wordnet},
    {"online", bench_online},   {"export", bench_export},
    {"warm", bench_warm},       {"processes", bench_processes},
    {"nearest", bench_nearest}, {"sample", bench_sample},
    {"text", bench_text},       {"average", bench_average},
    {"guard", bench_guard},     {"samples", bench_samples},
    {"choose", bench_choose},   {"bag", bench_bag},
    {"steady", bench_steady},
};

/* The value of --name=value, or NULL. */
static const char *value_of(const char *argument, const char *name) {
  size_t n = strlen(name);
  if (strncmp(argument, "--", 2) || strncmp(argument + 2, name, n) ||
      argument[2 + n] != '=') {
    return NULL;
  }
  return argument + 3 + n;
}

static void parse(struct options *options, const char *argument) {
  const char *value;
  if (!strcmp(argument, "--quick")) {
    options->quick = 1;
  } else if ((value = value_of(argument, "rounds"))) {
    options->rounds = atoi(value);
  } else if ((value = value_of(argument, "seconds"))) {
    options->seconds = atof(value);
  } else if ((value = value_of(argument, "keys"))) {
    options->keys = (size_t)atoll(value);
  } else if ((value = value_of(argument, "only"))) {
    options->only = value;
  } else if ((value = value_of(argument, "data"))) {
    options->data = value;
  } else if ((value = value_of(argument, "out"))) {
    options->out = value;
  } else if ((value = value_of(argument, "extension"))) {
    options->extension = value;
  } else if ((value = value_of(argument, "base"))) {
    options->base = value;
  } else if ((value = value_of(argument, "trainer"))) {
    options->trainer = value;
  } else {
    die("unknown argument: %s", argument);
  }
}

/* Only the leftovers of a killed run may be removed at the start: --data can
** name any directory. */
static void begin_data(const char *directory) {
  const char *mark = path("%s/.made-by-emb", directory);
  if (!access(directory, F_OK) && access(mark, F_OK)) {
    die("%s is there and was not made by a benchmark; move it away", directory);
  }
  remove_tree(directory);
  make_directory(directory);
  FILE *f = fopen(mark, "w");
  if (!f || fclose(f)) {
    die("cannot write %s", mark);
  }
}

int main(int argc, char **argv) {
  struct options options = {.data = "build/bench/data",
                            .out = "build/bench",
                            .extension = "build/emb.so",
                            .trainer = "build/bench/train"};
  for (int i = 2; i < argc; i++) {
    parse(&options, argv[i]);
  }
  if (!options.rounds) {
    options.rounds = options.quick ? 3 : 5;
  }
  make_directory(options.out);
  for (size_t i = 0; i < sizeof(benchmarks) / sizeof(benchmarks[0]); i++) {
    if (argc > 1 && !strcmp(argv[1], benchmarks[i].name)) {
      const char *data = path("%s/%s", options.data, argv[1]);
      char directory[512];
      snprintf(directory, sizeof(directory), "%s", data);
      options.data = directory;
      begin_data(directory);
      benchmarks[i].run(&options);
      remove_tree(directory);
      return 0;
    }
  }
  die("which one?  See bench/README.md");
}
