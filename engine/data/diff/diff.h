/* SPDX-License-Identifier: MIT
**
** diff.h -- what a difference consists of; private to the folder.
**
**   head     64 bytes, struct diff_head
**   blocks   of DIFF_ELEMENTS elements of the result, the last one perhaps
**            fewer; each is `width` parts if exponents are split, else one
**   part     struct diff_part, then stored_bytes
**
** WRITING   base and result -> words (fold.c) -> planes, a part each
**           (pack/block.h) -> runs (runs.c) -> zstd; each of the last two is
**           left out of a part that it makes no smaller.
** WORDS     Of the elements b and r, as integers of 8 * width bits:
**             xor   b ^ r, rotated to the left by one bit
**             sub   (r - b) modulo 2^(8 * width), its sign moved to the lowest
**                   bit: 0, -1, 1, -2, 2 ... become 0, 1, 2, 3, 4 ...
**           In both the highest byte is then the exponent of a float32 (or
**           bfloat16) without its sign, and 0 of what has changed little.  Both
**           are bijections for any b, so nothing is lost, whatever the bytes
**           mean.
** TAIL      A result whose bytes are no multiple of the width is followed by
**           zeros up to one; a base is cut, or followed by zeros.
** READING   No size is believed before the checksum of the whole held, and none
**           after it without a limit: who makes a difference can make its
**           checksum, too.  A part has at least one byte, so a small difference
**           cannot speak of a large result; a block is decoded in memory of
**           the size that its elements have.
** FAILURE   EMB_NOTADB, EMB_CORRUPT, EMB_MISMATCH, as emb.h says.
** THREADS   No state.
*/
#ifndef EMB_DIFF_H
#define EMB_DIFF_H

#include "engine/data/emb_data.h"
#include <stddef.h>

#include "engine/storage/pack/block.h"

#define DIFF_MAGIC "embdiff1"
#define DIFF_FORMAT 1
/* A plane fits a second cache, and is enough for zstd to know its statistics.
 */
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
  uint32_t stored_bytes; /* 0-3 what follows */
  uint32_t run_bytes;    /* 4-7 the same before zstd; 0: runs are not counted,
                            and the part's raw bytes were before zstd */
};
_Static_assert(sizeof(struct diff_part) == 8, "part of a difference");

/* The checksum of a difference: XXH3-64 of what follows the head, with that of
** the head's first 56 bytes as seed. */
uint64_t diff__sum(const struct diff_head *head, const void *body, size_t n);

/* The form of a difference, from its head or from emb_diff_how. */
struct diff_form {
  int op;
  uint32_t width;
  uint32_t parts;    /* of a block */
  uint64_t bytes;    /* of the result */
  uint64_t elements; /* the last one perhaps with zeros */
  uint64_t blocks;
};
struct diff_form diff__form(int op, uint32_t width, int split_exponent,
                            uint64_t bytes);
/* Elements of the block. */
static inline size_t diff_block_elements(const struct diff_form *form,
                                         uint64_t block) {
  uint64_t left = form->elements - block * DIFF_ELEMENTS;
  return left < DIFF_ELEMENTS ? (size_t)left : DIFF_ELEMENTS;
}

/* What a block needs; each is DIFF_ELEMENTS elements. */
struct diff_work {
  struct env *env;     /* whose memory it is */
  char *base, *result; /* a block of them with its zeros */
  char *words;
  char *planes;
  char *runs;
  ZSTD_CCtx *compressor;
  ZSTD_DCtx *decompressor;
  emb_err *err;
};
/* With a decompressor, or with a compressor.  After an error: diff__close. */
int diff__open(struct diff_work *w, uint32_t width, int decompresses);
void diff__close(struct diff_work *w);
int diff__out_of_memory(const struct diff_work *w);
/* n bytes from `offset` on, followed by zeros: where they are, or a copy in
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

/* n bytes with runs of equal ones counted, in fewer than n bytes at `to`, which
** has room for n; returns how many.  0: they are not fewer. */
size_t diff__runs(const char *from, size_t n, char *to);
/* And back: exactly room bytes at `to`; 0: they are not. */
int diff__spread(const char *from, size_t n, char *to, size_t room);

#endif
