/* SPDX-License-Identifier: MIT
**
** feature.h -- what a feature adds to each store, as one constant: its state,
** its callbacks, tasks, files and metrics.
**
** A feature is a folder with a constant feature_NAME of the type below, and the
** line FEATURE(NAME) in features.def, which explains the order.  The feature's
** state for a store is at store->features[FEATURE_NAME]; a header of the folder
** has the one function that casts it to its type, such as warm_of.
**
** LIFE      init      the store is made, and knows only its configuration
**           begin     the store has its layout and its memory; rows are loaded
**                     next, so an observer of all rows begins here
**           drain     the last user closes the store, which works as before
**           ...       background work ends; the owner settles its files
**           settled   or
**           left      the process was not the owner, or may not settle them
**           free      no thread of the store runs any more.  Always follows
**                     init; the others are not called if opening failed
*/
#ifndef EMB_STORE_FEATURE_H
#define EMB_STORE_FEATURE_H

#include "engine/emb.h"
#include "engine/storage/kernel/store_file.h"
#include "task.h"

struct metrics; /* metrics.h */

struct feature {
  const char *name;
  size_t state_bytes;                    /* initially zero */
  const struct task *const *tasks;       /* FEATURE_TASKS, or NULL */
  const struct store_file *const *files; /* FEATURE_FILES, or NULL */
  /* The members below may be NULL.  After an error of one feature the others
  ** are still called. */
  int (*init)(emb_store *store, emb_err *err);
  int (*begin)(emb_store *store, emb_err *err);
  int (*drain)(emb_store *store, emb_err *err);
  void (*settled)(emb_store *store);
  void (*left)(emb_store *store);
  void (*free)(emb_store *store);
  /* For emb_stats: any thread, at any time between init and free. */
  void (*metrics)(emb_store *store, struct metrics *to);
};

#define FEATURE_TASKS(...)                                                     \
  ((const struct task *const[]){__VA_ARGS__, (const struct task *)0})
#define FEATURE_FILES(...)                                                     \
  ((const struct store_file *const[]){__VA_ARGS__,                             \
                                      (const struct store_file *)0})

#define FEATURE(name) FEATURE_##name,
enum feature_number {
#include "features.def"
  FEATURE_COUNT
};
#undef FEATURE

#define FEATURE(name) extern const struct feature feature_##name;
#include "features.def"
#undef FEATURE

/* All features, in the order of features.def (api/features.c). */
extern const struct feature *const store_features[FEATURE_COUNT];

#endif
