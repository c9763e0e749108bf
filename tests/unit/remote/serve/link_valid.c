/* SPDX-License-Identifier: MIT
**
** link_valid.c -- each assertion about a session's link to the owner fires.
*/
#include "death.h"
#include "process_help.h"
#include "store_help.h"

#include "engine/remote/serve/link.h"

static const emb_config config = {
    .dim = 4, .flags = EMB_OPEN_CREATE, .timeout_ms = 20000};

static const int64_t key = 1;
static const float row[4] = {1, 2, 3, 4};

PROCESS(link_owner) {
  emb_store *store;
  emb_session *s;
  if (!help_open(process_argument(0), &config, &store, &s))
    return;
  OK(s, emb_put(s, &key, 1, row, NULL));
  process_tell("owns");
  process_told("go on");
  help_close(store, s);
}

TEST(a_broken_link) {
  struct process p;
  char dir[256];
  emb_store *store;
  emb_session *s;
  uint64_t result;
  union args none = {.scan_close = {0}};
  snprintf(dir, sizeof dir, "%s", help_path("store"));
  if (!process_start(&p, "link_owner", (const char *[]){dir, NULL}) ||
      !process_hear(&p, "owns") || !help_open(dir, &config, &store, &s))
    return;
  CHECK(link_valid(s)); /* it has none */
  OK(s, emb_begin(s));
  OK(s, emb_txn_put(s, &key, 1, row));
  struct link *link = s->link;
  if (CHECK(link && (link->holds & SLOT_HAS_TXN))) {
    CHECK(link_valid(s));
    CHECK_FIRES(link->peer = NULL; link_valid(s));
    CHECK_FIRES(link->serial = 0; link_valid(s));
    CHECK_FIRES(link->slot = NULL; link_valid(s));
    CHECK_FIRES(link->memory.bytes--; link_valid(s));
    CHECK_FIRES(link->units.vector = 0; link_valid(s));
    CHECK_FIRES(link->owes = 1; link_valid(s));
    CHECK_ALL_FIRED("engine/remote/serve/link_valid.c");
    CHECK_FIRES(link->serial = 0; link__close(s));
    CHECK_FIRES(link__open(s, 0));
    CHECK_FIRES(link__ask(s, CALL_in_doubt, 0, &none, &result));
    CHECK_FIRES(link__ask(s, CALL_prefetch, 0, &none, &result));
  }
  emb_rollback(s);
  help_close(store, s);
  process_say(&p, "go on");
  process_end(&p);
}
