/* SPDX-License-Identifier: MIT
**
** optim.c -- tests of engine/math/vec/optim.c: each optimizer against its
** formula in double arithmetic and against golden values, every form against
** the scalar form, rows that are refused, and the text form.
*/
#include "test.h"

#include "engine/math/vec/optim.h"

#include <locale.h>
#include <math.h>

enum { DIM_MAX = 3000, STATE_MAX = 3 * DIM_MAX + 2 };

static const struct optim_step plain = {.lr = -1};

static struct optim parsed(const char *text) {
  struct optim optim;
  emb_err err = {0};
  if (optim_parse(&optim, text, &err))
    test_check(0, __FILE__, __LINE__, "%s: %s", text, err.text);
  return optim;
}

/* Every optimizer, with values that make each parameter count. */
static const char *const texts[] = {
    "sgd(lr=0.1)",
    "sgd(lr=0.1, weight_decay=0.01, clip_value=0.3, clip_norm=1, dc=0.5)",
    "momentum(lr=0.01)",
    "momentum(lr=0.01, momentum=0.8, nesterov=1, weight_decay=0.1)",
    "adagrad(lr=0.05)",
    "adagrad(lr=0.05, initial_accumulator=0, clip_norm=0.5, dc=0.1)",
    "rowwise_adagrad(lr=0.05)",
    "rowwise_adagrad(weight_decay=0.2, clip_value=0.1, clip_norm=0.2)",
    "adam",
    "adam(lr=0.01, beta1=0.8, beta2=0.9, eps=0.01, dc=0.3)",
    "amsgrad(lr=0.01, beta2=0.9)",
    "rmsprop(lr=0.001)",
    "rmsprop(lr=0.001, alpha=0.9, momentum=0.9, clip_value=0.5)",
    "adadelta",
    "adadelta(lr=0.5, rho=0.9, weight_decay=0.01)",
    "ftrl(lr=0.1)",
    "ftrl(lr=0.1, beta=1, l1=0.5, l2=0.1, clip_norm=2)",
    "group_ftrl(lr=0.1)",
    "group_ftrl(lr=0.1, l1=0.5, l2=0.1, initial_accumulator=0.1, dc=0.2)"};
enum { TEXTS = sizeof texts / sizeof *texts };

/* ---- the formulas, in double --------------------------------------------- */

enum { ORACLE_DIM = 37 };

struct oracle {
  double w[ORACLE_DIM], a[ORACLE_DIM], b[ORACLE_DIM], c[ORACLE_DIM];
  double row;
  int t;
};

static double norm_of(const double *x) {
  double sum = 0;
  for (int i = 0; i < ORACLE_DIM; i++)
    sum += x[i] * x[i];
  return sqrt(sum);
}

static void oracle_init(const struct optim *o, struct oracle *at) {
  double start = o->initial_accumulator;
  double slope = (o->beta + sqrt(start)) / o->lr + o->l2;
  at->row = start;
  for (int i = 0; i < ORACLE_DIM; i++) {
    double w = at->w[i];
    if (o->kind == OPTIM_ADAGRAD)
      at->a[i] = start;
    if (o->kind == OPTIM_FTRL || o->kind == OPTIM_GROUP_FTRL)
      at->b[i] = start;
    if (o->kind == OPTIM_FTRL)
      at->a[i] = -w * slope - (w > 0 ? o->l1 : -o->l1);
    if (o->kind == OPTIM_GROUP_FTRL)
      at->a[i] = -w * (slope + o->l1 * sqrt(ORACLE_DIM) / norm_of(at->w));
  }
}

static void oracle_gradient(const struct optim *o, const struct oracle *at,
                            const double *read, double *g) {
  for (int i = 0; i < ORACLE_DIM; i++) {
    g[i] += o->dc * g[i] * g[i] * (at->w[i] - read[i]);
    if (o->clip_value > 0 && fabs(g[i]) > o->clip_value)
      g[i] = g[i] > 0 ? o->clip_value : -o->clip_value;
  }
  double norm = norm_of(g);
  for (int i = 0; i < ORACLE_DIM; i++) {
    if (o->clip_norm > 0 && norm > o->clip_norm)
      g[i] *= o->clip_norm / norm;
    g[i] += o->weight_decay * at->w[i];
  }
}

