/* SPDX-License-Identifier: MIT
**
** replay.c -- replays the years through a pipeline.
**
**   replay DATABASE EXTENSION DIRECTORY --pipeline N [--OPTION VALUE] ...
**
** DATABASE has the entries and the pipelines (pipelines.sql), and is changed:
** each run has a copy, in DIRECTORY.  Options: --seed, --epochs, --from, the
** first year; --matrix yes to evaluate on all years the models that are there
*at
** the beginning of one.
**
** At the beginning of each quarter of a year the pipeline takes in what has
*come
** in the one before, and is asked whether to train; what comes in the next one
** is guessed by the model that there is then.  At the beginning of a year the
** model is evaluated on the entries of the whole year.  Nothing that decides or
** trains looks at an entry that is not yet there.
*/
#include <stdlib.h>
#include <string.h>

#include "../../lib/clock.h"
#include "../../lib/options.h"
#include "../../lib/random.h"
#include "../../neural/loss.h"
#include "classifier.h"
#include "driver.h"

enum { UNKNOWN = UINT32_MAX };

static const char *const NO_YES[] = {"no", "yes", NULL};

struct replay {
  sqlite3 *db;
  sqlite3_int64 pipeline, model; /* the newest; 0: none */
  char *task, *name, *samples;
  size_t classes, epochs, seed, matrix, warm;
  struct words words; /* of entry i, whose key is i + 1 */
  uint32_t *label;
  struct classifier classifier;
};

/* ---- what there is ----------------------------------------------------- */

/* Keys are 1, 2, 3 ...: an entry's number is its key less 1. */
static uint32_t number_of(const struct replay *replay, sqlite3_int64 key) {
  if (key < 1 || key > (sqlite3_int64)replay->words.count) {
    die("the keys of the entries are not 1, 2, 3 ...");
  }
  return (uint32_t)(key - 1);
}

static void read_entries(struct replay *replay) {
  words_read(&replay->words, replay->db, "SELECT text FROM entry ORDER BY key");
  replay->label = need(replay->words.count, sizeof(uint32_t));
  memset(replay->label, 0xff, replay->words.count * sizeof(uint32_t));
  sqlite3_stmt *statement = statement_new(replay->db, replay->samples);
  while (statement_step(statement)) {
    uint32_t label = (uint32_t)sqlite3_column_int64(statement, 2);
    replay->label[number_of(replay, sqlite3_column_int64(statement, 0))] =
        label;
    replay->classes = label >= replay->classes ? label + 1 : replay->classes;
  }
  sqlite3_finalize(statement);
}

/* The quarters from a year on, and the years to be evaluated on. */
static void make_calendar(struct replay *replay, size_t from) {
  database_run(
      replay->db,
      "CREATE TABLE quarter AS"
      " WITH q(begins) AS (SELECT '%d-01-01' UNION ALL"
      "   SELECT date(begins, '+3 months') FROM q"
      "    WHERE strftime('%%s', begins, '+3 months') + 0"
      "          <= (SELECT max(at) FROM entry))"
      " SELECT strftime('%%s', begins) + 0 AS begins,"
      "        strftime('%%s', begins, '+3 months') + 0 AS ends,"
      "        begins LIKE '%%-01-01' AS is_year FROM q;"
      "INSERT INTO evaluation_interval(pipeline, name, begins, ends)"
      " SELECT DISTINCT %lld, year, strftime('%%s', year || '-01-01') + 0,"
      "        strftime('%%s', (year + 1) || '-01-01') + 0"
      "   FROM entry WHERE year >= %d",
      (int)from, replay->pipeline, (int)from);
}

static char *column(sqlite3_stmt *statement, int number) {
  return sqlite3_mprintf("%s", sqlite3_column_text(statement, number));
}

