/* SPDX-License-Identifier: MIT
**
** link.c -- see link.h.
**
** WAITING   The client sleeps until it has the slot's turn.  It polls for an
**           interrupt and for the owner's presence: the socket reports the end
**           of a process immediately, but a wait on shared memory does not.
** THE OWNER HAS LEFT  A call that was not begun is sent to the next owner.  A
**           session that had nothing there (no transaction, leases or tickets,
**           and nothing open except scans, which continue [remote_scan.c]) does
**           not notice.
** THE OWNER HAS DIED  Uncommitted writes it had acknowledged since the last
**           checkpoint are lost.  Each session is told once, and then
**           continues.
** THE OWNER IS STOPPED  and does not answer: a call that it has not begun is
**           withdrawn; a running call is given up along with its session.  A
**           commit is neither withdrawn nor given up: its coordinator has
**           decided, so it stays in the slot and is carried out when the owner
**           resumes, or decided as after the owner's death.  The caller
**           continues immediately, and the next call first waits for the
**           commit's answer (link.owes).
*/
#include "link.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "engine/table/store/dir.h"
#include "hello.h"
#include "tickets.h"
#include "engine/table/owner/own.h"
#include "engine/table/session/patience.h"

#define LOOK_US 2000        /* interval of the first polls */
#define LOOK_MAX_US 20000   /* later polls are less frequent */
#define PATIENCE_US 1000000 /* for the owner to close a session */
/* How long an old owner gets to answer a hello, per try. */
#define OLD_US 100000
#define PING_US 100000        /* silence before an owner is pinged */
#define PING_AGAIN_US 1000000 /* silence before the next ping */
#define GIVE_UP_US 100000     /* silence tolerated after an interrupt */
/* The answer to a commit is still to come. */
#define ANSWER_OWED (-5)

/* Serial numbers of links, to recognise objects opened on an earlier link. */
static _Atomic uint64_t serials;

/* ---- making -------------------------------------------------------------- */

static void link_release(emb_session *s, struct link *link) {
  struct env *env = s->core->env;
  if (link->memory.base) {
    env->shared_free(env, &link->memory);
  }
  if (link->peer) {
    env->peer_close(env, link->peer);
  }
  env->release(env, link);
}

static int say_hello(emb_session *s, struct link *link) {
  emb_store *store = s->store;
  struct core *core = s->core;
  struct hello hello;
  emb_err err;
  memset(&hello, 0, sizeof hello);
  hello.head = hello__head(sizeof hello);
  memcpy(hello.uuid, core->uuid, sizeof hello.uuid);
  hello.bounded = (uint32_t)core_bounded(core);
  hello.staleness = core->staleness;
  hello.readonly = atomic_load(&store->own.readonly) != STORE_WRITES;
  hello.is_store = s->route.is_control != 0;
  if (schema_print(&core->schema, hello.schema, &err)) {
    return EPROTO;
  }
  struct env_message message = {.bytes = &hello, .n = sizeof hello};
  message.gifts[0].kind = ENV_GIFT_FILE;
  message.gifts[0].file = core->log.file;
  return core->env->peer_send(core->env, link->peer, &message);
}

struct process_name link__name(int64_t process) {
  struct process_name name = {"a process of another container"};
  if (process) {
    snprintf(name.text, sizeof name.text, "process %lld", (long long)process);
  }
  return name;
}

static int does_not_answer(emb_session *s, const struct env_who *owner) {
  return session_error(s, EMB_BUSY, LINK_SILENT, s->core->dir,
                       link__name(owner->process).text);
}

/* The owner speaks another protocol. */
static enum link_trial refuse_other(emb_session *s, const struct link *link,
                                    const void *came) {
  struct env *env = s->core->env;
  struct greeting owner, here = hello__head(sizeof(struct hello));
  int64_t process = link->owner.process;
  memcpy(&owner, came, sizeof owner);
  (void)hello__refuse(&s->err, s->core->dir, link__name(process).text,
                      process == env->process(env), &owner, &here);
  return LINK_REFUSED;
}

