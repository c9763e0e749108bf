/* SPDX-License-Identifier: MIT
**
** identity.h -- checks whether a store's files still belong to its owner.
**
** A directory can be moved, deleted or replaced while a process owns the store
** in it: a backup may be copied over it, or another process may write it
** without the owner's lock.  If the owner carried on, it would acknowledge
** transactions in files that nobody can find, and overwrite another process's
** manifest.
**
** CHECK     Done before each prepare, at the start of a checkpoint and again
**           before its manifest is written, and by background work twice a
**           second while the store is changing:
**
**             manifest, log   the file at the path is the one that is open
**             lock            it is the file that was there at the start
**             manifest        its newest generation is the one this process
**                             last read or wrote, with the same uuid
**
**           Costs three stats, an open and a 4 KiB read.  No file is kept open
**           for the check, so that an idle table uses few descriptors.  Both
**           are read and their checksums verified only if a slot looks
**           different, since one may be damaged.
** FAILURE   Foreign files fail the store permanently (log_give_up): reads
**           continue, but nothing more is written or created in the directory.
**           A system error during the check is EMB_IOERR, and does not fail the
**           store.
** STATES    none    a reader, or a temporary store
**           begun   the owner's files are recorded           [identity_begin]
**           known   the generation is recorded as well       [identity__expect]
** THREADS   identity_begin and identity__expect are called by the thread that
**           becomes the owner, or under ckpt_lock; identity_check by any
**           thread, without a lock.  While the manifest is written, both the
**           generation before the write and the one after it are accepted
**           (from, to).
*/
#ifndef EMB_CKPT_IDENTITY_H
#define EMB_CKPT_IDENTITY_H

#include "manifest.h"

/* Called when the process becomes the owner: records which files are there.
** The `load` callback of a store_file. */
int identity_begin(struct core *core, int recovered, emb_err *err);
/* Sets the manifest generations to accept. */
void identity__expect(struct core *core, uint64_t from, uint64_t to);
/* EMB_FAILED: the store has failed, now or earlier; EMB_IOERR.  Call only once
** the generation is known. */
int identity_check(struct core *core, emb_err *err);
/* Opens the manifest for writing, if it is still the owner's. */
int identity__open(struct core *core, struct env_file **file, emb_err *err);
void identity_free(struct core *core);

#endif
