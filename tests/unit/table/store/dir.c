/* SPDX-License-Identifier: MIT
**
** dir.c -- the list of a store's files: which ones an owner removes as left by
** a process that died, which go with the store, and which stay; and how one
** file replaces another, whichever call fails.
*/
#include "forget_help.h"

#include "engine/base/env/replace.h"
#include "engine/table/store/dir.h"

#include <unistd.h>

enum { DIM = 4, ROWS = 100 };

/* Files that a process that died may have left, and files of its user. */
static const char *const left[] = {
    "manifest-new",
    "index-00000000000000ff",
    "spill-0123456789abcdef",
    "hot-1",
    "snapnew-a",
    "chain-new",
    "admission-new",
    "consumer-new",
    "position-new",
    "backup-of-new",
    "backup-marks-new",
};
static const char *const foreign[] = {"manifest.txt", "hotel",  "notes",
                                      "backup-of.1",  "logged", "snap"};
#define LEFT (sizeof left / sizeof left[0])
#define FOREIGN (sizeof foreign / sizeof foreign[0])

static const char *path_of(const char *dir, const char *name) {
  static char path[1024];
  (void)snprintf(path, sizeof path, "%s/%s", dir, name);
  return path;
}

static int write_text(const char *path, const char *text) {
  FILE *f = fopen(path, "we");
  int good = f != NULL && fputs(text, f) >= 0;
  return f != NULL && fclose(f) == 0 && good;
}

static int is_there(const char *dir, const char *name) {
  return access(path_of(dir, name), F_OK) == 0;
}

static void check_names(const char *dir, const char *const *names, size_t n,
                        int there) {
  for (size_t i = 0; i < n; i++)
    test_check(is_there(dir, names[i]) == there, __FILE__, __LINE__, "%s is %s",
               names[i], there ? "gone" : "there");
}

/* Makes a closed store with all of these files in its directory. */
static int make_store(const char *dir, const emb_config *config) {
  emb_store *store;
  emb_session *s;
  int good = 1;
  if (!help_open(dir, config, &store, &s))
    return 0;
  help_put_rows(s, 0, 1, ROWS, 1);
  OK(s, emb_snapshot(s, "kept"));
  help_close(store, s);
  for (size_t i = 0; i < LEFT; i++)
    good &= write_text(path_of(dir, left[i]), "left");
  for (size_t i = 0; i < FOREIGN; i++)
    good &= write_text(path_of(dir, foreign[i]), "foreign");
  return CHECK(good);
}

TEST(an_owner_removes_what_was_left) {
  emb_config c = {.dim = DIM, .flags = EMB_OPEN_CREATE};
  emb_store *store;
  emb_session *s;
  char dir[512];
  (void)snprintf(dir, sizeof dir, "%s", help_path("left"));
  if (!make_store(dir, &c) || !help_open(dir, &c, &store, &s))
    return;
  CHECK_EQ_INT(emb_count(s), ROWS);
  check_names(dir, left, LEFT, 1); /* a reader removes nothing */
  help_put_rows(s, 0, 1, ROWS, 1);
  check_names(dir, left, LEFT, 0);
  check_names(dir, foreign, FOREIGN, 1);
  CHECK(is_there(dir, "manifest") && is_there(dir, "log"));
  CHECK(is_there(dir, "snap-kept"));
  help_verify(s);
  help_close(store, s);
}

TEST(all_goes_with_the_store_but_what_is_foreign) {
  emb_config c = {.dim = DIM, .flags = EMB_OPEN_CREATE};
  char dir[512];
  emb_err err;
  (void)snprintf(dir, sizeof dir, "%s", help_path("gone"));
  if (!make_store(dir, &c))
    return;
  CHECK_EQ_INT(emb_destroy(dir, &err), EMB_OK);
  CHECK_EQ_INT(help_entries(dir), FOREIGN);
  check_names(dir, foreign, FOREIGN, 1);
}

/* Only a copy's own files are removed, without opening a descriptor. */
TEST(a_copy_is_removed_without_a_descriptor) {
  static const char *const copied[] = {"manifest", "manifest-new", "log",
                                       "backup-of", "backup-of-new"};
  static const char *const others[] = {"lock", "index-1", "hot"};
  char dir[512];
  int good = 1;
  (void)snprintf(dir, sizeof dir, "%s", help_path("copy"));
  CHECK_EQ_INT(env_posix.make_dir(&env_posix, dir), 0);
  for (size_t i = 0; i < sizeof copied / sizeof copied[0]; i++)
    good &= write_text(path_of(dir, copied[i]), "copy");
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
    good &= write_text(path_of(dir, others[i]), "other");
  CHECK(good);
  forget_begin();
  failing_arm(&forget_env, FAILING_DESCRIPTORS, 1, 1, EMFILE);
  dir_remove_copy(&forget_env.env, dir);
  failing_disarm(&forget_env);
  forget_end();
  check_names(dir, copied, sizeof copied / sizeof copied[0], 0);
  check_names(dir, others, sizeof others / sizeof others[0], 1);
}

/* Whichever call fails, the file has the old content or the new, with no other
** file next to it.  Without an error it has the new content. */
TEST(a_file_is_replaced_as_a_whole) {
  char made[512], path[512], text[16];
  struct env_dir *names;
  uint64_t failed = 0;
  (void)snprintf(path, sizeof path, "%s", help_path("file"));
  (void)snprintf(made, sizeof made, "%s", help_path("file-new"));
  forget_begin();
  for (uint64_t nth = 1;; nth++) {
    CHECK(write_text(path, "old") && write_text(made, "left of before"));
    CHECK_EQ_INT(forget_env.env.open_dir(&forget_env.env, test_dir(), &names),
                 0);
    failing_arm(&forget_env, FAILING_IO, nth, 0, EIO);
    int os = replace_whole(&forget_env.env, made, path, names, "new", 3);
    uint64_t fired = forget_env.fired;
    failing_disarm(&forget_env);
    forget_env.env.close_dir(&forget_env.env, names);
    FILE *f = fopen(path, "re");
    CHECK(f != NULL && fgets(text, sizeof text, f) != NULL);
    if (f != NULL)
      (void)fclose(f);
    CHECK(strcmp(text, "new") == 0 || (os && strcmp(text, "old") == 0));
    CHECK(os == 0 || os == EIO || os == EEXIST);
    CHECK(os == EEXIST || access(made, F_OK) != 0);
    failed += os != 0;
    if (!fired)
      break;
  }
  CHECK(failed >= 5); /* unlink, open, write, sync, rename, sync of the names */
  forget_end();
}
