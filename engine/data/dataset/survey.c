/* SPDX-License-Identifier: MIT
**
** survey.c -- finds the records of a file, once, when it is registered.
**
** For a file of fixed records only the size is needed, unless the records have
** timestamps.  All other files are read from beginning to end, which yields the
** checksum of the whole file for free.  Results are passed on in blocks
** (spans.c), so a file of any size is surveyed in the same memory.
**
** At the end the file is checked once more: a file written to during the survey
** is refused, because its blocks would describe a file that never existed.
*/
#include "engine/data/emb_data.h"
#include "samples.h"

#include "engine/base/env/env.h"

#include <string.h>

struct samples_survey {
  const emb_samples_ask *ask;
  emb_samples_format *format;
  emb_samples_found *found;
  struct samples_window window;
  struct samples_blocks blocks;
  struct env_about before;
};

/* The error for the record that begins at an offset. */
static int samples_survey_bad(const struct samples_survey *s, uint64_t offset,
                              const emb_err *why, emb_err *err) {
  return err_set(err, EMB_MISMATCH, "%s, record %llu at byte %llu: %s",
                 s->ask->path, (unsigned long long)s->found->records + 1,
                 (unsigned long long)offset, why->text);
}

static int samples_survey_size(const struct samples_survey *s, uint64_t offset,
                               const char *what, emb_err *err) {
  emb_err why;
  (void)err_set(&why, EMB_MISMATCH, "%s", what);
  return samples_survey_bad(s, offset, &why, err);
}

/* Checks a record in the window, and notes its place and timestamp. */
static int samples_survey_record(struct samples_survey *s,
                                 const uint8_t *record, size_t bytes,
                                 uint64_t offset, emb_err *err) {
  emb_samples_sample sample;
  emb_err why;
  if (emb_samples_split(s->format, record, bytes, &sample, &why)) {
    return samples_survey_bad(s, offset, &why, err);
  }
  int rc = samples__blocks_begin(&s->blocks, offset, err);
  if (!rc && s->format->timestamp.type != EMB_SAMPLES_NONE) {
    samples__blocks_time(&s->blocks, sample.timestamp);
  }
  return rc;
}

/* ---- fixed --------------------------------------------------------------- */

static int samples_survey_fixed(struct samples_survey *s, emb_err *err) {
  const emb_samples_format *format = s->format;
  uint64_t bytes = s->window.size, header = format->header;
  uint64_t rest = bytes < header ? 1 : (bytes - header) % format->record;
  int rc = EMB_OK;
  if (rest) {
    return err_set(err, EMB_MISMATCH,
                   "%s has %llu bytes, which are not a header of %llu and "
                   "records of %llu",
                   s->ask->path, (unsigned long long)bytes,
                   (unsigned long long)header,
                   (unsigned long long)format->record);
  }
  if (format->timestamp.type == EMB_SAMPLES_NONE) {
    s->found->records = (bytes - header) / format->record;
    return EMB_OK;
  }
  while (!rc && s->window.offset < bytes) {
    rc = samples__window_need(&s->window, format->record, err);
    rc = rc ? rc
            : samples_survey_record(s, samples__window_at(&s->window),
                                    (size_t)format->record, s->window.offset,
                                    err);
    samples__window_skip(&s->window, rc ? 0 : (size_t)format->record);
  }
  return rc ? rc : samples__blocks_end(&s->blocks, bytes, err);
}

/* ---- framed -------------------------------------------------------------- */

static int samples_survey_frame(struct samples_survey *s, emb_err *err) {
  struct samples_window *w = &s->window;
  emb_samples_field length = {EMB_SAMPLES_UINT, s->format->prefix, 0};
  int rc = samples__window_need(w, length.bytes, err);
  if (rc) {
    return rc;
  }
  if (samples__window_have(w) < length.bytes) {
    return samples_survey_size(s, w->offset, "the file ends inside its length",
                               err);
  }
  uint64_t n = (uint64_t)samples__integer(samples__window_at(w), &length,
                                          s->format->big_endian);
  if (n > EMB_SAMPLES_RECORD_MAX) {
    return samples_survey_size(s, w->offset, "its length is over 64 MiB", err);
  }
  rc = samples__window_need(w, length.bytes + n, err);
  if (rc) {
    return rc;
  }
  if (samples__window_have(w) < length.bytes + n) {
    return samples_survey_size(s, w->offset, "the file ends inside it", err);
  }
  size_t bytes = (size_t)(length.bytes + n);
  rc = samples_survey_record(s, samples__window_at(w), bytes, w->offset, err);
  samples__window_skip(w, bytes);
  return rc;
}

