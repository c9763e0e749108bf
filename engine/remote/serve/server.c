/* SPDX-License-Identifier: MIT
**
** server.c -- see server.h.
**
** THREADS   The hub's thread [hub.h] hears new clients, messages beside the
**           slots, and the end of a client, which the system reports at once.
**           Each client's session has a thread of its own, which sleeps until
**           the client asks something, carries that out as any caller of the
**           engine would, and waits as they do: for a lease, a key, a
**           transaction.  So the engine knows nothing of it.  After PARK_US
**           without a call the thread ends, and the next call's message starts
**           another [park, unpark]: of hundreds of tables few are used at a
**           time.
** A CLIENT THAT DIES  is a session that is closed: its transaction is rolled
**           back, its leases go back.  If it had prepared, its coordinator may
**           have decided: then nobody but the coordinator's next user may say
**           how it ends [orphan.h].
** TRUST     Nothing that is read from a slot or a message is used before it was
**           copied and checked [run.c]; the engine writes answers into shared
**           memory, and reads none back that matters.
** LOCKS     server.lock: the list of clients and what was lent.  Inside it no
**           call of the engine is made but to open a session.
*/
#include "server.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "engine/features/lookahead/async.h"
#include "engine/storage/kernel/store_file.h"
#include "engine/table/jobs/job.h"
#include "engine/table/store/dir.h"
#include "hello.h"
#include "hub.h"
#include "leave.h"
#include "link.h"
#include "orphan.h"
#include "run.h"
#include "share.h"

/* A client that has not said hello by then is sent away. */
#define HELLO_US 5000000
/* One that does not answer a question by then is given up: what runs may hold
** what others wait for. */
#define QUESTION_US 10000000
/* So long a client may keep the store from checkpoints by a backup that it has
** begun and not frozen. */
#define MOMENT_US 10000000
/* How often a thread is woken whose client has gone, until it has ended. */
#define WAKE_US 5000
/* A session that was asked nothing for so long needs no thread; where there are
** many threads, for less.  It is looked whether there are. */
#define PARK_US 1000000
#define PARK_LOOK_US 25000
/* When the owner leaves, calls that wait for something have so long, */
#define LEAVE_US 2000000
/* and a transaction that is prepared: its COMMIT has begun, and if it is not
** over then others find it in doubt. */
#define LEAVE_PREPARED_US 30000000
/* Clients that have not said hello, and sessions of other users, there are at
** most, so that they do not use up the owner's descriptors.  The memory that
** is lent at once is not more than this. */
#define SILENT_MAX 64
#define FOREIGN_MAX 64
#define LENT_MAX ((size_t)1 << 36)

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

/* It is left by a process that died; the next one replaces it. */
const struct store_file file_socket = {.name = FILE_SOCKET};

/* ---- a client's calls ---------------------------------------------------- */

static void give_turn(struct serving *v, uint32_t turn) {
  atomic_store_explicit(&v->slot->turn, turn, memory_order_release);
  v->server->env->word_wake(v->server->env, &v->slot->turn);
}

static int is_over(struct serving *v) {
  return atomic_load_explicit(&v->gone, memory_order_relaxed);
}

/* A transaction may end in time.  Until then all sessions are served, and new
** ones: a COMMIT may wait for the end of a statement that reads, and has to
** read here. */
static int awaits_txn(struct server *server) {
  int leaving = atomic_load_explicit(&server->leaving, memory_order_relaxed);
  return leaving == 1   ? atomic_load(&server->txns) > 0
         : leaving == 2 ? atomic_load(&server->prepared) > 0
                        : 0;
}

/* Asked by the session's thread. */
static int is_leaving(struct serving *v) {
  struct server *server = v->server;
  int leaving = atomic_load_explicit(&server->leaving, memory_order_relaxed);
  return awaits_txn(server) || (leaving == 1 && run__is_awaited(&v->run))
             ? 0
             : leaving;
}

static void note_holds(struct serving *v, uint32_t holds) {
  uint32_t had = atomic_load_explicit(&v->holds, memory_order_relaxed);
  int txn = !!(holds & SLOT_HAS_TXN) - !!(had & SLOT_HAS_TXN);
  int prepared = !!(holds & SLOT_HAS_PREPARED) - !!(had & SLOT_HAS_PREPARED);
  atomic_fetch_add_explicit(&v->server->txns, txn, memory_order_relaxed);
  atomic_fetch_add_explicit(&v->server->prepared, prepared,
                            memory_order_relaxed);
  atomic_store_explicit(&v->holds, holds, memory_order_relaxed);
}

/* For emb_session_interrupt. */
static int serving_interrupted(void *arg) {
  struct serving *v = arg;
  int leaving = is_leaving(v);
  if (v->is_finishing) {
    return is_over(v) || leaving > 2;
  }
  return is_over(v) || leaving > 1 ||
         atomic_load_explicit(&v->slot->cancel, memory_order_relaxed) ||
         (leaving && atomic_load_explicit(&v->again, memory_order_relaxed));
}