/* Returns 0, or why there is no slot. */
static enum link_trial hear_welcome(emb_session *s, struct link *link,
                                    uint64_t wait_us) {
  struct env *env = s->core->env;
  struct welcome welcome;
  uint64_t start = env->now_us(env);
  if (patience_is_over(s, link->owner.process)) {
    does_not_answer(s, &link->owner);
    return LINK_REFUSED;
  }
  for (;;) {
    struct env_message message = {.bytes = &welcome, .n = sizeof welcome};
    memset(&welcome, 0, sizeof welcome);
    int os = env->peer_receive(env, link->peer, &message, LOOK_MAX_US);
    /* Of a longer message only the beginning was received. */
    size_t n = !os ? message.n : os == EMSGSIZE ? sizeof welcome : 0;
    if (hello__is_other(&welcome, n)) {
      return refuse_other(s, link, &welcome);
    }
    if (!os && n == sizeof welcome && welcome.head.magic == SLOT_MAGIC &&
        welcome.head.kind == MESSAGE_HELLO) {
      welcome.text[sizeof welcome.text - 1] = 0;
      if (welcome.code) {
        session_error(s, welcome.code, "%s", welcome.text);
        return LINK_REFUSED;
      }
      if (message.gifts[0].kind == ENV_GIFT_SHARED &&
          message.gifts[0].shared.bytes == sizeof(struct link_slot)) {
        link->memory = message.gifts[0].shared;
        link->slot = link->memory.base;
        link->number = welcome.number;
        link->is_near = welcome.process == link->owner.process;
        return LINK_MADE;
      }
    }
    if (os == EPIPE) {
      return LINK_HUNG_UP;
    }
    if (os != EAGAIN) {
      return LINK_LATER;
    }
    if (session_interrupted(s)) {
      return LINK_REFUSED;
    }
    uint64_t waited = env->now_us(env) - start;
    if (waited >= wait_us) {
      patience_spend(s, link->owner.process, waited);
      does_not_answer(s, &link->owner);
      return LINK_REFUSED;
    }
  }
}

static int call_owner(struct core *core, struct env_peer **peer) {
  struct env *env = core->env;
  struct env_dir *names;
  int os = env->open_dir(env, core->dir, &names);
  if (!os) {
    os = env->peer_open(env, names, FILE_SOCKET, peer);
    env->close_dir(env, names);
  }
  return os;
}

/* The owner has hung up: it is leaving, or uses a protocol that rejects a hello
** of this length.  Asked in that protocol's length, it gives its number. */
static enum link_trial ask_old_owner(emb_session *s, struct link *link) {
  struct env *env = s->core->env;
  struct old_hello hello;
  struct old_welcome welcome;
  struct env_message message = {.bytes = &hello, .n = sizeof hello};
  env->peer_close(env, link->peer);
  if (call_owner(s->core, &link->peer)) {
    link->peer = NULL;
    return LINK_LATER;
  }
  memset(&hello, 0, sizeof hello);
  hello.magic = SLOT_MAGIC;
  hello.protocol = SLOT_VERSION;
  hello.kind = MESSAGE_HELLO;
  if (env->peer_send(env, link->peer, &message)) {
    return LINK_LATER;
  }
  message = (struct env_message){.bytes = &welcome, .n = sizeof welcome};
  memset(&welcome, 0, sizeof welcome);
  return env->peer_receive(env, link->peer, &message, OLD_US) == 0 &&
                 hello__is_other(&welcome, message.n)
             ? refuse_other(s, link, &welcome)
             : LINK_LATER;
}

/* Under own.lock: a lock of this process does not count as another's. */
int link__lock_of(emb_store *store, enum env_lock_state *state, int64_t *holder,
                  emb_err *err) {
  int rc = EMB_OK;
  *state = ENV_LOCK_FREE;
  *holder = 0;
  pthread_mutex_lock(&store->own.lock);
  if (!atomic_load(&store->own.is_owner)) {
    rc = own_look(store, state, holder, err);
  }
  pthread_mutex_unlock(&store->own.lock);
  return rc;
}

/* Is the link really to the owner?  A child of a former owner may have
** inherited its socket, on which no process would ever answer. */
static int is_owners(emb_session *s, const struct link *link) {
  enum env_lock_state state;
  int64_t holder;
  (void)link__lock_of(s->store, &state, &holder, NULL);
  return state != ENV_LOCK_FREE &&
         (!holder || !link->owner.process || holder == link->owner.process);
}

