/* SPDX-License-Identifier: MIT
**
** shape.c -- see shape.h.
*/
#include "shape.h"

#include <string.h>

#include "engine/base/hash.h"
#include "engine/table/store/dir.h"
#include "stat_row.h"

#define V                                                                      \
  { .kind = SHAPE_VALUE }
#define IN(type, n)                                                            \
  { .kind = SHAPE_IN, .count = (n), .bytes = sizeof(type) }
#define VECTORS_IN(n)                                                          \
  { .kind = SHAPE_IN, .unit = UNIT_VECTOR, .count = (n) }
#define OUT(type, n)                                                           \
  {                                                                            \
    .kind = SHAPE_OUT, .count = (n), .filled = COUNT_ALL,                      \
    .bytes = sizeof(type)                                                      \
  }
#define VECTORS_OUT(n)                                                         \
  { .kind = SHAPE_OUT, .unit = UNIT_VECTOR, .count = (n), .filled = COUNT_ALL }
/* Of which only as many are filled as the last argument says. */
#define SOME(type, n, to)                                                      \
  { .kind = SHAPE_OUT, .count = (n), .filled = (to), .bytes = sizeof(type) }
#define VECTORS_SOME(n, to)                                                    \
  { .kind = SHAPE_OUT, .unit = UNIT_VECTOR, .count = (n), .filled = (to) }
#define STATES_SOME(n, to)                                                     \
  { .kind = SHAPE_OUT, .unit = UNIT_STATE, .count = (n), .filled = (to) }
/* The call writes there in any case. */
#define NEEDED(type, n)                                                        \
  {                                                                            \
    .kind = SHAPE_OUT, .count = (n), .filled = COUNT_ALL, .needed = 1,         \
    .bytes = sizeof(type)                                                      \
  }
#define VECTORS_NEEDED(n)                                                      \
  {                                                                            \
    .kind = SHAPE_OUT, .unit = UNIT_VECTOR, .count = (n), .filled = COUNT_ALL, \
    .needed = 1                                                                \
  }
#define NEEDED_SOME(type, n, to)                                               \
  {                                                                            \
    .kind = SHAPE_OUT, .count = (n), .filled = (to), .needed = 1,              \
    .bytes = sizeof(type)                                                      \
  }
#define ONE(type) NEEDED(type, COUNT_ONE)
#define MAYBE_ONE(type) OUT(type, COUNT_ONE)
#define TEXT                                                                   \
  { .kind = SHAPE_TEXT, .needed = 1, .bytes = 1 }
/* A path, and which argument its view is. */
#define PATH(n)                                                                \
  { .kind = SHAPE_TEXT, .needed = 1, .bytes = 1, .view = (n) }
#define MAYBE_PATH(n)                                                          \
  { .kind = SHAPE_TEXT, .bytes = 1, .view = (n) }
#define MAYBE_TEXT                                                             \
  { .kind = SHAPE_TEXT, .bytes = 1 }
#define LATER(type, n)                                                         \
  { .kind = SHAPE_LATER, .count = (n), .bytes = sizeof(type) }
#define VECTORS_LATER(n)                                                       \
  { .kind = SHAPE_LATER, .unit = UNIT_VECTOR, .count = (n) }

#define READ (SHAPE_CODE | SHAPE_AGAIN)
#define WRITE (SHAPE_CODE | SHAPE_WRITES)
#define WORK SHAPE_CODE
#define TELL SHAPE_AGAIN

