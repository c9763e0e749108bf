/* SPDX-License-Identifier: MIT
**
** run.c -- see run.h.
**
** Whatever a request says is checked here against the table of calls, before
** anything is done: the call, the object, each array's length.  What an
** argument may be is for the call itself to check, as it does for its other
** callers; but for a few, which no caller of emb.h gets wrong.
**
** ANSWER    The client can change it at any time.  So the call gets memory of
**           its own for what there is one of, a count or a ticket: it goes on
**           by what stands there.  In arrays the engine only writes.
*/
#include "run.h"

#include <stdalign.h>
#include <string.h>

#include "engine/features/lookahead/async.h"
#include "engine/table/bank/needs.h"
#include "engine/features/nearest/filter.h"
#include "engine/table/session/txn_map.h"
#include "stat_row.h"

#define MS_MAX (UINT64_MAX / 1000000)

void run__init(struct runner *run, emb_session *s, int readonly,
               int is_foreign) {
  memset(run, 0, sizeof *run);
  run->s = s;
  run->readonly = s->only_reads = readonly;
  run->is_foreign = is_foreign;
  run->units.vector = (size_t)s->core->layout.dim * sizeof(float);
  run->units.state = emb_state_bytes(s->store);
}

/* ---- objects ------------------------------------------------------------- */

static struct run_object *find_object(struct runner *run, int kind,
                                      uint64_t number) {
  for (int i = 0; number && i < RUN_OBJECTS; i++) {
    if (run->objects[i].number == number && run->objects[i].kind == kind) {
      return &run->objects[i];
    }
  }
  return NULL;
}

static struct run_object *find_free_object(struct runner *run) {
  for (int i = 0; i < RUN_OBJECTS; i++) {
    if (!run->objects[i].number) {
      return &run->objects[i];
    }
  }
  return NULL;
}

static void close_object(struct runner *run, struct run_object *object) {
  run->moment = object->number == run->moment ? 0 : run->moment;
  switch (object->kind) {
  case OBJECT_SCAN:
    local_scan_close(object->pointer);
    break;
  case OBJECT_SNAP:
    local_snapshot_close(object->pointer);
    break;
  case OBJECT_DELTA:
    local_delta_close(object->pointer);
    break;
  default:
    local_backup_end(object->pointer);
    break;
  }
  object->number = 0;
}

void run__end(struct runner *run) {
  async_close(run->s);
  for (int i = 0; i < RUN_OBJECTS; i++) {
    if (run->objects[i].number) {
      close_object(run, &run->objects[i]);
    }
  }
}

void run__end_moment(struct runner *run) {
  struct run_object *object = find_object(run, OBJECT_BACKUP, run->moment);
  if (object) {
    close_object(run, object);
  }
}

/* ---- structures of pointers ---------------------------------------------- */

static emb_update update_of(const union word *w, int lr) {
  emb_update how = {.step = w[lr + 1].u, .read = w[lr + 3].p};
  uint32_t bits = (uint32_t)w[lr].u;
  memcpy(&how.lr, &bits, sizeof how.lr);
  return how;
}

/* Of nearest's words from `how` on. */
static emb_nearest_how how_of(const union word *w, struct emb_filter *filter) {
  emb_nearest_how how;
  memcpy(&how, w[3].p, sizeof how);
  how.keys = w[4].p;
  how.key_count = w[5].u;
  how.apart = w[6].p;
  how.filter = w[13].u && filter_open(filter, w[12].p, w[13].u) ? filter : NULL;
  return how;
}

static emb_delta_options options_of(const union word *w, int text) {
  return (emb_delta_options){
      .text = w[text].p, .columns = w[text + 1].p, .join = w[text + 2].u != 0};
}

/* From `at` on: has_keys, file, keys, n; NULL where there are none. */
static const emb_file_keys *keys_of(const union word *w, int at,
                                    emb_file_keys *keys) {
  *keys = (emb_file_keys){w[at + 1].u, w[at + 2].p, w[at + 3].u};
  return w[at].u ? keys : NULL;
}

