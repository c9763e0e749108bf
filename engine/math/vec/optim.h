/* SPDX-License-Identifier: MIT
**
** optim.h -- optimizers: one step of one row.
**
** A row is a vector w, float32 or float16, and `state`, the float32 values that
** its optimizer keeps with it.  optim_apply takes the gradient g of the loss
** with respect to w, and updates both.
**
** GRADIENT  Processed before the optimizer sees it, in this order:
**             dc            g += dc g g (w - read), where `read` is the vector
**                           with which the gradient was computed; compensates
**                           for the delay (Zheng et al., ICML 2017, eq. 10)
**             clip_value    each element to -clip_value .. clip_value
**             clip_norm     g *= clip_norm / |g| if |g| is larger, |g| being
**                           the Euclidean norm of the row
**             weight_decay  g += weight_decay w (coupled, as L2 in the loss)
**           Each is off at 0, which is the default of all four.
**
** OPTIMIZERS with their defaults.  Per element, unless stated otherwise.
**
**   sgd(lr=0.01)                                              Monolith
**     w -= lr g
**   momentum(lr=0.01, momentum=0.9, nesterov=0)               PyTorch's SGD
**     v = momentum v + g
**     w -= lr v, with nesterov=1: w -= lr (g + momentum v)
**   adagrad(lr=0.001, eps=1e-10, initial_accumulator=0.1)
**     a += g^2;  w -= lr g / (sqrt(a) + eps)
**     Duchi et al., JMLR 2011; lr and accumulator Monolith's, eps PyTorch's
**   rowwise_adagrad(lr=0.01, eps=1e-10, initial_accumulator=0.1)
**     a += mean(g^2) over the row;  w -= lr g / (sqrt(a) + eps)
**     FBGEMM; Monolith's group_adagrad has these defaults
**   adam(lr=0.001, beta1=0.9, beta2=0.999, eps=1e-8)
**     m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
**     w -= lr m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps)
**     Kingma and Ba, ICLR 2015, algorithm 1.  t counts the steps of this row,
**     because rows are not updated equally often.
**   amsgrad(same as adam)
**     x = max(x, v); as adam with x in place of v in the last line
**     Reddi et al., ICLR 2018, with the bias correction of PyTorch
**   rmsprop(lr=0.01, alpha=0.99, eps=1e-8, momentum=0)        PyTorch
**     v = alpha v + (1 - alpha) g^2
**     b = momentum b + g / (sqrt(v) + eps);  w -= lr b
**     Tieleman and Hinton 2012
**   adadelta(lr=1, rho=0.95, eps=1e-6)
**     v = rho v + (1 - rho) g^2;  d = g sqrt(u + eps) / sqrt(v + eps)
**     u = rho u + (1 - rho) d^2;  w -= lr d
**     Zeiler 2012, algorithm 1, which has no lr
**   ftrl(lr=0.01, beta=0, l1=0, l2=0, initial_accumulator=0.1)
**     z += g - (sqrt(n + g^2) - sqrt(n)) / lr w;  n += g^2
**     w = 0 if |z| <= l1, else -(z - sign(z) l1) / ((beta + sqrt(n)) / lr + l2)
**     McMahan et al., KDD 2013, algorithm 1; defaults Monolith's
**   group_ftrl(lr=0.01, beta=1, l1=0, l2=0, initial_accumulator=0)
**     z and n as in ftrl; then with the norm |z| of the row and d elements
**     w = 0 if |z| <= l1 sqrt(d), else
**     w = -(1 - l1 sqrt(d) / |z|) z / ((beta + sqrt(n)) / lr + l2)
**     The row vanishes as a whole: group lasso in FTRL (Ni et al., CIKM 2019,
**     doi 10.1145/3357384.3358114); defaults Monolith's
**
**   stochastic_rounding=1, on each of them: a float16 vector is rounded up or
**   down, with the probability that makes the mean correct, instead of to
**   nearest even.  The random number is a hash of key, version and element, so
**   a run is repeatable.
**
** RESULT    Identical bit for bit on every machine and in every form: each
**           operation is one IEEE float32 operation, none fused, in the order
**           above.  Sums over a row are float64 in 16 lanes, element i in lane
**           i % 16; the lanes are then added as a tree (k and k + 8, + 4, + 2
**           and + 1).
** FAILURE   A step whose result would not be a finite row (the gradient or
**           `read` is not finite, or something overflows) changes nothing.
** THREADS   No state of its own; the caller owns the row during a call.
*/
#ifndef EMB_VEC_OPTIM_H
#define EMB_VEC_OPTIM_H

