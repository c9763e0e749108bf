/* SPDX-License-Identifier: MIT
**
** saved.c -- the saved form of an index, and the check that its parts agree;
** see ivf.h.
*/
#include "engine/emb.h"
#include "ivf.h"

uint32_t ivf_saved(struct ivf *ivf, uint32_t block, struct ivf_saved *saved) {
  struct lists *lists = &ivf->lists;
  const struct ivf_head *head = lists_head(lists, block);
  *saved = (struct ivf_saved){.list = head->list,
                              .live = lists_live(lists, block),
                              .keys = lists_keys(lists, block),
                              .words = lists_codes(lists, block),
                              .marks = lists_marks(lists, block)};
  return head->next;
}

int ivf_restore(struct ivf *ivf, const struct ivf_saved *saved) {
  uint32_t live = saved->live, place;
  int rc = EMB_OK;
  if (saved->list >= ivf->lists.count || live > 0xffff) {
    return EMB_CORRUPT;
  }
  for (uint32_t left = live; left; left &= left - 1) {
    uint32_t slot = (uint32_t)__builtin_ctz(left);
    if (ivf_has(ivf, saved->keys[slot])) {
      live &= ~(1u << slot);
    }
  }
  if (!live) {
    return EMB_OK;
  }
  place = ivf__lists_restore(&ivf->lists, saved->list, live, saved->keys,
                             saved->words, saved->marks);
  if (place == PLACE_NONE) {
    return EMB_NOMEM;
  }
  for (; live; live &= live - 1) {
    uint32_t slot = (uint32_t)__builtin_ctz(live);
    int64_t key = saved->keys[slot];
    /* True for a key twice in one block, which no index writes. */
    int there = ivf_has(ivf, key);
    if (there || !ivf__places_add(&ivf->places, key, place + slot)) {
      ivf__lists_kill(&ivf->lists, place + slot);
      rc = there ? rc : EMB_NOMEM;
    } else {
      atomic_fetch_add_explicit(&ivf->rows, 1, memory_order_relaxed);
    }
  }
  return rc;
}

void ivf_restore_form(struct ivf *ivf, uint32_t base) {
  ivf->form.base = base;
  ivf->lists.form = ivf->form;
  ivf__centres_measure(&ivf->centres);
}

/* ---- checking ------------------------------------------------------------ */

static void check_entries(struct ivf *ivf, uint32_t block,
                          struct ivf_checked *checked) {
  for (uint32_t live = lists_live(&ivf->lists, block); live; live &= live - 1) {
    uint32_t slot = (uint32_t)__builtin_ctz(live);
    int64_t key = lists_keys(&ivf->lists, block)[slot];
    checked->rows++;
    checked->lost +=
        ivf__places_find(&ivf->places, key) != block * IVF_BLOCK + slot;
  }
}

void ivf_check(struct ivf *ivf, struct ivf_checked *checked) {
  struct lists *lists = &ivf->lists;
  *checked = (struct ivf_checked){0};
  for (uint32_t i = 0; i < lists->count; i++) {
    uint32_t n = 0, most = lists_blocks(lists, i), wrong = 0;
    uint32_t block = lists->all[i].first;
    for (; block != BLOCK_NONE && n < most && block < lists->blocks; n++) {
      wrong |= lists_head(lists, block)->list != i;
      check_entries(ivf, block, checked);
      block = lists_head(lists, block)->next;
    }
    checked->wrong += wrong || n != most || block != BLOCK_NONE;
  }
  checked->found = ivf__places_count(&ivf->places);
}
