/* SPDX-License-Identifier: MIT
**
** optim_rules.h -- the formulas of optim.h, once for all forms.
**
** Included by optim_forms.c for each form, with
**   FORM(name)  name of a function in this form
**   TARGET      the attribute of its functions
**   VEC, WIDTH  WIDTH float32, with the operators of C
**   LOAD(p), STORE(p, x), SET(x), SQRT(x), MIN(a, b), MAX(a, b)
**   ANY_NAN(x)  whether an element is NaN
**   ABS(x), SIGNED(x, s)   |x|, and x >= 0 with the sign of s
** and 16 sums in float64: lanes, no_lanes, add_squares (of the elements for
** the sums from j on), sum_lanes.
**
** A rule takes the gradient and the old w, and returns the new w; it loads its
** state and stores the new state.
*/

#define INLINE TARGET static inline __attribute__((always_inline))

/* x - x is 0 if x is finite, else NaN, which persists in *bad. */
#define WATCH(x) (*bad += (x) - (x))

INLINE void FORM(keep)(float *to, VEC x, VEC *bad) {
  WATCH(x);
  STORE(to, x);
}

INLINE VEC FORM(gradient)(const struct optim_factors *k, VEC g, VEC w,
                          const float *read, int final) {
  if (read) {
    g += SET(k->dc) * g * g * (w - LOAD(read));
  }
  g = MIN(MAX(g, SET(-k->clip)), SET(k->clip));
  if (final) {
    g = g * SET(k->scale) + SET(k->decay) * w;
  }
  return g;
}

INLINE VEC FORM(sgd)(const struct optim_factors *k, VEC g, VEC w,
                     float *const *s, VEC *bad) {
  (void)s, (void)bad;
  return w - SET(k->lr) * g;
}

INLINE VEC FORM(momentum)(const struct optim_factors *k, VEC g, VEC w,
                          float *const *s, VEC *bad) {
  VEC v = SET(k->p) * LOAD(s[0]) + g;
  FORM(keep)(s[0], v, bad);
  return w - SET(k->lr) * v;
}

INLINE VEC FORM(nesterov)(const struct optim_factors *k, VEC g, VEC w,
                          float *const *s, VEC *bad) {
  VEC v = SET(k->p) * LOAD(s[0]) + g;
  FORM(keep)(s[0], v, bad);
  return w - SET(k->lr) * (g + SET(k->p) * v);
}

INLINE VEC FORM(adagrad)(const struct optim_factors *k, VEC g, VEC w,
                         float *const *s, VEC *bad) {
  VEC a = LOAD(s[0]) + g * g;
  FORM(keep)(s[0], a, bad);
  return w - SET(k->lr) * (g / (SQRT(a) + SET(k->eps)));
}

INLINE VEC FORM(adam)(const struct optim_factors *k, VEC g, VEC w,
                      float *const *s, VEC *bad) {
  VEC m = SET(k->p) * LOAD(s[0]) + SET(k->p1) * g;
  VEC v = SET(k->q) * LOAD(s[1]) + SET(k->q1) * (g * g);
  FORM(keep)(s[0], m, bad);
  FORM(keep)(s[1], v, bad);
  return w - SET(k->lr) * (m / (SQRT(v) * SET(k->root) + SET(k->eps)));
}

INLINE VEC FORM(amsgrad)(const struct optim_factors *k, VEC g, VEC w,
                         float *const *s, VEC *bad) {
  VEC m = SET(k->p) * LOAD(s[0]) + SET(k->p1) * g;
  VEC v = SET(k->q) * LOAD(s[1]) + SET(k->q1) * (g * g);
  VEC x = MAX(LOAD(s[2]), v);
  FORM(keep)(s[0], m, bad);
  FORM(keep)(s[1], v, bad);
  FORM(keep)(s[2], x, bad);
  return w - SET(k->lr) * (m / (SQRT(x) * SET(k->root) + SET(k->eps)));
}

INLINE VEC FORM(rmsprop)(const struct optim_factors *k, VEC g, VEC w,
                         float *const *s, VEC *bad) {
  VEC v = SET(k->p) * LOAD(s[0]) + SET(k->p1) * (g * g);
  FORM(keep)(s[0], v, bad);
  return w - SET(k->lr) * (g / (SQRT(v) + SET(k->eps)));
}

INLINE VEC FORM(rmsprop_momentum)(const struct optim_factors *k, VEC g, VEC w,
                                  float *const *s, VEC *bad) {
  VEC v = SET(k->p) * LOAD(s[0]) + SET(k->p1) * (g * g);
  VEC b = SET(k->q) * LOAD(s[1]) + g / (SQRT(v) + SET(k->eps));
  FORM(keep)(s[0], v, bad);
  FORM(keep)(s[1], b, bad);
  return w - SET(k->lr) * b;
}

