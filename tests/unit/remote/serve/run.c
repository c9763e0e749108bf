/* SPDX-License-Identifier: MIT
**
** run.c -- each refusal of a request, one at a time: a client's request is
** carried out; the same request with one error is refused with its text, and
** does nothing.
*/
#include "store_help.h"

#include "engine/features/nearest/filter.h"
#include "engine/remote/serve/run.h"

#include <string.h>

enum { DIM = 2, KEYS = 3, ROOM = 1 << 16 };

static emb_store *store;
static emb_session *session;
static struct runner run;
static uint64_t result;

/* A request as a client makes it, in its own memory. */
static struct asked {
  _Alignas(SLOT_ALIGN) char bytes[ROOM];
  _Alignas(SLOT_ALIGN) char answer[ROOM];
  size_t length, room;
  struct extent_of in;
} asked;

static struct link_request *request(void) { return (void *)asked.bytes; }

static void make(int call, void *args) {
  const struct shape *shape = &shapes[call];
  struct link_request *q = request();
  struct extent_of out;
  int paths = 0;
  memset(&asked, 0, sizeof asked);
  q->call = (uint32_t)call;
  q->timeout_ms = 1;
  shape__words(shape, args, q->words);
  shape__request(shape, &run.units, q->words, args, &asked.in);
  shape__answer(shape, &run.units, q->words, args, &out);
  for (int i = 0; i < REQUEST_ARGS && shape->args[i].kind; i++) {
    const struct arg_shape *arg = &shape->args[i];
    if (arg->is_path)
      q->views[paths++] =
          shape__view(session->core->env, shape__pointer(args, arg));
    if (asked.in.length[i])
      memcpy(q->arrays + asked.in.at[i], shape__array(args, arg),
             asked.in.length[i]);
  }
  asked.length = sizeof *q + asked.in.bytes;
  asked.room = out.bytes;
}

/* Runs the request; memory after the answer must not be touched. */
static int ask(void) {
  struct run_memory memory = {request(), asked.length, asked.answer,
                              asked.room};
  uint64_t ticket;
  session->err.code = EMB_OK;
  session->err.text[0] = 0;
  memset(asked.answer + asked.room, 'x', 8);
  int rc = run__request(&run, &memory, &result, &ticket);
  CHECK(memcmp(asked.answer + asked.room, "xxxxxxxx", 8) == 0);
  return rc;
}

static int is_done(void) { return ask() == EMB_OK && (uint32_t)result == 0; }

static int is_refused(int code, const char *text) {
  int good = CHECK_EQ_INT(ask(), code) &&
             CHECK(strstr(session->err.text, text) != NULL);
  if (!good)
    fprintf(stderr, "  %s instead of %s\n", session->err.text, text);
  return good && CHECK_EQ_INT(local_count(session), KEYS);
}

static int is_no_request(const char *text) {
  return is_refused(EMB_MISUSE, text);
}

static const int64_t keys[KEYS] = {1, 2, 3};
static const float rows[KEYS * DIM] = {1, 2, 3, 4, 5, 6};

static int begin(int readonly, int is_foreign) {
  const emb_config config = {
      .dim = DIM, .flags = EMB_OPEN_CREATE | EMB_OPEN_ALONE, .timeout_ms = 10};
  if (!help_open(help_path("store"), &config, &store, &session))
    return 0;
  OK(session, emb_put(session, keys, KEYS, rows, NULL));
  run__init(&run, session, readonly, is_foreign);
  return 1;
}

static void end(void) {
  run__end(&run);
  (void)help_close(store, session);
}

static void make_get(void) {
  static float vectors[KEYS * DIM];
  struct args_get args = args_of_get(session, keys, KEYS, vectors, NULL, NULL);
  make(CALL_get, &args);
}

static void make_put(void) {
  static const int64_t others[] = {7, 8};
  struct args_put args = args_of_put(session, others, 2, rows, NULL);
  make(CALL_put, &args);
}

/* *number is that of the object. */
static int open_scan(uint64_t *number) {
  emb_scan *scan;
  struct args_scan_open args =
      args_of_scan_open(session, INT64_MIN, INT64_MAX, EMB_SCAN_ASC, &scan);
  make(CALL_scan_open, &args);
  int good = is_done();
  *number = result >> 32;
  return good;
}

