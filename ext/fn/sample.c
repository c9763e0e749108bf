/* SPDX-License-Identifier: MIT
**
** sample.c -- random keys.
**
**   emb_sample_keys(table, n [, distribution [, options [, without]]])
**                    a BLOB of n keys, 8 bytes each; fewer if the table does
**                    not have n eligible keys
**
** distribution  'uniform', the default; 'log-uniform', keys as ranks; or
**               'frequency(power)', by the number of updates, 'frequency' with
**               power 1
** options       'unique=yes, seed=7, range=1000', each optional
** without       keys to exclude, as for items(:keys)
**
** tvf/sample.c takes the same arguments.
*/
#include "fn_state.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

/* ---- arguments ----------------------------------------------------------- */

static int sample_number(sqlite3_value *value, size_t *n, char **err) {
  int64_t number = 0;
  int rc;
  sqlite3_value_numeric_type(value);
  rc = ext_key_from_value(value, "n", &number, err);
  if (rc == SQLITE_OK && (number < 0 || number > EMB_SAMPLE_MAX))
    rc = ext_error(err, SQLITE_ERROR, "n must be between 0 and %u, got %lld",
                   EMB_SAMPLE_MAX, (long long)number);
  *n = rc == SQLITE_OK ? (size_t)number : 0;
  return rc;
}

/* "(0.75)" or "(power=0.75)"; an empty text means 1. */
static int sample_power(const char *at, double *power) {
  size_t size;
  *power = 1;
  if (*at == 0)
    return 1;
  at = *at == '(' ? text_space(at + 1) : at;
  if (near_same("power", at, text_name(at))) {
    at = text_space(at + text_name(at));
    if (!text__equals(&at))
      return 0;
  }
  size = text__double(at, power);
  at = text_space(at + size);
  return size && *power >= 0 && *power <= EMB_SAMPLE_POWER_MAX && *at == ')' &&
         *text_space(at + 1) == 0;
}

static int sample_distribution(sqlite3_value *value, emb_sample_how *how,
                               char **err) {
  static const char frequency[] = "frequency";
  const char *text;
  int rc;
  if (value == NULL || sqlite3_value_type(value) == SQLITE_NULL)
    return SQLITE_OK;
  rc = ext_arg_text(value, "distribution", &text, err);
  if (rc != SQLITE_OK || near_is("uniform", text))
    return rc;
  if (near_is("log-uniform", text)) {
    how->distribution = EMB_LOG_UNIFORM;
    return SQLITE_OK;
  }
  how->distribution = EMB_FREQUENCY;
  if (sqlite3_strnicmp(text, frequency, sizeof frequency - 1) == 0 &&
      sample_power(text_space(text + sizeof frequency - 1), &how->power))
    return SQLITE_OK;
  return ext_error(err, SQLITE_ERROR,
                   "unknown distribution: %s; expected uniform, log-uniform or "
                   "frequency(power), power 0 to %d",
                   text, EMB_SAMPLE_POWER_MAX);
}

static const char *const sample_names[] = {"unique", "seed", "range"};
enum { SAMPLE_UNIQUE, SAMPLE_SEED, SAMPLE_RANGE, SAMPLE_OPTIONS };

static int sample_option(void *arg, int i, const char *value, char **err) {
  emb_sample_how *how = arg;
  uint64_t number;
  if (i == SAMPLE_UNIQUE) {
    int unique = 1, legal = unit_is_bool(value, &unique);
    how->flags |= unique ? 0 : EMB_SAMPLE_REPLACE;
    return legal ? SQLITE_OK
                 : ext_error(err, SQLITE_ERROR,
                             "unknown value for unique: %s; expected yes or no",
                             value);
  }
  if (!text_whole(value, i == SAMPLE_RANGE, INT64_MAX, &number))
    return ext_error(
        err, SQLITE_ERROR, "unknown value for %s: %s; expected %d to %lld",
        sample_names[i], value, i == SAMPLE_RANGE, (long long)INT64_MAX);
  if (i == SAMPLE_SEED) {
    how->flags |= EMB_SAMPLE_SEEDED;
    how->seed = number;
  } else if (how->distribution == EMB_LOG_UNIFORM) {
    how->range = (int64_t)number;
  } else {
    return ext_error(err, SQLITE_ERROR,
                     "range is an option of log-uniform only");
  }
  return SQLITE_OK;
}

