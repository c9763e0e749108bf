/* SPDX-License-Identifier: MIT
**
** forget_help.h -- shared by the tests whose tables track updates, expire or
** evict: a clock that moves only when told to, and a look at the files that a
** kill leaves.
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

/* Opens the files that a killed process would have left, with everything
** before the call durable.  Both stores get one more row, of key -5. */
int forget_open_copy(const char *dir, emb_session *s, const emb_config *config,
                     emb_store **store, emb_session **other);

#endif
