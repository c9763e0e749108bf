/* SPDX-License-Identifier: MIT
**
** disk.c -- the files and directories of a disk, by path and by number.
*/
#include "disk_state.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

uint64_t disk_random(struct disk *disk) { return disk__draw(&disk->random); }

/* ---- paths --------------------------------------------------------------- */

/* The directory that contains the last part of a path, and that part. */
static int walk(const struct disk *disk, const char *path, uint32_t *dir,
                char name[DISK_NAME]) {
  uint32_t at = 0;
  assert(path[0] == '/');
  for (;;) {
    while (*path == '/')
      path++;
    size_t n = strcspn(path, "/");
    if (n >= DISK_NAME)
      return ENAMETOOLONG;
    memcpy(name, path, n);
    name[n] = '\0';
    path += n;
    if (*path == '\0')
      break;
    const struct disk_name *next =
        disk__find_name(&disk->inodes[at].names, name);
    if (next == NULL)
      return ENOENT;
    if (!disk->inodes[next->file].is_dir)
      return ENOTDIR;
    at = next->file;
  }
  *dir = at;
  return 0;
}

int disk_find(const struct disk *disk, const char *path, uint32_t *file) {
  char name[DISK_NAME];
  uint32_t dir;
  int rc = walk(disk, path, &dir, name);
  if (rc != 0)
    return rc;
  if (name[0] == '\0' || strcmp(name, ".") == 0) {
    *file = dir;
    return 0;
  }
  const struct disk_name *found =
      disk__find_name(&disk->inodes[dir].names, name);
  if (found == NULL)
    return ENOENT;
  *file = found->file;
  return 0;
}

int disk_is_dir(const struct disk *disk, uint32_t file) {
  return disk->inodes[file].is_dir;
}

/* An operation on the name at the end of a path. */
static int name_op(const struct disk *disk, const char *path,
                   enum disk_op_kind kind, struct disk_op *op) {
  memset(op, 0, sizeof *op);
  op->kind = kind;
  return walk(disk, path, &op->file, op->name);
}

static int make(struct disk *disk, const char *path, int is_dir,
                uint32_t *file) {
  struct disk_op op;
  int rc = name_op(disk, path, DISK_OP_LINK, &op);
  if (rc != 0)
    return rc;
  if (op.name[0] == '\0' ||
      disk__find_name(&disk->inodes[op.file].names, op.name))
    return EEXIST;
  op.other = *file = (uint32_t)disk->inode_count;
  op.is_dir = is_dir;
  disk__operate(disk, &op);
  return 0;
}

static int remove_path(struct disk *disk, const char *path, int is_dir) {
  struct disk_op op;
  uint32_t file;
  int rc = disk_find(disk, path, &file);
  rc = rc ? rc : name_op(disk, path, DISK_OP_UNLINK, &op);
  if (rc != 0)
    return rc;
  if (disk->inodes[file].is_dir != is_dir)
    return is_dir ? ENOTDIR : EISDIR;
  if (disk->inodes[file].names.count > 0)
    return ENOTEMPTY;
  disk__operate(disk, &op);
  return 0;
}

/* ---- files --------------------------------------------------------------- */

int disk_open(struct disk *disk, const char *path, int flags, uint32_t *file) {
  int rc = disk_find(disk, path, file);
  if (rc == ENOENT && (flags & ENV_CREATE))
    return make(disk, path, 0, file);
  if (rc == 0 && (flags & ENV_EXCLUSIVE))
    return EEXIST;
  return rc == 0 && disk->inodes[*file].is_dir ? EISDIR : rc;
}

uint32_t disk_nameless(struct disk *disk) {
  uint32_t file = (uint32_t)disk->inode_count;
  disk__operate(disk, &(struct disk_op){.kind = DISK_OP_NAMELESS});
  return file;
}

void disk_read(const struct disk *disk, uint32_t file, void *to, size_t bytes,
               uint64_t offset, size_t *got) {
  const struct disk_image *image = &disk->inodes[file].now;
  uint64_t left = offset < image->size ? image->size - offset : 0;
  disk__get_bytes(image, to, offset, bytes);
  *got = left < bytes ? (size_t)left : bytes;
}

void disk_write(struct disk *disk, uint32_t file, const void *from,
                size_t bytes, uint64_t offset) {
  struct disk_op op = {.kind = DISK_OP_WRITE, .file = file};
  if (bytes == 0)
    return;
  op.offset = offset;
  op.bytes = bytes;
  op.data = disk__enough(malloc(sizeof *op.data + bytes));
  op.data->refs = 1;
  memcpy(op.data->bytes, from, bytes);
  disk__operate(disk, &op);
  disk__drop_op(&op);
}

void disk_truncate(struct disk *disk, uint32_t file, uint64_t size) {
  disk__operate(
      disk,
      &(struct disk_op){.kind = DISK_OP_TRUNCATE, .file = file, .bytes = size});
}

void disk_punch(struct disk *disk, uint32_t file, uint64_t offset,
                uint64_t bytes) {
  disk__operate(disk, &(struct disk_op){.kind = DISK_OP_PUNCH,
                                        .file = file,
                                        .offset = offset,
                                        .bytes = bytes});
}

void disk_sync(struct disk *disk, uint32_t file) {
  disk__operate(disk, &(struct disk_op){.kind = DISK_OP_SYNC, .file = file});
}

void disk_sync_all(struct disk *disk) {
  for (uint32_t i = 0; i < disk->inode_count; i++)
    disk_sync(disk, i);
}

uint64_t disk_size(const struct disk *disk, uint32_t file) {
  return disk->inodes[file].now.size;
}

int disk_unlink(struct disk *disk, const char *path) {
  return remove_path(disk, path, 0);
}

int disk_remove_dir(struct disk *disk, const char *path) {
  return remove_path(disk, path, 1);
}

int disk_make_dir(struct disk *disk, const char *path) {
  uint32_t made;
  return make(disk, path, 1, &made);
}

int disk_rename(struct disk *disk, const char *from, const char *to) {
  struct disk_op op;
  uint32_t to_dir;
  int rc = name_op(disk, from, DISK_OP_RENAME, &op);
  rc = rc ? rc : disk_find(disk, from, &op.other);
  rc = rc ? rc : walk(disk, to, &to_dir, op.to);
  if (rc != 0)
    return rc;
  if (to_dir != op.file)
    return EXDEV; /* not needed, and it would be two operations */
  disk__operate(disk, &op);
  return 0;
}

int disk_sync_parent(struct disk *disk, const char *path) {
  char name[DISK_NAME];
  uint32_t dir;
  int rc = walk(disk, path, &dir, name);
  if (rc == 0)
    disk_sync(disk, dir);
  return rc;
}

int disk_list(const struct disk *disk, const char *path,
              void (*each)(void *arg, const char *name), void *arg) {
  uint32_t dir;
  int rc = disk_find(disk, path, &dir);
  if (rc != 0)
    return rc;
  if (!disk->inodes[dir].is_dir)
    return ENOTDIR;
  /* A copy, because the callback may remove names. */
  struct disk_names names = disk__copy_names(&disk->inodes[dir].names);
  for (size_t i = 0; i < names.count; i++)
    each(arg, names.list[i].name);
  free(names.list);
  return 0;
}
