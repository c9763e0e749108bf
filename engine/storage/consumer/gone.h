/* SPDX-License-Identifier: MIT
**
** gone.h -- the keys that a delta reports as deleted, each once.
**
** The log has a deletion for each time that a key was removed.  A key that was
** evicted, put again and deleted has two below the mark, and what holds is the
** last.  So deletions are gathered while the log is passed, and reported at its
** end in the order of their keys.
**
** STATES    filling --gone_sort--> sorted, being read by gone_next
** MEMORY    16 bytes each, up to GONE_ITEMS of them.  Beyond that they go,
**           sorted, as a run to a file without a name beside the store, and are
**           merged when they are read: 4 KiB for each run.  So a delta with a
**           thousand million deletions takes 62 MiB and a file of 16 GB.
** FAILURE   After one that is not EMB_OK there is nothing to do but gone_free.
** THREADS   The delta's.
*/
#ifndef EMB_CONSUMER_GONE_H
#define EMB_CONSUMER_GONE_H

#include "engine/base/err.h"
#include "engine/base/env/env.h"

#define GONE_ITEMS 65536u

struct gone_item {
  int64_t key;
  uint64_t order; /* how many came before it; its operation in the low byte */
};

struct gone_run; /* in the file, and what of it is in memory */

struct gone {
  struct env *env;
  const char *dir; /* where the file is made */
  struct env_file *file;
  uint64_t order, bytes; /* of the file */
  struct gone_item *items;
  size_t count, room;
  size_t at; /* the next that is read, of those in memory */
  struct gone_run *runs;
  size_t run_count, run_room;
  struct gone_run **heap; /* runs by their next item; the least is first */
  size_t heap_count;
  int sorted;
};

void gone_init(struct gone *gone, struct env *env, const char *dir);
void gone_free(struct gone *gone);
int gone_add(struct gone *gone, int64_t key, uint8_t op, emb_err *err);
/* All are there. */
int gone_sort(struct gone *gone, emb_err *err);
/* The next key, and its last operation; *some = 0: there is none. */
int gone_next(struct gone *gone, int64_t *key, uint8_t *op, int *some,
              emb_err *err);

#endif