/* The amount subtracted from w; or, for ftrl, the new z and n. */
static double oracle_element(const struct optim *o, struct oracle *at, int i,
                             double g) {
  double *a = &at->a[i], *b = &at->b[i], *c = &at->c[i], x;
  switch (o->kind) {
  case OPTIM_SGD:
    return o->lr * g;
  case OPTIM_MOMENTUM:
    *a = o->momentum * *a + g;
    return o->lr * (o->nesterov > 0 ? g + o->momentum * *a : *a);
  case OPTIM_ADAGRAD:
    *a += g * g;
    return o->lr * g / (sqrt(*a) + o->eps);
  case OPTIM_ROWWISE_ADAGRAD:
    return o->lr * g / (sqrt(at->row) + o->eps);
  case OPTIM_ADAM:
  case OPTIM_AMSGRAD:
    *a = o->beta1 * *a + (1 - o->beta1) * g;
    *b = o->beta2 * *b + (1 - o->beta2) * g * g;
    *c = fmax(*c, *b);
    x = (o->kind == OPTIM_ADAM ? *b : *c) / (1 - pow(o->beta2, at->t));
    return o->lr * *a / (1 - pow(o->beta1, at->t)) / (sqrt(x) + o->eps);
  case OPTIM_RMSPROP:
    *a = o->alpha * *a + (1 - o->alpha) * g * g;
    *b = o->momentum * *b + g / (sqrt(*a) + o->eps);
    return o->lr * *b;
  case OPTIM_ADADELTA:
    *a = o->rho * *a + (1 - o->rho) * g * g;
    x = sqrt(*b + o->eps) / sqrt(*a + o->eps) * g;
    *b = o->rho * *b + (1 - o->rho) * x * x;
    return o->lr * x;
  default: /* ftrl: a is z, b is n */
    *a += g - (sqrt(*b + g * g) - sqrt(*b)) / o->lr * at->w[i];
    *b += g * g;
    return 0;
  }
}

static void oracle_step(const struct optim *o, struct oracle *at,
                        const double *read, double *g) {
  oracle_gradient(o, at, read, g);
  at->t++;
  at->row += norm_of(g) * norm_of(g) / ORACLE_DIM;
  for (int i = 0; i < ORACLE_DIM; i++)
    at->w[i] -= oracle_element(o, at, i, g[i]);
  double norm = norm_of(at->a), lasso = o->l1 * sqrt(ORACLE_DIM);
  for (int i = 0; i < ORACLE_DIM; i++) {
    double z = at->a[i], slope = (o->beta + sqrt(at->b[i])) / o->lr + o->l2;
    if (o->kind == OPTIM_FTRL)
      at->w[i] = fabs(z) <= o->l1 ? 0 : -(z - (z > 0 ? o->l1 : -o->l1)) / slope;
    if (o->kind == OPTIM_GROUP_FTRL)
      at->w[i] = norm <= lasso ? 0 : -(1 - lasso / norm) * z / slope;
  }
}

/* Gradients of (w - 1)^2 / 2 with noise, at a vector read some steps ago. */
TEST(formulas_over_a_thousand_steps) {
  for (int k = 0; k < TEXTS; k++) {
    struct optim optim = parsed(texts[k]);
    struct oracle want = {.t = 0};
    float w[ORACLE_DIM], state[3 * ORACLE_DIM + 2], read[ORACLE_DIM];
    double worst = 0, first[ORACLE_DIM], moved = 0;
    for (int i = 0; i < ORACLE_DIM; i++) {
      w[i] = read[i] = (float)test_unit();
      want.w[i] = first[i] = (double)w[i];
    }
    optim_init(&optim, ORACLE_DIM, w, state);
    oracle_init(&optim, &want);
    for (int t = 0; t < 1000; t++) {
      double g[ORACLE_DIM], old[ORACLE_DIM];
      float given[ORACLE_DIM];
      struct optim_step step = plain;
      step.read = read;
      for (int i = 0; i < ORACLE_DIM; i++) {
        if (t % 3 == 0)
          read[i] = w[i];
        old[i] = (double)read[i];
        given[i] = (float)(want.w[i] - 1 + test_unit());
        g[i] = (double)given[i];
      }
      oracle_step(&optim, &want, old, g);
      CHECK_EQ_INT(optim_apply(&optim, ORACLE_DIM, w, state, given, &step), 0);
      for (int i = 0; i < ORACLE_DIM; i++)
        worst = fmax(worst, fabs((double)w[i] - want.w[i]));
    }
    for (int i = 0; i < ORACLE_DIM; i++)
      moved = fmax(moved, fabs(want.w[i] - first[i]));
    test_check(worst <= 2e-5, __FILE__, __LINE__, "%s: off by %g", texts[k],
               worst);
    test_check(moved > 0.1, __FILE__, __LINE__, "%s: moved by %g only",
               texts[k], moved);
  }
}

