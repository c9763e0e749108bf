/* SPDX-License-Identifier: MIT
**
** welcome.c -- admits a client: tells it which store it gets, or why none, and
** accepts memory lent for long requests.
**
** THREADS   The hub's thread.
** TRUST     Everything a client sends is checked before use [hello.h, is_loan].
*/
#include "serving.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "hello.h"
#include "leave.h"
#include "link.h"
#include "share.h"

/* Limits on clients that have not said hello, and on sessions of other users,
** so that they do not exhaust the owner's descriptors; and on the memory lent
** at any time. */
#define SILENT_MAX 64
#define FOREIGN_MAX 64
#define LENT_MAX ((size_t)1 << 36)

/* The list of clients that have not said hello.  In the hub's thread. */
struct serving **welcome__strangers(struct hub *hub) {
  return (struct serving **)hub__own(hub);
}

/* Ends the client that has waited longest, if there are too many. */
static void limit_strangers(struct hub *hub) {
  struct serving *oldest = NULL;
  int n = 0;
  for (struct serving *v = *welcome__strangers(hub); v; v = v->next) {
    if (!serving__is_over(v)) {
      oldest = v; /* the list has the newest first */
      n++;
    }
  }
  if (n > SILENT_MAX) {
    atomic_store(&oldest->gone, 1);
  }
}

static int foreign_sessions(struct server *server) {
  int n = 0;
  pthread_mutex_lock(&server->lock);
  for (struct serving *v = server->clients; v; v = v->next) {
    n += v->slot && !v->who.is_same_user;
  }
  pthread_mutex_unlock(&server->lock);
  return n;
}

void welcome__accept(struct hub *hub, struct env_peer *peer) {
  struct env *env = hub__env(hub);
  struct serving *v = env->allocate(env, sizeof *v);
  pthread_condattr_t clock;
  if (!v || hub__watch(hub, peer, v)) {
    env->release(env, v);
    env->peer_close(env, peer);
    return;
  }
  v->hub = hub;
  v->peer = peer;
  v->came_us = env->now_us(env);
  env->peer_who(env, peer, &v->who);
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&v->arrived, &clock);
  pthread_condattr_destroy(&clock);
  v->next = *welcome__strangers(hub);
  *welcome__strangers(hub) = v;
  limit_strangers(hub);
  emb_check(strangers_valid(v));
}

/* A client wants the store whose log it shows.  A client that shows no log can
** only be told what is wrong, by any server. */
static int has_log(struct hub_server *hub, const void *arg) {
  struct server *server = (struct server *)(void *)hub;
  const struct env_gift_in *gift = arg;
  int is_closed = atomic_load(&server->leaving) &&
                  (!serving__awaits_txn(server) ||
                   EMB_SEED(SEED_LEAVING_OWNER_TAKES_NOBODY));
  pthread_mutex_lock(&server->lock);
  int fits = !is_closed && !server->end &&
             (gift->kind != ENV_GIFT_FILE ||
              memcmp(server->log_id, gift->id, sizeof server->log_id) == 0);
  pthread_mutex_unlock(&server->lock);
  return fits;
}

/* Moves the client to that store's server; 0: this process does not own the
** store, or no longer does. */
static int find_server(struct serving *v, const struct env_message *message) {
  struct hub *hub = v->hub;
  struct server *server =
      (struct server *)(void *)hub__find(hub, has_log, &message->gifts[0]);
  if (!server) {
    return 0;
  }
  struct serving **at = welcome__strangers(hub);
  while (*at != v) {
    at = &(*at)->next;
  }
  *at = v->next;
  pthread_mutex_lock(&server->lock);
  v->server = server;
  v->next = server->clients;
  server->clients = v;
  emb_check(server_valid(server));
  pthread_mutex_unlock(&server->lock);
  return 1;
}

