/* SPDX-License-Identifier: MIT
**
** env_memory.c -- see env_memory.h.
**
** A file keeps its content until it is neither named nor open.  Every block
** that the engine takes begins with its size.  Mapped memory is kept and
** given out again, because fresh pages cost more than everything else that a
** fuzzer does.
*/
#include "env_memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "env_alone.h"
#include "env_sync.h"

struct node {  /* a file */
  char *path;  /* NULL: it was unlinked */
  char *bytes; /* mapped; zero from size on */
  size_t size, room;
  unsigned char *blocks; /* which of its blocks have space: one byte each */
  size_t block_count;
  unsigned opens;
  uint64_t number; /* stays when it is renamed */
  struct node *next;
};

struct env_file {
  struct node *node;
  int writable;
};

struct env_lock {
  char nothing;
};

struct env_dir {
  char nothing;
};

enum { BLOCK = 4096 };

static struct node *nodes;
static uint64_t held, randoms, made;
static uint64_t space, used; /* in blocks; 0: unlimited */

/* ---- nodes --------------------------------------------------------------- */

static struct node *find(const char *path) {
  struct node *node = nodes;
  while (node && (!node->path || strcmp(node->path, path) != 0))
    node = node->next;
  return node;
}

/* Gives back the space of blocks [from, to). */
static void give_blocks(struct node *node, size_t from, size_t to) {
  for (size_t i = from; i < to && i < node->block_count; i++) {
    used -= node->blocks[i];
    node->blocks[i] = 0;
  }
}

/* Takes space for all the bytes, or returns ENOSPC and takes none. */
static int take_blocks(struct node *node, size_t offset, size_t bytes) {
  size_t from = offset / BLOCK, to = (offset + bytes + BLOCK - 1) / BLOCK;
  size_t missing = 0;
  if (to > node->block_count) {
    unsigned char *more = realloc(node->blocks, to * 2);
    if (more == NULL)
      return ENOSPC;
    memset(more + node->block_count, 0, to * 2 - node->block_count);
    node->blocks = more;
    node->block_count = to * 2;
  }
  for (size_t i = from; i < to; i++)
    missing += !node->blocks[i];
  if (space && used + missing > space)
    return ENOSPC;
  used += missing;
  memset(node->blocks + from, 1, to - from);
  return 0;
}

static void drop(struct node *node) {
  struct node **at = &nodes;
  if (node->path || node->opens)
    return;
  while (*at != node)
    at = &(*at)->next;
  *at = node->next;
  give_blocks(node, 0, node->block_count);
  free(node->blocks);
  env_sync()->unmap(NULL, node->bytes, node->room);
  free(node);
}

static struct node *make(const char *path) {
  struct node *node = calloc(1, sizeof *node);
  if (node && (node->path = strdup(path)) == NULL) {
    free(node);
    node = NULL;
  }
  if (node) {
    node->number = ++made;
    node->next = nodes;
    nodes = node;
  }
  return node;
}

static int resize_node(struct node *node, size_t size) {
  if (size > ENV_MEMORY_LIMIT)
    return ENOSPC;
  if (size > node->room) {
    size_t room = 65536;
    while (room < size)
      room *= 2;
    char *larger = env_sync()->map(NULL, room, 0);
    if (larger == NULL)
      return ENOSPC;
    if (node->size)
      memcpy(larger, node->bytes, node->size);
    env_sync()->unmap(NULL, node->bytes, node->room);
    node->bytes = larger;
    node->room = room;
  }
  if (size < node->size) {
    memset(node->bytes + size, 0, node->size - size);
    give_blocks(node, (size + BLOCK - 1) / BLOCK, node->block_count);
  }
  node->size = size;
  return 0;
}

/* The last part of a path below dir, NULL if it is elsewhere. */
static const char *name_in(const char *path, const char *dir) {
  size_t n = strlen(dir);
  return path && strncmp(path, dir, n) == 0 && path[n] == '/' &&
                 strchr(path + n + 1, '/') == NULL
             ? path + n + 1
             : NULL;
}

/* ---- files --------------------------------------------------------------- */

static int file_open(struct env *env, const char *path, int flags,
                     struct env_file **out) {
  struct node *node = find(path);
  (void)env;
  if (node && (flags & ENV_EXCLUSIVE))
    return EEXIST;
  if (node == NULL && !(flags & ENV_CREATE))
    return ENOENT;
  *out = calloc(1, sizeof **out);
  if (node == NULL)
    node = make(path);
  if (*out == NULL || node == NULL) {
    free(*out);
    return ENOMEM;
  }
  node->opens++;
  (*out)->node = node;
  (*out)->writable = (flags & ENV_WRITE) != 0;
  return 0;
}

static void file_close(struct env *env, struct env_file *file) {
  (void)env;
  file->node->opens--;
  drop(file->node);
  free(file);
}

