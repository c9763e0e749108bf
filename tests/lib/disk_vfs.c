/* SPDX-License-Identifier: MIT
**
** disk_vfs.c -- the disk as SQLite sees it.
**
** Does on the disk what SQLite's own VFS for Unix does: the same syncs of
** directories (after a journal or WAL was created, when it is first synced;
** after a file was deleted, if asked), the same answers about the device.
** Several connections of one process may use it: locks are counts in the
** file's inode, and the WAL's shared memory is on the heap.
*/
#include "disk_state.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

struct file {
  sqlite3_file base; /* must be first */
  struct disk *disk;
  uint32_t number;
  int level;       /* SQLITE_LOCK_* */
  int sync_parent; /* at the next sync */
  int temporary;   /* it is deleted when it is closed */
  unsigned shm_shared, shm_exclusive;
  int uses_shm;
  char path[512];
};

enum { SHM_REGIONS = 16 };

struct disk_shm {
  int users;
  void *regions[SHM_REGIONS];
  int shared[SQLITE_SHM_NLOCK], exclusive[SQLITE_SHM_NLOCK];
};

static struct disk *current;

static struct disk_inode *inode_of(struct file *file) {
  return &file->disk->inodes[file->number];
}

/* ---- one file ------------------------------------------------------------ */

static int file_unlock(sqlite3_file *f, int level) {
  struct file *file = (struct file *)f;
  struct disk_inode *inode = inode_of(file);
  if (file->level <= level)
    return SQLITE_OK;
  inode->exclusive -= file->level == SQLITE_LOCK_EXCLUSIVE;
  inode->pending -= file->level >= SQLITE_LOCK_PENDING;
  inode->reserved -= file->level >= SQLITE_LOCK_RESERVED;
  inode->shared -= level == SQLITE_LOCK_NONE;
  file->level = level;
  return SQLITE_OK;
}

static int file_close(sqlite3_file *f) {
  struct file *file = (struct file *)f;
  (void)file_unlock(f, SQLITE_LOCK_NONE);
  if (file->temporary && file->path[0])
    (void)disk_unlink(file->disk, file->path);
  return SQLITE_OK;
}

static int file_read(sqlite3_file *f, void *to, int bytes,
                     sqlite3_int64 offset) {
  struct file *file = (struct file *)f;
  size_t got;
  disk_read(file->disk, file->number, to, (size_t)bytes, (uint64_t)offset,
            &got);
  return got < (size_t)bytes ? SQLITE_IOERR_SHORT_READ : SQLITE_OK;
}

static int file_write(sqlite3_file *f, const void *from, int bytes,
                      sqlite3_int64 offset) {
  struct file *file = (struct file *)f;
  disk_write(file->disk, file->number, from, (size_t)bytes, (uint64_t)offset);
  return SQLITE_OK;
}

static int file_truncate(sqlite3_file *f, sqlite3_int64 size) {
  struct file *file = (struct file *)f;
  disk_truncate(file->disk, file->number, (uint64_t)size);
  return SQLITE_OK;
}

static int file_sync(sqlite3_file *f, int flags) {
  struct file *file = (struct file *)f;
  (void)flags;
  disk_sync(file->disk, file->number);
  if (file->sync_parent)
    (void)disk_sync_parent(file->disk, file->path);
  file->sync_parent = 0;
  return SQLITE_OK;
}

static int file_size(sqlite3_file *f, sqlite3_int64 *bytes) {
  struct file *file = (struct file *)f;
  *bytes = (sqlite3_int64)disk_size(file->disk, file->number);
  return SQLITE_OK;
}

/* Whether the other connections allow this file the next lock level. */
static int may_have(const struct disk_inode *inode, int level) {
  switch (level) {
  case SQLITE_LOCK_SHARED:
    return !inode->pending && !inode->exclusive;
  case SQLITE_LOCK_RESERVED:
    return !inode->reserved;
  case SQLITE_LOCK_PENDING:
    return !inode->pending;
  default:
    return inode->shared == 1;
  }
}

