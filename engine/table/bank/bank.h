/* SPDX-License-Identifier: MIT
**
** bank.h -- gradients that are averaged lazily (CARLS, arXiv 2105.01899,
** section 3: "caching the results of gradient update until the next lookup
** request arrives, or an expiration time is reached.  The update is based on
** the average of all cached gradients with possible outlier detection").
**
** Where emb_config.gradients is "average(...)", emb_apply_gradients does not
** change rows: it keeps the gradients of a key until something needs the row.
** Then the average of them, without outliers (average.c), makes one step of the
** optimizers, with the learning rate, the step number and the time of the
** latest.
**
** WHEN      a call needs the row as it is (calls.def says which); the key has
**           `max` gradients; the oldest of them is older than `expire`
**           (task.c); the shard has no more memory: then its oldest go.
**           Nothing is dropped but outliers, and a step whose result would not
**           be finite (counted: gradients_refused).
** STATES    of a key:
**
**             absent --add--> pending --take--> taken --finish--> absent
**                               ^  |  ^           |
**                               +--+  |          add
**                               add   |           v
**                               +--finish-- taken and pending
**
**           A flusher that takes a key has all its gradients to itself; what is
**           sent meanwhile becomes the next average.  After a failure it puts
**           them back in front of these, and the caller gets the error.
** INVARIANT B1  What was acknowledged before a call that needs the row is in
**               the row when the call looks at it.  Each first gradient of an
**               average has a number that grows; the call notes the last one
**               given out, takes what has a lower one, and waits where another
**               has taken it.
**           B2  At most 2 * max gradients of a key are kept, and in a shard at
**               most its bytes and one key more.
**           B3  Nobody waits for a key that is taken while it has taken one
**               itself, nor with a key taken for a transaction: so flushers
**               wait for the disk only, and not for each other.
** TRANSACTIONS  A key that a transaction holds is not taken: who needs the row
**           waits for the transaction's end, as a Put would; the transaction's
**           own session does not, for it sees its own row, which is older.  A
**           gradient for such a key waits before it is kept.
** FAILURE   Of a flush: the gradients are kept, and whoever needs the row gets
**           the error, also reads, and in a store that has FAILED.  Of keeping
**           one: as emb_put, a prefix of the batch is kept.  A crash loses what
**           is pending, as it loses what emb_put wrote since the last
**           checkpoint, commit or close: these flush first.
** MEMORY    An eighth of the table's budget, beside it (BANK_PART), in equal
**           parts for the shards; but a key fits in any case.
** THREADS   Any session, and the task's.  A shard's lock is held for one
**           gradient or one key and nothing is waited for under it, nor is
**           anything of the engine called; only its own condition is.
*/
#ifndef EMB_BANK_H
#define EMB_BANK_H

#include "engine/table/session/session.h"

enum bank_outlier {
  OUTLIER_NONE = 0,
  OUTLIER_NORM,
  OUTLIER_MAD,
  OUTLIER_COSINE,
  OUTLIER_TRIM,
};

struct bank_rule {
  int is_on;
  uint32_t max;
  uint64_t expire_us;
  uint32_t outlier; /* enum bank_outlier */
  double limit;     /* its number */
};

#define BANK_MAX 65536
#define BANK_SHARDS 32
/* Of the table's budget. */
#define BANK_PART 8
/* Keys that are flushed together at most. */
#define BANK_PIECE 64

/* A gradient, or the sum of several where no outliers are looked for. */
struct bank_given {
  struct bank_given *next;
  uint32_t n;     /* gradients that it is the sum of */
  uint32_t times; /* rows of batches that these came in */
  uint64_t step;
  float lr; /* the latest's, as the next two */
  uint32_t time;
  union { /* dim of them */
    double sum[1];
    float row[1];
  } u;
};

struct bank_key {
  struct bank_key *chain;         /* of its bucket */
  struct bank_key *older, *newer; /* of its shard, by number */
  int64_t key;
  struct bank_given *first, *last; /* pending, in the order of arrival */
  uint32_t n;                      /* gradients in them */
  uint32_t taken_n;
  uint64_t number;   /* of the first one; 0: none is pending */
  uint64_t since_us; /* when that came */
  uint64_t taken;    /* number of what is being applied; 0: nothing is */
  uint64_t taken_us;
  uint64_t pass; /* the last flush that found it held by a transaction */
};

struct bank_shard {
  pthread_mutex_t lock;
  pthread_cond_t done; /* something was applied, or put back */
  /* Written under lock, read by any without (acquire): 0 says that nothing
  ** that was acknowledged is pending. */
  _Atomic uint32_t keys;
  _Atomic uint64_t bytes; /* written under lock; relaxed */
  /* The rest: lock. */
  struct bank_key **buckets;
  size_t room; /* buckets, a power of two */
  struct bank_key *oldest, *newest;
  uint64_t gradients;
  struct bank_given *spare; /* for the next gradients */
  struct bank_key *spare_key;
  uint32_t spares, spare_keys;
  char apart[64]; /* shards in lines of the cache of their own */
};