INLINE VEC FORM(adadelta)(const struct optim_factors *k, VEC g, VEC w,
                          float *const *s, VEC *bad) {
  VEC v = SET(k->p) * LOAD(s[0]) + SET(k->p1) * (g * g);
  VEC u = LOAD(s[1]);
  VEC d = SQRT((u + SET(k->eps)) / (v + SET(k->eps))) * g;
  u = SET(k->p) * u + SET(k->p1) * (d * d);
  FORM(keep)(s[0], v, bad);
  FORM(keep)(s[1], u, bad);
  return w - SET(k->lr) * d;
}

/* Returns the new z; *root: the square root of the new n. */
INLINE VEC FORM(ftrl_z)(const struct optim_factors *k, VEC g, VEC w, VEC z,
                        VEC n, VEC *root) {
  *root = SQRT(n + g * g);
  return z + (g - (*root - SQRT(n)) * SET(k->inverse) * w);
}

INLINE VEC FORM(ftrl)(const struct optim_factors *k, VEC g, VEC w,
                      float *const *s, VEC *bad) {
  VEC n = LOAD(s[1]), root;
  VEC z = FORM(ftrl_z)(k, g, w, LOAD(s[0]), n, &root);
  VEC rest = MAX(ABS(z) - SET(k->l1), SET(0));
  FORM(keep)(s[0], z, bad);
  FORM(keep)(s[1], n + g * g, bad);
  return SET(0) - SIGNED(rest, z) /
                      ((SET(k->beta) + root) * SET(k->inverse) + SET(k->l2));
}

INLINE VEC FORM(group_ftrl)(const struct optim_factors *k, VEC g, VEC w,
                            float *const *s, VEC *bad) {
  VEC n = LOAD(s[1]), root;
  VEC z = FORM(ftrl_z)(k, g, w, LOAD(s[0]), n, &root);
  FORM(keep)(s[0], z, bad);
  FORM(keep)(s[1], n + g * g, bad);
  return SET(0) - SET(k->shrink) * z /
                      ((SET(k->beta) + root) * SET(k->inverse) + SET(k->l2));
}

typedef VEC FORM(rule)(const struct optim_factors *k, VEC g, VEC w,
                       float *const *s, VEC *bad);

/* Steps WIDTH elements of the part, from element i.  plain: the optimizer uses
** the gradient unchanged. */
INLINE void FORM(step)(const struct optim_factors *k, FORM(rule) * rule,
                       int arrays, int plain, const struct optim_part *part,
                       size_t i, VEC *bad) {
  VEC w = LOAD(part->w + i), g = LOAD(part->g + i);
  float *s[OPTIM_ARRAYS];
  for (int j = 0; j < arrays; j++) {
    s[j] = part->state[j] + i;
    STORE(part->old_state[j] + i, LOAD(s[j]));
  }
  STORE(part->old_w + i, w);
  WATCH(g); /* before clipping makes infinity and NaN finite */
  if (!plain) {
    if (part->read) {
      WATCH(LOAD(part->read + i));
    }
    g = FORM(gradient)(k, g, w, part->read ? part->read + i : NULL, 1);
  }
  FORM(keep)(part->w + i, rule(k, g, w, s, bad), bad);
}

/* Steps the last elements, fewer than WIDTH, padded with harmless values. */
INLINE void FORM(step_tail)(const struct optim_factors *k, FORM(rule) * rule,
                            int arrays, int plain,
                            const struct optim_part *part, size_t i, VEC *bad) {
  float room[3 + OPTIM_ARRAYS][WIDTH], old[1 + OPTIM_ARRAYS][WIDTH];
  size_t bytes = (part->n - i) * sizeof(float);
  struct optim_part tail = {
      .n = WIDTH, .w = room[0], .g = room[1], .old_w = old[OPTIM_ARRAYS]};
  for (int j = 0; j < WIDTH; j++) {
    room[0][j] = room[1][j] = room[2][j] = 0;
    room[3][j] = room[4][j] = room[5][j] = 1;
  }
  memcpy(room[0], part->w + i, bytes);
  memcpy(room[1], part->g + i, bytes);
  if (part->read) {
    memcpy(room[2], part->read + i, bytes);
    tail.read = room[2];
  }
  for (int j = 0; j < arrays; j++) {
    memcpy(room[3 + j], part->state[j] + i, bytes);
    tail.state[j] = room[3 + j];
    tail.old_state[j] = old[j];
  }
  FORM(step)(k, rule, arrays, plain, &tail, 0, bad);
  memcpy(part->w + i, room[0], bytes);
  memcpy(part->old_w + i, tail.old_w, bytes);
  for (int j = 0; j < arrays; j++) {
    memcpy(part->state[j] + i, room[3 + j], bytes);
    memcpy(part->old_state[j] + i, old[j], bytes);
  }
}

