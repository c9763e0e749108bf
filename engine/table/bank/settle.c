/* SPDX-License-Identifier: MIT
**
** settle.c -- flushes: applies pending gradients.
**
** A flush runs in rounds.  A round takes the wanted keys that no session has
** taken, a piece at a time, and applies each piece as one batch (piece.c).
** Then, if the flush may wait: if another session has taken a key whose
** gradients are older than the call, it waits until that session has finished,
** and runs another round, since the key may have been put back.  If a
** transaction holds a key, it waits a little and runs another round.  A round
** that finds neither has done everything (B1).
*/
#include "engine/table/session/txn_map.h"
#include "needs.h"
#include "piece.h"

/* Longest single sleep while waiting for another session's flush. */
#define AWAIT_US 20000

struct flush {
  emb_session *s;
  struct bank *bank;
  const struct bank_want *want;
  uint64_t start; /* higher numbers were given out after the call began */
  struct bank_piece *piece; /* allocated when first needed */
  uint64_t pass;
  size_t taken;
  uint64_t steps;
  /* Of a round: a key that another flusher has taken, and a held key. */
  struct bank_shard *busy_in;
  int64_t busy, held;
  int any_held;
};

static int flush_wants(const struct flush *f, const struct bank_key *key) {
  uint64_t before = f->want->before_us;
  return key->n && key->number <= f->start &&
         (!before || key->since_us <= before);
}

/* Has another flusher taken gradients that this one wants? */
static int flush_awaits(const struct flush *f, const struct bank_key *key) {
  uint64_t before = f->want->before_us;
  return key->taken &&
         ((key->taken <= f->start && (!before || key->taken_us <= before)) ||
          flush_wants(f, key));
}

/* Under the shard's lock. */
static void look_at_key(struct flush *f, struct bank_shard *shard,
                        struct bank_key *key) {
  if (flush_awaits(f, key)) {
    f->busy_in = shard;
    f->busy = key->key;
  } else if (!key->taken && flush_wants(f, key) && key->pass != f->pass) {
    bank__take(shard, key, &f->piece->items[f->piece->n++]);
    f->taken++;
  }
}

static size_t room_left(const struct flush *f) {
  size_t most = f->want->most, left = f->piece->room - f->piece->n;
  return most && most - f->taken < left ? most - f->taken : left;
}

/* Fills the piece with keys of a shard, the oldest first. */
static void take_oldest(struct flush *f, struct bank_shard *shard) {
  pthread_mutex_lock(&shard->lock);
  for (struct bank_key *key = shard->oldest; key && room_left(f);
       key = key->newer) {
    look_at_key(f, shard, key);
  }
  pthread_mutex_unlock(&shard->lock);
}

/* Applies the piece and empties it. */
static int end_piece(struct flush *f) {
  struct bank_piece *piece = f->piece;
  if (!piece->n) {
    return EMB_OK;
  }
  int rc = bank__apply(f->s, piece, f->pass);
  f->steps += piece->steps;
  if (piece->any_held) {
    f->any_held = 1;
    f->held = piece->held;
  }
  piece->n = 0;
  return rc ? rc : session_interrupted(f->s);
}

/* Allocates the piece outside all locks, before the first key is taken. */
static int need_piece(struct flush *f) {
  if (!f->piece) {
    f->piece = bank__piece_new(f->s);
  }
  return f->piece ? EMB_OK : session_error(f->s, EMB_NOMEM, "out of memory");
}

static int has_keys(const struct bank_shard *shard) {
  return atomic_load_explicit(&shard->keys, memory_order_acquire) != 0;
}

static int flush_keys(struct flush *f) {
  const struct bank_want *want = f->want;
  int rc = EMB_OK;
  for (size_t i = 0; !rc && i < want->n; i++) {
    struct bank_shard *shard = bank__shard(f->bank, hash_key(want->keys[i]));
    if (!has_keys(shard)) {
      continue;
    }
    rc = need_piece(f);
    if (rc) {
      break;
    }
    pthread_mutex_lock(&shard->lock);
    struct bank_key *key = bank__find(shard, want->keys[i]);
    if (key) {
      look_at_key(f, shard, key);
    }
    pthread_mutex_unlock(&shard->lock);
    rc = room_left(f) ? EMB_OK : end_piece(f);
  }
  if (rc || !f->piece) {
    return rc;
  }
  return end_piece(f);
}

static int flush_shard(struct flush *f, struct bank_shard *shard) {
  int rc = has_keys(shard) ? need_piece(f) : EMB_OK;
  while (!rc && has_keys(shard) &&
         !(f->want->most && f->taken >= f->want->most)) {
    take_oldest(f, shard);
    if (!f->piece->n) {
      break;
    }
    rc = end_piece(f);
  }
  return rc;
}

