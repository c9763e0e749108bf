/* SPDX-License-Identifier: MIT
**
** diff.c -- emb_diff and emb_patch: a BLOB as its difference from another, and
** back; see emb_data.h, "differences".
**
** A difference may come from anywhere, so the engine checks it before a result
** is allocated, and gives no result after an error.  Both functions check now
** and then whether they must stop.
*/
#include "engine/data/emb_data.h"
#include "models.h"

#include <string.h>

SQLITE_EXTENSION_INIT3

#define FLAGS (SQLITE_UTF8 | SQLITE_INNOCUOUS | SQLITE_DETERMINISTIC)

/* ---- options ------------------------------------------------------------- */

enum {
  DIFF_OPTION_OPERATOR,
  DIFF_OPTION_WIDTH,
  DIFF_OPTION_SPLIT,
  DIFF_OPTION_RLE,
  DIFF_OPTION_LEVEL
};
static const char *const diff_options[] = {
    [DIFF_OPTION_OPERATOR] = "operator",    [DIFF_OPTION_WIDTH] = "width",
    [DIFF_OPTION_SPLIT] = "split_exponent", [DIFF_OPTION_RLE] = "rle",
    [DIFF_OPTION_LEVEL] = "level",
};

static int diff_wrong(char **err, int option, const char *expected,
                      const char *value) {
  return ext_error(err, SQLITE_ERROR, "%s must be %s, got %.40s",
                   diff_options[option], expected, value);
}

static int diff_on(int option, const char *value, int *to, char **err) {
  return unit_is_bool(value, to) ? SQLITE_OK
                                 : diff_wrong(err, option, "on or off", value);
}

static int diff_take(void *arg, int option, const char *value, char **err) {
  emb_diff_how *how = arg;
  uint64_t number;
  switch (option) {
  case DIFF_OPTION_OPERATOR:
    how->op = near_is("xor", value)   ? EMB_DIFF_XOR
              : near_is("sub", value) ? EMB_DIFF_SUB
                                      : 0;
    return how->op ? SQLITE_OK : diff_wrong(err, option, "sub or xor", value);
  case DIFF_OPTION_WIDTH:
    if (!text_whole(value, 1, 8, &number) || (number & (number - 1)) != 0)
      return diff_wrong(err, option, "1, 2, 4 or 8", value);
    how->width = (uint32_t)number;
    return SQLITE_OK;
  case DIFF_OPTION_SPLIT:
    return diff_on(option, value, &how->split_exponent, err);
  case DIFF_OPTION_RLE:
    return diff_on(option, value, &how->rle, err);
  default:
    if (!text_whole(value, 0, 19, &number))
      return diff_wrong(err, option, "0 to 19", value);
    how->level = (int)number;
    return SQLITE_OK;
  }
}

static int diff_how(sqlite3_value *value, emb_diff_how *how, char **err) {
  static const struct ext_pair_names names = {
      diff_options, sizeof diff_options / sizeof *diff_options,
      "operator=xor, width=2", diff_take};
  char *cause = NULL;
  int rc = ext_pairs(value, &names, how, &cause);
  if (rc != SQLITE_OK && cause)
    rc = ext_error(err, rc, "argument 3 of emb_diff: %s", cause);
  sqlite3_free(cause);
  return rc;
}

/* ---- calls --------------------------------------------------------------- */

/* The BLOB of an argument, valid as long as its value. */
static int diff_bytes(sqlite3_value *value, const char *name, int argument,
                      emb_bytes *bytes, char **err) {
  if (sqlite3_value_type(value) != SQLITE_BLOB)
    return ext_error(err, SQLITE_MISMATCH,
                     "argument %d of %s must be a BLOB, got %s", argument, name,
                     ext_value_type_name(value));
  bytes->at = sqlite3_value_blob(value);
  bytes->n = (size_t)sqlite3_value_bytes(value);
  /* A BLOB containing zeroblob(n) needs memory. */
  return bytes->at || bytes->n == 0 ? SQLITE_OK : SQLITE_NOMEM;
}

static int diff_fail(const char *name, const emb_err *cause, char **err) {
  return cause->code == EMB_NOMEM || cause->code == EMB_INTERRUPT
             ? ext_engine_error(err, cause->code, cause->text)
             : ext_error(err, ext_code(cause->code), "%s: %s", name,
                         cause->text);
}