TEST(a_request_of_another_length) {
  if (!begin(0, 0))
    return;
  make_get();
  CHECK(is_done());
  CHECK(memcmp(asked.answer, rows, sizeof rows) == 0);
  asked.length++;
  is_no_request("its length");
  asked.length -= 2;
  is_no_request("its length");
  asked.length = sizeof(struct link_request) - 1;
  is_no_request("its length");
  make_get();
  asked.room -= SLOT_ALIGN;
  is_no_request("its length");
  make_get();
  request()->words[1] = UINT64_MAX / 8 + 1; /* n: 8 * n is 0 */
  is_no_request("its length");
  end();
}

TEST(no_such_call) {
  static const uint32_t none[] = {CALL_none, CALLS, UINT32_MAX, CALL_in_doubt};
  if (!begin(0, 0))
    return;
  for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
    make_get();
    request()->call = none[i];
    is_no_request("no such call");
  }
  end();
}

TEST(a_text_without_its_zero) {
  struct args_snapshot args = {session, "name"};
  if (!begin(0, 0))
    return;
  make(CALL_snapshot, &args);
  request()->arrays[4] = 'x';
  is_no_request("a text");
  request()->arrays[4] = 0;
  request()->arrays[1] = 0; /* a second zero */
  is_no_request("a text");
  make(CALL_snapshot, &args);
  request()->words[0] = 0;
  asked.length = sizeof(struct link_request);
  is_no_request("an argument is missing");
  make(CALL_snapshot, &args);
  CHECK(is_done());
  end();
}

TEST(a_filter_that_is_none) {
  uint64_t block[FILTER_HEAD + 1] = {0};
  int64_t found[1];
  double distances[1];
  size_t count;
  struct filter_shape shape = {
      .kind = FILTER_BITS, .size = 64, .words = 1, .base = 1, .count = 3};
  struct emb_filter filter = {.block = block};
  const emb_nearest_how how = {.filter = &filter};
  const emb_neighbours to = {
      .keys = found, .distances = distances, .counts = &count};
  if (!begin(0, 0))
    return;
  memcpy(block, &shape, sizeof shape);
  block[FILTER_HEAD] = 7;
  CHECK(filter_open(&filter, block, FILTER_HEAD + 1));
  filter.block = block;
  struct args_nearest args = args_of_nearest(session, rows, 1, 1, &how, &to);
  make(CALL_nearest, &args);
  CHECK(is_done());
  const struct arg_shape *arg =
      shape__find(&shapes[CALL_nearest], SHAPE_FILTER);
  struct filter_shape *sent =
      (void *)(request()->arrays +
               asked.in.at[arg - shapes[CALL_nearest].args]);
  sent->words = 1000000; /* more than were sent */
  is_no_request("a filter");
  sent->words = 1;
  sent->size = 1000000;
  is_no_request("a filter");
  sent->size = 64;
  sent->kind = 9;
  is_no_request("a filter");
  end();
}

TEST(an_argument_is_missing) {
  uint8_t found[KEYS];
  struct args_exists args = {session, keys, KEYS, found};
  if (!begin(0, 0))
    return;
  make(CALL_exists, &args);
  CHECK(is_done());
  request()->words[2] = 0; /* found */
  asked.room = 0;
  is_no_request("an argument is missing");
  make(CALL_exists, &args);
  request()->words[0] = 0; /* keys */
  asked.length = sizeof(struct link_request);
  is_no_request("an argument is missing");
  request()->words[1] = 0; /* none are needed if n is 0 */
  asked.room = 0;
  CHECK(is_done());
  end();
}

static void refuse_level(int call, int level) {
  struct args_savepoint args = {session, level};
  make(call, &args);
  is_no_request("a savepoint");
}

