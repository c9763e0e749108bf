/* SPDX-License-Identifier: MIT
**
** share.h -- may another user of a store have it as it is open?
*/
#ifndef EMB_SERVE_SHARE_H
#define EMB_SERVE_SHARE_H

#include "engine/table/session/session.h"

/* schema: what that user's options have made of the store's (schema_print).
** Its bound becomes the store's if that has none.  EMB_MISMATCH, EMB_RANGE. */
int share_store(emb_store *store, const char *schema, int is_bounded,
                uint32_t staleness, emb_err *err);

#endif
