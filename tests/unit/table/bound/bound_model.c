/* SPDX-License-Identifier: MIT
**
** bound_model.c -- random calls of three sessions on a few keys, against a
** model that counts the pending reads of each session and key.
**
** The model follows the manual.  A Get counts each of its keys that is present
** and that the session has not put in its own transaction.  If any of them is
** at its bound, the Get is refused and counts none.  A Put or Delete gives one
** lease back; in a transaction the commit does so, and changes undone by a
** savepoint give nothing back.  A prefetch counts like a Get when it begins.
** If one of its keys is then at its bound, or an older prefetch waits for a
** key, it counts when it is synchronized.  All calls come from one thread, so
** each result is known.
*/
#include "staleness_help.h"

enum {
  KEYS = 5,
  SESSIONS = 3,
  TICKETS = 4,
  SAVES = 4,
  BATCH = 4,
  STEPS = 3000,
};

enum { SAME, PUT, GONE }; /* what the open transaction did to a key */

struct model_ticket {
  uint64_t number;
  int waits; /* has counted nothing yet */
  int n;
  int64_t keys[BATCH];
  float vectors[BATCH * DIM];
};

struct model_save {
  int change[KEYS], deferred[KEYS];
};

struct model {
  struct bounded x;
  emb_session *s[SESSIONS];
  uint32_t bound;
  int there[KEYS]; /* committed */
  int held[SESSIONS][KEYS];
  struct model_ticket tickets[SESSIONS][TICKETS];
  int flying[SESSIONS]; /* tickets, the oldest first */
  int owner;            /* of the transaction, or -1 */
  int claimed[KEYS];    /* it has changed the key, even if that was undone */
  struct model_save now, saves[SAVES];
  int save_count;
  int64_t batch[BATCH]; /* of the current call */
  int n;
  float vectors[BATCH * DIM];
  int waited; /* Gets that were refused, prefetches that waited */
};

static int below(int n) { return (int)(test_random() % (uint64_t)n); }

static void choose(struct model *m) {
  m->n = 1 + below(BATCH);
  for (int i = 0; i < m->n; i++) {
    m->batch[i] = below(KEYS);
    help_vector(m->vectors + i * DIM, DIM, m->batch[i], 1);
  }
}

static int first_of(const int64_t *keys, int i) {
  for (int j = 0; j < i; j++)
    if (keys[j] == keys[i])
      return 0;
  return 1;
}

static int sees_key(const struct model *m, int who, int64_t key) {
  return who == m->owner && m->now.change[key] ? m->now.change[key] == PUT
                                               : m->there[key];
}

static int counts_key(const struct model *m, int who, int64_t key) {
  return sees_key(m, who, key) && !(who == m->owner && m->now.change[key]);
}

static uint32_t pending(const struct model *m, int64_t key) {
  int n = 0;
  for (int who = 0; who < SESSIONS; who++)
    n += m->held[who][key];
  return (uint32_t)n;
}

static int at_bound(const struct model *m, int who, const int64_t *keys,
                    int n) {
  for (int i = 0; i < n; i++)
    if (counts_key(m, who, keys[i]) && pending(m, keys[i]) > m->bound)
      return 1;
  return 0;
}

static void count(struct model *m, int who, const int64_t *keys, int n) {
  for (int i = 0; i < n; i++)
    m->held[who][keys[i]] += counts_key(m, who, keys[i]) && first_of(keys, i);
}

static void give(struct model *m, int who, int64_t key, int n) {
  m->held[who][key] -= n < m->held[who][key] ? n : m->held[who][key];
  if (who == m->owner && m->now.deferred[key] > m->held[who][key])
    m->now.deferred[key] = m->held[who][key];
}

/* ---- calls --------------------------------------------------------------- */

static void call_get(struct model *m, int who) {
  int busy = at_bound(m, who, m->batch, m->n);
  int rc = emb_get(m->s[who], m->batch, (size_t)m->n, m->vectors, NULL, NULL);
  if (CHECK_EQ_INT(rc, busy ? EMB_BUSY : EMB_OK) && !busy)
    count(m, who, m->batch, m->n);
  m->waited += busy;
}

static void call_peek(struct model *m, int who) {
  OK(m->s[who],
     emb_peek(m->s[who], m->batch, (size_t)m->n, m->vectors, NULL, NULL));
}

