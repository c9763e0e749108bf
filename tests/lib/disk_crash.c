/* SPDX-License-Identifier: MIT
**
** disk_crash.c -- the state of a disk after a power loss (see disk.h, CRASH).
*/
#include "disk_state.h"

#include "engine/base/hash.h"

#include <string.h>

struct fate { /* of unsynced operations */
  enum disk_loss loss;
  uint64_t random;
  uint64_t end;                /* PREFIX: the first event that is lost */
  unsigned bytes_of, names_of; /* of 8 operations, how many stay */
};

static int stays(struct fate *fate, const struct disk_op *op, unsigned of) {
  switch (fate->loss) {
  case DISK_KEEP:
    return 1;
  case DISK_DROP:
    return 0;
  case DISK_PREFIX:
    return op->number < fate->end;
  default:
    return disk__draw(&fate->random) % 8 < of;
  }
}

/* Keeps some of the units that the write touches: the first, the last, or
** any. */
static void tear(struct fate *fate, struct disk_image *image,
                 const struct disk_op *op) {
  uint64_t unit = disk__draw(&fate->random) % 2 ? 512 : 4096;
  uint64_t first = op->offset / unit;
  uint64_t count = (op->offset + op->bytes - 1) / unit - first + 1;
  uint64_t how = disk__draw(&fate->random) % 3;
  uint64_t cut = disk__draw(&fate->random) % (count + 1);
  for (uint64_t i = 0; i < count; i++) {
    uint64_t from = (first + i) * unit, to = from + unit;
    from = from < op->offset ? op->offset : from;
    to = to > op->offset + op->bytes ? op->offset + op->bytes : to;
    if (how == 0   ? i < cut
        : how == 1 ? i >= cut
                   : disk__draw(&fate->random) % 2)
      disk__put_bytes(image, op->data->bytes + (from - op->offset), from,
                      to - from);
  }
}

static void lose_bytes(struct fate *fate, struct disk_image *image,
                       const struct disk_ops *ops) {
  uint64_t size = image->size;
  for (size_t i = 0; i < ops->count; i++) {
    const struct disk_op *op = &ops->list[i];
    int stay = stays(fate, op, fate->bytes_of);
    if (op->kind == DISK_OP_TRUNCATE) {
      if (stay) {
        disk__set_size(image, op->bytes);
        size = op->bytes;
      }
      continue;
    }
    int grows = stay;
    if (fate->loss == DISK_TORN && op->kind == DISK_OP_WRITE &&
        disk__draw(&fate->random) % 3 == 0) {
      tear(fate, image, op);
      grows = 1;
    } else if (stay) {
      disk__put_bytes(image, op->data ? op->data->bytes : NULL, op->offset,
                      op->bytes);
    }
    /* The size is kept or lost separately from the bytes. */
    if (fate->loss >= DISK_SUBSET && disk__draw(&fate->random) % 8 == 0)
      grows = !grows;
    uint64_t end = op->offset + op->bytes;
    if (op->kind == DISK_OP_WRITE && grows && end > size)
      size = end;
  }
  disk__set_size(image, size);
}

struct disk *disk_crash(const struct disk *disk, enum disk_loss loss,
                        uint64_t seed) {
  static const unsigned chances[] = {0, 1, 4, 7, 8, 4};
  struct disk *after = disk__durable_copy(disk);
  struct fate fate = {.loss = loss, .random = seed};
  uint64_t oldest = disk->number;
  for (size_t i = 0; i < disk->inode_count; i++)
    if (disk->inodes[i].unsynced.count &&
        disk->inodes[i].unsynced.list[0].number < oldest)
      oldest = disk->inodes[i].unsynced.list[0].number;
  fate.end = oldest + disk__draw(&fate.random) % (disk->number - oldest + 1);
  fate.bytes_of = chances[disk__draw(&fate.random) % 6];
  fate.names_of = chances[disk__draw(&fate.random) % 6];
  for (size_t i = 0; i < disk->inode_count; i++) {
    const struct disk_ops *ops = &disk->inodes[i].unsynced;
    if (!disk->inodes[i].is_dir)
      lose_bytes(&fate, &after->inodes[i].durable, ops);
    for (size_t o = 0; disk->inodes[i].is_dir && o < ops->count; o++)
      if (stays(&fate, &ops->list[o], fate.names_of))
        disk__change_names(&after->inodes[i].durable_names, &ops->list[o]);
  }
  disk__show_durable(after);
  return after;
}

/* Files count by their names, so that removed ones do not. */
static uint64_t sum_of_file(const struct disk *disk, uint32_t file) {
  const struct disk_inode *inode = &disk->inodes[file];
  if (!inode->is_dir)
    return disk__sum_image(&inode->durable);
  uint64_t sum = 1;
  for (size_t i = 0; i < inode->durable_names.count; i++) {
    const struct disk_name *name = &inode->durable_names.list[i];
    uint64_t words[2] = {
        hash_sum(name->name, strlen(name->name), 0, 0),
        sum_of_file(disk, name->file),
    };
    sum += hash_sum((const char *)words, sizeof words, 0, 0); /* in any order */
  }
  return sum;
}

uint64_t disk_sum(const struct disk *disk) { return sum_of_file(disk, 0); }
