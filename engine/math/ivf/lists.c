/* SPDX-License-Identifier: MIT
**
** lists.c -- see lists.h.
*/
#include "lists.h"

#include <string.h>

#define CHUNK_SMALL (UINT32_C(1) << 17)
#define CHUNK_LARGE (UINT32_C(1) << 21)

static size_t lists_block_bytes(const struct ivf_form *form) {
  return sizeof(struct ivf_head) +
         IVF_BLOCK * (ivf_code_bytes(form) + sizeof(int64_t) + form->marks);
}

int ivf__lists_init(struct lists *lists, struct env *env,
                    const struct ivf_form *form, uint32_t count,
                    uint64_t expected) {
  size_t block = lists_block_bytes(form);
  /* Large chunks are in huge pages, which only a large index fills. */
  size_t most = expected / IVF_BLOCK * block > 16u * CHUNK_LARGE ? CHUNK_LARGE
                                                                 : CHUNK_SMALL;
  *lists = (struct lists){
      .env = env, .form = *form, .count = count, .free = BLOCK_NONE};
  while ((block << (lists->chunk_bits + 1)) <= most) {
    lists->chunk_bits++;
  }
  lists->chunk_bytes = block << lists->chunk_bits;
  lists->all = env->allocate(env, count * sizeof *lists->all);
  lists->chunks = env->map(env, CHUNKS_MAX * sizeof *lists->chunks, 0);
  for (uint32_t i = 0; lists->all && i < count; i++) {
    lists->all[i].first = BLOCK_NONE;
  }
  return lists->all && lists->chunks;
}

void ivf__lists_free(struct lists *lists) {
  struct env *env = lists->env;
  for (uint32_t i = 0; i < lists->chunk_count; i++) {
    env->unmap(env, lists->chunks[i], lists->chunk_bytes);
  }
  if (lists->chunks) {
    env->unmap(env, (void *)lists->chunks, CHUNKS_MAX * sizeof *lists->chunks);
  }
  env->release(env, lists->all);
}

uint64_t ivf__lists_bytes(const struct lists *lists) {
  return lists->chunk_count * (uint64_t)lists->chunk_bytes +
         lists->count * sizeof *lists->all +
         lists->chunk_count * sizeof *lists->chunks;
}

/* ---- gates --------------------------------------------------------------- */

void ivf__list_enter(struct ivf_list *list) {
  unsigned spins = 0;
  while (atomic_fetch_add_explicit(&list->gate, 1, memory_order_acquire) &
         GATE_ALONE) {
    atomic_fetch_sub_explicit(&list->gate, 1, memory_order_release);
    spin_pause(&spins);
  }
}

void ivf__list_leave(struct ivf_list *list) {
  uint32_t was =
      atomic_fetch_sub_explicit(&list->gate, 1, memory_order_release);
  emb_assert((was & ~GATE_ALONE) > 0); /* it had entered */
}

static void gate_close(struct ivf_list *list) {
  unsigned spins = 0;
  uint32_t was =
      atomic_fetch_or_explicit(&list->gate, GATE_ALONE, memory_order_acquire);
  emb_assert(!(was & GATE_ALONE)); /* there is one maintainer */
  while (atomic_load_explicit(&list->gate, memory_order_acquire) !=
         GATE_ALONE) {
    spin_pause(&spins);
  }
}

static void gate_open(struct ivf_list *list) {
  atomic_fetch_and_explicit(&list->gate, ~GATE_ALONE, memory_order_release);
}

/* ---- blocks -------------------------------------------------------------- */

/* Takes a block for a list; BLOCK_NONE: no memory. */
static uint32_t block_take(struct lists *lists) {
  struct env *env = lists->env;
  uint32_t block = lists->free;
  if (block != BLOCK_NONE) {
    lists->free = lists_head(lists, block)->next;
    return block;
  }
  if (lists->blocks >> lists->chunk_bits == lists->chunk_count) {
    if (lists->chunk_count == CHUNKS_MAX) {
      return BLOCK_NONE;
    }
    char *chunk = env->map(env, lists->chunk_bytes,
                           lists->chunk_bytes >= CHUNK_LARGE / 2);
    if (!chunk) {
      return BLOCK_NONE;
    }
    lists->chunks[lists->chunk_count++] = chunk;
  }
  return lists->blocks++;
}

