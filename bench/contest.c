/* SPDX-License-Identifier: MIT
**
** contest.c -- contestants and their turns; see contest.h.
**
** A child waits for orders on a pipe; orders and answers are in memory shared
** with this process.
*/
#include "contest.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "limit.h"

enum {
  THREADS_MAX = 16,
  CHECK_EACH = 8, /* batches */
  CHECK_VECTORS = 16,
  TIMES_MAX = 1 << 15,
  STAMPS = 2,
};

struct runner {
  void *session;
  const struct trace *trace;
  size_t at; /* position in it; continues from turn to turn */
  uint32_t stamp;
  float *buffer;          /* for Gets */
  float *vectors[STAMPS]; /* for Puts: filled, except the key */
  int64_t keys[BATCH];
};

enum order { RUN, FIGURE, RESIDENT, CLOSE };

struct desk { /* shared with the child */
  enum order order;
  struct workload workload;
  struct result result;
  char name[64];
  int64_t figure;
  uint64_t resident, peak;
};

struct contestant {
  const struct store_kind *kind;
  char name[64];
  struct store_options options;
  uint64_t limit_bytes;
  int threads;
  void *store;
  struct runner runners[THREADS_MAX];
  pid_t child; /* 0: in this process */
  int to, from;
  int dead;
  struct desk *desk;
};

/* ---- one thread's work --------------------------------------------------- */

struct work {
  struct contestant *contestant;
  const struct workload *workload;
  pthread_barrier_t *barrier;
  int number;
  double busy; /* seconds in calls */
  double cpu;
  uint64_t keys;
  double *times;
  size_t time_count;
};

static void next_keys(struct runner *r, const struct workload *w, int number) {
  for (size_t i = 0; i < BATCH; i++) {
    int64_t key = w->trace->keys[r->at];
    r->at = r->at + 1 < w->trace->count ? r->at + 1 : 0;
    if (w->disjoint) {
      key += number - key % w->threads;
      key = key < 1                            ? key + w->threads
            : key > (int64_t)w->trace->highest ? key - w->threads
                                               : key;
    }
    r->keys[i] = key;
  }
}

static void check_batch(const struct contestant *c, const struct runner *r,
                        const float *vectors) {
  size_t dim = c->options.dim;
  for (size_t i = 0; i < BATCH; i++) {
    if (vectors[i * dim + 2] == 0) {
      die("%s: key %lld is absent", c->name, (long long)r->keys[i]);
    }
  }
  for (size_t i = 0; i < CHECK_VECTORS && !c->kind->torn; i++) {
    size_t k = i * (BATCH / CHECK_VECTORS);
    vector_check(vectors + k * dim, dim, r->keys[k], c->name);
  }
}

static void note_time(struct work *work, double seconds) {
  work->busy += seconds;
  work->keys += BATCH;
  if (work->times) {
    work->times[work->time_count++ % TIMES_MAX] = seconds;
  }
}

static void get_batch(struct work *work, struct runner *r, uint64_t batch) {
  const struct contestant *c = work->contestant;
  double start = now();
  const float *vectors = c->kind->get(r->session, r->keys, BATCH, r->buffer);
  note_time(work, now() - start);
  if (batch % CHECK_EACH == 0 && vectors) {
    check_batch(c, r, vectors);
  }
}

static void put_batch(struct work *work, struct runner *r) {
  const struct contestant *c = work->contestant;
  float *vectors = r->vectors[r->stamp++ % STAMPS];
  for (size_t i = 0; i < BATCH; i++) {
    vector_rename(vectors + i * c->options.dim, r->keys[i]);
  }
  double start = now();
  c->kind->put(r->session, r->keys, BATCH, vectors);
  note_time(work, now() - start);
}

/* Processes batches for `seconds`, or for `keys` keys (0: no limit). */
static void do_batches(struct work *work, double seconds, uint64_t keys) {
  struct runner *r = &work->contestant->runners[work->number];
  const struct workload *w = work->workload;
  double end = now() + seconds;
  uint64_t stop = keys ? work->keys + keys : UINT64_MAX;
  for (uint64_t i = 0; (now() < end && work->keys < stop) ||
                       (w->pattern == TRAIN && i % 2); /* never half a step */
       i++) {
    int write = w->pattern == PUT || (w->pattern != GET && i % 2);
    if (!write || w->pattern != TRAIN) {
      next_keys(r, w, work->number);
    }
    if (write) {
      put_batch(work, r);
    } else {
      get_batch(work, r, i / 2);
    }
  }
}

