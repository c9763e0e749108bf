/* SPDX-License-Identifier: MIT
**
** consumer.c -- the consumers of a store; see consumer.h.  Their files are in
** consumer_file.c.
*/
#include "consumer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define KEEP_DEFAULT (UINT64_C(1) << 30)

/* ---- the list ------------------------------------------------------------ */

static void set_oldest(struct consumers *c) {
  uint64_t oldest = UINT64_MAX;
  for (const struct consumer *each = c->first; each; each = each->next) {
    uint64_t page = consumer_needs_from(each);
    oldest = page && page < oldest ? page : oldest;
  }
  for (const struct hold *hold = c->holds; hold; hold = hold->next) {
    oldest = hold->page < oldest ? hold->page : oldest;
  }
  atomic_store(&c->oldest, oldest == UINT64_MAX
                               ? oldest
                               : oldest >> c->core->layout.extent_bits);
}

static struct consumer *consumer_find_number(struct consumers *c,
                                             uint64_t number) {
  struct consumer *at = c->first;
  while (at && at->number != number) {
    at = at->next;
  }
  return at;
}

/* Allocates memory for one more consumer, before anything changes on disk.
** Under lock. */
static int make_entry(struct consumers *c, emb_err *err) {
  struct env *env = c->core->env;
  if (!c->spare) {
    c->spare = env->allocate(env, sizeof *c->spare);
  }
  return c->spare ? EMB_OK : err_set(err, EMB_NOMEM, "out of memory");
}

/* Updates the list after the change is durable.  Under lock. */
static int put_in_list(struct consumers *c, const struct consumer *as,
                       emb_err *err) {
  struct consumer *at = consumer_find_number(c, as->number);
  if (!at) {
    int rc = make_entry(c, err);
    if (rc) {
      return rc;
    }
    at = c->spare;
    c->spare = NULL;
    at->next = c->first;
    c->first = at;
  }
  struct consumer *next = at->next;
  *at = *as;
  at->next = next;
  set_oldest(c);
  return EMB_OK;
}

int consumer_name_check(const char *name, emb_err *err) {
  size_t n = name ? strnlen(name, EMB_CONSUMER_NAME_MAX + 1) : 0;
  return n == 0 || n > EMB_CONSUMER_NAME_MAX
             ? err_set(err, EMB_RANGE,
                       "the name of a consumer has 1 to %d bytes",
                       EMB_CONSUMER_NAME_MAX)
             : EMB_OK;
}

void consumer_begin(struct consumer *consumer, const char *name) {
  memset(consumer, 0, sizeof *consumer);
  consumer->number = consumer__number(name);
  consumer->keep_bytes = KEEP_DEFAULT;
  memcpy(consumer->name, name, strlen(name));
}

/* Under lock. */
static int check_found(const struct consumers *c, const struct consumer *at,
                       const char *name, emb_err *err) {
  if (!at) {
    return err_set(err, EMB_RANGE, "%s has no consumer %s", c->core->dir, name);
  }
  if (at->state == CONSUMER_DAMAGED) {
    return err_set(err, EMB_CORRUPT,
                   "the file of consumer %s of %s is damaged: take a snapshot "
                   "and restart the consumer",
                   name, c->core->dir);
  }
  return strcmp(at->name, name) == 0
             ? EMB_OK
             : err_set(err, EMB_RANGE,
                       "consumer %s cannot exist together with %s", name,
                       at->name);
}

int consumer_find(struct consumers *c, const char *name, struct consumer *copy,
                  emb_err *err) {
  int rc = consumer_name_check(name, err);
  if (rc) {
    return rc;
  }
  pthread_mutex_lock(&c->lock);
  const struct consumer *at = consumer_find_number(c, consumer__number(name));
  rc = check_found(c, at, name, err);
  if (!rc) {
    *copy = *at;
  }
  pthread_mutex_unlock(&c->lock);
  return rc;
}

static uint64_t span_bytes_max(const struct core *core) {
  return CONSUMER_SPAN_MAX * (uint64_t)core->layout.extent_bytes;
}

