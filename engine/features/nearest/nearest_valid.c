/* SPDX-License-Identifier: MIT
**
** nearest_valid.c -- is the index of a store as index.h says?  Only in
** self-checking builds (base/debug.h).  Between two pieces of the task's work
** each state has exactly the parts that it needs.
*/
#include "index.h"

#if EMB_DEBUG > 0

/* ---- recent keys, dirty rows --------------------------------------------- */

int recent_valid(const struct nearest_index *x) {
  const struct recent *piece = x->first;
  uint64_t keys = 0;
  emb_assert(!x->first == !x->last);
  emb_assert(piece ? x->first_at < piece->n : x->first_at == 0);
  for (; piece; piece = piece->next) {
    keys += piece->n;
    emb_assert(piece->n >= 1 && piece->n <= RECENT_KEYS);
    emb_assert(piece->next ? piece->n == RECENT_KEYS : piece == x->last);
    emb_assert(piece->number ==
               (piece->next ? piece->next->number - 1 : x->recent_number));
  }
  emb_assert(keys - x->first_at ==
             atomic_load_explicit(&x->recent_count, memory_order_relaxed));
  return 1;
}

int dirty_valid(const struct dirty *dirty) {
  emb_assert((dirty->mask & (dirty->mask + 1)) == 0 && dirty->mask >= 4095);
  emb_assert(atomic_load_explicit(&dirty->now, memory_order_relaxed) <= 1);
  return 1;
}

/* ---- a set --------------------------------------------------------------- */

int index_set_valid(const struct nearest_index *x,
                    const struct index_set *set) {
  for (uint32_t k = 0; k < EMB_SEGMENTS_MAX; k++) {
    const struct segment *of = &x->store->core.schema.segments[k];
    const struct ivf *ivf = &set->ivf[k];
    int has = index_has(x, k);
    emb_assert(has == (ivf->env != NULL));
    emb_assert(set->writers[k].ivf == (has ? ivf : NULL));
    emb_assert(!has ||
               (ivf->form.dim == of->dim && ivf->form.metric == of->metric &&
                ivf->form.bits == (uint32_t)of->index.code));
  }
  return 1;
}

/* ---- work under way ------------------------------------------------------ */

static void check_building(const struct building *m) {
  emb_assert(m->sampled <= m->at && m->at <= m->count);
  emb_assert(m->count <= m->wanted);
  emb_assert(m->walk.gathered <= m->walk.gather.count);
}

static void check_loading(const struct nearest_index *x) {
  const struct loading *l = &x->loading;
  int has_part = l->phase != LOAD_BITS && l->phase != LOAD_KEYS;
  emb_assert(l->phase <= LOAD_STRANGERS);
  emb_assert(!has_part || l->part < l->head.count);
  emb_assert(l->at <= l->head.bytes);
  emb_assert(l->phase <= LOAD_BITS || l->at == l->head.bytes);
  emb_assert(l->first + l->filled <= l->blocks_all);
  emb_assert(l->groups <=
             (l->phase == LOAD_LISTS ? l->head.parts[l->part].groups : 0));
  /* From the lists on observers remove keys from the set. */
  emb_assert((l->phase > LOAD_CENTRES) == (index_set_at(x, SET_MADE) != NULL));
}

static void check_saving(const struct nearest_index *x) {
  const struct saving *s = &x->saving;
  emb_assert(s->phase < SAVE_DONE && s->part <= s->head.count);
  emb_assert(s->used < STREAM_BYTES && s->used <= s->head.bytes);
  emb_assert(s->head.bits == atomic_load(&x->dirty)->mask + 1);
}

static void check_sweep(const struct nearest_index *x) {
  const struct renewal *sweep = &x->sweep;
  const struct index_set *set = index_set_at(x, SET_USED);
  emb_assert(index_has(x, sweep->segment));
  emb_assert(sweep->list <= set->ivf[sweep->segment].lists.count);
  emb_assert(sweep->old != atomic_load(&atomic_load(&x->dirty)->now));
}

static void check_measuring(const struct nearest_index *x) {
  const struct measuring *m = &x->measuring;
  emb_assert(m->set && (m->set == index_set_at(x, SET_USED) ||
                        m->set == index_set_at(x, SET_MADE)));
  emb_assert(index_has(x, m->segment));
  emb_assert(m->rows <= m->read && m->read <= m->count);
  emb_assert(m->count <= m->wanted && m->at <= m->n);
  emb_assert(m->compares == (m->phase == MEASURE_PASS));
}

/* ---- states -------------------------------------------------------------- */

int nearest_valid(const struct nearest_index *x) {
  int state = atomic_load_explicit(&x->state, memory_order_relaxed);
  int is_making = state >= INDEX_LOADING && state < INDEX_READY;
  const struct index_set *used = index_set_at(x, SET_USED);
  const struct index_set *made = index_set_at(x, SET_MADE);
  emb_assert(state <= INDEX_READY);
  emb_assert(state < INDEX_LOADING ||
             (x->s && x->observes && atomic_load(&x->dirty)));
  emb_assert(state != INDEX_READY || used);
  emb_assert(is_making == (x->making.set != NULL));
  emb_assert(!made || made == x->making.set);
  emb_assert((state != INDEX_FILLING && state != INDEX_MEASURING) || made);
  emb_assert(!x->measuring.is_on || state >= INDEX_MEASURING);
  emb_assert((state == INDEX_LOADING) == x->loading.is_on);
  emb_assert(state == INDEX_READY || (!x->sweep.is_on && !x->saving.is_on));
  if (used) {
    index_set_valid(x, used);
  }
  if (x->loading.is_on) {
    check_loading(x);
  } else if (is_making) {
    check_building(&x->making);
  }
  if (x->saving.is_on) {
    check_saving(x);
  }
  if (x->sweep.is_on) {
    check_sweep(x);
  }
  if (x->measuring.is_on) {
    check_measuring(x);
  }
  return 1;
}

#endif
