/* SPDX-License-Identifier: MIT
**
** fail_io.c -- every call of the env that touches a disk fails in turn, once
** or from then on: see fail_help.h.  BODY=part of a name runs some only.
*/
#include "fail_body.h"
#include "fork_help.h"

#include <sys/wait.h>

static uint32_t codes(uint32_t more) {
  return UINT32_C(1) << EMB_FAILED | UINT32_C(1) << EMB_IOERR |
         UINT32_C(1) << EMB_CANTOPEN | more;
}

static void all(uint32_t kinds, int error, uint32_t more) {
  struct fail_base bases[BASES];
  struct fail *w = fail_start(bases, test_dir_in("/dev/shm"));
  if (w) {
    w->codes = codes(more);
    fail_all(w, bases, kinds, error);
  }
  fail_end(w);
}

TEST(any_call_gives_EIO) { all(FAILING_IO, EIO, 0); }
TEST(a_full_disk) { all(FAILING_WRITES, ENOSPC, 1u << EMB_FULL); }
TEST(no_more_files) { all(FAILING_BIT(FAILING_OPEN), EMFILE, 0); }
TEST(missing_files) {
  all(FAILING_BIT(FAILING_OPEN), ENOENT, 1u << EMB_CORRUPT);
}

/* ---- a process that only reads ------------------------------------------- */

static void write_elsewhere(struct fail *w, int32_t value) {
  pid_t child = test_fork();
  if (child == 0) {
    w->store = NULL;
    w->s = NULL;
    w->stop = 0;
    if (fail_open(w))
      fail_put(w, 0, 50, 1, value);
    emb_session_close(w->s);
    _exit(w->stop || emb_close(w->store, NULL) != EMB_OK);
  }
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* Another process has written; this one fails to load its checkpoint, and
** must not treat keys as absent afterwards. */
TEST(reader_loads_again) {
  struct fail_base bases[BASES];
  struct fail *w = fail_start(bases, test_dir_in("/dev/shm"));
  if (!w)
    return;
  w->codes = codes(0);
  w->flags = EMB_OPEN_STEP;
  fail_copy(bases[BASE_CLEAN].dir, w->dir);
  memcpy(w->now, bases[BASE_CLEAN].after, sizeof w->now);
  failing_init(&w->f, &env_posix, test_state.seed);
  env_set_default(&w->f.env);
  int came = fail_open(w);
  for (int n = 1; came && !w->stop; n++) {
    write_elsewhere(w, 10 + n % 40);
    for (int i = 0; i < 50; i++)
      w->now[i] |= UINT64_C(1) << (10 + n % 40);
    (void)snprintf(w->what, sizeof w->what, "reader, call %d", n);
    failing_pass(&w->f, 10000);
    failing_arm(&w->f, FAILING_IO, (uint64_t)n, 0, EIO);
    w->refused = 0;
    fail_read(w, FAIL_PEEK, 0, 8, 7);
    came = w->f.fired > 0;
    failing_disarm(&w->f);
    fail_read(w, FAIL_PEEK, 0, 60, 2); /* the old rows or the new ones */
    failing_pass(&w->f, 10000);
    for (int i = 0; i < 50; i++)
      w->now[i] = UINT64_C(1) << (10 + n % 40);
    fail_read(w, FAIL_PEEK, 0, 60, 1);
    if (!came)
      test_count("I/O calls failed", (uint64_t)(n - 1));
  }
  fail_close(w);
  env_set_default(&env_posix);
  failing_free(&w->f);
  fail_end(w);
}
