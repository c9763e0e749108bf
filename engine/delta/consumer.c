/* SPDX-License-Identifier: MIT
**
** consumer.c -- see consumer.h.
*/
#include "consumer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define FILE_NAME_BYTES 32
/* Extents between the oldest that is kept and the tail. */
#define SPAN_MAX (LOG_SPAN_MAX / 8)
#define KEEP_DEFAULT (UINT64_C(1) << 30)

static const char magic[8] = {'e', 'm', 'b', 'd', 'e', 'l', 't', 'a'};

struct consumer_file {
  uint64_t sum;                      /* 000-007 */
  char magic[8];                     /* 008-015 */
  uint32_t format;                   /* 016-019 */
  uint32_t state;                    /* 020-023 */
  uint8_t uuid[16];                  /* 024-039 */
  uint64_t number;                   /* 040-047 */
  uint64_t keep_bytes;               /* 048-055 */
  struct mark acked, sent;           /* 056-103 */
  uint32_t hole_count;               /* 104-107 */
  uint32_t acks;                     /* 108-111 */
  char name[256];                    /* 112-367 */
  struct hole holes[CONSUMER_HOLES]; /* 368-879 */
  uint8_t zero[4096 - 880];          /* 880-4095 */
};
_Static_assert(sizeof(struct consumer_file) == 4096, "consumer file");
_Static_assert(offsetof(struct consumer_file, zero) == 880, "consumer file");

/* ---- files -------------------------------------------------------------- */

static uint64_t number_of(const char *name) {
  return XXH3_64bits(name, strlen(name));
}

static void name_of(uint64_t number, char *name) {
  snprintf(name, FILE_NAME_BYTES, CONSUMER_PREFIX "%016llx",
           (unsigned long long)number);
}

int consumer_is_file(const char *name) {
  return strncmp(name, CONSUMER_PREFIX, sizeof CONSUMER_PREFIX - 1) == 0;
}

static int is_zero(const void *bytes, size_t n) {
  const char *at = bytes;
  while (n && !*at) {
    at++;
    n--;
  }
  return n == 0;
}

static uint64_t sum_of(const struct core *core, const struct consumer_file *f) {
  return hash_sum((const char *)f + 8, sizeof *f - 8, core->salt, f->number);
}

static int mark_is_sound(const struct mark *mark) {
  return mark->page <= mark->end && (mark->page == 0) == (mark->end == 0);
}

/* Everything but the sum. */
static int is_sound(const struct core *core, const struct consumer_file *f) {
  size_t n = strnlen(f->name, sizeof f->name);
  if (memcmp(f->magic, magic, sizeof magic) != 0 || f->format != 1 ||
      f->state > CONSUMER_LOST ||
      memcmp(f->uuid, core->uuid, sizeof f->uuid) != 0 || n == 0 ||
      n > EMB_CONSUMER_NAME_MAX || !is_zero(f->name + n, sizeof f->name - n) ||
      f->number != number_of(f->name) || f->hole_count > CONSUMER_HOLES ||
      !is_zero(f->zero, sizeof f->zero) || !mark_is_sound(&f->acked) ||
      !mark_is_sound(&f->sent)) {
    return 0;
  }
  for (uint32_t i = 0; i < f->hole_count; i++) {
    if (f->holes[i].from >= f->holes[i].to) {
      return 0;
    }
  }
  return 1;
}

int consumer_read(struct core *core, const char *name,
                  struct consumer *consumer, emb_err *err) {
  struct consumer_file f;
  int rc = small_read(core, name, &f, sizeof f, NULL, err);
  if (!rc && (f.sum != sum_of(core, &f) || !is_sound(core, &f))) {
    rc = err_set(err, EMB_CORRUPT, "%s/%s is damaged", core->dir, name);
  }
  if (rc) {
    return rc;
  }
  *consumer = (struct consumer){.number = f.number,
                                .state = f.state,
                                .hole_count = f.hole_count,
                                .keep_bytes = f.keep_bytes,
                                .acks = f.acks,
                                .acked = f.acked,
                                .sent = f.sent};
  memcpy(consumer->name, f.name, sizeof consumer->name);
  memcpy(consumer->holes, f.holes, sizeof consumer->holes);
  return EMB_OK;
}

static int write_file(struct core *core, const struct consumer *consumer,
                      emb_err *err) {
  struct consumer_file f;
  char name[FILE_NAME_BYTES];
  memset(&f, 0, sizeof f);
  memcpy(f.magic, magic, sizeof magic);
  f.format = 1;
  f.state = consumer->state;
  memcpy(f.uuid, core->uuid, sizeof f.uuid);
  f.number = consumer->number;
  f.keep_bytes = consumer->keep_bytes;
  f.acked = consumer->acked;
  f.sent = consumer->sent;
  f.hole_count = consumer->hole_count;
  f.acks = consumer->acks;
  memcpy(f.name, consumer->name, sizeof consumer->name);
  memcpy(f.holes, consumer->holes, f.hole_count * sizeof *f.holes);
  f.sum = sum_of(core, &f);
  name_of(consumer->number, name);
  return small_write(core, CONSUMER_NEW, name, &f, sizeof f, err);
}

