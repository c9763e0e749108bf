/* SPDX-License-Identifier: MIT
**
** bound_valid.c -- each assertion about counted Gets fires.
*/
#include "death.h"
#include "staleness_help.h"

#include "engine/table/bound/bound.h"

static struct bounded x;
static emb_session *s;

/* Session a has one lease, on key 4, taken by a statement. */
static int begin(void) {
  if (!bounded_open(&x, 8, FOR_EVER, EMB_OPEN_TEMPORARY | EMB_OPEN_STEP))
    return 0;
  s = x.a;
  help_put_rows(s, 0, 1, 10, 1);
  emb_statement(s, 1);
  return OK(s, get_one(s, 4, NULL)) && CHECK_EQ_INT(s->leases.held, 1) &&
         CHECK(s->leases.of_rows) && CHECK(bound_valid(s));
}

TEST(leases_between_calls) {
  if (!begin())
    return;
  CHECK_FIRES(s->leases.held = 0; bound_valid(s));
  CHECK_FIRES(x.store->txn.leases_of_rows = 0; bound_valid(s));
  CHECK_FIRES(s->leases.used = 0; bound_valid(s));
  CHECK_ALL_FIRED("engine/table/bound/bound_valid.c");
  bounded_close(&x);
}

TEST(counting_and_giving_back) {
  const int64_t key = 4;
  const uint64_t hash = hash_key(key);
  struct entry *entry;
  struct lease *lease;
  uint64_t word;
  if (!begin())
    return;
  lease = lease_find(&s->leases, key, hash);
  entry = index_find(&s->core->index, key, hash, &word);
  CHECK_FIRES(bound_try(s, key, hash, 1, &entry, &word));
  CHECK_FIRES(epoch_enter(&s->core->epoch, s->slot);
              bound_acquire(s, &key, 1, 1));
  CHECK_FIRES(bound_put_later(s, key, hash, 1));
  CHECK_FIRES(lease->deferred = 2; bound_settle(s, key, hash, 1));
  CHECK_FIRES(x.store->process = getpid(); s->leases.held = 2;
              local_release(s));
  CHECK_FIRES(s->leases.held = 0; x.store->txn.leases_of_rows = 0;
              bound_note_none(s));
  CHECK(strstr(death_text(), "bound.h") != NULL);
  bounded_close(&x);
}
