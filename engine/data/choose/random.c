/* SPDX-License-Identifier: MIT
**
** random.c -- emb_random: a number for a seed, a stream and a key; see
** emb_data.h.
**
** FOREVER   Old runs must be repeatable years later, so no number may ever
**           change.  The whole algorithm is here and in XXH64, whose author has
**           promised to keep it.  tests/sql/data/random.test has numbers from
**           the first day, and an implementation in Python.
** WORDS     Each argument becomes 64 bits that depend on its type and value:
**           mix(x + type * STEP), where x is the integer, or the XXH64, with
**           seed 0, of the bytes of a text or blob.  No two integers have the
**           same word, because mix is a bijection.
** STATE     word(seed); then for stream and key: mix((state + STEP) ^ word).
**           For a given seed and stream, distinct integers never have the same
**           state.  The number is the 53 highest bits of the state.
*/
#include "engine/emb.h"
#include "engine/data/emb_data.h"

#include "engine/base/hash.h"

#define STEP UINT64_C(0x9E3779B97F4A7C15)

static uint64_t word_of(uint64_t x, uint64_t type) {
  return hash_mix(x + type * STEP);
}

uint64_t emb_random_integer(int64_t integer) {
  return word_of((uint64_t)integer, 1);
}

uint64_t emb_random_bytes(const void *bytes, size_t n, int is_text) {
  return word_of(XXH64(bytes, n, 0), is_text ? 2 : 3);
}

double emb_random(uint64_t seed, uint64_t stream, uint64_t key) {
  uint64_t state = hash_mix((seed + STEP) ^ stream);
  state = hash_mix((state + STEP) ^ key);
  return (double)(state >> 11) * 0x1p-53;
}
