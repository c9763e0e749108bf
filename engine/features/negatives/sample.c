/* SPDX-License-Identifier: MIT
**
** sample.c -- emb_sample: random keys, and the probabilities that a sampled
** softmax needs.
**
** DISTRIBUTIONS
**   uniform      each key of the table alike                       [slots.c]
**   log-uniform  keys as ranks, rank k with probability
**                ln((k+2)/(k+1)) / ln(range+1)                     [law.c]
**   frequency    by the number of updates, to a power            [weights.c]
**
** WHAT COMES  Keys that the session sees when they are drawn: its own
**             uncommitted ones, but no other session's; by frequency, only
**             those that were there when frequencies were last counted.
**
** p         of a row is the probability that a single draw gives its key; if
**           draws can fail, because a rank is not a key of the table or a key
**           is excluded, p includes the failures.  For uniform p is 1/m, m the
**           number of keys that may come; failures are not counted.
** expected  count of a row's key in the sample, if there were T draws: T p with
**           replacement, which is right in the mean whatever makes draws fail
**           (Wald); 1 - (1 - p)^T without, which is nearly right, as in
**           TensorFlow's candidate samplers and CARLS (Jean et al. 2015,
**           section 3).  Uniform, without replacement: each of the m keys is
**           among the n rows with probability n/m, which is both p and the
**           expected count.  If all keys that may come have come, it is 1.
**
** A CALL    1  the arguments are checked; excluded keys become a set
**           2  rounds of at most a chunk of rows, each in one stay in the
**              epoch: keys are drawn (draw.h), and their vectors copied, as by
**              emb_peek, from the entries found; records on disk are read
**              afterwards
**           3  a row deleted in between is left out; the next round draws
**              another
**           4  after very many draws, or when there are less than twice as many
**              keys as rows, the keys are listed, and drawn from the list
**
** A call uses 8 to 64 bytes of engine memory for each row and each excluded
** key, plus the memory of its source (draw.h).
**
** SEED      A call's random numbers come from its seed alone.  Listed keys are
**           in order, and so are ranks and frequencies: the sample depends on
**           the keys (and how often they were updated).  Places of the index
**           also depend on the order in which keys were added and removed: the
**           sample repeats while no key is added or removed, and after the same
**           changes, made one after the other, to a table that began empty.
*/
#include "sample.h"
#include "engine/table/owner/own.h"

#include <math.h>
#include <string.h>

#include "engine/table/bank/needs.h"
#include "engine/table/rows/get.h"
#include "weights.h"

/* ---- checks -------------------------------------------------------------- */

int sample_check_size(emb_session *s, size_t n) {
  return n > EMB_SAMPLE_MAX
             ? session_error(s, EMB_RANGE,
                             "the number of rows must be between 0 and %u, got "
                             "%zu",
                             EMB_SAMPLE_MAX, n)
             : EMB_OK;
}

static int sample_check_how(emb_session *s, const emb_sample_how *how) {
  if (how->distribution > EMB_FREQUENCY) {
    return session_error(s, EMB_RANGE, "unknown distribution %u",
                         how->distribution);
  }
  if (how->distribution == EMB_LOG_UNIFORM && how->range < 0) {
    return session_error(s, EMB_RANGE,
                         "the range must be between 1 and %lld, got %lld",
                         (long long)INT64_MAX, (long long)how->range);
  }
  if (how->distribution == EMB_FREQUENCY &&
      !(how->power >= 0 && how->power <= EMB_SAMPLE_POWER_MAX)) {
    return session_error(s, EMB_RANGE,
                         "the power must be between 0 and %d, got %g",
                         EMB_SAMPLE_POWER_MAX, how->power);
  }
  if (how->distribution == EMB_FREQUENCY && !schema_tracks(&s->core->schema)) {
    return session_error(s, EMB_UNFIT,
                         "%s was created without track=", s->core->dir);
  }
  return EMB_OK;
}

/* ---- rows ---------------------------------------------------------------- */

