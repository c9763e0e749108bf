/* SPDX-License-Identifier: MIT
**
** add.c -- registers a file:
**
**     INSERT INTO samples(path) VALUES('/data/part-000.bin')
**     INSERT INTO samples(path, options, dataset, timestamp, key) VALUES(...)
**
** It is an INSERT rather than a function, so it takes part in transactions and
** savepoints.  INSERT ... SELECT registers many files in one statement, and
** INSERT OR IGNORE skips files that are already registered.
**
** An error must leave nothing behind, but SQLite undoes only the writes of a
** statement of several rows.  So the row of NAME_files is written last: without
** it the rest does not count.  Blocks left by an error are removed before the
** next file with that number writes its own.
*/
#include "engine/data/emb_data.h"
#include "samples.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

#define FILES_MOST (INT64_C(1) << 22)

struct samples_adding {
  struct ext_samples *table;
  struct ext_samples_options options;
  char path[EMB_PATH_MAX + 1];
  sqlite3_int64 id;
  sqlite3_stmt *block;
  int rc; /* of the callback */
  char *err;
};

/* ---- keys ---------------------------------------------------------------- */

struct samples_answer {
  int found;
  sqlite3_int64 number;
};

/* Runs a statement that binds a few numbers and returns at most one. */
static int samples_keys_ask(struct ext_samples *table, const char *sql,
                            const int64_t *numbers, int n,
                            struct samples_answer *answer, char **err) {
  sqlite3_stmt *statement = NULL;
  int rc = ext_samples_prepare(table, sql, &statement, err);
  for (int i = 0; i < n && rc == SQLITE_OK; i++)
    rc = sqlite3_bind_int64(statement, i + 1, numbers[i]);
  if (rc == SQLITE_OK)
    rc = ext_samples_number(table, statement, &answer->found, &answer->number,
                            err);
  sqlite3_finalize(statement);
  return rc;
}

/* Keys are free if neither a file nor a row has them. */
static int samples_keys_check(struct ext_samples *table, int64_t first,
                              uint64_t n, char **err) {
  int64_t range[2] = {first, (int64_t)((uint64_t)first + n - 1)};
  struct samples_answer taken = {0};
  int rc = samples_keys_ask(
      table,
      "SELECT first FROM (SELECT first FROM @files WHERE last >= "
      "?1 ORDER BY last LIMIT 1) WHERE first <= ?2",
      range, 2, &taken, err);
  if (rc == SQLITE_OK && !taken.found)
    rc = samples_keys_ask(table,
                          "SELECT key FROM @rows WHERE key BETWEEN ?1 AND ?2 "
                          "LIMIT 1",
                          range, 2, &taken, err);
  if (rc == SQLITE_OK && taken.found)
    rc = ext_error(
        err, SQLITE_CONSTRAINT,
        "keys %lld to %lld are not free: key %lld is in use",
        (long long)range[0], (long long)range[1],
        (long long)(taken.number > range[0] ? taken.number : range[0]));
  return rc;
}

/* Checks that there are n keys from the first on. */
static int samples_keys_room(int64_t first, uint64_t n, char **err) {
  uint64_t room = (uint64_t)INT64_MAX - (uint64_t)first;
  return n == 0 || n - 1 <= room
             ? SQLITE_OK
             : ext_error(err, SQLITE_FULL,
                         "there are fewer than %llu keys from %lld on",
                         (unsigned long long)n, (long long)first);
}

int ext_samples_keys_taken(struct ext_samples *table, int64_t key, uint64_t n,
                           char **err) {
  int64_t end = (int64_t)((uint64_t)key + n - 1);
  emb_assert(n == 0 || n - 1 <= (uint64_t)INT64_MAX - (uint64_t)key);
  struct samples_answer none;
  end += end < INT64_MAX;
  return n == 0 ? SQLITE_OK
                : samples_keys_ask(
                      table,
                      "UPDATE @config SET value = max(value, ?1) WHERE "
                      "name = 'next'",
                      &end, 1, &none, err);
}

int ext_samples_keys(struct ext_samples *table, sqlite3_value *given,
                     uint64_t n, int64_t *key, char **err) {
  int is_given = given && sqlite3_value_type(given) != SQLITE_NULL;
  struct samples_answer next = {1, 0};
  int rc = is_given
               ? ext_key_from_value(given, "key", key, err)
               : samples_keys_ask(
                     table, "SELECT value FROM @config WHERE name = 'next'",
                     NULL, 0, &next, err);
  if (rc == SQLITE_OK && !next.found)
    rc = ext_error(err, SQLITE_CORRUPT_VTAB, "%s_config is damaged",
                   table->name);
  if (rc == SQLITE_OK && !is_given) {
    *key = next.number;
    /* `next` cannot tell whether the very last key was assigned. */
    rc = samples_keys_room(*key, n ? n + 1 : 0, err);
  }
  if (rc == SQLITE_OK)
    rc = samples_keys_room(*key, n, err);
  return rc == SQLITE_OK ? ext_samples_keys_taken(table, *key, n, err) : rc;
}