/* Asks the client, which waits for an answer to its call. */
static uint32_t question(struct serving *v, uint32_t asked, uint32_t what) {
  struct env *env = v->server->env;
  uint64_t start = env->now_us(env);
  v->slot->question = asked;
  v->slot->what = what;
  give_turn(v, SLOT_QUESTION);
  while (atomic_load_explicit(&v->slot->turn, memory_order_acquire) ==
         SLOT_QUESTION) {
    if (is_over(v)) {
      return 0;
    }
    if (is_leaving(v) > 1 || env->now_us(env) - start > QUESTION_US) {
      atomic_store_explicit(&v->gone, 1, memory_order_relaxed);
      return 0;
    }
    env->word_wait(env, &v->slot->turn, SLOT_QUESTION, WAKE_US);
  }
  return v->slot->reply;
}

/* For emb_session_blocks. */
static int serving_blocks(void *arg, int what) {
  return question(arg, QUESTION_BLOCKS, (uint32_t)what) != 0;
}

/* For emb_verify. */
static void serving_report(void *arg, const char *line) {
  struct serving *v = arg;
  snprintf(v->slot->text, sizeof v->slot->text, "%s", line);
  question(v, QUESTION_REPORT, 0);
}

/* kept was allocated before the call: what is written to must stay. */
static void keep_lent(struct serving *v, struct kept *kept, uint64_t ticket,
                      struct env_shared *memory) {
  *kept = (struct kept){v->kept, ticket, *memory};
  v->kept = kept;
  memory->base = NULL;
}

static void free_kept(struct serving *v, uint64_t ticket, int all) {
  struct env *env = v->server->env;
  struct kept **at = &v->kept;
  while (*at) {
    struct kept *kept = *at;
    if (all || kept->ticket == ticket) {
      *at = kept->next;
      env->shared_free(env, &kept->memory);
      env->release(env, kept);
    } else {
      at = &kept->next;
    }
  }
}

/* Waits for what the client has sent before it asked.  0: it has gone, or this
** process leaves. */
static int take_lent(struct serving *v, struct env_shared lent[2]) {
  struct server *server = v->server;
  struct env *env = server->env;
  pthread_mutex_lock(&server->lock);
  while (!v->is_lent && !is_over(v) && !is_leaving(v)) {
    env->wait_us(env, &v->arrived, &server->lock, WAKE_US);
  }
  int is_lent = v->is_lent;
  if (is_lent) {
    memcpy(lent, v->lent, sizeof v->lent);
    memset(v->lent, 0, sizeof v->lent); /* it is freed once */
    v->is_lent = 0;
  }
  pthread_mutex_unlock(&server->lock);
  return is_lent;
}

static void free_lent(struct env *env, struct env_shared lent[2]) {
  for (int i = 0; i < 2; i++) {
    if (lent[i].base) {
      env->shared_free(env, &lent[i]);
      lent[i].base = NULL;
    }
  }
}

/* Where the request is and its answer goes; what is in the slot is copied,
** since the client could change it. */
static int find_request(struct serving *v, struct env_shared lent[2],
                        struct run_memory *m) {
  struct link_slot *slot = v->slot;
  uint32_t bytes = *(volatile uint32_t *)&slot->request_bytes;
  uint32_t is_lent = *(volatile uint32_t *)&slot->lent;
  if (is_lent) {
    if (!take_lent(v, lent)) {
      return 0;
    }
    *m = (struct run_memory){lent[0].base, lent[0].bytes, lent[1].base,
                             lent[1].base ? lent[1].bytes : 0};
    return 1;
  }
  bytes = bytes < SLOT_DATA_BYTES ? bytes : SLOT_DATA_BYTES;
  memcpy(v->copy, slot->data, bytes);
  *m = (struct run_memory){(const void *)v->copy, bytes, slot->data,
                           SLOT_DATA_BYTES};
  return 1;
}