int consumer_check(const struct consumer *consumer, const struct core *core,
                   emb_err *err) {
  char why[160];
  if (consumer->state != CONSUMER_LOST) {
    return EMB_OK;
  }
  if (consumer->reason == LOST_KEPT) {
    snprintf(why, sizeof why,
             "%llu bytes would be kept for it, and keep_bytes is %llu",
             (unsigned long long)consumer->lost_bytes,
             (unsigned long long)consumer->keep_bytes);
  } else if (consumer->reason == LOST_SPAN) {
    snprintf(why, sizeof why,
             "%llu bytes of log were written since, and the limit is %llu",
             (unsigned long long)consumer->lost_bytes,
             (unsigned long long)span_bytes_max(core));
  } else {
    snprintf(why, sizeof why, "the data it needs could not be kept any longer");
  }
  return err_set(err, EMB_GAP,
                 "consumer %s of %s is too far behind: %s; take a snapshot and "
                 "restart the consumer",
                 consumer->name, core->dir, why);
}

static int consumer_nothing(void *arg) {
  (void)arg;
  return EMB_OK;
}

/* Acquires every resource before calling `last`; after it only a rename
** remains. */
static int write_with(struct consumers *c, const struct consumer *next,
                      int (*last)(void *), void *arg, emb_err *err) {
  int rc = consumer_find_number(c, next->number) ? EMB_OK : make_entry(c, err);
  rc = rc ? rc : consumer__make_file(c, next, err);
  if (rc) {
    return rc;
  }
  rc = last(arg);
  if (rc) {
    small__drop(c->core, CONSUMER_NEW);
    return rc;
  }
  rc = consumer__name_file(c->core, next, err);
  return rc ? rc : put_in_list(c, next, err);
}

int consumer_change(struct consumers *c, const char *name,
                    const struct consumer_edit *edit, emb_err *err) {
  int (*last)(void *) = edit->last ? edit->last : consumer_nothing;
  struct consumer next;
  int rc = consumer_name_check(name, err);
  if (rc) {
    return rc;
  }
  pthread_mutex_lock(&c->lock);
  const struct consumer *at = consumer_find_number(c, consumer__number(name));
  int made = at ? edit->make == MAKE_DAMAGED && at->state == CONSUMER_DAMAGED
                : edit->make != MAKE_NONE;
  if (made) {
    consumer_begin(&next, name);
  } else {
    rc = check_found(c, at, name, err);
    if (!rc) {
      next = *at;
    }
  }
  rc = rc ? rc : edit->change(edit->arg, &next, made, err);
  emb_assert(rc || !at || consumer_follows(at, &next)); /* D2 */
  if (rc == CONSUMER_SAME) {
    rc = last(edit->last_arg);
  } else if (!rc) {
    rc = write_with(c, &next, last, edit->last_arg, err);
  }
  emb_check(consumers_valid(c));
  pthread_mutex_unlock(&c->lock);
  return rc;
}

int consumer_drop(struct consumers *c, const char *name, emb_err *err) {
  struct env *env = c->core->env;
  char file[CONSUMER_FILE_BYTES], path[PATH_BYTES];
  int rc = consumer_name_check(name, err);
  uint64_t number = rc ? 0 : consumer__number(name);
  consumer__file_name(number, file);
  rc = rc ? rc : path_join(path, sizeof path, c->core->dir, file, err);
  if (rc) {
    return rc;
  }
  pthread_mutex_lock(&c->lock);
  struct consumer **at = &c->first;
  while (*at && (*at)->number != number) {
    at = &(*at)->next;
  }
  if (!*at) {
    rc = err_set(err, EMB_RANGE, "%s has no consumer %s", c->core->dir, name);
  } else {
    int os = env->unlink(env, path);
    os = os == ENOENT ? 0 : os;
    os = os ? os : core_sync_names(c->core);
    if (os) {
      rc = err_os(err, EMB_IOERR, os, "cannot remove %s", path);
    } else {
      struct consumer *gone = *at;
      *at = gone->next;
      env->release(env, gone);
      set_oldest(c);
      emb_check(consumers_valid(c));
    }
  }
  pthread_mutex_unlock(&c->lock);
  return rc;
}

void consumers_hold(struct consumers *c, struct hold *hold, uint64_t page) {
  pthread_mutex_lock(&c->lock);
  hold->page = page;
  hold->next = c->holds;
  c->holds = hold;
  set_oldest(c);
  emb_check(consumers_valid(c));
  pthread_mutex_unlock(&c->lock);
}

