/* SPDX-License-Identifier: MIT
**
** snapshot.h -- the state of a moment, kept under a name.
**
** A snapshot is a file with the index of that moment, its mark (core/notes.h),
** and the promise that the records that this index names stay in the log
** (core/keep.h) until the snapshot is dropped.  No vector is copied.
**
**   1  everybody begins to note where keys were           [notes_begin]
**   2  the log is sealed at its tail: the mark.  Between two commits, so that
**      each is in the snapshot as a whole or not at all   [core_mark]
**   3  the index is written beside readers and writers, partition by
**      partition, as it was at the mark                   [write_entries]
**   4  the log below the mark is written and synced, a piece at a time
**   5  the file's head is written; sync; the file gets its name
**
** FILE  snap-NAME, in blocks (blocks.h).  The head's salt is the store's, the
** others' is that plus the head's id, so that no block of another snapshot
** fits.
**
**   block 0     kind 4  struct snapshot_head
**   block 1     kind 1  keys in each of 1024 partitions, by the first ten bits
**                       of hash_key
**   then        kind 2  key, log address (8 + 8 bytes), ordered by hash_key;
**                       4095 in each block but the last
**   then        kind 3  extent number, records in it that are named (8 + 8
**                       bytes), ascending
**
** Until step 5 it is called snapnew-NAME; who finds that deletes it.
**
** THREADS  The list of an owner's snapshots changes under ckpt_lock and
**          snapshots.lock together.  One that is being read stays when it is
**          dropped; the last reader leaves it to snapshots_reap.
*/
#ifndef EMB_CKPT_SNAPSHOT_H
#define EMB_CKPT_SNAPSHOT_H

#include "../core/keep.h"
#include "../core/notes.h"
#include "blocks.h"

#define SNAPSHOT_PREFIX "snap-"
#define SNAPSHOT_NEW_PREFIX "snapnew-"
#define SNAPSHOT_FORMAT 1
#define SNAPSHOT_MAGIC "embssnap"

/* What changed after a snapshot, seen from a later one: a record at another
** address than before that has a higher version than the snapshot's, or that
** lies below its mark (of a transaction that was open then). */
struct snapshot_head {
  char magic[8];    /* 00-07 "embssnap" */
  uint32_t format;  /* 08-11 */
  uint32_t zero;    /* 12-15 */
  uint64_t id;      /* 16-23 random */
  uint64_t mark;    /* 24-31 page */
  uint64_t version; /* 32-39 what is written after the mark has a higher one */
  uint64_t keys;    /* 40-47 */
  uint64_t extents; /* 48-55 */
  char name[EMB_SNAPSHOT_NAME_MAX + 8]; /* 56-127 ends with zeros */
};
_Static_assert(sizeof(struct snapshot_head) == 128, "head of a snapshot");

struct snapshot {
  struct keeper keeper; /* must be first */
  struct snapshot *next;
  char name[EMB_SNAPSHOT_NAME_MAX + 1];
  struct snapshot_head head;
  struct env_file *file;
  int damaged; /* it cannot be read; err says why */
  emb_err err;
  int dropped;      /* under snapshots.lock */
  uint32_t users;   /* under snapshots.lock */
  uint64_t *starts; /* of each partition's entries; one more than there are
                       partitions */
  uint64_t (*extents)[2]; /* number, records */
};

struct snapshots {
  pthread_mutex_t lock;
  struct snapshot *first;
};

/* EMB_RANGE: no snapshot may be called so. */
int snapshot_check_name(const char *name, emb_err *err);

/* Takes one.  Under ckpt_lock, outside any epoch; the store is not failed.
** settle: excludes commits.  stop: asked now and then whether to give up
** (EMB_INTERRUPT).  After an error there is none. */
int snapshot_make(struct core *core, struct epoch_slot *slot,
                  struct snapshots *list, const char *name,
                  pthread_mutex_t *settle, int (*stop)(void *), void *arg,
                  emb_err *err);
/* Under ckpt_lock.  EMB_RANGE: there is none. */
int snapshot_drop(struct core *core, struct snapshots *list, const char *name,
                  emb_err *err);
/* A process becomes owner: finds all that there are, which from now on keep
** what they name.  One that is damaged keeps nothing.  Under ckpt_lock. */
int snapshots_load(struct core *core, struct snapshots *list, emb_err *err);
/* Forgets those that were dropped and are not read any more: 1 if there were
** some.  Under ckpt_lock. */
int snapshots_reap(struct core *core, struct snapshots *list);
/* The store is being closed. */
void snapshots_free(struct core *core, struct snapshots *list);
/* Reads head, sizes and extents of one file; *out is damaged where they are.
** Errors other than EMB_CORRUPT only. */
int snapshot_open(struct core *core, const char *name, struct snapshot **out,
                  emb_err *err);
void snapshot_close(struct core *core, struct snapshot *snapshot);
/* Reads a block of entries, from 0; block: BLOCK_BYTES of env->map. */
int snapshot_read_entries(struct core *core, const struct snapshot *snapshot,
                          uint64_t number, struct block *block, emb_err *err);
/* Calls each for the name of every snapshot's file in the directory. */
int snapshots_list(struct core *core, void (*each)(void *, const char *name),
                   void *arg, emb_err *err);

static inline uint64_t snapshot_entry_blocks(const struct snapshot *s) {
  return (s->head.keys + BLOCK_PAIRS - 1) / BLOCK_PAIRS;
}

#endif