static size_t run_stats(emb_store *store, struct stat_row *rows, size_t max) {
  enum { METRICS = 512 };
  emb_stat some[METRICS];
  size_t n = local_stats(store, some, METRICS);
  if (!max || !rows) {
    return n;
  }
  n = n < METRICS ? n : METRICS;
  n = n < max ? n : max;
  for (size_t i = 0; i < n; i++) {
    struct stat_row *row = &rows[i];
    memset(row, 0, sizeof *row);
    strncpy(row->name, some[i].name, sizeof row->name - 1);
    row->has_text = some[i].text != NULL;
    size_t length = strlen(some[i].text ? some[i].text : "");
    if (length >= sizeof row->text) { /* not within a character */
      length = sizeof row->text - 1;
      while (length && (some[i].text[length] & 0xC0) == 0x80) {
        length--;
      }
    }
    memcpy(row->text, some[i].text ? some[i].text : "", length);
    row->value = some[i].value;
  }
  return n;
}

static int run_resolve(struct runner *run, uint64_t number, int commit) {
  emb_err err = {EMB_OK, ""};
  int rc = local_resolve(run->s->store, number, commit, &err);
  run->s->err = err;
  return rc;
}

static int drop(struct runner *run) {
  emb_err err = {EMB_OK, ""};
  int rc = local_drop(run->s->store, &err);
  run->s->err = err;
  return rc;
}

/* ---- the calls ----------------------------------------------------------- */

/* Those of an object. */
static uint64_t run_object(struct runner *run, int call,
                           struct run_object *object, union word *w) {
  void *o = object->pointer;
  int rc;
  switch (call) {
  case CALL_scan_next_rows: {
    const emb_rows to = {.keys = w[1].p,
                         .vectors = w[2].p,
                         .found = w[3].p,
                         .versions = w[4].p,
                         .tracks = w[5].p};
    rc = local_scan_next_rows(o, w[0].u, &to, w[6].p);
    object->rows += rc ? 0 : *(const size_t *)w[6].p;
    return (uint64_t)rc;
  }
  case CALL_snapshot_count:
    return (uint64_t)local_snapshot_count(o);
  case CALL_snapshot_get:
    return (uint64_t)local_snapshot_get(o, w[0].p, w[1].u, w[2].p, w[3].p,
                                        w[4].p);
  case CALL_snapshot_scan:
    return (uint64_t)local_snapshot_scan(o, w[0].u, w[1].p, w[2].p, w[3].p,
                                         w[4].p);
  case CALL_snapshot_rewind:
    local_snapshot_rewind(o);
    return 0;
  case CALL_snapshot_nearest: {
    struct emb_filter filter;
    const emb_nearest_how how = how_of(w, &filter);
    const emb_neighbours to = {w[9].p, w[10].p, w[11].p, w[14].p, w[15].p};
    return (uint64_t)local_snapshot_nearest(
        o, w[0].p, w[2].u, w[2].u ? w[8].u / w[2].u : 1, &how, &to);
  }
  case CALL_delta_range:
    local_delta_range(o, w[0].p, w[1].p);
    return 0;
  case CALL_delta_next: {
    const emb_rows to = {.keys = w[1].p,
                         .ops = w[2].p,
                         .vectors = w[3].p,
                         .versions = w[4].p,
                         .states = w[5].p};
    return (uint64_t)local_delta_next(o, w[0].u, &to, w[6].p);
  }
  case CALL_delta_write: {
    const emb_delta_options how = options_of(w, 1);
    return (uint64_t)local_delta_write(o, w[0].p, &how, w[4].p);
  }
  case CALL_backup_freeze:
    rc = local_backup_freeze(o);
    run->moment = rc ? run->moment : 0;
    return (uint64_t)rc;
  case CALL_backup_write:
    return (uint64_t)local_backup_write(o, w[0].p, w[1].p, w[2].p);
  default: /* scan_close and the like */
    close_object(run, object);
    return 0;
  }
}

