/* SPDX-License-Identifier: MIT
**
** calls.h -- the calls of emb.h that are made of a store, in one list.
**
** A store may be this process's own, or be served by another one (serve/).  So
** each of these calls exists twice: local_get is the engine's, in the file of
** its feature, and served_get asks the process that owns the store; emb_get
** chooses (api/calls.c).  What only computes, or concerns files that are no
** store, is not in the list: there is one of it.
**
** CALL(type, name, parameters, arguments)
*/
#ifndef EMB_STORE_CALLS_H
#define EMB_STORE_CALLS_H

#include "engine/emb.h"

/* What a call returns that was not carried out, because another process owns
** the store, or does not any more. */
#define CALL_ELSEWHERE (-4)

/* How a session, or what it has open (a scan, a snapshot, a delta, a backup),
** reaches the process that serves it: first member of each.  NULL: that is this
** process. */
struct link;

/* Of sessions: each returns a result code. */
#define SESSION_CALLS(CALL)                                                    \
  CALL(int, own, (emb_session * session), (session))                           \
  CALL(int, set_memory, (emb_session * session, uint64_t bytes),               \
       (session, bytes))                                                       \
  CALL(int, get,                                                               \
       (emb_session * session, const int64_t *keys, size_t n, float *vectors,  \
        uint8_t *found, uint64_t *versions),                                   \
       (session, keys, n, vectors, found, versions))                           \
  CALL(int, peek,                                                              \
       (emb_session * session, const int64_t *keys, size_t n, float *vectors,  \
        uint8_t *found, uint64_t *versions),                                   \
       (session, keys, n, vectors, found, versions))                           \
  CALL(int, exists,                                                            \
       (emb_session * session, const int64_t *keys, size_t n, uint8_t *found), \
       (session, keys, n, found))                                              \
  CALL(int, put,                                                               \
       (emb_session * session, const int64_t *keys, size_t n,                  \
        const float *vectors, uint64_t *versions),                             \
       (session, keys, n, vectors, versions))                                  \
  CALL(int, put_parts,                                                         \
       (emb_session * session, const int64_t *keys, size_t n,                  \
        const float *vectors, uint32_t parts, uint64_t *versions),             \
       (session, keys, n, vectors, parts, versions))                           \
  CALL(int, rmw,                                                               \
       (emb_session * session, const int64_t *keys, size_t n,                  \
        const float *deltas, uint8_t *found, uint64_t *versions),              \
       (session, keys, n, deltas, found, versions))                            \
  CALL(int, tracks,                                                            \
       (emb_session * session, const int64_t *keys, size_t n,                  \
        emb_track *tracks, uint8_t *found),                                    \
       (session, keys, n, tracks, found))                                      \
  CALL(int, apply_gradients,                                                   \
       (emb_session * session, const int64_t *keys, size_t n,                  \
        const float *gradients, const emb_update *how, const emb_rows *to),    \
       (session, keys, n, gradients, how, to))                                 \
  CALL(int, delete,                                                            \
       (emb_session * session, const int64_t *keys, size_t n, uint8_t *found), \
       (session, keys, n, found))                                              \
  CALL(int, bag,                                                               \
       (emb_session * session, const int64_t *keys, size_t n,                  \
        const emb_bags *bags, float *pooled),                                  \
       (session, keys, n, bags, pooled))                                       \
  CALL(int, bag_apply,                                                         \
       (emb_session * session, const int64_t *keys, size_t n,                  \
        const emb_bags *bags, const float *gradients, const emb_update *how),  \
       (session, keys, n, bags, gradients, how))                               \
  CALL(int, lookup,                                                            \
       (emb_session * session, const int64_t *keys, size_t n, float *vectors,  \
        uint8_t *found),                                                       \
       (session, keys, n, vectors, found))                                     \
  CALL(int, flush_gradients, (emb_session * session, uint64_t * steps),        \
       (session, steps))                                                       \
  CALL(                                                                        \
      int, pending,                                                            \
      (emb_session * session, emb_pending_key * keys, size_t max, size_t * n), \
      (session, keys, max, n))                                                 \
  CALL(int, clocks,                                                            \
       (emb_session * session, const int64_t *keys, size_t n,                  \
        uint32_t *clocks),                                                     \
       (session, keys, n, clocks))                                             \
  CALL(int, lookahead,                                                         \
       (emb_session * session, const int64_t *keys, size_t n, int dest,        \
        emb_ahead *result),                                                    \
       (session, keys, n, dest, result))                                       \
  CALL(int, lookahead_progress,                                                \
       (emb_session * session, uint64_t number, emb_ahead * result),           \
       (session, number, result))                                              \
  CALL(int, lookahead_wait, (emb_session * session, uint64_t number),          \
       (session, number))                                                      \
  CALL(int, prefetch,                                                          \
       (emb_session * session, const int64_t *keys, size_t n,                  \
        const emb_rows *to, uint64_t *ticket),                                 \
       (session, keys, n, to, ticket))                                         \
  CALL(int, write_back,                                                        \
       (emb_session * session, const int64_t *keys, size_t n,                  \
        const float *vectors, uint64_t *ticket),                               \
       (session, keys, n, vectors, ticket))                                    \
  CALL(int, begin, (emb_session * session), (session))                         \
  CALL(int, txn_put,                                                           \
       (emb_session * session, const int64_t *keys, size_t n,                  \
        const float *vectors),                                                 \
       (session, keys, n, vectors))                                            \
  CALL(int, txn_put_parts,                                                     \
       (emb_session * session, const int64_t *keys, size_t n,                  \
        const float *vectors, uint32_t parts),                                 \
       (session, keys, n, vectors, parts))                                     \
  CALL(int, txn_put_if,                                                        \
       (emb_session * session, int64_t key, const float *vector,               \
        uint32_t parts, int present, int *done),                               \
       (session, key, vector, parts, present, done))                           \
  CALL(int, txn_apply_gradients,                                               \
       (emb_session * session, const int64_t *keys, size_t n,                  \
        const float *gradients, const emb_update *how, uint8_t *found),        \
       (session, keys, n, gradients, how, found))                              \
  CALL(int, txn_move,                                                          \
       (emb_session * session, int64_t from, int64_t to, int *found),          \
       (session, from, to, found))                                             \
  CALL(int, txn_delete,                                                        \
       (emb_session * session, const int64_t *keys, size_t n, uint8_t *found), \
       (session, keys, n, found))                                              \
  CALL(int, savepoint, (emb_session * session, int i), (session, i))           \
  CALL(int, rollback_to, (emb_session * session, int i), (session, i))         \
  CALL(int, savepoint_release, (emb_session * session, int i), (session, i))   \
  CALL(int, prepare, (emb_session * session, uint64_t * number),               \
       (session, number))                                                      \
  CALL(int, scan_open,                                                         \
       (emb_session * session, int64_t lo, int64_t hi, int order,              \
        emb_scan **scan),                                                      \
       (session, lo, hi, order, scan))                                         \
  CALL(int, snapshot, (emb_session * session, const char *name),               \
       (session, name))                                                        \
  CALL(int, snapshot_drop, (emb_session * session, const char *name),          \
       (session, name))                                                        \
  CALL(int, snapshots,                                                         \
       (emb_session * session, emb_snapshot_info * infos, size_t max,          \
        size_t * n),                                                           \
       (session, infos, max, n))                                               \
  CALL(int, snapshot_open,                                                     \
       (emb_session * session, const char *name, emb_snap **snap),             \
       (session, name, snap))                                                  \
  CALL(int, nearest,                                                           \
       (emb_session * session, const float *queries, size_t n, size_t k,       \
        const emb_nearest_how *how, const emb_neighbours *to),                 \
       (session, queries, n, k, how, to))                                      \
  CALL(int, sample,                                                            \
       (emb_session * session, size_t n, const emb_sample_how *how,            \
        const emb_samples *to, size_t *count),                                 \
       (session, n, how, to, count))                                           \
  CALL(int, delta_open,                                                        \
       (emb_session * session, const char *consumer, emb_delta **delta),       \
       (session, consumer, delta))                                             \
  CALL(int, delta_ack,                                                         \
       (emb_session * session, const char *consumer, uint64_t upto),           \
       (session, consumer, upto))                                              \
  CALL(int, delta_export,                                                      \
       (emb_session * session, const char *consumer, const char *path,         \
        const emb_delta_options *how, emb_delta_file *about),                  \
       (session, consumer, path, how, about))                                  \
  CALL(int, delta_apply,                                                       \
       (emb_session * session, const char *path, const emb_delta_options *how, \
        emb_delta_file *about),                                                \
       (session, path, how, about))                                            \
  CALL(int, delta_position, (emb_session * session, emb_delta_place * place),  \
       (session, place))                                                       \
  CALL(int, delta_begin,                                                       \
       (emb_session * session, const char *consumer, int where,                \
        uint64_t keep_bytes),                                                  \
       (session, consumer, where, keep_bytes))                                 \
  CALL(int, delta_drop, (emb_session * session, const char *consumer),         \
       (session, consumer))                                                    \
  CALL(int, delta_consumers,                                                   \
       (emb_session * session, emb_consumer * consumers, size_t max,           \
        size_t * n),                                                           \
       (session, consumers, max, n))                                           \
  CALL(int, snapshot_export,                                                   \
       (emb_session * session, const char *name, const char *path,             \
        const char *options, uint64_t *rows, uint64_t *bytes),                 \
       (session, name, path, options, rows, bytes))                            \
  CALL(int, snapshot_restore,                                                  \
       (emb_session * session, const char *path, uint64_t *rows),              \
       (session, path, rows))                                                  \
  CALL(int, snapshot_restore_keys,                                             \
       (emb_session * session, const char *path, const emb_file_keys *keys,    \
        uint64_t *rows),                                                       \
       (session, path, keys, rows))                                            \
  CALL(int, expire, (emb_session * session, uint64_t * removed),               \
       (session, removed))                                                     \
  CALL(int, evict, (emb_session * session, uint64_t * removed),                \
       (session, removed))                                                     \
  CALL(int, evicted,                                                           \
       (emb_session * session, uint64_t since, size_t max, const emb_rows *to, \
        size_t *n),                                                            \
       (session, since, max, to, n))                                           \
  CALL(int, checkpoint, (emb_session * session), (session))                    \
  CALL(int, warm, (emb_session * session), (session))                          \
  CALL(int, optimize, (emb_session * session), (session))                      \
  CALL(int, verify,                                                            \
       (emb_session * session, void (*report)(void *, const char *),           \
        void *arg),                                                            \
       (session, report, arg))                                                 \
  CALL(int, backup_begin,                                                      \
       (emb_session * session, const char *scratch, emb_backup **backup),      \
       (session, scratch, backup))

