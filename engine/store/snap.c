/* SPDX-License-Identifier: MIT
**
** snap.c -- taking snapshots, dropping and listing them; what they are is in
** ckpt/snapshot.h.
*/
#include "snap.h"

#include <string.h>

static int begin(emb_session *s) {
  int rc = session_begin_write(s);
  rc = rc ? rc : store_own(s);
  return rc ? rc : session_lock(s, &s->core->ckpt_lock);
}

int emb_snapshot(emb_session *s, const char *name) {
  emb_store *store = s->store;
  int rc = begin(s);
  if (rc) {
    return rc;
  }
  snapshots_reap(s->core, &store->snapshots);
  rc = snapshot_make(s->core, store->work_slot, &store->snapshots, name,
                     &store->settle_lock, s->ask, s->ask_arg, &s->err);
  pthread_mutex_unlock(&s->core->ckpt_lock);
  return rc;
}

int emb_snapshot_drop(emb_session *s, const char *name) {
  int rc = begin(s);
  if (rc) {
    return rc;
  }
  rc = snapshot_drop(s->core, &s->store->snapshots, name, &s->err);
  s->store->idle.tail = 0; /* there is something to free */
  pthread_mutex_unlock(&s->core->ckpt_lock);
  return rc;
}

/* ---- listing ------------------------------------------------------------- */

struct listing {
  emb_session *s;
  emb_snapshot_info *infos;
  size_t max, n;
  int rc;
};

static void describe(struct listing *l, const struct snapshot *snapshot) {
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

/* Another process's: its files say it. */
static void describe_file(void *arg, const char *name) {
  struct listing *l = arg;
  struct snapshot *snapshot;
  int rc =
      l->rc ? l->rc : snapshot_open(l->s->core, name, &snapshot, &l->s->err);
  if (rc == EMB_RANGE) { /* dropped meanwhile */
    err_clear(&l->s->err);
    return;
  }
  l->rc = rc;
  if (!rc) {
    describe(l, snapshot);
    snapshot_close(l->s->core, snapshot);
  }
}

/* Few: by insertion. */
static void sort(emb_snapshot_info *infos, size_t n) {
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

int emb_snapshots(emb_session *s, emb_snapshot_info *infos, size_t max,
                  size_t *n) {
  emb_snapshot_info all[EMB_SNAPSHOTS_MAX];
  struct listing l = {s, all, EMB_SNAPSHOTS_MAX, 0, EMB_OK};
  struct snapshots *list = &s->store->snapshots;
  int rc = session_begin(s);
  rc = rc ? rc : store_refresh(s);
  *n = 0;
  if (rc) {
    return rc;
  }
  if (atomic_load(&s->store->owner)) {
    pthread_mutex_lock(&list->lock);
    for (struct snapshot *snapshot = list->first; snapshot;
         snapshot = snapshot->next) {
      if (!snapshot->dropped) {
        describe(&l, snapshot);
      }
    }
    pthread_mutex_unlock(&list->lock);
  } else {
    rc = snapshots_list(s->core, describe_file, &l, &s->err);
    rc = rc ? rc : l.rc;
  }
  if (!rc) {
    size_t there = l.n < EMB_SNAPSHOTS_MAX ? l.n : EMB_SNAPSHOTS_MAX;
    sort(all, there);
    memcpy(infos, all, (there < max ? there : max) * sizeof *infos);
    *n = there;
  }
  return rc;
}

/* ---- opening ------------------------------------------------------------- */

/* The owner's, which stays while it has users. */
static struct snapshot *borrow(struct snapshots *list, const char *name) {
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

static int find(emb_snap *snap, const char *name) {
  emb_session *s = snap->s;
  snap->listed = atomic_load(&s->store->owner);
  int rc = snapshot_check_name(name, &s->err);
  if (!rc && snap->listed) {
    snap->snapshot = borrow(&s->store->snapshots, name);
  } else if (!rc) {
    rc = snapshot_open(s->core, name, &snap->snapshot, &s->err);
  }
  if (!rc && !snap->snapshot) {
    rc = session_error(s, EMB_RANGE, "there is no snapshot '%s'", name);
  }
  if (!rc && snap->snapshot->damaged) {
    rc = session_error(s, EMB_CORRUPT, "%s", snap->snapshot->err.text);
  }
  return rc;
}

int emb_snapshot_open(emb_session *s, const char *name, emb_snap **out) {
  struct env *env = s->core->env;
  *out = NULL;
  int rc = session_begin(s);
  rc = rc ? rc : store_refresh(s);
  if (rc) {
    return rc;
  }
  emb_snap *snap = env->allocate(env, sizeof *snap);
  if (!snap) {
    return session_error(s, EMB_NOMEM, "out of memory");
  }
  snap->s = s;
  rc = find(snap, name);
  if (rc) {
    emb_snapshot_close(snap);
  } else {
    *out = snap;
  }
  return rc;
}

static void give_back(emb_snap *snap) {
  struct snapshots *list = &snap->s->store->snapshots;
  if (!snap->snapshot) {
    return;
  }
  if (snap->listed) {
    pthread_mutex_lock(&list->lock);
    snap->snapshot->users--;
    pthread_mutex_unlock(&list->lock);
  } else {
    snapshot_close(snap->s->core, snap->snapshot);
  }
}

uint64_t snap_bit_bytes(const emb_snap *snap) {
  const struct layout *l = &snap->s->core->layout;
  return snap->snapshot->head.extents * l->extent_pages * l->slots / 8 + 1;
}

void emb_snapshot_close(emb_snap *snap) {
  if (!snap || store_check(snap->s->store, NULL)) {
    return;
  }
  struct env *env = snap->s->core->env;
  const struct layout *l = &snap->s->core->layout;
  snap_ahead_free(snap);
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
    env->unmap(env, snap->bits, snap_bit_bytes(snap));
  }
  give_back(snap);
  env->release(env, snap);
}

int64_t emb_snapshot_count(const emb_snap *snap) {
  return (int64_t)snap->snapshot->head.keys;
}
