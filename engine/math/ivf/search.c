/* SPDX-License-Identifier: MIT
**
** search.c -- the search of ivf.h: finds the nearest entries of some lists by
** code; order.c chooses the lists.
**
** Candidates are collected in an array twice as long as the number to keep.
** When it is full, the better half stays; from then on, only candidates better
** than the worst of that half are added.
*/
#include <float.h>
#include <string.h>

#include "engine/base/seed.h"
#include "engine/emb.h"
#include "order.h"

int ivf_search_init(struct ivf_search *search, struct ivf *ivf) {
  struct env *env = ivf->env;
  uint32_t dim = ivf->form.dim, lists = ivf->lists.count;
  memset(search, 0, sizeof *search);
  search->ivf = ivf;
  search->query = env->allocate(env, dim * sizeof(float));
  search->part = env->allocate(env, dim * sizeof(float));
  search->products = env->allocate(env, ivf->centres.count * sizeof(float));
  search->scores = env->allocate(env, lists * sizeof(float));
  search->order = env->allocate(env, lists * sizeof(uint32_t));
  search->positions = env->allocate(env, lists * sizeof(uint32_t));
  search->ranks = env->allocate(env, lists * 2 * sizeof(uint32_t));
  search->rounded = env->allocate(env, ivf->form.words * UINT64_C(32) + 4);
  int good = search->query && search->part && search->products &&
             search->scores && search->order && search->positions &&
             search->ranks && search->rounded;
  if (!good) {
    ivf_search_free(search);
  }
  return good;
}

void ivf_search_free(struct ivf_search *search) {
  if (search->ivf) {
    struct env *env = search->ivf->env;
    env->release(env, search->query);
    env->release(env, search->part);
    env->release(env, search->products);
    env->release(env, search->scores);
    env->release(env, search->order);
    env->release(env, search->positions);
    env->release(env, search->ranks);
    env->release(env, search->rounded);
    env->release(env, search->found);
  }
  memset(search, 0, sizeof *search);
}

/* One in this many blocks is sampled for the keys that a condition admits. */
#define SAMPLED_BLOCKS 16

/* ---- candidates ---------------------------------------------------------- */

/* Keeps the `most` nearest candidates; returns their largest estimate. */
static float keep_nearest(struct ivf_search *search, size_t most) {
  struct ivf_candidate *found = search->found;
  size_t low = 0, high = search->n;
  while (high - low > 1 && most > low && most < high) {
    float pivot = found[low + (high - low) / 2].estimate;
    size_t i = low, j = high - 1;
    for (;;) {
      while (found[i].estimate < pivot) {
        i++;
      }
      while (found[j].estimate > pivot) {
        j--;
      }
      if (i >= j) {
        break;
      }
      struct ivf_candidate other = found[i];
      found[i++] = found[j];
      found[j--] = other;
    }
    size_t middle = j + 1;
    middle = middle == high ? high - 1 : middle == low ? low + 1 : middle;
    if (most <= middle) {
      high = middle;
    } else {
      low = middle;
    }
  }
  float limit = -FLT_MAX;
  for (size_t i = 0; i < most; i++) {
    limit = found[i].estimate > limit ? found[i].estimate : limit;
  }
  search->n = most;
  return limit;
}

static int make_found(struct ivf_search *search, size_t room) {
  struct env *env = search->ivf->env;
  if (room > search->room) {
    void *larger =
        env->resize(env, search->found, room * sizeof *search->found);
    if (!larger) {
      return EMB_NOMEM;
    }
    search->found = larger;
    search->room = room;
  }
  return EMB_OK;
}

/* The query, as it is compared with one centre after the other. */
struct scanning {
  struct ivf_probe probe;
  float step, limit;
  int32_t sum;
};

/* ---- a list -------------------------------------------------------------- */

static int admits_key(const struct ivf_asked *asked, int64_t key) {
  return !asked->admits || asked->admits(asked->arg, key);
}

/* The entries of a block that a condition admits, if tested before codes. */
static uint32_t admit_first(struct ivf_search *search,
                            const struct ivf_asked *asked, const int64_t *keys,
                            uint32_t live) {
  uint32_t admitted = live ? asked->admitted(asked->arg, keys, live) : 0;
  search->sampled += (uint32_t)__builtin_popcount(live);
  search->admitted += (uint32_t)__builtin_popcount(admitted);
  return admitted;
}

/* Samples the fraction of keys that a condition admits. */
static void sample_admitted(struct ivf_search *search,
                            const struct ivf_asked *asked, const int64_t *keys,
                            uint32_t live) {
  for (; live; live &= live - 1) {
    search->sampled++;
    search->admitted +=
        asked->admits(asked->arg, keys[__builtin_ctz(live)]) != 0;
  }
}

