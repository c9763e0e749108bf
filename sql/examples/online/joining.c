/* SPDX-License-Identifier: MIT
**
** joining.c -- how many events per second become training examples.
**
**   joining EXTENSION DIRECTORY [OPTION VALUE] ...
**
**     --requests N    (2000000)
**     --memory MB     of the joiner (64)
**     --window N      of an action, as a number of requests (500000)
**     --share R       of the negatives (0.1)
**     --call N        events that a call reads (20000)
**
** Fills DIRECTORY/events.db with a log: at each moment a request with 64
** bytes of features, and for each fourth request an action, on average a
** fifth of the window later.  Then it reads the log as a trainer does: it
** calls emb_join, reads the examples with their features, removes them, and
** commits.  Only this second part is measured.
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../lib/clock.h"
#include "../../lib/database.h"
#include "../../lib/random.h"
#include "click.h"

enum { FEATURES = 64, ACTION_EVERY = 4, COMMIT_EVERY = 1000000 };

struct event {
  double arrives;
  uint32_t request; /* number */
  uint32_t time;
  int is_action;
};

struct setting {
  const char *name;
  double value;
};

enum { REQUESTS, MEMORY, WINDOW, SHARE, CALL, SETTINGS };

static int by_arrival(const void *left, const void *right) {
  const struct event *a = left, *b = right;
  return (a->arrives > b->arrives) - (a->arrives < b->arrives);
}

/* All actions come before the end of their window: none is late. */
static size_t draw_events(struct event *events, uint32_t requests,
                          double window) {
  uint64_t random = 1;
  size_t n = 0;
  for (uint32_t i = 0; i < requests; i++) {
    events[n++] = (struct event){i, i, i, 0};
    if (random_below(&random, ACTION_EVERY) == 0) {
      double delay = -log(1 - random_unit(&random)) * window / 5;
      double time = i + (delay < window ? delay : window);
      events[n++] = (struct event){time + 0.5, i, (uint32_t)time, 1};
    }
  }
  qsort(events, n, sizeof(*events), by_arrival);
  return n;
}

static void fill(sqlite3 *db, const struct event *events, size_t n) {
  char features[FEATURES];
  memset(features, 'f', sizeof(features));
  database_run(db, "CREATE TABLE log(id INTEGER PRIMARY KEY, request, time,"
                   " kind, features); BEGIN");
  sqlite3_stmt *add =
      statement_new(db, "INSERT INTO log VALUES(?1, ?2, ?3, ?4, ?5)");
  for (size_t i = 0; i < n; i++) {
    sqlite3_bind_int64(add, 1, (sqlite3_int64)i);
    sqlite3_bind_int64(add, 2, click_key(events[i].request));
    sqlite3_bind_int64(add, 3, events[i].time);
    if (events[i].is_action) {
      sqlite3_bind_text(add, 4, "click", -1, SQLITE_STATIC);
    } else {
      memcpy(features, &events[i].request, sizeof(events[i].request));
      sqlite3_bind_blob(add, 5, features, FEATURES, SQLITE_STATIC);
    }
    statement_step(add);
    statement_end(add);
    if (i % COMMIT_EVERY == COMMIT_EVERY - 1) {
      database_run(db, "COMMIT; BEGIN");
    }
  }
  sqlite3_finalize(add);
  database_run(db, "COMMIT");
}

static void make_joiner(sqlite3 *db, const struct setting *settings) {
  database_run(db, "SELECT emb_join_create('clicks')");
  database_run(db, "INSERT INTO clicks_kinds(kind, window) VALUES('click', %d)",
               (int)settings[WINDOW].value);
  database_run(db, "INSERT INTO clicks_sources(source) VALUES('log')");
  database_run(db,
               "UPDATE clicks_options SET share = %f, remember = 0,"
               " memory = %lld",
               settings[SHARE].value,
               (sqlite3_int64)(settings[MEMORY].value * (1 << 20)));
}

/* 0 if there was nothing new. */
static int take(sqlite3 *db, sqlite3_stmt *join, double *examples) {
  sqlite3_int64 before =
      database_number(db, "SELECT position FROM clicks_sources");
  database_run(db, "BEGIN IMMEDIATE");
  while (statement_step(join)) {
    *examples += sqlite3_column_bytes(join, 0) == FEATURES;
  }
  statement_end(join);
  database_run(db, "DELETE FROM clicks_examples; COMMIT");
  return database_number(db, "SELECT position FROM clicks_sources") > before;
}

static void measure(sqlite3 *db, size_t events, int call) {
  char *sql = sqlite3_mprintf(
      "SELECT features, label, weight FROM emb_join('clicks', 'log',"
      " 'SELECT id, request, time, kind, features FROM log"
      " WHERE id > ?1 ORDER BY id LIMIT %d')",
      call);
  sqlite3_stmt *join = statement_new(db, sql);
  sqlite3_int64 waiting = 0, now;
  double examples = 0, start = seconds(), used = processor_seconds(), took;
  while (take(db, join, &examples)) {
    now = database_number(db, "SELECT waiting FROM clicks_counts");
    waiting = waiting < now ? now : waiting;
  }
  took = seconds() - start;
  used = processor_seconds() - used;
  sqlite3_finalize(join);
  sqlite3_free(sql);
  printf("%zu events in %.2f s (%.2f s of a processor): %.0f a second\n"
         "%.0f examples; at most %lld waited; %lld were spilled\n",
         events, took, used, (double)events / took, examples, waiting,
         database_number(db, "SELECT spilled FROM clicks_counts"));
}

static void parse(struct setting *settings, int argc, char **argv) {
  if (argc < 3 || argc % 2 == 0) {
    die("usage: joining EXTENSION DIRECTORY [--requests N] [--memory MB]"
        " [--window N] [--share R] [--call N]");
  }
  for (int i = 3; i < argc; i += 2) {
    int s = 0;
    while (s < SETTINGS && strcmp(argv[i], settings[s].name) != 0) {
      s++;
    }
    if (s == SETTINGS || atof(argv[i + 1]) <= 0) {
      die("unknown option or value: %s %s", argv[i], argv[i + 1]);
    }
    settings[s].value = atof(argv[i + 1]);
  }
}

int main(int argc, char **argv) {
  struct setting settings[SETTINGS] = {[REQUESTS] = {"--requests", 2e6},
                                       [MEMORY] = {"--memory", 64},
                                       [WINDOW] = {"--window", 5e5},
                                       [SHARE] = {"--share", 0.1},
                                       [CALL] = {"--call", 20000}};
  parse(settings, argc, argv);
  uint32_t requests = (uint32_t)settings[REQUESTS].value;
  struct event *events = need(2 * (size_t)requests, sizeof(*events));
  size_t n = draw_events(events, requests, settings[WINDOW].value);
  char *file = sqlite3_mprintf("%s/events.db", argv[2]);
  sqlite3 *db = database_open(file, argv[1]);
  database_run(db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
                   "PRAGMA cache_size = -65536");
  fill(db, events, n);
  free(events);
  make_joiner(db, settings);
  measure(db, n, (int)settings[CALL].value);
  database_close(db);
  sqlite3_free(file);
  return 0;
}
