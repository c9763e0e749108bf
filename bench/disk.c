/* SPDX-License-Identifier: MIT
**
** disk.c -- a table eight times as large as memory, with uniform keys: nearly
** every Get is a disk read.  Compared with the limit of the disk itself, and
** with other stores under the same memory limit.
*/
#include <math.h>

#include "bench.h"
#include "field.h"

struct extra {
  struct field *field;
  struct group *cores, *reads;
};

static void add_extra(void *arg, int player, int round,
                      const struct result *result) {
  struct extra *extra = arg;
  const char *name = contestant_name(extra->field->players[player]);
  group_add(extra->cores, name, round, result->usage.cores, NULL);
  group_add(extra->reads, name, round,
            (double)result->disk_read / (double)result->keys, NULL);
}

void bench_disk(const struct options *options) {
  size_t keys = field_keys(options);
  double seconds = options->seconds > 0 ? options->seconds
                   : options->quick     ? 0.15
                                        : 2;
  struct figure *figure = figure_new(options, "disk",
                                     "Larger than memory, uniform: batches of"
                                     " 1,024 Gets, one thread");
  struct trace trace;
  trace_uniform(&trace, keys, keys);
  static const struct store_kind *const kinds[] = {
      &store_emb,    &store_emb_sql,     &store_lmdb, &store_rocksdb,
      &store_sqlite, &store_device_read, NULL};
  struct field field;
  field_open(&field, options, figure, kinds, keys, field_memory(options, keys));
  struct workload workload = {
      .pattern = GET, .trace = &trace, .threads = 1, .seconds = seconds};
  struct group *group = figure_group(figure, "Get, uniform", "keys/s", NAN);
  struct extra extra = {
      &field, figure_group(figure, "Get, uniform: processor", "cores", NAN),
      figure_group(figure, "Get, uniform: read from disk", "bytes/key", NAN)};
  struct workload warm = workload;
  warm.seconds = options->quick ? 0.3 : 10;
  field_warm(&field, &warm);
  field_compare(&field, options, group, &workload, add_extra, &extra);
  group_ratio(group, "emb C", "device ceiling", AT_LEAST, 0.90);
  group_ratio(group, "emb SQL", "device ceiling", AT_LEAST, 0.90);
  group_ratio(group, "emb C", "LMDB", AT_LEAST, 0);
  group_ratio(group, "emb C", "RocksDB", AT_LEAST, 0);
  group_ratio(group, "emb C", "SQLite table", AT_LEAST, 0);
  group_bound(extra.cores, "emb C", AT_MOST, 0.4);
  group_bound(extra.cores, "emb SQL", AT_MOST, 0.4);
  field_close(&field, figure);
  trace_free(&trace);
  figure_done(figure);
}
