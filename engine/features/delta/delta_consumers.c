/* SPDX-License-Identifier: MIT
**
** delta_consumers.c -- the consumers of deltas: acknowledging a delta,
** restarting and listing consumers.
*/
#include <string.h>

#include "engine/storage/kernel/store_file.h"
#include "delta.h"

struct acking {
  const struct core *core;
  uint64_t upto;
};

static int consumer_acknowledge(void *arg, struct consumer *consumer, int made,
                                emb_err *err) {
  const struct acking *a = arg;
  int rc = consumer_check(consumer, a->core, err);
  (void)made;
  if (rc || (a->upto && a->upto == consumer->acked.end)) {
    return rc ? rc : CONSUMER_SAME;
  }
  if (a->upto && a->upto != consumer->sent.end) {
    return err_set(err, EMB_RANGE,
                   "consumer %s has no delta that ends at %llu: read it again",
                   consumer->name, (unsigned long long)a->upto);
  }
  if (!consumer->sent.end) {
    return err_set(err, EMB_RANGE, "consumer %s has no delta to acknowledge",
                   consumer->name);
  }
  if (consumer->sent.end < consumer->acked.end) { /* no writer does this */
    return err_set(err, EMB_CORRUPT,
                   "the file of consumer %s of %s is damaged: take a snapshot "
                   "and restart the consumer",
                   consumer->name, a->core->dir);
  }
  consumer->acked = consumer->sent;
  consumer->acks++;
  return EMB_OK;
}

int local_delta_ack(emb_session *s, const char *name, uint64_t upto) {
  struct acking acking = {s->core, upto};
  struct consumer_edit edit = {.change = consumer_acknowledge, .arg = &acking};
  int rc = delta__begin_call(s);
  return rc ? rc : consumer_change(&s->store->consumers, name, &edit, &s->err);
}

/* Takes a mark without a scan. */
static int mark_now(emb_session *s, struct mark *mark) {
  struct env *env = s->core->env;
  uint64_t first;
  emb_scan *scan = env->allocate(env, sizeof *scan);
  if (!scan) {
    return session_error(s, EMB_NOMEM, "out of memory");
  }
  delta__init_scan(s, scan);
  int rc = delta__take_mark(s, scan, mark, &first);
  if (!rc) {
    watch_close(s->core, &scan->watch);
  }
  spill_free(&scan->watch.moved);
  env->release(env, scan);
  return rc;
}

struct beginning {
  struct mark mark;
  uint64_t keep_bytes;
};

static int begin_anew(void *arg, struct consumer *consumer, int made,
                      emb_err *err) {
  const struct beginning *b = arg;
  struct consumer next;
  (void)made;
  (void)err;
  consumer_begin(&next, consumer->name);
  next.keep_bytes = b->keep_bytes ? b->keep_bytes : consumer->keep_bytes;
  next.acked = next.sent = b->mark;
  *consumer = next;
  return EMB_OK;
}

int local_delta_begin(emb_session *s, const char *name, int where,
                      uint64_t keep_bytes) {
  struct consumers *consumers = &s->store->consumers;
  struct beginning beginning = {{0, 0, 0}, keep_bytes};
  struct consumer_edit edit = {
      .make = MAKE_DAMAGED, .change = begin_anew, .arg = &beginning};
  struct hold kept;
  int rc = delta__begin_call(s);
  rc = rc ? rc : consumer_name_check(name, &s->err);
  if (!rc && where != EMB_DELTA_ALL && where != EMB_DELTA_NOW) {
    rc = session_error(s, EMB_RANGE, "unknown beginning %d", where);
  }
  if (rc) {
    return rc;
  }
  delta__hold(s, &kept);
  rc = where == EMB_DELTA_NOW ? mark_now(s, &beginning.mark) : EMB_OK;
  rc = rc ? rc : consumer_change(consumers, name, &edit, &s->err);
  consumers_let_go(consumers, &kept);
  return rc;
}

int local_delta_drop(emb_session *s, const char *name) {
  int rc = delta__begin_call(s);
  return rc ? rc : consumer_drop(&s->store->consumers, name, &s->err);
}

int local_delta_consumers(emb_session *s, emb_consumer *to, size_t max,
                          size_t *n) {
  struct consumers *consumers = &s->store->consumers;
  *n = 0;
  int rc = delta__begin_call(s);
  if (rc) {
    return rc;
  }
  pthread_mutex_lock(&consumers->lock);
  for (const struct consumer *c = consumers->first; c; c = c->next, (*n)++) {
    if (*n < max) {
      uint64_t page = consumer_needs_from(c);
      emb_consumer *at = &to[*n];
      memset(at, 0, sizeof *at);
      memcpy(at->name, c->name, sizeof at->name);
      at->state = (int)c->state;
      at->acked = c->acked.end;
      at->sent = c->sent.end;
      at->keep_bytes = c->keep_bytes;
      at->kept_bytes = page ? consumer_kept(s->core, page) : 0;
    }
  }
  pthread_mutex_unlock(&consumers->lock);
  return EMB_OK;
}

/* ---- their files --------------------------------------------------------- */

static int consumer_load(struct core *core, int recovered, emb_err *err) {
  emb_store *store = (emb_store *)(void *)core;
  int rc = consumers_load(&store->consumers, core->log_end, err);
  /* The checkpoint after the recovery tries again. */
  return rc == EMB_FULL && recovered ? EMB_OK : rc;
}

static int consumer_verify(struct core *core, const char *name, emb_err *err) {
  struct consumer consumer;
  int rc = consumer_read(core, name, &consumer, NULL, err);
  return rc == EMB_CANTOPEN ? EMB_OK : rc; /* dropped in the meantime */
}

static const struct store_file file_consumer = {.name = CONSUMER_PREFIX "*",
                                                .temporary = CONSUMER_NEW,
                                                .load = consumer_load,
                                                .check = consumer_verify};

const struct feature feature_delta = {
    .name = "delta",
    .files = FEATURE_FILES(&file_consumer, &file_position),
};
