/* SPDX-License-Identifier: MIT
**
** server.c -- the clients of a store that this process owns, from the first to
** the last; see server.h.
**
** welcome.c admits clients, and serving.c serves them.  This file frees clients
** that have ended [server_sweep], and starts and stops the server itself.
*/
#include "server.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "engine/storage/kernel/store_file.h"
#include "engine/table/store/dir.h"
#include "serving.h"

/* Time a client has to say hello. */
#define HELLO_US 5000000
/* Time that a leaving owner gives to calls that wait for something. */
#define LEAVE_US 2000000
/* Time that it gives to a prepared transaction: its COMMIT has begun, and if
** it is not over by then, others find it in doubt. */
#define LEAVE_PREPARED_US 30000000

/* Left behind by a process that died; the next owner replaces it. */
const struct store_file file_socket = {.name = FILE_SOCKET};

/* Counts calls of users, not those of a process on its own behalf. */
static uint64_t calls_of(struct serving *v) {
  return v->is_store ? 0
                     : atomic_load_explicit(&v->calls, memory_order_relaxed);
}

static void free_all(struct serving *v) {
  while (v) {
    struct serving *next = v->next;
    serving__free(v);
    v = next;
  }
}

/* For the hub: sweeps clients that have not said hello. */
static uint64_t sweep_strangers(struct hub *hub, int at_end) {
  struct env *env = hub__env(hub);
  uint64_t now = env->now_us(env);
  struct serving *ended = NULL, **at = welcome__strangers(hub);
  while (*at) {
    struct serving *v = *at;
    if (at_end || serving__is_over(v) || now - v->came_us > HELLO_US) {
      *at = v->next;
      v->next = ended;
      ended = v;
    } else {
      at = &v->next;
    }
  }
  free_all(ended);
  return *welcome__strangers(hub) ? HELLO_US : UINT64_MAX;
}

/* Advances `leaving` of a leaving server by its timeouts; returns the previous
** value. */
static int note_leaving(struct server *server) {
  struct env *env = server->env;
  uint64_t now = env->now_us(env);
  int leaving = atomic_load(&server->leaving);
  server->left_us = leaving && !server->left_us ? now : server->left_us;
  if (leaving == 1 && now - server->left_us > LEAVE_US) {
    atomic_store(&server->leaving, 2);
  } else if (leaving == 2 && now - server->left_us > LEAVE_PREPARED_US) {
    atomic_store(&server->leaving, 3);
  }
  return leaving;
}

/* Has the client ended, or failed to connect? */
static int is_to_be_freed(struct serving *v, int leaving) {
  if (!v->thread) {
    return !v->slot || atomic_load_explicit(&v->ended, memory_order_acquire);
  }
  return atomic_load_explicit(&v->ended, memory_order_acquire) &&
         !(leaving && !atomic_load(&v->gone));
}

/* Sets `left` in each slot before the sockets close: a client that sees only
** the socket closed knows that the owner has died. */
static struct serving *take_clients(struct server *server) {
  struct serving *all = server->clients;
  server->clients = NULL;
  for (struct serving *v = all; v; v = v->next) {
    if (v->slot) {
      atomic_store_explicit(&v->slot->left, server->end == 2,
                            memory_order_release);
    }
  }
  return all;
}

/* For the hub: frees clients that have ended, and wakes those that must end. */
static uint64_t server_sweep(struct hub_server *hub) {
  struct server *server = (struct server *)(void *)hub;
  struct env *env = server->env;
  uint64_t wait = UINT64_MAX;
  int leaving = note_leaving(server), sessions = 0;
  struct serving *ended = NULL;
  pthread_mutex_lock(&server->lock);
  for (struct serving **at = &server->clients; *at;) {
    struct serving *v = *at;
    if (is_to_be_freed(v, leaving)) {
      *at = v->next;
      v->next = ended;
      ended = v;
      server->calls_before += calls_of(v);
      continue;
    }
    int runs =
        v->thread && !atomic_load_explicit(&v->ended, memory_order_acquire);
    if (runs && (atomic_load(&v->gone) || leaving)) {
      pthread_mutex_unlock(&server->lock);
      serving__unpark(v);
      pthread_mutex_lock(&server->lock);
      env->word_wake(env, &v->slot->turn);
      pthread_cond_broadcast(&v->arrived);
      wait = WAKE_US;
    }
    sessions += runs;
    at = &v->next;
  }
  if (server->end && !server->is_over) {
    struct serving *all = take_clients(server);
    pthread_mutex_unlock(&server->lock);
    free_all(all);
    pthread_mutex_lock(&server->lock);
    emb_assert(!atomic_load(&server->txns) && !atomic_load(&server->prepared));
    server->is_over = 1;
  }
  server->is_quiet = leaving && !sessions;
  emb_check(server_valid(server));
  pthread_cond_broadcast(&server->changed);
  pthread_mutex_unlock(&server->lock);
  free_all(ended);
  return wait;
}