/* The turn that follows. */
static uint32_t serve_answer(struct serving *v) {
  struct env *env = v->server->env;
  struct link_slot *slot = v->slot;
  emb_session *s = v->s;
  struct env_shared lent[2] = {{0}};
  struct run_memory m;
  uint64_t result = 0, ticket = 0;
  if (!find_request(v, lent, &m)) {
    return is_leaving(v) ? SLOT_LEFT : SLOT_IDLE;
  }
  uint32_t call = m.request_bytes >= sizeof *m.request ? m.request->call : 0;
  uint32_t flags = call && call < CALLS ? shapes[call].flags : 0;
  int asks = call && (m.request->flags & REQUEST_BLOCKS);
  s->err.code = EMB_OK;
  s->err.text[0] = 0;
  emb_session_blocks(s, asks ? serving_blocks : NULL, v);
  atomic_store_explicit(&v->again, (flags & SHAPE_AGAIN) != 0,
                        memory_order_relaxed);
  atomic_store_explicit(&v->call, call, memory_order_relaxed);
  struct kept *kept =
      call == CALL_prefetch ? env->allocate(env, sizeof *kept) : NULL;
  int rc = call == CALL_prefetch && !kept
               ? err_set(&s->err, EMB_NOMEM, "out of memory")
               : run__request(&v->run, &m, &result, &ticket);
  atomic_store_explicit(&v->call, 0, memory_order_relaxed);
  atomic_fetch_add_explicit(&v->calls, 1, memory_order_relaxed);
  if (ticket && kept) {
    keep_lent(v, kept, ticket, &lent[1]);
    kept = NULL;
  } else if (ticket) {
    free_kept(v, ticket, 0);
  }
  env->release(env, kept);
  free_lent(env, lent);
  if (v->run.moment && call == CALL_backup_begin && !rc) {
    v->moment_us = env->now_us(env);
  }
  int code = rc ? rc : flags & SHAPE_CODE ? (int)(uint32_t)result : EMB_OK;
  if (code == EMB_INTERRUPT && is_leaving(v) && !atomic_load(&slot->cancel)) {
    if (flags & SHAPE_AGAIN) {
      return SLOT_LEFT;
    }
    rc = session_error(s, EMB_LOST,
                       "the process that owns %s closes it: whether this call "
                       "was carried out is not known",
                       s->core->dir);
  }
  if (code == EMB_LOCKED) { /* perhaps for what is in doubt since just now */
    server__tell(v->server);
  }
  slot->result = rc ? (uint64_t)(uint32_t)rc : result;
  slot->met_doubt = s->met_doubt;
  slot->code = s->err.code;
  snprintf(slot->text, sizeof slot->text, "%s", s->err.text);
  uint32_t holds = run__holds(&v->run);
  note_holds(v, holds);
  slot->holds = holds;
  return SLOT_ANSWERED;
}

/* Where the client runs: to wake a processor that sleeps takes ten times as
** long as to switch to a thread on one's own, and only one of the two works. */
static void follow(struct serving *v) {
  uint32_t processor = *(volatile uint32_t *)&v->slot->processor;
  if (processor != v->processor) {
    (void)v->server->env->stay_on(v->server->env, processor);
    v->processor = processor;
  }
}

/* It has had nothing to do for long: its thread may end, and the client's next
** message starts another.  Who asks sets the turn and then looks whether the
** session is parked; this is the other way round, so one of the two sees it. */
static int park(struct serving *v, uint32_t turn) {
  struct link_slot *slot = v->slot;
  atomic_store(&v->parked, SERVING_PARKED);
  atomic_store(&slot->parked, 1);
  if (atomic_load(&slot->turn) == turn && !is_over(v) && !is_leaving(v)) {
    return 1;
  }
  int was = SERVING_PARKED;
  if (!atomic_compare_exchange_strong(&v->parked, &was, SERVING_RUNS)) {
    return 1; /* another thread goes on */
  }
  atomic_store(&slot->parked, 0);
  return 0;
}

/* 1: it is parked. */
static int serve_session(struct serving *v) {
  struct env *env = v->server->env;
  struct link_slot *slot = v->slot;
  uint64_t idle_us = env->now_us(env);
  while (!is_over(v)) {
    uint32_t turn = atomic_load_explicit(&slot->turn, memory_order_acquire);
    int leaving = is_leaving(v);
    if (v->run.moment && env->now_us(env) - v->moment_us > MOMENT_US) {
      run__end_moment(&v->run);
    }
    if (turn == SLOT_ASKED &&
        atomic_compare_exchange_strong(&slot->turn, &turn,
                                       leaving ? SLOT_LEFT : SLOT_RUNNING)) {
      if (!leaving) {
        follow(v);
        give_turn(v, serve_answer(v));
        idle_us = env->now_us(env);
      }
    } else if (leaving || turn == SLOT_CLOSING) {
      break;
    } else if (turn != SLOT_ASKED) {
      uint64_t keeps = process_keeps_us(v->server->store->core.process,
                                        PROCESS_SERVING, PARK_US);
      if (!v->run.moment && env->now_us(env) - idle_us >= keeps) {
        env->discard(env, v->copy, SLOT_DATA_BYTES);
        if (park(v, turn)) {
          return 1;
        }
      }
      env->word_wait(env, &slot->turn, turn,
                     v->run.moment          ? MOMENT_US / 10
                     : keeps < PARK_LOOK_US ? keeps
                                            : PARK_LOOK_US);
    }
  }
  return 0;
}

static void note_ended(struct serving *v, uint64_t ticket, int code) {
  if (v->ended_tickets < SLOT_TICKETS) {
    v->slot->ended[v->ended_tickets++] = (struct slot_ticket){ticket, code, 0};
    v->slot->ended_count = v->ended_tickets;
  }
}

