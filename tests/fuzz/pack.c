/* SPDX-License-Identifier: MIT
**
** pack.c -- fuzzes the reader of files of rows (engine/storage/pack), and the
** readers of their values (engine/storage/schema/form, emb_file_*).
**
** A small file is made, changed, and read in every way: it gives an error
** that names it, or data that a legal file could hold.
**
** INPUT     byte 0  bits 0-1: how it is compressed and quantised; 2: with an
**                   index; 3: all checksums are made right after the changes;
**                   4: it is truncated by the number in the next two bytes;
**                   5: with texts, and then without an index
**           then    changes of 4 bytes: where (2; the high bits select the
**                   part), kind of change (1), the value (1)
*/
#include "engine/storage/pack/emb_file.h"
#include "fuzz.h"

#include "engine/storage/schema/form.h"
#include "engine/storage/pack/block.h"
#include "engine/table/owner/registry.h"
#include "env_memory.h"

enum { ROWS = 200, BLOCKS = 16 };

/* A file of each form; made at its first use, because making it takes longer
** than reading it. */
struct made {
  char *file;
  size_t size;
  uint64_t at[BLOCKS], blocks; /* of rows */
};
static struct made made[16]; /* those with texts last */

static struct pack_head head;
static struct schema schema;
static struct form form;
static char *file; /* the file that is changed */
static size_t size;
static const uint64_t *at;
static uint64_t blocks;

/* A text for each row: empty, a few bytes, or more than a block. */
static void add_texts(struct pack_writer *w) {
  static char bytes[2 * PACK_TEXTS_BYTES];
  emb_err err;
  for (int i = 0; i < ROWS; i++) {
    struct pack_text text = {bytes, i == 50 ? sizeof bytes : (size_t)i % 40};
    memset(bytes, 'a' + i % 26, sizeof bytes);
    FUZZ_CHECK(pack_add_text(w, &text, &err) == EMB_OK);
  }
}

static int by_hash(const void *a, const void *b) {
  uint64_t x = hash_key(*(const int64_t *)a), y = hash_key(*(const int64_t *)b);
  return x < y ? -1 : x > y;
}

/* Rows of 64 floats, so that there are several blocks. */
static void make_file(struct made *m, unsigned how) {
  emb_config config = {.dim = 400, .optimizer = "sgd", .track = EMB_TRACK_WALL};
  static char value[4096], row[4096];
  static float vector[400], scratch[400];
  static int64_t keys[ROWS];
  struct pack_writer *w;
  emb_err err;
  const struct pack_options options = {.encoding = how & 3, .state = 1};
  memset(&head, 0, sizeof head);
  FUZZ_CHECK(schema_init(&schema, &config, &err) == EMB_OK);
  FUZZ_CHECK(form_write(&form, &schema, vec_best(), &options, &head, &err) ==
             EMB_OK);
  head.kind = PACK_SNAPSHOT;
  int texts = (how & 32) != 0, index = (how & 4) && !texts;
  head.flags |= index ? PACK_INDEX : texts ? PACK_TEXTS : 0u;
  FUZZ_CHECK(pack_create(env_memory(), "/m/f", &head, how & 3 ? 1 : 0, &w,
                         &err) == EMB_OK);
  for (int i = 0; i < ROWS; i++) {
    keys[i] = i * 31;
    for (int k = 0; k < 400; k++)
      vector[k] = (float)((i * 7 + k) % 100) / 8;
    memset(value, 0, sizeof value);
    schema_encode(&schema, vec_best(), value, vector, 0);
    FUZZ_CHECK(form_encode(&form, value, row, scratch) == EMB_OK);
    struct pack_row one = {keys[i], 5, !index && i % 9 == 0, row};
    FUZZ_CHECK(pack_add(w, &one, &err) == EMB_OK);
  }
  qsort(keys, ROWS, sizeof *keys, by_hash);
  if (texts)
    add_texts(w);
  for (int i = 0; index && i < ROWS; i++)
    FUZZ_CHECK(pack_add_entry(w, keys[i], (uint64_t)keys[i] / 31, &err) ==
               EMB_OK);
  FUZZ_CHECK(pack_finish(w, NULL, &err) == EMB_OK);
  const char *bytes = env_memory_read("/m/f", &m->size);
  m->file = malloc(m->size);
  memcpy(m->file, bytes, m->size);
  struct pack_end end;
  memcpy(&end, m->file + m->size - sizeof end, sizeof end);
  m->blocks = end.row_blocks < BLOCKS ? end.row_blocks : BLOCKS;
  memcpy(m->at, m->file + end.directory_offset + sizeof(struct pack_block),
         m->blocks * 8);
  env_memory_clear();
}

static void copy_file(unsigned how) {
  struct made *m = &made[(how & 7) + (how & 32 ? 8 : 0)];
  if (m->file == NULL)
    make_file(m, how);
  free(file);
  file = malloc(m->size);
  memcpy(file, m->file, m->size);
  size = m->size;
  at = m->at;
  blocks = m->blocks;
}

/* ---- damage -------------------------------------------------------------- */

