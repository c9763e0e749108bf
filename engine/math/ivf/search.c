/* SPDX-License-Identifier: MIT
**
** search.c -- the search of ivf.h: chooses lists, and finds their nearest
** entries by code.
**
** Candidates are collected in an array twice as long as the number to keep.
** When it is full, the better half stays; from then on, only candidates better
** than the worst of that half are added.
*/
#include <float.h>
#include <string.h>

#include "engine/emb.h"
#include "ivf.h"

int ivf_search_init(struct ivf_search *search, struct ivf *ivf) {
  struct env *env = ivf->env;
  uint32_t dim = ivf->form.dim, lists = ivf->centres.count;
  memset(search, 0, sizeof *search);
  search->ivf = ivf;
  search->query = env->allocate(env, dim * sizeof(float));
  search->part = env->allocate(env, dim * sizeof(float));
  search->scores = env->allocate(env, lists * sizeof(float));
  search->order = env->allocate(env, lists * sizeof(uint32_t));
  search->positions = env->allocate(env, lists * sizeof(uint32_t));
  search->rounded = env->allocate(env, ivf->form.words * UINT64_C(32) + 4);
  int good = search->query && search->part && search->scores && search->order &&
             search->positions && search->rounded;
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
    env->release(env, search->scores);
    env->release(env, search->order);
    env->release(env, search->positions);
    env->release(env, search->rounded);
    env->release(env, search->found);
  }
  memset(search, 0, sizeof *search);
}

/* One in this many blocks is sampled for the keys that a condition admits. */
#define SAMPLED_BLOCKS 16

/* ---- lists --------------------------------------------------------------- */

/* Sets order[0..probes) to the lists with the lowest scores, in no order.
** Quickselect (Hoare). */
static void select_lists(const float *scores, uint32_t *order, uint32_t n,
                         uint32_t probes) {
  uint32_t low = 0, high = n;
  while (high - low > 1 && probes > low && probes < high) {
    float pivot = scores[order[low + (high - low) / 2]];
    uint32_t i = low, j = high - 1;
    for (;;) {
      while (scores[order[i]] < pivot) {
        i++;
      }
      while (scores[order[j]] > pivot) {
        j--;
      }
      if (i >= j) {
        break;
      }
      uint32_t other = order[i];
      order[i++] = order[j];
      order[j--] = other;
    }
    uint32_t middle = j + 1; /* below it: at most the pivot */
    middle = middle == high ? high - 1 : middle == low ? low + 1 : middle;
    if (probes <= middle) {
      high = middle;
    } else {
      low = middle;
    }
  }
}

static void sort_lists(const float *scores, uint32_t *order, uint32_t n) {
  for (uint32_t gap = n / 2; gap; gap /= 2) { /* Shell's sort */
    for (uint32_t i = gap; i < n; i++) {
      uint32_t list = order[i], j = i;
      for (; j >= gap && scores[order[j - gap]] > scores[list]; j -= gap) {
        order[j] = order[j - gap];
      }
      order[j] = list;
    }
  }
}

/* Chooses the nonempty lists to search, the nearest centre first; returns their
** number. */
static uint32_t choose_lists(struct ivf_search *search, uint32_t probes) {
  const struct ivf *ivf = search->ivf;
  const struct centres *c = &ivf->centres;
  const struct distance_rows rows = {c->rows, c->dim * sizeof(float), c->count};
  uint32_t n = 0;
  distance_best()->dot[EMB_F32](search->scores, NULL, search->query, &rows,
                                c->dim);
  for (uint32_t i = 0; i < c->count; i++) {
    float product = search->scores[i];
    search->scores[i] =
        ivf->form.metric != EMB_DOT ? c->squares[i] - 2 * product : -product;
    search->order[n] = i;
    n += lists_blocks(&ivf->lists, i) != 0;
  }
  probes = probes < n ? probes : n;
  select_lists(search->scores, search->order, n, probes);
  sort_lists(search->scores, search->order, probes);
  return probes;
}

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

