/* SPDX-License-Identifier: MIT
**
** stat_text.h -- the text metrics of the owner, kept at a client.
*/
#ifndef EMB_SERVE_STAT_TEXT_H
#define EMB_SERVE_STAT_TEXT_H

#include "engine/table/session/session.h"

/* Returns the same text, valid while the store is open; if there are too many
** texts or no memory, a text that says so. */
const char *stat__text_keep(emb_store *store, const char *text);
void stat__text_free(emb_store *store);

#endif
