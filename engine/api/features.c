/* SPDX-License-Identifier: MIT
**
** features.c -- what the features of a store register: their background tasks,
** their kinds of files, and what they keep for each store.
**
** A task or a file is a constant in a file of its feature (store/task.h,
** kernel/store_file.h) and one name in a list below.  The order of the tasks is
** part of their rule (jobs/tasks.c).  That of the files is the one in which
** they are loaded, saved and checked, and in which those of a copy are removed:
** the manifest makes a directory a store, so it goes first.
*/
#include "features.h"
#include "engine/features/background/step.h"
#include "engine/features/background/step.h"

#include "engine/table/store/dir.h"

/* ---- tasks --------------------------------------------------------------- */

extern const struct task task_flush, task_identity, task_snapshots,
    task_readers, task_expire, task_evict, task_compact, task_checkpoint,
    task_shorten, task_advice, task_warm, task_nearest, task_bank, task_control;

const struct task *const store_tasks[] = {
    &task_flush, &task_identity, &task_snapshots,  &task_readers, &task_expire,
    &task_evict, &task_compact,  &task_checkpoint, &task_shorten, &task_advice,
    &task_warm,  &task_nearest,  &task_bank,       &task_control};

const size_t store_task_count = sizeof store_tasks / sizeof store_tasks[0];
_Static_assert(sizeof store_tasks / sizeof store_tasks[0] <= TASKS_MAX,
               "a slot for each task");

/* ---- files --------------------------------------------------------------- */

extern const struct store_file file_manifest, file_log, file_lock, file_index,
    file_spill, file_copy_of, file_snapshot, file_hot, file_seen, file_chain,
    file_consumer, file_position, file_copy_marks, file_socket, file_nearest;

const struct store_file *const store_files[] = {
    &file_manifest,   &file_log,     &file_lock,     &file_index,
    &file_spill,      &file_copy_of, &file_snapshot, &file_hot,
    &file_seen,       &file_chain,   &file_consumer, &file_position,
    &file_copy_marks, &file_socket,  &file_nearest};

const size_t store_file_count = sizeof store_files / sizeof store_files[0];

/* ---- what they keep ------------------------------------------------------ */

emb_store *features__new_store(struct env *env) {
  struct whole {
    emb_store store; /* first: it is what is released */
    struct warm warm;
    struct nearest_index nearest;
    struct sampling sampling;
    struct snapshots snapshots;
    struct chain chain;
    struct evict evict;
    struct bank bank;
    struct background_step step;
  } *whole = env->allocate(env, sizeof *whole);
  if (!whole) {
    return NULL;
  }
  whole->store.warm = &whole->warm;
  whole->store.nearest = &whole->nearest;
  whole->store.sampling = &whole->sampling;
  whole->store.snapshots = &whole->snapshots;
  whole->store.chain = &whole->chain;
  whole->store.evict = &whole->evict;
  whole->store.bank = &whole->bank;
  whole->store.step = &whole->step;
  return &whole->store;
}
