/* SPDX-License-Identifier: MIT
**
** nearest_valid.c -- each assertion of engine/features/nearest/nearest_valid.c
** fires: an index is broken in each state that it goes through.  Then the
** preconditions of the task's pieces, and those of an exact search.
*/
#include "near_help.h"
#include "death.h"

#include "engine/features/nearest/candidates.h"
#include "engine/features/nearest/exact.h"
#include "engine/features/nearest/index.h"

enum { KEYS = 3000 };

static struct near model;
static emb_store *store;
static emb_session *s;
static struct nearest_index *x;

static int begin(const char *name) {
  memset(&model, 0, sizeof model);
  int good = near_open(help_path(name), "ivf(lists=12)", 0, &store, &s) &&
             near_put(s, &model, 0, KEYS, 1);
  x = good ? nearest_of(store) : NULL;
  return good;
}

static int step_to(enum index_state state) {
  int more;
  for (int i = 0; i < 10000 && atomic_load(&x->state) != (int)state; i++) {
    CHECK_EQ_INT(emb_step(store, &more), EMB_OK);
  }
  return CHECK_EQ_INT(atomic_load(&x->state), state) && CHECK(nearest_valid(x));
}

static void steps(int n) {
  for (int i = 0, more; i < n; i++) {
    CHECK_EQ_INT(emb_step(store, &more), EMB_OK);
  }
}

/* Every row is changed by a training step, so that a pass is due. */
static void train(void) {
  static float gradients[KEYS * NEAR_DIM];
  static int64_t keys[KEYS];
  for (int64_t i = 0; i < KEYS; i++) {
    keys[i] = i;
    gradients[i * NEAR_DIM] = 1;
  }
  OK(s, emb_apply_gradients(s, keys, KEYS, gradients, NULL, NULL));
}

/* ---- recent keys, dirty rows --------------------------------------------- */

static void add_recent(int n) {
  for (int i = 0; i < n; i++) {
    nearest_observe__add(x, i);
  }
}

TEST(recent_keys) {
  int64_t keys[IVF_ROWS];
  if (!begin("recent") || !step_to(INDEX_READY)) {
    return;
  }
  near_settle(store);
  CHECK_FIRES(x->first_at = 1; recent_valid(x));
  add_recent(2 * RECENT_KEYS + 5);
  nearest_observe__done(x, nearest_observe__oldest(x, keys, IVF_ROWS));
  CHECK(recent_valid(x) && x->first != x->last);
  CHECK_FIRES(x->last = NULL; recent_valid(x));
  CHECK_FIRES(x->first_at = RECENT_KEYS; recent_valid(x));
  CHECK_FIRES(x->last->n = 0; recent_valid(x));
  CHECK_FIRES(x->first->n--; recent_valid(x));
  CHECK_FIRES(x->last = x->first; recent_valid(x));
  CHECK_FIRES(x->recent_number++; recent_valid(x));
  CHECK_FIRES(x->first->number++; recent_valid(x));
  CHECK_FIRES(atomic_fetch_add(&x->recent_count, 1); recent_valid(x));
  CHECK_FIRES(atomic_fetch_add(&x->recent_count, 1); add_recent(5000));
  CHECK_FIRES(nearest_observe__done(x, RECENT_KEYS));
  CHECK_FIRES(atomic_load(&x->dirty)->mask--;
              dirty_valid(atomic_load(&x->dirty)));
  CHECK_FIRES(atomic_store(&atomic_load(&x->dirty)->now, 2);
              nearest_observe__turn(x));
  CHECK_FIRES(nearest_observe__clean(x, atomic_load(&x->dirty->now)));
  help_close(store, s);
}

/* ---- states -------------------------------------------------------------- */

/* While an index is built. */
TEST(building) {
  struct building *m;
  if (!begin("building") || !step_to(INDEX_SAMPLING)) {
    return;
  }
  m = &x->making;
  CHECK_FIRES(m->sampled = m->at + 1; nearest_valid(x));
  CHECK_FIRES(m->at = m->count + 1; nearest_valid(x));
  CHECK_FIRES(m->wanted = m->count - 1; nearest_valid(x));
  CHECK_FIRES(m->walk.gathered = 1; nearest_valid(x));
  CHECK_FIRES(m->set = NULL; nearest_valid(x));
  CHECK_FIRES(build__begin(x));
  CHECK_FIRES(load__begin(x));
  CHECK_FIRES(atomic_store(&x->state, INDEX_FILLING); nearest_valid(x));
  CHECK_FIRES(x->observes = 0; nearest_valid(x));
  CHECK_FIRES(x->loading.is_on = 1; nearest_valid(x));
  CHECK_FIRES(x->sweep.is_on = 1; nearest_valid(x));
  step_to(INDEX_FILLING);
  CHECK_FIRES(build__free_set(x, m->set));
  CHECK_FIRES(x->sets[SET_MADE] = x->sets[SET_USED]; nearest_valid(x));
  CHECK_FIRES(x->measuring.is_on = 1; nearest_valid(x));
  help_close(store, s);
}

