/* SPDX-License-Identifier: MIT
**
** shape.c -- for each row of calls.def: the owner reads the same arguments that
** a client sends, and a request that does not fit its shape is refused.
*/
#include "store_help.h"

#include "engine/features/nearest/filter.h"
#include "engine/remote/serve/run.h"

#include <string.h>

enum { DIM = 4, COUNT_MAX = 7, ROUNDS = 200 };

/* The memory that a caller's pointers point to. */
struct caller {
  union args args;
  struct emb_filter filter;
  uint64_t block[64];
  _Alignas(16) char structs[REQUEST_ARGS][256];
  char text[8], array[64];
};

/* Returns where an argument is in the caller's memory. A member of a structure
** is in the structure, and not yet in its place. */
static char *place_of(struct caller *c, const struct shape *shape, int i) {
  const struct arg_shape *arg = &shape->args[i];
  for (int k = i - 1; k >= 0; k--) {
    const struct arg_shape *outer = &shape->args[k];
    if (outer->kind == SHAPE_STRUCT && arg->at >= outer->here &&
        arg->at < outer->here + outer->bytes)
      return c->structs[k] + (arg->at - outer->here);
  }
  return (char *)&c->args + arg->at;
}

static void any_argument(struct caller *c, const struct shape *shape, int i) {
  const struct arg_shape *arg = &shape->args[i];
  char *to = place_of(c, shape, i);
  const void *pointer = NULL;
  int is_there = arg->needed || test_random() % 2;
  uint64_t number = test_random() % COUNT_MAX;
  switch (arg->kind) {
  case SHAPE_VALUE:
    memcpy(to, &number, arg->bytes);
    return;
  case SHAPE_SPAN:
    for (size_t at = 0; at < arg->bytes; at++)
      to[at] = (char)test_random();
    return;
  case SHAPE_STRUCT:
    pointer = c->structs[i];
    CHECK(arg->bytes <= sizeof c->structs[i]);
    break;
  case SHAPE_TEXT:
    pointer = c->text;
    break;
  case SHAPE_FILTER:
    pointer = &c->filter;
    break;
  case SHAPE_OPEN:
  case SHAPE_ERROR:
  case SHAPE_REPORT:
    return;
  default:
    pointer = c->array;
    break;
  }
  pointer = is_there ? pointer : NULL;
  memcpy(to, &pointer, sizeof pointer);
}

static void any_arguments(struct caller *c, const struct shape *shape) {
  memset(c, 0, sizeof *c);
  memcpy(c->text, "a text", 7);
  c->filter.block = c->block;
  c->filter.shape.words = test_random() % 20;
  for (int i = 0; i < REQUEST_ARGS && shape->args[i].kind; i++)
    any_argument(c, shape, i);
}

static void compare_numbers(const struct shape *shape, const union args *a,
                            const union args *b) {
  for (int i = 0; i < REQUEST_ARGS && shape->args[i].kind; i++)
    if (shape->args[i].kind == SHAPE_VALUE)
      CHECK(memcmp((const char *)a + shape->args[i].at,
                   (const char *)b + shape->args[i].at,
                   shape->args[i].bytes) == 0);
}

/* Limits for rows of calls.def that the compiler does not check. */
TEST(each_row_fits) {
  for (int call = 1; call < CALLS; call++) {
    const struct shape *shape = &shapes[call];
    int paths = 0, opens = 0, later = 0;
    for (int i = 0; i < REQUEST_ARGS && shape->args[i].kind; i++) {
      const struct arg_shape *arg = &shape->args[i];
      paths += arg->is_path;
      opens += arg->kind == SHAPE_OPEN;
      later += arg->kind == SHAPE_LATER;
      if (arg->kind == SHAPE_OUT && !arg->count)
        CHECK(arg->bytes <= RUN_ONE_BYTES);
      if (arg->kind == SHAPE_VALUE)
        CHECK(arg->bytes <= sizeof(uint64_t));
    }
    if (!CHECK(paths <= REQUEST_PATHS) || !CHECK(opens <= 1) ||
        !CHECK(!later || call == CALL_prefetch) ||
        !CHECK(!paths || shape->object != OF_STORE))
      fprintf(stderr, "  %s\n", shape->name);
  }
}

