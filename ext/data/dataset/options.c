/* SPDX-License-Identifier: MIT
**
** options.c -- options for a file's format: in CREATE VIRTUAL TABLE for all
** files of a table, and for one file when it is registered.
**
** ext_samples_options_finish fills in defaults that need all options: a label
** that has a place, for example, is an unsigned number of one byte.
*/
#include "engine/data/emb_data.h"
#include "samples.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

enum {
  SAMPLES_OPTION_FORMAT,
  SAMPLES_OPTION_RECORD,
  SAMPLES_OPTION_HEADER,
  SAMPLES_OPTION_PREFIX,
  SAMPLES_OPTION_INDEX,
  SAMPLES_OPTION_SEPARATOR,
  SAMPLES_OPTION_BYTEORDER,
  SAMPLES_OPTION_LABEL_OFFSET,
  SAMPLES_OPTION_LABEL_SIZE,
  SAMPLES_OPTION_LABEL_TYPE,
  SAMPLES_OPTION_LABEL_COLUMN,
  SAMPLES_OPTION_TIMESTAMP_OFFSET,
  SAMPLES_OPTION_TIMESTAMP_SIZE,
  SAMPLES_OPTION_TIMESTAMP_TYPE,
  SAMPLES_OPTION_TIMESTAMP_COLUMN,
  SAMPLES_OPTION_IO,
  SAMPLES_OPTIONS
};
static const char *const samples_option_names[SAMPLES_OPTIONS] = {
    "format",         "record",         "header",           "prefix",
    "index",          "separator",      "byteorder",        "label_offset",
    "label_size",     "label_type",     "label_column",     "timestamp_offset",
    "timestamp_size", "timestamp_type", "timestamp_column", "io"};

static const char *const format_words[] = {"fixed", "framed", "indexed", "csv",
                                           NULL};
static const char *const order_words[] = {"little", "big", NULL};
static const char *const type_words[] = {"none",  "uint",  "int",
                                         "float", "bytes", NULL};
static const char *const io_words[] = {"direct", "cached", NULL};

/* The column of a name that is not known yet; each name has its own number. */
#define COLUMN_LATER 2000000u

/* The type of a field that is there, but whose type was not given. */
#define TYPE_LATER 100u

void ext_samples_options_init(struct ext_samples_options *options) {
  memset(options, 0, sizeof *options);
  options->format.separator = ',';
  options->format.prefix = 4;
}

void ext_samples_options_clear(struct ext_samples_options *options) {
  sqlite3_free(options->index);
  sqlite3_free(options->label_name);
  sqlite3_free(options->timestamp_name);
  memset(options, 0, sizeof *options);
}

static int samples_copy_text(char **to, const char *from) {
  *to = from ? sqlite3_mprintf("%s", from) : NULL;
  return from && *to == NULL ? SQLITE_NOMEM : SQLITE_OK;
}

int ext_samples_options_copy(struct ext_samples_options *to,
                             const struct ext_samples_options *from) {
  int rc;
  *to = *from;
  to->index = to->label_name = to->timestamp_name = NULL;
  rc = samples_copy_text(&to->index, from->index);
  if (rc == SQLITE_OK)
    rc = samples_copy_text(&to->label_name, from->label_name);
  if (rc == SQLITE_OK)
    rc = samples_copy_text(&to->timestamp_name, from->timestamp_name);
  return rc;
}

/* ---- one option ---------------------------------------------------------- */

static int samples_option_word(const char *const *words, const char *name,
                               const char *value, uint32_t *to, char **err) {
  struct near near;
  near_start(&near, value, strlen(value));
  for (uint32_t i = 0; words[i]; i++) {
    if (near_is(words[i], value)) {
      *to = i;
      return SQLITE_OK;
    }
    near_offer(&near, words[i]);
  }
  return ext_error(err, SQLITE_ERROR, "unknown %s: %s%s", name, value,
                   near_text(&near));
}

