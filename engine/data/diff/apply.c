/* SPDX-License-Identifier: MIT
**
** apply.c -- emb_patch: reads a difference, which may be hostile; see diff.h.
*/
#include "engine/data/emb_data.h"
#include "diff.h"

#include "engine/base/seed.h"

static int apply_damaged(emb_err *err, const char *what) {
  return err_set(err, EMB_CORRUPT, "the difference is damaged: %s", what);
}

/* Checks that the bytes are an undamaged difference. */
static int apply_whole(const emb_bytes *difference, struct diff_head *head,
                       emb_err *err) {
  if (difference->n < sizeof head->magic ||
      memcmp(difference->at, DIFF_MAGIC, sizeof head->magic) != 0) {
    return err_set(err, EMB_NOTADB, "this is not a difference made by emb");
  }
  if (difference->n < sizeof *head) {
    return apply_damaged(err, "its head is truncated");
  }
  memcpy(head, difference->at, sizeof *head);
  if (head->format > DIFF_FORMAT) {
    return err_set(err, EMB_NOTADB,
                   "the difference has format %u, and this emb %s reads format "
                   "%u; apply it with the newer emb that made it",
                   head->format, EMB_VERSION, DIFF_FORMAT);
  }
  if (head->bytes != difference->n) {
    return err_set(
        err, EMB_CORRUPT,
        "the difference is damaged: it has %zu bytes; its head says %llu",
        difference->n, (unsigned long long)head->bytes);
  }
  return head->sum == diff__sum(head,
                                (const char *)difference->at + sizeof *head,
                                difference->n - sizeof *head)
             ? EMB_OK
             : apply_damaged(err, "its checksum is wrong");
}

/* Checks the head, because the writer need not have been emb. */
static int apply_head(const struct diff_head *head, emb_err *err) {
  uint32_t width = head->width;
  uint64_t body = head->bytes - sizeof *head, least;
  if (head->format != DIFF_FORMAT ||
      (head->op != EMB_DIFF_SUB && head->op != EMB_DIFF_XOR) ||
      (width != 1 && width != 2 && width != 4 && width != 8) ||
      head->split_exponent > 1 || head->zero) {
    return apply_damaged(err, "its head has impossible values");
  }
  struct diff_form form =
      diff__form(head->op, width, head->split_exponent, head->result_bytes);
  least = (sizeof(struct diff_part) + 1) * form.parts;
  if (form.blocks > body / least) {
    return err_set(err, EMB_CORRUPT,
                   "the difference is damaged: %llu bytes cannot describe a "
                   "result of %llu bytes",
                   (unsigned long long)head->bytes,
                   (unsigned long long)head->result_bytes);
  }
  return EMB_OK;
}

int emb_diff_read(const emb_bytes *difference, emb_diff_head *out,
                  emb_err *err) {
  struct diff_head head;
  int rc = apply_whole(difference, &head, err);
  if (rc == EMB_OK) {
    rc = apply_head(&head, err);
  }
  if (rc == EMB_OK) {
    *out = (emb_diff_head){.base_bytes = head.base_bytes,
                           .base_sum = head.base_sum,
                           .result_bytes = head.result_bytes,
                           .result_sum = head.result_sum,
                           .op = head.op,
                           .width = head.width,
                           .split_exponent = head.split_exponent};
  }
  return rc;
}

static int apply_base(const emb_diff_head *head, const emb_bytes *base,
                      emb_err *err) {
  if (head->base_bytes != base->n) {
    return err_set(
        err, EMB_MISMATCH,
        "the base has %zu bytes, and the difference was made from one of %llu",
        base->n, (unsigned long long)head->base_bytes);
  }
  return head->base_sum == XXH3_64bits(base->at, base->n) ||
                 EMB_SEED(SEED_DIFFERENCE_BASE_UNCHECKED)
             ? EMB_OK
             : err_set(err, EMB_MISMATCH,
                       "the difference was made from another base: the "
                       "checksums differ");
}

/* ---- blocks -------------------------------------------------------------- */

