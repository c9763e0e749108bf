/* SPDX-License-Identifier: MIT
**
** bank.h -- lazily averaged gradients (CARLS, arXiv 2105.01899, section 3:
** "caching the results of gradient update until the next lookup request
** arrives, or an expiration time is reached.  The update is based on the
** average of all cached gradients with possible outlier detection").
**
** If emb_config.gradients is "average(...)", emb_apply_gradients does not
** change rows: it keeps the gradients of a key until something needs the row.
** Then their average, without outliers (average.c), makes one step of the
** optimizers, with the learning rate, step number and time of the latest
** gradient.
**
** WHEN      A key is applied when a call needs its row up to date (calls.def
**           says which calls); when it has `max` gradients; when its oldest
**           gradient is older than `expire` (task.c); or when the shard is out
**           of memory, the oldest keys first.  Nothing is dropped except
**           outliers, and a step whose result would not be finite (counted:
**           gradients_refused).
** STATES    of a key:
**
**             absent --add--> pending --take--> taken --finish--> absent
**                               ^  |  ^           |
**                               +--+  |          add
**                               add   |           v
**                               +--finish-- taken and pending
**
**           A flusher that takes a key owns all its gradients; gradients sent
**           while it works become the next average.  After a failure it puts
**           its gradients back in front of these, and the caller gets the
**           error.
** INVARIANT B1  Gradients acknowledged before a call that needs the row are in
**               the row when the call reads it.  The first gradient of each
**               average has an increasing number; the call notes the last one
**               given out, takes the keys with numbers up to that, and waits
**               for those that another session has taken.
**           B2  At most 2 * max gradients of a key are kept, and in a shard at
**               most its bytes and one key more.
**           B3  No session waits for a taken key while it has taken one itself,
**               nor for a transaction while it has taken a key.  Flushers thus
**               wait only for the disk, and not for each other.
** TRANSACTIONS  A key held by a transaction is not taken.  A session that needs
**           the row waits for the transaction's end, as a Put would.  The
**           transaction's own session does not wait, because it sees its own
**           row, which is older.  A gradient for such a key waits before it is
**           kept.
** FAILURE   A flush that fails keeps the gradients, and every call that needs
**           the row gets the error, even a read, and also in a store that has
**           FAILED.  Keeping gradients fails as emb_put does: a prefix of the
**           batch is kept.  A crash loses pending gradients, as it loses rows
**           that emb_put wrote since the last checkpoint, commit or close;
**           these three flush first.
** MEMORY    An eighth of the table's budget, on top of it (BANK_PART), divided
**           equally among the shards; but one key fits in any case.
** THREADS   Any session, and the task's.  A shard's lock is held for one
**           gradient or one key.  Under it a thread waits only for the shard's
**           own condition, and calls nothing of the engine.
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
/* The bank's budget is the table's divided by this. */
#define BANK_PART 8
/* Maximum number of keys flushed together. */
#define BANK_PIECE 64