struct bank {
  struct bank_rule rule;
  emb_store *store;
  uint32_t dim;
  size_t given_bytes; /* of a gradient */
  emb_session *s;     /* the task's; made at its first need */
  /* Numbers that were given out, and flushes; any session. */
  _Atomic uint64_t number, passes;
  /* For emb_stats; relaxed. */
  _Atomic uint64_t kept, steps, outliers, refused, overflows;
  struct bank_shard *shards; /* BANK_SHARDS; NULL: it is off */
};

/* ---- options.c ----------------------------------------------------------- */

/* "none", NULL, or "average(...)".  EMB_RANGE, with what is wrong. */
int bank__parse(struct bank_rule *rule, const char *text, emb_err *err);

/* ---- average.c ----------------------------------------------------------- */

struct bank_set {
  const float *const *rows;
  uint32_t n, dim;
};
/* Doubles that bank__average needs. */
size_t bank__scratch(uint32_t n, uint32_t dim);
/* The average without outliers; returns how many these were. */
uint32_t bank__average(const struct bank_rule *rule, const struct bank_set *set,
                       double *scratch, float *to);

/* ---- shard.c ------------------------------------------------------------- */

/* What a flusher has taken of a key. */
struct bank_item {
  struct bank_shard *shard;
  struct bank_key *key;
  struct bank_given *first, *last;
  uint32_t n;
  uint64_t number, since_us;
};

static inline uint32_t bank__shard_of(uint64_t hash) {
  return (uint32_t)(hash >> 40) % BANK_SHARDS;
}
static inline struct bank_shard *bank__shard(const struct bank *bank,
                                             uint64_t hash) {
  return &bank->shards[bank__shard_of(hash)];
}
int bank__shard_init(struct bank *bank, struct bank_shard *shard);
/* Drops what is pending. */
void bank__shard_free(struct bank *bank, struct bank_shard *shard);
/* Under the shard's lock; NULL: nothing of the key is there. */
struct bank_key *bank__find(const struct bank_shard *shard, int64_t key);

struct bank_gradient {
  int64_t key;
  const float *row;
  uint32_t times, time;
  float lr;
  uint64_t step;
};
enum { KEEP_FULL = -7, KEEP_ROOM = -8, KEEP_RIPE = -9 };
/* Keeps n gradients, at most BANK_PIECE, of keys of the shard that differ, up
** to the first that is not simply kept, for which *rc is: KEEP_RIPE, it was
** kept, and its key has `max` by now; KEEP_FULL, not kept, the key has as many
** as it may; KEEP_ROOM, not kept, the shard's bytes are used up; EMB_NOMEM, not
** kept.  Returns how many come before that one. */
uint32_t bank__keep(struct bank *bank, struct bank_shard *shard,
                    const struct bank_gradient *g, uint32_t n, int *rc);
/* Under the shard's lock: takes what is pending of a key that is not taken. */
void bank__take(struct bank_shard *shard, struct bank_key *key,
                struct bank_item *item);
/* It was applied (or refused), or is put back.  pass: not to be taken again by
** this one. */
void bank__finish(struct bank *bank, const struct bank_item *item, int applied,
                  uint64_t pass);

/* ---- settle.c ------------------------------------------------------------ */

/* Which keys are flushed. */
struct bank_want {
  const int64_t *keys; /* these; NULL: of the shards */
  size_t n;
  struct bank_shard *only; /* of this one; NULL: of all */
  size_t most;             /* so many keys, 0: all */
  uint64_t before_us;      /* since then or earlier, 0: whenever */
  int waits;               /* for what others have taken, and transactions */
};
/* Flushes; *steps (or NULL) grows by the keys. */
int bank__settle(emb_session *s, const struct bank_want *want, uint64_t *steps);
/* A call begins that needs rows as they are: of n keys, or of all (NULL). */
int bank__rows(emb_session *s, const int64_t *keys, size_t n);

/* ---- gradients.c --------------------------------------------------------- */

struct rmw_ask;
/* Are these gradients for rows as they are now?  So are all of a call. */
int bank_at_once(const emb_session *s, const emb_update *how);
/* Gradients of a call of such, or which are averaged where the store does. */
int bank_gradients(emb_session *s, const struct rmw_ask *ask, int at_once);
/* What the store's `average` is. */
int bank__apply_gradients(emb_session *s, const struct rmw_ask *ask);

static inline struct bank *bank_of(const emb_store *store) {
  return store->features[FEATURE_bank];
}

#endif
