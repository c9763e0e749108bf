/* SPDX-License-Identifier: MIT
**
** options.c -- fuzzes the arguments of USING emb(...): one per line.
*/
#include "fuzz.h"

#include "ext/table/table.h"

enum { ARGUMENTS_MAX = 40 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *argv[ARGUMENTS_MAX] = {"emb", "main", "items"};
  struct ext_options options;
  char *err = NULL, *text = malloc(size + 1);
  int argc = 3;
  if (text == NULL)
    return 0;
  memcpy(text, data, size);
  text[size] = 0;
  for (char *at = text, *end; at && argc < ARGUMENTS_MAX; at = end) {
    end = strchr(at, '\n');
    if (end)
      *end++ = 0;
    argv[argc++] = at;
  }
  int rc = ext_arguments_parse(&options, argc, argv, &err);
  if (rc == SQLITE_OK) {
    const emb_config *c = &options.config;
    uint32_t n = ext_vectors(&options);
    FUZZ_CHECK(err == NULL && options.key);
    FUZZ_CHECK(n >= 1 && n <= EMB_SEGMENTS_MAX &&
               ext_vector_first(&options, n) == c->dim);
    for (uint32_t i = 0; i < n; i++)
      FUZZ_CHECK(options.vectors[i] && c->segments[i].dim >= 1 &&
                 c->segments[i].type <= EMB_F16);
    FUZZ_CHECK(c->dim >= 1 && c->dim <= EMB_DIM_MAX && c->type <= EMB_F16);
    FUZZ_CHECK(c->io_depth_min <= EMB_IO_DEPTH_MAX &&
               c->io_depth_max <= EMB_IO_DEPTH_MAX);
    FUZZ_CHECK(c->io_workers_min <= EMB_IO_WORKERS_MAX &&
               c->io_workers_max <= EMB_IO_WORKERS_MAX);
    FUZZ_CHECK(!(c->flags & EMB_OPEN_BOUNDED) ||
               c->staleness <= EMB_STALENESS_MAX);
  } else {
    FUZZ_CHECK(rc == SQLITE_ERROR && err && err[0]);
  }
  ext_options_clear(&options);
  sqlite3_free(err);
  free(text);
  return 0;
}
