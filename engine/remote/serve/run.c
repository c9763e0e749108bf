/* SPDX-License-Identifier: MIT
**
** run.c -- see run.h.
**
** Everything in a request is checked here against the table of calls before
** anything is done: the call, the object, the length of each array.  The call
** itself checks the values of its arguments, as it does for its other callers,
** except a few that no caller of emb.h gets wrong.
**
** ANSWER    The client can change the answer at any time.  So a single element
**           that the call reads back, a count or a ticket, is in private
**           memory.  The engine only writes to arrays.
*/
#include "run.h"

#include <stdalign.h>
#include <string.h>

#include "engine/features/lookahead/async.h"
#include "engine/table/bank/needs.h"
#include "engine/features/nearest/filter.h"
#include "engine/table/session/txn_map.h"

#define MS_MAX (UINT64_MAX / 1000000)

void run__init(struct runner *run, emb_session *s, int readonly,
               int is_foreign) {
  memset(run, 0, sizeof *run);
  run->s = s;
  run->readonly = s->client.only_reads = readonly;
  run->is_foreign = is_foreign;
  shape__units(s, &run->units);
}

/* ---- the calls ----------------------------------------------------------- */

/* Calls local_NAME with its arguments, after applying its NEEDS. */
#define ARGUMENT(argument) (a->argument)
#define PASS(type, name) , a->name
#define PASS_HERE(type, name)
#define RESULT_IS_int *result = (uint64_t)
#define RESULT_IS_int64_t *result = (uint64_t)
#define RESULT_IS_uint64_t *result =
#define RESULT_IS_size_t *result =
#define RESULT_IS_void
#define CALL(object, how, returns, name, flags, needs, ...)                    \
  static int run_##name(emb_session *session, union args *args,                \
                        uint64_t *result) {                                    \
    struct args_##name *a = &args->name;                                       \
    int rc = NEEDS_##needs;                                                    \
    (void)session;                                                             \
    (void)result;                                                              \
    if (!rc) {                                                                 \
      RESULT_IS_##returns local_##name(                                        \
          a->SELF_##object CALL_ARGUMENTS(PASS, __VA_ARGS__));                 \
    }                                                                          \
    return rc;                                                                 \
  }
#include "engine/remote/calls.def"
#undef CALL

typedef int run_call(emb_session *, union args *, uint64_t *);

static run_call *const runs[CALLS] = {
#define CALL(object, how, returns, name, ...) [CALL_##name] = run_##name,
#include "engine/remote/calls.def"
#undef CALL
};

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

static const uint8_t closing[] = {[OF_SCAN] = CALL_scan_close,
                                  [OF_SNAP] = CALL_snapshot_close,
                                  [OF_DELTA] = CALL_delta_close,
                                  [OF_BACKUP] = CALL_backup_end};

static void forget_object(struct runner *run, struct run_object *object) {
  run->moment = object->number == run->moment ? 0 : run->moment;
  object->number = 0;
  emb_check(run_valid(run));
}

static void close_object(struct runner *run, struct run_object *object) {
  union args args = {.scan_close = {object->pointer}};
  uint64_t none;
  (void)runs[closing[object->kind]](run->s, &args, &none);
  forget_object(run, object);
}

void run__end(struct runner *run) {
  emb_check(run_valid(run));
  async_close(run->s);
  for (int i = 0; i < RUN_OBJECTS; i++) {
    if (run->objects[i].number) {
      close_object(run, &run->objects[i]);
    }
  }
}

void run__end_moment(struct runner *run) {
  struct run_object *object = find_object(run, OF_BACKUP, run->moment);
  if (object) {
    close_object(run, object);
  }
}

/* ---- a request ----------------------------------------------------------- */

static int bad_request(struct runner *run, const char *what) {
  return session_error(run->s, EMB_MISUSE, "not a request: %s", what);
}

struct arguments {
  union args args;
  struct extent_of out;
  struct emb_filter filter;
  alignas(16) char ones[REQUEST_ARGS][RUN_ONE_BYTES];
};

