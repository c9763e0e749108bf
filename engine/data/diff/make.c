/* SPDX-License-Identifier: MIT
**
** make.c -- emb_diff: writes a difference; see diff.h.
*/
#include "engine/data/emb_data.h"
#include "diff.h"

#include <zstd_errors.h>

static int make_check(const emb_diff_how *how, emb_err *err) {
  uint32_t width = how->width;
  if (how->op != EMB_DIFF_SUB && how->op != EMB_DIFF_XOR) {
    return err_set(err, EMB_RANGE, "there is no operator %d", how->op);
  }
  if (width != 1 && width != 2 && width != 4 && width != 8) {
    return err_set(
        err, EMB_RANGE,
        "elements of %u bytes are not supported; expected 1, 2, 4 or 8", width);
  }
  return how->level >= 0 && how->level <= DIFF_LEVEL_MAX
             ? EMB_OK
             : err_set(err, EMB_RANGE,
                       "level %d is not supported; expected 0 to %d",
                       how->level, DIFF_LEVEL_MAX);
}

size_t emb_diff_room(const emb_diff_how *how, size_t n) {
  if (make_check(how, NULL)) {
    return 0;
  }
  struct diff_form form =
      diff__form(how->op, how->width, how->split_exponent, n);
  return sizeof(struct diff_head) + (size_t)form.elements * form.width +
         (size_t)form.blocks * form.parts * sizeof(struct diff_part);
}

/* Compresses n bytes to `to`; *stored: their size, or n if that is not less. */
static int make_compress(struct diff_work *w, int level, const char *from,
                         size_t n, char *to, size_t *stored) {
  size_t got = ZSTD_compressCCtx(w->compressor, to, n - 1, from, n, level);
  *stored = n;
  if (!ZSTD_isError(got)) {
    *stored = got;
  } else if (ZSTD_getErrorCode(got) == ZSTD_error_memory_allocation) {
    return diff__out_of_memory(w);
  }
  return EMB_OK;
}

/* Writes the part of n raw bytes to *to, and advances *to past it. */
static int make_part(struct diff_work *w, const emb_diff_how *how,
                     const char *raw, size_t n, char **to) {
  struct diff_part part = {0};
  char *at = *to + sizeof part;
  size_t runs = how->rle ? diff__runs(raw, n, w->runs) : 0;
  const char *from = runs ? w->runs : raw;
  size_t size = runs ? runs : n, stored = size;
  /* 16 bytes or fewer cannot be compressed further. */
  if (how->level && size > 16) {
    int rc = make_compress(w, how->level, from, size, at, &stored);
    if (rc) {
      return rc;
    }
  }
  if (stored == size) {
    memcpy(at, from, size);
  }
  part.stored_bytes = (uint32_t)stored;
  part.run_bytes = (uint32_t)runs;
  memcpy(*to, &part, sizeof part);
  *to = at + stored;
  return EMB_OK;
}

static int make_block(struct diff_work *w, const emb_diff_how *how,
                      const struct diff_form *form, size_t n, char **to) {
  const char *at = w->words;
  size_t part = n * form->width / form->parts;
  int rc = EMB_OK;
  if (form->parts > 1) {
    (void)block_planes(w->words, 0, 1, n, form->width, w->planes);
    at = w->planes;
  }
  for (uint32_t i = 0; i < form->parts && rc == EMB_OK; i++, at += part) {
    rc = make_part(w, how, at, part, to);
  }
  return rc;
}

int diff__make(struct diff_work *w, const emb_diff_how *how,
               const emb_bytes *base, const emb_bytes *result, char *to,
               size_t *bytes) {
  struct diff_form form =
      diff__form(how->op, how->width, how->split_exponent, result->n);
  struct diff_head head = {.magic = DIFF_MAGIC,
                           .format = DIFF_FORMAT,
                           .op = (uint8_t)how->op,
                           .width = (uint8_t)how->width,
                           .split_exponent = how->split_exponent != 0,
                           .base_bytes = base->n,
                           .result_bytes = result->n};
  char *at = to + sizeof head;
  int rc = diff__open(w, how->width, 0);
  emb_check(diff__form_valid(&form));
  for (uint64_t i = 0; i < form.blocks && rc == EMB_OK; i++) {
    uint64_t offset = i * DIFF_ELEMENTS * form.width;
    size_t n = diff_block_elements(&form, i), size = n * form.width;
    if (how->interrupted && how->interrupted(how->arg)) {
      return err_set(w->err, EMB_INTERRUPT, "interrupted");
    }
    diff__fold(&form, diff__piece(base, offset, size, w->base),
               diff__piece(result, offset, size, w->result), n, w->words);
    rc = make_block(w, how, &form, n, &at);
  }
  if (rc) {
    return rc;
  }
  head.base_sum = XXH3_64bits(base->at, base->n);
  head.result_sum = XXH3_64bits(result->at, result->n);
  head.bytes = *bytes = (size_t)(at - to);
  head.sum = diff__sum(&head, to + sizeof head, *bytes - sizeof head);
  memcpy(to, &head, sizeof head);
  return EMB_OK;
}

int emb_diff(const emb_diff_how *how, const emb_bytes *base,
             const emb_bytes *result, void *difference, size_t *bytes,
             emb_err *err) {
  struct diff_work w = {.env = &env_posix, .err = err};
  int rc = make_check(how, err);
  if (rc) {
    return rc;
  }
  rc = diff__make(&w, how, base, result, difference, bytes);
  diff__close(&w);
  return rc;
}
