/* SPDX-License-Identifier: MIT
**
** backup.h -- private to this folder: a backup, and a copy being written; see
** backup.c.
*/
#ifndef EMB_BACKUP_H
#define EMB_BACKUP_H

#include "copied.h"
#include "engine/features/snapshot/snap.h"

struct emb_backup {
  struct link *link; /* first: NULL */
  emb_session *s;
  struct snapshot_making making;
  int begun; /* the locks are held */
  int owner;
  uint64_t generation; /* of a reader's manifest */
  emb_snap *snap;      /* once frozen */
  uint64_t version, txn_last, txn_committed;
  uint64_t settled; /* snapshot.h */
  uint32_t newest;
};

/* Is the backup in one of its states, with the locks of that state?  Only in
** self-checking builds. */
int backup_valid(const emb_backup *b);

/* ---- the copy ------------------------------------------------------------ */

struct file_slot { /* of an extent in the copy's log */
  uint64_t number;
  uint64_t phys;
};

struct base {
  const char *dir;
  struct env_lock *lock;
  struct manifest manifest;
  struct file_slot *slots; /* ascending by number */
  uint64_t count;
  uint64_t end;   /* file slots below may be in use */
  uint64_t below; /* extents below are equal to the source's */
};

enum { PIECE_MAX = 4 }; /* extents in one write */

struct copying {
  emb_backup *b;
  struct env *env;
  const char *dir;
  uint8_t uuid[16];
  uint64_t salt;
  struct base *base; /* or NULL */
  struct env_file *log;
  struct file_slot *slots; /* of each extent of the snapshot */
  uint8_t *used;           /* a bit for each file slot that the base has */
  uint64_t next;           /* file slots below are in use, or tried */
  uint64_t end;            /* file slots of the file */
  char *piece;             /* extents that are adjacent in the file */
  uint32_t pieces;
  uint64_t piece_slot;
  uint64_t index_blocks;
  uint64_t copied; /* bytes */
  emb_backup_info *info;
};

/* Are the extents gathered for the next write in adjacent file slots?  Once all
** are written: does each have a file slot that the base does not use for
** another?  Only in self-checking builds. */
int copying_valid(const struct copying *c);
int copying_slots_valid(const struct copying *c);

#endif
