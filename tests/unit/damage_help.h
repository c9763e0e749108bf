/* SPDX-License-Identifier: MIT
**
** damage_help.h -- what rot.c and rot_pages.c share: stores whose content is
** known, and the judgement of what a damaged copy of one answers.
**
** A story writes a store, in one or several lives, and notes in an oracle what
** every key must be.  It ends with a clean close, or its process dies.
**
** VERDICT   A damaged copy may be refused (the error names the file), it may
**           refuse keys (the error names file, page and offset), or it may be
**           as if nothing had happened.  A wrong vector, a key that is
**           missing without an error, and damage that a read finds and
**           emb_verify does not, are failures; and so is a crash.
*/
#ifndef EMB_DAMAGE_HELP_H
#define EMB_DAMAGE_HELP_H

#include "store_help.h"

#include "../../engine/store/registry.h"
#include "../lib/env_sync.h"
#include "../lib/files.h"

#include <sys/mman.h>
#include <sys/wait.h>

enum { DAMAGE_KEYS = 600, DAMAGE_PAGES = 4096 };

struct oracle {
  int32_t value[DAMAGE_KEYS]; /* of help_vector; 0: there is no such key */
  /* What nobody made durable may be cut off, from the latest write on:
  ** order counts such writes, 0 for a key that has none; then before is what
  ** the key was. */
  int32_t before[DAMAGE_KEYS];
  uint32_t order[DAMAGE_KEYS];
  uint32_t orders;
  int32_t older[DAMAGE_KEYS]; /* value, at the story's last checkpoint */
  /* Since the first checkpoint of the last life: bit v, the value was v. */
  uint32_t had[DAMAGE_KEYS];
  int checkpoints;   /* of this life */
  uint64_t recorded; /* transaction number that the coordinator has */
};

struct writer {
  emb_session *s;
  struct oracle *o;
  const char *dir;
  int tail;   /* nothing makes durable what comes now */
  int in_txn; /* of the session */
  int32_t begun[DAMAGE_KEYS], marked[DAMAGE_KEYS];
};

struct story {
  const char *name;
  uint32_t dim, type;
  int lives;
  int killed; /* the last one */
  void (*write)(struct writer *, int life);
  const char *admission; /* NULL: none */
};

/* A story's store. */
struct damage_store {
  const struct story *story;
  struct oracle *o;
  struct files files;
  struct files older, oldest; /* at those checkpoints */
  struct layout layout;
  uint64_t salt;
  struct manifest manifest;
  struct file_page pages[DAMAGE_PAGES];
  size_t page_count;
  uint64_t tail_page; /* the first that is not durable; UINT64_MAX: none */
};

enum verdict {
  REFUSED, /* by emb_open, or when the transaction in doubt is decided */
  READ,    /* by the read of some keys */
  VERIFY,  /* by emb_verify alone */
  CUT,     /* writes that were not durable are gone, the latest first */
  COUNTED, /* all is there, and emb_stats says that something was damaged */
  ALIKE,   /* all is there */
  VERDICTS
};

/* ---- writing ---------------------------------------------------------- */

static inline void note_had(struct oracle *o) {
  for (int i = 0; i < DAMAGE_KEYS; i++)
    o->had[i] |= 1u << o->value[i];
}

static inline void note(struct writer *w, int64_t key, int32_t value) {
  struct oracle *o = w->o;
  if (w->tail) {
    o->before[key] = o->order[key] ? o->before[key] : o->value[key];
    o->order[key] = ++o->orders;
  }
  o->value[key] = value;
  if (!w->in_txn)
    o->had[key] |= 1u << value;
}