/* The owner leaves: what its client has under way is ended, so that it needs no
** other owner for that.  But for prefetches that count: they may wait for
** another session's Put, and their leases end here. */
static void finish_tickets(struct serving *v) {
  emb_session *s = v->s;
  int rc = EMB_OK;
  v->is_finishing = 1;
  while (rc != EMB_INTERRUPT && !is_over(v) &&
         !EMB_SEED(SEED_LEAVING_OWNER_CANCELS)) {
    const struct job *job = s->tickets;
    while (job && job->call) {
      job = job->sibling;
    }
    if (!job) {
      break;
    }
    uint64_t ticket = job->number;
    rc = job->kind == JOB_READ ? local_prefetch_synchronize(s, ticket, NULL)
                               : local_write_back_synchronize(s, ticket, NULL);
    if (rc != EMB_INTERRUPT) {
      note_ended(v, ticket, rc);
    }
  }
}

static void serving_thread(void *arg) {
  struct serving *v = arg;
  struct server *server = v->server;
  struct process *process = server->store->core.process;
  process_count(process, PROCESS_SERVING, 1);
  int is_parked = serve_session(v);
  process_count(process, PROCESS_SERVING, -1);
  if (is_parked) {
    return;
  }
  if (is_leaving(v)) {
    finish_tickets(v);
  }
  uint64_t prepared = run__prepared(&v->run);
  run__end(&v->run);
  async_close(v->s); /* what is in flight goes to what is kept */
  free_kept(v, 0, 1);
  emb_session_blocks(v->s, NULL, NULL);
  emb_session_interrupt(v->s, NULL, NULL);
  if (prepared) {
    orphan__adopt(v->s, prepared);
    server__tell(server);
  } else {
    leave_session(v->s);
  }
  note_holds(v, 0);
  uint32_t turn = SLOT_CLOSING;
  (void)atomic_compare_exchange_strong(&v->slot->turn, &turn, SLOT_LEFT);
  server->env->word_wake(server->env, &v->slot->turn);
  atomic_store_explicit(&v->ended, 1, memory_order_release);
  hub__call(&server->hub);
}

/* In the hub's thread: a parked session goes on. */
static void unpark(struct serving *v) {
  struct env *env = v->server->env;
  int was = SERVING_PARKED;
  if (!v->thread ||
      !atomic_compare_exchange_strong(&v->parked, &was, SERVING_CLAIMED)) {
    return;
  }
  env->thread_join(env, v->thread); /* it is about to end, or has */
  atomic_store(&v->slot->parked, 0);
  atomic_store(&v->parked, SERVING_RUNS);
  v->processor = UINT32_MAX;
  if (env->thread_start(env, serving_thread, v, &v->thread)) {
    v->thread = NULL;
    atomic_store(&v->gone, 1);
    serving_thread(v); /* which only ends it */
  }
}

/* ---- coming and going ---------------------------------------------------- */

/* Those that have not said hello; the hub's thread. */
static struct serving **strangers(struct hub *hub) {
  return (struct serving **)hub__own(hub);
}

/* The one of them that has waited longest goes, if there are too many. */
static void limit_strangers(struct hub *hub) {
  struct serving *oldest = NULL;
  int n = 0;
  for (struct serving *v = *strangers(hub); v; v = v->next) {
    if (!is_over(v)) {
      oldest = v; /* new ones come in front */
      n++;
    }
  }
  if (n > SILENT_MAX) {
    atomic_store(&oldest->gone, 1);
  }
}

static int foreign_sessions(struct server *server) {
  int n = 0;
  pthread_mutex_lock(&server->lock);
  for (struct serving *v = server->clients; v; v = v->next) {
    n += v->slot && !v->who.is_same_user;
  }
  pthread_mutex_unlock(&server->lock);
  return n;
}

static void accept_one(struct hub *hub, struct env_peer *peer) {
  struct env *env = hub__env(hub);
  struct serving *v = env->allocate(env, sizeof *v);
  pthread_condattr_t clock;
  if (!v || hub__watch(hub, peer, v)) {
    env->release(env, v);
    env->peer_close(env, peer);
    return;
  }
  v->hub = hub;
  v->peer = peer;
  v->came_us = env->now_us(env);
  env->peer_who(env, peer, &v->who);
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&v->arrived, &clock);
  pthread_condattr_destroy(&clock);
  v->next = *strangers(hub);
  *strangers(hub) = v;
  limit_strangers(hub);
}