static void write_entry(struct lists *lists, uint32_t block, uint32_t slot,
                        const struct ivf_entry *entry) {
  uint32_t *codes = lists_codes(lists, block) + slot;
  uint8_t *marks = lists_marks(lists, block) + slot;
  for (uint32_t w = 0; w < lists->form.words; w++) {
    codes[w * IVF_BLOCK] = entry->words[w];
  }
  for (uint32_t m = 0; m < lists->form.marks; m++) {
    marks[m * IVF_BLOCK] = entry->marks[m];
  }
  lists_keys(lists, block)[slot] = entry->key;
}

uint32_t ivf__lists_append(struct lists *lists, uint32_t number,
                           const struct ivf_entry *entry) {
  emb_assert(number < lists->count);
  struct ivf_list *list = &lists->all[number];
  uint32_t block = list->first;
  int is_new = block == BLOCK_NONE || lists_live(lists, block) == 0xffff;
  if (is_new) {
    block = block_take(lists);
    if (block == BLOCK_NONE) {
      return UINT32_MAX;
    }
    struct ivf_head *head = lists_head(lists, block);
    head->list = (uint16_t)number;
    head->next = list->first;
    atomic_store_explicit(&head->live, 0, memory_order_relaxed);
  }
  uint32_t slot = (uint32_t)__builtin_ctz(~lists_live(lists, block));
  gate_close(list);
  write_entry(lists, block, slot, entry);
  if (is_new) {
    list->first = block;
    atomic_fetch_add_explicit(&list->blocks, 1, memory_order_relaxed);
  }
  atomic_fetch_or_explicit(&lists_head(lists, block)->live,
                           (uint16_t)(1u << slot), memory_order_release);
  gate_open(list);
  return block * IVF_BLOCK + slot;
}

uint32_t ivf__lists_restore(struct lists *lists, uint32_t number, uint32_t live,
                            const int64_t *keys, const uint32_t *words,
                            const uint8_t *marks) {
  /* The caller has checked what the file says. */
  emb_assert(number < lists->count && live && live <= 0xffff);
  struct ivf_list *list = &lists->all[number];
  uint32_t block = block_take(lists);
  if (block == BLOCK_NONE) {
    return UINT32_MAX;
  }
  struct ivf_head *head = lists_head(lists, block);
  memcpy(lists_codes(lists, block), words,
         IVF_BLOCK * ivf_code_bytes(&lists->form));
  memcpy(lists_keys(lists, block), keys, IVF_BLOCK * sizeof *keys);
  memcpy(lists_marks(lists, block), marks,
         (size_t)IVF_BLOCK * lists->form.marks);
  gate_close(list);
  head->list = (uint16_t)number;
  head->next = list->first;
  list->first = block;
  atomic_fetch_add_explicit(&list->blocks, 1, memory_order_relaxed);
  atomic_store_explicit(&head->live, (uint16_t)live, memory_order_release);
  gate_open(list);
  return block * IVF_BLOCK;
}

void ivf__lists_replace(struct lists *lists, uint32_t place,
                        const struct ivf_entry *entry) {
  uint32_t block = place / IVF_BLOCK;
  struct ivf_list *list = &lists->all[lists_head(lists, block)->list];
  emb_assert(lists_keys(lists, block)[place % IVF_BLOCK] == entry->key);
  gate_close(list);
  uint32_t *codes = lists_codes(lists, block) + place % IVF_BLOCK;
  uint8_t *marks = lists_marks(lists, block) + place % IVF_BLOCK;
  for (uint32_t w = 0; w < lists->form.words; w++) {
    codes[w * IVF_BLOCK] = entry->words[w];
  }
  for (uint32_t m = 0; m < lists->form.marks; m++) {
    marks[m * IVF_BLOCK] = entry->marks[m];
  }
  gate_open(list);
}