/* Those that open something; *made is what. */
static int run_opening(emb_session *s, int call, union word *w, void **made) {
  emb_scan *scan = NULL;
  emb_snap *snap = NULL;
  emb_delta *delta = NULL;
  emb_backup *backup = NULL;
  int rc;
  switch (call) {
  case CALL_scan_open:
    rc = local_scan_open(s, w[0].i, w[1].i, (int)w[2].i, &scan);
    *made = scan;
    return rc;
  case CALL_snapshot_open:
    rc = local_snapshot_open(s, w[0].p, &snap);
    *made = snap;
    return rc;
  case CALL_delta_open:
    rc = local_delta_open(s, w[0].p, &delta);
    *made = delta;
    return rc;
  default:
    rc = local_backup_begin(s, w[0].p, &backup);
    *made = backup;
    return rc;
  }
}

static uint64_t run_store(struct runner *run, int call, union word *w) {
  emb_store *store = run->s->store;
  switch (call) {
  case CALL_memory_least:
    return local_memory_least(store);
  case CALL_resolve:
    return (uint64_t)run_resolve(run, w[0].u, w[1].u != 0);
  case CALL_committed:
    return local_committed(store);
  case CALL_state:
    local_state(store, w[0].p);
    return 0;
  case CALL_clients:
    return store->clients(store, w[0].p, w[0].p ? w[1].u : 0);
  case CALL_progress_of:
    return local_progress_of(store, w[0].p, w[0].p ? w[1].u : 0);
  case CALL_drop:
    return (uint64_t)drop(run);
  default:
    return run_stats(store, w[0].p, w[1].u);
  }
}

static uint64_t run_txn(struct runner *run, int call, union word *w) {
  emb_session *s = run->s;
  switch (call) {
  case CALL_begin:
    return (uint64_t)local_begin(s);
  case CALL_txn_put:
    return (uint64_t)local_txn_put(s, w[0].p, w[1].u, w[2].p);
  case CALL_txn_put_parts:
    return (uint64_t)local_txn_put_parts(s, w[0].p, w[1].u, w[2].p,
                                         (uint32_t)w[3].u);
  case CALL_txn_put_if:
    return (uint64_t)local_txn_put_if(s, w[0].i, w[1].p, (uint32_t)w[2].u,
                                      w[3].u != 0, w[4].p);
  case CALL_txn_apply_gradients: {
    const emb_update how = update_of(w, 3);
    return (uint64_t)local_txn_apply_gradients(s, w[0].p, w[1].u, w[2].p, &how,
                                               w[7].p);
  }
  case CALL_txn_move:
    return (uint64_t)local_txn_move(s, w[0].i, w[1].i, w[2].p);
  case CALL_txn_delete:
    return (uint64_t)local_txn_delete(s, w[0].p, w[1].u, w[2].p);
  case CALL_savepoint:
    return (uint64_t)local_savepoint(s, (int)w[0].i);
  case CALL_rollback_to:
    return (uint64_t)local_rollback_to(s, (int)w[0].i);
  case CALL_savepoint_release:
    return (uint64_t)local_savepoint_release(s, (int)w[0].i);
  case CALL_prepare:
    return (uint64_t)local_prepare(s, w[0].p);
  case CALL_commit:
    return (uint64_t)local_commit(s);
  default:
    local_rollback(s);
    return 0;
  }
}