static int is_one(const struct arg_shape *arg) {
  return arg->kind == SHAPE_OUT && !arg->count;
}

/* Takes an input array: n bytes of the request, which is a private copy or
** cannot change.  The call only reads it. */
static int take_array(struct runner *run, const struct arg_shape *arg,
                      struct arguments *a, const char *array, size_t n) {
  switch (arg->kind) {
  case SHAPE_SPAN:
    memcpy((char *)&a->args + arg->at, array, n);
    return EMB_OK;
  case SHAPE_TEXT:
    if (n && memchr(array, 0, n) != array + n - 1) {
      return bad_request(run, "a text");
    }
    break;
  case SHAPE_FILTER:
    if (n && !filter_open(&a->filter, (const void *)array, n / 8)) {
      return bad_request(run, "a filter");
    }
    array = (const char *)&a->filter;
    break;
  default:
    break;
  }
  shape__set_pointer(&a->args, arg, n ? array : NULL);
  return EMB_OK;
}

/* Sets where the output of an argument goes. */
static void give_place(struct runner *run, const struct run_memory *m,
                       const struct shape *shape, int i, struct arguments *a) {
  const struct arg_shape *arg = &shape->args[i];
  char *args = (char *)&a->args;
  switch (arg->kind) {
  case SHAPE_OUT:
  case SHAPE_LATER:
    if (is_one(arg)) {
      emb_assert(arg->bytes <= RUN_ONE_BYTES);
      shape__set_pointer(args, arg, memset(a->ones[i], 0, arg->bytes));
    } else {
      shape__set_pointer(args, arg,
                         a->out.length[i] ? m->answer + a->out.at[i] : NULL);
    }
    break;
  case SHAPE_OPEN:
    shape__set_pointer(args, arg, args + arg->here);
    break;
  case SHAPE_ERROR:
    shape__set_pointer(args, arg, &run->s->err);
    break;
  case SHAPE_REPORT:
    memcpy(args + arg->at, &run->report, sizeof run->report);
    memcpy(args + arg->at + sizeof run->report, &run->report_arg,
           sizeof run->report_arg);
    break;
  default:
    break;
  }
}

/* Builds a call's arguments from its request: pointers into request and
** answer. */
static int arguments_of(struct runner *run, const struct shape *shape,
                        const struct run_memory *m, struct arguments *a) {
  const struct link_request *q = m->request;
  struct extent_of in;
  int rc = EMB_OK;
  shape__numbers(shape, q->words, &a->args);
  shape__request(shape, &run->units, q->words, &a->args, &in);
  shape__answer(shape, &run->units, q->words, &a->args, &a->out);
  if (in.bytes != m->request_bytes - sizeof *q ||
      a->out.bytes > m->answer_room) {
    return bad_request(run, "its length");
  }
  for (int i = 0; !rc && i < REQUEST_ARGS && shape->args[i].kind; i++) {
    uint8_t kind = shape->args[i].kind;
    if (kind == SHAPE_IN || kind == SHAPE_TEXT || kind == SHAPE_SPAN ||
        kind == SHAPE_FILTER) {
      rc = take_array(run, &shape->args[i], a, q->arrays + in.at[i],
                      in.length[i]);
    } else {
      give_place(run, m, shape, i, a);
    }
  }
  return rc;
}

/* Copies single elements to the answer. */
static void give_ones(const struct shape *shape, const struct run_memory *m,
                      const struct arguments *a) {
  for (int i = 0; i < REQUEST_ARGS && shape->args[i].kind; i++) {
    if (is_one(&shape->args[i]) && a->out.length[i]) {
      memcpy(m->answer + a->out.at[i], a->ones[i], a->out.length[i]);
    }
  }
}

/* Is a required array missing?  An empty array may be absent. */
static int is_missing(const struct shape *shape, const struct link_request *q,
                      const union args *args, int i) {
  const struct arg_shape *arg = &shape->args[i];
  return arg->needed && arg->kind != SHAPE_STRUCT && !q->words[i] &&
         (arg->kind == SHAPE_TEXT || shape__count(args, arg));
}

