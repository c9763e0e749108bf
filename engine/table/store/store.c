/* SPDX-License-Identifier: MIT
**
** store.c -- queries about the store itself.
*/
#include "store.h"

#include <string.h>

int store_check(const emb_store *store, emb_err *err) {
  struct env *env = store->core.env;
  return env->process(env) == store->process
             ? EMB_OK
             : err_set(err, EMB_MISUSE,
                       "the store was opened before fork(): open a new "
                       "connection");
}

void emb_uuid(const emb_store *store, uint8_t uuid[16]) {
  memcpy(uuid, store->core.uuid, 16);
}
const char *emb_directory(const emb_store *store) { return store->core.dir; }
uint32_t emb_dim(const emb_store *store) { return store->core.layout.dim; }
uint32_t emb_type(const emb_store *store) { return store->core.layout.type; }
int emb_averages(const emb_store *store) { return store->average != NULL; }
uint32_t emb_tracking(const emb_store *store) {
  return store->core.schema.track;
}

size_t local_clients(emb_store *store, emb_client *clients, size_t max) {
  return store->remote.clients(store, clients, max);
}
