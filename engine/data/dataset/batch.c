/* SPDX-License-Identifier: MIT
**
** batch.c -- many records, read together.
**
** Records are read in pieces: whole blocks of 4 KiB of a file.  Adjoining
** blocks form one piece, up to PIECE_BYTES.  A batch of consecutive keys is
** therefore a few large reads, and a batch of random keys is one small read per
** record; the same code issues both, all together.  Reading begins while
** records are still added.
**
**     add ---> the last piece grows, or is closed and a new one begins
**     closed ---> submitted, START_PIECES at a time ---> in flight ---> done
**     wait: none is in flight; each file checked again; records are available
**
** INVARIANT 1. Pieces do not move, and the memory of a submitted piece neither
**              moves nor grows: only the last piece grows, and it is not
**              submitted before it is closed.
**           2. Each file of a batch is pinned until the batch is cleared, and
**              a batch is not cleared while a piece is in flight.
** FAILURE   wait reports the first error, with the file's name.  Reads in
**           flight are waited for in any case.
** THREADS   A reader and its batches belong to one thread at a time.
*/
#include "engine/data/emb_data.h"
#include "samples.h"

#include "engine/base/env/env.h"

#include <errno.h>
#include <string.h>

#define READER_DEPTH 256u
#define PIECE_BYTES ((size_t)256 << 10)
#define START_PIECES 32u
/* Limits of a batch. */
#define PIECES_MAX 1024u
#define RECORDS_MAX 4096u
#define OPENS_MAX 128u

struct emb_samples_reader {
  struct env *env;
  struct env_queue *queue;
  int direct;
  size_t flying; /* pieces of all batches in flight */
  uint64_t lost; /* number of queues that failed, with their reads in flight */
};

struct samples_batch_piece {
  struct env_io io; /* its tag is the piece */
  struct emb_samples_batch *batch;
  struct samples_open *open;
};

struct samples_batch_record {
  const uint8_t *at;
  size_t bytes;
};

struct emb_samples_batch {
  emb_samples_reader *reader;
  uint8_t *memory; /* for pieces, one after the other */
  size_t bytes, used;
  uint8_t *big; /* memory for a record larger than that, or NULL */
  size_t big_bytes;
  struct samples_batch_piece *pieces;
  size_t piece_count, submitted, flying;
  struct samples_batch_record *records;
  size_t record_count;
  struct samples_open *opens[OPENS_MAX];
  int64_t ids[OPENS_MAX];
  size_t open_count;
  struct samples_batch_piece *failed;
  uint64_t lost; /* the reader's, when the batch was cleared */
};

/* ---- readers ------------------------------------------------------------- */

static int samples_reader_start(emb_samples_reader *reader, emb_err *err) {
  struct env *env = reader->env;
  if (reader->queue) {
    return EMB_OK;
  }
  int os = env->queue_open(env, ENV_QUEUE_URING, READER_DEPTH, &reader->queue);
  if (os == ENOSYS) {
    os = env->queue_open(env, ENV_QUEUE_POOL, READER_DEPTH, &reader->queue);
  }
  if (os) {
    reader->queue = NULL;
    return err_os(err, EMB_IOERR, os, "cannot start disk access");
  }
  return EMB_OK;
}

/* Closes a failed queue, which waits for all reads in flight. */
static void samples_reader_lose(emb_samples_reader *reader) {
  reader->env->queue_close(reader->env, reader->queue);
  reader->queue = NULL;
  reader->flying = 0;
  reader->lost++;
}

int emb_samples_open(int is_cached, emb_samples_reader **out, emb_err *err) {
  struct env *env = env_default();
  emb_samples_reader *reader = env->allocate(env, sizeof *reader);
  if (reader == NULL) {
    return err_set(err, EMB_NOMEM, "out of memory");
  }
  reader->env = env;
  reader->direct = !is_cached;
  int rc = samples_reader_start(reader, err);
  if (rc) {
    env->release(env, reader);
    return rc;
  }
  samples__come();
  *out = reader;
  return EMB_OK;
}

void emb_samples_close(emb_samples_reader *reader) {
  if (reader) {
    emb_assert(reader->flying == 0);
    if (reader->queue) {
      reader->env->queue_close(reader->env, reader->queue);
    }
    reader->env->release(reader->env, reader);
    samples__leave();
  }
}

/* Collects finished reads, waiting for at least `least` pieces of any batch. */
static int samples_reader_collect(emb_samples_reader *reader, size_t least,
                                  emb_err *err) {
  struct env_io *done[64];
  size_t n = 0;
  int os = reader->env->queue_wait(reader->env, reader->queue, least, done,
                                   sizeof done / sizeof done[0], &n);
  for (size_t i = 0; i < n; i++) {
    struct samples_batch_piece *piece = done[i]->tag;
    piece->batch->flying--;
    reader->flying--;
    if (done[i]->result && piece->batch->failed == NULL) {
      piece->batch->failed = piece;
    }
  }
  if (os) {
    samples_reader_lose(reader);
  }
  return os ? err_os(err, EMB_IOERR, os, "cannot read files of samples")
            : EMB_OK;
}