static int flush_round(struct flush *f) {
  int rc = EMB_OK;
  f->busy_in = NULL;
  if (f->want->keys) {
    return flush_keys(f);
  }
  if (f->want->only) {
    return flush_shard(f, f->want->only);
  }
  for (int i = 0; !rc && i < BANK_SHARDS; i++) {
    rc = flush_shard(f, &f->bank->shards[i]);
  }
  return rc;
}

/* Waits until the key that another flusher has taken is applied or put back, at
** most AWAIT_US. */
static int flush_await(struct flush *f) {
  struct env *env = f->s->core->env;
  struct bank_shard *shard = f->busy_in;
  int rc = session_interrupted(f->s);
  emb_assert(epoch_outside()); /* E1 */
  pthread_mutex_lock(&shard->lock);
  struct bank_key *key = rc ? NULL : bank__find(shard, f->busy);
  if (key && flush_awaits(f, key)) {
    env->wait_us(env, &shard->done, &shard->lock, AWAIT_US);
  }
  pthread_mutex_unlock(&shard->lock);
  return rc;
}

static int flush_all_rounds(struct flush *f) {
  uint64_t waited = 0;
  for (;;) {
    int rc = flush_round(f);
    if (rc || !f->want->waits) {
      return rc;
    }
    if (f->busy_in && !EMB_SEED(SEED_PENDING_NOT_AWAITED)) {
      rc = flush_await(f);
    } else if (f->any_held && !f->s->txn) {
      rc = session_wait_key(f->s, f->held, &waited);
      f->any_held = 0;
      f->pass = atomic_fetch_add(&f->bank->passes, 1) + 1;
    } else {
      return EMB_OK;
    }
    if (rc || (f->want->most && f->taken)) {
      return rc;
    }
  }
}

int bank__settle(emb_session *s, const struct bank_want *want,
                 uint64_t *steps) {
  struct bank *bank = bank_of(s->store);
  struct flush f = {.s = s,
                    .bank = bank,
                    .want = want,
                    .start = atomic_load(&bank->number),
                    .pass = atomic_fetch_add(&bank->passes, 1) + 1};
  emb_assert(epoch_outside()); /* E1 */
  emb_assert(!want->keys || !want->only);
  int rc = flush_all_rounds(&f);
  if (f.piece) {
    bank__piece_free(s, f.piece);
  }
  if (steps) {
    *steps += f.steps;
  }
  return rc;
}

static int any_pending(const struct bank *bank, const int64_t *keys, size_t n) {
  if (!keys) {
    for (int i = 0; i < BANK_SHARDS; i++) {
      if (has_keys(&bank->shards[i])) {
        return 1;
      }
    }
    return 0;
  }
  for (size_t i = 0; i < n; i++) {
    if (has_keys(bank__shard(bank, hash_key(keys[i])))) {
      return 1;
    }
  }
  return 0;
}

int bank__rows(emb_session *s, const int64_t *keys, size_t n) {
  const struct bank_want want = {.keys = keys, .n = n, .waits = 1};
  if (!any_pending(bank_of(s->store), keys, n) ||
      atomic_load(&s->store->dropped)) { /* can no longer be written */
    return EMB_OK;
  }
  int rc = session_begin(s);
  return rc ? rc : bank__settle(s, &want, NULL);
}

/* Of n keys, at most BANK_PIECE, flushes those that are not present yet. */
static int rows_absent(emb_session *s, const int64_t *keys, uint32_t n) {
  int64_t absent[BANK_PIECE];
  size_t found = 0;
  epoch_enter(&s->core->epoch, s->slot);
  for (uint32_t i = 0; i < n; i++) {
    uint64_t word;
    session_find(s, keys[i], hash_key(keys[i]), &word);
    if (!word_address(word)) {
      absent[found++] = keys[i];
    }
  }
  epoch_leave(s->slot);
  return found ? bank__rows(s, absent, found) : EMB_OK;
}

/* For calls that ask whether keys are present: a step may insert one. */
static int rows_present(emb_session *s, const int64_t *keys, size_t n) {
  int rc = EMB_OK;
  if (s->core->schema.insert_on == EMB_INSERT_ON_PUT ||
      !any_pending(bank_of(s->store), keys, n)) {
    return EMB_OK;
  }
  for (size_t i = 0; !rc && i < n; i += BANK_PIECE) {
    size_t m = n - i < BANK_PIECE ? n - i : BANK_PIECE;
    rc = rows_absent(s, keys + i, (uint32_t)m);
  }
  return rc;
}

int bank_apply_pending(emb_session *s, enum bank_needs needs,
                       const int64_t *keys, size_t n) {
  switch (needs) {
  case BANK_PRESENCE:
    return n ? rows_present(s, keys, n) : EMB_OK;
  case BANK_KEYS:
    return n ? bank__rows(s, keys, n) : EMB_OK;
  case BANK_WRITTEN:
    return s->txn && s->txn->number ? bank__rows(s, NULL, 0) : EMB_OK;
  default:
    return EMB_SEED(SEED_CHECKPOINT_KEEPS_PENDING) ? EMB_OK
                                                   : bank__rows(s, NULL, 0);
  }
}