/* Two steps from (0.5, -0.25, 0.125) with (0.1, -0.2, 0.4), (-0.3, 0.05, 0.2),
** computed from the papers' formulas outside this program. */
TEST(first_two_steps) {
  static const struct {
    const char *text;
    double w[6];
  } golden[] = {
      {"sgd(lr=0.1)", {0.49, -0.23, 0.085, 0.52, -0.235, 0.065}},
      {"momentum(lr=0.1)", {0.49, -0.23, 0.085, 0.511, -0.217, 0.029}},
      {"momentum(lr=0.1, nesterov=1)",
       {0.481, -0.212, 0.049, 0.5299, -0.2053, -0.0214}},
      {"adagrad(lr=0.1)",
       {0.469848866, -0.196547752, 0.046553546, 0.536930905, -0.209793075,
        0.0100387088}},
      {"rowwise_adagrad(lr=0.1)",
       {0.475746438, -0.201492875, 0.02798575, 0.540571854, -0.212297111,
        -0.0152311943}},
      {"adam(lr=0.1)",
       {0.40000001, -0.150000005, 0.0250000025, 0.449418991, -0.103053191,
        -0.0682179584}},
      {"amsgrad(lr=0.1)",
       {0.40000001, -0.150000005, 0.0250000025, 0.449418991, -0.103053191,
        -0.0682179584}},
      {"rmsprop(momentum=0.9)",
       {0.4000001, -0.15000005, 0.025000025, 0.40491596, -0.0843685921,
        -0.109901268}},
      {"adadelta",
       {0.495532329, -0.245528982, 0.120528144, 0.50154378, -0.247099746,
        0.117641633}},
      {"ftrl(lr=0.1, beta=1, l1=0.05, l2=0.01)",
       {0.492496225, -0.235456299, 0.0985257473, 0.513211401, -0.239083451,
        0.0856118785}},
      {"group_ftrl(lr=0.1, l1=0.5, l2=0.01)",
       {0.491344754, -0.232527854, 0.0965329361, 0.51162544, -0.240781618,
        0.0857180557}}};
  static const float g[6] = {0.1f, -0.2f, 0.4f, -0.3f, 0.05f, 0.2f};
  for (size_t k = 0; k < sizeof golden / sizeof *golden; k++) {
    struct optim optim = parsed(golden[k].text);
    for (int f = 0; optim_use_form(&optim, f); f++) {
      float w[3] = {0.5f, -0.25f, 0.125f}, state[11];
      optim_init(&optim, 3, w, state);
      for (int i = 0; i < 6; i++) {
        if (i % 3 == 0)
          CHECK_EQ_INT(optim_apply(&optim, 3, w, state, g + i, &plain), 0);
        double off = fabs((double)w[i % 3] - golden[k].w[i]);
        test_check(off < 3e-7, __FILE__, __LINE__, "%s: step %d, %d: off by %g",
                   golden[k].text, i / 3, i % 3, off);
      }
    }
  }
}

/* ---- forms --------------------------------------------------------------- */

/* A row with room around it, at an odd address. */
struct row {
  char w[4 * DIM_MAX + 8], state[4 * STATE_MAX + 8];
};
static struct row rows[2];
static char gradient_room[4 * DIM_MAX + 8], read_room[4 * DIM_MAX + 8];

static float *floats_at(char *room) { return (float *)(void *)(room + 3); }

/* Some are zeros of both signs. */
static void random_floats(char *room, uint32_t n, double scale) {
  for (uint32_t i = 0; i < n; i++) {
    uint64_t zero = test_random() % 16;
    float x = (float)(test_unit() * scale);
    x = zero < 2 ? 0.0f : zero < 4 ? -0.0f : x;
    memcpy(room + 3 + 4 * i, &x, 4);
  }
}

static void check_forms(const char *text, uint32_t dim, int half) {
  struct optim optim = parsed(text);
  for (int f = 1; optim_use_form(&optim, f); f++) {
    memset(rows, 0x5a, sizeof rows);
    random_floats(rows[0].w, dim, 1);
    optim_init(&optim, dim, floats_at(rows[0].w), floats_at(rows[0].state));
    if (half) {
      uint16_t halves[DIM_MAX];
      vec_scalar.to_f16(halves, floats_at(rows[0].w), dim);
      memcpy(rows[0].w + 4, halves, 2 * dim);
    }
    rows[1] = rows[0];
    for (int t = 0; t < 4; t++) {
      struct optim_step step = plain;
      random_floats(gradient_room, dim, t == 3 ? 1e-3 : 2);
      random_floats(read_room, dim, 1);
      step.read = t % 2 ? floats_at(read_room) : NULL;
      step.key = (int64_t)dim;
      step.version = (uint64_t)t;
      for (int k = 0; k < 2; k++) {
        const float *g = floats_at(gradient_room);
        float *state = floats_at(rows[k].state);
        CHECK(optim_use_form(&optim, k ? f : 0));
        CHECK_EQ_INT(half ? optim_apply_f16(&optim, dim,
                                            (uint16_t *)(void *)(rows[k].w + 4),
                                            state, g, &step)
                          : optim_apply(&optim, dim, floats_at(rows[k].w),
                                        state, g, &step),
                     0);
      }
      if (memcmp(&rows[0], &rows[1], sizeof rows[0]) != 0)
        test_check(0, __FILE__, __LINE__, "%s, form %d, dim %u, step %d%s",
                   text, f, dim, t, half ? ", float16" : "");
    }
    CHECK_EQ_INT(rows[1].w[4 * dim + 3], 0x5a);
    CHECK_EQ_INT(rows[1].state[4 * optim_state_floats(&optim, dim) + 3], 0x5a);
  }
}

