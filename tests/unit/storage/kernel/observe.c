/* SPDX-License-Identifier: MIT
**
** observe.c -- an observer that keeps a copy of a store's rows: after every
** change of rows, the copy equals the store.
**
** TABLE     Gradients, time and frequency, a time to live and a capacity, so
**           that rows also expire and are evicted; smaller in memory than on
**           disk.
** MIRROR    For each key: whether it is there, its log address, and its value
**           and version.  If the row was loaded from a checkpoint, or committed
**           after its record had left memory, only its address is known.
** EVENTS    Each event has the previous state of the key.  It is checked
**           against the mirror, and thereby the order of events.
*/
#include "forget_help.h"
#include "fork_help.h"

#include "engine/storage/kernel/observe.h"
#include "engine/table/session/session.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { DIM = 256, KEYS = 6000, BATCH = 120 };

struct row {
  int there, known;
  uint64_t address, version;
  float vector[DIM];
};

struct mirror {
  struct observer observer;
  pthread_mutex_t lock; /* of the observer */
  struct row rows[KEYS];
  int64_t count;
  uint64_t added, here, elsewhere, moved, removed, committed, loaded, resets;
};

/* ---- the observer -------------------------------------------------------- */

static void take_record(struct row *row, const struct rec *record) {
  row->known = record != NULL;
  if (record) {
    row->version = rec_version(atomic_load(&record->stamp));
    rec_copy_out(row->vector, record->vector, sizeof row->vector);
  }
}

static struct row *row_of(struct mirror *m, const struct row_event *event) {
  CHECK(event->key >= 0 && event->key < KEYS);
  struct row *row = &m->rows[event->key];
  test_check(event->from == (row->there ? row->address : 0), __FILE__, __LINE__,
             "key %lld was at %llu, but leaves %llu", (long long)event->key,
             (unsigned long long)(row->there ? row->address : 0),
             (unsigned long long)event->from);
  return row;
}

static void on_changed(void *arg, const struct row_event *event) {
  struct mirror *m = arg;
  pthread_mutex_lock(&m->lock);
  struct row *row = row_of(m, event);
  CHECK(event->to >= event->from && event->to > 0);
  m->count += !row->there;
  m->added += !row->there;
  m->here += event->to == event->from;
  m->elsewhere += event->from && event->to > event->from;
  m->committed += event->session != NULL;
  m->loaded += event->record == NULL && event->session == NULL;
  row->there = 1;
  row->address = event->to;
  take_record(row, event->record);
  pthread_mutex_unlock(&m->lock);
}

static void on_moved(void *arg, const struct row_event *event) {
  struct mirror *m = arg;
  struct row copy = {0};
  pthread_mutex_lock(&m->lock);
  struct row *row = row_of(m, event);
  CHECK(event->from > 0 && event->to > event->from);
  take_record(&copy, event->record);
  if (row->known && CHECK(copy.known)) {
    CHECK_EQ_INT(copy.version, row->version);
    CHECK(memcmp(copy.vector, row->vector, sizeof copy.vector) == 0);
  }
  row->address = event->to;
  take_record(row, event->record);
  m->moved++;
  pthread_mutex_unlock(&m->lock);
}

static void on_removed(void *arg, const struct row_event *event) {
  struct mirror *m = arg;
  pthread_mutex_lock(&m->lock);
  struct row *row = row_of(m, event);
  CHECK(event->to == 0 && event->record == NULL);
  m->count -= row->there;
  m->removed += (uint64_t)row->there;
  row->there = row->known = 0;
  pthread_mutex_unlock(&m->lock);
}

static void on_reset(void *arg) {
  struct mirror *m = arg;
  pthread_mutex_lock(&m->lock);
  memset(m->rows, 0, sizeof m->rows);
  m->count = 0;
  m->resets++;
  pthread_mutex_unlock(&m->lock);
}

/* Starts the mirror of a store without rows. */
static struct mirror *mirror_begin(emb_store *store) {
  struct mirror *m = calloc(1, sizeof *m);
  if (!CHECK(m != NULL))
    exit(1);
  pthread_mutex_init(&m->lock, NULL);
  m->observer = (struct observer){.name = "mirror",
                                  .changed = on_changed,
                                  .moved = on_moved,
                                  .removed = on_removed,
                                  .reset = on_reset,
                                  .arg = m,
                                  .all = 1};
  CHECK_EQ_INT(store->core.count, 0);
  CHECK_EQ_INT(observe_begin(&store->core, &m->observer), EMB_OK);
  return m;
}

static void mirror_end(emb_store *store, struct mirror *m) {
  observe_end(&store->core, &m->observer);
  pthread_mutex_destroy(&m->lock);
  free(m);
}

/* ---- comparing ----------------------------------------------------------- */