static int samples_option_bytes(const char *name, const char *value,
                                uint64_t most, uint64_t *to, char **err) {
  const char *at = value;
  return unit_size(&at, to) && *at == 0 && *to <= most
             ? SQLITE_OK
             : ext_error(err, SQLITE_ERROR,
                         "%s must be a number of bytes from 0 to %llu, or a "
                         "size like '4KiB', got %s",
                         name, (unsigned long long)most, value);
}

/* Bytes, or records of CSV, which have no unit. */
static int samples_option_header(struct ext_samples_options *options,
                                 const char *value, char **err) {
  uint64_t plain;
  options->header_has_unit = !text_whole(value, 0, INT64_MAX, &plain);
  return samples_option_bytes("header", value, INT64_MAX,
                              &options->format.header, err);
}

static int samples_option_separator(const char *value, uint32_t *to,
                                    char **err) {
  static const struct {
    const char *word;
    char separator;
  } words[] = {{"comma", ','},
               {"semicolon", ';'},
               {"tab", '\t'},
               {"pipe", '|'},
               {"space", ' '}};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    if (near_is(words[i].word, value)) {
      *to = (uint32_t)words[i].separator;
      return SQLITE_OK;
    }
  if (strlen(value) != 1 || (value[0] & 0x80))
    return ext_error(err, SQLITE_ERROR,
                     "separator must be one character of ASCII, or comma, "
                     "semicolon, tab, pipe or space, got %s",
                     value);
  *to = (uint32_t)value[0];
  return SQLITE_OK;
}

static int samples_option_size(const char *name, const char *value,
                               emb_samples_field *field, char **err) {
  uint64_t n = 0;
  int rc = samples_option_bytes(name, value, EMB_SAMPLES_RECORD_MAX, &n, err);
  field->bytes = (uint32_t)n;
  return rc;
}

static int samples_option_offset(const char *name, const char *value,
                                 emb_samples_field *field, char **err) {
  if (field->type == EMB_SAMPLES_NONE)
    field->type = TYPE_LATER;
  return samples_option_bytes(name, value, EMB_SAMPLES_RECORD_MAX, &field->at,
                              err);
}

/* A column of CSV: its number from 0, or its name. */
static int samples_option_column(const char *value, emb_samples_field *field,
                                 uint64_t later, char **name) {
  uint64_t number;
  sqlite3_free(*name);
  *name = NULL;
  field->type = field->type == EMB_SAMPLES_NONE ? TYPE_LATER : field->type;
  if (text_whole(value, 0, 1000000, &number)) {
    field->at = number;
    return SQLITE_OK;
  }
  field->at = later;
  return samples_copy_text(name, value);
}

static int samples_option_set(void *arg, int i, const char *value, char **err) {
  struct ext_samples_options *options = arg;
  emb_samples_format *format = &options->format;
  const char *name = samples_option_names[i];
  uint64_t number = format->prefix;
  uint32_t word = 0;
  int rc;
  switch (i) {
  case SAMPLES_OPTION_FORMAT:
    rc = samples_option_word(format_words, name, value, &word, err);
    format->kind = word + EMB_SAMPLES_FIXED;
    return rc;
  case SAMPLES_OPTION_RECORD:
    return samples_option_bytes(name, value, EMB_SAMPLES_RECORD_MAX,
                                &format->record, err);
  case SAMPLES_OPTION_HEADER:
    return samples_option_header(options, value, err);
  case SAMPLES_OPTION_PREFIX:
    rc = samples_option_bytes(name, value, 8, &number, err);
    format->prefix = (uint32_t)number;
    return rc;
  case SAMPLES_OPTION_INDEX:
    sqlite3_free(options->index);
    return samples_copy_text(&options->index, value);
  case SAMPLES_OPTION_SEPARATOR:
    return samples_option_separator(value, &format->separator, err);
  case SAMPLES_OPTION_BYTEORDER:
    return samples_option_word(order_words, name, value, &format->big_endian,
                               err);
  case SAMPLES_OPTION_LABEL_OFFSET:
    return samples_option_offset(name, value, &format->label, err);
  case SAMPLES_OPTION_TIMESTAMP_OFFSET:
    return samples_option_offset(name, value, &format->timestamp, err);
  case SAMPLES_OPTION_LABEL_SIZE:
    options->label_sized = 1;
    return samples_option_size(name, value, &format->label, err);
  case SAMPLES_OPTION_TIMESTAMP_SIZE:
    options->timestamp_sized = 1;
    return samples_option_size(name, value, &format->timestamp, err);
  case SAMPLES_OPTION_LABEL_TYPE:
    return samples_option_word(type_words, name, value, &format->label.type,
                               err);
  case SAMPLES_OPTION_TIMESTAMP_TYPE:
    return samples_option_word(type_words, name, value, &format->timestamp.type,
                               err);
  case SAMPLES_OPTION_LABEL_COLUMN:
    return samples_option_column(value, &format->label, COLUMN_LATER,
                                 &options->label_name);
  case SAMPLES_OPTION_TIMESTAMP_COLUMN:
    return samples_option_column(value, &format->timestamp, COLUMN_LATER + 1,
                                 &options->timestamp_name);
  default:
    rc = samples_option_word(io_words, name, value, &word, err);
    options->is_cached = (int)word;
    return rc;
  }
}