/* What concerns what the session has or is at present, wherever that is. */
#define SESSION_FACTS(CALL)                                                    \
  CALL(void, statement, (emb_session * session, uint64_t number),              \
       (session, number))                                                      \
  CALL(size_t, release_statement, (emb_session * session), (session))          \
  CALL(size_t, release, (emb_session * session), (session))                    \
  CALL(size_t, leases, (const emb_session *session), (session))                \
  CALL(void, lease_mark, (emb_session * session, int mark), (session, mark))   \
  CALL(size_t, release_marked, (emb_session * session), (session))             \
  CALL(int, in_transaction, (const emb_session *session), (session))

/* Those of which api/calls.c says more. */
#define SESSION_OTHERS(CALL)                                                   \
  CALL(int, prefetch_synchronize,                                              \
       (emb_session * session, uint64_t ticket, uint64_t * ended),             \
       (session, ticket, ended))                                               \
  CALL(int, write_back_synchronize,                                            \
       (emb_session * session, uint64_t ticket, uint64_t * ended),             \
       (session, ticket, ended))                                               \
  CALL(size_t, tickets, (const emb_session *session, size_t *write_backs),     \
       (session, write_backs))                                                 \
  CALL(int, commit, (emb_session * session), (session))                        \
  CALL(void, rollback, (emb_session * session), (session))                     \
  CALL(int64_t, count, (emb_session * session), (session))

