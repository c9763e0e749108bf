/* SPDX-License-Identifier: MIT
**
** env_message.c -- sends and receives a message with its gifts.
**
** A message is one packet: a head of 8 bytes, and the caller's bytes.  The
** gifts' descriptors go with it (SCM_RIGHTS), in the order of the head's kinds.
**
** The other process may belong to anyone, and may send anything.  So a packet
** is refused as a whole unless it has exactly the descriptors that its head
** names, each of the right kind.
**
** INVARIANT A received descriptor is closed before env__peer_receive returns,
**           whatever it returns: only the mapping of memory, or the identity
**           of a file, is kept.
** FAILURE   errno; EPROTO for a packet not sent by env__peer_send.
** THREADS   Any.
*/
#include "env_os.h"
#include "env_peer.h"
#include "env_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#define HEAD_MAGIC UINT32_C(0x31626d65) /* "emb1" */

/* Stays on one machine, so its byte order is the machine's. */
struct message_head {
  uint32_t magic;
  uint8_t kinds[ENV_GIFTS_MAX]; /* enum env_gift */
  uint8_t zero[2];
};
_Static_assert(sizeof(struct message_head) == 8, "no padding");

union message_control {
  char bytes[CMSG_SPACE(ENV_GIFTS_MAX * sizeof(int))];
  struct cmsghdr aligned;
};

/* ---- sending ------------------------------------------------------------- */

/* The descriptor to send; -1: the gift cannot be sent. */
static int gift_fd(const struct env_gift_in *gift) {
  int fd = gift->shared.base != NULL ? gift->shared.fd : -1;
  switch (gift->kind) {
  case ENV_GIFT_SHARED:
    /* After this no receiver can seal the memory against the others. */
    if (fd >= 0)
      (void)fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL);
    return fd;
  case ENV_GIFT_FIXED:
    return fd >= 0 && fcntl(fd, F_GET_SEALS) & F_SEAL_WRITE ? fd : -1;
  case ENV_GIFT_FILE:
    return gift->file->fd;
  default:
    return -1;
  }
}

static int send_error(int error) {
  switch (error) {
  case ECONNRESET:
  case ECONNREFUSED:
  case ENOTCONN:
    return EPIPE;
  case ETOOMANYREFS: /* too many descriptors in flight */
    return EAGAIN;
  default:
    return error;
  }
}

int env__peer_send(struct env *env, struct env_peer *peer,
                   const struct env_message *message) {
  struct message_head head = {.magic = HEAD_MAGIC};
  struct iovec parts[2] = {{&head, sizeof head}, {message->bytes, message->n}};
  struct msghdr packet = {.msg_iov = parts, .msg_iovlen = 2};
  union message_control control = {{0}};
  int fds[ENV_GIFTS_MAX];
  size_t n = 0;
  (void)env;
  if (message->n > ENV_MESSAGE_MAX)
    return EMSGSIZE;
  for (; n < ENV_GIFTS_MAX && message->gifts[n].kind != ENV_GIFT_NONE; n++) {
    head.kinds[n] = (uint8_t)message->gifts[n].kind;
    fds[n] = gift_fd(&message->gifts[n]);
    if (fds[n] < 0)
      return EINVAL;
  }
  if (n > 0) {
    packet.msg_control = &control;
    packet.msg_controllen = CMSG_SPACE(n * sizeof fds[0]);
    struct cmsghdr *rights = CMSG_FIRSTHDR(&packet);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(n * sizeof fds[0]);
    memcpy(CMSG_DATA(rights), fds, n * sizeof fds[0]);
  }
  while (sendmsg(peer->socket, &packet, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
    if (errno != EINTR)
      return send_error(errno);
  return 0;
}

/* ---- receiving ----------------------------------------------------------- */

/* The descriptors of one packet. */
struct arrived {
  int fds[ENV_GIFTS_MAX];
  size_t n;
  int is_surplus; /* there were more; they are closed */
};

static void arrived_take(struct arrived *arrived, struct msghdr *packet) {
  for (struct cmsghdr *c = CMSG_FIRSTHDR(packet); c != NULL;
       c = CMSG_NXTHDR(packet, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
      continue;
    size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < n; i++) {
      int fd;
      memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      if (arrived->n < ENV_GIFTS_MAX) {
        arrived->fds[arrived->n++] = fd;
      } else {
        arrived->is_surplus = 1;
        (void)close(fd);
      }
    }
  }
}

static void arrived_close(struct arrived *arrived) {
  for (size_t i = 0; i < arrived->n; i++)
    (void)close(arrived->fds[i]);
}

/* Counts the gifts that the head names; -1: not one of our heads. */
static int head_gifts(const struct message_head *head) {
  int n = 0;
  if (head->magic != HEAD_MAGIC || head->zero[0] != 0 || head->zero[1] != 0)
    return -1;
  for (int i = 0; i < ENV_GIFTS_MAX; i++) {
    if (head->kinds[i] > ENV_GIFT_FILE)
      return -1;
    if (head->kinds[i] == ENV_GIFT_NONE)
      continue;
    if (n++ != i)
      return -1;
  }
  return n;
}

/* Takes only attributes known without asking a server, which might not
** answer. */
static int file_gift_take(int fd, struct env_gift_in *gift) {
  struct statx st;
  int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || flags & O_PATH ||
      statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO,
            &st) != 0 ||
      !S_ISREG(st.stx_mode))
    return EPROTO;
  gift->id[0] = makedev(st.stx_dev_major, st.stx_dev_minor);
  gift->id[1] = st.stx_ino;
  gift->writable = (flags & O_ACCMODE) != O_RDONLY;
  return 0;
}

