/* SPDX-License-Identifier: MIT
**
** serve.c -- fuzzes the requests of a store's clients (serve/run.c): requests
** that no client of ours would send, in any order, by two sessions of one
** store.
**
** INPUT     byte 0  settings of the store and its sessions
**           then requests until the end: which session and what is wrong with
**           it, the call, and its arguments by the table of serve/shape.h
**
** Afterwards both clients are gone.  The store must verify, a session of its
** own process must read its own writes, and all memory must be given back.
*/
#include "fuzz.h"

#include <errno.h>

#include "engine/emb.h"
#include "engine/remote/serve/leave.h"
#include "engine/remote/serve/orphan.h"
#include "engine/remote/serve/run.h"
#include "engine/table/owner/registry.h"
#include "env_memory.h"

/* REQUESTS: enough to have more objects open than a session may. */
enum { DIM = 4, SESSIONS = 2, REQUESTS = RUN_OBJECTS + 40, LOOKS = 40 };
enum { ROOM = 1 << 18 }; /* requests and answers are not longer */

static const char dir[] = "/store";

/* Memory of an answer that is written to later. */
struct kept {
  struct kept *next;
  uint64_t ticket;
  char *answer;
};

struct client {
  struct runner run;
  struct kept *kept;
  unsigned looks; /* checks left before its call is interrupted */
};

static struct client clients[SESSIONS];

/* ---- a store ------------------------------------------------------------- */

static int make_dir(struct env *env, const char *path) {
  uint64_t id[2];
  return env->identity(env, path, id) == 0 ? EEXIST : 0;
}

static int make_no_link(struct env *env, const char *from, const char *to) {
  (void)env, (void)from, (void)to;
  return ENOTSUP;
}

/* A client that waits for the other one would wait forever. */
static int interrupted(void *arg) {
  struct client *c = arg;
  return c->looks == 0 || --c->looks == 0;
}

static void report(void *arg, const char *line) {
  (void)arg;
  FUZZ_CHECK(line[0]);
}

static emb_store *open_store(unsigned how) {
  emb_config config = {.dim = DIM,
                       .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP |
                                EMB_OPEN_ALONE |
                                (how & 1 ? EMB_OPEN_BOUNDED : 0),
                       .io = EMB_IO_PREAD,
                       .memory_bytes = 1,
                       .timeout_ms = 10};
  emb_store *store;
  emb_err err;
  if (how & 2) {
    config.optimizer = "adagrad(lr=0.1)";
    config.insert_on = EMB_INSERT_ON_LOOKUP;
  }
  if (how & 4) {
    config.track = EMB_TRACK_DATA;
    config.ttl = "1h";
    config.capacity = 50;
  }
  struct env *env = env_memory();
  env->make_dir = make_dir;
  env->link = make_no_link;
  env_set_default(env);
  FUZZ_CHECK(emb_open(dir, &config, &store, &err) == EMB_OK);
  return store;
}

static void good_client(emb_store *store, emb_session *s) {
  int64_t keys[8];
  float rows[8 * DIM], back[8 * DIM];
  emb_err err;
  if (emb_in_doubt(store))
    FUZZ_CHECK(emb_resolve(store, emb_in_doubt(store), 1, &err) == EMB_OK);
  for (int i = 0; i < 8; i++)
    keys[i] = i;
  for (int i = 0; i < 8 * DIM; i++)
    rows[i] = (float)i + 1;
  FUZZ_CHECK(emb_put(s, keys, 8, rows, NULL) == EMB_OK);
  FUZZ_CHECK(emb_peek(s, keys, 8, back, NULL, NULL) == EMB_OK);
  FUZZ_CHECK(memcmp(rows, back, sizeof rows) == 0);
}

static void fail(void *arg, const char *line) {
  (void)arg;
  printf("%s\n", line);
  abort();
}

/* ---- a request ----------------------------------------------------------- */

static const char *const texts[] = {
    "a",          "b",        "/store",           "/store/log",
    "/file",      "/copy",    "/other",           "",
    "level=1",    "base=a",   "quantize=int8",    "x y",
    "../../file", "\xff\xff", "state=0, index=0", "/store/index-1"};

/* Chooses an argument's text by a byte of the input: one of the texts above,
** none, or bytes of any length that are a text or not. */
static uint64_t text_bytes(struct fuzz_input *in, uint8_t which) {
  return which < 16   ? strlen(texts[which]) + 1
         : which < 32 ? 0
                      : fuzz_number(in);
}