static void change(struct fuzz_input *in) {
  uint64_t where = fuzz_bytes(in, 2), n = where & 0x1fff;
  unsigned how = fuzz_byte(in), value = fuzz_byte(in);
  size_t from = where >> 13 < 2   ? 0 /* the head */
                : where >> 13 < 4 ? at[n % blocks]
                : where >> 13 < 6 ? size - PACK_END_BYTES
                                  : size - n % size - 1;
  size_t room = where >> 13 < 2   ? sizeof(struct pack_head)
                : where >> 13 < 4 ? 200
                : where >> 13 < 6 ? PACK_END_BYTES
                                  : 1;
  size_t place = from + (where >> 13 < 4 && where >> 13 > 1 ? n / 8 : n) % room;
  file[place] = (char)(how & 1   ? file[place] ^ (1 << value % 8)
                       : how & 2 ? file[place] + (how & 4 ? 1 : -1)
                                 : (int)value);
}

static void sum_block(size_t from, uint64_t position) {
  struct pack_block block;
  uint64_t salt;
  memcpy(&salt, file, 8);
  memcpy(&block, file + from, sizeof block);
  if (block.stored_bytes <= size - from - sizeof block) {
    block.sum = block_sum(&block, file + from + sizeof block, salt, position);
    memcpy(file + from, &block.sum, 8);
  }
}

/* Makes the checksums of the head, the blocks of rows, and all later blocks. */
static void sum_all(void) {
  uint64_t sum = hash_sum(file + 8, sizeof(struct pack_head) - 8, 0, 0);
  memcpy(file, &sum, 8);
  for (uint64_t i = 0; i < blocks; i++)
    sum_block(at[i], i);
  struct pack_block last;
  memcpy(&last, file + at[blocks - 1], sizeof last);
  size_t next = at[blocks - 1] + sizeof last + last.stored_bytes;
  for (uint64_t i = blocks; next < size - PACK_END_BYTES; i++) {
    memcpy(&last, file + next, sizeof last);
    sum_block(next, i);
    if (last.stored_bytes > size)
      break;
    next += sizeof last + last.stored_bytes;
  }
  sum_block(size - PACK_END_BYTES, PACK_END_POSITION);
}

/* ---- reading ------------------------------------------------------------- */

static int is_told(int rc, const emb_err *err) {
  return rc == EMB_OK ||
         ((rc == EMB_CORRUPT || rc == EMB_NOTADB || rc == EMB_NOMEM) &&
          err->text[0] != 0);
}

static void read_pack(void) {
  struct pack_reader *r;
  const struct pack_row *row;
  struct pack_text text = {"", 0};
  emb_err err = {0, ""};
  int rc = pack_open(env_memory(), "/m/f", &r, &err);
  FUZZ_CHECK(is_told(rc, &err));
  if (rc != EMB_OK)
    return;
  rc = pack_verify(r, NULL, NULL, &err);
  FUZZ_CHECK(is_told(rc, &err));
  for (uint64_t i = 0; rc == EMB_OK && i < 20; i++) {
    pack_seek(r, i * 997 % ROWS);
    rc = pack_next(r, &row, &err);
    FUZZ_CHECK(is_told(rc, &err));
  }
  for (uint64_t n = 0; rc == EMB_OK && text.at; n++) {
    rc = pack_next_text(r, &text, &err);
    FUZZ_CHECK(is_told(rc, &err) && n <= 2 * ROWS);
  }
  pack_close(r);
}

static void read_file(void) {
  emb_file *f;
  emb_file_info info;
  emb_file_row row;
  emb_err err = {0, ""};
  int found = 1, rows = 0;
  int rc = emb_file_open("/m/f", &f, &err);
  FUZZ_CHECK(is_told(rc, &err));
  if (rc != EMB_OK)
    return;
  emb_file_about(f, &info);
  FUZZ_CHECK(info.dim >= 1 && info.dim <= EMB_DIM_MAX && info.rows >= 0);
  float *vector = malloc(info.dim * sizeof *vector);
  while (vector && rc == EMB_OK && found && rows++ < 2 * ROWS) {
    rc = emb_file_next(f, &row, vector, &found, &err);
    FUZZ_CHECK(is_told(rc, &err));
  }
  for (int64_t key = 0; vector && key < 40; key++) {
    rc = emb_file_get(f, key * 31 * 5, &row, vector, &found, &err);
    FUZZ_CHECK(is_told(rc, &err) && (!found || row.key == key * 31 * 5));
  }
  row = (emb_file_row){.text = "bbb", .text_bytes = 3};
  rc = vector ? emb_file_get_text(f, &row, vector, &found, &err) : EMB_OK;
  FUZZ_CHECK(is_told(rc, &err) && (rc || !found || row.text_bytes == 3));
  free(vector);
  emb_file_close(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length) {
  struct fuzz_input in = {data, length};
  unsigned how = fuzz_byte(&in);
  env_set_default(env_memory());
  copy_file(how);
  size_t cut = how & 16 ? fuzz_bytes(&in, 2) : 0;
  while (in.left >= 4)
    change(&in);
  if (how & 8)
    sum_all();
  FUZZ_CHECK(env_memory_write("/m/f", file, cut < size ? size - cut : 0));
  read_pack();
  read_file();
  FUZZ_CHECK(env_memory_held() == 0);
  env_memory_clear();
  return 0;
}
