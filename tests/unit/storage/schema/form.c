/* SPDX-License-Identifier: MIT
**
** form.c -- tests of engine/storage/schema/form.c: values read back from a
** file's rows exactly or within the documented bound, and schemas that do not
** fit are refused.
*/
#include "test.h"

#include "engine/storage/schema/form.h"
#include "quant_help.h"

#include <math.h>

enum { VALUE_MAX = 16384, DIM_MAX = 300 };

static struct schema a, b;
static struct pack_head head;
static struct form out, in;
static emb_err err;
static float scratch[EMB_DIM_MAX];

static float number(void) {
  return (float)((double)test_below(2000001) / 1000000 - 1) *
         (float)pow(10, (int)test_below(4) - 2);
}

static int make(struct schema *schema, const char *optimizer, uint32_t track,
                uint32_t d0, uint32_t t0, uint32_t d1, uint32_t t1) {
  emb_segment segments[2] = {{d0, t0, optimizer, NULL, NULL, NULL},
                             {d1, t1, NULL, NULL, NULL, NULL}};
  emb_config config = {
      .segments = segments, .segment_count = d1 ? 2 : 1, .track = track};
  return CHECK_EQ_INT(schema_init(schema, &config, &err), EMB_OK);
}

static void fill(const struct schema *schema, void *value) {
  static float row[EMB_DIM_MAX];
  memset(value, 0, VALUE_MAX);
  for (uint32_t i = 0; i < schema->dim; i++)
    row[i] = number();
  schema_encode(schema, &vec_scalar, value, row, 0);
  for (uint32_t i = 0; i < schema->state_floats; i++) {
    float x = number();
    memcpy((char *)value + schema->state_at + 4 * i, &x, 4);
  }
  if (schema_tracks(schema))
    schema_set_track(schema, value,
                     (emb_track){test_below(1000), test_below(1000)});
}

static int begin(uint32_t encoding, uint32_t state) {
  struct pack_options options = {.encoding = encoding, .state = state};
  memset(&head, 0, sizeof head);
  return CHECK_EQ_INT(form_write(&out, &a, &vec_scalar, &options, &head, &err),
                      EMB_OK) &&
         CHECK_EQ_INT(form_read(&in, &b, &vec_scalar, &head, "file", &err),
                      EMB_OK);
}

/* Encodes `from` to a row of the file, and decodes the row to `to`. */
static void there_and_back(void *from, void *to) {
  static char row[VALUE_MAX];
  fill(&a, from);
  memset(to, 0, VALUE_MAX);
  CHECK_EQ_INT(form_encode(&out, from, row, scratch), EMB_OK);
  CHECK_EQ_INT(form_decode(&in, row, to, scratch), EMB_OK);
}

TEST(exact_to_the_bit) {
  static char from[VALUE_MAX], to[VALUE_MAX];
  for (int i = 0; i < 300; i++) {
    make(&a, test_below(2) ? "adam" : "none",
         test_below(2) ? EMB_TRACK_WALL : EMB_TRACK_NONE,
         1 + test_below(DIM_MAX), test_below(2), test_below(DIM_MAX),
         test_below(2));
    b = a;
    if (begin(QUANT_F32, 1)) {
      there_and_back(from, to);
      CHECK(memcmp(from, to, VALUE_MAX) == 0);
    }
  }
}

/* The error bound, from the extremes of the elements that share a scale. */
static double bound(uint32_t encoding, const float *x, uint32_t dim,
                    uint32_t i) {
  uint32_t from = encoding == QUANT_INT4 ? i / QUANT_GROUP * QUANT_GROUP : 0;
  uint32_t to = encoding == QUANT_INT4 ? from + QUANT_GROUP : dim;
  float low = x[from], high = x[from];
  for (uint32_t j = from; j < to && j < dim; j++) {
    low = fminf(low, x[j]);
    high = fmaxf(high, x[j]);
  }
  return quant_error_max((enum quant_type)encoding, low, high);
}