static emb_store *open_one(emb_session **s) {
  const emb_segment segments[] = {{.dim = 3}, {.dim = 1}};
  emb_config config = {.dim = DIM,
                       .flags = EMB_OPEN_CREATE | EMB_OPEN_ALONE,
                       .segments = segments,
                       .segment_count = 2,
                       .timeout_ms = 10};
  emb_store *store = NULL;
  emb_err err;
  return CHECK_EQ_INT(emb_open(help_path("store"), &config, &store, &err),
                      EMB_OK) &&
                 CHECK_EQ_INT(emb_session_open(store, s, &err), EMB_OK)
             ? store
             : NULL;
}

TEST(both_ends_read_the_same) {
  static struct caller caller;
  emb_session *s = NULL;
  emb_store *store = open_one(&s);
  struct units units;
  if (!store)
    return;
  shape__units(s, &units);
  for (int round = 0; round < ROUNDS; round++)
    for (int call = 1; call < CALLS; call++) {
      const struct shape *shape = &shapes[call];
      uint64_t words[REQUEST_ARGS] = {0};
      struct extent_of in, out, in_there, out_there;
      union args there;
      any_arguments(&caller, shape);
      shape__words(shape, &caller.args, words);
      shape__request(shape, &units, words, &caller.args, &in);
      shape__answer(shape, &units, words, &caller.args, &out);
      memset(&there, 0, sizeof there);
      shape__numbers(shape, words, &there);
      shape__request(shape, &units, words, &there, &in_there);
      shape__answer(shape, &units, words, &there, &out_there);
      if (!CHECK(memcmp(&in, &in_there, sizeof in) == 0) ||
          !CHECK(memcmp(&out, &out_there, sizeof out) == 0))
        fprintf(stderr, "  %s\n", shape->name);
      compare_numbers(shape, &caller.args, &there);
    }
  help_close(store, s);
}

/* Runs a request of a call in which all words are `word`; its length is what
** they imply, plus `more`. */
static int ask(struct runner *run, int call, uint64_t word, size_t more) {
  static _Alignas(SLOT_ALIGN) char request[1 << 16], answer[1 << 16];
  struct link_request *q = (void *)request;
  const struct shape *shape = &shapes[call];
  struct extent_of in;
  union args args;
  uint64_t result, ticket;
  memset(&args, 0, sizeof args);
  memset(request, 0, sizeof request);
  q->call = (uint32_t)call;
  q->timeout_ms = 1;
  for (int i = 0; i < REQUEST_ARGS && shape->args[i].kind; i++)
    q->words[i] = word;
  shape__numbers(shape, q->words, &args);
  shape__request(shape, &run->units, q->words, &args, &in);
  if (in.bytes > sizeof request / 2)
    return EMB_MISUSE;
  run->s->err.code = EMB_OK;
  return run__request(run,
                      &(struct run_memory){q, sizeof *q + in.bytes + more,
                                           answer, sizeof answer},
                      &result, &ticket);
}

TEST(what_does_not_fit_is_refused) {
  emb_session *s = NULL;
  emb_store *store = open_one(&s);
  struct runner run;
  if (!store)
    return;
  run__init(&run, s, 0, 0);
  for (int call = 1; call < CALLS; call++) {
    const struct shape *shape = &shapes[call];
    int can_miss = 0;
    for (int i = 0; i < REQUEST_ARGS && shape->args[i].kind; i++)
      can_miss |= shape->args[i].kind == SHAPE_TEXT && shape->args[i].needed;
    CHECK_EQ_INT(ask(&run, call, 1, 1), EMB_MISUSE);
    CHECK_EQ_INT(ask(&run, call, 1, (size_t)-1), EMB_MISUSE);
    CHECK_EQ_INT(ask(&run, call, UINT64_MAX / 16, 0) == EMB_OK &&
                     shape->args[0].kind == SHAPE_IN,
                 0);
    if (can_miss || shape->object >= OF_SCAN || !shape_is_asked((uint32_t)call))
      CHECK_EQ_INT(ask(&run, call, 0, 0), EMB_MISUSE);
  }
  CHECK_EQ_INT(ask(&run, CALL_none, 0, 0), EMB_MISUSE);
  run__end(&run);
  help_close(store, s);
}
