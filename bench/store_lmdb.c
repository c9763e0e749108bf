/* SPDX-License-Identifier: MIT
**
** store_lmdb.c -- LMDB, integer keys, one transaction per batch.
**
** MDB_WRITEMAP | MDB_NOSYNC: its fastest mode.  It has no cache of its own and
** relies on the system's page cache.  Under a memory limit MDB_NORDAHEAD is
** set: without it each fault reads 8 MiB on systems configured that way.
** WRITEMAP is not used there, because pages written through the map cannot be
** evicted before they are on disk.
*/
#include <errno.h>
#include <lmdb.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "store.h"

struct lmdb {
  MDB_env *env;
  MDB_dbi dbi;
  size_t dim;
};

struct session {
  struct lmdb *lmdb;
  MDB_txn *reader;
};

static void check(int rc, const char *what) {
  if (rc) {
    die("LMDB: %s: %s", what, mdb_strerror(rc));
  }
}

static void *lmdb_open(const struct store_options *options) {
  struct lmdb *lmdb = need(1, sizeof(*lmdb));
  unsigned flags = MDB_NOSYNC | MDB_NOTLS;
  flags |= options->memory_bytes ? MDB_NORDAHEAD : MDB_WRITEMAP;
  lmdb->dim = options->dim;
  check(mdb_env_create(&lmdb->env), "create");
  size_t bytes = (options->keys + 100000) * (options->dim * 4 + 64) * 4;
  bytes = (bytes + (1 << 21) - 1) & ~(((size_t)1 << 21) - 1);
  check(mdb_env_set_mapsize(lmdb->env, bytes), "map size");
  check(mdb_env_open(lmdb->env, options->directory, flags, 0666), "open");
  MDB_txn *txn;
  check(mdb_txn_begin(lmdb->env, NULL, 0, &txn), "begin");
  check(mdb_dbi_open(txn, NULL, MDB_CREATE | MDB_INTEGERKEY, &lmdb->dbi),
        "table");
  check(mdb_txn_commit(txn), "commit");
  return lmdb;
}

static void lmdb_close(void *store) {
  struct lmdb *lmdb = store;
  check(mdb_env_sync(lmdb->env, 1), "sync");
  mdb_env_close(lmdb->env);
  free(lmdb);
}

static void *session_open(void *store) {
  struct session *s = need(1, sizeof(*s));
  s->lmdb = store;
  check(mdb_txn_begin(s->lmdb->env, NULL, MDB_RDONLY, &s->reader), "begin");
  mdb_txn_reset(s->reader);
  return s;
}

static void session_close(void *session) {
  struct session *s = session;
  mdb_txn_abort(s->reader);
  free(s);
}

static const float *get(void *session, const int64_t *keys, size_t n,
                        float *buffer) {
  struct session *s = session;
  size_t bytes = s->lmdb->dim * sizeof(float);
  check(mdb_txn_renew(s->reader), "renew");
  for (size_t i = 0; i < n; i++) {
    uint64_t number = (uint64_t)keys[i];
    MDB_val key = {sizeof(number), &number}, value;
    check(mdb_get(s->reader, s->lmdb->dbi, &key, &value), "get");
    memcpy(buffer + i * s->lmdb->dim, value.mv_data, bytes);
  }
  mdb_txn_reset(s->reader);
  return buffer;
}

static void put(void *session, const int64_t *keys, size_t n,
                const float *vectors) {
  struct session *s = session;
  size_t dim = s->lmdb->dim;
  MDB_txn *txn;
  check(mdb_txn_begin(s->lmdb->env, NULL, 0, &txn), "begin");
  for (size_t i = 0; i < n; i++) {
    uint64_t number = (uint64_t)keys[i];
    MDB_val key = {sizeof(number), &number};
    MDB_val value = {dim * sizeof(float),
                     (void *)(uintptr_t)(vectors + i * dim)};
    check(mdb_put(txn, s->lmdb->dbi, &key, &value, 0), "put");
  }
  check(mdb_txn_commit(txn), "commit");
}

/* Dirty pages are written outside the measurement: this favours LMDB, and keeps
** the writes from disturbing the next contestant. */
static void rest(void *store) {
  check(mdb_env_sync(((struct lmdb *)store)->env, 1), "sync");
}

const struct store_kind store_lmdb = {
    .name = "LMDB",
    .about = "WRITEMAP|NOSYNC (NORDAHEAD|NOSYNC under a memory limit)",
    .open = lmdb_open,
    .close = lmdb_close,
    .session_open = session_open,
    .session_close = session_close,
    .get = get,
    .put = put,
    .rest = rest,
};