TEST(forms_agree_bit_by_bit) {
  for (int k = 0; k < TEXTS; k++) {
    for (uint32_t dim = 1; dim <= 130; dim++)
      check_forms(texts[k], dim, 0);
    check_forms(texts[k], 1024, 0);
    check_forms(texts[k], 2999, 0);
  }
}

/* ---- a refused row ------------------------------------------------------- */

/* The step of row 0 gives EMB_NONFINITE and changes no byte. */
static void check_refused(const struct optim *o, uint32_t dim, int half,
                          const struct optim_step *step, const char *what) {
  struct optim optim = *o;
  for (int f = 0; optim_use_form(&optim, f); f++) {
    float *state = floats_at(rows[0].state);
    const float *g = floats_at(gradient_room);
    rows[1] = rows[0];
    int rc =
        half ? optim_apply_f16(&optim, dim, (uint16_t *)(void *)(rows[0].w + 4),
                               state, g, step)
             : optim_apply(&optim, dim, floats_at(rows[0].w), state, g, step);
    char text[OPTIM_TEXT_MAX];
    (void)optim_print(o, text, sizeof text);
    test_check(rc == EMB_NONFINITE &&
                   memcmp(&rows[0], &rows[1], sizeof rows[0]) == 0,
               __FILE__, __LINE__, "%s, form %d, dim %u: %s: %d", text, f, dim,
               what, rc);
  }
}

static void set_row(const struct optim *optim, uint32_t dim) {
  memset(rows, 0x5a, sizeof rows);
  random_floats(rows[0].w, dim, 1);
  random_floats(gradient_room, dim, 1);
  random_floats(read_room, dim, 1);
  optim_init(optim, dim, floats_at(rows[0].w), floats_at(rows[0].state));
}

static void put(char *room, uint32_t i, float x) {
  memcpy(room + 3 + 4 * i, &x, 4);
}

TEST(gradients_that_are_not_finite_change_nothing) {
  static const uint32_t dims[] = {1, 7, 64, 100, 1024, 2500};
  static const float bad[] = {NAN, INFINITY, -INFINITY};
  for (int k = 0; k < TEXTS; k++) {
    struct optim optim = parsed(texts[k]);
    for (int d = 0; d < 6; d++) {
      for (int b = 0; b < 3; b++) {
        uint32_t at = (uint32_t)(test_random() % dims[d]);
        set_row(&optim, dims[d]);
        put(gradient_room, at, bad[b]);
        check_refused(&optim, dims[d], 0, &plain, "gradient");
        if (optim.dc > 0) {
          struct optim_step step = plain;
          set_row(&optim, dims[d]);
          put(read_room, at, bad[b]);
          step.read = floats_at(read_room);
          check_refused(&optim, dims[d], 0, &step, "read");
        }
      }
    }
  }
}

TEST(steps_that_overflow_change_nothing) {
  static const uint32_t dims[] = {1, 64, 70, 2500};
  static const char *const all[] = {
      "sgd(lr=10)", "momentum(lr=10)",       "adagrad",
      "adam",       "rowwise_adagrad",       "amsgrad",
      "rmsprop",    "rmsprop(momentum=0.5)", "adadelta",
      "ftrl",       "group_ftrl(l1=1)",      "sgd(weight_decay=1e30)",
      "sgd(dc=1)"};
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
    struct optim optim = parsed(all[k]);
    for (int d = 0; d < 4; d++) {
      struct optim_step step = plain;
      set_row(&optim, dims[d]);
      step.read = floats_at(read_room);
      put(read_room, dims[d] - 1, -1);
      put(rows[0].w, dims[d] - 1, 1e10f);
      put(gradient_room, dims[d] - 1, 2e38f);
      check_refused(&optim, dims[d], 0, &step, "large gradient");
    }
  }
  struct optim optim = parsed("sgd");
  struct optim_step step = plain;
  set_row(&optim, 64);
  step.lr = INFINITY;
  check_refused(&optim, 64, 0, &step, "infinite rate");
}

