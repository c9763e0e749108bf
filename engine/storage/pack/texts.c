/* SPDX-License-Identifier: MIT
**
** texts.c -- writing and reading the texts of a pack (pack.h): a stream of
**
**   length, 4 bytes | bytes | length | bytes | ...
**
** cut into blocks of PACK_TEXTS_BYTES.  Callers add texts to a file of rows or
** read such a file (backup/texts.c, backup/file.c); a store's own calls only
** check the texts.
**
** READING    A length is trusted only as far as bytes arrive: memory for a text
**            grows with the bytes read, so a corrupt length gives an error and
**            does not allocate gigabytes.  Each block says how many texts begin
**            in it, and the end of the file gives the number of bytes.
** MEMORY     A block in two forms, and the longest text.
** THREADS    The writer's, the reader's.
*/
#include "engine/base/debug.h"
#include "read.h"
#include "write.h"

enum { LENGTH_BYTES = 4 };

static int texts_no_memory(emb_err *err) {
  return err_set(err, EMB_NOMEM, "out of memory");
}

/* ---- UTF-8 --------------------------------------------------------------- */

/* Returns the length of the character that begins here, or 0 if it is invalid.
** A lone surrogate is valid: SQLite makes such texts from JSON. */
static size_t texts_character(const uint8_t *at, size_t n) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  size_t bytes = at[0] < 0x80             ? 1
                 : (at[0] & 0xe0) == 0xc0 ? 2
                 : (at[0] & 0xf0) == 0xe0 ? 3
                 : (at[0] & 0xf8) == 0xf0 ? 4
                                          : 0;
  if (bytes < 2 || bytes > n) {
    return bytes == 1 ? 1 : 0;
  }
  uint32_t code = at[0] & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; i++) {
    if ((at[i] & 0xc0) != 0x80) {
      return 0;
    }
    code = code << 6 | (at[i] & 63u);
  }
  return code >= least[bytes] && code <= 0x10ffff ? bytes : 0;
}

static int texts_is_utf8(const char *text, size_t n) {
  const uint8_t *at = (const uint8_t *)text, *end = at + n;
  while (at < end) {
    uint64_t eight;
    if (end - at >= 8) {
      memcpy(&eight, at, sizeof eight);
      if (!(eight & UINT64_C(0x8080808080808080))) {
        at += 8;
        continue;
      }
    }
    size_t bytes = texts_character(at, (size_t)(end - at));
    if (!bytes) {
      return 0;
    }
    at += bytes;
  }
  return 1;
}

/* ---- writing ------------------------------------------------------------- */

static int texts_add_bytes(struct pack_writer *w, const char *from, size_t n,
                           emb_err *err) {
  int rc = EMB_OK;
  w->end.text_bytes += n;
  while (!rc && n) {
    size_t some = PACK_TEXTS_BYTES - w->texts_filled;
    some = some < n ? some : n;
    memcpy(w->texts + w->texts_filled, from, some);
    w->texts_filled += (uint32_t)some;
    from += some;
    n -= some;
    rc = w->texts_filled == PACK_TEXTS_BYTES ? write__texts(w, err) : EMB_OK;
  }
  return rc;
}

int pack_add_text(struct pack_writer *w, const struct pack_text *text,
                  emb_err *err) {
  uint32_t n = (uint32_t)text->n;
  int rc = EMB_OK;
  emb_assert(w->texts && !w->complete);
  if (text->n > PACK_TEXT_MAX || !texts_is_utf8(text->at, text->n)) {
    rc = err_set(err, EMB_RANGE,
                 "text %llu of the file is %s: a file cannot hold it",
                 (unsigned long long)w->text_count,
                 text->n > PACK_TEXT_MAX ? "too long" : "not UTF-8");
  }
  rc = rc ? rc : write__begin_texts(w, err);
  w->texts_begun += !rc;
  rc = rc ? rc : texts_add_bytes(w, (const char *)&n, sizeof n, err);
  rc = rc ? rc : texts_add_bytes(w, text->at, text->n, err);
  w->text_count += !rc;
  w->failed |= rc;
  emb_check_some(16, w->failed || pack_writer_valid(w));
  return rc;
}

int pack_copy_rows(struct pack_writer *w, struct pack_reader *from,
                   int (*stop)(void *), void *arg, emb_err *err) {
  int rc = EMB_OK;
  emb_assert(w->head.block_rows == from->head.block_rows);
  for (uint64_t b = 0; !rc && b < from->end.row_blocks; b++) {
    rc = stop && stop(arg) ? err_set(err, EMB_INTERRUPT, "interrupted")
                           : read__rows(from, b, err);
    struct pack_block block = from->block;
    rc = rc ? rc : write__block(w, &block, from->stored, err);
  }
  memcpy(w->end.rows, from->end.rows, sizeof w->end.rows);
  w->failed |= rc;
  return rc;
}

/* ---- reading ------------------------------------------------------------- */

static int texts_bad(const struct pack_reader *r, const char *what,
                     emb_err *err) {
  return read__bad(r, r->texts_offset, what, err);
}

