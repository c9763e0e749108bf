/* SPDX-License-Identifier: MIT
**
** hello.c -- owners and clients of future and past versions: this program
** speaks their part itself.
*/
#include "process_help.h"
#include "store_help.h"

#include "engine/base/env/env.h"
#include "engine/remote/serve/slot.h"
#include "engine/table/owner/registry.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { DIM = 4, LATER = 1000, PATIENCE_US = 20000000 };

static struct env *const env = &env_posix;

static int put_one(const char *dir, uint32_t flags, emb_store **store,
                   emb_session **s, emb_err *err) {
  emb_config config = {.dim = DIM, .timeout_ms = 20000, .flags = flags};
  const int64_t key = 1;
  const float vector[DIM] = {1, 2, 3, 4};
  int rc = emb_open(dir, &config, store, err);
  rc = rc ? rc : emb_session_open(*store, s, err);
  return rc ? rc : emb_put(*s, &key, 1, vector, NULL);
}

/* ---- the owner ----------------------------------------------------------- */

/* Says hello in n bytes; returns the bytes of the answer, at most `room`. */
static size_t answer_of(const char *dir, void *hello, size_t n, void *answer,
                        size_t room) {
  struct env_dir *names;
  struct env_peer *peer;
  struct env_message message = {.bytes = hello, .n = n};
  if (!CHECK_EQ_INT(env->open_dir(env, dir, &names), 0))
    return 0;
  int os = env->peer_open(env, names, FILE_SOCKET, &peer);
  env->close_dir(env, names);
  if (!CHECK_EQ_INT(os, 0))
    return 0;
  CHECK_EQ_INT(env->peer_send(env, peer, &message), 0);
  message = (struct env_message){.bytes = answer, .n = room};
  CHECK_EQ_INT(env->peer_receive(env, peer, &message, PATIENCE_US), 0);
  n = message.n;
  CHECK_EQ_INT(message.gifts[0].kind, ENV_GIFT_NONE);
  CHECK_EQ_INT(env->peer_receive(env, peer, &message, PATIENCE_US), EPIPE);
  env->peer_close(env, peer);
  return n;
}

static void ask_later(const char *dir, size_t bytes) {
  char hello[20000] = {0};
  struct greeting head = {SLOT_MAGIC,         LATER,
                          MESSAGE_HELLO,      (uint32_t)bytes,
                          .version = "9.9.9", .commit = "abc"};
  struct welcome welcome;
  memcpy(hello, &head, sizeof head);
  CHECK_EQ_INT(answer_of(dir, hello, bytes, &welcome, sizeof welcome),
               sizeof welcome);
  CHECK_EQ_INT(welcome.head.magic, SLOT_MAGIC);
  CHECK_EQ_INT(welcome.head.protocol, SLOT_VERSION);
  CHECK_EQ_INT(welcome.head.kind, MESSAGE_HELLO);
  CHECK_EQ_INT(welcome.head.bytes, sizeof welcome);
  CHECK(strcmp(welcome.head.version, EMB_VERSION) == 0);
  CHECK(strncmp(welcome.head.commit, emb_source_id(),
                sizeof welcome.head.commit - 1) == 0);
  CHECK_EQ_INT(welcome.code, EMB_CANTOPEN);
  CHECK(strstr(welcome.text, "emb 9.9.9 (abc, protocol 1000), which it cannot "
                             "serve") != NULL);
}

TEST(an_owner_answers_clients_of_other_versions) {
  const char *dir = help_path("store");
  emb_store *store = NULL;
  emb_session *s = NULL;
  emb_err err;
  struct old_hello hello = {.magic = SLOT_MAGIC, .kind = MESSAGE_HELLO};
  struct old_welcome welcome;
  if (!CHECK_EQ_INT(put_one(dir, EMB_OPEN_CREATE, &store, &s, &err), EMB_OK))
    return;
  ask_later(dir, sizeof(struct greeting));
  ask_later(dir, sizeof(struct hello) - 1);
  ask_later(dir, sizeof(struct hello));
  ask_later(dir, 20000);
  hello.protocol = OLD_PROTOCOL;
  CHECK_EQ_INT(answer_of(dir, &hello, sizeof hello, &welcome, sizeof welcome),
               sizeof welcome);
  CHECK_EQ_INT(welcome.magic, SLOT_MAGIC);
  CHECK_EQ_INT(welcome.kind, MESSAGE_HELLO);
  CHECK_EQ_INT(welcome.code, EMB_CANTOPEN);
  CHECK(strstr(welcome.text, "this copy has an older emb (protocol 5)") !=
        NULL);
  help_close(store, s);
}

/* ---- the client ---------------------------------------------------------- */

PROCESS(owner) {
  emb_store *store = NULL;
  emb_session *s = NULL;
  emb_err err;
  if (CHECK_EQ_INT(
          put_one(process_argument(0), EMB_OPEN_CREATE, &store, &s, &err),
          EMB_OK)) {
    process_tell("owns");
    (void)process_told("close");
    help_close(store, s);
  }
}

/* Makes the owner's answer that of a later version, and longer or shorter. */
static int later_error;

static int receive_later(struct env *env_, struct env_peer *peer,
                         struct env_message *message, uint64_t wait_us) {
  struct greeting head = {SLOT_MAGIC, LATER, MESSAGE_HELLO, 0,
                          .version = "9.9\n9"};
  int os = env_posix.peer_receive(env_, peer, message, wait_us);
  if (os || message->n < sizeof head)
    return os;
  if (message->gifts[0].kind == ENV_GIFT_SHARED)
    env->shared_free(env, &message->gifts[0].shared);
  message->gifts[0].kind = ENV_GIFT_NONE;
  memset(head.commit, 'c', sizeof head.commit); /* no terminating zero */
  memcpy(message->bytes, &head, sizeof head);
  message->n = later_error ? message->n : sizeof head;
  return later_error;
}

TEST(a_client_understands_an_owner_of_a_later_version) {
  static struct env later;
  struct process p;
  const char *dir = help_path("store");
  if (!process_start(&p, "owner", (const char *[]){dir, NULL}) ||
      !process_hear(&p, "owns"))
    return;
  later = env_posix;
  later.peer_receive = receive_later;
  for (int i = 0; i < 2; i++) {
    emb_store *store = NULL;
    emb_session *s = NULL;
    emb_err err;
    char want[300];
    later_error = i ? EMSGSIZE : 0;
    env_set_default(&later);
    int rc = put_one(dir, 0, &store, &s, &err);
    CHECK_EQ_INT(rc, EMB_CANTOPEN);
    if (rc) {
      (void)snprintf(want, sizeof want,
                     ": process %lld owns the table with emb 9.9?9 "
                     "(cccccccccccc, protocol 1000), this process has emb "
                     "%s (%.12s, protocol %d), which it cannot serve; load "
                     "the same emb.so in both, or close the table there",
                     (long long)p.pid, EMB_VERSION, emb_source_id(),
                     SLOT_VERSION);
      const char *text = s ? emb_errmsg(s) : err.text;
      test_check(strstr(text, want) != NULL, __FILE__, __LINE__, "%s", text);
    }
    if (s)
      emb_session_close(s);
    if (store)
      CHECK_EQ_INT(emb_close(store, &err), EMB_OK);
    env_set_default(&env_posix);
  }
  process_say(&p, "close");
  CHECK(process_end(&p));
}