/* May this client have a session, and may the session write? */
static int judge_hello(struct server *server, const struct serving *v,
                       struct hello *hello, const struct env_message *message,
                       int *readonly, emb_err *err) {
  emb_store *store = server->store;
  struct core *core = &store->core;
  uint64_t log_id[2] = {0, 0};
  char path[PATH_BYTES];
  hello->schema[sizeof hello->schema - 1] = 0;
  if (hello->head.magic != SLOT_MAGIC) {
    return err_set(err, EMB_CANTOPEN, "cannot open %s: this is not a hello",
                   core->dir);
  }
  if (memcmp(hello->uuid, core->uuid, sizeof hello->uuid) != 0) {
    return err_set(err, EMB_CANTOPEN, "%s was replaced by another store",
                   core->dir);
  }
  if (message->gifts[0].kind != ENV_GIFT_FILE ||
      path_join(path, sizeof path, core->dir, FILE_LOG, NULL) ||
      server->env->identity(server->env, path, log_id) ||
      memcmp(log_id, message->gifts[0].id, sizeof log_id) != 0) {
    return err_set(err, EMB_CANTOPEN, "cannot open %s/log", core->dir);
  }
  if (!v->who.is_same_user && foreign_sessions(server) >= FOREIGN_MAX) {
    return err_set(err, EMB_BUSY, "%s is used by too many other users",
                   core->dir);
  }
  *readonly =
      hello->readonly || !message->gifts[0].writable || !v->who.is_same_user;
  return share_store(store, hello->schema, hello->bounded && !*readonly,
                     hello->staleness, err);
}

static int make_link_slot(struct serving *v, int readonly, emb_err *err) {
  struct server *server = v->server;
  struct env *env = server->env;
  int rc = session_new(server->store, &v->s, err);
  if (!rc) {
    int os = env->shared_make(env, sizeof(struct link_slot), &v->memory);
    v->copy = os ? NULL : env->map(env, SLOT_DATA_BYTES, 0);
    rc = v->copy ? EMB_OK : err_set(err, EMB_NOMEM, "out of memory");
  }
  if (!rc) {
    v->number = ++server->last;
    v->since_s = env->wall_s(env);
    run__init(&v->run, v->s, readonly, !v->who.is_same_user);
    v->processor = UINT32_MAX;
    v->s->client.process = v->who.process ? v->who.process : -1;
    v->s->client.number = v->number;
    v->run.report = serving__report;
    v->run.report_arg = v;
    pthread_mutex_lock(&server->lock);
    v->slot = v->memory.base;
    pthread_mutex_unlock(&server->lock);
    emb_session_interrupt(v->s, serving__interrupted, v);
    atomic_store(&v->slot->in_doubt, local_in_doubt(server->store));
    int os = env->thread_start(env, serving__thread, v, &v->thread);
    rc = os ? err_os(err, EMB_NOMEM, os, "cannot start a thread") : EMB_OK;
  }
  if (rc && v->s) {
    emb_session_interrupt(v->s, NULL, NULL);
    leave_session(v->s);
    v->s = NULL;
  }
  if (rc) {
    pthread_mutex_lock(&server->lock);
    v->slot = NULL;
    pthread_mutex_unlock(&server->lock);
  }
  return rc;
}

static void client_handshake(struct serving *v, struct hello *hello,
                             const struct env_message *message) {
  struct server *server = v->server;
  struct env *env = server->env;
  struct welcome welcome;
  emb_err err = {EMB_OK, ""};
  int readonly = 0;
  v->is_store = hello->is_store != 0;
  memset(&welcome, 0, sizeof welcome);
  int rc = judge_hello(server, v, hello, message, &readonly, &err);
  rc = rc ? rc : make_link_slot(v, readonly, &err);
  welcome.head = hello__head(sizeof welcome);
  welcome.code = rc;
  welcome.number = v->number;
  welcome.since = server->since_s;
  welcome.process = env->process(env);
  snprintf(welcome.text, sizeof welcome.text, "%s", err.text);
  struct env_message answer = {.bytes = &welcome, .n = sizeof welcome};
  if (!rc) {
    answer.gifts[0].kind = ENV_GIFT_SHARED;
    answer.gifts[0].shared = v->memory;
  }
  if (env->peer_send(env, v->peer, &answer) || rc) {
    atomic_store(&v->gone, 1);
  }
  env->shared_sent(env, &v->memory);
}