/* Checks that this connection can have a BLOB of n bytes. */
static int diff_fits(sqlite3_context *context, const char *name,
                     const char *what, uint64_t n, char **err) {
  int most = sqlite3_limit(sqlite3_context_db_handle(context),
                           SQLITE_LIMIT_LENGTH, -1);
  return n <= (uint64_t)most
             ? SQLITE_OK
             : ext_error(err, SQLITE_TOOBIG,
                         "%s: the %s has %llu bytes, and a BLOB has at most %d "
                         "here; process it in parts",
                         name, what, (unsigned long long)n, most);
}

/* Allocates n bytes; n may be 0. */
static int diff_room(uint64_t n, void **room) {
  *room = sqlite3_malloc64(n ? n : 1);
  return *room ? SQLITE_OK : SQLITE_NOMEM;
}

static void diff_result(sqlite3_context *context, int rc, void *room, size_t n,
                        char *err) {
  if (rc == SQLITE_OK) {
    sqlite3_result_blob64(context, room, n, sqlite3_free);
    return;
  }
  sqlite3_free(room);
  ext_result_error(context, rc, err);
}

static void call_diff(sqlite3_context *context, int argc,
                      sqlite3_value **argv) {
  struct ext_conn conn = {.db = sqlite3_context_db_handle(context)};
  emb_diff_how how = {EMB_DIFF_SUB, 4, 1, 1, 1, ext_link_interrupted, &conn};
  emb_bytes base, result;
  void *room = NULL;
  size_t n = 0;
  char *err = NULL;
  emb_err cause;
  if (sqlite3_value_type(argv[0]) == SQLITE_NULL ||
      sqlite3_value_type(argv[1]) == SQLITE_NULL)
    return;
  int rc = diff_bytes(argv[0], "emb_diff", 1, &base, &err);
  if (rc == SQLITE_OK)
    rc = diff_bytes(argv[1], "emb_diff", 2, &result, &err);
  if (rc == SQLITE_OK)
    rc = diff_how(argc > 2 ? argv[2] : NULL, &how, &err);
  /* Only as much of it is touched as the difference takes. */
  if (rc == SQLITE_OK)
    rc = diff_room(emb_diff_room(&how, result.n), &room);
  if (rc == SQLITE_OK &&
      emb_diff(&how, &base, &result, room, &n, &cause) != EMB_OK)
    rc = diff_fail("emb_diff", &cause, &err);
  if (rc == SQLITE_OK)
    rc = diff_fits(context, "emb_diff", "difference", n, &err);
  if (rc == SQLITE_OK) {
    void *shorter = sqlite3_realloc64(room, n);
    room = shorter ? shorter : room;
  }
  diff_result(context, rc, room, n, err);
}

static void call_patch(sqlite3_context *context, int argc,
                       sqlite3_value **argv) {
  struct ext_conn conn = {.db = sqlite3_context_db_handle(context)};
  emb_bytes base, difference;
  emb_diff_head head = {0};
  void *room = NULL;
  char *err = NULL;
  emb_err cause;
  (void)argc;
  if (sqlite3_value_type(argv[0]) == SQLITE_NULL ||
      sqlite3_value_type(argv[1]) == SQLITE_NULL)
    return;
  int rc = diff_bytes(argv[0], "emb_patch", 1, &base, &err);
  if (rc == SQLITE_OK)
    rc = diff_bytes(argv[1], "emb_patch", 2, &difference, &err);
  if (rc == SQLITE_OK && emb_diff_read(&difference, &head, &cause) != EMB_OK)
    rc = diff_fail("emb_patch", &cause, &err);
  if (rc == SQLITE_OK)
    rc = diff_fits(context, "emb_patch", "result", head.result_bytes, &err);
  if (rc == SQLITE_OK)
    rc = diff_room(head.result_bytes, &room);
  if (rc == SQLITE_OK &&
      emb_patch(&base, &difference, room, ext_link_interrupted, &conn,
                &cause) != EMB_OK)
    rc = diff_fail("emb_patch", &cause, &err);
  diff_result(context, rc, room, (size_t)head.result_bytes, err);
}

int ext_models_diff_register(sqlite3 *db) {
  int rc = sqlite3_create_function_v2(db, "emb_diff", 2, FLAGS, NULL, call_diff,
                                      NULL, NULL, NULL);
  if (rc == SQLITE_OK)
    rc = sqlite3_create_function_v2(db, "emb_diff", 3, FLAGS, NULL, call_diff,
                                    NULL, NULL, NULL);
  if (rc == SQLITE_OK)
    rc = sqlite3_create_function_v2(db, "emb_patch", 2, FLAGS, NULL, call_patch,
                                    NULL, NULL, NULL);
  return rc;
}
