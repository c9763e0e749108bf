/* SPDX-License-Identifier: MIT
**
** link.c -- an owner whose answers are none.
**
** The owner is another process, whose answers this one changes in the slot
** before its client reads them: when the client has woken the owner, it waits
** for the answer here.
*/
#include "process_help.h"
#include "store_help.h"

#include "engine/base/env/env.h"
#include "engine/remote/serve/link.h"

enum { DIM = 4, WAIT_US = 1000, WAITS_MAX = 30000 };

static const emb_config config = {
    .dim = DIM, .flags = EMB_OPEN_CREATE, .timeout_ms = 20000};
static const int64_t key = 1;
static const float row[DIM] = {1, 2, 3, 4};

static struct env changing;
static emb_session *changed; /* the answer to this session's next call, ... */
static int code, result;     /* ... if one of these is not 0 */

static void change_answer(struct env *env, _Atomic uint32_t *word) {
  (void)env;
  env_posix.word_wake(&env_posix, word);
  if (!changed || !changed->link || word != &changed->link->slot->turn ||
      !(code || result))
    return;
  struct link_slot *slot = changed->link->slot;
  uint32_t turn = atomic_load(&slot->turn);
  for (int i = 0; turn != SLOT_ANSWERED && i < WAITS_MAX; i++) {
    env_posix.word_wait(&env_posix, &slot->turn, turn, WAIT_US);
    turn = atomic_load(&slot->turn);
  }
  CHECK_EQ_INT(turn, SLOT_ANSWERED);
  slot->code = code ? code : slot->code;
  slot->result = result ? (uint32_t)result : slot->result;
  code = result = 0;
}

PROCESS(honest_owner) {
  emb_store *store;
  emb_session *s;
  if (!help_open(process_argument(0), &config, &store, &s))
    return;
  OK(s, emb_put(s, &key, 1, row, NULL));
  process_tell("owns");
  process_told("go on");
  help_close(store, s);
}

/* A code that no call returns is an error: as a code of this library's own it
** would let the session make a second link and lose the first. */
TEST(codes_that_are_none) {
  static const int codes[] = {CALL_ELSEWHERE, EMB_LOST + 1, -1};
  struct process p;
  char dir[256];
  emb_store *store;
  emb_session *s;
  float got[DIM];
  (void)snprintf(dir, sizeof dir, "%s", help_path("store"));
  changing = env_posix;
  changing.word_wake = change_answer;
  if (!process_start(&p, "honest_owner", (const char *[]){dir, NULL}) ||
      !process_hear(&p, "owns"))
    return;
  env_set_default(&changing);
  if (!help_open(dir, &config, &store, &s))
    return;
  OK(s, emb_get(s, &key, 1, got, NULL, NULL));
  changed = s;
  int links = atomic_load(&store->remote.links);
  for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
    result = codes[i];
    GIVES(s, EMB_CANTOPEN, emb_get(s, &key, 1, got, NULL, NULL));
    code = codes[i];
    CHECK_EQ_INT(emb_count(s), -1);
    CHECK_EQ_INT(emb_errcode(s), EMB_CANTOPEN);
    CHECK(!code && !result);
    CHECK_EQ_INT(atomic_load(&store->remote.links), links);
  }
  OK(s, emb_get(s, &key, 1, got, NULL, NULL));
  CHECK_EQ_INT(emb_count(s), 1);
  changed = NULL;
  help_close(store, s);
  env_set_default(&env_posix);
  process_say(&p, "go on");
  process_end(&p);
}