static uint64_t run_maintenance(struct runner *run, int call, union word *w) {
  emb_session *s = run->s;
  switch (call) {
  case CALL_snapshot:
    return (uint64_t)local_snapshot(s, w[0].p);
  case CALL_snapshot_drop:
    return (uint64_t)local_snapshot_drop(s, w[0].p);
  case CALL_snapshots:
    return (uint64_t)local_snapshots(s, w[0].p, w[1].u, w[2].p);
  case CALL_delta_ack:
    return (uint64_t)local_delta_ack(s, w[0].p, w[1].u);
  case CALL_delta_export: {
    const emb_delta_options how = options_of(w, 2);
    return (uint64_t)local_delta_export(s, w[0].p, w[1].p, &how, w[5].p);
  }
  case CALL_delta_apply: {
    emb_delta_options how = options_of(w, 1);
    emb_file_keys keys;
    how.keys = keys_of(w, 6, &keys);
    return (uint64_t)local_delta_apply(s, w[0].p, &how, w[4].p);
  }
  case CALL_delta_position:
    return (uint64_t)local_delta_position(s, w[0].p);
  case CALL_delta_begin:
    return (uint64_t)local_delta_begin(s, w[0].p, (int)w[1].i, w[2].u);
  case CALL_delta_drop:
    return (uint64_t)local_delta_drop(s, w[0].p);
  case CALL_delta_consumers:
    return (uint64_t)local_delta_consumers(s, w[0].p, w[1].u, w[2].p);
  case CALL_snapshot_export:
    return (uint64_t)local_snapshot_export(s, w[0].p, w[1].p, w[2].p, w[3].p,
                                           w[4].p);
  case CALL_snapshot_restore_keys: {
    emb_file_keys keys;
    return (uint64_t)local_snapshot_restore_keys(s, w[0].p,
                                                 keys_of(w, 3, &keys), w[1].p);
  }
  case CALL_snapshot_restore:
    return (uint64_t)local_snapshot_restore(s, w[0].p, w[1].p);
  case CALL_expire:
    return (uint64_t)local_expire(s, w[0].p);
  case CALL_evict:
    return (uint64_t)local_evict(s, w[0].p);
  case CALL_lookup:
    return (uint64_t)local_lookup(s, w[0].p, w[1].u, w[2].p, w[3].p);
  case CALL_flush_gradients:
    return (uint64_t)local_flush_gradients(s, w[0].p);
  case CALL_pending:
    return (uint64_t)local_pending(s, w[0].p, w[1].u, w[2].p);
  case CALL_evicted: {
    const emb_rows to = {.keys = w[2].p, .ops = w[3].p, .positions = w[4].p};
    return (uint64_t)local_evicted(s, w[0].u, w[1].u, &to, w[5].p);
  }
  case CALL_checkpoint:
    return (uint64_t)local_checkpoint(s);
  case CALL_warm:
    return (uint64_t)local_warm(s);
  case CALL_optimize:
    return (uint64_t)local_optimize(s);
  default:
    return (uint64_t)local_verify(s, run->report, run->report_arg);
  }
}

static int run_sample(emb_session *s, union word *w) {
  const emb_samples to = {w[4].p, w[5].p, w[6].p, w[7].p};
  emb_sample_how how;
  memcpy(&how, w[0].p, sizeof how);
  how.without = w[1].p;
  how.without_count = w[2].u;
  return local_sample(s, w[3].u, &how, &to, w[8].p);
}

static uint64_t run_bag(emb_session *s, union word *w) {
  const emb_bags bags = {.offsets = w[2].p,
                         .count = w[3].u,
                         .mode = (int)w[4].i,
                         .peek = w[5].u != 0,
                         .weights = w[7].u ? w[6].p : NULL};
  return (uint64_t)local_bag(s, w[0].p, w[1].u, &bags, w[8].p);
}

static uint64_t run_bag_apply(emb_session *s, union word *w) {
  const emb_bags bags = {.offsets = w[2].p,
                         .count = w[3].u,
                         .mode = (int)w[4].i,
                         .weights = w[6].u ? w[5].p : NULL,
                         .found = w[10].p};
  emb_update how = {.step = w[9].u};
  uint32_t bits = (uint32_t)w[8].u;
  memcpy(&how.lr, &bits, sizeof how.lr);
  return (uint64_t)local_bag_apply(s, w[0].p, w[1].u, &bags, w[7].p, &how);
}