/* ---- texts --------------------------------------------------------------- */

static const struct ext_pair_names samples_pairs = {
    samples_option_names, SAMPLES_OPTIONS, "format=csv, label_column=label",
    samples_option_set};

int ext_samples_options_pairs(struct ext_samples_options *options,
                              sqlite3_value *value, char **err) {
  return ext_pairs(value, &samples_pairs, options, err);
}

/* Parses `name = value`; the value may be quoted. */
static int samples_option_argument(struct ext_samples_options *options,
                                   const char *text, uint64_t *seen,
                                   char **err) {
  const char *at = text_space(text);
  size_t n = text__dashed(at), size;
  const char *name = at;
  struct near near;
  char *value;
  int i, rc;
  at += n;
  if (n == 0 || !text__equals(&at))
    return ext_error(err, SQLITE_ERROR,
                     "cannot understand: %s; expected e.g. record=12", text);
  near_start(&near, name, n);
  for (i = 0;
       i < SAMPLES_OPTIONS && !near_same(samples_option_names[i], name, n); i++)
    near_offer(&near, samples_option_names[i]);
  if (i == SAMPLES_OPTIONS)
    return ext_error(err, SQLITE_ERROR, "unknown option: %.*s%s", (int)n, name,
                     near_text(&near));
  if (*seen >> i & 1)
    return ext_error(err, SQLITE_ERROR, "given twice: %.*s", (int)n, name);
  *seen |= UINT64_C(1) << i;
  size = text_trimmed(at, strlen(at));
  if (size >= 2 && (at[0] == '\'' || at[0] == '"') && at[size - 1] == at[0]) {
    at++;
    size -= 2;
  }
  value = sqlite3_mprintf("%.*s", (int)size, at);
  rc = value ? samples_option_set(options, i, value, err) : SQLITE_NOMEM;
  sqlite3_free(value);
  return rc;
}

int ext_samples_options_arguments(struct ext_samples_options *options, int argc,
                                  const char *const *argv, char **err) {
  uint64_t seen = 0;
  int rc = SQLITE_OK;
  for (int i = 3; i < argc && rc == SQLITE_OK; i++)
    if (*text_space(argv[i]))
      rc = samples_option_argument(options, argv[i], &seen, err);
  return rc;
}

/* ---- all of them --------------------------------------------------------- */

static void samples_finish_field(emb_samples_field *field, int sized,
                                 uint32_t type, uint32_t bytes) {
  if (field->type == TYPE_LATER)
    field->type = type;
  if (!sized && field->bytes == 0 && field->type != EMB_SAMPLES_NONE)
    field->bytes = field->type == EMB_SAMPLES_FLOAT ? 4 : bytes;
}

/* Drops the name of a column that is not used after all. */
static void samples_drop_name(const emb_samples_field *field, char **name) {
  if (field->type == EMB_SAMPLES_NONE) {
    sqlite3_free(*name);
    *name = NULL;
  }
}

