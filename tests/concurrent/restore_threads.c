/* SPDX-License-Identifier: MIT
**
** restore_threads.c -- one store takes files from several threads at the same
** time: snapshots, increments and deltas of a source, while other threads
** export it, take snapshots of it, checkpoint and verify it.
**
** The source has had STATES states, and there are files that lead to each.
** So the possible contents of a copy are known:
**
** WHOLE      Every snapshot of the copy, and every file that it is exported
**            to (two threads to the same path), is one of these states.
** TOLD       When all threads are done, the copy is in the state named by its
**            position, and by its chain if it has one; also after the copy
**            was closed and reopened.
** DOWNWARDS  A third store takes the deltas of the copy and equals it in the
**            end.
**
** The only permitted errors say why a file cannot be taken now (GAP), and
** that another thread is writing the same file (BUSY).
*/
#include "engine/storage/pack/emb_file.h"
#include "store_help.h"

#include <pthread.h>

#include "engine/features/snapshot/chain.h"
#include "engine/storage/consumer/position.h"
#include "engine/storage/pack/pack.h"
#include "engine/table/session/session.h"

enum {
  DIM = 16,
  KEYS = 400,
  STATES = 6,
  KINDS = 3,
  FILES = KINDS * STATES + 1
};

enum { SNAPSHOT, INCREMENT, DELTA, ALL };

static struct {
  int32_t states[STATES][KEYS]; /* value of each key, 0: not there */
  char files[FILES][256];       /* by kind, then by state */
  uint64_t ends[FILES];         /* the mark at which each ends */
  emb_store *copy, *down;
  _Atomic int stop;
  _Atomic uint64_t taken, refused, wholes;
} work;

static const char *file_of(int kind, int state) {
  return work.files[kind * STATES + state];
}

/* ---- the source ---------------------------------------------------------- */

static void change_source(emb_session *s, int state) {
  float row[DIM];
  int32_t *now = work.states[state];
  if (state > 0)
    memcpy(now, work.states[state - 1], sizeof *work.states);
  for (int i = 0; i < KEYS; i++) {
    int64_t key = i;
    uint64_t roll = test_random() % 4;
    if (roll == 0 && now[i]) {
      OK(s, emb_delete(s, &key, 1, NULL));
      now[i] = 0;
    } else if (roll == 1 || state == 0) {
      now[i] = state + 1;
      help_vector(row, DIM, key, now[i]);
      OK(s, emb_put(s, &key, 1, row, NULL));
    }
  }
}

static void note_end(int kind, int state) {
  struct pack_reader *reader;
  emb_err err = {0, ""};
  int rc = pack_open(&env_posix, file_of(kind, state), &reader, &err);
  if (!test_check(rc == EMB_OK, __FILE__, __LINE__, "%s", err.text))
    return;
  work.ends[kind * STATES + state] = pack_reader_head(reader)->end.page;
  pack_close(reader);
}

static void export_state(emb_session *s, int state) {
  char name[8], base[16];
  (void)snprintf(name, sizeof name, "s%d", state);
  OK(s, emb_snapshot(s, name));
  OK(s,
     emb_snapshot_export(s, name, file_of(SNAPSHOT, state), NULL, NULL, NULL));
  note_end(SNAPSHOT, state);
  if (state > 0) {
    (void)snprintf(base, sizeof base, "base=s%d", state - 1);
    OK(s, emb_snapshot_export(s, name, file_of(INCREMENT, state), base, NULL,
                              NULL));
    note_end(INCREMENT, state);
  }
  OK(s, emb_delta_export(s, "c", file_of(DELTA, state), NULL, NULL));
  OK(s, emb_delta_ack(s, "c", 0));
  note_end(DELTA, state);
}

static int make_files(void) {
  emb_config config = {.dim = DIM, .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP};
  emb_store *store;
  emb_session *s;
  if (!help_open(help_path("source"), &config, &store, &s))
    return 0;
  for (int i = 0; i < FILES; i++)
    (void)snprintf(work.files[i], sizeof work.files[i], "%s/file-%d",
                   test_dir(), i);
  for (int state = 0; state < STATES; state++) {
    change_source(s, state);
    export_state(s, state);
  }
  OK(s, emb_delta_begin(s, "c", EMB_DELTA_ALL, 0));
  OK(s, emb_delta_export(s, "c", file_of(ALL, 0), NULL, NULL));
  note_end(ALL, 0);
  return help_close(store, s);
}

/* ---- content of a copy --------------------------------------------------- */

