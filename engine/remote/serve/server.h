/* SPDX-License-Identifier: MIT
**
** server.h -- serves a store to other processes, in the process that owns it.
*/
#ifndef EMB_SERVE_SERVER_H
#define EMB_SERVE_SERVER_H

#include "engine/table/session/session.h"

struct server;

/* Starts serving a store that this process has just come to own.  If that
** fails, *server is NULL and the error says why; others must then wait until
** this process closes the store. */
int server__start(emb_store *store, struct server **server, emb_err *err);
/* Lets running calls end, or aborts those that leave nothing behind; later
** requests get the answer that the owner has left.  Closes the clients'
** sessions; a prepared transaction stays in doubt. */
void server__stop(struct server *server);
/* Called after server__stop: clients may go elsewhere.  in_peace: nothing is
** lost. */
void server__end(struct server *server, int in_peace);
/* Publishes the values of emb_in_doubt and emb_is_dropped to the clients. */
void server__tell(struct server *server);

/* One session of another process. */
struct server_client {
  int64_t process, user;
  uint64_t number, since_s, calls;
  int readonly, in_transaction;
  const char *call; /* the call in progress, or NULL */
};
/* Fills in up to max clients and returns how many there are. */
size_t server__clients(struct server *server, struct server_client *clients,
                       size_t max);
/* local_clients, for any caller that has the store open. */
size_t server__list_clients(emb_store *store, emb_client *clients, size_t max);
/* Returns the number of calls carried out for all clients, past and present. */
uint64_t server__calls(struct server *server);

/* The socket.  A process that dies leaves it behind, and the next owner
** replaces it. */
extern const struct store_file file_socket;

#endif
