/* SPDX-License-Identifier: MIT
**
** record.c -- checks a format, and splits a record into label, timestamp and
** payload.
**
** The payload is the record without these two fields, in up to three parts.
** They are copied once, by the caller that needs them.
*/
#include "engine/data/emb_data.h"
#include "samples.h"

#include <string.h>

/* ---- formats ------------------------------------------------------------- */

static int samples_format_field(const emb_samples_format *format,
                                const emb_samples_field *field,
                                const char *name, emb_err *err) {
  uint32_t n = field->bytes;
  int is_time = field == &format->timestamp;
  if (field->type == EMB_SAMPLES_NONE) {
    return EMB_OK;
  }
  if (field->type > EMB_SAMPLES_BYTES ||
      (is_time && field->type > EMB_SAMPLES_INT)) {
    return err_set(err, EMB_RANGE, "a %s cannot be of that type", name);
  }
  if (format->kind == EMB_SAMPLES_CSV) {
    return EMB_OK;
  }
  int fits = field->type == EMB_SAMPLES_BYTES ? n >= 1
             : field->type == EMB_SAMPLES_FLOAT
                 ? n == 4 || n == 8
                 : n == 1 || n == 2 || n == 4 || n == 8;
  if (!fits) {
    return err_set(err, EMB_RANGE, "a %s of that type cannot have %u bytes",
                   name, n);
  }
  uint64_t most = format->kind == EMB_SAMPLES_FIXED ? format->record
                                                    : EMB_SAMPLES_RECORD_MAX;
  return field->at <= most && n <= most - field->at
             ? EMB_OK
             : err_set(err, EMB_RANGE,
                       "the %s, %u bytes from byte %llu on, is not in a record "
                       "of %llu bytes",
                       name, n, (unsigned long long)field->at,
                       (unsigned long long)most);
}

static int samples_format_overlap(const emb_samples_format *format) {
  const emb_samples_field *a = &format->label, *b = &format->timestamp;
  if (a->type == EMB_SAMPLES_NONE || b->type == EMB_SAMPLES_NONE) {
    return 0;
  }
  return format->kind == EMB_SAMPLES_CSV
             ? a->at == b->at
             : a->at < b->at + b->bytes && b->at < a->at + a->bytes;
}

int emb_samples_check(const emb_samples_format *format, emb_err *err) {
  uint32_t prefix = format->prefix, separator = format->separator;
  if (format->kind < EMB_SAMPLES_FIXED || format->kind > EMB_SAMPLES_CSV) {
    return err_set(err, EMB_RANGE, "a file of samples needs a format");
  }
  if (format->kind == EMB_SAMPLES_FIXED &&
      (format->record < 1 || format->record > EMB_SAMPLES_RECORD_MAX)) {
    return err_set(err, EMB_RANGE,
                   "record must be between 1 and %u bytes, got %llu",
                   EMB_SAMPLES_RECORD_MAX, (unsigned long long)format->record);
  }
  if (format->kind == EMB_SAMPLES_FRAMED && prefix != 1 && prefix != 2 &&
      prefix != 4 && prefix != 8) {
    return err_set(err, EMB_RANGE, "prefix must be 1, 2, 4 or 8 bytes, got %u",
                   prefix);
  }
  if (format->kind == EMB_SAMPLES_CSV &&
      (separator == 0 || separator > 126 || separator == '"' ||
       separator == '\n' || separator == '\r')) {
    return err_set(err, EMB_RANGE, "this character cannot separate columns");
  }
  int rc = samples_format_field(format, &format->label, "label", err);
  rc = rc ? rc
          : samples_format_field(format, &format->timestamp, "timestamp", err);
  if (!rc && samples_format_overlap(format)) {
    rc = err_set(err, EMB_RANGE, "label and timestamp are the same bytes");
  }
  return rc;
}

/* ---- binary records ------------------------------------------------------ */

static uint64_t samples_record_number(const uint8_t *at, uint32_t bytes,
                                      uint32_t big_endian) {
  uint64_t value = 0;
  for (uint32_t i = 0; i < bytes; i++) {
    value |= (uint64_t)at[big_endian ? bytes - 1 - i : i] << (8 * i);
  }
  return value;
}

int64_t samples__integer(const uint8_t *at, const emb_samples_field *field,
                         uint32_t big_endian) {
  uint64_t value = samples_record_number(at, field->bytes, big_endian);
  uint32_t unused = 64 - 8 * field->bytes;
  return field->type == EMB_SAMPLES_INT ? (int64_t)(value << unused) >> unused
                                        : (int64_t)value;
}

static double samples_record_real(const uint8_t *at,
                                  const emb_samples_field *field,
                                  uint32_t big_endian) {
  uint64_t bits = samples_record_number(at, field->bytes, big_endian);
  uint32_t low = (uint32_t)bits;
  float single;
  double real;
  if (field->bytes == 8) {
    memcpy(&real, &bits, sizeof real);
    return real;
  }
  memcpy(&single, &low, sizeof single);
  return (double)single;
}

