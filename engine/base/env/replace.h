/* SPDX-License-Identifier: MIT
**
** replace.h -- files of a directory: builds their paths, and replaces a small
** file as a whole.
**
**   replace_begin   creates a file under a temporary name, after removing what
**                   an interrupted writer has left there
**   replace_seal    makes it durable, and closes it
**   replace_name    gives it its name, replacing the old file, and makes the
**                   name durable, too
**
** So either the old file or the new one is there, whatever fails.  The first
** two steps take the resources that may run out (space, descriptors):
** replace_name only renames, and syncs a directory that its caller has open.
** After an error in any step, nothing is left under the temporary name.  If
** only the sync of the directory failed, the file may or may not have its name
** after a crash.
**
** All return an errno, which the caller turns into its error.
*/
#ifndef EMB_ENV_REPLACE_H
#define EMB_ENV_REPLACE_H

#include "engine/base/err.h"
#include "env.h"

/* Room for the path of any file of a store: dir has at most EMB_PATH_MAX bytes
** (owner/registry.c); the longest name, a snapshot's, has 72. */
#define PATH_BYTES 4096
/* Writes dir + "/" + name to `to`; EMB_CANTOPEN if it does not fit. */
int path_join(char *to, size_t size, const char *dir, const char *name,
              emb_err *err);

/* flags: ENV_DIRECT, or 0. */
int replace_begin(struct env *env, const char *made, int flags,
                  struct env_file **file);
/* os: the errno of the writes so far, or 0.  Closes the file even on error. */
int replace_seal(struct env *env, const char *made, struct env_file *file,
                 int os);
/* names: the open directory, or NULL if the caller makes the name durable. */
int replace_name(struct env *env, const char *made, const char *path,
                 struct env_dir *names);
/* The first two steps, with this content. */
int replace_make(struct env *env, const char *made, const void *content,
                 size_t bytes);
/* All three steps. */
int replace_whole(struct env *env, const char *made, const char *path,
                  struct env_dir *names, const void *content, size_t bytes);

#endif
