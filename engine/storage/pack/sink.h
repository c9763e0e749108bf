/* SPDX-License-Identifier: MIT
**
** sink.h -- private to pack/: a file that is written from front to back under
** another name, and gets its own when it is complete.
**
** DISK      Past the page cache where the file system allows it: a file as long
**           as the table would push everything else out of it.  Pieces of
**           SINK_BYTES or a little more.  With a queue the next piece is filled
**           while the one before is being written.
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
  struct env_dir *dir; /* where it gets its name */
  char *path, *new_path;
  int created;
  uint64_t identity[2]; /* of the new file */
  char *buffers[2];     /* the second one with a queue only */
  int now;              /* the one that is being filled */
  size_t buffer_bytes, filled;
  uint64_t written; /* where the buffer belongs */
  struct env_queue *queue;
  struct env_io io;
  int in_flight;
};

/* room: most bytes that are ever added at once. */
int sink__open(struct sink *sink, struct env *env, const char *path,
               size_t room, emb_err *err);
/* Writes go through a queue of this kind from now on, if there can be one. */
void sink__queue(struct sink *sink, int kind);
/* Where in the file the next bytes go, and where in memory. */
static inline uint64_t sink_offset(const struct sink *sink) {
  return sink->written + sink->filled;
}
static inline char *sink_room(const struct sink *sink) {
  return sink->buffers[sink->now] + sink->filled;
}
/* They are there. */
int sink__add(struct sink *sink, size_t bytes, emb_err *err);
/* Durable, but under the other name still: from here on nothing takes memory,
** a descriptor or space. */
int sink__finish(struct sink *sink, emb_err *err);
/* Durable under its name. */
int sink__give_name(struct sink *sink, emb_err *err);
/* Removes the file unless it has its name. */
void sink__close(struct sink *sink);

#endif
