/* SPDX-License-Identifier: MIT
**
** distance.c -- tests of engine/math/vec/distance.c: every form against sums in
** long double, for all short dimensions, any address and stride of the rows,
** and random, adverse, tiny or huge values; no read goes beyond a row.
*/
#include "test.h"

#include "engine/emb.h"
#include "engine/math/vec/distance.h"
#include "engine/math/vec/vec.h"

#include <float.h>
#include <math.h>
#include <sys/mman.h>

enum { DIM_MAX = 65536, ROWS_MAX = 64, QUERIES_MAX = 70 };

/* ---- vectors ------------------------------------------------------------- */

/* Kinds of elements. */
enum kind {
  UNIFORM, /* -1 to 1 */
  SPREAD,  /* of many magnitudes: early terms of a sum are lost in later ones */
  SPARSE,  /* zeros of both signs, ones, few others */
  POSITIVE,
  TINY, /* around FLT_MIN, or of float16 */
  ZERO,
  KINDS
};

static float random_element(enum kind kind) {
  uint64_t bits = test_random();
  float unit = (float)(int64_t)bits * 0x1p-63f;
  switch (kind) {
  case UNIFORM:
    return unit;
  case SPREAD:
    return ldexpf(unit, (int)(bits % 24) - 14);
  case SPARSE:
    return bits & 1 ? unit : bits & 2 ? -0.0f : bits & 4 ? 1 : 0;
  case POSITIVE:
    return 1 + unit / 2;
  case TINY:
    return ldexpf(unit, bits & 1 ? -75 : -20 - (int)(bits % 128));
  default:
    return 0;
  }
}

/* Vectors at the end of a mapping, just before a page that cannot be read. */
struct guarded {
  char *mapping, *end;
  size_t bytes;
};