/* A gradient, or the sum of several where no outliers are looked for. */
struct bank_given {
  struct bank_given *next;
  uint32_t n;     /* number of gradients summed */
  uint32_t times; /* number of batch rows they came in */
  uint64_t step;  /* of the latest gradient, like lr and time */
  float lr;
  uint32_t time;
  union { /* dim elements */
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
  uint64_t number;   /* of the first pending gradient; 0: none is pending */
  uint64_t since_us; /* when that gradient came */
  uint64_t taken;    /* number of the average being applied; 0: none is */
  uint64_t taken_us;
  uint64_t pass; /* the last flush that found it held by a transaction */
};

struct bank_shard {
  pthread_mutex_t lock;
  pthread_cond_t done; /* a key was applied, or put back */
  /* Written under lock, read by any thread without it (acquire): 0 means that
  ** no acknowledged gradient is pending. */
  _Atomic uint32_t keys;
  _Atomic uint64_t bytes; /* written under lock; relaxed */
  /* The fields below are under lock. */
  struct bank_key **buckets;
  size_t room; /* buckets, a power of two */
  struct bank_key *oldest, *newest;
  uint64_t gradients;
  struct bank_given *spare; /* for the next gradients */
  struct bank_key *spare_key;
  uint32_t spares, spare_keys;
  char apart[64]; /* keeps shards in separate cache lines */
};

struct bank {
  struct bank_rule rule;
  emb_store *store;
  uint32_t dim;
  size_t given_bytes; /* of a gradient */
  emb_session *s;     /* the task's; created when first needed */
  /* Last number given out, and flushes begun; any session. */
  _Atomic uint64_t number, passes;
  /* For emb_stats; relaxed. */
  _Atomic uint64_t kept, steps, outliers, refused, overflows;
  struct bank_shard *shards; /* BANK_SHARDS; NULL: it is off */
};

/* ---- options.c ----------------------------------------------------------- */

/* Parses "none", NULL, or "average(...)".  EMB_RANGE: the text says what is
** wrong. */
int bank__parse(struct bank_rule *rule, const char *text, emb_err *err);

/* ---- average.c ----------------------------------------------------------- */

struct bank_set {
  const float *const *rows;
  uint32_t n, dim;
};
/* Number of doubles that bank__average needs. */
size_t bank__scratch(uint32_t n, uint32_t dim);
/* Computes the average without outliers; returns the number of outliers. */
uint32_t bank__average(const struct bank_rule *rule, const struct bank_set *set,
                       double *scratch, float *to);

/* ---- shard.c ------------------------------------------------------------- */

/* The gradients of a key that a flusher has taken. */
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
/* Frees the shard and drops all pending gradients. */
void bank__shard_free(struct bank *bank, struct bank_shard *shard);
/* Under the shard's lock; NULL: the shard has nothing of the key. */
struct bank_key *bank__find(const struct bank_shard *shard, int64_t key);

/* Only in self-checking builds; under the shard's lock. */
int bank_shard_valid(const struct bank *bank, const struct bank_shard *shard);

struct bank_gradient {
  int64_t key;
  const float *row;
  uint32_t times, time;
  float lr;
  uint64_t step;
};
enum { KEEP_FULL = -7, KEEP_ROOM = -8, KEEP_RIPE = -9 };
/* Keeps n gradients, at most BANK_PIECE, of distinct keys of the shard.  Stops
** at the first that is not simply kept, and sets *rc for it: KEEP_RIPE, kept,
** and its key now has `max`; KEEP_FULL, not kept, the key is at its limit;
** KEEP_ROOM, not kept, the shard's bytes are used up; EMB_NOMEM, not kept.
** Returns the number of gradients before that one. */
uint32_t bank__keep(struct bank *bank, struct bank_shard *shard,
                    const struct bank_gradient *g, uint32_t n, int *rc);
/* Takes the pending gradients of a key that is not taken.  Under the shard's
** lock. */
void bank__take(struct bank_shard *shard, struct bank_key *key,
                struct bank_item *item);
/* Ends a take: the item was applied (or refused), or else is put back.  The
** flush with the number `pass` will not take the key again. */
void bank__finish(struct bank *bank, const struct bank_item *item, int applied,
                  uint64_t pass);

/* ---- settle.c ------------------------------------------------------------ */

/* Which keys are flushed. */
struct bank_want {
  const int64_t *keys; /* these keys; NULL: the keys of the shards */
  size_t n;
  struct bank_shard *only; /* this shard only; NULL: all shards */
  size_t most;             /* at most this number of keys, 0: all */
  uint64_t before_us;      /* pending since then or earlier, 0: any */
  int waits;               /* waits for other flushers and transactions */
};
/* Flushes; adds the number of keys applied to *steps (or NULL). */
int bank__settle(emb_session *s, const struct bank_want *want, uint64_t *steps);
/* A call begins that needs up-to-date rows: of n keys, or of all (NULL). */
int bank__rows(emb_session *s, const int64_t *keys, size_t n);

/* ---- gradients.c --------------------------------------------------------- */

struct rmw_ask;
/* Must these gradients be applied immediately?  The answer holds for all
** gradients of a call. */
int bank_at_once(const emb_session *s, const emb_update *how);
/* Applies gradients, immediately or averaged if the store averages. */
int bank_gradients(emb_session *s, const struct rmw_ask *ask, int at_once);
/* The function that the store's `average` points to. */
int bank__apply_gradients(emb_session *s, const struct rmw_ask *ask);

static inline struct bank *bank_of(const emb_store *store) {
  return store->features[FEATURE_bank];
}

#endif