static inline void w_put(struct writer *w, int64_t first, size_t n,
                         int32_t value) {
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

static inline void w_delete(struct writer *w, int64_t first, size_t n) {
  int64_t keys[DAMAGE_KEYS];
  for (size_t i = 0; i < n; i++) {
    keys[i] = first + (int64_t)i;
    note(w, keys[i], 0);
  }
  OK(w->s, w->in_txn ? emb_txn_delete(w->s, keys, n, NULL)
                     : emb_delete(w->s, keys, n, NULL));
}

static inline void w_begin(struct writer *w) {
  OK(w->s, emb_begin(w->s));
  w->in_txn = 1;
  memcpy(w->begun, w->o->value, sizeof w->begun);
}

static inline void w_savepoint(struct writer *w) {
  OK(w->s, emb_savepoint(w->s, 0));
  memcpy(w->marked, w->o->value, sizeof w->marked);
}

static inline void w_rollback_to(struct writer *w) {
  OK(w->s, emb_rollback_to(w->s, 0));
  memcpy(w->o->value, w->marked, sizeof w->marked);
}

/* As the SQLite extension does it: prepared, recorded, committed. */
static inline void w_prepare(struct writer *w) {
  uint64_t number = 0;
  OK(w->s, emb_prepare(w->s, &number));
  if (number)
    w->o->recorded = number;
  note_had(w->o);
}

static inline void w_commit(struct writer *w) {
  w_prepare(w);
  OK(w->s, emb_commit(w->s));
  w->in_txn = 0;
}

static inline void w_rollback(struct writer *w, int prepared) {
  uint64_t number;
  if (prepared)
    OK(w->s, emb_prepare(w->s, &number));
  emb_rollback(w->s);
  w->in_txn = 0;
  memcpy(w->o->value, w->begun, sizeof w->begun);
}

/* Keeps copies of the files as they are then. */
static inline void w_checkpoint(struct writer *w) {
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

static inline void no_report(void *arg, const char *line) {
  (void)arg, (void)line;
}

/* Everything into the files, nothing synced. */
static inline void w_flush(struct writer *w) {
  OK(w->s, emb_verify(w->s, no_report, NULL));
}

/* ---- making a store --------------------------------------------------- */

static inline emb_config story_config(const struct story *story) {
  return (emb_config){.dim = story->dim,
                      .type = story->type,
                      .admission = story->admission,
                      .insert_on = EMB_INSERT_ON_UPDATE,
                      .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP,
                      .io = EMB_IO_PREAD,
                      .memory_bytes = 1,
                      .timeout_ms = 1000};
}

static inline void live(const struct story *story, struct oracle *o,
                        const char *dir, int life) {
  emb_config config = story_config(story);
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

/* Where the pages are that hold writes of the tail. */
static inline void find_tail(struct damage_store *d) {
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

/* A path in a directory for the tests' files: in memory where that can be, for
** thousands of copies are written. */
static inline const char *damage_path(const char *name) {
  registry_set_env(env_sync());
  if (access("/dev/shm", W_OK) == 0)
    (void)test_dir_in("/dev/shm");
  return help_path(name);
}

/* Tells the story in a directory of the test; 1 when that worked.  Each life
** is a process of its own, so that nothing is left in this one. */
static inline int damage_tell(struct damage_store *d, const struct story *story,
                              const char *dir) {
  memset(d, 0, sizeof *d);
  d->story = story;
  d->o = mmap(NULL, sizeof *d->o, PROT_READ | PROT_WRITE,
              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (!CHECK(d->o != MAP_FAILED))
    return 0;
  for (int life = 0; life < story->lives; life++) {
    pid_t child = fork();
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
  layout_init(&d->layout, story->dim, story->type);
  if (story->admission) /* it tracks */
    layout_init_value(&d->layout, story->dim, story->type,
                      d->layout.vector_bytes, d->layout.vector_bytes + 8);
  d->salt = hash_salt(d->manifest.uuid);
  d->page_count = files_pages(files_find(&d->files, "log"), &d->layout, d->salt,
                              d->pages, DAMAGE_PAGES);
  find_tail(d);
  return 1;
}

static inline void damage_forget(struct damage_store *d) {
  files_free(&d->files);
  files_free(&d->older);
  files_free(&d->oldest);
  (void)munmap(d->o, sizeof *d->o);
}

/* ---- stories ---------------------------------------------------------- */

/* Everything that a log can hold. */
static inline void all_kinds(struct writer *w) {
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

static inline void write_small(struct writer *w, int life) {
  (void)life;
  w_put(w, 0, 200, 1);
  w_checkpoint(w);
  all_kinds(w);
}

static inline void write_large(struct writer *w, int life) {
  w_put(w, 0, DAMAGE_KEYS, life * 4 + 1);
  w_checkpoint(w);
  w_put(w, 0, 400, life * 4 + 2);
  w_checkpoint(w);
  w_put(w, 500, 100, life * 4 + 3);
}

/* In the first life: there is one checkpoint, at its end, and its first extent
** has no live record then. */
static inline void write_first(struct writer *w, int life) {
  (void)life;
  w_put(w, 0, DAMAGE_KEYS, 1);
  w_flush(w);
  w_put(w, 0, 300, 2);
}

static inline void write_decided(struct writer *w, int life) {
  write_small(w, life);
  w_begin(w);
  w_put(w, 0, 10, 8);
  w_commit(w);
}

static inline void write_decided_late(struct writer *w, int life) {
  write_small(w, life);
  w_begin(w);
  w_put(w, 0, 200, 8);
  w_delete(w, 200, 100);
  w_prepare(w);
}

/* Both slots of the manifest say the same: they claim the store. */
static inline void write_claimed(struct writer *w, int life) {
  if (life == 0)
    w_put(w, 0, DAMAGE_KEYS, 1);
  else
    all_kinds(w);
}

/* Extents that no index file lists. */
static inline void write_long(struct writer *w, int life) {
  (void)life;
  w_put(w, 0, 100, 1);
  w_checkpoint(w);
  for (int turn = 2; turn < 5; turn++) {
    w_put(w, 0, 400, turn);
    w_flush(w);
  }
  w_begin(w);
  w_put(w, 300, 300, 5);
  w_commit(w);
}

/* A transaction that is open makes recovery begin below what the checkpoint
** knows to be durable. */
static inline void write_open(struct writer *w, int life) {
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

static inline void write_tail(struct writer *w, int life) {
  write_small(w, life);
  w_checkpoint(w);
  w->tail = 1;
  w_put(w, 0, 300, 9);
  w_delete(w, 400, 30);
  w_put(w, 500, 50, 10);
  w_flush(w);
}

/* Deltas and a snapshot of another store, which has no rows, leave a place in
** their chains; then it has a consumer, and counts keys that stay out. */
static inline void write_all_files(struct writer *w, int life) {
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
static const struct story damage_stories[] = {
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

/* ---- judging ---------------------------------------------------------- */

struct judge {
  const struct damage_store *d;
  const char *dir, *what; /* the damage, for messages */
  int may_cut;  /* it may have hit what was not durable; 2: or more, without
                   regard to the order of writes */
  int found;    /* an error spoke of damage */
  int reported; /* lines of emb_verify */
  uint32_t cut_above; /* no write with an order up to this is missing ... */
  uint32_t cut_below; /* ... and none from this on is there */
  char text[600];     /* the first error */
};

static inline int blame(const struct judge *j, const char *format, ...) {
  char text[400];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return test_check(0, j->d->story->name, 0, "%s: %s", j->what, text);
}

static inline int names_a_file(const char *text) {
  static const char *const files[] = {"/manifest",  "/log",      "/index-",
                                      "/admission", "/position", "/chain",
                                      "/consumer-"};
  int named = 0;
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    named |= strstr(text, files[i]) != NULL;
  return named;
}

/* An error that is right for damage, and names the place. */
static inline int is_damage(struct judge *j, int rc, const char *text,
                            int of_page) {
  int named = names_a_file(text) || strstr(text, "/lock") != NULL;
  if (of_page)
    named = strstr(text, "/log: page ") && strstr(text, "offset ");
  if (j->found == 0)
    (void)snprintf(j->text, sizeof j->text, "%s", text);
  j->found = 1;
  return (rc == EMB_CORRUPT && named) ||
         (!of_page && named && (rc == EMB_NOTADB || rc == EMB_CANTOPEN)) ||
         (named && strstr(text, "Is a directory")) ||
         blame(j, "error %d: %s", rc, text);
}

/* What the key is (0: absent) against what it must be. */
static inline int judge_key(struct judge *j, int64_t key, int32_t is) {
  const struct oracle *o = j->d->o;
  if (j->may_cut == 2 && is != o->value[key])
    j->cut_below = 0;
  if (j->may_cut == 2)
    return (is >= 0 && is < 32 && (o->had[key] >> is & 1)) ||
           blame(j, "key %d is %d, and never was", (int)key, is);
  if (is == o->value[key]) {
    if (o->order[key] > j->cut_above && is != o->before[key])
      j->cut_above = o->order[key];
  } else if (o->order[key] && is == o->before[key] && j->may_cut) {
    if (o->order[key] < j->cut_below)
      j->cut_below = o->order[key];
  } else {
    return blame(j, "key %d is %d, not %d", (int)key, is, o->value[key]);
  }
  return j->cut_above < j->cut_below ||
         blame(j, "write %u is there, write %u is not", j->cut_above,
               j->cut_below);
}

static inline int32_t value_of(const struct damage_store *d, int64_t key,
                               const float *vector) {
  int32_t value = help_value(vector, d->story->dim, key);
  return value ? value : INT32_MIN; /* zeros are nobody's */
}

static inline int judge_each(struct judge *j, emb_session *s) {
  float vector[1024];
  int good = 1;
  for (int64_t key = 0; good && key < DAMAGE_KEYS; key++) {
    uint8_t found = 2;
    int rc = emb_peek(s, &key, 1, vector, &found, NULL);
    good = rc == EMB_OK
               ? judge_key(j, key, found ? value_of(j->d, key, vector) : 0)
               : is_damage(j, rc, emb_errmsg(s), 1);
  }
  return good;
}

static inline int judge_batch(struct judge *j, emb_session *s) {
  uint32_t dim = j->d->story->dim;
  float *vectors = malloc(DAMAGE_KEYS * dim * sizeof *vectors);
  uint8_t found[DAMAGE_KEYS];
  int64_t keys[DAMAGE_KEYS];
  int good = 1;
  for (int64_t i = 0; i < DAMAGE_KEYS; i++)
    keys[i] = i;
  int rc = emb_get(s, keys, DAMAGE_KEYS, vectors, found, NULL);
  for (int64_t i = 0; rc == EMB_OK && good && i < DAMAGE_KEYS; i++)
    good = judge_key(j, i, found[i] ? value_of(j->d, i, vectors + i * dim) : 0);
  free(vectors);
  if (rc != EMB_OK)
    good = is_damage(j, rc, emb_errmsg(s), 1) && judge_each(j, s);
  return good;
}

static inline int judge_scan(struct judge *j, emb_session *s, int order) {
  uint32_t dim = j->d->story->dim;
  float *vectors = malloc(64 * dim * sizeof *vectors);
  uint8_t seen[DAMAGE_KEYS] = {0};
  int64_t keys[64];
  emb_scan *scan = NULL;
  size_t n = 0;
  int good = 1;
  int rc = emb_scan_open(s, INT64_MIN, INT64_MAX, order, &scan);
  do {
    n = 0;
    rc = rc ? rc : emb_scan_next(scan, 64, keys, vectors, NULL, &n);
    for (size_t i = 0; rc == EMB_OK && good && i < n; i++) {
      good = keys[i] >= 0 && keys[i] < DAMAGE_KEYS && !seen[keys[i]]++
                 ? judge_key(j, keys[i],
                             value_of(j->d, keys[i], vectors + i * dim))
                 : blame(j, "a scan gives key %lld", (long long)keys[i]);
    }
  } while (good && rc == EMB_OK && n > 0);
  if (rc != EMB_OK)
    good = good && is_damage(j, rc, emb_errmsg(s), 1);
  for (int64_t key = 0; rc == EMB_OK && good && key < DAMAGE_KEYS; key++)
    good = seen[key] || judge_key(j, key, 0);
  if (scan)
    emb_scan_close(scan);
  free(vectors);
  return good;
}

static inline void judge_line(void *arg, const char *line) {
  struct judge *j = arg;
  if (j->reported++ == 0 && !names_a_file(line))
    (void)blame(j, "a report that names no file: %s", line);
}

/* What the coordinator does when it opens the store. */
static inline int judge_doubt(struct judge *j, emb_store *store, int *good) {
  emb_err err = {0, ""};
  uint64_t doubt = emb_in_doubt(store), recorded = j->d->o->recorded;
  int rc = EMB_OK;
  if (doubt)
    rc = emb_resolve(store, doubt <= recorded, &err);
  if (rc)
    *good = is_damage(j, rc, err.text, 0);
  else if (emb_committed(store) < recorded)
    j->found = 1; /* the coordinator tells its user */
  return rc || j->found;
}

static inline int judge_open(struct judge *j, emb_store *store,
                             emb_session *s) {
  int good = judge_batch(j, s) && judge_scan(j, s, EMB_SCAN_ANY) &&
             judge_scan(j, s, EMB_SCAN_ASC);
  int read = j->found;
  int rc = good ? emb_verify(s, judge_line, j) : EMB_OK;
  if (rc != EMB_OK)
    good = is_damage(j, rc, emb_errmsg(s), 0);
  if (good && read && !j->reported)
    good = blame(j, "emb_verify does not find what a read finds: %s", j->text);
  if (good && !read && j->cut_below == UINT32_MAX) {
    int64_t keys = 0;
    for (int i = 0; i < DAMAGE_KEYS; i++)
      keys += j->d->o->value[i] != 0;
    good =
        emb_count(s) == keys || blame(j, "%lld keys, not %lld",
                                      (long long)emb_count(s), (long long)keys);
  }
  (void)store;
  return good;
}

/* The damage does not grow when the store is written and closed. */
static inline int judge_on(struct judge *j, emb_config *config,
                           emb_store **store, emb_session **s) {
  float vector[1024];
  int64_t key = DAMAGE_KEYS + 7;
  uint8_t found = 0;
  emb_err err = {0, ""};
  help_vector(vector, j->d->story->dim, key, 5);
  int put = emb_put(*s, &key, 1, vector, NULL);
  if (put != EMB_OK && !is_damage(j, put, emb_errmsg(*s), 0))
    return 0;
  emb_session_close(*s);
  int closed = emb_close(*store, &err);
  *store = NULL;
  if (closed != EMB_OK && !is_damage(j, closed, err.text, 0))
    return 0;
  int rc = emb_open(j->dir, config, store, &err);
  if (rc)
    return is_damage(j, rc, err.text, 0);
  rc = emb_session_open(*store, s, &err);
  if (rc)
    return blame(j, "session: %s", err.text);
  int good = judge_batch(j, *s);
  rc = emb_get(*s, &key, 1, vector, &found, NULL);
  if (good && put == EMB_OK && closed == EMB_OK)
    good =
        (rc == EMB_OK && found && help_is(vector, j->d->story->dim, key, 5)) ||
        blame(j, "a write after the damage is lost: %d %d", rc, found);
  return good;
}

/* Opens the damaged copy in dir and reads everything.  flags: of emb_open.
** go_on: also writes, closes, opens and reads again.  The files may be changed
** afterwards, unless EMB_OPEN_READONLY was given. */
static inline enum verdict damage_judge(const struct damage_store *d,
                                        const char *dir, const char *what,
                                        uint32_t flags, int may_cut,
                                        int go_on) {
  struct judge j = {.d = d,
                    .dir = dir,
                    .what = what,
                    .may_cut = may_cut,
                    .cut_below = UINT32_MAX};
  emb_config config = story_config(d->story);
  emb_store *store = NULL;
  emb_session *s = NULL;
  emb_err err = {0, ""};
  int good = 1, counted = 0;
  config.flags = EMB_OPEN_STEP | flags;
  int rc = emb_open(dir, &config, &store, &err);
  if (rc) {
    (void)is_damage(&j, rc, err.text, 0);
    return REFUSED;
  }
  if (judge_doubt(&j, store, &good)) {
    (void)emb_close(store, &err);
    return REFUSED;
  }
  if (!OK(NULL, emb_session_open(store, &s, &err)))
    return VERDICTS;
  good = judge_open(&j, store, s);
  enum verdict verdict = j.found                     ? READ
                         : j.reported                ? VERIFY
                         : j.cut_below != UINT32_MAX ? CUT
                                                     : ALIKE;
  counted = help_stat(store, "manifest_damaged") != 0 ||
            help_stat(store, "admission_damaged") != 0;
  if (good && go_on)
    (void)judge_on(&j, &config, &store, &s);
  if (store) {
    emb_session_close(s);
    (void)emb_close(store, &err);
  }
  return verdict == ALIKE && counted ? COUNTED : verdict;
}

#endif
