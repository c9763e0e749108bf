/* SPDX-License-Identifier: MIT
**
** store_help.c -- shared by the tests of stores: see store_help.h.
*/
#include "fork_help.h"
#include "store_help.h"

#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

int help_gives(emb_session *s, int want, int rc, const char *call,
               const char *file, int line) {
  return test_check(rc == want, file, line, "%s gave %d, not %d: %s", call, rc,
                    want, s != NULL && rc != 0 ? emb_errmsg(s) : "");
}

int help_ok(emb_session *s, int rc, const char *call, const char *file,
            int line) {
  return help_gives(s, EMB_OK, rc, call, file, line);
}

const char *help_path(const char *name) {
  static char paths[8][512];
  static unsigned round;
  char *path = paths[round++ % 8];
  (void)snprintf(path, sizeof paths[0], "%s/%s", test_dir(), name);
  return path;
}

/* ---- another owner ------------------------------------------------------- */

/* With SERVED=1 in the environment each store that a test opens here is owned
** by a child, and the test is its client. */
enum { OWNERS = 16 };
static struct help_owner {
  emb_store *store; /* NULL: free */
  pid_t pid;
  int say;
} help_owners[OWNERS];

static void help_own(const char *dir, const emb_config *config, int hear,
                     int say) {
  emb_store *store;
  emb_session *s;
  emb_err err;
  char byte;
  if (emb_open(dir, config, &store, &err) ||
      emb_session_open(store, &s, &err) || emb_own(s))
    _exit(2);
  (void)!write(say, "o", 1);
  (void)close(say);
  (void)!read(hear, &byte, 1);
  emb_session_close(s);
  _exit(emb_close(store, &err) ? 3 : 0);
}

static struct help_owner *help_start_owner(const char *dir,
                                           const emb_config *config) {
  const uint32_t own =
      EMB_OPEN_TEMPORARY | EMB_OPEN_STEP | EMB_OPEN_ALONE | EMB_OPEN_READONLY;
  struct help_owner *o = help_owners;
  int down[2], up[2];
  char byte;
  if (!getenv("SERVED") || (config->flags & own))
    return NULL;
  while (o < help_owners + OWNERS && o->pid)
    o++;
  if (o == help_owners + OWNERS || pipe(down) || pipe(up))
    return NULL;
  (void)fflush(stdout);
  o->pid = test_fork();
  if (o->pid == 0) {
    (void)close(down[1]);
    (void)close(up[0]);
    for (int i = 0; i < OWNERS; i++) /* of other stores */
      if (help_owners[i].pid && &help_owners[i] != o)
        (void)close(help_owners[i].say);
    help_own(dir, config, down[0], up[1]);
  }
  (void)close(down[0]);
  (void)close(up[1]);
  o->say = down[1];
  (void)!read(up[0], &byte, 1);
  (void)close(up[0]);
  return o;
}

static int help_end_owner(const emb_store *store) {
  int status = 0;
  for (struct help_owner *o = help_owners; o < help_owners + OWNERS; o++)
    if (o->pid && o->store == store) {
      (void)close(o->say);
      (void)waitpid(o->pid, &status, 0);
      o->pid = 0;
    }
  return test_check(status == 0, __FILE__, __LINE__,
                    "the owner ended with status %d", status);
}

int help_open(const char *dir, const emb_config *config, emb_store **store,
              emb_session **session) {
  emb_err err = {0, ""};
  struct help_owner *owner = help_start_owner(dir, config);
  *session = NULL;
  int rc = emb_open(dir, config, store, &err);
  if (!test_check(rc == EMB_OK, __FILE__, __LINE__, "open %s gave %d: %s", dir,
                  rc, err.text))
    return 0;
  if (owner)
    owner->store = *store;
  rc = emb_session_open(*store, session, &err);
  return test_check(rc == EMB_OK, __FILE__, __LINE__, "session gave %d: %s", rc,
                    err.text);
}

int help_open_filled(uint32_t dim, int64_t rows, emb_store **store,
                     emb_session **session) {
  emb_config config = {
      .dim = dim, .memory_bytes = 1, .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP};
  float *vector = calloc(dim, sizeof *vector);
  int good = CHECK(vector != NULL) &&
             help_open(help_path("store"), &config, store, session);
  for (int64_t key = 1; good && key <= rows; key++)
    good = OK(*session, emb_put(*session, &key, 1, vector, NULL));
  free(vector);
  return good;
}

int help_close(emb_store *store, emb_session *session) {
  emb_err err = {0, ""};
  emb_session_close(session);
  int rc = emb_close(store, &err);
  int good = help_end_owner(store);
  return test_check(rc == EMB_OK, __FILE__, __LINE__, "close gave %d: %s", rc,
                    err.text) &&
         good;
}

/* ---- vectors ------------------------------------------------------------- */

/* Whole numbers that float16 holds exactly while |value| <= 2000: the value
** plus a pattern that depends on the key, so that neither another key's
** vector nor a torn vector passes. */
static float help_element(int64_t key, int32_t value, uint32_t i) {
  return (float)(value + (int32_t)(((uint64_t)key * 7 + i) & 15));
}