TEST(float16_beyond_its_range_changes_nothing) {
  static const char *const all[] = {"sgd(lr=1)", "momentum(lr=1)",
                                    "sgd(lr=1, stochastic_rounding=1)"};
  for (int k = 0; k < 3; k++) {
    struct optim optim = parsed(all[k]);
    for (uint32_t dim = 50; dim < 3000; dim += 2449) {
      set_row(&optim, dim);
      for (uint32_t i = 0; i < dim; i++)
        memcpy(rows[0].w + 4 + 2 * i, "\x00\x3c", 2); /* 1 */
      put(gradient_room, dim - 1, -65519);            /* to 65520 */
      check_refused(&optim, dim, 1, &plain, "float16");
      put(gradient_room, dim - 1, -65518);
      CHECK_EQ_INT(optim_apply_f16(&optim, dim,
                                   (uint16_t *)(void *)(rows[0].w + 4),
                                   floats_at(rows[0].state),
                                   floats_at(gradient_room), &plain),
                   0);
      CHECK(memcmp(rows[0].w + 4 + 2 * (dim - 1), "\xff\x7b", 2) == 0);
    }
  }
}

/* ---- float16 ------------------------------------------------------------- */

TEST(float16_is_the_float32_step_rounded) {
  for (int k = 0; k < TEXTS; k++) {
    struct optim optim = parsed(texts[k]);
    for (uint32_t dim = 1; dim < 2600; dim = dim * 3 + 1) {
      uint16_t half[DIM_MAX], want[DIM_MAX];
      float w[DIM_MAX], *state = floats_at(rows[0].state);
      set_row(&optim, dim);
      for (uint32_t i = 0; i < dim; i++)
        w[i] = (float)test_unit();
      vec_scalar.to_f16(half, w, dim);
      for (int t = 0; t < 3; t++) {
        struct optim_step step = plain;
        step.read = floats_at(read_room);
        vec_scalar.from_f16(w, half, dim);
        memcpy(rows[1].state, rows[0].state, sizeof rows[0].state);
        CHECK_EQ_INT(optim_apply(&optim, dim, w, floats_at(rows[1].state),
                                 floats_at(gradient_room), &step),
                     0);
        CHECK_EQ_INT(optim_apply_f16(&optim, dim, half, state,
                                     floats_at(gradient_room), &step),
                     0);
        vec_scalar.to_f16(want, w, dim);
        test_check(
            memcmp(half, want, 2 * dim) == 0 &&
                memcmp(rows[0].state, rows[1].state, sizeof rows[0].state) == 0,
            __FILE__, __LINE__, "%s, dim %u", texts[k], dim);
      }
    }
  }
}

TEST(float16_forms_agree) {
  for (int k = 0; k < TEXTS; k++) {
    char text[200];
    (void)snprintf(text, sizeof text, "%.*s%sstochastic_rounding=1)",
                   (int)strcspn(texts[k], ")"), texts[k],
                   strchr(texts[k], '(') ? ", " : "(");
    for (uint32_t dim = 1; dim <= 70; dim++)
      check_forms(text, dim, 1);
    check_forms(text, 2999, 1);
    check_forms(texts[k], 2999, 1);
  }
}

/* The mean of many roundings of x is x, and each gives a neighbour of x. */
static void check_chance(double x) {
  enum { ROUNDS = 20000 };
  struct optim optim = parsed("sgd(lr=1, stochastic_rounding=1)");
  double sum = 0, low = 1e30, high = -1e30;
  for (int i = 0; i < ROUNDS; i++) {
    uint16_t half[2] = {0}, again[2] = {0};
    float g[2] = {(float)-x, (float)-x}, value[2];
    struct optim_step step = plain;
    step.key = i / 100;
    step.version = (uint64_t)i % 100;
    CHECK_EQ_INT(optim_apply_f16(&optim, 2, half, NULL, g, &step), 0);
    CHECK_EQ_INT(optim_apply_f16(&optim, 2, again, NULL, g, &step), 0);
    CHECK(memcmp(half, again, sizeof half) == 0);
    vec_scalar.from_f16(value, half, 2);
    for (int j = 0; j < 2; j++) {
      sum += (double)value[j];
      low = fmin(low, (double)value[j]);
      high = fmax(high, (double)value[j]);
    }
  }
  double unit = fmax(ldexp(1, ilogb(x) - 10), 0x1p-24);
  double mean = sum / (2 * ROUNDS);
  /* five standard deviations of a mean of 40,000 coins */
  int good = high - low <= unit && low <= x && high >= x &&
             fabs(mean - x) <= 5 * 0.5 * unit / sqrt(2 * ROUNDS);
  test_check(good, __FILE__, __LINE__, "%g: %g to %g, mean %g", x, low, high,
             mean);
}

