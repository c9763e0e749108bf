/* SPDX-License-Identifier: MIT
**
** evict.c -- see evict.h.
*/
#include "evict.h"

#include <stdlib.h>
#include <string.h>

#include "engine/emb.h"
#include "sweep.h"

#define ROOM_PART 16
#define SAMPLE_PAGES 256

/* ---- scores -------------------------------------------------------------- */

/* log2 in steps of 1/256, linear between powers of two. */
static uint32_t log2_256(uint32_t n) {
  if (n < 2) {
    return 0;
  }
  uint32_t bits = 31 - (uint32_t)__builtin_clz(n);
  return bits * 256 + (uint32_t)(((uint64_t)n << 8 >> bits) & 255);
}

uint64_t evict_score(const struct core *core, const struct evict *round,
                     emb_track track, uint64_t version) {
  uint64_t score = track.updated_at;
  if (core->schema.evict == EMB_EVICT_LFU) {
    uint64_t age =
        round->now > track.updated_at ? round->now - track.updated_at : 0;
    uint64_t mean = round->mean_age ? round->mean_age : 1;
    uint64_t lost = age * 256 / mean;
    score = (UINT64_C(1) << 31) + log2_256(track.frequency);
    score -= lost < UINT64_C(1) << 30 ? lost : UINT64_C(1) << 30;
  }
  return EMB_SEED(SEED_EVICTION_RANDOM) ? hash_mix(version)
                                        : score << 32 | (uint32_t)version;
}

uint64_t evict__over(const struct core *core, uint32_t part) {
  uint64_t most = core->schema.capacity;
  int64_t rows = atomic_load_explicit(&core->count, memory_order_relaxed);
  if (!most) {
    return 0;
  }
  most += part ? most / part : 0;
  return rows > 0 && (uint64_t)rows > most ? (uint64_t)rows - most : 0;
}

/* ---- the sample ---------------------------------------------------------- */

struct evict_seen {
  emb_track track;
  uint64_t version, score;
  uint32_t stratum;
};

struct sample {
  struct evict_seen *rows;
  uint32_t count, room, stratum;
};

static int sample_row(struct sweep *w, const struct rec *rec, int64_t key,
                      uint64_t address) {
  struct sample *sample = w->arg;
  uint64_t version;
  if (sample->count < sample->room && sweep__is_live(w->core, key, address) &&
      sweep__value(w, rec, key, &version)) {
    sample->rows[sample->count++] = (struct evict_seen){
        schema_track(&w->core->schema, w->value), version, 0, sample->stratum};
  }
  return EMB_OK;
}

/* Does the extent exist, with live records?  Under the log's lock. */
static int is_used(const struct log *log, uint64_t e) {
  const struct extent *extent = log_extent(log, e);
  return extent_phys(extent) != EXTENT_NOWHERE &&
         atomic_load_explicit(&extent->live, memory_order_relaxed) > 0;
}

/* Divides the log into strata with equally many extents in use. */
static void evict_cut(struct core *core, struct evict *round) {
  struct log *log = &core->log;
  pthread_mutex_lock(&log->lock);
  uint64_t used = 0, seen = 0, tail = atomic_load(&log->tail);
  uint64_t end =
      (tail + core->layout.extent_pages - 1) >> core->layout.extent_bits;
  for (uint64_t e = log->first; e < end; e++) {
    used += (uint64_t)is_used(log, e);
  }
  round->count = used < EVICT_STRATA ? (uint32_t)used : EVICT_STRATA;
  for (uint64_t e = log->first; e < end && round->count; e++) {
    if (is_used(log, e)) {
      /* Sessions may have put an extent to use since the first pass. */
      uint64_t at = seen++ * round->count / used;
      struct evict_stratum *to =
          &round->strata[at < round->count ? at : round->count - 1];
      to->from = to->end ? to->from : e;
      to->end = e + 1;
    }
  }
  pthread_mutex_unlock(&log->lock);
}