void help_vector(float *to, uint32_t dim, int64_t key, int32_t value) {
  float x[16];
  for (uint32_t i = 0; i < 16; i++)
    x[i] = help_element(key, value, i);
  for (uint32_t i = 0; i < dim; i++)
    to[i] = x[i & 15];
}

int help_is(const float *vector, uint32_t dim, int64_t key, int32_t value) {
  float x[16];
  for (uint32_t i = 0; i < 16; i++)
    x[i] = help_element(key, value, i);
  for (uint32_t i = 0; i < dim; i++)
    if (vector[i] != x[i & 15])
      return 0;
  return 1;
}

int32_t help_value(const float *vector, uint32_t dim, int64_t key) {
  int32_t value = (int32_t)(vector[0] - help_element(key, 0, 0));
  return help_is(vector, dim, key, value) ? value : INT32_MIN;
}

/* ---- rows of such vectors ------------------------------------------------ */

enum { HELP_ROWS = 256 }; /* of one call */

static float *help_rows(emb_session *s, int64_t n, uint32_t *dim) {
  *dim = emb_dim(emb_session_store(s));
  float *rows = malloc((size_t)n * *dim * sizeof *rows);
  CHECK(rows != NULL);
  return rows;
}

int help_put(emb_session *s, int64_t key, int32_t value) {
  uint32_t dim;
  float *row = help_rows(s, 1, &dim);
  int rc = EMB_NOMEM;
  if (row) {
    help_vector(row, dim, key, value);
    rc = emb_put(s, &key, 1, row, NULL);
  }
  free(row);
  return rc;
}

int32_t help_peek(emb_session *s, int64_t key) {
  uint32_t dim;
  float *row = help_rows(s, 1, &dim);
  uint8_t found = 0;
  int32_t value = INT32_MIN;
  if (row && OK(s, emb_peek(s, &key, 1, row, &found, NULL)) && found) {
    value = help_value(row, dim, key);
    CHECK(value != INT32_MIN);
  }
  free(row);
  return value;
}

int help_put_rows(emb_session *s, int64_t first, int64_t step, int64_t n,
                  int32_t value) {
  int64_t keys[HELP_ROWS];
  uint32_t dim;
  float *rows = help_rows(s, HELP_ROWS, &dim);
  int good = rows != NULL;
  for (int64_t at = 0; good && at < n; at += HELP_ROWS) {
    size_t m = (size_t)(n - at < HELP_ROWS ? n - at : HELP_ROWS);
    for (size_t i = 0; i < m; i++) {
      keys[i] = first + (at + (int64_t)i) * step;
      help_vector(rows + i * dim, dim, keys[i], value);
    }
    good = OK(s, emb_put(s, keys, m, rows, NULL));
  }
  free(rows);
  return good;
}

void help_delete_rows(emb_session *s, int64_t first, int64_t n) {
  for (int64_t key = first; key < first + n; key++)
    OK(s, emb_delete(s, &key, 1, NULL));
}

int help_settle(emb_store *store) {
  int more = 1, good = 1;
  while (good && more)
    good = OK(NULL, emb_step(store, &more));
  return good;
}

/* ---- sizes --------------------------------------------------------------- */

uint64_t help_disk_bytes(const char *dir) {
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

int help_entries(const char *dir) {
  int n = 0;
  DIR *d = opendir(dir);
  if (d == NULL)
    return -1;
  for (struct dirent *e; (e = readdir(d)) != NULL;)
    n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
  (void)closedir(d);
  return n;
}

int64_t help_rss(void) {
  long pages = 0, all = 0;
  FILE *f = fopen("/proc/self/statm", "re");
  if (f == NULL || fscanf(f, "%ld %ld", &all, &pages) != 2)
    pages = 0;
  if (f != NULL)
    (void)fclose(f);
  return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

int64_t help_now_ms(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static emb_stat stat_of(emb_store *store, const char *name) {
  emb_stat stats[192];
  size_t n = emb_stats(store, stats, 192);
  for (size_t i = 0; i < n; i++)
    if (strcmp(stats[i].name, name) == 0)
      return stats[i];
  (void)test_check(0, __FILE__, __LINE__, "no metric %s", name);
  return (emb_stat){name, "", 0};
}

int64_t help_stat(emb_store *store, const char *name) {
  return stat_of(store, name).value;
}

const char *help_stat_text(emb_store *store, const char *name) {
  return stat_of(store, name).text;
}

int help_compare_keys(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

int help_interrupt(void *arg) {
  (void)arg;
  return 1;
}

unsigned help_long(void) {
  const char *text = getenv("LONG");
  unsigned long n = text != NULL ? strtoul(text, NULL, 10) : 1;
  return n < 1 ? 1 : (unsigned)n;
}

unsigned help_share(void) {
  const char *text = getenv("SHARE");
  unsigned long n = text != NULL ? strtoul(text, NULL, 10) : 1;
  return n < 1 ? 1 : (unsigned)n;
}

unsigned help_amount(unsigned n) {
  unsigned amount = n * help_long() / help_share();
  return amount < 1 ? 1 : amount;
}

void help_report(void *count, const char *line) {
  ++*(int *)count;
  printf("verify: %s\n", line);
}

int help_verify(emb_session *s) {
  int problems = 0;
  return OK(s, emb_verify(s, help_report, &problems)) &&
         CHECK_EQ_INT(problems, 0);
}
