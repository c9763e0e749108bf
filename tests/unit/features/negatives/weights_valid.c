/* SPDX-License-Identifier: MIT
**
** weights_valid.c -- each assertion about counted updates, and about a running
** call of emb_sample, fires.
*/
#include "engine/features/negatives/weights.h"

#include "death.h"
#include "store_help.h"

#include <math.h>

enum { DIM = 8, ROWS = 60 };

static emb_store *store;
static emb_session *s;
static emb_sample_how how;
static struct draw d;

/* Opens a table whose keys were updated one to three times. */
static int begin(void) {
  emb_config c = {.dim = DIM,
                  .memory_bytes = 1,
                  .track = EMB_TRACK_WALL,
                  .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP};
  static float vector[DIM];
  if (!help_open(help_path("store"), &c, &store, &s)) {
    return 0;
  }
  for (int64_t key = 1; key <= ROWS; key++) {
    for (int64_t i = 0; i <= key % 3; i++) {
      OK(s, emb_put(s, &key, 1, vector, NULL));
    }
  }
  how = (emb_sample_how){.distribution = EMB_FREQUENCY, .power = 1};
  d = (struct draw){.s = s, .how = &how, .n = 4};
  d.keys = calloc(s->chunk, sizeof *d.keys);
  d.p = calloc(s->chunk, sizeof *d.p);
  d.found = calloc(s->chunk, 1);
  return CHECK_EQ_INT(weights__begin(&d), EMB_OK);
}

static void end(void) {
  weights__end(&d);
  listed__end(&d);
  free(d.keys);
  free(d.p);
  free(d.found);
  help_close(store, s);
}

TEST(counted_updates) {
  if (!begin()) {
    return;
  }
  struct weights *w = d.weights;
  CHECK(w->groups == 3 && w->powers == 1 && weights_valid(w));
  CHECK_FIRES(w->group[1].end = w->group[0].end; weights_valid(w));
  CHECK_FIRES(w->group[1].frequency = w->group[0].frequency; weights_valid(w));
  CHECK_FIRES(w->keys[1] = w->keys[0] - 1; weights_valid(w));
  CHECK_FIRES(w->cumulated[0][1] = 0; weights_valid(w));
  CHECK_FIRES(w->powers = 2; w->power[1] = w->power[0];
              w->cumulated[1] = w->cumulated[0]; weights_valid(w));
  CHECK_FIRES(w->group[2].end--; weights_valid(w));
  CHECK_FIRES(w->updates++; weights_valid(w));
  CHECK_FIRES(w->powers = WEIGHTS_POWERS + 1; weights_valid(w));
  end();
}

TEST(the_counts_of_a_store) {
  if (!begin()) {
    return;
  }
  struct sampling *sampling = sampling_of(store);
  CHECK_FIRES(sampling_valid(sampling));
  pthread_mutex_lock(&sampling->lock);
  CHECK(sampling_valid(sampling));
  CHECK_FIRES(d.weights->refs = 0; sampling_valid(sampling));
  CHECK_FIRES(sampling->bytes++; sampling_valid(sampling));
  pthread_mutex_unlock(&sampling->lock);
  CHECK_FIRES(d.weights->refs = 0; weights__end(&d));
  CHECK_ALL_FIRED("engine/features/negatives/weights_valid.c");
  end();
}

TEST(a_running_call) {
  if (!begin()) {
    return;
  }
  CHECK(draw_valid(&d));
  CHECK_FIRES(d.uses_set = 1; draw_valid(&d));
  CHECK_FIRES(d.draws = -1; draw_valid(&d));
  CHECK_FIRES(d.most = INFINITY; d.uses_set = 1;
              d.set.places = (uint64_t *)(void *)d.keys; draw_valid(&d));
  CHECK_FIRES(d.weights = NULL; draw_valid(&d));
  CHECK_FIRES(d.own_cumulated = d.p; draw_valid(&d));
  CHECK_FIRES(d.list.at++; draw_valid(&d));
  CHECK_FIRES(draw__keep(&d, 1, 1));
  CHECK_FIRES(epoch_enter(&store->core.epoch, s->slot);
              draw__keep(&d, s->chunk + 1, 1));
  CHECK_ALL_FIRED("engine/features/negatives/draw.c");
  end();
}

TEST(a_list) {
  if (!begin()) {
    return;
  }
  CHECK_EQ_INT(listed__begin(&d), EMB_OK);
  CHECK(listed_valid(&d) && draw_valid(&d));
  CHECK_FIRES(d.most = 1; listed_valid(&d));
  CHECK_FIRES(d.list.p = NULL; listed_valid(&d));
  CHECK_FIRES(d.list.p[3] = 0; listed_valid(&d));
  CHECK_FIRES(d.list.when[3] = d.list.when[2] / 2; listed_valid(&d));
  CHECK_ALL_FIRED("engine/features/negatives/draw_valid.c");
  end();
}
