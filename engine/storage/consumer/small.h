/* SPDX-License-Identifier: MIT
**
** small.h -- small files of a store's directory: read as a whole, and written
** anew as a whole (env/replace.h).
*/
#ifndef EMB_CONSUMER_SMALL_H
#define EMB_CONSUMER_SMALL_H

#include "engine/storage/kernel/core.h"
#include "engine/emb.h"
#include "engine/base/env/replace.h"

/* Reads a file of exactly so many bytes.  EMB_CORRUPT: it has another length;
** *missing (or NULL): it was EMB_CANTOPEN because there is none. */
int small__read(struct core *core, const char *name, void *to, size_t bytes,
                int *missing, emb_err *err);
/* The new one is durable under the name `made`. */
int small__make(struct core *core, const char *made, const void *from,
                size_t bytes, emb_err *err);
/* It gets its name: without memory, a descriptor or space. */
int small__name(struct core *core, const char *made, const char *name,
                emb_err *err);
/* It does not. */
void small__drop(struct core *core, const char *made);
struct small {
  void *data;
  size_t bytes;
};
/* Reads a file of so many units, at least one and `most` bytes at most, into
** memory that the caller releases; also after an error.  EMB_CORRUPT: it has no
** such length. */
int small__load(struct core *core, const char *name, size_t unit, size_t most,
                struct small *small, emb_err *err);
/* Both. */
int small__write(struct core *core, const char *made, const char *name,
                 const void *from, size_t bytes, emb_err *err);

#endif
