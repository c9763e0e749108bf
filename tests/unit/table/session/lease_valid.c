/* SPDX-License-Identifier: MIT
**
** lease_valid.c -- each assertion about a session's leases fires.
*/
#include "death.h"

#include "engine/base/hash.h"
#include "engine/emb.h"
#include "engine/table/session/lease.h"

static struct leases leases;

static struct lease *find(int64_t key) {
  return lease_find(&leases, key, hash_key(key));
}

/* Two keys with a lease, in the table. */
static void begin(void) {
  CHECK_EQ_INT(lease_reserve(&leases, &env_posix, 8), EMB_OK);
  lease_append(&leases, 5, 1);
  lease_append(&leases, 6, 1);
  CHECK(!find(7));
  CHECK_EQ_INT(leases.listed, 2);
  CHECK(lease_valid(&leases));
}

TEST(an_array_of_leases) {
  begin();
  CHECK_FIRES(leases.room--; lease_valid(&leases));
  CHECK_FIRES(leases.count = leases.room + 1; lease_valid(&leases));
  CHECK_FIRES(leases.next = 3; lease_valid(&leases));
  CHECK_FIRES(leases.listed = 3; lease_valid(&leases));
  CHECK_FIRES(leases.table_mask = 1; lease_valid(&leases));
  CHECK_FIRES(leases.slots[7].held = 1; lease_valid(&leases));
  CHECK_FIRES(leases.table[hash_key(5) & leases.table_mask] = 2;
              lease_valid(&leases));
  CHECK_FIRES(leases.slots[0].marked = 2; lease_valid(&leases));
  CHECK_FIRES(leases.slots[0].deferred = 2; lease_valid(&leases));
  CHECK_FIRES(leases.used = 1; lease_valid(&leases));
  CHECK_FIRES(leases.held = 1; lease_valid(&leases));
  CHECK_ALL_FIRED("engine/table/session/lease_valid.c");
  lease_free(&leases, &env_posix);
}

TEST(taking_and_dropping) {
  begin();
  CHECK_FIRES(lease_drop(&leases, find(5), 2));
  CHECK_FIRES(lease_take(&leases, find(5), 6, 2));
  CHECK_FIRES(leases.count = leases.room; lease_append(&leases, 9, 2));
  lease_free(&leases, &env_posix);
}
