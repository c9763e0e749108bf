/* SPDX-License-Identifier: MIT
**
** hostile.c -- clients that follow no rules: neither the data that they write
** into their slots and send to the socket, nor anything else they do, may
** harm the process that owns a store or another client.
**
** The owner is a child.  Hostile clients are its siblings, which speak the
** protocol of serve/slot.h themselves: requests from the table of
** serve/shape.h that are partly wrong, noise, turns and answers that change
** while the owner works, memory that is lent or is not, nonsense answers to
** questions, and an exit at any time.  At the same time, this process is a
** client that follows all rules, and must see its own data.  Afterwards the
** store verifies, and the owner has as many descriptors and about as much
** memory as before.
*/
#include "fork_help.h"
#include "process_help.h"
#include "store_help.h"

#include "engine/base/env/env.h"
#include "engine/features/nearest/filter.h"
#include "engine/remote/serve/shape.h"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

enum { DIM = 8, GOOD_KEYS = 64, MANAGERS = 2 };
enum { MEMORY = 8 << 20, RSS_MORE = 48 << 20 };

/* The good client's keys: far from those of the others. */
#define GOOD_FIRST INT64_C(1000000000000)

static const emb_config config = {.dim = DIM,
                                  .flags = EMB_OPEN_CREATE,
                                  .optimizer = "adagrad(lr=0.1)",
                                  .track = EMB_TRACK_DATA,
                                  .memory_bytes = MEMORY,
                                  .timeout_ms = 5000};

static struct env *const env = &env_posix;

/* ---- the owner ----------------------------------------------------------- */

struct facts { /* what the owner says of itself */
  uint8_t uuid[16];
  int descriptors;
  int64_t rss;
};

/* Removes what clients may leave behind; 1: all of it is gone. */
static int tidy(emb_store *store, emb_session *s) {
  static emb_snapshot_info infos[1024];
  emb_err err;
  size_t n = 0;
  int rc = emb_in_doubt(store)
               ? emb_resolve(store, emb_in_doubt(store), 0, &err)
               : EMB_OK;
  rc = rc ? rc : emb_snapshots(s, infos, 1024, &n);
  for (size_t i = 0; !rc && i < n; i++)
    rc = emb_snapshot_drop(s, infos[i].name);
  rc = rc ? rc : emb_set_memory(s, MEMORY);
  return !rc && emb_checkpoint(s) == EMB_OK;
}

/* The descriptors of this process, when there are at most `most`: the owner
** frees those of its clients when it sees that they have gone. */
static int descriptors(emb_store *store, emb_session *s, int most) {
  int n = 0;
  for (int i = 0; i < 2000; i++) {
    int is_tidy = tidy(store, s);
    n = help_entries("/proc/self/fd");
    if (is_tidy && n <= most)
      break;
    (void)usleep(5000);
  }
  return n;
}

/* m: measures itself; v: verifies, and leaves. */
static void own(const char *dir, int hear, int say) {
  emb_store *store;
  emb_session *s;
  emb_err err;
  char what = 0;
  int base = 1 << 20;
  /* Names that clients make up are below the test's directory. */
  if (chdir(test_state.dir) || emb_open(dir, &config, &store, &err) ||
      emb_session_open(store, &s, &err) || emb_own(s))
    _exit(2);
  (void)!write(say, "o", 1);
  while (read(hear, &what, 1) == 1 && what == 'm') {
    struct facts facts;
    emb_uuid(store, facts.uuid);
    facts.descriptors = base = descriptors(store, s, base);
    facts.rss = help_rss();
    (void)!write(say, &facts, sizeof facts);
  }
  int bad = 0, rc = emb_verify(s, help_report, &bad);
  emb_session_close(s);
  rc = emb_close(store, &err) || rc;
  (void)fflush(stdout);
  _exit(rc || bad ? 3 : 0);
}

static int owner_start(struct process *o, const char *dir) {
  int hear, say;
  char byte = 0;
  if (process_fork(o, &hear, &say)) {
    (void)alarm(120 * help_long() * (SANITIZED ? 5 : 1));
    own(dir, hear, say);
  }
  return CHECK(read(o->hear, &byte, 1) == 1 && byte == 'o');
}

