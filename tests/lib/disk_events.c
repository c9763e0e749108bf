/* SPDX-License-Identifier: MIT
**
** disk_events.c -- what happens to a disk, and a recording of it.
**
** Every change is an operation (struct disk_op), and disk__operate is the only
** place where state changes: it changes what programs see, adds the operation
** to its file's or directory's list of unsynced operations, and notes it as
** an event.  A player passes it the same operations again.
*/
#include "disk_state.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- operations ---------------------------------------------------------- */

static struct disk_op share_op(const struct disk_op *op) {
  if (op->data)
    op->data->refs++;
  return *op;
}

void disk__drop_op(struct disk_op *op) {
  if (op->data && --op->data->refs == 0)
    free(op->data);
}

static void clear_ops(struct disk_ops *ops) {
  for (size_t i = 0; i < ops->count; i++)
    disk__drop_op(&ops->list[i]);
  free(ops->list);
  *ops = (struct disk_ops){NULL, 0, 0};
}

static void add_op(struct disk_ops *ops, const struct disk_op *op) {
  ops->list = disk__more(ops->list, ops->count, &ops->room, sizeof *ops->list);
  ops->list[ops->count++] = share_op(op);
}

/* Applies all of an operation on bytes. */
static void change_image(struct disk_image *image, const struct disk_op *op) {
  uint64_t end = op->offset + op->bytes;
  switch (op->kind) {
  case DISK_OP_WRITE:
    disk__put_bytes(image, op->data->bytes, op->offset, op->bytes);
    if (end > image->size)
      image->size = end;
    break;
  case DISK_OP_TRUNCATE:
    disk__set_size(image, op->bytes);
    break;
  case DISK_OP_PUNCH:
    disk__put_bytes(image, NULL, op->offset, op->bytes);
    break;
  default:
    assert(0);
  }
}

void disk__change_names(struct disk_names *names, const struct disk_op *op) {
  switch (op->kind) {
  case DISK_OP_LINK:
    disk__set_name(names, op->name, op->other);
    break;
  case DISK_OP_UNLINK:
    disk__remove_name(names, op->name);
    break;
  case DISK_OP_RENAME:
    disk__remove_name(names, op->name);
    disk__set_name(names, op->to, op->other);
    break;
  default:
    assert(0);
  }
}

static void make_durable(struct disk_inode *inode) {
  for (size_t i = 0; i < inode->unsynced.count; i++)
    if (inode->is_dir)
      disk__change_names(&inode->durable_names, &inode->unsynced.list[i]);
    else
      change_image(&inode->durable, &inode->unsynced.list[i]);
  clear_ops(&inode->unsynced);
}

static uint32_t new_inode(struct disk *disk, int is_dir) {
  disk->inodes = disk__more(disk->inodes, disk->inode_count, &disk->inode_room,
                            sizeof *disk->inodes);
  struct disk_inode *inode = &disk->inodes[disk->inode_count];
  memset(inode, 0, sizeof *inode);
  inode->is_dir = is_dir;
  return (uint32_t)disk->inode_count++;
}

void disk__operate(struct disk *disk, const struct disk_op *op) {
  if (op->kind == DISK_OP_LINK && op->other >= disk->inode_count) {
    uint32_t made = new_inode(disk, op->is_dir);
    assert(made == op->other);
    (void)made;
  } else if (op->kind == DISK_OP_NAMELESS) {
    (void)new_inode(disk, 0);
  }
  struct disk_inode *inode = &disk->inodes[op->file];
  struct disk_op numbered = *op;
  numbered.number = disk->number++;
  if (op->kind == DISK_OP_SYNC) {
    make_durable(inode);
  } else if (op->kind != DISK_OP_NAMELESS) {
    if (inode->is_dir)
      disk__change_names(&inode->names, op);
    else
      change_image(&inode->now, op);
    add_op(&inode->unsynced, &numbered);
  }
  if (disk->base)
    add_op(&disk->events, &numbered);
}

/* ---- life ---------------------------------------------------------------- */

struct disk *disk_new(uint64_t seed) {
  static uint64_t device;
  struct disk *disk = disk__enough(calloc(1, sizeof *disk));
  disk->device = ++device;
  disk->random = disk->seed = seed;
  disk->clock_us = 1000000;
  (void)new_inode(disk, 1);
  disk__env_init(disk);
  return disk;
}

void disk_free(struct disk *disk) {
  if (disk == NULL)
    return;
  for (size_t i = 0; i < disk->inode_count; i++) {
    struct disk_inode *inode = &disk->inodes[i];
    disk__clear_image(&inode->now);
    disk__clear_image(&inode->durable);
    free(inode->names.list);
    free(inode->durable_names.list);
    clear_ops(&inode->unsynced);
    disk__vfs_forget(inode);
  }
  clear_ops(&disk->events);
  free(disk->inodes);
  disk_free(disk->base);
  free(disk);
}

/* A new disk with the durable state of this one. */
struct disk *disk__durable_copy(const struct disk *disk) {
  struct disk *copy = disk_new(disk->seed);
  for (size_t i = 1; i < disk->inode_count; i++)
    (void)new_inode(copy, disk->inodes[i].is_dir);
  for (size_t i = 0; i < disk->inode_count; i++) {
    const struct disk_inode *inode = &disk->inodes[i];
    copy->inodes[i].durable = disk__copy_image(&inode->durable);
    copy->inodes[i].durable_names = disk__copy_names(&inode->durable_names);
  }
  return copy;
}

/* Programs now see the durable state. */
void disk__show_durable(struct disk *disk) {
  for (size_t i = 0; i < disk->inode_count; i++) {
    struct disk_inode *inode = &disk->inodes[i];
    inode->now = disk__copy_image(&inode->durable);
    inode->names = disk__copy_names(&inode->durable_names);
  }
}

/* ---- recording ----------------------------------------------------------- */

void disk_record(struct disk *disk) {
  for (size_t i = 0; i < disk->inode_count; i++)
    make_durable(&disk->inodes[i]);
  disk_free(disk->base);
  clear_ops(&disk->events);
  disk->base = disk__durable_copy(disk);
  disk->number = 0;
}

size_t disk_events(const struct disk *disk) { return disk->events.count; }

void disk_describe(const struct disk *disk, size_t i, char *to, size_t size) {
  static const char *const kinds[] = {"write",  "truncate", "punch",
                                      "sync",   "link",     "unlink",
                                      "rename", "nameless"};
  const struct disk_op *op = &disk->events.list[i];
  (void)snprintf(to, size, "event %zu: %s %s%s%s of %u at %llu, %llu bytes", i,
                 kinds[op->kind], op->name, op->to[0] ? " to " : "", op->to,
                 op->file, (unsigned long long)op->offset,
                 (unsigned long long)op->bytes);
}

struct disk *disk_player(const struct disk *recording) {
  struct disk *player = disk__durable_copy(recording->base);
  disk__show_durable(player);
  return player;
}

void disk_play(struct disk *player, const struct disk *recording,
               size_t events) {
  while (player->number < events)
    disk__operate(player, &recording->events.list[player->number]);
}

size_t disk_unsynced(const struct disk *disk) {
  size_t n = 0;
  for (size_t i = 0; i < disk->inode_count; i++)
    n += disk->inodes[i].unsynced.count;
  return n;
}
