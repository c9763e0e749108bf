/* SPDX-License-Identifier: MIT
**
** env_peer.h -- the part of the table for other processes: ports, peers,
** messages, watches, shared memory.  Contracts in env.h.  Private to
** engine/base/env.
*/
#ifndef EMB_ENV_PEER_H
#define EMB_ENV_PEER_H

#include "env.h"

/* A descriptor in a watch, which reports this struct's address with each
** event. */
struct env__watched {
  void *tag;
  int is_life;
};

struct env_port {
  int socket;
  int inode; /* of its names (O_PATH); -1: unknown */
  struct env__watched watched;
};

/* The process at the other end, shared by all its peers: one descriptor. */
struct env__life {
  struct env__life *next; /* in the list of lives; its lock guards all this */
  uint64_t peers;
  int64_t process; /* 0: it has no number here; the life has only one peer */
  int fd;          /* readable once the process has ended */
  /* Its peers in a watch: while there are any, the life is in it, too. */
  struct env_peer *watched;
  struct env__watched in_watch;
};

/* Immutable, except for the fields that env__watch_peer sets before the first
** event. */
struct env_peer {
  int socket;
  struct env__life *life; /* NULL: the end of the process cannot be seen */
  struct env_who who;
  struct env__watched watched;
  struct env_peer *next_watched, **at_watched; /* lives_lock */
};

/* env_life.c */
/* Finds the life of the peer's process, or creates it; ESRCH: it has ended. */
int env__life_find(struct env_peer *);
/* Gives the peer a life that has already ended. */
int env__life_ended(struct env_peer *);
void env__life_leave(struct env_peer *);
static inline int env__life_fd(const struct env_peer *peer) {
  return peer->life ? peer->life->fd : -1;
}
/* The lock for adding peers and lives to a watch and removing them. */
void env__lives_enter(void);
void env__lives_leave(void);
/* Notes that the peer is in the watch; 1: it is the first, so the caller must
** add its life.  Under the lock. */
int env__life_watch(struct env_peer *);
/* The reverse; 1: it was the last, so the caller must remove the life.  Under
** the lock. */
int env__life_unwatch(struct env_peer *);
/* Gets the tag of a watched peer of an ended life; 0: none is left. */
int env__life_tag(struct env__life *, void **tag);
/* Only in self-checking builds (base/debug.h): returns 1; under the lock. */
int env__life_valid(const struct env__life *);

/* env_peer.c */
int env__port_open(struct env *, struct env_dir *, const char *name,
                   struct env_port **);
int env__port_link(struct env *, struct env_port *, struct env_dir *,
                   const char *name);
void env__port_close(struct env *, struct env_port *);
int env__port_accept(struct env *, struct env_port *, struct env_peer **);
int env__peer_open(struct env *, struct env_dir *, const char *name,
                   struct env_peer **);
void env__peer_close(struct env *, struct env_peer *);
void env__peer_who(struct env *, struct env_peer *, struct env_who *);
int env__peer_gone(struct env *, struct env_peer *);
/* Waits until something can be received or the peer has gone; EAGAIN: the time
** is over.  *ended: whether its process has ended. */
int env__peer_wait(struct env_peer *, uint64_t wait_us, int *ended);

/* env_message.c */
int env__peer_send(struct env *, struct env_peer *, const struct env_message *);
int env__peer_receive(struct env *, struct env_peer *, struct env_message *,
                      uint64_t wait_us);

/* env_watch.c */
int env__watch_open(struct env *, struct env_watch **);
void env__watch_close(struct env *, struct env_watch *);
int env__watch_port(struct env *, struct env_watch *, struct env_port *,
                    void *tag);
int env__watch_peer(struct env *, struct env_watch *, struct env_peer *,
                    void *tag);
void env__unwatch_peer(struct env *, struct env_watch *, struct env_peer *);
void env__unwatch_port(struct env *, struct env_watch *, struct env_port *);
int env__watch_wait(struct env *, struct env_watch *, uint64_t wait_us,
                    void **tag, int *what);
void env__watch_wake(struct env *, struct env_watch *);

/* env_shared.c */
int env__shared_make(struct env *, size_t bytes, struct env_shared *);
int env__shared_fix(struct env *, struct env_shared *);
void env__shared_sent(struct env *, struct env_shared *);
void env__shared_free(struct env *, struct env_shared *);
/* Maps the memory of a descriptor from another process; EPROTO if it was not
** made as by env__shared_make or, for is_fixed, env__shared_fix.  The caller
** closes the descriptor. */
int env__shared_take(int fd, int is_fixed, struct env_shared *);
void env__word_wait(struct env *, _Atomic uint32_t *word, uint32_t is,
                    uint64_t wait_us);
void env__word_wake(struct env *, _Atomic uint32_t *word);

#endif
