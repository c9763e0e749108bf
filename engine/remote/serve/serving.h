/* SPDX-License-Identifier: MIT
**
** serving.h -- an owner's clients: one struct serving for each session of
** another process; see serving.c.
*/
#ifndef EMB_SERVE_SERVING_H
#define EMB_SERVE_SERVING_H

#include "hub.h"
#include "run.h"
#include "server.h"

/* How often a thread whose client has gone is woken, until it has ended. */
#define WAKE_US 5000

struct kept { /* lent for the answer of a prefetch, until synchronized */
  struct kept *next;
  uint64_t ticket;
  struct env_shared memory;
};

/* Does a session have a thread? */
enum { SERVING_RUNS, SERVING_PARKED, SERVING_CLAIMED };

struct serving {
  struct hub *hub;
  struct server *server; /* NULL: the client has not named its store */
  struct serving *next;  /* server.lock; without a server: hub's thread */
  struct env_peer *peer;
  struct env_who who;
  uint64_t number, came_us, since_s;
  struct env_shared memory;
  struct link_slot *slot; /* NULL: the client has not said hello */
  uint32_t processor;     /* to which its thread is bound */
  char *copy;             /* of the request, SLOT_DATA_BYTES */
  emb_session *s;
  struct runner run;
  uint64_t moment_us; /* its thread: when run.moment was set */
  struct kept *kept;  /* its thread */
  void *thread;
  struct env_shared lent[2]; /* server.lock: for the request, the answer */
  int is_lent;               /* server.lock */
  pthread_cond_t arrived;    /* server.lock: is_lent */
  _Atomic int gone;          /* the client has gone; relaxed, the wake orders */
  _Atomic int ended;         /* its thread has ended; release, acquire */
  /* Its thread sets RUNS and PARKED; the hub's thread sets CLAIMED, by
  ** compare-and-swap from PARKED. */
  _Atomic int parked;
  _Atomic int again;      /* the running call can be retried; relaxed */
  _Atomic uint32_t call;  /* the running one, for server__clients; relaxed */
  _Atomic uint64_t calls; /* relaxed */
  _Atomic uint32_t holds; /* SLOT_HAS_*, after the last call; relaxed */
  uint32_t ended_tickets; /* its thread: number in slot->ended */
  int is_finishing;       /* its thread: finishing jobs of a leaving owner */
  int is_store;           /* a session for the store's calls, not a user's */
};

struct server {
  struct hub_server hub; /* first */
  emb_store *store;
  struct env *env;
  uint64_t log_id[2]; /* of the store's log, which a client must show */
  pthread_mutex_t lock;
  pthread_cond_t changed;  /* is_quiet or is_over was set */
  struct serving *clients; /* lock */
  int is_quiet;            /* lock: it is leaving, and no session runs */
  int end;                 /* lock: server__end has begun; 2: cleanly */
  int is_over;             /* lock: no client is left, and none will come */
  uint64_t calls_before;   /* lock: calls of clients that have gone */
  /* 1: leaving; 2: long enough that calls are aborted; 3: and that prepared
  ** transactions are left.  Relaxed, the wake orders. */
  _Atomic int leaving;
  /* Number of sessions with a transaction, and with a prepared one; relaxed. */
  _Atomic int txns, prepared;
  uint64_t last, left_us; /* the hub's thread */
  uint32_t since_s;
};

/* ---- server_valid.c ------------------------------------------------------ */

/* Only in self-checking builds (base/debug.h): return 1; called in the hub's
** thread.  server_valid is called under server.lock, and checks the server's
** clients, too; strangers_valid checks clients that have not said hello. */
int server_valid(const struct server *server);
int strangers_valid(const struct serving *first);

/* ---- serving.c: a client's calls ----------------------------------------- */

/* A session's thread.  If no thread can be started, this is called directly
** once `gone` is set, and only ends the session. */
void serving__thread(void *arg);
/* In the hub's thread: resumes a parked session. */
void serving__unpark(struct serving *v);
/* Publishes the values of emb_in_doubt and emb_is_dropped to all clients. */
void serving__tell(struct server *server);
/* Has the client gone? */
int serving__is_over(struct serving *v);
/* May a transaction still end in time?  Until it has, all sessions are served,
** including new ones: a COMMIT may wait for a reading statement to end, which
** must read here. */
int serving__awaits_txn(struct server *server);
/* Callbacks for the running call: should it stop?  A line of emb_verify's
** report. */
int serving__interrupted(void *arg);
void serving__report(void *arg, const char *line);
/* Frees the memory lent for a request and its answer. */
void serving__free_lent(struct env *env, struct env_shared lent[2]);
/* Called in the hub's thread, after the session's thread has ended. */
void serving__free(struct serving *v);

/* ---- welcome.c: clients that come ---------------------------------------- */

/* The list of clients that have not said hello.  In the hub's thread, as the
** two below. */
struct serving **welcome__strangers(struct hub *hub);
void welcome__accept(struct hub *hub, struct env_peer *peer);
/* Handles a client's message; an unexpected message ends the client. */
void welcome__hear(struct serving *v);

#endif
