/* SPDX-License-Identifier: MIT
**
** err.h -- creates an error.
**
** A function that finds an error calls err_set once, with a text that says
** what failed and where, and returns its code.  Its callers forward the code
** and leave the text alone.  err may be NULL.
*/
#ifndef EMB_BASE_ERR_H
#define EMB_BASE_ERR_H

#include "engine/emb.h"
#include "seed.h"

/* Sets code and text; returns code. */
int err_set(emb_err *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* As err_set, for a failed system call: appends strerror(os_error), and maps
** ENOSPC, EDQUOT, EFBIG -> EMB_FULL, ENOMEM -> EMB_NOMEM, EROFS ->
** EMB_READONLY, anything else -> fallback. */
int err_os(emb_err *err, int fallback, int os_error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void err_clear(emb_err *err);
/* Does this errno mean that there is no space? */
int err_is_full(int os_error);

#endif
