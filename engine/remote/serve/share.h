/* SPDX-License-Identifier: MIT
**
** share.h -- can another user share a store as it is open?
*/
#ifndef EMB_SERVE_SHARE_H
#define EMB_SERVE_SHARE_H

#include "engine/table/session/session.h"

/* schema: the store's schema with that user's options applied (schema_print).
** The user's bound becomes the store's if the store has none.  EMB_MISMATCH,
** EMB_RANGE. */
int share_store(emb_store *store, const char *schema, int is_bounded,
                uint32_t staleness, emb_err *err);

#endif