/* While its recall is measured. */
TEST(measuring) {
  if (!begin("measuring") || !step_to(INDEX_MEASURING)) {
    return;
  }
  struct measuring *m = &x->measuring;
  while (!m->is_on) {
    steps(1);
  }
  CHECK_FIRES(x->sets[SET_MADE] = NULL; nearest_valid(x));
  CHECK_FIRES(m->set = NULL; nearest_valid(x));
  CHECK_FIRES(m->segment = 1; nearest_valid(x));
  CHECK_FIRES(m->rows = m->read + 1; nearest_valid(x));
  CHECK_FIRES(m->read = m->count + 1; nearest_valid(x));
  CHECK_FIRES(m->wanted = m->count - 1; nearest_valid(x));
  CHECK_FIRES(m->at = m->n + 1; nearest_valid(x));
  CHECK_FIRES(m->compares = !m->compares; nearest_valid(x));
  help_close(store, s);
}

/* While an index is used, refreshed, and saved. */
TEST(ready) {
  int64_t keys[IVF_ROWS + 1];
  struct index_set other;
  if (!begin("ready") || !step_to(INDEX_READY)) {
    return;
  }
  near_settle(store);
  struct index_set *set = index_set_at(x, SET_USED);
  CHECK_FIRES(atomic_store(&x->state, INDEX_READY + 1); nearest_valid(x));
  CHECK_FIRES(atomic_store(&x->sets[SET_USED], NULL); nearest_valid(x));
  CHECK_FIRES(atomic_store(&x->sets[SET_MADE], set); nearest_valid(x));
  CHECK_FIRES(set->ivf[0].env = NULL; index_set_valid(x, set));
  CHECK_FIRES(set->writers[0].ivf = NULL; index_set_valid(x, set));
  CHECK_FIRES(set->ivf[0].form.dim++; nearest_valid(x));
  CHECK_FIRES(nearest__unuse(x, set));
  CHECK_FIRES(atomic_store(&x->sets[SET_USED], NULL); set->users = 1;
              build__free_set(x, set));
  CHECK_FIRES(build__apply(x, keys, IVF_ROWS + 1));
  CHECK_FIRES(save__piece(x, &other));
  CHECK_FIRES(refresh__piece(x, &other));
  CHECK_FIRES(int done; load__piece(x, &done));
  help_close(store, s);
}

TEST(refreshing) {
  if (!begin("refreshing") || !step_to(INDEX_READY)) {
    return;
  }
  near_settle(store);
  train();
  for (int i = 0; i < 1000 && !x->sweep.is_on; i++) {
    steps(1);
  }
  struct renewal *sweep = &x->sweep;
  if (!CHECK(sweep->is_on) || !CHECK(nearest_valid(x))) {
    return;
  }
  CHECK_FIRES(sweep->segment = 1; nearest_valid(x));
  CHECK_FIRES(sweep->list = 1000; nearest_valid(x));
  CHECK_FIRES(sweep->old = 1 - sweep->old; nearest_valid(x));
  CHECK_FIRES(sweep->bits = KEYS * 10; while (sweep->is_on) {
    refresh__piece(x, index_set_at(x, SET_USED));
  });
  help_close(store, s);
}

TEST(saving) {
  if (!begin("saving") || !OK(s, emb_checkpoint(s)) || !step_to(INDEX_READY)) {
    return;
  }
  for (int i = 0; i < 1000 && !x->saving.is_on; i++) {
    steps(1);
  }
  struct saving *save = &x->saving;
  if (!CHECK(save->is_on) || !CHECK(nearest_valid(x))) {
    return;
  }
  CHECK_FIRES(save->phase = SAVE_DONE; nearest_valid(x));
  CHECK_FIRES(save->part = 2; nearest_valid(x));
  CHECK_FIRES(save->used = STREAM_BYTES; nearest_valid(x));
  CHECK_FIRES(save->head.bits *= 2; nearest_valid(x));
  help_close(store, s);
}