enum link_trial link__open(emb_session *s, uint64_t wait_us) {
  struct core *core = s->core;
  struct env *env = core->env;
  emb_assert(!s->link);
  struct link *link = env->allocate(env, sizeof *link);
  if (!link) {
    session_error(s, EMB_NOMEM, "out of memory");
    return LINK_REFUSED;
  }
  int os = call_owner(core, &link->peer);
  enum link_trial trial = LINK_MADE;
  if (os) {
    link->peer = NULL;
    trial = os == ENOENT || os == ENOTSUP ? LINK_NOBODY : LINK_LATER;
    if (os == EACCES || os == EPERM) {
      session_error(s, EMB_BUSY,
                    "%s is owned by another process, and its socket cannot be "
                    "opened: permission denied",
                    core->dir);
      trial = LINK_REFUSED;
    }
  } else {
    env->peer_who(env, link->peer, &link->owner);
    trial = is_owners(s, link) && !say_hello(s, link)
                ? hear_welcome(s, link, wait_us)
                : LINK_LATER;
    trial = trial == LINK_HUNG_UP ? ask_old_owner(s, link) : trial;
  }
  if (trial) {
    link_release(s, link);
    return trial;
  }
  link->serial = atomic_fetch_add(&serials, 1) + 1;
  link->aheads_before = s->ahead.last;
  shape__units(s, &link->units);
  s->link = link;
  emb_check(link_valid(s));
  patience_alive(s);
  atomic_fetch_add(&s->store->remote.links, 1);
  atomic_fetch_add(&s->store->remote.session_links, !s->route.is_control);
  if (s->route.is_control) {
    process_count(s->core->process, PROCESS_LINKS, 1);
  }
  return LINK_MADE;
}

static void drop_link(emb_session *s) {
  struct link *link = s->link;
  emb_check(link_valid(s));
  tickets__left(s, link,
                atomic_load_explicit(&link->slot->left, memory_order_acquire) !=
                    0);
  s->link = NULL;
  atomic_fetch_sub(&s->store->remote.session_links, !s->route.is_control);
  if (!s->route.is_control) {
    atomic_fetch_add(&s->store->control.age, 1);
  } else {
    process_count(s->core->process, PROCESS_LINKS, -1);
  }
  atomic_fetch_sub(&s->store->remote.links, 1);
  link_release(s, link);
}

/* Passes the turn to the owner: wakes its thread, or has one started. */
static void wake_owner(emb_session *s) {
  struct env *env = s->core->env;
  struct link_slot *slot = s->link->slot;
  env->word_wake(env, &slot->turn);
  if (atomic_load(&slot->parked)) {
    struct signal_message wake = {SLOT_MAGIC, SLOT_VERSION, MESSAGE_WAKE};
    struct env_message message = {.bytes = &wake, .n = sizeof wake};
    (void)env->peer_send(env, s->link->peer, &message);
  }
}

/* Closes the session at the owner.  On return, everything it had there has been
** released. */
static void close_there(emb_session *s) {
  struct env *env = s->core->env;
  struct link_slot *slot = s->link->slot;
  uint64_t start = env->now_us(env),
           limit = patience_end_us(s, s->link->owner.process);
  limit = limit < PATIENCE_US ? limit : PATIENCE_US;
  uint32_t turn = atomic_load_explicit(&slot->turn, memory_order_acquire);
  if ((turn != SLOT_IDLE && turn != SLOT_ANSWERED) ||
      !atomic_compare_exchange_strong(&slot->turn, &turn, SLOT_CLOSING)) {
    return;
  }
  wake_owner(s);
  while (
      atomic_load_explicit(&slot->turn, memory_order_acquire) == SLOT_CLOSING &&
      !env->peer_gone(env, s->link->peer) && env->now_us(env) - start < limit) {
    env->word_wait(env, &slot->turn, SLOT_CLOSING, LOOK_MAX_US);
  }
}

void link__close(emb_session *s) {
  uint64_t result;
  if (s->link && s->link->owes) {
    drop_link(s); /* if not carried out, the coordinator decides */
  }
  if (s->link && (s->link->holds & (SLOT_HAS_TXN | SLOT_HAS_PREPARED))) {
    (void)link__ask(s, CALL_rollback, 0, NULL, &result);
  }
  if (s->link && s->link->holds) {
    close_there(s);
  }
  if (s->link) {
    drop_link(s);
  }
}

/* ---- losing -------------------------------------------------------------- */