void consumers_let_go(struct consumers *c, struct hold *hold) {
  pthread_mutex_lock(&c->lock);
  for (struct hold **at = &c->holds; *at; at = &(*at)->next) {
    if (*at == hold) {
      *at = hold->next;
      break;
    }
  }
  set_oldest(c);
  pthread_mutex_unlock(&c->lock);
}

int consumers_position(struct consumers *c, struct position *position,
                       emb_err *err) {
  if (!c->core->temporary) {
    return position__read(c->core, position, err);
  }
  pthread_mutex_lock(&c->lock);
  *position = c->position;
  pthread_mutex_unlock(&c->lock);
  return EMB_OK;
}

int consumers_move(struct consumers *c, const struct position *position,
                   emb_err *err) {
  int rc = EMB_OK;
  pthread_mutex_lock(&c->lock);
  if (c->core->temporary) {
    c->position = *position;
  } else {
    rc = position__write(c->core, position, err);
  }
  pthread_mutex_unlock(&c->lock);
  return rc;
}

/* ---- keeping extents ----------------------------------------------------- */

static struct consumers *consumer_of(const struct retention *hold) {
  return (struct consumers *)(void *)((char *)(uintptr_t)hold -
                                      offsetof(struct consumers, retention));
}

static uint64_t floor_of(const struct retention *hold) {
  return atomic_load(&consumer_of(hold)->oldest);
}

static int consumer_needs(const struct retention *hold, uint64_t extent) {
  return extent >= floor_of(hold) &&
         extent_tombs(log_extent(&consumer_of(hold)->core->log, extent));
}

uint64_t consumer_kept(const struct core *core, uint64_t page) {
  struct log *log = (struct log *)(uintptr_t)&core->log;
  const struct layout *l = &core->layout;
  uint64_t kept = 0, from = page >> l->extent_bits;
  pthread_mutex_lock(&log->lock);
  uint64_t end = atomic_load(&log->tail) >> l->extent_bits;
  for (uint64_t e = from > log->first ? from : log->first; e < end; e++) {
    struct extent *extent = log_extent(log, e);
    if (extent_phys(extent) != EXTENT_NOWHERE && extent_tombs(extent)) {
      int32_t live = atomic_load_explicit(&extent->live, memory_order_relaxed);
      kept += l->extent_bytes - (uint64_t)(live > 0 ? live : 0) * l->rec_bytes;
    }
  }
  pthread_mutex_unlock(&log->lock);
  return kept;
}

/* Is more kept for it than allowed?  If so, `lost` says why. */
static int is_too_much(const struct core *core, const struct consumer *consumer,
                       struct consumer *lost) {
  uint64_t page = consumer_needs_from(consumer);
  uint64_t tail = atomic_load(&core->log.tail);
  uint64_t kept = page ? consumer_kept(core, page) : 0;
  uint64_t span =
      page && tail > page ? (tail - page) >> core->layout.extent_bits : 0;
  *lost = *consumer;
  lost->state = CONSUMER_LOST;
  if (kept > consumer->keep_bytes) {
    lost->reason = LOST_KEPT;
    lost->lost_bytes = kept;
  } else if (span > CONSUMER_SPAN_MAX) {
    lost->reason = LOST_SPAN;
    lost->lost_bytes = span * core->layout.extent_bytes;
  }
  return lost->reason != 0;
}

/* D1: a consumer that cannot be recorded as lost is kept. */
static void consumer_settle(struct retention *hold) {
  struct consumers *c = consumer_of(hold);
  struct consumer lost;
  pthread_mutex_lock(&c->lock);
  for (struct consumer *at = c->first; at; at = at->next) {
    if (consumer_needs_from(at) && is_too_much(c->core, at, &lost) &&
        consumer__write_file(c, &lost, NULL) == EMB_OK) {
      emb_assert(lost.state == CONSUMER_LOST && lost.next == at->next);
      *at = lost; /* including the list link */
    }
  }
  set_oldest(c);
  pthread_mutex_unlock(&c->lock);
}

/* ---- opening ------------------------------------------------------------- */

void consumers_init(struct consumers *c, struct core *core) {
  c->core = core;
  pthread_mutex_init(&c->lock, NULL);
  atomic_store(&c->oldest, UINT64_MAX);
  c->retention.needs = consumer_needs;
  c->retention.floor = floor_of;
  c->retention.settle = consumer_settle;
}

