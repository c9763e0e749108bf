/* SPDX-License-Identifier: MIT
**
** run_valid.c -- each assertion about the objects that a client has open fires.
*/
#include "death.h"
#include "store_help.h"

#include "engine/remote/serve/run.h"

static emb_store *store;
static emb_session *session;
static struct runner run;

static struct {
  _Alignas(SLOT_ALIGN) char bytes[4096];
  _Alignas(SLOT_ALIGN) char answer[4096];
} asked;

/* Requests a call as a client does. */
static uint64_t ask(int call, void *args) {
  const struct shape *shape = &shapes[call];
  struct link_request *q = (void *)asked.bytes;
  struct extent_of in, out;
  uint64_t result, ticket;
  memset(&asked, 0, sizeof asked);
  q->call = (uint32_t)call;
  shape__words(shape, args, q->words);
  shape__request(shape, &run.units, q->words, args, &in);
  shape__answer(shape, &run.units, q->words, args, &out);
  for (int i = 0, paths = 0; i < REQUEST_ARGS && shape->args[i].kind; i++) {
    const struct arg_shape *arg = &shape->args[i];
    if (arg->is_path)
      q->views[paths++] =
          shape__view(session->core->env, shape__pointer(args, arg));
    if (in.length[i])
      memcpy(q->arrays + in.at[i], shape__array(args, arg), in.length[i]);
  }
  struct run_memory memory = {q, sizeof *q + in.bytes, asked.answer, out.bytes};
  CHECK_EQ_INT(run__request(&run, &memory, &result, &ticket), EMB_OK);
  CHECK_EQ_INT((uint32_t)result, EMB_OK);
  return result >> 32;
}

static struct run_object *object(uint64_t number) {
  for (int i = 0; i < RUN_OBJECTS; i++) {
    if (run.objects[i].number == number)
      return &run.objects[i];
  }
  abort();
}

TEST(broken_objects) {
  const emb_config config = {.dim = 2,
                             .flags = EMB_OPEN_CREATE | EMB_OPEN_ALONE};
  emb_scan *scan;
  emb_backup *backup;
  if (!help_open(help_path("store"), &config, &store, &session))
    return;
  run__init(&run, session, 0, 0);
  struct args_scan_open first =
      args_of_scan_open(session, INT64_MIN, INT64_MAX, EMB_SCAN_ASC, &scan);
  struct args_backup_begin second =
      args_of_backup_begin(session, test_state.dir, &backup);
  struct run_object *a = object(ask(CALL_scan_open, &first));
  struct run_object *b = object(ask(CALL_backup_begin, &second));
  CHECK(run_valid(&run) && run.moment == b->number);
  CHECK_FIRES(a->number = run.last + 1; run_valid(&run));
  CHECK_FIRES(a->kind = OF_SESSION; run_valid(&run));
  CHECK_FIRES(a->pointer = NULL; run_valid(&run));
  CHECK_FIRES(b->rows = 1; run_valid(&run));
  CHECK_FIRES(b->is_ordered = 1; run_valid(&run));
  CHECK_FIRES(a->number = b->number; run_valid(&run));
  CHECK_FIRES(run.moment = a->number; run_valid(&run));
  CHECK_FIRES(b->number = 0; run_valid(&run));
  CHECK_FIRES(run.moment = a->number; run__end(&run));
  run__end_moment(&run);
  CHECK(run_valid(&run) && !run.moment);
  uint64_t ticket;
  const int64_t key = 1;
  const emb_rows none = {0};
  for (int i = 0; i <= RUN_TICKETS; i++)
    OK(session, emb_prefetch(session, &key, 1, &none, &ticket));
  CHECK_FIRES(run_valid(&run));
  CHECK_ALL_FIRED("engine/remote/serve/run_valid.c");
  for (int i = 0; i <= RUN_TICKETS; i++)
    OK(session, emb_prefetch_synchronize(session, 0, NULL));
  run__end(&run);
  help_close(store, session);
}