/* ---- the survey ---------------------------------------------------------- */

static int samples_adding_stop(void *arg) {
  struct samples_adding *adding = arg;
  return ext_link_interrupted(adding->table->client->conn);
}

static int samples_adding_block(void *arg, const emb_samples_block *block) {
  struct samples_adding *adding = arg;
  sqlite3_stmt *to = adding->block;
  sqlite3_bind_int64(
      to, 1, adding->id << EXT_SAMPLES_SHIFT | (sqlite3_int64)block->number);
  sqlite3_bind_int64(to, 2, block->records);
  sqlite3_bind_int64(to, 3, block->least);
  sqlite3_bind_int64(to, 4, block->most);
  if (block->spans)
    sqlite3_bind_blob(to, 5, block->spans, (int)block->bytes, SQLITE_STATIC);
  else
    sqlite3_bind_null(to, 5);
  adding->rc = ext_samples_run(adding->table, to, &adding->err);
  return adding->rc;
}

/* Checks that the path is not registered; finds the number of the new file. */
static int samples_adding_number(struct samples_adding *adding, char **err) {
  struct ext_samples *table = adding->table;
  sqlite3_stmt *statement = NULL;
  int64_t range[2];
  struct samples_answer answer = {0};
  int rc = ext_samples_prepare(
      table, "SELECT first FROM @files WHERE path = ?1", &statement, err);
  if (rc == SQLITE_OK)
    rc = sqlite3_bind_text(statement, 1, adding->path, -1, SQLITE_STATIC);
  if (rc == SQLITE_OK)
    rc = ext_samples_number(table, statement, &answer.found, &answer.number,
                            err);
  sqlite3_finalize(statement);
  if (rc == SQLITE_OK && answer.found)
    return ext_error(err, SQLITE_CONSTRAINT,
                     "the file %s is registered: its keys begin with %lld",
                     adding->path, (long long)answer.number);
  if (rc == SQLITE_OK)
    rc =
        samples_keys_ask(table, "SELECT coalesce(max(file), 0) + 1 FROM @files",
                         NULL, 0, &answer, err);
  adding->id = answer.number;
  if (rc == SQLITE_OK && adding->id >= FILES_MOST)
    return ext_error(err, SQLITE_FULL, "%s has too many files", table->name);
  range[0] = adding->id << EXT_SAMPLES_SHIFT;
  range[1] = range[0] | ((INT64_C(1) << EXT_SAMPLES_SHIFT) - 1);
  if (rc == SQLITE_OK)
    rc = samples_keys_ask(table,
                          "DELETE FROM @blocks WHERE block BETWEEN ?1 AND ?2",
                          range, 2, &answer, err);
  if (rc == SQLITE_OK)
    rc = samples_keys_ask(table,
                          "DELETE FROM @gone WHERE part BETWEEN ?1 AND ?2",
                          range, 2, &answer, err);
  return rc;
}

static int samples_adding_survey(struct samples_adding *adding,
                                 emb_samples_found *found, char **err) {
  struct ext_samples_options *options = &adding->options;
  char *index = options->index
                    ? sqlite3_mprintf("%s%s", adding->path, options->index)
                    : NULL;
  emb_samples_ask ask = {.path = adding->path,
                         .index = index,
                         .label_name = options->label_name,
                         .timestamp_name = options->timestamp_name,
                         .format = &options->format,
                         .block = samples_adding_block,
                         .stop = samples_adding_stop,
                         .arg = adding};
  emb_err why;
  int rc = options->index && index == NULL
               ? SQLITE_NOMEM
               : ext_samples_prepare(adding->table,
                                     "INSERT INTO @blocks VALUES(?, ?, ?, ?, "
                                     "?)",
                                     &adding->block, err);
  if (rc == SQLITE_OK) {
    rc = emb_samples_survey(&ask, found, &why);
    if (rc == EMB_ABORT && adding->rc != SQLITE_OK) {
      rc = adding->rc;
      *err = adding->err;
      adding->err = NULL;
    } else if (rc) {
      rc = ext_engine_error(err, rc, why.text);
    }
  }
  sqlite3_finalize(adding->block);
  sqlite3_free(index);
  return rc;
}

/* ---- the file's row ------------------------------------------------------ */