/* Refuses a client of another protocol, in a message of its own protocol. */
static void turn_away(struct serving *v, const struct greeting *client) {
  struct env *env = v->server->env;
  union {
    struct welcome welcome;
    struct old_welcome old;
  } out;
  emb_err err;
  struct greeting head = hello__head(sizeof out.welcome);
  int64_t process = env->process(env);
  int rc =
      hello__refuse(&err, v->server->store->core.dir, link__name(process).text,
                    process == v->who.process, &head, client);
  struct env_message answer = {.bytes = &out, .n = sizeof out.welcome};
  memset(&out, 0, sizeof out);
  if (client->protocol <= OLD_PROTOCOL) {
    answer.n = sizeof out.old;
    out.old.magic = SLOT_MAGIC;
    out.old.protocol = SLOT_VERSION;
    out.old.kind = MESSAGE_HELLO;
    out.old.code = rc;
    snprintf(out.old.text, sizeof out.old.text, "%s", err.text);
  } else {
    out.welcome.head = head;
    out.welcome.code = rc;
    snprintf(out.welcome.text, sizeof out.welcome.text, "%s", err.text);
  }
  (void)env->peer_send(env, v->peer, &answer);
  atomic_store(&v->gone, 1);
}

/* Is it valid lent memory, for a request and an answer too large for the
** slot? */
static int is_loan(const struct env_message *message) {
  const struct env_gift_in *asked = &message->gifts[0];
  const struct env_gift_in *answer = &message->gifts[1];
  return asked->kind == ENV_GIFT_FIXED && asked->shared.bytes <= LENT_MAX &&
         (answer->kind == ENV_GIFT_NONE || (answer->kind == ENV_GIFT_SHARED &&
                                            answer->shared.bytes <= LENT_MAX));
}

static void take_loan(struct serving *v, const struct env_message *message) {
  struct server *server = v->server;
  pthread_mutex_lock(&server->lock);
  if (v->is_lent) { /* only one loan at a time */
    serving__free_lent(server->env, v->lent);
  }
  v->lent[0] = message->gifts[0].shared;
  v->lent[1] = message->gifts[1].kind == ENV_GIFT_SHARED
                   ? message->gifts[1].shared
                   : (struct env_shared){0};
  v->is_lent = 1;
  pthread_cond_broadcast(&v->arrived);
  pthread_mutex_unlock(&server->lock);
}

static void free_gifts(struct env *env, struct env_message *message) {
  for (int i = 0; i < ENV_GIFTS_MAX; i++) {
    if (message->gifts[i].kind == ENV_GIFT_SHARED ||
        message->gifts[i].kind == ENV_GIFT_FIXED) {
      env->shared_free(env, &message->gifts[i].shared);
    }
  }
}

union incoming {
  struct hello hello;
  struct signal_message signal;
};

/* Handles a first message, of n bytes. */
static void message_receive(struct serving *v, union incoming *in, size_t n,
                            struct env_message *message) {
  int is_other = hello__is_other(in, n);
  int is_hello =
      is_other || (n == sizeof in->hello && in->signal.kind == MESSAGE_HELLO);
  if (!is_hello || !find_server(v, message)) {
    atomic_store(&v->gone, 1);
  } else if (is_other) {
    turn_away(v, &in->hello.head);
  } else {
    client_handshake(v, &in->hello, message);
  }
}

/* Handles a client's message; an unexpected message ends the client. */
void welcome__hear(struct serving *v) {
  struct env *env = hub__env(v->hub);
  union incoming in;
  struct env_message message = {.bytes = &in, .n = sizeof in};
  memset(&in, 0, sizeof in);
  int os = env->peer_receive(env, v->peer, &message, 0);
  if (os == EAGAIN) {
    return;
  }
  /* Of a longer message only the beginning was received. */
  size_t n = !os ? message.n : os == EMSGSIZE ? sizeof in : 0;
  uint32_t kind = os || n < sizeof in.signal ? 0 : in.signal.kind;
  if (kind == MESSAGE_PING) {
    in.signal.kind = MESSAGE_PONG;
    struct env_message pong = {.bytes = &in.signal, .n = sizeof in.signal};
    (void)env->peer_send(env, v->peer, &pong);
  } else if (!v->server) {
    message_receive(v, &in, n, &message);
  } else if (kind == MESSAGE_LOAN && v->slot && is_loan(&message)) {
    take_loan(v, &message);
    return;
  } else if (kind == MESSAGE_WAKE && v->slot) {
    serving__unpark(v);
  } else {
    atomic_store(&v->gone, 1);
  }
  if (!os) {
    free_gifts(env, &message);
  }
}
