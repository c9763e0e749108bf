/* SPDX-License-Identifier: MIT
**
** remote_store.c -- a store's calls if another process owns the store: they ask
** the owner [control.h], and have a fallback if it cannot be asked.
*/
#include <string.h>

#include "control.h"
#include "engine/table/jobs/progress.h"
#include "remote_calls.h"
#include "stat_row.h"
#include "stat_text.h"

int remote_is_owner(const emb_store *store) {
  return store_check(store, NULL) == EMB_OK &&
         atomic_load(&store->remote.links) > 0;
}

int remote_is_dropped(const emb_store *store) {
  return control__look(store, CONTROL_DROPPED) != 0;
}

uint64_t remote_in_doubt(const emb_store *store) {
  return control__look(store, CONTROL_IN_DOUBT);
}

uint64_t remote_memory_least(const emb_store *store) {
  struct args_memory_least args = {store};
  uint64_t result;
  return control__ask(store, CALL_memory_least, &args, &result, NULL)
             ? local_memory_least(store)
             : result;
}

int remote_resolve(emb_store *store, uint64_t number, int commit,
                   emb_err *err) {
  struct args_resolve args = {store, number, commit != 0, NULL};
  uint64_t result;
  int rc = control__ask(store, CALL_resolve, &args, &result, err);
  return rc == CALL_ELSEWHERE ? local_resolve(store, number, commit, err)
         : rc                 ? rc
                              : (int)(uint32_t)result;
}

uint64_t remote_committed(const emb_store *store) {
  struct args_committed args = {store};
  uint64_t result;
  return control__ask(store, CALL_committed, &args, &result, NULL)
             ? local_committed(store)
             : result;
}

void remote_state(const emb_store *store, uint64_t *state) {
  struct args_state args = {store, state};
  uint64_t result;
  if (control__ask(store, CALL_state, &args, &result, NULL)) {
    local_state(store, state);
  }
}

/* Is this metric always this process's own, even if another owns the store? */
static int is_own_stat(const char *name) {
  return strcmp(name, "owner") == 0 || strcmp(name, "directory") == 0;
}

static void take_stat(emb_store *store, emb_stat *stat, struct stat_row *row) {
  row->text[sizeof row->text - 1] = 0;
  if (!stat->text) {
    stat->value = row->value;
  } else {
    stat->text = stat__text_keep(store, row->text);
  }
}

/* Keeps only the pid of an owner that does not answer: this process's own
** counts would be mistaken for the owner's. */
static size_t keep_owner_pid(emb_stat *stats, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (strcmp(stats[i].name, "owner_pid") == 0) {
      stats[0] = stats[i];
      return 1;
    }
  }
  return 0;
}

/* Returns the owner's values under this process's names for them. */
size_t remote_stats(emb_store *store, emb_stat *stats, size_t max) {
  size_t n = local_stats(store, stats, max);
  if (!max || !n) {
    return n;
  }
  struct env *env = store->core.env;
  struct stat_row *rows = env->allocate(env, n * sizeof *rows);
  struct args_stat_rows args = {store, rows, n};
  uint64_t got = 0;
  int rc =
      rows ? control__ask(store, CALL_stat_rows, &args, &got, NULL) : EMB_NOMEM;
  got = rc ? 0 : got;
  n = rc == EMB_BUSY ? keep_owner_pid(stats, n) : n;
  int is_near;
  int64_t owner = control__owner(store, &is_near);
  for (size_t i = 0; i < n; i++) {
    for (size_t k = 0; k < got && k < n; k++) {
      if (strncmp(stats[i].name, rows[k].name, sizeof rows[k].name) == 0 &&
          !stats[i].text == !rows[k].has_text && !is_own_stat(stats[i].name)) {
        take_stat(store, &stats[i], &rows[k]);
        break;
      }
    }
    if (owner >= 0 && strcmp(stats[i].name, "owner_pid") == 0) {
      stats[i].value = owner;
    }
  }
  env->release(env, rows);
  return n;
}

size_t remote_clients(emb_store *store, emb_client *clients, size_t max) {
  struct args_clients args = {store, max ? clients : NULL, max};
  uint64_t n = 0;
  int is_near = 1;
  if (control__ask(store, CALL_clients, &args, &n, NULL)) {
    return local_clients(store, clients, max);
  }
  int64_t owner = control__owner(store, &is_near);
  for (size_t i = 0; i < max && i < n; i++) {
    clients[i].process = clients[i].is_owner && owner >= 0 ? owner
                         : is_near                         ? clients[i].process
                                                           : 0;
  }
  return (size_t)n;
}

size_t remote_progress_of(emb_store *store, emb_progress *list, size_t max) {
  struct args_progress_of args = {store, max ? list : NULL, max};
  uint64_t n = 0;
  int is_near = 1;
  if (control__ask(store, CALL_progress_of, &args, &n, NULL)) {
    return local_progress_of(store, list, max);
  }
  (void)control__owner(store, &is_near);
  for (size_t i = 0; i < max && i < n; i++) {
    progress_name(&list[i], store); /* the owner may know it by another path */
    list[i].process = is_near ? list[i].process : 0;
  }
  return (size_t)n;
}

int remote_drop(emb_store *store, emb_err *err) {
  struct args_drop args = {store, NULL};
  uint64_t result;
  int rc = control__ask(store, CALL_drop, &args, &result, err);
  return rc == CALL_ELSEWHERE
             ? err_set(err, EMB_BUSY, "%s is owned by another process",
                       store->core.dir)
         : rc ? rc
              : (int)(uint32_t)result;
}