static int samples_survey_framed(struct samples_survey *s, emb_err *err) {
  int rc = EMB_OK;
  while (!rc && s->window.offset < s->window.size) {
    rc = samples_survey_frame(s, err);
  }
  return rc ? rc : samples__blocks_end(&s->blocks, s->window.size, err);
}

/* ---- indexed ------------------------------------------------------------- */

/* Reads the next offset from the index. */
static int samples_survey_offset(struct samples_survey *s,
                                 struct samples_window *index, uint64_t *offset,
                                 emb_err *err) {
  emb_samples_field field = {EMB_SAMPLES_UINT, 8, 0};
  int rc = samples__window_need(index, 8, err);
  if (rc) {
    return rc;
  }
  *offset = (uint64_t)samples__integer(samples__window_at(index), &field,
                                       s->format->big_endian);
  samples__window_skip(index, 8);
  return EMB_OK;
}

static int samples_survey_span(struct samples_survey *s, uint64_t from,
                               uint64_t to, const char *index, emb_err *err) {
  struct samples_window *w = &s->window;
  if (to < from || to > w->size || to - from > EMB_SAMPLES_RECORD_MAX) {
    return err_set(err, EMB_MISMATCH,
                   "%s says that record %llu of %s is from byte %llu to %llu, "
                   "which is impossible",
                   index, (unsigned long long)s->found->records + 1,
                   s->ask->path, (unsigned long long)from,
                   (unsigned long long)to);
  }
  int rc = samples__window_need(w, to - from, err);
  rc = rc ? rc
          : samples_survey_record(s, samples__window_at(w), (size_t)(to - from),
                                  from, err);
  samples__window_skip(w, rc ? 0 : (size_t)(to - from));
  return rc;
}

static int samples_survey_indexed(struct samples_survey *s, emb_err *err) {
  struct samples_window index;
  const char *path = s->ask->index;
  uint64_t from, to;
  int rc = samples__window_open(&index, path, 0, err);
  if (!rc && (index.size < 8 || index.size % 8 != 0)) {
    rc = err_set(err, EMB_MISMATCH,
                 "%s has %llu bytes; it must hold 8-byte offsets, at least one",
                 path, (unsigned long long)index.size);
  }
  rc = rc ? rc : samples_survey_offset(s, &index, &from, err);
  if (!rc && from != s->format->header) {
    rc = err_set(err, EMB_MISMATCH,
                 "%s says that the first record of %s is at byte %llu, but the "
                 "header has %llu",
                 path, s->ask->path, (unsigned long long)from,
                 (unsigned long long)s->format->header);
  }
  while (!rc && index.offset < index.size) {
    rc = samples_survey_offset(s, &index, &to, err);
    rc = rc ? rc : samples_survey_span(s, from, to, path, err);
    from = to;
  }
  rc = rc ? rc : samples__blocks_end(&s->blocks, from, err);
  samples__window_close(&index);
  return rc;
}

/* ---- CSV ----------------------------------------------------------------- */

/* Brings the complete next record into the window; *bytes: its size, 0 at the
** end of the file.  Empty lines are skipped. */
static int samples_survey_csv_next(struct samples_survey *s,
                                   struct samples_csv *csv, size_t *bytes,
                                   emb_err *err) {
  struct samples_window *w = &s->window;
  int ended = 0, rc = EMB_OK;
  size_t used, at = 0;
  samples__csv_next(csv);
  while (!ended) {
    rc = samples__window_need(w, at + 1, err);
    if (rc || samples__window_have(w) == at) {
      break;
    }
    rc = samples__csv_scan(csv, samples__window_at(w) + at,
                           samples__window_have(w) - at, &used, &ended);
    at += used;
    if (rc) {
      return err_set(err, EMB_MISMATCH,
                     "%s, line %llu: something follows a closing quote",
                     s->ask->path, (unsigned long long)csv->lines + 1);
    }
    if (ended && csv->empty) {
      samples__window_skip(w, at);
      samples__csv_next(csv);
      at = 0;
      ended = 0;
    }
  }
  if (!rc && csv->state == CSV_QUOTED) {
    rc = err_set(err, EMB_MISMATCH,
                 "%s, record at byte %llu: a quoted field does not end",
                 s->ask->path, (unsigned long long)w->offset);
  }
  *bytes = csv->empty && !ended ? 0 : at;
  if (!rc && at > EMB_SAMPLES_RECORD_MAX) {
    rc = samples_survey_size(s, w->offset, "it has more than 64 MiB", err);
  }
  return rc;
}

