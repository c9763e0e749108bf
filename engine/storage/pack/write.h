/* SPDX-License-Identifier: MIT
**
** write.h -- private to pack/: the writer, shared by write.c (blocks, rows,
** index, end) and texts.c (texts).
*/
#ifndef EMB_PACK_WRITE_H
#define EMB_PACK_WRITE_H

#include <pthread.h>

#include "block.h"
#include "sink.h"

enum { SLOTS = 4 };
enum slot_state { SLOT_EMPTY, SLOT_FULL, SLOT_TAKEN, SLOT_READY };

struct slot {
  enum slot_state state; /* under the writer's lock */
  uint32_t count, puts;
  uint8_t *ops;
  int64_t *keys;
  uint64_t *versions;
  char *values;      /* of the puts, one after the other */
  char *raw, *bytes; /* in planes; compressed */
  size_t raw_bytes, stored_bytes;
};

struct pack_writer {
  struct env *env;
  struct sink sink;
  struct pack_head head;
  int level;
  int failed;   /* an add failed: there will be no file */
  int complete; /* everything is written and durable */
  uint32_t value_bytes;
  size_t raw_room;

  struct slot slots[SLOTS];
  uint32_t now;                  /* the slot being filled */
  ZSTD_CCtx *zstd, *thread_zstd; /* the writer's, the thread's */

  void *thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int stopping; /* lock */

  struct pack_end end;
  uint64_t blocks;   /* of all kinds, in the file */
  uint64_t *offsets; /* of blocks of rows; from env->resize */
  uint64_t offset_room;
  char *entries; /* FULL_BYTES: the current block of the index */
  uint32_t entry_count;

  char *texts;        /* PACK_TEXTS_BYTES: the current block of texts */
  char *texts_packed; /* the compressed block */
  uint32_t texts_filled, texts_begun;
  uint64_t text_count; /* added so far */
};

/* Only in self-checking builds: between two calls, none of which failed. */
int pack_writer_valid(const struct pack_writer *w);

/* Writes a block unchanged.  Records the offset of a block of rows; the caller
** counts the rows.  No slot may hold rows, and there must be no thread. */
int write__block(struct pack_writer *w, struct pack_block *block,
                 const char *stored, emb_err *err);
/* write__begin_texts begins the texts here, unless already begun; write__texts
** writes the current, perhaps partial, block of texts. */
int write__begin_texts(struct pack_writer *w, emb_err *err);
int write__texts(struct pack_writer *w, emb_err *err);

#endif