/* The owner has gone.  was_begun: it may have carried out the current call. */
static int link_lost(emb_session *s, int call, int was_begun) {
  int was_used = s->link->is_used || was_begun;
  struct link *link = s->link;
  const struct shape *shape = &shapes[call];
  int left = atomic_load_explicit(&link->slot->left, memory_order_acquire) != 0;
  uint32_t holds = link->holds;
  /* Tickets were finished, or will report that they were not. */
  int had = (holds & ~(uint32_t)SLOT_HAS_TICKETS) || link->objects;
  struct process_name owner = link__name(link->owner.process);
  s->route.lost_txn = (holds & SLOT_HAS_TXN) != 0;
  s->route.lost_prepared = (holds & SLOT_HAS_PREPARED) != 0;
  s->route.died_serial = left ? s->route.died_serial : link->serial;
  drop_link(s);
  if (s->route.lost_prepared &&
      (call == CALL_commit || call == CALL_rollback)) {
    return CALL_ELSEWHERE; /* the next owner knows the outcome [route.c] */
  }
  if (!was_used ||
      (left && !had && !(was_begun && !(shape->flags & SHAPE_AGAIN)))) {
    return CALL_ELSEWHERE;
  }
  const char *what = s->route.lost_txn ? "; the transaction is rolled back"
                     : holds & SLOT_HAS_LEASES ? "; its leases are given back"
                                               : "";
  return left
             ? session_error(s, EMB_LOST, "%s, which owned %s, has closed it%s",
                             owner.text, s->core->dir, what)
             : session_error(
                   s, EMB_LOST,
                   "%s, which owned %s, has died: uncommitted writes since the "
                   "last checkpoint are lost%s%s",
                   owner.text, s->core->dir, what,
                   was_begun && (shape->flags & SHAPE_WRITES)
                       ? "; it is not known whether this call was executed"
                       : "");
}

/* ---- a request ----------------------------------------------------------- */

struct asking {
  int call;
  const struct shape *shape;
  struct link_request *request; /* in the slot or in lent memory */
  size_t request_bytes;
  char *answer;
  struct extent_of in, out;
  void *args; /* of the call: args_NAME */
  uint64_t words[REQUEST_ARGS];
  int is_lent;
  struct env_shared lent[2];
};

/* The other process may have another working directory. */
static int make_absolute(emb_session *s, struct asking *a,
                         char paths[REQUEST_PATHS][PATH_BYTES]) {
  struct env *env = s->core->env;
  int n = 0;
  for (int i = 0; i < REQUEST_ARGS && a->shape->args[i].kind; i++) {
    const struct arg_shape *arg = &a->shape->args[i];
    const char *path = arg->is_path ? shape__pointer(a->args, arg) : NULL;
    if (path && env->absolute(env, path, paths[n], PATH_BYTES)) {
      return session_error(s, EMB_CANTOPEN, "path too long: %s", path);
    }
    if (path) {
      shape__set_pointer(a->args, arg, paths[n++]);
    }
  }
  return EMB_OK;
}

/* Computes the request's words, and the lengths of request and answer. */
static int request_measure(struct link *link, struct asking *a) {
  shape__words(a->shape, a->args, a->words);
  shape__request(a->shape, &link->units, a->words, a->args, &a->in);
  shape__answer(a->shape, &link->units, a->words, a->args, &a->out);
  return a->in.bytes == SIZE_MAX || a->out.bytes == SIZE_MAX;
}

static int has_later(const struct shape *shape) {
  return shape__find(shape, SHAPE_LATER) != NULL;
}

static int borrow_memory(emb_session *s, struct asking *a) {
  struct env *env = s->core->env;
  int os = env->shared_make(env, a->request_bytes, &a->lent[0]);
  if (!os && a->out.bytes) {
    os = env->shared_make(env, a->out.bytes, &a->lent[1]);
    if (os) {
      env->shared_free(env, &a->lent[0]);
    }
  }
  if (os) {
    memset(a->lent, 0, sizeof a->lent);
    return session_error(s, EMB_NOMEM, "out of memory");
  }
  a->request = a->lent[0].base;
  a->answer = a->lent[1].base;
  return EMB_OK;
}

static void give_back(emb_session *s, struct asking *a) {
  for (int i = 0; i < 2; i++) {
    if (a->lent[i].base) {
      s->core->env->shared_free(s->core->env, &a->lent[i]);
      a->lent[i].base = NULL;
    }
  }
}

