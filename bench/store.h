/* SPDX-License-Identifier: MIT
**
** store.h -- one interface to all compared stores: a map from int64 keys to
** vectors, read and written in batches.
**
** A store is opened once per process and used through one session per thread.
** All stores do the same work.  A Get puts the vectors of a batch within the
** caller's reach, in the order of its keys.  When a Put returns, its batch is
** written and visible to all threads, but not necessarily on disk (no store
** waits for the disk).
*/
#ifndef BENCH_STORE_H
#define BENCH_STORE_H

#include <stddef.h>
#include <stdint.h>

struct store_options {
  char directory[400];   /* exists; for this store only */
  const char *extension; /* emb.so */
  size_t dim;
  size_t keys;           /* final number of keys */
  uint64_t memory_bytes; /* for everything the store keeps in memory, including
                            its index and the system's page cache; 0: no limit,
                            everything fits */
  uint64_t budget_bytes; /* emb only: option memory, overrides the above */
  int cold;              /* emb C only: no read-in after an open */
  int bounded;           /* emb C only: reads are bounded by ... */
  uint32_t staleness;
  int create; /* 0: it exists and is filled */
};

struct store_kind {
  const char *name;
  /* One line: what it keeps in memory, and when it writes. */
  const char *about;
  void *(*open)(const struct store_options *options);
  void (*close)(void *store);
  void *(*session_open)(void *store);
  void (*session_close)(void *session);
  /* Returns the n vectors: in `buffer`, or in memory of the store that stays
  ** valid until the session's next call.  Ends the program if a key turns out
  ** to be absent.  NULL: a ceiling that delivers nothing. */
  const float *(*get)(void *session, const int64_t *keys, size_t n,
                      float *buffer);
  void (*put)(void *session, const int64_t *keys, size_t n,
              const float *vectors);
  /* Completes outstanding work; NULL: there is none. */
  void (*rest)(void *store);
  /* A statistic of the store, or -1; NULL: it has none. */
  int64_t (*figure)(void *store, const char *name);
  int torn; /* a Get during a Put may return a mix of two vectors */
};

extern const struct store_kind store_ram;         /* a ceiling: no index */
extern const struct store_kind store_device_read; /* ceilings too */
extern const struct store_kind store_device_write;
extern const struct store_kind store_emb;       /* emb.h */
extern const struct store_kind store_emb_sql;   /* emb_get and emb_put */
extern const struct store_kind store_emb_table; /* items(?); Get only */
extern const struct store_kind store_sqlite;
extern const struct store_kind store_lmdb;
extern const struct store_kind store_rocksdb;

#endif
