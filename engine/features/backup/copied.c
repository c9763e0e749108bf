/* SPDX-License-Identifier: MIT
**
** copied.c -- see copied.h.
*/
#include "copied.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/storage/kernel/store_file.h"
#include "engine/emb.h"
#include "engine/table/store/feature.h"

static const char copied_magic[8] = {'e', 'm', 'b', 'c', 'o', 'p', 'y', '1'};

static uint64_t copied_sum_of(const struct copied *c) {
  return hash_sum((const char *)c + 8, sizeof *c - 8, hash_salt(c->uuid), 0);
}

int copied__read(struct env *env, const char *dir, const char *name,
                 const uint8_t uuid[16], struct copied *c, emb_err *err) {
  char path[PATH_BYTES];
  struct env_file *file;
  memset(c, 0, sizeof *c);
  memcpy(c->uuid, uuid, sizeof c->uuid);
  int rc = path_join(path, sizeof path, dir, name, err);
  if (rc) {
    return rc;
  }
  int os = env->open(env, path, ENV_READ, &file);
  if (os == ENOENT) {
    return EMB_OK;
  }
  if (os) {
    return err_os(err, EMB_CANTOPEN, os, "cannot open %s", path);
  }
  os = env->read(env, file, c, sizeof *c, 0);
  env->close(env, file);
  if (os) {
    return err_os(err, EMB_IOERR, os, "cannot read %s", path);
  }
  return memcmp(c->magic, copied_magic, sizeof copied_magic) == 0 &&
                 c->format == 1 && memcmp(c->uuid, uuid, sizeof c->uuid) == 0 &&
                 c->count <= COPIED_MARKS && c->sum == copied_sum_of(c)
             ? EMB_OK
             : err_set(err, EMB_CORRUPT, "%s is damaged", path);
}

int copied__write(struct env *env, const char *dir, const char *name,
                  struct copied *c, emb_err *err) {
  char path[PATH_BYTES], made[PATH_BYTES];
  emb_assert(c->count <= COPIED_MARKS);
  emb_assert(strcmp(name, COPIED_OF) != 0 || c->count == 1);
  int rc = path_join(path, sizeof path - 8, dir, name, err);
  if (rc) {
    return rc;
  }
  snprintf(made, sizeof made, "%.*s-new", (int)sizeof made - 8, path);
  memcpy(c->magic, copied_magic, sizeof copied_magic);
  c->format = 1;
  c->zero = 0;
  c->sum = copied_sum_of(c);
  struct env_dir *names;
  int os = env->open_dir(env, dir, &names);
  if (os) {
    return err_os(err, EMB_CANTOPEN, os, "cannot open %s", dir);
  }
  os = replace_whole(env, made, path, names, c, sizeof *c);
  env->close_dir(env, names);
  return os ? err_os(err, EMB_IOERR, os, "cannot write %s", path) : EMB_OK;
}

void copied__add(struct copied *c, struct copied_mark mark) {
  emb_assert(c->count <= COPIED_MARKS);
  if (c->count == COPIED_MARKS) {
    memmove(c->marks, c->marks + 1, (COPIED_MARKS - 1) * sizeof *c->marks);
    c->count--;
  }
  c->marks[c->count++] = mark;
}

int copied__has(const struct copied *c, struct copied_mark mark) {
  for (uint32_t i = 0; i < c->count; i++) {
    if (c->marks[i].id == mark.id && c->marks[i].page == mark.page) {
      return 1;
    }
  }
  return 0;
}

static const struct store_file file_copy_of = {
    .name = COPIED_OF, .temporary = COPIED_OF_NEW, .in_copy = 1};
static const struct store_file file_copy_marks = {
    .name = COPIED_MARKS_NAME, .temporary = COPIED_MARKS_NEW};

const struct feature feature_backup = {
    .name = "backup",
    .files = FEATURE_FILES(&file_copy_of, &file_copy_marks),
};
