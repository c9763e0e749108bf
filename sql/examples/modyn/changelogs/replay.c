/* SPDX-License-Identifier: MIT
**
** replay.c -- replays the years through a pipeline.
**
**   replay DATABASE EXTENSION DIRECTORY --pipeline N [--OPTION VALUE] ...
**
** DATABASE has the entries and the pipelines (pipelines.sql), and is changed,
** so each run has a copy, in DIRECTORY.  Options: --seed; --from, the first
** year to evaluate on; --matrix yes to evaluate each model that was the
** newest at the beginning of a year on all years.
**
** Every two weeks the pipeline reads the new entries and decides whether to
** train (emb_pipeline_run); then the current model predicts the labels of the
** next two weeks.  A model is evaluated on a year if it is the newest that
** has seen nothing of that year.  Decisions and training never use future
** entries.
*/
#include <stdlib.h>
#include <string.h>

#include "../../../lib/clock.h"
#include "../../../lib/options.h"
#include "../../../lib/random.h"
#include "../../../lib/neural/loss.h"
#include "classifier.h"

enum { UNKNOWN = UINT32_MAX };

/* A training makes EPOCHS passes over its samples, and more if they are few:
** enough to see SEEN samples. */
enum { EPOCHS = 4, SEEN = 8000 };

static const char *const NO_YES[] = {"no", "yes", NULL};

struct replay {
  sqlite3 *db;
  sqlite3_int64 pipeline, model; /* the newest; 0: none */
  char *task, *name, *samples;
  size_t classes, seed, from, matrix, warm, scored;
  struct words words; /* of entry i, whose key is i + 1 */
  uint32_t *label;
  struct classifier classifier;
};

/* ---- the replayed data --------------------------------------------------- */

static void set_clock(struct replay *replay, sqlite3_int64 now) {
  database_run(replay->db, "UPDATE clock SET now = %lld", now);
}

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
  set_clock(replay, INT64_MAX);
  sqlite3_stmt *statement = statement_new(replay->db, replay->samples);
  while (statement_step(statement)) {
    uint32_t label = (uint32_t)sqlite3_column_int64(statement, 2);
    replay->label[number_of(replay, sqlite3_column_int64(statement, 0))] =
        label;
    replay->classes = label >= replay->classes ? label + 1 : replay->classes;
  }
  sqlite3_finalize(statement);
}

/* The years to evaluate on. */
static void make_intervals(struct replay *replay) {
  database_run(
      replay->db,
      "INSERT INTO modyn_evaluation_interval(pipeline, name, begins, ends)"
      " SELECT DISTINCT %lld, year, strftime('%%s', year || '-01-01') + 0,"
      "        strftime('%%s', (year + 1) || '-01-01') + 0"
      "   FROM entry WHERE year >= %d",
      replay->pipeline, (int)replay->from);
}

static char *column(sqlite3_stmt *statement, int number) {
  return sqlite3_mprintf("%s", sqlite3_column_text(statement, number));
}

static void set_pipeline(struct replay *replay) {
  database_run(replay->db, "UPDATE modyn_pipeline SET seed = %lld",
               (sqlite3_int64)replay->seed);
  sqlite3_stmt *statement =
      statement_new(replay->db, "SELECT task, combination, samples, warm,"
                                " json_type(selection_policy, '$.downsampling')"
                                " IS NOT NULL"
                                " FROM modyn_pipeline WHERE pipeline = ?1");
  sqlite3_bind_int64(statement, 1, replay->pipeline);
  if (!statement_step(statement)) {
    die("there is no pipeline %lld", replay->pipeline);
  }
  replay->task = column(statement, 0);
  replay->name = column(statement, 1);
  replay->samples = column(statement, 2);
  replay->warm = (size_t)sqlite3_column_int64(statement, 3);
  replay->scored = (size_t)sqlite3_column_int64(statement, 4);
  sqlite3_finalize(statement);
}

/* ---- training ------------------------------------------------------------ */

/* The samples selected for a trigger; weights are scaled to 1 on average. */
static struct example *read_selection(struct replay *replay, int64_t trigger,
                                      size_t *count) {
  struct example *example = need(replay->words.count, sizeof(*example));
  double sum = 0;
  sqlite3_stmt *statement = statement_new(
      replay->db, "SELECT key, weight"
                  "  FROM emb_selected(?1, ?2, NULL, NULL, NULL, 0)");
  sqlite3_bind_int64(statement, 1, replay->pipeline);
  sqlite3_bind_int64(statement, 2, trigger);
  for (*count = 0; statement_step(statement); ++*count) {
    struct example *to = &example[*count];
    to->entry = number_of(replay, sqlite3_column_int64(statement, 0));
    to->label = replay->label[to->entry];
    to->weight = (float)sqlite3_column_double(statement, 1);
    sum += to->weight;
  }
  sqlite3_finalize(statement);
  for (size_t i = 0; i < *count; i++) {
    example[i].weight *= (float)((double)*count / sum);
  }
  return example;
}

