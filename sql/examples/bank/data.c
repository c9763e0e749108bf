/* SPDX-License-Identifier: MIT
**
** data.c -- WordNet in arrays; see data.h.
*/
#include "data.h"

#include <stdlib.h>
#include <string.h>

static void read_nodes(struct data *data, sqlite3 *db) {
  static const char *const PART[PARTS] = {"train", "valid", "test"};
  data->nodes = (size_t)database_number(db, "SELECT count(*) FROM node");
  data->synset = need(data->nodes, sizeof(*data->synset));
  data->class = need(data->nodes, sizeof(*data->class));
  for (int part = 0; part < PARTS; part++) {
    data->part[part] = need(data->nodes, sizeof(uint32_t));
  }
  sqlite3_stmt *statement = statement_new(
      db, "SELECT number, synset, class, part FROM node ORDER BY number");
  while (statement_step(statement)) {
    uint32_t node = (uint32_t)sqlite3_column_int64(statement, 0);
    data->synset[node] = sqlite3_column_int64(statement, 1);
    data->class[node] = (uint32_t)sqlite3_column_int(statement, 2);
    const char *name = (const char *)sqlite3_column_text(statement, 3);
    for (int part = 0; part < PARTS; part++) {
      if (!strcmp(name, PART[part])) {
        data->part[part][data->part_count[part]++] = node;
      }
    }
  }
  sqlite3_finalize(statement);
}

void data_read(struct data *data, const char *file) {
  sqlite3 *db = NULL;
  memset(data, 0, sizeof(*data));
  if (sqlite3_open_v2(file, &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK) {
    die("%s: %s", file, sqlite3_errmsg(db));
  }
  read_nodes(data, db);
  data->words = (size_t)database_number(db, "SELECT count(*) FROM word");
  data->pieces = (size_t)database_number(db, "SELECT count(*) FROM piece");
  lists_read(&data->gloss, db,
             "SELECT node, word FROM gloss_word ORDER BY node, word",
             data->nodes);
  lists_read(&data->lemma, db,
             "SELECT node, piece FROM lemma_piece ORDER BY node, piece",
             data->nodes);
  lists_read(&data->edges, db,
             "SELECT node, other FROM edge ORDER BY node, other", data->nodes);
  database_close(db);
}

void data_free(struct data *data) {
  free(data->synset);
  free(data->class);
  for (int part = 0; part < PARTS; part++) {
    free(data->part[part]);
  }
  lists_free(&data->gloss);
  lists_free(&data->lemma);
  lists_free(&data->edges);
}

static int compare_keys(const void *a, const void *b) {
  int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
  return (left > right) - (left < right);
}

uint32_t data_node(const struct data *data, int64_t synset) {
  const int64_t *at =
      bsearch(&synset, data->synset, data->nodes, sizeof(synset), compare_keys);
  if (!at) {
    die("%lld is no synset", (long long)synset);
  }
  return (uint32_t)(at - data->synset);
}

void data_keys(const struct data *data, const uint32_t *nodes, size_t count,
               int64_t *keys) {
  for (size_t i = 0; i < count; i++) {
    keys[i] = data->synset[nodes[i]];
  }
}
