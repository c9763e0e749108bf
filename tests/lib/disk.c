/* SPDX-License-Identifier: MIT
**
** disk.c -- see disk.h: files, directories, events and crashes.
**
** Every change is an operation (struct op), and operate() is the only place
** where state changes: it changes what programs see, puts the operation on its
** file's or directory's list of what is not synced, and notes it as an event.
** A player gives the same operations to operate() once more.
**
** Bytes are kept in blocks that are counted and copied when changed, so that a
** crash at each of thousands of events copies pointers only.
*/
#include "disk_state.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A test that runs out of memory has nothing to report. */
static void *enough(void *memory) {
  if (memory == NULL) {
    (void)fprintf(stderr, "disk: out of memory\n");
    abort();
  }
  return memory;
}

static void *more(void *memory, size_t n, size_t *room, size_t bytes) {
  if (n < *room)
    return memory;
  *room = *room ? *room * 2 : 8;
  return enough(realloc(memory, *room * bytes));
}

/* splitmix64 (Steele, Lea, Flood 2014) */
static uint64_t draw(uint64_t *state) {
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

uint64_t disk_random(struct disk *disk) { return draw(&disk->random); }

/* ---- bytes --------------------------------------------------------------- */

static void drop_block(struct disk_block *block) {
  if (block && --block->refs == 0)
    free(block);
}

static void clear_image(struct disk_image *image) {
  for (size_t i = 0; i < image->count; i++)
    drop_block(image->blocks[i]);
  free(image->blocks);
  *image = (struct disk_image){NULL, 0, 0};
}

static struct disk_image copy_image(const struct disk_image *image) {
  struct disk_image copy = *image;
  copy.blocks = enough(malloc((image->count + 1) * sizeof *copy.blocks));
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
        enough(realloc(image->blocks, (i + 1) * sizeof *image->blocks));
    while (image->count <= i)
      image->blocks[image->count++] = NULL;
  }
  struct disk_block *old = image->blocks[i];
  if (old && old->refs == 1)
    return old->bytes;
  struct disk_block *block = enough(calloc(1, sizeof *block));
  block->refs = 1;
  if (old) {
    memcpy(block->bytes, old->bytes, sizeof block->bytes);
    old->refs--;
  }
  image->blocks[i] = block;
  return block->bytes;
}

