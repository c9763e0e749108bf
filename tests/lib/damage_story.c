/* SPDX-License-Identifier: MIT
**
** damage_story.c -- the stories of damage_help.h, and the code that tells
** them.
*/
#include "damage_help.h"
#include "fork_help.h"
#include "layout_help.h"

#include <sys/mman.h>
#include <sys/wait.h>

struct writer {
  emb_session *s;
  struct oracle *o;
  const char *dir;
  int tail;   /* nothing makes the following writes durable */
  int in_txn; /* of the session */
  int32_t begun[DAMAGE_KEYS], marked[DAMAGE_KEYS];
};

/* ---- writing ------------------------------------------------------------- */

static void note_had(struct oracle *o) {
  for (int i = 0; i < DAMAGE_KEYS; i++)
    o->had[i] |= 1u << o->value[i];
}

static void note(struct writer *w, int64_t key, int32_t value) {
  struct oracle *o = w->o;
  if (w->tail) {
    o->before[key] = o->order[key] ? o->before[key] : o->value[key];
    o->order[key] = ++o->orders;
  }
  o->value[key] = value;
  if (!w->in_txn)
    o->had[key] |= 1u << value;
}

static void w_put(struct writer *w, int64_t first, size_t n, int32_t value) {
  uint32_t dim = emb_dim(emb_session_store(w->s));
  float *vectors = malloc(n * dim * sizeof *vectors);
  int64_t keys[DAMAGE_KEYS];
  for (size_t i = 0; i < n; i++) {
    keys[i] = first + (int64_t)i;
    help_vector(vectors + i * dim, dim, keys[i], value);
    note(w, keys[i], value);
  }
  OK(w->s, w->in_txn ? emb_txn_put(w->s, keys, n, vectors)
                     : emb_put(w->s, keys, n, vectors, NULL));
  free(vectors);
}

static void w_delete(struct writer *w, int64_t first, size_t n) {
  int64_t keys[DAMAGE_KEYS];
  for (size_t i = 0; i < n; i++) {
    keys[i] = first + (int64_t)i;
    note(w, keys[i], 0);
  }
  OK(w->s, w->in_txn ? emb_txn_delete(w->s, keys, n, NULL)
                     : emb_delete(w->s, keys, n, NULL));
}

static void w_begin(struct writer *w) {
  OK(w->s, emb_begin(w->s));
  w->in_txn = 1;
  memcpy(w->begun, w->o->value, sizeof w->begun);
}

static void w_savepoint(struct writer *w) {
  OK(w->s, emb_savepoint(w->s, 0));
  memcpy(w->marked, w->o->value, sizeof w->marked);
}

static void w_rollback_to(struct writer *w) {
  OK(w->s, emb_rollback_to(w->s, 0));
  memcpy(w->o->value, w->marked, sizeof w->marked);
}

/* As the SQLite extension does it: prepared, recorded, committed. */
static void w_prepare(struct writer *w) {
  uint64_t number = 0;
  OK(w->s, emb_prepare(w->s, &number));
  if (number)
    w->o->recorded = number;
  note_had(w->o);
}

static void w_commit(struct writer *w) {
  w_prepare(w);
  OK(w->s, emb_commit(w->s));
  w->in_txn = 0;
}

static void w_rollback(struct writer *w, int prepared) {
  uint64_t number;
  if (prepared)
    OK(w->s, emb_prepare(w->s, &number));
  emb_rollback(w->s);
  w->in_txn = 0;
  memcpy(w->o->value, w->begun, sizeof w->begun);
}

/* Keeps copies of the files as of the checkpoint. */
static void w_checkpoint(struct writer *w) {
  char copy[512];
  OK(w->s, emb_checkpoint(w->s));
  memcpy(w->o->older, w->o->value, sizeof w->o->older);
  (void)snprintf(copy, sizeof copy, "%s-older", w->dir);
  CHECK(files_copy_dir(copy, w->dir));
  if (w->o->checkpoints++ == 0) {
    memset(w->o->had, 0, sizeof w->o->had);
    note_had(w->o);
    (void)snprintf(copy, sizeof copy, "%s-oldest", w->dir);
    CHECK(files_copy_dir(copy, w->dir));
  }
}

void damage_no_report(void *arg, const char *line) { (void)arg, (void)line; }

/* Writes everything to the files and syncs nothing. */
static void w_flush(struct writer *w) {
  OK(w->s, emb_verify(w->s, damage_no_report, NULL));
}

/* ---- making a store ------------------------------------------------------ */

emb_config damage_config(const struct story *story) {
  return (emb_config){.dim = story->dim,
                      .type = story->type,
                      .admission = story->admission,
                      .insert_on = EMB_INSERT_ON_UPDATE,
                      .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP,
                      .io = EMB_IO_PREAD,
                      .memory_bytes = 1,
                      .timeout_ms = 1000};
}

