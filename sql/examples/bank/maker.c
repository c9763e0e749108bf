/* SPDX-License-Identifier: MIT
**
** maker.c -- a knowledge maker; see maker.h.
*/
#include "maker.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../lib/neural/loss.h"

enum { AT_ONCE = 512 };

/* Weight of the newest prediction. */
static const float NEWEST = 0.4f;

const char *const KNOWLEDGE[] = {"embeddings", "beliefs", NULL};

extern char **environ;

size_t bank_width(enum knowledge knowledge) {
  return knowledge == EMBEDDINGS ? (size_t)EMBEDDING : (size_t)CLASSES;
}

sqlite3 *bank_open(const struct options *options) {
  char *file = sqlite3_mprintf("%s/bank.db", options->directory);
  sqlite3 *db = database_open(file, options->extension);
  /* The next run rebuilds what a power failure destroys. */
  database_run(db, "PRAGMA synchronous = OFF");
  sqlite3_free(file);
  return db;
}

sqlite3 *bank_make(const struct options *options, enum knowledge knowledge) {
  sqlite3 *db = bank_open(options);
  database_run(db,
               "PRAGMA journal_mode = WAL;"
               "CREATE VIRTUAL TABLE bank USING emb(synset INTEGER PRIMARY KEY,"
               " knowledge FLOAT[%d] metric=cosine, memory='64MiB');"
               "CREATE TABLE control(only INTEGER PRIMARY KEY CHECK (only = 1),"
               " work INTEGER);"
               "INSERT INTO control VALUES (1, %d)",
               (int)bank_width(knowledge), WORK);
  checkpoint_make(db);
  return db;
}

void maker_new(struct maker *maker, sqlite3 *db, enum knowledge knowledge,
               const struct data *data, struct model *model) {
  maker->knowledge = knowledge;
  maker->data = data;
  maker->model = model;
  table_open(&maker->bank, db, "bank", bank_width(knowledge));
  maker->keys = need(AT_ONCE, sizeof(int64_t));
}

void maker_free(struct maker *maker) {
  table_close(&maker->bank);
  free(maker->keys);
}

/* Blends probabilities into the running mean of the earlier ones. */
static void blend(struct maker *maker, float *now, size_t count) {
  const uint8_t *found;
  const float *then = table_find(&maker->bank, maker->keys, count, &found);
  for (size_t i = 0; i < count * CLASSES; i++) {
    if (found[i / CLASSES]) {
      now[i] = then[i] + NEWEST * (now[i] - then[i]);
    }
  }
  table_find_end(&maker->bank);
}

void maker_refresh(struct maker *maker, const uint32_t *nodes, size_t count) {
  for (size_t first = 0; first < count; first += AT_ONCE) {
    size_t n = count - first < AT_ONCE ? count - first : AT_ONCE;
    data_keys(maker->data, nodes + first, n, maker->keys);
    const float *rows =
        model_embed(maker->model, maker->data, nodes + first, n);
    if (maker->knowledge == BELIEFS) {
      float *logits = model_logits(maker->model, rows, n);
      loss_softmax(logits, n, CLASSES);
      blend(maker, logits, n);
      rows = logits;
    }
    table_put(&maker->bank, maker->keys, n, rows);
  }
}

/* ---- one in a process of its own ----------------------------------------- */

/* The program `maker` is in the same directory as this one. */
pid_t maker_start(const struct options *options, enum knowledge knowledge) {
  char own[4096];
  ssize_t length = readlink("/proc/self/exe", own, sizeof(own) - 1);
  if (length < 0) {
    die("/proc/self/exe: %s", strerror(errno));
  }
  own[length] = 0;
  *strrchr(own, '/') = 0;
  char *program = sqlite3_mprintf("%s/maker", own);
  char *arguments[] = {program,
                       (char *)options->graph,
                       (char *)options->extension,
                       (char *)options->directory,
                       "--knowledge",
                       (char *)KNOWLEDGE[knowledge],
                       NULL};
  pid_t maker;
  int rc = posix_spawn(&maker, program, NULL, NULL, arguments, environ);
  if (rc) {
    die("%s: %s", program, strerror(rc));
  }
  sqlite3_free(program);
  return maker;
}

void maker_wait(sqlite3 *db, size_t rows) {
  struct timespec rest = {0, 20000000};
  while ((size_t)database_number(db, "SELECT count(*) FROM bank") < rows) {
    if (waitpid(-1, NULL, WNOHANG) != 0) {
      die("the knowledge maker has ended");
    }
    nanosleep(&rest, NULL);
  }
}

void maker_order(sqlite3 *db, enum order order) {
  database_run(db, "UPDATE control SET work = %d", order);
}

void maker_end(sqlite3 *db, pid_t maker) {
  int status;
  maker_order(db, END);
  if (waitpid(maker, &status, 0) != maker || status) {
    die("the knowledge maker has failed");
  }
}