int ext_samples_options_finish(struct ext_samples_options *options,
                               char **err) {
  emb_samples_format *format = &options->format;
  emb_err why;
  int rc;
  if (format->kind == 0 && format->record)
    format->kind = EMB_SAMPLES_FIXED;
  samples_drop_name(&format->label, &options->label_name);
  samples_drop_name(&format->timestamp, &options->timestamp_name);
  if (format->kind == EMB_SAMPLES_CSV) {
    if (options->header_has_unit)
      return ext_error(err, SQLITE_ERROR,
                       "header of format=csv is a number of records, not of "
                       "bytes");
    samples_finish_field(&format->label, 1, EMB_SAMPLES_BYTES, 0);
    samples_finish_field(&format->timestamp, 1, EMB_SAMPLES_INT, 0);
  } else {
    samples_finish_field(&format->label, options->label_sized, EMB_SAMPLES_UINT,
                         1);
    samples_finish_field(&format->timestamp, options->timestamp_sized,
                         EMB_SAMPLES_INT, 8);
    if (options->label_name || options->timestamp_name)
      return ext_error(err, SQLITE_ERROR,
                       "only format=csv has columns with names");
  }
  if (format->kind == EMB_SAMPLES_INDEXED && options->index == NULL)
    return ext_error(err, SQLITE_ERROR,
                     "format=indexed needs index=, e.g. index=.idx");
  rc = emb_samples_check(format, &why);
  return rc ? ext_engine_error(err, rc, why.text) : SQLITE_OK;
}

static void samples_text_field(sqlite3_str *to, const char *name, int is_csv,
                               const emb_samples_field *field) {
  if (field->type == EMB_SAMPLES_NONE)
    return;
  sqlite3_str_appendf(to, ", %s_type=%s", name, type_words[field->type]);
  if (is_csv)
    sqlite3_str_appendf(to, ", %s_column=%llu", name,
                        (unsigned long long)field->at);
  else
    sqlite3_str_appendf(to, ", %s_offset=%llu, %s_size=%u", name,
                        (unsigned long long)field->at, name, field->bytes);
}

char *ext_samples_options_text(const struct ext_samples_options *options) {
  const emb_samples_format *format = &options->format;
  int is_csv = format->kind == EMB_SAMPLES_CSV;
  sqlite3_str *to = sqlite3_str_new(NULL);
  sqlite3_str_appendf(to, "format=%s, header=%llu",
                      format_words[format->kind - EMB_SAMPLES_FIXED],
                      (unsigned long long)format->header);
  if (format->kind == EMB_SAMPLES_FIXED)
    sqlite3_str_appendf(to, ", record=%llu",
                        (unsigned long long)format->record);
  if (format->kind == EMB_SAMPLES_FRAMED)
    sqlite3_str_appendf(to, ", prefix=%u", format->prefix);
  if (options->index)
    sqlite3_str_appendf(to, ", index=\"%s\"", options->index);
  if (is_csv)
    sqlite3_str_appendf(to, ", separator=\"%c\"", (int)format->separator);
  if (format->big_endian)
    sqlite3_str_appendf(to, ", byteorder=big");
  samples_text_field(to, "label", is_csv, &format->label);
  samples_text_field(to, "timestamp", is_csv, &format->timestamp);
  return sqlite3_str_finish(to);
}

/* ---- dataset and timestamp ----------------------------------------------- */

int ext_samples_dataset(sqlite3_value *value, const char **dataset,
                        char **err) {
  int type = value ? sqlite3_value_type(value) : SQLITE_NULL;
  *dataset = "";
  if (type == SQLITE_INTEGER) { /* a number is also a name */
    *dataset = (const char *)sqlite3_value_text(value);
    return *dataset ? SQLITE_OK : SQLITE_NOMEM;
  }
  return type == SQLITE_NULL ? SQLITE_OK
                             : ext_arg_text(value, "dataset", dataset, err);
}

int ext_samples_time(sqlite3_value *value, int64_t *timestamp, char **err) {
  return ext_key_from_value(value, "timestamp", timestamp, err);
}
