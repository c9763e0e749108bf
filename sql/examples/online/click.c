/* SPDX-License-Identifier: MIT
**
** click.c -- a generated stream of clicks; see click.h.
*/
#include "click.h"

#include <math.h>
#include <stdlib.h>

#include "../../lib/database.h"
#include "../../lib/random.h"

enum { STEPS_PER_HOUR = 10 };

static const double USER_SKEW = 0.6, ITEM_SKEW = 0.8; /* Zipf's exponents */
static const double BASE = -0.6;
static const double SCALE = 0.95;
static const double USER_BIAS = 0.3, ITEM_BIAS = 0.5; /* deviations */

/* The taste of a user, or the appeal of an item. */
struct taste {
  float bias, factor[FACTORS];
};

struct stream {
  struct stream_options options;
  uint64_t random; /* for the clicks */
  uint64_t drift;  /* for the items: the same drift with any number of clicks */
  double *user_share, *item_share; /* cumulative */
  struct taste *users, *items;
  uint64_t clicks; /* so far */
};

static void fill(struct taste *tastes, uint32_t count, double bias,
                 uint64_t *state) {
  for (uint32_t i = 0; i < count; i++) {
    tastes[i].bias = (float)bias * random_normal(state);
    for (int j = 0; j < FACTORS; j++) {
      tastes[i].factor[j] = random_normal(state);
    }
  }
}

static double *zipf(uint32_t count, double skew) {
  double *share = need(count, sizeof(*share)), sum = 0;
  for (uint32_t i = 0; i < count; i++) {
    sum += pow(i + 1, -skew);
    share[i] = sum;
  }
  for (uint32_t i = 0; i < count; i++) {
    share[i] /= sum;
  }
  return share;
}

static uint32_t draw(const double *share, uint32_t count, uint64_t *state) {
  double at = random_unit(state);
  uint32_t low = 0, high = count - 1;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (share[middle] > at) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

struct stream *stream_new(const struct stream_options *options) {
  struct stream *stream = need(1, sizeof(*stream));
  stream->options = *options;
  stream->random = options->seed;
  uint64_t start = random_next(&stream->random);
  stream->drift = random_next(&stream->random);
  stream->user_share = zipf(options->users, USER_SKEW);
  stream->item_share = zipf(options->items, ITEM_SKEW);
  stream->users = need(options->users, sizeof(struct taste));
  stream->items = need(options->items, sizeof(struct taste));
  fill(stream->users, options->users, USER_BIAS, &start);
  fill(stream->items, options->items, ITEM_BIAS, &start);
  return stream;
}

void stream_free(struct stream *stream) {
  free(stream->user_share);
  free(stream->item_share);
  free(stream->users);
  free(stream->items);
  free(stream);
}

static void drift(struct stream *stream) {
  float keep = (float)exp(-stream->options.drift / STEPS_PER_HOUR);
  float add = sqrtf(1 - keep * keep);
  for (uint32_t i = 0; i < stream->options.items; i++) {
    struct taste *item = &stream->items[i];
    item->bias = keep * item->bias +
                 add * (float)ITEM_BIAS * random_normal(&stream->drift);
    for (int j = 0; j < FACTORS; j++) {
      item->factor[j] =
          keep * item->factor[j] + add * random_normal(&stream->drift);
    }
  }
}

static void one(struct stream *stream, struct click *click) {
  uint64_t *random = &stream->random;
  click->user = draw(stream->user_share, stream->options.users, random);
  click->item = draw(stream->item_share, stream->options.items, random);
  click->place = (uint8_t)(random_next(random) % PLACES);
  const struct taste *user = &stream->users[click->user];
  const struct taste *item = &stream->items[click->item];
  double logit = BASE - 0.1 * click->place + user->bias + item->bias;
  for (int j = 0; j < FACTORS; j++) {
    logit += SCALE * user->factor[j] * item->factor[j];
  }
  click->truth = (float)(1 / (1 + exp(-logit)));
  click->clicked = random_unit(random) < click->truth;
}

void stream_take(struct stream *stream, struct click *clicks, size_t count) {
  uint32_t every = stream->options.clicks_per_hour / STEPS_PER_HOUR;
  for (size_t i = 0; i < count; i++) {
    if (stream->options.drift > 0 && stream->clicks &&
        !(stream->clicks % every)) {
      drift(stream);
    }
    one(stream, &clicks[i]);
    stream->clicks++;
  }
}

int64_t click_key(uint32_t n) {
  uint64_t state = n;
  return (int64_t)random_next(&state);
}
