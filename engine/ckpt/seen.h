/* SPDX-License-Identifier: MIT
**
** seen.h -- what admission has counted, in a file: which keys were seen how
** often before they became rows.
**
** Each checkpoint writes it anew, so a store that is opened goes on counting
** where it was closed, and after a crash where the newest checkpoint was.  The
** counts are no data: without the file, or if it is damaged or of another rule,
** counting begins anew.  Damage is counted (the figure admission_damaged), and
** emb_verify says what it is until the next checkpoint replaces the file.
**
** FILE     `admission`, blocks as of blocks.h: a head, and the two tables in
**          pairs of words (FORMAT.md).  Written as `admission-new`, synced,
**          renamed; the dump that follows in the checkpoint syncs the
**          directory.
** THREADS  Under ckpt_lock.  Sessions go on counting meanwhile; what they count
**          is in the file or not.
*/
#ifndef EMB_CKPT_SEEN_H
#define EMB_CKPT_SEEN_H

#include "blocks.h"

#define SEEN_NAME "admission"
#define SEEN_NEW "admission-new"

/* Does nothing for a store that counts nothing. */
int seen_write(struct core *core, emb_err *err);
/* Counting goes on from the file if there is one, and it is right; else it is
** left at its beginning.  EMB_NOMEM; EMB_CORRUPT says what is wrong with the
** file. */
int seen_read(struct core *core, emb_err *err);
/* Only looks: EMB_CORRUPT says what is wrong with the file. */
int seen_verify(struct core *core, emb_err *err);

#endif
