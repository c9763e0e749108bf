/* SPDX-License-Identifier: MIT
**
** spill.c -- tests of engine/base/mem/spill.c: it stays a stack, however much
** of it is in the file, and after errors, too.
*/
#include "test.h"

#include "engine/base/mem/spill.h"

#include <dirent.h>
#include <errno.h>

enum { ITEM_MAX = 24 };

/* An item of n bytes that carries its number in the stack and a random seed. */
static void make_item(char *item, uint32_t n, uint64_t number, uint64_t salt) {
  uint64_t x = number * 31 + salt;
  for (uint32_t i = 0; i < n; i++)
    item[i] = (char)(test_random_from(&x) >> 7);
}

static int files_in(const char *path) {
  DIR *dir = opendir(path);
  int n = 0;
  for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir))
    n += e->d_name[0] != '.';
  if (dir)
    closedir(dir);
  return n;
}

/* Pushes and pops at random with a drift up and then down. */
static void random_walk(uint32_t item_bytes, uint64_t top, int rounds) {
  struct spill spill;
  uint64_t depth = 0, salt = 0, *salts = calloc(top + 1, sizeof *salts);
  char item[ITEM_MAX], want[ITEM_MAX];
  emb_err err = {0, ""};
  spill_init(&spill, &env_posix, test_dir(), item_bytes);
  for (int i = 0; salts && i < rounds; i++) {
    int up = test_random() % 100 < (i < rounds / 2 ? 60u : 35u);
    uint64_t burst = test_random() % 2000;
    for (; burst; burst--) {
      if (up && depth < top) {
        salts[depth] = salt++;
        make_item(item, item_bytes, depth, salts[depth]);
        CHECK_EQ_INT(spill_push(&spill, item, &err), EMB_OK);
        depth++;
      } else if (!up && depth > 0) {
        depth--;
        CHECK_EQ_INT(spill_pop(&spill, item, &err), EMB_OK);
        make_item(want, item_bytes, depth, salts[depth]);
        if (memcmp(item, want, item_bytes) != 0)
          CHECK_EQ_INT(depth, -1);
      }
    }
    CHECK(spill_count(&spill) == depth);
  }
  while (depth > 0) { /* to the bottom */
    depth--;
    CHECK_EQ_INT(spill_pop(&spill, item, &err), EMB_OK);
    make_item(want, item_bytes, depth, salts[depth]);
    if (memcmp(item, want, item_bytes) != 0)
      CHECK_EQ_INT(depth, -1);
  }
  CHECK_EQ_INT(spill_count(&spill), 0);
  /* The file has no name, so nothing is left, whatever happens. */
  CHECK_EQ_INT(files_in(test_dir()), 0);
  spill_free(&spill);
  free(salts);
}

TEST(random_walk_of_keys) { random_walk(8, 200000, 400); }
TEST(random_walk_of_undo_entries) { random_walk(16, 100000, 400); }
TEST(random_walk_of_odd_items) { random_walk(24, 60000, 300); }

TEST(small_stack_makes_no_file) {
  struct spill spill;
  emb_err err = {0, ""};
  uint64_t item = 0;
  spill_init(&spill, &env_posix, "/nowhere/at/all", 8);
  while (spill_count(&spill) < spill.room) {
    item++;
    CHECK_EQ_INT(spill_push(&spill, &item, &err), EMB_OK);
  }
  /* The next item needs a file, for which there is no directory. */
  CHECK(spill_push(&spill, &item, &err) != EMB_OK);
  CHECK(strstr(err.text, "/nowhere/at/all") != NULL);
  CHECK(spill_count(&spill) == spill.room);
  for (uint64_t want = spill.room; want > 0; want--) {
    CHECK_EQ_INT(spill_pop(&spill, &item, &err), EMB_OK);
    CHECK(item == want);
  }
  spill_free(&spill);
}

/* ---- errors -------------------------------------------------------------- */

static int fail_write, fail_read;
static int failing_write(struct env *env, struct env_file *file,
                         const void *bytes, size_t n, uint64_t offset) {
  return fail_write ? ENOSPC : env_posix.write(env, file, bytes, n, offset);
}
static int failing_read(struct env *env, struct env_file *file, void *bytes,
                        size_t n, uint64_t offset) {
  return fail_read ? EIO : env_posix.read(env, file, bytes, n, offset);
}

TEST(failed_push_and_pop_leave_the_stack_as_it_was) {
  struct env env = env_posix;
  struct spill spill;
  emb_err err = {0, ""};
  uint64_t depth = 0, item;
  env.write = failing_write;
  env.read = failing_read;
  fail_write = fail_read = 0;
  spill_init(&spill, &env, test_dir(), 8);
  for (int i = 0; i < 400000; i++) {
    int up = test_random() % 16 < (i < 200000 ? 10u : 5u);
    fail_write = test_random() % 4 == 0;
    fail_read = test_random() % 4 == 0;
    if (up) {
      int rc = spill_push(&spill, &depth, &err);
      CHECK(rc == EMB_OK || (fail_write && rc == EMB_FULL));
      depth += rc == EMB_OK;
    } else if (depth) {
      int rc = spill_pop(&spill, &item, &err);
      CHECK(rc == EMB_OK || (fail_read && rc == EMB_IOERR));
      depth -= rc == EMB_OK;
      if (rc == EMB_OK)
        CHECK(item == depth);
    }
    CHECK(spill_count(&spill) == depth);
  }
  spill_free(&spill);
}

static void *no_resize(struct env *env, void *at, size_t bytes) {
  (void)env, (void)at, (void)bytes;
  return NULL;
}

TEST(no_memory) {
  struct env env = env_posix;
  struct spill spill;
  emb_err err = {0, ""};
  uint64_t item = 1;
  env.resize = no_resize;
  spill_init(&spill, &env, test_dir(), 8);
  CHECK_EQ_INT(spill_push(&spill, &item, &err), EMB_NOMEM);
  CHECK_EQ_INT(spill_count(&spill), 0);
  env.resize = env_posix.resize;
  CHECK_EQ_INT(spill_push(&spill, &item, &err), EMB_OK);
  spill_free(&spill);
}

TEST(freed_stack_is_empty_and_usable) {
  struct spill spill;
  emb_err err = {0, ""};
  uint64_t item = 0;
  spill_init(&spill, &env_posix, test_dir(), 8);
  for (int round = 0; round < 3; round++) {
    for (uint64_t i = 0; i < 50000; i++)
      CHECK_EQ_INT(spill_push(&spill, &i, &err), EMB_OK);
    CHECK(spill.below > 0);
    spill_free(&spill);
    CHECK_EQ_INT(spill_count(&spill), 0);
    CHECK_EQ_INT(spill_push(&spill, &item, &err), EMB_OK);
    CHECK_EQ_INT(spill_pop(&spill, &item, &err), EMB_OK);
  }
  spill_free(&spill);
}