TEST(a_savepoint_out_of_range) {
  struct args_begin none = {session};
  struct args_savepoint args = {session, 0};
  struct args_rollback_to back = {session, -1};
  if (!begin(0, 0))
    return;
  make(CALL_begin, &none);
  CHECK(is_done());
  make(CALL_savepoint, &args);
  CHECK(is_done());
  refuse_level(CALL_savepoint, -1);
  refuse_level(CALL_savepoint, RUN_SAVEPOINTS);
  refuse_level(CALL_savepoint_release, -1);
  refuse_level(CALL_savepoint_release, RUN_SAVEPOINTS);
  refuse_level(CALL_rollback_to, -2);
  refuse_level(CALL_rollback_to, RUN_SAVEPOINTS);
  make(CALL_rollback_to, &back);
  CHECK(is_done());
  struct args_rollback rollback = {session};
  make(CALL_rollback, &rollback);
  CHECK(is_done());
  end();
}

TEST(what_is_not_allowed) {
  struct args_snapshot_restore args = {session, help_path("file"), NULL};
  if (!begin(1, 0))
    return;
  make_put();
  is_refused(EMB_READONLY, "is open read-only");
  make_get();
  CHECK(is_done());
  end();
  if (!begin(0, 1))
    return;
  make(CALL_snapshot_restore, &args);
  is_refused(EMB_CANTOPEN, "is owned by another user's process");
  run.is_foreign = 0;
  request()->views[0]++;
  is_refused(EMB_CANTOPEN, "view of the file system differs");
  request()->views[0]--;
  CHECK(ask() == EMB_OK && (int)result == EMB_CANTOPEN); /* no such file */
  end();
}

TEST(a_backup_that_is_not_frozen) {
  emb_backup *backup;
  struct args_backup_begin args =
      args_of_backup_begin(session, test_state.dir, &backup);
  struct args_backup_freeze freeze = {NULL};
  if (!begin(0, 0))
    return;
  args.session = session;
  make(CALL_backup_begin, &args);
  CHECK(is_done());
  uint64_t number = result >> 32;
  make_put();
  is_no_request("a backup has begun and is not frozen");
  make_get();
  is_no_request("a backup has begun and is not frozen");
  make(CALL_backup_freeze, &freeze);
  request()->object = number;
  CHECK(is_done() && !run.moment);
  make_get();
  CHECK(is_done());
  /* Of two backups, the time limit is that of the one that is not frozen. */
  make(CALL_backup_begin, &args);
  CHECK(is_done());
  uint64_t second = result >> 32;
  make(CALL_backup_freeze, &freeze);
  request()->object = number;
  CHECK(ask() == EMB_OK && (int)result == EMB_MISUSE);
  CHECK_EQ_INT(run.moment, second);
  make(CALL_backup_freeze, &freeze);
  request()->object = second;
  CHECK(is_done() && !run.moment);
  end();
}

TEST(an_object_that_is_not_there) {
  struct args_scan_close args = {NULL};
  struct args_snapshot_count count = {NULL};
  uint64_t number;
  if (!begin(0, 0) || !CHECK(open_scan(&number)))
    return;
  make(CALL_snapshot_count, &count);
  request()->object = number; /* it is a scan */
  is_no_request("no such object");
  make(CALL_scan_close, &args);
  is_no_request("no such object");
  request()->object = number + 1;
  is_no_request("no such object");
  request()->object = number;
  CHECK(is_done());
  is_no_request("no such object"); /* now closed */
  end();
}

TEST(more_objects_than_allowed) {
  struct args_scan_close args = {NULL};
  uint64_t number;
  if (!begin(0, 0))
    return;
  for (int i = 0; i < RUN_OBJECTS; i++)
    CHECK(open_scan(&number));
  uint64_t last = number;
  CHECK(!open_scan(&number));
  is_no_request("has at most 64 scans");
  make(CALL_scan_close, &args);
  request()->object = last;
  CHECK(is_done());
  CHECK(open_scan(&number));
  end();
}

TEST(more_tickets_than_allowed) {
  uint64_t ticket;
  struct args_prefetch args = {.keys = keys, .n = 1, .ticket = &ticket};
  const emb_rows none = {0};
  if (!begin(0, 0))
    return;
  args.session = session;
  args.to = &none;
  for (int i = 0; i < RUN_TICKETS; i++) {
    make(CALL_prefetch, &args);
    CHECK(is_done());
  }
  make(CALL_prefetch, &args);
  is_no_request("has at most 1024 prefetches");
  struct args_write_back back =
      args_of_write_back(session, keys, 1, rows, &ticket);
  make(CALL_write_back, &back);
  is_no_request("has at most 1024 prefetches");
  end();
}
