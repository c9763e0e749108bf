/* SPDX-License-Identifier: MIT
**
** notes.c -- see notes.h.
*/
#include "notes.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/sort.h"
#include "engine/emb.h"

static void notes_add(struct core *core, struct notes *notes,
                      struct note_list *list, const struct note_move *note) {
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

/* A key's record moves from one log address to another, or is deleted. */
static void note_change(void *arg, const struct row_event *event) {
  struct notes *notes = arg;
  struct core *core = notes->core;
  uint64_t mark = atomic_load_explicit(&notes->mark, memory_order_acquire);
  uint64_t from = event->from, to = event->to;
  int settled =
      event->session != NULL && !EMB_SEED(SEED_COMMIT_NOTED_AS_IMMEDIATE);
  if (!to) {
    to = layout_address(
        &core->layout,
        atomic_load_explicit(&core->log.read_only, memory_order_acquire), 0);
  }
  if ((settled && !mark) || EMB_SEED(SEED_MOVE_NOT_NOTED)) {
    return; /* the commit is before the mark */
  }
  /* A record above the mark needs no note.  Nor does a record that was below
  ** the mark and stays below: the index has it.  But a record that a commit
  ** put below the mark after the mark was made needs one. */
  if (settled ? !(from && from < mark) && to >= mark
              : !from || (mark && (from >= mark || to < mark))) {
    return;
  }
  const struct note_move made = {event->key, from, to, (uint32_t)settled, 0};
  struct note_list *list =
      &notes->lists[hash_key(event->key) >> (64 - INDEX_PART_BITS_MAX)];
  pthread_mutex_lock(&list->lock);
  if (!list->ended) {
    notes_add(core, notes, list, &made);
  }
  pthread_mutex_unlock(&list->lock);
}

static void free_notes(struct notes *notes) {
  struct env *env = notes->core->env;
  for (uint32_t p = 0; p < NOTES_PARTS; p++) {
    pthread_mutex_destroy(&notes->lists[p].lock);
    env->release(env, notes->lists[p].notes);
  }
  env->release(env, notes);
}

struct notes *notes__begin(struct core *core) {
  struct notes *notes = core->env->allocate(core->env, sizeof *notes);
  if (!notes) {
    return NULL;
  }
  notes->core = core;
  notes->observer = (struct observer){.name = "snapshot",
                                      .changed = note_change,
                                      .moved = note_change,
                                      .removed = note_change,
                                      .arg = notes};
  for (uint32_t p = 0; p < NOTES_PARTS; p++) {
    pthread_mutex_init(&notes->lists[p].lock, NULL);
  }
  if (observe_begin(core, &notes->observer)) {
    free_notes(notes);
    return NULL;
  }
  return notes;
}

void notes__end(struct core *core, struct notes *notes) {
  observe_end(core, &notes->observer);
  free_notes(notes);
}

/* ---- the state at the mark ----------------------------------------------- */

/* Keeps a key's notes in order. */
static int by_hash_and_order(const void *a, const void *b) {
  const struct note_move *x = a, *y = b;
  uint64_t x_hash = hash_key(x->key), y_hash = hash_key(y->key);
  return x_hash != y_hash        ? x_hash < y_hash ? -1 : 1
         : x->number < y->number ? -1
                                 : 1;
}

/* Returns where a key was at the mark, from its n notes in order and `found`,
** its later address in the index (0: none). */
static uint64_t address_at(const struct note_move *notes, size_t n,
                           uint64_t found, uint64_t mark) {
  uint64_t address = 0;
  int known = 0;
  for (size_t i = 0; i < n; i++) {
    if (notes[i].settled) {
      return known ? address : notes[i].from < mark ? notes[i].from : 0;
    }
    if (notes[i].from < mark && notes[i].to >= mark) {
      address = notes[i].from > address ? notes[i].from : address;
      known = 1;
    }
  }
  return found < mark && found > address ? found : address;
}

/* Makes room for n more pairs. */
static int notes_reserve(struct core *core, uint64_t **pairs, uint64_t count,
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

int notes__apply(struct core *core, struct notes *notes, uint32_t part,
                 uint64_t **pairs, uint64_t *count, uint64_t *room) {
  struct note_list *list = &notes->lists[part];
  uint64_t mark = atomic_load(&notes->mark), n = *count, kept = 0;
  pthread_mutex_lock(&list->lock);
  emb_assert(mark && !list->ended); /* a partition is written only once */
  list->ended = 1;
  pthread_mutex_unlock(&list->lock);
  int rc = notes_reserve(core, pairs, n, list->count, room);
  if (rc || atomic_load(&notes->failed)) {
    return EMB_NOMEM;
  }
  uint64_t(*rows)[2] = (uint64_t(*)[2])(void *)*pairs;
  for (size_t i = 0; i < list->count; i++) {
    rows[n + i][0] = (uint64_t)list->notes[i].key;
    rows[n + i][1] = UINT64_MAX; /* in the notes only */
  }
  n += list->count;
  for (uint64_t i = 0; i < n; i++) {
    rows[i][0] = hash_key((int64_t)rows[i][0]);
  }
  sort_pairs(rows, n, 64 - INDEX_PART_BITS_MAX);
  if (list->count) {
    qsort(list->notes, list->count, sizeof *list->notes, by_hash_and_order);
  }
  size_t at = 0;
  for (uint64_t i = 0; i < n;) {
    uint64_t hash = rows[i][0], found = 0;
    uint64_t key = (uint64_t)hash_key_of(hash);
    size_t from;
    for (; i < n && rows[i][0] == hash; i++) {
      found = rows[i][1] != UINT64_MAX ? rows[i][1] : found;
    }
    for (from = at; at < list->count && (uint64_t)list->notes[at].key == key;) {
      at++;
    }
    const struct note_move *first = list->count ? list->notes + from : NULL;
    uint64_t address = address_at(first, at - from, found, mark);
    emb_assert(address < mark);
    if (address) {
      rows[kept][0] = key;
      rows[kept++][1] = address;
    }
  }
  *count = kept;
  core->env->release(core->env, list->notes);
  list->notes = NULL;
  list->count = list->room = 0;
  return EMB_OK;
}