static void fill_text(uint8_t which, char *to, size_t n) {
  memset(to, 'x', n);
  if (which < 16)
    memcpy(to, texts[which], n);
  to[n - 1] = which == 255 ? 'x' : 0;
  if (which == 254)
    to[0] = 0;
}

static void fill_array(struct fuzz_input *in, const struct arg_shape *arg,
                       char *to, size_t n) {
  uint8_t first = fuzz_byte(in), step = fuzz_byte(in) & 3;
  if (arg->unit == UNIT_BYTES) { /* keys */
    for (size_t i = 0; i + 8 <= n; i += 8) {
      int64_t key = (int8_t)(first + i / 8 * step);
      memcpy(to + i, &key, 8);
    }
    return;
  }
  for (size_t i = 0; i + 4 <= n; i += 4) {
    float x = (float)(int8_t)(first + i * step);
    memcpy(to + i, &x, 4);
  }
  if (first == 255 && n >= 4)
    memset(to, 255, 4); /* not a number */
}

/* *which: of a text. */
static uint64_t any_word(struct fuzz_input *in, const struct arg_shape *arg,
                         uint8_t *which) {
  if (arg->kind == SHAPE_TEXT) {
    *which = fuzz_byte(in);
    return text_bytes(in, *which);
  }
  if (arg->kind != SHAPE_VALUE && arg->kind != SHAPE_FILTER)
    return fuzz_byte(in) % 4 != 0;
  return fuzz_number(in);
}

/* Sets the views as for a client in the same file system. */
static void set_views(const struct client *c, const struct shape *shape,
                      const struct extent_of *extent, struct link_request *q) {
  int paths = 0;
  for (int i = 0; i < REQUEST_ARGS && shape->args[i].kind; i++) {
    const char *path = extent->length[i] ? q->arrays + extent->at[i] : NULL;
    int is_text = path && memchr(path, 0, extent->length[i]);
    if (shape->args[i].is_path)
      q->views[paths++] =
          shape__view(c->run.s->core->env, is_text ? path : NULL);
  }
}

/* In memory of exactly its length, so that a sanitizer sees any read beyond
** its end; texts and arrays come after the words.  *bytes: its length. */
static struct link_request *any_request(struct fuzz_input *in, struct client *c,
                                        uint8_t how, size_t *bytes) {
  static struct link_request head;
  struct extent_of extent;
  uint8_t call = fuzz_byte(in);
  memset(&head, 0, sizeof head);
  head.call = call % (CALLS + 1);
  if (head.call == CALL_drop) /* any client that may write may do that */
    head.call = CALL_verify;
  head.object = fuzz_byte(in) % 8;
  head.flags = how >> 6;
  head.timeout_ms = how & 4 ? UINT64_MAX : 5;
  head.statement = how >> 3 & 3;
  head.time = how & 32 ? 1700000000 + call : 0;
  *bytes = sizeof head;
  const struct shape *shape = head.call < CALLS ? &shapes[head.call] : NULL;
  uint8_t which[REQUEST_ARGS];
  for (int i = 0; shape && i < REQUEST_ARGS && shape->args[i].kind; i++)
    head.words[i] = any_word(in, &shape->args[i], &which[i]);
  int is_whole = 0;
  if (shape) {
    int is_short = how & 8 && how & 16 && how & 32;
    union args args;
    memset(&args, 0, sizeof args);
    shape__numbers(shape, head.words, &args);
    shape__request(shape, &c->run.units, head.words, &args, &extent);
    is_whole = extent.bytes < ROOM && !is_short;
    *bytes += is_whole ? extent.bytes : 0;
    *bytes -= is_short ? 1 : 0;
  }
  struct link_request *q = NULL;
  FUZZ_CHECK(posix_memalign((void **)&q, SLOT_ALIGN, *bytes) == 0);
  memset(q, 0, *bytes);
  memcpy(q, &head, *bytes < sizeof head ? *bytes : sizeof head);
  for (int i = 0; is_whole && i < REQUEST_ARGS && shape->args[i].kind; i++) {
    char *at = q->arrays + extent.at[i];
    if (shape->args[i].kind == SHAPE_TEXT && extent.length[i])
      fill_text(which[i], at, extent.length[i]);
    else if (extent.length[i])
      fill_array(in, &shape->args[i], at, extent.length[i]);
  }
  if (is_whole && (how & 6) != 6)
    set_views(c, shape, &extent, q);
  return q;
}

