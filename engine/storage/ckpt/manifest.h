/* SPDX-License-Identifier: MIT
**
** manifest.h -- the file that names the valid checkpoint.
**
** Two slots of 4096 bytes.  Generation g is written to slot g % 2, so a torn
** write leaves the previous generation intact.  Every state is written to both
** slots, one after the other; after that, damage to either one is survivable.
** Bytes:
**
**   000-007  sum         hash_sum of bytes 8..4095 at position 0, salt 0
**   008-015  magic       "embstore"
**   016-019  format      1; 2 with a schema; 3 with the schema of a table that
**                        tracks; 4 with a metric or an index
**   020-023  clean       1: nothing is beyond `tail`; 0: a process owns the
**                        store, or died owning it
**   024-039  uuid        of the store
**   040-047  generation  of the manifest
**   048-051  dim         052-055  type
**   056-059  page_bytes  060-063  extent_bytes
**   064-071  index_generation   names the index file
**   072-079  index_blocks       its length in blocks
**   080-087  keys               in the index file
**   088-095  replay      page where recovery begins
**   096-103  tail        every page below it is durable
**   104-111  version     no record has a higher one
**   112-119  txn_last    newest transaction number assigned
**   120-127  txn_committed      newest prepared and committed transaction
**   128-3711 schema      text (schema/schema.h), then zeros; "": a single
**                        vector of `dim` and `type`
**   3712-3715 newest     from format 3 on: time of the newest write
**   3716-4095 zero
*/
#ifndef EMB_CKPT_MANIFEST_H
#define EMB_CKPT_MANIFEST_H

#include <stdint.h>

#include "engine/storage/kernel/core.h"
#include "engine/base/env/replace.h"

#define MANIFEST_FORMAT 4 /* the newest */
#define MANIFEST_SLOT 4096
#define MANIFEST_STEP 2 /* generations of one state */

struct manifest {
  uint64_t sum;
  char magic[8];
  uint32_t format;
  uint32_t clean;
  uint8_t uuid[16];
  uint64_t generation;
  uint32_t dim, type;
  uint32_t page_bytes, extent_bytes;
  uint64_t index_generation;
  uint64_t index_blocks;
  uint64_t keys;
  uint64_t replay;
  uint64_t tail;
  uint64_t version;
  uint64_t txn_last;
  uint64_t txn_committed;
  char schema[SCHEMA_TEXT_BYTES];
  uint32_t newest;
  uint8_t zero[MANIFEST_SLOT - 132 - SCHEMA_TEXT_BYTES];
};
_Static_assert(sizeof(struct manifest) == MANIFEST_SLOT, "manifest slot");

/* Reads the newest valid slot of dir/manifest.  EMB_CANTOPEN if there is no
** file, EMB_NOTADB if the format is unknown, EMB_CORRUPT if no slot is
** valid. */
int manifest_read(struct env *env, const char *dir, struct manifest *manifest,
                  emb_err *err);
/* Reads the newer valid slot of the file, whatever its format; all zeros if
** there is none.  Returns an errno. */
int manifest__newest(struct env *env, struct env_file *file,
                     struct manifest *newest);
/* Reads the higher generation of the two slots without checking them: a cheap
** test for a new checkpoint.  Returns an errno. */
int manifest_look(struct env *env, struct env_file *file, uint64_t *newest);
/* Finds a slot that is damaged: not valid, although it was written.  (In a
** store made by an earlier version and not written since, the second slot may
** never have been written.)  *damaged: its number, or -1.  The other slot may
** be in use. */
int manifest_check(struct env *env, const char *dir, int *damaged,
                   emb_err *err);
#define MANIFEST_NAME "manifest"
#define MANIFEST_NEW_NAME "manifest-new"
/* Its name while the store is being deleted. */
#define MANIFEST_GONE "manifest-gone"
int manifest_is_missing(struct env *env, const char *dir);
/* Gives the state the next two generations and writes each to its slot; the
** first is durable before the second is written.  Space that the previous
** manifest named may be freed only after this returns.  The file must exist: it
** is never created here. */
int manifest_write(struct env *env, const char *dir, struct manifest *manifest,
                   int sync, emb_err *err);
/* As above, to the manifest of that directory, already open. */
int manifest__write_open(struct env *env, struct env_file *file,
                         const char *dir, struct manifest *manifest, int sync,
                         emb_err *err);
/* Writes the first two generations of a store whose other files are already
** synced.  The file is renamed into place when complete: a directory with a
** manifest is a store. */
int manifest_create(struct env *env, const char *dir, struct env_dir *names,
                    struct manifest *manifest, emb_err *err);

#endif