#define CALL(name_, flags_, ...)                                               \
  [CALL_##name_] = {.name = #name_, .flags = (flags_), .args = {__VA_ARGS__}}
#define MAKE(name_, flags_, opens_, ...)                                       \
  [CALL_##name_] = {.name = #name_,                                            \
                    .flags = (flags_),                                         \
                    .opens = (opens_),                                         \
                    .args = {__VA_ARGS__}}
#define OF(object_, name_, flags_, ...)                                        \
  [CALL_##name_] = {.name = #name_,                                            \
                    .object = (object_),                                       \
                    .flags = (flags_),                                         \
                    .args = {__VA_ARGS__}}
#define END(object_, name_)                                                    \
  [CALL_##name_] = {                                                           \
      .name = #name_, .object = (object_), .closes = 1, .flags = TELL}

const struct shape shapes[CALLS] = {
    /* What fails of these has changed nothing. */
    CALL(own, WRITE | SHAPE_AGAIN, {0}),
    CALL(set_memory, WRITE, V),
    CALL(get, READ, IN(int64_t, 1), V, VECTORS_OUT(1), OUT(uint8_t, 1),
         OUT(uint64_t, 1)),
    CALL(peek, READ, IN(int64_t, 1), V, VECTORS_OUT(1), OUT(uint8_t, 1),
         OUT(uint64_t, 1)),
    CALL(exists, READ, IN(int64_t, 1), V, NEEDED(uint8_t, 1)),
    CALL(put, WRITE, IN(int64_t, 1), V, VECTORS_IN(1), OUT(uint64_t, 1)),
    CALL(put_parts, WRITE, IN(int64_t, 1), V, VECTORS_IN(1), V,
         OUT(uint64_t, 1)),
    CALL(rmw, WRITE, IN(int64_t, 1), V, VECTORS_IN(1), OUT(uint8_t, 1),
         OUT(uint64_t, 1)),
    CALL(tracks, READ, IN(int64_t, 1), V, OUT(emb_track, 1), OUT(uint8_t, 1)),
    /* keys, n, gradients, lr, step, has_read, read, found, versions */
    CALL(apply_gradients, WRITE, IN(int64_t, 1), V, VECTORS_IN(1), V, V, V,
         VECTORS_IN(5), OUT(uint8_t, 1), OUT(uint64_t, 1)),
    /* keys, n, offsets, count, mode, peek, weights, weight_count, pooled */
    CALL(bag, READ, IN(int64_t, 1), V, IN(int64_t, 3), V, V, V, IN(float, 7), V,
         VECTORS_NEEDED(3)),
    /* keys, n, offsets, count, mode, weights, weight_count, gradients, lr,
    ** step, found */
    CALL(bag_apply, WRITE, IN(int64_t, 1), V, IN(int64_t, 3), V, V,
         IN(float, 6), V, VECTORS_IN(3), V, V, OUT(uint8_t, 1)),
    CALL(delete, WRITE, IN(int64_t, 1), V, OUT(uint8_t, 1)),
    CALL(lookup, WRITE, IN(int64_t, 1), V, VECTORS_OUT(1), OUT(uint8_t, 1)),
    CALL(flush_gradients, WRITE, MAYBE_ONE(uint64_t)),
    CALL(pending, READ, NEEDED_SOME(emb_pending_key, 1, 2), V, ONE(size_t)),
    CALL(release_statement, 0, {0}),
    CALL(release, 0, {0}),
    CALL(leases, TELL, {0}),
    CALL(lease_mark, 0, V),
    CALL(release_marked, 0, {0}),
    CALL(clocks, READ, IN(int64_t, 1), V, NEEDED(uint32_t, 1)),
    CALL(lookahead, READ, IN(int64_t, 1), V, V, MAYBE_ONE(emb_ahead)),
    CALL(lookahead_progress, READ, V, ONE(emb_ahead)),
    CALL(lookahead_wait, READ, V),
    CALL(prefetch, WORK, IN(int64_t, 1), V, VECTORS_LATER(1), LATER(uint8_t, 1),
         LATER(uint64_t, 1), ONE(uint64_t)),
    /* Interrupted, they have changed nothing. */
    CALL(prefetch_synchronize, READ, V, ONE(uint64_t)),
    CALL(write_back, WRITE, IN(int64_t, 1), V, VECTORS_IN(1), ONE(uint64_t)),
    CALL(write_back_synchronize, READ, V, ONE(uint64_t)),
    CALL(begin, WRITE | SHAPE_AGAIN, {0}),
    CALL(txn_put, WRITE, IN(int64_t, 1), V, VECTORS_IN(1)),
    CALL(txn_put_parts, WRITE, IN(int64_t, 1), V, VECTORS_IN(1), V),
    CALL(txn_put_if, WRITE, V, VECTORS_IN(COUNT_ONE), V, V, ONE(int)),
    CALL(txn_apply_gradients, WRITE, IN(int64_t, 1), V, VECTORS_IN(1), V, V, V,
         VECTORS_IN(5), OUT(uint8_t, 1)),
    CALL(txn_move, WRITE, V, V, ONE(int)),
    CALL(txn_delete, WRITE, IN(int64_t, 1), V, OUT(uint8_t, 1)),
    CALL(savepoint, WORK, V),
    CALL(rollback_to, WORK, V),
    CALL(savepoint_release, WORK, V),
    CALL(prepare, WORK, ONE(uint64_t)),
    CALL(commit, WORK, {0}),
    CALL(rollback, 0, {0}),
    MAKE(scan_open, READ, OBJECT_SCAN, V, V, V),
    CALL(count, TELL, {0}),
    CALL(snapshot, WRITE, TEXT),
    CALL(snapshot_drop, WRITE, TEXT),
    CALL(snapshots, READ, NEEDED_SOME(emb_snapshot_info, 1, 2), V, ONE(size_t)),
    MAKE(snapshot_open, READ, OBJECT_SNAP, TEXT),
    /* queries, floats, n, how, keys, key_count, apart, apart_count, room, keys,
    ** distances, counts, filter, words, vectors, versions */
    CALL(nearest, READ, IN(float, 1), V, V, IN(emb_nearest_how, COUNT_ONE),
         IN(int64_t, 5), V, IN(int64_t, 7), V, V, NEEDED(int64_t, 8),
         NEEDED(double, 8), NEEDED(size_t, 2), IN(uint64_t, 13), V,
         VECTORS_OUT(8), OUT(uint64_t, 8)),
    /* how, without, without_count, n, keys, vectors, probabilities,
    ** expected_counts, count */
    CALL(sample, READ, IN(emb_sample_how, COUNT_ONE), IN(int64_t, 2), V, V,
         NEEDED_SOME(int64_t, 3, 8), VECTORS_SOME(3, 8), SOME(double, 3, 8),
         SOME(double, 3, 8), ONE(size_t)),
    MAKE(delta_open, WRITE, OBJECT_DELTA, TEXT),
    CALL(delta_ack, WRITE, TEXT, V),
    /* consumer, path, text, columns, join, about, view */
    CALL(delta_export, WRITE | SHAPE_FILES, TEXT, PATH(6), MAYBE_TEXT,
         MAYBE_TEXT, V, MAYBE_ONE(emb_delta_file), V),
    /* path, text, columns, join, about, view, has_keys, file, keys, n */
    CALL(delta_apply, WRITE | SHAPE_FILES, PATH(5), MAYBE_TEXT, MAYBE_TEXT, V,
         MAYBE_ONE(emb_delta_file), V, V, V, IN(int64_t, 9), V),
    CALL(delta_position, READ, ONE(emb_delta_place)),
    CALL(delta_begin, WRITE, TEXT, V, V),
    CALL(delta_drop, WRITE, TEXT),
    CALL(delta_consumers, READ, NEEDED_SOME(emb_consumer, 1, 2), V,
         ONE(size_t)),
    CALL(snapshot_export, WORK | SHAPE_FILES, TEXT, PATH(5), MAYBE_TEXT,
         MAYBE_ONE(uint64_t), MAYBE_ONE(uint64_t), V),
    CALL(snapshot_restore, WRITE | SHAPE_FILES, PATH(2), MAYBE_ONE(uint64_t),
         V),
    /* path, rows, view, has_keys, file, keys, n */
    CALL(snapshot_restore_keys, WRITE | SHAPE_FILES, PATH(2),
         MAYBE_ONE(uint64_t), V, V, V, IN(int64_t, 6), V),
    CALL(expire, WRITE, MAYBE_ONE(uint64_t)),
    CALL(evict, WRITE, MAYBE_ONE(uint64_t)),
    /* since, max, keys, ops, positions, n */
    CALL(evicted, WRITE, V, V, NEEDED_SOME(int64_t, 1, 5),
         NEEDED_SOME(uint8_t, 1, 5), NEEDED_SOME(uint64_t, 1, 5), ONE(size_t)),
    CALL(checkpoint, WRITE, {0}),
    CALL(warm, READ, {0}),
    CALL(optimize, WRITE, {0}),
    CALL(verify, READ, {0}),
    MAKE(backup_begin, WORK | SHAPE_FILES, OBJECT_BACKUP, PATH(1), V),
    /* max, keys, vectors, found, versions, tracks, n */
    OF(OBJECT_SCAN, scan_next_rows, READ, V, NEEDED_SOME(int64_t, 0, 6),
       VECTORS_SOME(0, 6), SOME(uint8_t, 0, 6), SOME(uint64_t, 0, 6),
       SOME(emb_track, 0, 6), ONE(size_t)),
    END(OBJECT_SCAN, scan_close),
    END(OBJECT_SNAP, snapshot_close),
    OF(OBJECT_SNAP, snapshot_count, TELL, {0}),
    OF(OBJECT_SNAP, snapshot_get, READ, IN(int64_t, 1), V, VECTORS_OUT(1),
       OUT(uint8_t, 1), OUT(uint64_t, 1)),
    OF(OBJECT_SNAP, snapshot_scan, SHAPE_CODE, V, NEEDED_SOME(int64_t, 0, 4),
       VECTORS_SOME(0, 4), SOME(uint64_t, 0, 4), ONE(size_t)),
    OF(OBJECT_SNAP, snapshot_rewind, 0, {0}),
    /* as nearest */
    OF(OBJECT_SNAP, snapshot_nearest, READ, IN(float, 1), V, V,
       IN(emb_nearest_how, COUNT_ONE), IN(int64_t, 5), V, IN(int64_t, 7), V, V,
       NEEDED(int64_t, 8), NEEDED(double, 8), NEEDED(size_t, 2),
       IN(uint64_t, 13), V, VECTORS_OUT(8), OUT(uint64_t, 8)),
    OF(OBJECT_DELTA, delta_range, TELL, MAYBE_ONE(uint64_t),
       MAYBE_ONE(uint64_t)),
    /* max, keys, ops, vectors, versions, states, n */
    OF(OBJECT_DELTA, delta_next, SHAPE_CODE, V, NEEDED_SOME(int64_t, 0, 6),
       NEEDED_SOME(uint8_t, 0, 6), VECTORS_SOME(0, 6), SOME(uint64_t, 0, 6),
       STATES_SOME(0, 6), ONE(size_t)),
    /* path, text, columns, join, about, view */
    OF(OBJECT_DELTA, delta_write, WORK | SHAPE_FILES, PATH(5), MAYBE_TEXT,
       MAYBE_TEXT, V, ONE(emb_delta_file), V),
    END(OBJECT_DELTA, delta_close),
    OF(OBJECT_BACKUP, backup_freeze, WORK, {0}),
    OF(OBJECT_BACKUP, backup_write, WORK | SHAPE_FILES, PATH(3), MAYBE_PATH(4),
       ONE(emb_backup_info), V, V),
    END(OBJECT_BACKUP, backup_end),
    OF(OBJECT_STORE, memory_least, TELL, {0}),
    OF(OBJECT_STORE, resolve, WRITE, V, V),
    OF(OBJECT_STORE, committed, TELL, {0}),
    OF(OBJECT_STORE, state, TELL, ONE(uint64_t[2])),
    /* rows, max */
    OF(OBJECT_STORE, stats, TELL, OUT(struct stat_row, 1), V),
    /* clients, max */
    OF(OBJECT_STORE, clients, TELL, OUT(emb_client, 1), V),
    /* list, max */
    OF(OBJECT_STORE, progress_of, TELL, OUT(emb_progress, 1), V),
    OF(OBJECT_STORE, drop, WRITE, {0}),
};

static size_t unit_bytes(const struct arg_shape *arg,
                         const struct units *units) {
  return arg->unit == UNIT_VECTOR  ? units->vector
         : arg->unit == UNIT_STATE ? units->state
                                   : arg->bytes;
}

/* Adds an array to the extent. */
static void extend(struct extent_of *extent, int arg, uint64_t elements,
                   size_t bytes) {
  size_t length;
  if (extent->bytes == SIZE_MAX ||
      __builtin_mul_overflow(elements, bytes, &length) ||
      length > (size_t)1 << 48) {
    extent->bytes = SIZE_MAX;
    return;
  }
  extent->at[arg] = extent->bytes;
  extent->length[arg] = length;
  extent->bytes += (length + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN;
}

static void extend_by(struct extent_of *extent, const struct shape *shape,
                      const struct units *units, const uint64_t *args, int i) {
  const struct arg_shape *arg = &shape->args[i];
  extend(extent, i, arg->count == COUNT_ONE ? 1 : args[arg->count],
         unit_bytes(arg, units));
}

uint64_t shape__view(struct env *env, const char *path) {
  uint64_t id[4] = {0, 0, 0, 0};
  char parent[PATH_BYTES];
  if (!path) {
    return 0;
  }
  (void)env->identity(env, path, id);
  const char *slash = strrchr(path, '/');
  size_t n = slash ? (size_t)(slash - path) + 1 : 0; /* with it: the root */
  if (n && n < sizeof parent) {
    memcpy(parent, path, n);
    parent[n] = 0;
    (void)env->identity(env, parent, id + 2);
  }
  uint64_t view = 1;
  for (int i = 0; i < 4; i++) {
    view = hash_mix(view ^ id[i]);
  }
  return view;
}

void shape__request(const struct shape *shape, const struct units *units,
                    const uint64_t *args, struct extent_of *extent) {
  memset(extent, 0, sizeof *extent);
  for (int i = 0; i < REQUEST_ARGS && shape->args[i].kind; i++) {
    if (shape->args[i].kind == SHAPE_IN) {
      extend_by(extent, shape, units, args, i);
    } else if (shape->args[i].kind == SHAPE_TEXT) {
      extend(extent, i, args[i], 1);
    }
  }
}

void shape__answer(const struct shape *shape, const struct units *units,
                   const uint64_t *args, struct extent_of *extent) {
  memset(extent, 0, sizeof *extent);
  for (int i = 0; i < REQUEST_ARGS && shape->args[i].kind; i++) {
    int kind = shape->args[i].kind;
    if ((kind == SHAPE_OUT || kind == SHAPE_LATER) && args[i]) {
      extend_by(extent, shape, units, args, i);
    }
  }
}
