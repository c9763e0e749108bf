/* SPDX-License-Identifier: MIT
**
** err.c -- creates an error (see err.h).
**
** FAILURE   Never fails: a text that is too long is cut at its end.
** THREADS   Any; an emb_err belongs to its caller.
*/
#include "err.h"

#include "debug.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int err_set(emb_err *err, int code, const char *format, ...) {
  emb_assert(code != EMB_OK);
  if (err != NULL) {
    va_list args;
    va_start(args, format);
    err->code = code;
    (void)vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
  }
  return code;
}

int err_is_full(int os_error) {
  return os_error == ENOSPC || os_error == EDQUOT || os_error == EFBIG;
}

static int map_os(int fallback, int os_error) {
  if (err_is_full(os_error)) {
    return EMB_FULL;
  }
  switch (os_error) {
  case ENOMEM:
    return EMB_NOMEM;
  case EROFS:
    return EMB_READONLY;
  default:
    return fallback;
  }
}

/* Appends ": reason", cutting the preceding text if there is no room: the end
** of a very long path is expendable, the reason is not. */
static void append_reason(emb_err *err, int os_error) {
  char buffer[128];
  const char *reason = os_error == ENOTBLK /* from env->open */
                           ? "Not a regular file"
                           : strerror_r(os_error, buffer, sizeof buffer);
  size_t need = strlen(reason) + 2;
  size_t used = strlen(err->text);
  if (need >= sizeof err->text)
    return;
  if (used > sizeof err->text - 1 - need)
    used = sizeof err->text - 1 - need;
  (void)snprintf(err->text + used, sizeof err->text - used, ": %s", reason);
}

int err_os(emb_err *err, int fallback, int os_error, const char *format, ...) {
  emb_assert(fallback != EMB_OK);
  int code = map_os(fallback, os_error);
  if (err != NULL) {
    va_list args;
    va_start(args, format);
    err->code = code;
    (void)vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    append_reason(err, os_error);
  }
  return code;
}

void err_clear(emb_err *err) {
  if (err != NULL) {
    err->code = EMB_OK;
    err->text[0] = '\0';
  }
}
