/* SPDX-License-Identifier: MIT
**
** clients.c -- who owns a store, and whom it serves: local_clients answers in
** the owner's process; remote_clients asks another process.
*/
#include <string.h>

#include "route.h"
#include "engine/table/jobs/progress.h"
#include "remote_calls.h"
#include "server.h"
#include "engine/table/store/dir.h"
#include "engine/table/owner/registry.h"

/* Number of sessions listed without allocating memory. */
#define SOME 32

/* Lists the clients of an owner. */
static size_t list_clients(emb_store *store, emb_client *clients, size_t max) {
  struct env *env = store->core.env;
  struct server_client some[SOME], *rows = some, *more = NULL;
  size_t room = SOME, n = server__clients(store->remote.server, some, SOME);
  if (n > SOME) { /* more may connect while we allocate */
    more = env->allocate(env, 2 * n * sizeof *more);
    if (more) {
      rows = more;
      room = 2 * n;
      n = server__clients(store->remote.server, rows, room);
    }
  }
  for (size_t i = 0; i < n && i < room && i < max; i++) {
    const struct server_client *row = &rows[i];
    clients[i] = (emb_client){.process = row->process,
                              .user = row->user,
                              .number = row->number,
                              .since = (int64_t)row->since_s,
                              .calls = row->calls,
                              .is_readonly = row->readonly,
                              .in_transaction = row->in_transaction};
    strncpy(clients[i].call, row->call ? row->call : "",
            sizeof clients[i].call - 1);
  }
  env->release(env, more);
  return n;
}

size_t server__list_clients(emb_store *store, emb_client *clients, size_t max) {
  struct env *env = store->core.env;
  emb_client owner = {.user = -1, .is_owner = 1};
  size_t n = 1;
  if (store_check(store, NULL)) {
    return 0;
  }
  if (atomic_load_explicit(&store->own.is_owner, memory_order_acquire)) {
    owner.process = store->process;
    owner.user = env->user(env);
    owner.since = store->remote.owner_since;
    progress_of_owner(store, owner.call, sizeof owner.call);
    if (store->remote.server) {
      owner.calls = server__calls(store->remote.server);
      n += list_clients(store, max ? clients + 1 : NULL, max ? max - 1 : 0);
    }
  } else if (!route__is_owned(store, &owner.process)) {
    return 0;
  }
  if (max) {
    clients[0] = owner;
  }
  return n;
}

int emb_is_served(emb_store *store, emb_err *err) {
  const char *dir = store->core.dir;
  emb_client owner;
  err_clear(err);
  int rc = store_check(store, err);
  if (rc) {
    return rc;
  }
  if (!atomic_load_explicit(&store->own.is_owner, memory_order_acquire)) {
    size_t n = remote_clients(store, &owner, 1);
    return n && owner.process
               ? err_set(err, EMB_BUSY, "%s is owned by process %lld", dir,
                         (long long)owner.process)
               : err_set(err, EMB_BUSY, "%s is owned by %s", dir,
                         n ? "another process" : "no process");
  }
  if (store->remote.server) {
    return EMB_OK;
  }
  return store->remote.not_served.code
             ? err_set(err, store->remote.not_served.code, "%s",
                       store->remote.not_served.text)
             : err_set(err, EMB_UNFIT, "%s is for one process alone", dir);
}

int64_t emb_owner_of(const char *dir) {
  struct env *env = env_default();
  enum env_lock_state state = ENV_LOCK_FREE;
  int64_t holder = 0;
  char path[PATH_BYTES];
  int os = path_join(path, sizeof path, dir, FILE_LOCK, NULL) ||
           env->lock_look(env, path, &state, &holder);
  return os || state == ENV_LOCK_FREE ? 0 : holder;
}