/* The store that a client wants is the one whose log it shows.  One that shows
** none can only be told what is wrong, by any. */
static int has_log(struct hub_server *hub, const void *arg) {
  struct server *server = (struct server *)(void *)hub;
  const struct env_gift_in *gift = arg;
  int is_closed =
      atomic_load(&server->leaving) &&
      (!awaits_txn(server) || EMB_SEED(SEED_LEAVING_OWNER_TAKES_NOBODY));
  pthread_mutex_lock(&server->lock);
  int fits = !is_closed && !server->end &&
             (gift->kind != ENV_GIFT_FILE ||
              memcmp(server->log_id, gift->id, sizeof server->log_id) == 0);
  pthread_mutex_unlock(&server->lock);
  return fits;
}

/* It becomes a client of that store's server; 0: this process does not own it,
** or not any more. */
static int find_server(struct serving *v, const struct env_message *message) {
  struct hub *hub = v->hub;
  struct server *server =
      (struct server *)(void *)hub__find(hub, has_log, &message->gifts[0]);
  if (!server) {
    return 0;
  }
  struct serving **at = strangers(hub);
  while (*at != v) {
    at = &(*at)->next;
  }
  *at = v->next;
  pthread_mutex_lock(&server->lock);
  v->server = server;
  v->next = server->clients;
  server->clients = v;
  pthread_mutex_unlock(&server->lock);
  return 1;
}

/* May this client have a session, and may that write? */
static int judge_hello(struct server *server, const struct serving *v,
                       struct hello *hello, const struct env_message *message,
                       int *readonly, emb_err *err) {
  emb_store *store = server->store;
  struct core *core = &store->core;
  uint64_t log_id[2] = {0, 0};
  char path[PATH_BYTES];
  hello->schema[sizeof hello->schema - 1] = 0;
  if (hello->head.magic != SLOT_MAGIC) {
    return err_set(err, EMB_CANTOPEN, "cannot open %s: this is not a hello",
                   core->dir);
  }
  if (memcmp(hello->uuid, core->uuid, sizeof hello->uuid) != 0) {
    return err_set(err, EMB_CANTOPEN, "%s was replaced by another store",
                   core->dir);
  }
  if (message->gifts[0].kind != ENV_GIFT_FILE ||
      path_join(path, sizeof path, core->dir, FILE_LOG, NULL) ||
      server->env->identity(server->env, path, log_id) ||
      memcmp(log_id, message->gifts[0].id, sizeof log_id) != 0) {
    return err_set(err, EMB_CANTOPEN, "cannot open %s/log", core->dir);
  }
  if (!v->who.is_same_user && foreign_sessions(server) >= FOREIGN_MAX) {
    return err_set(err, EMB_BUSY, "%s is used by too many other users",
                   core->dir);
  }
  *readonly =
      hello->readonly || !message->gifts[0].writable || !v->who.is_same_user;
  return share_store(store, hello->schema, hello->bounded && !*readonly,
                     hello->staleness, err);
}

static int make_link_slot(struct serving *v, int readonly, emb_err *err) {
  struct server *server = v->server;
  struct env *env = server->env;
  int rc = session_new(server->store, &v->s, err);
  if (!rc) {
    int os = env->shared_make(env, sizeof(struct link_slot), &v->memory);
    v->copy = os ? NULL : env->map(env, SLOT_DATA_BYTES, 0);
    rc = v->copy ? EMB_OK : err_set(err, EMB_NOMEM, "out of memory");
  }
  if (!rc) {
    v->number = ++server->last;
    v->since_s = env->wall_s(env);
    run__init(&v->run, v->s, readonly, !v->who.is_same_user);
    v->processor = UINT32_MAX;
    v->s->asked_by = v->who.process ? v->who.process : -1;
    v->s->number = v->number;
    v->run.report = serving_report;
    v->run.report_arg = v;
    pthread_mutex_lock(&server->lock);
    v->slot = v->memory.base;
    pthread_mutex_unlock(&server->lock);
    emb_session_interrupt(v->s, serving_interrupted, v);
    atomic_store(&v->slot->in_doubt, local_in_doubt(server->store));
    int os = env->thread_start(env, serving_thread, v, &v->thread);
    rc = os ? err_os(err, EMB_NOMEM, os, "cannot start a thread") : EMB_OK;
  }
  if (rc && v->s) {
    emb_session_interrupt(v->s, NULL, NULL);
    leave_session(v->s);
    v->s = NULL;
  }
  if (rc) {
    pthread_mutex_lock(&server->lock);
    v->slot = NULL;
    pthread_mutex_unlock(&server->lock);
  }
  return rc;
}

