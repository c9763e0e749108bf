/* SPDX-License-Identifier: MIT
**
** store_help.h -- what the tests of engine/store share: opening with a text on
** failure, vectors that tell whose they are, and the sizes of things.
*/
#ifndef EMB_STORE_HELP_H
#define EMB_STORE_HELP_H

#include "test.h"

#include "../../engine/emb.h"

#include <dirent.h>
#include <errno.h>

/* A call that must succeed; a failure prints code and text. */
#define OK(session_, call_)                                                    \
  help_ok((session_), (call_), #call_, __FILE__, __LINE__)
/* A call that must end with this code. */
#define GIVES(session_, code_, call_)                                          \
  help_gives((session_), (code_), (call_), #call_, __FILE__, __LINE__)

static inline int help_gives(emb_session *s, int want, int rc, const char *call,
                             const char *file, int line) {
  return test_check(rc == want, file, line, "%s gave %d, not %d: %s", call, rc,
                    want, s != NULL && rc != 0 ? emb_errmsg(s) : "");
}

static inline int help_ok(emb_session *s, int rc, const char *call,
                          const char *file, int line) {
  return help_gives(s, EMB_OK, rc, call, file, line);
}

/* A path in the test's directory; valid until the eighth call from here. */
static inline const char *help_path(const char *name) {
  static char paths[8][512];
  static unsigned turn;
  char *path = paths[turn++ % 8];
  (void)snprintf(path, sizeof paths[0], "%s/%s", test_dir(), name);
  return path;
}

/* Opens dir and a session; 1 when both are there. */
static inline int help_open(const char *dir, const emb_config *config,
                            emb_store **store, emb_session **session) {
  emb_err err = {0, ""};
  *session = NULL;
  int rc = emb_open(dir, config, store, &err);
  if (!test_check(rc == EMB_OK, __FILE__, __LINE__, "open %s gave %d: %s", dir,
                  rc, err.text))
    return 0;
  rc = emb_session_open(*store, session, &err);
  return test_check(rc == EMB_OK, __FILE__, __LINE__, "session gave %d: %s", rc,
                    err.text);
}

static inline int help_close(emb_store *store, emb_session *session) {
  emb_err err = {0, ""};
  emb_session_close(session);
  int rc = emb_close(store, &err);
  return test_check(rc == EMB_OK, __FILE__, __LINE__, "close gave %d: %s", rc,
                    err.text);
}

/* ---- vectors ------------------------------------------------------------- */

/* Whole numbers that float16 holds exactly while |value| <= 2000: the value
** plus a pattern that depends on the key, so that neither another key's
** vector nor a torn one passes. */
static inline float help_element(int64_t key, int32_t value, uint32_t i) {
  return (float)(value + (int32_t)(((uint64_t)key * 7 + i) & 15));
}

static inline void help_vector(float *to, uint32_t dim, int64_t key,
                               int32_t value) {
  float x[16];
  for (uint32_t i = 0; i < 16; i++)
    x[i] = help_element(key, value, i);
  for (uint32_t i = 0; i < dim; i++)
    to[i] = x[i & 15];
}

/* 1 when the vector is the key's with this value. */
static inline int help_is(const float *vector, uint32_t dim, int64_t key,
                          int32_t value) {
  float x[16];
  for (uint32_t i = 0; i < 16; i++)
    x[i] = help_element(key, value, i);
  for (uint32_t i = 0; i < dim; i++)
    if (vector[i] != x[i & 15])
      return 0;
  return 1;
}

/* The value of a vector that is whole; INT32_MIN when it is torn or another
** key's. */
static inline int32_t help_value(const float *vector, uint32_t dim,
                                 int64_t key) {
  int32_t value = (int32_t)(vector[0] - help_element(key, 0, 0));
  return help_is(vector, dim, key, value) ? value : INT32_MIN;
}

/* ---- sizes --------------------------------------------------------------- */

/* Bytes of disk that the files of a directory occupy. */
static inline uint64_t help_disk_bytes(const char *dir) {
  uint64_t bytes = 0;
  DIR *d = opendir(dir);
  for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
    char path[1024];
    struct stat st;
    (void)snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
      bytes += (uint64_t)st.st_blocks * 512;
  }
  if (d != NULL)
    (void)closedir(d);
  return bytes;
}

/* Names in a directory besides "." and ".."; -1 when it is not there. */
static inline int help_entries(const char *dir) {
  int n = 0;
  DIR *d = opendir(dir);
  if (d == NULL)
    return -1;
  for (struct dirent *e; (e = readdir(d)) != NULL;)
    n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
  (void)closedir(d);
  return n;
}

/* Bytes of memory that this process has. */
static inline int64_t help_rss(void) {
  long pages = 0, all = 0;
  FILE *f = fopen("/proc/self/statm", "re");
  if (f == NULL || fscanf(f, "%ld %ld", &all, &pages) != 2)
    pages = 0;
  if (f != NULL)
    (void)fclose(f);
  return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

static inline int64_t help_stat(emb_store *store, const char *name) {
  emb_stat stats[128];
  size_t n = emb_stats(store, stats, 128);
  for (size_t i = 0; i < n; i++)
    if (strcmp(stats[i].name, name) == 0)
      return stats[i].value;
  (void)test_check(0, __FILE__, __LINE__, "no figure %s", name);
  return 0;
}

/* LONG=n in the environment makes tests n times as long. */
static inline unsigned help_long(void) {
  const char *text = getenv("LONG");
  unsigned long n = text != NULL ? strtoul(text, NULL, 10) : 1;
  return n < 1 ? 1 : (unsigned)n;
}

/* SHARE=n makes the tests that try one place after the other try one in n: for
** a second pass under a sanitizer. */
static inline unsigned help_share(void) {
  const char *text = getenv("SHARE");
  unsigned long n = text != NULL ? strtoul(text, NULL, 10) : 1;
  return n < 1 ? 1 : (unsigned)n;
}

/* How often something random is done that is done n times by itself. */
static inline unsigned help_amount(unsigned n) {
  unsigned amount = n * help_long() / help_share();
  return amount < 1 ? 1 : amount;
}

/* Chance brought what a test is about.  Not asked of a share of it. */
#define HELP_CAME(expr) CHECK(help_share() > 1 || (expr))

/* Counts what emb_verify reports, and prints it. */
static inline void help_report(void *count, const char *line) {
  ++*(int *)count;
  printf("verify: %s\n", line);
}

static inline int help_verify(emb_session *s) {
  int problems = 0;
  return OK(s, emb_verify(s, help_report, &problems)) &&
         CHECK_EQ_INT(problems, 0);
}

#endif