static void *do_work(void *arg) {
  struct work *work = arg;
  const struct workload *w = work->workload;
  struct runner *r = &work->contestant->runners[work->number];
  pin(work->number);
  if (r->trace != w->trace) {
    r->trace = w->trace;
    r->at = w->trace->count / BATCH * (size_t)work->number /
            (size_t)w->threads * BATCH;
  }
  do_batches(work, w->warm_seconds, w->warm_keys / (uint64_t)w->threads);
  work->busy = 0;
  work->keys = 0;
  work->times = need(TIMES_MAX, sizeof(double));
  memset(work->times, 1, TIMES_MAX * sizeof(double)); /* touch its pages */
  pthread_barrier_wait(work->barrier);                /* all threads are warm */
  pthread_barrier_wait(work->barrier); /* clocks have been read */
  double cpu = cpu_of_thread();
  do_batches(work, w->seconds, 0);
  work->cpu = cpu_of_thread() - cpu;
  pthread_barrier_wait(work->barrier);
  return NULL;
}

/* ---- a turn -------------------------------------------------------------- */

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void latencies(struct work *works, int threads, struct usage *usage) {
  double *all = need((size_t)threads * TIMES_MAX, sizeof(double));
  size_t n = 0;
  for (int i = 0; i < threads; i++) {
    size_t m =
        works[i].time_count < TIMES_MAX ? works[i].time_count : TIMES_MAX;
    memcpy(all + n, works[i].times, m * sizeof(double));
    n += m;
    free(works[i].times);
  }
  qsort(all, n, sizeof(double), compare);
  usage->p50_us = n ? all[n / 2] * 1e6 : NAN;
  usage->p99_us = n ? all[n * 99 / 100] * 1e6 : NAN;
  free(all);
}

/* New stamps in each turn, so that a mix of two Puts is detected. */
static void stamp(struct contestant *c, struct runner *r, int number) {
  static uint32_t turn;
  size_t dim = c->options.dim;
  for (uint32_t s = 0; s < STAMPS; s++) {
    uint32_t value = (++turn * THREADS_MAX + (uint32_t)number) * STAMPS + s;
    for (size_t i = 0; i < BATCH; i++) {
      vector_fill(r->vectors[s] + i * dim, dim, 1, value);
    }
  }
}

static struct result run_here(struct contestant *c, const struct workload *w) {
  struct work works[THREADS_MAX];
  pthread_t threads[THREADS_MAX];
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, NULL, (unsigned)w->threads + 1);
  for (int i = 0; i < w->threads; i++) {
    works[i] = (struct work){
        .contestant = c, .workload = w, .barrier = &barrier, .number = i};
    stamp(c, &c->runners[i], i);
    if (pthread_create(&threads[i], NULL, do_work, &works[i])) {
      die("no thread");
    }
  }
  pthread_barrier_wait(&barrier);
  double start = now(), process = cpu_of_process(), machine = cpu_of_machine();
  uint64_t read = disk_bytes_read(), written = disk_bytes_written();
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  double took = now() - start;
  process = cpu_of_process() - process;
  machine = cpu_of_machine() - machine;
  struct result result = {.disk_read = disk_bytes_read() - read,
                          .disk_written = disk_bytes_written() - written};
  double own = 0;
  for (int i = 0; i < w->threads; i++) {
    pthread_join(threads[i], NULL);
    result.keys += works[i].keys;
    result.keys_per_second += (double)works[i].keys / works[i].busy;
    own += works[i].cpu;
  }
  pthread_barrier_destroy(&barrier);
  result.usage.cores = process / took;
  result.usage.cores_engine = process > own ? (process - own) / took : 0;
  result.usage.cores_others =
      machine > process ? (machine - process) / took : 0;
  latencies(works, w->threads, &result.usage);
  start = now();
  if (c->kind->rest) {
    c->kind->rest(c->store);
  }
  settle();
  result.rest_seconds = now() - start;
  return result;
}

/* ---- here or in a child -------------------------------------------------- */

