/* SPDX-License-Identifier: MIT
**
** gemm.h -- single precision matrix product for the WordNet demo.
*/
#ifndef WN_GEMM_H
#define WN_GEMM_H

#include <stddef.h>

/* A read-only matrix anywhere in memory: element (i, j) is
** at[i * row + j * col].  A transposed matrix has row and col exchanged. */
struct gemm_matrix {
  const float *at;
  size_t row, col;
};

/* Scratch memory of one thread; about 700 KB. */
struct gemm_work;
struct gemm_work *gemm_work_new(void);
void gemm_work_free(struct gemm_work *work);

/* c[i * ldc + j] = sum over k < depth of a(i, k) * b(k, j), for i < rows and
** j < cols.  The order of the sum depends on depth only, so that a product
** computed in parts by several threads is the same to the bit. */
void gemm(size_t rows, size_t cols, size_t depth, struct gemm_matrix a,
          struct gemm_matrix b, float *c, size_t ldc, struct gemm_work *work);

#endif
