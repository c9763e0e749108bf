/* SPDX-License-Identifier: MIT
**
** example.c -- a feature with all possible parts: an owner counts changes of
** rows, and continues from the count at the last checkpoint.
**
** FILE     `example`: the count at the checkpoint, 8 bytes.
** THREADS  `changed` by any session; the rest under the lock of its caller.
*/
#include <errno.h>
#include <stdatomic.h>

#include "engine/base/env/replace.h"
#include "engine/storage/kernel/observe.h"
#include "engine/table/store/metrics.h"
#include "engine/table/store/store.h"

#define EXAMPLE_NAME "example"
#define EXAMPLE_NEW "example-new"

struct example {
  struct observer observer;
  _Atomic uint64_t changed; /* relaxed */
  _Atomic uint64_t noted;   /* how many of these the task noted; relaxed */
};

static struct example *example_of(const emb_store *store) {
  return store->features[FEATURE_example];
}

/* ---- the observer -------------------------------------------------------- */

static void example_changed(void *arg, const struct row_event *event) {
  emb_store *store = arg;
  (void)event;
  if (atomic_load(&store->own.is_owner)) { /* otherwise they are loaded */
    atomic_fetch_add_explicit(&example_of(store)->changed, 1,
                              memory_order_relaxed);
  }
}

static int example_begin(emb_store *store, emb_err *err) {
  struct example *e = example_of(store);
  e->observer = (struct observer){
      .name = "example", .changed = example_changed, .arg = store, .all = 1};
  int rc = observe_begin(&store->core, &e->observer);
  return rc ? err_set(err, rc, "too many observers") : EMB_OK;
}

static void example_free(emb_store *store) {
  struct example *e = example_of(store);
  if (e->observer.name) {
    observe_end(&store->core, &e->observer);
  }
}

/* ---- the task ------------------------------------------------------------ */

static int example_due(struct pass *pass) {
  struct example *e = example_of(pass->store);
  return atomic_load(&e->changed) != atomic_load(&e->noted);
}

static int example_run(struct pass *pass, enum outcome *did, emb_err *err) {
  struct example *e = example_of(pass->store);
  (void)err;
  atomic_store(&e->noted, atomic_load(&e->changed));
  *did = PIECE_DONE;
  return EMB_OK;
}

static const struct task task_example = {
    TASK_NAMED("example"),
    .lane = LANE_AFTER,
    .due = example_due,
    .run = example_run,
};

/* ---- the file ------------------------------------------------------------ */

static int example_load(struct core *core, int recovered, emb_err *err) {
  struct example *e = example_of((emb_store *)(void *)core);
  struct env *env = core->env;
  struct env_file *file;
  char path[PATH_BYTES];
  uint64_t count = 0;
  (void)recovered;
  int rc = path_join(path, sizeof path, core->dir, EXAMPLE_NAME, err);
  if (rc || core->temporary) {
    return rc;
  }
  int os = env->open(env, path, ENV_READ, &file);
  if (!os) {
    os = env->read(env, file, &count, sizeof count, 0);
    env->close(env, file);
  }
  if (os && os != ENOENT) {
    return err_os(err, EMB_IOERR, os, "cannot read %s", path);
  }
  atomic_store(&e->changed, count);
  return EMB_OK;
}

/* The checkpoint syncs the directory. */
static int example_save(struct core *core, struct epoch_slot *slot,
                        emb_err *err) {
  struct example *e = example_of((emb_store *)(void *)core);
  struct env *env = core->env;
  char made[PATH_BYTES], path[PATH_BYTES];
  uint64_t count = atomic_load(&e->changed);
  (void)slot;
  int rc = path_join(made, sizeof made, core->dir, EXAMPLE_NEW, err);
  rc = rc ? rc : path_join(path, sizeof path, core->dir, EXAMPLE_NAME, err);
  if (rc || core->temporary) {
    return rc;
  }
  int os = replace_whole(env, made, path, NULL, &count, sizeof count);
  return os ? err_os(err, EMB_IOERR, os, "cannot write %s", path) : EMB_OK;
}

static const struct store_file file_example = {.name = EXAMPLE_NAME,
                                               .temporary = EXAMPLE_NEW,
                                               .load = example_load,
                                               .save = example_save};

/* ---- the descriptor ------------------------------------------------------ */

static void example_metrics(emb_store *store, struct metrics *to) {
  struct example *e = example_of(store);
  metric_count(to, "example_changed", &e->changed);
  metric_count(to, "example_noted", &e->noted);
}

const struct feature feature_example = {
    .name = "example",
    .state_bytes = sizeof(struct example),
    .tasks = FEATURE_TASKS(&task_example),
    .files = FEATURE_FILES(&file_example),
    .begin = example_begin,
    .free = example_free,
    .metrics = example_metrics,
};
