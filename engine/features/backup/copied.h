/* SPDX-License-Identifier: MIT
**
** copied.h -- what a store records of copies (emb_backup_write).
**
** COPY      `backup-of` says of which store it is a copy, and of which of that
**           store's marks; so a later copy can go on from there.  It counts as
**           long as the copy has not been written to: the manifest is the one
**           that it was made with.
** SOURCE    `backup-marks` says of which marks there are copies.  Everything
**           below a mark was sealed and decided when it was taken, so every
**           store that has the mark has the same extents below, whatever became
**           of it since: the store itself, or one that was made by copying its
**           files.  (So the page of a mark is not above the first one of a
**           transaction that was open.)  An older copy of the source does not
**           have the mark, and the next backup is a whole one.  Only the newest
**           COPIED_MARKS are known.
**
** Both are files of 4096 bytes, written anew, synced and renamed:
**
**   000-007  sum     hash_sum of bytes 8..4095, the store's salt, position 0
**   008-015  magic   "embcopy1"
**   016-019  format  1
**   020-023  count   of marks
**   024-039  uuid    of the store that the file is in
**   040-055  source  backup-of: the store that it is a copy of; else zeros
**   056-063  generation  backup-of: of the manifest
**   064-071  number  backup-of: from the maker of the copy; else zero
**   072-...  mark    id and page, 8 bytes each; backup-of: one
**   4088-    zero
*/
#ifndef EMB_BACKUP_COPIED_H
#define EMB_BACKUP_COPIED_H

#include "engine/storage/ckpt/manifest.h"

#define COPIED_OF "backup-of"
#define COPIED_OF_NEW "backup-of-new"
#define COPIED_MARKS_NAME "backup-marks"
#define COPIED_MARKS_NEW "backup-marks-new"
#define COPIED_MARKS 251

struct copied_mark {
  uint64_t id, page;
};

struct copied {
  uint64_t sum;
  char magic[8];
  uint32_t format;
  uint32_t count;
  uint8_t uuid[16];
  uint8_t source[16];
  uint64_t generation;
  uint64_t number;
  struct copied_mark marks[COPIED_MARKS];
  uint64_t zero;
};
_Static_assert(sizeof(struct copied) == 4096, "what is known of copies");

/* Reads one of the two files; without one all zeros, uuid but.  EMB_CORRUPT. */
int copied__read(struct env *env, const char *dir, const char *name,
                 const uint8_t uuid[16], struct copied *copied, emb_err *err);
/* Durably. */
int copied__write(struct env *env, const char *dir, const char *name,
                  struct copied *copied, emb_err *err);
/* Adds a mark as the newest. */
void copied__add(struct copied *copied, struct copied_mark mark);
int copied__has(const struct copied *copied, struct copied_mark mark);

#endif
