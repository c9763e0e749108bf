/* SPDX-License-Identifier: MIT
**
** gone.h -- the keys that a delta reports as deleted, without duplicates.
**
** The log has a deletion for each removal of a key.  A key that was evicted,
** put again and deleted has two below the mark, and the last one counts.  So
** deletions are gathered while the log is read, and reported at its end in key
** order.
**
** STATES    filling --gone_sort--> sorted, being read by gone_next
** MEMORY    16 bytes per deletion, up to GONE_ITEMS of them.  Beyond that they
**           are sorted and written as a run to an unnamed file next to the
**           store, and the runs are merged when read: 4 KiB per run.  So a
**           delta with a thousand million deletions takes 62 MiB and a file of
**           16 GB.
** FAILURE   After any result but EMB_OK, only gone_free may be called.
** THREADS   The delta's.
*/
#ifndef EMB_CONSUMER_GONE_H
#define EMB_CONSUMER_GONE_H

#include "engine/base/err.h"
#include "engine/base/env/env.h"

#define GONE_ITEMS 65536u

struct gone_item {
  int64_t key;
  uint64_t order; /* how many came before it; the operation in the low byte */
};

struct gone_run; /* a run in the file, and its part in memory */

struct gone {
  struct env *env;
  const char *dir; /* where the file is created */
  struct env_file *file;
  uint64_t order, bytes; /* of the file */
  struct gone_item *items;
  size_t count, room;
  size_t at; /* the next item in memory to read */
  struct gone_run *runs;
  size_t run_count, run_room;
  struct gone_run **heap; /* runs ordered by their next item, least first */
  size_t heap_count;
  int sorted;
};

void gone_init(struct gone *gone, struct env *env, const char *dir);
void gone_free(struct gone *gone);
int gone_add(struct gone *gone, int64_t key, uint8_t op, emb_err *err);
/* Call once all deletions are added: sorts them. */
int gone_sort(struct gone *gone, emb_err *err);
/* Returns the next key and its last operation; *some = 0 at the end. */
int gone_next(struct gone *gone, int64_t *key, uint8_t *op, int *some,
              emb_err *err);

#endif
