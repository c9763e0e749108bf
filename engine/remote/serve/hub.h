/* SPDX-License-Identifier: MIT
**
** hub.h -- one thread of the process listens to the clients of all stores that
** the process owns.
**
** ROLE      A server (server.c) joins the hub of its process when its store
**           becomes owned.  The hub has the port, the watch and the thread.  A
**           peer that connects belongs to no store until it has said which
**           store it wants.
** PORT      One port has a name in the directory of each store, so an owned
**           table needs no descriptor for a port.  A directory on another file
**           system gets its own port.
** THREADS   `accepted`, `heard`, `sweep` and `idle` are called in the hub's
**           thread, one at a time; peers are added to the watch and removed
**           only there.  The other functions may be called by any thread,
**           except hub__leave, which the hub's thread must not call.
** LOCKS     hub.lock protects the list of servers and the ports.  It is held
**           while a server is swept, so a server that has left is never swept
**           again.
*/
#ifndef EMB_SERVE_HUB_H
#define EMB_SERVE_HUB_H

#include "engine/table/session/session.h"

struct hub;

/* The hub's part of a server. */
struct hub_server {
  struct hub_server *next; /* hub.lock */
  struct hub *hub;
  struct hub_port *port;
  uint64_t due_us;       /* the hub's thread: when to sweep it next */
  _Atomic int is_called; /* sweep it now; release, acquire */
};

struct hub_calls {
  /* A process has connected; the callee owns the peer. */
  void (*accepted)(struct hub *, struct env_peer *);
  /* An event, ENV_WATCH_*, of a peer watched with this tag. */
  void (*heard)(void *tag, int what);
  /* Returns the microseconds until the next sweep; UINT64_MAX: only when
  ** called. */
  uint64_t (*sweep)(struct hub_server *);
  /* As `sweep`, for peers that belong to no server; at_end: all must go. */
  uint64_t (*idle)(struct hub *, int at_end);
};

/* The callee's data on peers that belong to no server; hub's thread only. */
void **hub__own(struct hub *);
struct env *hub__env(struct hub *);

/* Gives the server a name in the directory, and sweeps it from now on. */
int hub__join(struct process *, const struct hub_calls *, struct env_dir *,
              const char *name, struct hub_server *);
void hub__leave(struct process *, struct hub_server *);
/* Requests a sweep soon. */
void hub__call(struct hub_server *);
int hub__watch(struct hub *, struct env_peer *, void *tag);
void hub__unwatch(struct hub *, struct env_peer *);
/* Called in `heard`: returns the first server for which `fits` is true. */
struct hub_server *hub__find(struct hub *,
                             int (*fits)(struct hub_server *, const void *),
                             const void *arg);

#endif