static int sample_without(sqlite3_value *value, struct ext_sample *ask,
                          char **err) {
  int rc;
  if (value == NULL || sqlite3_value_type(value) == SQLITE_NULL)
    return SQLITE_OK;
  rc = ext_fn_keys(ask->table, value, "without", &ask->without, err);
  ask->how.without = ask->without.at;
  ask->how.without_count = ask->without.n;
  return rc;
}

int ext_sample_read(struct ext_conn *conn, sqlite3_value **argv,
                    struct ext_sample *ask, char **err) {
  static const struct ext_pair_names all = {sample_names, SAMPLE_OPTIONS,
                                            "unique=no, seed=7", sample_option};
  int rc = ext_fn_table(conn, argv[0], &ask->table, err);
  if (rc == SQLITE_OK)
    rc = sample_number(argv[1], &ask->n, err);
  if (rc == SQLITE_OK)
    rc = sample_distribution(argv[2], &ask->how, err);
  if (rc == SQLITE_OK)
    rc = ext_pairs(argv[3], &all, &ask->how, err);
  if (rc == SQLITE_OK)
    rc = sample_without(argv[4], ask, err);
  if (rc == SQLITE_OK && !(ask->how.flags & EMB_SAMPLE_REPLACE)) {
    sqlite3_int64 rows;
    rc = ext_link_count_now(ask->table->link, &rows, err);
    ask->n =
        rc == SQLITE_OK && rows < (sqlite3_int64)ask->n ? (size_t)rows : ask->n;
  }
  return rc;
}

void ext_sample_free(struct ext_sample *ask) { ext_keys_free(&ask->without); }

int ext_sample_draw(const struct ext_sample *ask, const emb_samples *to,
                    size_t *n, char **err) {
  struct ext_link *link = ask->table->link;
  emb_check(ext_sample_valid(ask));
  int rc = emb_sample(link->session, ask->n, &ask->how, to, n);
  return rc ? ext_link_error(link, rc, err) : SQLITE_OK;
}

/* ---- the function -------------------------------------------------------- */

static void fn_sample_keys(sqlite3_context *context, int argc,
                           sqlite3_value **argv) {
  struct ext_conn *conn = ext_fn_conn(context);
  sqlite3_value *arguments[5] = {NULL};
  struct ext_sample ask = {0};
  int64_t *keys = NULL;
  size_t n = 0;
  char *json = NULL, *err = NULL;
  int rc;
  for (int i = 0; i < argc; i++)
    arguments[i] = argv[i];
  rc = ext_sample_read(conn, arguments, &ask, &err);
  if (rc == SQLITE_OK)
    rc = ext_check_size(conn->db, ask.n, 2, &err);
  if (rc == SQLITE_OK) {
    keys = sqlite3_malloc64(ask.n * sizeof *keys + 1);
    rc = keys ? ext_sample_draw(&ask, &(emb_samples){.keys = keys}, &n, &err)
              : SQLITE_NOMEM;
  }
  ext_sample_free(&ask);
  if (rc == SQLITE_OK && ask.table->link->dict) {
    rc = ext_keys_json(ask.table->link, keys, n, &json, &err);
    sqlite3_free(keys);
    keys = NULL;
  }
  if (rc == SQLITE_OK && json) {
    sqlite3_result_text(context, json, -1, sqlite3_free);
  } else if (rc == SQLITE_OK) {
    sqlite3_result_blob64(context, keys, n * sizeof *keys, sqlite3_free);
  } else {
    sqlite3_free(keys);
    ext_result_error(context, rc, err);
  }
}

int ext_fn_sample_register(struct ext_conn *conn) {
  static const struct ext_function functions[] = {
      {"emb_sample_keys", 2, fn_sample_keys},
      {"emb_sample_keys", 3, fn_sample_keys},
      {"emb_sample_keys", 4, fn_sample_keys},
      {"emb_sample_keys", 5, fn_sample_keys}};
  return ext_fn_register(conn, functions,
                         sizeof functions / sizeof functions[0]);
}