static int gift_take(int fd, enum env_gift kind, struct env_gift_in *gift) {
  struct env_gift_in taken = {.kind = kind};
  int rc = kind == ENV_GIFT_FILE
               ? file_gift_take(fd, &taken)
               : env__shared_take(fd, kind == ENV_GIFT_FIXED, &taken.shared);
  if (rc == 0)
    *gift = taken;
  return rc;
}

static int gifts_take(struct env *env, const struct message_head *head,
                      const struct arrived *arrived, struct env_gift_in *to) {
  int rc = 0;
  size_t n = 0;
  for (; n < arrived->n && rc == 0; n++)
    rc = gift_take(arrived->fds[n], head->kinds[n], &to[n]);
  for (; rc != 0 && n > 0; n--) {
    env__shared_free(env, &to[n - 1].shared);
    to[n - 1] = (struct env_gift_in){.kind = ENV_GIFT_NONE};
  }
  return rc;
}

/* `flags` and `bytes` are recvmsg()'s results. */
static int check_packet(const struct message_head *head, size_t bytes,
                        int flags, const struct arrived *arrived) {
  int gifts = bytes < sizeof *head ? -1 : head_gifts(head);
  if (gifts < 0 || arrived->is_surplus)
    return EPROTO;
  if (flags & MSG_CTRUNC) /* more sent than named, or no descriptor free */
    return arrived->n < (size_t)gifts ? EMFILE : EPROTO;
  if (arrived->n != (size_t)gifts)
    return EPROTO;
  return flags & MSG_TRUNC ? EMSGSIZE : 0;
}

/* recvmsg(), without waiting; *n: its result. */
static int next_packet(struct env_peer *peer, struct msghdr *packet,
                       size_t *n) {
  for (;;) {
    ssize_t got =
        recvmsg(peer->socket, packet, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got >= 0) {
      *n = (size_t)got;
      return 0;
    }
    /* ECONNRESET: the other end has closed without reading all our messages.
    ** It is reported once; then its own messages can be received. */
    if (errno != EINTR && errno != ECONNRESET)
      return errno;
  }
}

static int receive_now(struct env *env, struct env_peer *peer,
                       struct env_message *message) {
  struct message_head head = {0};
  struct iovec parts[2] = {{&head, sizeof head}, {message->bytes, message->n}};
  union message_control control;
  struct msghdr packet = {.msg_iov = parts,
                          .msg_iovlen = 2,
                          .msg_control = &control,
                          .msg_controllen = sizeof control};
  struct arrived arrived = {.n = 0};
  size_t n = 0;
  int rc = next_packet(peer, &packet, &n);
  if (rc != 0)
    return rc;
  arrived_take(&arrived, &packet);
  /* 0 bytes: the end, or an empty packet, which we never send. */
  rc = n == 0 && arrived.n == 0 && env__peer_gone(env, peer)
           ? EPIPE
           : check_packet(&head, n, packet.msg_flags, &arrived);
  if (rc == 0)
    rc = gifts_take(env, &head, &arrived, message->gifts);
  arrived_close(&arrived);
  if (rc == 0)
    message->n = n - sizeof head;
  return rc;
}

int env__peer_receive(struct env *env, struct env_peer *peer,
                      struct env_message *message, uint64_t wait_us) {
  uint64_t begin = env__now_us(env), spent = 0;
  for (int i = 0; i < ENV_GIFTS_MAX; i++)
    message->gifts[i] = (struct env_gift_in){.kind = ENV_GIFT_NONE};
  for (;;) {
    int rc = receive_now(env, peer, message), ended;
    if (rc != EAGAIN)
      return rc;
    rc = env__peer_wait(peer, wait_us == UINT64_MAX ? wait_us : wait_us - spent,
                        &ended);
    if (rc != 0)
      return rc;
    if (ended) { /* its messages have arrived by now */
      rc = receive_now(env, peer, message);
      return rc == EAGAIN ? EPIPE : rc;
    }
    spent = env__now_us(env) - begin;
    if (spent > wait_us)
      spent = wait_us;
  }
}