/* Of what a session has open. */
#define HANDLE_CALLS(CALL)                                                     \
  CALL(int, scan_next_rows,                                                    \
       (emb_scan * scan, size_t max, const emb_rows *to, size_t *n),           \
       (scan, max, to, n))                                                     \
  CALL(void, scan_close, (emb_scan * scan), (scan))                            \
  CALL(void, snapshot_close, (emb_snap * snap), (snap))                        \
  CALL(int64_t, snapshot_count, (const emb_snap *snap), (snap))                \
  CALL(int, snapshot_get,                                                      \
       (emb_snap * snap, const int64_t *keys, size_t n, float *vectors,        \
        uint8_t *found, uint64_t *versions),                                   \
       (snap, keys, n, vectors, found, versions))                              \
  CALL(int, snapshot_scan,                                                     \
       (emb_snap * snap, size_t max, int64_t * keys, float *vectors,           \
        uint64_t *versions, size_t *n),                                        \
       (snap, max, keys, vectors, versions, n))                                \
  CALL(void, snapshot_rewind, (emb_snap * snap), (snap))                       \
  CALL(int, snapshot_nearest,                                                  \
       (emb_snap * snap, const float *queries, size_t n, size_t k,             \
        const emb_nearest_how *how, const emb_neighbours *to),                 \
       (snap, queries, n, k, how, to))                                         \
  CALL(void, delta_range,                                                      \
       (const emb_delta *delta, uint64_t *from, uint64_t *to),                 \
       (delta, from, to))                                                      \
  CALL(int, delta_next,                                                        \
       (emb_delta * delta, size_t max, const emb_rows *to, size_t *n),         \
       (delta, max, to, n))                                                    \
  CALL(int, delta_write,                                                       \
       (emb_delta * delta, const char *path, const emb_delta_options *how,     \
        emb_delta_file *about),                                                \
       (delta, path, how, about))                                              \
  CALL(void, delta_close, (emb_delta * delta), (delta))                        \
  CALL(int, backup_freeze, (emb_backup * backup), (backup))                    \
  CALL(int, backup_write,                                                      \
       (emb_backup * backup, const char *dir, const char *base,                \
        emb_backup_info *info),                                                \
       (backup, dir, base, info))                                              \
  CALL(void, backup_end, (emb_backup * backup), (backup))