static uint64_t address_of(emb_session *s, int64_t key) {
  epoch_enter(&s->core->epoch, s->slot);
  uint64_t address = key_find_address(s->core, key, hash_key(key));
  epoch_leave(s->slot);
  return address;
}

/* No thread writes, and no transaction is open.  Returns the number of values
** that could be compared, or -1 if there is a difference. */
static int64_t compare(emb_session *s, const struct mirror *m) {
  static int64_t keys[KEYS];
  static float vectors[KEYS * DIM];
  static uint8_t found[KEYS];
  static uint64_t versions[KEYS];
  int64_t values = 0, wrong = 0;
  for (int i = 0; i < KEYS; i++)
    keys[i] = i;
  OK(s, emb_peek(s, keys, KEYS, vectors, found, versions));
  for (int i = 0; i < KEYS; i++) {
    const struct row *row = &m->rows[i];
    wrong += row->there != found[i];
    if (row->there && found[i]) {
      wrong += row->address != address_of(s, i);
      wrong += row->known &&
               (row->version != versions[i] ||
                memcmp(row->vector, vectors + i * DIM, sizeof row->vector));
      values += row->known;
    }
  }
  CHECK_EQ_INT(m->count, emb_count(s));
  return CHECK_EQ_INT(wrong, 0) ? values : -1;
}

/* ---- a random history ---------------------------------------------------- */

static size_t choose(int64_t *keys, float *vectors) {
  size_t n = 1 + test_below(test_below(3) ? 8 : BATCH);
  int64_t at = test_below(KEYS);
  for (size_t i = 0; i < n; i++) {
    keys[i] = test_below(3) ? (at + (int64_t)i) % KEYS : test_below(KEYS);
    help_vector(vectors + i * DIM, DIM, keys[i], (int32_t)test_below(1000));
  }
  return n;
}

static void change(emb_session *s) {
  int64_t keys[BATCH];
  static float vectors[BATCH * DIM];
  size_t n = choose(keys, vectors);
  switch (test_below(7)) {
  case 5: /* caches some */
  case 6:
    OK(s, emb_get(s, keys, n, vectors, NULL, NULL));
    return;
  case 0:
    OK(s, emb_apply_gradients(s, keys, n, vectors, NULL, NULL));
    return;
  case 1:
    OK(s, emb_rmw(s, keys, n, vectors, NULL, NULL));
    return;
  case 2:
    OK(s, emb_delete(s, keys, n, NULL));
    return;
  default:
    OK(s, emb_put(s, keys, n, vectors, NULL));
  }
}

static void change_in_transaction(emb_session *s) {
  int64_t keys[BATCH];
  static float vectors[BATCH * DIM];
  size_t n = choose(keys, vectors);
  int found;
  switch (test_below(5)) {
  case 0:
    OK(s, emb_txn_apply_gradients(s, keys, n, vectors, NULL, NULL));
    return;
  case 1:
    OK(s, emb_txn_delete(s, keys, n, NULL));
    return;
  case 2:
    OK(s, emb_txn_move(s, keys[0], (int64_t)test_below(KEYS), &found));
    return;
  default:
    OK(s, emb_txn_put(s, keys, n, vectors));
  }
}

/* With savepoints, some of them rolled back. */
static void transaction(emb_session *s) {
  int deep = 0;
  uint64_t number;
  OK(s, emb_begin(s));
  for (uint32_t i = 1 + test_below(8); i > 0; i--) {
    if (test_below(2)) {
      OK(s, emb_savepoint(s, deep++));
    }
    change_in_transaction(s);
    if (deep && !test_below(3)) {
      deep = (int)test_below((uint32_t)deep);
      OK(s, emb_rollback_to(s, deep++));
    }
  }
  if (test_below(2)) {
    OK(s, emb_prepare(s, &number));
  }
  if (test_below(4)) {
    OK(s, emb_commit(s));
  } else {
    emb_rollback(s);
  }
}

static emb_config table(void) {
  emb_config c = forget_config(DIM);
  c.optimizer = "adagrad(lr=0.5)";
  c.track = EMB_TRACK_WALL;
  c.capacity = KEYS / 5;
  c.ttl = "1d";
  return c;
}

/* Background steps, and work that is requested. */
static void background(emb_store *store, emb_session *s) {
  uint64_t removed;
  switch (test_below(6)) {
  case 0:
    OK(s, emb_checkpoint(s));
    return;
  case 1:
    OK(s, emb_optimize(s));
    return;
  case 2:
    OK(s, emb_expire(s, &removed));
    return;
  case 3:
    OK(s, emb_evict(s, &removed));
    return;
  default:
    forget_env.still_wall_s += test_below(60000);
    forget_steps(store);
  }
}

