/* SPDX-License-Identifier: MIT
**
** serving.c -- a session of another process, at the owner: carries out its
** calls one after the other, until it ends.
**
** THREADS   The hub's thread [hub.h] handles new clients, messages outside the
**           slots, and the end of a client, which the system reports
**           immediately.  Each client's session has its own thread.  It sleeps
**           until the client makes a request, carries the request out like any
**           caller of the engine, and waits like any caller for a lease, a key
**           or a transaction.  So the engine knows nothing of serving.  After
**           PARK_US without a call the thread ends, and the next call's
**           message starts another [session_park, serving__unpark]: of
**           hundreds of tables few are used at a time.
** A CLIENT THAT DIES  is a session that is closed: its transaction is rolled
**           back, and its leases are given back.  If the transaction was
**           prepared, its coordinator may have decided; then only the
**           coordinator's next user may say how it ends [orphan.h].
** TRUST     Nothing read from a slot or a message is used until it has been
**           copied and checked [run.c].  The engine writes answers to shared
**           memory, and reads nothing back that matters.
** LOCKS     server.lock protects the list of clients and lent memory.  While it
**           is held, the only call of the engine is to open a session.
*/
#include "serving.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "engine/features/lookahead/async.h"
#include "engine/table/jobs/job.h"
#include "leave.h"
#include "link.h"
#include "orphan.h"

/* Time a client has to answer a question before it is given up: its running
** call may hold something that others wait for. */
#define QUESTION_US 10000000
/* Maximum time an unfrozen backup of a client may block checkpoints. */
#define MOMENT_US 10000000
/* Idle time after which a session gives up its thread; less if there are many
** threads, which is checked every PARK_LOOK_US. */
#define PARK_US 1000000
#define PARK_LOOK_US 25000

