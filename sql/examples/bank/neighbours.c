/* SPDX-License-Identifier: MIT
**
** neighbours.c -- a loss that pulls synsets towards their neighbours; see
** neighbours.h.
*/
#include "neighbours.h"

#include <stdlib.h>
#include <string.h>

#include "../../lib/random.h"

const char *const SOURCES[] = {"none", "bank", "trainer", NULL};

void neighbours_draw(const struct lists *edges, uint32_t node, size_t k,
                     uint64_t *random, uint32_t *to) {
  size_t count = lists_length(edges, node);
  const uint32_t *near = lists_items(edges, node);
  if (count == 0) {
    for (size_t i = 0; i < k; i++) {
      to[i] = node;
    }
    return;
  }
  size_t start = count > k ? random_below(random, count) : 0;
  for (size_t i = 0; i < k && i < count; i++) {
    to[i] = near[(start + i) % count];
  }
  for (size_t i = count; i < k; i++) {
    uint32_t between = near[random_below(random, count)];
    to[i] = lists_items(
        edges, between)[random_below(random, lists_length(edges, between))];
  }
}

static void room_for(struct trainer *trainer, size_t count) {
  size_t all = count * (1 + trainer->k);
  if (all <= trainer->room) {
    return;
  }
  trainer_free(trainer);
  trainer->room = all;
  trainer->nodes = need(all, sizeof(uint32_t));
  trainer->keys = need(all, sizeof(int64_t));
  trainer->gradient = need(all * EMBEDDING, sizeof(float));
}

void trainer_free(struct trainer *trainer) {
  free(trainer->nodes);
  free(trainer->keys);
  free(trainer->gradient);
  trainer->room = 0;
}

/* Adds the gradient of the distance of each embedding to those rows of its k
** neighbours that were found. */
static void pull_from_bank(struct trainer *trainer, const float *embedding,
                           size_t count) {
  size_t k = trainer->k, all = count * k;
  float scale = 2 * trainer->alpha / (float)(all * EMBEDDING);
  const uint8_t *found;
  data_keys(trainer->data, trainer->nodes + count, all, trainer->keys);
  const float *row = table_find(trainer->bank, trainer->keys, all, &found);
  for (size_t i = 0; i < all; i++, row += EMBEDDING) {
    float *gradient = trainer->gradient + i / k * EMBEDDING;
    const float *own = embedding + i / k * EMBEDDING;
    float weight = found[i] ? scale : 0;
    for (size_t j = 0; j < EMBEDDING; j++) {
      gradient[j] += weight * (own[j] - row[j]);
    }
    trainer->looked_up += found[i];
  }
  trainer->sought += (double)all;
  table_find_end(trainer->bank);
}

/* Adds the gradient of both ends of each pair. */
static void pull_in_trainer(struct trainer *trainer, const float *embedding,
                            size_t count) {
  size_t k = trainer->k;
  float scale = 2 * trainer->alpha / (float)(count * k * EMBEDDING);
  const float *row = embedding + count * EMBEDDING;
  float *to = trainer->gradient + count * EMBEDDING;
  for (size_t i = 0; i < count; i++) {
    float *gradient = trainer->gradient + i * EMBEDDING;
    const float *own = embedding + i * EMBEDDING;
    for (size_t n = 0; n < k; n++, row += EMBEDDING, to += EMBEDDING) {
      for (size_t j = 0; j < EMBEDDING; j++) {
        float part = scale * (own[j] - row[j]);
        gradient[j] += part;
        to[j] -= part;
      }
    }
  }
}

double trainer_step(struct trainer *trainer, const uint32_t *nodes,
                    const uint32_t *class, size_t labelled, size_t count) {
  const struct data *data = trainer->data;
  room_for(trainer, count);
  memcpy(trainer->nodes, nodes, count * sizeof(*nodes));
  for (size_t i = 0; trainer->source != NOWHERE && i < count; i++) {
    neighbours_draw(&data->edges, nodes[i], trainer->k, &trainer->random,
                    trainer->nodes + count + i * trainer->k);
  }
  size_t all = trainer->source == IN_TRAINER ? count * (1 + trainer->k) : count;
  const float *embedding =
      model_embed(trainer->model, data, trainer->nodes, all);
  memset(trainer->gradient, 0, all * EMBEDDING * sizeof(float));
  double loss = model_loss(trainer->model, class, labelled, trainer->gradient);
  if (trainer->source == FROM_BANK) {
    pull_from_bank(trainer, embedding, count);
  } else if (trainer->source == IN_TRAINER) {
    pull_in_trainer(trainer, embedding, count);
  }
  model_step(trainer->model, trainer->gradient, trainer->rate);
  if (trainer->puts) {
    data_keys(data, nodes, count, trainer->keys);
    table_put(trainer->bank, trainer->keys, count, embedding);
  }
  return loss;
}
