/* SPDX-License-Identifier: MIT
**
** click.h -- a generated stream of clicks with known probabilities.
**
** Users and items are drawn by Zipf's law.  Each has a latent vector of
** FACTORS normal numbers and a bias.  If item i is shown to user u at place p
** of the page, the probability of a click is
**
**   1 / (1 + exp(-(base + place[p] + bias[u] + bias[i] + scale <u, i>)))
**
** Items drift: ten times an hour each of their numbers x (bias and factors)
** becomes r x + sqrt(1 - r^2) n with a normal n.  Its correlation with its
** earlier value falls as exp(-drift) per hour, while its distribution stays
** the same.
**
** The same options give the same stream.  A click carries its probability, so
** the AUC of the best possible prediction can be measured next to a model's.
*/
#ifndef ONLINE_CLICK_H
#define ONLINE_CLICK_H

#include <stddef.h>
#include <stdint.h>

enum { FACTORS = 4, PLACES = 8 };

struct click {
  uint32_t user, item; /* from 0, the most frequent first */
  float truth;         /* probability that it is clicked */
  uint8_t place;       /* 0 .. PLACES-1 */
  uint8_t clicked;
};

struct stream_options {
  uint64_t seed;
  uint32_t users, items;
  double drift; /* per hour; 0: none */
  uint32_t clicks_per_hour;
};

struct stream;
struct stream *stream_new(const struct stream_options *options);
void stream_free(struct stream *stream);

/* The next `count` clicks. */
void stream_take(struct stream *stream, struct click *clicks, size_t count);

/* The id of user or item number n: 64 bits in no order, like real ids that have
** been hashed once. */
int64_t click_key(uint32_t n);

#endif
