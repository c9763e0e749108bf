/* SPDX-License-Identifier: MIT
**
** diff.c -- fuzzes differences (engine/data/diff): from any bytes emb_patch
** makes a result with the checksum that the difference states, or an error;
** and the difference that emb_diff makes of two inputs is patched to the
** second, bit by bit.
**
** INPUT     byte 0  bits 0-1: 0, 1: two inputs; 2: a difference as it is;
**                   3: one whose checksums are made right
**           bytes 1-2  the length of the base, which follows
**           two inputs:  byte: bit 0: the operator; 1-2: the width;
**                   3: exponents apart; 4: runs; 5-6: the level; then the
**                   result
**           a difference:  the rest; of one that is made right 13 bytes of the
**                   head (op, width, split_exponent, zero; result_bytes; bit 0
**                   of the last byte: the result's checksum is not known), and
**                   what follows the head
*/
#include "engine/data/emb_data.h"
#include "fuzz.h"

#include "engine/data/diff/diff.h"

enum { RESULT_MAX = 1 << 20, HEAD_BYTES = 13 };

/* Exactly this long, so that a sanitizer sees any access beyond its end. */
static uint8_t *empty(size_t n) {
  uint8_t *to = calloc(1, n ? n : 1);
  FUZZ_CHECK(to != NULL);
  return to;
}

static uint8_t *copy(const uint8_t *at, size_t n) {
  uint8_t *to = empty(n);
  if (n > 0)
    memcpy(to, at, n);
  return to;
}

static void two_inputs(struct fuzz_input *in, const emb_bytes *base) {
  static const int levels[] = {0, 1, 3, 12};
  uint8_t bits = fuzz_byte(in);
  emb_diff_how how = {.op = bits & 1 ? EMB_DIFF_XOR : EMB_DIFF_SUB,
                      .width = 1u << (bits >> 1 & 3),
                      .split_exponent = bits >> 3 & 1,
                      .rle = bits >> 4 & 1,
                      .level = levels[bits >> 5 & 3]};
  uint8_t *result = copy(in->at, in->left), *back = empty(in->left);
  emb_bytes to = {result, in->left}, difference;
  emb_err err;
  size_t n = 0;
  uint8_t *room = malloc(emb_diff_room(&how, to.n));
  FUZZ_CHECK(room && emb_diff(&how, base, &to, room, &n, &err) == EMB_OK);
  FUZZ_CHECK(n <= emb_diff_room(&how, to.n));
  difference = (emb_bytes){copy(room, n), n};
  FUZZ_CHECK(emb_patch(base, &difference, back, NULL, NULL, &err) == EMB_OK);
  FUZZ_CHECK(to.n == 0 || memcmp(back, result, to.n) == 0);
  free((void *)(uintptr_t)difference.at);
  free(room);
  free(back);
  free(result);
}

/* A head that is right except for the fields given by the input. */
static uint8_t *made_right(struct fuzz_input *in, const emb_bytes *base,
                           size_t *n, int *any_result) {
  struct diff_head head = {.magic = DIFF_MAGIC, .format = DIFF_FORMAT};
  uint8_t said[HEAD_BYTES] = {0};
  size_t have = in->left < HEAD_BYTES ? in->left : HEAD_BYTES;
  memcpy(said, in->at, have);
  head.op = said[0];
  head.width = said[1];
  head.split_exponent = said[2];
  head.zero = said[3];
  memcpy(&head.result_bytes, said + 4, 8);
  *any_result = said[12] & 1;
  head.base_bytes = base->n;
  head.base_sum = XXH3_64bits(base->at, base->n);
  const uint8_t *body = in->at + have;
  size_t left = in->left - have;
  *n = head.bytes = sizeof head + left;
  head.sum = diff__sum(&head, body, left);
  uint8_t *to = empty(*n);
  memcpy(to, &head, sizeof head);
  memcpy(to + sizeof head, body, left);
  return to;
}

/* Patches again with the checksum of the result: then it is right. */
static void with_its_sum(const emb_bytes *base, uint8_t *difference, size_t n,
                         uint8_t *result) {
  struct diff_head head;
  emb_bytes said = {difference, n};
  emb_err err;
  memcpy(&head, difference, sizeof head);
  head.result_sum = XXH3_64bits(result, (size_t)head.result_bytes);
  head.sum = diff__sum(&head, difference + sizeof head, n - sizeof head);
  memcpy(difference, &head, sizeof head);
  FUZZ_CHECK(emb_patch(base, &said, result, NULL, NULL, &err) == EMB_OK);
}

static void a_difference(struct fuzz_input *in, const emb_bytes *base,
                         int is_made_right) {
  size_t n = in->left;
  int any_result = 0;
  uint8_t *difference =
      is_made_right ? made_right(in, base, &n, &any_result) : copy(in->at, n);
  emb_bytes said = {difference, n};
  emb_diff_head head;
  emb_err err = {0, ""};
  int rc = emb_diff_read(&said, &head, &err);
  FUZZ_CHECK(rc == EMB_OK ||
             ((rc == EMB_NOTADB || rc == EMB_CORRUPT) && err.text[0]));
  if (rc == EMB_OK && head.result_bytes <= RESULT_MAX) {
    uint8_t *result = empty((size_t)head.result_bytes);
    rc = emb_patch(base, &said, result, NULL, NULL, &err);
    FUZZ_CHECK(rc == EMB_OK ||
               ((rc == EMB_MISMATCH || rc == EMB_CORRUPT) && err.text[0]));
    if (rc == EMB_OK)
      FUZZ_CHECK(XXH3_64bits(result, (size_t)head.result_bytes) ==
                 head.result_sum);
    else if (any_result && strstr(err.text, "checksum of the result"))
      with_its_sum(base, difference, n, result);
    free(result);
  }
  free(difference);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_input in = {data, size};
  unsigned how = fuzz_byte(&in) & 3;
  size_t n = (size_t)fuzz_bytes(&in, 2);
  n = n < in.left ? n : in.left;
  uint8_t *base = copy(in.at, n);
  emb_bytes of = {base, n};
  in.at += n;
  in.left -= n;
  if (how < 2)
    two_inputs(&in, &of);
  else
    a_difference(&in, &of, how == 3);
  free(base);
  return 0;
}
