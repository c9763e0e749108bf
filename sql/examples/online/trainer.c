/* SPDX-License-Identifier: MIT
**
** trainer.c -- trains on requests and clicks, and ships the changes.
**
**   trainer EXTENSION DIRECTORY [OPTION VALUE] ...
**
**     --sync HOURS    between two deltas of the rows, by the log's clock (0.5)
**     --dense HOURS   the same for the dense part (24)
**
** Reads DIRECTORY/log.db, keeps its model and its joiner in
** DIRECTORY/trainer.db, and puts files for the server into DIRECTORY/spool.
** Ends when the log ends.
**
** A transaction covers the events, which emb_join turns into examples, the
** rows with their optimizer's state, the dense part, and the number of the
** last example trained on.  So a trainer that is killed and started again
** continues where it was, and its model becomes the same, bit for bit.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "arrivals.h"
#include "log.h"
#include "ship.h"

enum { EVENTS = 4096, POLL_MS = 20 }; /* most events per call */

/* Half of the requests without a click are trained on, with double weight. */
static const double SHARE = 0.5;

struct trainer {
  double sync_every, dense_every; /* hours */
  char *spool;
  struct log log;
  struct model model;
  sqlite3_stmt *join, *read;
  struct batch batch;
  float score[BATCH];
  sqlite3_int64 example; /* the last one trained on */
  double hour;           /* of the newest event */
};

static void make_joiner(sqlite3 *db) {
  if (database_number(
          db,
          "SELECT count(*) FROM sqlite_schema WHERE name = 'clicks_counts'")) {
    return;
  }
  database_run(db,
               "BEGIN; SELECT emb_join_create('clicks');"
               "INSERT INTO clicks_kinds(kind, window) VALUES('click', %d);"
               "INSERT INTO clicks_sources(source) VALUES('server');"
               "UPDATE clicks_options SET share = %!.15g, late = 'correct';"
               "COMMIT",
               CLICK_WINDOW, SHARE);
}

/* The trainer's database: the model, the joiner, and the attached log. */
static void open_database(struct trainer *trainer, const char *log) {
  sqlite3 *db = trainer->model.db;
  char *join = sqlite3_mprintf(
      "SELECT count(*) FROM emb_join('clicks', 'server',"
      " 'SELECT id, request, time, kind, features FROM log.event"
      " WHERE id > ?1 ORDER BY id LIMIT %d')",
      EVENTS);
  database_run(db, "ATTACH %Q AS log", log);
  database_run(db,
               "CREATE TABLE IF NOT EXISTS progress(name PRIMARY KEY, value);"
               "INSERT OR IGNORE INTO progress"
               " VALUES('example', 0), ('rows', NULL), ('dense', NULL)");
  make_joiner(db);
  trainer->example =
      database_number(db, "SELECT value FROM progress WHERE name = 'example'");
  trainer->join = statement_new(db, join);
  trainer->read = statement_new(
      db, "SELECT features, label, weight, number FROM clicks_examples"
          " WHERE number > ?1 ORDER BY number LIMIT ?2");
  sqlite3_free(join);
}

static void open_all(struct trainer *trainer, const char *extension,
                     const char *directory) {
  char *log = sqlite3_mprintf("%s/log.db", directory);
  char *db = sqlite3_mprintf("%s/trainer.db", directory);
  trainer->spool = sqlite3_mprintf("%s/spool", directory);
  ship_open(trainer->spool);
  log_open(&trainer->log, log);
  model_open(&trainer->model, db, extension, TRAINS, FOR_GOOD, 1);
  open_database(trainer, log);
  sqlite3_free(log);
  sqlite3_free(db);
}

static void close_all(struct trainer *trainer) {
  sqlite3_finalize(trainer->join);
  sqlite3_finalize(trainer->read);
  model_close(&trainer->model);
  log_close(&trainer->log);
  sqlite3_free(trainer->spool);
}

static void set_progress(struct trainer *trainer, const char *name,
                         double value) {
  database_run(trainer->model.db,
               "UPDATE progress SET value = %!.15g WHERE name = %Q", value,
               name);
}

/* 1 if `every` hours have passed since `name` was set, or it never was. */
static int is_due(struct trainer *trainer, const char *name, double every) {
  return (int)database_number(
      trainer->model.db,
      "SELECT value IS NULL OR value + %!.15g <= %!.15g FROM progress"
      " WHERE name = %Q",
      every, trainer->hour, name);
}

static void ship_rows(struct trainer *trainer) {
  struct shipment all = {0, 0};
  for (int f = 0; f < FIELDS; f++) {
    struct shipment one =
        ship_export(trainer->model.db, FIELD[f], trainer->spool);
    all.rows += one.rows;
    all.bytes += one.bytes;
  }
  set_progress(trainer, "rows", trainer->hour);
  printf("trainer  hour %5.1f   sent %6lld rows, %6.0f kB\n", trainer->hour,
         all.rows, (double)all.bytes / 1000);
  fflush(stdout);
}