static void request_fill(emb_session *s, struct asking *a, uint64_t object) {
  struct link_request *q = a->request;
  int paths = 0;
  q->call = (uint32_t)a->call;
  q->flags = (s->blocks.ask ? REQUEST_BLOCKS : 0) |
             (s->leases.mark ? REQUEST_MARKS : 0) |
             (s->doubt.decides ? REQUEST_DECIDES : 0);
  q->object = object;
  q->timeout_ms = s->core->timeout_ms;
  q->statement = s->leases.statement;
  q->doubt_seen = s->doubt.seen;
  q->time = s->clock.time;
  q->reserved = 0;
  memset(q->views, 0, sizeof q->views);
  memcpy(q->words, a->words, sizeof q->words);
  for (int i = 0; i < REQUEST_ARGS && a->shape->args[i].kind; i++) {
    const struct arg_shape *arg = &a->shape->args[i];
    if (arg->is_path) {
      q->views[paths++] =
          shape__view(s->core->env, shape__pointer(a->args, arg));
    }
    if (a->in.length[i]) {
      memcpy(q->arrays + a->in.at[i], shape__array(a->args, arg),
             a->in.length[i]);
    }
  }
}

/* Sends the lent memory first.  EMB_OK, or the link is lost. */
static int lend_request(emb_session *s, struct asking *a) {
  struct env *env = s->core->env;
  struct signal_message loan = {SLOT_MAGIC, SLOT_VERSION, MESSAGE_LOAN};
  struct env_message message = {.bytes = &loan, .n = sizeof loan};
  int os = env->shared_fix(env, &a->lent[0]);
  if (os) {
    return session_error(s, EMB_NOMEM, "out of memory");
  }
  message.gifts[0].kind = ENV_GIFT_FIXED;
  message.gifts[0].shared = a->lent[0];
  if (a->lent[1].base) {
    message.gifts[1].kind = ENV_GIFT_SHARED;
    message.gifts[1].shared = a->lent[1];
  }
  os = env->peer_send(env, s->link->peer, &message);
  return os == 0        ? EMB_OK
         : os == EAGAIN ? does_not_answer(s, &s->link->owner)
                        : link_lost(s, a->call, 0);
}

/* ---- waiting ------------------------------------------------------------- */

static void answer_question(emb_session *s) {
  struct link_slot *slot = s->link->slot;
  struct env *env = s->core->env;
  uint32_t reply = 0;
  char line[SLOT_TEXT_BYTES];
  if (slot->question == QUESTION_BLOCKS && s->blocks.ask) {
    reply = (uint32_t)s->blocks.ask(s->blocks.arg, (int)slot->what);
  } else if (slot->question == QUESTION_REPORT && s->link->report) {
    memcpy(line, slot->text, sizeof line);
    line[sizeof line - 1] = 0;
    s->link->report(s->link->report_arg, line);
  }
  slot->reply = reply;
  atomic_store_explicit(&slot->turn, SLOT_RUNNING, memory_order_release);
  env->word_wake(env, &slot->turn);
}

/* One wait for an answer. */
struct silence {
  uint64_t limit_us;    /* longest silence allowed */
  uint64_t since_us;    /* last sign of life; 0: the wait has just begun */
  uint64_t pinged_us;   /* when the owner was pinged; 0: it was not */
  uint64_t canceled_us; /* when the session was interrupted; 0: it was not */
};

static int receive_pong(emb_session *s) {
  struct env *env = s->core->env;
  struct signal_message pong;
  struct env_message message = {.bytes = &pong, .n = sizeof pong};
  return env->peer_receive(env, s->link->peer, &message, 0) == 0;
}

/* Asks whether the owner's process is running.  Discards the answers to earlier
** pings. */
static void send_ping(emb_session *s, struct silence *w, uint64_t now) {
  struct env *env = s->core->env;
  struct signal_message ping = {SLOT_MAGIC, SLOT_VERSION, MESSAGE_PING};
  struct env_message message = {.bytes = &ping, .n = sizeof ping};
  while (receive_pong(s)) {
  }
  (void)env->peer_send(env, s->link->peer, &message);
  w->pinged_us = now;
}

/* A call that only ends something is not interrupted; an interrupt only
** shortens the wait for an unresponsive owner. */
static int only_ends(int call) {
  return (shapes[call].flags & SHAPE_ENDS) != 0;
}