/* Looks up the column of that name in the current record. */
static int samples_survey_csv_name(const struct samples_survey *s,
                                   const char *name, size_t bytes,
                                   emb_samples_field *field, emb_err *err) {
  const uint8_t *at = samples__window_at(&s->window), *end = at + bytes;
  struct samples_cell cell;
  for (uint64_t i = 0;
       name &&
       samples__csv_cell(&at, end, (uint8_t)s->format->separator, &cell);
       i++) {
    if (cell.text.bytes == strlen(name) &&
        memcmp(cell.text.at, name, cell.text.bytes) == 0) {
      field->at = i;
      return EMB_OK;
    }
  }
  return name ? err_set(err, EMB_MISMATCH, "%s has no column %s", s->ask->path,
                        name)
              : EMB_OK;
}

static int samples_survey_csv_header(struct samples_survey *s,
                                     struct samples_csv *csv, emb_err *err) {
  size_t bytes = 1;
  int rc = EMB_OK;
  if ((s->ask->label_name || s->ask->timestamp_name) && !s->format->header) {
    return err_set(err, EMB_RANGE,
                   "columns have names only if the file has a header");
  }
  for (uint64_t i = 0; !rc && bytes > 0 && i < s->format->header; i++) {
    rc = samples_survey_csv_next(s, csv, &bytes, err);
    if (!rc && i == 0) {
      rc = samples_survey_csv_name(s, s->ask->label_name, bytes,
                                   &s->format->label, err);
      rc = rc ? rc
              : samples_survey_csv_name(s, s->ask->timestamp_name, bytes,
                                        &s->format->timestamp, err);
    }
    samples__window_skip(&s->window, rc ? 0 : bytes);
  }
  return rc ? rc : emb_samples_check(s->format, err);
}

static int samples_survey_csv(struct samples_survey *s, emb_err *err) {
  struct samples_csv csv = {.separator = (uint8_t)s->format->separator};
  struct samples_window *w = &s->window;
  size_t bytes = 0;
  int rc = samples__window_need(w, 3, err);
  if (!rc && samples__window_have(w) >= 3 &&
      memcmp(samples__window_at(w), "\xef\xbb\xbf", 3) == 0) {
    samples__window_skip(w, 3); /* a UTF-8 byte order mark */
  }
  rc = rc ? rc : samples_survey_csv_header(s, &csv, err);
  while (!rc) {
    rc = samples_survey_csv_next(s, &csv, &bytes, err);
    if (rc || bytes == 0) {
      break;
    }
    rc = samples_survey_record(s, samples__window_at(w), bytes, w->offset, err);
    samples__window_skip(w, bytes);
  }
  return rc ? rc : samples__blocks_end(&s->blocks, w->size, err);
}

/* ---- all ----------------------------------------------------------------- */

/* Skips the header of a binary file, reading it for the sum of the whole. */
static int samples_survey_skip(struct samples_survey *s, emb_err *err) {
  struct samples_window *w = &s->window;
  uint64_t left = s->format->header;
  if (left > w->size) {
    return err_set(
        err, EMB_MISMATCH, "%s has %llu bytes, but its header should have %llu",
        s->ask->path, (unsigned long long)w->size, (unsigned long long)left);
  }
  int rc = EMB_OK;
  while (!rc && left > 0) {
    rc = samples__window_need(w, 1, err);
    size_t have = samples__window_have(w);
    size_t n = left < have ? (size_t)left : have;
    samples__window_skip(w, n);
    left -= n;
  }
  return rc;
}

/* Reads the bytes after the last record of an index. */
static int samples_survey_rest(struct samples_survey *s, emb_err *err) {
  struct samples_window *w = &s->window;
  int rc = EMB_OK;
  while (!rc && w->offset < w->size) {
    rc = samples__window_need(w, 1, err);
    samples__window_skip(w, samples__window_have(w));
  }
  return rc;
}

static int samples_survey_read(struct samples_survey *s, emb_err *err) {
  const emb_samples_format *format = s->format;
  int reads = format->kind != EMB_SAMPLES_FIXED ||
              format->timestamp.type != EMB_SAMPLES_NONE;
  int rc = reads && format->kind != EMB_SAMPLES_CSV
               ? samples_survey_skip(s, err)
               : EMB_OK;
  if (rc) {
    return rc;
  }
  switch (format->kind) {
  case EMB_SAMPLES_FIXED:
    rc = samples_survey_fixed(s, err);
    break;
  case EMB_SAMPLES_FRAMED:
    rc = samples_survey_framed(s, err);
    break;
  case EMB_SAMPLES_INDEXED:
    rc = samples_survey_indexed(s, err);
    break;
  default:
    rc = samples_survey_csv(s, err);
  }
  rc = rc || !reads ? rc : samples_survey_rest(s, err);
  if (!rc && reads) {
    s->found->all = XXH3_64bits_digest(s->window.hash);
    s->found->all += s->found->all == 0;
  }
  return rc;
}

