/* SPDX-License-Identifier: MIT
**
** error.c -- maps engine codes to SQLite codes and hands messages to SQLite.
**
** The only place where codes are mapped.  SQLITE_ERROR is reserved for
** arguments that are invalid in themselves: SQLite rolls back by itself on some
** codes (IOERR, FULL, NOMEM, INTERRUPT), and callers retry on others (BUSY).
*/
#include "value.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

static const struct {
  int code;
  const char *text; /* used if the engine gives no text */
} map[] = {
    [EMB_OK] = {SQLITE_OK, "no error"},
    [EMB_BUSY] = {SQLITE_BUSY, "store is busy"},
    [EMB_NOMEM] = {SQLITE_NOMEM, "out of memory"},
    [EMB_IOERR] = {SQLITE_IOERR, "disk I/O error"},
    [EMB_FULL] = {SQLITE_FULL, "no space left on the device"},
    [EMB_CORRUPT] = {SQLITE_CORRUPT_VTAB, "store is damaged"},
    [EMB_READONLY] = {SQLITE_READONLY, "store is open read-only"},
    [EMB_CANTOPEN] = {SQLITE_CANTOPEN, "cannot open store"},
    [EMB_NOTADB] = {SQLITE_NOTADB, "not an emb store, or a newer format"},
    [EMB_MISUSE] = {SQLITE_MISUSE, "store used out of order"},
    [EMB_RANGE] = {SQLITE_ERROR, "value out of range"},
    [EMB_MISMATCH] = {SQLITE_MISMATCH, "store has another dimension or type"},
    [EMB_FAILED] = {SQLITE_IOERR, "an earlier write failed"},
    [EMB_INTERRUPT] = {SQLITE_INTERRUPT, "interrupted"},
    [EMB_LOCKED] = {SQLITE_LOCKED, "locked by this connection's transaction"},
    [EMB_ABORT] = {SQLITE_ABORT_ROLLBACK, "the scan was ended by a rollback"},
    [EMB_NONFINITE] = {SQLITE_CONSTRAINT, "an element is not finite"},
    [EMB_GAP] = {SQLITE_CONSTRAINT, "an earlier file is missing"},
    [EMB_UNFIT] = {SQLITE_ERROR,
                   "the table was created without the option for this"},
    [EMB_LOST] = {SQLITE_ABORT_ROLLBACK, "the store's owner process is gone"},
};

int ext_code(int emb_code) {
  if (emb_code < 0 || (size_t)emb_code >= sizeof map / sizeof map[0])
    return SQLITE_ERROR;
  return map[emb_code].code;
}

int ext_error(char **err, int code, const char *format, ...) {
  va_list args;
  sqlite3_free(*err);
  va_start(args, format);
  *err = sqlite3_vmprintf(format, args);
  va_end(args);
  return *err ? code : SQLITE_NOMEM;
}

int ext_engine_error(char **err, int emb_code, const char *text) {
  int code = ext_code(emb_code);
  if (code == SQLITE_NOMEM)
    return code;
  if (text == NULL || text[0] == 0)
    text = code == SQLITE_ERROR ? "unknown error" : map[emb_code].text;
  return ext_error(err, code, "%s", text);
}

int ext_vtab_error(sqlite3_vtab *vtab, int code, char *err) {
  if (err) {
    sqlite3_free(vtab->zErrMsg);
    vtab->zErrMsg = sqlite3_mprintf("emb: %s", err);
    sqlite3_free(err);
  }
  return code;
}

void ext_result_error(sqlite3_context *context, int code, char *err) {
  char *text = err ? sqlite3_mprintf("emb: %s", err) : NULL;
  sqlite3_free(err);
  if (text)
    sqlite3_result_error(context, text, -1);
  if (code == SQLITE_NOMEM)
    sqlite3_result_error_nomem(context);
  else
    sqlite3_result_error_code(context, code);
  sqlite3_free(text);
}

int ext_declare_vtab(sqlite3 *db, const char *sql) {
  int rc = sqlite3_declare_vtab(db, sql);
  return rc == SQLITE_ERROR && strcmp(sqlite3_errmsg(db),
                                      sqlite3_errstr(SQLITE_INTERRUPT)) == 0
             ? SQLITE_INTERRUPT
             : rc;
}

int ext_check_size(sqlite3 *db, size_t n, uint32_t dim, char **err) {
  int limit = sqlite3_limit(db, SQLITE_LIMIT_LENGTH, -1);
  uint32_t row = dim * (uint32_t)sizeof(float);
  emb_assert(dim > 0);
  if (n <= (size_t)limit / row)
    return SQLITE_OK;
  return ext_error(err, SQLITE_TOOBIG,
                   "%lld vectors of %u bytes exceed the result limit of %d "
                   "bytes; use smaller batches",
                   (long long)n, row, limit);
}
