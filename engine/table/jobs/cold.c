/* SPDX-License-Identifier: MIT
**
** cold.c -- records on disk: sort by page, read each page once, many pages at a
** time, check, hand out.
**
** A session reads outside the epoch.  While the read is in flight, the record
** may move (a Put), or its extent may be moved within the file, or be freed and
** its file slot reused (compaction, then a checkpoint).  The page checksum
** covers the page's number, so a replaced page fails it.  Then the key is
** looked up again: if the record moved, it is read again; if it did not, the
** page is damaged.  In a process that is not the owner, the index learns of a
** move only with the next checkpoint, so that checkpoint is loaded before the
** page counts as damaged.
*/
#include <stdlib.h>
#include <string.h>

#include "engine/table/session/session.h"
#include "cold.h"
#include "engine/table/owner/own.h"

struct read_reading {
  emb_session *s;
  const int64_t *keys;
  uint32_t n;
  int promote;
  cold_use use;
  void *arg;
  uint32_t *again;
};

static int read_by_address(const void *a, const void *b) {
  uint64_t x = ((const struct cold *)a)->address;
  uint64_t y = ((const struct cold *)b)->address;
  return x < y ? -1 : x > y;
}

static int read_damaged(emb_session *s, uint64_t page) {
  epoch_enter(&s->core->epoch, s->slot);
  uint64_t offset = log_offset(&s->core->log, page);
  epoch_leave(s->slot);
  return session_error(
      s, EMB_CORRUPT, "%s/log: page %llu (offset %llu) is damaged",
      s->core->dir, (unsigned long long)page, (unsigned long long)offset);
}

/* Is the record still where the read at this offset looked for it? */
static int still_there(emb_session *s, int64_t key, uint64_t address,
                       uint64_t offset) {
  struct core *core = s->core;
  uint64_t word;
  epoch_enter(&core->epoch, s->slot);
  index_find(&core->index, key, hash_key(key), &word);
  int same =
      word && key_log_address(core, word) == address &&
      log_offset(&core->log, layout_page(&core->layout, address)) == offset;
  epoch_leave(s->slot);
  return same;
}

/* Hands out all records of one page: [from, to) of s->cold. */
static int use_page(struct read_reading *r, uint32_t from, uint32_t to,
                    const char *page, uint64_t offset) {
  emb_session *s = r->s;
  struct core *core = s->core;
  const struct layout *l = &core->layout;
  uint64_t number = layout_page(l, s->cold[from].address);
  int valid = page_valid(l, page, core->salt, number);
  for (uint32_t i = from; i < to; i++) {
    uint32_t row = s->cold[i].row;
    int64_t key = r->keys[row];
    const struct rec *rec =
        (const struct rec *)(const void *)(page + PAGE_HEAD_BYTES +
                                           (size_t)layout_slot(
                                               l, s->cold[i].address) *
                                               l->rec_bytes);
    if (!valid || page_kind(page) != PAGE_DATA ||
        atomic_load_explicit(&rec->key, memory_order_relaxed) != key) {
      if (still_there(s, key, s->cold[i].address, offset)) {
        int rc = own_reload(s);
        if (rc || still_there(s, key, s->cold[i].address, offset)) {
          return rc ? rc : read_damaged(s, number);
        }
      }
      s->rows[(*r->again)++] = row;
      continue;
    }
    int rc = r->use(s, r->arg, row, key, rec);
    if (rc) {
      return rc;
    }
    if (r->promote) {
      epoch_enter(&core->epoch, s->slot);
      int wake = promote_offer(
          core,
          &(struct cache_offer){.key = key,
                                .hash = hash_key(key),
                                .address = s->cold[i].address,
                                .value = rec->vector,
                                .version = rec_version(atomic_load_explicit(
                                    &rec->stamp, memory_order_relaxed))});
      epoch_leave(s->slot);
      if (wake) {
        core_wake(core);
      }
    }
  }
  return EMB_OK;
}

/* The end of the group of cold records on the same page as `from`. */
static uint32_t page_end(const struct read_reading *r, uint32_t from) {
  const struct layout *l = &r->s->core->layout;
  uint64_t page = layout_page(l, r->s->cold[from].address);
  uint32_t to = from + 1;
  while (to < r->n && layout_page(l, r->s->cold[to].address) == page) {
    to++;
  }
  return to;
}

