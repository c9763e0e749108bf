/* SPDX-License-Identifier: MIT
**
** small.h -- small files of a store's directory that are written anew as a
** whole: to another name, synced, renamed.  So there is the old one or the new
** one, whatever fails.
*/
#ifndef EMB_DELTA_SMALL_H
#define EMB_DELTA_SMALL_H

#include "../core/core.h"
#include "../emb.h"

#define SMALL_PATH_BYTES 4096

/* The path of a file of the store; EMB_CANTOPEN: it is too long. */
int small_path(const struct core *core, const char *name, char *path,
               emb_err *err);
/* Reads a file of exactly so many bytes.  EMB_CORRUPT: it has another length;
** *missing (or NULL): it was EMB_CANTOPEN because there is none. */
int small_read(struct core *core, const char *name, void *to, size_t bytes,
               int *missing, emb_err *err);
/* Under the name `made` until it is durable. */
int small_write(struct core *core, const char *made, const char *name,
                const void *from, size_t bytes, emb_err *err);

#endif
