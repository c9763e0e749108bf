/* SPDX-License-Identifier: MIT
**
** disk_state.h -- shared by the files disk*.c.
*/
#ifndef EMB_DISK_STATE_H
#define EMB_DISK_STATE_H

#include "disk.h"

#define DISK_BLOCK 4096u
#define DISK_NAME 64

struct disk_block {
  unsigned refs;
  uint64_t sum; /* of the bytes; 0: not known */
  uint8_t bytes[DISK_BLOCK];
};

struct disk_image {           /* the bytes of a file */
  struct disk_block **blocks; /* NULL: zeros */
  size_t count;
  uint64_t size;
};

struct disk_name {
  char name[DISK_NAME];
  uint32_t file;
};

struct disk_names { /* of a directory */
  struct disk_name *list;
  size_t count, room;
};

struct disk_data {
  unsigned refs;
  uint8_t bytes[];
};

enum disk_op_kind {
  DISK_OP_WRITE,
  DISK_OP_TRUNCATE,
  DISK_OP_PUNCH,
  DISK_OP_SYNC, /* of a file or directory */
  DISK_OP_LINK,
  DISK_OP_UNLINK,
  DISK_OP_RENAME,
  DISK_OP_NAMELESS,
};

struct disk_op {
  enum disk_op_kind kind;
  int is_dir;      /* LINK */
  uint32_t file;   /* file or directory that changes */
  uint32_t other;  /* LINK, RENAME: the inode that gets the name */
  uint64_t number; /* its place among all events */
  uint64_t offset;
  uint64_t bytes; /* TRUNCATE: the size */
  struct disk_data *data;
  char name[DISK_NAME], to[DISK_NAME];
};

struct disk_ops {
  struct disk_op *list;
  size_t count, room;
};

struct disk_shm; /* disk_vfs.c */

struct disk_inode {
  int is_dir;
  struct disk_image now, durable;
  struct disk_names names, durable_names;
  struct disk_ops unsynced; /* in their order */
  int locked;               /* env.lock */
  /* SQLite's locks on a database, and its shared memory. */
  int shared, reserved, pending, exclusive;
  struct disk_shm *shm;
};

struct disk {
  struct env env;
  uint64_t device, seed, random, clock_us;
  struct disk_inode *inodes; /* number 0 is "/" */
  size_t inode_count, inode_room;
  uint64_t number;   /* of the next operation */
  struct disk *base; /* the state when recording began; NULL: it does not */
  struct disk_ops events;
};

/* disk_image.c.  Returns the memory, or ends the program if it is NULL: a
** test that runs out of memory has nothing to report. */
void *disk__enough(void *memory);
void *disk__more(void *memory, size_t n, size_t *room, size_t bytes);
uint64_t disk__draw(uint64_t *state); /* a random number */
void disk__clear_image(struct disk_image *image);
struct disk_image disk__copy_image(const struct disk_image *image);
/* from NULL: zeros. */
void disk__put_bytes(struct disk_image *image, const uint8_t *from,
                     uint64_t offset, uint64_t bytes);
void disk__get_bytes(const struct disk_image *image, uint8_t *to,
                     uint64_t offset, size_t bytes);
uint64_t disk__sum_image(const struct disk_image *image);
/* Bytes beyond the size are zero, should the file grow again. */
void disk__set_size(struct disk_image *image, uint64_t size);
struct disk_names disk__copy_names(const struct disk_names *names);
struct disk_name *disk__find_name(const struct disk_names *names,
                                  const char *name);
void disk__remove_name(struct disk_names *names, const char *name);
void disk__set_name(struct disk_names *names, const char *name, uint32_t file);

/* disk_events.c */
void disk__operate(struct disk *disk, const struct disk_op *op);
/* Releases the operation; its bytes may be shared. */
void disk__drop_op(struct disk_op *op);
void disk__change_names(struct disk_names *names, const struct disk_op *op);
/* A new disk with the durable state of this one; programs do not see it yet. */
struct disk *disk__durable_copy(const struct disk *disk);
/* Programs now see the durable state. */
void disk__show_durable(struct disk *disk);

void disk__env_init(struct disk *disk);
void disk__vfs_forget(struct disk_inode *inode);

#endif