static void set_pipeline(struct replay *replay) {
  database_run(replay->db, "UPDATE pipeline SET seed = %lld",
               (sqlite3_int64)replay->seed);
  sqlite3_stmt *statement =
      statement_new(replay->db, "SELECT task, combination, samples, warm"
                                " FROM pipeline WHERE pipeline = ?1");
  sqlite3_bind_int64(statement, 1, replay->pipeline);
  if (!statement_step(statement)) {
    die("there is no pipeline %lld", replay->pipeline);
  }
  replay->task = column(statement, 0);
  replay->name = column(statement, 1);
  replay->samples = column(statement, 2);
  replay->warm = (size_t)sqlite3_column_int64(statement, 3);
  sqlite3_finalize(statement);
}

/* ---- training ---------------------------------------------------------- */

/* What was selected; weights are made 1 on average. */
static struct example *read_selection(struct replay *replay, int64_t trigger,
                                      size_t count) {
  struct example *example = need(count, sizeof(*example));
  double sum = 0;
  sqlite3_stmt *statement = statement_new(
      replay->db, "SELECT sample_key, weight FROM selection"
                  " WHERE (pipeline, trigger) = (?1, ?2) ORDER BY place");
  sqlite3_bind_int64(statement, 1, replay->pipeline);
  sqlite3_bind_int64(statement, 2, trigger);
  for (size_t i = 0; i < count && statement_step(statement); i++) {
    example[i].entry = number_of(replay, sqlite3_column_int64(statement, 0));
    example[i].label = replay->label[example[i].entry];
    example[i].weight = (float)sqlite3_column_double(statement, 1);
    sum += example[i].weight;
  }
  sqlite3_finalize(statement);
  for (size_t i = 0; i < count; i++) {
    example[i].weight *= (float)((double)count / sum);
  }
  return example;
}

/* The entries that a SELECT gives, as numbers; how many. */
static size_t read_entry_list(struct replay *replay, uint32_t **entry,
                              sqlite3_int64 from, sqlite3_int64 to) {
  size_t count = 0;
  sqlite3_stmt *statement = statement_new(
      replay->db, "SELECT key FROM entry WHERE at >= ?1 AND at < ?2");
  sqlite3_bind_int64(statement, 1, from);
  sqlite3_bind_int64(statement, 2, to);
  *entry = need(replay->words.count, sizeof(uint32_t));
  while (statement_step(statement)) {
    uint32_t i = number_of(replay, sqlite3_column_int64(statement, 0));
    if (replay->label[i] != UNKNOWN) {
      (*entry)[count++] = i;
    }
  }
  sqlite3_finalize(statement);
  return count;
}

/* The newest model's loss on each sample that there is. */
static void score(struct replay *replay, sqlite3_int64 now) {
  uint32_t *entry;
  size_t count = read_entry_list(replay, &entry, INT64_MIN, now);
  float *probability = need(count * replay->classes, sizeof(float));
  classifier_predict(&replay->classifier, entry, count, probability);
  sqlite3_stmt *statement = statement_new(
      replay->db, "INSERT OR REPLACE INTO score(pipeline, sample_key, loss)"
                  " VALUES (?1, ?2, -ln(?3))");
  database_run(replay->db, "BEGIN");
  for (size_t i = 0; i < count; i++) {
    double p = probability[i * replay->classes + replay->label[entry[i]]];
    sqlite3_bind_int64(statement, 1, replay->pipeline);
    sqlite3_bind_int64(statement, 2, entry[i] + 1);
    sqlite3_bind_double(statement, 3, p > 1e-9 ? p : 1e-9);
    statement_step(statement);
    statement_end(statement);
  }
  database_run(replay->db, "COMMIT");
  sqlite3_finalize(statement);
  free(probability);
  free(entry);
}

static void train(struct replay *replay, int64_t trigger) {
  size_t count = (size_t)driver_select(replay->db, replay->pipeline, trigger);
  struct example *example = read_selection(replay, trigger, count);
  uint64_t random = replay->seed * 1000003 + (uint64_t)trigger;
  double begun = seconds();
  if (!replay->warm || replay->model == 0) {
    classifier_begin(&replay->classifier, &random);
  }
  classifier_train(&replay->classifier, example, count, replay->epochs,
                   &random);
  database_run(
      replay->db,
      "INSERT INTO trained_model(pipeline, trigger, parent, trained_at,"
      " samples, training_seconds) VALUES (%lld, %lld,"
      " nullif(%lld, 0), (julianday('now') - 2440587.5) * 86400, %lld,"
      " %.17g)",
      replay->pipeline, (sqlite3_int64)trigger,
      replay->warm ? replay->model : 0, (sqlite3_int64)count,
      seconds() - begun);
  replay->model = sqlite3_last_insert_rowid(replay->db);
  free(example);
}

