/* SPDX-License-Identifier: MIT
**
** store_help.h -- shared by the tests of a whole store: opening with a
** message on failure, vectors that identify their key, and sizes of files and
** memory.
*/
#ifndef EMB_STORE_HELP_H
#define EMB_STORE_HELP_H

#include "test.h"

#include "engine/emb.h"

#include <dirent.h>
#include <errno.h>

/* A call that must succeed; a failure prints code and text. */
#define OK(session_, call_)                                                    \
  help_ok((session_), (call_), #call_, __FILE__, __LINE__)
/* A call that must end with this code. */
#define GIVES(session_, code_, call_)                                          \
  help_gives((session_), (code_), (call_), #call_, __FILE__, __LINE__)

int help_gives(emb_session *s, int want, int rc, const char *call,
               const char *file, int line);

int help_ok(emb_session *s, int rc, const char *call, const char *file,
            int line);

/* A path in the test's directory; valid until the eighth call after this
** one. */
const char *help_path(const char *name);

/* Opens dir and a session; 1 when both are there. */
int help_open(const char *dir, const emb_config *config, emb_store **store,
              emb_session **session);
/* Opens the store "store", whose work is done by emb_step, with the keys 1 to
** rows; their vectors are zeros. */
int help_open_filled(uint32_t dim, int64_t rows, emb_store **store,
                     emb_session **session);

int help_close(emb_store *store, emb_session *session);

/* ---- vectors ------------------------------------------------------------- */

void help_vector(float *to, uint32_t dim, int64_t key, int32_t value);

/* 1 when the vector is that of the key with this value. */
int help_is(const float *vector, uint32_t dim, int64_t key, int32_t value);

/* The value of a vector that is whole; INT32_MIN when it is torn or another
** key's. */
int32_t help_value(const float *vector, uint32_t dim, int64_t key);

/* ---- rows of such vectors ------------------------------------------------ */

/* Puts one key; gives the code of emb_put. */
int help_put(emb_session *s, int64_t key, int32_t value);

/* The value that a peek finds; INT32_MIN: the key is absent. */
int32_t help_peek(emb_session *s, int64_t key);

/* Puts the n keys first, first + step, ..., all with this value; 1 when it
** has. */
int help_put_rows(emb_session *s, int64_t first, int64_t step, int64_t n,
                  int32_t value);

/* Deletes the n keys from `first` on, one by one. */
void help_delete_rows(emb_session *s, int64_t first, int64_t n);

/* Does background work until there is none, as the threads do; 1 when it
** has. */
int help_settle(emb_store *store);

/* ---- sizes --------------------------------------------------------------- */

/* Bytes of disk that the files of a directory occupy. */
uint64_t help_disk_bytes(const char *dir);

/* Names in a directory besides "." and ".."; -1 when it is not there. */
int help_entries(const char *dir);

/* Bytes of memory that this process has. */
int64_t help_rss(void);

/* Milliseconds of a clock that never goes back. */
int64_t help_now_ms(void);

int64_t help_stat(emb_store *store, const char *name);
const char *help_stat_text(emb_store *store, const char *name);

/* ---- for calls that take a function -------------------------------------- */

/* For qsort: int64_t, ascending. */
int help_compare_keys(const void *a, const void *b);

/* For emb_session_interrupt: stops a call at once. */
int help_interrupt(void *arg);

/* ---- amounts ------------------------------------------------------------- */

/* LONG=n in the environment makes tests n times as long. */
unsigned help_long(void);

/* SHARE=n makes the tests that try one place after another try one in n: for
** a second pass under a sanitizer. */
unsigned help_share(void);

/* How often to repeat a random step that is repeated n times by default. */
unsigned help_amount(unsigned n);

/* Checks that the random run covered the case under test.  Not checked when
** only a share runs. */
#define HELP_CAME(expr) CHECK(help_share() > 1 || (expr))

/* Counts what emb_verify reports, and prints it. */
void help_report(void *count, const char *line);

int help_verify(emb_session *s);

#endif
