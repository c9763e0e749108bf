/* SPDX-License-Identifier: MIT
**
** directory.c -- lists the files to register: the regular files of a directory,
** in the order of their names.
**
** All names are read in one pass, because a directory read in steps while other
** programs write to it may return a name twice or not at all.  The entries are
** then examined one by one; entries that have disappeared by then are skipped.
** Only the wanted names take memory.
*/
#include "engine/data/emb_data.h"
#include "samples.h"

#include "engine/base/env/env.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct emb_samples_directory {
  struct env *env;
  int (*wanted)(void *arg, const char *name);
  void *arg;
  int failed;  /* errno while listing */
  char *names; /* one after the other, each NUL-terminated */
  size_t bytes, capacity;
  char **sorted;
  size_t n, at;
  size_t prefix;               /* of path: length of the directory's path */
  char path[EMB_PATH_MAX + 1]; /* of the entry returned last */
};

/* Callback of list_dir. */
static void directory_take(void *arg, const char *name) {
  struct emb_samples_directory *d = arg;
  size_t size = strlen(name) + 1;
  if (d->failed || name[0] == '.' || (d->wanted && !d->wanted(d->arg, name))) {
    return;
  }
  if (d->capacity - d->bytes < size) {
    size_t capacity = 2 * d->capacity + size + 4096;
    char *names = d->env->resize(d->env, d->names, capacity);
    if (names == NULL) {
      d->failed = ENOMEM;
      return;
    }
    d->names = names;
    d->capacity = capacity;
  }
  memcpy(d->names + d->bytes, name, size);
  d->bytes += size;
  d->n++;
}

static int directory_compare(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static int directory_sort(struct emb_samples_directory *d) {
  char *name = d->names;
  d->sorted = d->env->allocate(d->env, (d->n + 1) * sizeof *d->sorted);
  if (d->sorted == NULL) {
    return ENOMEM;
  }
  for (size_t i = 0; i < d->n; i++, name += strlen(name) + 1) {
    d->sorted[i] = name;
  }
  qsort(d->sorted, d->n, sizeof *d->sorted, directory_compare);
  return 0;
}

int emb_samples_directory_open(const char *path,
                               int (*wanted)(void *arg, const char *name),
                               void *arg, emb_samples_directory **directory,
                               emb_err *err) {
  struct env *env = env_default();
  struct emb_samples_directory *d = env->allocate(env, sizeof *d);
  *directory = d;
  if (d == NULL) {
    return err_set(err, EMB_NOMEM, "no memory to list %s", path);
  }
  *d = (struct emb_samples_directory){.env = env, .wanted = wanted, .arg = arg};
  int rc = emb_samples_absolute(path, d->path, sizeof d->path, err);
  if (rc) {
    return rc;
  }
  int os = env->list_dir(env, d->path, directory_take, d);
  os = os ? os : d->failed;
  os = os ? os : directory_sort(d);
  d->prefix = strlen(d->path);
  if (d->prefix > 0 && d->path[d->prefix - 1] == '/') {
    d->prefix--;
  }
  return os == 0 ? EMB_OK
         : os == ENOENT
             ? err_set(err, EMB_CANTOPEN, "directory %s does not exist", path)
             : err_os(err, EMB_CANTOPEN, os, "cannot list %s", path);
}

int emb_samples_directory_next(emb_samples_directory *d,
                               emb_samples_entry *entry, emb_err *err) {
  *entry = (emb_samples_entry){0};
  while (d->at < d->n) {
    const char *name = d->sorted[d->at++];
    struct env_about about;
    size_t size = strlen(name) + 1;
    if (size > EMB_PATH_MAX - d->prefix) {
      return err_set(err, EMB_RANGE, "a path has at most %d bytes: %.*s/%s",
                     EMB_PATH_MAX, (int)d->prefix, d->path, name);
    }
    d->path[d->prefix] = '/';
    memcpy(d->path + d->prefix + 1, name, size);
    int os = d->env->about(d->env, NULL, d->path, &about);
    if (os && os != ENOENT) {
      return err_os(err, EMB_CANTOPEN, os, "cannot stat %s", d->path);
    }
    if (os == 0 && about.is_file) {
      *entry = (emb_samples_entry){d->path, about.bytes, about.changed_ns};
      break;
    }
  }
  return EMB_OK;
}

void emb_samples_directory_close(emb_samples_directory *d) {
  if (d == NULL) {
    return;
  }
  d->env->release(d->env, d->names);
  d->env->release(d->env, d->sorted);
  d->env->release(d->env, d);
}
