/* SPDX-License-Identifier: MIT
**
** lib_store.c -- see lib_store.h.
*/
#include "lib_store.h"
#include "layout_help.h"

#include "engine/emb.h"
#include "engine/table/owner/registry.h"
#include "env_memory.h"

static const char dir[] = "/store";

static const emb_config config = {.dim = FUZZ_DIM,
                                  .flags = EMB_OPEN_STEP,
                                  .io = EMB_IO_PREAD,
                                  .memory_bytes = 1,
                                  .timeout_ms = 10};

/* ---- the stores ---------------------------------------------------------- */

static int64_t keys[FUZZ_KEYS];
static float vectors[FUZZ_KEYS * FUZZ_DIM];

static void fill(int64_t first, size_t n, float value) {
  for (size_t i = 0; i < n; i++)
    keys[i] = first + (int64_t)i;
  for (size_t i = 0; i < n * FUZZ_DIM; i++)
    vectors[i] = value + (float)(i % 16);
}

static void put(emb_session *s, int64_t first, size_t n, float value) {
  fill(first, n, value);
  FUZZ_CHECK(emb_put(s, keys, n, vectors, NULL) == EMB_OK);
}

static void put_in_txn(emb_session *s, int64_t first, size_t n, float value) {
  fill(first, n, value);
  FUZZ_CHECK(emb_txn_put(s, keys, n, vectors) == EMB_OK);
}

/* Every kind of page. */
static void write_all(emb_session *s, int which) {
  uint64_t number;
  put(s, 0, 200, 1);
  FUZZ_CHECK(emb_checkpoint(s) == EMB_OK);
  FUZZ_CHECK(emb_begin(s) == EMB_OK);
  put_in_txn(s, 100, 100, 2);
  FUZZ_CHECK(emb_savepoint(s, 0) == EMB_OK);
  put_in_txn(s, 150, 100, 3);
  FUZZ_CHECK(emb_rollback_to(s, 0) == EMB_OK);
  fill(10, 5, 0);
  FUZZ_CHECK(emb_txn_delete(s, keys, 5, NULL) == EMB_OK);
  FUZZ_CHECK(emb_prepare(s, &number) == EMB_OK && emb_commit(s) == EMB_OK);
  FUZZ_CHECK(emb_begin(s) == EMB_OK);
  put_in_txn(s, 200, 50, 4);
  FUZZ_CHECK(emb_prepare(s, &number) == EMB_OK);
  emb_rollback(s);
  fill(20, 20, 0);
  FUZZ_CHECK(emb_delete(s, keys, 20, NULL) == EMB_OK);
  FUZZ_CHECK(emb_begin(s) == EMB_OK);
  put_in_txn(s, 250, 40, 5);
  FUZZ_CHECK(emb_prepare(s, &number) == EMB_OK);
  if (which != FUZZ_IN_DOUBT)
    FUZZ_CHECK(emb_commit(s) == EMB_OK);
}

static void take_file(void *arg, const char *name) {
  struct files *files = arg;
  struct file *file = &files->list[files->n++];
  char path[100];
  const char *bytes;
  FUZZ_CHECK(files->n <= FILES_MAX);
  (void)snprintf(file->name, sizeof file->name, "%s", name);
  (void)snprintf(path, sizeof path, "%s/%s", dir, name);
  bytes = env_memory_read(path, &file->size);
  file->bytes = malloc(file->size + 1);
  FUZZ_CHECK(file->bytes);
  memcpy(file->bytes, bytes, file->size);
}

