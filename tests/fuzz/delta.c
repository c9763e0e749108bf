/* SPDX-License-Identifier: MIT
**
** delta.c -- fuzzes the data that a store reads about deltas: the file of a
** consumer, its own position, and the heads and rows of delta files, whose
** checksums are right.  (pack.c fuzzes the reader of the files themselves.)
**
** INPUT     byte 0  1: the position is changed; 2: and its checksum made right;
**                   4: the consumer's file is changed; 8: and its checksum
**                   made right; 16: the delta joins
**           then    number, beginning, end of the delta; a byte: 1: of another
**                   store, 2: without state, 4: no consumer's name; 8: of
**                   another consumer; 16: its rows have texts, and their keys
**                   are given; 32: they are given if they need not be, and not
**                   if they must
**           then    up to 8 rows: operation and key
**           then    changes: where (2), value (1)
*/
#include "engine/storage/pack/emb_file.h"
#include "lib_store.h"

#include "engine/storage/schema/form.h"
#include "engine/storage/consumer/consumer.h"
#include "engine/table/owner/registry.h"
#include "env_memory.h"

enum { DIM = 16, FILES = 12 };

static struct {
  char name[256];
  char *bytes;
  size_t size;
} files[FILES];
static size_t count;
static int64_t given[8]; /* of the rows of a file with texts */
static emb_file_keys given_keys;
static uint8_t source[16], own[16];
static const emb_config config = {
    .dim = DIM, .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP, .memory_bytes = 1};

static int open_store(const char *dir, emb_store **store, emb_session **s) {
  emb_err err;
  int rc = emb_open(dir, &config, store, &err);
  if (rc == EMB_OK)
    FUZZ_CHECK(emb_session_open(*store, s, &err) == EMB_OK);
  return rc;
}

static void put(emb_session *s, int64_t key, float value) {
  float vector[DIM];
  for (int i = 0; i < DIM; i++)
    vector[i] = value;
  FUZZ_CHECK(emb_put(s, &key, 1, vector, NULL) == EMB_OK);
}

static void keep(void *arg, const char *name) {
  char path[128];
  size_t size;
  (void)arg;
  (void)snprintf(path, sizeof path, "/m/b/%s", name);
  const char *bytes = env_memory_read(path, &size);
  FUZZ_CHECK(bytes != NULL && count < FILES);
  (void)snprintf(files[count].name, sizeof files[count].name, "%s", path);
  files[count].bytes = malloc(size ? size : 1);
  memcpy(files[count].bytes, bytes, size);
  files[count++].size = size;
}

/* A copy that has taken a delta, and has its own consumer. */
static void make(void) {
  emb_store *a, *b;
  emb_session *sa, *sb;
  emb_err err;
  uint8_t ops[32];
  int64_t keys[32];
  emb_delta *delta;
  size_t n = 1;
  FUZZ_CHECK(open_store("/m/a", &a, &sa) == EMB_OK);
  FUZZ_CHECK(open_store("/m/b", &b, &sb) == EMB_OK);
  for (int i = 0; i < 30; i++)
    put(sa, i * 3, (float)i);
  FUZZ_CHECK(emb_delta_export(sa, "c", "/m/d", NULL, NULL) == EMB_OK);
  FUZZ_CHECK(emb_delta_apply(sb, "/m/d", NULL, NULL) == EMB_OK);
  FUZZ_CHECK(emb_delta_open(sb, "d", &delta) == EMB_OK);
  while (n)
    FUZZ_CHECK(emb_delta_next(delta, 32, &(emb_rows){.keys = keys, .ops = ops},
                              &n) == EMB_OK);
  emb_delta_close(delta);
  FUZZ_CHECK(emb_delta_ack(sb, "d", 0) == EMB_OK);
  put(sb, 7, 1);
  emb_uuid(a, source);
  emb_uuid(b, own);
  emb_session_close(sa);
  emb_session_close(sb);
  FUZZ_CHECK(emb_close(a, &err) == EMB_OK && emb_close(b, &err) == EMB_OK);
  env_memory_list("/m/b", keep, NULL);
}

static void give_keys(size_t rows) {
  emb_file *file;
  emb_file_info info;
  emb_err err;
  FUZZ_CHECK(emb_file_open("/m/f", &file, &err) == EMB_OK);
  emb_file_about(file, &info);
  emb_file_close(file);
  given_keys = (emb_file_keys){info.id, given, rows};
}

