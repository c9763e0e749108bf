/* SPDX-License-Identifier: MIT
**
** samples_threads.c -- readers in several threads share open files, while
** those files are rewritten under them.
**
** Each record of a file is filled with the file's generation.  A reader of a
** batch gets one generation in all records of a file, that of the survey it
** goes by, or an error that the file has changed; never two generations.
*/
#include "test.h"

#include "engine/emb.h"
#include "engine/data/emb_data.h"

#include <pthread.h>

enum { FILES = 6, READERS = 4, RECORDS = 200, RECORD = 700, ROUNDS = 60 };

static char paths[FILES][320];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static emb_samples_found now[FILES]; /* lock */
static int generation[FILES];        /* lock */
/* Relaxed: the readers stop when the writer has. */
static _Atomic int done;
static _Atomic uint64_t batches, changes;

/* Writes under a separate name first: a reader sees the old file or the new
** one. */
static void write_anew(int i, int value) {
  char other[340];
  unsigned char record[RECORD];
  emb_samples_format format = {.kind = EMB_SAMPLES_FIXED, .record = RECORD};
  emb_samples_ask ask = {.path = paths[i], .format = &format};
  emb_samples_found found;
  emb_err err;
  snprintf(other, sizeof other, "%s-new", paths[i]);
  FILE *file = fopen(other, "wb");
  if (!CHECK(file != NULL))
    return;
  memset(record, value, sizeof record);
  for (int r = 0; r < RECORDS; r++)
    fwrite(record, sizeof record, 1, file);
  CHECK(fclose(file) == 0);
  CHECK(rename(other, paths[i]) == 0);
  if (!CHECK(emb_samples_survey(&ask, &found, &err) == EMB_OK))
    return;
  pthread_mutex_lock(&lock);
  now[i] = found;
  generation[i] = value;
  pthread_mutex_unlock(&lock);
}

static void read_batch(emb_samples_batch *batch, uint64_t *random) {
  int want[FILES], rc = EMB_OK, added = 1;
  emb_samples_file files[FILES];
  emb_err err;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < FILES; i++) {
    want[i] = generation[i];
    files[i] = (emb_samples_file){paths[i], i, now[i].bytes, now[i].changed_ns,
                                  now[i].sum};
  }
  pthread_mutex_unlock(&lock);
  for (int r = 0; !rc && r < 50; r++) {
    *random = *random * UINT64_C(6364136223846793005) + 1;
    uint64_t at = (*random >> 33) % RECORDS;
    rc = emb_samples_batch_add(batch, &files[r % FILES], at * RECORD, RECORD,
                               &added, &err);
    CHECK(rc || added);
  }
  rc = rc ? rc : emb_samples_batch_wait(batch, &err);
  for (size_t r = 0; !rc && r < 50; r++) {
    size_t bytes;
    const unsigned char *record = emb_samples_batch_record(batch, r, &bytes);
    CHECK(bytes == RECORD && record[0] == want[r % FILES] &&
          memcmp(record, record + 1, RECORD - 1) == 0);
  }
  if (rc)
    CHECK(rc == EMB_MISMATCH);
  atomic_fetch_add(rc ? &changes : &batches, 1);
  emb_samples_batch_clear(batch);
}

static void *read_files(void *arg) {
  uint64_t random = (uint64_t)(uintptr_t)arg;
  emb_samples_reader *reader;
  emb_samples_batch *batch;
  emb_err err;
  if (!CHECK(emb_samples_open(random % 2 == 0, &reader, &err) == EMB_OK))
    return NULL;
  CHECK(emb_samples_batch_new(reader, 1 << 20, &batch, &err) == EMB_OK);
  while (!atomic_load(&done))
    read_batch(batch, &random);
  emb_samples_batch_free(batch);
  emb_samples_close(reader);
  return NULL;
}

/* Runs until there are enough batches and changes, however slow the machine. */
TEST(files_change_under_readers) {
  pthread_t threads[READERS];
  for (int i = 0; i < FILES; i++) {
    snprintf(paths[i], sizeof paths[i], "%s/file%d", test_dir(), i);
    write_anew(i, 1);
  }
  for (uintptr_t t = 0; t < READERS; t++)
    CHECK(pthread_create(&threads[t], NULL, read_files, (void *)(t + 1)) == 0);
  for (int round = 0; test_state.failures == 0 &&
                      (round < ROUNDS || atomic_load(&changes) == 0 ||
                       atomic_load(&batches) < 20);
       round++) {
    write_anew(round % FILES, 2 + round % 250);
    usleep(500);
  }
  atomic_store(&done, 1);
  for (int t = 0; t < READERS; t++)
    pthread_join(threads[t], NULL);
  test_count("batches of samples", atomic_load(&batches));
  test_count("batches of files that changed", atomic_load(&changes));
}