static void greet(struct serving *v, struct hello *hello,
                  const struct env_message *message) {
  struct server *server = v->server;
  struct env *env = server->env;
  struct welcome welcome;
  emb_err err = {EMB_OK, ""};
  int readonly = 0;
  v->is_store = hello->is_store != 0;
  memset(&welcome, 0, sizeof welcome);
  int rc = judge_hello(server, v, hello, message, &readonly, &err);
  rc = rc ? rc : make_link_slot(v, readonly, &err);
  welcome.head = hello__head(sizeof welcome);
  welcome.code = rc;
  welcome.number = v->number;
  welcome.since = server->since_s;
  welcome.process = env->process(env);
  snprintf(welcome.text, sizeof welcome.text, "%s", err.text);
  struct env_message answer = {.bytes = &welcome, .n = sizeof welcome};
  if (!rc) {
    answer.gifts[0].kind = ENV_GIFT_SHARED;
    answer.gifts[0].shared = v->memory;
  }
  if (env->peer_send(env, v->peer, &answer) || rc) {
    atomic_store(&v->gone, 1);
  }
  env->shared_sent(env, &v->memory);
}

/* Another protocol's client: it is told in the words that it knows. */
static void turn_away(struct serving *v, const struct greeting *client) {
  struct env *env = v->server->env;
  union {
    struct welcome welcome;
    struct old_welcome old;
  } out;
  emb_err err;
  struct greeting head = hello__head(sizeof out.welcome);
  int64_t process = env->process(env);
  int rc =
      hello__refuse(&err, v->server->store->core.dir, link__name(process).text,
                    process == v->who.process, &head, client);
  struct env_message answer = {.bytes = &out, .n = sizeof out.welcome};
  memset(&out, 0, sizeof out);
  if (client->protocol <= OLD_PROTOCOL) {
    answer.n = sizeof out.old;
    out.old.magic = SLOT_MAGIC;
    out.old.protocol = SLOT_VERSION;
    out.old.kind = MESSAGE_HELLO;
    out.old.code = rc;
    snprintf(out.old.text, sizeof out.old.text, "%s", err.text);
  } else {
    out.welcome.head = head;
    out.welcome.code = rc;
    snprintf(out.welcome.text, sizeof out.welcome.text, "%s", err.text);
  }
  (void)env->peer_send(env, v->peer, &answer);
  atomic_store(&v->gone, 1);
}

/* What is asked, and where the answer goes, if there is more than the slot
** holds. */
static int is_loan(const struct env_message *message) {
  const struct env_gift_in *asked = &message->gifts[0];
  const struct env_gift_in *answer = &message->gifts[1];
  return asked->kind == ENV_GIFT_FIXED && asked->shared.bytes <= LENT_MAX &&
         (answer->kind == ENV_GIFT_NONE || (answer->kind == ENV_GIFT_SHARED &&
                                            answer->shared.bytes <= LENT_MAX));
}

static void take_loan(struct serving *v, const struct env_message *message) {
  struct server *server = v->server;
  pthread_mutex_lock(&server->lock);
  if (v->is_lent) { /* one at a time */
    free_lent(server->env, v->lent);
  }
  v->lent[0] = message->gifts[0].shared;
  v->lent[1] = message->gifts[1].kind == ENV_GIFT_SHARED
                   ? message->gifts[1].shared
                   : (struct env_shared){0};
  v->is_lent = 1;
  pthread_cond_broadcast(&v->arrived);
  pthread_mutex_unlock(&server->lock);
}

static void free_gifts(struct env *env, struct env_message *message) {
  for (int i = 0; i < ENV_GIFTS_MAX; i++) {
    if (message->gifts[i].kind == ENV_GIFT_SHARED ||
        message->gifts[i].kind == ENV_GIFT_FIXED) {
      env->shared_free(env, &message->gifts[i].shared);
    }
  }
}

union incoming {
  struct hello hello;
  struct signal_message signal;
};

/* A first message, of n bytes. */
static void meet(struct serving *v, union incoming *in, size_t n,
                 struct env_message *message) {
  int is_other = hello__is_other(in, n);
  int is_hello =
      is_other || (n == sizeof in->hello && in->signal.kind == MESSAGE_HELLO);
  if (!is_hello || !find_server(v, message)) {
    atomic_store(&v->gone, 1);
  } else if (is_other) {
    turn_away(v, &in->hello.head);
  } else {
    greet(v, &in->hello, message);
  }
}

/* What it has sent; anything else ends it. */
static void hear(struct serving *v) {
  struct env *env = hub__env(v->hub);
  union incoming in;
  struct env_message message = {.bytes = &in, .n = sizeof in};
  memset(&in, 0, sizeof in);
  int os = env->peer_receive(env, v->peer, &message, 0);
  if (os == EAGAIN) {
    return;
  }
  /* Of one that is longer the beginning has come. */
  size_t n = !os ? message.n : os == EMSGSIZE ? sizeof in : 0;
  uint32_t kind = os || n < sizeof in.signal ? 0 : in.signal.kind;
  if (kind == MESSAGE_PING) {
    in.signal.kind = MESSAGE_PONG;
    struct env_message pong = {.bytes = &in.signal, .n = sizeof in.signal};
    (void)env->peer_send(env, v->peer, &pong);
  } else if (!v->server) {
    meet(v, &in, n, &message);
  } else if (kind == MESSAGE_LOAN && v->slot && is_loan(&message)) {
    take_loan(v, &message);
    return;
  } else if (kind == MESSAGE_WAKE && v->slot) {
    unpark(v);
  } else {
    atomic_store(&v->gone, 1);
  }
  if (!os) {
    free_gifts(env, &message);
  }
}

