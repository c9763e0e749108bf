/* SPDX-License-Identifier: MIT
**
** processes.c -- the cost of sharing a store with its owner: the same calls by
** the owner and by processes that it serves, everything in memory.
**
** This process opens no store.  It forks all others, owners and clients, and
** directs them, so they share nothing except the files and what emb itself
** shares.
**
** BATCHES   Owner and client take turns within a round, each in a thread bound
**           to the first processor; the owner's threads for its clients are not
**           bound.  Before each turn the owner puts all keys, unmeasured: a
**           pause is followed by a checkpoint, after which the first write of a
**           key copies its record.
** FOUR      Four threads of the owner, or four clients, each alternating a Get
**           and a Put of other keys.
** CALLS     A batch without keys, which is the bare round trip, from a bound
**           thread and from one that the system may place beside the owner's;
**           and a row by SELECT, alone and in a transaction of 1,024.  Median
**           and 99th percentile of all calls of a turn.
** IDLE      Processor time of owner and client in two seconds, with an open
**           session each.
** A CLIENT IS KILLED   while it holds the only lease that a key allows, and
**           another client waits for the lease.  Time from the kill to the end
**           of the waiting client's Get.
** AN OWNER IS KILLED   after it has put all keys, while a client gets batches.
**           The client is stopped while the files are copied.  Time from its
**           resumption until it has a batch, minus the time a new process
**           takes from emb_open to its first batch on the copy.
** MEMORY    Growth of the owner's memory per client, by /proc, when 16 clients
**           have done ten batches of each kind: all resident pages, or with
**           those shared with the client counted by half.
*/
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../engine/emb.h"
#include "bench.h"
#include "keys.h"
#include "sql.h"
#include "worker.h"

enum { DIM = 64, FOUR = 4, WARM = 16, CROWD = 16, KILLS = 4 };
#define CALLS_MAX ((size_t)1 << 20)
#define FLOATS ((size_t)BATCH * DIM)

enum what {
  GET,
  PUT,
  APPLY,
  MIX,
  TOUCH,
  SOME,
  TRIPS,
  BOUND_TRIPS,
  LEASE,
  WAIT,
  OUTLIVE
};
enum sql_what { SELECT, SELECT_IN_TXN };

/* A store, and a worker's role in it. */
struct place {
  const struct options *options;
  char directory[512];
  size_t keys;
  int owns, loads; /* is it the owner; does it put all keys */
  int bounded;     /* one lease per key */
  const struct trace *trace;
};

/* ---- a worker ------------------------------------------------------------ */

struct seat {
  const struct place *place;
  emb_store *store;
  emb_session *session[FOUR];
  float *rows, *gradients, *got;
  float *us; /* of calls */
};

static void check(emb_session *s, int rc) {
  if (rc) {
    die("emb: %s", emb_errmsg(s));
  }
}

static void do_batch(struct seat *seat, emb_session *s, int what,
                     const int64_t *keys, size_t n, float *got) {
  switch (what) {
  case GET:
    check(s, emb_get(s, keys, n, got, NULL, NULL));
    break;
  case PUT:
    check(s, emb_put(s, keys, n, seat->rows, NULL));
    break;
  default:
    check(s, emb_apply_gradients(s, keys, n, seat->gradients, NULL, NULL));
  }
}

static void touch_all(struct seat *seat) {
  int64_t keys[BATCH];
  size_t all = seat->place->keys;
  for (size_t at = 0; at < all; at += BATCH) {
    size_t n = all - at < BATCH ? all - at : BATCH;
    for (size_t i = 0; i < n; i++) {
      keys[i] = (int64_t)(at + i + 1);
    }
    do_batch(seat, seat->session[0], PUT, keys, n, NULL);
  }
}

struct turn {
  struct seat *seat;
  emb_session *s;
  struct order order;
  pthread_t thread;
  size_t at; /* position in the trace */
  double speed;
};

