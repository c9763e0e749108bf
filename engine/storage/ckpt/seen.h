/* SPDX-License-Identifier: MIT
**
** seen.h -- what admission has counted, in a file: which keys were seen how
** often before they became rows.
**
** Each checkpoint writes it anew, so a store that is opened goes on counting
** where it was closed, and after a crash where the newest checkpoint was.  The
** counts are no data: without the file, or if it is damaged or of another rule,
** counting begins anew.  Damage is counted (the metric admission_damaged), and
** emb_verify says what it is until the next checkpoint replaces the file.
**
** FILE     `admission`, blocks as of blocks.h: a head, and the two tables in
**          pairs of words (FORMAT.md).  Written as `admission-new`, synced,
**          renamed; the dump that follows in the checkpoint syncs the
**          directory.
** CALLS    As a file of the store (kernel/store_file.h): loaded by its owner,
**          saved by each checkpoint, checked.  A store that counts nothing has
**          none.
** THREADS  Under ckpt_lock.  Sessions go on counting meanwhile; what they count
**          is in the file or not.
*/
#ifndef EMB_CKPT_SEEN_H
#define EMB_CKPT_SEEN_H

#include "blocks.h"
#include "engine/storage/kernel/store_file.h"

#define SEEN_NAME "admission"
#define SEEN_NEW "admission-new"

extern const struct store_file file_seen;

#endif