/* ---- batches ------------------------------------------------------------- */

int emb_samples_batch_new(emb_samples_reader *reader, size_t bytes,
                          emb_samples_batch **out, emb_err *err) {
  struct env *env = reader->env;
  emb_samples_batch *batch = env->allocate(env, sizeof *batch);
  if (batch == NULL) {
    return err_set(err, EMB_NOMEM, "out of memory");
  }
  batch->reader = reader;
  batch->lost = reader->lost;
  batch->bytes = (bytes + 2 * SAMPLES_BLOCK_BYTES) / SAMPLES_BLOCK_BYTES *
                 SAMPLES_BLOCK_BYTES;
  batch->memory = env->map(env, batch->bytes, 1);
  batch->pieces = env->map(env, PIECES_MAX * sizeof *batch->pieces, 0);
  batch->records = env->map(env, RECORDS_MAX * sizeof *batch->records, 0);
  if (!batch->memory || !batch->pieces || !batch->records) {
    emb_samples_batch_free(batch);
    return err_set(err, EMB_NOMEM, "out of memory");
  }
  *out = batch;
  return EMB_OK;
}

/* Are pieces of the batch in flight?  After its queue has failed none is. */
static int samples_batch_flies(emb_samples_batch *batch) {
  if (batch->lost != batch->reader->lost) {
    batch->flying = 0;
  }
  return batch->flying > 0;
}

void emb_samples_batch_clear(emb_samples_batch *batch) {
  struct env *env = batch->reader->env;
  while (samples_batch_flies(batch)) {
    (void)samples_reader_collect(batch->reader, 1, NULL);
  }
  batch->lost = batch->reader->lost;
  for (size_t i = 0; i < batch->open_count; i++) {
    samples__give(batch->opens[i]);
  }
  if (batch->big) {
    env->unmap(env, batch->big, batch->big_bytes);
  }
  batch->big = NULL;
  batch->failed = NULL;
  batch->used = batch->big_bytes = 0;
  batch->piece_count = batch->submitted = 0;
  batch->record_count = batch->open_count = 0;
}

void emb_samples_batch_free(emb_samples_batch *batch) {
  if (batch) {
    struct env *env = batch->reader->env;
    emb_samples_batch_clear(batch);
    if (batch->memory)
      env->unmap(env, batch->memory, batch->bytes);
    if (batch->pieces)
      env->unmap(env, batch->pieces, PIECES_MAX * sizeof *batch->pieces);
    if (batch->records)
      env->unmap(env, batch->records, RECORDS_MAX * sizeof *batch->records);
    env->release(env, batch);
  }
}

/* Submits all pieces before `upto`. */
static int samples_batch_submit(emb_samples_batch *batch, size_t upto,
                                emb_err *err) {
  emb_samples_reader *reader = batch->reader;
  struct env_io *ios[START_PIECES];
  int rc = batch->submitted < upto ? samples_reader_start(reader, err) : EMB_OK;
  if (rc) {
    return rc;
  }
  while (batch->submitted < upto) {
    size_t n = 0;
    while (n < START_PIECES && batch->submitted + n < upto) {
      ios[n] = &batch->pieces[batch->submitted + n].io;
      n++;
    }
    /* Even after an error the queue owns requests it could not start yet. */
    batch->submitted += n;
    batch->flying += n;
    reader->flying += n;
    int os = reader->env->queue_submit(reader->env, reader->queue, ios, n);
    if (os) {
      samples_reader_lose(reader);
      return err_os(err, EMB_IOERR, os, "cannot read files of samples");
    }
  }
  return EMB_OK;
}

/* Returns the file, pinned.  NULL with *rc EMB_OK: no room for another file. */
static struct samples_open *samples_batch_open(emb_samples_batch *batch,
                                               const emb_samples_file *file,
                                               int *rc, emb_err *err) {
  struct samples_open *open = NULL;
  *rc = EMB_OK;
  for (size_t i = batch->open_count; i > 0; i--) {
    if (batch->ids[i - 1] == file->id) {
      return batch->opens[i - 1];
    }
  }
  if (batch->open_count == OPENS_MAX) {
    return NULL;
  }
  *rc = samples__take(file, batch->reader->direct, &open, err);
  if (*rc) {
    return NULL;
  }
  batch->ids[batch->open_count] = file->id;
  batch->opens[batch->open_count++] = open;
  return open;
}

/* Memory for a piece; NULL: none is left. */
static uint8_t *samples_batch_memory(emb_samples_batch *batch, size_t bytes) {
  struct env *env = batch->reader->env;
  if (bytes <= batch->bytes - batch->used) {
    uint8_t *at = batch->memory + batch->used;
    batch->used += bytes;
    return at;
  }
  if (batch->piece_count > 0) {
    return NULL;
  }
  batch->big = env->map(env, bytes, 0);
  batch->big_bytes = bytes;
  batch->used = batch->bytes; /* no other piece joins it */
  return batch->big;
}

