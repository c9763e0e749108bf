/* SPDX-License-Identifier: MIT
**
** sink.h -- private to pack/: a file written from front to back under another
** name, and renamed when complete.
**
** DISK      Bypasses the page cache where the file system allows it: a file as
**           long as the table would evict everything else.  Writes SINK_BYTES
**           or a little more at a time.  With a queue, one buffer is filled
**           while the other is being written.
** THREADS   One.
*/
#ifndef EMB_PACK_SINK_H
#define EMB_PACK_SINK_H

#include "engine/base/err.h"
#include "engine/base/env/env.h"

#define SINK_BYTES (1u << 20)

struct sink {
  struct env *env;
  struct env_file *file;
  struct env_dir *dir; /* the directory of `path` */
  char *path, *new_path;
  int created;
  uint64_t identity[2]; /* of the new file */
  char *buffers[2];     /* the second only with a queue */
  int now;              /* the buffer being filled */
  size_t buffer_bytes, filled;
  uint64_t written; /* file offset of the buffer */
  struct env_queue *queue;
  struct env_io io;
  int in_flight;
};

/* Only in self-checking builds. */
int sink_valid(const struct sink *sink);

/* room: most bytes ever added by one call. */
int sink__open(struct sink *sink, struct env *env, const char *path,
               size_t room, emb_err *err);
/* From now on writes go through a queue of this kind, if available. */
void sink__queue(struct sink *sink, int kind);
/* Where the next bytes go: the offset in the file, and the address in
** memory. */
static inline uint64_t sink_offset(const struct sink *sink) {
  return sink->written + sink->filled;
}
static inline char *sink_room(const struct sink *sink) {
  return sink->buffers[sink->now] + sink->filled;
}
/* Adds the bytes that the caller has put at sink_room. */
int sink__add(struct sink *sink, size_t bytes, emb_err *err);
/* Makes the file durable, still under the other name.  After this nothing needs
** memory, a descriptor or space. */
int sink__finish(struct sink *sink, emb_err *err);
/* Renames the file to its own name, durably. */
int sink__give_name(struct sink *sink, emb_err *err);
/* Removes the file unless it has been renamed. */
void sink__close(struct sink *sink);

#endif
