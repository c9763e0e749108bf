/* SPDX-License-Identifier: MIT
**
** pack_valid.c -- each assertion about writing and reading packs fires.
*/
#include "death.h"

#include "engine/storage/pack/read.h"
#include "engine/storage/pack/write.h"

enum { ROWS = 100 };

static struct pack_writer *w;
static struct pack_reader *r;
static emb_err err;
static char path[300];

static int add(int64_t key) {
  const float value[4] = {1, 2, 3, 4};
  const struct pack_row row = {
      .key = key, .version = 1, .op = PACK_PUT, .value = (const char *)value};
  return CHECK_EQ_INT(pack_add(w, &row, &err), EMB_OK);
}

/* A file with rows, and not complete. */
static int begin(void) {
  static struct pack_head head;
  int good;
  head.kind = PACK_DELTA;
  head.column_count = 1;
  head.columns[0] = (struct pack_column){16, 4};
  (void)snprintf(path, sizeof path, "%s/p", test_dir());
  good = CHECK_EQ_INT(pack_create(&env_posix, path, &head, 0, &w, &err), 0);
  for (int64_t key = 1; good && key <= ROWS; key++)
    good = add(key);
  return good && CHECK(pack_writer_valid(w));
}

TEST(a_writer) {
  if (!begin())
    return;
  CHECK_FIRES(w->now = 1; pack_writer_valid(w));
  CHECK_FIRES(w->slots[0].count = w->head.block_rows; pack_writer_valid(w));
  CHECK_FIRES(w->slots[0].puts = ROWS + 1; pack_writer_valid(w));
  CHECK_FIRES(w->entry_count = PACK_ENTRIES_MAX; pack_writer_valid(w));
  CHECK_FIRES(w->texts_filled = PACK_TEXTS_BYTES; pack_writer_valid(w));
  CHECK_FIRES(w->end.row_blocks = 1; pack_writer_valid(w));
  CHECK_FIRES(w->sink.filled = w->sink.buffer_bytes + 1; sink_valid(&w->sink));
  CHECK_FIRES(w->sink.now = 1; sink_valid(&w->sink));
  CHECK_FIRES(w->sink.in_flight = 1; sink_valid(&w->sink));
  pack_abandon(w);
}

TEST(the_order_of_writing) {
  if (!begin())
    return;
  CHECK_FIRES(w->complete = 1; add(1));
  CHECK_FIRES(w->end.entries = 1; add(1));
  CHECK_FIRES(w->complete = 1; pack_add_entry(w, 1, 0, &err));
  CHECK_FIRES(w->complete = 1; pack_complete(w, &err));
  CHECK_FIRES(pack_add_text(w, &(struct pack_text){"x", 1}, &err));
  CHECK_FIRES(w->sink.buffers[1] = path; sink__queue(&w->sink, 0));
  CHECK_FIRES(sink__give_name(&w->sink, &err));
  pack_abandon(w);
}

TEST(a_reader) {
  const struct pack_row *row;
  if (!begin() || !CHECK_EQ_INT(pack_finish(w, NULL, &err), EMB_OK) ||
      !CHECK_EQ_INT(pack_open(&env_posix, path, &r, &err), EMB_OK) ||
      !CHECK_EQ_INT(pack_next(r, &row, &err), EMB_OK) ||
      !CHECK(row && pack_reader_valid(r)))
    return;
  CHECK_FIRES(r->have = r->end.row_blocks; pack_reader_valid(r));
  CHECK_FIRES(r->next = 0; pack_reader_valid(r));
  CHECK_FIRES(r->block.puts = ROWS + 1; pack_reader_valid(r));
  CHECK_FIRES(r->texts_at = 1; pack_reader_valid(r));
  CHECK_FIRES(r->text_count = ROWS + 1; pack_reader_valid(r));
  CHECK_ALL_FIRED("engine/storage/pack/pack_valid.c");
  pack_close(r);
}