/* The state with these values; -1: none. */
static int state_of(const int32_t values[KEYS]) {
  static const int32_t nothing[KEYS];
  for (int state = 0; state < STATES; state++)
    if (memcmp(values, work.states[state], sizeof work.states[0]) == 0)
      return state;
  return memcmp(values, nothing, sizeof nothing) == 0 ? STATES : -1;
}

static int add(int32_t values[KEYS], int64_t key, const float *vector) {
  if (!CHECK(key >= 0 && key < KEYS) || !CHECK_EQ_INT(values[key], 0))
    return 0;
  values[key] = help_value(vector, DIM, key);
  return 1;
}

static void read_table(emb_session *s, int32_t values[KEYS]) {
  float vectors[KEYS * DIM];
  int64_t keys[KEYS];
  uint8_t found[KEYS];
  for (int i = 0; i < KEYS; i++)
    keys[i] = i;
  OK(s, emb_peek(s, keys, KEYS, vectors, found, NULL));
  for (int i = 0; i < KEYS; i++)
    values[i] = found[i] ? help_value(vectors + i * DIM, DIM, i) : 0;
}

static int state_of_snapshot(emb_session *s, const char *name) {
  int32_t values[KEYS] = {0};
  float vectors[64 * DIM];
  int64_t keys[64];
  emb_snap *snap;
  size_t n = 1;
  if (!OK(s, emb_snapshot_open(s, name, &snap)))
    return -1;
  while (n > 0 && OK(s, emb_snapshot_scan(snap, 64, keys, vectors, NULL, &n)))
    for (size_t i = 0; i < n; i++)
      if (!add(values, keys[i], vectors + i * DIM))
        n = 1;
  emb_snapshot_close(snap);
  return state_of(values);
}

static int state_of_file(const char *path) {
  int32_t values[KEYS] = {0};
  float vector[DIM];
  emb_file_row row;
  emb_file *file;
  emb_err err = {0, ""};
  int found = 1;
  int rc = emb_file_open(path, &file, &err);
  if (!test_check(rc == EMB_OK, __FILE__, __LINE__, "%s", err.text))
    return -1;
  while (!rc && found) {
    rc = emb_file_next(file, &row, vector, &found, &err);
    if (!rc && found && !add(values, row.key, vector))
      break;
  }
  emb_file_close(file);
  return test_check(rc == EMB_OK, __FILE__, __LINE__, "%s", err.text)
             ? state_of(values)
             : -1;
}

/* ---- threads ------------------------------------------------------------- */

static emb_session *session(emb_store *store) {
  emb_session *s = NULL;
  emb_err err;
  CHECK_EQ_INT(emb_session_open(store, &s, &err), EMB_OK);
  return s;
}

static void count(emb_session *s, int rc) {
  if (rc == EMB_GAP)
    atomic_fetch_add(&work.refused, 1);
  else if (OK(s, rc))
    atomic_fetch_add(&work.taken, 1);
}

static void *take_snapshots(void *arg) {
  uint64_t random = (uint64_t)(uintptr_t)arg;
  emb_session *s = session(work.copy);
  while (!atomic_load(&work.stop)) {
    int state = (int)(test_random_from(&random) % STATES);
    int kind =
        state > 0 && test_random_from(&random) % 2 ? INCREMENT : SNAPSHOT;
    count(s, emb_snapshot_restore(s, file_of(kind, state), NULL));
  }
  emb_session_close(s);
  return NULL;
}

static void *take_deltas(void *arg) {
  uint64_t random = (uint64_t)(uintptr_t)arg;
  emb_session *s = session(work.copy);
  while (!atomic_load(&work.stop)) {
    int state = (int)(test_random_from(&random) % (STATES + 1));
    const char *file = state < STATES ? file_of(DELTA, state) : file_of(ALL, 0);
    count(s, emb_delta_apply(s, file, NULL, NULL));
  }
  emb_session_close(s);
  return NULL;
}

static void *keep_states(void *arg) {
  int number = (int)(intptr_t)arg;
  char name[16];
  char to[512];
  emb_session *s = session(work.copy);
  (void)snprintf(name, sizeof name, "k%d", number);
  (void)snprintf(to, sizeof to, "%s/same", test_dir());
  while (!atomic_load(&work.stop)) {
    if (!OK(s, emb_snapshot(s, name)))
      break;
    CHECK(state_of_snapshot(s, name) >= 0);
    int rc = emb_snapshot_export(s, name, to, NULL, NULL, NULL);
    if (rc != EMB_BUSY && OK(s, rc)) {
      CHECK(state_of_file(to) >= 0);
      atomic_fetch_add(&work.wholes, 1);
    }
    OK(s, emb_snapshot_drop(s, name));
  }
  emb_session_close(s);
  return NULL;
}

