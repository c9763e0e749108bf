/* SPDX-License-Identifier: MIT
**
** keys_file.c -- files of rows of a table with text keys.  The texts are in
** SQLite; the rows are in the store, which another process may own.
**
** EXPORT    The store writes its rows with their numbers to a temporary file.
**           It is opened and unlinked here, and copied to path with the text of
**           each row added (emb_file_add_texts).
** IMPORT    1  the whole file is checked                   [emb_file_verify]
**           2  each row's text is looked up; new texts of rows that are put,
**              not of deleted rows, are added and committed, FILE_STEP at a
**              time
**           3  SQLite's write lock is held from here on; if texts were removed
**              since step 2 began, step 2 is repeated
**           4  the caller gives the numbers to the store, which puts the rows
**           So a crash at any time leaves at most texts without rows.  So does
**           a file that the store refuses in step 4 (a file before this one is
**           missing); the command 'optimize' removes such texts.
** MEMORY    8 bytes per row of an imported file; the store, which applies the
**           file as one transaction, needs more.
** THREADS   See conn.h.
*/
#include "engine/storage/pack/emb_file.h"
#include "table.h"
SQLITE_EXTENSION_INIT3

#include <string.h>
#include <unistd.h>

enum { FILE_STEP = 4096, FILE_STEP_BYTES = 1 << 20, FILE_ATTEMPTS = 8 };

/* ---- import -------------------------------------------------------------- */

/* The texts of consecutive rows. */
struct file_step {
  struct ext_text *texts;
  uint8_t *deleted;
  char *bytes; /* of the texts, one after the other */
  size_t n, used, room;
  size_t first; /* number of the first row */
};

static void step_free(struct file_step *step) {
  sqlite3_free(step->texts);
  sqlite3_free(step->deleted);
  sqlite3_free(step->bytes);
}

static int step_make(struct file_step *step) {
  step->texts = sqlite3_malloc64(FILE_STEP * sizeof *step->texts);
  step->deleted = sqlite3_malloc64(FILE_STEP);
  return step->texts && step->deleted ? SQLITE_OK : SQLITE_NOMEM;
}

/* Appends a row.  The bytes may move, so the texts' addresses are set later. */
static int step_add(struct file_step *step, const emb_file_row *row) {
  size_t n = row->text_bytes;
  if (step->room - step->used < n) {
    size_t room = step->used + n + FILE_STEP_BYTES;
    char *larger = sqlite3_realloc64(step->bytes, room);
    if (larger == NULL)
      return SQLITE_NOMEM;
    step->bytes = larger;
    step->room = room;
  }
  if (n)
    memcpy(step->bytes + step->used, row->text, n);
  step->texts[step->n] = (struct ext_text){NULL, n};
  step->deleted[step->n++] = (uint8_t)row->deleted;
  step->used += n;
  return SQLITE_OK;
}

/* Reads the next rows; step->n is 0 at the end. */
static int step_read(struct file_step *step, emb_file *file, char **err) {
  emb_err error = {0, ""};
  const char *at;
  int found = 1, rc = SQLITE_OK;
  step->first += step->n;
  step->n = step->used = 0;
  while (rc == SQLITE_OK && step->n < FILE_STEP &&
         step->used < FILE_STEP_BYTES) {
    emb_file_row row;
    rc = emb_file_next_key(file, &row, &found, &error);
    if (rc)
      return ext_engine_error(err, rc, error.text);
    if (!found)
      break;
    rc = step_add(step, &row);
  }
  at = step->bytes;
  for (size_t i = 0; i < step->n; i++) {
    step->texts[i].at = at;
    at += step->texts[i].n;
  }
  return rc;
}

/* Adds the texts that have no number, after moving them to the front. */
static int step_add_new(struct ext_table *table, struct file_step *step,
                        sqlite3 *other, int64_t *ids, char **err) {
  struct ext_link *link = table->link;
  const struct ext_dict_rows rows = {ext_keys_exist, link};
  struct ext_dict_batch batch = {step->texts, 0, NULL};
  size_t *at = sqlite3_malloc64(step->n * sizeof *at);
  int rc = SQLITE_OK;
  batch.ids = sqlite3_malloc64(step->n * sizeof *batch.ids);
  if (at == NULL || batch.ids == NULL)
    rc = SQLITE_NOMEM;
  for (size_t i = 0; i < step->n && rc == SQLITE_OK; i++) {
    if (ids[i] ||
        (step->deleted[i] && !EMB_SEED(SEED_FILE_TEXTS_DELETED_ADDED)))
      continue;
    step->texts[batch.n] = step->texts[i];
    batch.ids[batch.n] = 0;
    at[batch.n++] = i;
  }
  if (batch.n && rc == SQLITE_OK)
    rc = ext_dict_add_now(link->dict, other, &batch, &rows, err);
  for (size_t i = 0; i < batch.n && rc == SQLITE_OK; i++)
    ids[at[i]] = batch.ids[i];
  sqlite3_free(at);
  sqlite3_free(batch.ids);
  return rc;
}