static void ship_dense(struct trainer *trainer) {
  ship_export_dense(trainer->model.db, trainer->spool);
  set_progress(trainer, "dense", trainer->hour);
}

/* The examples after the last one, at most BATCH. */
static void read_examples(struct trainer *trainer) {
  struct batch *batch = &trainer->batch;
  size_t n = 0;
  sqlite3_bind_int64(trainer->read, 1, trainer->example);
  sqlite3_bind_int(trainer->read, 2, BATCH);
  while (statement_step(trainer->read)) {
    struct features features;
    if (sqlite3_column_bytes(trainer->read, 0) != sizeof(features)) {
      die("an example has no features");
    }
    memcpy(&features, sqlite3_column_blob(trainer->read, 0), sizeof(features));
    if (features.place < 0 || features.place >= PLACES) {
      die("an example has no place %lld", (long long)features.place);
    }
    for (int f = 0; f < FIELDS; f++) {
      batch->keys[f][n] = features.keys[f];
    }
    batch->place[n] = (uint8_t)features.place;
    batch->clicked[n] = sqlite3_column_double(trainer->read, 1) > 0;
    batch->weight[n++] = (float)sqlite3_column_double(trainer->read, 2);
  }
  batch->count = n;
  statement_end(trainer->read);
}

/* The numbers of examples have no gaps. */
static int train_examples(struct trainer *trainer, int last) {
  sqlite3_int64 before = trainer->example;
  for (;;) {
    read_examples(trainer);
    if (!trainer->batch.count || (trainer->batch.count < BATCH && !last)) {
      return trainer->example > before;
    }
    model_train(&trainer->model, &trainer->batch, trainer->score);
    trainer->example += (sqlite3_int64)trainer->batch.count;
  }
}

/* Trains on new events of the log; 0 if there are too few.  Joins EVENTS
** events per call and trains on full batches; only the last ones may be
** smaller.  So the model does not depend on when the trainer polls. */
static int train(struct trainer *trainer, int ended) {
  sqlite3 *db = trainer->model.db;
  sqlite3_int64 there = database_number(
      db, "SELECT (SELECT max(id) FROM log.event) - max(position, 0)"
          " FROM clicks_sources");
  if (there < EVENTS && !(ended && there > 0)) {
    return 0;
  }
  database_run(db, "BEGIN IMMEDIATE");
  statement_step(trainer->join);
  statement_end(trainer->join);
  trainer->hour =
      (double)database_number(db, "SELECT time FROM clicks_sources") / 3600;
  if (train_examples(trainer, ended && there <= EVENTS)) {
    model_save_dense(&trainer->model);
    set_progress(trainer, "example", (double)trainer->example);
    database_run(db, "DELETE FROM clicks_examples WHERE number <= %lld",
                 trainer->example);
  }
  database_run(db, "COMMIT");
  return 1;
}

static void work(struct trainer *trainer) {
  struct timespec pause = {0, POLL_MS * 1000000L};
  for (;;) {
    /* Checked first, so that all events before the end are read afterwards. */
    int ended =
        database_number(trainer->log.db, "SELECT count(*) FROM ended") > 0;
    int trained = train(trainer, ended);
    int last = ended && !trained;
    if (last || (trained && is_due(trainer, "dense", trainer->dense_every))) {
      ship_dense(trainer);
    }
    if (last || (trained && is_due(trainer, "rows", trainer->sync_every))) {
      ship_rows(trainer);
    }
    if (last) {
      return;
    }
    if (!trained) {
      nanosleep(&pause, NULL);
    }
  }
}

int main(int argc, char **argv) {
  struct trainer *trainer = need(1, sizeof(*trainer));
  trainer->sync_every = 0.5;
  trainer->dense_every = 24;
  if (argc < 3 || argc % 2 == 0) {
    die("usage: trainer EXTENSION DIRECTORY [--sync HOURS] [--dense HOURS]");
  }
  for (int i = 3; i < argc; i += 2) {
    double value = atof(argv[i + 1]);
    if (!strcmp(argv[i], "--sync") && value > 0) {
      trainer->sync_every = value;
    } else if (!strcmp(argv[i], "--dense") && value > 0) {
      trainer->dense_every = value;
    } else {
      die("unknown option or value: %s %s", argv[i], argv[i + 1]);
    }
  }
  open_all(trainer, argv[1], argv[2]);
  work(trainer);
  close_all(trainer);
  free(trainer);
  return 0;
}
