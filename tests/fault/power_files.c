/* SPDX-License-Identifier: MIT
**
** power_files.c -- the power fails at every event of an export and of a
** restore.
**
** The following must be found afterwards (tests/lib/disk.h says which disks
** are possible):
**
**   export    the complete old file or the complete new one; the new one once
**             the call has returned
**   restore   the old table, or that of the file, nothing in between; the
**             latter once the call has returned.  A table takes an increment
**             only at the moment where it begins; and whatever was found, the
**             snapshot and its increments bring the table to the last moment.
**
** SEED repeats a run exactly.  LONG=n tries n times as many disks.
*/
#include "moments_help.h"

#include "disk.h"

static const char parent[] = "/data", first[] = "/data/m0",
                  second[] = "/data/m1", third[] = "/data/m2";

static struct {
  size_t events;
  enum disk_loss loss;
} moment;

static int holds(int good, int line, const char *what, int is) {
  return test_check(good, __FILE__, line, "%zu events, loss %d: %s: %d",
                    moment.events, (int)moment.loss, what, is);
}
#define HOLDS(good_, what_, is_) holds((good_), __LINE__, (what_), (is_))

/* Stores and files of one moment each, durable. */
static struct disk *make_disk(void) {
  struct disk *disk = disk_new(test_random());
  emb_store *store;
  emb_session *s;
  CHECK_EQ_INT(disk_make_dir(disk, parent), 0);
  env_set_default(disk_env(disk));
  if (!moments_make(parent) || !moment_open("/data/source", &store, &s))
    return disk;
  OK(s, moment_export(s, 0, -1, first));
  OK(s, moment_export(s, 1, 0, second));
  OK(s, moment_export(s, 2, 1, third));
  (void)help_close(store, s);
  return disk;
}

/* ---- export -------------------------------------------------------------- */

static size_t returned; /* events when the call had returned */
static const char target[] = "/data/file";

static void look_at_file(struct disk *disk, size_t events,
                         enum disk_loss loss) {
  moment.events = events;
  moment.loss = loss;
  emb_err err = {0, ""};
  int m = moment_of_file(target, &err);
  (void)disk;
  if (!HOLDS(m == 2 || (m == 0 && moment.events < returned), "the file is", m))
    printf("%s\n", err.text);
  emb_store *store; /* leftovers are not in the way */
  emb_session *s;
  if (!moment_open("/data/source", &store, &s))
    return;
  int rc = moment_export(s, 1, -1, target);
  if (!HOLDS(rc == EMB_OK, "exported again", rc))
    printf("%s\n", emb_errmsg(s));
  HOLDS(moment_of_file(target, &err) == 1, "and read", 0);
  (void)help_close(store, s);
}

TEST(crash_in_an_export) {
  struct disk *disk = make_disk();
  emb_store *store;
  emb_session *s;
  if (!moment_open("/data/source", &store, &s))
    return;
  OK(s, moment_export(s, 0, -1, target));
  disk_record(disk);
  OK(s, moment_export(s, 2, -1, target));
  returned = disk_events(disk);
  (void)help_close(store, s);
  size_t states = disk_crash_each(disk, 60, look_at_file);
  printf("%zu events\n", returned);
  test_count("states after power loss", states);
  disk_free(disk);
  env_set_default(&env_posix);
}

/* ---- restore ------------------------------------------------------------- */

/* Restores, one after another: the resulting moments, and the number of
** events then. */
enum { RESTORES = 4 };
static const int goals[RESTORES] = {0, 1, 2, 0};
static size_t began[RESTORES], ended[RESTORES];

static void look_at_table(struct disk *disk, size_t events,
                          enum disk_loss loss) {
  moment.events = events;
  moment.loss = loss;
  emb_store *store;
  emb_session *s;
  int least = MOMENT_OTHER, most = MOMENT_OTHER;
  (void)disk;
  for (int i = 0; i < RESTORES; i++) {
    if (moment.events >= began[i])
      most = goals[i];
    if (moment.events >= ended[i])
      least = goals[i];
  }
  if (!moment_open("/data/copy", &store, &s))
    return;
  int m = moment_of(s);
  HOLDS(m == least || m == most, "the table shows moment", m);
  OK(s, emb_verify(s, NULL, NULL));
  /* Restores an increment to a table at another moment. */
  int rc = emb_snapshot_restore(s, third, NULL);
  int now = moment_of(s);
  HOLDS(rc == EMB_OK ? (m == 1 || m == 2) && now == 2
                     : rc == EMB_GAP && now == m,
        "the last increment", rc);
  HOLDS(rc == EMB_OK || m != 1 || moment.events < ended[1],
        "it was refused, and fits", rc);
  rc = emb_snapshot_restore(s, first, NULL);
  HOLDS(rc == EMB_OK && moment_of(s) == 0, "the snapshot", rc);
  rc = emb_snapshot_restore(s, second, NULL);
  HOLDS(rc == EMB_OK && moment_of(s) == 1, "its increment", rc);
  (void)help_close(store, s);
}

TEST(crash_in_a_restore) {
  static const char *const files[] = {first, second, third, first};
  struct disk *disk = make_disk();
  emb_store *store;
  emb_session *s;
  disk_record(disk);
  if (!moment_open("/data/copy", &store, &s))
    return;
  for (int i = 0; i < RESTORES; i++) {
    began[i] = disk_events(disk);
    OK(s, emb_snapshot_restore(s, files[i], NULL));
    ended[i] = disk_events(disk);
    CHECK_EQ_INT(moment_of(s), goals[i]);
  }
  (void)help_close(store, s);
  size_t events = disk_events(disk);
  size_t states = disk_crash_each(disk, 5, look_at_table);
  printf("%zu events\n", events);
  test_count("states after power loss", states);
  disk_free(disk);
  env_set_default(&env_posix);
}