/* Moves the rows still in the table to the front; returns how many. */
static uint32_t leave_out_gone(struct draw *d, float *vectors, uint32_t n) {
  size_t dim = d->s->core->layout.dim;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (!d->found[i]) {
      continue;
    }
    if (kept != i) {
      d->keys[kept] = d->keys[i];
      d->p[kept] = d->p[i];
      memcpy(vectors + kept * dim, vectors + i * dim, dim * sizeof(float));
    }
    kept++;
  }
  return kept;
}

/* For a table that averages gradients: applies the rows' pending gradients
** first. */
static int peek_settled(struct draw *d, float *vectors, uint32_t n) {
  int rc = bank_enter(d->s, BANK_KEYS, d->keys, n);
  return rc ? rc : local_peek(d->s, d->keys, n, vectors, d->found, NULL);
}

/* Draws the next rows, at most `want`; *n of them. */
static int next_round(struct draw *d, float *vectors, uint32_t want,
                      uint32_t *n) {
  emb_session *s = d->s;
  int rc, is_averaged = emb_averages(s->store);
  uint32_t cold = 0;
  struct get g = {
      .s = s, .keys = d->keys, .vectors = vectors, .found = d->found};
  epoch_enter(&s->core->epoch, s->slot);
  *n = d->next(d, want);
  if (vectors && *n && !is_averaged) {
    memset(d->found, 0, *n);
    get_deliver_rows(&g, *n, &cold);
  }
  epoch_leave(s->slot);
  if (!vectors || !*n) {
    return EMB_OK;
  }
  if (is_averaged) {
    rc = peek_settled(d, vectors, *n);
  } else {
    rc = get_from_disk(&g, cold);
    get_tally(&g, *n);
  }
  *n = leave_out_gone(d, vectors, *n);
  return rc;
}

/* ---- a call -------------------------------------------------------------- */

/* Puts the excluded keys into the set; *within: how many of them are in the
** table. */
static int sample_exclude(struct draw *d, uint64_t *within) {
  const emb_sample_how *how = d->how;
  emb_session *s = d->s;
  int rc = EMB_OK;
  keyset_free(&d->set, s->core->env);
  *within = 0;
  d->uses_set = how->without_count || !d->replaces;
  if (d->uses_set &&
      keyset_init(&d->set, s->core->env,
                  how->without_count + (d->replaces ? 0 : d->n))) {
    return session_error(s, EMB_NOMEM, "out of memory");
  }
  for (size_t at = 0, n; !rc && at < how->without_count; at += n) {
    n = how->without_count - at;
    n = n < s->chunk ? n : s->chunk;
    rc = local_exists(s, how->without + at, n, d->found);
    for (size_t i = 0; !rc && i < n; i++) {
      *within += keyset_add(&d->set, how->without[at + i]) && d->found[i];
    }
    rc = rc ? rc : session_poll(s);
  }
  return rc;
}

static int make_list(struct draw *d) {
  uint64_t within;
  int rc = sample_exclude(d, &within);
  return rc ? rc : listed__begin(d);
}

/* Chooses the source. */
static int choose_source(struct draw *d) {
  uint64_t within, rows;
  int rc = sample_exclude(d, &within);
  if (rc) {
    return rc;
  }
  int64_t all = local_count(d->s);
  rows = all > 0 ? (uint64_t)all : 0;
  d->rows = rows > within ? rows - within : 0;
  switch (d->how->distribution) {
  case EMB_LOG_UNIFORM:
    return law__begin(d);
  case EMB_FREQUENCY:
    return weights__begin(d);
  default:
    if (d->rows / 2 < d->n) {
      return make_list(d);
    }
    slots__begin(d);
    return EMB_OK;
  }
}