/* For the hub: handles an event of a peer. */
static void server_receive(void *tag, int what) {
  struct serving *v = tag;
  if (what & ENV_WATCH_GONE) {
    atomic_store(&v->gone, 1);
  } else if (!serving__is_over(v)) {
    welcome__hear(v);
  }
  if (serving__is_over(
          v)) { /* else the event repeats until its call has ended */
    hub__unwatch(v->hub, v->peer);
    if (v->server) {
      hub__call(&v->server->hub);
    }
  }
}

static const struct hub_calls server_calls_of_hub = {
    .accepted = welcome__accept,
    .heard = server_receive,
    .sweep = server_sweep,
    .idle = sweep_strangers,
};

/* ---- the server ---------------------------------------------------------- */

static void server_free(struct server *server) {
  pthread_mutex_destroy(&server->lock);
  pthread_cond_destroy(&server->changed);
  server->env->release(server->env, server);
}

/* *remote: the name of a file system that other machines may have mounted, or
** NULL. */
static int join_hub(struct server *server, const char **remote) {
  struct core *core = &server->store->core;
  struct env *env = core->env;
  struct env_about log;
  struct env_dir *names;
  int os = env->open_dir(env, core->dir, &names);
  if (os) {
    return os;
  }
  *remote = env->is_remote(env, names);
  os = *remote ? ENOTSUP : env->about(env, core->log.file, NULL, &log);
  if (!os) {
    memcpy(server->log_id, log.id, sizeof log.id);
    os = hub__join(core->process, &server_calls_of_hub, names, FILE_SOCKET,
                   &server->hub);
  }
  env->close_dir(env, names);
  return os;
}

int server__start(emb_store *store, struct server **out, emb_err *err) {
  struct env *env = store->core.env;
  struct server *server = env->allocate(env, sizeof *server);
  const char *remote = NULL;
  *out = NULL;
  if (!server) {
    return err_set(err, EMB_NOMEM, "out of memory");
  }
  server->store = store;
  server->env = env;
  server->since_s = env->wall_s(env);
  pthread_mutex_init(&server->lock, NULL);
  pthread_cond_init(&server->changed, NULL);
  int os = join_hub(server, &remote);
  if (os) {
    server_free(server);
    return remote ? err_set(err, EMB_CANTOPEN,
                            "%s is on %s: only one process can use it",
                            store->core.dir, remote)
                  : err_os(err, EMB_CANTOPEN, os, "cannot serve %s",
                           store->core.dir);
  }
  *out = server;
  return EMB_OK;
}

void server__stop(struct server *server) {
  atomic_store(&server->leaving, 1);
  hub__call(&server->hub);
  pthread_mutex_lock(&server->lock);
  while (!server->is_quiet) {
    pthread_cond_wait(&server->changed, &server->lock);
  }
  pthread_mutex_unlock(&server->lock);
}

void server__end(struct server *server, int in_peace) {
  pthread_mutex_lock(&server->lock);
  emb_assert(server->is_quiet && !server->end);
  server->end = in_peace ? 2 : 1;
  pthread_mutex_unlock(&server->lock);
  hub__call(&server->hub);
  pthread_mutex_lock(&server->lock);
  while (!server->is_over) {
    pthread_cond_wait(&server->changed, &server->lock);
  }
  pthread_mutex_unlock(&server->lock);
  hub__leave(server->store->core.process, &server->hub);
  server_free(server);
}

void server__tell(struct server *server) { serving__tell(server); }

uint64_t server__calls(struct server *server) {
  pthread_mutex_lock(&server->lock);
  uint64_t calls = server->calls_before;
  for (struct serving *v = server->clients; v; v = v->next) {
    calls += calls_of(v);
  }
  pthread_mutex_unlock(&server->lock);
  return calls;
}

size_t server__clients(struct server *server, struct server_client *clients,
                       size_t max) {
  size_t n = 0;
  pthread_mutex_lock(&server->lock);
  for (struct serving *v = server->clients; v; v = v->next) {
    if (!v->slot || v->is_store || atomic_load(&v->gone)) {
      continue;
    }
    uint32_t call = atomic_load_explicit(&v->call, memory_order_relaxed);
    if (n < max) {
      clients[n] = (struct server_client){
          .process = v->who.process,
          .user = v->who.user,
          .number = v->number,
          .since_s = v->since_s,
          .calls = atomic_load_explicit(&v->calls, memory_order_relaxed),
          .readonly = v->run.readonly,
          .in_transaction =
              (atomic_load_explicit(&v->holds, memory_order_relaxed) &
               (SLOT_HAS_TXN | SLOT_HAS_PREPARED)) != 0,
          .call = call && call < CALLS ? shapes[call].name : NULL};
    }
    n++;
  }
  pthread_mutex_unlock(&server->lock);
  return n;
}