static void do_next(struct turn *t, size_t count, float *got) {
  const struct trace *trace = t->seat->place->trace;
  int what = t->order.what;
  do_batch(t->seat, t->s, what == MIX ? (int)(count & 1) : what,
           trace->keys + t->at, BATCH, got);
  t->at = (t->at + BATCH) % trace->count;
}

/* Checks that the measured calls had an effect. */
static void check_turn(struct turn *t, float *got) {
  const int64_t *keys = t->seat->place->trace->keys + t->at;
  uint8_t found[BATCH];
  check(t->s, emb_get(t->s, keys, BATCH, got, found, NULL));
  if (memchr(found, 0, BATCH)) {
    die("a key is absent");
  }
  check(t->s, emb_put(t->s, keys, 1, t->seat->rows + DIM, NULL));
  check(t->s, emb_get(t->s, keys, 1, got, NULL, NULL));
  if (t->order.what != MIX &&
      memcmp(got, t->seat->rows + DIM, DIM * sizeof(float)) != 0) {
    die("a row is not what was put");
  }
}

static void *take_turn(void *arg) {
  struct turn *t = arg;
  float *got = need(FLOATS, sizeof(float));
  size_t done = 0;
  pin(t->order.number);
  for (size_t i = 0; i < WARM; i++) {
    do_next(t, i, got);
  }
  double start = now();
  if (t->order.start > start) {
    nap(t->order.start - start);
    start = now();
  }
  double end = start + t->order.seconds, time;
  do {
    for (size_t i = 0; i < 16; i++) {
      do_next(t, i, got);
      done += BATCH;
    }
    time = now();
  } while (time < end);
  t->speed = (double)done / (time - start);
  check_turn(t, got);
  free(got);
  return NULL;
}

/* Keys per second over all threads. */
static double take_turns(struct seat *seat, const struct order *order,
                         int threads) {
  struct turn turns[FOUR];
  double speed = 0;
  for (int i = 0; i < threads; i++) {
    struct turn *t = &turns[i];
    *t = (struct turn){.seat = seat, .s = seat->session[i], .order = *order};
    t->order.number = order->number + i;
    t->at = (size_t)t->order.number * (seat->place->trace->count / BATCH / 8) *
            BATCH;
    if (pthread_create(&t->thread, NULL, take_turn, t)) {
      die("no thread");
    }
  }
  for (int i = 0; i < threads; i++) {
    pthread_join(turns[i].thread, NULL);
    speed += turns[i].speed;
  }
  return speed;
}