static uint64_t run_rows(struct runner *run, int call, union word *w) {
  emb_session *s = run->s;
  switch (call) {
  case CALL_own:
    return (uint64_t)local_own(s);
  case CALL_set_memory:
    return (uint64_t)local_set_memory(s, w[0].u);
  case CALL_get:
    return (uint64_t)local_get(s, w[0].p, w[1].u, w[2].p, w[3].p, w[4].p);
  case CALL_peek:
    return (uint64_t)local_peek(s, w[0].p, w[1].u, w[2].p, w[3].p, w[4].p);
  case CALL_exists:
    return (uint64_t)local_exists(s, w[0].p, w[1].u, w[2].p);
  case CALL_put:
    return (uint64_t)local_put(s, w[0].p, w[1].u, w[2].p, w[3].p);
  case CALL_put_parts:
    return (uint64_t)local_put_parts(s, w[0].p, w[1].u, w[2].p,
                                     (uint32_t)w[3].u, w[4].p);
  case CALL_rmw:
    return (uint64_t)local_rmw(s, w[0].p, w[1].u, w[2].p, w[3].p, w[4].p);
  case CALL_tracks:
    return (uint64_t)local_tracks(s, w[0].p, w[1].u, w[2].p, w[3].p);
  case CALL_apply_gradients: {
    const emb_update how = update_of(w, 3);
    const emb_rows to = {.found = w[7].p, .versions = w[8].p};
    return (uint64_t)local_apply_gradients(s, w[0].p, w[1].u, w[2].p, &how,
                                           &to);
  }
  case CALL_bag:
    return run_bag(s, w);
  case CALL_bag_apply:
    return run_bag_apply(s, w);
  case CALL_delete:
    return (uint64_t)local_delete(s, w[0].p, w[1].u, w[2].p);
  case CALL_release_statement:
    return local_release_statement(s);
  case CALL_release:
    return local_release(s);
  case CALL_leases:
    return local_leases(s);
  case CALL_lease_mark:
    local_lease_mark(s, w[0].u != 0);
    return 0;
  case CALL_release_marked:
    return local_release_marked(s);
  case CALL_clocks:
    return (uint64_t)local_clocks(s, w[0].p, w[1].u, w[2].p);
  case CALL_lookahead:
    return (uint64_t)local_lookahead(s, w[0].p, w[1].u, (int)w[2].i, w[3].p);
  case CALL_lookahead_progress:
    return (uint64_t)local_lookahead_progress(s, w[0].u, w[1].p);
  case CALL_lookahead_wait:
    return (uint64_t)local_lookahead_wait(s, w[0].u);
  case CALL_prefetch: {
    const emb_rows to = {
        .vectors = w[2].p, .found = w[3].p, .versions = w[4].p};
    return (uint64_t)local_prefetch(s, w[0].p, w[1].u, &to, w[5].p);
  }
  case CALL_prefetch_synchronize:
    return (uint64_t)local_prefetch_synchronize(s, w[0].u, w[1].p);
  case CALL_write_back:
    return (uint64_t)local_write_back(s, w[0].p, w[1].u, w[2].p, w[3].p);
  case CALL_write_back_synchronize:
    return (uint64_t)local_write_back_synchronize(s, w[0].u, w[1].p);
  case CALL_count:
    return session_ask_doubt(s) ? 0 : (uint64_t)local_count(s);
  case CALL_nearest: {
    struct emb_filter filter;
    const emb_nearest_how how = how_of(w, &filter);
    const emb_neighbours to = {w[9].p, w[10].p, w[11].p, w[14].p, w[15].p};
    return (uint64_t)local_nearest(s, w[0].p, w[2].u,
                                   w[2].u ? w[8].u / w[2].u : 1, &how, &to);
  }
  case CALL_sample:
    return (uint64_t)run_sample(s, w);
  case CALL_begin:
  case CALL_txn_put:
  case CALL_txn_put_parts:
  case CALL_txn_put_if:
  case CALL_txn_apply_gradients:
  case CALL_txn_move:
  case CALL_txn_delete:
  case CALL_savepoint:
  case CALL_rollback_to:
  case CALL_savepoint_release:
  case CALL_prepare:
  case CALL_commit:
  case CALL_rollback:
    return run_txn(run, call, w);
  default:
    return run_maintenance(run, call, w);
  }
}

