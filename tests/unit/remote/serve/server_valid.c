/* SPDX-License-Identifier: MIT
**
** server_valid.c -- each assertion about an owner's clients fires: a process
** has two sessions at this one, and in a child of this process, where nobody
** serves them, one field at a time is broken.
*/
#include "death.h"
#include "process_help.h"
#include "store_help.h"

#include "engine/remote/serve/link.h"
#include "engine/remote/serve/orphan.h"
#include "engine/remote/serve/serving.h"

static const emb_config config = {
    .dim = 4, .flags = EMB_OPEN_CREATE, .timeout_ms = 20000};
static const int64_t key = 1;
static const float row[4] = {1, 2, 3, 4};

static emb_store *store;
static emb_session *session;
static struct server *server;

PROCESS(server_client) {
  emb_store *there;
  emb_session *s[2];
  emb_err err;
  uint64_t number;
  if (!help_open(process_argument(0), &config, &there, &s[0]) ||
      !CHECK_EQ_INT(emb_session_open(there, &s[1], &err), 0))
    return;
  OK(s[0], emb_begin(s[0]));
  OK(s[0], emb_txn_put(s[0], &key, 1, row));
  OK(s[0], emb_prepare(s[0], &number));
  OK(s[1], emb_refresh(s[1]));
  process_tell("there");
  process_told("go on");
  OK(s[0], emb_commit(s[0]));
  emb_session_close(s[1]);
  help_close(there, s[0]);
}

/* The first write makes this process the owner. */
static int open_here(const char *dir) {
  static const int64_t other = 2;
  if (!help_open(dir, &config, &store, &session))
    return 0;
  OK(session, emb_put(session, &other, 1, row, NULL));
  server = store->remote.server;
  return CHECK(server != NULL);
}

static struct serving *prepared(void) {
  struct serving *v = server->clients;
  while (v && !(atomic_load(&v->holds) & SLOT_HAS_PREPARED))
    v = v->next;
  return v;
}

static int fires_of_a_client(struct serving *v, struct serving *newest) {
  static struct kept kept;
  static char lent[1];
  CHECK_FIRES(v->s = NULL; server_valid(server));
  CHECK_FIRES(v->copy = NULL; server_valid(server));
  CHECK_FIRES(v->memory.base = v->copy; server_valid(server));
  CHECK_FIRES(v->is_lent = 1; server_valid(server));
  CHECK_FIRES(v->lent[1].base = lent; server_valid(server));
  CHECK_FIRES(v->slot = NULL; v->s = NULL; v->is_lent = 1;
              v->lent[0].base = lent; server_valid(server));
  CHECK_FIRES(v->slot = NULL; v->s = NULL; server_valid(server));
  CHECK_FIRES(v->thread = NULL; server_valid(server));
  CHECK_FIRES(atomic_store(&v->parked, SERVING_CLAIMED); server_valid(server));
  CHECK_FIRES(atomic_store(&v->parked, SERVING_PARKED);
              atomic_store(&v->ended, 1); server_valid(server));
  CHECK_FIRES(atomic_store(&v->holds, SLOT_HAS_PREPARED); server_valid(server));
  CHECK_FIRES(atomic_store(&v->parked, SERVING_RUNS);
              atomic_store(&v->ended, 1); server_valid(server));
  CHECK_FIRES(atomic_store(&v->parked, SERVING_RUNS);
              atomic_store(&v->holds, 0); atomic_store(&v->ended, 1);
              atomic_store(&v->call, CALL_get); server_valid(server));
  CHECK_FIRES(v->server = NULL; server_valid(server));
  CHECK_FIRES(v->number = server->last + 1; server_valid(server));
  CHECK_FIRES(newest->number = v->number; server_valid(server));
  CHECK_FIRES(strangers_valid(server->clients));
  /* the order of a session's life */
  CHECK_FIRES(serving__free(v));
  CHECK_FIRES(atomic_store(&v->ended, 1); v->kept = &kept; serving__free(v));
  CHECK_FIRES(atomic_store(&v->ended, 1); serving__thread(v));
  CHECK_FIRES(atomic_store(&v->parked, SERVING_PARKED); serving__thread(v));
  return 1;
}

static void fires_of_the_server(void) {
  CHECK_FIRES(atomic_store(&server->leaving, 4); server_valid(server));
  CHECK_FIRES(server->left_us = 1; server_valid(server));
  CHECK_FIRES(server->end = 1; atomic_store(&server->leaving, 1);
              server_valid(server));
  CHECK_FIRES(server->is_over = server->end = server->is_quiet = 1;
              atomic_store(&server->leaving, 1); server_valid(server));
  CHECK_FIRES(server__end(server, 1));
}

TEST(a_broken_client) {
  struct process p;
  char dir[256];
  snprintf(dir, sizeof dir, "%s", help_path("store"));
  if (!open_here(dir) ||
      !process_start(&p, "server_client", (const char *[]){dir, NULL}) ||
      !process_hear(&p, "there"))
    return;
  pthread_mutex_lock(&server->lock);
  struct serving *v = prepared();
  struct serving *newest = server->clients;
  pthread_mutex_unlock(&server->lock);
  if (CHECK(v != NULL && v != newest)) {
    fires_of_a_client(v, newest);
    fires_of_the_server();
    CHECK_ALL_FIRED("engine/remote/serve/server_valid.c");
  }
  process_say(&p, "go on");
  process_end(&p);
  help_close(store, session);
}

static void count_one_too_few(void) {
  struct process p;
  char dir[256];
  snprintf(dir, sizeof dir, "%s", help_path("few"));
  if (open_here(dir) &&
      process_start(&p, "server_client", (const char *[]){dir, NULL}) &&
      process_hear(&p, "there")) {
    atomic_store(&server->txns, 0);
    process_say(&p, "go on");
    env_posix.sleep_us(&env_posix, 20000000);
  }
}

TEST(a_server_that_counts_a_transaction_too_few) {
  CHECK_FIRES(count_one_too_few());
}

TEST(a_server_that_counts_a_transaction_too_many) {
  CHECK_FIRES(open_here(help_path("counted")); atomic_store(&server->txns, 1);
              help_close(store, session));
}

TEST(a_transaction_without_a_client) {
  CHECK_FIRES(open_here(help_path("orphan")); orphan__adopt(session, 1));
  CHECK_FIRES(open_here(help_path("orphans")); store->remote.orphan = session;
              emb_resolve(store, 0, 1, NULL));
}
