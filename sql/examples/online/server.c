/* SPDX-License-Identifier: MIT
**
** server.c -- serves from a copy of the model, and logs the clicks.
**
**   server EXTENSION DIRECTORY [OPTION VALUE] ...
**
**     --hours N     of the log, after which it ends (48)
**     --pace MS     least duration of an hour (500)
**
** Its visitors are generated (click.h).  It scores the items they see with
** the copy in DIRECTORY/server.db, writes the requests, and later the clicks,
** to DIRECTORY/log.db, and applies the files that the trainer has put into
** DIRECTORY/spool.  If it is killed and started again, it continues where its
** log ends.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "arrivals.h"
#include "auc.h"
#include "fold.h"
#include "log.h"
#include "ship.h"

enum {
  CLICKS_PER_HOUR = 4000,
  STEPS = 10, /* per hour; after each, it looks for new files */
  STEP = CLICKS_PER_HOUR / STEPS,
  HOUR = 3600, /* of the log's clock */
};

struct server {
  sqlite3_int64 hours, pace_ms;
  char *spool;
  struct log log;
  struct model model;
  struct stream *stream;
  struct fold fold;
  struct batch batch;
  struct arrivals arrivals;
  struct outcome outcomes[CLICKS_PER_HOUR], truths[CLICKS_PER_HOUR];
  size_t count;             /* of outcomes and truths */
  struct shipment received; /* in this hour */
};

static void open_all(struct server *server, const char *extension,
                     const char *directory) {
  static const struct stream_options options = {.seed = 1,
                                                .users = 4000,
                                                .items = 1000,
                                                .drift = 0.01,
                                                .clicks_per_hour =
                                                    CLICKS_PER_HOUR};
  char *log = sqlite3_mprintf("%s/log.db", directory);
  char *db = sqlite3_mprintf("%s/server.db", directory);
  server->spool = sqlite3_mprintf("%s/spool", directory);
  ship_open(server->spool);
  log_open(&server->log, log);
  model_open(&server->model, db, extension, SERVES, FOR_GOOD, 1);
  sqlite3_free(log);
  sqlite3_free(db);
  server->stream = stream_new(&options);
  fold_make(&server->fold, &options, (size_t[FIELDS]){0, 0});
}

static void close_all(struct server *server) {
  model_close(&server->model);
  log_close(&server->log);
  stream_free(server->stream);
  fold_free(&server->fold);
  free(server->arrivals.list);
  sqlite3_free(server->spool);
}

static void receive(struct server *server) {
  for (int f = 0; f < FIELDS; f++) {
    struct shipment one = ship_apply(server->model.db, FIELD[f], server->spool);
    server->received.rows += one.rows;
    server->received.bytes += one.bytes;
  }
  if (ship_apply_dense(server->model.db, server->spool)) {
    model_load_dense(&server->model);
  }
}

/* The second at which a request is shown. */
static sqlite3_int64 second(sqlite3_int64 request) {
  return request * HOUR / CLICKS_PER_HOUR;
}

/* Adds the clicks of a step's requests.  Returns how many clicks arrive by the
** end of the step. */
static size_t send_clicks(struct server *server, const struct click *clicks,
                          sqlite3_int64 done) {
  for (int i = 0; i < STEP; i++) {
    if (clicks[i].clicked) {
      arrivals_add(&server->arrivals, done + i + 1, second(done + i + 1));
    }
  }
  return arrivals_due(&server->arrivals, second(done + STEP));
}

static void log_clicks(struct server *server, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const struct arrival *arrival = &server->arrivals.list[i];
    log_append(&server->log, arrival->request, arrival->clicked, NULL);
  }
  arrivals_take(&server->arrivals, count);
}

/* Shows one batch. */
static void show(struct server *server, const struct click *clicks,
                 sqlite3_int64 done) {
  float score[BATCH];
  const struct batch *batch = &server->batch;
  model_score(&server->model, batch, score);
  for (size_t i = 0; i < batch->count; i++) {
    struct features features = {.place = batch->place[i]};
    sqlite3_int64 request = done + (sqlite3_int64)i + 1;
    for (int f = 0; f < FIELDS; f++) {
      features.keys[f] = batch->keys[f][i];
    }
    log_append(&server->log, request, second(request), &features);
    server->outcomes[server->count] =
        (struct outcome){score[i], clicks[i].clicked};
    server->truths[server->count++] =
        (struct outcome){clicks[i].truth, clicks[i].clicked};
  }
}

static void serve(struct server *server, const struct click *clicks,
                  sqlite3_int64 done) {
  database_run(server->log.db, "BEGIN IMMEDIATE");
  for (size_t i = 0; i < STEP; i += server->batch.count) {
    size_t left = STEP - i;
    fold_batch(&server->fold, clicks + i, left < BATCH ? left : BATCH,
               &server->batch);
    show(server, clicks + i, done + (sqlite3_int64)i);
  }
  log_clicks(server, send_clicks(server, clicks, done));
  database_run(server->log.db, "COMMIT");
}

/* All remaining clicks arrive, and the log's time passes the end of all
** windows. */
static void end(struct server *server, sqlite3_int64 done) {
  if (database_number(server->log.db, "SELECT count(*) FROM ended")) {
    return;
  }
  database_run(server->log.db, "BEGIN IMMEDIATE");
  log_clicks(server, arrivals_due(&server->arrivals, INT64_MAX));
  log_append(&server->log, 0, second(done) + HOUR, NULL);
  database_run(server->log.db, "INSERT INTO ended VALUES(%lld); COMMIT", done);
}

static void tell(struct server *server, sqlite3_int64 done) {
  printf("server   hour %5.1f   AUC %.3f of %.3f, received %6lld rows,"
         " %6.0f kB\n",
         (double)done / CLICKS_PER_HOUR, auc(server->outcomes, server->count),
         auc(server->truths, server->count), server->received.rows,
         (double)server->received.bytes / 1000);
  fflush(stdout);
  server->count = 0;
  server->received = (struct shipment){0, 0};
}

static void work(struct server *server) {
  struct click clicks[STEP];
  sqlite3_int64 all = server->hours * CLICKS_PER_HOUR;
  sqlite3_int64 done = log_last_request(&server->log);
  struct timespec pause = {server->pace_ms / STEPS / 1000,
                           server->pace_ms / STEPS % 1000 * 1000000};
  for (sqlite3_int64 i = 0; i < done; i += STEP) {
    stream_take(server->stream, clicks, STEP);
    arrivals_take(&server->arrivals, send_clicks(server, clicks, i));
  }
  receive(server);
  while (done < all) {
    stream_take(server->stream, clicks, STEP);
    serve(server, clicks, done);
    done += STEP;
    nanosleep(&pause, NULL);
    receive(server);
    if (done % CLICKS_PER_HOUR == 0) {
      tell(server, done);
    }
  }
  end(server, done);
}

int main(int argc, char **argv) {
  struct server *server = need(1, sizeof(*server));
  server->hours = 48;
  server->pace_ms = 500;
  if (argc < 3 || argc % 2 == 0) {
    die("usage: server EXTENSION DIRECTORY [--hours N] [--pace MS]");
  }
  for (int i = 3; i < argc; i += 2) {
    int value = atoi(argv[i + 1]);
    if (!strcmp(argv[i], "--hours") && value > 0) {
      server->hours = value;
    } else if (!strcmp(argv[i], "--pace") && value >= 0) {
      server->pace_ms = value;
    } else {
      die("unknown option or value: %s %s", argv[i], argv[i + 1]);
    }
  }
  open_all(server, argv[1], argv[2]);
  work(server);
  close_all(server);
  free(server);
  return 0;
}