/* What this process asks before a call of its own (api/calls.c). */
static int run_needs(int call) {
#define RUN_NEEDS(type, name, parameters, arguments)                           \
  [CALL_##name] = NEEDS_OF_##name,
  static const uint8_t needs[CALLS] = {SESSION_CALLS(RUN_NEEDS)};
#undef RUN_NEEDS
  return needs[call];
}

/* ---- a request ----------------------------------------------------------- */

static int bad_request(struct runner *run, const char *what) {
  return session_error(run->s, EMB_MISUSE, "not a request: %s", what);
}

#define ONE_BYTES 256 /* at most, of what there is one of in an answer */

struct arguments {
  union word w[REQUEST_ARGS];
  struct extent_of out;
  alignas(16) char ones[REQUEST_ARGS][ONE_BYTES];
};

static int is_one(const struct arg_shape *arg) {
  return arg->kind == SHAPE_OUT && arg->count == COUNT_ONE;
}

/* The words of a call from its request: pointers into request and answer. */
static int words_of(struct runner *run, const struct shape *shape,
                    const struct run_memory *m, struct arguments *a) {
  const struct link_request *q = m->request;
  union word *w = a->w;
  struct extent_of in;
  shape__request(shape, &run->units, q->args, &in);
  shape__answer(shape, &run->units, q->args, &a->out);
  if (in.bytes != m->request_bytes - sizeof *q ||
      a->out.bytes > m->answer_room) {
    return bad_request(run, "its length");
  }
  for (int i = 0; i < REQUEST_ARGS && shape->args[i].kind; i++) {
    /* The request is the reader's copy, or cannot change: what is read of it
    ** is not written. */
    char *array = (char *)(uintptr_t)q->arrays + in.at[i];
    switch (shape->args[i].kind) {
    case SHAPE_VALUE:
      w[i].u = q->args[i];
      break;
    case SHAPE_IN:
      w[i].p = in.length[i] ? array : NULL;
      break;
    case SHAPE_TEXT:
      w[i].p = in.length[i] ? array : NULL;
      if (in.length[i] &&
          memchr(array, 0, in.length[i]) != array + in.length[i] - 1) {
        return bad_request(run, "a text");
      }
      break;
    default:
      w[i].p = a->out.length[i] ? m->answer + a->out.at[i] : NULL;
      if (w[i].p && is_one(&shape->args[i])) {
        emb_assert(a->out.length[i] <= ONE_BYTES);
        w[i].p = memset(a->ones[i], 0, a->out.length[i]);
      }
      break;
    }
  }
  return EMB_OK;
}

/* What there is one of goes to the answer. */
static void give_ones(const struct shape *shape, const struct run_memory *m,
                      const struct arguments *a) {
  for (int i = 0; i < REQUEST_ARGS && shape->args[i].kind; i++) {
    if (is_one(&shape->args[i]) && a->w[i].p) {
      memcpy(m->answer + a->out.at[i], a->ones[i], a->out.length[i]);
    }
  }
}

/* An array of nothing need not be there. */
static int is_missing(const struct link_request *q, const struct arg_shape *arg,
                      int i) {
  return arg->needed && !q->args[i] &&
         (arg->kind == SHAPE_TEXT || arg->count == COUNT_ONE ||
          q->args[arg->count]);
}

/* The arrays of nearest are as long as its other arguments say. */
static int check_nearest(struct runner *run, const union word *w) {
  const struct schema *schema = &run->s->core->schema;
  emb_nearest_how how;
  struct emb_filter filter;
  uint64_t floats;
  memcpy(&how, w[3].p, sizeof how);
  if (w[13].u && !filter_open(&filter, w[12].p, w[13].u)) {
    return bad_request(run, "a filter");
  }
  if (how.segment >= schema->count) {
    return EMB_OK; /* the call itself refuses it, and reads nothing */
  }
  return __builtin_mul_overflow(w[2].u, schema->segments[how.segment].dim,
                                &floats) ||
                 floats != w[1].u || (w[7].u && w[7].u != w[2].u) ||
                 (w[2].u ? w[8].u % w[2].u : w[8].u)
             ? bad_request(run, "a number of queries")
             : EMB_OK;
}

/* What callers of emb.h always get right, and the engine relies on. */
static int check_values(struct runner *run, const struct shape *shape, int call,
                        const struct link_request *q, const union word *w) {
  for (int i = 0; i < REQUEST_ARGS && shape->args[i].kind; i++) {
    if (is_missing(q, &shape->args[i], i)) {
      return bad_request(run, "an argument is missing");
    }
  }
  switch (call) {
  case CALL_rollback_to:
    if (q->args[0] == UINT64_MAX) { /* -1, the state at emb_begin */
      return EMB_OK;
    }
    __attribute__((fallthrough));
  case CALL_savepoint:
  case CALL_savepoint_release:
    return q->args[0] < RUN_SAVEPOINTS ? EMB_OK
                                       : bad_request(run, "a savepoint");
  case CALL_apply_gradients:
  case CALL_txn_apply_gradients: /* as many were read as are to change */
    return !q->args[5] || q->args[5] == q->args[1]
               ? EMB_OK
               : bad_request(run, "a number of rows");
  case CALL_bag: /* a weight for each key, or none */
    return !q->args[7] || q->args[7] == q->args[1]
               ? EMB_OK
               : bad_request(run, "a number of weights");
  case CALL_bag_apply:
    return !q->args[6] || q->args[6] == q->args[1]
               ? EMB_OK
               : bad_request(run, "a number of weights");
  case CALL_nearest:
  case CALL_snapshot_nearest:
    return check_nearest(run, w);
  default:
    return EMB_OK;
  }
}

/* Paths are the caller's: the same must be meant by them here. */
static int check_views(struct runner *run, const struct shape *shape,
                       const struct link_request *q, const union word *w) {
  struct env *env = run->s->core->env;
  for (int i = 0; i < REQUEST_ARGS && shape->args[i].kind; i++) {
    uint8_t view = shape->args[i].view;
    if (view && q->args[view] != shape__view(env, w[i].p)) {
      return session_error(run->s, EMB_CANTOPEN,
                           "%s is another file for the process that owns the "
                           "table, which opens it: that has another view of "
                           "the file system (a container)",
                           (const char *)w[i].p);
    }
  }
  return EMB_OK;
}

/* May this session make the call now? */
static int check_allowed(struct runner *run, const struct shape *shape,
                         int call) {
  emb_session *s = run->s;
  if (run->readonly && (shape->flags & SHAPE_WRITES)) {
    return session_error(s, EMB_READONLY, "%s is open read-only", s->core->dir);
  }
  if (run->is_foreign && (shape->flags & SHAPE_FILES)) {
    return session_error(s, EMB_CANTOPEN,
                         "%s is owned by another user's process, which opens "
                         "no files for this one",
                         s->core->dir);
  }
  /* It would wait for itself. */
  if (run->moment && shape->object != OBJECT_BACKUP &&
      shape->flags != SHAPE_AGAIN) {
    return session_error(s, EMB_MISUSE, "a backup is begun and not frozen");
  }
  if (call == CALL_prefetch || call == CALL_write_back) {
    size_t back, n = local_tickets(s, &back);
    return n + back < RUN_TICKETS
               ? EMB_OK
               : session_error(s, EMB_MISUSE,
                               "a session has at most %d prefetches and "
                               "write-backs under way",
                               RUN_TICKETS);
  }
  return EMB_OK;
}

/* Where the call works: on *object, which is new if it opens something. */
static int find_asked(struct runner *run, const struct shape *shape,
                      const struct link_request *q,
                      struct run_object **object) {
  *object = NULL;
  if (shape->object >= OBJECT_SCAN) {
    *object = find_object(run, shape->object, q->object);
    return *object ? EMB_OK : bad_request(run, "no such object");
  }
  if (shape->opens) {
    *object = find_free_object(run);
    return *object ? EMB_OK
                   : session_error(run->s, EMB_MISUSE,
                                   "a session has at most %d scans, "
                                   "snapshots, deltas and backups open",
                                   RUN_OBJECTS);
  }
  return EMB_OK;
}

/* Which ticket a call has begun or ended. */
static uint64_t ticket_of(int call, uint64_t result, const union word *w) {
  const uint64_t *ticket = call == CALL_prefetch               ? w[5].p
                           : call == CALL_prefetch_synchronize ? w[1].p
                                                               : NULL;
  int code = (int)(uint32_t)result;
  int is = call == CALL_prefetch ? code == EMB_OK : code != EMB_INTERRUPT;
  return ticket && is ? *ticket : 0;
}

int run__request(struct runner *run, const struct run_memory *m,
                 uint64_t *result, uint64_t *ticket) {
  const struct link_request *q = m->request;
  struct arguments a;
  struct run_object *object;
  *result = *ticket = 0;
  memset(a.w, 0, sizeof a.w);
  if (m->request_bytes < sizeof *q) {
    return bad_request(run, "its length");
  }
  if (q->call >= CALLS || !shapes[q->call].name) {
    return bad_request(run, "no such call");
  }
  int call = (int)q->call;
  const struct shape *shape = &shapes[call];
  int rc = words_of(run, shape, m, &a);
  rc = rc ? rc : check_values(run, shape, call, q, a.w);
  rc = rc ? rc : check_allowed(run, shape, call);
  rc = rc ? rc : check_views(run, shape, q, a.w);
  rc = rc ? rc : find_asked(run, shape, q, &object);
  if (rc) {
    return rc;
  }
  run->s->timeout_ms = q->timeout_ms < MS_MAX ? q->timeout_ms : MS_MAX;
  run->s->has_timeout = 1;
  run->s->time = q->time;
  run->s->asks_doubt = (q->flags & REQUEST_DECIDES) && !shape->object;
  run->s->doubt_seen = q->doubt_seen;
  run->s->met_doubt = 0;
  if ((q->flags & REQUEST_MARKS) && !run->s->leases.mark) {
    local_lease_mark(run->s, 1);
  }
  if (q->statement != run->s->leases.statement) {
    local_statement(run->s, q->statement);
  }
  rc =
      bank_enter(run->s, run_needs(call),
                 &(struct bank_call){(uintptr_t)a.w[0].u, (uintptr_t)a.w[1].u,
                                     (uintptr_t)a.w[2].u, (uintptr_t)a.w[4].u});
  if (rc) {
    return rc;
  }
  if (shape->opens) {
    void *made = NULL;
    int opened = run_opening(run->s, call, a.w, &made);
    if (!opened) {
      *object = (struct run_object){.number = ++run->last,
                                    .kind = shape->opens,
                                    .pointer = made,
                                    .is_ordered = call == CALL_scan_open &&
                                                  (a.w[2].i == EMB_SCAN_ASC ||
                                                   a.w[2].i == EMB_SCAN_DESC)};
      run->moment =
          shape->opens == OBJECT_BACKUP ? object->number : run->moment;
    }
    *result = opened ? (uint64_t)opened : object->number << 32;
  } else if (shape->object == OBJECT_STORE) {
    *result = run_store(run, call, a.w);
  } else if (object) {
    *result = run_object(run, call, object, a.w);
  } else {
    *result = run_rows(run, call, a.w);
    *ticket = ticket_of(call, *result, a.w);
  }
  give_ones(shape, m, &a);
  return EMB_OK;
}

uint64_t run__prepared(const struct runner *run) {
  const struct txn *txn = run->s->txn;
  return txn && txn->prepared ? txn->number : 0;
}

int run__is_awaited(const struct runner *run) {
  int is = run->s->txn != NULL;
  for (int i = 0; !is && i < RUN_OBJECTS; i++) {
    const struct run_object *o = &run->objects[i];
    is = o->number && o->kind == OBJECT_SCAN && !o->is_ordered &&
         o->rows > SCAN_REMEMBERED;
  }
  return is;
}

uint32_t run__holds(const struct runner *run) {
  return (run->s->txn ? SLOT_HAS_TXN : 0) |
         (run__prepared(run) ? SLOT_HAS_PREPARED : 0) |
         (run->s->leases.held ? SLOT_HAS_LEASES : 0) |
         (run->s->tickets ? SLOT_HAS_TICKETS : 0) |
         (run->s->met_doubt ? SLOT_MET_DOUBT : 0) |
         (run->s->met_doubt && run->s->met_orphan ? SLOT_MET_ORPHAN : 0);
}
