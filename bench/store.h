/* SPDX-License-Identifier: MIT
**
** store.h -- one shape for all stores that are compared: a map from int64 keys
** to vectors, read and written in batches.
**
** A store is opened once per process and used through one session per thread.
** Every store is asked for the same: a Get leaves the vectors of a batch in
** the caller's reach, in the order of its keys; a Put has written a batch when
** it returns, can be read by all threads, and has not necessarily reached the
** disk (none of them waits for it).
*/
#ifndef BENCH_STORE_H
#define BENCH_STORE_H

#include <stddef.h>
#include <stdint.h>

struct store_options {
  char directory[400];   /* exists; of this store alone */
  const char *extension; /* emb.so */
  size_t dim;
  size_t keys;           /* how many there will be */
  uint64_t memory_bytes; /* for everything the store keeps in memory, its index
                            and the system's page cache among it; 0: no limit,
                            all fits */
  uint64_t budget_bytes; /* emb only: its option memory, instead of the above */
  int cold;              /* emb C only: nothing is read in after an open */
  int bounded;           /* emb C only: reads are bounded by ... */
  uint32_t staleness;
  int create; /* 0: it is there, filled */
};

struct store_kind {
  const char *name;
  /* What it keeps in memory and when it writes, in a line. */
  const char *about;
  void *(*open)(const struct store_options *options);
  void (*close)(void *store);
  void *(*session_open)(void *store);
  void (*session_close)(void *session);
  /* Returns the n vectors: `buffer`, or memory of the store that stays until
  ** the session's next call.  Ends the program if it finds that a key is
  ** absent.  NULL: a ceiling that delivers nothing. */
  const float *(*get)(void *session, const int64_t *keys, size_t n,
                      float *buffer);
  void (*put)(void *session, const int64_t *keys, size_t n,
              const float *vectors);
  /* Completes its outstanding work; NULL: there is none. */
  void (*rest)(void *store);
  /* A figure about itself, or -1; NULL: none. */
  int64_t (*figure)(void *store, const char *name);
  int torn; /* a Get beside a Put may return a vector mixed of two */
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
