/* SPDX-License-Identifier: MIT
**
** command.c -- commands, as in fts5:
**
**     INSERT INTO samples(samples) VALUES('check')
**     INSERT INTO samples(samples, path) VALUES('drop', '/data/part-000.bin')
**     INSERT INTO samples(samples, dataset) VALUES('drop', 'clicks')
*/
#include "engine/data/emb_data.h"
#include "samples.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

#define PROBLEMS_MOST 10

static int samples_command_stop(void *arg) { return ext_link_interrupted(arg); }

/* ---- check --------------------------------------------------------------- */

struct samples_problems {
  int n;
  int code; /* of the first */
};

/* Reports a line for a file that has changed. */
static int samples_check_file(struct ext_samples *table,
                              const struct ext_samples_file *file,
                              sqlite3_str *report,
                              struct samples_problems *problems) {
  emb_err why;
  int rc = emb_samples_verify(&file->as, (uint64_t)file->whole,
                              samples_command_stop, table->client->conn, &why);
  if (rc == EMB_OK || rc == EMB_INTERRUPT || rc == EMB_NOMEM)
    return rc == EMB_OK ? SQLITE_OK : ext_code(rc);
  problems->code = problems->n ? problems->code : ext_code(rc);
  if (problems->n++ < PROBLEMS_MOST)
    sqlite3_str_appendf(report, "%s%s", sqlite3_str_length(report) ? "\n" : "",
                        why.text);
  return SQLITE_OK;
}

static int samples_check_all(struct ext_samples *table, sqlite3_str *report,
                             struct samples_problems *problems, char **err) {
  sqlite3_stmt *files = NULL;
  int end;
  int rc = ext_samples_prepare(
      table, "SELECT " EXT_SAMPLES_FILE " FROM @files ORDER BY file", &files,
      err);
  while (rc == SQLITE_OK && sqlite3_step(files) == SQLITE_ROW) {
    struct ext_samples_file *file;
    rc = ext_samples_file_read(table, files, &file, err);
    if (rc == SQLITE_OK) {
      rc = samples_check_file(table, file, report, problems);
      ext_samples_file_drop(file);
    }
  }
  end = sqlite3_finalize(files);
  return rc == SQLITE_OK ? ext_sql_error(err, table->db, end) : rc;
}

static int samples_command_check(struct ext_samples *table, char **err) {
  sqlite3_str *report = sqlite3_str_new(table->db);
  struct samples_problems problems = {0};
  int rc = samples_check_all(table, report, &problems, err);
  char *text;
  if (rc == SQLITE_OK && problems.n > PROBLEMS_MOST)
    sqlite3_str_appendf(report, "\nand %d more", problems.n - PROBLEMS_MOST);
  text = sqlite3_str_finish(report);
  if (rc == SQLITE_OK && problems.n)
    rc = ext_error(err, problems.code, "%s", text ? text : "files changed");
  sqlite3_free(text);
  return rc;
}

/* ---- drop ---------------------------------------------------------------- */

/* ?1 is bound to the text. */
static int samples_drop_run(struct ext_samples *table, const char *sql,
                            const char *text, sqlite3_int64 *changed,
                            char **err) {
  sqlite3_stmt *statement = NULL;
  int rc = ext_samples_prepare(table, sql, &statement, err);
  if (rc == SQLITE_OK)
    rc = sqlite3_bind_text(statement, 1, text, -1, SQLITE_STATIC);
  if (rc == SQLITE_OK)
    rc = ext_samples_run(table, statement, err);
  if (rc == SQLITE_OK)
    *changed += sqlite3_changes64(table->db);
  sqlite3_finalize(statement);
  return rc;
}

/* Drops the files that match a condition, with everything of theirs. */
static int samples_drop_files(struct ext_samples *table, const char *column,
                              const char *text, sqlite3_int64 *changed,
                              char **err) {
  static const char *const parts[] = {
      "DELETE FROM @blocks WHERE block >> 40 IN (SELECT file FROM @files WHERE "
      "%s = ?1)",
      "DELETE FROM @gone WHERE part >> 40 IN (SELECT file FROM @files WHERE %s "
      "= ?1)",
      "DELETE FROM @files WHERE %s = ?1"};
  int rc = SQLITE_OK;
  for (int i = 0; i < 3 && rc == SQLITE_OK; i++) {
    char *sql = sqlite3_mprintf(parts[i], column);
    *changed = 0;
    rc = sql ? samples_drop_run(table, sql, text, changed, err) : SQLITE_NOMEM;
    sqlite3_free(sql);
  }
  return rc;
}

static int samples_command_drop(struct ext_samples *table,
                                const struct ext_samples_new *with,
                                char **err) {
  int is_path = sqlite3_value_type(with->path) != SQLITE_NULL;
  int is_dataset = sqlite3_value_type(with->dataset) != SQLITE_NULL;
  char path[EMB_PATH_MAX + 1];
  const char *text = NULL;
  sqlite3_int64 changed = 0;
  emb_err why;
  int rc;
  if (is_path == is_dataset)
    return ext_error(err, SQLITE_ERROR, "'drop' needs a path or a dataset");
  rc = is_path ? ext_arg_text(with->path, "path", &text, err)
               : ext_samples_dataset(with->dataset, &text, err);
  if (rc == SQLITE_OK && is_path) {
    if (emb_samples_absolute(text, path, sizeof path, &why))
      return ext_engine_error(err, why.code, why.text);
    text = path;
  }
  if (rc == SQLITE_OK)
    rc = samples_drop_files(table, is_path ? "path" : "dataset", text, &changed,
                            err);
  if (rc == SQLITE_OK && is_dataset)
    rc = samples_drop_run(table, "DELETE FROM @rows WHERE dataset = ?1", text,
                          &changed, err);
  if (rc == SQLITE_OK && is_path && changed == 0)
    rc = ext_error(err, SQLITE_ERROR, "the file %s is not registered", text);
  return rc;
}

int ext_samples_command(struct ext_samples *table, sqlite3_value *command,
                        const struct ext_samples_new *with, char **err) {
  static const char *const names[] = {"check", "drop"};
  const char *text = NULL;
  struct near near;
  int rc = ext_arg_text(command, "command", &text, err);
  if (rc != SQLITE_OK)
    return rc;
  if (near_is("check", text))
    return samples_command_check(table, err);
  if (near_is("drop", text))
    return samples_command_drop(table, with, err);
  near_start(&near, text, strlen(text));
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    near_offer(&near, names[i]);
  return ext_error(err, SQLITE_ERROR, "unknown command: %s%s", text,
                   near_text(&near));
}