TEST(quantised_within_the_bound) {
  static char from[VALUE_MAX], to[VALUE_MAX];
  static float x[EMB_DIM_MAX], y[EMB_DIM_MAX];
  uint64_t elements = 0;
  double worst[4] = {0};
  for (int i = 0; i < 400; i++) {
    uint32_t encoding = 1 + (uint32_t)i % 3, half = i / 3 % 2 ? EMB_F16 : 0;
    uint32_t d = 1 + test_below(DIM_MAX);
    make(&a, "adagrad", EMB_TRACK_DATA, d, half, 0, 0);
    b = a;
    if (!begin(encoding, 1))
      return;
    there_and_back(from, to);
    CHECK(memcmp(from + a.state_at, to + a.state_at, VALUE_MAX - a.state_at) ==
          0);
    schema_decode(&a, &vec_scalar, x, from);
    schema_decode(&a, &vec_scalar, y, to);
    for (uint32_t k = 0; k < d; k++, elements++) {
      double most = bound(encoding, x, d, k);
      if (half)
        most += (fabs((double)x[k]) + most) / 1024 + 6e-8;
      double error = fabs((double)x[k] - (double)y[k]);
      CHECK(error <= most);
      if (!half && most > 0)
        worst[encoding] = fmax(worst[encoding], error / most);
    }
  }
  CHECK(worst[1] > 0.3 && worst[2] > 0.5 && worst[3] > 0.5);
  test_count("elements quantised", elements);
}

TEST(tables_that_take_it_and_those_that_do_not) {
  static char from[VALUE_MAX], to[VALUE_MAX];
  make(&a, "adagrad", EMB_TRACK_WALL, 7, 0, 3, EMB_F16);
  make(&b, "none", EMB_TRACK_NONE, 7, 0, 3, EMB_F16);
  CHECK(begin(QUANT_F32, 1)); /* a serving copy drops values it does not need */
  there_and_back(from, to);
  CHECK(memcmp(from, to, 28 + 6) == 0);
  make(&b, "adam", EMB_TRACK_WALL, 7, 0, 3, EMB_F16);
  CHECK(begin(QUANT_F32, 0)); /* no state: another optimizer starts fresh */
  there_and_back(from, to);
  schema_initial_state(&b, from, scratch, 0, 0);
  CHECK(memcmp(from, to, b.track_at) == 0);
  const struct pack_options with_state = {.state = 1};
  CHECK_EQ_INT(form_write(&out, &a, &vec_scalar, &with_state, &head, &err),
               EMB_OK);
  CHECK_EQ_INT(form_read(&in, &b, &vec_scalar, &head, "file", &err),
               EMB_MISMATCH);
  CHECK(strstr(err.text, "adagrad") && strstr(err.text, "adam("));
  make(&b, "adagrad", EMB_TRACK_WALL, 8, 0, 3, EMB_F16);
  CHECK_EQ_INT(form_read(&in, &b, &vec_scalar, &head, "file", &err),
               EMB_MISMATCH);
  CHECK(strstr(err.text, "FLOAT[7], FLOAT16[3]") && strstr(err.text, "[8]"));
  head.columns[0].bytes += 4;
  CHECK_EQ_INT(form_read(&in, &a, &vec_scalar, &head, "file", &err),
               EMB_CORRUPT);
  head.columns[0].bytes -= 4;
  head.encoding = 4;
  CHECK_EQ_INT(form_read(&in, &a, &vec_scalar, &head, "file", &err),
               EMB_CORRUPT);
}

TEST(what_cannot_be_encoded) {
  static char value[VALUE_MAX], row[VALUE_MAX];
  float big[2] = {1, 70000};
  make(&a, "none", 0, 2, 0, 0, 0);
  b = a;
  begin(QUANT_F16, 0);
  memcpy(value, big, sizeof big);
  CHECK_EQ_INT(form_encode(&out, value, row, scratch), EMB_NONFINITE);
  begin(QUANT_F32, 0);
  big[1] = INFINITY;
  memcpy(row, big, sizeof big);
  CHECK(form_decode(&in, row, value, scratch) == EMB_CORRUPT);
}