/* Adds these bytes of a file to the last piece, if possible; *at: where they
** begin. */
static int samples_batch_grow(emb_samples_batch *batch,
                              const struct samples_open *open, uint64_t from,
                              uint64_t to, uint8_t **at) {
  struct samples_batch_piece *last = &batch->pieces[batch->piece_count - 1];
  if (batch->piece_count == batch->submitted || last->open != open ||
      from < last->io.offset || from > last->io.offset + last->io.bytes ||
      to - last->io.offset > PIECE_BYTES) {
    return 0;
  }
  uint64_t more = to > last->io.offset + last->io.bytes
                      ? to - last->io.offset - last->io.bytes
                      : 0;
  if (more > batch->bytes - batch->used) {
    return 0;
  }
  batch->used += (size_t)more;
  last->io.bytes += (uint32_t)more;
  *at = (uint8_t *)last->io.buffer + (from - last->io.offset);
  return 1;
}

/* Begins a new piece, if there is room; *at = NULL: there is none. */
static int samples_batch_begin(emb_samples_batch *batch,
                               struct samples_open *open, uint64_t from,
                               uint64_t to, uint8_t **at, emb_err *err) {
  *at = NULL;
  if (batch->piece_count == PIECES_MAX) {
    return EMB_OK;
  }
  *at = samples_batch_memory(batch, (size_t)(to - from));
  if (*at == NULL) {
    return batch->piece_count > 0 ? EMB_OK
                                  : err_set(err, EMB_NOMEM, "out of memory");
  }
  struct samples_batch_piece *piece = &batch->pieces[batch->piece_count++];
  memset(piece, 0, sizeof *piece);
  piece->io.file = samples__file(open);
  piece->io.buffer = *at;
  piece->io.offset = from;
  piece->io.bytes = (uint32_t)(to - from);
  piece->io.tag = piece;
  piece->batch = batch;
  piece->open = open;
  return batch->piece_count - 1 - batch->submitted >= START_PIECES
             ? samples_batch_submit(batch, batch->piece_count - 1, err)
             : EMB_OK;
}

int emb_samples_batch_add(emb_samples_batch *batch,
                          const emb_samples_file *file, uint64_t offset,
                          uint64_t bytes, int *added, emb_err *err) {
  uint8_t *at = NULL;
  int rc;
  *added = 0;
  if (bytes > (uint64_t)EMB_SAMPLES_RECORD_MAX + 8 || offset > file->bytes ||
      bytes > file->bytes - offset) {
    return err_set(err, EMB_CORRUPT,
                   "a record of %s is at an impossible position", file->path);
  }
  if (batch->record_count == RECORDS_MAX) {
    return EMB_OK;
  }
  struct samples_open *open = samples_batch_open(batch, file, &rc, err);
  if (open == NULL) {
    return rc;
  }
  uint64_t from = offset & ~(uint64_t)(SAMPLES_BLOCK_BYTES - 1);
  uint64_t to = (offset + bytes + SAMPLES_BLOCK_BYTES - 1) &
                ~(uint64_t)(SAMPLES_BLOCK_BYTES - 1);
  if (batch->piece_count == 0 ||
      !samples_batch_grow(batch, open, from, to, &at)) {
    rc = samples_batch_begin(batch, open, from, to, &at, err);
    if (rc || at == NULL) {
      return rc;
    }
  }
  batch->records[batch->record_count++] =
      (struct samples_batch_record){at + (offset - from), (size_t)bytes};
  *added = 1;
  return EMB_OK;
}

int emb_samples_batch_start(emb_samples_batch *batch, emb_err *err) {
  return samples_batch_submit(batch, batch->piece_count, err);
}

int emb_samples_batch_wait(emb_samples_batch *batch, emb_err *err) {
  int rc = emb_samples_batch_start(batch, err);
  while (!rc && samples_batch_flies(batch)) {
    rc = samples_reader_collect(batch->reader, 1, err);
  }
  if (!rc && batch->lost != batch->reader->lost) {
    rc = err_set(err, EMB_IOERR, "cannot read files of samples");
  }
  if (!rc && batch->failed) {
    /* The file may have shrunk, or its file system may be gone. */
    rc = samples__same(batch->failed->open, err);
    return rc ? rc
              : err_os(err, EMB_IOERR, batch->failed->io.result,
                       "cannot read a file of samples");
  }
  for (size_t i = 0; !rc && i < batch->open_count; i++) {
    rc = samples__same(batch->opens[i], err);
  }
  return rc;
}

const void *emb_samples_batch_record(const emb_samples_batch *batch, size_t i,
                                     size_t *bytes) {
  emb_assert(i < batch->record_count && batch->flying == 0);
  *bytes = batch->records[i].bytes;
  return batch->records[i].at;
}