static size_t answer_room(const struct client *c, const struct link_request *q,
                          size_t bytes) {
  struct extent_of extent;
  union args args;
  if (bytes < sizeof *q || q->call >= CALLS)
    return 0;
  memset(&args, 0, sizeof args);
  shape__numbers(&shapes[q->call], q->words, &args);
  shape__answer(&shapes[q->call], &c->run.units, q->words, &args, &extent);
  return extent.bytes < ROOM ? extent.bytes : 0;
}

static void drop_kept(struct client *c, uint64_t ticket, int all) {
  for (struct kept **at = &c->kept; *at;) {
    struct kept *kept = *at;
    if (all || kept->ticket == ticket) {
      *at = kept->next;
      free(kept->answer);
      free(kept);
    } else {
      at = &kept->next;
    }
  }
}

static void ask(struct fuzz_input *in) {
  uint8_t how = fuzz_byte(in);
  struct client *c = &clients[how & 1];
  struct client *other = &clients[!(how & 1)];
  size_t bytes;
  uint64_t result, ticket;
  /* This client would wait until the other releases its moment. */
  if (other->run.moment)
    run__end_moment(&other->run);
  struct link_request *q = any_request(in, c, how, &bytes);
  size_t room = answer_room(c, q, bytes);
  char *answer = NULL;
  FUZZ_CHECK(room == 0 ||
             posix_memalign((void **)&answer, SLOT_ALIGN, room) == 0);
  c->looks = LOOKS;
  c->run.s->err.code = EMB_OK;
  c->run.s->err.text[0] = 0;
  int rc = run__request(&c->run, &(struct run_memory){q, bytes, answer, room},
                        &result, &ticket);
  FUZZ_CHECK(rc == EMB_OK || c->run.s->err.text[0]);
  if (rc == EMB_OK && (shapes[q->call].flags & SHAPE_CODE)) {
    int code = (int)(uint32_t)result;
    FUZZ_CHECK(code >= EMB_OK && code <= EMB_LOST);
    FUZZ_CHECK(code == EMB_OK || c->run.s->err.text[0]);
  }
  (void)run__holds(&c->run);
  if (ticket && q->call == CALL_prefetch) {
    struct kept *kept = malloc(sizeof *kept);
    FUZZ_CHECK(kept);
    *kept = (struct kept){c->kept, ticket, answer};
    c->kept = kept;
    answer = NULL;
  } else if (ticket) {
    drop_kept(c, ticket, 0);
  }
  free(answer);
  free(q);
}

/* ---- clients ------------------------------------------------------------- */

static void come(emb_store *store, struct client *c, int readonly,
                 int is_foreign) {
  emb_session *s;
  emb_err err;
  memset(c, 0, sizeof *c);
  FUZZ_CHECK(session_new(store, &s, &err) == EMB_OK);
  run__init(&c->run, s, readonly, is_foreign);
  c->run.report = report;
  emb_session_interrupt(s, interrupted, c);
}

static void go(struct client *c) {
  uint64_t prepared = run__prepared(&c->run);
  run__end(&c->run);
  drop_kept(c, 0, 1);
  emb_session_interrupt(c->run.s, NULL, NULL);
  if (prepared)
    orphan__adopt(c->run.s, prepared);
  else
    leave_session(c->run.s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_input in = {data, size};
  unsigned how = fuzz_byte(&in);
  emb_store *store = open_store(how);
  emb_session *s;
  emb_err err;
  FUZZ_CHECK(emb_session_open(store, &s, &err) == EMB_OK);
  FUZZ_CHECK(emb_own(s) == EMB_OK);
  come(store, &clients[0], 0, 0);
  come(store, &clients[1], how >> 4 & 1, how >> 5 & 1);
  for (int i = 0; i < REQUESTS && in.left; i++)
    ask(&in);
  for (int i = 0; i < SESSIONS; i++)
    go(&clients[i]);
  good_client(store, s);
  FUZZ_CHECK(emb_verify(s, fail, NULL) == EMB_OK);
  emb_session_close(s);
  FUZZ_CHECK(emb_close(store, &err) == EMB_OK);
  FUZZ_CHECK(env_memory_held() == 0);
  env_memory_clear();
  return 0;
}