static void live(const struct story *story, struct oracle *o, const char *dir,
                 int life) {
  emb_config config = damage_config(story);
  struct writer w = {.o = o, .dir = dir};
  emb_store *store;
  if (!help_open(dir, &config, &store, &w.s))
    return;
  memset(o->order, 0, sizeof o->order); /* the life before was closed */
  o->orders = 0;
  o->checkpoints = 0;
  story->write(&w, life);
  if (life + 1 < story->lives || !story->killed)
    help_close(store, w.s);
}

/* Finds the pages that hold writes of the tail. */
static void find_tail(struct damage_store *d) {
  const struct file *log = files_find(&d->files, "log");
  d->tail_page = UINT64_MAX;
  for (size_t i = 0; i < d->page_count; i++) {
    const struct file_page *page = &d->pages[i];
    const char *bytes = log->bytes + page->offset + PAGE_HEAD_BYTES;
    if (page->kind != PAGE_DATA && page->kind != PAGE_TOMB)
      continue;
    for (uint32_t k = 0; k < page->count; k++) {
      int64_t key;
      memcpy(&key,
             bytes + (size_t)k *
                         (page->kind == PAGE_DATA ? d->layout.rec_bytes : 8),
             sizeof key);
      if (key >= 0 && key < DAMAGE_KEYS && d->o->order[key] &&
          page->number >= d->manifest.tail && page->number < d->tail_page)
        d->tail_page = page->number;
    }
  }
}

const char *damage_path(const char *name) {
  env_set_default(env_sync());
  if (access("/dev/shm", W_OK) == 0)
    (void)test_dir_in("/dev/shm");
  return help_path(name);
}

