/* SPDX-License-Identifier: MIT
**
** stores_valid.c -- each assertion about the callers that share a store fires.
*/
#include "death.h"
#include "store_help.h"

#include "engine/api/open.h"

#include <unistd.h>

static const emb_config config = {.dim = 4, .flags = EMB_OPEN_CREATE};
static emb_store *store;
static emb_session *session;

/* Each child opens a store of its own: a parent's is not its to close. */
static const char *open_here(void) {
  static char dir[512];
  snprintf(dir, sizeof dir, "%s-%d", help_path("store"), (int)getpid());
  help_open(dir, &config, &store, &session);
  return dir;
}

static const char *open_without_session(void) {
  const char *dir = open_here();
  emb_session_close(session);
  return dir;
}

TEST(references) {
  CHECK_FIRES(const char *dir = open_here(); store->registered.references = 0;
              emb_open(dir, &config, &store, NULL));
  CHECK_FIRES(open_here(); store->registered.references = 0;
              emb_close(store, NULL));
  CHECK_FIRES(const char *dir = open_here(); store->registered.references = 0;
              emb_drop(dir, NULL, NULL));
  CHECK_FIRES(open_without_session(); open__close(store, NULL));
}

TEST(what_is_left_at_the_end) {
  CHECK_FIRES(open_here(); atomic_store(&store->sessions.count, 0);
              emb_session_close(session));
  CHECK_FIRES(open_here(); store->registered.references = 0;
              open__close(store, NULL));
  CHECK_FIRES(open_without_session(); atomic_store(&store->remote.links, 1);
              emb_close(store, NULL));
  CHECK_FIRES(open_without_session();
              atomic_store(&store->remote.session_links, 1);
              emb_close(store, NULL));
}
