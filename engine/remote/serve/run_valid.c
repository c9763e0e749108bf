/* SPDX-License-Identifier: MIT
**
** run_valid.c -- checks the objects that a client's session has open, as run.h
** describes them.  Only in self-checking builds (base/debug.h).  A client
** chooses which object a request names, but never what is in this table.
*/
#include "run.h"

#if EMB_DEBUG > 0

static void check_open_object(const struct runner *run, int at) {
  const struct run_object *object = &run->objects[at];
  emb_assert(object->number <= run->last);
  emb_assert(object->kind >= OF_SCAN && object->kind <= OF_BACKUP);
  emb_assert(object->pointer != NULL);
  emb_assert(object->kind == OF_SCAN || (!object->is_ordered && !object->rows));
  for (int i = at + 1; i < RUN_OBJECTS; i++) {
    emb_assert(run->objects[i].number != object->number);
  }
}

int run_valid(const struct runner *run) {
  int is_moment_open = !run->moment;
  for (int i = 0; i < RUN_OBJECTS; i++) {
    const struct run_object *object = &run->objects[i];
    if (object->number) {
      check_open_object(run, i);
      is_moment_open |=
          object->number == run->moment && object->kind == OF_BACKUP;
    }
  }
  emb_assert(is_moment_open);
  size_t back, n = local_tickets(run->s, &back);
  emb_assert(n + back <= RUN_TICKETS);
  return 1;
}

#endif
