/* SPDX-License-Identifier: MIT
**
** env_life.c -- when the process of a peer ends.
**
** A descriptor of the process (pidfd) becomes readable when the process ends.
** All peers of a process share one, since hundreds of tables have hundreds of
** peers.  While a process lives, no other has its number, so the number
** identifies the process of a peer.  A process that is not visible from here
** (in a container) has no number, and each of its peers has its own descriptor.
**
** LOCK      lives_lock: the list, and which peers are in a watch.
** FORK      A child starts with an empty list; its parent's peers are not its
**           own.
** FAILURE   errno.
** THREADS   Any.
*/
#include "engine/base/debug.h"
#include "env_os.h"
#include "env_peer.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD /* the headers may be older than the kernel */
#define SO_PEERPIDFD 77
#endif

static pthread_mutex_t lives_lock = PTHREAD_MUTEX_INITIALIZER;
static struct env__life *lives; /* lives_lock */
static pthread_once_t lives_once = PTHREAD_ONCE_INIT;

static void lives_before_fork(void) { pthread_mutex_lock(&lives_lock); }
static void lives_after_fork(void) { pthread_mutex_unlock(&lives_lock); }
static void lives_in_child(void) {
  lives = NULL;
  pthread_mutex_unlock(&lives_lock);
}
static void lives_watch_forks(void) {
  (void)pthread_atfork(lives_before_fork, lives_after_fork, lives_in_child);
}

/* ---- finding ------------------------------------------------------------- */

static int has_ended(int fd) {
  struct pollfd ended = {.fd = fd, .events = POLLIN};
  return env__poll(&ended, 1, 0) == 0;
}

/* Finds the process by the socket (Linux 6.5), which also works for another
** container, whose processes have no number here; ESRCH: it has ended. */
static int life_by_socket(struct env_peer *peer, int *fd) {
  int got = -1;
  socklen_t bytes = sizeof got;
  if (getsockopt(peer->socket, SOL_SOCKET, SO_PEERPIDFD, &got, &bytes) != 0)
    return errno;
  int rc = env__own_fd(got, fd);
  if (rc == 0 && has_ended(*fd)) {
    (void)close(*fd);
    rc = ESRCH;
  }
  return rc;
}

/* As above, or else by its number.  *fd is -1 if the kernel or the container
** does not support pidfds. */
static int open_life(struct env_peer *peer, int *fd) {
  if (life_by_socket(peer, fd) == 0)
    return 0;
  *fd = -1;
  if (peer->who.process == 0)
    return 0;
  int rc = env__own_fd(
      (int)syscall(SYS_pidfd_open, (pid_t)peer->who.process, 0), fd);
  return rc == ENOSYS || rc == EPERM || rc == EINVAL ? 0 : rc;
}

/* Under the lock. */
static struct env__life *life_of(int64_t process) {
  struct env__life *life = process == 0 ? NULL : lives;
  while (life != NULL && (life->process != process || has_ended(life->fd)))
    life = life->next;
  return life;
}

/* Takes ownership of the descriptor.  Under the lock. */
static int life_add(struct env_peer *peer, int64_t process, int fd) {
  struct env__life *life = env__allocate(NULL, sizeof *life);
  if (life == NULL) {
    (void)close(fd);
    return ENOMEM;
  }
  life->process = process;
  life->fd = fd;
  life->peers = 1;
  life->next = lives;
  life->in_watch = (struct env__watched){.tag = life, .is_life = 1};
  lives = life;
  peer->life = life;
  emb_check(env__life_valid(life));
  return 0;
}

int env__life_find(struct env_peer *peer) {
  int rc = 0, fd = -1;
  (void)pthread_once(&lives_once, lives_watch_forks);
  pthread_mutex_lock(&lives_lock);
  struct env__life *life = life_of(peer->who.process);
  if (life != NULL) {
    life->peers++;
    peer->life = life;
    emb_check(env__life_valid(life));
  } else {
    rc = open_life(peer, &fd);
    if (rc == 0 && fd >= 0)
      rc = life_add(peer, peer->who.process, fd);
  }
  pthread_mutex_unlock(&lives_lock);
  return rc;
}

int env__life_ended(struct env_peer *peer) {
  int fd;
  int rc = env__own_fd(eventfd(1, EFD_CLOEXEC), &fd);
  if (rc != 0)
    return rc;
  pthread_mutex_lock(&lives_lock);
  rc = life_add(peer, 0, fd);
  pthread_mutex_unlock(&lives_lock);
  return rc;
}

void env__life_leave(struct env_peer *peer) {
  struct env__life *life = peer->life;
  if (life == NULL)
    return;
  pthread_mutex_lock(&lives_lock);
  (void)env__life_unwatch(peer); /* its watch was closed */
  int is_last = --life->peers == 0;
  struct env__life **at = &lives;
  while (is_last && *at != NULL && *at != life)
    at = &(*at)->next;
  if (is_last && *at == life)
    *at = life->next;
  pthread_mutex_unlock(&lives_lock);
  if (is_last) {
    (void)close(life->fd);
    env__release(NULL, life);
  }
}

/* ---- in a watch ---------------------------------------------------------- */

void env__lives_enter(void) { pthread_mutex_lock(&lives_lock); }
void env__lives_leave(void) { pthread_mutex_unlock(&lives_lock); }

int env__life_watch(struct env_peer *peer) {
  struct env__life *life = peer->life;
  if (life == NULL)
    return 0;
  emb_assert(!peer->at_watched);
  peer->next_watched = life->watched;
  peer->at_watched = &life->watched;
  if (life->watched != NULL)
    life->watched->at_watched = &peer->next_watched;
  life->watched = peer;
  emb_check(env__life_valid(life));
  return peer->next_watched == NULL;
}

int env__life_unwatch(struct env_peer *peer) {
  if (peer->life == NULL || peer->at_watched == NULL)
    return 0;
  *peer->at_watched = peer->next_watched;
  if (peer->next_watched != NULL)
    peer->next_watched->at_watched = peer->at_watched;
  peer->at_watched = NULL;
  emb_check(env__life_valid(peer->life));
  return peer->life->watched == NULL;
}

int env__life_tag(struct env__life *life, void **tag) {
  pthread_mutex_lock(&lives_lock);
  int is_watched = life->watched != NULL;
  if (is_watched)
    *tag = life->watched->watched.tag;
  pthread_mutex_unlock(&lives_lock);
  return is_watched;
}
