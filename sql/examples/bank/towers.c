/* SPDX-License-Identifier: MIT
**
** towers.c -- two towers; see towers.h.
*/
#include "towers.h"

#include <stdlib.h>
#include <string.h>

#include "../../lib/random.h"
#include "../../lib/neural/contrast.h"

enum { WIDTH = 64, HIDDEN1 = 512, HIDDEN2 = 256, AT_ONCE = 512 };

static const double WORDS = 1000; /* multiple of the layers' rate */
static const float TEMPERATURE = 0.1f;
static const char *const NAME[SIDES] = {"lemma", "gloss"};

void towers_new(struct towers *towers, const struct options *options,
                const struct data *data, uint64_t seed) {
  char *file = sqlite3_mprintf("%s/towers.db", options->directory);
  memset(towers, 0, sizeof(*towers));
  towers->data = data;
  towers->random = seed;
  towers->rate = 0.001;
  towers->db = database_open(file, options->extension);
  sqlite3_free(file);
  for (int side = 0; side < SIDES; side++) {
    struct tower *tower = &towers->tower[side];
    struct encoder_shape shape = {side == LEMMA ? data->pieces : data->words,
                                  WIDTH,
                                  {HIDDEN1, HIDDEN2},
                                  TOWER_WIDTH};
    encoder_new(&tower->encoder, &shape, &towers->random);
    tower->words = side == LEMMA ? &data->lemma : &data->gloss;
    database_run(towers->db,
                 "CREATE VIRTUAL TABLE %w USING emb(synset INTEGER PRIMARY KEY,"
                 " vector FLOAT[%d] metric=cosine, memory='64MiB')",
                 NAME[side], TOWER_WIDTH);
    table_open(&tower->bank, towers->db, NAME[side], TOWER_WIDTH);
  }
}

static void room_free(struct towers *towers) {
  for (int side = 0; side < SIDES; side++) {
    free(towers->tower[side].candidate);
    free(towers->tower[side].gradient);
  }
  free(towers->nodes);
  free(towers->keys);
  free(towers->logits);
}

void towers_free(struct towers *towers) {
  room_free(towers);
  for (int side = 0; side < SIDES; side++) {
    table_close(&towers->tower[side].bank);
    encoder_free(&towers->tower[side].encoder);
  }
  database_close(towers->db);
}

static void room_for(struct towers *towers, size_t count) {
  size_t all = count + towers->negatives;
  if (count <= towers->room && towers->negatives <= towers->negatives_room) {
    return;
  }
  room_free(towers);
  towers->room = count;
  towers->negatives_room = towers->negatives;
  for (int side = 0; side < SIDES; side++) {
    struct tower *tower = &towers->tower[side];
    tower->candidate = need(all * TOWER_WIDTH, sizeof(float));
    tower->gradient = need(all * TOWER_WIDTH, sizeof(float));
  }
  towers->nodes = need(all, sizeof(uint32_t));
  towers->keys = need(all, sizeof(int64_t));
  towers->logits = need(count * (towers->negatives + 1), sizeof(float));
}

/* Draws the negatives of a batch from the pool; some may occur twice. */
static void choose_negatives(struct towers *towers, uint32_t *to) {
  for (size_t i = 0; i < towers->negatives; i++) {
    to[i] = towers->pool[random_below(&towers->random, towers->pool_count)];
  }
}

/* One direction of the loss: lemmas choose among glosses, or vice versa. */
static double choose(struct towers *towers, enum side from, size_t count) {
  struct tower *query = &towers->tower[from];
  struct tower *own = &towers->tower[!from];
  int computed = towers->from == TRAINER;
  size_t own_floats = count * TOWER_WIDTH;
  const float *candidate = computed ? own->encoder.embedding : own->candidate;
  struct contrast contrast = {.width = TOWER_WIDTH,
                              .rows = count,
                              .negatives = towers->negatives,
                              .temperature = TEMPERATURE,
                              .query = query->encoder.embedding,
                              .own = candidate,
                              .negative = candidate + own_floats,
                              .own_id = towers->nodes,
                              .negative_id = towers->nodes + count,
                              .query_gradient = query->gradient,
                              .own_gradient = computed ? own->gradient : NULL,
                              .negative_gradient =
                                  computed ? own->gradient + own_floats : NULL,
                              .logits = towers->logits};
  return contrast_loss(&contrast);
}

