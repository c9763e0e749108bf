/* SPDX-License-Identifier: MIT
**
** hub_valid.c -- checks the servers and ports of a hub, as hub.h describes
** them.  Only in self-checking builds (base/debug.h).
*/
#include "hub_parts.h"

#if EMB_DEBUG > 0

/* Returns how many servers use the port. */
static uint64_t hub_port_users(const struct hub *hub,
                               const struct hub_port *port) {
  uint64_t n = 0;
  for (const struct hub_server *s = hub->servers; s; s = s->next) {
    n += s->port == port;
  }
  return n;
}

int hub_valid(const struct hub *hub) {
  uint64_t named = 0, servers = 0;
  for (const struct hub_port *port = hub->ports; port; port = port->next) {
    emb_assert(port->names == hub_port_users(hub, port));
    named += port->names;
  }
  for (const struct hub_server *s = hub->servers; s; s = s->next) {
    emb_assert(s->hub == hub);
    servers++;
  }
  emb_assert(named == servers); /* so each has a port of this hub */
  emb_assert(!hub->is_stopping || !hub->servers);
  return 1;
}

#endif