static void serving_free(struct serving *v) {
  struct env *env = hub__env(v->hub);
  if (v->thread) {
    env->thread_join(env, v->thread);
  }
  hub__unwatch(v->hub, v->peer);
  env->peer_close(env, v->peer);
  free_lent(env, v->lent);
  if (v->memory.base) {
    env->shared_free(env, &v->memory);
  }
  if (v->copy) {
    env->unmap(env, v->copy, SLOT_DATA_BYTES);
  }
  pthread_cond_destroy(&v->arrived);
  env->release(env, v);
}

/* For the store's user: not what a process asks for itself. */
static uint64_t calls_of(struct serving *v) {
  return v->is_store ? 0
                     : atomic_load_explicit(&v->calls, memory_order_relaxed);
}

static void free_all(struct serving *v) {
  while (v) {
    struct serving *next = v->next;
    serving_free(v);
    v = next;
  }
}

/* For the hub: those that have not said hello. */
static uint64_t sweep_strangers(struct hub *hub, int at_end) {
  struct env *env = hub__env(hub);
  uint64_t now = env->now_us(env);
  struct serving *ended = NULL, **at = strangers(hub);
  while (*at) {
    struct serving *v = *at;
    if (at_end || is_over(v) || now - v->came_us > HELLO_US) {
      *at = v->next;
      v->next = ended;
      ended = v;
    } else {
      at = &v->next;
    }
  }
  free_all(ended);
  return *strangers(hub) ? HELLO_US : UINT64_MAX;
}

/* How far a server that leaves is. */
static int note_leaving(struct server *server) {
  struct env *env = server->env;
  uint64_t now = env->now_us(env);
  int leaving = atomic_load(&server->leaving);
  server->left_us = leaving && !server->left_us ? now : server->left_us;
  if (leaving == 1 && now - server->left_us > LEAVE_US) {
    atomic_store(&server->leaving, 2);
  } else if (leaving == 2 && now - server->left_us > LEAVE_PREPARED_US) {
    atomic_store(&server->leaving, 3);
  }
  return leaving;
}

/* The client, or its hello, was in vain. */
static int is_to_be_freed(struct serving *v, int leaving) {
  if (!v->thread) {
    return !v->slot || atomic_load_explicit(&v->ended, memory_order_acquire);
  }
  return atomic_load_explicit(&v->ended, memory_order_acquire) &&
         !(leaving && !atomic_load(&v->gone));
}

/* The sign is in the slot before the socket closes: who sees that alone knows
** that the owner has died. */
static struct serving *take_clients(struct server *server) {
  struct serving *all = server->clients;
  server->clients = NULL;
  for (struct serving *v = all; v; v = v->next) {
    if (v->slot) {
      atomic_store_explicit(&v->slot->left, server->end == 2,
                            memory_order_release);
    }
  }
  return all;
}

/* For the hub: frees those that have ended, and wakes those that are to. */
static uint64_t sweep(struct hub_server *hub) {
  struct server *server = (struct server *)(void *)hub;
  struct env *env = server->env;
  uint64_t wait = UINT64_MAX;
  int leaving = note_leaving(server), sessions = 0;
  struct serving *ended = NULL;
  pthread_mutex_lock(&server->lock);
  for (struct serving **at = &server->clients; *at;) {
    struct serving *v = *at;
    if (is_to_be_freed(v, leaving)) {
      *at = v->next;
      v->next = ended;
      ended = v;
      server->calls_before += calls_of(v);
      continue;
    }
    int runs =
        v->thread && !atomic_load_explicit(&v->ended, memory_order_acquire);
    if (runs && (atomic_load(&v->gone) || leaving)) {
      pthread_mutex_unlock(&server->lock);
      unpark(v);
      pthread_mutex_lock(&server->lock);
      env->word_wake(env, &v->slot->turn);
      pthread_cond_broadcast(&v->arrived);
      wait = WAKE_US;
    }
    sessions += runs;
    at = &v->next;
  }
  if (server->end && !server->is_over) {
    struct serving *all = take_clients(server);
    pthread_mutex_unlock(&server->lock);
    free_all(all);
    pthread_mutex_lock(&server->lock);
    server->is_over = 1;
  }
  server->is_quiet = leaving && !sessions;
  pthread_cond_broadcast(&server->changed);
  pthread_mutex_unlock(&server->lock);
  free_all(ended);
  return wait;
}