static int samples_adding_row(struct samples_adding *adding,
                              const emb_samples_found *found,
                              const char *dataset, int64_t first, char **err) {
  struct ext_samples *table = adding->table;
  char *format = ext_samples_options_text(&adding->options);
  sqlite3_stmt *row = NULL;
  int rc = format ? ext_samples_prepare(table,
                                        "INSERT INTO @files VALUES(?, ?, ?, 0, "
                                        "?, ?, ?, ?, ?, ?, ?, ?, ?)",
                                        &row, err)
                  : SQLITE_NOMEM;
  if (rc == SQLITE_OK) {
    sqlite3_bind_int64(row, 1, adding->id);
    sqlite3_bind_int64(row, 2, first);
    if (found->records) /* otherwise the file has no keys */
      sqlite3_bind_int64(row, 3,
                         (int64_t)((uint64_t)first + found->records - 1));
    sqlite3_bind_int64(row, 4, found->least);
    sqlite3_bind_int64(row, 5, found->most);
    sqlite3_bind_int64(row, 6, (sqlite3_int64)found->bytes);
    sqlite3_bind_int64(row, 7, found->changed_ns);
    sqlite3_bind_int64(row, 8, (sqlite3_int64)found->sum);
    sqlite3_bind_int64(row, 9, (sqlite3_int64)found->all);
    sqlite3_bind_text(row, 10, adding->path, -1, SQLITE_STATIC);
    sqlite3_bind_text(row, 11, dataset, -1, SQLITE_STATIC);
    sqlite3_bind_text(row, 12, format, -1, SQLITE_STATIC);
    rc = ext_samples_run(table, row, err);
  }
  sqlite3_finalize(row);
  sqlite3_free(format);
  return rc;
}

/* The samples have the given time, that of a field, or that of the file's last
** change. */
static int samples_adding_time(struct samples_adding *adding,
                               sqlite3_value *given, emb_samples_found *found,
                               char **err) {
  int is_field = adding->options.format.timestamp.type != EMB_SAMPLES_NONE;
  int64_t time = found->changed_ns / 1000000000;
  int rc = SQLITE_OK;
  time -= found->changed_ns < 0 && found->changed_ns % 1000000000 != 0;
  if (given && sqlite3_value_type(given) != SQLITE_NULL) {
    if (is_field)
      return ext_error(err, SQLITE_ERROR,
                       "the samples of %s have their own timestamps",
                       adding->path);
    rc = ext_samples_time(given, &time, err);
  }
  if (!is_field)
    found->least = found->most = time;
  return rc;
}

static int samples_adding_begin(struct samples_adding *adding,
                                const struct ext_samples_new *file,
                                char **err) {
  const char *path = NULL;
  emb_err why;
  int rc = ext_samples_options_copy(&adding->options, &adding->table->options);
  if (rc == SQLITE_OK)
    rc = ext_arg_text(file->path, "path", &path, err);
  if (rc == SQLITE_OK &&
      emb_samples_absolute(path, adding->path, sizeof adding->path, &why))
    rc = ext_engine_error(err, why.code, why.text);
  if (rc == SQLITE_OK)
    rc = ext_samples_options_pairs(&adding->options, file->options, err);
  if (rc == SQLITE_OK &&
      adding->options.is_cached != adding->table->options.is_cached)
    rc = ext_error(err, SQLITE_ERROR,
                   "io= is an option of a table, not of a file");
  if (rc == SQLITE_OK)
    rc = ext_samples_options_finish(&adding->options, err);
  if (rc == SQLITE_OK)
    rc = samples_adding_number(adding, err);
  return rc;
}

/* Keys chosen by the caller must be free; the next keys always are. */
static int samples_adding_keys(struct ext_samples *table, sqlite3_value *given,
                               uint64_t n, int64_t *first, char **err) {
  int is_given = given && sqlite3_value_type(given) != SQLITE_NULL;
  int rc = is_given ? ext_key_from_value(given, "key", first, err) : SQLITE_OK;
  if (rc == SQLITE_OK && is_given)
    rc = samples_keys_room(*first, n, err);
  if (rc == SQLITE_OK && is_given && n > 0)
    rc = samples_keys_check(table, *first, n, err);
  return rc == SQLITE_OK ? ext_samples_keys(table, given, n, first, err) : rc;
}

int ext_samples_add(struct ext_samples *table,
                    const struct ext_samples_new *file, char **err) {
  struct samples_adding *adding = sqlite3_malloc64(sizeof *adding);
  const char *dataset;
  emb_samples_found found;
  int64_t first = 0;
  int rc;
  if (adding == NULL)
    return SQLITE_NOMEM;
  memset(adding, 0, sizeof *adding);
  adding->table = table;
  rc = ext_samples_dataset(file->dataset, &dataset, err);
  if (rc == SQLITE_OK)
    rc = samples_adding_begin(adding, file, err);
  if (rc == SQLITE_OK)
    rc = samples_adding_survey(adding, &found, err);
  if (rc == SQLITE_OK && found.records >= UINT64_C(1) << EXT_SAMPLES_SHIFT)
    rc = ext_error(err, SQLITE_FULL, "%s has too many records", adding->path);
  if (rc == SQLITE_OK)
    rc = samples_adding_time(adding, file->timestamp, &found, err);
  if (rc == SQLITE_OK)
    rc = samples_adding_keys(table, file->key, found.records, &first, err);
  if (rc == SQLITE_OK)
    rc = samples_adding_row(adding, &found, dataset, first, err);
  sqlite3_free(adding->err);
  ext_samples_options_clear(&adding->options);
  sqlite3_free(adding);
  return rc;
}
