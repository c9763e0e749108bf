/* SPDX-License-Identifier: MIT
**
** samples.c -- fuzzes files of samples (engine/data/dataset): any bytes are
** surveyed as any format, and if the survey finds records, all of them can be
** found, read and split, and no byte outside the file is read.
**
** A separate parser that follows the grammar field by field counts the CSV
** records and compares their labels.
**
** INPUT     byte 0  bits 0-1: the format; 2: with a label; 3: with a timestamp;
**                   4: big-endian; 5: the file is changed before it is read
**           byte 1  bits 0-3: where the label is; 4-7: the timestamp
**           byte 2  bits 0-3: header; 4-7: bytes of a record, of a length
**           byte 3  of an index: how many of the next bytes
**           then    the index, and the file
*/
#include "fuzz.h"

#include "engine/emb.h"
#include "engine/data/emb_data.h"
#include "engine/table/owner/registry.h"
#include "env_memory.h"

enum { RECORDS = 4096 };

static struct {
  uint64_t offsets[RECORDS + 1];
  uint64_t n;
  int64_t least, most;
} seen;

static emb_samples_format format;

static int take_block(void *arg, const emb_samples_block *block) {
  const emb_samples_found *found = arg;
  uint64_t offsets[EMB_SAMPLES_BLOCK + 1];
  emb_err err;
  FUZZ_CHECK(block->records >= 1 && block->records <= EMB_SAMPLES_BLOCK);
  FUZZ_CHECK(block->number == seen.n / EMB_SAMPLES_BLOCK);
  FUZZ_CHECK(block->least <= block->most);
  if (block->spans) {
    FUZZ_CHECK(emb_samples_offsets(block, found->bytes, offsets, &err) ==
               EMB_OK);
    for (uint32_t i = 0; i <= block->records && seen.n + i <= RECORDS; i++)
      seen.offsets[seen.n + i] = offsets[i];
  }
  seen.n += block->records;
  return 0;
}

static void make_format(struct fuzz_input *in) {
  unsigned how = fuzz_byte(in), at = fuzz_byte(in), size = fuzz_byte(in);
  memset(&format, 0, sizeof format);
  format.kind = EMB_SAMPLES_FIXED + how % 4;
  format.big_endian = how >> 4 & 1;
  format.separator = ',';
  format.header = size % 16;
  format.record = (size >> 4) + 1;
  format.prefix = size >> 4;
  if (how & 4)
    format.label = (emb_samples_field){EMB_SAMPLES_UINT + at % 2, 1, at % 16};
  if (how & 8)
    format.timestamp = (emb_samples_field){EMB_SAMPLES_INT, 2, at >> 4};
  if (format.kind == EMB_SAMPLES_CSV)
    format.header %= 2;
}

/* ---- CSV, a second time -------------------------------------------------- */

struct text {
  const uint8_t *at, *end;
};

/* Reads the next field; `to` gets its content, without doubled quotes. */
static size_t text_field(struct text *t, char *to) {
  size_t n = 0;
  if (t->at < t->end && *t->at == '"') {
    for (t->at++; t->at < t->end; t->at++) {
      if (*t->at == '"' && (t->at + 1 == t->end || t->at[1] != '"')) {
        t->at++;
        break;
      }
      t->at += *t->at == '"';
      to[n++] = (char)*t->at;
    }
    return n;
  }
  while (t->at < t->end && *t->at != ',' && *t->at != '\n' &&
         !(*t->at == '\r' && (t->at + 1 == t->end || t->at[1] == '\n')))
    to[n++] = (char)*t->at++;
  return n;
}

static void text_line_end(struct text *t) {
  t->at += t->at < t->end && *t->at == '\r';
  t->at += t->at < t->end && *t->at == '\n';
}

/* Reads the next record that is not empty, and the size of its column, or
** SIZE_MAX; 0: there is none. */
static int text_record(struct text *t, uint64_t column, char *label,
                       size_t *size) {
  static char other[1 << 16];
  while (t->at < t->end &&
         (*t->at == '\n' ||
          (*t->at == '\r' && t->at + 1 < t->end && t->at[1] == '\n')))
    text_line_end(t);
  if (t->at == t->end || (*t->at == '\r' && t->at + 1 == t->end))
    return 0;
  *size = SIZE_MAX;
  for (uint64_t i = 0;; i++) {
    size_t n = text_field(t, i == column ? label : other);
    *size = i == column ? n : *size;
    if (t->at == t->end || *t->at != ',')
      break;
    t->at++;
  }
  text_line_end(t);
  return 1;
}

static void check_label(const emb_samples_sample *sample, const char *label,
                        size_t size) {
  static char unquoted[1 << 16];
  size_t n = sample->label_part.bytes;
  memcpy(unquoted, sample->label_part.at, n);
  if (sample->label_quoted)
    n = emb_samples_unquote(&sample->label_part, unquoted);
  FUZZ_CHECK(n == size && memcmp(unquoted, label, n) == 0);
}

