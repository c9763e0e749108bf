/* SPDX-License-Identifier: MIT
**
** selected.c -- what a worker trains on.
**
**     CREATE TABLE emb_selected(place, key, weight,
**       pipeline HIDDEN, trigger HIDDEN, partition HIDDEN, worker HIDDEN,
**       workers HIDDEN, epoch HIDDEN, prefix HIDDEN)
**
** Returns a trigger's selection in its order, or one partition of it.  With
** worker (0, 1 ...) and workers it returns that worker's part.  Each part is
** contiguous, and their sizes differ by at most one place, so the workers of
** all partitions together get each row once.  With an epoch it returns the
** choice for that epoch, or for the last epoch before it that has a choice
** (emb_downsample).
*/
#include "engine/base/seed.h"
#include "pipeline.h"
SQLITE_EXTENSION_INIT3

enum { SELECTED_PLACE = 0, SELECTED_KEY, SELECTED_WEIGHT, SELECTED_PIPELINE };
/* Arguments */
enum {
  OF_PIPELINE,
  OF_TRIGGER,
  OF_PARTITION,
  OF_WORKER,
  OF_WORKERS,
  OF_EPOCH,
  OF_PREFIX
};

struct selected_cursor {
  struct ext_tvf_cursor base; /* must be first */
  sqlite3_stmt *rows;
};

static const char selected_sql[] =
    "SELECT place, sample_key, weight FROM {selection} WHERE"
    " pipeline = :pipeline AND trigger = :trigger AND place >= :from"
    " AND place < :to ORDER BY place";

static const char selected_epoch_sql[] =
    "SELECT place, sample_key, weight FROM {downsampling} WHERE"
    " pipeline = :pipeline AND trigger = :trigger AND epoch = :chosen"
    " AND place >= :from AND place < :to ORDER BY place";

/* ---- arguments ----------------------------------------------------------- */

static int selected_has(sqlite3_value *value) {
  return value && sqlite3_value_type(value) != SQLITE_NULL;
}

static int selected_argument(struct ext_scope *scope, sqlite3_value *value,
                             const char *name, char **err) {
  int64_t number = 0;
  int rc;
  if (!selected_has(value)) {
    ext_scope_text(scope, name, NULL);
    return SQLITE_OK;
  }
  rc = ext_key_from_value(value, name, &number, err);
  if (rc == SQLITE_OK && number < 0)
    rc = ext_error(err, SQLITE_ERROR, "%s must be at least 0, got %lld", name,
                   (long long)number);
  ext_scope_integer(scope, name, number);
  return rc;
}

static int selected_arguments(struct ext_scope *scope,
                              sqlite3_value **arguments, char **err) {
  static const char *const names[] = {"",       "trigger", "partition",
                                      "worker", "workers", "epoch"};
  char *wrong = NULL;
  int rc = SQLITE_OK;
  for (int i = OF_TRIGGER; i <= OF_EPOCH && rc == SQLITE_OK; i++)
    rc = selected_argument(scope, arguments[i], names[i], err);
  if (rc == SQLITE_OK)
    rc = ext_scope_string(
        scope,
        "SELECT CASE WHEN :trigger IS NULL THEN 'trigger is NULL' "
        "WHEN (:worker IS NULL) <> (:workers IS NULL) "
        "THEN 'worker and workers belong together' "
        "WHEN :workers < 1 THEN 'workers must be from 1 on, got ' || :workers "
        "WHEN :worker >= :workers THEN 'worker must be less than workers, ' || "
        ":workers || ', got ' || :worker END",
        &wrong, err);
  if (rc == SQLITE_OK && wrong)
    rc = ext_error(err, SQLITE_ERROR, "%s", wrong);
  sqlite3_free(wrong);
  return rc;
}

/* ---- which places -------------------------------------------------------- */

/* A worker's part. */
struct span {
  sqlite3_int64 from, n;
};

