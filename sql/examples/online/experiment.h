/* SPDX-License-Identifier: MIT
**
** experiment.h -- the two findings of the Monolith paper, measured.
**
** Liu et al., "Monolith: Real Time Recommendation System With Collisionless
** Embedding Table", ORSUM 2022, section 3.
*/
#ifndef ONLINE_EXPERIMENT_H
#define ONLINE_EXPERIMENT_H

#include "click.h"

enum {
  SEEDS_MAX = 20,
  EPOCHS = 3,
  DAYS = 3, /* of the stream with drift; the first is the warm-up */
  HOURS = 24 * DAYS,
  WARM_HOURS = 24,
  WINDOW_HOURS = 4,
  WINDOWS = (HOURS - WARM_HOURS) / WINDOW_HOURS,
};

struct settings {
  const char *extension, *directory; /* for databases, removed when done */
  uint32_t users, items;
  size_t train, test;       /* clicks, of the stream without drift */
  uint32_t clicks_per_hour; /* of the stream with drift */
  double drift;             /* per hour */
  size_t seeds;
  uint32_t many_users,
      many_items; /* of a large catalogue, with as many clicks */
};

/* ---- collisions ---------------------------------------------------------- */

enum { HASHED = 5 }; /* sizes of tables; the first has no collisions */

struct hashed_result {
  double collided[2];   /* share of users, of items */
  double epoch[EPOCHS]; /* AUC on the clicks held back, after each epoch */
  double day[DAYS];     /* AUC of each day of the stream, before training */
  double best, best_day[DAYS]; /* AUC of the truth */
};

const char *hashed_name(int size);
void hashed_run(const struct settings *settings, uint64_t seed, int size,
                struct hashed_result *result);

/* ---- sync ---------------------------------------------------------------- */

enum { COPIES = 6 }; /* the last is the trainer itself: no interval */

struct sync_result {
  double auc, window[WINDOWS]; /* of the hours after the warm-up */
  double syncs, keys, bytes;   /* keys and bytes: of a sync, mean */
};

const char *sync_name(int copy);
void sync_run(const struct settings *settings, uint64_t seed,
              struct sync_result result[COPIES], double *best, double *all_keys,
              double *all_bytes);

/* ---- scale --------------------------------------------------------------- */

enum { INTERVALS = 3, SCALE_HOURS = 5 };

struct scale_result {
  double all_keys, all_bytes, all_ms; /* of a full copy; ms to export it */
  double keys[INTERVALS], bytes[INTERVALS], ms[INTERVALS]; /* of a sync, mean */
};

const char *scale_name(int interval);
void scale_run(const struct settings *settings, struct scale_result *result);

#endif
