/* SPDX-License-Identifier: MIT
**
** stat_text.h -- the owner's texts among the metrics, at a client.
*/
#ifndef EMB_SERVE_STAT_TEXT_H
#define EMB_SERVE_STAT_TEXT_H

#include "engine/table/session/session.h"

/* The same text, for as long as the store is open; where there are too many, or
** there is no memory, one that says so. */
const char *stat__text_keep(emb_store *store, const char *text);
void stat__text_free(emb_store *store);

#endif