/* Returns an extent in use of the stratum; 0: there is none. */
static uint64_t evict_pick(struct core *core,
                           const struct evict_stratum *stratum,
                           uint64_t random) {
  struct log *log = &core->log;
  uint64_t span = stratum->end - stratum->from, found = 0;
  pthread_mutex_lock(&log->lock);
  for (uint64_t i = 0; i < span && !found; i++) {
    uint64_t e = stratum->from + (random + i) % span;
    found = e >= log->first && is_used(log, e) ? e : 0;
  }
  pthread_mutex_unlock(&log->lock);
  return found;
}

static uint64_t evict_draw(struct evict *round) {
  return hash_mix(round->random += UINT64_C(0x9E3779B97F4A7C15));
}

static int look_at_sample(struct core *core, struct epoch_slot *slot,
                          struct evict *round, struct sample *sample,
                          uint32_t pages, emb_err *err) {
  const struct layout *l = &core->layout;
  struct sweep w = {.look = sample_row, .arg = sample};
  int rc = sweep__init(&w, core, slot, err);
  for (uint32_t i = 0; !rc && i < round->count; i++) {
    uint64_t e = evict_pick(core, &round->strata[i], evict_draw(round));
    uint64_t first = e << l->extent_bits;
    uint32_t from = pages < l->extent_pages
                        ? (uint32_t)(evict_draw(round) % l->extent_pages)
                        : 0;
    sample->stratum = i;
    for (uint32_t k = 0; e && !rc && k < pages && k < l->extent_pages; k++) {
      uint64_t page =
          first +
          (from + k * (l->extent_pages / pages ? l->extent_pages / pages : 1)) %
              l->extent_pages;
      rc = sweep__pages(&w, page, page + 1, err);
    }
  }
  sweep__free(&w);
  return rc;
}

static int by_score(const void *a, const void *b) {
  uint64_t x = ((const struct evict_seen *)a)->score;
  uint64_t y = ((const struct evict_seen *)b)->score;
  return (x > y) - (x < y);
}

/* Strata with the largest share of low rows first. */
static int by_share(const void *a, const void *b) {
  const struct evict_stratum *x = a, *y = b;
  uint64_t left = (uint64_t)x->low * y->seen,
           right = (uint64_t)y->low * x->seen;
  return left != right ? (left < right) - (left > right)
                       : (x->from > y->from) - (x->from < y->from);
}

/* Finds the score below which the share of rows to remove lies. */
static void find_threshold(struct core *core, struct evict *round,
                           struct sample *sample) {
  uint64_t rows = (uint64_t)atomic_load(&core->count), age = 0;
  uint64_t leave = rows > round->most ? rows - round->most : 0;
  for (uint32_t i = 0; i < sample->count; i++) {
    uint32_t t = sample->rows[i].track.updated_at;
    age += round->now > t ? round->now - t : 0;
  }
  round->mean_age = (uint32_t)(age / sample->count);
  for (uint32_t i = 0; i < sample->count; i++) {
    struct evict_seen *row = &sample->rows[i];
    row->score = evict_score(core, round, row->track, row->version);
  }
  qsort(sample->rows, sample->count, sizeof *sample->rows, by_score);
  rows = rows ? rows : 1; /* sessions may have deleted them all */
  uint64_t low = (leave * sample->count + rows - 1) / rows;
  low = low < 1 ? 1 : low < sample->count ? low : sample->count;
  round->score = sample->rows[low - 1].score;
  for (uint32_t i = 0; i < sample->count; i++) {
    struct evict_stratum *stratum = &round->strata[sample->rows[i].stratum];
    stratum->seen++;
    stratum->low += i < low;
  }
  for (uint32_t i = 0; i < round->count; i++) {
    round->strata[i].seen += !round->strata[i].seen;
  }
  qsort(round->strata, round->count, sizeof *round->strata, by_share);
}

