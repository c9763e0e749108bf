/* SPDX-License-Identifier: MIT
**
** hub_parts.h -- struct hub, for hub.c and its validity function.
*/
#ifndef EMB_SERVE_HUB_PARTS_H
#define EMB_SERVE_HUB_PARTS_H

#include "hub.h"

struct hub_port {
  struct hub_port *next;
  struct env_port *port;
  uint64_t names; /* number of servers using it */
};

struct hub {
  struct env *env;
  const struct hub_calls *calls;
  struct env_watch *watch;
  void *thread;
  void *own; /* the callee's */
  pthread_mutex_t lock;
  struct hub_server *servers; /* lock */
  struct hub_port *ports;     /* lock */
  int is_stopping;            /* lock */
};

/* Only in self-checking builds (base/debug.h): returns 1; called under the
** lock. */
int hub_valid(const struct hub *hub);

#endif
