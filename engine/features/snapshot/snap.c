/* SPDX-License-Identifier: MIT
**
** snap.c -- taking, dropping and listing snapshots; snapshot/snapshot.h
** describes them.
*/
#include "snap.h"
#include "engine/table/jobs/tasks.h"
#include "engine/table/jobs/begin.h"

#include <string.h>

#include "engine/storage/kernel/store_file.h"
#include "engine/table/owner/own.h"

static int snap_begin(emb_session *s) {
  int rc = begin_write(s);
  rc = rc ? rc : own_claim(s);
  return rc ? rc : session_lock(s, &s->core->ckpt_lock);
}

int local_snapshot(emb_session *s, const char *name) {
  emb_store *store = s->store;
  int rc = snap_begin(s);
  if (rc) {
    return rc;
  }
  snapshots_reap(s->core, snapshots_of(store));
  rc = snapshot__make(s->core, snapshots_of(store), name,
                      &(struct snapshot_caller){.slot = store->work_slot,
                                                .settle = &store->open_txn.lock,
                                                .stop = s->waits.interrupt,
                                                .arg = s->waits.interrupt_arg},
                      &s->err);
  pthread_mutex_unlock(&s->core->ckpt_lock);
  return rc;
}

int local_snapshot_drop(emb_session *s, const char *name) {
  int rc = snap_begin(s);
  if (rc) {
    return rc;
  }
  rc = snapshot__drop(s->core, snapshots_of(s->store), name, &s->err);
  tasks_look_again(s->store); /* extents may be free now */
  pthread_mutex_unlock(&s->core->ckpt_lock);
  return rc;
}

/* ---- listing ------------------------------------------------------------- */

struct snap_listing {
  emb_session *s;
  emb_snapshot_info *infos;
  size_t max, n;
  int rc;
};

static void snap_describe(struct snap_listing *l,
                          const struct snapshot *snapshot) {
  if (l->n < l->max) {
    emb_snapshot_info *info = &l->infos[l->n];
    memset(info, 0, sizeof *info);
    memcpy(info->name, snapshot->name, sizeof snapshot->name);
    info->keys = (int64_t)snapshot->head.keys;
    info->version = snapshot->head.version;
    info->bytes = snapshot->head.extents * l->s->core->layout.extent_bytes;
    info->damaged = snapshot->damaged;
  }
  l->n++;
}

/* Describes a snapshot of another process, from its file. */
static void describe_file(void *arg, const char *name) {
  struct snap_listing *l = arg;
  struct snapshot *snapshot;
  int rc =
      l->rc ? l->rc : snapshot__open(l->s->core, name, &snapshot, &l->s->err);
  if (rc == EMB_RANGE) { /* dropped in the meantime */
    err_clear(&l->s->err);
    return;
  }
  l->rc = rc;
  if (!rc) {
    snap_describe(l, snapshot);
    snapshot__close(l->s->core, snapshot);
  }
}

/* Insertion sort: there are only a few. */
static void snap_sort(emb_snapshot_info *infos, size_t n) {
  for (size_t i = 1; i < n; i++) {
    emb_snapshot_info info = infos[i];
    size_t at = i;
    for (; at > 0 && (infos[at - 1].version > info.version ||
                      (infos[at - 1].version == info.version &&
                       strcmp(infos[at - 1].name, info.name) > 0));
         at--) {
      infos[at] = infos[at - 1];
    }
    infos[at] = info;
  }
}

int local_snapshots(emb_session *s, emb_snapshot_info *infos, size_t max,
                    size_t *n) {
  emb_snapshot_info all[EMB_SNAPSHOTS_MAX];
  struct snap_listing l = {s, all, EMB_SNAPSHOTS_MAX, 0, EMB_OK};
  struct snapshots *list = snapshots_of(s->store);
  int rc = session_begin(s);
  rc = rc ? rc : own_refresh(s);
  *n = 0;
  if (rc) {
    return rc;
  }
  if (atomic_load(&s->store->own.is_owner)) {
    pthread_mutex_lock(&list->lock);
    for (struct snapshot *snapshot = list->first; snapshot;
         snapshot = snapshot->next) {
      if (!snapshot->dropped) {
        snap_describe(&l, snapshot);
      }
    }
    pthread_mutex_unlock(&list->lock);
  } else {
    rc = snapshots__list(s->core, describe_file, &l, &s->err);
    rc = rc ? rc : l.rc;
  }
  if (!rc) {
    size_t there = l.n < EMB_SNAPSHOTS_MAX ? l.n : EMB_SNAPSHOTS_MAX;
    snap_sort(all, there);
    if (max) {
      memcpy(infos, all, (there < max ? there : max) * sizeof *infos);
    }
    *n = there;
  }
  return rc;
}

/* ---- opening ------------------------------------------------------------- */

/* Finds one of the owner's snapshots, which stays while it has users. */
static struct snapshot *snapshot_acquire(struct snapshots *list,
                                         const char *name) {
  pthread_mutex_lock(&list->lock);
  struct snapshot *snapshot = list->first;
  while (snapshot && (snapshot->dropped || strcmp(snapshot->name, name) != 0)) {
    snapshot = snapshot->next;
  }
  if (snapshot) {
    snapshot->users++;
  }
  pthread_mutex_unlock(&list->lock);
  return snapshot;
}

