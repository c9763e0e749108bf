/* SPDX-License-Identifier: MIT
**
** feature.c -- serving as a feature of a store (store/feature.h).
*/
#include "control.h"
#include "engine/table/store/metrics.h"
#include "route.h"
#include "server.h"

static int serve_init(emb_store *store, emb_err *err) {
  (void)err;
  store->remote.serve = route__own;
  store->remote.tell = route__tell;
  store->remote.clients = server__list_clients;
  return EMB_OK;
}

static void serve_metrics(emb_store *store, struct metrics *to) {
  emb_client owner = {0};
  size_t n = local_clients(store, &owner, 1);
  metric_number(to, "owner", (uint64_t)atomic_load(&store->own.is_owner));
  metric_number(to, "owner_pid", (uint64_t)owner.process);
  metric_number(to, "owner_since", (uint64_t)owner.since);
  metric_number(to, "clients", n ? n - 1 : 0);
}

const struct feature feature_serve = {
    .name = "serve",
    .tasks = FEATURE_TASKS(&task_control),
    .files = FEATURE_FILES(&file_socket),
    .init = serve_init,
    .metrics = serve_metrics,
};