/* The unread rest of the difference. */
struct apply_rest {
  const char *at, *end;
};

/* Decodes the next part, n raw bytes, to `to`. */
static int apply_part(struct diff_work *w, struct apply_rest *rest, size_t n,
                      char *to) {
  struct diff_part part;
  if ((size_t)(rest->end - rest->at) < sizeof part) {
    return apply_damaged(w->err, "it ends early");
  }
  memcpy(&part, rest->at, sizeof part);
  rest->at += sizeof part;
  size_t size = part.run_bytes ? part.run_bytes : n;
  if (part.stored_bytes > (size_t)(rest->end - rest->at) || size > n ||
      part.stored_bytes > size || part.stored_bytes == 0) {
    return apply_damaged(w->err, "the sizes of a part");
  }
  const char *from = rest->at;
  rest->at += part.stored_bytes;
  if (part.stored_bytes < size) {
    char *into = part.run_bytes ? w->runs : to;
    if (ZSTD_decompressDCtx(w->decompressor, into, size, from,
                            part.stored_bytes) != size) {
      return apply_damaged(w->err, "what was compressed");
    }
    from = into;
  }
  if (part.run_bytes && !diff__spread(from, size, to, n)) {
    return apply_damaged(w->err, "the runs of a part");
  }
  if (from != to && !part.run_bytes) {
    memcpy(to, from, n);
  }
  return EMB_OK;
}

static int apply_block(struct diff_work *w, const struct diff_form *form,
                       struct apply_rest *rest, size_t n) {
  char *at = form->parts > 1 ? w->planes : w->words;
  size_t part = n * form->width / form->parts;
  int rc = EMB_OK;
  for (uint32_t i = 0; i < form->parts && rc == EMB_OK; i++, at += part) {
    rc = apply_part(w, rest, part, at);
  }
  if (rc == EMB_OK && form->parts > 1) {
    (void)block_rows(w->planes, 1, n, form->width, w->words, 0);
  }
  return rc;
}

int diff__apply(struct diff_work *w, const emb_bytes *base,
                const emb_bytes *difference, char *result,
                int (*interrupted)(void *), void *arg) {
  emb_diff_head head;
  struct apply_rest rest = {(const char *)difference->at +
                                sizeof(struct diff_head),
                            (const char *)difference->at + difference->n};
  int rc = emb_diff_read(difference, &head, w->err);
  rc = rc ? rc : apply_base(&head, base, w->err);
  rc = rc ? rc : diff__open(w, head.width, 1);
  if (rc) {
    return rc;
  }
  struct diff_form form =
      diff__form(head.op, head.width, head.split_exponent, head.result_bytes);
  emb_check(diff__form_valid(&form));
  for (uint64_t i = 0; i < form.blocks && rc == EMB_OK; i++) {
    uint64_t offset = i * DIFF_ELEMENTS * form.width;
    size_t n = diff_block_elements(&form, i), size = n * form.width;
    size_t left = (size_t)(form.bytes - offset);
    if (interrupted && interrupted(arg)) {
      return err_set(w->err, EMB_INTERRUPT, "interrupted");
    }
    rc = apply_block(w, &form, &rest, n);
    if (rc == EMB_OK) {
      diff__unfold(&form, diff__piece(base, offset, size, w->base), w->words, n,
                   w->result);
      memcpy(result + offset, w->result, left < size ? left : size);
    }
  }
  if (rc == EMB_OK && rest.at != rest.end) {
    rc = apply_damaged(w->err, "bytes after its last block");
  }
  if (rc == EMB_OK &&
      head.result_sum != XXH3_64bits(result, (size_t)form.bytes)) {
    rc = apply_damaged(w->err, "the checksum of the result is wrong");
  }
  return rc;
}

int emb_patch(const emb_bytes *base, const emb_bytes *difference, void *result,
              int (*interrupted)(void *), void *arg, emb_err *err) {
  struct diff_work w = {.env = &env_posix, .err = err};
  int rc = diff__apply(&w, base, difference, result, interrupted, arg);
  diff__close(&w);
  return rc;
}