/* The keys that are given with it, or NULL. */
static const emb_file_keys *write_delta(struct fuzz_input *in) {
  emb_config plain = {.dim = DIM};
  struct pack_head head = {.kind = PACK_DELTA};
  struct schema schema;
  struct form form;
  struct pack_writer *w;
  char value[DIM * 4] = {0}, row[DIM * 4 + 8];
  float scratch[DIM];
  emb_err err;
  head.number = fuzz_number(in);
  head.base.page = head.base.id = fuzz_number(in);
  head.end.page = head.end.id = fuzz_number(in);
  uint8_t how = fuzz_byte(in);
  memcpy(head.uuid, how & 1 ? own : source, sizeof head.uuid);
  memcpy(head.name, how & 4 ? "" : how & 8 ? "x" : "c", 1);
  FUZZ_CHECK(schema_init(&schema, &plain, &err) == EMB_OK);
  const struct pack_options options = {.state = !(how & 2)};
  FUZZ_CHECK(form_write(&form, &schema, vec_best(), &options, &head, &err) ==
             EMB_OK);
  head.flags |= how & 16 ? PACK_TEXTS : 0u;
  FUZZ_CHECK(pack_create(env_memory(), "/m/f", &head, 0, &w, &err) == EMB_OK);
  size_t rows = fuzz_byte(in) % 8;
  for (size_t i = 0; i < rows; i++) {
    struct pack_row one = {.version = 3, .op = fuzz_byte(in) % PACK_OPS};
    one.key = given[i] = (int64_t)fuzz_number(in);
    FUZZ_CHECK(form_encode(&form, value, row, scratch) == EMB_OK);
    one.value = one.op == PACK_PUT ? row : NULL;
    FUZZ_CHECK(pack_add(w, &one, &err) == EMB_OK);
  }
  for (size_t i = 0; how & 16 && i < rows; i++)
    FUZZ_CHECK(pack_add_text(w, &(struct pack_text){&"abcdefgh"[i], i % 3},
                             &err) == EMB_OK);
  FUZZ_CHECK(pack_finish(w, NULL, &err) == EMB_OK);
  give_keys(rows);
  return !(how & 16) == !(how & 32) ? NULL : &given_keys;
}

static void change(struct fuzz_input *in, char *bytes, size_t n) {
  for (int rounds = 1 + fuzz_byte(in) % 8; rounds > 0; rounds--) {
    size_t at = (size_t)fuzz_bytes(in, 2) % n;
    bytes[at] = (char)fuzz_byte(in);
  }
}

static void seal(char *bytes, size_t n, uint64_t position) {
  uint64_t salt = hash_salt(own);
  uint64_t sum = hash_sum(bytes + 8, n - 8, salt, position);
  memcpy(bytes, &sum, sizeof sum);
}

static void write_files(struct fuzz_input *in, unsigned how) {
  static char copy[4096];
  for (size_t i = 0; i < count; i++) {
    size_t n = files[i].size;
    int position = strstr(files[i].name, POSITION_FILE) != NULL;
    int consumer = strstr(files[i].name, CONSUMER_PREFIX) != NULL;
    if ((position && how & 1) || (consumer && how & 4)) {
      FUZZ_CHECK(n <= sizeof copy);
      memcpy(copy, files[i].bytes, n);
      change(in, copy, n);
      uint64_t number = 0;
      memcpy(&number, copy + 40, consumer ? sizeof number : 0);
      if (how & (position ? 2u : 8u))
        seal(copy, n, number);
      FUZZ_CHECK(env_memory_write(files[i].name, copy, n));
    } else {
      FUZZ_CHECK(env_memory_write(files[i].name, files[i].bytes, n));
    }
  }
}

static void use_consumer(emb_session *s) {
  emb_delta *delta;
  uint8_t ops[32];
  int64_t keys[32];
  size_t n = 1;
  int rc = emb_delta_open(s, "d", &delta);
  FUZZ_CHECK(rc == EMB_OK || rc == EMB_GAP || rc == EMB_RANGE ||
             rc == EMB_CORRUPT);
  if (rc)
    return;
  for (int turns = 0; rc == EMB_OK && n > 0; turns++) {
    rc = emb_delta_next(delta, 32, &(emb_rows){.keys = keys, .ops = ops}, &n);
    FUZZ_CHECK(turns < 1000);
  }
  FUZZ_CHECK(rc == EMB_OK || rc == EMB_GAP || rc == EMB_RANGE ||
             rc == EMB_CORRUPT);
  emb_delta_close(delta);
  if (rc == EMB_OK) {
    rc = emb_delta_ack(s, "d", 0);
    FUZZ_CHECK(rc == EMB_OK || rc == EMB_GAP || rc == EMB_RANGE ||
               rc == EMB_CORRUPT);
  }
}

static void ignore(void *arg, const char *text) {
  (void)arg;
  (void)text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_input in = {data, size};
  unsigned how = fuzz_byte(&in);
  emb_delta_options options = {.join = (how & 16) != 0};
  emb_store *b;
  emb_session *s;
  emb_err err;
  emb_delta_file about;
  env_set_default(env_memory());
  env_memory_clear();
  if (count == 0)
    make();
  env_memory_clear();
  options.keys = write_delta(&in);
  write_files(&in, how);
  int rc = open_store("/m/b", &b, &s);
  FUZZ_CHECK(rc == EMB_OK);
  int64_t before = emb_count(s);
  rc = emb_delta_apply(s, "/m/f", &options, &about);
  FUZZ_CHECK(rc == EMB_OK || rc == EMB_GAP || rc == EMB_MISMATCH ||
             rc == EMB_CORRUPT);
  FUZZ_CHECK(rc == EMB_OK || emb_errmsg(s)[0]);
  if (rc != EMB_OK || !about.applied)
    FUZZ_CHECK(emb_count(s) == before);
  else
    FUZZ_CHECK(emb_delta_apply(s, "/m/f",
                               &(emb_delta_options){.keys = options.keys},
                               &about) == EMB_OK &&
               !about.applied);
  use_consumer(s);
  put(s, 11, 2);
  FUZZ_CHECK(emb_verify(s, ignore, NULL) == EMB_OK);
  emb_session_close(s);
  FUZZ_CHECK(emb_close(b, &err) == EMB_OK);
  env_set_default(&env_posix);
  return 0;
}
