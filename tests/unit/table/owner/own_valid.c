/* SPDX-License-Identifier: MIT
**
** own_valid.c -- each assertion about owning, holding, listing and dropping a
** store fires.
*/
#include "death.h"
#include "store_help.h"

#include "engine/table/owner/drop.h"
#include "engine/table/owner/hold.h"
#include "engine/table/owner/own.h"
#include "engine/table/owner/registry.h"

static emb_store *store;
static emb_session *session;
static emb_err err;

/* An owner, which has written a row. */
static int begin(void) {
  const int64_t key = 7;
  const float row[4] = {1, 2, 3, 4};
  const emb_config config = {.dim = 4,
                             .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP};
  return help_open(help_path("store"), &config, &store, &session) &&
         OK(session, emb_put(session, &key, 1, row, NULL)) &&
         CHECK(own_valid(store));
}

TEST(an_owner) {
  struct recovery doubt = {.in_doubt = 5};
  struct store_own *own;
  if (!begin())
    return;
  own = &store->own;
  CHECK_FIRES(own->file = NULL; own_valid(store));
  CHECK_FIRES(own->manifest = store->core.log.file; own_valid(store));
  CHECK_FIRES(own->unloaded = 1; own_valid(store));
  CHECK_FIRES(own->holders = 1; own_valid(store));
  CHECK_FIRES(own->locked = 1; own_valid(store));
  CHECK_FIRES(own->doubt = &doubt; own->in_doubt = 4; own_valid(store));
  CHECK_FIRES(own->is_owner = 0; own->file = NULL; own->in_doubt = 5;
              own_valid(store));
  CHECK_FIRES(own->loads++; own_valid(store));
  CHECK_ALL_FIRED("engine/table/owner/own_valid.c");
  help_close(store, session);
}

TEST(an_owner_loads_nothing) {
  if (!begin())
    return;
  CHECK_FIRES(own_take(store, &err));
  CHECK_FIRES(own_load(store, &store->checkpoint.manifest, 0, &err));
  help_close(store, session);
}

TEST(holds_end_once) {
  int held;
  if (!begin() || !OK(session, hold_begin(session, &held)))
    return;
  CHECK(!held); /* an owner's are only counted */
  CHECK_FIRES(hold_end(session, 1));
  hold_end(session, held);
  CHECK_FIRES(hold_end(session, 0));
  CHECK_ALL_FIRED("engine/table/owner/own_valid.c");
  help_close(store, session);
}

TEST(the_list_of_open_stores) {
  int *references;
  if (!begin())
    return;
  references = &store->registered.references;
  CHECK_FIRES(*references = 0; registry_remove(store); registry_add(store));
  CHECK_FIRES(registry_remove(store));
  CHECK_FIRES(*references = 0; registry_remove(store); registry_remove(store));
  struct registry_opening opening = {{1, 2}, NULL};
  CHECK_FIRES(registry_end_opening(&opening));
  registry_begin_opening(&opening);
  CHECK_FIRES(registry_begin_opening(&opening));
  registry_end_opening(&opening);
  CHECK_ALL_FIRED("engine/table/owner/registry.c");
  int soon;
  CHECK_FIRES(store->dropped = 1; drop_store(store, &soon, &err));
  CHECK_ALL_FIRED("engine/table/owner/drop.c");
  help_close(store, session);
}
