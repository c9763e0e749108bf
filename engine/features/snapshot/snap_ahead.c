/* SPDX-License-Identifier: MIT
**
** snap_ahead.c -- a scan of a snapshot that reads the next extents ahead while
** the current one is used; see snap.h.
**
** Extent number n of the snapshot is read into buffer n % AHEAD.  If anything
** is wrong with it (a failed read, a damaged page, an extent that was moved in
** the file during the read), the extent is simply read again, on the path that
** handles such cases; so nothing here is an error.
*/
#include <string.h>

#include "snap.h"

enum { AHEAD = 4 };

struct snap_ahead {
  struct env_queue *queue;
  char *buffers;
  struct env_io ios[AHEAD];
  uint64_t numbers[AHEAD]; /* 1 + number of the extent; 0: none */
  int waiting[AHEAD];      /* its read is in flight */
  uint64_t next;           /* extents below were requested */
};

static size_t snap_ahead_buffer_bytes(const emb_snap *snap) {
  return AHEAD * (size_t)snap->s->core->layout.extent_bytes;
}

void snap__ahead_free(emb_snap *snap) {
  struct snap_ahead *a = snap->ahead;
  struct env *env = snap->s->core->env;
  if (a) {
    if (a->queue) {
      env->queue_close(env, a->queue);
    }
    if (a->buffers) {
      env->unmap(env, a->buffers, snap_ahead_buffer_bytes(snap));
    }
    env->release(env, a);
    snap->ahead = NULL;
  }
}

void snap_hurry(emb_snap *snap) {
  struct core *core = snap->s->core;
  struct env *env = core->env;
  snap__ahead_free(snap); /* of an earlier pass, before a rewind */
  snap->ahead = env->allocate(env, sizeof *snap->ahead);
  if (snap->ahead) {
    struct snap_ahead *a = snap->ahead;
    a->buffers = env->map(env, snap_ahead_buffer_bytes(snap), 0);
    if (!a->buffers ||
        env->queue_open(env, core->queue_kind, AHEAD, &a->queue)) {
      a->queue = NULL;
      snap__ahead_free(snap);
    }
  }
}

/* Returns where the extent is in the file; 0: it is in memory, or this process
** has no file slot for it. */
static uint64_t file_slot_of(emb_session *s, uint64_t extent) {
  struct core *core = s->core;
  uint64_t page = extent << core->layout.extent_bits, offset = 0;
  epoch_enter(&core->epoch, s->slot);
  if (extent >= core->log.first &&
      extent <= atomic_load(&core->log.tail) >> core->layout.extent_bits &&
      !log_page(&core->log, page)) {
    offset = log_offset(&core->log, page);
  }
  epoch_leave(s->slot);
  return offset == UINT64_MAX ? 0 : offset;
}

/* Requests extents up to AHEAD after the current one. */
void snap__ahead_fill(emb_snap *snap) {
  struct snap_ahead *a = snap->ahead;
  struct core *core = snap->s->core;
  uint64_t end = snap->snapshot->head.extents;
  end = snap->at + AHEAD < end ? snap->at + AHEAD : end;
  a->next = a->next > snap->at ? a->next : snap->at + 1;
  for (; a->next < end; a->next++) {
    uint32_t i = (uint32_t)(a->next % AHEAD);
    uint8_t wanted[SNAP_PAGES_MAX];
    uint32_t pages = snap__wanted(snap, a->next, wanted);
    uint64_t extent = snap->snapshot->extents[a->next][0];
    uint64_t offset = pages ? file_slot_of(snap->s, extent) : 0;
    struct env_io *io = &a->ios[i];
    a->numbers[i] = 0;
    if (!offset || a->waiting[i]) { /* still waiting: the queue failed */
      continue;
    }
    *io = (struct env_io){.file = core->log.file,
                          .buffer = a->buffers +
                                    i * (size_t)core->layout.extent_bytes,
                          .offset = offset,
                          .bytes = pages * core->layout.page_bytes};
    if (core->env->queue_submit(core->env, a->queue, &io, 1) == 0) {
      a->numbers[i] = a->next + 1;
      a->waiting[i] = 1;
    }
  }
}

static int await_read(emb_snap *snap, uint32_t i) {
  struct snap_ahead *a = snap->ahead;
  struct env *env = snap->s->core->env;
  while (a->waiting[i]) {
    struct env_io *done[AHEAD];
    size_t n = 0;
    if (env->queue_wait(env, a->queue, 1, done, AHEAD, &n) && !n) {
      return 0;
    }
    for (size_t k = 0; k < n; k++) {
      a->waiting[done[k] - a->ios] = 0;
    }
  }
  return a->ios[i].result == 0;
}

int snap__ahead_take(emb_snap *snap, uint32_t pages, const uint8_t *wanted) {
  struct snap_ahead *a = snap->ahead;
  struct core *core = snap->s->core;
  uint32_t i = (uint32_t)(snap->at % AHEAD);
  uint32_t extent_bytes = core->layout.extent_bytes;
  uint64_t first = snap->snapshot->extents[snap->at][0]
                   << core->layout.extent_bits;
  if (a->numbers[i] != snap->at + 1 || !await_read(snap, i) ||
      snap__bad_page(snap, first, pages, a->buffers + i * (size_t)extent_bytes,
                     wanted)) {
    return 0;
  }
  memcpy(snap->extent, a->buffers + i * (size_t)extent_bytes,
         (size_t)pages * core->layout.page_bytes);
  count_add(&core->counters.read_pages, pages);
  count_add(&core->counters.read_bytes,
            (uint64_t)pages * core->layout.page_bytes);
  return 1;
}