/* Notes any sign of life from the owner, and pings it if it is time. */
static void listen_to_owner(emb_session *s, int call, struct silence *w,
                            uint64_t now) {
  if (!w->since_us || (w->pinged_us > w->since_us && receive_pong(s))) {
    if (w->since_us) {
      patience_alive(s);
    }
    w->since_us = now;
    w->limit_us = only_ends(call) && !s->link->owes
                      ? patience_end_us(s, s->link->owner.process)
                      : patience_left_us(s);
  }
  uint64_t quiet = now - w->since_us;
  int is_asked = w->pinged_us > w->since_us;
  uint64_t most = w->canceled_us ? GIVE_UP_US / 4
                  : w->pinged_us ? PING_AGAIN_US
                                 : PING_US;
  if (!is_asked && (quiet >= most || quiet >= w->limit_us / 4)) {
    send_ping(s, w, now > w->since_us ? now : now + 1);
  }
}

/* Gives up a call that the owner has begun: its outcome is unknown. */
static int link_give_up(emb_session *s, int call, int is_interrupted) {
  int writes =
      (shapes[call].flags & SHAPE_WRITES) != 0 && call != CALL_rollback;
  struct env_who owner = s->link->owner;
  s->route.lost_txn = (s->link->holds & SLOT_HAS_TXN) != 0;
  s->route.died_serial = s->link->serial;
  drop_link(s);
  return session_error(
      s,
      is_interrupted ? EMB_INTERRUPT
      : writes       ? EMB_LOST
                     : EMB_BUSY,
      LINK_SILENT "%s", s->core->dir, link__name(owner.process).text,
      writes ? "; it is not known whether this call was executed" : "");
}

/* The owner has been silent for the full time allowed.  EMB_OK: keep waiting,
** because something has just changed. */
static int doubt_owner(emb_session *s, int call, uint64_t waited_us) {
  struct link_slot *slot = s->link->slot;
  struct env_who owner = s->link->owner;
  enum env_lock_state state;
  int64_t holder;
  if (s->core->env->peer_gone(s->core->env, s->link->peer)) {
    return EMB_OK; /* the next poll finds that */
  }
  uint32_t turn = atomic_load_explicit(&slot->turn, memory_order_acquire);
  (void)link__lock_of(s->store, &state, &holder, NULL);
  if (state == ENV_LOCK_FREE && turn != SLOT_ANSWERED) {
    return link_lost(s, call, turn != SLOT_ASKED && turn != SLOT_LEFT);
  }
  if (turn != SLOT_ANSWERED) {
    patience_spend(s, owner.process, waited_us);
  }
  if (call == CALL_commit) {
    return s->link->owes ? does_not_answer(s, &owner) : ANSWER_OWED;
  }
  turn = SLOT_ASKED;
  int is_asked = atomic_compare_exchange_strong(&slot->turn, &turn, SLOT_IDLE);
  if (!is_asked && waited_us < patience_most_us(s) && !s->link->owes) {
    return EMB_OK; /* giving up would end all it has there */
  }
  if (is_asked) {
    if (call == CALL_rollback) {
      s->route.died_serial = s->link->serial;
      drop_link(s); /* that ends everything the session has there */
    }
    return does_not_answer(s, &owner);
  }
  return turn == SLOT_RUNNING || turn == SLOT_QUESTION
             ? link_give_up(s, call, 0)
             : EMB_OK;
}

/* The session was interrupted.  EMB_OK: the owner lives, and its call sees
** `cancel` soon. */
static int cancel_call(emb_session *s, int call, struct silence *w,
                       uint64_t now) {
  struct link_slot *slot = s->link->slot;
  uint32_t turn = SLOT_ASKED;
  if (s->link->owes) { /* the call itself was not sent yet */
    return session_error(s, EMB_INTERRUPT, "interrupted");
  }
  if (!w->canceled_us) {
    w->canceled_us = now;
    atomic_store_explicit(&slot->cancel, 1, memory_order_relaxed);
  }
  if (only_ends(call)) {
    w->limit_us = w->limit_us < GIVE_UP_US ? w->limit_us : GIVE_UP_US;
    return EMB_OK;
  }
  if (atomic_compare_exchange_strong(&slot->turn, &turn, SLOT_IDLE)) {
    return session_error(s, EMB_INTERRUPT, "interrupted");
  }
  uint64_t heard = w->since_us > w->canceled_us ? w->since_us : w->canceled_us;
  return (turn == SLOT_RUNNING || turn == SLOT_QUESTION) &&
                 now - heard >= GIVE_UP_US
             ? link_give_up(s, call, 1)
             : EMB_OK;
}

