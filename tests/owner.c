/* SPDX-License-Identifier: MIT
**
** owner.c -- the tables of a suite have another owner: another process, or a
** second copy of the library in this one.  Part of the fixture.
**
** Called by tester.tcl (owner_start, owner_count) when CROSS in the
** environment says so; linked into testfixture, whose functions hide those of
** libraries.
**
** HOW     A process owns a store by locking its lock file, with the first
**         write.  The library locks by fcntl, which is replaced here: ours
**         first tells the owner which store to take, and the owner opens the
**         database and writes nothing with emb_put, which makes it the owner.
**         So the lock is refused, and the connections of the suite are
**         clients from their first write on.
** ENDS    An owner keeps a connection for each database file.  It is closed
**         when the last connection of the suite to that file has been closed
**         (sqlite3_close is replaced, too), so that no process has the files
**         open when the suite moves, damages or deletes them.
** KEPT    The suite's own process owns the stores that the owner cannot open:
**         the table belongs to an uncommitted transaction, the file is
**         locked, or serve='off'.
**
** STATES  off; process: a forked process answers requests, one line each, until
**         the socket is closed; copy: the same functions in this process,
**         with a copy of emb.so in a memory file, which the system treats as
**         another library.
** THREADS Any.  One request at a time (busy_mutex); calls of a thread that
**         carries out a request go to the system.
*/
#include "owner.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 4096
#define LOCK_FILE "/lock"
#define MANIFEST "/manifest"
/* The bytes locked by engine/base/env/env_lock.c. */
#define LOCK_BYTES ((off_t)1 << 40)
#define BUSY_MS 20

enum mode { OFF, PROCESS, COPY };

static pthread_mutex_t busy_mutex = PTHREAD_MUTEX_INITIALIZER;
static enum mode mode; /* set once, before there are stores */
static int line = -1;  /* the socket, at both ends */
static char library[PATH_BYTES];
static int owned, kept;     /* busy_mutex */
static __thread int inside; /* this thread carries out a request */

/* A function of the libsqlite3, which is loaded if necessary. */
static void *sqlite(const char *name) {
  void *handle = dlopen("libsqlite3.so.0", RTLD_LAZY);
  void *function = handle ? dlsym(handle, name) : NULL;
  if (!function) {
    fprintf(stderr, "owner: libsqlite3.so.0 has no %s\n", name);
    _exit(2);
  }
  return function;
}
#define SQLITE(name) ((__typeof__(&name))sqlite(#name))

/* ---- the owner ----------------------------------------------------------- */

/* A database file that the owner has open. */
struct database {
  struct database *next;
  char path[PATH_BYTES];
  struct stat file; /* another file may replace it at the path */
  sqlite3 *db;
};
static struct database *databases; /* busy_mutex */

