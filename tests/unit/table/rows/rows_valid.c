/* SPDX-License-Identifier: MIT
**
** rows_valid.c -- the assertions about batches of rows fire: what a batch may
** be, and which calls are made inside the epoch.
*/
#include "death.h"
#include "store_help.h"

#include "engine/table/rows/change.h"
#include "engine/table/rows/get.h"
#include "engine/table/rows/put.h"
#include "engine/table/rows/rows.h"

enum { DIM = 4 };

static emb_store *store;
static emb_session *s;
static int64_t key = 7;
static float row[DIM] = {1, 2, 3, 4};

static int begin(void) {
  const emb_config config = {.dim = DIM,
                             .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP};
  return help_open(help_path("store"), &config, &store, &s) &&
         OK(s, emb_put(s, &key, 1, row, NULL));
}

static void enter(void) { epoch_enter(&s->core->epoch, s->slot); }

TEST(a_get) {
  struct get_taker taker = {.vectors = row, .rows = 1};
  struct get get = {.vectors = row};
  struct rows_finder find;
  uint32_t cold = 0, blocked;
  if (!begin())
    return;
  get.s = s;
  get.keys = &key;
  CHECK_FIRES(get_row(&get, 0, &cold));
  CHECK_FIRES(get_deliver_rows(&get, 1, &cold));
  CHECK_FIRES(get_in_memory(&get, s->chunk + 1, &cold, &blocked));
  CHECK_FIRES(enter(); get_from_disk(&get, 0));
  CHECK_FIRES(get_by_pieces(s, &key, 1, 0, &taker));
  CHECK_ALL_FIRED("engine/table/rows/get.c");
  CHECK_ALL_FIRED("engine/table/rows/deliver.c");
  CHECK_FIRES(get.taken = 1; get_vector(&get, 0, DIM));
  CHECK(strstr(death_text(), "get.h") != NULL);
  CHECK_FIRES(rows_find(s, &key, 0, 1));
  CHECK(strstr(death_text(), "rows.h") != NULL);
  finder_begin(&find, s, &key, 0, 1);
  CHECK_FIRES(finder__until(&find, 0));
  CHECK_FIRES(enter(); finder__until(&find, 1));
  CHECK_ALL_FIRED("engine/table/rows/find.c");
  help_close(store, s);
}

TEST(a_change) {
  const uint32_t times = 1;
  struct row_change change = {.kind = CHANGE_ADD, .rows = row};
  struct write_batch batch = {.keys = &key, .n = 1, .wait = 1};
  uint8_t found;
  if (!begin() || !OK(s, change__rows(s, &batch, &change)))
    return;
  CHECK_FIRES(enter(); change__rows(s, &batch, &change));
  CHECK(strstr(death_text(), "change__rows") != NULL);
  CHECK_FIRES(change.parts = 1; change__rows(s, &batch, &change));
  CHECK_FIRES(change.times = &times; change__rows(s, &batch, &change));
  CHECK_FIRES(enter(); put_rows(s, &batch, row));
  CHECK(strstr(death_text(), "put_rows") != NULL);
  CHECK_FIRES(batch.found = &found; put_rows(s, &batch, row));
  help_close(store, s);
}

TEST(a_value) {
  const struct row_change change = {.kind = CHANGE_ADD, .rows = row};
  const struct value_row value = {.says = row, .times = 1, .key = 7};
  uint64_t at[1] = {4711};
  struct loaded loaded = {.at = at};
  uint32_t again = 0;
  if (!begin())
    return;
  CHECK_FIRES(value_make(s, &change, &value, s->scratch, s->scratch));
  CHECK_FIRES(value__update(s, &change, &value, s->scratch));
  CHECK_FIRES(loaded_read(s, &loaded, &key, s->chunk + 1, &again));
  CHECK_ALL_FIRED("engine/table/rows/value.c");
  CHECK_FIRES(loaded_value(s, &loaded, s->chunk, 4711));
  CHECK(strstr(death_text(), "value.h") != NULL);
  help_close(store, s);
}
