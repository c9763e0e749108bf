/* SPDX-License-Identifier: MIT
**
** share.c -- see share.h.
*/
#include "share.h"

#include <string.h>

int share_store(emb_store *store, const char *text, int is_bounded,
                uint32_t staleness, emb_err *err) {
  struct schema schema = {0};
  char here[SCHEMA_TEXT_BYTES], asked[SCHEMA_TEXT_BYTES];
  int rc = EMB_OK;
  if (text[0]) {
    rc = schema_parse(&schema, text, err);
  } else {
    schema = store->core.schema;
  }
  if (rc) {
    return rc;
  }
  /* Tuning options stay as the first user set them. */
  schema.ttl = store->core.schema.ttl;
  schema.capacity = store->core.schema.capacity;
  schema.evict = store->core.schema.evict;
  for (uint32_t i = 0; i < schema.count; i++) {
    schema.segments[i].indexed = store->core.schema.segments[i].indexed;
    schema.segments[i].index = store->core.schema.segments[i].index;
  }
  rc = schema_print(&store->core.schema, here, err);
  rc = rc ? rc : schema_print(&schema, asked, err);
  if (rc) {
    return rc;
  }
  if (strcmp(here, asked) != 0) {
    return err_set(err, EMB_MISMATCH,
                   "%s is open with other optimizers or initializers",
                   store->core.dir);
  }
  if (!is_bounded) {
    return EMB_OK;
  }
  if (staleness > EMB_STALENESS_MAX) {
    return err_set(err, EMB_RANGE, "staleness must be between 0 and %d, got %u",
                   EMB_STALENESS_MAX, staleness);
  }
  if (core_bounded(&store->core) && staleness != store->core.staleness) {
    return err_set(err, EMB_MISMATCH, "%s is open with staleness %u, not %u",
                   store->core.dir, store->core.staleness, staleness);
  }
  if (!core_bounded(&store->core)) {
    store->core.staleness = staleness;
    atomic_store(&store->core.bounded, 1);
  }
  return EMB_OK;
}
