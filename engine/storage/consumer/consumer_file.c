/* SPDX-License-Identifier: MIT
**
** consumer_file.c -- the file of a consumer, and its holes.
*/
#include "consumer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Maximum number of holes in a format 1 file. */
#define HOLES_1 32

static const char consumer_magic[8] = {'e', 'm', 'b', 'd', 'e', 'l', 't', 'a'};

/* A format 1 file has no reason, and its holes at 368.  The length is a
** multiple of 4096 bytes, padded with zeros. */
struct consumer_file {
  uint64_t sum;            /* 000-007 */
  char magic[8];           /* 008-015 */
  uint32_t format;         /* 016-019 */
  uint32_t state;          /* 020-023 */
  uint8_t uuid[16];        /* 024-039 */
  uint64_t number;         /* 040-047 */
  uint64_t keep_bytes;     /* 048-055 */
  struct mark acked, sent; /* 056-103 */
  uint32_t hole_count;     /* 104-107 */
  uint32_t acks;           /* 108-111 */
  char name[256];          /* 112-367 */
  uint32_t reason;         /* 368-371 */
  uint32_t zero;           /* 372-375 */
  uint64_t lost_bytes;     /* 376-383 */
  struct hole holes[];     /* 384- */
};
_Static_assert(sizeof(struct consumer_file) == 384, "consumer file");
_Static_assert(offsetof(struct consumer_file, reason) == 368, "consumer file");

#define UNIT 4096u

/* ---- files --------------------------------------------------------------- */

uint64_t consumer__number(const char *name) {
  return XXH3_64bits(name, strlen(name));
}

void consumer__file_name(uint64_t number, char *name) {
  snprintf(name, CONSUMER_FILE_BYTES, CONSUMER_PREFIX "%016llx",
           (unsigned long long)number);
}

static int consumer_is_zero(const void *bytes, size_t n) {
  const char *at = bytes;
  while (n && !*at) {
    at++;
    n--;
  }
  return n == 0;
}

/* ---- holes --------------------------------------------------------------- */

static int consumer_by_start(const void *a, const void *b) {
  const struct hole *x = a, *y = b;
  return x->from < y->from ? -1 : x->from > y->from;
}

/* Merges adjacent and overlapping holes. */
static void holes_join(struct holes *holes) {
  size_t n = 0;
  if (holes->count) {
    qsort(holes->list, holes->count, sizeof *holes->list, consumer_by_start);
  }
  for (size_t i = 0; i < holes->count; i++) {
    struct hole *last = n ? &holes->list[n - 1] : NULL;
    if (last && holes->list[i].from <= last->to) {
      last->to = holes->list[i].to > last->to ? holes->list[i].to : last->to;
    } else {
      holes->list[n++] = holes->list[i];
    }
  }
  holes->count = n;
}

int holes__add(struct core *core, struct holes *holes, const struct hole *from,
               size_t n, emb_err *err) {
  if (!n) {
    return EMB_OK;
  }
  if (holes->room - holes->count < n) {
    size_t room =
        holes->count + n > 2 * holes->room ? holes->count + n : 2 * holes->room;
    struct hole *list =
        core->env->resize(core->env, holes->list, room * sizeof *list);
    if (!list) {
      return err_set(err, EMB_NOMEM, "out of memory");
    }
    holes->list = list;
    holes->room = room;
  }
  memcpy(holes->list + holes->count, from, n * sizeof *from);
  holes->count += n;
  holes_join(holes);
  return EMB_OK;
}

