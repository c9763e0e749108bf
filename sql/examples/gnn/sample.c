/* SPDX-License-Identifier: MIT
**
** sample.c -- the part of the graph that a batch of synsets needs; see
** sample.h.
*/
#include "sample.h"

#include <stdlib.h>
#include <string.h>

#include "../../lib/random.h"

void rows_new(struct rows *rows, size_t nodes) {
  rows->row = need(nodes, sizeof(uint32_t));
  rows->stamp = need(nodes, sizeof(uint32_t));
  rows->number = 0;
}

void rows_free(struct rows *rows) {
  free(rows->row);
  free(rows->stamp);
}

static uint32_t row_of(struct sample *sample, const struct data *data,
                       struct rows *rows, uint32_t node) {
  if (rows->stamp[node] != rows->number) {
    rows->stamp[node] = rows->number;
    rows->row[node] = (uint32_t)sample->rows;
    sample->key[sample->rows++] = data->synset[node];
  }
  return rows->row[node];
}

static uint32_t any_neighbour(const struct data *data, uint32_t node,
                              uint64_t *random) {
  size_t count = lists_length(&data->edges, node);
  return count ? lists_items(&data->edges, node)[random_below(random, count)]
               : node;
}

void sample_draw(struct sample *sample, const struct data *data,
                 struct rows *rows, const uint32_t *targets, size_t count,
                 uint64_t *random) {
  uint32_t node[MIDDLE];
  size_t middle = count;
  sample->targets = count;
  sample->rows = 0;
  rows->number++;
  memcpy(sample->target, targets, count * sizeof(*targets));
  memcpy(node, targets, count * sizeof(*targets));
  for (size_t i = 0; i < count; i++) {
    for (int n = 0; n < FAN1; n++) {
      node[middle++] = any_neighbour(data, targets[i], random);
    }
  }
  for (size_t i = 0; i < middle; i++) {
    sample->middle[i] = row_of(sample, data, rows, node[i]);
    for (int n = 0; n < FAN2; n++) {
      uint32_t leaf = any_neighbour(data, node[i], random);
      sample->leaf[i * FAN2 + (size_t)n] = row_of(sample, data, rows, leaf);
    }
  }
}
