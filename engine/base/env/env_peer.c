/* SPDX-License-Identifier: MIT
**
** env_peer.c -- ports and peers: sockets between processes of one machine.
**
** A port is a listening socket of type SEQPACKET, which preserves message
** boundaries; a peer is a connected one.  A socket's name has at most 108
** bytes, so it is reached through /proc/self/fd/<directory>, however long its
** path is.
**
** The end of a process does not always close its sockets: a child may have
** inherited them.  So a peer also knows whether its process lives (env_life.c);
** if the system cannot say, the state of the socket must suffice.
**
** INVARIANT 1. No object is followed or changed through its name, only the name
**              itself: in a directory that others can write, it may name
**              anything.
**           2. All sockets are non-blocking; only env__poll waits.
** FAILURE   errno.
** THREADS   Any.
*/
#include "env_peer.h"
#include "env_os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* While a process is stopped, the callers of all its tables queue here. */
#define BACKLOG 512
#define SOCKET_FLAGS (SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK)

/* Room for /proc/self/fd/ and a number. */
#define PROC_BYTES 32

static int address_of(const struct env_dir *dir, const char *name,
                      struct sockaddr_un *address) {
  *address = (struct sockaddr_un){.sun_family = AF_UNIX};
  if (name[0] == '\0' || strchr(name, '/') != NULL)
    return EINVAL;
  int n = snprintf(address->sun_path, sizeof address->sun_path,
                   "/proc/self/fd/%d/%s", dir->fd, name);
  return n < 0 || (size_t)n >= sizeof address->sun_path ? ENAMETOOLONG : 0;
}

/* ---- ports --------------------------------------------------------------- */

/* Opens the socket to all users, whatever the umask; by way of its descriptor,
** so that a link that has replaced the name is not followed. */
static int open_to_all(int fd) {
  char path[PROC_BYTES];
  struct stat st;
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  if (fstat(fd, &st) != 0)
    return errno;
  if (!S_ISSOCK(st.st_mode))
    return EADDRINUSE;
  return chmod(path, 0666) != 0 ? errno : 0;
}

static int unname_port(const struct env_dir *dir, const char *name) {
  return unlinkat(dir->fd, name, 0) != 0 && errno != ENOENT ? errno : 0;
}

static int listen_at(struct env_port *port, struct env_dir *dir,
                     const char *name) {
  struct sockaddr_un address;
  int rc = address_of(dir, name, &address);
  if (rc == 0)
    rc = unname_port(dir, name);
  if (rc == 0 && bind(port->socket, (const struct sockaddr *)&address,
                      sizeof address) != 0)
    rc = errno;
  if (rc == 0)
    rc = env__own_fd(openat(dir->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC),
                     &port->inode);
  if (rc == 0)
    rc = open_to_all(port->inode);
  if (rc == 0 && listen(port->socket, BACKLOG) != 0)
    rc = errno;
  return rc;
}

int env__port_open(struct env *env, struct env_dir *dir, const char *name,
                   struct env_port **out) {
  struct env_port *port = env__allocate(env, sizeof *port);
  if (port == NULL)
    return ENOMEM;
  port->socket = port->inode = -1;
  int rc = env__own_fd(socket(AF_UNIX, SOCKET_FLAGS, 0), &port->socket);
  if (rc == 0)
    rc = listen_at(port, dir, name);
  if (rc != 0)
    env__port_close(env, port);
  else
    *out = port;
  return rc;
}

/* Connecting finds a socket by its inode, so every name leads to the same
** socket. */
int env__port_link(struct env *env, struct env_port *port, struct env_dir *dir,
                   const char *name) {
  char path[PROC_BYTES];
  (void)env;
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", port->inode);
  int rc = unname_port(dir, name);
  return rc == 0 &&
                 linkat(AT_FDCWD, path, dir->fd, name, AT_SYMLINK_FOLLOW) != 0
             ? errno
             : rc;
}

void env__port_close(struct env *env, struct env_port *port) {
  if (port->socket >= 0)
    (void)close(port->socket);
  if (port->inode >= 0)
    (void)close(port->inode);
  env__release(env, port);
}

/* ---- peers --------------------------------------------------------------- */

static int find_user(struct env_peer *peer) {
  struct ucred system;
  socklen_t bytes = sizeof system;
  if (getsockopt(peer->socket, SOL_SOCKET, SO_PEERCRED, &system, &bytes) != 0)
    return errno;
  peer->who = (struct env_who){.process = system.pid > 0 ? system.pid : 0,
                               .user = system.uid,
                               .is_same_user =
                                   system.uid == geteuid() || system.uid == 0};
  return 0;
}

/* Takes ownership of a connected socket; closes it after an error. */
static int peer_make(struct env *env, int fd, int is_caller,
                     struct env_peer **out) {
  struct env_peer *peer = env__allocate(env, sizeof *peer);
  int rc = peer == NULL ? ENOMEM : 0;
  if (rc == 0) {
    peer->socket = fd;
    rc = find_user(peer);
  }
  if (rc == 0)
    rc = env__life_find(peer);
  /* A caller that has ended may have sent messages before.  If the port's
  ** process has ended, a child has the socket and will not answer. */
  if (rc == ESRCH)
    rc = is_caller ? env__life_ended(peer) : ECONNREFUSED;
  if (rc != 0) {
    (void)close(fd);
    env__release(env, peer);
  } else {
    *out = peer;
  }
  return rc;
}

int env__port_accept(struct env *env, struct env_port *port,
                     struct env_peer **out) {
  int got, fd;
  do
    got = accept4(port->socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  while (got < 0 && (errno == EINTR || errno == ECONNABORTED));
  int rc = env__own_fd(got, &fd);
  return rc != 0 ? rc : peer_make(env, fd, 1, out);
}

int env__peer_open(struct env *env, struct env_dir *dir, const char *name,
                   struct env_peer **out) {
  struct sockaddr_un address;
  int fd, rc = address_of(dir, name, &address);
  if (rc == 0)
    rc = env__own_fd(socket(AF_UNIX, SOCKET_FLAGS, 0), &fd);
  if (rc != 0)
    return rc;
  if (connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
    rc = errno;
    (void)close(fd);
    return rc;
  }
  return peer_make(env, fd, 0, out);
}

void env__peer_close(struct env *env, struct env_peer *peer) {
  (void)close(peer->socket);
  env__life_leave(peer);
  env__release(env, peer);
}

void env__peer_who(struct env *env, struct env_peer *peer,
                   struct env_who *who) {
  (void)env;
  *who = peer->who;
}

int env__peer_wait(struct env_peer *peer, uint64_t wait_us, int *ended) {
  /* poll() ignores a negative descriptor. */
  struct pollfd fds[2] = {{.fd = peer->socket, .events = POLLIN},
                          {.fd = env__life_fd(peer), .events = POLLIN}};
  int rc = env__poll(fds, 2, wait_us);
  *ended = rc == 0 && fds[1].revents != 0;
  return rc;
}

int env__peer_gone(struct env *env, struct env_peer *peer) {
  struct pollfd fds[2] = {{.fd = peer->socket, .events = POLLRDHUP},
                          {.fd = env__life_fd(peer), .events = POLLIN}};
  (void)env;
  return env__poll(fds, 2, 0) == 0;
}
