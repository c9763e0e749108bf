/* SPDX-License-Identifier: MIT
**
** copied.h -- a store's records of its copies (emb_backup_write).
**
** COPY      `backup-of` names the source and one of its marks, from which a
**           later copy can continue.  The file is valid while the copy has not
**           been written to: the copy's manifest is still the one it was made
**           with.
** SOURCE    `backup-marks` lists the marks at which copies were made.
**           Everything below a mark was sealed and decided when the mark was
**           taken, so every store that has the mark has the same extents below
**           it, whatever has happened since: the store itself, and any store
**           made by copying its files.  (So the page of a mark is not above
**           the first page of a transaction that was open.) An older copy of
**           the source does not have the mark, and the next backup is a full
**           one.  Only the newest COPIED_MARKS marks are known.
**
** Both are files of 4096 bytes, replaced as a whole: written, synced, renamed:
**
**   000-007  sum     hash_sum of bytes 8..4095, the store's salt, position 0
**   008-015  magic   "embcopy1"
**   016-019  format  1
**   020-023  count   of marks
**   024-039  uuid    of the store that contains the file
**   040-055  source  backup-of: the store it is a copy of; else zeros
**   056-063  generation  backup-of: of the manifest
**   064-071  number  backup-of: from the maker of the copy; else zero
**   072-...  mark    id and page, 8 bytes each; backup-of: one mark
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

/* Reads one of the two files; if it is missing, all zeros except uuid.
** EMB_CORRUPT. */
int copied__read(struct env *env, const char *dir, const char *name,
                 const uint8_t uuid[16], struct copied *copied, emb_err *err);
/* Writes the file durably. */
int copied__write(struct env *env, const char *dir, const char *name,
                  struct copied *copied, emb_err *err);
/* Adds the newest mark. */
void copied__add(struct copied *copied, struct copied_mark mark);
int copied__has(const struct copied *copied, struct copied_mark mark);

#endif