/* from NULL: zeros. */
static void put_bytes(struct disk_image *image, const uint8_t *from,
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
static void set_size(struct disk_image *image, uint64_t size) {
  uint64_t end = (uint64_t)image->count * DISK_BLOCK;
  if (size < end)
    put_bytes(image, NULL, size, end - size);
  image->size = size;
}

static void get_bytes(const struct disk_image *image, uint8_t *to,
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

/* ---- names --------------------------------------------------------------- */

static struct disk_names copy_names(const struct disk_names *names) {
  struct disk_names copy = *names;
  copy.room = names->count;
  copy.list = enough(malloc((names->count + 1) * sizeof *copy.list));
  if (names->count)
    memcpy(copy.list, names->list, names->count * sizeof *copy.list);
  return copy;
}

static struct disk_name *find_name(const struct disk_names *names,
                                   const char *name) {
  for (size_t i = 0; i < names->count; i++)
    if (strcmp(names->list[i].name, name) == 0)
      return &names->list[i];
  return NULL;
}

static void remove_name(struct disk_names *names, const char *name) {
  struct disk_name *at = find_name(names, name);
  if (at)
    *at = names->list[--names->count];
}

static void set_name(struct disk_names *names, const char *name,
                     uint32_t file) {
  struct disk_name *at = find_name(names, name);
  if (at == NULL) {
    names->list =
        more(names->list, names->count, &names->room, sizeof *names->list);
    at = &names->list[names->count++];
    (void)snprintf(at->name, sizeof at->name, "%s", name);
  }
  at->file = file;
}

/* ---- operations ---------------------------------------------------------- */

static struct disk_op share_op(const struct disk_op *op) {
  if (op->data)
    op->data->refs++;
  return *op;
}

static void drop_op(struct disk_op *op) {
  if (op->data && --op->data->refs == 0)
    free(op->data);
}

static void clear_ops(struct disk_ops *ops) {
  for (size_t i = 0; i < ops->count; i++)
    drop_op(&ops->list[i]);
  free(ops->list);
  *ops = (struct disk_ops){NULL, 0, 0};
}

static void add_op(struct disk_ops *ops, const struct disk_op *op) {
  ops->list = more(ops->list, ops->count, &ops->room, sizeof *ops->list);
  ops->list[ops->count++] = share_op(op);
}

/* The whole of an operation on bytes. */
static void change_image(struct disk_image *image, const struct disk_op *op) {
  uint64_t end = op->offset + op->bytes;
  switch (op->kind) {
  case DISK_OP_WRITE:
    put_bytes(image, op->data->bytes, op->offset, op->bytes);
    if (end > image->size)
      image->size = end;
    break;
  case DISK_OP_TRUNCATE:
    set_size(image, op->bytes);
    break;
  case DISK_OP_PUNCH:
    put_bytes(image, NULL, op->offset, op->bytes);
    break;
  default:
    assert(0);
  }
}

static void change_names(struct disk_names *names, const struct disk_op *op) {
  switch (op->kind) {
  case DISK_OP_LINK:
    set_name(names, op->name, op->other);
    break;
  case DISK_OP_UNLINK:
    remove_name(names, op->name);
    break;
  case DISK_OP_RENAME:
    remove_name(names, op->name);
    set_name(names, op->to, op->other);
    break;
  default:
    assert(0);
  }
}

static void make_durable(struct disk_inode *inode) {
  for (size_t i = 0; i < inode->unsynced.count; i++)
    if (inode->is_dir)
      change_names(&inode->durable_names, &inode->unsynced.list[i]);
    else
      change_image(&inode->durable, &inode->unsynced.list[i]);
  clear_ops(&inode->unsynced);
}

static uint32_t new_inode(struct disk *disk, int is_dir) {
  disk->inodes = more(disk->inodes, disk->inode_count, &disk->inode_room,
                      sizeof *disk->inodes);
  struct disk_inode *inode = &disk->inodes[disk->inode_count];
  memset(inode, 0, sizeof *inode);
  inode->is_dir = is_dir;
  return (uint32_t)disk->inode_count++;
}

static void operate(struct disk *disk, const struct disk_op *op) {
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
      change_names(&inode->names, op);
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
  struct disk *disk = enough(calloc(1, sizeof *disk));
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
    clear_image(&inode->now);
    clear_image(&inode->durable);
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

/* A disk of what is durable on the other. */
static struct disk *durable_copy(const struct disk *disk) {
  struct disk *copy = disk_new(disk->seed);
  for (size_t i = 1; i < disk->inode_count; i++)
    (void)new_inode(copy, disk->inodes[i].is_dir);
  for (size_t i = 0; i < disk->inode_count; i++) {
    const struct disk_inode *inode = &disk->inodes[i];
    copy->inodes[i].durable = copy_image(&inode->durable);
    copy->inodes[i].durable_names = copy_names(&inode->durable_names);
  }
  return copy;
}

/* What is durable is what programs see. */
static void show_durable(struct disk *disk) {
  for (size_t i = 0; i < disk->inode_count; i++) {
    struct disk_inode *inode = &disk->inodes[i];
    inode->now = copy_image(&inode->durable);
    inode->names = copy_names(&inode->durable_names);
  }
}

/* ---- paths --------------------------------------------------------------- */

/* The directory that the last part of a path is in, and that part. */
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
    const struct disk_name *next = find_name(&disk->inodes[at].names, name);
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
  const struct disk_name *found = find_name(&disk->inodes[dir].names, name);
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
  if (op.name[0] == '\0' || find_name(&disk->inodes[op.file].names, op.name))
    return EEXIST;
  op.other = *file = (uint32_t)disk->inode_count;
  op.is_dir = is_dir;
  operate(disk, &op);
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
  operate(disk, &op);
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
  operate(disk, &(struct disk_op){.kind = DISK_OP_NAMELESS});
  return file;
}

void disk_read(const struct disk *disk, uint32_t file, void *to, size_t bytes,
               uint64_t offset, size_t *got) {
  const struct disk_image *image = &disk->inodes[file].now;
  uint64_t left = offset < image->size ? image->size - offset : 0;
  get_bytes(image, to, offset, bytes);
  *got = left < bytes ? (size_t)left : bytes;
}

void disk_write(struct disk *disk, uint32_t file, const void *from,
                size_t bytes, uint64_t offset) {
  struct disk_op op = {.kind = DISK_OP_WRITE, .file = file};
  if (bytes == 0)
    return;
  op.offset = offset;
  op.bytes = bytes;
  op.data = enough(malloc(sizeof *op.data + bytes));
  op.data->refs = 1;
  memcpy(op.data->bytes, from, bytes);
  operate(disk, &op);
  drop_op(&op);
}

void disk_truncate(struct disk *disk, uint32_t file, uint64_t size) {
  operate(disk, &(struct disk_op){
                    .kind = DISK_OP_TRUNCATE, .file = file, .bytes = size});
}

void disk_punch(struct disk *disk, uint32_t file, uint64_t offset,
                uint64_t bytes) {
  operate(disk, &(struct disk_op){.kind = DISK_OP_PUNCH,
                                  .file = file,
                                  .offset = offset,
                                  .bytes = bytes});
}

void disk_sync(struct disk *disk, uint32_t file) {
  operate(disk, &(struct disk_op){.kind = DISK_OP_SYNC, .file = file});
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
    return EXDEV; /* nobody asks for it, and it would be two operations */
  operate(disk, &op);
  return 0;
}

int disk_sync_dir(struct disk *disk, const char *path) {
  uint32_t dir;
  int rc = disk_find(disk, path, &dir);
  if (rc == 0)
    disk_sync(disk, dir);
  return rc;
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
  /* A copy, because it may remove what it is told. */
  struct disk_names names = copy_names(&disk->inodes[dir].names);
  for (size_t i = 0; i < names.count; i++)
    each(arg, names.list[i].name);
  free(names.list);
  return 0;
}

/* ---- recording ----------------------------------------------------------- */

void disk_record(struct disk *disk) {
  for (size_t i = 0; i < disk->inode_count; i++)
    make_durable(&disk->inodes[i]);
  disk_free(disk->base);
  clear_ops(&disk->events);
  disk->base = durable_copy(disk);
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
  struct disk *player = durable_copy(recording->base);
  show_durable(player);
  return player;
}

void disk_play(struct disk *player, const struct disk *recording,
               size_t events) {
  while (player->number < events)
    operate(player, &recording->events.list[player->number]);
}

size_t disk_unsynced(const struct disk *disk) {
  size_t n = 0;
  for (size_t i = 0; i < disk->inode_count; i++)
    n += disk->inodes[i].unsynced.count;
  return n;
}

/* ---- crash --------------------------------------------------------------- */

struct fate { /* of what was not synced */
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
    return draw(&fate->random) % 8 < of;
  }
}

/* Some of the units that the write touches; the first or last ones, or any. */
static void tear(struct fate *fate, struct disk_image *image,
                 const struct disk_op *op) {
  uint64_t unit = draw(&fate->random) % 2 ? 512 : 4096;
  uint64_t first = op->offset / unit;
  uint64_t count = (op->offset + op->bytes - 1) / unit - first + 1;
  uint64_t how = draw(&fate->random) % 3;
  uint64_t cut = draw(&fate->random) % (count + 1);
  for (uint64_t i = 0; i < count; i++) {
    uint64_t from = (first + i) * unit, to = from + unit;
    from = from < op->offset ? op->offset : from;
    to = to > op->offset + op->bytes ? op->offset + op->bytes : to;
    if (how == 0 ? i < cut : how == 1 ? i >= cut : draw(&fate->random) % 2)
      put_bytes(image, op->data->bytes + (from - op->offset), from, to - from);
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
        set_size(image, op->bytes);
        size = op->bytes;
      }
      continue;
    }
    int grows = stay;
    if (fate->loss == DISK_TORN && op->kind == DISK_OP_WRITE &&
        draw(&fate->random) % 3 == 0) {
      tear(fate, image, op);
      grows = 1;
    } else if (stay) {
      put_bytes(image, op->data ? op->data->bytes : NULL, op->offset,
                op->bytes);
    }
    /* The size is no part of the bytes. */
    if (fate->loss >= DISK_SUBSET && draw(&fate->random) % 8 == 0)
      grows = !grows;
    uint64_t end = op->offset + op->bytes;
    if (op->kind == DISK_OP_WRITE && grows && end > size)
      size = end;
  }
  set_size(image, size);
}