double towers_step(struct towers *towers, const uint32_t *nodes, size_t count) {
  int computed = towers->from == TRAINER;
  size_t negatives = towers->negatives;
  size_t all = computed ? count + negatives : count;
  room_for(towers, count);
  memcpy(towers->nodes, nodes, count * sizeof(*nodes));
  choose_negatives(towers, towers->nodes + count);
  data_keys(towers->data, towers->nodes, count + negatives, towers->keys);
  for (int side = 0; side < SIDES; side++) {
    struct tower *tower = &towers->tower[side];
    encoder_forward(&tower->encoder, tower->words, towers->nodes, all);
    memset(tower->gradient, 0, all * TOWER_WIDTH * sizeof(float));
    if (!computed) {
      table_get(&tower->bank, towers->keys, count + negatives,
                tower->candidate);
    }
  }
  double loss = choose(towers, LEMMA, count) + choose(towers, GLOSS, count);
  for (int side = 0; side < SIDES; side++) {
    struct tower *tower = &towers->tower[side];
    encoder_backward(&tower->encoder, tower->gradient);
    encoder_step(&tower->encoder, towers->rate, WORDS * towers->rate);
  }
  return loss / 2;
}

/* Writes the embeddings of nodes to a table. */
static void embed(struct towers *towers, struct tower *tower,
                  struct table *table, const uint32_t *nodes, size_t count) {
  int64_t keys[AT_ONCE];
  for (size_t first = 0; first < count; first += AT_ONCE) {
    size_t n = count - first < AT_ONCE ? count - first : AT_ONCE;
    data_keys(towers->data, nodes + first, n, keys);
    table_put(table, keys, n,
              encoder_forward(&tower->encoder, tower->words, nodes + first, n));
  }
}

void towers_refresh(struct towers *towers, const uint32_t *nodes,
                    size_t count) {
  towers->pool = nodes;
  towers->pool_count = count;
  for (int side = 0; side < SIDES; side++) {
    struct tower *tower = &towers->tower[side];
    embed(towers, tower, &tower->bank, nodes, count);
  }
}

/* How many of these queries have their own synset among the k nearest. */
static size_t hits(struct towers *towers, const uint32_t *nodes, size_t count,
                   size_t k) {
  struct tower *tower = &towers->tower[LEMMA];
  const float *queries =
      encoder_forward(&tower->encoder, tower->words, nodes, count);
  sqlite3_stmt *statement = statement_new(
      towers->db, "SELECT query, key FROM emb_nearest('shelf', ?1, ?2)");
  sqlite3_bind_blob64(statement, 1, queries,
                      count * TOWER_WIDTH * sizeof(float), SQLITE_STATIC);
  sqlite3_bind_int64(statement, 2, (int64_t)k);
  size_t right = 0;
  while (statement_step(statement)) {
    size_t query = (size_t)sqlite3_column_int64(statement, 0);
    right += sqlite3_column_int64(statement, 1) ==
             towers->data->synset[nodes[query]];
  }
  sqlite3_finalize(statement);
  return right;
}

double towers_recall(struct towers *towers, const uint32_t *nodes, size_t count,
                     size_t k) {
  struct table shelf;
  size_t right = 0;
  database_run(
      towers->db,
      "CREATE VIRTUAL TABLE shelf USING emb(synset INTEGER PRIMARY KEY,"
      " vector FLOAT[%d] metric=cosine)",
      TOWER_WIDTH);
  table_open(&shelf, towers->db, "shelf", TOWER_WIDTH);
  embed(towers, &towers->tower[GLOSS], &shelf, nodes, count);
  for (size_t first = 0; first < count; first += AT_ONCE) {
    size_t n = count - first < AT_ONCE ? count - first : AT_ONCE;
    right += hits(towers, nodes + first, n, k);
  }
  table_close(&shelf);
  return (double)right / (double)count;
}