static int file_read(struct env *env, struct env_file *file, void *to,
                     size_t bytes, uint64_t offset) {
  const struct node *node = file->node;
  size_t n = offset < node->size ? node->size - (size_t)offset : 0;
  (void)env;
  if (offset > INT64_MAX - bytes)
    return EINVAL;
  n = n < bytes ? n : bytes;
  if (n)
    memcpy(to, node->bytes + offset, n);
  memset((char *)to + n, 0, bytes - n);
  return 0;
}

static int file_write(struct env *env, struct env_file *file, const void *from,
                      size_t bytes, uint64_t offset) {
  struct node *node = file->node;
  (void)env;
  if (!file->writable)
    return EBADF;
  if (offset > ENV_MEMORY_LIMIT - bytes)
    return ENOSPC;
  int rc = take_blocks(node, (size_t)offset, bytes);
  if (rc == 0 && offset + bytes > node->size)
    rc = resize_node(node, (size_t)offset + bytes);
  if (rc == 0)
    memcpy(node->bytes + offset, from, bytes);
  return rc;
}

static int file_sync(struct env *env, struct env_file *file) {
  (void)env, (void)file;
  return 0;
}

static int file_size(struct env *env, struct env_file *file, uint64_t *bytes) {
  (void)env;
  *bytes = file->node->size;
  return 0;
}

static int file_truncate(struct env *env, struct env_file *file,
                         uint64_t bytes) {
  (void)env;
  return bytes > ENV_MEMORY_LIMIT ? ENOSPC
                                  : resize_node(file->node, (size_t)bytes);
}

static int file_reserve(struct env *env, struct env_file *file, uint64_t offset,
                        uint64_t bytes) {
  struct node *node = file->node;
  (void)env;
  if (offset > ENV_MEMORY_LIMIT - bytes)
    return ENOSPC;
  int rc = take_blocks(node, (size_t)offset, (size_t)bytes);
  return rc || offset + bytes <= node->size
             ? rc
             : resize_node(node, (size_t)(offset + bytes));
}

static int file_room(struct env *env, struct env_file *file, uint64_t *bytes) {
  (void)env, (void)file;
  *bytes = space ? (space - used) * BLOCK : ENV_MEMORY_LIMIT;
  return 0;
}

static int file_punch(struct env *env, struct env_file *file, uint64_t offset,
                      uint64_t bytes) {
  struct node *node = file->node;
  (void)env;
  if (offset < node->size) {
    size_t n = bytes < node->size - offset ? bytes : node->size - offset;
    memset(node->bytes + offset, 0, n);
    give_blocks(node, (offset + BLOCK - 1) / BLOCK, (offset + n) / BLOCK);
  }
  return 0;
}

/* ---- paths --------------------------------------------------------------- */

static int path_unlink(struct env *env, const char *path) {
  struct node *node = find(path);
  (void)env;
  if (node == NULL)
    return ENOENT;
  free(node->path);
  node->path = NULL;
  drop(node);
  return 0;
}

static int path_rename(struct env *env, const char *from, const char *to) {
  struct node *node = find(from);
  char *path = strdup(to);
  if (node == NULL || path == NULL) {
    free(path);
    return node ? ENOMEM : ENOENT;
  }
  (void)path_unlink(env, to);
  free(node->path);
  node->path = path;
  return 0;
}

/* All directories exist. */
static int dir_make(struct env *env, const char *path) {
  (void)env, (void)path;
  return EEXIST;
}

static int dir_nothing(struct env *env, const char *path) {
  (void)env, (void)path;
  return 0;
}

static int dir_open(struct env *env, const char *path, struct env_dir **out) {
  (void)env, (void)path;
  *out = calloc(1, sizeof **out);
  return *out ? 0 : ENOMEM;
}

static void dir_close(struct env *env, struct env_dir *dir) {
  (void)env;
  free(dir);
}

static int dir_sync(struct env *env, struct env_dir *dir) {
  (void)env, (void)dir;
  return 0;
}

static int sync_all(struct env *env, struct env_file *file) {
  (void)env, (void)file;
  return 0;
}

void env_memory_list(const char *dir, void (*each)(void *, const char *),
                     void *arg) {
  for (struct node *node = nodes, *next; node; node = next) {
    const char *name = name_in(node->path, dir);
    next = node->next; /* each() may remove it */
    if (name)
      each(arg, name);
  }
}

static int dir_list(struct env *env, const char *path,
                    void (*each)(void *arg, const char *name), void *arg) {
  (void)env;
  env_memory_list(path, each, arg);
  return 0;
}

/* A directory exists as long as it contains a file. */
static int is_there(const char *path) {
  size_t n = strlen(path);
  for (struct node *node = nodes; node; node = node->next)
    if (node->path && strncmp(node->path, path, n) == 0 &&
        (node->path[n] == '\0' || node->path[n] == '/'))
      return 1;
  return 0;
}

/* For files only; time stands still. */
static int file_about(struct env *env, struct env_file *file, const char *path,
                      struct env_about *about) {
  const struct node *node = file ? file->node : find(path);
  (void)env;
  if (node == NULL)
    return ENOENT;
  *about = (struct env_about){node->size, 0, 0, {0, node->number}, 1};
  return 0;
}