void ivf__lists_kill(const struct lists *lists, uint32_t place) {
  uint32_t was = atomic_fetch_and_explicit(
      &lists_head(lists, place / IVF_BLOCK)->live,
      (uint16_t) ~(1u << place % IVF_BLOCK), memory_order_release);
  emb_assert(was >> place % IVF_BLOCK & 1); /* an entry dies once */
}

/* ---- holes --------------------------------------------------------------- */

/* Copies the entry at a place to a hole. */
static void copy_to_hole(struct lists *lists, uint32_t from, uint32_t to) {
  uint32_t *codes = lists_codes(lists, to / IVF_BLOCK) + to % IVF_BLOCK;
  uint8_t *marks = lists_marks(lists, to / IVF_BLOCK) + to % IVF_BLOCK;
  const uint32_t *old = lists_codes(lists, from / IVF_BLOCK) + from % IVF_BLOCK;
  const uint8_t *old_marks =
      lists_marks(lists, from / IVF_BLOCK) + from % IVF_BLOCK;
  for (uint32_t w = 0; w < lists->form.words; w++) {
    codes[w * IVF_BLOCK] = old[w * IVF_BLOCK];
  }
  for (uint32_t m = 0; m < lists->form.marks; m++) {
    marks[m * IVF_BLOCK] = old_marks[m * IVF_BLOCK];
  }
  lists_keys(lists, to / IVF_BLOCK)[to % IVF_BLOCK] =
      lists_keys(lists, from / IVF_BLOCK)[from % IVF_BLOCK];
}

/* Frees the first block of a list, which has no live entry. */
static void drop_first(struct lists *lists, struct ivf_list *list) {
  uint32_t block = list->first;
  struct ivf_head *head = lists_head(lists, block);
  gate_close(list);
  list->first = head->next;
  atomic_fetch_sub_explicit(&list->blocks, 1, memory_order_relaxed);
  gate_open(list);
  head->next = lists->free;
  lists->free = block;
}

/* Returns the place of a live entry in the first block, after dropping blocks
** without any; UINT32_MAX: the list is empty, or `block` is now the first. */
static uint32_t last_entry(struct lists *lists, struct ivf_list *list,
                           uint32_t block) {
  while (list->first != BLOCK_NONE && list->first != block) {
    uint32_t live = lists_live(lists, list->first);
    if (live) {
      return list->first * IVF_BLOCK + (uint32_t)__builtin_ctz(live);
    }
    drop_first(lists, list);
  }
  return UINT32_MAX;
}

void ivf__lists_close(struct lists *lists, uint32_t number,
                      int (*moved)(void *arg, int64_t key, uint32_t from,
                                   uint32_t to),
                      void *arg) {
  struct ivf_list *list = &lists->all[number];
  uint32_t block = list->first == BLOCK_NONE
                       ? BLOCK_NONE
                       : lists_head(lists, list->first)->next;
  while (block != BLOCK_NONE) {
    struct ivf_head *head = lists_head(lists, block);
    uint32_t from, live;
    while ((live = lists_live(lists, block)) != 0xffff &&
           (from = last_entry(lists, list, block)) != UINT32_MAX) {
      uint32_t slot = (uint32_t)__builtin_ctz(~live);
      uint32_t to = block * IVF_BLOCK + slot;
      int64_t key = lists_keys(lists, from / IVF_BLOCK)[from % IVF_BLOCK];
      gate_close(list);
      copy_to_hole(lists, from, to);
      atomic_fetch_or_explicit(&head->live, (uint16_t)(1u << slot),
                               memory_order_release);
      /* If the key was removed, the entry at `from` is already dead. */
      ivf__lists_kill(lists, moved(arg, key, from, to) ? from : to);
      gate_open(list);
    }
    if (list->first == block && !lists_live(lists, block)) {
      drop_first(lists, list);
      block = list->first;
    } else {
      block = head->next;
    }
  }
}