void serving__tell(struct server *server) {
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

static void give_turn(struct serving *v, uint32_t turn) {
  atomic_store_explicit(&v->slot->turn, turn, memory_order_release);
  v->server->env->word_wake(v->server->env, &v->slot->turn);
}

int serving__is_over(struct serving *v) {
  return atomic_load_explicit(&v->gone, memory_order_relaxed);
}

/* May a transaction still end in time?  Until it has, all sessions are served,
** including new ones: a COMMIT may wait for a reading statement to end, which
** must read here. */
int serving__awaits_txn(struct server *server) {
  int leaving = atomic_load_explicit(&server->leaving, memory_order_relaxed);
  return leaving == 1   ? atomic_load(&server->txns) > 0
         : leaving == 2 ? atomic_load(&server->prepared) > 0
                        : 0;
}

/* Is the owner leaving?  Called by the session's thread. */
static int is_leaving(struct serving *v) {
  struct server *server = v->server;
  int leaving = atomic_load_explicit(&server->leaving, memory_order_relaxed);
  return serving__awaits_txn(server) ||
                 (leaving == 1 && run__is_awaited(&v->run))
             ? 0
             : leaving;
}

static void note_holds(struct serving *v, uint32_t holds) {
  uint32_t had = atomic_load_explicit(&v->holds, memory_order_relaxed);
  int txn = !!(holds & SLOT_HAS_TXN) - !!(had & SLOT_HAS_TXN);
  int prepared = !!(holds & SLOT_HAS_PREPARED) - !!(had & SLOT_HAS_PREPARED);
  int txns =
      atomic_fetch_add_explicit(&v->server->txns, txn, memory_order_relaxed);
  int were = atomic_fetch_add_explicit(&v->server->prepared, prepared,
                                       memory_order_relaxed);
  emb_assert(txns + txn >= 0 && were + prepared >= 0);
  atomic_store_explicit(&v->holds, holds, memory_order_relaxed);
}

/* For emb_session_interrupt. */
int serving__interrupted(void *arg) {
  struct serving *v = arg;
  int leaving = is_leaving(v);
  if (v->is_finishing) {
    return serving__is_over(v) || leaving > 2;
  }
  return serving__is_over(v) || leaving > 1 ||
         atomic_load_explicit(&v->slot->cancel, memory_order_relaxed) ||
         (leaving && atomic_load_explicit(&v->again, memory_order_relaxed));
}

/* Asks the client a question while it waits for the answer to its call. */
static uint32_t client_ask(struct serving *v, uint32_t asked, uint32_t what) {
  struct env *env = v->server->env;
  uint64_t start = env->now_us(env);
  v->slot->question = asked;
  v->slot->what = what;
  give_turn(v, SLOT_QUESTION);
  while (atomic_load_explicit(&v->slot->turn, memory_order_acquire) ==
         SLOT_QUESTION) {
    if (serving__is_over(v)) {
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
  return client_ask(arg, QUESTION_BLOCKS, (uint32_t)what) != 0;
}

/* For emb_verify. */
void serving__report(void *arg, const char *line) {
  struct serving *v = arg;
  snprintf(v->slot->text, sizeof v->slot->text, "%s", line);
  client_ask(v, QUESTION_REPORT, 0);
}

/* Keeps lent memory that is still being written to.  `kept` was allocated
** before the call, so this cannot fail. */
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

/* Waits for the memory that the client sent before its request.  0: the client
** has gone, or this process is leaving. */
static int take_lent(struct serving *v, struct env_shared lent[2]) {
  struct server *server = v->server;
  struct env *env = server->env;
  pthread_mutex_lock(&server->lock);
  while (!v->is_lent && !serving__is_over(v) && !is_leaving(v)) {
    env->wait_us(env, &v->arrived, &server->lock, WAKE_US);
  }
  int is_lent = v->is_lent;
  if (is_lent) {
    memcpy(lent, v->lent, sizeof v->lent);
    memset(v->lent, 0, sizeof v->lent); /* it must be freed only once */
    v->is_lent = 0;
  }
  pthread_mutex_unlock(&server->lock);
  return is_lent;
}

void serving__free_lent(struct env *env, struct env_shared lent[2]) {
  for (int i = 0; i < 2; i++) {
    if (lent[i].base) {
      env->shared_free(env, &lent[i]);
      lent[i].base = NULL;
    }
  }
}

/* Finds the memory of the request and of its answer.  A request in the slot is
** copied, since the client could change it. */
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

/* Serves a request; returns the turn that follows. */
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
  serving__free_lent(env, lent);
  if (v->run.moment && call == CALL_backup_begin && !rc) {
    v->moment_us = env->now_us(env);
  }
  int code = rc ? rc : flags & SHAPE_CODE ? (int)(uint32_t)result : EMB_OK;
  if (code == EMB_INTERRUPT && is_leaving(v) && !atomic_load(&slot->cancel)) {
    if (flags & SHAPE_AGAIN) {
      return SLOT_LEFT;
    }
    rc = session_error(s, EMB_LOST,
                       "the process that owns %s is closing it; it is not "
                       "known whether this call was executed",
                       s->core->dir);
  }
  if (code == EMB_LOCKED) { /* maybe for a transaction only now in doubt */
    serving__tell(v->server);
  }
  slot->result = rc ? (uint64_t)(uint32_t)rc : result;
  slot->met_doubt = s->doubt.met;
  slot->code = s->err.code;
  snprintf(slot->text, sizeof slot->text, "%s", s->err.text);
  uint32_t holds = run__holds(&v->run);
  note_holds(v, holds);
  slot->holds = holds;
  return SLOT_ANSWERED;
}

/* Moves the thread to the client's processor: waking a sleeping processor takes
** ten times as long as switching threads on one's own, and only one of the two
** threads works at a time. */
static void follow_client(struct serving *v) {
  uint32_t processor = *(volatile uint32_t *)&v->slot->processor;
  if (processor != v->processor) {
    (void)v->server->env->stay_on(v->server->env, processor);
    v->processor = processor;
  }
}

/* Parks an idle session: its thread may end, and the client's next message
** starts another.  A client sets the turn and then checks whether the session
** is parked; this does the opposite, so at least one of the two sees the
** other. */
static int session_park(struct serving *v, uint32_t turn) {
  struct link_slot *slot = v->slot;
  atomic_store(&v->parked, SERVING_PARKED);
  atomic_store(&slot->parked, 1);
  if (atomic_load(&slot->turn) == turn && !serving__is_over(v) &&
      !is_leaving(v)) {
    return 1;
  }
  int was = SERVING_PARKED;
  if (!atomic_compare_exchange_strong(&v->parked, &was, SERVING_RUNS)) {
    return 1; /* another thread takes over */
  }
  atomic_store(&slot->parked, 0);
  return 0;
}

/* Returns 1 if the session is parked. */
static int serve_session(struct serving *v) {
  struct env *env = v->server->env;
  struct link_slot *slot = v->slot;
  uint64_t idle_us = env->now_us(env);
  while (!serving__is_over(v)) {
    uint32_t turn = atomic_load_explicit(&slot->turn, memory_order_acquire);
    int leaving = is_leaving(v);
    if (v->run.moment && env->now_us(env) - v->moment_us > MOMENT_US) {
      run__end_moment(&v->run);
    }
    if (turn == SLOT_ASKED &&
        atomic_compare_exchange_strong(&slot->turn, &turn,
                                       leaving ? SLOT_LEFT : SLOT_RUNNING)) {
      if (!leaving) {
        follow_client(v);
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
        if (session_park(v, turn)) {
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

/* The owner is leaving: finishes the client's jobs in flight, so that it needs
** no other owner for them.  Not prefetches that count: they may wait for
** another session's Put, and their leases end here. */
static void finish_tickets(struct serving *v) {
  emb_session *s = v->s;
  int rc = EMB_OK;
  v->is_finishing = 1;
  while (rc != EMB_INTERRUPT && !serving__is_over(v) &&
         !EMB_SEED(SEED_LEAVING_OWNER_CANCELS)) {
    const struct job *job = s->tickets.first;
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

void serving__thread(void *arg) {
  struct serving *v = arg;
  emb_assert(!atomic_load(&v->ended));
  emb_assert(atomic_load(&v->parked) == SERVING_RUNS);
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
  async_close(v->s); /* I/O in flight writes to kept memory */
  free_kept(v, 0, 1);
  emb_session_blocks(v->s, NULL, NULL);
  emb_session_interrupt(v->s, NULL, NULL);
  if (prepared) {
    orphan__adopt(v->s, prepared);
    serving__tell(server);
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

/* In the hub's thread: resumes a parked session. */
void serving__unpark(struct serving *v) {
  struct env *env = v->server->env;
  int was = SERVING_PARKED;
  if (!v->thread ||
      !atomic_compare_exchange_strong(&v->parked, &was, SERVING_CLAIMED)) {
    return;
  }
  env->thread_join(env, v->thread); /* it has ended or is about to */
  atomic_store(&v->slot->parked, 0);
  atomic_store(&v->parked, SERVING_RUNS);
  v->processor = UINT32_MAX;
  if (env->thread_start(env, serving__thread, v, &v->thread)) {
    v->thread = NULL;
    atomic_store(&v->gone, 1);
    serving__thread(v); /* only ends the session */
  }
}

void serving__free(struct serving *v) {
  emb_assert(!v->slot || atomic_load(&v->ended));
  emb_assert(!v->kept);
  struct env *env = hub__env(v->hub);
  if (v->thread) {
    env->thread_join(env, v->thread);
  }
  hub__unwatch(v->hub, v->peer);
  env->peer_close(env, v->peer);
  serving__free_lent(env, v->lent);
  if (v->memory.base) {
    env->shared_free(env, &v->memory);
  }
  if (v->copy) {
    env->unmap(env, v->copy, SLOT_DATA_BYTES);
  }
  pthread_cond_destroy(&v->arrived);
  env->release(env, v);
}
