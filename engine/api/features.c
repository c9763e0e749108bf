/* SPDX-License-Identifier: MIT
**
** features.c -- the features of a store: the array generated from
** store/features.def, allocation of a store with its features' data, and the
** features' lifecycle calls (store/feature.h), in the order of the list.
*/
#include "features.h"

#include <stddef.h>

#define FEATURE(name) [FEATURE_##name] = &feature_##name,
const struct feature *const store_features[FEATURE_COUNT] = {
#include "engine/table/store/features.def"
};
#undef FEATURE

/* ---- their state --------------------------------------------------------- */

/* Rounds the size of a part up, so that the next part is aligned for any
** type. */
static size_t part_bytes(size_t bytes) {
  size_t to = _Alignof(emb_store);
  return (bytes + to - 1) / to * to;
}

static size_t count_tasks(void) {
  size_t n = 0;
  for (size_t i = 0; i < FEATURE_COUNT; i++) {
    const struct task *const *task = store_features[i]->tasks;
    while (task && *task) {
      n++;
      task++;
    }
  }
  return n;
}

emb_store *features__new_store(struct env *env) {
  size_t tasks = count_tasks();
  size_t bytes = part_bytes(sizeof(emb_store)) +
                 part_bytes(tasks * sizeof(struct task_slot));
  for (size_t i = 0; i < FEATURE_COUNT; i++) {
    bytes += part_bytes(store_features[i]->state_bytes);
  }
  char *at = env->allocate(env, bytes);
  if (!at) {
    return NULL;
  }
  emb_store *store = (emb_store *)(void *)at; /* first: it is released */
  at += part_bytes(sizeof(emb_store));
  store->tasks.slots = (struct task_slot *)(void *)at;
  store->tasks.count = tasks;
  at += part_bytes(tasks * sizeof(struct task_slot));
  for (size_t i = 0; i < FEATURE_COUNT; i++) {
    store->features[i] = at;
    at += part_bytes(store_features[i]->state_bytes);
  }
  return store;
}

/* ---- their life ---------------------------------------------------------- */

typedef int (*fallible_hook)(emb_store *, emb_err *);
typedef void (*hook)(emb_store *);

/* Calls all features; returns the first error.  at: offset of the call in the
** descriptor. */
static int call_fallible(emb_store *store, size_t at, emb_err *err) {
  int rc = EMB_OK;
  for (size_t i = 0; i < FEATURE_COUNT; i++) {
    const char *feature = (const char *)store_features[i];
    fallible_hook call = *(const fallible_hook *)(const void *)(feature + at);
    if (call) {
      int failed = call(store, rc ? NULL : err);
      rc = rc ? rc : failed;
    }
  }
  return rc;
}

static void call_all(emb_store *store, size_t at) {
  for (size_t i = 0; i < FEATURE_COUNT; i++) {
    const char *feature = (const char *)store_features[i];
    hook call = *(const hook *)(const void *)(feature + at);
    if (call) {
      call(store);
    }
  }
}

int features__init(emb_store *store, emb_err *err) {
  return call_fallible(store, offsetof(struct feature, init), err);
}

int features__begin(emb_store *store, emb_err *err) {
  return call_fallible(store, offsetof(struct feature, begin), err);
}

int features__drain(emb_store *store, emb_err *err) {
  return call_fallible(store, offsetof(struct feature, drain), err);
}

void features__settled(emb_store *store) {
  call_all(store, offsetof(struct feature, settled));
}

void features__left(emb_store *store) {
  call_all(store, offsetof(struct feature, left));
}

void features__free(emb_store *store) {
  call_all(store, offsetof(struct feature, free));
}
