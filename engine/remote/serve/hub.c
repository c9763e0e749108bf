/* SPDX-License-Identifier: MIT
**
** hub.c -- see hub.h.
**
** STATES    created when the first server joins.  When the last server has
**           left, its thread ends and frees everything.
** FORK      A child process has no hub thread, so it starts with a hub of its
**           own.  The hub is kept in the data shared by the stores of a process
**           (process/process.h).
** FAILURE   If the hub cannot be created, the server is not created either:
**           errno.
*/
#include "hub_parts.h"

#include <errno.h>

#define RETRY_US 5000 /* after an error of the watch or the port */

void **hub__own(struct hub *hub) { return &hub->own; }
struct env *hub__env(struct hub *hub) {
  return hub->env;
}

/* ---- the thread ---------------------------------------------------------- */

/* Closes the ports without a name.  Under the lock. */
static void close_ports(struct hub *hub) {
  struct hub_port **at = &hub->ports;
  while (*at) {
    struct hub_port *port = *at;
    if (port->names) {
      at = &port->next;
      continue;
    }
    *at = port->next;
    hub->env->unwatch_port(hub->env, hub->watch, port->port);
    hub->env->port_close(hub->env, port->port);
    hub->env->release(hub->env, port);
  }
}

/* Sweeps the servers that are due; returns how long to wait.  Under the
** lock. */
static uint64_t hub_sweep(struct hub *hub) {
  struct env *env = hub->env;
  uint64_t now = env->now_us(env), wait_us = hub->calls->idle(hub, 0);
  for (struct hub_server *s = hub->servers; s; s = s->next) {
    if (atomic_exchange_explicit(&s->is_called, 0, memory_order_acquire) ||
        s->due_us <= now) {
      uint64_t us = hub->calls->sweep(s);
      s->due_us = us == UINT64_MAX ? us : env->now_us(env) + us;
    }
    uint64_t left = s->due_us == UINT64_MAX ? UINT64_MAX
                    : s->due_us > now       ? s->due_us - now
                                            : 0;
    wait_us = left < wait_us ? left : wait_us;
  }
  close_ports(hub);
  return wait_us;
}

/* Does the tag belong to a port? */
static int is_port(struct hub *hub, const void *tag) {
  pthread_mutex_lock(&hub->lock);
  const struct hub_port *port = hub->ports;
  while (port && port != tag) {
    port = port->next;
  }
  pthread_mutex_unlock(&hub->lock);
  return port != NULL;
}

static void hub_accept(struct hub *hub, struct hub_port *port) {
  struct env *env = hub->env;
  struct env_peer *peer;
  int os = env->port_accept(env, port->port, &peer);
  if (os == 0) {
    hub->calls->accepted(hub, peer);
  } else if (os != EAGAIN) {
    env->sleep_us(env, RETRY_US); /* e.g. no descriptors: still pending */
  }
}

static void hub_thread(void *arg) {
  struct hub *hub = arg;
  struct env *env = hub->env;
  for (;;) {
    pthread_mutex_lock(&hub->lock);
    uint64_t wait_us = hub_sweep(hub);
    int is_stopping = hub->is_stopping;
    pthread_mutex_unlock(&hub->lock);
    if (is_stopping) {
      break;
    }
    void *tag = NULL;
    int what = 0;
    int os = env->watch_wait(env, hub->watch, wait_us, &tag, &what);
    if (os) {
      if (os != EAGAIN) {
        env->sleep_us(env, RETRY_US);
      }
    } else if (is_port(hub, tag)) {
      hub_accept(hub, tag);
    } else {
      hub->calls->heard(tag, what);
    }
  }
  (void)hub->calls->idle(hub, 1);
}

/* ---- the hub ------------------------------------------------------------- */

static void hub_free(struct hub *hub) {
  struct env *env = hub->env;
  emb_assert(!hub->servers && !hub->own);
  if (hub->watch) {
    env->watch_close(env, hub->watch);
  }
  while (hub->ports) {
    struct hub_port *port = hub->ports;
    hub->ports = port->next;
    env->port_close(env, port->port);
    env->release(env, port);
  }
  pthread_mutex_destroy(&hub->lock);
  env->release(env, hub);
}