/* The whole selection, or the partition's range from the table. */
static int selected_partition(struct ext_scope *scope, struct span *span,
                              char **err) {
  static const char all[] =
      "SELECT coalesce(max(place) + 1, 0) FROM {selection}"
      " WHERE pipeline = :pipeline AND trigger = :trigger"
      " AND :partition IS NULL";
  static const char from[] =
      "SELECT first_place FROM {partition} WHERE pipeline = :pipeline"
      " AND trigger = :trigger AND partition = :partition";
  static const char n[] =
      "SELECT samples FROM {partition} WHERE pipeline = :pipeline"
      " AND trigger = :trigger AND partition = :partition";
  sqlite3_int64 samples = 0;
  int rc = ext_scope_number(scope, all, &span->n, err);
  if (rc == SQLITE_OK)
    rc = ext_scope_number(scope, from, &span->from, err);
  if (rc == SQLITE_OK)
    rc = ext_scope_number(scope, n, &samples, err);
  span->n += samples;
  return rc;
}

/* As above for an epoch's choice, :chosen, whose partitions are not stored. */
static int selected_epoch(struct ext_scope *scope, struct span *span,
                          char **err) {
  static const char which[] =
      "SELECT max(epoch) FROM {downsampling} WHERE pipeline = :pipeline"
      " AND trigger = :trigger AND epoch <= :epoch HAVING count(*) > 0";
  static const char all[] =
      "SELECT coalesce(max(place) + 1, 0) FROM {downsampling}"
      " WHERE pipeline = :pipeline AND trigger = :trigger AND epoch = :chosen";
  static const char from[] =
      "SELECT min(:all, coalesce(:partition, 0) * :partition_size)";
  static const char n[] =
      "SELECT min(:all - :from, CASE WHEN :partition IS NULL THEN :all "
      "ELSE :partition_size END)";
  sqlite3_int64 chosen, places = 0;
  int rc = ext_scope_number(scope, which, &chosen, err);
  ext_scope_integer(scope, "chosen", chosen);
  if (rc == SQLITE_OK)
    rc = ext_scope_number(scope, all, &places, err);
  ext_scope_integer(scope, "all", places);
  if (rc == SQLITE_OK)
    rc = ext_scope_number(scope, from, &span->from, err);
  ext_scope_integer(scope, "from", span->from);
  return rc == SQLITE_OK ? ext_scope_number(scope, n, &span->n, err) : rc;
}

/* Checks that the trigger, the epoch's choice and the partition exist.  Nothing
** else tells a missing partition from an empty one. */
static int selected_check(struct ext_pipeline *pipeline,
                          const struct span *span, char **err) {
  char *wrong = NULL;
  int rc;
  ext_scope_integer(&pipeline->scope, "n", span->n);
  rc = ext_scope_string(
      &pipeline->scope,
      "SELECT CASE WHEN NOT EXISTS(SELECT 1 FROM {trigger} WHERE "
      "pipeline = :pipeline AND trigger = :trigger) "
      "THEN 'no trigger ' || :trigger "
      "WHEN :epoch IS NOT NULL AND NOT EXISTS(SELECT 1 FROM {downsampling} "
      "WHERE "
      "pipeline = :pipeline AND trigger = :trigger AND epoch <= :epoch) "
      "THEN 'nothing chosen for epoch ' || :epoch || ' of trigger ' || "
      ":trigger || ': call emb_downsample' "
      "WHEN :partition > 0 AND :n = 0 "
      "THEN 'no partition ' || :partition || ' in trigger ' || :trigger END",
      &wrong, err);
  if (rc == SQLITE_OK && wrong)
    rc = ext_error(err, SQLITE_ERROR, "pipeline %s has %s", pipeline->name,
                   wrong);
  sqlite3_free(wrong);
  return rc;
}

/* Cuts the span to the worker's part.  The first workers get one more place if
** the division is not even. */
static void selected_part(struct span *span, sqlite3_int64 worker,
                          sqlite3_int64 workers) {
  sqlite3_int64 each = span->n / workers, rest = span->n % workers;
  span->from += each * worker + (worker < rest ? worker : rest);
  span->n = each + (worker < rest && !EMB_SEED(SEED_WORKER_PLACES_LOST));
}

