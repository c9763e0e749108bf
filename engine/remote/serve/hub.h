/* SPDX-License-Identifier: MIT
**
** hub.h -- one thread of the process hears the clients of all stores that the
** process owns.
**
** ROLE      A server (server.c) joins the hub of its process when its store
**           becomes owned.  The hub has the port, the watch and the thread; a
**           peer that calls belongs to no store until it has said which one it
**           wants.
** PORT      One port has a name in the directory of each store: an owned table
**           costs no descriptor for it.  A directory of another file system
**           gets a port of its own.
** THREADS   `accepted`, `heard`, `sweep` and `idle` are called in the hub's
**           thread, one at a time; only there is a peer put into the watch and
**           taken out.  The others may be called by any thread, but hub__leave
**           and hub__wait not by that one.
** LOCKS     hub.lock: the list of servers, and the ports.  It is held while a
**           server is swept, so one that has left is not swept any more.
*/
#ifndef EMB_SERVE_HUB_H
#define EMB_SERVE_HUB_H

#include "engine/table/session/session.h"

struct hub;

/* What of a server is the hub's. */
struct hub_server {
  struct hub_server *next; /* hub.lock */
  struct hub *hub;
  struct hub_port *port;
  uint64_t due_us;       /* the hub's thread: when it is to be swept */
  _Atomic int is_called; /* it is to be swept now; release, acquire */
};

struct hub_calls {
  /* A process has called; the peer is the callee's. */
  void (*accepted)(struct hub *, struct env_peer *);
  /* Of a peer that was watched with this tag: ENV_WATCH_*. */
  void (*heard)(void *tag, int what);
  /* Microseconds until the server is to be swept again, UINT64_MAX: when it is
  ** called. */
  uint64_t (*sweep)(struct hub_server *);
  /* The same of what belongs to no server; at_end: nothing of it may stay. */
  uint64_t (*idle)(struct hub *, int at_end);
};

/* What the callee keeps of peers that belong to no server; its thread's. */
void **hub__own(struct hub *);
struct env *hub__env(struct hub *);

/* The server has a name in the directory, and is swept from now on. */
int hub__join(struct process *, const struct hub_calls *, struct env_dir *,
              const char *name, struct hub_server *);
void hub__leave(struct process *, struct hub_server *);
/* It is to be swept soon. */
void hub__call(struct hub_server *);
int hub__watch(struct hub *, struct env_peer *, void *tag);
void hub__unwatch(struct hub *, struct env_peer *);
/* In `heard`: the first server of which fits is true. */
struct hub_server *hub__find(struct hub *,
                             int (*fits)(struct hub_server *, const void *),
                             const void *arg);

#endif
