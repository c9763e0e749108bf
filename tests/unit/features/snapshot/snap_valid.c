/* SPDX-License-Identifier: MIT
**
** snap_valid.c -- each assertion about snapshots, about one being taken and one
** being read, and about files being restored fires.
*/
#include "engine/features/snapshot/snap.h"

#include "death.h"
#include "engine/features/snapshot/restore.h"
#include "store_help.h"

enum { DIM = 60, ROWS = 3000 };

static emb_store *store;
static emb_session *s;
static struct core *core;
static struct snapshots *list;
static emb_snap *snap;

/* Opens a store with the snapshots "a" and "b", and reads a row of "b". */
static int begin(void) {
  emb_config c = {
      .dim = DIM, .memory_bytes = 1, .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP};
  static float vector[DIM];
  int64_t key;
  uint64_t version;
  const char *value;
  if (!help_open(help_path("store"), &c, &store, &s)) {
    return 0;
  }
  core = &store->core;
  list = snapshots_of(store);
  for (key = 1; key <= ROWS; key++) {
    OK(s, emb_put(s, &key, 1, vector, NULL));
  }
  return OK(s, emb_snapshot(s, "a")) && OK(s, emb_snapshot(s, "b")) &&
         OK(s, emb_snapshot_open(s, "b", &snap)) &&
         OK(s, snap__next(snap, &key, &version, &value)) &&
         CHECK(value && snap_valid(snap));
}

static void end(void) {
  emb_snapshot_close(snap);
  help_close(store, s);
}

static int needs_none(const struct retention *hold, uint64_t extent) {
  (void)hold;
  (void)extent;
  return 0;
}

TEST(a_snapshot) {
  if (!begin()) {
    return;
  }
  struct snapshot *of = list->first;
  CHECK(of->head.extents > 1 && snapshot_valid(core, of));
  CHECK_FIRES(of->starts[0] = 1; snapshot_valid(core, of));
  CHECK_FIRES(of->starts[1] = of->starts[2] + 1; snapshot_valid(core, of));
  CHECK_FIRES(of->head.keys++; snapshot_valid(core, of));
  CHECK_FIRES(of->extents[1][0] = of->extents[0][0]; snapshot_valid(core, of));
  CHECK_FIRES(of->retention.needs = needs_none; snapshot_valid(core, of));
  CHECK_FIRES(of->extents[0][1]++; snapshot_valid(core, of));
  end();
}

TEST(all_snapshots) {
  if (!begin()) {
    return;
  }
  struct snapshot *first = list->first;
  CHECK_FIRES(snapshots_valid(core, list));
  pthread_mutex_lock(&core->ckpt_lock);
  CHECK(snapshots_valid(core, list));
  CHECK_FIRES(retention_end(core, &first->retention);
              snapshots_valid(core, list));
  CHECK_FIRES(first->name[0] = 0; snapshots_valid(core, list));
  CHECK_FIRES(first->next->name[0] = first->name[0];
              snapshots_valid(core, list));
  pthread_mutex_unlock(&core->ckpt_lock);
  end();
}

TEST(a_snapshot_being_read) {
  if (!begin()) {
    return;
  }
  CHECK_FIRES(snap->snapshot->damaged = 1; snap_valid(snap));
  CHECK_FIRES(snap->at = snap->snapshot->head.extents + 1; snap_valid(snap));
  CHECK_FIRES(snap->row = UINT32_MAX; snap_valid(snap));
  CHECK_FIRES(snap->extent = NULL; snap_valid(snap));
  CHECK_FIRES(snap->at = snap->snapshot->head.extents; snap_valid(snap));
  CHECK_FIRES(snap->numbers[0] = 2; snap_valid(snap));
  CHECK_FIRES(atomic_store(&store->sessions.snaps, 0); snap_valid(snap));
  CHECK_FIRES(snap_pass_extent(snap)); /* in the middle of one */
  CHECK_ALL_FIRED("engine/features/snapshot/snap_valid.c");
  end();
}

/* A store that was open before a fork cannot be used in the child. */
TEST(a_snapshot_closed_twice) {
  CHECK_FIRES(begin(); atomic_store(&store->sessions.snaps, 0);
              emb_snapshot_close(snap));
  CHECK_FIRES(begin(); snap->snapshot->users = 0; emb_snapshot_close(snap));
}

static void make(void) {
  struct snapshot_caller caller = {.slot = store->work_slot,
                                   .settle = &store->open_txn.lock};
  snapshot__make(core, list, "c", &caller, NULL);
}

static struct snapshot_making making;

static int start(void) {
  return snapshot_start(core, store->work_slot, test_dir(),
                        &store->open_txn.lock, &making, NULL);
}

static void finish(void) {
  struct snapshot *out;
  snapshot_finish(&making, list, NULL, NULL, &out);
}

TEST(a_snapshot_being_taken) {
  if (!begin()) {
    return;
  }
  CHECK_FIRES(make());
  CHECK_FIRES(start());
  CHECK_FIRES(snapshot__drop(core, list, "a", NULL));
  CHECK_FIRES(snapshots__load(core, list, NULL));
  pthread_mutex_lock(&core->ckpt_lock);
  CHECK_FIRES(epoch_enter(&core->epoch, store->work_slot); make());
  CHECK_EQ_INT(start(), EMB_OK);
  CHECK_FIRES(pthread_mutex_unlock(&core->ckpt_lock); finish());
  CHECK_FIRES(making.notes = NULL; finish());
  snapshot_give_up(&making);
  pthread_mutex_unlock(&core->ckpt_lock);
  end();
}

TEST(a_file_being_restored) {
  struct restore restore = {.s = NULL};
  struct chain chain = {.from = 0};
  static const struct pack_head head;
  if (!begin()) {
    return;
  }
  restore.s = s;
  CHECK_FIRES(chain__begin(core, &chain, &head, NULL));
  CHECK_FIRES(chain__end(core, &chain, NULL));
  CHECK_FIRES(chain_undo(core, &chain, &chain));
  CHECK_ALL_FIRED("engine/features/snapshot/chain.c");
  CHECK_FIRES(restore_rows(&restore, 0));
  OK(s, emb_begin(s));
  CHECK_FIRES(restore_rows(&restore, 0));
  CHECK_FIRES(restore_settle(&restore));
  CHECK_ALL_FIRED("engine/features/snapshot/restore.c");
  emb_rollback(s);
  CHECK_ALL_FIRED("engine/features/snapshot/snapshot_valid.c");
  end();
}