/* Draws rounds until there are n rows, or no more keys. */
static int draw_rows(struct draw *d, const emb_samples *to, double *p,
                     size_t *count) {
  emb_session *s = d->s;
  size_t dim = s->core->layout.dim;
  unsigned fruitless = 0;
  *count = 0;
  while (*count < d->n && d->next) {
    size_t left = d->n - *count;
    emb_check(draw_valid(d));
    uint32_t n, want = left < s->chunk ? (uint32_t)left : s->chunk;
    float *vectors = to->vectors ? to->vectors + *count * dim : NULL;
    int rc = next_round(d, vectors, want, &n);
    if (rc) {
      return rc;
    }
    memcpy(to->keys + *count, d->keys, n * sizeof *d->keys);
    if (p) {
      memcpy(p + *count, d->p, n * sizeof *p);
    }
    *count += n;
    fruitless = n ? 0 : fruitless + 1;
    if (*count < d->n) {
      rc = session_interrupted(s);
      if (rc) {
        return rc;
      }
      if (d->most < INFINITY && d->draws > d->most) {
        rc = make_list(d);
        *count = 0;
        if (rc) {
          return rc;
        }
      } else if (fruitless > 2 && isinf(d->most)) {
        break; /* all listed keys have been drawn or deleted */
      }
    }
  }
  return EMB_OK;
}

/* Reports p of each row, NULL if all are equal, and the expected counts. */
static void sample_tell(const struct draw *d, const emb_samples *to,
                        const double *p, size_t count) {
  double alike = 0;
  int all_came = !d->replaces && count < d->n;
  if (d->rows) {
    alike = (d->replaces ? 1.0 : (double)count) / (double)d->rows;
    alike = alike < 1 ? alike : 1;
  }
  for (size_t i = 0; i < count; i++) {
    double of = p ? p[i] : alike;
    double expected = all_came      ? 1
                      : d->replaces ? (p ? d->draws : (double)d->n) * of
                      : p           ? -expm1(d->draws * log1p(-of))
                                    : of;
    if (to->probabilities) {
      to->probabilities[i] = of;
    }
    if (to->expected_counts) {
      to->expected_counts[i] = expected;
    }
  }
}

static int make_rounds(struct draw *d, const emb_samples *to, double **p) {
  struct env *env = d->s->core->env;
  size_t chunk = d->s->chunk;
  int is_told = to->probabilities || to->expected_counts;
  d->keys = env->allocate(env, chunk * sizeof *d->keys);
  d->p = env->allocate(env, chunk * sizeof *d->p);
  d->found = env->allocate(env, chunk);
  d->tells = is_told && d->how->distribution != EMB_UNIFORM;
  if (d->tells) {
    *p = env->allocate(env, d->n * sizeof **p);
  }
  return d->keys && d->p && d->found && (*p || !d->tells)
             ? EMB_OK
             : session_error(d->s, EMB_NOMEM, "out of memory");
}

static int sample_seed(struct draw *d) {
  struct env *env = d->s->core->env;
  uint64_t seed = d->how->seed;
  int os = d->how->flags & EMB_SAMPLE_SEEDED
               ? 0
               : env->random(env, &seed, sizeof seed);
  d->random = hash_mix(seed + 1);
  return os ? session_error(d->s, EMB_IOERR, "no random numbers") : EMB_OK;
}

int local_sample(emb_session *s, size_t n, const emb_sample_how *how,
                 const emb_samples *to, size_t *count) {
  const emb_sample_how all = {0};
  struct draw d = {.s = s, .how = how ? how : &all, .n = n};
  struct env *env = s->core->env;
  double *p = NULL;
  size_t made = 0;
  *count = 0;
  int rc = session_begin(s);
  rc = rc ? rc : own_refresh(s);
  rc = rc ? rc : sample_check_size(s, n);
  rc = rc ? rc : sample_check_how(s, d.how);
  if (rc || !n) {
    return rc;
  }
  d.replaces = (d.how->flags & EMB_SAMPLE_REPLACE) != 0;
  count_add(&sampling_of(s->store)->samples, 1);
  rc = sample_seed(&d);
  rc = rc ? rc : make_rounds(&d, to, &p);
  rc = rc ? rc : choose_source(&d);
  rc = rc ? rc : draw_rows(&d, to, p, &made);
  if (!rc) {
    sample_tell(&d, to, p, made);
    *count = made;
  }
  weights__end(&d);
  listed__end(&d);
  keyset_free(&d.set, env);
  env->release(env, p);
  env->release(env, d.keys);
  env->release(env, d.p);
  env->release(env, d.found);
  return rc;
}
