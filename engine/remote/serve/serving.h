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

/* How often a thread is woken whose client has gone, until it has ended. */
#define WAKE_US 5000

struct kept { /* lent for the answer of a prefetch, until that is taken */
  struct kept *next;
  uint64_t ticket;
  struct env_shared memory;
};

/* Whether a session has a thread. */
enum { SERVING_RUNS, SERVING_PARKED, SERVING_CLAIMED };

struct serving {
  struct hub *hub;
  struct server *server; /* NULL: it has not said which store it wants */
  struct serving *next;  /* server.lock; without a server the hub's thread */
  struct env_peer *peer;
  struct env_who who;
  uint64_t number, came_us, since_s;
  struct env_shared memory;
  struct link_slot *slot; /* NULL: it has not said hello */
  uint32_t processor;     /* on which its thread stays */
  char *copy;             /* of the request, SLOT_DATA_BYTES */
  emb_session *s;
  struct runner run;
  uint64_t moment_us; /* its thread's: when run.moment was taken */
  struct kept *kept;  /* the same */
  void *thread;
  struct env_shared lent[2]; /* server.lock: what is asked, the answer */
  int is_lent;               /* server.lock */
  pthread_cond_t arrived;    /* server.lock: is_lent */
  _Atomic int gone;          /* the client has; relaxed, the wake orders */
  _Atomic int ended;         /* its thread has; release, acquire */
  /* Who sets it: its thread RUNS and PARKED, and the hub's CLAIMED, by
  ** compare-and-swap from PARKED. */
  _Atomic int parked;
  _Atomic int again;      /* the call that runs can be asked again; relaxed */
  _Atomic uint32_t call;  /* the one that runs, for server__clients; relaxed */
  _Atomic uint64_t calls; /* relaxed */
  _Atomic uint32_t holds; /* SLOT_HAS_*, after the last call; relaxed */
  uint32_t ended_tickets; /* its thread: in slot->ended */
  int is_finishing; /* its thread: the owner leaves, and ends what is begun */
  int is_store;     /* it asks what concerns the store: no user's session */
};

struct server {
  struct hub_server hub; /* first */
  emb_store *store;
  struct env *env;
  uint64_t log_id[2]; /* of the store's log: what a client shows */
  pthread_mutex_t lock;
  pthread_cond_t changed;  /* is_quiet or is_over was set */
  struct serving *clients; /* lock */
  int is_quiet;            /* lock: it leaves, and no session runs */
  int end;                 /* lock: server__end has begun; 2: in peace */
  int is_over;             /* lock: no client is left, and none comes */
  uint64_t calls_before;   /* lock: carried out for those that have gone */
  /* 2: for so long that calls are broken off, 3: and what is prepared is left;
  ** relaxed, the wake orders */
  _Atomic int leaving;
  /* Sessions with a transaction, and with one that is prepared; relaxed. */
  _Atomic int txns, prepared;
  uint64_t last, left_us; /* the hub's thread */
  uint32_t since_s;
};

/* ---- serving.c: a client's calls ----------------------------------------- */

/* Its thread.  Where none can be started, that is called instead once `gone` is
** set, and only ends the session. */
void serving__thread(void *arg);
/* In the hub's thread: a parked session goes on. */
void serving__unpark(struct serving *v);
/* All clients are told what emb_in_doubt and emb_is_dropped say now. */
void serving__tell(struct server *server);
/* The client has gone. */
int serving__is_over(struct serving *v);
/* A transaction may end in time.  Until then all sessions are served, and new
** ones: a COMMIT may wait for the end of a statement that reads, and has to
** read here. */
int serving__awaits_txn(struct server *server);
/* For the engine, of the call that runs: is it to stop?  What emb_verify finds.
 */
int serving__interrupted(void *arg);
void serving__report(void *arg, const char *line);
/* Both are given back. */
void serving__free_lent(struct env *env, struct env_shared lent[2]);
/* In the hub's thread, after its thread has ended. */
void serving__free(struct serving *v);

/* ---- welcome.c: clients that come ---------------------------------------- */

/* Those that have not said hello; the hub's thread, as the two below. */
struct serving **welcome__strangers(struct hub *hub);
void welcome__accept(struct hub *hub, struct env_peer *peer);
/* What it has sent; anything else ends it. */
void welcome__hear(struct serving *v);

#endif
