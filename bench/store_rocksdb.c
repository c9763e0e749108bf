/* SPDX-License-Identifier: MIT
**
** store_rocksdb.c -- RocksDB through its C interface: batched MultiGet with
** pinned values, WriteBatch without a write-ahead log, no compression, bloom
** filters.
**
** If everything fits, the block cache holds it all.  Under a memory limit the
** block cache, which then also holds index and filters, gets 3/4 of it and the
** two memtables 1/8 each, and files are read and written with O_DIRECT, so that
** the page cache uses nothing.
*/
#include <endian.h>
#include <rocksdb/c.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "keys.h"
#include "store.h"

enum { PER_CALL = BATCH };

struct rocks {
  rocksdb_t *db;
  rocksdb_column_family_handle_t *family;
  rocksdb_options_t *options;
  rocksdb_block_based_table_options_t *table;
  rocksdb_cache_t *cache;
  rocksdb_readoptions_t *read;
  rocksdb_writeoptions_t *write;
  size_t dim;
};

struct session {
  struct rocks *rocks;
  rocksdb_writebatch_t *batch;
  uint64_t names[PER_CALL]; /* keys, big-endian: bytewise order */
  const char *keys[PER_CALL];
  size_t sizes[PER_CALL];
  rocksdb_pinnableslice_t *values[PER_CALL];
  char *errors[PER_CALL];
};

static void check(const char *error, const char *what) {
  if (error) {
    die("RocksDB: %s: %s", what, error);
  }
}

static void configure(struct rocks *rocks, const struct store_options *o) {
  uint64_t all = o->memory_bytes;
  size_t cache =
      (size_t)(all ? all / 4 * 3 : (o->keys + 100000) * (o->dim * 4 + 64) * 2);
  size_t memtable = all ? (size_t)(all / 8) : (size_t)64 << 20;
  rocks->options = rocksdb_options_create();
  rocks->table = rocksdb_block_based_options_create();
  rocks->cache = rocksdb_cache_create_lru(cache);
  rocksdb_block_based_options_set_block_cache(rocks->table, rocks->cache);
  rocksdb_block_based_options_set_block_size(rocks->table, 4096);
  rocksdb_block_based_options_set_filter_policy(
      rocks->table, rocksdb_filterpolicy_create_bloom_full(10));
  rocksdb_options_set_create_if_missing(rocks->options, 1);
  rocksdb_options_set_compression(rocks->options, rocksdb_no_compression);
  rocksdb_options_set_write_buffer_size(rocks->options, memtable);
  rocksdb_options_set_max_write_buffer_number(rocks->options, 2);
  rocksdb_options_set_max_background_jobs(rocks->options, 2);
  if (all) {
    rocksdb_block_based_options_set_cache_index_and_filter_blocks(rocks->table,
                                                                  1);
    rocksdb_options_set_use_direct_reads(rocks->options, 1);
    rocksdb_options_set_use_direct_io_for_flush_and_compaction(rocks->options,
                                                               1);
  }
  rocksdb_options_set_block_based_table_factory(rocks->options, rocks->table);
}

static void *rocks_open(const struct store_options *options) {
  struct rocks *rocks = need(1, sizeof(*rocks));
  rocks->dim = options->dim;
  configure(rocks, options);
  const char *names[] = {"default"};
  const rocksdb_options_t *family_options[] = {rocks->options};
  char *error = NULL;
  rocks->db =
      rocksdb_open_column_families(rocks->options, options->directory, 1, names,
                                   family_options, &rocks->family, &error);
  check(error, "open");
  rocks->read = rocksdb_readoptions_create();
  rocks->write = rocksdb_writeoptions_create();
  rocksdb_writeoptions_disable_WAL(rocks->write, 1);
  return rocks;
}

static void flush(struct rocks *rocks) {
  char *error = NULL;
  rocksdb_flushoptions_t *wait = rocksdb_flushoptions_create();
  rocksdb_flushoptions_set_wait(wait, 1);
  rocksdb_flush(rocks->db, wait, &error);
  check(error, "flush");
  rocksdb_flushoptions_destroy(wait);
}

