/* SPDX-License-Identifier: MIT
**
** block.c -- see block.h, and pack.h about sizes.
*/
#include "block.h"

uint32_t pack_value_bytes(const struct pack_head *head) {
  uint32_t bytes = 0;
  for (uint32_t i = 0; i < head->column_count; i++) {
    bytes += head->columns[i].bytes;
  }
  return bytes;
}

uint32_t pack_block_rows(uint32_t value_bytes) {
  uint32_t n = PACK_BLOCK_TARGET / (ROW_BYTES + value_bytes);
  return n ? n : 1;
}

/* The width that nearly all bytes have gets a loop of its own. */
static void split4(const char *row, size_t elements, char *to, size_t plane) {
  for (size_t e = 0; e < elements; e++) {
    uint32_t word;
    memcpy(&word, row + e * 4, 4);
    to[e] = (char)word;
    to[plane + e] = (char)(word >> 8);
    to[plane * 2 + e] = (char)(word >> 16);
    to[plane * 3 + e] = (char)(word >> 24);
  }
}

static void join4(const char *from, size_t plane, size_t elements, char *row) {
  const uint8_t *at = (const uint8_t *)from;
  for (size_t e = 0; e < elements; e++) {
    uint32_t word = at[e] | (uint32_t)at[plane + e] << 8 |
                    (uint32_t)at[plane * 2 + e] << 16 |
                    (uint32_t)at[plane * 3 + e] << 24;
    memcpy(row + e * 4, &word, 4);
  }
}

char *block_planes(const char *rows, size_t stride, size_t n, size_t elements,
                   uint32_t width, char *to) {
  size_t plane = n * elements;
  for (size_t r = 0; r < n; r++, rows += stride) {
    char *at = to + r * elements;
    if (width == 1) {
      memcpy(at, rows, elements);
    } else if (width == 4) {
      split4(rows, elements, at, plane);
    } else {
      for (size_t i = 0; i < elements * width; i++) {
        at[i % width * plane + i / width] = rows[i];
      }
    }
  }
  return to + plane * width;
}

const char *block_rows(const char *from, size_t n, size_t elements,
                       uint32_t width, char *rows, size_t stride) {
  size_t plane = n * elements;
  for (size_t r = 0; r < n; r++, rows += stride) {
    const char *at = from + r * elements;
    if (width == 1) {
      memcpy(rows, at, elements);
    } else if (width == 4) {
      join4(at, plane, elements, rows);
    } else {
      for (size_t i = 0; i < elements * width; i++) {
        rows[i] = at[i % width * plane + i / width];
      }
    }
  }
  return from + plane * width;
}