#include "engine/base/debug.h"
#include "engine/base/err.h"
#include "vec.h"

struct optim__form;

enum optim_kind {
  OPTIM_SGD,
  OPTIM_MOMENTUM,
  OPTIM_ADAGRAD,
  OPTIM_ROWWISE_ADAGRAD,
  OPTIM_ADAM,
  OPTIM_AMSGRAD,
  OPTIM_RMSPROP,
  OPTIM_ADADELTA,
  OPTIM_FTRL,
  OPTIM_GROUP_FTRL,
};

/* Float32 factors of the formulas: from the parameters, or computed for each
** step. */
struct optim_factors {
  float dc, clip, decay;
  float p, p1; /* momentum, beta1, alpha or rho; p1 = 1 - p */
  float q, q1; /* beta2, or momentum of rmsprop; q1 = 1 - q */
  float eps, beta, l1, l2;
  float lr, inverse; /* of this step, and 1 / lr */
  float root;        /* 1 / sqrt(1 - beta2^t) */
  float scale;       /* of the gradient, by clip_norm */
  float shrink;      /* 1 - l1 sqrt(d) / |z| */
};

/* Set by optim_parse; a plain value that can be copied. */
struct optim {
  uint32_t kind; /* enum optim_kind */
  double lr, momentum, nesterov, beta1, beta2, eps, alpha, rho, beta, l1, l2;
  double initial_accumulator;
  double weight_decay, clip_value, clip_norm, dc, stochastic_rounding;
  struct optim_factors factors;
  uint32_t heads, arrays; /* of state: single floats, arrays of dim floats */
  const struct optim__form *form; /* arithmetic; vec: conversions */
  const struct vec_ops *vec;
};

/* Maximum size of optim_print's text, with the terminating zero. */
enum { OPTIM_TEXT_MAX = 512 };

/* Parses the syntax of base/param.h, such as adagrad(lr=0.05, clip_norm=1). */
int optim_parse(struct optim *optim, const char *text, emb_err *err);
/* Writes all parameters, so that optim_parse restores the same value; returns
** the length, or 0 if size is too small. */
size_t optim_print(const struct optim *optim, char *out, size_t size);

/* Only in self-checking builds (vec_valid.c). */
int optim_valid(const struct optim *optim);

/* The number of float32 in a row's state. */
uint32_t optim_state_floats(const struct optim *optim, uint32_t dim);

/* Initializes the state of a new row.  ftrl and group_ftrl compute w from their
** state: they start from `vector`, or from zeros if it is NULL. */
void optim_init(const struct optim *optim, uint32_t dim, const float *vector,
                float *state);

/* Arguments that differ from call to call. */
struct optim_step {
  float lr;          /* negative or NaN: the optimizer's own */
  const float *read; /* for dc; NULL: no compensation */
  uint64_t step;     /* t of adam and amsgrad; 0: the row's own count */
  int64_t key;       /* with version, seeds stochastic_rounding */
  uint64_t version;
};

/* Makes one step.  No pointer need be aligned; none may overlap another.
** EMB_NONFINITE: vector and state are unchanged (see FAILURE). */
int optim_apply(const struct optim *optim, uint32_t dim, float *vector,
                float *state, const float *gradient,
                const struct optim_step *step);
/* As optim_apply, for float16.  A result beyond 65504 is not finite. */
int optim_apply_f16(const struct optim *optim, uint32_t dim, uint16_t *vector,
                    float *state, const float *gradient,
                    const struct optim_step *step);

/* Selects form i, in the order of vec__form; 0: there is no such form.
** optim_parse selects the widest. */
int optim_use_form(struct optim *optim, int i);

#endif
