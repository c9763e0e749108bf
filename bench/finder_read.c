/* SPDX-License-Identifier: MIT
**
** finder_read.c -- the limit of memory, as a finder: each call reads the bytes
** of all vectors once, sequentially, with the widest registers available, in
** the given number of threads.  Finds nothing.
*/
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "finder.h"
#include "harness.h"

enum { THREADS_MAX = 64 };
typedef uint64_t wide __attribute__((vector_size(64)));

struct reader {
  const char *bytes;
  size_t n; /* of struct wide, times four */
  uint64_t sum;
};

/* Four sums, so that no load waits for an addition. */
__attribute__((target_clones("avx512f", "avx2", "default"))) static void
read_all(struct reader *reader) {
  const wide *at = (const wide *)(const void *)reader->bytes;
  const wide *end = at + 4 * reader->n;
  wide sum[4] = {{0}};
  for (; at < end; at += 4) {
    for (int i = 0; i < 4; i++) {
      sum[i] += at[i];
    }
  }
  for (int i = 0; i < 4; i++) {
    for (int j = 0; j < 8; j++) {
      reader->sum += sum[i][j];
    }
  }
}

static void *run_reader(void *arg) {
  read_all(arg);
  return NULL;
}

struct memory {
  const float *vectors;
  size_t bytes;
  uint64_t sum; /* keeps the reads from being optimized away */
};

static void *memory_open(const struct finder_options *options) {
  struct memory *m = need(1, sizeof(*m));
  const struct points *points = options->points;
  m->vectors = points->vectors;
  m->bytes = points->n * points->dim * sizeof(float);
  return m;
}

static void memory_close(void *finder) { free(finder); }

static void memory_ask(void *finder, const struct question *question,
                       int64_t *keys, double *distances) {
  struct memory *m = finder;
  struct reader readers[THREADS_MAX];
  pthread_t threads[THREADS_MAX];
  size_t count = (size_t)question->threads;
  size_t pieces = m->bytes / (4 * sizeof(wide));
  (void)keys, (void)distances;
  for (size_t i = 0; i < count; i++) {
    size_t from = pieces * i / count, to = pieces * (i + 1) / count;
    readers[i] = (struct reader){.bytes = (const char *)m->vectors +
                                          from * 4 * sizeof(wide),
                                 .n = to - from};
    if (i && pthread_create(&threads[i], NULL, run_reader, &readers[i])) {
      die("no thread");
    }
  }
  read_all(&readers[0]);
  m->sum += readers[0].sum;
  for (size_t i = 1; i < count; i++) {
    pthread_join(threads[i], NULL);
    m->sum += readers[i].sum;
  }
}

const struct finder_kind finder_read = {
    .name = "bare read",
    .about = "all bytes of the vectors, once",
    .open = memory_open,
    .close = memory_close,
    .ask = memory_ask,
};