TEST(chance_rounds_to_the_mean) {
  check_chance(1.0);
  check_chance(1 + 0x1p-11);
  check_chance(1 + 0x1p-13);
  check_chance(1000.3);
  check_chance(0.1);
  check_chance(0x1p-24);
  check_chance(0x1.8p-24);
  check_chance(0x1p-26);
  check_chance(0x1.2345p-20);
  check_chance(0x1.0011p-15);
  check_chance(65000.7);
}

/* Equal elements are rounded independently, even in a long row. */
TEST(chance_differs_from_element_to_element) {
  enum { DIM = 2048 };
  struct optim optim = parsed("sgd(lr=1, stochastic_rounding=1)");
  uint16_t half[DIM] = {0};
  float g[DIM];
  int same = 0;
  for (int i = 0; i < DIM; i++)
    g[i] = -(1 + 0x1p-11f);
  CHECK_EQ_INT(optim_apply_f16(&optim, DIM, half, NULL, g, &plain), 0);
  for (int i = 0; i < DIM / 2; i++)
    same += half[i] == half[i + DIM / 2];
  CHECK(same > DIM / 4 - 120 && same < DIM / 4 + 120);
}

/* ---- arguments of a step, and new rows ----------------------------------- */

TEST(rate_and_count_of_the_step) {
  struct optim slow = parsed("adam(lr=0.001)"), fast = parsed("adam(lr=0.1)");
  struct optim_step step = plain;
  static const float g[2] = {0.3f, -2};
  float a[2] = {1, 2}, b[2] = {1, 2}, a_state[6], b_state[6];
  optim_init(&slow, 2, a, a_state);
  optim_init(&fast, 2, b, b_state);
  for (uint64_t t = 1; t <= 50; t++) {
    step.lr = 0.1f;
    step.step = 0;
    CHECK_EQ_INT(optim_apply(&slow, 2, a, a_state, g, &step), 0);
    step.lr = NAN;
    step.step = t; /* as the row would count itself */
    CHECK_EQ_INT(optim_apply(&fast, 2, b, b_state, g, &step), 0);
    CHECK(fabs((double)(a[0] - b[0])) < 2e-6 &&
          fabs((double)(a[1] - b[1])) < 2e-6);
  }
  CHECK((double)a[0] < -3.9);
  step.step = UINT64_MAX; /* no correction left */
  CHECK_EQ_INT(optim_apply(&fast, 2, b, b_state, g, &step), 0);
  CHECK(b_state[0] == 1 && b_state[1] == 1);
}

TEST(rate_of_zero_moves_nothing) {
  static const float g[3] = {1, -1, 0.5f};
  for (int k = 0; k < TEXTS; k++) {
    struct optim optim = parsed(texts[k]);
    struct optim_step step = {.lr = 0};
    float w[3] = {1, 2, 3}, state[11];
    optim_init(&optim, 3, w, state);
    if (optim.kind == OPTIM_FTRL || optim.kind == OPTIM_GROUP_FTRL) {
      CHECK_EQ_INT(optim_apply(&optim, 3, w, state, g, &step), EMB_NONFINITE);
    } else {
      CHECK_EQ_INT(optim_apply(&optim, 3, w, state, g, &step), 0);
    }
    CHECK(w[0] == 1 && w[1] == 2 && w[2] == 3);
  }
}

TEST(new_rows_stay_where_they_are_without_gradient) {
  static const float g[130] = {0};
  for (int k = 0; k < TEXTS; k++) {
    struct optim optim = parsed(texts[k]);
    if (optim.weight_decay > 0)
      continue;
    float w[130], first[130], state[392];
    for (int i = 0; i < 130; i++)
      w[i] = first[i] = i == 5 ? 0 : (float)test_unit();
    optim_init(&optim, 130, w, state);
    CHECK_EQ_INT(optim_apply(&optim, 130, w, state, g, &plain), 0);
    for (int i = 0; i < 130; i++)
      test_check(fabs((double)(w[i] - first[i])) < 1e-6, __FILE__, __LINE__,
                 "%s: %g to %g", texts[k], (double)first[i], (double)w[i]);
  }
}

TEST(group_ftrl_drops_a_row_as_a_whole) {
  struct optim optim = parsed("group_ftrl(l1=2)");
  static const float small[4] = {0.9f, -0.9f, 3.5f, 0.1f};
  static const float large[4] = {0.9f, -0.9f, 4.5f, 0.1f};
  float w[4] = {0}, state[8];
  optim_init(&optim, 4, NULL, state);
  CHECK_EQ_INT(optim_apply(&optim, 4, w, state, small, &plain), 0);
  for (int i = 0; i < 4; i++) /* the norm of z is less than 2 * sqrt(4) */
    CHECK(w[i] == 0 && !signbit(w[i]));
  optim_init(&optim, 4, NULL, state);
  CHECK_EQ_INT(optim_apply(&optim, 4, w, state, large, &plain), 0);
  for (int i = 0; i < 4; i++)
    CHECK(w[i] != 0);
}