/* Reads the numbers of the entries with a label in some time; returns how many
** there are. */
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

/* Records the newest model's loss on each sample up to now. */
static void score(struct replay *replay, sqlite3_int64 now) {
  uint32_t *entry;
  size_t count = read_entry_list(replay, &entry, INT64_MIN, now);
  float *probability = need(count * replay->classes, sizeof(float));
  classifier_predict(&replay->classifier, entry, count, probability);
  sqlite3_stmt *statement = statement_new(
      replay->db,
      "INSERT OR REPLACE INTO modyn_score(pipeline, sample_key, loss)"
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

/* ---- evaluation ---------------------------------------------------------- */

/* The labels that the newest model predicts. */
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

/* Predicts the labels of the entries in some time, and records them. */
static void predict(struct replay *replay, sqlite3_int64 from,
                    sqlite3_int64 to) {
  uint32_t *entry;
  size_t count = read_entry_list(replay, &entry, from, to);
  uint32_t *label = guess(replay, entry, count);
  sqlite3_stmt *statement = statement_new(
      replay->db, "INSERT OR IGNORE INTO prediction"
                  " SELECT key, at, ?2, ?3 FROM entry WHERE key = ?1");
  database_run(replay->db, "BEGIN");
  for (size_t i = 0; i < count; i++) {
    sqlite3_bind_int64(statement, 1, entry[i] + 1);
    sqlite3_bind_int64(statement, 2, replay->label[entry[i]]);
    sqlite3_bind_int64(statement, 3, label[i]);
    statement_step(statement);
    statement_end(statement);
  }
  database_run(replay->db, "COMMIT");
  sqlite3_finalize(statement);
  free(label);
  free(entry);
}

/* Records a model's accuracy on the entries of an interval. */
static void evaluate_on(struct replay *replay, sqlite3_int64 model,
                        sqlite3_int64 interval, sqlite3_int64 from,
                        sqlite3_int64 to) {
  uint32_t *entry;
  size_t count = read_entry_list(replay, &entry, from, to), right = 0;
  uint32_t *label = guess(replay, entry, count);
  for (size_t i = 0; i < count; i++) {
    right += label[i] == replay->label[entry[i]];
  }
  if (count > 0) {
    database_run(replay->db,
                 "INSERT INTO modyn_evaluation"
                 " VALUES (%lld, %lld, 'accuracy', %.17g, %lld)",
                 model, interval, (double)right / (double)count,
                 (sqlite3_int64)count);
  }
  free(label);
  free(entry);
}

/* Called when the model has been replaced, or is the last, so that it is known
** for which years it was the newest model that had seen nothing of them.  With
** --matrix, if there is at least one of these years, evaluates on all years. */
static void evaluate(struct replay *replay, sqlite3_int64 model) {
  sqlite3_stmt *statement = statement_new(
      replay->db, "SELECT interval, begins, ends,"
                  "       max(active) OVER () AS some, active"
                  "  FROM modyn_evaluation_matrix WHERE model = ?1");
  sqlite3_bind_int64(statement, 1, model);
  while (statement_step(statement)) {
    if (sqlite3_column_int(statement, replay->matrix ? 3 : 4)) {
      evaluate_on(replay, model, sqlite3_column_int64(statement, 0),
                  sqlite3_column_int64(statement, 1),
                  sqlite3_column_int64(statement, 2));
    }
  }
  sqlite3_finalize(statement);
}

/* ---- the replay ---------------------------------------------------------- */

/* Makes this trigger's model the newest. */
static void add_model(struct replay *replay, int64_t trigger, size_t samples) {
  database_run(
      replay->db,
      "INSERT INTO modyn_trained_model(pipeline, trigger, parent, trained_at,"
      " samples) VALUES (%lld, %lld, nullif(%lld, 0),"
      " (julianday('now') - 2440587.5) * 86400, %lld)",
      replay->pipeline, (sqlite3_int64)trigger,
      replay->warm ? replay->model : 0, (sqlite3_int64)samples);
  replay->model = sqlite3_last_insert_rowid(replay->db);
}

static void train(struct replay *replay, int64_t trigger, sqlite3_int64 now) {
  uint64_t random = replay->seed * 1000003 + (uint64_t)trigger;
  sqlite3_int64 before = replay->model;
  size_t count;
  if (before && replay->scored) {
    score(replay, now);
  }
  database_run(replay->db, "SELECT emb_downsample(%lld, %lld, 0)",
               replay->pipeline, (sqlite3_int64)trigger);
  struct example *example = read_selection(replay, trigger, &count);
  add_model(replay, trigger, count);
  if (before) {
    evaluate(replay, before);
  }
  double begun = seconds();
  if (!replay->warm || before == 0) {
    classifier_begin(&replay->classifier, &random);
  }
  size_t epochs = count * EPOCHS < SEEN ? SEEN / count : EPOCHS;
  classifier_train(&replay->classifier, example, count, epochs, &random);
  database_run(replay->db,
               "UPDATE modyn_trained_model SET training_seconds = %.17g"
               " WHERE model = %lld",
               seconds() - begun, replay->model);
  free(example);
}

/* The next trigger; -1: none now. */
static int64_t run(struct replay *replay, sqlite3_stmt *statement) {
  sqlite3_bind_int64(statement, 1, replay->pipeline);
  statement_step(statement);
  int64_t trigger = sqlite3_column_type(statement, 0) == SQLITE_NULL
                        ? -1
                        : sqlite3_column_int64(statement, 0);
  statement_end(statement);
  return trigger;
}

/* The beginning of the time that the first model has not seen. */
static sqlite3_int64 after_first(struct replay *replay) {
  return 1 + database_number(replay->db,
                             "SELECT max(last_timestamp) FROM modyn_trigger"
                             " WHERE pipeline = %lld",
                             replay->pipeline);
}

static void replay_all(struct replay *replay) {
  const sqlite3_int64 step = 14 * 86400;
  sqlite3_int64 now = database_number(replay->db, "SELECT min(at) FROM entry");
  sqlite3_int64 last = database_number(replay->db, "SELECT max(at) FROM entry");
  sqlite3_stmt *statement =
      statement_new(replay->db, "SELECT emb_pipeline_run(?1)");
  for (; now <= last; now += step) {
    int64_t trigger;
    int had_model = replay->model != 0;
    set_clock(replay, now);
    while ((trigger = run(replay, statement)) >= 0) {
      train(replay, trigger, now);
    }
    if (replay->model) {
      /* The first model also predicts earlier entries that it has not seen. */
      predict(replay, had_model ? now : after_first(replay), now + step);
    }
  }
  sqlite3_finalize(statement);
  if (!replay->model) {
    die("%s, %s: it never trained", replay->task, replay->name);
  }
  evaluate(replay, replay->model);
}

/* Prints the results of a SELECT of (what, value). */
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
  database_run(
      replay->db,
      "CREATE TEMP VIEW counted AS SELECT * FROM prediction"
      " WHERE timestamp >= %lld",
      database_number(replay->db,
                      "SELECT min(begins) FROM modyn_evaluation_interval"));
  print_all(replay,
            "SELECT 'trainings', count(*) FROM modyn_trained_model UNION ALL"
            " SELECT 'samples', sum(samples) FROM modyn_trained_model"
            "  UNION ALL"
            " SELECT 'seconds', sum(training_seconds)"
            "   FROM modyn_trained_model");
  print_all(
      replay,
      "WITH year AS ("
      "  SELECT name, value FROM modyn_evaluation"
      "    JOIN modyn_evaluation_matrix USING (model, interval) WHERE active)"
      " SELECT 'year ' || name, value FROM year UNION ALL"
      " SELECT 'years', avg(value) FROM year");
  print_all(replay, "WITH year AS ("
                    "  SELECT avg(label = prediction) AS value FROM counted"
                    "   GROUP BY strftime('%Y', timestamp, 'unixepoch'))"
                    " SELECT 'as they come', avg(value) FROM year");
  print_all(replay,
            "WITH label AS ("
            "  SELECT label, 2.0 * sum(label = prediction)"
            "         / (count(*) + (SELECT count(*) FROM counted AS q"
            "                         WHERE q.prediction = p.label)) AS f1"
            "    FROM counted AS p GROUP BY label)"
            " SELECT 'f1', avg(f1) FROM label");
  if (replay->matrix) {
    /* A model is named after the last year of its data. */
    print_all(replay,
              "SELECT max((SELECT a.name - 1 FROM modyn_evaluation_matrix AS a"
              "             WHERE a.model = e.model AND active)) || ' on '"
              "       || i.name, value"
              "  FROM modyn_evaluation AS e"
              "  JOIN modyn_evaluation_interval AS i USING (interval)"
              " GROUP BY e.model, interval");
  }
}

int main(int argc, char **argv) {
  struct options options;
  struct replay replay = {.seed = 1, .from = 2002};
  size_t pipeline = 1;
  const struct option list[] = {
      {"pipeline", &pipeline, NULL},
      {"seed", &replay.seed, NULL},
      {"from", &replay.from, NULL},
      {"matrix", &replay.matrix, NO_YES},
      {NULL, NULL, NULL},
  };
  options_parse(&options, list, argc, argv);
  block_one_thread();
  replay.db = database_open(options.graph, options.extension);
  replay.pipeline = (sqlite3_int64)pipeline;
  /* No other process reads it, and after a crash a run starts from scratch. */
  database_run(replay.db, "PRAGMA foreign_keys = ON; PRAGMA synchronous = OFF;"
                          "PRAGMA journal_mode = MEMORY;"
                          "PRAGMA locking_mode = EXCLUSIVE");
  set_pipeline(&replay);
  read_entries(&replay);
  make_intervals(&replay);
  classifier_open(&replay.classifier, replay.db, &replay.words, replay.classes);
  replay_all(&replay);
  print_results(&replay);
  print_progress("%s, %s, seed %zu", replay.task, replay.name, replay.seed);
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