/* Prepares the read of the group that starts at `from`.  0: the extent is no
** longer in the file; its records have moved. */
static int read_prepare(struct read_reading *r, uint32_t from,
                        struct env_io *io, char *buffer) {
  struct core *core = r->s->core;
  epoch_enter(&core->epoch, r->s->slot);
  uint64_t offset = log_offset(
      &core->log, layout_page(&core->layout, r->s->cold[from].address));
  epoch_leave(r->s->slot);
  if (offset == UINT64_MAX) {
    return 0;
  }
  memset(io, 0, sizeof *io);
  io->file = core->log.file;
  io->buffer = buffer;
  io->offset = offset;
  io->bytes = core->layout.page_bytes;
  io->tag = &r->s->cold[from];
  return 1;
}

static int store_read_all(struct read_reading *r) {
  emb_session *s = r->s;
  struct env *env = s->core->env;
  uint32_t bytes = s->core->layout.page_bytes;
  uint32_t next = 0, flying = 0;
  uint32_t depth = s->reads.depth_now && s->reads.depth_now < s->reads.depth
                       ? s->reads.depth_now
                       : s->reads.depth;
  uint32_t free_ios = depth, rc = EMB_OK;
  struct env_io **free_list = s->reads.io_list + s->reads.depth;
  struct env_io **ready = free_list + s->reads.depth;
  for (uint32_t i = 0; i < depth; i++) {
    free_list[i] = &s->reads.ios[depth - 1 - i];
  }
  for (;;) {
    size_t n = 0;
    while (!rc && free_ios && next < r->n) {
      uint32_t end = page_end(r, next);
      struct env_io *io = free_list[free_ios - 1];
      char *buffer = s->reads.pages + (size_t)(io - s->reads.ios) * bytes;
      if (read_prepare(r, next, io, buffer)) {
        s->reads.io_list[n++] = io;
        free_ios--;
      } else {
        for (uint32_t i = next; i < end; i++) {
          s->rows[(*r->again)++] = s->cold[i].row;
        }
      }
      next = end;
    }
    if (n) {
      int os =
          env->queue_submit(env, s->reads.queue.queue, s->reads.io_list, n);
      if (os) {
        /* It is not known which reads were started, so close the queue. */
        env->queue_close(env, s->reads.queue.queue);
        s->reads.queue.queue = NULL;
        return err_os(&s->err, EMB_IOERR, os, "cannot read %s/log",
                      s->core->dir);
      }
      flying += (uint32_t)n;
    }
    if (!flying) {
      return (int)rc;
    }
    size_t got = 0;
    int os = env->queue_wait(env, s->reads.queue.queue, 1, ready, depth, &got);
    if (os) {
      env->queue_close(env, s->reads.queue.queue);
      s->reads.queue.queue = NULL;
      return err_os(&s->err, EMB_IOERR, os, "cannot read %s/log", s->core->dir);
    }
    flying -= (uint32_t)got;
    for (size_t i = 0; i < got; i++) {
      struct env_io *io = ready[i];
      uint32_t from = (uint32_t)((struct cold *)io->tag - s->cold);
      if (!rc && io->result) {
        rc = (uint32_t)err_os(&s->err, EMB_IOERR, io->result,
                              "cannot read %s/log at offset %llu", s->core->dir,
                              (unsigned long long)io->offset);
      }
      if (!rc) {
        rc = (uint32_t)use_page(r, from, page_end(r, from), io->buffer,
                                io->offset);
        count_add(&s->core->counters.read_pages, 1);
        count_add(&s->core->counters.read_bytes, bytes);
      }
      free_list[free_ios++] = io;
    }
    if (!rc) {
      rc = (uint32_t)session_interrupted(s);
    }
  }
}

int cold_read(emb_session *s, const struct cold_batch *batch, uint32_t *again) {
  uint32_t n = batch->n;
  emb_assert(epoch_outside()); /* E1 */
  if (s->ahead.serve) {
    n = s->ahead.serve(s, batch->keys, n, batch->use, batch->arg);
  }
  if (n == 0) {
    return EMB_OK;
  }
  int rc = session_read_begin(s);
  if (rc) {
    return rc;
  }
  qsort(s->cold, n, sizeof *s->cold, read_by_address);
  struct read_reading r = {s,          batch->keys, n,    batch->promote,
                           batch->use, batch->arg,  again};
  rc = store_read_all(&r);
  session_read_end(s);
  return rc;
}