static void call_prefetch(struct model *m, int who) {
  if (m->flying[who] == TICKETS)
    return;
  struct model_ticket *t = &m->tickets[who][m->flying[who]];
  t->n = m->n;
  memcpy(t->keys, m->batch, sizeof t->keys);
  t->waits = at_bound(m, who, t->keys, t->n);
  for (int i = 0; i < m->flying[who]; i++)
    t->waits |= m->tickets[who][i].waits;
  if (OK(m->s[who],
         emb_prefetch(m->s[who], t->keys, (size_t)t->n,
                      &(emb_rows){.vectors = t->vectors}, &t->number))) {
    m->flying[who]++;
    m->waited += t->waits;
    if (!t->waits)
      count(m, who, t->keys, t->n);
  }
}

static void call_synchronize(struct model *m, int who) {
  if (!m->flying[who])
    return;
  int at = below(m->flying[who]);
  struct model_ticket *t = &m->tickets[who][at];
  int busy = t->waits && at_bound(m, who, t->keys, t->n);
  int stops = busy && below(2);
  emb_session_interrupt(m->s[who], stops ? help_interrupt : NULL, NULL);
  int rc = emb_prefetch_synchronize(m->s[who], t->number, NULL);
  emb_session_interrupt(m->s[who], NULL, NULL);
  if (stops && rc == EMB_INTERRUPT)
    return;
  if (CHECK_EQ_INT(rc, busy ? EMB_BUSY : EMB_OK) && t->waits && !busy)
    count(m, who, t->keys, t->n);
  memmove(t, t + 1, sizeof *t * (size_t)(m->flying[who] - at - 1));
  m->flying[who]--;
}

/* True outside its own transaction, for keys that no transaction changed. */
static int may_write(const struct model *m, int who) {
  if (who == m->owner)
    return 0;
  for (int i = 0; i < m->n; i++)
    if (m->owner >= 0 && m->claimed[m->batch[i]])
      return 0;
  return 1;
}

static void call_put(struct model *m, int who) {
  emb_session *s = m->s[who];
  if (!may_write(m, who))
    return;
  if (below(2)) {
    uint64_t ticket;
    OK(s, emb_write_back(s, m->batch, (size_t)m->n, m->vectors, &ticket));
    OK(s, emb_write_back_synchronize(s, ticket, NULL));
  } else {
    OK(s, emb_put(s, m->batch, (size_t)m->n, m->vectors, NULL));
  }
  for (int i = 0; i < m->n; i++) {
    m->there[m->batch[i]] = 1;
    if (first_of(m->batch, i))
      give(m, who, m->batch[i], 1);
  }
}

static void call_delete(struct model *m, int who) {
  if (!may_write(m, who))
    return;
  OK(m->s[who], emb_delete(m->s[who], m->batch, (size_t)m->n, NULL));
  for (int i = 0; i < m->n; i++) {
    int64_t key = m->batch[i];
    give(m, who, key, m->there[key]);
    m->there[key] = 0;
  }
}

static void call_release(struct model *m, int who) {
  int n = 0;
  for (int64_t key = 0; key < KEYS; key++) {
    n += m->held[who][key];
    give(m, who, key, m->held[who][key]);
  }
  CHECK_EQ_INT(emb_release(m->s[who]), n);
}

/* ---- transactions -------------------------------------------------------- */

static void defer(struct model *m, int who, int64_t key) {
  m->now.deferred[key] += m->now.deferred[key] < m->held[who][key];
}

static void txn_change(struct model *m, int who, int deletes) {
  emb_session *s = m->s[who];
  if (deletes) {
    OK(s, emb_txn_delete(s, m->batch, (size_t)m->n, NULL));
  } else {
    OK(s, emb_txn_put(s, m->batch, (size_t)m->n, m->vectors));
  }
  for (int i = 0; i < m->n; i++) {
    int64_t key = m->batch[i];
    if (!deletes && first_of(m->batch, i))
      defer(m, who, key);
    if (deletes && sees_key(m, who, key))
      defer(m, who, key);
    if (!deletes || sees_key(m, who, key)) {
      m->now.change[key] = deletes ? GONE : PUT;
      m->claimed[key] = 1;
    }
  }
}

static void txn_save(struct model *m, int who) {
  if (m->save_count < SAVES &&
      OK(m->s[who], emb_savepoint(m->s[who], m->save_count + 1)))
    m->saves[m->save_count++] = m->now;
}

static void txn_undo(struct model *m, int who) {
  if (!m->save_count)
    return;
  int to = below(m->save_count);
  if (below(3) == 0) {
    OK(m->s[who], emb_savepoint_release(m->s[who], to + 1));
    m->save_count = to;
    return;
  }
  OK(m->s[who], emb_rollback_to(m->s[who], to + 1));
  m->now = m->saves[to];
  m->save_count = to + 1;
  for (int64_t key = 0; key < KEYS; key++)
    give(m, who, key, 0);
}

