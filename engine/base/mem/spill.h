/* SPDX-License-Identifier: MIT
**
** spill.h -- a stack of fixed-size items that keeps its newest items in memory
** and the rest in a nameless file in the store's directory.
**
** FAILURE  A push that fails leaves the stack unchanged.
** THREADS  None: the owner guards it.
*/
#ifndef EMB_MEM_SPILL_H
#define EMB_MEM_SPILL_H

#include "engine/base/debug.h"
#include "engine/base/err.h"
#include "engine/base/env/env.h"

struct spill {
  struct env *env;
  const char *dir; /* where the file is created */
  uint32_t item_bytes;
  uint32_t room;  /* capacity of memory, in items */
  char *memory;   /* the newest items */
  uint64_t below; /* items in the file, below those in memory */
  uint32_t above; /* items in memory */
  struct env_file *file;
};

void spill_init(struct spill *spill, struct env *env, const char *dir,
                uint32_t item_bytes);
void spill_free(struct spill *spill);
static inline uint64_t spill_count(const struct spill *spill) {
  return spill->below + spill->above;
}
/* Creates a nameless file in a directory. */
int spill_file(struct env *env, const char *dir, struct env_file **file,
               emb_err *err);
int spill_push(struct spill *spill, const void *item, emb_err *err);
/* Takes the newest item; the stack must not be empty. */
int spill_pop(struct spill *spill, void *item, emb_err *err);

#endif
