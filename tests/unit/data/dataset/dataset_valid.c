/* SPDX-License-Identifier: MIT
**
** dataset_valid.c -- proofs that the assertions of engine/data/dataset fire.
*/
#include "engine/data/emb_data.h"
#include "engine/data/dataset/samples.h"
#include "test.h"
#include "death.h"

#include <stdio.h>
#include <unistd.h>

/* A file of 5,000 bytes; 1: it could be made. */
static int make_file(char path[64]) {
  snprintf(path, 64, "/tmp/emb_dataset_valid.%d", (int)getpid());
  FILE *file = fopen(path, "w");
  if (!CHECK(file != NULL)) {
    return 0;
  }
  for (int i = 0; i < 5000; i++) {
    fputc('a' + i % 26, file);
  }
  return CHECK_EQ_INT(fclose(file), 0);
}

TEST(the_window) {
  struct samples_window w;
  char path[64];
  emb_err err;
  if (!make_file(path)) {
    return;
  }
  CHECK_EQ_INT(samples__window_open(&w, path, 1, &err), EMB_OK);
  CHECK_EQ_INT(samples__window_need(&w, 100, &err), EMB_OK);
  samples__window_skip(&w, 60);
  CHECK(samples__window_valid(&w));
  CHECK_FIRES(w.at = w.filled + 1; samples__window_valid(&w));
  CHECK_FIRES(w.capacity = w.filled - 1; samples__window_valid(&w));
  CHECK_FIRES(w.size = w.next - 1; samples__window_valid(&w));
  CHECK_FIRES(w.offset++; samples__window_valid(&w));
  CHECK_FIRES(samples__window_skip(&w, 5000));
  CHECK_FIRES(w.next = 4000; samples__window_need(&w, 4999, &err));
  samples__window_close(&w);
  (void)remove(path);
}

TEST(the_text) {
  struct samples_csv csv = {.separator = ','};
  size_t used;
  int ended;
  samples__csv_next(&csv);
  CHECK(samples__csv_valid(&csv));
  CHECK_EQ_INT(
      samples__csv_scan(&csv, (const uint8_t *)"a,\"b", 4, &used, &ended),
      EMB_OK);
  CHECK(samples__csv_valid(&csv) && csv.state == CSV_QUOTED);
  CHECK_FIRES(csv.state = CSV_ENDING + 1; samples__csv_valid(&csv));
  CHECK_FIRES(csv.empty = 1; samples__csv_valid(&csv));
  CHECK_FIRES(csv.empty = 1; csv.state = CSV_BEGIN; csv.fields = 2;
              samples__csv_valid(&csv));
  CHECK_FIRES(csv.empty = 1;
              samples__csv_scan(&csv, (const uint8_t *)"b", 1, &used, &ended));
}

static int no_block(void *arg, const emb_samples_block *block) {
  (void)arg;
  (void)block;
  return 0;
}

TEST(the_blocks) {
  static struct samples_blocks blocks;
  emb_samples_ask ask = {.block = no_block};
  emb_samples_found found = {0};
  emb_err err;
  blocks = (struct samples_blocks){.ask = &ask, .found = &found, .spans = 1};
  CHECK(samples__blocks_valid(&blocks));
  CHECK_FIRES(samples__blocks_time(&blocks, 1));
  for (uint64_t i = 0; i < 300; i++) {
    CHECK_EQ_INT(samples__blocks_begin(&blocks, 10 * i, &err), EMB_OK);
    samples__blocks_time(&blocks, (int64_t)i);
  }
  CHECK(samples__blocks_valid(&blocks) && blocks.block.number == 1);
  CHECK_FIRES(blocks.block.records = 0; samples__blocks_valid(&blocks));
  CHECK_FIRES(blocks.block.records = 257; samples__blocks_valid(&blocks));
  CHECK_FIRES(blocks.block.bytes = SAMPLES_SPANS_MAX + 1;
              samples__blocks_valid(&blocks));
  CHECK_FIRES(blocks.block.bytes = 0; samples__blocks_valid(&blocks));
  CHECK_FIRES(blocks.block.least = blocks.block.most + 1;
              samples__blocks_valid(&blocks));
  CHECK_FIRES(found.records--; samples__blocks_valid(&blocks));
  CHECK_FIRES(found.records--; samples__blocks_begin(&blocks, 3000, &err));
  CHECK_FIRES(samples__blocks_end(&blocks, 2000, &err));
  CHECK_EQ_INT(samples__blocks_end(&blocks, 3000, &err), EMB_OK);
  CHECK(samples__blocks_valid(&blocks));
  CHECK_FIRES(blocks.block.bytes = 1; samples__blocks_end(&blocks, 3000, &err));
  CHECK_ALL_FIRED("engine/data/dataset/dataset_valid.c");
}
