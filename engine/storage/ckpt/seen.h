/* SPDX-License-Identifier: MIT
**
** seen.h -- the admission counts in a file: how often each key was seen before
** it became a row.
**
** Each checkpoint rewrites the file, so a reopened store resumes counting where
** it was closed, or after a crash at the newest checkpoint.  The counts are not
** data: if the file is missing, damaged or for another rule, counting starts
** over.  Damage is counted (the metric admission_damaged), and emb_verify
** describes it until the next checkpoint replaces the file.
**
** FILE     `admission`, in the blocks of blocks.h: a head, then the two tables
**          as pairs of words (FORMAT.md).  Written as `admission-new`, synced,
**          renamed.  The dump that follows in the checkpoint syncs the
**          directory.
** CALLS    A store file (kernel/store_file.h): loaded by the owner, saved by
**          each checkpoint, checked.  A store that counts nothing has no such
**          file.
** THREADS  Under ckpt_lock.  Sessions keep counting while the file is written;
**          their counts may or may not be in it.
*/
#ifndef EMB_CKPT_SEEN_H
#define EMB_CKPT_SEEN_H

#include "blocks.h"
#include "engine/storage/kernel/store_file.h"

#define SEEN_NAME "admission"
#define SEEN_NEW "admission-new"

extern const struct store_file file_seen;

#endif