static struct guarded guarded_new(size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  struct guarded new = {.bytes = (bytes + 2 * page) / page * page};
  new.mapping = mmap(NULL, new.bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  new.end = new.mapping + new.bytes - page;
  if (new.mapping == MAP_FAILED || mprotect(new.end, page, PROT_NONE)) {
    perror("guarded_new");
    exit(2);
  }
  return new;
}

static void guarded_free(struct guarded *it) { munmap(it->mapping, it->bytes); }

struct data {
  size_t dim, n, queries;
  int type;
  struct guarded memory, query_memory;
  struct distance_rows rows;
  char *first;
  float *query; /* dim elements each, up to the end of their memory */
  float *row;   /* the same numbers as the rows */
};

/* `gap` bytes between the rows, which end `before` bytes before the guard. */
static struct data data_new(size_t dim, size_t n, size_t queries, int type,
                            size_t gap, size_t before) {
  size_t bytes = dim * (type == EMB_F16 ? 2 : 4);
  struct data new = {
      .dim = dim,
      .n = n,
      .queries = queries,
      .type = type,
      .memory = guarded_new(n * (bytes + gap) + before),
      .query_memory = guarded_new(queries * dim * sizeof(float)),
      .row = malloc((n + 1) * dim * sizeof(float)),
  };
  new.query = (float *)(void *)new.query_memory.end - queries *dim;
  new.rows.stride = bytes + gap;
  new.rows.n = n;
  new.first = new.memory.end - before - (n ? n * (bytes + gap) - gap : 0);
  new.rows.first = new.first;
  return new;
}

static void data_free(struct data *data) {
  guarded_free(&data->memory);
  guarded_free(&data->query_memory);
  free(data->row);
}

/* The gaps between the rows are NaN. */
static void data_set_row(struct data *data, size_t i, const float *from) {
  char *to = data->memory.end -
             ((const char *)data->memory.end - (const char *)data->rows.first);
  float *row = data->row + i * data->dim;
  to += i * data->rows.stride;
  memcpy(row, from, data->dim * sizeof *row);
  if (data->type == EMB_F32) {
    memcpy(to, row, data->dim * sizeof *row);
    return;
  }
  uint16_t *half = malloc(data->dim * sizeof *half);
  vec_scalar.to_f16(half, row, data->dim);
  vec_scalar.from_f16(row, half, data->dim);
  memcpy(to, half, data->dim * sizeof *half);
  free(half);
}

static void data_fill(struct data *data, enum kind kind) {
  float *from = malloc(data->dim * sizeof *from);
  memset(data->memory.mapping, 0xff,
         (size_t)(data->memory.end - data->memory.mapping));
  for (size_t i = 0; i < data->queries * data->dim; i++)
    data->query[i] = random_element(kind);
  for (size_t i = 0; i < data->n; i++) {
    for (size_t k = 0; k < data->dim; k++)
      from[k] = random_element(kind);
    data_set_row(data, i, from);
  }
  free(from);
}

/* ---- the oracle ---------------------------------------------------------- */

struct exact {
  long double l2, dot, query, row; /* the last two: |.|^2 */
};

static struct exact exact_of(const float *query, const float *row, size_t dim) {
  struct exact sums = {0};
  for (size_t i = 0; i < dim; i++) {
    long double q = query[i], x = row[i];
    sums.l2 += (q - x) * (q - x);
    sums.dot += q * x;
    sums.query += q * q;
    sums.row += x * x;
  }
  return sums;
}

static double worst; /* share of the bound */

/* Checks that got is within the bound of want, or not finite where the result
** may exceed float32. */
static void check_within(const char *form, const char *what, size_t dim,
                         float got, long double want, long double scale) {
  long double bound =
      distance_error(dim) * scale + (long double)DISTANCE_UNDERFLOW;
  long double off = fabsl((long double)got - want);
  if (off <= bound) {
    if (scale > FLT_MIN && off / bound > (long double)worst)
      worst = (double)(off / bound);
    return;
  }
  if (!isfinite(got) && scale * (1 + 0x1p-10L) > (long double)FLT_MAX)
    return;
  test_check(0, __FILE__, __LINE__, "%s %s of %zu: %.9g, not %.9Lg (%.3Lg off)",
             form, what, dim, (double)got, want, off / bound);
}

/* emb_distance decides: the forms must not miss its choice. */
static void check_double(const float *query, const float *row, size_t dim,
                         const struct exact *exact) {
  long double bound = (long double)((double)dim + 20) * 0x1p-53L;
  double got;
  CHECK(emb_distance(EMB_L2, query, row, (uint32_t)dim, &got));
  CHECK(fabsl((long double)got * got - exact->l2) <= bound * exact->l2);
  CHECK(emb_distance(EMB_DOT, query, row, (uint32_t)dim, &got));
  CHECK(fabsl(-(long double)got - exact->dot) <=
        bound * sqrtl(exact->query * exact->row));
}

/* ---- every function of every form ---------------------------------------- */

/* A number after the results that must not change. */
static const float canary = 1234.5f;

static void check_rows(const struct distance_ops *ops, const struct data *data,
                       const struct exact *exact) {
  float l2[ROWS_MAX + 1], dot[ROWS_MAX + 1], both[ROWS_MAX + 1],
      squares[ROWS_MAX + 1];
  size_t n = data->n, dim = data->dim;
  l2[n] = dot[n] = both[n] = squares[n] = canary;
  ops->l2[data->type](l2, data->query, &data->rows, dim);
  ops->dot[data->type](dot, NULL, data->query, &data->rows, dim);
  ops->dot[data->type](both, squares, data->query, &data->rows, dim);
  CHECK(l2[n] == canary && dot[n] == canary);
  CHECK(both[n] == canary && squares[n] == canary);
  for (size_t i = 0; i < n; i++) {
    const struct exact *e = exact + i * data->queries;
    long double scale = sqrtl(e->query * e->row);
    check_within(ops->name, "l2", dim, l2[i], e->l2, e->l2);
    check_within(ops->name, "dot", dim, dot[i], e->dot, scale);
    check_within(ops->name, "dot", dim, both[i], e->dot, scale);
    check_within(ops->name, "squares", dim, squares[i], e->row, e->row);
  }
}

static void check_tile(const struct distance_ops *ops, const struct data *data,
                       const struct exact *exact) {
  size_t n = data->n, width = distance_width(ops, data->queries);
  float *panels = malloc(distance_panel_floats(ops, data->queries, data->dim) *
                         sizeof *panels);
  float *to = malloc((n * width + 1) * sizeof *to), squares[ROWS_MAX + 1];
  to[n * width] = squares[n] = canary;
  ops->pack(panels, data->query, data->queries, data->dim);
  ops->tile[data->type](to, NULL, panels, width, &data->rows, data->dim);
  memset(to, 0xff, n * width * sizeof *to); /* to is set, not added to */
  ops->tile[data->type](to, squares, panels, width, &data->rows, data->dim);
  CHECK(to[n * width] == canary && squares[n] == canary);
  for (size_t i = 0; i < n; i++) {
    for (size_t q = 0; q < data->queries; q++) {
      const struct exact *e = exact + i * data->queries + q;
      check_within(ops->name, "tile", data->dim, to[i * width + q], e->dot,
                   sqrtl(e->query * e->row));
    }
    const struct exact *e = exact + i * data->queries;
    check_within(ops->name, "squares", data->dim, squares[i], e->row, e->row);
  }
  free(panels);
  free(to);
}

static void check_data(const struct data *data) {
  struct exact *exact = malloc((data->n * data->queries + 1) * sizeof *exact);
  for (size_t i = 0; i < data->n; i++)
    for (size_t q = 0; q < data->queries; q++)
      exact[i * data->queries + q] = exact_of(
          data->query + q * data->dim, data->row + i * data->dim, data->dim);
  for (size_t i = 0; i < data->n; i++)
    check_double(data->query, data->row + i * data->dim, data->dim,
                 exact + i * data->queries);
  for (int f = 0; distance__form(f); f++) {
    check_rows(distance__form(f), data, exact);
    check_tile(distance__form(f), data, exact);
  }
  free(exact);
}

static void check_filled(size_t dim, size_t n, size_t queries, size_t gap,
                         size_t before, enum kind kind) {
  for (int type = EMB_F32; type <= EMB_F16; type++) {
    struct data data = data_new(dim, n, queries, type, gap, before);
    data_fill(&data, kind);
    check_data(&data);
    data_free(&data);
  }
}

/* ---- tests --------------------------------------------------------------- */

TEST(forms_are_those_of_vec) {
  CHECK_STR(distance__form(0)->name, "scalar");
  int n = 0;
  while (vec__form(n)) {
    CHECK_STR(distance__form(n)->name, vec__form(n)->name);
    n++;
  }
  CHECK(distance__form(n) == NULL);
  CHECK(distance_best() == distance__form(n - 1));
}

TEST(every_short_dimension) {
  for (size_t dim = 1; dim <= 70; dim++)
    for (int kind = 0; kind < KINDS; kind++)
      check_filled(dim, 1 + dim % 29, 1 + dim % 35, 16, 0, (enum kind)kind);
}

TEST(every_number_of_rows) {
  for (size_t n = 0; n <= ROWS_MAX; n++)
    check_filled(1 + n * 7 % 40, n, 1 + n % 3, 0, 0, UNIFORM);
}

TEST(every_number_of_queries) {
  for (size_t queries = 1; queries <= QUERIES_MAX; queries++)
    check_filled(1 + queries % 20, 13, queries, 8, 0, UNIFORM);
}

TEST(rows_at_any_place_and_distance) {
  for (size_t gap = 0; gap <= 70; gap++)
    check_filled(1 + gap % 37, 9, 2, gap, gap * 5 % 67, SPREAD);
}

/* Around the sizes of partial sums, and the longest. */
static void words_are_read(size_t dim, size_t n, int type) {
  enum { GAP = 16, BACK = 8 };
  struct data data = data_new(dim, n, 1, type, GAP, 0);
  uint64_t words[ROWS_MAX + 1], *word;
  float expected[ROWS_MAX], to[ROWS_MAX], squares[ROWS_MAX];
  data_fill(&data, UNIFORM);
  for (size_t i = 0; i < n; i++) {
    void *at = data.first + i * data.rows.stride - BACK;
    word = at;
    *word = i * UINT64_C(0x100000001);
  }
  for (int f = 0; distance__form(f); f++) {
    const struct distance_ops *ops = distance__form(f);
    struct distance_rows with = data.rows;
    with.ahead = 2048;
    with.words = words;
    with.back = BACK;
    for (int dot = 0; dot < 2; dot++) {
      memset(words, 0xff, sizeof words);
      if (dot) {
        ops->dot[type](expected, squares, data.query, &data.rows, dim);
        ops->dot[type](to, squares, data.query, &with, dim);
      } else {
        ops->l2[type](expected, data.query, &data.rows, dim);
        ops->l2[type](to, data.query, &with, dim);
      }
      CHECK(memcmp(to, expected, n * sizeof *to) == 0);
      for (size_t i = 0; i < n; i++)
        CHECK(words[i] == i * UINT64_C(0x100000001));
      CHECK(words[n] == UINT64_MAX);
    }
  }
  data_free(&data);
}

/* The words before the rows are read once each; what is prefetched may lie
** behind the end of the memory. */
TEST(words_before_the_rows) {
  for (size_t n = 1; n < 10; n++)
    for (int type = 0; type < 2; type++) {
      words_are_read(4, n, type);
      words_are_read(64, n, type);
      words_are_read(100, n, type);
      words_are_read(2500, n, type);
    }
}

TEST(long_dimensions) {
  static const size_t dims[] = {255,  256,  257,  511,  513,  768,
                                1000, 2047, 2048, 2049, 4100, 10007};
  for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
    for (int kind = 0; kind < KINDS; kind++)
      check_filled(dims[i], 5, 3, 16, 0, (enum kind)kind);
  check_filled(DIM_MAX - 1, 5, 2, 16, 0, SPREAD);
  check_filled(DIM_MAX, 5, 2, 16, 0, POSITIVE);
  check_filled(DIM_MAX, 2, 1, 0, 0, TINY);
}

/* More rows than the tiles that share a part of the panels hold. */
TEST(many_rows) {
  enum { N = 500, DIM = 300, QUERIES = 3 };
  for (int type = EMB_F32; type <= EMB_F16; type++) {
    struct data data = data_new(DIM, N, QUERIES, type, 16, 0);
    data_fill(&data, UNIFORM);
    for (int f = 0; distance__form(f); f++) {
      const struct distance_ops *ops = distance__form(f);
      size_t width = distance_width(ops, QUERIES);
      float *panels =
          malloc(distance_panel_floats(ops, QUERIES, DIM) * sizeof *panels);
      float *to = malloc(N * width * sizeof *to);
      ops->pack(panels, data.query, QUERIES, DIM);
      ops->tile[type](to, NULL, panels, width, &data.rows, DIM);
      for (size_t i = 0; i < N; i++) {
        for (size_t q = 0; q < QUERIES; q++) {
          struct exact e =
              exact_of(data.query + q * DIM, data.row + i * DIM, DIM);
          check_within(ops->name, "tile", DIM, to[i * width + q], e.dot,
                       sqrtl(e.query * e.row));
        }
      }
      free(panels);
      free(to);
    }
    data_free(&data);
  }
}

/* Each addition rounds the same way: a one, followed by halves of its last
** place or a little more. */
TEST(roundings_that_add_up) {
  static const size_t dims[] = {16, 64, 256, 257, 2048, 4096, DIM_MAX};
  for (size_t d = 0; d < sizeof dims / sizeof *dims; d++) {
    size_t dim = dims[d];
    float *row = malloc(dim * sizeof *row);
    for (int up = 0; up < 2; up++) {
      struct data data = data_new(dim, 4, 1, EMB_F32, 0, 0);
      for (size_t k = 0; k < dim; k++) {
        data.query[k] = 1;
        row[k] = k < 32 && k < dim / 2 ? 1 : 0x1p-24f * (up ? 1.001f : 1);
      }
      for (size_t i = 0; i < 4; i++)
        data_set_row(&data, i, row);
      check_data(&data);
      data_free(&data);
    }
    free(row);
  }
}

/* Products that cancel to a sum far below the rounding of each product. */
TEST(cancellation) {
  for (size_t dim = 2; dim <= 600; dim += 1 + dim / 7) {
    struct data data = data_new(dim, 3, 2, EMB_F32, 16, 0);
    data_fill(&data, SPREAD);
    for (size_t k = 0; k + 1 < dim; k += 2) {
      data.query[k] = data.query[k + 1];
      data.row[k] = -data.row[k + 1];
    }
    float *row = malloc(dim * sizeof *row);
    memcpy(row, data.row, dim * sizeof *row);
    for (size_t i = 0; i < 3; i++)
      data_set_row(&data, i, row);
    check_data(&data);
    free(row);
    data_free(&data);
  }
}

/* Equal vectors have distance 0, and l2 of neighbours has no rounding. */
TEST(near_and_equal_vectors) {
  for (size_t dim = 1; dim <= 300; dim += 1 + dim / 5) {
    struct data data = data_new(dim, 4, 1, EMB_F32, 16, 0);
    data_fill(&data, UNIFORM);
    float *row = malloc(dim * sizeof *row);
    memcpy(row, data.query, dim * sizeof *row);
    data_set_row(&data, 0, row);
    row[dim / 2] = nextafterf(row[dim / 2], 2);
    data_set_row(&data, 1, row);
    check_data(&data);
    for (int f = 0; distance__form(f); f++) {
      float l2[4];
      distance__form(f)->l2[EMB_F32](l2, data.query, &data.rows, dim);
      CHECK(l2[0] == 0 && l2[1] > 0);
    }
    free(row);
    data_free(&data);
  }
}

/* Too large for float32, in one element, in their sum, or only on the way. */
TEST(huge_elements_give_no_wrong_number) {
  static const float huge[] = {FLT_MAX, 1e25f, 2e19f, 1.5e19f};
  for (size_t h = 0; h < 4; h++) {
    for (size_t dim = 1; dim <= 80; dim += 3) {
      struct data data = data_new(dim, 6, 35, EMB_F32, 16, 0);
      data_fill(&data, UNIFORM);
      float *row = malloc(dim * sizeof *row);
      for (size_t i = 0; i < 6; i++) {
        memcpy(row, data.row + i * dim, dim * sizeof *row);
        for (size_t k = i % 3; k < dim; k += 1 + i)
          row[k] = k & 1 ? huge[h] : -huge[h];
        data_set_row(&data, i, row);
      }
      for (size_t k = 0; k < 20 * dim; k += 2)
        data.query[k] = k & 4 ? huge[h] : -huge[h];
      check_data(&data);
      free(row);
      data_free(&data);
    }
  }
}

/* The error of random vectors is a fair part of the bound: the bound is not so
** wide that everything passes. */
TEST(the_bound_is_of_the_right_size) {
  worst = 0;
  for (int i = 0; i < 100; i++)
    check_filled(1 + test_random() % 4, 4, 1, 0, 0, UNIFORM);
  CHECK(worst > 0.05 && worst <= 1);
}