/* A snapshot is written and a scan is open; both also observe. */
static void beside(emb_session *s, emb_session *other) {
  int64_t keys[BATCH];
  emb_scan *scan;
  size_t n;
  OK(s, emb_snapshot(s, "beside"));
  OK(s, emb_snapshot_drop(s, "beside"));
  if (OK(other,
         emb_scan_open(other, INT64_MIN, INT64_MAX, EMB_SCAN_ANY, &scan))) {
    for (int i = 0; i < 3; i++) {
      change(s);
      OK(other, emb_scan_next(scan, BATCH, keys, NULL, NULL, &n));
    }
    emb_scan_close(scan);
  }
}

/* The random work has included every kind of change. */
static int all_came(emb_store *store, const struct mirror *m) {
  return m->added && m->here && m->elsewhere && m->moved && m->removed &&
         m->committed && help_stat(store, "cache_admitted") > 0 &&
         help_stat(store, "evicted_keys") > 0;
}

TEST(of_every_way_to_change_a_row) {
  emb_store *store;
  emb_session *s, *other;
  forget_begin();
  emb_config config = table();
  if (!help_open(help_path("table"), &config, &store, &s) ||
      !CHECK_EQ_INT(emb_session_open(store, &other, NULL), EMB_OK))
    return;
  struct mirror *m = mirror_begin(store);
  int64_t values = 0;
  unsigned least = help_amount(1500);
  for (unsigned i = 0;
       values >= 0 && (i < least || (i < 20 * least && !all_came(store, m)));
       i++) {
    switch (test_below(8)) {
    case 0:
      background(store, s);
      break;
    case 1:
      beside(s, other);
      break;
    case 2:
    case 3:
      transaction(s);
      break;
    default:
      change(s);
    }
    values = i % 10 == 1 ? compare(s, m) : values;
  }
  HELP_CAME(values > 0);
  forget_env.still_wall_s += 2 * 86400;
  OK(s, emb_expire(s, NULL));
  CHECK(compare(s, m) == 0);
  HELP_CAME(all_came(store, m));
  CHECK(help_stat(store, "expired_keys") > 0);
  CHECK_EQ_INT(m->resets, 0);
  CHECK_EQ_INT(m->loaded, 0);
  help_verify(s);
  mirror_end(store, m);
  emb_session_close(other);
  help_close(store, s);
  forget_end();
}

/* A copy of a table takes a snapshot file and deltas. */
TEST(of_files_that_are_taken) {
  emb_store *from, *to;
  emb_session *s, *t;
  emb_delta_file about;
  emb_config config = {.dim = DIM,
                       .memory_bytes = 1,
                       .optimizer = "adagrad",
                       .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP};
  if (!help_open(help_path("from"), &config, &from, &s) ||
      !help_open(help_path("to"), &config, &to, &t))
    return;
  struct mirror *m = mirror_begin(to);
  OK(s, emb_delta_begin(s, "copy", EMB_DELTA_NOW, 0));
  for (int i = 0; i < 20; i++)
    change(s);
  OK(s, emb_snapshot(s, "first"));
  OK(s, emb_snapshot_export(s, "first", help_path("file"), NULL, NULL, NULL));
  change(t); /* to be replaced */
  OK(t, emb_snapshot_restore(t, help_path("file"), NULL));
  CHECK(compare(t, m) > 0);
  CHECK_EQ_INT(emb_count(t), emb_count(s));
  for (unsigned i = help_amount(10); i > 0; i--) {
    for (int k = 0; k < 5; k++)
      change(s);
    if (i == 1) /* at last deletes for certain */
      for (int64_t key = 0; key < KEYS; key += 2)
        OK(s, emb_delete(s, &key, 1, NULL));
    OK(s, emb_delta_export(s, "copy", help_path("delta"), NULL, &about));
    OK(t, emb_delta_apply(t, help_path("delta"), NULL, NULL));
    OK(s, emb_delta_ack(s, "copy", about.to));
    CHECK(compare(t, m) >= 0);
    CHECK_EQ_INT(emb_count(t), emb_count(s));
  }
  CHECK(m->committed > 0 && m->removed > 0);
  mirror_end(to, m);
  help_close(from, s);
  help_close(to, t);
}

/* ---- several threads ----------------------------------------------------- */

struct writer {
  emb_session *s;
  uint64_t random;
};

static void *write_few(void *arg) {
  struct writer *w = arg;
  float vector[DIM];
  for (unsigned i = help_amount(4000); i > 0; i--) {
    int64_t key = (int64_t)(test_random_from(&w->random) % 16);
    help_vector(vector, DIM, key, (int32_t)(i % 1000));
    switch (test_random_from(&w->random) % 4) {
    case 0:
      OK(w->s, emb_delete(w->s, &key, 1, NULL));
      break;
    case 1:
      OK(w->s, emb_apply_gradients(w->s, &key, 1, vector, NULL, NULL));
      break;
    default:
      OK(w->s, emb_put(w->s, &key, 1, vector, NULL));
    }
  }
  return NULL;
}