/* The sum of squares, in parts that do not depend on each other. */
static float square_of_part(const float *part, uint32_t dim) {
  float sums[8] = {0}, sum = 0;
  uint32_t i = 0;
  for (; i + 8 <= dim; i += 8) {
    for (uint32_t j = 0; j < 8; j++) {
      sums[j] += part[i + j] * part[i + j];
    }
  }
  for (uint32_t j = 0; i < dim; i++, j++) {
    sums[j] += part[i] * part[i];
  }
  for (uint32_t j = 0; j < 8; j++) {
    sum += sums[j];
  }
  return sum;
}

/* Prepares the query for comparison with the codes of a centre's residuals.
** For a product, the query is rounded once, at the first centre. */
static void probe_centre(struct ivf_search *search, struct scanning *scan,
                         uint32_t number, int is_first) {
  const struct ivf *ivf = search->ivf;
  const float *query = search->query;
  float a = -search->products[number];
  if (ivf->form.metric != EMB_DOT) {
    const float *centre = centres_row(&ivf->centres, number);
    for (uint32_t i = 0; i < ivf->form.dim; i++) {
      search->part[i] = query[i] - centre[i];
    }
    a = square_of_part(search->part, ivf->form.dim);
    query = search->part;
  }
  if (is_first || ivf->form.metric != EMB_DOT) {
    scan->sum =
        ivf__round_query(&ivf->form, query, search->rounded, &scan->step);
  }
  scan->probe.query = search->rounded;
  ivf__probe(&scan->probe, &ivf->form, a, scan->step, scan->sum);
}

/* Without codes: takes all live entries, for which there is room. */
static void take_list(struct ivf_search *search, const struct ivf_asked *asked,
                      uint32_t at) {
  struct lists *lists = &search->ivf->lists;
  uint32_t number = search->order[at];
  struct ivf_list *list = &lists->all[number];
  ivf__list_enter(list);
  for (uint32_t b = list->first; b != BLOCK_NONE;
       b = lists_head(lists, b)->next) {
    const int64_t *keys = lists_keys(lists, b);
    uint32_t live = lists_live(lists, b);
    search->looked_at += (uint32_t)__builtin_popcount(live);
    if (asked->admitted) {
      live = admit_first(search, asked, keys, live);
    } else if (asked->admits && b % SAMPLED_BLOCKS == 0) {
      sample_admitted(search, asked, keys, live);
    }
    for (; live && search->n < search->room; live &= live - 1) {
      int64_t key = keys[__builtin_ctz(live)];
      if (asked->admitted || admits_key(asked, key)) {
        search->found[search->n++] =
            (struct ivf_candidate){search->scores[number], at, key};
      }
    }
  }
  ivf__list_leave(list);
}

/* Prefetches the keys of the block after this one: if every key is tested
** before its code, a block takes less time than fetching its keys. */
static void prefetch_keys(const struct lists *lists, uint32_t block) {
  if (block == BLOCK_NONE) {
    return;
  }
  uint32_t after = lists_head(lists, block)->next;
  if (after != BLOCK_NONE) {
    const int64_t *keys = lists_keys(lists, after);
    __builtin_prefetch(lists_head(lists, after));
    __builtin_prefetch(keys);
    __builtin_prefetch(keys + IVF_BLOCK / 2);
  }
}

static void prefetch_block(const struct lists *lists, uint32_t block) {
  if (block != BLOCK_NONE) {
    const char *codes = (const char *)lists_codes(lists, block);
    __builtin_prefetch(lists_head(lists, block));
    __builtin_prefetch(lists_marks(lists, block));
    for (uint32_t i = 0; i < 8; i++) {
      __builtin_prefetch(codes + i * 64);
    }
  }
}

/* Enters a list to be scanned soon, and prefetches its first block. */
static void enter_list(struct ivf_search *search, uint32_t number) {
  struct lists *lists = &search->ivf->lists;
  struct ivf_list *list = &lists->all[number];
  ivf__list_enter(list);
  prefetch_block(lists, list->first);
}