static int path_identity(struct env *env, const char *path, uint64_t id[2]) {
  (void)env;
  if (!is_there(path))
    return ENOENT;
  const struct node *node = find(path);
  id[0] = id[1] = 0;
  if (node) {
    id[1] = node->number;
    return 0;
  }
  for (size_t i = 0; path[i]; i++)
    id[i % 2] = id[i % 2] * 251 + (unsigned char)path[i];
  return 0;
}

static int lock_take(struct env *env, const char *path, struct env_lock **out) {
  (void)env;
  if (find(path) == NULL && make(path) == NULL)
    return ENOMEM;
  *out = calloc(1, sizeof **out);
  return *out ? 0 : ENOMEM;
}

static void lock_drop(struct env *env, struct env_lock *lock) {
  (void)env;
  free(lock);
}

static int lock_look(struct env *env, const char *path,
                     enum env_lock_state *state, int64_t *process) {
  (void)env, (void)path;
  *state = ENV_LOCK_FREE;
  *process = 0;
  return 0;
}

/* ---- memory -------------------------------------------------------------- */

enum { HEAD = 64 }; /* holds the size, and keeps the real alignment */

static void *allocate(struct env *env, size_t bytes) {
  char *block;
  (void)env;
  if (bytes > ENV_MEMORY_LIMIT - held)
    return NULL;
  if (posix_memalign((void **)&block, HEAD, bytes + HEAD) != 0)
    return NULL;
  memset(block, 0, bytes + HEAD);
  memcpy(block, &bytes, sizeof bytes);
  held += bytes;
  return block + HEAD;
}

static void release(struct env *env, void *block) {
  size_t bytes;
  (void)env;
  if (block == NULL)
    return;
  memcpy(&bytes, (char *)block - HEAD, sizeof bytes);
  held -= bytes;
  free((char *)block - HEAD);
}

static void *resize(struct env *env, void *block, size_t bytes) {
  size_t before = 0;
  if (block)
    memcpy(&before, (char *)block - HEAD, sizeof before);
  void *larger = allocate(env, bytes);
  if (larger && block) {
    memcpy(larger, block, before < bytes ? before : bytes);
    release(env, block);
  }
  return larger;
}

static void *map(struct env *env, size_t bytes, int huge) {
  (void)env, (void)huge;
  if (bytes > ENV_MEMORY_LIMIT - held)
    return NULL;
  void *memory = env_sync()->map(NULL, bytes, 0);
  held += memory ? bytes : 0;
  return memory;
}

static void unmap(struct env *env, void *memory, size_t bytes) {
  (void)env;
  held -= memory ? bytes : 0;
  env_sync()->unmap(NULL, memory, bytes);
}

/* Always the same day of 2023. */
static uint32_t wall_s(struct env *env) {
  (void)env;
  return UINT32_C(1700000000);
}

static int fill_random(struct env *env, void *to, size_t bytes) {
  (void)env;
  for (size_t i = 0; i < bytes; i++)
    ((unsigned char *)to)[i] = (unsigned char)(++randoms * 167);
  return 0;
}

/* ---- for tests ----------------------------------------------------------- */

struct env *env_memory(void) {
  static struct env table;
  table = *env_sync(); /* its queues call the table that opened them */
  table.open = file_open;
  table.close = file_close;
  table.read = file_read;
  table.write = file_write;
  table.sync = file_sync;
  table.size = file_size;
  table.truncate = file_truncate;
  table.reserve = file_reserve;
  table.room = file_room;
  table.punch = file_punch;
  table.unlink = path_unlink;
  table.rename = path_rename;
  table.make_dir = dir_make;
  table.remove_dir = dir_nothing;
  table.open_dir = dir_open;
  table.close_dir = dir_close;
  table.sync_dir = dir_sync;
  table.sync_all = sync_all;
  table.list_dir = dir_list;
  table.about = file_about;
  table.identity = path_identity;
  table.lock = lock_take;
  table.unlock = lock_drop;
  env_alone(&table);
  table.lock_look = lock_look;
  table.allocate = allocate;
  table.resize = resize;
  table.release = release;
  table.map = map;
  table.unmap = unmap;
  table.random = fill_random;
  table.wall_s = wall_s;
  return &table;
}

uint64_t env_memory_held(void) { return held; }

void env_memory_space(uint64_t bytes) { space = bytes / BLOCK; }

uint64_t env_memory_used(void) { return used * BLOCK; }

int env_memory_write(const char *path, const void *bytes, size_t size) {
  struct node *node = find(path);
  node = node ? node : make(path);
  if (node == NULL || resize_node(node, size))
    return 0;
  if (size)
    memcpy(node->bytes, bytes, size);
  return 1;
}

const char *env_memory_read(const char *path, size_t *size) {
  const struct node *node = find(path);
  *size = node ? node->size : 0;
  return node ? node->bytes ? node->bytes : "" : NULL;
}

void env_memory_clear(void) {
  while (nodes) {
    free(nodes->path);
    nodes->path = NULL;
    nodes->opens = 0;
    drop(nodes);
  }
}