static int file_lock(sqlite3_file *f, int level) {
  struct file *file = (struct file *)f;
  struct disk_inode *inode = inode_of(file);
  while (file->level < level) {
    int next = file->level + 1;
    if (!may_have(inode, next))
      return SQLITE_BUSY;
    file->level = next;
    inode->shared += next == SQLITE_LOCK_SHARED;
    inode->reserved += next == SQLITE_LOCK_RESERVED;
    inode->pending += next == SQLITE_LOCK_PENDING;
    inode->exclusive += next == SQLITE_LOCK_EXCLUSIVE;
  }
  return SQLITE_OK;
}

static int file_reserved(sqlite3_file *f, int *yes) {
  *yes = inode_of((struct file *)f)->reserved > 0;
  return SQLITE_OK;
}

static int file_control(sqlite3_file *f, int what, void *arg) {
  (void)f, (void)what, (void)arg;
  return SQLITE_NOTFOUND;
}

static int sector_size(sqlite3_file *f) {
  (void)f;
  return 4096;
}

static int characteristics(sqlite3_file *f) {
  (void)f;
  return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

/* ---- the shared memory of a WAL ------------------------------------------ */

void disk__vfs_forget(struct disk_inode *inode) {
  if (inode->shm)
    for (int i = 0; i < SHM_REGIONS; i++)
      free(inode->shm->regions[i]);
  free(inode->shm);
  inode->shm = NULL;
}

static int shm_map(sqlite3_file *f, int region, int bytes, int extend,
                   void volatile **out) {
  struct file *file = (struct file *)f;
  struct disk_inode *inode = inode_of(file);
  *out = NULL;
  if (inode->shm == NULL)
    inode->shm = calloc(1, sizeof *inode->shm);
  if (inode->shm == NULL || region >= SHM_REGIONS)
    return SQLITE_NOMEM;
  inode->shm->users += !file->uses_shm;
  file->uses_shm = 1;
  if (inode->shm->regions[region] == NULL && extend) {
    inode->shm->regions[region] = calloc(1, (size_t)bytes);
    if (inode->shm->regions[region] == NULL)
      return SQLITE_NOMEM;
  }
  *out = inode->shm->regions[region];
  return SQLITE_OK;
}

static int shm_lock(sqlite3_file *f, int offset, int n, int flags) {
  struct file *file = (struct file *)f;
  struct disk_shm *shm = inode_of(file)->shm;
  for (int i = offset; i < offset + n && (flags & SQLITE_SHM_LOCK); i++) {
    int mine = (file->shm_shared >> i) & 1;
    if (shm->exclusive[i] && !((file->shm_exclusive >> i) & 1))
      return SQLITE_BUSY;
    if ((flags & SQLITE_SHM_EXCLUSIVE) && shm->shared[i] > mine)
      return SQLITE_BUSY;
  }
  for (int i = offset; i < offset + n; i++) {
    int shared = (flags & SQLITE_SHM_SHARED) != 0;
    unsigned *mine = shared ? &file->shm_shared : &file->shm_exclusive;
    int *all = shared ? &shm->shared[i] : &shm->exclusive[i];
    int had = (*mine >> i) & 1, has = (flags & SQLITE_SHM_LOCK) != 0;
    *all += has - had;
    *mine = (*mine & ~(1u << i)) | (unsigned)has << i;
  }
  return SQLITE_OK;
}

static void shm_barrier(sqlite3_file *f) { (void)f; }

static int shm_unmap(sqlite3_file *f, int delete) {
  struct file *file = (struct file *)f;
  struct disk_inode *inode = inode_of(file);
  (void)delete;
  if (file->uses_shm && --inode->shm->users == 0)
    disk__vfs_forget(inode);
  file->uses_shm = 0;
  return SQLITE_OK;
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_unlock,
    .xCheckReservedLock = file_reserved,
    .xFileControl = file_control,
    .xSectorSize = sector_size,
    .xDeviceCharacteristics = characteristics,
    .xShmMap = shm_map,
    .xShmLock = shm_lock,
    .xShmBarrier = shm_barrier,
    .xShmUnmap = shm_unmap,
};

/* ---- the VFS ------------------------------------------------------------- */

static int vfs_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *f,
                    int flags, int *out) {
  const int journals =
      SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL | SQLITE_OPEN_WAL;
  struct file *file = (struct file *)f;
  int how = flags & SQLITE_OPEN_READWRITE ? ENV_WRITE : ENV_READ;
  (void)vfs;
  memset(file, 0, sizeof *file);
  file->disk = current;
  if (flags & SQLITE_OPEN_CREATE)
    how |= ENV_CREATE;
  if (flags & SQLITE_OPEN_EXCLUSIVE)
    how |= ENV_EXCLUSIVE;
  if (path == NULL)
    file->number = disk_nameless(current);
  else if (strlen(path) >= sizeof file->path ||
           disk_open(current, path, how, &file->number) != 0)
    return SQLITE_CANTOPEN;
  else
    strcpy(file->path, path);
  file->temporary = (flags & SQLITE_OPEN_DELETEONCLOSE) != 0;
  file->sync_parent = (flags & SQLITE_OPEN_CREATE) && (flags & journals);
  file->base.pMethods = &methods;
  if (out)
    *out = flags;
  return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *path, int sync) {
  (void)vfs;
  if (disk_unlink(current, path) != 0)
    return SQLITE_IOERR_DELETE_NOENT;
  if (sync)
    (void)disk_sync_parent(current, path);
  return SQLITE_OK;
}

