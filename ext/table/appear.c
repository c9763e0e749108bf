/* SPDX-License-Identifier: MIT
**
** appear.c -- rows of a table with text keys that are created when they are
** looked up (insert_on='lookup').
**
** A Get creates a row for each requested number that has none.  So the number's
** text must be committed first: new texts are added at once, as before emb_put
** (keys.c), and checked again after the Get.
**
** LOCKED    If a text cannot be added at once, a function and words(:keys)
**           fail; a statement that compares the key finds no row, as it would
**           on a table without insert_on='lookup'.
** READERS   A read-only connection creates no rows: it reads with emb_peek,
**           which also creates none for the number 0 of absent texts.  So does
**           a connection with PRAGMA query_only, with integer keys, too.
** NUMBERS   from other sources, a rowid or the shadow table of auxiliary
**           columns, may have no text, so they are read with emb_peek, too.
*/
#include "table_cursor.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

int ext_inserts_on_lookup(const struct ext_table *table) {
  return ext_vtab(table)->options.config.insert_on == EMB_INSERT_ON_LOOKUP;
}

int ext_keys_appear(const struct ext_table *table) {
  return ext_vtab(table)->options.text_key && ext_inserts_on_lookup(table);
}

int ext_keys_come(const struct ext_table *table) {
  return ext_inserts_on_lookup(table) && !table->link->readonly &&
         !ext_conn_is_query_only(table->conn);
}

/* A text added by the open transaction can only have a row of the same
** transaction.  Without one, the lookup would create it: SQLITE_LOCKED. */
static int look_at_uncommitted(struct ext_table *table,
                               const struct ext_keys *keys, char **err) {
  int rc = SQLITE_OK;
  for (size_t i = 0; i < keys->n && rc == SQLITE_OK; i++) {
    uint8_t is = 1;
    if (ext_dict_is_committed(table->link->dict, keys->at[i]))
      continue;
    rc = ext_keys_exist(table->link, &keys->at[i], 1, &is, err);
    if (rc == SQLITE_OK && !is)
      rc = ext_keys_locked(table, err);
  }
  return rc;
}

int ext_keys_look(struct ext_table *table, struct ext_keys *keys, char **err) {
  int rc;
  if (!ext_inserts_on_lookup(table) || EMB_SEED(SEED_LOOKUP_WITHOUT_TEXT))
    return SQLITE_OK;
  keys->peeks = (ext_keys_appear(table) && table->link->readonly) ||
                ext_conn_is_query_only(table->conn);
  if (keys->peeks || !ext_keys_appear(table))
    return SQLITE_OK;
  keys->settles = 1;
  rc = look_at_uncommitted(table, keys, err);
  return rc == SQLITE_OK ? ext_keys_commit(table, keys, err) : rc;
}

/* ---- the keys of a statement --------------------------------------------- */

/* The texts of `word = ?` and `word IN (...)`.  A value of a list is valid only
** until the next one is fetched, so lists are traversed twice. */
struct look_texts {
  struct ext_text *at; /* NULL: first pass, which only counts */
  char *memory;
  size_t n, bytes;
};

static int look_text(struct look_texts *texts, sqlite3_value *value,
                     char **err) {
  struct ext_text text;
  int rc;
  if (sqlite3_value_type(value) != SQLITE_TEXT)
    return SQLITE_OK;
  rc = ext_text_from_value(value, "", &text, err);
  if (rc == SQLITE_OK && texts->at) {
    texts->at[texts->n] =
        (struct ext_text){texts->memory + texts->bytes, text.n};
    memcpy(texts->memory + texts->bytes, text.at, text.n + 1);
  }
  texts->n++;
  texts->bytes += text.n + 1;
  return rc;
}

static int look_value(struct look_texts *texts, sqlite3_value *from, int is_in,
                      char **err) {
  sqlite3_value *value;
  int rc = is_in ? SQLITE_OK : look_text(texts, from, err);
  for (int next = is_in ? sqlite3_vtab_in_first(from, &value) : SQLITE_DONE;
       rc == SQLITE_OK && next != SQLITE_DONE;
       next = sqlite3_vtab_in_next(from, &value))
    rc = next == SQLITE_OK ? look_text(texts, value, err) : next;
  return rc;
}

static int look_plan(struct look_texts *texts, const char *plan,
                     sqlite3_value **argv, char **err) {
  int rc = SQLITE_OK;
  texts->n = texts->bytes = 0;
  for (int i = 0; rc == SQLITE_OK && plan[i] && plan[i] != ';'; i++)
    if (plan[i] == 't' || plan[i] == 'T')
      rc = look_value(texts, argv[i], plan[i] == 'T', err);
  return rc;
}

static int look_read(const char *plan, sqlite3_value **argv,
                     struct ext_keys *keys, char **err) {
  struct look_texts texts = {NULL, NULL, 0, 0};
  int rc = look_plan(&texts, plan, argv, err);
  if (rc != SQLITE_OK || texts.n == 0)
    return rc;
  keys->n = texts.n;
  keys->owned = 1;
  keys->at = sqlite3_malloc64(texts.n * sizeof *keys->at);
  texts.at = sqlite3_malloc64(texts.n * sizeof *texts.at);
  texts.memory = sqlite3_malloc64(texts.bytes);
  keys->texts =
      (struct ext_texts){.at = texts.at, .n = texts.n, .memory = texts.memory};
  if (keys->at == NULL || texts.at == NULL || texts.memory == NULL)
    return SQLITE_NOMEM;
  return look_plan(&texts, plan, argv, err);
}

/* Does the plan have one of these letters? */
static int look_has(const char *plan, const char *letters) {
  return strcspn(plan, letters) < strcspn(plan, ";");
}

int ext_cursor_look(struct ext_cursor *cursor, const char *plan,
                    sqlite3_value **argv, struct ext_keys *keys, char **err) {
  struct ext_table *table = ext_cursor_table(cursor);
  int rc;
  if (!ext_inserts_on_lookup(table))
    return SQLITE_OK;
  cursor->peek = cursor->query_only;
  if (!ext_keys_appear(table))
    return SQLITE_OK;
  cursor->peek |= cursor->link->readonly || look_has(plan, "=i");
  if (cursor->peek || !(cursor->flags & EXT_PLAN_VECTORS) ||
      cursor->flags & (EXT_PLAN_LAZY | EXT_PLAN_NEAREST) ||
      look_has(plan, "kms"))
    return SQLITE_OK;
  rc = look_read(plan, argv, keys, err);
  if (rc == SQLITE_OK && keys->n)
    rc = ext_keys_find(table, keys, err);
  if (rc == SQLITE_OK && keys->n)
    rc = ext_keys_look(table, keys, err);
  if (rc != SQLITE_LOCKED)
    return rc;
  sqlite3_free(*err);
  *err = NULL;
  keys->settles = 0; /* texts may be absent: nothing was created for them */
  cursor->peek = !cursor->link->bounded;
  return SQLITE_OK;
}