/* Checks values that callers of emb.h always get right, and on which the engine
** relies. */
static int check_values(struct runner *run, const struct shape *shape, int call,
                        const struct link_request *q, const union args *args) {
  for (int i = 0; i < REQUEST_ARGS && shape->args[i].kind; i++) {
    if (is_missing(shape, q, args, i)) {
      return bad_request(run, "an argument is missing");
    }
  }
  int is_level = call == CALL_savepoint || call == CALL_savepoint_release ||
                 call == CALL_rollback_to;
  int least = call == CALL_rollback_to ? -1 : 0; /* the state at emb_begin */
  int level = is_level ? args->savepoint.i : 0;
  return is_level && (level < least || level >= RUN_SAVEPOINTS)
             ? bad_request(run, "a savepoint")
             : EMB_OK;
}

/* Checks that the caller's paths mean the same files here. */
static int check_views(struct runner *run, const struct shape *shape,
                       const struct link_request *q, const union args *args) {
  struct env *env = run->s->core->env;
  int paths = 0;
  for (int i = 0; i < REQUEST_ARGS && shape->args[i].kind; i++) {
    if (!shape->args[i].is_path) {
      continue;
    }
    const char *path = shape__pointer(args, &shape->args[i]);
    if (q->views[paths++] != shape__view(env, path)) {
      return session_error(
          run->s, EMB_CANTOPEN,
          "%s is another file for the process that owns the table, which would "
          "open it: its view of the file system differs (a container)",
          path);
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
  /* Such a call would wait for its own session. */
  if (run->moment && shape->object != OF_BACKUP &&
      (shape->flags & (SHAPE_CODE | SHAPE_AGAIN)) != SHAPE_AGAIN) {
    return session_error(s, EMB_MISUSE, "a backup has begun and is not frozen");
  }
  if (call == CALL_prefetch || call == CALL_write_back ||
      call == CALL_apply_async) {
    size_t back, n = local_tickets(s, &back);
    return n + back < RUN_TICKETS
               ? EMB_OK
               : session_error(s, EMB_MISUSE,
                               "a session has at most %d prefetches and "
                               "write-backs in progress",
                               RUN_TICKETS);
  }
  return EMB_OK;
}

/* Finds the object of the call.  *object: the session's open object, the free
** entry for an object to open, or NULL. */
static int find_asked(struct runner *run, const struct shape *shape,
                      const struct link_request *q, union args *args,
                      struct run_object **object) {
  void *of = shape->object == OF_STORE ? (void *)run->s->store : run->s;
  *object = NULL;
  if (shape->object >= OF_SCAN) {
    *object = find_object(run, shape->object, q->object);
    if (!*object) {
      return bad_request(run, "no such object");
    }
    of = (*object)->pointer;
  } else if (shape__find(shape, SHAPE_OPEN)) {
    *object = find_free_object(run);
    if (!*object) {
      return session_error(run->s, EMB_MISUSE,
                           "a session has at most %d scans, snapshots, deltas "
                           "and backups open",
                           RUN_OBJECTS);
    }
  }
  memcpy(args, &of, sizeof of); /* the first member of each */
  return EMB_OK;
}

/* Applies a request's settings to its session. */
static void set_session(struct runner *run, const struct shape *shape,
                        const struct link_request *q) {
  emb_session *s = run->s;
  s->waits.timeout_ms = q->timeout_ms < MS_MAX ? q->timeout_ms : MS_MAX;
  s->waits.has_timeout = 1;
  s->clock.time = q->time;
  s->doubt.asks = (q->flags & REQUEST_DECIDES) && shape->object == OF_SESSION;
  s->doubt.seen = q->doubt_seen;
  s->doubt.met = 0;
  if ((q->flags & REQUEST_MARKS) && !s->leases.mark) {
    local_lease_mark(s, 1);
  }
  if (q->statement != s->leases.statement) {
    local_statement(s, q->statement);
  }
}

/* Registers the object that the call has opened, unless the call failed. */
static uint64_t keep_opened(struct runner *run, int call,
                            const struct shape *shape, const union args *args,
                            struct run_object *object, uint64_t code) {
  const struct arg_shape *made = shape__find(shape, SHAPE_OPEN);
  if (code) {
    return code;
  }
  *object = (struct run_object){.number = ++run->last, .kind = made->unit};
  memcpy(&object->pointer, (const char *)args + made->here,
         sizeof object->pointer);
  object->is_ordered =
      call == CALL_scan_open && (args->scan_open.order == EMB_SCAN_ASC ||
                                 args->scan_open.order == EMB_SCAN_DESC);
  run->moment = made->unit == OF_BACKUP ? object->number : run->moment;
  emb_check(run_valid(run));
  return object->number << 32;
}

/* Notes the effect of a successful call on an object. */
static void note_object(struct runner *run, int call, const union args *args,
                        struct run_object *object) {
  if (call == closing[object->kind]) {
    forget_object(run, object);
  } else if (call == CALL_scan_next_rows) {
    object->rows += *args->scan_next_rows.n;
  } else if (call == CALL_backup_freeze) {
    /* None begins while another is not frozen, and none freezes twice. */
    emb_assert(object->number == run->moment);
    run->moment = 0;
  }
}

/* Returns the ticket that a call has begun or ended, or 0. */
static uint64_t ticket_of(int call, uint64_t result, const union args *args) {
  int code = (int)(uint32_t)result;
  return call == CALL_prefetch && code == EMB_OK ? *args->prefetch.ticket
         : call == CALL_prefetch_synchronize && code != EMB_INTERRUPT
             ? *args->prefetch_synchronize.ended
             : 0;
}

int run__request(struct runner *run, const struct run_memory *m,
                 uint64_t *result, uint64_t *ticket) {
  const struct link_request *q = m->request;
  struct arguments a;
  struct run_object *object;
  *result = *ticket = 0;
  memset(&a.args, 0, sizeof a.args);
  if (m->request_bytes < sizeof *q) {
    return bad_request(run, "its length");
  }
  if (!shape_is_asked(q->call)) {
    return bad_request(run, "no such call");
  }
  int call = (int)q->call;
  const struct shape *shape = &shapes[call];
  int rc = arguments_of(run, shape, m, &a);
  rc = rc ? rc : check_values(run, shape, call, q, &a.args);
  rc = rc ? rc : check_allowed(run, shape, call);
  rc = rc ? rc : check_views(run, shape, q, &a.args);
  rc = rc ? rc : find_asked(run, shape, q, &a.args, &object);
  if (rc) {
    return rc;
  }
  set_session(run, shape, q);
  rc = runs[call](run->s, &a.args, result);
  if (rc) {
    return rc;
  }
  if (object && shape->object == OF_SESSION) {
    *result = keep_opened(run, call, shape, &a.args, object, *result);
  } else if (object && !(shape->flags & SHAPE_CODE && *result)) {
    note_object(run, call, &a.args, object);
  }
  *ticket = ticket_of(call, *result, &a.args);
  emb_check_some(16, run_valid(run));
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
    is = o->number && o->kind == OF_SCAN && !o->is_ordered &&
         o->rows > SCAN_REMEMBERED;
  }
  return is;
}

uint32_t run__holds(const struct runner *run) {
  return (run->s->txn ? SLOT_HAS_TXN : 0) |
         (run__prepared(run) ? SLOT_HAS_PREPARED : 0) |
         (run->s->leases.held ? SLOT_HAS_LEASES : 0) |
         (run->s->tickets.first ? SLOT_HAS_TICKETS : 0) |
         (run->s->doubt.met ? SLOT_MET_DOUBT : 0) |
         (run->s->doubt.met && run->s->doubt.is_orphan ? SLOT_MET_ORPHAN : 0);
}