static void make(struct fuzz_store *store, int which) {
  emb_config c = config;
  emb_store *emb;
  emb_session *s;
  emb_err err;
  c.flags |= EMB_OPEN_CREATE;
  env_set_default(env_memory());
  FUZZ_CHECK(emb_open(dir, &c, &emb, &err) == EMB_OK &&
             emb_session_open(emb, &s, &err) == EMB_OK);
  write_all(s, which);
  if (which != FUZZ_CLOSED)
    env_memory_list(dir, take_file, &store->files);
  emb_session_close(s);
  FUZZ_CHECK(emb_close(emb, &err) == EMB_OK);
  if (which == FUZZ_CLOSED)
    env_memory_list(dir, take_file, &store->files);
  env_memory_clear();
  layout_plain(&store->layout, FUZZ_DIM, EMB_F32);
  store->page_count = files_pages(
      files_find(&store->files, "log"), &store->layout,
      hash_salt(files_manifest(&store->files)->uuid), store->pages, FUZZ_PAGES);
  FUZZ_CHECK(store->page_count > 10);
}

struct fuzz_store *fuzz_store_copy(int which) {
  static struct fuzz_store stores[FUZZ_STORES], copies[FUZZ_STORES];
  struct fuzz_store *store = &stores[which], *copy = &copies[which];
  struct files files = copy->files;
  if (store->page_count == 0) {
    make(store, which);
    FUZZ_CHECK(files_copy(&files, &store->files));
  }
  *copy = *store;
  for (size_t i = 0; i < files.n; i++) {
    struct file *file = &copy->files.list[i];
    file->bytes = files.list[i].bytes;
    memcpy(file->bytes, store->files.list[i].bytes, file->size);
  }
  return copy;
}

/* ---- checksums ----------------------------------------------------------- */

static void seal(char *bytes, size_t size, uint64_t salt, uint64_t position) {
  uint64_t sum = hash_sum(bytes + 8, size - 8, salt, position);
  memcpy(bytes, &sum, sizeof sum);
}

static void seal_log(struct fuzz_store *store, uint64_t salt) {
  struct file *log = files_find(&store->files, "log");
  if (log && log->size >= LOG_FILE_HEAD)
    seal(log->bytes, LOG_FILE_HEAD, 0, 0);
  for (size_t i = 0; log && i < store->page_count; i++)
    if (store->pages[i].offset + store->layout.page_bytes <= log->size)
      seal(log->bytes + store->pages[i].offset, store->layout.page_bytes, salt,
           store->pages[i].number);
}

void fuzz_store_seal(struct fuzz_store *store) {
  struct file *manifest = files_find(&store->files, "manifest");
  struct file *index = files_find(&store->files, "index-0");
  struct manifest *m;
  if (manifest)
    for (size_t at = 0; at + MANIFEST_SLOT <= manifest->size;
         at += MANIFEST_SLOT)
      seal(manifest->bytes + at, MANIFEST_SLOT, 0, 0);
  m = files_manifest(&store->files);
  if (m == NULL)
    return;
  uint64_t salt = hash_salt(m->uuid);
  seal_log(store, salt);
  for (size_t at = 0; index && at + 65536 <= index->size; at += 65536)
    seal(index->bytes + at, 65536, salt + m->index_generation, at / 65536);
}

/* ---- use ----------------------------------------------------------------- */

static void no_report(void *arg, const char *line) {
  FUZZ_CHECK(line && line[0]);
  ++*(unsigned *)arg;
}

/* Every error has a known code and a text. */
static int good(const emb_session *s, int rc) {
  FUZZ_CHECK(rc >= EMB_OK && rc <= EMB_ABORT);
  FUZZ_CHECK(rc == EMB_OK || emb_errmsg(s)[0]);
  return rc == EMB_OK;
}

static void scan(emb_session *s, int order) {
  emb_scan *scan = NULL;
  int64_t got[32];
  static float rows[32 * 2048];
  size_t n = 1, all = 0;
  float *to = emb_dim(emb_session_store(s)) <= 2048 ? rows : NULL;
  if (!good(s, emb_scan_open(s, INT64_MIN, INT64_MAX, order, &scan)))
    return;
  while (n && good(s, emb_scan_next(scan, 32, got, to, NULL, &n)))
    FUZZ_CHECK(n <= 32 && (all += n) < 1000000);
  emb_scan_close(scan);
}

