/* SPDX-License-Identifier: MIT */
#include "nearest_help.h"

#include <stdlib.h>

/* What the last filter is of: bytes for its keys. */
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