static int vfs_access(sqlite3_vfs *vfs, const char *path, int flags, int *yes) {
  uint32_t number;
  (void)vfs;
  *yes = disk_find(current, path, &number) == 0;
  if (*yes && flags == SQLITE_ACCESS_EXISTS && !disk_is_dir(current, number))
    *yes = disk_size(current, number) > 0;
  return SQLITE_OK;
}

static int vfs_full_path(sqlite3_vfs *vfs, const char *path, int bytes,
                         char *out) {
  (void)vfs;
  if (strlen(path) >= (size_t)bytes)
    return SQLITE_CANTOPEN;
  strcpy(out, path);
  return SQLITE_OK;
}

static int vfs_randomness(sqlite3_vfs *vfs, int bytes, char *to) {
  (void)vfs;
  for (int i = 0; i < bytes; i++)
    to[i] = (char)disk_random(current);
  return bytes;
}

static int vfs_sleep(sqlite3_vfs *vfs, int us) {
  (void)vfs;
  current->clock_us += (uint64_t)us;
  return us;
}

static int vfs_time(sqlite3_vfs *vfs, sqlite3_int64 *ms) {
  (void)vfs;
  *ms = INT64_C(210866760000000) + (sqlite3_int64)(current->clock_us / 1000);
  return SQLITE_OK;
}

static int vfs_error(sqlite3_vfs *vfs, int bytes, char *text) {
  (void)vfs, (void)bytes, (void)text;
  return 0;
}

sqlite3_vfs *disk_vfs(void) {
  static sqlite3_vfs vfs = {
      .iVersion = 2,
      .szOsFile = sizeof(struct file),
      .mxPathname = 500,
      .zName = "disk",
      .xOpen = vfs_open,
      .xDelete = vfs_delete,
      .xAccess = vfs_access,
      .xFullPathname = vfs_full_path,
      .xRandomness = vfs_randomness,
      .xSleep = vfs_sleep,
      .xGetLastError = vfs_error,
      .xCurrentTimeInt64 = vfs_time,
  };
  return &vfs;
}

void disk_vfs_use(struct disk *disk) { current = disk; }