static void consumers_empty(struct consumers *c) {
  c->core->env->release(c->core->env, c->holes.list);
  c->holes = (struct holes){NULL, 0, 0};
  while (c->first) {
    struct consumer *gone = c->first;
    c->first = gone->next;
    c->core->env->release(c->core->env, gone);
  }
}

void consumers_free(struct consumers *c) {
  consumers_empty(c);
  c->core->env->release(c->core->env, c->spare);
  pthread_mutex_destroy(&c->lock);
}

struct consumer_loading {
  struct consumers *consumers;
  emb_err *err;
  int rc;
};

static int consumer_hex(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                : -1;
}

/* Parses the number in a consumer's file name; 0: it is not such a name. */
static int consumer_read_number(const char *file, uint64_t *number) {
  const size_t n = sizeof CONSUMER_PREFIX - 1;
  const char *at = file + n;
  *number = 0;
  if (strncmp(file, CONSUMER_PREFIX, n) != 0) {
    return 0;
  }
  for (int i = 0; i < 16; i++, at++) {
    if (consumer_hex(*at) < 0) {
      return 0;
    }
    *number = *number << 4 | (uint64_t)consumer_hex(*at);
  }
  return *at == 0;
}

static void consumer_load_one(void *arg, const char *name) {
  struct consumer_loading *l = arg;
  struct consumers *c = l->consumers;
  struct consumer consumer;
  uint64_t number;
  if (l->rc || !consumer_read_number(name, &number)) {
    return;
  }
  int rc = consumer_read(c->core, name, &consumer, &c->holes, l->err);
  if (rc == EMB_CORRUPT || (!rc && consumer.number != number)) {
    err_clear(l->err);
    memset(&consumer, 0, sizeof consumer);
    consumer.number = number;
    consumer.state = CONSUMER_DAMAGED;
    rc = EMB_OK;
  }
  l->rc = rc ? rc : put_in_list(c, &consumer, l->err);
}

/* Records that the pages [cut, tail) will never be valid.  Must be durable
** before anything is written above them. */
static int note_hole(struct consumers *c, uint64_t cut, emb_err *err) {
  struct hole hole = {cut, atomic_load(&c->core->log.tail)};
  int rc = cut < hole.to && !EMB_SEED(SEED_HOLE_NOT_NOTED)
               ? holes__add(c->core, &c->holes, &hole, 1, err)
               : EMB_OK;
  for (struct consumer *at = c->first; !rc && at && cut < hole.to;
       at = at->next) {
    if (consumer_needs_from(at) && at->holes_to < hole.to) {
      rc = consumer__write_file(c, at, err);
      at->holes_to = rc ? at->holes_to : hole.to;
    }
  }
  return rc;
}

int consumers_load(struct consumers *c, uint64_t cut, emb_err *err) {
  struct core *core = c->core;
  struct consumer_loading l = {c, err, EMB_OK};
  if (!c->keeps) {
    retention_begin(core, &c->retention);
    c->keeps = 1;
  }
  pthread_mutex_lock(&c->lock);
  consumers_empty(c);
  int os = core->env->list_dir(core->env, core->dir, consumer_load_one, &l);
  if (os) {
    l.rc = err_os(err, EMB_IOERR, os, "cannot list %s", core->dir);
  }
  l.rc = l.rc ? l.rc : note_hole(c, cut, err);
  set_oldest(c);
  for (const struct consumer *at = c->first; at; at = at->next) {
    uint64_t version = at->acked.version > at->sent.version ? at->acked.version
                                                            : at->sent.version;
    if (version > atomic_load(&core->version) &&
        !EMB_SEED(SEED_VERSIONS_FALL_BACK)) {
      atomic_store(&core->version, version);
    }
  }
  emb_check(consumers_valid(c));
  /* No file records which existing extents hold deletions: mark all of them. */
  pthread_mutex_lock(&core->log.lock);
  uint64_t end = atomic_load(&core->log.tail) >> core->layout.extent_bits;
  uint64_t from = atomic_load(&c->oldest);
  for (uint64_t e = from > core->log.first ? from : core->log.first; e <= end;
       e++) {
    if (extent_phys(log_extent(&core->log, e)) != EXTENT_NOWHERE) {
      extent_set_tombs(log_extent(&core->log, e));
    }
  }
  pthread_mutex_unlock(&core->log.lock);
  pthread_mutex_unlock(&c->lock);
  return l.rc;
}