/* Waits for the answer.  EMB_OK: there is one. */
static int await_answer(emb_session *s, int call) {
  struct env *env = s->core->env;
  struct link_slot *slot = s->link->slot;
  struct silence w = {0};
  uint64_t look = LOOK_US;
  for (;;) {
    uint32_t turn = atomic_load_explicit(&slot->turn, memory_order_acquire);
    if (turn == SLOT_ANSWERED) {
      patience_alive(s);
      return EMB_OK;
    }
    if (turn == SLOT_LEFT &&
        atomic_load_explicit(&slot->left, memory_order_acquire)) {
      return link_lost(s, call, 0);
    }
    if (turn == SLOT_QUESTION) {
      answer_question(s);
      continue;
    }
    env->word_wait(env, &slot->turn, turn, look);
    if (atomic_load_explicit(&slot->turn, memory_order_acquire) != turn) {
      continue;
    }
    look = look * 2 < LOOK_MAX_US ? look * 2 : LOOK_MAX_US;
    if (env->peer_gone(env, s->link->peer)) {
      /* The owner may have answered and then gone. */
      turn = atomic_load_explicit(&slot->turn, memory_order_acquire);
      if (turn == SLOT_ANSWERED) {
        continue;
      }
      return link_lost(s, call, turn != SLOT_ASKED && turn != SLOT_LEFT);
    }
    uint64_t now = env->now_us(env);
    listen_to_owner(s, call, &w, now);
    int rc = EMB_OK;
    if (s->waits.interrupt && s->waits.interrupt(s->waits.interrupt_arg)) {
      rc = cancel_call(s, call, &w, now);
    }
    if (!rc && now - w.since_us >= w.limit_us) {
      rc = doubt_owner(s, call, now - w.since_us);
      if (rc == EMB_BUSY && w.canceled_us) {
        rc = session_error(s, EMB_INTERRUPT, "interrupted");
      }
    }
    if (rc) {
      return rc;
    }
  }
}

/* ---- the answer ---------------------------------------------------------- */

/* Returns an argument's place in the answer; NULL: it was not asked for. */
static const void *answer_at(const struct asking *a, size_t at) {
  for (int i = 0; i < REQUEST_ARGS && a->shape->args[i].kind; i++) {
    if (a->shape->args[i].at == at && a->out.length[i]) {
      return a->answer + a->out.at[i];
    }
  }
  return NULL;
}

/* Returns the number of bytes received of an array. */
static size_t answer_bytes(const struct asking *a, int i) {
  const struct arg_shape *arg = &a->shape->args[i];
  const void *filled = arg->filled ? answer_at(a, arg->filled) : NULL;
  size_t n, all = a->out.length[i];
  if (!filled) {
    return all;
  }
  memcpy(&n, filled, sizeof n);
  uint64_t of = shape__count(a->args, arg);
  return of && n < of ? all / of * n : all;
}

static void answer_take(const struct asking *a) {
  for (int i = 0; i < REQUEST_ARGS && a->shape->args[i].kind; i++) {
    if (a->shape->args[i].kind == SHAPE_OUT && a->words[i]) {
      memcpy(shape__pointer(a->args, &a->shape->args[i]),
             a->answer + a->out.at[i], answer_bytes(a, i));
    }
  }
}

/* Keeps the memory of a prefetch until it is synchronized. */
static void keep_for_later(emb_session *s, struct asking *a) {
  struct remote_ticket *t = s->link->later;
  t->extent = a->out;
  for (int i = 0; i < REQUEST_ARGS && a->shape->args[i].kind; i++) {
    const struct arg_shape *arg = &a->shape->args[i];
    t->to[i] = arg->kind == SHAPE_LATER ? shape__pointer(a->args, arg) : NULL;
  }
  answer_take(a); /* the ticket */
  t->memory = a->lent[1];
  a->lent[1].base = NULL;
}

