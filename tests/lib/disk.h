/* SPDX-License-Identifier: MIT
**
** disk.h -- a disk in memory that may lose power at any moment.
**
** STATE     Files and directories.  Each has the state that programs see, the
**           durable state, and the list of operations in between.
** FACES     disk_env   a struct env, for the engine
**           disk_vfs   an sqlite3_vfs, for SQLite
**           Both work on the same files, and their operations are numbered in
**           one order: the events of the disk.
** CRASH     A recording notes all events from its start.  disk_player replays
**           them on its own disk and can be stopped after each; disk_crash
**           turns that moment into a disk as a power loss may leave it:
**             - synced data is there: a file's bytes and size by syncing the
**               file, a name by syncing its directory;
**             - every other write is there, or not, or in part (units of 512
**               or 4096 bytes), whatever happened to those before it;
**             - the size that a write gave the file is there or not: bytes
**               beyond the size are gone, bytes that never came are zero;
**             - every other name that was made, removed or changed is there,
**               or not; a rename as a whole.
**           This is the least that POSIX promises, and less than any
**           journaling file system promises.
** QUEUES    Requests are carried out when they are submitted or only when they
**           are waited for, in any order, some in two parts.  A sync does not
**           cover requests that have not been carried out.
** TIME      Stands still, except that sleeping moves it forward.
** THREADS   One.  A thread that is started never gets to run: nothing obliges
**           the scheduler to run it before the power is lost.
*/
#ifndef EMB_DISK_H
#define EMB_DISK_H

#include "engine/base/env/env.h"

#include <stddef.h>
#include <stdint.h>

struct disk;
struct sqlite3_vfs;

/* An empty disk, with only "/".  The seed decides the order of queues and
** the numbers of env.random. */
struct disk *disk_new(uint64_t seed);
void disk_free(struct disk *disk);

/* ---- files: the errno, or 0 ---------------------------------------------- */

/* Paths begin with "/".  From here on a number identifies the file, and stays
** valid when the name is removed.  flags: ENV_*. */
int disk_open(struct disk *disk, const char *path, int flags, uint32_t *file);
int disk_find(const struct disk *disk, const char *path, uint32_t *file);
int disk_is_dir(const struct disk *disk, uint32_t file);
/* A file without a name. */
uint32_t disk_nameless(struct disk *disk);
/* *got: bytes before the end of the file; the rest of the buffer is zero. */
void disk_read(const struct disk *disk, uint32_t file, void *to, size_t bytes,
               uint64_t offset, size_t *got);
void disk_write(struct disk *disk, uint32_t file, const void *from,
                size_t bytes, uint64_t offset);
void disk_truncate(struct disk *disk, uint32_t file, uint64_t size);
void disk_punch(struct disk *disk, uint32_t file, uint64_t offset,
                uint64_t bytes);
void disk_sync(struct disk *disk, uint32_t file);
void disk_sync_all(struct disk *disk);
uint64_t disk_size(const struct disk *disk, uint32_t file);

int disk_unlink(struct disk *disk, const char *path);
int disk_rename(struct disk *disk, const char *from, const char *to);
int disk_make_dir(struct disk *disk, const char *path);
int disk_remove_dir(struct disk *disk, const char *path);
/* Makes the directory that contains this path durable. */
int disk_sync_parent(struct disk *disk, const char *path);
int disk_list(const struct disk *disk, const char *path,
              void (*each)(void *arg, const char *name), void *arg);

/* A number that the disk's seed determines. */
uint64_t disk_random(struct disk *disk);

/* ---- recording and crash ------------------------------------------------- */

/* Everything so far is durable, and the events are numbered from 0. */
void disk_record(struct disk *disk);
size_t disk_events(const struct disk *disk);
/* One line about event i of a recording. */
void disk_describe(const struct disk *disk, size_t i, char *to, size_t size);

/* A new disk in the state at disk_record. */
struct disk *disk_player(const struct disk *recording);
/* Plays until this many events have happened. */
void disk_play(struct disk *player, const struct disk *recording,
               size_t events);
/* Operations that a crash could undo now. */
size_t disk_unsynced(const struct disk *disk);

enum disk_loss {
  DISK_KEEP,   /* nothing is lost: all that a killed process loses */
  DISK_DROP,   /* whatever was not synced */
  DISK_PREFIX, /* all from some moment on */
  DISK_SUBSET, /* some operations */
  DISK_TORN,   /* some, and parts of others */
  DISK_LOSSES
};

/* The disk after a crash now.  The new one's seed is the same. */
struct disk *disk_crash(const struct disk *disk, enum disk_loss loss,
                        uint64_t seed);

/* Looks at crashes at each event of the recording, of each kind, `tries` of
** them times the amount of help_amount.  The disk after a crash is the default
** env then, and is freed by the caller of look.  Ends early when a check has
** failed.  Returns how many crashes there were. */
typedef void disk_look(struct disk *after, size_t events, enum disk_loss loss);
size_t disk_crash_each(const struct disk *recording, unsigned tries,
                       disk_look *look);

/* A hash of the durable names and bytes: nobody who opens two disks with the
** same one can tell them apart. */
uint64_t disk_sum(const struct disk *disk);

/* ---- faces --------------------------------------------------------------- */

/* Lives as long as the disk. */
struct env *disk_env(struct disk *disk);
/* From now on threads of this environment never get to run. */
void disk_no_threads(struct env *env);

/* The VFS "disk", not registered as the default.  Its files are on the disk
** that disk_vfs_use named last; one at a time. */
struct sqlite3_vfs *disk_vfs(void);
void disk_vfs_use(struct disk *disk);

#endif