/* Loads the next block.  EMB_CORRUPT if not all texts of the last block have
** begun. */
static int texts_load(struct pack_reader *r, emb_err *err) {
  uint64_t left = r->end.text_bytes - r->texts_block * PACK_TEXTS_BYTES;
  uint32_t want = left < PACK_TEXTS_BYTES ? (uint32_t)left : PACK_TEXTS_BYTES;
  struct pack_block block;
  if (r->texts_block == r->end.text_blocks || r->texts_begin) {
    return texts_bad(r, "number of texts", err);
  }
  r->texts_n = r->texts_at = 0;
  int rc = read__block(r,
                       &(struct read_request){
                           r->texts_offset, r->end.row_blocks + r->texts_block,
                           PACK_BYTES, r->stored, PACK_TEXTS_BYTES},
                       &block, err);
  if (rc) {
    return rc;
  }
  if (block.raw_bytes != want || block.stored_bytes > want || block.puts) {
    return texts_bad(r, "numbers of a block", err);
  }
  if (block.stored_bytes == want) {
    memcpy(r->texts, r->stored, want);
  } else if (ZSTD_decompressDCtx(r->zstd, r->texts, want, r->stored,
                                 block.stored_bytes) != want) {
    return texts_bad(r, "its compression", err);
  }
  r->texts_n = want;
  r->texts_begin = block.count;
  r->texts_block++;
  r->texts_offset += sizeof block + block.stored_bytes;
  return EMB_OK;
}

static int texts_take(struct pack_reader *r, char *to, size_t n, emb_err *err) {
  int rc = EMB_OK;
  while (!rc && n) {
    size_t some = r->texts_n - r->texts_at;
    some = some < n ? some : n;
    memcpy(to, r->texts + r->texts_at, some);
    r->texts_at += (uint32_t)some;
    to += some;
    n -= some;
    rc = n ? texts_load(r, err) : EMB_OK;
  }
  return rc;
}

/* Makes room for n bytes of the text. */
static int texts_widen(struct pack_reader *r, size_t n, emb_err *err) {
  if (n <= r->text_room) {
    return EMB_OK;
  }
  size_t room = n > 2 * r->text_room ? n : 2 * r->text_room;
  char *larger = r->env->resize(r->env, r->text, room);
  if (!larger) {
    return texts_no_memory(err);
  }
  r->text = larger;
  r->text_room = room;
  return EMB_OK;
}

static int texts_read(struct pack_reader *r, uint32_t n, emb_err *err) {
  int rc = EMB_OK;
  for (size_t at = 0; !rc && at < n;) {
    size_t some = n - at < PACK_TEXTS_BYTES ? n - at : PACK_TEXTS_BYTES;
    rc = texts_widen(r, at + some, err);
    rc = rc ? rc : texts_take(r, r->text + at, some, err);
    at += some;
  }
  return rc ? rc : texts_widen(r, 1, err); /* for an empty text, too */
}

/* Checks that nothing follows the last text. */
static int texts_end(struct pack_reader *r, emb_err *err) {
  return r->texts_at != r->texts_n || r->texts_begin ||
                 r->texts_block != r->end.text_blocks ||
                 r->texts_offset != r->end.index_offset
             ? texts_bad(r, "number of texts", err)
             : EMB_OK;
}

int pack_next_text(struct pack_reader *r, struct pack_text *text,
                   emb_err *err) {
  uint32_t n;
  *text = (struct pack_text){NULL, 0};
  if (!r->texts || r->text_count == r->rows) {
    return r->texts ? texts_end(r, err) : EMB_OK;
  }
  int rc = r->texts_at == r->texts_n ? texts_load(r, err) : EMB_OK;
  if (!rc && !r->texts_begin--) {
    r->texts_begin = 0;
    rc = texts_bad(r, "number of texts", err);
  }
  rc = rc ? rc : texts_take(r, (char *)&n, LENGTH_BYTES, err);
  if (!rc && n > r->end.text_bytes) {
    rc = texts_bad(r, "length of a text", err);
  }
  rc = rc ? rc : texts_read(r, n, err);
  if (!rc && !texts_is_utf8(r->text, n) && !EMB_SEED(SEED_FILE_TEXT_NOT_UTF8)) {
    rc = texts_bad(r, "a text is not UTF-8", err);
  }
  emb_check_some(16, pack_reader_valid(r));
  if (!rc) {
    r->text_count++;
    *text = (struct pack_text){r->text, n};
  }
  return rc;
}

int texts__verify(struct pack_reader *r, int (*stop)(void *), void *arg,
                  emb_err *err) {
  struct pack_text text = {"", 0};
  int rc = EMB_OK;
  pack_rewind_texts(r);
  while (!rc && text.at) {
    rc = r->text_count % 1024 == 0 && stop && stop(arg)
             ? err_set(err, EMB_INTERRUPT, "interrupted")
             : pack_next_text(r, &text, err);
  }
  pack_rewind_texts(r);
  return rc;
}