TEST(loading) {
  if (!begin("loading") || !OK(s, emb_checkpoint(s)) || !near_settle(store)) {
    return;
  }
  for (int i = 0; i < 1000 && !x->is_saved; i++) {
    steps(1);
  }
  help_close(store, s);
  if (!near_open(help_path("loading"), NULL, 0, &store, &s)) {
    return;
  }
  x = nearest_of(store);
  struct loading *l = &x->loading;
  if (!step_to(INDEX_LOADING)) {
    return;
  }
  CHECK_FIRES(l->phase = LOAD_STRANGERS + 1; nearest_valid(x));
  CHECK_FIRES(l->part = 1; nearest_valid(x));
  CHECK_FIRES(l->at = l->head.bytes + 1; nearest_valid(x));
  CHECK_FIRES(l->phase = LOAD_KEYS; nearest_valid(x));
  CHECK_FIRES(l->filled = l->blocks_all + 1; nearest_valid(x));
  CHECK_FIRES(l->groups = l->head.parts[0].groups + 1; nearest_valid(x));
  CHECK_FIRES(l->phase = LOAD_LISTS; nearest_valid(x));
  CHECK(near_settle(store));
  CHECK_ALL_FIRED("engine/features/nearest/nearest_valid.c");
  help_close(store, s);
}

/* ---- an exact search ----------------------------------------------------- */

/* The first page of rows in memory. */
static struct page_rows find_page(void) {
  const struct layout *l = &s->core->layout;
  struct page_rows rows = {.n = l->slots};
  rows.page = atomic_load(&s->core->log.first) << l->extent_bits;
  while (!log_page(&s->core->log, rows.page) ||
         page_kind(log_page(&s->core->log, rows.page)) != PAGE_DATA) {
    rows.page++;
  }
  rows.at = log_page(&s->core->log, rows.page) + PAGE_HEAD_BYTES;
  return rows;
}

static void enter(void) { epoch_enter(&s->core->epoch, s->slot); }

static void compare_pages(struct compare *c, const struct page_rows *rows) {
  enter();
  for (int i = 0; i < 1000; i++) {
    compare__page(c, rows);
  }
}

TEST(comparing) {
  float queries[4 * NEAR_DIM] = {1};
  struct ask ask;
  struct compare few, many;
  struct extents e = {0};
  const struct candidates_how some = {.most = 1}, none = {0};
  if (!begin("comparing")) {
    return;
  }
  struct page_rows rows = find_page();
  CHECK_EQ_INT(ask__begin(&ask, s, queries, 1, 3, NULL), EMB_OK);
  CHECK_EQ_INT(compare__init(&few, &ask), EMB_OK);
  CHECK_FIRES(compare__rows(&few, &rows));
  CHECK_FIRES(enter(); rows.first = 1; compare__rows(&few, &rows));
  CHECK_FIRES(ask__take(&ask, &few.best, 1, 1, 1));
  CHECK_FIRES(compare__row(&few, 1, queries));
  CHECK_FIRES(candidates__find(&ask, NULL, NULL, 0, &some));
  CHECK_FIRES(candidates__find(&ask, NULL, NULL, 1, &none));
  compare__free(&few);
  ask__end(&ask);
  CHECK_EQ_INT(ask__begin(&ask, s, queries, 4, 3, NULL), EMB_OK);
  CHECK_EQ_INT(compare__init(&many, &ask), EMB_OK);
  CHECK_FIRES(compare__page(&many, &rows));
  CHECK_FIRES(enter(); rows.first = 1; compare__page(&many, &rows));
  CHECK_FIRES(enter(); rows.n++; compare__page(&many, &rows));
  CHECK_FIRES(compare_pages(&many, &rows));
  CHECK_FIRES(enter(); many.gather.records = many.gather.record_room;
              compare__page(&many, &rows));
  CHECK_FIRES(enter(); compare__blocks(&e, 0));
  CHECK_FIRES(struct search search = {.core = s->core};
              extents__is_empty(&search, rows.page));
  CHECK_ALL_FIRED("engine/features/nearest/compare.c");
  compare__free(&many);
  ask__end(&ask);
  help_close(store, s);
}
