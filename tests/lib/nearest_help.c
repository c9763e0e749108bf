/* SPDX-License-Identifier: MIT */
#include "nearest_help.h"

#include <stdlib.h>

/* The content of the last filter: a byte per key. */
static struct {
  uint8_t *has;
  int without;
} chosen;

emb_filter *help_filter(emb_session *session, int64_t keys) {
  int64_t *listed = malloc(((size_t)keys + 2) * sizeof *listed);
  uint64_t part = UINT64_C(1) << test_random() % 10;
  emb_filter *filter = NULL;
  size_t n = 0;
  free(chosen.has);
  chosen.has = malloc((size_t)keys);
  chosen.without = test_random() % 3 == 0;
  if (!CHECK(listed && chosen.has))
    abort();
  for (int64_t key = keys - 1; key >= 0; key--) {
    chosen.has[key] = test_random() % part == 0;
    if (chosen.has[key])
      listed[n++] = key;
  }
  if (n && test_random() % 4 == 0)
    listed[n++] = listed[0];
  if (test_random() % 2)
    listed[n++] = test_random() % 2 ? INT64_MAX : INT64_MIN + 5;
  OK(session, emb_filter_new(session, listed, n, chosen.without, &filter));
  free(listed);
  return filter;
}

int help_wanted(const emb_nearest_how *how, int64_t key) {
  int listed = !(how->flags & EMB_NEAREST_KEYS);
  for (size_t i = 0; i < how->key_count && !listed; i++)
    listed = how->keys[i] == key;
  return listed && !(how->filter && chosen.has[key] == chosen.without);
}

void help_same_rows(emb_session *s, emb_snap *snap, const emb_neighbours *found,
                    size_t n, size_t k) {
  size_t dim = (size_t)emb_dim(emb_session_store(s)), bad = 0;
  float *vectors = malloc(k * dim * sizeof *vectors);
  uint64_t *versions = malloc(k * sizeof *versions);
  uint8_t *there = malloc(k);
  if (!CHECK(vectors && versions && there))
    abort();
  for (size_t i = 0; i < n; i++) {
    const int64_t *keys = found->keys + i * k;
    size_t count = found->counts[i];
    OK(s, snap ? emb_snapshot_get(snap, keys, count, vectors, there, versions)
               : emb_peek(s, keys, count, vectors, there, versions));
    for (size_t j = 0; j < count; j++) {
      size_t at = i * k + j;
      bad += !there[j];
      if (found->vectors)
        bad += memcmp(found->vectors + at * dim, vectors + j * dim,
                      dim * sizeof *vectors) != 0;
      if (found->versions)
        bad += found->versions[at] != versions[j];
    }
  }
  CHECK_EQ_INT(bad, 0);
  free(vectors);
  free(versions);
  free(there);
}

void help_whole_rows(emb_session *s, const float *query,
                     const emb_neighbours *found, int metric, uint32_t dim) {
  for (size_t i = 0; i < found->counts[0]; i++) {
    const float *vector = found->vectors + i * dim;
    double distance = -1;
    uint64_t now;
    CHECK(emb_distance(metric, query, vector, dim, &distance) &&
          distance == found->distances[i]);
    float then[256];
    if (!CHECK(dim <= 256) ||
        !OK(s, emb_peek(s, &found->keys[i], 1, then, NULL, &now)))
      return;
    CHECK(now != found->versions[i] ||
          memcmp(then, vector, dim * sizeof *then) == 0);
  }
}
