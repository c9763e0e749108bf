/* SPDX-License-Identifier: MIT
**
** spans.c -- the places of a block's records: packed by the survey, decoded to
** find a record.
**
** FORM      bytes 0 to 7: the offset of the first record, little-endian; then,
**           for each record, the number of bytes to the next one, 7 bits to a
**           byte, low bits first, the highest bit set in all bytes but the
**           last: 2 bytes each for records of a few kilobytes.
*/
#include "engine/data/emb_data.h"
#include "samples.h"

#include <string.h>

static int samples_blocks_flush(struct samples_blocks *blocks, emb_err *err) {
  emb_samples_block *block = &blocks->block;
  if (block->records == 0) {
    return EMB_OK;
  }
  block->spans = blocks->spans ? blocks->bytes : NULL;
  if (blocks->ask->block && blocks->ask->block(blocks->ask->arg, block)) {
    return err_set(err, EMB_ABORT, "the caller ended the survey");
  }
  block->number++;
  block->records = 0;
  block->bytes = 0;
  block->least = block->most = 0;
  return EMB_OK;
}

static void samples_blocks_varint(struct samples_blocks *blocks,
                                  uint64_t value) {
  emb_samples_block *block = &blocks->block;
  for (; value > 127; value >>= 7) {
    blocks->bytes[block->bytes++] = (uint8_t)(value | 128);
  }
  blocks->bytes[block->bytes++] = (uint8_t)value;
}

/* Ends the record that has begun. */
static int samples_blocks_close(struct samples_blocks *blocks, uint64_t offset,
                                emb_err *err) {
  if (!blocks->begun) {
    return EMB_OK;
  }
  emb_assert(offset >= blocks->record);
  blocks->begun = 0;
  if (blocks->spans) {
    samples_blocks_varint(blocks, offset - blocks->record);
  }
  return blocks->block.records == EMB_SAMPLES_BLOCK
             ? samples_blocks_flush(blocks, err)
             : EMB_OK;
}

int samples__blocks_begin(struct samples_blocks *blocks, uint64_t offset,
                          emb_err *err) {
  int rc = samples_blocks_close(blocks, offset, err);
  if (!rc && blocks->spans && blocks->block.records == 0) {
    for (int i = 0; i < 8; i++) {
      blocks->bytes[i] = (uint8_t)(offset >> (8 * i));
    }
    blocks->block.bytes = 8;
  }
  blocks->begun = 1;
  blocks->record = offset;
  blocks->block.records++;
  blocks->found->records++;
  emb_check(rc || samples__blocks_valid(blocks));
  return rc;
}

static void samples_blocks_widen(int first, int64_t timestamp, int64_t *least,
                                 int64_t *most) {
  *least = first || timestamp < *least ? timestamp : *least;
  *most = first || timestamp > *most ? timestamp : *most;
}

void samples__blocks_time(struct samples_blocks *blocks, int64_t timestamp) {
  emb_assert(blocks->begun);
  samples_blocks_widen(blocks->block.records == 1, timestamp,
                       &blocks->block.least, &blocks->block.most);
  samples_blocks_widen(blocks->found->records == 1, timestamp,
                       &blocks->found->least, &blocks->found->most);
}

int samples__blocks_end(struct samples_blocks *blocks, uint64_t offset,
                        emb_err *err) {
  int rc = samples_blocks_close(blocks, offset, err);
  rc = rc ? rc : samples_blocks_flush(blocks, err);
  emb_check(rc || samples__blocks_valid(blocks));
  return rc;
}

/* Decodes the varint at *at; 0: there is none. */
static int samples_spans_read(const uint8_t **at, const uint8_t *end,
                              uint64_t *value) {
  *value = 0;
  for (int shift = 0; shift < 64 && *at < end; shift += 7) {
    uint8_t byte = *(*at)++;
    *value |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) {
      return 1;
    }
  }
  return 0;
}

int emb_samples_offsets(const emb_samples_block *block, uint64_t file_bytes,
                        uint64_t offsets[EMB_SAMPLES_BLOCK + 1], emb_err *err) {
  const uint8_t *at = block->spans, *end = at ? at + block->bytes : NULL;
  uint64_t offset = 0, span;
  int valid = block->bytes >= 8 && block->records <= EMB_SAMPLES_BLOCK;
  for (int i = 0; valid && i < 8; i++) {
    offset |= (uint64_t)*at++ << (8 * i);
  }
  for (uint32_t i = 0; valid && i < block->records; i++) {
    offsets[i] = offset;
    valid = offset <= file_bytes && samples_spans_read(&at, end, &span) &&
            span <= file_bytes - offset;
    offset += valid ? span : 0;
  }
  if (!valid || at != end) {
    return err_set(
        err, EMB_CORRUPT,
        "block %llu of a file of samples has impossible positions of records",
        (unsigned long long)block->number);
  }
  offsets[block->records] = offset;
  return EMB_OK;
}