/* Checks that the file is unchanged since before it was read. */
static int samples_survey_same(const struct samples_survey *s, emb_err *err) {
  struct env *env = s->window.env;
  struct env_about now;
  int os = env->about(env, NULL, s->ask->path, &now);
  if (os) {
    return samples__cannot_open(os, s->ask->path, err);
  }
  return now.bytes == s->before.bytes &&
                 now.changed_ns == s->before.changed_ns &&
                 memcmp(now.id, s->before.id, sizeof now.id) == 0
             ? EMB_OK
             : err_set(err, EMB_MISMATCH, "%s was changed while it was read",
                       s->ask->path);
}

static int samples_survey_run(struct samples_survey *s, emb_err *err) {
  struct env *env = s->window.env;
  int os = env->about(env, s->window.file, NULL, &s->before);
  os = os ? os
          : samples__sum(env, s->window.file, s->before.bytes, &s->found->sum);
  if (os) {
    return err_os(err, EMB_IOERR, os, "cannot read %s", s->ask->path);
  }
  s->found->bytes = s->before.bytes;
  s->found->changed_ns = s->before.changed_ns;
  int rc = samples_survey_read(s, err);
  return rc ? rc : samples_survey_same(s, err);
}

int emb_samples_survey(const emb_samples_ask *ask, emb_samples_found *found,
                       emb_err *err) {
  int rc = emb_samples_check(ask->format, err);
  if (rc) {
    return rc;
  }
  struct env *env = env_default();
  struct samples_survey *s = env->allocate(env, sizeof *s);
  if (s == NULL) {
    return err_set(err, EMB_NOMEM, "out of memory");
  }
  memset(found, 0, sizeof *found);
  s->ask = ask;
  s->format = ask->format;
  s->found = found;
  s->blocks.ask = ask;
  s->blocks.found = found;
  s->blocks.spans = ask->format->kind != EMB_SAMPLES_FIXED;
  rc = samples__window_open(&s->window, ask->path, 1, err);
  s->window.stop = ask->stop;
  s->window.arg = ask->arg;
  rc = rc ? rc : samples_survey_run(s, err);
  samples__window_close(&s->window);
  env->release(env, s);
  return rc;
}

/* ---- later --------------------------------------------------------------- */

static int samples_verify_all(const emb_samples_file *file, uint64_t all,
                              int (*stop)(void *), void *arg, emb_err *err) {
  struct samples_window w;
  int rc = samples__window_open(&w, file->path, 1, err);
  w.stop = stop;
  w.arg = arg;
  while (!rc && w.offset < w.size) {
    rc = samples__window_need(&w, 1, err);
    samples__window_skip(&w, samples__window_have(&w));
  }
  if (!rc) {
    uint64_t sum = XXH3_64bits_digest(w.hash);
    sum += sum == 0;
    rc = sum == all ? EMB_OK
                    : err_set(err, EMB_MISMATCH,
                              "the file %s has changed since it was "
                              "registered: its content differs",
                              file->path);
  }
  samples__window_close(&w);
  return rc;
}

int emb_samples_verify(const emb_samples_file *file, uint64_t all,
                       int (*stop)(void *), void *arg, emb_err *err) {
  struct samples_open *open;
  int rc = samples__take(file, 0, &open, err);
  if (rc) {
    return rc;
  }
  rc = samples__same(open, err);
  rc = rc || !all ? rc : samples_verify_all(file, all, stop, arg, err);
  samples__give(open);
  return rc;
}

/* Removes redundant parts (`//`, `/./`), so that a file has one path however it
** was written.  Not `..`, which may follow a link. */
static void samples_path_tidy(char *path) {
  char *to = path;
  for (const char *at = path; *at;) {
    if (at[0] == '/' && at[1] == '/') {
      at++;
    } else if (at[0] == '/' && at[1] == '.' && at[2] == '/') {
      at += 2;
    } else {
      *to++ = *at++;
    }
  }
  *to = '\0';
}

int emb_samples_absolute(const char *path, char *to, size_t size,
                         emb_err *err) {
  struct env *env = env_default();
  int os = env->absolute(env, path, to, size);
  if (os) {
    return err_os(err, EMB_CANTOPEN, os, "cannot use the path %s", path);
  }
  samples_path_tidy(to);
  return EMB_OK;
}
