/* SPDX-License-Identifier: MIT
**
** stat_text.c -- see stat_text.h.
**
** emb_stats returns texts that stay valid while the store is open.  The owner's
** texts arrive in a message, so each distinct text is kept once: names of
** states, and occasionally an error.
**
** THREADS  Any.  If two threads keep the same text at the same time, it is
**          stored twice.
*/
#include "stat_text.h"

#include <string.h>

/* Errors contain numbers, so in a long run the number of texts is unbounded. */
#define TEXTS_MAX 256
/* This process's own text would be mistaken for the owner's. */
#define TEXT_NOT_KEPT "not known here; ask the owner's process"

struct stat_text {
  struct stat_text *next;
  char text[];
};

const char *stat__text_keep(emb_store *store, const char *text) {
  struct env *env = store->core.env;
  struct stat_text *first = atomic_load(&store->remote.stat_texts), *t;
  size_t bytes = strlen(text) + 1, n = 0;
  for (t = first; t; t = t->next, n++) {
    if (strcmp(t->text, text) == 0) {
      return t->text;
    }
  }
  t = n < TEXTS_MAX ? env->allocate(env, sizeof *t + bytes) : NULL;
  if (!t) {
    return TEXT_NOT_KEPT;
  }
  memcpy(t->text, text, bytes);
  t->next = first;
  while (
      !atomic_compare_exchange_weak(&store->remote.stat_texts, &t->next, t)) {
  }
  return t->text;
}

void stat__text_free(emb_store *store) {
  struct env *env = store->core.env;
  struct stat_text *t = atomic_exchange(&store->remote.stat_texts, NULL);
  while (t) {
    struct stat_text *next = t->next;
    env->release(env, t);
    t = next;
  }
}