TEST(sizes_of_state) {
  static const struct {
    const char *text;
    uint32_t floats;
  } sizes[] = {{"sgd", 0},         {"momentum", 64},
               {"adagrad", 64},    {"rowwise_adagrad", 1},
               {"adam", 130},      {"amsgrad", 194},
               {"rmsprop", 64},    {"rmsprop(momentum=0.1)", 128},
               {"adadelta", 128},  {"ftrl", 128},
               {"group_ftrl", 128}};
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
    struct optim optim = parsed(sizes[k].text);
    CHECK_EQ_INT(optim_state_floats(&optim, 64), sizes[k].floats);
  }
}

/* ---- text ---------------------------------------------------------------- */

static void check_print(const char *text, const char *want) {
  struct optim optim = parsed(text);
  char out[OPTIM_TEXT_MAX];
  CHECK_EQ_INT(optim_print(&optim, out, sizeof out), strlen(want));
  CHECK_STR(out, want);
  for (size_t size = 0; size <= strlen(want); size++)
    CHECK_EQ_INT(optim_print(&optim, out, size), 0);
}

TEST(text_is_printed_with_all_parameters) {
#define REST                                                                   \
  "weight_decay=0, clip_value=0, clip_norm=0, dc=0, stochastic_rounding=0)"
  check_print("sgd", "sgd(lr=0.01, " REST);
  check_print(" momentum ( nesterov = 1 ) ",
              "momentum(lr=0.01, momentum=0.9, nesterov=1, " REST);
  check_print("adagrad()", "adagrad(lr=0.001, eps=1e-10, "
                           "initial_accumulator=0.1, " REST);
  check_print("rowwise_adagrad(lr=1e-1)", "rowwise_adagrad(lr=0.1, eps=1e-10, "
                                          "initial_accumulator=0.1, " REST);
  check_print("adam(beta2=0.99)",
              "adam(lr=0.001, beta1=0.9, beta2=0.99, eps=1e-8, " REST);
  check_print("amsgrad",
              "amsgrad(lr=0.001, beta1=0.9, beta2=0.999, eps=1e-8, " REST);
  check_print("rmsprop(alpha=0.90)",
              "rmsprop(lr=0.01, alpha=0.9, eps=1e-8, momentum=0, " REST);
  check_print("adadelta(lr=1e3)",
              "adadelta(lr=1000, rho=0.95, eps=1e-6, " REST);
  check_print("ftrl(l1=1.5e-7)", "ftrl(lr=0.01, beta=0, l1=1.5e-7, l2=0, "
                                 "initial_accumulator=0.1, " REST);
  check_print("group_ftrl(l2=12345678901)",
              "group_ftrl(lr=0.01, beta=1, l1=0, l2=1.2345678901e10, "
              "initial_accumulator=0, " REST);
#undef REST
}

TEST(text_reads_back) {
  char text[OPTIM_TEXT_MAX], printed[OPTIM_TEXT_MAX], again[OPTIM_TEXT_MAX];
  for (int i = 0; i < 20000; i++) {
    double lr = ldexp(1 + fabs(test_unit()), (int)(test_random() % 100) - 90);
    double dc = (double)(float)fabs(test_unit());
    (void)snprintf(text, sizeof text, "ftrl(lr=%.17g, dc=%.9g)", lr, dc);
    struct optim a = parsed(text), b;
    CHECK(a.lr == lr && (float)a.dc == (float)dc);
    CHECK(optim_print(&a, printed, sizeof printed) > 0);
    b = parsed(printed);
    CHECK(memcmp(&a, &b, sizeof a) == 0);
    CHECK(optim_print(&b, again, sizeof again) > 0);
    CHECK_STR(printed, again);
    CHECK(strlen(strchr(printed, '=')) <= strlen(strchr(text, '=')) + 200);
  }
}

/* Uses a locale made for this test, because the machine may have none. */
TEST(text_does_not_depend_on_the_locale) {
  const char *dir = test_dir();
  char command[512], out[OPTIM_TEXT_MAX];
  if (dir == NULL)
    return;
  (void)snprintf(command, sizeof command,
                 "localedef -i fr_FR -f UTF-8 %s/fr_FR.UTF-8 >%s/log 2>&1", dir,
                 dir);
  (void)!system(command);
  (void)setenv("LOCPATH", dir, 1);
  const char *set = setlocale(LC_ALL, "fr_FR.UTF-8");
  (void)unsetenv("LOCPATH");
  if (set == NULL || localeconv()->decimal_point[0] != ',') {
    (void)setlocale(LC_ALL, "C");
    SKIP("no locale with a decimal comma");
  }
  struct optim optim = parsed("sgd(lr=0.25)");
  CHECK(optim.lr == 0.25);
  CHECK(optim_print(&optim, out, sizeof out) > 0);
  CHECK(strncmp(out, "sgd(lr=0.25, ", 13) == 0);
  (void)setlocale(LC_ALL, "C");
}

