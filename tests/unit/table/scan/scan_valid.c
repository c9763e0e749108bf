/* SPDX-License-Identifier: MIT
**
** scan_valid.c -- each assertion about an open scan fires.
*/
#include "death.h"
#include "store_help.h"

#include "engine/table/scan/scan.h"

enum { ROWS = 1000, DIM = 4 };

static emb_store *store;
static emb_session *session;
static emb_scan *scan;
static float vectors[ROWS * DIM];

/* Opens a scan of a thousand rows, and reads one. */
static int begin(int order) {
  static int64_t keys[ROWS];
  const emb_config config = {.dim = DIM,
                             .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP};
  emb_rows row = {.keys = keys};
  size_t n;
  for (int i = 0; i < ROWS; i++)
    keys[i] = i + 1;
  return help_open(help_path("store"), &config, &store, &session) &&
         OK(session, emb_put(session, keys, ROWS, vectors, NULL)) &&
         OK(session, local_scan_open(session, 1, 2000, order, &scan)) &&
         OK(session, local_scan_next_rows(scan, 1, &row, &n)) &&
         CHECK_EQ_INT(n, 1) && CHECK(scan_valid(scan));
}

static void end(void) {
  local_scan_close(scan);
  help_close(store, session);
}

TEST(a_scan_in_storage_order) {
  if (!begin(EMB_SCAN_ANY))
    return;
  CHECK_FIRES(scan->order = 99; scan_valid(scan));
  CHECK_FIRES(scan->keys = scan->row_keys; scan_valid(scan));
  CHECK_FIRES(scan->row_at = scan->rows + 1; scan_valid(scan));
  CHECK_FIRES(scan->batch_keys = SCAN_BATCH + 1; scan_valid(scan));
  CHECK_FIRES(scan->extent_no = 1; scan_valid(scan));
  CHECK_FIRES(scan->rows = 1; scan->row_at = 0; scan_fill(scan, 1));
  CHECK_FIRES(session->scan.open = 0; scan_finish(scan));
  end();
}

TEST(a_scan_in_key_order) {
  if (!begin(EMB_SCAN_DESC))
    return;
  CHECK_FIRES(scan->row_keys = scan->keys; scan_valid(scan));
  CHECK_FIRES(scan->key_at = scan->key_count + 1; scan_valid(scan));
  CHECK_FIRES(scan->last = 1; scan_valid(scan));
  CHECK_FIRES(scan->last--; scan_valid(scan));
  end();
}

TEST(a_scan_of_keys) {
  if (!begin(EMB_SCAN_KEYS))
    return;
  CHECK_FIRES(scan->part = 1u << 20; scan_valid(scan));
  CHECK_ALL_FIRED("engine/table/scan/scan_valid.c");
  end();
}