static int selected_span(struct ext_pipeline *pipeline,
                         sqlite3_value **arguments, char **err) {
  struct ext_scope *scope = &pipeline->scope;
  struct span span = {0};
  int has_epoch = selected_has(arguments[OF_EPOCH]), rc;
  ext_scope_integer(scope, "partition_size", pipeline->partition_size);
  rc = (has_epoch ? selected_epoch : selected_partition)(scope, &span, err);
  if (rc == SQLITE_OK)
    rc = selected_check(pipeline, &span, err);
  if (rc == SQLITE_OK && selected_has(arguments[OF_WORKERS]))
    selected_part(&span, sqlite3_value_int64(arguments[OF_WORKER]),
                  sqlite3_value_int64(arguments[OF_WORKERS]));
  ext_scope_integer(scope, "from", span.from);
  ext_scope_integer(scope, "to", span.from + span.n);
  return rc;
}

/* ---- rows ---------------------------------------------------------------- */

static int selected_begin(struct ext_tvf_cursor *base,
                          sqlite3_value **arguments, char **err) {
  struct selected_cursor *cursor = (struct selected_cursor *)base;
  struct ext_pipeline pipeline;
  int rc = ext_pipeline_load(
      base->conn, arguments[OF_PIPELINE],
      selected_has(arguments[OF_PREFIX]) ? arguments[OF_PREFIX] : NULL,
      &pipeline, err);
  if (rc == SQLITE_OK)
    rc = selected_arguments(&pipeline.scope, arguments, err);
  if (rc == SQLITE_OK)
    rc = selected_span(&pipeline, arguments, err);
  if (rc == SQLITE_OK)
    rc = ext_scope_prepare(
        &pipeline.scope,
        selected_has(arguments[OF_EPOCH]) ? selected_epoch_sql : selected_sql,
        &cursor->rows, NULL, err);
  ext_pipeline_free(&pipeline);
  return rc;
}

static int selected_more(struct ext_tvf_cursor *base, char **err) {
  struct selected_cursor *cursor = (struct selected_cursor *)base;
  int rc = sqlite3_step(cursor->rows);
  base->n = rc == SQLITE_ROW;
  return rc == SQLITE_ROW || rc == SQLITE_DONE
             ? SQLITE_OK
             : ext_sql_error(err, base->conn->db, rc);
}

static void selected_column(struct ext_tvf_cursor *base,
                            sqlite3_context *context, int i) {
  struct selected_cursor *cursor = (struct selected_cursor *)base;
  if (i < SELECTED_PIPELINE)
    sqlite3_result_value(context, sqlite3_column_value(cursor->rows, i));
}

static void selected_end(struct ext_tvf_cursor *base) {
  struct selected_cursor *cursor = (struct selected_cursor *)base;
  sqlite3_finalize(cursor->rows);
  cursor->rows = NULL;
}

static sqlite3_int64 selected_rowid(struct ext_tvf_cursor *base) {
  return sqlite3_column_int64(((struct selected_cursor *)base)->rows,
                              SELECTED_PLACE);
}

static const struct ext_tvf selected_tvf = {
    .name = "emb_selected",
    .declaration =
        "CREATE TABLE x(place INTEGER, key, weight REAL, pipeline HIDDEN, "
        "trigger HIDDEN, partition HIDDEN, worker HIDDEN, workers HIDDEN, "
        "epoch HIDDEN, prefix HIDDEN)",
    .argument = SELECTED_PIPELINE,
    .arguments = 7,
    .needed = 2,
    .needs = "a pipeline and a trigger",
    .cost = 1000,
    .rows = 100000,
    .cursor_size = sizeof(struct selected_cursor),
    .begin = selected_begin,
    .more = selected_more,
    .column = selected_column,
    .rowid = selected_rowid,
    .end = selected_end,
};

int ext_selected_register(struct ext_conn *conn) {
  return ext_tvf_register(conn, &selected_tvf);
}
