/* SPDX-License-Identifier: MIT
**
** trainer.c -- trains on the log of clicks and ships what changed.
**
**   trainer EXTENSION DIRECTORY [OPTION VALUE] ...
**
**     --sync HOURS    between two deltas of the rows, by the log's clock (0.5)
**     --dense HOURS   the same of the dense part (24)
**
** Reads DIRECTORY/log.db, keeps its model in DIRECTORY/trainer.db, and puts
** files for the server into DIRECTORY/spool.  Ends when the log has.
**
** A transaction takes in rows, their optimizer's state, the dense part, and how
** much of the log they have seen.  So a trainer that was killed goes on where
** it was when it is started again, and its model becomes the same, bit by bit.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "log.h"
#include "ship.h"

enum { BATCHES = 16, POLL_MS = 20 }; /* batches of a transaction, at most */

struct trainer {
  double sync_every, dense_every; /* hours */
  char *spool;
  struct log log;
  struct model model;
  struct batch batch;
  float score[BATCH];
  sqlite3_int64 clicks; /* trained on */
  double hour;          /* of the last of them */
};

static void open_all(struct trainer *trainer, const char *extension,
                     const char *directory) {
  char *log = sqlite3_mprintf("%s/log.db", directory);
  char *db = sqlite3_mprintf("%s/trainer.db", directory);
  trainer->spool = sqlite3_mprintf("%s/spool", directory);
  ship_open(trainer->spool);
  log_open(&trainer->log, log);
  model_open(&trainer->model, db, extension, TRAINS, FOR_GOOD, 1);
  sqlite3_free(log);
  sqlite3_free(db);
  database_run(trainer->model.db,
               "CREATE TABLE IF NOT EXISTS progress(name PRIMARY KEY, value);"
               "INSERT OR IGNORE INTO progress"
               " VALUES('clicks', 0), ('rows', NULL), ('dense', NULL)");
  trainer->clicks = database_number(
      trainer->model.db, "SELECT value FROM progress WHERE name = 'clicks'");
}

static void close_all(struct trainer *trainer) {
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

/* 1 when `every` hours have passed since `name` was last set, if ever. */
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

/* Trains on what the log has; 0 when there is nothing new.  A batch is trained
** on when it is full, or the last one: so what becomes of the model does not
** depend on when the trainer looks. */
static int train(struct trainer *trainer, int ended) {
  sqlite3_int64 before = trainer->clicks;
  database_run(trainer->model.db, "BEGIN IMMEDIATE");
  for (int i = 0; i < BATCHES; i++) {
    log_read(&trainer->log, trainer->clicks, &trainer->batch, &trainer->hour);
    if (!trainer->batch.count || (trainer->batch.count < BATCH && !ended)) {
      break;
    }
    model_train(&trainer->model, &trainer->batch, trainer->score);
    trainer->clicks += (sqlite3_int64)trainer->batch.count;
  }
  if (trainer->clicks > before) {
    model_save_dense(&trainer->model);
    set_progress(trainer, "clicks", (double)trainer->clicks);
  }
  database_run(trainer->model.db, "COMMIT");
  return trainer->clicks > before;
}

static void work(struct trainer *trainer) {
  struct timespec pause = {0, POLL_MS * 1000000L};
  for (;;) {
    /* Asked first: what came before the end is read after this. */
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