static int by_size(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

/* Median and 99th percentile of timed calls. */
static struct answer of_calls(float *us, size_t calls) {
  qsort(us, calls, sizeof(*us), by_size);
  return (struct answer){{us[calls / 2], us[calls * 99 / 100]}};
}

static struct answer time_trips(struct seat *seat, double seconds) {
  emb_session *s = seat->session[0];
  size_t calls = 0;
  double before = now(), end = before + seconds;
  while (calls < CALLS_MAX && before < end) {
    check(s, emb_refresh(s));
    double time = now();
    seat->us[calls++] = (float)((time - before) * 1e6);
    before = time;
  }
  return of_calls(seat->us, calls);
}

struct trips {
  struct seat *seat;
  double seconds;
  struct answer answer;
};

static void time_bound_trips(void *arg) {
  struct trips *trips = arg;
  trips->answer = time_trips(trips->seat, trips->seconds);
}

/* Gets batches until the owner has died and a new one has taken over. */
static struct answer outlive(struct seat *seat) {
  emb_session *s = seat->session[0];
  const int64_t *keys = seat->place->trace->keys;
  int rc, is_lost = 0;
  do {
    rc = emb_get(s, keys, BATCH, seat->got, NULL, NULL);
    is_lost |= rc == EMB_LOST;
    if (rc && rc != EMB_LOST) {
      check(s, rc);
    }
  } while (rc || !is_lost);
  return (struct answer){{now()}};
}

static struct answer do_order(struct seat *seat, const struct order *order) {
  static const int64_t one = 1;
  emb_session *s = seat->session[0];
  struct answer answer = {{0}};
  switch ((enum what)order->what) {
  case TOUCH:
    touch_all(seat);
    break;
  case SOME:
    for (int i = 0; i < 30; i++) {
      do_batch(seat, s, i % 3, seat->place->trace->keys + (size_t)i * BATCH,
               BATCH, seat->got);
    }
    break;
  case TRIPS:
    return time_trips(seat, order->seconds);
  case BOUND_TRIPS: {
    struct trips trips = {.seat = seat, .seconds = order->seconds};
    run_pinned(time_bound_trips, &trips);
    return trips.answer;
  }
  case LEASE:
    check(s, emb_get(s, &one, 1, seat->got, NULL, NULL));
    break;
  case WAIT:
    check(s, emb_get(s, &one, 1, seat->got, NULL, NULL));
    answer.value[0] = now();
    emb_release(s);
    break;
  case OUTLIVE:
    return outlive(seat);
  default:
    answer.value[0] = take_turns(seat, order, 1);
  }
  return answer;
}

static void open_seat(struct seat *seat) {
  const struct place *place = seat->place;
  emb_err err;
  emb_config config = {.dim = DIM,
                       .flags = EMB_OPEN_CREATE,
                       .optimizer = "adagrad",
                       .memory_bytes = place->keys * 1200 + (256u << 20),
                       .timeout_ms = 60000};
  if (place->bounded) {
    config.flags |= EMB_OPEN_BOUNDED;
  }
  if (emb_open(place->directory, &config, &seat->store, &err)) {
    die("emb: %s", err.text);
  }
  for (int i = 0; i < FOUR; i++) {
    if (emb_session_open(seat->store, &seat->session[i], &err)) {
      die("emb: %s", err.text);
    }
  }
}

static void close_seat(struct seat *seat) {
  emb_err err;
  for (int i = 0; i < FOUR; i++) {
    emb_session_close(seat->session[i]);
  }
  if (emb_close(seat->store, &err)) {
    die("emb: %s", err.text);
  }
}

/* The first answer is the seconds from emb_open to the first batch. */
static void live(struct ends *ends, void *arg) {
  const struct place *place = arg;
  struct seat seat = {.place = place,
                      .rows = need(FLOATS, sizeof(float)),
                      .gradients = need(FLOATS, sizeof(float)),
                      .got = need(FLOATS, sizeof(float)),
                      .us = need(CALLS_MAX, sizeof(float))};
  for (size_t i = 0; i < FLOATS; i++) {
    seat.rows[i] = (float)(i % 1021) / 100;
    seat.gradients[i] = (float)(i % 19) / 100 - 0.09f;
  }
  double start = now();
  open_seat(&seat);
  if (place->owns) {
    check(seat.session[0], emb_own(seat.session[0]));
  }
  if (!place->loads && !place->bounded) {
    do_batch(&seat, seat.session[0], GET, place->trace->keys, BATCH, seat.got);
  }
  struct answer answer = {{now() - start}};
  if (place->loads) {
    touch_all(&seat);
  }
  struct order order;
  do {
    worker_say(ends, &answer);
    if (!worker_next(ends, &order)) {
      break;
    }
    answer = place->owns && order.what == MIX
                 ? (struct answer){{take_turns(&seat, &order, FOUR)}}
                 : do_order(&seat, &order);
  } while (1);
  close_seat(&seat);
}

/* ---- owners and clients -------------------------------------------------- */

static struct answer start_owner(struct worker *worker,
                                 const struct place *place) {
  struct place own = *place;
  own.owns = 1;
  own.loads = 1;
  return worker_start(worker, live, &own);
}

static struct answer start_client(struct worker *worker,
                                  const struct place *place) {
  struct place own = *place;
  return worker_start(worker, live, &own);
}

static void tell(struct worker *worker, int what, int number, double seconds) {
  struct order order = {.what = what, .number = number, .seconds = seconds};
  worker_tell(worker, &order);
}

static struct answer ask(struct worker *worker, int what, double seconds) {
  tell(worker, what, 0, seconds);
  return worker_hear(worker);
}

/* ---- batches, round trips, rest ------------------------------------------ */

struct company {
  const struct options *options;
  struct figure *figure;
  double seconds;
  struct worker owner, client[FOUR];
};

static void compare(struct company *c, int what, const char *name,
                    double target) {
  struct group *group = figure_group(c->figure, name, "keys/s", NAN);
  for (int round = 0; round < c->options->rounds; round++) {
    for (int i = 0; i < 2; i++) {
      int by_client = (i + round) % 2;
      ask(&c->owner, TOUCH, 0);
      struct worker *worker = by_client ? &c->client[0] : &c->owner;
      group_add(group, by_client ? "client" : "owner", round,
                ask(worker, what, c->seconds).value[0], NULL);
    }
  }
  group_ratio(group, "client", "owner", AT_LEAST, target);
}

static double four_clients(struct company *c) {
  struct order order = {
      .what = MIX, .seconds = c->seconds, .start = now() + 0.1};
  double speed = 0;
  for (int i = 0; i < FOUR; i++) {
    order.number = i;
    worker_tell(&c->client[i], &order);
  }
  for (int i = 0; i < FOUR; i++) {
    speed += worker_hear(&c->client[i]).value[0];
  }
  return speed;
}

static double four_threads(struct company *c) {
  struct order order = {
      .what = MIX, .seconds = c->seconds, .start = now() + 0.1};
  return worker_ask(&c->owner, &order).value[0];
}

static void compare_four(struct company *c) {
  struct group *group =
      figure_group(c->figure, "get and put, four at a time", "keys/s", NAN);
  for (int round = 0; round < c->options->rounds; round++) {
    for (int i = 0; i < 2; i++) {
      int by_clients = (i + round) % 2;
      ask(&c->owner, TOUCH, 0);
      group_add(group, by_clients ? "4 clients" : "4 threads", round,
                by_clients ? four_clients(c) : four_threads(c), NULL);
    }
  }
  group_ratio(group, "4 clients", "4 threads", AT_LEAST, 0.85);
}

static void measure_trips(struct company *c) {
  struct group *group =
      figure_group(c->figure, "a call without keys", "us", NAN);
  for (int round = 0; round < c->options->rounds; round++) {
    struct answer answer = ask(&c->client[0], TRIPS, c->seconds);
    group_add(group, "client, median", round, answer.value[0], NULL);
    group_add(group, "client, 99 %", round, answer.value[1], NULL);
    answer = ask(&c->client[0], BOUND_TRIPS, c->seconds);
    group_add(group, "bound client, median", round, answer.value[0], NULL);
    group_add(group, "bound client, 99 %", round, answer.value[1], NULL);
    answer = ask(&c->owner, TRIPS, c->seconds / 4);
    group_add(group, "owner, median", round, answer.value[0], NULL);
  }
  group_bound(group, "client, median", AT_MOST, 7);
  group_bound(group, "bound client, median", AT_MOST, 7);
}

static void measure_rest(struct company *c) {
  struct group *group =
      figure_group(c->figure, "idle for 2 s", "ms of processor time", NAN);
  const struct worker *both[] = {&c->owner, &c->client[0]};
  int rounds = c->options->quick ? 1 : c->options->rounds;
  for (int round = 0; round < rounds; round++) {
    ask(&c->client[0], GET, c->seconds);
    nap(1.5); /* background work starts after a second without writes */
    worker_settle(both, 2);
    double owner = worker_cpu(both[0]), client = worker_cpu(both[1]);
    nap(2);
    group_add(group, "client", round, 1e3 * (worker_cpu(both[1]) - client),
              NULL);
    group_add(group, "owner", round, 1e3 * (worker_cpu(both[0]) - owner), NULL);
  }
  group_bound(group, "client", AT_MOST, 0);
  group_bound(group, "owner", AT_MOST, 0);
}

static void bench_calls(const struct options *options, struct figure *figure,
                        const struct place *place) {
  struct company c = {.options = options,
                      .figure = figure,
                      .seconds = options->seconds > 0 ? options->seconds
                                 : options->quick     ? 0.1
                                                      : 1};
  start_owner(&c.owner, place);
  for (int i = 0; i < FOUR; i++) {
    start_client(&c.client[i], place);
  }
  compare(&c, GET, "get, batches of 1,024", 0.85);
  compare(&c, PUT, "put, batches of 1,024", 0.85);
  compare(&c, APPLY, "apply adagrad, batches of 1,024", 0.90);
  compare_four(&c);
  measure_trips(&c);
  measure_rest(&c);
  for (int i = 0; i < FOUR; i++) {
    worker_end(&c.client[i]);
  }
  worker_end(&c.owner);
}

/* ---- SQL ----------------------------------------------------------------- */

struct sql_seat {
  sqlite3 *db;
  sqlite3_stmt *begin, *commit, *select;
  float *us;
};

static void fill_items(struct sql_seat *t, const struct place *place) {
  float vector[DIM];
  sql_run(t->db,
          "CREATE VIRTUAL TABLE items USING emb(vector FLOAT[64], memory=%lld)",
          (long long)place->keys * 600 + (256 << 20));
  sqlite3_stmt *insert = sql_prepare(t->db, "INSERT INTO items VALUES (?, ?)");
  sql_do(t->begin);
  for (size_t i = 1; i <= place->keys; i++) {
    vector_fill(vector, DIM, (int64_t)i, 1);
    sqlite3_bind_int64(insert, 1, (int64_t)i);
    sqlite3_bind_blob(insert, 2, vector, sizeof(vector), SQLITE_STATIC);
    sql_do(insert);
  }
  sql_do(t->commit);
  sqlite3_finalize(insert);
}

static void select_one(struct sql_seat *t, int64_t key, int is_checked) {
  float vector[DIM];
  sqlite3_bind_int64(t->select, 1, key);
  if (!sql_step(t->select) ||
      sqlite3_column_bytes(t->select, 0) != (int)sizeof(vector)) {
    die("key %lld is absent", (long long)key);
  }
  memcpy(vector, sqlite3_column_blob(t->select, 0), sizeof(vector));
  sqlite3_reset(t->select);
  if (is_checked) {
    vector_check(vector, DIM, key, "items");
  }
}

static struct answer time_selects(struct sql_seat *t, const struct trace *trace,
                                  int in_txn, double seconds) {
  size_t calls = 0;
  double end = now() + seconds;
  while (calls < CALLS_MAX && now() < end) {
    if (in_txn) {
      sql_do(t->begin);
    }
    for (int i = 0; i < BATCH; i++) {
      double start = now();
      select_one(t, trace->keys[calls % trace->count], i == 0);
      t->us[calls++] = (float)((now() - start) * 1e6);
    }
    if (in_txn) {
      sql_do(t->commit);
    }
  }
  return of_calls(t->us, calls);
}

static void live_sql(struct ends *ends, void *arg) {
  const struct place *place = arg;
  struct sql_seat t = {.us = need(CALLS_MAX, sizeof(float))};
  t.db = sql_open(path("%s/processes.db", place->directory),
                  place->options->extension);
  sql_run(t.db, "PRAGMA journal_mode = WAL");
  t.begin = sql_prepare(t.db, "BEGIN");
  t.commit = sql_prepare(t.db, "COMMIT");
  if (place->loads) {
    fill_items(&t, place);
  }
  t.select = sql_prepare(t.db, "SELECT vector FROM items WHERE key = ?");
  select_one(&t, 1, 1);
  struct answer answer = {{0}};
  struct order order;
  for (worker_say(ends, &answer); worker_next(ends, &order);
       worker_say(ends, &answer)) {
    pin(0);
    answer = time_selects(&t, place->trace, order.what == SELECT_IN_TXN,
                          order.seconds);
  }
  sqlite3_finalize(t.begin);
  sqlite3_finalize(t.commit);
  sqlite3_finalize(t.select);
  sql_close(t.db);
}

static void compare_selects(const struct options *options, struct group *group,
                            struct worker *sides, int what, double seconds) {
  static const char *const names[] = {"owner", "client"};
  for (int round = 0; round < options->rounds; round++) {
    double median[2];
    for (int i = 0; i < 2; i++) {
      int side = (i + round) % 2;
      struct answer answer = ask(&sides[side], what, seconds);
      median[side] = answer.value[0];
      group_add(group, names[side], round, answer.value[0], NULL);
    }
    group_add(group, "difference", round, median[1] - median[0], NULL);
  }
  group_bound(group, "difference", AT_MOST, 6);
}

static void bench_select(const struct options *options, struct figure *figure,
                         const struct place *place) {
  struct worker sides[2];
  struct place own = *place;
  double seconds = options->seconds > 0 ? options->seconds
                   : options->quick     ? 0.1
                                        : 1;
  make_directory(place->directory);
  own.loads = 1;
  worker_start(&sides[0], live_sql, &own);
  own.loads = 0;
  worker_start(&sides[1], live_sql, &own);
  compare_selects(options, figure_group(figure, "SELECT of a row", "us", NAN),
                  sides, SELECT, seconds);
  compare_selects(
      options,
      figure_group(figure, "SELECT of a row, in a transaction", "us", NAN),
      sides, SELECT_IN_TXN, seconds);
  worker_end(&sides[1]);
  worker_end(&sides[0]);
}

/* ---- a client is killed -------------------------------------------------- */

/* Milliseconds from the kill to the end of the waiting client's Get. */
static double kill_client(const struct place *place, struct worker *waiting) {
  struct worker killed;
  double when;
  start_client(&killed, place);
  ask(&killed, LEASE, 0);
  tell(waiting, WAIT, 0, 0);
  nap(0.05);
  worker_kill(&killed, &when);
  return 1e3 * (worker_hear(waiting).value[0] - when);
}

static void bench_killed_client(const struct options *options,
                                struct figure *figure,
                                const struct place *place_) {
  struct place place = *place_;
  struct worker owner, waiting;
  struct group *group = figure_group(
      figure, "a client is killed: its lease is another's", "ms", NAN);
  place.bounded = 1;
  start_owner(&owner, &place);
  start_client(&waiting, &place);
  for (int round = 0; round < options->rounds; round++) {
    double ms[KILLS], most = 0;
    for (int i = 0; i < KILLS; i++) {
      ms[i] = kill_client(&place, &waiting);
      most = ms[i] > most ? ms[i] : most;
    }
    float sorted[KILLS];
    for (int i = 0; i < KILLS; i++) {
      sorted[i] = (float)ms[i];
    }
    group_add(group, "median", round, of_calls(sorted, KILLS).value[0], NULL);
    group_add(group, "longest", round, most, NULL);
  }
  group_bound(group, "longest", AT_MOST, 5);
  worker_end(&waiting);
  worker_end(&owner);
}

/* ---- an owner is killed -------------------------------------------------- */

static void copy_tree(const char *from, const char *to) {
  extern char **environ;
  char *arguments[] = {"cp", "-a", (char *)(uintptr_t)from,
                       (char *)(uintptr_t)to, NULL};
  pid_t pid;
  int status;
  if (posix_spawnp(&pid, "cp", NULL, NULL, arguments, environ) ||
      waitpid(pid, &status, 0) != pid || status) {
    die("cannot copy %s", from);
  }
  sync(); /* so that no measured process has to write it */
}

struct outage {
  double answer, recovery; /* seconds */
};

static struct outage kill_owner(const struct place *place) {
  struct place copy = *place;
  struct worker owner, client, fresh;
  struct outage outage;
  double when;
  snprintf(copy.directory, sizeof(copy.directory), "%s",
           path("%s-copy", place->directory));
  start_owner(&owner, place);
  start_client(&client, place);
  tell(&client, OUTLIVE, 0, 0);
  nap(0.2);
  worker_stop(&client);
  worker_kill(&owner, &when);
  copy_tree(place->directory, copy.directory);
  when = now();
  if (kill(client.pid, SIGCONT)) {
    die("process %d is not there", (int)client.pid);
  }
  outage.answer = worker_hear(&client).value[0] - when;
  worker_end(&client);
  outage.recovery = start_client(&fresh, &copy).value[0];
  worker_end(&fresh);
  remove_tree(copy.directory);
  return outage;
}

static void bench_killed_owner(const struct options *options,
                               struct figure *figure,
                               const struct place *place) {
  struct group *group = figure_group(
      figure, "an owner is killed: its client's next batch", "s", NAN);
  for (int round = 0; round < options->rounds; round++) {
    struct outage outage = kill_owner(place);
    group_add(group, "answer", round, outage.answer, NULL);
    group_add(group, "recovery alone", round, outage.recovery, NULL);
    group_add(group, "difference", round, outage.answer - outage.recovery,
              NULL);
  }
  group_bound(group, "difference", AT_MOST, 0.1);
}

/* ---- memory -------------------------------------------------------------- */

static void bench_crowd(const struct options *options, struct figure *figure,
                        const struct place *place) {
  struct worker owner, crowd[CROWD];
  const struct worker *all[] = {&owner};
  struct group *group =
      figure_group(figure, "memory of the owner for each client", "MiB", NAN);
  for (int round = 0; round < options->rounds; round++) {
    start_owner(&owner, place);
    for (int i = 0; i < 20; i++) {
      ask(&owner, SOME, 0);
    }
    worker_settle(all, 1);
    double rss = worker_memory(&owner, "Rss:"),
           pss = worker_memory(&owner, "Pss:");
    for (int i = 0; i < CROWD; i++) {
      start_client(&crowd[i], place);
      ask(&crowd[i], SOME, 0);
    }
    group_add(group, "resident", round,
              (worker_memory(&owner, "Rss:") - rss) / CROWD / 0x1p20, NULL);
    group_add(group, "its share", round,
              (worker_memory(&owner, "Pss:") - pss) / CROWD / 0x1p20, NULL);
    for (int i = 0; i < CROWD; i++) {
      worker_end(&crowd[i]);
    }
    worker_settle(all, 1);
    group_add(group, "resident, when they have left", round,
              (worker_memory(&owner, "Rss:") - rss) / CROWD / 0x1p20, NULL);
    worker_end(&owner);
  }
  group_bound(group, "resident", AT_MOST, 1.2);
}

/* ---- the benchmark ------------------------------------------------------- */

void bench_processes(const struct options *options) {
  size_t keys = options->keys    ? options->keys
                : options->quick ? 200000
                                 : 2000000;
  size_t few = keys / 20 + BATCH;
  struct figure *figure =
      figure_new(options, "processes",
                 "Clients of the process that owns the store, all in memory");
  struct trace traces[2];
  figure_note(figure,
              "%zu keys, 64 floats, Adagrad; %zu for the lease, and for the "
              "owner's memory",
              keys, few);
  make_directory(options->data);
  worker_clean(options->data);
  trace_uniform(&traces[0], 1 << 20, keys);
  trace_uniform(&traces[1], 1 << 16, few);
  struct part {
    const char *name;
    void (*run)(const struct options *options, struct figure *figure,
                const struct place *place);
    int is_small;
  } parts[] = {{"calls", bench_calls, 0},
               {"killed owner", bench_killed_owner, 0},
               {"select", bench_select, 0},
               {"killed client", bench_killed_client, 1},
               {"memory", bench_crowd, 1}};
  for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
    const struct part *part = &parts[i];
    if (options->only && !strstr(part->name, options->only)) {
      continue;
    }
    struct place place = {.options = options,
                          .keys = part->is_small ? few : keys,
                          .trace = &traces[part->is_small]};
    snprintf(place.directory, sizeof(place.directory), "%s",
             path("%s/%s", options->data, part->name));
    part->run(options, figure, &place);
    remove_tree(place.directory);
  }
  trace_free(&traces[1]);
  trace_free(&traces[0]);
  figure_done(figure);
}
