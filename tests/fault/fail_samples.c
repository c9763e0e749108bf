/* SPDX-License-Identifier: MIT
**
** fail_samples.c -- each call of the operating system fails, once or from then
** on, while files of samples are listed, surveyed and read.
**
** Either all samples are read, or an error with a text is given; no resources
** are left over, and the same work then succeeds.  SHARE=n tries one call in
** n.
*/
#include "failing.h"
#include "test.h"

#include "engine/emb.h"
#include "engine/data/emb_data.h"

enum { RECORDS = 600 };

static struct failing f;
static char paths[2][320];
static int direct; /* reads do not use the page cache */

static void write_files(void) {
  for (int i = 0; i < 2; i++) {
    snprintf(paths[i], sizeof paths[i], "%s/file%d", test_dir(), i);
    FILE *file = fopen(paths[i], "wb");
    if (!CHECK(file != NULL))
      return;
    for (int r = 0; r < RECORDS; r++) {
      uint32_t bytes = (uint32_t)(8 + r % 300);
      int64_t time = r;
      if (i == 0) {
        fwrite(&bytes, sizeof bytes, 1, file);
        fwrite(&time, sizeof time, 1, file);
        for (uint32_t k = 8; k < bytes; k++)
          fputc('x', file);
      } else {
        fprintf(file, "%d,\"text %d\"\n", r, r);
      }
    }
    CHECK(fclose(file) == 0);
  }
}

struct places {
  uint64_t offsets[RECORDS + 1];
  uint64_t n, bytes;
};

static int take_block(void *arg, const emb_samples_block *block) {
  struct places *places = arg;
  uint64_t offsets[EMB_SAMPLES_BLOCK + 1];
  CHECK(emb_samples_offsets(block, UINT32_MAX, offsets, NULL) == EMB_OK);
  for (uint32_t i = 0; i <= block->records; i++)
    places->offsets[places->n + i] = offsets[i];
  places->n += block->records;
  return 0;
}

/* Reads all samples of a file; *sum: the sum of their times. */
static int read_file(emb_samples_batch *batch, int i, int64_t *sum,
                     emb_err *err) {
  static struct places places;
  emb_samples_format format = {.kind = i ? EMB_SAMPLES_CSV : EMB_SAMPLES_FRAMED,
                               .separator = ',',
                               .prefix = 4,
                               .timestamp = {EMB_SAMPLES_INT, 8, 0}};
  emb_samples_ask ask = {
      .path = paths[i], .format = &format, .block = take_block, .arg = &places};
  emb_samples_found found;
  places.n = 0;
  int rc = emb_samples_survey(&ask, &found, err);
  if (rc)
    return rc;
  CHECK_EQ_INT(found.records, RECORDS);
  emb_samples_file file = {paths[i], i, found.bytes, found.changed_ns,
                           found.sum};
  int added = 1;
  for (uint64_t r = 0; !rc && r < RECORDS; r++)
    rc = emb_samples_batch_add(batch, &file, places.offsets[r],
                               places.offsets[r + 1] - places.offsets[r],
                               &added, err);
  rc = rc ? rc : emb_samples_batch_wait(batch, err);
  for (size_t r = 0; !rc && CHECK(added) && r < RECORDS; r++) {
    emb_samples_sample sample;
    size_t bytes;
    const void *record = emb_samples_batch_record(batch, r, &bytes);
    if (CHECK(emb_samples_split(&format, record, bytes, &sample, err) ==
              EMB_OK))
      *sum += sample.timestamp;
  }
  emb_samples_batch_clear(batch);
  return rc;
}

/* Both files are in their directory. */
static int list_files(emb_err *err) {
  emb_samples_directory *directory;
  emb_samples_entry entry = {0};
  size_t n = 0;
  int rc = emb_samples_directory_open(test_dir(), NULL, NULL, &directory, err);
  while (!rc) {
    rc = emb_samples_directory_next(directory, &entry, err);
    if (rc || entry.path == NULL)
      break;
    CHECK(n < 2 && strcmp(entry.path, paths[n]) == 0 && entry.bytes > 0);
    n++;
  }
  emb_samples_directory_close(directory);
  if (!rc)
    CHECK_EQ_INT(n, 2);
  return rc;
}

static int work(emb_err *err) {
  emb_samples_reader *reader = NULL;
  emb_samples_batch *batch = NULL;
  int64_t sum = 0;
  int rc = list_files(err);
  rc = rc ? rc : emb_samples_open(!direct, &reader, err);
  rc = rc ? rc : emb_samples_batch_new(reader, 1 << 20, &batch, err);
  for (int i = 0; !rc && i < 2; i++)
    rc = read_file(batch, i, &sum, err);
  emb_samples_batch_free(batch);
  emb_samples_close(reader);
  if (!rc)
    CHECK_EQ_INT(sum, (int64_t)RECORDS * (RECORDS - 1));
  return rc;
}

static int try(uint64_t n, const struct failing_case *how, int forever) {
  emb_err err = {0, ""};
  failing_arm(&f, how->kinds, n, forever, how->error);
  int rc = work(&err), fired = f.fired > 0;
  failing_disarm(&f);
  FAILING_CHECK(&f, !rc || (err.code == rc && err.text[0]), n, "no text", rc);
  FAILING_CHECK_OUT(&f, n);
  CHECK_EQ_INT(work(&err), EMB_OK);
  return fired;
}

static void fail_each(void) {
  uint64_t points = 0;
  write_files();
  failing_begin(&f);
  points += failing_each(&failing_cases[FAILING_CASE_IO], 1, try);
  points += failing_each(&failing_cases[FAILING_CASE_MEMORY], 1, try);
  points += failing_each(&failing_cases[FAILING_CASE_DESCRIPTORS], 1, try);
  failing_end(&f);
  test_count("failures while samples are read", points);
}

TEST(each_call_fails) {
  direct = 0;
  fail_each();
}

TEST(each_call_fails_without_the_page_cache) {
  direct = 1;
  fail_each();
}