/* For the hub. */
static void heard(void *tag, int what) {
  struct serving *v = tag;
  if (what & ENV_WATCH_GONE) {
    atomic_store(&v->gone, 1);
  } else if (!is_over(v)) {
    hear(v);
  }
  if (is_over(v)) { /* else this comes again until its call has ended */
    hub__unwatch(v->hub, v->peer);
    if (v->server) {
      hub__call(&v->server->hub);
    }
  }
}

static const struct hub_calls server_calls_of_hub = {
    .accepted = accept_one,
    .heard = heard,
    .sweep = sweep,
    .idle = sweep_strangers,
};

/* ---- the server ---------------------------------------------------------- */

static void server_free(struct server *server) {
  pthread_mutex_destroy(&server->lock);
  pthread_cond_destroy(&server->changed);
  server->env->release(server->env, server);
}

/* *remote: the file system's name, of one that other machines may have. */
static int join_hub(struct server *server, const char **remote) {
  struct core *core = &server->store->core;
  struct env *env = core->env;
  struct env_about log;
  struct env_dir *names;
  int os = env->open_dir(env, core->dir, &names);
  if (os) {
    return os;
  }
  *remote = env->is_remote(env, names);
  os = *remote ? ENOTSUP : env->about(env, core->log.file, NULL, &log);
  if (!os) {
    memcpy(server->log_id, log.id, sizeof log.id);
    os = hub__join(core->process, &server_calls_of_hub, names, FILE_SOCKET,
                   &server->hub);
  }
  env->close_dir(env, names);
  return os;
}

int server__start(emb_store *store, struct server **out, emb_err *err) {
  struct env *env = store->core.env;
  struct server *server = env->allocate(env, sizeof *server);
  const char *remote = NULL;
  *out = NULL;
  if (!server) {
    return err_set(err, EMB_NOMEM, "out of memory");
  }
  server->store = store;
  server->env = env;
  server->since_s = env->wall_s(env);
  pthread_mutex_init(&server->lock, NULL);
  pthread_cond_init(&server->changed, NULL);
  int os = join_hub(server, &remote);
  if (os) {
    server_free(server);
    return remote ? err_set(err, EMB_CANTOPEN,
                            "%s is on %s: only one process can use it",
                            store->core.dir, remote)
                  : err_os(err, EMB_CANTOPEN, os, "cannot serve %s",
                           store->core.dir);
  }
  *out = server;
  return EMB_OK;
}

void server__stop(struct server *server) {
  atomic_store(&server->leaving, 1);
  hub__call(&server->hub);
  pthread_mutex_lock(&server->lock);
  while (!server->is_quiet) {
    pthread_cond_wait(&server->changed, &server->lock);
  }
  pthread_mutex_unlock(&server->lock);
}

void server__end(struct server *server, int in_peace) {
  pthread_mutex_lock(&server->lock);
  server->end = in_peace ? 2 : 1;
  pthread_mutex_unlock(&server->lock);
  hub__call(&server->hub);
  pthread_mutex_lock(&server->lock);
  while (!server->is_over) {
    pthread_cond_wait(&server->changed, &server->lock);
  }
  pthread_mutex_unlock(&server->lock);
  hub__leave(server->store->core.process, &server->hub);
  server_free(server);
}

void server__tell(struct server *server) {
  pthread_mutex_lock(&server->lock);
  for (struct serving *v = server->clients; v; v = v->next) {
    if (v->slot) {
      atomic_store(&v->slot->in_doubt, local_in_doubt(server->store));
      atomic_store(&v->slot->dropped,
                   (uint32_t)local_is_dropped(server->store));
    }
  }
  pthread_mutex_unlock(&server->lock);
}

uint64_t server__calls(struct server *server) {
  pthread_mutex_lock(&server->lock);
  uint64_t calls = server->calls_before;
  for (struct serving *v = server->clients; v; v = v->next) {
    calls += calls_of(v);
  }
  pthread_mutex_unlock(&server->lock);
  return calls;
}

size_t server__clients(struct server *server, struct server_client *clients,
                       size_t max) {
  size_t n = 0;
  pthread_mutex_lock(&server->lock);
  for (struct serving *v = server->clients; v; v = v->next) {
    if (!v->slot || v->is_store || atomic_load(&v->gone)) {
      continue;
    }
    uint32_t call = atomic_load_explicit(&v->call, memory_order_relaxed);
    if (n < max) {
      clients[n] = (struct server_client){
          .process = v->who.process,
          .user = v->who.user,
          .number = v->number,
          .since_s = v->since_s,
          .calls = atomic_load_explicit(&v->calls, memory_order_relaxed),
          .readonly = v->run.readonly,
          .in_transaction =
              (atomic_load_explicit(&v->holds, memory_order_relaxed) &
               (SLOT_HAS_TXN | SLOT_HAS_PREPARED)) != 0,
          .call = call && call < CALLS ? shapes[call].name : NULL};
    }
    n++;
  }
  pthread_mutex_unlock(&server->lock);
  return n;
}
