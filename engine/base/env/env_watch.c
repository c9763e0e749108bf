/* SPDX-License-Identifier: MIT
**
** env_watch.c -- waits for several ports and peers.
**
** An epoll with one descriptor for each port and peer, and one for each
** process, shared by all its peers (env_life.c); and an eventfd that wakes the
** waiting thread.  Events are taken one at a time, and removing a descriptor
** from the epoll removes its events, so no pending event can name a peer that
** is no longer watched.  The end of a process is reported for its peers one
** after another.
**
** FAILURE   errno.
** THREADS   One thread waits and removes peers; any thread may add and wake.
*/
#include "env_os.h"
#include "env_peer.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct env_watch {
  int epoll, wake;
};

/* watched: NULL for the eventfd. */
static int watch_add(struct env_watch *watch, int fd,
                     struct env__watched *watched) {
  struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP,
                              .data.ptr = watched};
  return epoll_ctl(watch->epoll, EPOLL_CTL_ADD, fd, &event) != 0 ? errno : 0;
}

/* close() is not enough: a child may have inherited the descriptor. */
static void watch_drop(struct env_watch *watch, int fd) {
  struct epoll_event unused = {0};
  (void)epoll_ctl(watch->epoll, EPOLL_CTL_DEL, fd, &unused);
}

int env__watch_open(struct env *env, struct env_watch **out) {
  struct env_watch *watch = env__allocate(env, sizeof *watch);
  if (watch == NULL)
    return ENOMEM;
  watch->epoll = watch->wake = -1;
  int rc = env__own_fd(epoll_create1(EPOLL_CLOEXEC), &watch->epoll);
  if (rc == 0)
    rc = env__own_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), &watch->wake);
  if (rc == 0)
    rc = watch_add(watch, watch->wake, NULL);
  if (rc != 0)
    env__watch_close(env, watch);
  else
    *out = watch;
  return rc;
}

void env__watch_close(struct env *env, struct env_watch *watch) {
  if (watch->wake >= 0)
    (void)close(watch->wake);
  if (watch->epoll >= 0)
    (void)close(watch->epoll);
  env__release(env, watch);
}

int env__watch_port(struct env *env, struct env_watch *watch,
                    struct env_port *port, void *tag) {
  (void)env;
  port->watched = (struct env__watched){.tag = tag};
  return watch_add(watch, port->socket, &port->watched);
}

int env__watch_peer(struct env *env, struct env_watch *watch,
                    struct env_peer *peer, void *tag) {
  (void)env;
  peer->watched = (struct env__watched){.tag = tag};
  env__lives_enter();
  int rc = watch_add(watch, peer->socket, &peer->watched);
  if (rc == 0 && env__life_watch(peer)) {
    rc = watch_add(watch, peer->life->fd, &peer->life->in_watch);
    if (rc != 0) {
      (void)env__life_unwatch(peer);
      watch_drop(watch, peer->socket);
    }
  }
  env__lives_leave();
  return rc;
}

void env__unwatch_peer(struct env *env, struct env_watch *watch,
                       struct env_peer *peer) {
  (void)env;
  watch_drop(watch, peer->socket);
  env__lives_enter();
  if (env__life_unwatch(peer))
    watch_drop(watch, peer->life->fd);
  env__lives_leave();
}

void env__unwatch_port(struct env *env, struct env_watch *watch,
                       struct env_port *port) {
  (void)env;
  watch_drop(watch, port->socket);
}

int env__watch_wait(struct env *env, struct env_watch *watch, uint64_t wait_us,
                    void **tag, int *what) {
  struct pollfd fd = {.fd = watch->epoll, .events = POLLIN};
  struct epoll_event event;
  (void)env;
  int rc = env__poll(&fd, 1, wait_us);
  if (rc != 0)
    return rc;
  int n = epoll_wait(watch->epoll, &event, 1, 0);
  if (n < 0 && errno != EINTR)
    return errno;
  if (n < 1) /* an earlier event has ended this one */
    return EAGAIN;
  const struct env__watched *watched = event.data.ptr;
  if (watched == NULL) {
    uint64_t count;
    (void)!read(watch->wake, &count, sizeof count);
    return EAGAIN;
  }
  if (!watched->is_life)
    *tag = watched->tag;
  else if (!env__life_tag(watched->tag, tag))
    return EAGAIN;
  *what = watched->is_life || event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)
              ? ENV_WATCH_GONE
              : ENV_WATCH_MESSAGE;
  return 0;
}

void env__watch_wake(struct env *env, struct env_watch *watch) {
  uint64_t one = 1;
  (void)env;
  /* Fails only if 2^64 wakes are unread. */
  (void)!write(watch->wake, &one, sizeof one);
}
