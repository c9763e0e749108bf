/* SPDX-License-Identifier: MIT
**
** dict_valid.c -- the assertions of a dictionary, and of its cache, fire.
*/
#include "death.h"
#include "sql_help.h"

#include "ext/dict/dict_sql.h"

static int exist_none(void *arg, const int64_t *ids, size_t n, uint8_t *are,
                      char **err) {
  (void)arg, (void)ids, (void)err;
  memset(are, 0, n);
  return SQLITE_OK;
}
static const struct ext_dict_rows rows = {exist_none, NULL};
static char *err;

TEST(the_cache) {
  struct ext_cache *cache = ext_cache_new();
  struct known_half *young = &cache->young;
  char text[20];
  for (int64_t i = 1; i <= 1000; i++) {
    struct ext_text t = {text,
                         (size_t)snprintf(text, sizeof text, "w%d", (int)i)};
    ext_cache_add(cache, &t, i);
  }
  CHECK(ext_cache_valid(cache));
  struct known_record *first = known_at(young, 1);
  CHECK_FIRES(first->n = KNOWN_TEXT_MAX + 1; ext_cache_valid(cache));
  CHECK_FIRES(first->text[0]++; ext_cache_valid(cache));
  CHECK_FIRES(first->id += 5000; ext_cache_valid(cache));
  CHECK_FIRES(young->used -= 8; ext_cache_valid(cache));
  CHECK_FIRES(young->used -= known_bytes(5); ext_cache_valid(cache));
  CHECK_FIRES(young->slots--; ext_cache_valid(cache));
  CHECK_FIRES(young->slots = 2 * KNOWN_SLOTS_MAX; ext_cache_valid(cache));
  CHECK_FIRES(young->by_text = NULL; ext_cache_valid(cache));
  CHECK_FIRES(young->records = young->slots; ext_cache_valid(cache));
  CHECK_FIRES(young->room = young->used - 1; ext_cache_valid(cache));
  CHECK_FIRES(young->used = young->room = KNOWN_ARENA_MAX + 8;
              ext_cache_valid(cache));
  CHECK_FIRES(memset(young->by_text, 0, young->slots * 8);
              ext_cache_valid(cache));
  CHECK_FIRES(memset(young->by_id, 0, young->slots * 8);
              ext_cache_valid(cache));
  ext_cache_free(cache);
}

static sqlite3 *open_words(struct ext_dict **dict) {
  sqlite3 *db = sql_connect(":memory:", 0);
  sql_runs(db, "CREATE TABLE words_keys(id INTEGER PRIMARY KEY, key TEXT "
               "UNIQUE NOT NULL);"
               "CREATE TABLE words_emb(id INTEGER PRIMARY KEY, removals);"
               "INSERT INTO words_emb VALUES(1, 0);"
               "INSERT INTO words_keys VALUES(1, 'one'), (2, 'two')");
  *dict = ext_dict_new();
  CHECK_EQ_INT(ext_dict_begin(*dict, db, "main", "words", &err), SQLITE_OK);
  return db;
}

TEST(a_dictionary) {
  struct ext_dict *dict;
  sqlite3 *db = open_words(&dict), *other = sql_connect(":memory:", 0);
  CHECK(ext_dict_valid(dict));
  CHECK_FIRES(dict->schema = NULL; ext_dict_valid(dict));
  CHECK_FIRES(dict->room = 5; ext_dict_valid(dict));
  CHECK_FIRES(dict->keeps = 0; ext_dict_valid(dict));
  CHECK_FIRES(dict->db = other; ext_dict_valid(dict));
  CHECK_FIRES(ext_dict_begin(dict, other, "main", "words", &err));
  ext_dict_free(dict);
  CHECK_EQ_INT(sqlite3_close(other), SQLITE_OK);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  CHECK_ALL_FIRED("ext/dict/dict_valid.c");
}

TEST(changes_need_the_right_transaction) {
  struct ext_dict *dict;
  struct ext_text text = {"three", 5};
  int64_t id = 0;
  struct ext_dict_batch batch = {&text, 1, &id};
  struct ext_dict_held held = {NULL, NULL, NULL};
  sqlite3 *db = open_words(&dict);
  CHECK_FIRES(ext_dict_add(dict, &batch, &rows, &err));
  CHECK_FIRES(ext_dict_clean(dict, &rows, &err));
  CHECK_FIRES(ext_dict_hold(dict, db, &id, &held, &err));
  CHECK(sql_runs(db, "BEGIN IMMEDIATE"));
  CHECK_FIRES(ext_dict_add_now(dict, NULL, &batch, &rows, &err));
  CHECK_EQ_INT(ext_dict_add(dict, &batch, &rows, &err), SQLITE_OK);
  CHECK(sql_runs(db, "COMMIT"));
  CHECK_EQ_INT(id, 3);
  ext_dict_free(dict);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  CHECK_ALL_FIRED("ext/dict/change.c");
}
