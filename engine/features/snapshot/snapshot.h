/* SPDX-License-Identifier: MIT
**
** snapshot.h -- the state as of one moment, kept under a name.
**
** A snapshot is a file with the index of that moment, its mark (notes.h), and
** the guarantee that the records named by this index stay in the log
** (kernel/retention.h) until the snapshot is dropped.  No vector is copied.
** README.md has the steps.
**
** FILE  snap-NAME, in blocks (blocks.h).  The head's salt is the store's; that
** of the other blocks is the store's plus the head's id, so that no block of
** another snapshot fits.
**
**   block 0     kind 4  struct snapshot_head
**   block 1     kind 1  keys in each of 1024 partitions, by the first ten bits
**                       of hash_key
**   then        kind 2  key, log address (8 + 8 bytes), ordered by hash_key;
**                       4095 in each block except the last
**   then        kind 3  extent number, number of its records that are named
**                       (8 + 8 bytes), ascending
**
** Until it is complete the file is called snapnew-NAME; a leftover one is
** deleted.
**
** THREADS  The list of an owner's snapshots changes under ckpt_lock and
**          snapshots.lock together.  A snapshot dropped while it is read stays;
**          the last reader leaves it to snapshots_reap.
*/
#ifndef EMB_SNAPSHOT_H
#define EMB_SNAPSHOT_H

#include "engine/storage/kernel/retention.h"
#include "notes.h"
#include "engine/storage/ckpt/blocks.h"
#include "engine/table/store/store.h"

#define SNAPSHOT_PREFIX "snap-"
#define SNAPSHOT_NEW_PREFIX "snapnew-"
#define SNAPSHOT_FORMAT 1
#define SNAPSHOT_MAGIC "embssnap"

/* The changes between a snapshot and a later one are the records whose address
** differs between the two, and which have a higher version than the earlier
** snapshot's, or lie below its mark (of a transaction that was open then). */
struct snapshot_head {
  char magic[8];    /* 00-07 "embssnap" */
  uint32_t format;  /* 08-11 */
  uint32_t zero;    /* 12-15 */
  uint64_t id;      /* 16-23 random */
  uint64_t mark;    /* 24-31 page */
  uint64_t version; /* 32-39 records after the mark have a higher one */
  uint64_t keys;    /* 40-47 */
  uint64_t extents; /* 48-55 */
  char name[EMB_SNAPSHOT_NAME_MAX + 8]; /* 56-127 ends with zeros */
};
_Static_assert(sizeof(struct snapshot_head) == 128, "head of a snapshot");
_Static_assert(EMB_PATH_MAX + 1 + sizeof SNAPSHOT_NEW_PREFIX +
                       EMB_SNAPSHOT_NAME_MAX <=
                   4096,
               "the longest path of a file of a store");

