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
#include "stacks.h"
#include "test.h"

#include "engine/emb.h"
#include "engine/data/emb_data.h"
#include "engine/table/owner/registry.h"

#include <errno.h>

enum { RECORDS = 600 };

static struct failing f;
static char paths[2][320];
static uint64_t points;

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

static int work(int direct, emb_err *err) {
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

struct kind {
  const char *name;
  uint32_t kinds;
  int error;
  int direct;
};

static int try_nth(void *arg, uint64_t n, int forever) {
  const struct kind *kind = arg;
  emb_err err = {0, ""};
  failing_arm(&f, kind->kinds, n, forever, kind->error);
  int rc = work(kind->direct, &err), fired = f.fired > 0;
  failing_disarm(&f);
  if (rc && !CHECK(err.code == rc && err.text[0]))
    printf("call %d of %s\n", (int)n, failing_name(f.first));
  CHECK_EQ_INT(failing_out(&f), 0);
  CHECK_EQ_INT(work(kind->direct, &err), EMB_OK);
  return fired;
}

TEST(each_call_fails) {
  struct kind all[] = {{"EIO", FAILING_IO, EIO, 0},
                       {"EIO, direct", FAILING_IO, EIO, 1},
                       {"ENOMEM", FAILING_MEMORY, ENOMEM, 0},
                       {"ENOMEM, direct", FAILING_MEMORY, ENOMEM, 1},
                       {"EMFILE", FAILING_DESCRIPTORS, EMFILE, 0},
                       {"EMFILE, direct", FAILING_DESCRIPTORS, EMFILE, 1}};
  write_files();
  failing_init(&f, &env_posix, test_random());
  env_set_default(&f.env);
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
    points += stacks_each(all[i].name, 1, 1, try_nth, &all[i]);
  env_set_default(&env_posix);
  failing_free(&f);
  test_count("failures while samples are read", points);
}