#define EXPECTED                                                               \
  "; expected sgd, momentum, adagrad, rowwise_adagrad, adam, amsgrad, "        \
  "rmsprop, adadelta, ftrl or group_ftrl"

TEST(names_have_no_case) {
  struct optim optim = parsed("Adam(LR=0.5, Beta1=0.25)");
  char out[OPTIM_TEXT_MAX];
  CHECK(optim_print(&optim, out, sizeof out) > 0);
  CHECK(strncmp(out, "adam(lr=0.5, beta1=0.25, ", 25) == 0);
}

TEST(errors_name_what_is_wrong) {
  static const struct {
    const char *text, *error;
  } wrong[] = {
      {"", "unknown optimizer: " EXPECTED},
      {"Adma", "unknown optimizer: Adma" EXPECTED "; did you mean adam?"},
      {"(lr=1)", "unknown optimizer: (" EXPECTED},
      {"adamw(lr=1)",
       "unknown optimizer: adamw" EXPECTED "; did you mean adam?"},
      {"sgd(momentum=0.9)",
       "sgd: unknown parameter: momentum; expected lr, weight_decay, "
       "clip_value, clip_norm, dc or stochastic_rounding"},
      {"sgd(lr=1, lr=1)", "sgd: lr is given twice"},
      {"sgd(lr=1", "sgd: expected , or ), got \"\""},
      {"sgd(", "sgd: expected a parameter, got \"\""},
      {"sgd(lr=1,)", "sgd: expected a parameter, got \")\""},
      {"sgd(,)", "sgd: expected a parameter, got \",\""},
      {"sgd(lr=1 dc=2)", "sgd: expected , or ), got \"dc=2\""},
      {"sgd(lr)", "sgd: expected = after lr, got \")\""},
      {"sgd(lr=)", "sgd: lr is not a number: \")\""},
      {"sgd(lr=fast)", "sgd: lr is not a number: \"fast\""},
      {"sgd(lr=0,1)", "sgd: lr must be between 1e-30 and 1000000, got 0"},
      {"sgd(lr=.1)", "sgd: lr is not a number: \".1\""},
      {"sgd(lr=1.)", "sgd: lr is not a number: \"1.\""},
      {"sgd(lr=1.5.2)", "sgd: lr is not a number: \"1.5.2\""},
      {"sgd(lr=+1)", "sgd: lr is not a number: \"+1\""},
      {"sgd(lr=1e)", "sgd: lr is not a number: \"1e\""},
      {"sgd(lr=0x1)", "sgd: lr is not a number: \"0x1\""},
      {"sgd(lr=inf)", "sgd: lr is not a number: \"inf\""},
      {"sgd(lr=nan)", "sgd: lr is not a number: \"nan\""},
      {"sgd(lr=1e999999999999)",
       "sgd: lr must be between 1e-30 and 1000000, got 1e999999999999"},
      {"sgd(lr=-1)", "sgd: lr must be between 1e-30 and 1000000, got -1"},
      {"adam(beta1=1)", "adam: beta1 must be between 0 and 0.999999, got 1"},
      {"adam(eps=0)", "adam: eps must be between 1e-30 and 1000000, got 0"},
      {"momentum(nesterov=0.5)",
       "momentum: nesterov is not yes or no: \"0.5\""},
      {"momentum(nesterov=2)", "momentum: nesterov is not yes or no: \"2\""},
      {"sgd)", "sgd: more text at the end: )"},
      {"sgd(lr=1) x", "sgd: more text at the end: x"},
      {"sgd(lr=1)(", "sgd: more text at the end: ("},
      {"ftrl(initial_accumulator=0)",
       "ftrl: beta and initial_accumulator are both 0"},
      {"group_ftrl(beta=1e-300)",
       "group_ftrl: beta and initial_accumulator are both 0"},
      {"sgd(lr=0.00000000000000000000000000000000000000000000000000000000000001"
       "000)",
       "sgd: lr is not a number: \"0.00000000000000000000000000000000000000\""},
  };
  for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
    struct optim optim;
    emb_err err = {0};
    CHECK_EQ_INT(optim_parse(&optim, wrong[k].text, &err), EMB_RANGE);
    CHECK_EQ_INT(err.code, EMB_RANGE);
    CHECK_STR(err.text, wrong[k].error);
    CHECK_EQ_INT(optim_parse(&optim, wrong[k].text, NULL), EMB_RANGE);
  }
}