/* Of a store. */
#define STORE_CALLS(CALL)                                                      \
  CALL(int, is_owner, (const emb_store *store), (store))                       \
  CALL(int, is_dropped, (const emb_store *store), (store))                     \
  CALL(uint64_t, memory_least, (const emb_store *store), (store))              \
  CALL(uint64_t, in_doubt, (const emb_store *store), (store))                  \
  CALL(int, resolve,                                                           \
       (emb_store * store, uint64_t number, int commit, emb_err *err),         \
       (store, number, commit, err))                                           \
  CALL(uint64_t, committed, (const emb_store *store), (store))                 \
  CALL(void, state, (const emb_store *store, uint64_t state[2]),               \
       (store, state))                                                         \
  CALL(size_t, stats, (emb_store * store, emb_stat * stats, size_t max),       \
       (store, stats, max))                                                    \
  CALL(size_t, clients, (emb_store * store, emb_client * clients, size_t max), \
       (store, clients, max))                                                  \
  CALL(size_t, progress_of,                                                    \
       (emb_store * store, emb_progress * list, size_t max),                   \
       (store, list, max))

/* Of a store, of which api/stores.c says more. */
#define STORE_OTHERS(CALL)                                                     \
  CALL(int, drop, (emb_store * store, emb_err * err), (store, err))

#define ALL_CALLS(CALL)                                                        \
  SESSION_CALLS(CALL)                                                          \
  SESSION_FACTS(CALL)                                                          \
  SESSION_OTHERS(CALL)                                                         \
  HANDLE_CALLS(CALL)                                                           \
  STORE_CALLS(CALL)                                                            \
  STORE_OTHERS(CALL)

/* The engine's own. */
#define LOCAL_CALL(type, name, parameters, arguments)                          \
  type local_##name parameters;
ALL_CALLS(LOCAL_CALL)
#undef LOCAL_CALL

#endif
