/* SPDX-License-Identifier: MIT
**
** disk_image.c -- the bytes of a file and the names in a directory.
**
** Bytes are kept in reference-counted blocks that are copied on write, so
** that a crash at each of thousands of events copies only pointers.
*/
#include "disk_state.h"

#include "engine/base/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *disk__enough(void *memory) {
  if (memory == NULL) {
    (void)fprintf(stderr, "disk: out of memory\n");
    abort();
  }
  return memory;
}

void *disk__more(void *memory, size_t n, size_t *room, size_t bytes) {
  if (n < *room)
    return memory;
  *room = *room ? *room * 2 : 8;
  return disk__enough(realloc(memory, *room * bytes));
}

/* splitmix64 (Steele, Lea, Flood 2014) */
uint64_t disk__draw(uint64_t *state) {
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

/* ---- bytes --------------------------------------------------------------- */

static void drop_block(struct disk_block *block) {
  if (block && --block->refs == 0)
    free(block);
}

void disk__clear_image(struct disk_image *image) {
  for (size_t i = 0; i < image->count; i++)
    drop_block(image->blocks[i]);
  free(image->blocks);
  *image = (struct disk_image){NULL, 0, 0};
}

struct disk_image disk__copy_image(const struct disk_image *image) {
  struct disk_image copy = *image;
  copy.blocks = disk__enough(malloc((image->count + 1) * sizeof *copy.blocks));
  for (size_t i = 0; i < image->count; i++) {
    copy.blocks[i] = image->blocks[i];
    if (copy.blocks[i])
      copy.blocks[i]->refs++;
  }
  return copy;
}

/* Block i for writing. */
static uint8_t *own_block(struct disk_image *image, size_t i) {
  if (i >= image->count) {
    image->blocks =
        disk__enough(realloc(image->blocks, (i + 1) * sizeof *image->blocks));
    while (image->count <= i)
      image->blocks[image->count++] = NULL;
  }
  struct disk_block *old = image->blocks[i];
  if (old && old->refs == 1) {
    old->sum = 0;
    return old->bytes;
  }
  struct disk_block *block = disk__enough(calloc(1, sizeof *block));
  block->refs = 1;
  if (old) {
    memcpy(block->bytes, old->bytes, sizeof block->bytes);
    old->refs--;
  }
  image->blocks[i] = block;
  return block->bytes;
}

/* from NULL: zeros. */
void disk__put_bytes(struct disk_image *image, const uint8_t *from,
                     uint64_t offset, uint64_t bytes) {
  while (bytes) {
    size_t i = (size_t)(offset / DISK_BLOCK), at = offset % DISK_BLOCK;
    size_t n = DISK_BLOCK - at < bytes ? DISK_BLOCK - at : (size_t)bytes;
    if (from) {
      memcpy(own_block(image, i) + at, from, n);
      from += n;
    } else if (n == DISK_BLOCK && i < image->count) {
      drop_block(image->blocks[i]);
      image->blocks[i] = NULL;
    } else if (i < image->count && image->blocks[i]) {
      memset(own_block(image, i) + at, 0, n);
    }
    offset += n;
    bytes -= n;
  }
}

/* Bytes beyond the size are zero, should the file grow again. */
void disk__set_size(struct disk_image *image, uint64_t size) {
  uint64_t end = (uint64_t)image->count * DISK_BLOCK;
  if (size < end)
    disk__put_bytes(image, NULL, size, end - size);
  image->size = size;
}

void disk__get_bytes(const struct disk_image *image, uint8_t *to,
                     uint64_t offset, size_t bytes) {
  while (bytes) {
    size_t i = (size_t)(offset / DISK_BLOCK), at = offset % DISK_BLOCK;
    size_t n = DISK_BLOCK - at < bytes ? DISK_BLOCK - at : bytes;
    const struct disk_block *block = i < image->count ? image->blocks[i] : NULL;
    if (block)
      memcpy(to, block->bytes + at, n);
    else
      memset(to, 0, n);
    to += n;
    offset += n;
    bytes -= n;
  }
}

static int is_zero(const struct disk_block *block) {
  return block->bytes[0] == 0 &&
         memcmp(block->bytes, block->bytes + 1, DISK_BLOCK - 1) == 0;
}

/* Blocks of zeros count as absent ones. */
uint64_t disk__sum_image(const struct disk_image *image) {
  uint64_t sum = hash_sum((const char *)&image->size, sizeof image->size, 0, 0);
  for (size_t i = 0; i < image->count; i++) {
    struct disk_block *block = image->blocks[i];
    if (block && !block->sum)
      block->sum =
          is_zero(block)
              ? 1
              : hash_sum((const char *)block->bytes, DISK_BLOCK, 0, 0) | 2;
    if (block && block->sum > 1) {
      uint64_t words[3] = {sum, i, block->sum};
      sum = hash_sum((const char *)words, sizeof words, 0, 0);
    }
  }
  return sum;
}

/* ---- names --------------------------------------------------------------- */

struct disk_names disk__copy_names(const struct disk_names *names) {
  struct disk_names copy = *names;
  copy.room = names->count;
  copy.list = disk__enough(malloc((names->count + 1) * sizeof *copy.list));
  if (names->count)
    memcpy(copy.list, names->list, names->count * sizeof *copy.list);
  return copy;
}

struct disk_name *disk__find_name(const struct disk_names *names,
                                  const char *name) {
  for (size_t i = 0; i < names->count; i++)
    if (strcmp(names->list[i].name, name) == 0)
      return &names->list[i];
  return NULL;
}

void disk__remove_name(struct disk_names *names, const char *name) {
  struct disk_name *at = disk__find_name(names, name);
  if (at)
    *at = names->list[--names->count];
}

void disk__set_name(struct disk_names *names, const char *name, uint32_t file) {
  struct disk_name *at = disk__find_name(names, name);
  if (at == NULL) {
    names->list = disk__more(names->list, names->count, &names->room,
                             sizeof *names->list);
    at = &names->list[names->count++];
    (void)snprintf(at->name, sizeof at->name, "%s", name);
  }
  at->file = file;
}