static void txn_end(struct model *m, int who) {
  int commits = below(4) > 0;
  if (commits)
    OK(m->s[who], emb_commit(m->s[who]));
  else
    emb_rollback(m->s[who]);
  for (int64_t key = 0; commits && key < KEYS; key++)
    if (m->now.change[key]) {
      m->there[key] = m->now.change[key] == PUT;
      give(m, who, key, m->now.deferred[key]);
    }
  m->owner = -1;
}

static void call_in_txn(struct model *m, int who) {
  if (m->owner < 0) {
    OK(m->s[who], emb_begin(m->s[who]));
    m->owner = who;
    memset(&m->now, 0, sizeof m->now);
    memset(m->claimed, 0, sizeof m->claimed);
    m->save_count = 0;
  }
  if (who != m->owner)
    return;
  switch (below(12)) {
  case 0:
    txn_end(m, who);
    return;
  case 1:
  case 2:
    txn_save(m, who);
    return;
  case 3:
  case 4:
    txn_undo(m, who);
    return;
  default:
    txn_change(m, who, below(4) == 0);
  }
}

/* ---- all together -------------------------------------------------------- */

/* An absent key has a count, too, but it is not shown. */
static int agrees(struct model *m, int step, int call) {
  int good = 1;
  for (int64_t key = 0; key < KEYS; key++)
    if (m->there[key])
      good &= CHECK_EQ_INT(pending_of(m->s[0], key), pending(m, key));
  for (int who = 0; who < SESSIONS; who++) {
    int n = 0;
    for (int64_t key = 0; key < KEYS; key++)
      n += m->held[who][key];
    good &= CHECK_EQ_INT(emb_leases(m->s[who]), n);
  }
  if (!good)
    printf("step %d, call %d, bound %u\n", step, call, m->bound);
  return good;
}

static int step(struct model *m, int number) {
  static void (*const calls[])(struct model *, int) = {
      call_get,      call_get,         call_peek,        call_prefetch,
      call_prefetch, call_put,         call_put,         call_put,
      call_delete,   call_synchronize, call_synchronize, call_in_txn,
      call_in_txn,   call_in_txn,      call_release};
  int call = below((int)(sizeof calls / sizeof *calls));
  if (calls[call] == call_release && below(4))
    return 1;
  choose(m);
  if (m->owner >= 0 && below(2))
    call_in_txn(m, m->owner);
  else
    calls[call](m, below(SESSIONS));
  return agrees(m, number, call);
}

/* Ends open calls and gives every lease back: no pending read remains. */
static void end_all(struct model *m) {
  if (m->owner >= 0)
    OK(m->s[m->owner], emb_commit(m->s[m->owner]));
  for (int who = 0; who < SESSIONS; who++) {
    while (m->flying[who]) {
      int rc = emb_prefetch_synchronize(m->s[who], 0, NULL);
      CHECK(rc == EMB_OK || rc == EMB_BUSY);
      m->flying[who]--;
    }
    (void)emb_release(m->s[who]);
  }
  help_put_rows(m->s[0], 0, 1, KEYS, 1);
  for (int64_t key = 0; key < KEYS; key++)
    CHECK_EQ_INT(pending_of(m->s[0], key), 0);
  CHECK(help_verify(m->s[0]));
}

static void run(uint32_t bound, int cold) {
  static struct model m;
  memset(&m, 0, sizeof m);
  m.bound = bound;
  m.owner = -1;
  if (!bounded_open(&m.x, bound, 1, 0))
    return;
  m.s[0] = m.x.a;
  m.s[1] = m.x.b;
  m.s[2] = m.x.c;
  help_put_rows(m.x.a, 0, 1, KEYS, 1);
  for (int key = 0; key < KEYS; key++)
    m.there[key] = 1;
  if (cold)
    help_put_rows(m.x.a, 1000, 1, MANY, 1);
  for (int i = 0; i < STEPS && step(&m, i); i++)
    ;
  CHECK(m.waited > 0);
  end_all(&m);
  bounded_close(&m.x);
}

TEST(as_the_model_says_at_0) { run(0, 0); }
TEST(as_the_model_says_at_1) { run(1, 0); }
TEST(as_the_model_says_at_3) { run(3, 0); }
TEST(as_the_model_says_on_disk_at_0) { run(0, 1); }
TEST(as_the_model_says_on_disk_at_2) { run(2, 1); }
