/* SPDX-License-Identifier: MIT
**
** backup_valid.c -- each assertion about a backup, the copy that it writes, and
** the records of copies fires.
*/
#include "engine/features/backup/backup.h"

#include "death.h"
#include "store_help.h"

enum { DIM = 60, ROWS = 3000 };

static emb_store *store;
static emb_session *s;
static emb_backup *backup;

static int begin(void) {
  return help_open_filled(DIM, ROWS, &store, &s) &&
         OK(s, emb_backup_begin(s, test_dir(), &backup)) &&
         CHECK(backup_valid(backup));
}

static void end(void) {
  emb_backup_end(backup);
  CHECK_EQ_INT(atomic_load(&store->sessions.snaps), 0);
  help_close(store, s);
}

TEST(a_backup) {
  if (!begin()) {
    return;
  }
  CHECK_FIRES(backup->begun = 0; backup_valid(backup));
  CHECK_FIRES(backup->making.notes = NULL; backup_valid(backup));
  CHECK_FIRES(backup->generation = 1; backup_valid(backup));
  CHECK_FIRES(pthread_mutex_unlock(&store->core.ckpt_lock);
              backup_valid(backup));
  CHECK_FIRES(backup->owner = 0; backup_valid(backup));
  OK(s, emb_backup_freeze(backup));
  CHECK(backup_valid(backup));
  CHECK_FIRES(pthread_mutex_lock(&store->core.ckpt_lock); backup->begun = 1;
              backup_valid(backup));
  CHECK_FIRES(backup->snap->listed = 0; backup_valid(backup));
  CHECK_FIRES(backup->settled = backup->snap->snapshot->head.mark + 1;
              backup_valid(backup));
  CHECK_FIRES(atomic_store(&store->sessions.snaps, 0); backup_valid(backup));
  end();
}

/* A copy as it stands when its extents are written: the first of them is in the
** base, in the file slot 1. */
static struct copying c;
static struct base base = {.end = 2, .below = UINT64_MAX};
static struct file_slot slots[64];
static uint8_t used[1] = {2};

static int copy_of_two(void) {
  if (!begin() || !OK(s, emb_backup_freeze(backup))) {
    return 0;
  }
  const struct snapshot *snapshot = backup->snap->snapshot;
  uint64_t n = snapshot->head.extents;
  c = (struct copying){
      .b = backup, .base = &base, .slots = slots, .used = used, .end = n + 1};
  for (uint64_t i = 0; CHECK(n > 2 && n < 64) && i < n; i++) {
    slots[i].number = snapshot->extents[i][0];
    slots[i].phys = i == 0 ? 1 : i == 1 ? 0 : i;
  }
  c.next = n;
  return CHECK(copying_valid(&c) && copying_slots_valid(&c));
}

TEST(a_copy) {
  if (!copy_of_two()) {
    return;
  }
  CHECK_FIRES(c.pieces = PIECE_MAX + 1; copying_valid(&c));
  CHECK_FIRES(c.pieces = 1; c.piece_slot = c.next; copying_valid(&c));
  CHECK_FIRES(c.used = NULL; copying_valid(&c));
  CHECK_FIRES(slots[2].number++; copying_slots_valid(&c));
  CHECK_FIRES(slots[2].phys = c.end; copying_slots_valid(&c));
  CHECK_FIRES(base.below = slots[0].number; copying_slots_valid(&c));
  CHECK_FIRES(slots[2].phys = 0; copying_slots_valid(&c));
  CHECK_FIRES(c.next--; copying_slots_valid(&c));
  CHECK_FIRES(c.pieces = 1; copying_slots_valid(&c));
  end();
}

TEST(records_of_copies) {
  struct copied marks = {.count = 0};
  for (uint64_t i = 1; i <= COPIED_MARKS + 1; i++) {
    copied__add(&marks, (struct copied_mark){i, i});
  }
  CHECK_EQ_INT(marks.count, COPIED_MARKS);
  CHECK_FIRES(marks.count++; copied__add(&marks, (struct copied_mark){1, 1}));
  CHECK_FIRES(marks.count++; copied__write(&env_posix, test_dir(),
                                           COPIED_MARKS_NAME, &marks, NULL));
  CHECK_FIRES(copied__write(&env_posix, test_dir(), COPIED_OF, &marks, NULL));
  CHECK_EQ_INT(
      copied__write(&env_posix, test_dir(), COPIED_MARKS_NAME, &marks, NULL),
      EMB_OK);
  CHECK_ALL_FIRED("engine/features/backup/backup_valid.c");
  CHECK_ALL_FIRED("engine/features/backup/copied.c");
}