static void open_here(struct contestant *c) {
  size_t bytes = BATCH * c->options.dim * sizeof(float);
  c->store = c->kind->open(&c->options);
  for (int i = 0; i < c->threads; i++) {
    struct runner *r = &c->runners[i];
    r->session = c->kind->session_open(c->store);
    r->buffer = need_huge(bytes);
    for (size_t s = 0; s < STAMPS; s++) {
      r->vectors[s] = need_huge(bytes);
    }
  }
}

static void close_here(struct contestant *c) {
  size_t bytes = BATCH * c->options.dim * sizeof(float);
  for (int i = 0; i < c->threads; i++) {
    struct runner *r = &c->runners[i];
    c->kind->session_close(r->session);
    drop_huge(r->buffer, bytes);
    for (size_t s = 0; s < STAMPS; s++) {
      drop_huge(r->vectors[s], bytes);
    }
  }
  c->kind->close(c->store);
}

static int64_t figure_here(struct contestant *c, const char *name) {
  return c->kind->figure ? c->kind->figure(c->store, name) : -1;
}

static void answer(struct contestant *c, int to) {
  if (write(to, "!", 1) != 1) {
    die("%s: the parent is gone", c->name);
  }
}

static void child_main(struct contestant *c, int from, int to) {
  struct desk *desk = c->desk;
  char byte;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (!limit_memory(c->limit_bytes)) {
    die("%s: no memory limit", c->name);
  }
  open_here(c);
  answer(c, to);
  while (read(from, &byte, 1) == 1) {
    if (desk->order == RUN) {
      desk->result = run_here(c, &desk->workload);
    } else if (desk->order == FIGURE) {
      desk->figure = figure_here(c, desk->name);
    } else if (desk->order == RESIDENT) {
      desk->resident = resident_bytes();
      desk->peak = limit_peak();
    } else {
      close_here(c);
    }
    answer(c, to);
    if (desk->order == CLOSE) {
      break;
    }
  }
  fflush(stdout);
  _exit(0);
}

/* Waits for the answer; a child that ends instead is out. */
static void await(struct contestant *c) {
  char byte;
  if (read(c->from, &byte, 1) != 1) {
    waitpid(c->child, NULL, 0);
    limit_remove(c->child);
    c->dead = 1;
  }
}

static int command(struct contestant *c, enum order order) {
  if (c->dead) {
    return 0;
  }
  c->desk->order = order;
  if (write(c->to, "?", 1) != 1) {
    die("%s: %s", c->name, strerror(errno));
  }
  await(c);
  return !c->dead;
}

