/* SPDX-License-Identifier: MIT
**
** env_valid.c -- each assertion about requests, queues, locks and peers fires.
*/
#include "death.h"
#include "store_help.h"

#include "engine/base/env/env_os.h"
#include "engine/base/env/env_peer.h"
#include "engine/base/env/env_pool.h"

#include <errno.h>

static struct env *const env = &env_posix;

TEST(requests) {
  struct env_io io = {.bytes = 8, .done_bytes = 8}, more = {.bytes = 8};
  struct env__list list = {0};
  CHECK_FIRES(env__io_advance(&io, 0));
  CHECK_FIRES(list.count = 1; env__list_append(&list, &io));
  env__list_append(&list, &io);
  env__list_append(&list, &more);
  CHECK_FIRES(list.count = 0; env__list_take(&list));
  CHECK(env__list_take(&list) == &io);
}

TEST(a_queue_over_threads) {
  struct env_queue *head;
  if (!CHECK_EQ_INT(env->queue_open(env, ENV_QUEUE_POOL, 2, &head), 0))
    return;
  struct pool_queue *queue = (struct pool_queue *)head;
  struct env_io io = {.bytes = 8}, after = {.bytes = 8};
  CHECK(env__pool_queue_valid(queue));
  CHECK_FIRES(queue->head.kind = ENV_QUEUE_URING; env__pool_queue_valid(queue));
  CHECK_FIRES(queue->done.count = 1; env__pool_queue_valid(queue));
  CHECK_FIRES(env__list_append(&queue->done, &io); io.next = &after;
              env__pool_queue_valid(queue));
  CHECK_FIRES(queue->running = 3; env__pool_queue_valid(queue));
  CHECK_FIRES(queue->running = 1; env__pool_queue_valid(queue));
  CHECK_FIRES(queue->is_ready = 1; env__pool_queue_valid(queue));
  CHECK_ALL_FIRED("engine/base/env/env_pool_valid.c");
  env->queue_close(env, head);
  static struct pool_queue none = {.head.kind = ENV_QUEUE_POOL};
  CHECK_FIRES(env__pool_close(&none.head));     /* as if it were closed twice */
  CHECK_FIRES(none.depth = 4; none.running = 2; /* requests nobody runs */
              env->queue_open(env, ENV_QUEUE_POOL, 2, &head);
              env->queue_submit(env, &none.head, NULL, 0);
              env->queue_close(env, head));
}

TEST(how_a_file_is_opened) {
  struct env_file *file;
  CHECK_FIRES(env->open(env, help_path("file"), ENV_CREATE, &file));
  CHECK_FIRES(
      env->open(env, help_path("file"), ENV_WRITE | ENV_EXCLUSIVE, &file));
}

TEST(where_memory_begins) {
  char *memory = env->map(env, 8192, 0);
  if (!CHECK(memory != NULL))
    return;
  CHECK_FIRES(env->unmap(env, memory + 8, 4096));
  CHECK_FIRES(env->discard(env, memory + 8, 4096));
  CHECK_FIRES(env->populate(env, memory + 8, 4096));
  env->unmap(env, memory, 8192);
}

TEST(the_order_of_a_lock) {
  struct env_lock *lock;
  struct env_file *file;
  struct env__owned *elsewhere = NULL, other = {0};
  if (!CHECK_EQ_INT(env->lock(env, help_path("lock"), &lock), 0) ||
      !CHECK_EQ_INT(
          env->open(env, help_path("file"), ENV_WRITE | ENV_CREATE, &file), 0))
    return;
  CHECK_FIRES(env->lock_settle(env, lock, ENV_LOCK_UNSETTLED));
  env->lock_settle(env, lock, ENV_LOCK_SERVES);
  env->lock_settle(env, lock, ENV_LOCK_ALONE);
  CHECK_FIRES(env->lock_settle(env, lock, ENV_LOCK_SERVES));
  CHECK_EQ_INT(env->byte_lock(env, file, 1, ENV_BYTE_SHARED), 0);
  CHECK_FIRES(file->owned.at = &elsewhere; env->close(env, file));
  /* A child is not on the list until it locks a byte itself. */
  CHECK_FIRES(env->byte_lock(env, file, 1, ENV_BYTE_SHARED);
              file->owned.next = &other; env->close(env, file));
  env->close(env, file);
  env->unlock(env, lock);
}

TEST(the_process_of_a_peer) {
  struct env_dir *dir;
  struct env_port *port;
  struct env_peer *caller, *called, *second;
  struct env_watch *watch;
  if (!CHECK_EQ_INT(env->open_dir(env, test_dir(), &dir), 0) ||
      !CHECK_EQ_INT(env->port_open(env, dir, "port", &port), 0) ||
      !CHECK_EQ_INT(env->peer_open(env, dir, "port", &caller), 0) ||
      !CHECK_EQ_INT(env->port_accept(env, port, &called), 0) ||
      !CHECK_EQ_INT(env->watch_open(env, &watch), 0))
    return;
  struct env__life *life = caller->life;
  if (!life) { /* this system cannot tell when a process ends */
    return;
  }
  CHECK(life == called->life && life->peers == 2);
  CHECK_EQ_INT(env->watch_peer(env, watch, caller, NULL), 0);
  CHECK_EQ_INT(env->watch_peer(env, watch, called, NULL), 0);
  CHECK(env__life_valid(life));
  CHECK_FIRES(life->peers = 0; env__life_valid(life));
  CHECK_FIRES(life->process = 0; env__life_valid(life));
  CHECK_FIRES(life->fd = -1; env__life_valid(life));
  CHECK_FIRES(life->in_watch.is_life = 0; env__life_valid(life));
  CHECK_FIRES(caller->life = NULL; env__life_valid(life));
  CHECK_FIRES(caller->at_watched = NULL; env__life_valid(life));
  CHECK_FIRES(life->peers = 1; env__life_valid(life));
  CHECK_ALL_FIRED("engine/base/env/env_life_valid.c");
  CHECK_EQ_INT(env->watch_peer(env, watch, called, NULL), EEXIST);
  CHECK(env__life_valid(life));
  CHECK_FIRES(env->watch_open(env, &watch); /* in two watches */
              env->watch_peer(env, watch, caller, NULL));
  /* A peer may be closed without leaving a watch that was closed. */
  env->watch_close(env, watch);
  env->peer_close(env, called);
  CHECK(life->peers == 1 && life->watched == caller && env__life_valid(life));
  CHECK_EQ_INT(env->peer_open(env, dir, "port", &second), 0);
  env->peer_close(env, caller);
  CHECK(life->watched == NULL && env__life_valid(life));
  env->peer_close(env, second);
  env->port_close(env, port);
  env->close_dir(env, dir);
}