static int snap_find_named(emb_snap *snap, const char *name) {
  emb_session *s = snap->s;
  snap->listed = atomic_load(&s->store->own.is_owner);
  int rc = snapshot__check_name(name, &s->err);
  if (!rc && snap->listed) {
    snap->snapshot = snapshot_acquire(snapshots_of(s->store), name);
  } else if (!rc) {
    rc = snapshot__open(s->core, name, &snap->snapshot, &s->err);
  }
  if (!rc && !snap->snapshot) {
    rc = session_error(s, EMB_RANGE, "%s has no snapshot '%s'", s->core->dir,
                       name);
  }
  if (!rc && snap->snapshot->damaged) {
    rc = session_error(s, EMB_CORRUPT, "%s", snap->snapshot->err.text);
  }
  return rc;
}

int local_snapshot_open(emb_session *s, const char *name, emb_snap **out) {
  struct env *env = s->core->env;
  *out = NULL;
  int rc = session_begin(s);
  rc = rc ? rc : own_refresh(s);
  if (rc) {
    return rc;
  }
  emb_snap *snap = env->allocate(env, sizeof *snap);
  if (!snap) {
    return session_error(s, EMB_NOMEM, "out of memory");
  }
  snap->s = s;
  atomic_fetch_add(&s->store->sessions.snaps, 1);
  rc = snap_find_named(snap, name);
  if (rc) {
    local_snapshot_close(snap);
  } else {
    emb_check(snap_valid(snap));
    *out = snap;
  }
  return rc;
}

static void snap_give_back(emb_snap *snap) {
  struct snapshots *list = snapshots_of(snap->s->store);
  if (!snap->snapshot) {
    return;
  }
  if (snap->listed) {
    pthread_mutex_lock(&list->lock);
    emb_assert(snap->snapshot->users);
    snap->snapshot->users--;
    pthread_mutex_unlock(&list->lock);
    core_changed(snap->s->core); /* it may have been dropped */
  } else {
    snapshot__close(snap->s->core, snap->snapshot);
  }
}

void local_snapshot_close(emb_snap *snap) {
  if (!snap || store_check(snap->s->store, NULL)) {
    return;
  }
  struct env *env = snap->s->core->env;
  const struct layout *l = &snap->s->core->layout;
  emb_assert(atomic_load(&snap->s->store->sessions.snaps) > 0);
  snap__ahead_free(snap);
  if (snap->blocks) {
    env->unmap(env, snap->blocks, SNAP_BLOCKS * sizeof *snap->blocks);
  }
  if (snap->page) {
    env->unmap(env, snap->page, l->page_bytes);
  }
  if (snap->extent) {
    env->unmap(env, snap->extent, l->extent_bytes);
  }
  if (snap->bits) {
    env->unmap(env, snap->bits, snap__bit_bytes(snap));
  }
  snap_give_back(snap);
  atomic_fetch_sub(&snap->s->store->sessions.snaps, 1);
  own_unload(snap->s->store);
  env->release(env, snap);
}

int64_t local_snapshot_count(const emb_snap *snap) {
  return (int64_t)snap->snapshot->head.keys;
}

int snap_verify(emb_session *s, const char *name) {
  emb_snap *snap;
  int64_t key;
  uint64_t version, address, rows = 0;
  const char *value;
  int rc = local_snapshot_open(s, name, &snap);
  if (rc) {
    return rc;
  }
  do {
    rc = snap__next(snap, &key, &version, &value);
    rows += !rc && value;
    if (!rc && value) {
      rc = snap__find(snap, key, &address);
    }
    if (!rc && value && !address) {
      rc = session_error(s, EMB_CORRUPT,
                         "snapshot '%s': key %lld is not found in it", name,
                         (long long)key);
    }
  } while (!rc && value);
  if (!rc && rows != snap->snapshot->head.keys) {
    rc = session_error(s, EMB_CORRUPT,
                       "snapshot '%s' has %llu rows; its header says %llu",
                       name, (unsigned long long)rows,
                       (unsigned long long)snap->snapshot->head.keys);
  }
  local_snapshot_close(snap);
  return rc;
}

/* ---- their files --------------------------------------------------------- */

static int snapshot_load(struct core *core, int recovered, emb_err *err) {
  emb_store *store = (emb_store *)(void *)core;
  (void)recovered;
  return snapshots__load(core, snapshots_of(store), err);
}

static const struct store_file file_snapshot = {.name = SNAPSHOT_PREFIX "*",
                                                .temporary =
                                                    SNAPSHOT_NEW_PREFIX "*",
                                                .load = snapshot_load};

/* ---- in the background --------------------------------------------------- */

/* Frees snapshots that were dropped while being read. */
static int snapshots_run(struct pass *pass, enum outcome *did, emb_err *err) {
  emb_store *store = pass->store;
  (void)err;
  if (snapshots_reap(&store->core, snapshots_of(store))) {
    tasks_look_again(store); /* extents may be free now */
    *did = PIECE_DONE;
  }
  return EMB_OK;
}

static const struct task task_snapshots = {
    TASK_NAMED("snapshots"),
    .lane = LANE_RELEASE,
    .run = snapshots_run,
};

/* ---- the feature --------------------------------------------------------- */

static int snapshots_init(emb_store *store, emb_err *err) {
  (void)err;
  pthread_mutex_init(&snapshots_of(store)->lock, NULL);
  return EMB_OK;
}

static void snapshots_free(emb_store *store) {
  snapshots__free(&store->core, snapshots_of(store));
}

const struct feature feature_snapshot = {
    .name = "snapshot",
    .state_bytes = sizeof(struct snapshots),
    .tasks = FEATURE_TASKS(&task_snapshots),
    .files = FEATURE_FILES(&file_snapshot),
    .init = snapshots_init,
    .free = snapshots_free,
};