static int owner_facts(const struct process *o, struct facts *facts) {
  return CHECK(write(o->say, "m", 1) == 1 &&
               read(o->hear, facts, sizeof *facts) == sizeof *facts);
}

static void owner_end(struct process *o) {
  int status = -1;
  CHECK(write(o->say, "v", 1) == 1);
  (void)close(o->say);
  (void)close(o->hear);
  CHECK_EQ_INT(waitpid(o->pid, &status, 0), o->pid);
  CHECK_EQ_INT(status, 0);
}

/* ---- a hostile client ---------------------------------------------------- */

struct hostile {
  const char *dir;
  const struct facts *facts;
  uint64_t random;
  uint32_t call; /* what it asks; 0: anything */
  struct env_dir *names;
  struct env_file *log;
  struct env_peer *peer;
  struct env_shared memory;
  struct link_slot *slot;
  struct units units;
};

static uint64_t any(struct hostile *h, uint64_t below) {
  return test_random_from(&h->random) % below;
}

static int rarely(struct hostile *h) { return any(h, 16) == 0; }

/* Usually small, sometimes any number. */
static uint64_t number(struct hostile *h) {
  uint64_t n = test_random_from(&h->random);
  return rarely(h) ? n >> any(h, 64) : n % 24;
}

static void noise(struct hostile *h, void *to, size_t n) {
  for (size_t i = 0; i < n; i++)
    ((uint8_t *)to)[i] = (uint8_t)test_random_from(&h->random);
}

static void say_hello(struct hostile *h) {
  struct hello hello;
  struct env_message message = {.bytes = &hello, .n = sizeof hello};
  memset(&hello, 0, sizeof hello);
  hello.head.magic = SLOT_MAGIC;
  hello.head.protocol = rarely(h) ? SLOT_VERSION + 1 : SLOT_VERSION;
  hello.head.kind = MESSAGE_HELLO;
  memcpy(hello.uuid, h->facts->uuid, sizeof hello.uuid);
  hello.readonly = (uint32_t)rarely(h);
  if (rarely(h))
    noise(h, hello.schema, sizeof hello.schema);
  if (rarely(h))
    noise(h, hello.uuid, any(h, sizeof hello.uuid + 1));
  if (!rarely(h)) {
    message.gifts[0].kind = ENV_GIFT_FILE;
    message.gifts[0].file = h->log;
  }
  message.n = rarely(h) ? any(h, sizeof hello) : message.n;
  (void)env->peer_send(env, h->peer, &message);
}

/* 0: the owner has sent this client away, or has said nothing. */
static int come(struct hostile *h) {
  struct welcome welcome;
  struct env_message message = {.bytes = &welcome, .n = sizeof welcome};
  if (env->peer_open(env, h->names, FILE_SOCKET, &h->peer))
    return 0;
  if (!rarely(h))
    say_hello(h);
  if (env->peer_receive(env, h->peer, &message, 50000))
    return 0;
  if (message.gifts[0].kind == ENV_GIFT_SHARED) {
    h->memory = message.gifts[0].shared;
    h->slot = h->memory.base;
  }
  return h->slot != NULL;
}

static void go(struct hostile *h) {
  env->shared_free(env, &h->memory);
  h->slot = NULL;
  if (h->peer)
    env->peer_close(env, h->peer);
  h->peer = NULL;
}

/* ---- messages ------------------------------------------------------------ */

static void send_loan(struct hostile *h, size_t request, size_t answer) {
  struct signal_message loan = {SLOT_MAGIC, SLOT_VERSION, MESSAGE_LOAN};
  struct env_message message = {.bytes = &loan, .n = sizeof loan};
  struct env_shared lent[2] = {{0}};
  for (int i = 0; i < 2; i++) {
    if ((i ? answer : request) == 0 ||
        env->shared_make(env, i ? answer : request, &lent[i]))
      continue;
    if (i == 0)
      memcpy(lent[0].base, h->slot->data,
             request < SLOT_DATA_BYTES ? request : SLOT_DATA_BYTES);
    message.gifts[i].kind = ENV_GIFT_SHARED;
    if (rarely(h) != (i == 0) && env->shared_fix(env, &lent[i]) == 0)
      message.gifts[i].kind = ENV_GIFT_FIXED;
    message.gifts[i].shared = lent[i];
  }
  (void)env->peer_send(env, h->peer, &message);
  env->shared_free(env, &lent[0]);
  env->shared_free(env, &lent[1]);
}

