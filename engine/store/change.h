/* SPDX-License-Identifier: MIT
**
** change.h -- immediate writes that need the old value, for the calls of emb.h
** and for put.c, where a record holds more than a Put says.
*/
#ifndef EMB_STORE_CHANGE_H
#define EMB_STORE_CHANGE_H

#include "value.h"

/* Changes n keys.  found, versions: as for emb_rmw, may be NULL.  call, wait
** and *done: as for put_rows. */
int change_rows(emb_session *s, const int64_t *keys, size_t n,
                const struct change *change, uint8_t *found, uint64_t *versions,
                uint32_t call, int wait, size_t *done);

#endif