/* ---- evaluation -------------------------------------------------------- */

/* The labels that the newest model guesses. */
static uint32_t *guess(struct replay *replay, const uint32_t *entry,
                       size_t count) {
  uint32_t *label = need(count, sizeof(uint32_t));
  float *probability = need(count * replay->classes, sizeof(float));
  classifier_predict(&replay->classifier, entry, count, probability);
  for (size_t i = 0; i < count; i++) {
    label[i] = loss_argmax(probability + i * replay->classes, replay->classes);
  }
  free(probability);
  return label;
}

/* Guesses what is to come, and keeps it. */
static void predict(struct replay *replay, sqlite3_int64 from,
                    sqlite3_int64 to) {
  uint32_t *entry;
  size_t count = read_entry_list(replay, &entry, from, to);
  uint32_t *label = guess(replay, entry, count);
  sqlite3_stmt *statement =
      statement_new(replay->db, "INSERT INTO prediction SELECT ?1, key, at, ?3,"
                                " ?4 FROM entry WHERE key = ?2");
  database_run(replay->db, "BEGIN");
  for (size_t i = 0; i < count; i++) {
    sqlite3_bind_int64(statement, 1, replay->pipeline);
    sqlite3_bind_int64(statement, 2, entry[i] + 1);
    sqlite3_bind_int64(statement, 3, replay->label[entry[i]]);
    sqlite3_bind_int64(statement, 4, label[i]);
    statement_step(statement);
    statement_end(statement);
  }
  database_run(replay->db, "COMMIT");
  sqlite3_finalize(statement);
  free(label);
  free(entry);
}

/* The newest model's accuracy on the entries of an interval. */
static void evaluate_on(struct replay *replay, sqlite3_int64 interval,
                        sqlite3_int64 from, sqlite3_int64 to) {
  uint32_t *entry;
  size_t count = read_entry_list(replay, &entry, from, to), right = 0;
  uint32_t *label = guess(replay, entry, count);
  for (size_t i = 0; i < count; i++) {
    right += label[i] == replay->label[entry[i]];
  }
  if (count > 0) {
    database_run(replay->db,
                 "INSERT OR IGNORE INTO evaluation"
                 " VALUES (%lld, %lld, 'accuracy', %.17g, %lld)",
                 replay->model, interval, (double)right / (double)count,
                 (sqlite3_int64)count);
  }
  free(label);
  free(entry);
}

/* On the year that begins now; with --matrix on all. */
static void evaluate(struct replay *replay, sqlite3_int64 now) {
  sqlite3_stmt *statement = statement_new(
      replay->db, "SELECT interval, begins, ends FROM evaluation_interval"
                  " WHERE pipeline = ?1 AND (begins = ?2 OR ?3)");
  sqlite3_bind_int64(statement, 1, replay->pipeline);
  sqlite3_bind_int64(statement, 2, now);
  sqlite3_bind_int64(statement, 3, (sqlite3_int64)replay->matrix);
  while (statement_step(statement)) {
    evaluate_on(replay, sqlite3_column_int64(statement, 0),
                sqlite3_column_int64(statement, 1),
                sqlite3_column_int64(statement, 2));
  }
  sqlite3_finalize(statement);
}

/* ---- the replay -------------------------------------------------------- */

static void quarter(struct replay *replay, sqlite3_int64 begins,
                    sqlite3_int64 ends, int is_year) {
  int64_t trigger = driver_ask(replay->db, replay->pipeline, begins);
  if (trigger >= 0) {
    if (replay->model && driver_wants_scores(replay->db, replay->pipeline)) {
      score(replay, begins);
    }
    train(replay, trigger);
  }
  if (!replay->model) {
    die("no entry is older than the first year");
  }
  if (is_year) {
    evaluate(replay, begins);
  }
  predict(replay, begins, ends);
}