/* ---- the list ----------------------------------------------------------- */

uint64_t consumer_needs_from(const struct consumer *consumer) {
  return consumer->state != CONSUMER_GOOD ? 0
         : consumer->acked.page           ? consumer->acked.page
                                          : consumer->sent.page;
}

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

static struct consumer *find(struct consumers *c, uint64_t number) {
  struct consumer *at = c->first;
  while (at && at->number != number) {
    at = at->next;
  }
  return at;
}

/* Under lock; durable already. */
static int put_in_list(struct consumers *c, const struct consumer *as,
                       emb_err *err) {
  struct consumer *at = find(c, as->number);
  if (!at) {
    at = c->core->env->allocate(c->core->env, sizeof *at);
    if (!at) {
      return err_set(err, EMB_NOMEM, "out of memory");
    }
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
  consumer->number = number_of(name);
  consumer->keep_bytes = KEEP_DEFAULT;
  memcpy(consumer->name, name, strlen(name));
}

int consumer_find(struct consumers *c, const char *name, struct consumer *copy,
                  emb_err *err) {
  int rc = consumer_name_check(name, err);
  if (rc) {
    return rc;
  }
  pthread_mutex_lock(&c->lock);
  const struct consumer *at = find(c, number_of(name));
  if (at) {
    *copy = *at;
  }
  pthread_mutex_unlock(&c->lock);
  if (!at) {
    return err_set(err, EMB_RANGE, "%s has no consumer %s", c->core->dir, name);
  }
  if (copy->state == CONSUMER_DAMAGED) {
    return err_set(err, EMB_CORRUPT,
                   "the file of consumer %s of %s is damaged: take a snapshot "
                   "and begin anew",
                   name, c->core->dir);
  }
  return strcmp(copy->name, name) == 0
             ? EMB_OK
             : err_set(err, EMB_RANGE, "consumer %s cannot be beside %s", name,
                       copy->name);
}

int consumer_check(const struct consumer *consumer, const struct core *core,
                   emb_err *err) {
  return consumer->state == CONSUMER_LOST
             ? err_set(err, EMB_GAP,
                       "consumer %s of %s is too far behind: more than %llu "
                       "bytes were kept for it; take a snapshot and begin anew",
                       consumer->name, core->dir,
                       (unsigned long long)consumer->keep_bytes)
             : EMB_OK;
}

int consumer_save(struct consumers *c, const struct consumer *as,
                  emb_err *err) {
  pthread_mutex_lock(&c->lock);
  int rc = write_file(c->core, as, err);
  rc = rc ? rc : put_in_list(c, as, err);
  pthread_mutex_unlock(&c->lock);
  return rc;
}

int consumer_drop(struct consumers *c, const char *name, emb_err *err) {
  struct env *env = c->core->env;
  char file[FILE_NAME_BYTES], path[SMALL_PATH_BYTES];
  int rc = consumer_name_check(name, err);
  uint64_t number = rc ? 0 : number_of(name);
  name_of(number, file);
  rc = rc ? rc : small_path(c->core, file, path, err);
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
    os = os ? os : env->sync_dir(env, c->core->dir);
    if (os) {
      rc = err_os(err, EMB_IOERR, os, "cannot remove %s", path);
    } else {
      struct consumer *gone = *at;
      *at = gone->next;
      env->release(env, gone);
      set_oldest(c);
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
    return position_read(c->core, position, err);
  }
  pthread_mutex_lock(&c->lock);
  *position = c->position;
  pthread_mutex_unlock(&c->lock);
  return EMB_OK;
}

int consumers_move(struct consumers *c, const struct position *position,
                   emb_err *err) {
  if (!c->core->temporary) {
    return position_write(c->core, position, err);
  }
  pthread_mutex_lock(&c->lock);
  c->position = *position;
  pthread_mutex_unlock(&c->lock);
  return EMB_OK;
}

/* ---- keeping extents ----------------------------------------------------- */

static struct consumers *of(const struct keeper *keeper) {
  return (struct consumers *)(void *)((char *)(uintptr_t)keeper -
                                      offsetof(struct consumers, keeper));
}

static uint64_t floor_of(const struct keeper *keeper) {
  return atomic_load(&of(keeper)->oldest);
}

static int needs(const struct keeper *keeper, uint64_t extent) {
  return extent >= floor_of(keeper) &&
         extent_tombs(log_extent(&of(keeper)->core->log, extent));
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

/* D1: what cannot be noted as lost stays. */
static void settle(struct keeper *keeper) {
  struct consumers *c = of(keeper);
  const struct core *core = c->core;
  uint64_t tail = atomic_load(&core->log.tail);
  pthread_mutex_lock(&c->lock);
  for (struct consumer *at = c->first; at; at = at->next) {
    uint64_t page = consumer_needs_from(at);
    if (page && (consumer_kept(core, page) > at->keep_bytes ||
                 (tail > page &&
                  (tail - page) >> core->layout.extent_bits > SPAN_MAX))) {
      struct consumer lost = *at;
      lost.state = CONSUMER_LOST;
      if (write_file(c->core, &lost, NULL) == EMB_OK) {
        at->state = CONSUMER_LOST;
      }
    }
  }
  set_oldest(c);
  pthread_mutex_unlock(&c->lock);
}

/* ---- opening ------------------------------------------------------------ */

void consumers_init(struct consumers *c, struct core *core) {
  c->core = core;
  pthread_mutex_init(&c->lock, NULL);
  atomic_store(&c->oldest, UINT64_MAX);
  c->keeper.needs = needs;
  c->keeper.floor = floor_of;
  c->keeper.settle = settle;
}

static void empty(struct consumers *c) {
  while (c->first) {
    struct consumer *gone = c->first;
    c->first = gone->next;
    c->core->env->release(c->core->env, gone);
  }
}

void consumers_free(struct consumers *c) {
  empty(c);
  pthread_mutex_destroy(&c->lock);
}

struct loading {
  struct consumers *consumers;
  emb_err *err;
  int rc;
};

static int hex(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                : -1;
}

/* What its name says; 0 and it is none. */
static int read_number(const char *file, uint64_t *number) {
  const char *at = file + sizeof CONSUMER_PREFIX - 1;
  *number = 0;
  for (int i = 0; i < 16; i++, at++) {
    if (hex(*at) < 0) {
      return 0;
    }
    *number = *number << 4 | (uint64_t)hex(*at);
  }
  return *at == 0;
}

static void load_one(void *arg, const char *name) {
  struct loading *l = arg;
  struct consumers *c = l->consumers;
  struct consumer consumer;
  uint64_t number;
  if (l->rc || !consumer_is_file(name) || !read_number(name, &number)) {
    return;
  }
  int rc = consumer_read(c->core, name, &consumer, l->err);
  if (rc == EMB_CORRUPT || (!rc && consumer.number != number)) {
    err_clear(l->err);
    memset(&consumer, 0, sizeof consumer);
    consumer.number = number;
    consumer.state = CONSUMER_DAMAGED;
    rc = EMB_OK;
  }
  l->rc = rc ? rc : put_in_list(c, &consumer, l->err);
}

/* The pages [cut, tail) will never be valid.  Durable before there is anything
** above them; who has no room for it cannot tell them from damage. */
static int note_hole(struct consumers *c, uint64_t cut, emb_err *err) {
  uint64_t tail = atomic_load(&c->core->log.tail);
  int rc = EMB_OK;
  for (struct consumer *at = c->first; !rc && at && cut < tail; at = at->next) {
    uint64_t page = consumer_needs_from(at);
    uint32_t n = 0;
    if (!page || (at->hole_count && at->holes[at->hole_count - 1].to >= tail)) {
      continue;
    }
    struct consumer noted = *at;
    for (uint32_t i = 0; i < at->hole_count; i++) {
      if (at->holes[i].to > page) { /* it still matters */
        noted.holes[n++] = at->holes[i];
      }
    }
    if (n == CONSUMER_HOLES) {
      noted.state = CONSUMER_LOST;
    } else {
      noted.holes[n++] = (struct hole){cut, tail};
    }
    noted.hole_count = n;
    rc = write_file(c->core, &noted, err);
    if (!rc) {
      *at = noted;
    }
  }
  return rc;
}

int consumers_load(struct consumers *c, uint64_t cut, emb_err *err) {
  struct core *core = c->core;
  struct loading l = {c, err, EMB_OK};
  if (!c->keeps) {
    keep_begin(core, &c->keeper);
    c->keeps = 1;
  }
  pthread_mutex_lock(&c->lock);
  empty(c);
  int os = core->env->list_dir(core->env, core->dir, load_one, &l);
  if (os) {
    l.rc = err_os(err, EMB_IOERR, os, "cannot list %s", core->dir);
  }
  l.rc = l.rc ? l.rc : note_hole(c, cut, err);
  set_oldest(c);
  for (const struct consumer *at = c->first; at; at = at->next) {
    uint64_t version = at->acked.version > at->sent.version ? at->acked.version
                                                            : at->sent.version;
    if (version > atomic_load(&core->version) && !EMB_SEED(98)) {
      atomic_store(&core->version, version);
    }
  }
  /* Which of the extents that are there hold deletions is written nowhere. */
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