/* Searches, comparing in place and in a block. */
static void nearest(emb_session *s) {
  static float queries[5 * EMB_DIM_MAX] = {1};
  int64_t got[5 * 3];
  double distances[5 * 3];
  size_t counts[5];
  (void)good(
      s, emb_nearest(s, queries, 1, 3, NULL,
                     &(emb_neighbours){got, distances, counts, NULL, NULL}));
  if (good(s,
           emb_nearest(s, queries, 5, 3, NULL,
                       &(emb_neighbours){got, distances, counts, NULL, NULL})))
    for (int i = 0; i < 5; i++)
      FUZZ_CHECK(counts[i] <= 3);
}

static void read_all(emb_session *s) {
  static float rows[FUZZ_KEYS * FUZZ_DIM];
  uint8_t found[FUZZ_KEYS];
  unsigned lines = 0;
  uint64_t number;
  for (int64_t i = 0; i < FUZZ_KEYS; i++)
    keys[i] = i;
  if (emb_dim(emb_session_store(s)) == FUZZ_DIM &&
      !good(s, emb_get(s, keys, FUZZ_KEYS, rows, found, NULL)))
    for (size_t i = 0; i < FUZZ_KEYS; i += 7)
      (void)good(s, emb_peek(s, &keys[i], 1, rows, found, &number));
  scan(s, EMB_SCAN_ANY);
  scan(s, EMB_SCAN_ASC);
  scan(s, EMB_SCAN_KEYS);
  nearest(s);
  (void)good(s, emb_verify(s, no_report, &lines));
}

static void write_some(emb_session *s) {
  static float row[EMB_DIM_MAX];
  int64_t key = 5, absent = 7777;
  uint64_t number;
  (void)good(s, emb_put(s, &key, 1, row, NULL));
  (void)good(s, emb_rmw(s, &key, 1, row, NULL, NULL));
  (void)good(s, emb_put(s, &absent, 1, row, NULL));
  (void)good(s, emb_delete(s, &key, 1, NULL));
  if (good(s, emb_begin(s))) {
    (void)good(s, emb_txn_put(s, &key, 1, row));
    (void)good(s, emb_prepare(s, &number));
    if (!good(s, emb_commit(s)))
      emb_rollback(s);
  }
  (void)good(s, emb_checkpoint(s));
}

static int use_once(unsigned how) {
  emb_config c = config;
  emb_store *store = NULL;
  emb_session *s = NULL;
  emb_err err = {0, ""};
  int more = 1;
  c.dim = 0;
  c.flags |= how & 1 ? EMB_OPEN_READONLY : 0;
  int rc = emb_open(dir, &c, &store, &err);
  FUZZ_CHECK(rc >= EMB_OK && rc <= EMB_ABORT && (rc == EMB_OK || err.text[0]));
  if (rc || emb_session_open(store, &s, &err)) {
    if (store)
      (void)emb_close(store, &err);
    return 0;
  }
  if (emb_in_doubt(store))
    (void)emb_resolve(store, emb_in_doubt(store), (how & 4) != 0, &err);
  read_all(s);
  if (how & 2)
    write_some(s);
  if (how & 8)
    (void)good(s, emb_optimize(s));
  for (int i = 0; i < 4 && more && emb_step(store, &more) == EMB_OK; i++) {
  }
  emb_session_close(s);
  return emb_close(store, &err) == EMB_OK;
}

void fuzz_store_use(const struct fuzz_store *store, unsigned how) {
  char path[100];
  for (size_t i = 0; i < store->files.n; i++) {
    const struct file *file = &store->files.list[i];
    (void)snprintf(path, sizeof path, "%s/%s", dir, file->name);
    FUZZ_CHECK(env_memory_write(path, file->bytes, file->size));
  }
  if (use_once(how))
    (void)use_once(0);
  FUZZ_CHECK(env_memory_held() == 0);
  env_memory_clear();
}
