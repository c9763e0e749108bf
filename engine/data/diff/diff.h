/* SPDX-License-Identifier: MIT
**
** diff.h -- the format of a difference; private to the folder.
**
**   head     64 bytes, struct diff_head
**   blocks   of DIFF_ELEMENTS elements of the result; the last block may have
**            fewer.  Each is `width` parts if exponents are split, else one
**   part     struct diff_part, then stored_bytes
**
** WRITING   base and result -> words (fold.c) -> planes, a part each
**           (pack/block.h) -> runs (runs.c) -> zstd.  Each of the last two is
**           skipped for a part that it does not make smaller.
** WORDS     From the elements b and r, as integers of 8 * width bits:
**             xor   b ^ r, rotated left by one bit
**             sub   (r - b) modulo 2^(8 * width), its sign moved to the lowest
**                   bit: 0, -1, 1, -2, 2 ... become 0, 1, 2, 3, 4 ...
**           In both, the highest byte is then the exponent of a float32 (or
**           bfloat16) without its sign, and 0 if the value has changed little.
**           Both are bijections for any b, so they are lossless, whatever the
**           bytes mean.
** TAIL      A result whose size is not a multiple of the width is padded with
**           zeros; a base is cut, or padded with zeros.
** READING   No size is trusted before the checksum of the whole has been
**           verified, and after that only within a limit: a forged difference
**           can have a valid checksum, too.  A part has at least one
**           byte, so a small difference cannot claim a large result.  A block
**           is decoded in memory sized by its elements.
** FAILURE   EMB_NOTADB, EMB_CORRUPT, EMB_MISMATCH, as in emb.h.
** THREADS   No state.
*/
#ifndef EMB_DIFF_H
#define EMB_DIFF_H

#include "engine/data/emb_data.h"
#include <stddef.h>

#include "engine/base/debug.h"
#include "engine/storage/pack/block.h"

#define DIFF_MAGIC "embdiff1"
#define DIFF_FORMAT 1
/* A plane fits the second-level cache, and is enough for zstd to learn its
** statistics. */
#define DIFF_ELEMENTS 65536u
#define DIFF_WIDTH_MAX 8u
#define DIFF_LEVEL_MAX 19

struct diff_head {
  char magic[8];          /* 00-07 */
  uint32_t format;        /* 08-11 */
  uint8_t op;             /* 12    EMB_DIFF_SUB, EMB_DIFF_XOR */
  uint8_t width;          /* 13    1, 2, 4, 8 */
  uint8_t split_exponent; /* 14    0, 1 */
  uint8_t zero;           /* 15 */
  uint64_t base_bytes;    /* 16-23 */
  uint64_t base_sum;      /* 24-31 XXH3-64 */
  uint64_t result_bytes;  /* 32-39 */
  uint64_t result_sum;    /* 40-47 XXH3-64 */
  uint64_t bytes;         /* 48-55 of the difference, this head included */
  uint64_t sum;           /* 56-63 diff__sum */
};
_Static_assert(sizeof(struct diff_head) == 64, "head of a difference");
_Static_assert(offsetof(struct diff_head, sum) == 56, "head of a difference");

struct diff_part {
  uint32_t stored_bytes; /* 0-3 bytes that follow */
  uint32_t run_bytes;    /* 4-7 their number before zstd; 0: no runs, and zstd
                            was given the part's raw bytes */
};
_Static_assert(sizeof(struct diff_part) == 8, "part of a difference");

/* The checksum of a difference: XXH3-64 of the bytes after the head, with the
** XXH3-64 of the head's first 56 bytes as seed. */
uint64_t diff__sum(const struct diff_head *head, const void *body, size_t n);

/* The form of a difference, from its head or from emb_diff_how. */
struct diff_form {
  int op;
  uint32_t width;
  uint32_t parts;    /* of a block */
  uint64_t bytes;    /* of the result */
  uint64_t elements; /* the last one may be padded with zeros */
  uint64_t blocks;
};
struct diff_form diff__form(int op, uint32_t width, int split_exponent,
                            uint64_t bytes);
/* Only in self-checking builds [diff_valid.c].  For a form whose head, if it
** was read, has been checked. */
int diff__form_valid(const struct diff_form *form);
/* Number of elements in the block. */
static inline size_t diff_block_elements(const struct diff_form *form,
                                         uint64_t block) {
  emb_assert(block < form->blocks);
  uint64_t left = form->elements - block * DIFF_ELEMENTS;
  return left < DIFF_ELEMENTS ? (size_t)left : DIFF_ELEMENTS;
}

/* Buffers for one block, each of DIFF_ELEMENTS elements. */
struct diff_work {
  struct env *env;     /* allocator */
  char *base, *result; /* a block of each, with its padding */
  char *words;
  char *planes;
  char *runs;
  ZSTD_CCtx *compressor;
  ZSTD_DCtx *decompressor;
  emb_err *err;
};
/* Allocates the buffers, and a decompressor or a compressor.  Call diff__close
** after an error, too. */
int diff__open(struct diff_work *w, uint32_t width, int decompresses);
void diff__close(struct diff_work *w);
int diff__out_of_memory(const struct diff_work *w);
/* Returns n bytes from `offset` on, padded with zeros: in place, or copied to
** `room`. */
const char *diff__piece(const emb_bytes *bytes, uint64_t offset, size_t n,
                        char *room);

/* emb_diff and emb_patch, with memory of w->env. */
int diff__make(struct diff_work *w, const emb_diff_how *how,
               const emb_bytes *base, const emb_bytes *result, char *to,
               size_t *bytes);
int diff__apply(struct diff_work *w, const emb_bytes *base,
                const emb_bytes *difference, char *result,
                int (*interrupted)(void *), void *arg);

/* ---- fold.c -------------------------------------------------------------- */

/* n elements of `width` bytes each, at any address. */
void diff__fold(const struct diff_form *form, const char *base,
                const char *result, size_t n, char *words);
void diff__unfold(const struct diff_form *form, const char *base,
                  const char *words, size_t n, char *result);

/* ---- runs.c -------------------------------------------------------------- */

/* Run-length encodes n bytes into fewer than n bytes at `to`, which has room
** for n; returns their number.  0: they would not be fewer. */
size_t diff__runs(const char *from, size_t n, char *to);
/* Decodes to exactly `room` bytes at `to`.  0: the input is not valid. */
int diff__spread(const char *from, size_t n, char *to, size_t room);

#endif
