/* SPDX-License-Identifier: MIT
**
** store_ram.c -- the limit of memory: vectors in an array in huge pages, the
** position is the key.  No index, no locks: a ceiling, not a store.  It is
** filled when it is opened.
**
** Records are prefetched DISTANCE ahead of the copy.  AVX2 moves them: on the
** machine this was written on neither rep movs nor 64-byte moves were faster.
*/
#include <immintrin.h>
#include <stdlib.h>

#include "harness.h"
#include "keys.h"
#include "store.h"

enum { DISTANCE = 24 };

struct ram {
  float *vectors;
  size_t dim, keys;
};

static void *ram_open(const struct store_options *options) {
  struct ram *ram = need(1, sizeof(*ram));
  ram->dim = options->dim;
  ram->keys = options->keys;
  if (ram->dim % 16) {
    die("the ceiling needs dimensions that fill cache lines");
  }
  ram->vectors = need_huge(ram->keys * ram->dim * sizeof(float));
  for (size_t i = 0; i < ram->keys; i++) {
    vector_fill(ram->vectors + i * ram->dim, ram->dim, (int64_t)i + 1, 1);
  }
  return ram;
}

static void ram_close(void *store) {
  struct ram *ram = store;
  drop_huge(ram->vectors, ram->keys * ram->dim * sizeof(float));
  free(ram);
}

static void *ram_session_open(void *store) { return store; }

static void ram_session_close(void *session) { (void)session; }

__attribute__((target("avx2"), always_inline)) static inline void
copy(float *to, const float *from, size_t dim) {
  for (size_t i = 0; i < dim; i += 16) {
    __m256 a = _mm256_loadu_ps(from + i), b = _mm256_loadu_ps(from + i + 8);
    _mm256_storeu_ps(to + i, a);
    _mm256_storeu_ps(to + i + 8, b);
  }
}

static inline void ask(const float *vector, size_t dim, int write) {
  for (size_t i = 0; i < dim; i += 16) {
    if (write) {
      __builtin_prefetch(vector + i, 1);
    } else {
      __builtin_prefetch(vector + i, 0);
    }
  }
}

__attribute__((target("avx2"), always_inline)) static inline void
gather(const struct ram *ram, const int64_t *keys, size_t n, float *buffer,
       size_t dim) {
  for (size_t i = 0; i < n + DISTANCE; i++) {
    if (i < n) {
      ask(ram->vectors + ((size_t)keys[i] - 1) * dim, dim, 0);
    }
    if (i >= DISTANCE) {
      size_t k = i - DISTANCE;
      copy(buffer + k * dim, ram->vectors + ((size_t)keys[k] - 1) * dim, dim);
    }
  }
}

__attribute__((target("avx2"), always_inline)) static inline void
scatter(const struct ram *ram, const int64_t *keys, size_t n,
        const float *vectors, size_t dim) {
  for (size_t i = 0; i < n + DISTANCE; i++) {
    if (i < n) {
      ask(ram->vectors + ((size_t)keys[i] - 1) * dim, dim, 1);
    }
    if (i >= DISTANCE) {
      size_t k = i - DISTANCE;
      copy(ram->vectors + ((size_t)keys[k] - 1) * dim, vectors + k * dim, dim);
    }
  }
}

/* With the common dimension as a constant the compiler unrolls the copy. */
__attribute__((target("avx2"))) static const float *
ram_get(void *session, const int64_t *keys, size_t n, float *buffer) {
  const struct ram *ram = session;
  if (ram->dim == 64) {
    gather(ram, keys, n, buffer, 64);
  } else {
    gather(ram, keys, n, buffer, ram->dim);
  }
  return buffer;
}

__attribute__((target("avx2"))) static void
ram_put(void *session, const int64_t *keys, size_t n, const float *vectors) {
  const struct ram *ram = session;
  if (ram->dim == 64) {
    scatter(ram, keys, n, vectors, 64);
  } else {
    scatter(ram, keys, n, vectors, ram->dim);
  }
}

const struct store_kind store_ram = {
    .name = "memory ceiling",
    .about = "an array in huge pages, prefetched; no index, no locks",
    .open = ram_open,
    .close = ram_close,
    .session_open = ram_session_open,
    .session_close = ram_session_close,
    .get = ram_get,
    .put = ram_put,
    .torn = 1,
};
