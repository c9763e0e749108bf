/* SPDX-License-Identifier: MIT
**
** chain.h -- the files a table was made from, and so the file that may be
** applied next.
**
** Files of changes (pack/pack.h) begin where another one ended: base.id and
** end.id say so.  A table that takes them records its state in a file of its
** directory, `chain`, which is replaced as a whole: chain-new, sync, rename,
** sync of the directory.
**
**   from == to   the table is at `to`
**   from != to   a file that leads from `from` to `to` is being applied, or was
**                when the process died: the table is at one of the two.  Since
**                applying it again leads to `to` from both, only that file may
**                come next, or one that holds a whole table.
**
** No file: the table has taken no file yet.  A temporary store has no such file
** and keeps the chain in memory.
** THREADS   Under ckpt_lock, and changed only by the call that takes a file
**           (snapshot/restore.h): chain__begin followed by chain__end or
**           chain_undo counts as one change.
*/
#ifndef EMB_SNAPSHOT_CHAIN_H
#define EMB_SNAPSHOT_CHAIN_H

#include "engine/storage/kernel/core.h"
#include "engine/storage/pack/pack.h"
#include "engine/table/store/store.h"

#define CHAIN_NAME "chain"
#define CHAIN_NEW_NAME "chain-new"
#define CHAIN_MAGIC "embchain"
#define CHAIN_FORMAT 1

struct chain {
  uint64_t sum;  /* 00-07 hash_sum of the rest; the store's salt, position 0 */
  char magic[8]; /* 08-15 */
  uint32_t format;            /* 16-19 */
  uint32_t zero;              /* 20-23 */
  uint8_t uuid[16];           /* 24-39 of the store that the files come from */
  uint64_t from, to;          /* 40-55 ids of marks */
  uint64_t number;            /* 56-63 of the file that led to `to` */
  char name[PACK_NAME_BYTES]; /* 64-135 name of the state `to` */
  char zeros[120];            /* 136-255 */
};
_Static_assert(sizeof(struct chain) == 256, "chain");

static inline struct chain *chain_of(const emb_store *store) { /* ckpt_lock */
  return store->features[FEATURE_chain];
}

/* Reads the table's state; all zeros: none.  For a temporary store *chain stays
** unchanged.  EMB_CORRUPT: the file is damaged; then only a whole table may
** come. */
int chain_read(struct core *core, struct chain *chain, emb_err *err);
/* May this file come next?  EMB_GAP: the text says what is missing;
** EMB_MISMATCH: the file is of another table. */
int chain__check(const struct chain *chain, const struct pack_head *head,
                 const char *path, emb_err *err);
/* Records that the file is about to be applied: durable on return. */
int chain__begin(struct core *core, struct chain *chain,
                 const struct pack_head *head, emb_err *err);
/* Restores the chain after the transaction was rolled back. */
void chain_undo(struct core *core, struct chain *chain,
                const struct chain *before);
/* Records that the file was applied, durably. */
int chain__end(struct core *core, struct chain *chain, emb_err *err);

#endif