static void samples_record_label(const emb_samples_format *format,
                                 const uint8_t *at,
                                 emb_samples_sample *sample) {
  const emb_samples_field *field = &format->label;
  sample->label_type = field->type;
  if (field->type == EMB_SAMPLES_FLOAT) {
    sample->label_real = samples_record_real(at, field, format->big_endian);
  } else if (field->type == EMB_SAMPLES_BYTES) {
    sample->label_part = (emb_samples_part){at, field->bytes};
  } else {
    sample->label = samples__integer(at, field, format->big_endian);
  }
}

static void samples_record_part(emb_samples_sample *sample, const uint8_t *from,
                                const uint8_t *to) {
  if (to > from) {
    sample->payload[sample->parts++] =
        (emb_samples_part){from, (size_t)(to - from)};
  }
}

static int samples_record_split(const emb_samples_format *format,
                                const uint8_t *at, size_t bytes,
                                emb_samples_sample *sample, emb_err *err) {
  const emb_samples_field *a = &format->label, *b = &format->timestamp;
  const uint8_t *from = at, *end = at + bytes;
  if (b->at < a->at) {
    const emb_samples_field *swap = a;
    a = b;
    b = swap;
  }
  for (int i = 0; i < 2; i++) {
    const emb_samples_field *field = i ? b : a;
    if (field->type == EMB_SAMPLES_NONE) {
      continue;
    }
    if (field->at > bytes || field->bytes > bytes - field->at) {
      return err_set(err, EMB_MISMATCH,
                     "a record has %zu bytes: too few for its %s", bytes,
                     field == &format->label ? "label" : "timestamp");
    }
    if (field == &format->label) {
      samples_record_label(format, at + field->at, sample);
    } else {
      sample->timestamp =
          samples__integer(at + field->at, field, format->big_endian);
    }
    samples_record_part(sample, from, at + field->at);
    from = at + field->at + field->bytes;
  }
  samples_record_part(sample, from, end);
  return EMB_OK;
}

static int samples_record_split_framed(const emb_samples_format *format,
                                       const uint8_t *at, size_t bytes,
                                       emb_samples_sample *sample,
                                       emb_err *err) {
  uint32_t prefix = format->prefix;
  if (bytes < prefix ||
      samples_record_number(at, prefix, format->big_endian) != bytes - prefix) {
    return err_set(err, EMB_MISMATCH, "the length of a record has changed");
  }
  return samples_record_split(format, at + prefix, bytes - prefix, sample, err);
}

/* ---- records of texts ---------------------------------------------------- */

/* Adds a field to the payload, with the separator before it. */
static void samples_record_keep(emb_samples_sample *sample,
                                const struct samples_cell *cell, int first) {
  emb_samples_part *last = &sample->payload[sample->parts];
  const uint8_t *from = first ? cell->from : cell->from - 1;
  if (sample->parts > 0 && last[-1].at + last[-1].bytes == from) {
    last[-1].bytes += (size_t)(cell->to - from);
  } else {
    samples_record_part(sample, from, cell->to);
  }
}

static int samples_record_split_csv(const emb_samples_format *format,
                                    const uint8_t *bytes, size_t n,
                                    emb_samples_sample *sample, emb_err *err) {
  const emb_samples_field *label = &format->label, *time = &format->timestamp;
  const uint8_t *at = bytes;
  struct samples_cell cell;
  int kept = 0, seen_time = 0;
  for (uint64_t column = 0;
       samples__csv_cell(&at, bytes + n, (uint8_t)format->separator, &cell);
       column++) {
    if (label->type != EMB_SAMPLES_NONE && column == label->at) {
      sample->label_type = EMB_SAMPLES_BYTES;
      sample->label_part = cell.text;
      sample->label_quoted = cell.doubled;
    } else if (time->type != EMB_SAMPLES_NONE && column == time->at) {
      seen_time = emb_samples_integer(&cell.text, &sample->timestamp);
      if (!seen_time) {
        return err_set(err, EMB_MISMATCH, "a timestamp is not an integer: %.*s",
                       cell.text.bytes < 40 ? (int)cell.text.bytes : 40,
                       (const char *)cell.text.at);
      }
    } else {
      samples_record_keep(sample, &cell, !kept);
      kept = 1;
    }
  }
  if (label->type != EMB_SAMPLES_NONE && sample->label_type == 0) {
    return err_set(err, EMB_MISMATCH, "a record has no column %llu, the label",
                   (unsigned long long)label->at);
  }
  if (time->type != EMB_SAMPLES_NONE && !seen_time) {
    return err_set(err, EMB_MISMATCH,
                   "a record has no column %llu, the timestamp",
                   (unsigned long long)time->at);
  }
  return EMB_OK;
}

int emb_samples_split(const emb_samples_format *format, const void *record,
                      size_t bytes, emb_samples_sample *sample, emb_err *err) {
  memset(sample, 0, sizeof *sample);
  switch (format->kind) {
  case EMB_SAMPLES_CSV:
    return samples_record_split_csv(format, record, bytes, sample, err);
  case EMB_SAMPLES_FRAMED:
    return samples_record_split_framed(format, record, bytes, sample, err);
  default:
    return samples_record_split(format, record, bytes, sample, err);
  }
}

size_t emb_samples_unquote(const emb_samples_part *part, char *to) {
  size_t n = 0;
  for (size_t i = 0; i < part->bytes; i++) {
    to[n++] = (char)part->at[i];
    i += part->at[i] == '"' && i + 1 < part->bytes && part->at[i + 1] == '"';
  }
  return n;
}
