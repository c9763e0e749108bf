/* SPDX-License-Identifier: MIT
**
** damage_judge.c -- opens a damaged copy of a store, reads everything, and
** judges its answers: see VERDICT in damage_help.h.
*/
#include "damage_help.h"

struct judge {
  const struct damage_store *d;
  const char *dir, *what; /* the damage, for messages */
  int may_cut;  /* the damage may have hit bytes that were not durable; 2: or
                   more, regardless of the order of writes */
  int found;    /* an error spoke of damage */
  int reported; /* lines of emb_verify */
  uint32_t cut_above; /* no write with an order up to this is missing ... */
  uint32_t cut_below; /* ... and no write from this one on is there */
  char text[600];     /* the first error */
};

static int blame(const struct judge *j, const char *format, ...) {
  char text[400];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return test_check(0, j->d->story->name, 0, "%s: %s", j->what, text);
}

static int names_a_file(const char *text) {
  static const char *const files[] = {"/manifest",  "/log",      "/index-",
                                      "/admission", "/position", "/chain",
                                      "/consumer-"};
  int named = 0;
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    named |= strstr(text, files[i]) != NULL;
  return named;
}

/* Is the error right for damage, and does it name the place? */
static int is_damage(struct judge *j, int rc, const char *text, int of_page) {
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

/* Compares the key's value (0: absent) with the value it must have. */
static int judge_key(struct judge *j, int64_t key, int32_t is) {
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

static int32_t value_of(const struct damage_store *d, int64_t key,
                        const float *vector) {
  int32_t value = help_value(vector, d->story->dim, key);
  return value ? value : INT32_MIN; /* no vector is all zeros */
}

static int judge_each(struct judge *j, emb_session *s) {
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

static int judge_batch(struct judge *j, emb_session *s) {
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

static int judge_scan(struct judge *j, emb_session *s, int order) {
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

static void judge_line(void *arg, const char *line) {
  struct judge *j = arg;
  if (j->reported++ == 0 && !names_a_file(line))
    (void)blame(j, "a report that names no file: %s", line);
}

/* Acts as the coordinator does when it opens the store. */
static int judge_doubt(struct judge *j, emb_store *store, int *good) {
  emb_err err = {0, ""};
  uint64_t doubt = emb_in_doubt(store), recorded = j->d->o->recorded;
  int rc = EMB_OK;
  if (doubt)
    rc = emb_resolve(store, emb_in_doubt(store), doubt <= recorded, &err);
  if (rc)
    *good = is_damage(j, rc, err.text, 0);
  else if (emb_committed(store) < recorded)
    j->found = 1; /* the coordinator reports it */
  return rc || j->found;
}

static int judge_open(struct judge *j, emb_store *store, emb_session *s) {
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
static int judge_on(struct judge *j, emb_config *config, emb_store **store,
                    emb_session **s) {
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

enum verdict damage_judge(const struct damage_store *d, const char *dir,
                          const char *what, uint32_t flags, int may_cut,
                          int go_on) {
  struct judge j = {.d = d,
                    .dir = dir,
                    .what = what,
                    .may_cut = may_cut,
                    .cut_below = UINT32_MAX};
  emb_config config = damage_config(d->story);
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
