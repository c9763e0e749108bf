/* SPDX-License-Identifier: MIT
**
** put.c -- Puts of random existing keys, in a table eight times as large as
** memory, against the sequential write rate of the disk.
**
** Each value is measured twice: during the Puts, and over the time until all
** work they left behind (flushing, compaction) is done as well.  Work that
** other stores do after their last Put is measured in the same way.
*/
#include <math.h>

#include "bench.h"
#include "field.h"

enum { BYTES = 64 * 4 };

struct extra {
  struct field *field;
  struct group *rates, *rested, *cores;
};

static void add_extra(void *arg, int player, int round,
                      const struct result *result) {
  struct extra *extra = arg;
  const char *name = contestant_name(extra->field->players[player]);
  double took = (double)result->keys / result->keys_per_second;
  group_add(extra->rested, name, round,
            (double)result->keys / (took + result->rest_seconds), NULL);
  group_add(extra->cores, name, round, result->usage.cores, NULL);
  if (extra->field->kinds[player] == &store_device_write) {
    double half = result->keys_per_second / 2;
    group_add(extra->rates, "half of that, 1M at most", round,
              half < 1e6 ? half : 1e6, NULL);
  }
}

static void note_space(struct field *field, struct figure *figure,
                       const char *when) {
  struct contestant *emb = field_find(field, "emb C");
  if (emb) {
    figure_note(figure,
                "emb C, %s: log file %.2f times the live records, of it"
                " %.2f times in use",
                when,
                (double)contestant_figure(emb, "log_bytes") /
                    (double)contestant_figure(emb, "live_bytes"),
                (double)(contestant_figure(emb, "log_bytes") -
                         contestant_figure(emb, "dead_bytes")) /
                    (double)contestant_figure(emb, "live_bytes"));
  }
}

void bench_put(const struct options *options) {
  size_t keys = field_keys(options);
  double seconds = options->seconds > 0 ? options->seconds
                   : options->quick     ? 0.15
                                        : 3;
  struct figure *figure = figure_new(options, "put",
                                     "Larger than memory, uniform: batches of"
                                     " 1,024 Puts, one thread");
  struct trace trace;
  trace_uniform(&trace, keys, keys);
  static const struct store_kind *const kinds[] = {
      &store_emb,    &store_emb_sql,      &store_lmdb, &store_rocksdb,
      &store_sqlite, &store_device_write, NULL};
  struct field field;
  field_open(&field, options, figure, kinds, keys, field_memory(options, keys));
  struct workload workload = {
      .pattern = PUT, .trace = &trace, .threads = 1, .seconds = seconds};
  struct group *group = figure_group(figure, "Put, uniform", "keys/s", NAN);
  struct extra extra = {
      &field, group,
      figure_group(figure, "Put, uniform, until all is done", "keys/s", NAN),
      figure_group(figure, "Put, uniform: processor", "cores", NAN)};
  field_warm(&field, &workload);
  struct contestant *emb = field_find(&field, "emb C");
  int64_t put = emb ? contestant_figure(emb, "put_keys") : 0;
  int64_t written = emb ? contestant_figure(emb, "write_bytes") : 0;
  note_space(&field, figure, "before");
  field_compare(&field, options, group, &workload, add_extra, &extra);
  if (emb) {
    put = contestant_figure(emb, "put_keys") - put;
    written = contestant_figure(emb, "write_bytes") - written;
    figure_note(figure, "emb C wrote %.2f bytes for each byte of a vector",
                (double)written / ((double)put * BYTES));
  }
  note_space(&field, figure, "after");
  group_ratio(group, "emb C", "half of that, 1M at most", AT_LEAST, 3);
  group_ratio(group, "emb C", "sequential write", AT_LEAST, 0);
  group_ratio(group, "emb C", "RocksDB", AT_LEAST, 0);
  group_ratio(group, "emb C", "LMDB", AT_LEAST, 0);
  group_ratio(group, "emb C", "SQLite table", AT_LEAST, 0);
  field_close(&field, figure);
  trace_free(&trace);
  figure_done(figure);
}