static void start_child(struct contestant *c) {
  int there[2], back[2];
  c->desk = mmap(NULL, sizeof(*c->desk), PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (c->desk == MAP_FAILED || pipe(there) || pipe(back)) {
    die("%s: %s", c->name, strerror(errno));
  }
  fflush(stdout);
  signal(SIGPIPE, SIG_IGN);
  c->child = fork();
  if (c->child < 0) {
    die("fork: %s", strerror(errno));
  }
  if (!c->child) {
    close(there[1]);
    close(back[0]);
    child_main(c, there[0], back[1]);
  }
  close(there[0]);
  close(back[1]);
  c->to = there[1];
  c->from = back[0];
  await(c);
}

/* ---- the interface ------------------------------------------------------- */

struct contestant *contestant_new(const struct store_kind *kind,
                                  const char *name,
                                  const struct store_options *options,
                                  uint64_t limit_bytes) {
  struct contestant *c = need(1, sizeof(*c));
  c->kind = kind;
  snprintf(c->name, sizeof(c->name), "%s", name ? name : kind->name);
  c->options = *options;
  c->limit_bytes = limit_bytes;
  return c;
}

const char *contestant_name(const struct contestant *c) { return c->name; }

void contestant_open(struct contestant *c, int threads) {
  c->threads = threads;
  if (c->limit_bytes) {
    start_child(c);
  } else {
    open_here(c);
  }
}

struct result contestant_run(struct contestant *c, const struct workload *w) {
  if (!c->limit_bytes) {
    return run_here(c, w);
  }
  c->desk->workload = *w;
  return command(c, RUN) ? c->desk->result : (struct result){0};
}

static void touch_all(struct contestant *c, enum pattern pattern) {
  struct trace all;
  trace_all(&all, c->options.keys);
  struct workload workload = {.pattern = pattern,
                              .trace = &all,
                              .threads = 1,
                              .warm_seconds = 120,
                              .warm_keys = all.count * 2};
  contestant_run(c, &workload);
  trace_free(&all);
  for (int i = 0; i < THREADS_MAX; i++) {
    c->runners[i].trace = NULL;
  }
}

void contestant_read_all(struct contestant *c) { touch_all(c, GET); }

void contestant_write_all(struct contestant *c) { touch_all(c, PUT); }

int64_t contestant_figure(struct contestant *c, const char *name) {
  if (!c->limit_bytes) {
    return figure_here(c, name);
  }
  snprintf(c->desk->name, sizeof(c->desk->name), "%s", name);
  return command(c, FIGURE) ? c->desk->figure : -1;
}

uint64_t contestant_resident(struct contestant *c, uint64_t *peak) {
  if (!c->limit_bytes) {
    *peak = resident_peak_bytes();
    return resident_bytes();
  }
  int ok = command(c, RESIDENT);
  *peak = ok ? c->desk->peak : 0;
  return ok ? c->desk->resident : 0;
}

int contestant_dead(const struct contestant *c) { return c->dead; }

void contestant_close(struct contestant *c) {
  if (!c->limit_bytes) {
    close_here(c);
  } else {
    if (command(c, CLOSE)) {
      waitpid(c->child, NULL, 0);
      limit_remove(c->child);
    }
    close(c->to);
    close(c->from);
    munmap(c->desk, sizeof(*c->desk));
  }
  free(c);
}

/* Puts the keys above `from`, up to `to`. */
static void fill(const struct store_kind *kind, void *session, size_t dim,
                 size_t from, size_t to) {
  enum { ROWS = 8192 };
  int64_t *keys = need(ROWS, sizeof(*keys));
  float *vectors = need(ROWS * dim, sizeof(float));
  while (from < to) {
    size_t n = to - from < ROWS ? to - from : ROWS;
    for (size_t i = 0; i < n; i++) {
      keys[i] = (int64_t)(from + i + 1);
      vector_fill(vectors + i * dim, dim, keys[i], 1);
    }
    kind->put(session, keys, n, vectors);
    from += n;
  }
  free(keys);
  free(vectors);
}

void contestant_fill(struct contestant *c, size_t from, size_t to) {
  if (c->limit_bytes) {
    die("%s: can be filled in this process only", c->name);
  }
  fill(c->kind, c->runners[0].session, c->options.dim, from, to);
  if (c->kind->rest) {
    c->kind->rest(c->store);
  }
  settle();
}

void load_store(const struct store_kind *kind,
                const struct store_options *options) {
  struct store_options create = *options;
  create.create = 1;
  void *store = kind->open(&create);
  void *session = kind->session_open(store);
  fill(kind, session, options->dim, 0, options->keys);
  if (kind->rest) {
    kind->rest(store);
  }
  kind->session_close(session);
  kind->close(store);
  forget_tree(options->directory);
}

static uint64_t index_bytes(const struct store_kind *kind,
                            const struct store_options *options) {
  struct store_options there = *options;
  there.create = 0;
  void *store = kind->open(&there);
  int64_t bytes = kind->figure(store, "index_bytes");
  kind->close(store);
  return bytes > 0 ? (uint64_t)bytes : 0;
}

uint64_t load_store_apart(const struct store_kind *kind,
                          const struct store_options *options) {
  int back[2], status;
  uint64_t bytes = 0;
  fflush(stdout);
  if (pipe(back)) {
    die("pipe: %s", strerror(errno));
  }
  pid_t child = fork();
  if (child < 0) {
    die("fork: %s", strerror(errno));
  }
  if (!child) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    load_store(kind, options);
    bytes = kind->figure ? index_bytes(kind, options) : 0;
    _exit(write(back[1], &bytes, sizeof(bytes)) != sizeof(bytes));
  }
  close(back[1]);
  ssize_t got = read(back[0], &bytes, sizeof(bytes));
  close(back[0]);
  waitpid(child, &status, 0);
  if (got != sizeof(bytes) || status) {
    die("%s could not be loaded", kind->name);
  }
  return bytes;
}