/* Sets the numbers of these rows.  A deletion of an unknown text gets a unique
** number that no text has. */
static int step_number(struct ext_table *table, struct file_step *step,
                       sqlite3 *other, int64_t *ids, char **err) {
  size_t absent = 0;
  int rc =
      ext_dict_find(table->link->dict, step->texts, step->n, ids, &absent, err);
  if (rc == SQLITE_OK && absent)
    rc = step_add_new(table, step, other, ids, err);
  for (size_t i = 0; i < step->n; i++)
    if (ids[i] == 0)
      ids[i] = -(int64_t)(step->first + i) - 1;
  return rc;
}

/* Sets the numbers of all rows, starting from the first. */
static int file_number(struct ext_table *table, emb_file *from, sqlite3 *other,
                       const emb_file_keys *keys, int64_t *ids, char **err) {
  struct file_step step = {NULL, NULL, NULL, 0, 0, 0, 0};
  int rc = step_make(&step);
  emb_file_rewind(from);
  do {
    if (rc == SQLITE_OK && ext_link_interrupted(table->conn))
      rc = ext_error(err, SQLITE_INTERRUPT, "interrupted");
    if (rc == SQLITE_OK)
      rc = step_read(&step, from, err);
    if (rc == SQLITE_OK && step.n > keys->n - step.first)
      rc = ext_error(err, SQLITE_CORRUPT_VTAB, "the file has too many rows");
    if (rc == SQLITE_OK && step.n)
      rc = step_number(table, &step, other, ids + step.first, err);
  } while (rc == SQLITE_OK && step.n);
  step_free(&step);
  return rc;
}

/* Sets the numbers, and prevents the removal of their texts from then on. */
static int file_hold(struct ext_table *table, emb_file *from,
                     struct ext_file_keys *file, int64_t *ids, char **err) {
  struct ext_dict *dict = table->link->dict;
  for (int i = 0; i < FILE_ATTEMPTS; i++) {
    int64_t removals = 0, before;
    int rc = ext_keys_begin(table, err);
    before = ext_dict_removals(dict);
    if (rc == SQLITE_OK)
      rc = file_number(table, from, file->other, &file->keys, ids, err);
    if (rc == SQLITE_OK)
      rc = ext_dict_hold(dict, file->other, &removals, &file->held, err);
    if (rc != SQLITE_OK)
      return rc;
    if (removals == before)
      return SQLITE_OK;
    ext_dict_let_go(&file->held);
  }
  return ext_error(err, SQLITE_BUSY, "texts of %s are being removed",
                   table->name);
}

/* Prefers a separate connection, which does not lock other databases attached
** to the user's.  It could not commit while the user's connection reads with a
** rollback journal, and not even begin with locking_mode=EXCLUSIVE. */
static int file_writer(struct ext_table *table, struct ext_file_keys *file,
                       char **err) {
  sqlite3 *db = table->conn->db;
  int is_exclusive = 1;
  int rc = ext_keys_writer(table, &file->other, err);
  if (rc == SQLITE_OK && file->other == NULL && table->file[0] &&
      sqlite3_txn_state(db, table->schema) == SQLITE_TXN_NONE) {
    rc = ext_place_is_exclusive(db, table->schema, &is_exclusive);
    rc = rc == SQLITE_OK ? rc : ext_sql_error(err, db, rc);
  }
  if (rc == SQLITE_OK && !is_exclusive)
    rc = ext_keys_connect(table, &file->other, err);
  if (rc != SQLITE_LOCKED)
    return rc;
  sqlite3_free(*err);
  *err = NULL;
  return ext_error(
      err, rc,
      "%s cannot take the texts of a file within a transaction that uses its "
      "database; restore or apply the file outside it",
      table->name);
}

