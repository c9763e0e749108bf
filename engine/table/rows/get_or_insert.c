/* SPDX-License-Identifier: MIT
**
** get_or_insert.c -- emb_lookup: a lookup creates missing rows and counts how
** often each row is looked up.  A present row is changed under its latch, as by
** adding zero, and then read as by a Get; other writers may change it in
** between.
*/
#include "engine/storage/kernel/row_write.h"
#include "engine/table/jobs/begin.h"
#include "engine/table/owner/own.h"
#include "change.h"
#include "rmw.h"

/* A table without tracks has nothing to count. */
int local_lookup(emb_session *s, const int64_t *keys, size_t n, float *vectors,
                 uint8_t *found) {
  static const struct row_change change = {.kind = CHANGE_LOOKUP};
  struct write_batch batch = {.keys = keys, .n = n, .wait = 1};
  int rc = begin_write(s);
  rc = rc ? rc : check_numbers(s);
  rc = rc ? rc : own_claim(s);
  if (!rc && n > EMB_ROWS_MAX) {
    rc = session_error(s, EMB_RANGE, "a batch has at most %u rows, got %zu",
                       EMB_ROWS_MAX, n);
  }
  if (!rc && schema_tracks(&s->core->schema)) {
    rc = change__rows(s, &batch, &change);
  } else if (!rc) {
    rc = rmw_create(s, keys, n);
  }
  return rc ? rc : local_get(s, keys, n, vectors, found, NULL);
}