/* The events of one key come in the order of its changes. */
TEST(of_several_threads) {
  enum { THREADS = 3 };
  emb_config config = {.dim = DIM,
                       .memory_bytes = 1,
                       .timeout_ms = 60000,
                       .optimizer = "sgd",
                       .flags = EMB_OPEN_CREATE};
  emb_store *store;
  emb_session *s;
  struct writer writers[THREADS];
  pthread_t threads[THREADS];
  if (!help_open(help_path("table"), &config, &store, &s))
    return;
  struct mirror *m = mirror_begin(store);
  for (int i = 0; i < THREADS; i++) {
    writers[i].random = test_random();
    CHECK_EQ_INT(emb_session_open(store, &writers[i].s, NULL), EMB_OK);
    CHECK_EQ_INT(pthread_create(&threads[i], NULL, write_few, &writers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    (void)pthread_join(threads[i], NULL);
    emb_session_close(writers[i].s);
  }
  CHECK(compare(s, m) >= 0);
  CHECK(m->here > 0 && m->added > 0 && m->removed > 0);
  mirror_end(store, m);
  help_close(store, s);
}

/* ---- another process ----------------------------------------------------- */

static struct shared {
  _Atomic int begin;       /* the table is observed */
  _Atomic uint32_t rounds; /* durable ones */
} * shared;

/* Makes durable changes and checkpoints until the process is killed. */
static void own(const char *dir) {
  emb_config config = {.dim = DIM,
                       .memory_bytes = 1,
                       .timeout_ms = 20000,
                       .optimizer = "adagrad",
                       .flags = EMB_OPEN_STEP};
  emb_store *store;
  emb_session *s;
  uint64_t number;
  while (!atomic_load(&shared->begin))
    (void)usleep(1000);
  if (emb_open(dir, &config, &store, NULL) || emb_session_open(store, &s, NULL))
    _exit(1);
  for (;;) {
    change(s);
    (void)emb_begin(s);
    change_in_transaction(s);
    (void)emb_prepare(s, &number);
    (void)emb_commit(s);
    uint32_t round = atomic_fetch_add(&shared->rounds, 1);
    if (round % 8 == 7 && round < 60)
      (void)emb_checkpoint(s);
    if (round >= 70)
      (void)usleep(1000);
  }
}

static void wait_for_rounds(uint32_t n) {
  for (int i = 0; i < 60000 && atomic_load(&shared->rounds) < n; i++)
    (void)usleep(1000);
  CHECK(atomic_load(&shared->rounds) >= n);
}

/* A process that only reads sees checkpoints, and recovers the store after a
** kill. */
TEST(of_a_checkpoint_that_is_loaded_and_a_recovery) {
  emb_config config = {.dim = DIM,
                       .memory_bytes = 1,
                       .timeout_ms = 20000,
                       .optimizer = "adagrad",
                       .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP};
  emb_store *store;
  emb_session *s;
  const char *dir = help_path("table");
  int status;
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (!CHECK(shared != MAP_FAILED))
    return;
  (void)fflush(stdout);
  pid_t child = test_fork();
  if (child == 0) {
    (void)alarm(SANITIZED ? 300 : 60);
    own(dir);
  }
  if (!CHECK(child > 0) || !help_open(dir, &config, &store, &s))
    return;
  struct mirror *m = mirror_begin(store);
  atomic_store(&shared->begin, 1);
  for (uint32_t n = 10; n <= 60; n += 10) {
    wait_for_rounds(n);
    /* If the owner takes a checkpoint during a call that reads, the call may
    ** continue with it, and then has some rows of the previous one. */
    CHECK_EQ_INT(kill(child, SIGSTOP), 0);
    CHECK_EQ_INT(waitpid(child, &status, WUNTRACED), child);
    emb_look(store);
    CHECK(compare(s, m) >= 0);
    CHECK_EQ_INT(kill(child, SIGCONT), 0);
  }
  CHECK(m->resets > 0 && m->loaded > 0);
  wait_for_rounds(75); /* not all in a checkpoint */
  (void)kill(child, SIGKILL);
  CHECK_EQ_INT(waitpid(child, &status, 0), child);
  uint64_t before = m->resets;
  emb_look(store);
  int64_t values = compare(s, m);
  if (emb_in_doubt(store))
    CHECK_EQ_INT(emb_resolve(store, emb_in_doubt(store), 1, NULL), EMB_OK);
  values = values < 0 ? values : compare(s, m);
  CHECK(emb_is_owner(store) && m->resets > before);
  CHECK(values > 0); /* from records that recovery read */
  change(s);
  CHECK(compare(s, m) >= 0);
  help_verify(s);
  mirror_end(store, m);
  help_close(store, s);
  (void)munmap(shared, sizeof *shared);
}
