/* SPDX-License-Identifier: MIT
**
** server.h -- the process that owns a store serves it to others.
*/
#ifndef EMB_SERVE_SERVER_H
#define EMB_SERVE_SERVER_H

#include "engine/table/session/session.h"

struct server;

/* Begins to serve a store that this process has just become the owner of; where
** it cannot, *server is NULL and the error says why, and others have to wait
** until this process closes the store. */
int server__start(emb_store *store, struct server **server, emb_err *err);
/* Calls that run end, or are broken off where that leaves nothing behind; what
** is asked from now on is answered that the owner has left.  Sessions of
** clients are closed; a transaction that is prepared stays in doubt. */
void server__stop(struct server *server);
/* After it: the clients may go elsewhere.  in_peace: nothing is lost. */
void server__end(struct server *server, int in_peace);
/* Clients are told what emb_in_doubt and emb_is_dropped say now. */
void server__tell(struct server *server);

/* One session of another process. */
struct server_client {
  int64_t process, user;
  uint64_t number, since_s, calls;
  int readonly, in_transaction;
  const char *call; /* what it does now, or NULL */
};
/* Fills up to max and returns how many there are. */
size_t server__clients(struct server *server, struct server_client *clients,
                       size_t max);
/* local_clients, for whoever has the store open. */
size_t server__list_clients(emb_store *store, emb_client *clients, size_t max);
/* Carried out for all that are and were there. */
uint64_t server__calls(struct server *server);

/* The socket, which a process that died leaves; the next one replaces it. */
extern const struct store_file file_socket;

#endif