static int hub_new(struct env *env, const struct hub_calls *calls,
                   struct hub **out) {
  struct hub *hub = env->allocate(env, sizeof *hub);
  if (!hub) {
    return ENOMEM;
  }
  hub->env = env;
  hub->calls = calls;
  pthread_mutex_init(&hub->lock, NULL);
  int os = env->watch_open(env, &hub->watch);
  os = os ? os : env->thread_start(env, hub_thread, hub, &hub->thread);
  if (os) {
    hub_free(hub);
    return os;
  }
  *out = hub;
  return 0;
}

static void hub_end(struct hub *hub) {
  struct env *env = hub->env;
  pthread_mutex_lock(&hub->lock);
  emb_assert(!hub->is_stopping);
  hub->is_stopping = 1;
  pthread_mutex_unlock(&hub->lock);
  env->watch_wake(env, hub->watch);
  env->thread_join(env, hub->thread);
  hub_free(hub);
}

/* Opens a port for this directory.  Under the lock. */
static int open_port(struct hub *hub, struct env_dir *names, const char *name,
                     struct hub_port **out) {
  struct env *env = hub->env;
  struct hub_port *port = env->allocate(env, sizeof *port);
  if (!port) {
    return ENOMEM;
  }
  int os = env->port_open(env, names, name, &port->port);
  if (os) {
    env->release(env, port);
    return os;
  }
  /* Before it is watched, so that its tag is recognised as a port's. */
  port->next = hub->ports;
  hub->ports = port;
  os = env->watch_port(env, hub->watch, port->port, port);
  if (os) {
    hub->ports = port->next;
    env->port_close(env, port->port);
    env->release(env, port);
    return os;
  }
  *out = port;
  return 0;
}

/* Under the lock. */
static int find_port(struct hub *hub, struct env_dir *names, const char *name,
                     struct hub_port **out) {
  for (struct hub_port *port = hub->ports; port; port = port->next) {
    if (hub->env->port_link(hub->env, port->port, names, name) == 0) {
      *out = port;
      return 0;
    }
  }
  return open_port(hub, names, name, out);
}

int hub__join(struct process *process, const struct hub_calls *calls,
              struct env_dir *names, const char *name, struct hub_server *s) {
  struct hub *hub = process_hub_enter(process);
  int is_new = !hub;
  int os = hub ? 0 : hub_new(process_env(process), calls, &hub);
  if (!os) {
    pthread_mutex_lock(&hub->lock);
    os = find_port(hub, names, name, &s->port);
    if (!os) {
      s->port->names++;
      s->hub = hub;
      s->due_us = UINT64_MAX;
      s->next = hub->servers;
      hub->servers = s;
    }
    emb_check(hub_valid(hub));
    pthread_mutex_unlock(&hub->lock);
  }
  if (os && is_new && hub) {
    hub_end(hub);
    hub = NULL;
  }
  process_hub_leave(process, hub);
  return os;
}

void hub__leave(struct process *process, struct hub_server *s) {
  struct hub *hub = process_hub_enter(process);
  emb_assert(hub == s->hub);
  pthread_mutex_lock(&hub->lock);
  struct hub_server **at = &hub->servers;
  while (*at != s) {
    at = &(*at)->next;
  }
  *at = s->next;
  emb_assert(s->port->names > 0);
  s->port->names--;
  emb_check(hub_valid(hub));
  int is_last = !hub->servers;
  pthread_mutex_unlock(&hub->lock);
  if (is_last) {
    hub_end(hub);
    hub = NULL;
  } else {
    hub->env->watch_wake(hub->env, hub->watch); /* to close its port */
  }
  process_hub_leave(process, hub);
}

void hub__call(struct hub_server *s) {
  struct env *env = s->hub->env;
  atomic_store_explicit(&s->is_called, 1, memory_order_release);
  env->watch_wake(env, s->hub->watch);
}

int hub__watch(struct hub *hub, struct env_peer *peer, void *tag) {
  return hub->env->watch_peer(hub->env, hub->watch, peer, tag);
}

void hub__unwatch(struct hub *hub, struct env_peer *peer) {
  hub->env->unwatch_peer(hub->env, hub->watch, peer);
}

struct hub_server *hub__find(struct hub *hub,
                             int (*fits)(struct hub_server *, const void *),
                             const void *arg) {
  pthread_mutex_lock(&hub->lock);
  struct hub_server *s = hub->servers;
  while (s && !fits(s, arg)) {
    s = s->next;
  }
  pthread_mutex_unlock(&hub->lock);
  return s;
}
