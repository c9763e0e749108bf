/* SPDX-License-Identifier: MIT
**
** delta_valid.c -- each assertion about an open delta fires.
*/
#include "engine/features/delta/delta.h"

#include "death.h"
#include "store_help.h"

enum { DIM = 8, ROWS = 20 };

static emb_store *store;
static emb_session *s;
static emb_delta *delta;

/* Opens a store, and the first delta of a consumer. */
static int begin(void) {
  return help_open_filled(DIM, ROWS, &store, &s) &&
         OK(s, emb_delta_open(s, "consumer", &delta));
}

static void end(void) {
  emb_delta_close(delta);
  help_close(store, s);
}

static int64_t keys[ROWS];
static uint8_t ops[ROWS];
static const struct delta_rows rows = {.keys = keys, .ops = ops};

TEST(a_first_delta) {
  size_t n;
  if (!begin()) {
    return;
  }
  emb_scan *scan = &delta->scan;
  CHECK(delta_valid(delta));
  CHECK_FIRES(delta->mark.page = delta->mark.end + 1; delta_valid(delta));
  CHECK_FIRES(delta->held = 0; delta_valid(delta));
  CHECK_FIRES(scan->changes = 0; delta_valid(delta));
  CHECK_FIRES(scan->since++; delta_valid(delta));
  CHECK_FIRES(scan->consumer = &delta->consumer; delta_valid(delta));
  CHECK_FIRES(scan->watch.deletions = 1; delta_valid(delta));
  CHECK_FIRES(scan->row_at = scan->rows + 1; delta_valid(delta));
  CHECK_FIRES(scan->batch_keys = SCAN_BATCH + 1; delta_valid(delta));
  CHECK_FIRES(delta->gone.sorted = 1; delta_valid(delta));
  CHECK_FIRES(delta->complete = 1; delta_valid(delta));
  CHECK_ALL_FIRED("engine/features/delta/delta_valid.c");
  OK(s, delta__read(delta, ROWS, &rows, &n));
  CHECK_EQ_INT(n, ROWS);
  CHECK_FIRES(delta_complete(delta)); /* before its last row was read */
  OK(s, delta__read(delta, ROWS, &rows, &n));
  CHECK(n == 0 && delta_valid(delta));
  OK(s, delta_complete(delta));
  CHECK(delta_valid(delta));
  end();
}

/* The scan has found one row with this operation and version. */
static void read_found(uint8_t op, uint64_t version) {
  size_t n;
  delta->scan.rows = 1;
  delta->scan.row_at = 0;
  delta->scan.row_ops[0] = op;
  delta->scan.row_versions[0] = version;
  delta__read(delta, 1, &rows, &n);
}

/* A store that was open before a fork cannot be read in the child. */
TEST(a_row) {
  CHECK_FIRES(begin(); read_found(EMB_DELTA_PUT, 0));
  CHECK_FIRES(begin(); delta->scan.since = 5; read_found(EMB_DELTA_PUT, 5));
}

TEST(marks_inside_a_transaction) {
  struct mark mark;
  struct hold hold;
  uint64_t first;
  if (!begin()) {
    return;
  }
  OK(s, emb_begin(s));
  CHECK_FIRES(delta__hold(s, &hold));
  CHECK_FIRES(delta__take_mark(s, &delta->scan, &mark, &first));
  emb_rollback(s);
  end();
}
