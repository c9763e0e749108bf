/* SPDX-License-Identifier: MIT
**
** network.c -- a store on a network file system is not served: one process uses
** it, and another process is told so.
*/
#include "fork_help.h"
#include "store_help.h"

#include "engine/base/env/env.h"
#include "engine/table/owner/registry.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DIM = 4 };

static struct env remote;

static const char *is_nfs(struct env *env, struct env_dir *dir) {
  (void)env, (void)dir;
  return "NFS";
}

static int put(const char *dir, uint32_t flags, emb_store **store,
               emb_session **s) {
  emb_config config = {.dim = DIM, .timeout_ms = 100, .flags = flags};
  int64_t key = 1;
  float vector[DIM] = {1, 2, 3, 4};
  emb_err err;
  int rc = emb_open(dir, &config, store, &err);
  rc = rc ? rc : emb_session_open(*store, s, &err);
  return rc ? rc : emb_put(*s, &key, 1, vector, NULL);
}

TEST(a_network_file_system_is_for_one_process) {
  const char *dir = help_path("store");
  emb_store *store = NULL;
  emb_session *s = NULL;
  emb_err err;
  int go[2], status = 0;
  remote = env_posix;
  remote.is_remote = is_nfs;
  env_set_default(&remote);
  if (!CHECK_EQ_INT(pipe(go), 0))
    return;
  pid_t other = test_fork();
  if (other == 0) {
    char c;
    _exit(read(go[0], &c, 1) == 1 ? put(dir, 0, &store, &s) : 99);
  }
  CHECK_EQ_INT(put(dir, EMB_OPEN_CREATE, &store, &s), EMB_OK);
  CHECK_EQ_INT(emb_is_served(store, &err), EMB_CANTOPEN);
  CHECK(strstr(err.text, "is on NFS: only one process can use it") != NULL);
  CHECK(access(help_path("store/socket"), F_OK) != 0);
  CHECK_EQ_INT(write(go[1], "g", 1), 1);
  CHECK_EQ_INT(waitpid(other, &status, 0), other);
  CHECK(WIFEXITED(status));
  CHECK_EQ_INT(WEXITSTATUS(status), EMB_BUSY);
  (void)close(go[0]);
  (void)close(go[1]);
  help_close(store, s);
  env_set_default(&env_posix);
}