/* Any other number might be a code of this library's own, such as
** CALL_ELSEWHERE, on which a session that has a link would make another. */
static int is_public_code(int code) {
  return code >= EMB_OK && code <= EMB_LOST;
}

static int read_answer(emb_session *s, struct asking *a, uint64_t *result) {
  struct link *link = s->link;
  struct link_slot *slot = link->slot;
  *result = slot->result;
  link->is_used = 1;
  link->holds = slot->holds;
  s->doubt.met = link->holds & SLOT_MET_DOUBT ? slot->met_doubt : 0;
  s->doubt.is_orphan = (link->holds & SLOT_MET_ORPHAN) != 0;
  link->holds &= ~(uint32_t)(SLOT_MET_DOUBT | SLOT_MET_ORPHAN);
  int said = slot->code;
  int code = a->shape->flags & SHAPE_CODE ? (int)(uint32_t)*result : EMB_OK;
  if (!is_public_code(said) || !is_public_code(code)) {
    return session_error(s, EMB_CANTOPEN,
                         "%s is owned by %s, which gave an answer that has no "
                         "meaning; close the table there",
                         s->core->dir, link__name(link->owner.process).text);
  }
  s->err.code = said;
  if (said) {
    memcpy(s->err.text, slot->text, sizeof slot->text);
    s->err.text[sizeof slot->text - 1] = 0;
  }
  int is_end = a->call == CALL_prefetch_synchronize ||
               a->call == CALL_write_back_synchronize;
  if (code == EMB_OK && has_later(a->shape)) {
    keep_for_later(s, a);
  } else if (code == EMB_OK || (is_end && code != EMB_INTERRUPT)) {
    answer_take(a);
  }
  return EMB_OK;
}

/* Waits for the outstanding answer to a commit before the next call. */
static int settle_owed(emb_session *s) {
  int rc = await_answer(s, CALL_commit);
  if (!rc) {
    s->link->owes = 0;
    s->link->holds = s->link->slot->holds;
  }
  return rc;
}

int link__ask(emb_session *s, int call, uint64_t object, void *args,
              uint64_t *result) {
  struct link *link = s->link;
  struct link_slot *slot = link->slot;
  struct env *env = s->core->env;
  struct asking a = {.call = call, .shape = &shapes[call], .args = args};
  emb_check(link_valid(s));
  emb_assert(shape_is_asked((uint32_t)call));
  emb_assert(link->later || !has_later(a.shape));
  *result = 0;
  int rc = link->owes ? settle_owed(s)
           : patience_is_over(s, link->owner.process)
               ? does_not_answer(s, &link->owner)
               : EMB_OK;
  if (rc) {
    return rc;
  }
  char paths[REQUEST_PATHS][PATH_BYTES];
  rc = make_absolute(s, &a, paths);
  if (rc) {
    return rc;
  }
  if (request_measure(link, &a)) {
    return session_error(s, EMB_NOMEM, "out of memory");
  }
  a.request_bytes = sizeof(struct link_request) + a.in.bytes;
  a.is_lent = a.request_bytes > SLOT_DATA_BYTES ||
              a.out.bytes > SLOT_DATA_BYTES || has_later(a.shape);
  a.request = (void *)slot->data;
  a.answer = slot->data;
  rc = a.is_lent ? borrow_memory(s, &a) : EMB_OK;
  if (rc) {
    return rc;
  }
  request_fill(s, &a, object);
  rc = a.is_lent ? lend_request(s, &a) : EMB_OK;
  if (!rc) {
    slot->request_bytes = (uint32_t)a.request_bytes;
    slot->lent = (uint32_t)a.is_lent;
    slot->processor = env->processor(env);
    atomic_store_explicit(&slot->cancel, 0, memory_order_relaxed);
    /* The owner may have left since the last answer. */
    uint32_t turn = atomic_load_explicit(&slot->turn, memory_order_acquire);
    if (turn == SLOT_IDLE || turn == SLOT_ANSWERED) {
      atomic_store(&slot->turn, SLOT_ASKED);
      wake_owner(s);
    }
    rc = await_answer(s, call);
  }
  if (rc == ANSWER_OWED) {
    link->owes = 1;
    link->holds &= ~(uint32_t)(SLOT_HAS_TXN | SLOT_HAS_PREPARED);
    return EMB_OK;
  }
  if (!rc) {
    rc = read_answer(s, &a, result);
  }
  give_back(s, &a);
  return rc;
}