/* Scans a list that was entered, and leaves it. */
static void scan_list(struct ivf_search *search, const struct ivf_asked *asked,
                      uint32_t number, struct scanning *scan) {
  struct lists *lists = &search->ivf->lists;
  struct ivf_list *list = &lists->all[number];
  float to[IVF_BLOCK];
  uint32_t next = list->first, at = search->positions[number];
  while (next != BLOCK_NONE) {
    uint32_t b = next, live = lists_live(lists, b);
    next = lists_head(lists, b)->next;
    if (asked->admitted) {
      prefetch_keys(lists, next);
    } else {
      prefetch_block(lists, next);
    }
    search->looked_at += (uint32_t)__builtin_popcount(live);
    if (asked->admitted) {
      live = admit_first(search, asked, lists_keys(lists, b), live);
      if (!live) {
        continue;
      }
    } else if (asked->admits && b % SAMPLED_BLOCKS == 0) {
      sample_admitted(search, asked, lists_keys(lists, b), live);
    }
    uint32_t below =
        search->ivf->ops->scan(&scan->probe, lists_codes(lists, b),
                               lists_marks(lists, b), scan->limit, to);
    for (below &= live; below; below &= below - 1) {
      uint32_t slot = (uint32_t)__builtin_ctz(below);
      int64_t key = lists_keys(lists, b)[slot];
      if (to[slot] < scan->limit &&
          (asked->admitted || admits_key(asked, key))) {
        emb_assert(search->n < search->room);
        search->found[search->n++] = (struct ivf_candidate){to[slot], at, key};
        if (search->n == search->room) {
          scan->limit = keep_nearest(search, asked->most);
        }
      }
    }
  }
  ivf__list_leave(list);
}

/* Puts the chosen lists of a centre next to each other, at the place of the
** first of them, into search->ranks. */
static void group_lists(struct ivf_search *search, uint32_t probes) {
  uint32_t shells = search->ivf->shells.count, n = 0;
  for (uint32_t i = 0; n < probes; i++) {
    uint32_t first = search->order[i] / shells * shells, earlier = 0;
    for (uint32_t j = first; j < first + shells; j++) {
      earlier |= search->positions[j] < i;
    }
    for (uint32_t j = first; !earlier && j < first + shells; j++) {
      if (search->positions[j] < probes) {
        search->ranks[n++] = j;
      }
    }
  }
}

/* Scans the chosen lists.  Each is entered while the one before it is scanned,
** so that its first block arrives meanwhile. */
static void scan_lists(struct ivf_search *search, const struct ivf_asked *asked,
                       uint32_t probes) {
  struct scanning scan = {.limit = FLT_MAX};
  uint32_t shells = search->ivf->shells.count, last = UINT32_MAX;
  const uint32_t *lists = search->ranks;
  group_lists(search, probes);
  if (probes) {
    enter_list(search, lists[0]);
  }
  for (uint32_t i = 0; i < probes; i++) {
    uint32_t centre = lists[i] / shells;
    if (i + 1 < probes) {
      enter_list(search, lists[i + 1]);
    }
    if (centre != last) {
      probe_centre(search, &scan, centre, i == 0);
      last = centre;
    }
    scan_list(search, asked, lists[i], &scan);
  }
}

int ivf_search(struct ivf_search *search, const struct ivf_asked *asked) {
  const struct ivf *ivf = search->ivf;
  search->n = 0;
  search->probed = 0;
  search->sampled = search->admitted = 0;
  memcpy(search->query, asked->query, ivf->form.dim * sizeof(float));
  if (!ivf__prepare(&ivf->form, search->query)) {
    return EMB_OK;
  }
  uint32_t probes = ivf__choose_lists(search, asked->probes, asked->order);
  size_t room = asked->most * (size_t)2;
  if (!ivf->form.bits) {
    room = 0;
    for (uint32_t i = 0; i < probes; i++) {
      room += lists_blocks(&ivf->lists, search->order[i]) * (size_t)IVF_BLOCK;
    }
    room += IVF_BLOCK;
  }
  int rc = make_found(search, room);
  if (!rc && ivf->form.bits) {
    scan_lists(search, asked, probes);
  }
  for (uint32_t i = 0; !rc && !ivf->form.bits && i < probes; i++) {
    take_list(search, asked, i);
  }
  if (!rc && ivf->form.bits && search->n > asked->most) {
    (void)keep_nearest(search, asked->most);
  }
  search->probed = probes;
  return rc;
}

void ivf_positions(struct ivf_search *search, const float *query,
                   uint32_t order, const int64_t *keys, size_t n,
                   uint32_t *at) {
  struct ivf *ivf = search->ivf;
  memcpy(search->query, query, ivf->form.dim * sizeof(float));
  int has_lists = ivf__prepare(&ivf->form, search->query);
  if (EMB_SEED(SEED_POSITION_OF_ANOTHER_ORDER)) {
    order = 0;
  }
  if (has_lists) {
    (void)ivf__choose_lists(search, ivf->lists.count, order);
  }
  for (size_t i = 0; i < n; i++) {
    uint32_t place = ivf__places_find(&ivf->places, keys[i]);
    at[i] = UINT32_MAX;
    if (has_lists && place != PLACE_NONE) {
      const struct ivf_head *head = lists_head(&ivf->lists, place / IVF_BLOCK);
      at[i] = search->positions[head->list];
    }
  }
}