/* Passes the copy's own deltas to the third store. */
static void hand_on(emb_session *from, emb_session *to) {
  emb_delta_file about;
  char path[512];
  (void)snprintf(path, sizeof path, "%s/down.delta", test_dir());
  if (OK(from, emb_delta_export(from, "down", path, NULL, &about)) &&
      OK(to, emb_delta_apply(to, path, NULL, NULL)))
    OK(from, emb_delta_ack(from, "down", about.to));
}

static void *send_down(void *arg) {
  emb_session *from = session(work.copy), *to = session(work.down);
  (void)arg;
  while (!atomic_load(&work.stop))
    hand_on(from, to);
  emb_session_close(from);
  emb_session_close(to);
  return NULL;
}

static void *look_after(void *arg) {
  emb_session *s = session(work.copy);
  emb_delta_place place;
  (void)arg;
  while (!atomic_load(&work.stop)) {
    OK(s, emb_checkpoint(s));
    help_verify(s);
    OK(s, emb_delta_position(s, &place));
  }
  emb_session_close(s);
  return NULL;
}

/* ---- the end ------------------------------------------------------------- */

/* The copy holds what it says of itself. */
static void check_told(emb_session *s) {
  int32_t values[KEYS];
  emb_delta_place place;
  struct chain chain;
  emb_err err = {0, ""};
  read_table(s, values);
  int state = state_of(values), told = -1;
  OK(s, emb_delta_position(s, &place));
  for (int i = 0; i < FILES; i++)
    if (work.ends[i] == place.mark)
      told = i == FILES - 1 ? STATES - 1 : i % STATES;
  CHECK(told >= 0);
  CHECK_EQ_INT(state, told);
  int rc = chain_read(&emb_session_store(s)->core, &chain, &err);
  (void)test_check(rc == EMB_OK, __FILE__, __LINE__, "%s", err.text);
  CHECK(chain.from == chain.to);
  if (chain.to)
    CHECK_EQ_INT(chain.name[1] - '0', state);
  help_verify(s);
}

static void check_down(emb_session *from, emb_session *to) {
  int32_t ours[KEYS], theirs[KEYS];
  hand_on(from, to);
  read_table(from, ours);
  read_table(to, theirs);
  for (int i = 0; i < KEYS; i++)
    if (!test_check(ours[i] == theirs[i], __FILE__, __LINE__,
                    "key %d is %d here and %d downwards", i, (int)ours[i],
                    (int)theirs[i]))
      break;
}

static void run(unsigned ms) {
  void *(*const jobs[])(void *) = {take_snapshots, take_deltas, keep_states,
                                   take_snapshots, take_deltas, keep_states,
                                   send_down,      look_after};
  enum { THREADS = sizeof jobs / sizeof *jobs };
  pthread_t threads[THREADS];
  atomic_store(&work.stop, 0);
  for (int i = 0; i < THREADS; i++) {
    uint64_t arg = jobs[i] == keep_states ? (uint64_t)i : test_random() | 1;
    pthread_create(&threads[i], NULL, jobs[i], (void *)(uintptr_t)arg);
  }
  for (unsigned at = 0; at < ms && !atomic_load(&test_state.failures); at += 20)
    usleep(20000);
  atomic_store(&work.stop, 1);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
}

TEST(all_at_once) {
  emb_config config = {
      .dim = DIM, .flags = EMB_OPEN_CREATE, .timeout_ms = 60000};
  emb_session *s, *down;
  memset(&work, 0, sizeof work);
  if (!make_files() || !help_open(help_path("copy"), &config, &work.copy, &s) ||
      !help_open(help_path("down"), &config, &work.down, &down))
    return;
  OK(s, emb_snapshot_restore(s, file_of(SNAPSHOT, 0), NULL));
  run(help_amount(3000));
  check_told(s);
  check_down(s, down);
  help_close(work.copy, s);
  config.flags = 0;
  if (help_open(help_path("copy"), &config, &work.copy, &s)) {
    check_told(s);
    help_close(work.copy, s);
  }
  help_close(work.down, down);
  CHECK(work.taken > 0);
  test_count("files taken beside others", work.taken);
  test_count("files that did not come next", work.refused);
  test_count("states exported beside that", work.wholes);
}