/* ---- reading ------------------------------------------------------------- */

static void check_sample(const uint8_t *record, size_t bytes,
                         struct text *text) {
  static char label[1 << 16];
  emb_samples_sample sample;
  emb_err err;
  size_t all = 0, size;
  FUZZ_CHECK(emb_samples_split(&format, record, bytes, &sample, &err) ==
             EMB_OK);
  FUZZ_CHECK(sample.parts <= 3);
  for (uint32_t i = 0; i < sample.parts; i++) {
    FUZZ_CHECK(sample.payload[i].at >= record &&
               sample.payload[i].at + sample.payload[i].bytes <=
                   record + bytes);
    all += sample.payload[i].bytes;
  }
  FUZZ_CHECK(all <= bytes);
  if (format.timestamp.type)
    FUZZ_CHECK(sample.timestamp >= seen.least && sample.timestamp <= seen.most);
  if (format.kind == EMB_SAMPLES_FIXED)
    FUZZ_CHECK(all == format.record - (format.label.type ? 1 : 0) -
                          (format.timestamp.type ? 2 : 0));
  if (format.kind == EMB_SAMPLES_CSV) {
    FUZZ_CHECK(text_record(text, format.label.at, label, &size));
    if (format.label.type)
      check_label(&sample, label, size);
  }
}

static void read_all(const emb_samples_found *found, const uint8_t *bytes,
                     int is_changed) {
  emb_samples_file file = {"/m/f", 1, found->bytes, found->changed_ns,
                           found->sum};
  struct text text = {bytes, bytes + found->bytes};
  emb_samples_reader *reader;
  emb_samples_batch *batch;
  emb_err err = {0, ""};
  int added = 1, rc;
  FUZZ_CHECK(emb_samples_open(0, &reader, &err) == EMB_OK);
  FUZZ_CHECK(emb_samples_batch_new(reader, 65536, &batch, &err) == EMB_OK);
  size_t n = found->records < RECORDS ? (size_t)found->records : RECORDS;
  uint64_t record = format.record;
  rc = EMB_OK;
  size_t i = 0;
  for (; rc == EMB_OK && added && i < n; i++) {
    uint64_t offset = format.kind == EMB_SAMPLES_FIXED
                          ? format.header + i * record
                          : seen.offsets[i];
    rc = emb_samples_batch_add(batch, &file, offset,
                               format.kind == EMB_SAMPLES_FIXED
                                   ? record
                                   : seen.offsets[i + 1] - offset,
                               &added, &err);
  }
  n = added ? i : i - 1;
  rc = rc ? rc : emb_samples_batch_wait(batch, &err);
  FUZZ_CHECK(rc == EMB_OK || (is_changed && err.text[0]));
  if (format.kind == EMB_SAMPLES_CSV) {
    size_t size;
    static char label[1 << 16];
    text.at +=
        found->bytes >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    if (format.header)
      text_record(&text, 0, label, &size);
  }
  for (i = 0; rc == EMB_OK && i < n; i++) {
    size_t size;
    const uint8_t *at = emb_samples_batch_record(batch, i, &size);
    check_sample(at, size, &text);
  }
  if (format.kind == EMB_SAMPLES_CSV && rc == EMB_OK && n == found->records) {
    static char label[1 << 16];
    size_t size;
    FUZZ_CHECK(!text_record(&text, 0, label, &size));
  }
  emb_samples_batch_free(batch);
  emb_samples_close(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_input in = {data, size};
  emb_samples_found found;
  emb_err err = {0, ""};
  if (size > 60000)
    return 0;
  unsigned how = size ? data[0] : 0;
  env_set_default(env_memory());
  make_format(&in);
  size_t index = fuzz_byte(&in);
  index = index < in.left ? index : in.left;
  FUZZ_CHECK(env_memory_write("/m/i", in.at, index));
  const uint8_t *bytes = in.at + index;
  size_t left = in.left - index;
  FUZZ_CHECK(env_memory_write("/m/f", bytes, left));
  memset(&seen, 0, sizeof seen);
  emb_samples_ask ask = {.path = "/m/f",
                         .index = "/m/i",
                         .format = &format,
                         .block = take_block,
                         .arg = &found};
  int rc = emb_samples_survey(&ask, &found, &err);
  FUZZ_CHECK(rc == EMB_OK ||
             ((rc == EMB_MISMATCH || rc == EMB_RANGE || rc == EMB_NOMEM) &&
              err.text[0]));
  if (rc == EMB_OK) {
    int is_changed = (how & 32) && left > 0;
    seen.least = found.least;
    seen.most = found.most;
    if (is_changed)
      env_memory_write("/m/f", bytes, left / 2);
    read_all(&found, bytes, is_changed);
  }
  FUZZ_CHECK(env_memory_held() == 0);
  env_memory_clear();
  return 0;
}