struct disk *disk_crash(const struct disk *disk, enum disk_loss loss,
                        uint64_t seed) {
  static const unsigned chances[] = {0, 1, 4, 7, 8, 4};
  struct disk *after = durable_copy(disk);
  struct fate fate = {.loss = loss, .random = seed};
  uint64_t oldest = disk->number;
  for (size_t i = 0; i < disk->inode_count; i++)
    if (disk->inodes[i].unsynced.count &&
        disk->inodes[i].unsynced.list[0].number < oldest)
      oldest = disk->inodes[i].unsynced.list[0].number;
  fate.end = oldest + draw(&fate.random) % (disk->number - oldest + 1);
  fate.bytes_of = chances[draw(&fate.random) % 6];
  fate.names_of = chances[draw(&fate.random) % 6];
  for (size_t i = 0; i < disk->inode_count; i++) {
    const struct disk_ops *ops = &disk->inodes[i].unsynced;
    if (!disk->inodes[i].is_dir)
      lose_bytes(&fate, &after->inodes[i].durable, ops);
    for (size_t o = 0; disk->inodes[i].is_dir && o < ops->count; o++)
      if (stays(&fate, &ops->list[o], fate.names_of))
        change_names(&after->inodes[i].durable_names, &ops->list[o]);
  }
  show_durable(after);
  return after;
}
