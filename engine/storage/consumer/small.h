/* SPDX-License-Identifier: MIT
**
** small.h -- small files in a store's directory, read and rewritten as a whole
** (env/replace.h).
*/
#ifndef EMB_CONSUMER_SMALL_H
#define EMB_CONSUMER_SMALL_H

#include "engine/storage/kernel/core.h"
#include "engine/emb.h"
#include "engine/base/env/replace.h"

/* Reads a file of exactly `bytes` bytes.  EMB_CORRUPT: it has another length;
** *missing (or NULL): EMB_CANTOPEN means that there is no such file. */
int small__read(struct core *core, const char *name, void *to, size_t bytes,
                int *missing, emb_err *err);
/* Writes the new file durably under the name `made`. */
int small__make(struct core *core, const char *made, const void *from,
                size_t bytes, emb_err *err);
/* Renames it into place; needs no memory, descriptor or space. */
int small__name(struct core *core, const char *made, const char *name,
                emb_err *err);
/* Removes it instead. */
void small__drop(struct core *core, const char *made);
struct small {
  void *data;
  size_t bytes;
};
/* Reads a file of one or more units, `most` bytes at most, into memory that the
** caller releases, even after an error.  EMB_CORRUPT: its length does not
** fit. */
int small__load(struct core *core, const char *name, size_t unit, size_t most,
                struct small *small, emb_err *err);
/* small__make and small__name. */
int small__write(struct core *core, const char *made, const char *name,
                 const void *from, size_t bytes, emb_err *err);

#endif