/* Copies the factors and the part: stores in the loop could alias either, so
** everything that a rule needs would be reloaded for each vector.  Field by
** field: the last factors were stored one by one just before, and wider loads
** would have to wait for those stores. */
INLINE int FORM(run)(FORM(rule) * rule, int arrays,
                     const struct optim_part *of) {
  const struct optim_factors *f = of->factors;
  const struct optim_factors k = {.dc = f->dc,
                                  .clip = f->clip,
                                  .decay = f->decay,
                                  .p = f->p,
                                  .p1 = f->p1,
                                  .q = f->q,
                                  .q1 = f->q1,
                                  .eps = f->eps,
                                  .beta = f->beta,
                                  .l1 = f->l1,
                                  .l2 = f->l2,
                                  .lr = f->lr,
                                  .inverse = f->inverse,
                                  .root = f->root,
                                  .scale = f->scale,
                                  .shrink = f->shrink};
  const struct optim_part part = *of;
  int plain =
      part.read == NULL && isinf(k.clip) && k.scale == 1 && k.decay == 0;
  VEC bad = SET(0);
  size_t i = 0;
  if (plain) { /* a separate loop */
    for (; i + WIDTH <= part.n; i += WIDTH) {
      FORM(step)(&k, rule, arrays, 1, &part, i, &bad);
    }
  } else {
    for (; i + WIDTH <= part.n; i += WIDTH) {
      FORM(step)(&k, rule, arrays, 0, &part, i, &bad);
    }
  }
  if (i < part.n) {
    FORM(step_tail)(&k, rule, arrays, plain, &part, i, &bad);
  }
  return ANY_NAN(bad);
}

TARGET static int FORM(apply)(uint32_t kind, int variant,
                              const struct optim_part *part) {
  switch (kind) {
  case OPTIM_MOMENTUM:
    return variant ? FORM(run)(FORM(nesterov), 1, part)
                   : FORM(run)(FORM(momentum), 1, part);
  case OPTIM_ADAGRAD:
    return FORM(run)(FORM(adagrad), 1, part);
  case OPTIM_ADAM:
    return FORM(run)(FORM(adam), 2, part);
  case OPTIM_AMSGRAD:
    return FORM(run)(FORM(amsgrad), 3, part);
  case OPTIM_RMSPROP:
    return variant ? FORM(run)(FORM(rmsprop_momentum), 2, part)
                   : FORM(run)(FORM(rmsprop), 1, part);
  case OPTIM_ADADELTA:
    return FORM(run)(FORM(adadelta), 2, part);
  case OPTIM_FTRL:
    return FORM(run)(FORM(ftrl), 2, part);
  case OPTIM_GROUP_FTRL:
    return FORM(run)(FORM(group_ftrl), 2, part);
  default: /* sgd; rowwise_adagrad is sgd with its own rate */
    return FORM(run)(FORM(sgd), 0, part);
  }
}

/* Returns the values to be squared and summed, for WIDTH elements. */
INLINE VEC FORM(summand)(enum optim_sum what, const struct optim_part *part,
                         size_t i) {
  const struct optim_factors *k = part->factors;
  VEC w = LOAD(part->w + i), root;
  VEC x =
      FORM(gradient)(k, LOAD(part->g + i), w,
                     part->read ? part->read + i : NULL, what != OPTIM_SUM_RAW);
  return what != OPTIM_SUM_GROUP
             ? x
             : FORM(ftrl_z)(k, x, w, LOAD(part->state[0] + i),
                            LOAD(part->state[1] + i), &root);
}

/* As above, for the last n < 16 elements, followed by zeros. */
INLINE void FORM(summands_tail)(enum optim_sum what,
                                const struct optim_part *part, size_t i,
                                float to[16]) {
  float room[5][16] = {{0}};
  size_t n = part->n - i, bytes = n * sizeof(float);
  struct optim_part tail = {.factors = part->factors,
                            .w = room[0],
                            .g = room[1],
                            .state = {room[3], room[4]}};
  memcpy(room[0], part->w + i, bytes);
  memcpy(room[1], part->g + i, bytes);
  if (part->read) {
    memcpy(room[2], part->read + i, bytes);
    tail.read = room[2];
  }
  if (what == OPTIM_SUM_GROUP) {
    memcpy(room[3], part->state[0] + i, bytes);
    memcpy(room[4], part->state[1] + i, bytes);
  }
  for (int j = 0; j < 16; j += WIDTH) {
    STORE(to + j, FORM(summand)(what, &tail, (size_t)j));
  }
  memset(to + n, 0, (16 - n) * sizeof(float));
}

/* Element i is added to sum i % 16, so all forms round alike. */
TARGET static double FORM(sum)(enum optim_sum what,
                               const struct optim_part *part) {
  FORM(lanes) sums = FORM(no_lanes)();
  size_t i = 0;
  for (; i + 16 <= part->n; i += 16) {
    for (int j = 0; j < 16; j += WIDTH) {
      FORM(add_squares)(&sums, j, FORM(summand)(what, part, i + (size_t)j));
    }
  }
  if (i < part->n) {
    float x[16];
    FORM(summands_tail)(what, part, i, x);
    for (int j = 0; j < 16; j += WIDTH) {
      FORM(add_squares)(&sums, j, LOAD(x + j));
    }
  }
  return FORM(sum_lanes)(&sums);
}

#undef INLINE
#undef WATCH
#undef FORM
#undef TARGET
#undef VEC
#undef WIDTH
#undef LOAD
#undef STORE
#undef SET
#undef SQRT
#undef MIN
#undef MAX
#undef ABS
#undef ANY_NAN
#undef SIGNED