/* Returns the first hole that ends above this page. */
static size_t holes_above(const struct holes *holes, uint64_t page) {
  size_t low = 0, high = holes->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (holes->list[middle].to > page) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

int consumers_know_hole(struct consumers *c, uint64_t page) {
  pthread_mutex_lock(&c->lock);
  size_t i = holes_above(&c->holes, page);
  int known = i < c->holes.count && c->holes.list[i].from <= page;
  pthread_mutex_unlock(&c->lock);
  return known;
}

/* ---- one file ------------------------------------------------------------ */

static uint64_t consumer_sum_of(const struct core *core,
                                const struct consumer_file *f, size_t bytes) {
  return hash_sum((const char *)f + 8, bytes - 8, core->salt, f->number);
}

static int mark_is_sound(const struct mark *mark) {
  return mark->page <= mark->end && (mark->page == 0) == (mark->end == 0);
}

static size_t bytes_of(uint32_t format, uint64_t holes) {
  size_t head = format == 1 ? offsetof(struct consumer_file, reason)
                            : sizeof(struct consumer_file);
  size_t bytes = head + (size_t)holes * sizeof(struct hole);
  return (bytes + UNIT - 1) / UNIT * UNIT;
}

static struct hole *holes_of(struct consumer_file *f) {
  return f->format == 1 ? (struct hole *)(void *)&f->reason : f->holes;
}

/* Checks everything except the sum.  The file has at least one unit. */
static int consumer_is_sound(const struct core *core, struct consumer_file *f,
                             size_t bytes) {
  size_t n = strnlen(f->name, sizeof f->name);
  if (memcmp(f->magic, consumer_magic, sizeof consumer_magic) != 0 ||
      (f->format != 1 && f->format != 2) || f->state > CONSUMER_LOST ||
      memcmp(f->uuid, core->uuid, sizeof f->uuid) != 0 || n == 0 ||
      n > EMB_CONSUMER_NAME_MAX ||
      !consumer_is_zero(f->name + n, sizeof f->name - n) ||
      f->number != consumer__number(f->name) ||
      bytes != bytes_of(f->format, f->hole_count) ||
      !mark_is_sound(&f->acked) || !mark_is_sound(&f->sent)) {
    return 0;
  }
  if (f->format == 1 ? f->hole_count > HOLES_1
                     : f->reason > LOST_SPAN || f->zero ||
                           (f->reason && f->state != CONSUMER_LOST)) {
    return 0;
  }
  const struct hole *holes = holes_of(f);
  for (uint32_t i = 0; i < f->hole_count; i++) {
    if (holes[i].from >= holes[i].to) {
      return 0;
    }
  }
  const char *rest = (const char *)(holes + f->hole_count);
  return consumer_is_zero(rest, (size_t)((const char *)f + bytes - rest));
}

static int use_file(struct core *core, struct consumer_file *f,
                    struct consumer *consumer, struct holes *holes,
                    emb_err *err) {
  const struct hole *list = holes_of(f);
  *consumer = (struct consumer){.number = f->number,
                                .state = f->state,
                                .keep_bytes = f->keep_bytes,
                                .acks = f->acks,
                                .acked = f->acked,
                                .sent = f->sent};
  if (f->format > 1) {
    consumer->reason = f->reason;
    consumer->lost_bytes = f->lost_bytes;
  }
  if (f->hole_count) {
    consumer->holes_to = list[f->hole_count - 1].to;
  }
  memcpy(consumer->name, f->name, sizeof consumer->name);
  return holes ? holes__add(core, holes, list, f->hole_count, err) : EMB_OK;
}

int consumer_read(struct core *core, const char *name,
                  struct consumer *consumer, struct holes *holes,
                  emb_err *err) {
  struct small file;
  int rc =
      small__load(core, name, UNIT, bytes_of(2, CONSUMER_SPAN_MAX), &file, err);
  struct consumer_file *f = file.data;
  if (!rc && (f->sum != consumer_sum_of(core, f, file.bytes) ||
              !consumer_is_sound(core, f, file.bytes))) {
    rc = err_set(err, EMB_CORRUPT, "%s/%s is damaged", core->dir, name);
  }
  rc = rc ? rc : use_file(core, f, consumer, holes, err);
  core->env->release(core->env, f);
  return rc;
}

uint64_t consumer_needs_from(const struct consumer *consumer) {
  return consumer->state != CONSUMER_GOOD ? 0
         : consumer->acked.page           ? consumer->acked.page
                                          : consumer->sent.page;
}

/* Writes the file with only the holes this consumer needs.  Uses format 1 where
** that suffices, so that an older library can read it. */
int consumer__make_file(struct consumers *c, const struct consumer *consumer,
                        emb_err *err) {
  struct core *core = c->core;
  uint64_t page = consumer_needs_from(consumer);
  size_t first = page ? holes_above(&c->holes, page) : c->holes.count;
  uint32_t count = (uint32_t)(c->holes.count - first);
  uint32_t format = count > HOLES_1 || consumer->reason ? 2 : 1;
  size_t bytes = bytes_of(format, count);
  struct consumer_file *f = core->env->allocate(core->env, bytes);
  if (!f) {
    return err_set(err, EMB_NOMEM, "out of memory");
  }
  memcpy(f->magic, consumer_magic, sizeof consumer_magic);
  f->format = format;
  f->state = consumer->state;
  memcpy(f->uuid, core->uuid, sizeof f->uuid);
  f->number = consumer->number;
  f->keep_bytes = consumer->keep_bytes;
  f->acked = consumer->acked;
  f->sent = consumer->sent;
  f->hole_count = count;
  f->acks = consumer->acks;
  memcpy(f->name, consumer->name, sizeof consumer->name);
  if (format > 1) {
    f->reason = consumer->reason;
    f->lost_bytes = consumer->lost_bytes;
  }
  if (count) {
    memcpy(holes_of(f), c->holes.list + first, count * sizeof(struct hole));
  }
  f->sum = consumer_sum_of(core, f, bytes);
  int rc = small__make(core, CONSUMER_NEW, f, bytes, err);
  core->env->release(core->env, f);
  return rc;
}

int consumer__name_file(struct core *core, const struct consumer *consumer,
                        emb_err *err) {
  char name[CONSUMER_FILE_BYTES];
  consumer__file_name(consumer->number, name);
  return small__name(core, CONSUMER_NEW, name, err);
}

int consumer__write_file(struct consumers *c, const struct consumer *consumer,
                         emb_err *err) {
  int rc = consumer__make_file(c, consumer, err);
  return rc ? rc : consumer__name_file(c->core, consumer, err);
}
