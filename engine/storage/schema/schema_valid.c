/* SPDX-License-Identifier: MIT
**
** schema_valid.c -- checks a schema against schema.h.  Only in self-checking
** builds (base/debug.h).  The text of a schema was checked when it was parsed.
*/
#include "schema.h"

#if EMB_DEBUG > 0

static uint32_t schema_valid_bytes(const struct segment *segment) {
  return segment->dim * (segment->type == EMB_F16 ? 2 : 4);
}

/* The vectors follow each other, in the row and in the value. */
static void check_vectors(const struct schema *schema) {
  uint32_t dim = 0, at = 0;
  for (uint32_t i = 0; i < schema->count; i++) {
    const struct segment *segment = &schema->segments[i];
    emb_assert(segment->dim > 0 && segment->type <= EMB_F16);
    emb_assert(segment->first == dim);
    emb_assert(segment->stored_at == at);
    dim += segment->dim;
    at += (schema_valid_bytes(segment) + 3) / 4 * 4;
  }
  emb_assert(schema->dim == dim && dim <= EMB_DIM_MAX);
  emb_assert(schema->state_at == at);
}

/* So do the states of the optimizers; then comes the track. */
static void check_states(const struct schema *schema) {
  uint32_t floats = 0;
  for (uint32_t i = 0; i < schema->count; i++) {
    const struct segment *segment = &schema->segments[i];
    emb_assert(!segment->state_floats || segment->optimized);
    emb_assert(segment->state_at == schema->state_at + floats * 4);
    floats += segment->state_floats;
  }
  emb_assert(schema->state_floats == floats);
  emb_assert(schema->track_at == schema->state_at + floats * 4);
}

/* Rows that expire, are counted or evicted record their updates. */
static void check_retention(const struct schema *schema) {
  int forgets =
      ttl_any(&schema->ttl) || schema->admission.kind || schema->capacity;
  emb_assert(!forgets || schema_tracks(schema));
  emb_assert(!schema->capacity || schema->evict == EMB_EVICT_LRU ||
             schema->evict == EMB_EVICT_LFU);
  (void)ttl_valid(&schema->ttl);
}

int schema_valid(const struct schema *schema) {
  emb_assert(schema->count > 0 && schema->count <= EMB_SEGMENTS_MAX);
  emb_assert(schema->insert_on >= EMB_INSERT_ON_PUT &&
             schema->insert_on <= EMB_INSERT_ON_LOOKUP);
  check_vectors(schema);
  check_states(schema);
  check_retention(schema);
  return 1;
}

#endif
