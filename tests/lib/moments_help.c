/* SPDX-License-Identifier: MIT
**
** moments_help.c -- stores and files of known states: see moments_help.h.
*/
#include "engine/storage/pack/emb_file.h"
#include "moments_help.h"

int32_t moment_value(int m, uint32_t i) {
  if (m == MOMENT_OTHER)
    return i % 2 ? (int32_t)(1500 + i) : 0;
  if (i % 11 == 3) /* in one moment, not in the next */
    return m % 2 ? 0 : (int32_t)(1 + i);
  if (i % 4 == 0) /* changes each time */
    return (int32_t)(1 + i + (uint32_t)m * 100);
  return (int32_t)(1 + i);
}

int64_t moment_key(uint32_t i) { return (int64_t)i * 7919 - 77; }

/* Brings the store to moment m from moment `from`, or from nothing if it is
** -1. */
static int moment_write(emb_session *s, int from, int m) {
  float row[MOMENT_DIM];
  int rc = EMB_OK;
  for (uint32_t i = 0; rc == EMB_OK && i < MOMENT_KEYS; i++) {
    int64_t key = moment_key(i);
    int32_t value = moment_value(m, i);
    if (from >= 0 && moment_value(from, i) == value)
      continue;
    help_vector(row, MOMENT_DIM, key, value);
    rc = value ? emb_put(s, &key, 1, row, NULL) : emb_delete(s, &key, 1, NULL);
  }
  return rc;
}

int moment_of(emb_session *s) {
  static float rows[MOMENT_KEYS * MOMENT_DIM];
  int64_t keys[MOMENT_KEYS];
  uint8_t found[MOMENT_KEYS];
  for (uint32_t i = 0; i < MOMENT_KEYS; i++)
    keys[i] = moment_key(i);
  if (emb_peek(s, keys, MOMENT_KEYS, rows, found, NULL) != EMB_OK)
    return -1;
  for (int m = 0; m < MOMENTS; m++) {
    uint32_t same = 0, n = 0;
    for (uint32_t i = 0; i < MOMENT_KEYS; i++) {
      int32_t want = moment_value(m, i);
      n += want != 0;
      same += want ? found[i] && help_is(rows + i * MOMENT_DIM, MOMENT_DIM,
                                         keys[i], want)
                   : !found[i];
    }
    if (same == MOMENT_KEYS && emb_count(s) == n)
      return m;
  }
  return -1;
}

int moment_open(const char *dir, emb_store **store, emb_session **s) {
  emb_config config = {.dim = MOMENT_DIM,
                       .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP,
                       .memory_bytes = 1,
                       .io = EMB_IO_PREAD,
                       .timeout_ms = 10};
  return help_open(dir, &config, store, s);
}

int moments_make(const char *parent) {
  char dir[400], name[8];
  emb_store *store;
  emb_session *s;
  int good;
  (void)snprintf(dir, sizeof dir, "%s/source", parent);
  if (!moment_open(dir, &store, &s))
    return 0;
  for (int m = 0; m < MOMENT_OTHER; m++) {
    (void)snprintf(name, sizeof name, "m%d", m);
    OK(s, moment_write(s, m - 1, m));
    OK(s, emb_snapshot(s, name));
  }
  good = help_close(store, s);
  (void)snprintf(dir, sizeof dir, "%s/copy", parent);
  if (!moment_open(dir, &store, &s))
    return 0;
  OK(s, moment_write(s, -1, MOMENT_OTHER));
  return help_close(store, s) && good;
}

int moment_export(emb_session *s, int m, int base, const char *path) {
  char name[8], options[20];
  (void)snprintf(name, sizeof name, "m%d", m);
  (void)snprintf(options, sizeof options, "base=m%d", base);
  return emb_snapshot_export(s, name, path, base >= 0 ? options : NULL, NULL,
                             NULL);
}

int moment_of_file(const char *path, emb_err *err) {
  emb_file *file;
  emb_file_info info;
  emb_file_row row;
  float vector[MOMENT_DIM];
  int found = 1, m = -1, good = 1, rows = 0;
  int rc = emb_file_open(path, &file, err);
  if (rc != EMB_OK)
    return -1;
  emb_file_about(file, &info);
  m = info.name[1] - '0';
  for (; rc == EMB_OK && found; rows += found) {
    rc = emb_file_next(file, &row, vector, &found, err);
    uint32_t i = (uint32_t)((row.key + 77) / 7919);
    if (rc == EMB_OK && found)
      good &= i < MOMENT_KEYS &&
              help_is(vector, MOMENT_DIM, row.key, moment_value(m, i));
  }
  emb_file_close(file);
  return rc == EMB_OK && good && rows == info.rows ? m : -1;
}