static void rocks_close(void *store) {
  struct rocks *rocks = store;
  flush(rocks);
  rocksdb_column_family_handle_destroy(rocks->family);
  rocksdb_close(rocks->db);
  rocksdb_readoptions_destroy(rocks->read);
  rocksdb_writeoptions_destroy(rocks->write);
  rocksdb_options_destroy(rocks->options);
  rocksdb_block_based_options_destroy(rocks->table);
  rocksdb_cache_destroy(rocks->cache);
  free(rocks);
}

static void *session_open(void *store) {
  struct session *s = need(1, sizeof(*s));
  s->rocks = store;
  s->batch = rocksdb_writebatch_create();
  for (size_t i = 0; i < PER_CALL; i++) {
    s->keys[i] = (const char *)&s->names[i];
    s->sizes[i] = sizeof(s->names[i]);
  }
  return s;
}

static void session_close(void *session) {
  struct session *s = session;
  rocksdb_writebatch_destroy(s->batch);
  free(s);
}

static void get_some(struct session *s, const int64_t *keys, size_t n,
                     float *buffer) {
  size_t dim = s->rocks->dim;
  for (size_t i = 0; i < n; i++) {
    s->names[i] = htobe64((uint64_t)keys[i]);
  }
  rocksdb_batched_multi_get_cf(s->rocks->db, s->rocks->read, s->rocks->family,
                               n, s->keys, s->sizes, s->values, s->errors, 0);
  for (size_t i = 0; i < n; i++) {
    size_t bytes = 0;
    check(s->errors[i], "MultiGet");
    const char *value =
        s->values[i] ? rocksdb_pinnableslice_value(s->values[i], &bytes) : NULL;
    if (bytes != dim * sizeof(float)) {
      die("RocksDB: key %lld is absent", (long long)keys[i]);
    }
    memcpy(buffer + i * dim, value, bytes);
    rocksdb_pinnableslice_destroy(s->values[i]);
  }
}

static const float *get(void *session, const int64_t *keys, size_t n,
                        float *buffer) {
  struct session *s = session;
  for (size_t at = 0; at < n; at += PER_CALL) {
    get_some(s, keys + at, n - at < PER_CALL ? n - at : PER_CALL,
             buffer + at * s->rocks->dim);
  }
  return buffer;
}

static void put(void *session, const int64_t *keys, size_t n,
                const float *vectors) {
  struct session *s = session;
  size_t dim = s->rocks->dim;
  rocksdb_writebatch_clear(s->batch);
  for (size_t i = 0; i < n; i++) {
    uint64_t name = htobe64((uint64_t)keys[i]);
    rocksdb_writebatch_put(s->batch, (const char *)&name, sizeof(name),
                           (const char *)(vectors + i * dim),
                           dim * sizeof(float));
  }
  char *error = NULL;
  rocksdb_write(s->rocks->db, s->rocks->write, s->batch, &error);
  check(error, "write");
}

/* Memtables are flushed and compactions finish outside the measurement, in
** RocksDB's favour. */
static void rest(void *store) {
  struct rocks *rocks = store;
  flush(rocks);
  double end = now() + 120;
  static const char *const pending[] = {"rocksdb.compaction-pending",
                                        "rocksdb.num-running-compactions",
                                        "rocksdb.num-running-flushes"};
  for (size_t i = 0; i < 3 && now() < end;) {
    uint64_t value = 0;
    if (!rocksdb_property_int(rocks->db, pending[i], &value) && value) {
      nap(0.01);
      i = 0;
    } else {
      i++;
    }
  }
}

const struct store_kind store_rocksdb = {
    .name = "RocksDB",
    .about = "MultiGet, WriteBatch without WAL, bloom filters, no compression",
    .open = rocks_open,
    .close = rocks_close,
    .session_open = session_open,
    .session_close = session_close,
    .get = get,
    .put = put,
    .rest = rest,
};
