/* SPDX-License-Identifier: MIT
**
** experiment.c -- measures the two findings and writes the results.
**
**   experiment EXTENSION DIRECTORY [OPTION VALUE] ...
**
**     --size full|quick    (full)
**     --seeds N            streams to average over (full: 5, quick: 1)
**
** Makes its databases in DIRECTORY/data, which must not exist, and leaves
** online.md, online.svg and online.tsv in DIRECTORY.  Independent jobs run in
** parallel, on all CPUs.
*/
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../lib/database.h"
#include "../../lib/team.h"
#include "report.h"
#include "ship.h"

static const struct settings FULL = {.users = 20000,
                                     .items = 5000,
                                     .train = 1000000,
                                     .test = 200000,
                                     .clicks_per_hour = 20000,
                                     .drift = 0.01,
                                     .seeds = 5,
                                     .many_users = 1000000,
                                     .many_items = 200000};
static const struct settings QUICK = {.users = 4000,
                                      .items = 1000,
                                      .train = 200000,
                                      .test = 40000,
                                      .clicks_per_hour = 4000,
                                      .drift = 0.01,
                                      .seeds = 1,
                                      .many_users = 200000,
                                      .many_items = 40000};

/* The jobs, in order: the large table, the syncs of all seeds, and the tables
** with and without collisions of all seeds, one job each. */
struct work {
  struct settings settings;
  struct findings findings;
  pthread_mutex_t mutex;
  size_t next; /* job; under mutex */
};

static void do_job(struct work *work, size_t job) {
  size_t seeds = work->settings.seeds;
  struct findings *findings = &work->findings;
  if (job == 0) {
    scale_run(&work->settings, &findings->scale);
  } else if (job <= seeds) {
    size_t seed = job - 1;
    sync_run(&work->settings, seed + 1, findings->sync[seed],
             &findings->sync_best[seed], &findings->all_keys[seed],
             &findings->all_bytes[seed]);
  } else {
    size_t seed = (job - 1 - seeds) / HASHED;
    int size = (int)((job - 1 - seeds) % HASHED);
    hashed_run(&work->settings, seed + 1, size, &findings->hashed[seed][size]);
  }
}

static void do_jobs(void *context, size_t member, size_t members) {
  struct work *work = context;
  size_t count = 1 + work->settings.seeds * (1 + HASHED);
  (void)member, (void)members;
  for (;;) {
    pthread_mutex_lock(&work->mutex);
    size_t job = work->next++;
    pthread_mutex_unlock(&work->mutex);
    if (job >= count) {
      return;
    }
    do_job(work, job);
  }
}

static void parse(struct settings *settings, int argc, char **argv) {
  if (argc < 3 || argc % 2 == 0) {
    die("usage: experiment EXTENSION DIRECTORY [OPTION VALUE] ...");
  }
  size_t seeds = 0;
  *settings = FULL;
  for (int i = 3; i < argc; i += 2) {
    const char *value = argv[i + 1];
    if (!strcmp(argv[i], "--size") &&
        (!strcmp(value, "full") || !strcmp(value, "quick"))) {
      *settings = *value == 'q' ? QUICK : FULL;
    } else if (!strcmp(argv[i], "--seeds") && atoi(value) > 0 &&
               atoi(value) <= SEEDS_MAX) {
      seeds = (size_t)atoi(value);
    } else {
      die("unknown option or value: %s %s", argv[i], value);
    }
  }
  settings->seeds = seeds ? seeds : settings->seeds;
  settings->extension = argv[1];
}

int main(int argc, char **argv) {
  struct work *work = need(1, sizeof(*work));
  struct team *team = team_new();
  parse(&work->settings, argc, argv);
  if (!team || pthread_mutex_init(&work->mutex, NULL)) {
    die("no threads");
  }
  char *data = sqlite3_mprintf("%s/data", argv[2]);
  ship_open(data);
  work->settings.directory = data;
  team_run(team, do_jobs, work);
  team_free(team);
  report_write(&work->settings, &work->findings, argv[2]);
  sqlite3_free(data);
  free(work);
  return 0;
}