struct snapshot {
  struct retention retention; /* must be first */
  struct snapshot *next;
  char name[EMB_SNAPSHOT_NAME_MAX + 1];
  struct snapshot_head head;
  struct env_file *file;
  int damaged; /* cannot be read; err says why */
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

static inline struct snapshots *snapshots_of(const emb_store *store) {
  return store->features[FEATURE_snapshot];
}

/* EMB_RANGE: not a valid name for a snapshot. */
int snapshot__check_name(const char *name, emb_err *err);

struct snapshot_making { /* one being taken */
  struct core *core;
  struct epoch_slot *slot;
  struct snapshot *s;
  struct notes *notes;
  struct blocks w;
  uint32_t *counts; /* named records of each extent, from `first` on */
  uint64_t first, span;
  uint64_t below;   /* must be durable for it */
  uint64_t settled; /* a slot below this page that is not in the snapshot will
                    ** never be a row; for slots of a transaction open at the
                    ** mark, this is not yet known */
  uint64_t txn_committed; /* at the mark */
  emb_err *err;
};

struct snapshot_caller { /* from the session that takes it */
  struct epoch_slot *slot;
  pthread_mutex_t *settle; /* excludes commits */
  int (*stop)(void *arg);  /* asked now and then whether to stop */
  void *arg;               /* (EMB_INTERRUPT), or NULL */
};
/* Takes a snapshot.  Under ckpt_lock, outside any epoch; the store must not
** have failed.  On error there is no snapshot. */
int snapshot__make(struct core *core, struct snapshots *list, const char *name,
                   const struct snapshot_caller *caller, emb_err *err);
/* As above, but without a name, and in two steps, for a backup: the first step
** fixes the moment; sessions make notes until the second has written the index,
** or until snapshot_give_up.  Hold ckpt_lock from the first step to the end of
** the second.  The file is made in dir and unlinked immediately. `list` keeps
** the snapshot, as a dropped one, until its one user gives it back; if it is
** NULL, the caller must close the snapshot.  On error there is no snapshot. */
int snapshot_start(struct core *core, struct epoch_slot *slot, const char *dir,
                   pthread_mutex_t *settle, struct snapshot_making *m,
                   emb_err *err);
int snapshot_finish(struct snapshot_making *m, struct snapshots *list,
                    int (*stop)(void *), void *arg, struct snapshot **out);
void snapshot_give_up(struct snapshot_making *m);
/* Under ckpt_lock.  EMB_RANGE: there is no such snapshot. */
int snapshot__drop(struct core *core, struct snapshots *list, const char *name,
                   emb_err *err);
/* When a process becomes owner: finds all snapshots, which from now on keep the
** records they name.  A damaged one keeps nothing.  Under ckpt_lock. */
int snapshots__load(struct core *core, struct snapshots *list, emb_err *err);
/* Frees dropped snapshots that are no longer read; returns 1 if there were any.
** Under ckpt_lock. */
int snapshots_reap(struct core *core, struct snapshots *list);
/* Called when the store is closed. */
void snapshots__free(struct core *core, struct snapshots *list);
/* Reads head, sizes and extents of one file.  If they are damaged, *out is
** marked so; returns errors other than EMB_CORRUPT only. */
int snapshot__open(struct core *core, const char *name, struct snapshot **out,
                   emb_err *err);
void snapshot__close(struct core *core, struct snapshot *snapshot);
/* Reads n blocks of the entries, from block `number` on, counted from 0, into
** memory of env->map. */
int snapshot__read_entries(struct core *core, const struct snapshot *snapshot,
                           uint64_t number, uint32_t n, struct block *blocks,
                           emb_err *err);
/* Calls `each` with the name of every snapshot file in the directory. */
int snapshots__list(struct core *core, void (*each)(void *, const char *name),
                    void *arg, emb_err *err);

/* snapshot.c, for snapshot_make.c.  Makes a snapshot in memory, or NULL. */
struct snapshot *snapshot__new(struct core *core, const char *name);
/* The path of its file. */
void snapshot__path(char *to, const struct core *core, const char *prefix,
                    const char *name);
/* Finds the snapshot of this name that was not dropped. */
struct snapshot *snapshot__find(struct snapshots *list, const char *name);
/* Adds it to the list, under ckpt_lock. */
void snapshot__enlist(struct core *core, struct snapshots *list,
                      struct snapshot *s);
int snapshot__no_memory(emb_err *err);

/* snapshot_valid.c, for emb_check: is a snapshot consistent, and does it need
** the extents it names?  No other thread changes it. */
int snapshot_valid(const struct core *core, const struct snapshot *s);

/* Is each undamaged one kept, and does each name occur once?  Under ckpt_lock.
** Only in self-checking builds. */
int snapshots_valid(struct core *core, struct snapshots *list);

static inline uint64_t snapshot_entry_blocks(const struct snapshot *s) {
  return (s->head.keys + BLOCK_PAIRS - 1) / BLOCK_PAIRS;
}

#endif