static int same_file(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static void close_database(struct database **at) {
  struct database *d = *at;
  *at = d->next;
  SQLITE(sqlite3_close)(d->db);
  free(d);
}

static void release(const char *path) {
  struct database **at = &databases;
  while (*at) {
    if (strcmp((*at)->path, path) == 0)
      close_database(at);
    else
      at = &(*at)->next;
  }
}

static sqlite3 *open_database(const char *path) {
  struct stat file;
  struct database *d;
  if (stat(path, &file) != 0)
    return NULL;
  for (d = databases; d; d = d->next)
    if (strcmp(d->path, path) == 0 && same_file(&d->file, &file))
      return d->db;
  release(path);
  d = calloc(1, sizeof *d);
  if (!d)
    return NULL;
  snprintf(d->path, sizeof d->path, "%s", path);
  d->file = file;
  if (SQLITE(sqlite3_open_v2)(path, &d->db, SQLITE_OPEN_READWRITE, NULL) ||
      SQLITE(sqlite3_busy_timeout)(d->db, BUSY_MS) ||
      SQLITE(sqlite3_enable_load_extension)(d->db, 1) ||
      SQLITE(sqlite3_load_extension)(d->db, library, "sqlite3_emb_init",
                                     NULL)) {
    SQLITE(sqlite3_close)(d->db);
    free(d);
    return NULL;
  }
  d->next = databases;
  databases = d;
  return d->db;
}

/* The first column of the first row; NULL: no row, or an error, given in
** *rc. */
static char *ask(sqlite3 *db, int *rc, const char *format, ...) {
  char sql[2 * PATH_BYTES], *result = NULL;
  sqlite3_stmt *statement = NULL;
  va_list arguments;
  va_start(arguments, format);
  SQLITE(sqlite3_vsnprintf)(sizeof sql, sql, format, arguments);
  va_end(arguments);
  *rc = SQLITE(sqlite3_prepare_v2)(db, sql, -1, &statement, NULL);
  if (*rc == SQLITE_OK &&
      (*rc = SQLITE(sqlite3_step)(statement)) == SQLITE_ROW) {
    const unsigned char *text = SQLITE(sqlite3_column_text)(statement, 0);
    result = text ? strdup((const char *)text) : NULL;
    *rc = SQLITE_OK;
  }
  SQLITE(sqlite3_finalize)(statement);
  return result;
}

/* The table whose store is in this directory next to the database, if it may
** be served. */
static char *table_of(sqlite3 *db, const char *dir) {
  int rc;
  for (int i = 0;; i++) {
    char *name = ask(db, &rc,
                     "SELECT name FROM sqlite_schema WHERE type = 'table' AND "
                     "sql LIKE 'CREATE VIRTUAL TABLE%%' AND "
                     "sql NOT LIKE '%%serve=''off%%' LIMIT 1 OFFSET %d",
                     i);
    if (!name)
      return NULL;
    char *found = ask(db, &rc, "SELECT dir FROM \"%w_emb\"", name);
    int is = found && strcmp(found, dir) == 0;
    free(found);
    if (is)
      return name;
    free(name);
  }
}

/* Whether the owner now owns the store in this directory. */
static int own(const char *path) {
  char database[PATH_BYTES], *end;
  int rc = SQLITE_ERROR;
  snprintf(database, sizeof database, "%s", path);
  end = strrchr(database, '/');
  if (!end)
    return 0;
  const char *dir = path + (end - database) + 1;
  *end = 0;
  if (end - database < 4 || strcmp(end - 4, "-emb") != 0)
    return 0;
  end[-4] = 0;
  sqlite3 *db = open_database(database);
  char *table = db ? table_of(db, dir) : NULL;
  /* A process that reads the store left by a killed process becomes its
  ** owner, and decides its transaction in doubt.  A write would first wait
  ** for that decision, for which the suite's connection may hold the lock. */
  char *owns = table ? ask(db, &rc,
                           "SELECT value FROM emb_stats(%Q) "
                           "WHERE name = 'owner'",
                           table)
                     : NULL;
  if (table && (rc || !owns || strcmp(owns, "1") != 0))
    free(ask(db, &rc, "SELECT emb_put(%Q, '[]', '[]')", table));
  free(owns);
  if (rc && getenv("TRACE"))
    fprintf(stderr, "owner: cannot own %s: %s\n", path,
            db ? SQLITE(sqlite3_errmsg)(db) : "no such database");
  free(table);
  return rc == SQLITE_OK;
}

static void answer_requests(void) {
  FILE *in = fdopen(line, "r");
  char request[PATH_BYTES + 2];
  while (in && fgets(request, sizeof request, in)) {
    char answer = '0';
    request[strcspn(request, "\n")] = 0;
    if (request[0] == 'o')
      answer = own(request + 1) ? '1' : '0';
    else
      release(request + 1);
    if (write(line, &answer, 1) != 1)
      break;
  }
  while (databases)
    close_database(&databases);
  _exit(0);
}

/* 'o': own the store in the directory; 'r': release the database. */
static int request(char what, const char *path) {
  int done = 0;
  inside++;
  pthread_mutex_lock(&busy_mutex);
  if (mode == COPY) {
    if (what == 'o')
      done = own(path);
    else
      release(path);
  } else {
    char answer = '0';
    if (dprintf(line, "%c%s\n", what, path) > 0 && read(line, &answer, 1) == 1)
      done = answer == '1';
  }
  if (what == 'o') {
    owned += done;
    kept += !done;
  }
  pthread_mutex_unlock(&busy_mutex);
  inside--;
  return done;
}

/* ---- the suite's process ------------------------------------------------- */

/* The directory of the store that is being locked, or 0. */
static int locked_store(int fd, const struct flock *lock, char *path) {
  char link[64], manifest[PATH_BYTES + sizeof MANIFEST];
  if (lock->l_type != F_WRLCK || lock->l_start != 0 ||
      lock->l_len != LOCK_BYTES)
    return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, PATH_BYTES - 1);
  ssize_t end = length - (ssize_t)sizeof LOCK_FILE + 1;
  if (length <= 0 || end <= 0 ||
      memcmp(path + end, LOCK_FILE, sizeof LOCK_FILE - 1))
    return 0;
  path[end] = 0;
  snprintf(manifest, sizeof manifest, "%s" MANIFEST, path);
  return access(manifest, F_OK) == 0; /* otherwise it is being made */
}

/* Is the address in the copy?  The copy has its own threads, which lock, too:
** the suite must ignore these locks, and the copy holds mutexes during them. */
static int is_of_copy(const void *address) {
  Dl_info info;
  return mode == COPY && dladdr(address, &info) && info.dli_fname &&
         strcmp(info.dli_fname, library) == 0;
}

