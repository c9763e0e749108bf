/* SPDX-License-Identifier: MIT
**
** replace.h -- files of a directory: their paths, and one way to write a small
** one anew as a whole.
**
**   replace_begin   a new file under a temporary name; what a writer that was
**                   cut off has left there goes first
**   replace_seal    it is durable, and closed
**   replace_name    it gets its name, in place of the one before, and that is
**                   durable, too
**
** So there is the old file or the new one, whatever fails.  What may be missing
** (space, descriptors) is taken in the first two: replace_name only renames,
** and syncs a directory that its caller has open.  After an error of any of
** them nothing is left under the temporary name; where only the sync of the
** directory failed, the file may have its name or not after a crash.
**
** All give an errno, from which the caller makes its error.
*/
#ifndef EMB_ENV_REPLACE_H
#define EMB_ENV_REPLACE_H

#include "engine/base/err.h"
#include "env.h"

/* Room for the path of any file of a store: dir has at most EMB_PATH_MAX bytes
** (owner/registry.c), the longest name, a snapshot's, 72. */
#define PATH_BYTES 4096
/* dir + "/" + name, at most size bytes; EMB_CANTOPEN if longer. */
int path_join(char *to, size_t size, const char *dir, const char *name,
              emb_err *err);

/* flags: ENV_DIRECT, or 0. */
int replace_begin(struct env *env, const char *made, int flags,
                  struct env_file **file);
/* os: what the writing has come to; also with an error the file is closed. */
int replace_seal(struct env *env, const char *made, struct env_file *file,
                 int os);
/* names: the directory, or NULL: the caller makes the name durable. */
int replace_name(struct env *env, const char *made, const char *path,
                 struct env_dir *names);
/* The first two, with this content. */
int replace_make(struct env *env, const char *made, const void *content,
                 size_t bytes);
/* All three. */
int replace_whole(struct env *env, const char *made, const char *path,
                  struct env_dir *names, const void *content, size_t bytes);

#endif
