/* SPDX-License-Identifier: MIT
**
** store_valid.c -- each assertion about a store that nobody uses any more
** fires.
*/
#include "death.h"
#include "store_help.h"

#include "engine/table/jobs/job.h"

TEST(a_store_without_sessions) {
  const emb_config config = {.dim = 4,
                             .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP};
  static struct job job;
  emb_session *session;
  emb_store *s;
  if (!help_open(help_path("store"), &config, &s, &session))
    return;
  CHECK_FIRES(s->txn.owner = session; s->sessions.count = 0;
              s->sessions.list = NULL; store_valid(s));
  emb_session_close(session);
  CHECK(store_valid(s));
  CHECK_FIRES(s->sessions.count = 1; store_valid(s));
  CHECK_FIRES(s->open_txn.number = 1; store_valid(s));
  CHECK_FIRES(s->core.txn_first_page = 1; store_valid(s));
  CHECK_FIRES(s->txn.leases_of_rows = 1; store_valid(s));
  CHECK_FIRES(s->sessions.scans = 1; store_valid(s));
  CHECK_FIRES(s->own.locked = 1; store_valid(s));
  CHECK_FIRES(s->core.scans = (void *)&job; store_valid(s));
  CHECK_FIRES(s->jobs.first = &job; store_valid(s));
  CHECK_ALL_FIRED("engine/table/store/store_valid.c");
  help_close(s, NULL);
}