static void send_noise(struct hostile *h) {
  char bytes[256];
  struct signal_message *signal = (void *)bytes;
  struct env_message message = {.bytes = bytes, .n = any(h, sizeof bytes)};
  noise(h, bytes, sizeof bytes);
  if (any(h, 4)) {
    *signal = (struct signal_message){SLOT_MAGIC, SLOT_VERSION, MESSAGE_PING};
    message.n = sizeof *signal;
  }
  for (uint64_t i = any(h, 100); i; i--)
    (void)env->peer_send(env, h->peer, &message);
}

/* ---- requests ------------------------------------------------------------ */

static size_t any_text(struct hostile *h, char *to) {
  static const char *const texts[] = {"a",       "b",      "file", "copy",
                                      "level=1", "base=a", ".",    "a/../b"};
  const char *text = texts[any(h, sizeof texts / sizeof texts[0])];
  size_t n = strlen(text) + 1;
  memcpy(to, text, n);
  return n;
}

static void any_array(struct hostile *h, const struct arg_shape *arg, char *to,
                      size_t n) {
  for (size_t i = 0; arg->unit == UNIT_BYTES && i + 8 <= n; i += 8) {
    int64_t key = (int64_t)any(h, 1000);
    memcpy(to + i, &key, sizeof key);
  }
  for (size_t i = 0; arg->unit == UNIT_VECTOR && i + 4 <= n; i += 4) {
    float x = (float)any(h, 100);
    memcpy(to + i, &x, sizeof x);
  }
}

/* The block of a filter whose shape may be right. */
static void any_filter(struct hostile *h, char *to, size_t n) {
  uint64_t words = n / sizeof(uint64_t) - FILTER_HEAD;
  struct filter_shape shape = {.kind = 1 + (uint32_t)any(h, 2),
                               .without = (uint32_t)any(h, 2),
                               .count = number(h),
                               .words = words};
  shape.size = shape.kind == FILTER_BITS ? 64 * words : words;
  shape.base = rarely(h) ? (int64_t)number(h) : 0;
  memcpy(to, &shape, sizeof shape);
}

/* Chooses the files that the paths of a request name. */
static void set_views(struct hostile *h, const struct shape *shape,
                      const struct extent_of *in, struct link_request *q) {
  int paths = 0;
  for (int i = 0; i < REQUEST_ARGS && shape->args[i].kind; i++)
    if (shape->args[i].is_path)
      q->views[paths++] =
          rarely(h)
              ? number(h)
              : shape__view(env, in->length[i] ? q->arrays + in->at[i] : NULL);
}

