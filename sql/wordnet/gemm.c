/* SPDX-License-Identifier: MIT
**
** gemm.c -- single precision matrix product for the WordNet demo.
**
** The usual three-level scheme (Goto and van de Geijn, "Anatomy of
** high-performance matrix multiplication", 2008): a block of B is packed into
** panels of TILE_COLS columns, a block of A into strips of TILE_ROWS rows, and
** an inner kernel keeps one TILE_ROWS x TILE_COLS tile of C in registers while
** it walks down a strip and a panel.
**
**          panel  panel            block of A:  A_BLOCK rows x DEPTH_BLOCK
**         +------+------+          block of B:  DEPTH_BLOCK x B_BLOCK columns
**   strip | tile | tile |
**         +------+------+          Edges are packed with zeros, so the kernel
**   strip | tile | tile |          has full tiles only.
**         +------+------+
**
** The kernel is written with the vector types of gcc and clang and compiled
** once per instruction set (target_clones); the loader picks one at run time.
*/
#include "gemm.h"

#include <stdlib.h>
#include <string.h>

enum {
  TILE_ROWS = 6, /* 6 x 16 accumulators fill 12 of the 16 AVX registers */
  TILE_COLS = 16,
  DEPTH_BLOCK = 256,
  A_BLOCK = 16 * TILE_ROWS,
  B_BLOCK = 32 * TILE_COLS,
};

#if defined(__x86_64__) && defined(__linux__)
#define FOR_EACH_CPU __attribute__((target_clones("avx512f", "fma", "default")))
#else
#define FOR_EACH_CPU
#endif

typedef float vector __attribute__((vector_size(TILE_COLS * sizeof(float))));

struct gemm_work {
  float a[A_BLOCK * DEPTH_BLOCK];
  float b[B_BLOCK * DEPTH_BLOCK];
};

struct gemm_work *gemm_work_new(void) {
  return aligned_alloc(64, sizeof(struct gemm_work));
}

void gemm_work_free(struct gemm_work *work) { free(work); }

/* tile = strip * panel, both packed, depth steps. */
FOR_EACH_CPU
static void multiply_tile(const float *strip, const float *panel, size_t depth,
                          float *tile) {
  vector sum[TILE_ROWS];
  memset(sum, 0, sizeof(sum));
  for (size_t k = 0; k < depth; k++) {
    vector b;
    memcpy(&b, panel + k * TILE_COLS, sizeof(b));
    for (size_t i = 0; i < TILE_ROWS; i++) {
      sum[i] += strip[k * TILE_ROWS + i] * b;
    }
  }
  memcpy(tile, sum, sizeof(sum));
}

/* Packs rows x depth elements of m into strips of `width` rows, each stored
** step by step: width elements for k = 0, width for k = 1, and so on. */
static void pack(struct gemm_matrix m, size_t rows, size_t depth, size_t width,
                 float *to) {
  for (size_t first = 0; first < rows; first += width) {
    size_t n = rows - first < width ? rows - first : width;
    const float *from = m.at + first * m.row;
    for (size_t k = 0; k < depth; k++, to += width) {
      for (size_t i = 0; i < n; i++) {
        to[i] = from[i * m.row + k * m.col];
      }
      for (size_t i = n; i < width; i++) {
        to[i] = 0;
      }
    }
  }
}

/* Stores or adds the part of a tile that lies inside C. */
static void store_tile(const float *tile, size_t rows, size_t cols, int add,
                       float *c, size_t ldc) {
  for (size_t i = 0; i < rows; i++, tile += TILE_COLS, c += ldc) {
    if (add) {
      for (size_t j = 0; j < cols; j++) {
        c[j] += tile[j];
      }
    } else {
      memcpy(c, tile, cols * sizeof(float));
    }
  }
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* C block = packed block of A * packed block of B. */
static void multiply_block(const struct gemm_work *work, size_t rows,
                           size_t cols, size_t depth, int add, float *c,
                           size_t ldc) {
  float tile[TILE_ROWS * TILE_COLS];
  for (size_t j = 0; j < cols; j += TILE_COLS) {
    for (size_t i = 0; i < rows; i += TILE_ROWS) {
      multiply_tile(work->a + i * depth, work->b + j * depth, depth, tile);
      store_tile(tile, smaller(rows - i, TILE_ROWS),
                 smaller(cols - j, TILE_COLS), add, c + i * ldc + j, ldc);
    }
  }
}

void gemm(size_t rows, size_t cols, size_t depth, struct gemm_matrix a,
          struct gemm_matrix b, float *c, size_t ldc, struct gemm_work *work) {
  for (size_t j = 0; j < cols; j += B_BLOCK) {
    size_t nj = smaller(cols - j, B_BLOCK);
    for (size_t k = 0; k < depth; k += DEPTH_BLOCK) {
      size_t nk = smaller(depth - k, DEPTH_BLOCK);
      struct gemm_matrix panels = {b.at + k * b.row + j * b.col, b.col, b.row};
      pack(panels, nj, nk, TILE_COLS, work->b);
      for (size_t i = 0; i < rows; i += A_BLOCK) {
        size_t ni = smaller(rows - i, A_BLOCK);
        struct gemm_matrix strips = {a.at + i * a.row + k * a.col, a.row,
                                     a.col};
        pack(strips, ni, nk, TILE_ROWS, work->a);
        multiply_block(work, ni, nj, nk, k > 0, c + i * ldc + j, ldc);
      }
    }
  }
}
