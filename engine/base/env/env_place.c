/* SPDX-License-Identifier: MIT
**
** env_place.c -- where a path is: on this machine or not, and from the root.
**
** FAILURE   A file system that cannot be queried counts as local.
** THREADS   Any; the working directory is the process's.
*/
#include "env_os.h"

#include <errno.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

/* From statfs(2): the headers lack these two. */
#define GFS2_MAGIC UINT32_C(0x01161970)
#define LUSTRE_MAGIC UINT32_C(0x0bd00bd0)

const char *env__is_remote(struct env *env, struct env_dir *dir) {
  struct statfs system;
  (void)env;
  if (fstatfs(dir->fd, &system) != 0)
    return NULL;
  switch ((uint32_t)system.f_type) {
  case NFS_SUPER_MAGIC:
    return "NFS";
  case SMB_SUPER_MAGIC:
  case CIFS_SUPER_MAGIC:
  case SMB2_SUPER_MAGIC:
    return "CIFS";
  case V9FS_MAGIC:
    return "9p";
  case CEPH_SUPER_MAGIC:
    return "Ceph";
  case AFS_SUPER_MAGIC:
  case AFS_FS_MAGIC:
    return "AFS";
  case CODA_SUPER_MAGIC:
    return "Coda";
  case OCFS2_SUPER_MAGIC:
    return "OCFS2";
  case GFS2_MAGIC:
    return "GFS2";
  case LUSTRE_MAGIC:
    return "Lustre";
  default: /* FUSE, too: most of its file systems are local */
    return NULL;
  }
}

int env__absolute(struct env *env, const char *path, char *to, size_t size) {
  size_t n = 0, path_bytes = strlen(path) + 1;
  (void)env;
  if (path[0] == '\0')
    return ENOENT;
  if (path[0] != '/') {
    if (getcwd(to, size) == NULL)
      return errno == ERANGE || errno == EINVAL ? ENAMETOOLONG : errno;
    n = strlen(to);
    if (to[n - 1] != '/') /* not the root; leaves room for the zero */
      to[n++] = '/';
  }
  if (path_bytes > size - n)
    return ENAMETOOLONG;
  memcpy(to + n, path, path_bytes);
  return 0;
}
