/* SPDX-License-Identifier: MIT
**
** fuzz.h -- the frame of all fuzzers.
**
** A fuzzer is one .c file with the function below.  It is linked with
** libFuzzer (`make fuzz`), or with replay.c, which runs it on its corpus as a
** test.  Conditions that must hold are checked with FUZZ_CHECK; a crash, a
** sanitizer's report and an input that takes longer than a few seconds are
** findings, too.
**
** CHECKSUMS A fuzzer of files computes them after it has damaged the content,
**           if the input says so: otherwise no code behind the checks would
**           be reached.
*/
#ifndef EMB_FUZZ_H
#define EMB_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(expr)                                                       \
  ((expr) ? (void)0                                                            \
          : (printf("%s:%d: %s\n", __FILE__, __LINE__, #expr), abort()))

/* The input, read from its beginning; zeros follow its end. */
struct fuzz_input {
  const uint8_t *at;
  size_t left;
};

static inline uint8_t fuzz_byte(struct fuzz_input *in) {
  if (in->left == 0)
    return 0;
  in->left--;
  return *in->at++;
}

static inline uint64_t fuzz_bytes(struct fuzz_input *in, int n) {
  uint64_t value = 0;
  for (int i = 0; i < n; i++)
    value |= (uint64_t)fuzz_byte(in) << (8 * i);
  return value;
}

/* A number that is often small and sometimes extreme. */
static inline uint64_t fuzz_number(struct fuzz_input *in) {
  uint8_t how = fuzz_byte(in);
  if (how < 192)
    return how;
  if (how < 240)
    return fuzz_bytes(in, 1 + how % 8);
  return how < 248 ? UINT64_MAX >> (how % 8 * 8)
                   : (UINT64_C(1) << (fuzz_byte(in) % 64)) - how % 2;
}

#endif