/* Prepares the query for comparison with the codes of a list's residuals.  For
** a product, the query is rounded once, at the first list. */
static void probe_list(struct ivf_search *search, struct ivf_probe *probe,
                       uint32_t list, int is_first, float *step, int32_t *sum) {
  const struct ivf *ivf = search->ivf;
  const float *query = search->query;
  float a = search->scores[list];
  if (ivf->form.metric != EMB_DOT) {
    const float *centre = centres_row(&ivf->centres, list);
    a = 0;
    for (uint32_t i = 0; i < ivf->form.dim; i++) {
      search->part[i] = query[i] - centre[i];
      a += search->part[i] * search->part[i];
    }
    query = search->part;
  }
  if (is_first || ivf->form.metric != EMB_DOT) {
    *sum = ivf__round_query(&ivf->form, query, search->rounded, step);
  }
  probe->query = search->rounded;
  ivf__probe(probe, &ivf->form, a, *step, *sum);
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

static void scan_list(struct ivf_search *search, const struct ivf_asked *asked,
                      const struct ivf_probe *probe, uint32_t at,
                      float *limit) {
  struct lists *lists = &search->ivf->lists;
  struct ivf_list *list = &lists->all[search->order[at]];
  float to[IVF_BLOCK];
  ivf__list_enter(list);
  uint32_t next = list->first;
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
    uint32_t below = search->ivf->ops->scan(probe, lists_codes(lists, b),
                                            lists_marks(lists, b), *limit, to);
    for (below &= live; below; below &= below - 1) {
      uint32_t slot = (uint32_t)__builtin_ctz(below);
      int64_t key = lists_keys(lists, b)[slot];
      if (to[slot] < *limit && (asked->admitted || admits_key(asked, key))) {
        emb_assert(search->n < search->room);
        search->found[search->n++] = (struct ivf_candidate){to[slot], at, key};
        if (search->n == search->room) {
          *limit = keep_nearest(search, asked->most);
        }
      }
    }
  }
  ivf__list_leave(list);
}

int ivf_search(struct ivf_search *search, const struct ivf_asked *asked) {
  const struct ivf *ivf = search->ivf;
  struct ivf_probe probe = {0};
  float limit = FLT_MAX, step = 0;
  int32_t sum = 0;
  search->n = 0;
  search->probed = 0;
  search->sampled = search->admitted = 0;
  memcpy(search->query, asked->query, ivf->form.dim * sizeof(float));
  if (!ivf__prepare(&ivf->form, search->query)) {
    return EMB_OK;
  }
  uint32_t probes = choose_lists(search, asked->probes);
  size_t room = asked->most * (size_t)2;
  if (!ivf->form.bits) {
    room = 0;
    for (uint32_t i = 0; i < probes; i++) {
      room += lists_blocks(&ivf->lists, search->order[i]) * (size_t)IVF_BLOCK;
    }
    room += IVF_BLOCK;
  }
  int rc = make_found(search, room);
  for (uint32_t i = 0; !rc && i < probes; i++) {
    if (ivf->form.bits) {
      probe_list(search, &probe, search->order[i], i == 0, &step, &sum);
      scan_list(search, asked, &probe, i, &limit);
    } else {
      take_list(search, asked, i);
    }
  }
  if (!rc && ivf->form.bits && search->n > asked->most) {
    (void)keep_nearest(search, asked->most);
  }
  search->probed = probes;
  return rc;
}

void ivf_positions(struct ivf_search *search, const float *query,
                   const int64_t *keys, size_t n, uint32_t *at) {
  struct ivf *ivf = search->ivf;
  memcpy(search->query, query, ivf->form.dim * sizeof(float));
  uint32_t lists = ivf__prepare(&ivf->form, search->query)
                       ? choose_lists(search, ivf->centres.count)
                       : 0;
  memset(search->positions, 0xff, ivf->centres.count * sizeof(uint32_t));
  for (uint32_t i = 0; i < lists; i++) {
    search->positions[search->order[i]] = i;
  }
  for (size_t i = 0; i < n; i++) {
    uint32_t place = ivf__places_find(&ivf->places, keys[i]);
    at[i] = UINT32_MAX;
    if (place != PLACE_NONE) {
      const struct ivf_head *head = lists_head(&ivf->lists, place / IVF_BLOCK);
      at[i] = search->positions[head->list];
    }
  }
}