/* Puts a request in the slot, partly wrong, and lends memory for it if needed
** or by chance. */
static void any_request(struct hostile *h) {
  struct link_slot *slot = h->slot;
  struct link_request *q = (void *)slot->data;
  struct extent_of in, out;
  char texts[REQUEST_ARGS][32];
  memset(slot->data, 'x', 4096);
  memset(q, 0, sizeof *q);
  q->call = (uint32_t)any(h, CALLS + (uint64_t)rarely(h));
  q->call = h->call ? h->call : q->call;
  q->object = any(h, 6);
  q->flags = (uint32_t)any(h, 4);
  q->timeout_ms = rarely(h) ? UINT64_MAX : 1;
  q->statement = number(h);
  q->time = rarely(h) ? (uint32_t)number(h) : 0;
  slot->request_bytes = sizeof *q;
  slot->lent = 0;
  if (q->call == CALL_snapshot_restore ||
      q->call == CALL_snapshot_restore_keys || q->call == CALL_delta_apply ||
      q->call == CALL_drop)
    q->call = CALL_verify; /* a writer may replace what others wrote */
  if (q->call >= CALLS)
    return;
  const struct shape *shape = &shapes[q->call];
  union args args;
  memset(&args, 0, sizeof args);
  for (int i = 0; i < REQUEST_ARGS && shape->args[i].kind; i++)
    q->words[i] = shape->args[i].kind == SHAPE_VALUE
                      ? h->call ? any(h, 3) : number(h)
                  : shape->args[i].kind == SHAPE_FILTER ? any(h, 40)
                  : shape->args[i].kind == SHAPE_TEXT   ? any_text(h, texts[i])
                                                        : (uint64_t)!rarely(h);
  shape__numbers(shape, q->words, &args);
  shape__request(shape, &h->units, q->words, &args, &in);
  shape__answer(shape, &h->units, q->words, &args, &out);
  if (sizeof *q + in.bytes > SLOT_DATA_BYTES || in.bytes == SIZE_MAX)
    return;
  slot->request_bytes = (uint32_t)(sizeof *q + in.bytes + (size_t)rarely(h));
  for (int i = 0; i < REQUEST_ARGS && shape->args[i].kind; i++)
    if (shape->args[i].kind == SHAPE_TEXT)
      memcpy(q->arrays + in.at[i], texts[i],
             in.length[i] - (size_t)rarely(h)); /* perhaps without its zero */
    else if (shape->args[i].kind == SHAPE_FILTER &&
             in.length[i] > sizeof(struct filter_shape))
      any_filter(h, q->arrays + in.at[i], in.length[i]);
    else if (in.length[i])
      any_array(h, &shape->args[i], q->arrays + in.at[i], in.length[i]);
  set_views(h, shape, &in, q);
  if (q->call == CALL_prefetch || rarely(h)) {
    slot->lent = !rarely(h);
    if (!rarely(h))
      send_loan(h, slot->request_bytes,
                out.bytes < SLOT_DATA_BYTES ? out.bytes : 0);
  }
}

static void set_turn(struct hostile *h, uint32_t turn) {
  atomic_store(&h->slot->turn, turn);
  env->word_wake(env, &h->slot->turn);
}

/* Waits until there is an answer, or for a shorter time. */
static void wait_a_while(struct hostile *h) {
  struct link_slot *slot = h->slot;
  uint64_t start = env->now_us(env), us = any(h, 20000);
  int honest = any(h, 4) != 0;
  while (env->now_us(env) - start < us) {
    uint32_t turn = atomic_load(&slot->turn);
    if (turn == SLOT_ANSWERED || turn == SLOT_LEFT)
      return;
    if (turn == SLOT_QUESTION && any(h, 8)) {
      slot->reply = (uint32_t)number(h);
      set_turn(h, SLOT_RUNNING);
    }
    if (honest) {
      env->word_wait(env, &slot->turn, turn, 1000);
    } else { /* the owner must not rely on this memory */
      noise(h, slot->data + any(h, 2048), 64);
      if (rarely(h))
        set_turn(h, (uint32_t)any(h, 7));
      atomic_store(&slot->cancel, (uint32_t)any(h, 2));
      slot->request_bytes = (uint32_t)number(h);
    }
  }
}

static void ask(struct hostile *h) {
  any_request(h);
  atomic_store(&h->slot->cancel, (uint32_t)rarely(h));
  set_turn(h, SLOT_ASKED);
  wait_a_while(h);
}

static void act(struct hostile *h) {
  struct link_slot *slot = h->slot;
  switch (any(h, 16)) {
  case 0:
    noise(h, slot, 4096 + any(h, 4096));
    break;
  case 1:
    send_noise(h);
    break;
  case 2:
    send_loan(h, 1 + any(h, 100000), any(h, 100000));
    break;
  case 3:
    if (rarely(h))
      say_hello(h);
    break;
  case 4:
    set_turn(h, (uint32_t)number(h));
    break;
  case 5: /* more than a session may have open */
    h->call = CALL_scan_open;
    for (uint64_t i = any(h, 4) ? 0 : 100; i; i--)
      ask(h);
    h->call = 0;
    break;
  default:
    ask(h);
  }
}