int damage_tell(struct damage_store *d, const struct story *story,
                const char *dir) {
  memset(d, 0, sizeof *d);
  d->story = story;
  d->o = mmap(NULL, sizeof *d->o, PROT_READ | PROT_WRITE,
              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (!CHECK(d->o != MAP_FAILED))
    return 0;
  for (int life = 0; life < story->lives; life++) {
    pid_t child = test_fork();
    int status = 0;
    if (child == 0) {
      live(story, d->o, dir, life);
      _exit(atomic_load(&test_state.failures) ? 1 : 0);
    }
    if (!CHECK(waitpid(child, &status, 0) == child && status == 0))
      return 0;
  }
  char copy[512];
  (void)snprintf(copy, sizeof copy, "%s-older", dir);
  (void)files_read(&d->older, copy);
  (void)snprintf(copy, sizeof copy, "%s-oldest", dir);
  (void)files_read(&d->oldest, copy);
  if (!CHECK(files_read(&d->files, dir)) ||
      !CHECK(files_manifest(&d->files) != NULL))
    return 0;
  d->manifest = *files_manifest(&d->files);
  CHECK_EQ_INT(d->manifest.clean, !story->killed);
  layout_plain(&d->layout, story->dim, story->type);
  if (story->admission) /* it tracks */
    layout_init(&d->layout, story->dim, story->type, d->layout.vector_bytes,
                d->layout.vector_bytes + 8);
  d->salt = hash_salt(d->manifest.uuid);
  d->page_count = files_pages(files_find(&d->files, "log"), &d->layout, d->salt,
                              d->pages, DAMAGE_PAGES);
  find_tail(d);
  return 1;
}

void damage_forget(struct damage_store *d) {
  files_free(&d->files);
  files_free(&d->older);
  files_free(&d->oldest);
  (void)munmap(d->o, sizeof *d->o);
}

/* ---- stories ------------------------------------------------------------- */

/* Everything that a log can hold. */
static void all_kinds(struct writer *w) {
  w_begin(w);
  w_put(w, 100, 100, 3);
  w_savepoint(w);
  w_put(w, 150, 100, 4);
  w_rollback_to(w);
  w_delete(w, 10, 5);
  w_commit(w);
  w_begin(w);
  w_put(w, 300, 50, 5);
  w_rollback(w, 1);
  w_delete(w, 20, 20);
  w_put(w, 250, 50, 6);
  w_begin(w);
  w_put(w, 400, 60, 7);
  w_commit(w);
}

static void write_small(struct writer *w, int life) {
  (void)life;
  w_put(w, 0, 200, 1);
  w_checkpoint(w);
  all_kinds(w);
}

static void write_large(struct writer *w, int life) {
  w_put(w, 0, DAMAGE_KEYS, life * 4 + 1);
  w_checkpoint(w);
  w_put(w, 0, 400, life * 4 + 2);
  w_checkpoint(w);
  w_put(w, 500, 100, life * 4 + 3);
}

/* In the first life: one checkpoint at its end, when the first extent has no
** live record. */
static void write_first(struct writer *w, int life) {
  (void)life;
  w_put(w, 0, DAMAGE_KEYS, 1);
  w_flush(w);
  w_put(w, 0, 300, 2);
}

static void write_decided(struct writer *w, int life) {
  write_small(w, life);
  w_begin(w);
  w_put(w, 0, 10, 8);
  w_commit(w);
}

static void write_decided_late(struct writer *w, int life) {
  write_small(w, life);
  w_begin(w);
  w_put(w, 0, 200, 8);
  w_delete(w, 200, 100);
  w_prepare(w);
}

/* Both slots of the manifest are equal: they claim the store. */
static void write_claimed(struct writer *w, int life) {
  if (life == 0)
    w_put(w, 0, DAMAGE_KEYS, 1);
  else
    all_kinds(w);
}

/* Extents that no index file lists. */
static void write_long(struct writer *w, int life) {
  (void)life;
  w_put(w, 0, 100, 1);
  w_checkpoint(w);
  for (int round = 2; round < 5; round++) {
    w_put(w, 0, 400, round);
    w_flush(w);
  }
  w_begin(w);
  w_put(w, 300, 300, 5);
  w_commit(w);
}

/* An open transaction makes recovery begin below the position that the
** checkpoint names as durable. */
static void write_open(struct writer *w, int life) {
  emb_session *mine = w->s, *other = NULL;
  (void)life;
  w_put(w, 0, 200, 1);
  w_begin(w);
  w_put(w, 100, 300, 2);
  CHECK_EQ_INT(emb_session_open(emb_session_store(mine), &other, NULL), EMB_OK);
  w->s = other;
  w->in_txn = 0;
  memcpy(w->o->value, w->begun, sizeof w->begun); /* it will never commit */
  w_put(w, 450, 50, 3);
  w_checkpoint(w);
  w->tail = 1;
  w_put(w, 0, 80, 4);
  w_put(w, 500, 90, 5);
  w_flush(w);
}

static void write_tail(struct writer *w, int life) {
  write_small(w, life);
  w_checkpoint(w);
  w->tail = 1;
  w_put(w, 0, 300, 9);
  w_delete(w, 400, 30);
  w_put(w, 500, 50, 10);
  w_flush(w);
}

/* Deltas and a snapshot of another store, which has no rows, leave a place in
** their chains; then the store has a consumer, and counts keys that are not
** admitted. */
static void write_all_files(struct writer *w, int life) {
  emb_config config = {.dim = emb_dim(emb_session_store(w->s)),
                       .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP,
                       .memory_bytes = 1};
  float vector[16] = {0};
  char other[512], file[512];
  emb_store *store;
  emb_session *s;
  (void)snprintf(other, sizeof other, "%s-source", w->dir);
  (void)snprintf(file, sizeof file, "%s-file", w->dir);
  if (!help_open(other, &config, &store, &s))
    return;
  OK(s, emb_delta_export(s, "copy", file, NULL, NULL));
  OK(w->s, emb_delta_apply(w->s, file, NULL, NULL));
  CHECK_EQ_INT(unlink(file), 0);
  OK(s, emb_snapshot(s, "one"));
  OK(s, emb_snapshot_export(s, "one", file, NULL, NULL, NULL));
  OK(w->s, emb_snapshot_restore(w->s, file, NULL));
  help_close(store, s);
  write_small(w, life);
  OK(w->s, emb_delta_begin(w->s, "consumer", EMB_DELTA_NOW, 0));
  for (int64_t key = DAMAGE_KEYS; key < DAMAGE_KEYS + 99; key++)
    OK(w->s, emb_rmw(w->s, &key, 1, vector, NULL, NULL));
}

/* dim, type, lives, killed; admission */
const struct story damage_stories[] = {
    {"closed", 16, EMB_F16, 1, 0, write_small, NULL},
    {"closed, of several extents", 256, EMB_F32, 2, 0, write_large, NULL},
    {"closed at its first checkpoint", 256, EMB_F32, 1, 0, write_first, NULL},
    {"killed after a commit", 16, EMB_F32, 1, 1, write_decided, NULL},
    {"killed before it was told to commit", 64, EMB_F32, 1, 1,
     write_decided_late, NULL},
    {"killed before a checkpoint", 16, EMB_F32, 2, 1, write_claimed, NULL},
    {"killed with writes that are not durable", 16, EMB_F32, 1, 1, write_tail,
     NULL},
    {"killed in its second life", 5, EMB_F16, 2, 1, write_tail, NULL},
    {"killed with extents to find", 256, EMB_F32, 1, 1, write_long, NULL},
    {"killed with a transaction open", 32, EMB_F32, 1, 1, write_open, NULL},
    {"closed, with every file", 16, EMB_F32, 1, 0, write_all_files,
     "count(n=9, memory=65536)"},
    {"killed, with every file", 16, EMB_F32, 1, 1, write_all_files,
     "count(n=9, memory=65536)"},
};
