/* SPDX-License-Identifier: MIT
**
** hub_valid.c -- each assertion about the hub's servers and ports fires.
*/
#include "death.h"

#include "engine/base/process/process.h"
#include "engine/remote/serve/hub_parts.h"

static struct process *process;
static struct hub_server one, other;
static struct env_dir *names;

static void accepted(struct hub *hub, struct env_peer *peer) {
  struct env *env = hub__env(hub);
  env->peer_close(env, peer);
}
static void heard(void *tag, int what) {
  (void)tag;
  (void)what;
}
static uint64_t sweep(struct hub_server *server) {
  (void)server;
  return UINT64_MAX;
}
static uint64_t idle(struct hub *hub, int at_end) {
  (void)hub;
  (void)at_end;
  return UINT64_MAX;
}

static const struct hub_calls calls = {accepted, heard, sweep, idle};

/* Peers are left when the last server leaves. */
static void leave_peers(void) {
  struct env *env = &env_posix;
  if (process_join(env, &process) == 0 &&
      env->open_dir(env, test_dir(), &names) == 0 &&
      hub__join(process, &calls, names, "peers", &one) == 0) {
    *hub__own(one.hub) = &one;
    hub__leave(process, &one);
  }
}

TEST(a_broken_hub) {
  struct env *env = &env_posix;
  CHECK_FIRES(leave_peers());
  if (!CHECK_EQ_INT(process_join(env, &process), 0) ||
      !CHECK_EQ_INT(env->open_dir(env, test_dir(), &names), 0) ||
      !CHECK_EQ_INT(hub__join(process, &calls, names, "one", &one), 0) ||
      !CHECK_EQ_INT(hub__join(process, &calls, names, "other", &other), 0))
    return;
  struct hub *hub = one.hub;
  CHECK(hub_valid(hub));
  CHECK_FIRES(one.port->names++; hub_valid(hub));
  CHECK_FIRES(one.hub = NULL; hub_valid(hub));
  CHECK_FIRES(one.port->names--; one.port = NULL; hub_valid(hub));
  CHECK_FIRES(hub->is_stopping = 1; hub_valid(hub));
  CHECK_ALL_FIRED("engine/remote/serve/hub_valid.c");
  CHECK_FIRES(one.hub = NULL; hub__leave(process, &one));
  CHECK_FIRES(one.port->names = 0; hub__leave(process, &one));
  hub__leave(process, &one);
  CHECK(hub_valid(hub));
  CHECK_FIRES(hub->is_stopping = 1; hub__leave(process, &other));
  hub__leave(process, &other);
  env->close_dir(env, names);
  process_leave(process);
}