/* One hostile process: it is killed, or exits when it likes. */
static void be_hostile(struct hostile *h) {
  char path[512];
  (void)snprintf(path, sizeof path, "%s/log", h->dir);
  static struct schema schema = {.count = 1, .segments = {{.dim = DIM}}};
  h->units = (struct units){&schema, DIM * sizeof(float), DIM * sizeof(float)};
  if (chdir(test_state.dir) || env->open_dir(env, h->dir, &h->names) ||
      env->open(env, path, ENV_READ | ENV_WRITE, &h->log))
    _exit(1);
  for (;;) {
    h->memory = (struct env_shared){0};
    for (uint64_t i = come(h) ? 1 + any(h, 60) : 0; i; i--)
      act(h);
    if (rarely(h))
      _exit(0);
    go(h);
  }
}

/* Starts hostile processes and kills them, one after another. */
static void manage(const char *dir, const struct facts *facts, uint64_t seed) {
  uint64_t random = seed;
  (void)alarm(120 * help_long() * (SANITIZED ? 5 : 1));
  for (unsigned i = help_amount(30); i; i--) {
    struct hostile h = {
        .dir = dir, .facts = facts, .random = test_random_from(&random)};
    int status;
    pid_t pid = test_fork();
    if (pid == 0)
      be_hostile(&h);
    (void)usleep((useconds_t)(test_random_from(&random) % 100000));
    (void)kill(pid, SIGKILL);
    if (waitpid(pid, &status, 0) != pid ||
        (WIFEXITED(status) && WEXITSTATUS(status)) ||
        (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL))
      _exit(1);
  }
  _exit(0);
}

/* ---- the good client ----------------------------------------------------- */

/* Another client may have prepared a transaction and gone. */
static int decided(emb_store *store, emb_session *s, int rc) {
  emb_err err;
  if (rc != EMB_LOCKED)
    return CHECK(rc == EMB_OK) || (printf("%s\n", emb_errmsg(s)), 1);
  (void)emb_resolve(store, emb_in_doubt(store), 0, &err);
  return 0;
}

static void be_good(emb_store *store, emb_session *s, int32_t round) {
  static int64_t keys[GOOD_KEYS];
  static float rows[GOOD_KEYS * DIM], back[GOOD_KEYS * DIM];
  for (int i = 0; i < GOOD_KEYS; i++) {
    keys[i] = GOOD_FIRST + i;
    help_vector(rows + i * DIM, DIM, keys[i], round);
  }
  while (!decided(store, s, emb_put(s, keys, GOOD_KEYS, rows, NULL)))
    ;
  OK(s, emb_get(s, keys, GOOD_KEYS, back, NULL, NULL));
  CHECK(memcmp(rows, back, sizeof rows) == 0);
}

TEST(hostile_clients) {
  struct process owner;
  struct facts before, after;
  emb_store *store;
  emb_session *s;
  pid_t managers[MANAGERS];
  int running = MANAGERS, status;
  int32_t round = 0;
  if (!CHECK(test_dir() != NULL))
    return;
  char dir[512];
  (void)snprintf(dir, sizeof dir, "%s", help_path("store"));
  if (!owner_start(&owner, dir))
    return;
  if (help_open(dir, &config, &store, &s)) { /* makes what is made only once */
    be_good(store, s, round++);
    (void)help_close(store, s);
  }
  if (!owner_facts(&owner, &before))
    return;
  for (int i = 0; i < MANAGERS; i++) {
    uint64_t seed = test_random();
    (void)fflush(stdout);
    managers[i] = test_fork();
    if (managers[i] == 0)
      manage(dir, &before, seed);
  }
  if (help_open(dir, &config, &store, &s)) {
    while (running) {
      be_good(store, s, round++);
      for (int i = 0; i < MANAGERS; i++)
        if (managers[i] && waitpid(managers[i], &status, WNOHANG) != 0) {
          CHECK_EQ_INT(status, 0);
          managers[i] = 0;
          running--;
        }
    }
    (void)help_close(store, s);
  }
  if (owner_facts(&owner, &after)) {
    CHECK(after.descriptors <= before.descriptors);
    CHECK(SANITIZED || after.rss - before.rss < RSS_MORE);
  }
  test_count("rounds beside hostile clients", (uint64_t)round);
  owner_end(&owner);
}