/* The third argument of fcntl is a number or an address. */
__attribute__((visibility("default"))) int fcntl(int fd, int command, ...) {
  static int (*next)(int, int, ...);
  char path[PATH_BYTES];
  va_list arguments;
  va_start(arguments, command);
  void *argument = va_arg(arguments, void *);
  va_end(arguments);
  if (!next)
    *(void **)&next = dlsym(RTLD_NEXT, "fcntl");
  if (mode && !inside && command == F_OFD_SETLK &&
      !is_of_copy(__builtin_return_address(0)) &&
      locked_store(fd, argument, path))
    request('o', path);
  return next(fd, command, argument);
}

/* A connection of the suite, or of the library in its process. */
struct connection {
  struct connection *next;
  sqlite3 *db;
};
static struct connection *connections; /* connections_mutex */
static pthread_mutex_t connections_mutex = PTHREAD_MUTEX_INITIALIZER;

static void add_connection(sqlite3 *db) {
  struct connection *c = db && mode && !inside ? malloc(sizeof *c) : NULL;
  if (!c)
    return;
  pthread_mutex_lock(&connections_mutex);
  *c = (struct connection){connections, db};
  connections = c;
  pthread_mutex_unlock(&connections_mutex);
}

static int remove_connection(sqlite3 *db) {
  struct connection **at, *found;
  pthread_mutex_lock(&connections_mutex);
  for (at = &connections; *at && (*at)->db != db;)
    at = &(*at)->next;
  found = *at;
  if (found)
    *at = found->next;
  pthread_mutex_unlock(&connections_mutex);
  free(found);
  return found != NULL;
}

/* The i-th file of a connection. */
static const char *file_of(sqlite3 *db, int i) {
  const char *name = SQLITE(sqlite3_db_name)(db, i);
  const char *file = name ? SQLITE(sqlite3_db_filename)(db, name) : NULL;
  return name && !file ? "" : file;
}

static int is_open(const char *path) {
  int found = 0;
  pthread_mutex_lock(&connections_mutex);
  for (struct connection *c = connections; c && !found; c = c->next) {
    const char *file;
    for (int i = 0; !found && (file = file_of(c->db, i)); i++)
      found = strcmp(file, path) == 0;
  }
  pthread_mutex_unlock(&connections_mutex);
  return found;
}

#define FILES 16

static int closing(sqlite3 *db, int (*close_it)(sqlite3 *)) {
  char *files[FILES];
  const char *file;
  int n = 0;
  if (!db || !mode || inside || !remove_connection(db))
    return close_it(db);
  for (int i = 0; n < FILES && (file = file_of(db, i)); i++)
    if (file[0])
      files[n++] = strdup(file);
  int rc = close_it(db);
  if (rc)
    add_connection(db);
  while (n--) {
    if (!rc && files[n] && !is_open(files[n]))
      request('r', files[n]);
    free(files[n]);
  }
  return rc;
}

__attribute__((visibility("default"))) int
sqlite3_open_v2(const char *path, sqlite3 **db, int flags, const char *vfs) {
  int rc = SQLITE(sqlite3_open_v2)(path, db, flags, vfs);
  add_connection(*db);
  return rc;
}

__attribute__((visibility("default"))) int sqlite3_close(sqlite3 *db) {
  return closing(db, SQLITE(sqlite3_close));
}

__attribute__((visibility("default"))) int sqlite3_close_v2(sqlite3 *db) {
  return closing(db, SQLITE(sqlite3_close_v2));
}

/* ---- commands ------------------------------------------------------------ */

/* Copies the library to a file that the system does not know yet. */
static int copy_library(const char *so) {
  char buffer[65536];
  ssize_t n = -1;
  int from = open(so, O_RDONLY | O_CLOEXEC);
  int to = memfd_create("emb.so", MFD_CLOEXEC);
  while (from >= 0 && to >= 0 && (n = read(from, buffer, sizeof buffer)) > 0)
    if (write(to, buffer, (size_t)n) != n)
      return -1;
  close(from);
  snprintf(library, sizeof library, "/proc/self/fd/%d", to);
  return n == 0 ? 0 : -1;
}

static int start_process(const char *so) {
  int ends[2];
  snprintf(library, sizeof library, "%s", so);
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
    return -1;
  pid_t pid = fork();
  if (pid < 0)
    return -1;
  line = ends[pid == 0];
  close(ends[pid != 0]);
  if (pid == 0) {
    int null = open("/dev/null", O_RDWR);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    answer_requests();
  }
  return 0;
}

int owner_start(const char *which, const char *so) {
  enum mode wanted = strcmp(which, "process") == 0 ? PROCESS
                     : strcmp(which, "copy") == 0  ? COPY
                                                   : OFF;
  if (wanted == OFF || mode != OFF) {
    errno = EINVAL;
    return -1;
  }
  if (wanted == COPY ? copy_library(so) : start_process(so))
    return -1;
  mode = wanted;
  return 0;
}

void owner_count(int *owned_stores, int *kept_stores) {
  pthread_mutex_lock(&busy_mutex);
  *owned_stores = owned;
  *kept_stores = kept;
  pthread_mutex_unlock(&busy_mutex);
}
