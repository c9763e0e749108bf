/* SPDX-License-Identifier: MIT
**
** identity.h -- whether the files of a store are still those of its owner.
**
** A directory can be moved away, deleted or replaced while a process owns the
** store in it: a backup is copied over it, another process writes it without
** the owner's lock.  An owner that went on would acknowledge transactions in
** files that nobody finds again, and write its manifest over that of another.
**
** CHECK     Before each prepare, at the beginning of a checkpoint and again
**           before its manifest is written, and by background work twice a
**           second while anything changes:
**
**             manifest, log   the file at its path is the one that is open
**             lock            it is the one that was there at the beginning
**             manifest        its newest generation is the one that this
**                             process read or wrote last, of the same uuid
**
**           Three stats, an open and a read of 4 KiB: no file stays open for
**           it, since an idle table has few descriptors.  Only if a slot looks
**           otherwise both are read and their checksums counted: one may be
**           damaged.
** FAILURE   Files of another fail the store for good (log_give_up): reads go
**           on, and nothing is written or made in the directory any more.  An
**           error of the system while looking is EMB_IOERR, and says nothing
**           of the store.
** STATES    none    a reader, or a temporary store
**           begun    the owner's files are noted            [identity_begin]
**           known    and the generation                     [identity__expect]
** THREADS   identity_begin and identity__expect by the thread that becomes the
**           owner, or under ckpt_lock; identity_check by any thread, without a
**           lock: while the manifest is written both the generation before and
**           the one after it are right (from, to).
*/
#ifndef EMB_CKPT_IDENTITY_H
#define EMB_CKPT_IDENTITY_H

#include "manifest.h"

/* The process becomes the owner: notes which files are there.  The load of a
** store_file. */
int identity_begin(struct core *core, int recovered, emb_err *err);
/* The manifest has a generation of these. */
void identity__expect(struct core *core, uint64_t from, uint64_t to);
/* EMB_FAILED: the store has failed, now or earlier; EMB_IOERR.  Once the
** generation is known. */
int identity_check(struct core *core, emb_err *err);
/* The manifest for writing, if it is still the owner's. */
int identity__open(struct core *core, struct env_file **file, emb_err *err);
void identity_free(struct core *core);

#endif