static int evict_begin(struct core *core, struct epoch_slot *slot,
                       struct evict *round, emb_err *err) {
  uint64_t random = round->random;
  memset(round, 0, sizeof *round);
  round->random = random;
  round->now = core_time(core);
  round->most = core->schema.capacity - core->schema.capacity / ROOM_PART;
  evict_cut(core, round);
  if (!round->count) {
    return EMB_OK;
  }
  uint32_t pages = SAMPLE_PAGES / round->count;
  struct sample sample = {.room = (pages ? pages : 1) * round->count *
                                  core->layout.slots};
  sample.rows =
      core->env->resize(core->env, NULL, sample.room * sizeof *sample.rows);
  int rc = sample.rows ? look_at_sample(core, slot, round, &sample,
                                        pages ? pages : 1, err)
                       : err_set(err, EMB_NOMEM, "out of memory");
  if (!rc && sample.count) {
    find_threshold(core, round, &sample);
    round->next = round->strata[0].from;
  }
  core->env->release(core->env, sample.rows);
  round->count = !rc && sample.count ? round->count : 0;
  return rc;
}

/* ---- visiting the extents ------------------------------------------------ */

static int is_low(struct sweep *w, int64_t key, uint64_t version) {
  struct evict *round = w->arg;
  (void)key;
  return evict_score(w->core, round, schema_track(&w->core->schema, w->value),
                     version) <= round->score;
}

static int evict_look_at(struct sweep *w, const struct rec *rec, int64_t key,
                         uint64_t address) {
  struct evict *round = w->arg;
  uint64_t version;
  int outcome;
  if ((uint64_t)atomic_load_explicit(&w->core->count, memory_order_relaxed) <=
          round->most ||
      !sweep__is_live(w->core, key, address) ||
      !sweep__value(w, rec, key, &version) || !is_low(w, key, version)) {
    return EMB_OK;
  }
  int rc = sweep__remove(w, rec, key, address, &outcome);
  if (!rc && outcome == SWEEP_REMOVED) {
    count_add(&w->core->counters.evicted_keys, 1);
    round->removed++;
  }
  return rc;
}

/* Returns the next extent in use; 0: the round is over. */
static uint64_t next_extent(struct core *core, struct evict *round) {
  struct log *log = &core->log;
  uint64_t found = 0;
  pthread_mutex_lock(&log->lock);
  while (!found && round->at < round->count) {
    const struct evict_stratum *stratum = &round->strata[round->at];
    if (round->next >= stratum->end) {
      round->at++;
      round->next =
          round->at < round->count ? round->strata[round->at].from : 0;
    } else {
      uint64_t e = round->next++;
      found = e >= log->first && is_used(log, e) ? e : 0;
    }
  }
  pthread_mutex_unlock(&log->lock);
  return found;
}

int evict__piece(struct core *core, struct epoch_slot *slot,
                 struct evict *round, uint64_t *removed, int *in_vain,
                 emb_err *err) {
  struct sweep w = {.look = evict_look_at,
                    .agrees = is_low,
                    .reason = PAGE_EVICTED,
                    .arg = round};
  uint64_t before, e, first;
  int rc;
  emb_assert(debug_is_locked(&core->ckpt_lock));
  emb_assert(epoch_outside()); /* E1 */
  emb_check(evict_valid(core, round));
  *in_vain = 0;
  if (!round->count) {
    rc = evict_begin(core, slot, round, err);
    *in_vain = !round->count;
    emb_check(evict_valid(core, round));
    return rc;
  }
  e = (uint64_t)atomic_load(&core->count) > round->most
          ? next_extent(core, round)
          : 0;
  if (!e) {
    round->count = 0;
    *in_vain = !round->removed;
    return EMB_OK;
  }
  before = round->removed;
  first = e << core->layout.extent_bits;
  rc = sweep__init(&w, core, slot, err);
  rc =
      rc ? rc : sweep__pages(&w, first, first + core->layout.extent_pages, err);
  sweep__free(&w);
  *removed += round->removed - before;
  if (rc) {
    round->count = 0;
    *in_vain = !round->removed;
  }
  emb_check(evict_valid(core, round));
  return rc;
}
