/* SPDX-License-Identifier: MIT
**
** notes.c -- see notes.h.
*/
#include "notes.h"

#include <stdlib.h>
#include <string.h>

#include "../emb.h"

struct notes *notes_begin(struct core *core) {
  struct notes *notes = core->env->allocate(core->env, sizeof *notes);
  if (!notes) {
    return NULL;
  }
  for (uint32_t p = 0; p < NOTES_PARTS; p++) {
    pthread_mutex_init(&notes->lists[p].lock, NULL);
  }
  atomic_store_explicit(&core->notes, notes, memory_order_release);
  epoch_wait(&core->epoch);
  return notes;
}

void notes_end(struct core *core, struct notes *notes) {
  atomic_store_explicit(&core->notes, NULL, memory_order_release);
  epoch_wait(&core->epoch);
  for (uint32_t p = 0; p < NOTES_PARTS; p++) {
    pthread_mutex_destroy(&notes->lists[p].lock);
    core->env->release(core->env, notes->lists[p].notes);
  }
  core->env->release(core->env, notes);
}

static void add(struct core *core, struct notes *notes, struct note_list *list,
                const struct note_move *note) {
  if (list->count == list->room) {
    size_t room = list->room ? list->room * 2 : 32;
    void *larger =
        core->env->resize(core->env, list->notes, room * sizeof *list->notes);
    if (!larger) {
      atomic_store(&notes->failed, 1);
      return;
    }
    list->notes = larger;
    list->room = room;
  }
  list->notes[list->count] = *note;
  list->notes[list->count].number = (uint32_t)list->count;
  list->count++;
}

void notes_moved(struct core *core, struct notes *notes, int64_t key,
                 uint64_t from, uint64_t to, int settled) {
  uint64_t mark = atomic_load_explicit(&notes->mark, memory_order_acquire);
  settled = EMB_SEED(61) ? 0 : settled;
  if (!to) {
    to = layout_address(
        &core->layout,
        atomic_load_explicit(&core->log.read_only, memory_order_acquire), 0);
  }
  if ((settled && !mark) || EMB_SEED(60)) {
    return; /* the commit comes first */
  }
  /* What lies above the mark is not looked for, what was below and stays there
  ** is found; but not what a commit put there after the mark. */
  if (settled ? !(from && from < mark) && to >= mark
              : !from || (mark && (from >= mark || to < mark))) {
    return;
  }
  const struct note_move note = {key, from, to, settled != 0, 0};
  struct note_list *list =
      &notes->lists[hash_key(key) >> (64 - INDEX_PART_BITS_MAX)];
  pthread_mutex_lock(&list->lock);
  if (!list->ended) {
    add(core, notes, list, &note);
  }
  pthread_mutex_unlock(&list->lock);
}

/* ---- the state at the mark ---------------------------------------------- */

static int by_hash(const void *a, const void *b) {
  uint64_t x = hash_key((int64_t) * (const uint64_t *)a);
  uint64_t y = hash_key((int64_t) * (const uint64_t *)b);
  return x < y ? -1 : x > y;
}

/* Notes of a key stay in their order. */
static int by_hash_and_order(const void *a, const void *b) {
  const struct note_move *x = a, *y = b;
  int order = by_hash(&x->key, &y->key);
  return order ? order : x->number < y->number ? -1 : 1;
}

/* Where a key was, of which there are n notes in their order; found: what the
** index said later, 0 if nothing. */
static uint64_t place_at(const struct note_move *notes, size_t n,
                         uint64_t found, uint64_t mark) {
  uint64_t place = 0;
  int known = 0;
  for (size_t i = 0; i < n; i++) {
    if (notes[i].settled) {
      return known ? place : notes[i].from < mark ? notes[i].from : 0;
    }
    if (notes[i].from < mark && notes[i].to >= mark) {
      place = notes[i].from > place ? notes[i].from : place;
      known = 1;
    }
  }
  return found < mark && found > place ? found : place;
}

/* Makes room for n pairs more than there are. */
static int reserve(struct core *core, uint64_t **pairs, uint64_t count,
                   uint64_t n, uint64_t *room) {
  if (count + n <= *room) {
    return EMB_OK;
  }
  void *larger =
      core->env->resize(core->env, *pairs, (count + n) * 2 * sizeof(uint64_t));
  if (!larger) {
    return EMB_NOMEM;
  }
  *pairs = larger;
  *room = count + n;
  return EMB_OK;
}

int notes_apply(struct core *core, struct notes *notes, uint32_t part,
                uint64_t **pairs, uint64_t *count, uint64_t *room) {
  struct note_list *list = &notes->lists[part];
  uint64_t mark = atomic_load(&notes->mark), n = *count, kept = 0;
  pthread_mutex_lock(&list->lock);
  list->ended = 1;
  pthread_mutex_unlock(&list->lock);
  int rc = reserve(core, pairs, n, list->count, room);
  if (rc || atomic_load(&notes->failed)) {
    return EMB_NOMEM;
  }
  uint64_t(*rows)[2] = (uint64_t(*)[2])(void *)*pairs;
  for (size_t i = 0; i < list->count; i++) {
    rows[n + i][0] = (uint64_t)list->notes[i].key;
    rows[n + i][1] = UINT64_MAX; /* only noted */
  }
  n += list->count;
  if (n) {
    qsort(rows, n, sizeof *rows, by_hash);
  }
  if (list->count) {
    qsort(list->notes, list->count, sizeof *list->notes, by_hash_and_order);
  }
  size_t at = 0;
  for (uint64_t i = 0; i < n;) {
    uint64_t key = rows[i][0], found = 0;
    size_t from;
    for (; i < n && rows[i][0] == key; i++) {
      found = rows[i][1] != UINT64_MAX ? rows[i][1] : found;
    }
    for (from = at; at < list->count && (uint64_t)list->notes[at].key == key;) {
      at++;
    }
    uint64_t place = place_at(list->notes + from, at - from, found, mark);
    if (place) {
      rows[kept][0] = key;
      rows[kept++][1] = place;
    }
  }
  *count = kept;
  core->env->release(core->env, list->notes);
  list->notes = NULL;
  list->count = list->room = 0;
  return EMB_OK;
}