/* What a SELECT gives: (what, value). */
static void print_all(struct replay *replay, const char *sql) {
  sqlite3_stmt *statement = statement_new(replay->db, sql);
  while (statement_step(statement)) {
    print_result(replay->task, replay->seed, replay->name,
                 (const char *)sqlite3_column_text(statement, 0),
                 sqlite3_column_double(statement, 1));
  }
  sqlite3_finalize(statement);
}

static void print_results(struct replay *replay) {
  print_all(replay, "SELECT 'trainings', count(*) FROM trigger UNION ALL"
                    " SELECT 'samples', sum(selected) FROM trigger UNION ALL"
                    " SELECT 'seconds', sum(training_seconds)"
                    "   FROM trained_model");
  print_all(replay,
            "WITH year AS ("
            "  SELECT name, value FROM evaluation"
            "    JOIN evaluation_matrix USING (model, interval) WHERE active)"
            " SELECT 'year ' || name, value FROM year UNION ALL"
            " SELECT 'years', avg(value) FROM year");
  print_all(replay, "WITH year AS ("
                    "  SELECT avg(label = prediction) AS value FROM prediction"
                    "   GROUP BY strftime('%Y', timestamp, 'unixepoch'))"
                    " SELECT 'quarters', avg(value) FROM year");
  print_all(replay,
            "WITH label AS ("
            "  SELECT label, 2.0 * sum(label = prediction)"
            "         / (count(*) + (SELECT count(*) FROM prediction AS q"
            "                         WHERE q.prediction = p.label)) AS f1"
            "    FROM prediction AS p GROUP BY label)"
            " SELECT 'f1', avg(f1) FROM label");
  if (replay->matrix) {
    print_all(replay,
              "SELECT strftime('%Y', until, 'unixepoch') || ' on ' || name,"
              "       value"
              "  FROM (SELECT name, value, (SELECT last_timestamp FROM trigger"
              "          JOIN trained_model USING (pipeline, trigger)"
              "         WHERE model = evaluation.model) AS until"
              "          FROM evaluation JOIN evaluation_interval"
              "         USING (interval)) ORDER BY 1");
  }
}

int main(int argc, char **argv) {
  struct options options;
  struct replay replay;
  size_t seed = 1, epochs = 4, from = 2002, pipeline = 1, matrix = 0;
  const struct option list[] = {
      {"pipeline", &pipeline, NULL}, {"seed", &seed, NULL},
      {"epochs", &epochs, NULL},     {"from", &from, NULL},
      {"matrix", &matrix, NO_YES},   {NULL, NULL, NULL},
  };
  options_parse(&options, list, argc, argv);
  memset(&replay, 0, sizeof(replay));
  block_one_thread();
  replay.db = database_open(options.graph, options.extension);
  replay.pipeline = (sqlite3_int64)pipeline;
  replay.epochs = epochs;
  replay.seed = seed;
  replay.matrix = matrix;
  database_run(replay.db,
               "PRAGMA foreign_keys = ON; PRAGMA synchronous = OFF; PRAGMA "
               "journal_mode = MEMORY; PRAGMA locking_mode = EXCLUSIVE");
  set_pipeline(&replay);
  read_entries(&replay);
  make_calendar(&replay, from);
  classifier_open(&replay.classifier, replay.db, &replay.words, replay.classes);
  sqlite3_stmt *statement = statement_new(
      replay.db, "SELECT begins, ends, is_year FROM quarter ORDER BY begins");
  while (statement_step(statement)) {
    quarter(&replay, sqlite3_column_int64(statement, 0),
            sqlite3_column_int64(statement, 1),
            sqlite3_column_int(statement, 2));
  }
  sqlite3_finalize(statement);
  print_results(&replay);
  print_progress("%s, %s, seed %zu", replay.task, replay.name, seed);
  classifier_close(&replay.classifier);
  database_run(replay.db, "DROP TABLE word");
  words_free(&replay.words);
  free(replay.label);
  sqlite3_free(replay.task);
  sqlite3_free(replay.name);
  sqlite3_free(replay.samples);
  database_close(replay.db);
  return 0;
}
