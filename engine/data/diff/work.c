/* SPDX-License-Identifier: MIT
**
** work.c -- code shared by making and applying a difference: sizes, memory, the
** checksum.
*/
#include "engine/data/emb_data.h"
#include "diff.h"

uint64_t diff__sum(const struct diff_head *head, const void *body, size_t n) {
  return XXH3_64bits_withSeed(
      body, n, XXH3_64bits(head, offsetof(struct diff_head, sum)));
}

struct diff_form diff__form(int op, uint32_t width, int split_exponent,
                            uint64_t bytes) {
  uint64_t elements = bytes / width + (bytes % width != 0);
  return (struct diff_form){.op = op,
                            .width = width,
                            .parts = split_exponent ? width : 1,
                            .bytes = bytes,
                            .elements = elements,
                            .blocks = elements / DIFF_ELEMENTS +
                                      (elements % DIFF_ELEMENTS != 0)};
}

int diff__out_of_memory(const struct diff_work *w) {
  return err_set(w->err, EMB_NOMEM, "no memory for a block of a difference");
}

static char *work_room(struct diff_work *w, uint32_t width) {
  return w->env->allocate(w->env, (size_t)DIFF_ELEMENTS * width);
}

int diff__open(struct diff_work *w, uint32_t width, int decompresses) {
  ZSTD_customMem memory = {block_allocate, block_release, w->env};
  emb_assert(!w->base && !w->compressor && !w->decompressor);
  w->base = work_room(w, width);
  w->result = work_room(w, width);
  w->words = work_room(w, width);
  w->planes = work_room(w, width);
  w->runs = work_room(w, width);
  if (decompresses) {
    w->decompressor = ZSTD_createDCtx_advanced(memory);
  } else {
    w->compressor = ZSTD_createCCtx_advanced(memory);
  }
  return w->base && w->result && w->words && w->planes && w->runs &&
                 (w->compressor || w->decompressor)
             ? EMB_OK
             : diff__out_of_memory(w);
}

void diff__close(struct diff_work *w) {
  w->env->release(w->env, w->base);
  w->env->release(w->env, w->result);
  w->env->release(w->env, w->words);
  w->env->release(w->env, w->planes);
  w->env->release(w->env, w->runs);
  ZSTD_freeCCtx(w->compressor);
  ZSTD_freeDCtx(w->decompressor);
}

const char *diff__piece(const emb_bytes *bytes, uint64_t offset, size_t n,
                        char *room) {
  size_t there = offset < bytes->n ? bytes->n - (size_t)offset : 0;
  if (there >= n) {
    return (const char *)bytes->at + offset;
  }
  if (there > 0) {
    memcpy(room, (const char *)bytes->at + offset, there);
  }
  memset(room + there, 0, n - there);
  return room;
}