static int file_take_texts(struct ext_table *table, emb_file *from,
                           const char *path, struct ext_file_keys *file,
                           char **err) {
  emb_err error = {0, ""};
  emb_file_info info;
  int64_t *ids;
  int rc;
  emb_file_about(from, &info);
  if (!info.has_texts)
    return ext_error(err, SQLITE_MISMATCH,
                     "the keys of %s are integers, those of %s are texts", path,
                     table->name);
  rc = emb_file_verify(from, ext_link_interrupted, table->conn, &error);
  if (rc)
    return ext_engine_error(err, rc, error.text);
  ids = sqlite3_malloc64(((size_t)info.rows + 1) * sizeof *ids);
  file->keys = (emb_file_keys){info.id, ids, (size_t)info.rows};
  file->give = &file->keys;
  if (ids == NULL)
    return SQLITE_NOMEM;
  rc = file_writer(table, file, err);
  return rc == SQLITE_OK ? file_hold(table, from, file, ids, err) : rc;
}

int ext_file_keys_begin(struct ext_table *table, const char *path,
                        struct ext_file_keys *file, char **err) {
  emb_err error = {0, ""};
  emb_file *from;
  int rc;
  emb_assert(!file->give && !file->other && !file->held.db);
  if (!ext_vtab(table)->options.text_key)
    return SQLITE_OK;
  rc = emb_file_open(path, &from, &error);
  if (rc)
    return ext_engine_error(err, rc, error.text);
  rc = file_take_texts(table, from, path, file, err);
  emb_file_close(from);
  return ext_wait_result(&table->conn->wait, rc, err);
}

void ext_file_keys_end(struct ext_file_keys *file) {
  ext_dict_let_go(&file->held);
  sqlite3_close(file->other);
  sqlite3_free((void *)(uintptr_t)file->keys.keys);
  *file = (struct ext_file_keys){.other = NULL};
}

/* ---- export -------------------------------------------------------------- */

char *ext_file_rows_name(const char *path) {
  uint64_t random;
  sqlite3_randomness(sizeof random, &random);
  return sqlite3_mprintf("%s-rows-%016llx", path, random);
}

struct file_texts {
  struct ext_table *table;
  int rc; /* of SQLite; its text is in *err */
  char **err;
  size_t n; /* texts looked up so far */
};

/* A transaction that reads an earlier state of the database sees rows that were
** added since, but not their texts. */
static int file_no_text(const struct file_texts *of, int64_t key) {
  const char *name = of->table->name;
  return sqlite3_get_autocommit(of->table->conn->db)
             ? ext_error(of->err, SQLITE_CORRUPT_VTAB,
                         "row %lld of %s has no text in %s_keys",
                         (long long)key, name, name)
             : ext_error(of->err, SQLITE_BUSY_SNAPSHOT,
                         "row %lld of %s has no text in %s_keys as this "
                         "transaction reads it; the row may be newer: end the "
                         "transaction and repeat",
                         (long long)key, name, name);
}

/* Saves SQLite's error, because the engine only sees its own code. */
static int file_text_of(void *arg, const emb_file_row *row, const char **text,
                        size_t *bytes, emb_err *error) {
  struct file_texts *of = arg;
  struct ext_dict *dict = of->table->link->dict;
  struct ext_text found;
  if (of->n++ % FILE_STEP == 0) { /* let others write in between */
    ext_dict_leave(dict);
    ext_dict_stay(dict);
  }
  of->rc = ext_dict_text(dict, row->key, &found, of->err);
  if (of->rc == SQLITE_OK && found.at == NULL)
    of->rc = file_no_text(of, row->key);
  *text = found.at;
  *bytes = found.n;
  error->code = of->rc ? EMB_CORRUPT : EMB_OK;
  return error->code;
}

static int file_interrupted(void *arg) {
  return ext_link_interrupted(((struct file_texts *)arg)->table->conn);
}

int ext_file_add_texts(struct ext_table *table, const char *rows,
                       const char *path, const char *options,
                       emb_file_writer **writer, char **err) {
  struct file_texts of = {table, SQLITE_OK, err, 0};
  const emb_file_texts how = {.text = file_text_of,
                              .stop = file_interrupted,
                              .arg = &of,
                              .options = options};
  emb_err error = {0, ""};
  emb_file *from;
  int rc = emb_file_open(rows, &from, &error);
  (void)unlink(rows);
  if (rc)
    return ext_engine_error(err, rc, error.text);
  rc = emb_file_add_texts(from, path, &how, writer, &error);
  ext_dict_leave(table->link->dict);
  emb_file_close(from);
  if (of.rc != SQLITE_OK)
    return of.rc;
  return rc ? ext_engine_error(err, rc, error.text) : SQLITE_OK;
}
