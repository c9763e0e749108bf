/* SPDX-License-Identifier: MIT
**
** forget_help.h -- what the tests share whose tables track updates, expire or
** evict: a clock that moves when they say so, and a look at what a kill leaves.
*/
#ifndef EMB_FORGET_HELP_H
#define EMB_FORGET_HELP_H

#include "store_help.h"

#include "engine/table/owner/registry.h"
#include "failing.h"
#include "files.h"

enum { BEGIN = 1700000000 }; /* seconds since 1970 */

/* Of all stores between forget_begin and forget_end. */
extern struct failing forget_env;

void forget_begin(void);

void forget_end(void);

uint32_t forget_now(void);

/* A store without threads and with little memory. */
emb_config forget_config(uint32_t dim);

void forget_steps(emb_store *store);

/* Opens what a killed process would have left, with all before the call
** durable.  There is one row more, of key -5, in both. */
int forget_open_copy(const char *dir, emb_session *s, const emb_config *config,
                     emb_store **store, emb_session **other);

#endif
