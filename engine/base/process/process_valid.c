/* SPDX-License-Identifier: MIT
**
** process_valid.c -- checks the background work of a process's stores and the
** rings and buffers that it keeps, as process_parts.h describes them.  Only in
** self-checking builds (base/debug.h).
*/
#include "engine/base/debug.h"
#include "process_parts.h"

#if EMB_DEBUG > 0

static uint32_t crew_size(const struct process *p, const struct crew *crew) {
  uint32_t n = 0;
  for (const struct process_thread *t = p->running; t; t = t->next) {
    n += t->crew == crew;
  }
  return n;
}

static void check_heap(const struct crew *crew) {
  for (uint32_t at = 0; at < crew->waiting; at++) {
    const struct background *b = crew->heap[at];
    emb_assert(b->at == at);
    emb_assert(b->state == BACKGROUND_WAITING);
    emb_assert(!b->is_ending);
    emb_assert(at == 0 || crew->heap[(at - 1) / 2]->due_us <= b->due_us);
  }
}

int crews_valid(const struct process *p) {
  for (int i = 0; i < BACKGROUND_KINDS; i++) {
    const struct crew *crew = &p->crews[i];
    check_heap(crew);
    emb_assert(crew->waiting <= crew->members && crew->members <= crew->room);
    emb_assert(crew->threads == crew_size(p, crew));
    emb_assert(crew->sleeping + crew->working <= crew->threads);
  }
  return 1;
}

int stock_valid(const struct process *p) {
  emb_assert(p->queue_count <= QUEUES_KEPT);
  for (uint32_t i = 0; i < p->queue_count; i++) {
    emb_assert(p->queues[i].queue && p->queues[i].depth > 0);
  }
  emb_assert(p->buffer_count <= BUFFERS_KEPT);
  for (uint32_t i = 0; i < p->buffer_count; i++) {
    emb_assert(p->buffers[i].start && p->buffers[i].bytes > 0);
    for (uint32_t j = 0; j < i; j++) {
      emb_assert(p->buffers[j].start != p->buffers[i].start);
    }
  }
  return 1;
}

#endif
