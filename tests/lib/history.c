/* SPDX-License-Identifier: MIT
**
** history.c -- see history.h.  Each check is one sort and one sweep per key.
**
*/
#include "history.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct history_clock own;
static struct history_clock *shared = &own;

void history_clock_at(struct history_clock *clock) {
  shared = clock ? clock : &own;
}

uint64_t history_tick(void) { return atomic_fetch_add(&shared->ticks, 1) + 1; }

/* Small numbers, because history_check has an array indexed by them. */
uint64_t history_group(void) {
  return atomic_fetch_add_explicit(&shared->groups, 1, memory_order_relaxed);
}

int history_add(struct history *h, struct history_op op) {
  if (h->n == h->room) {
    size_t room = h->room ? h->room * 2 : 1024;
    struct history_op *ops = realloc(h->ops, room * sizeof *ops);
    if (!ops)
      return 0;
    h->ops = ops;
    h->room = room;
  }
  h->ops[h->n++] = op;
  return 1;
}

void history_free(struct history *h) {
  free(h->ops);
  memset(h, 0, sizeof *h);
}

/* ---- the operations of one key ------------------------------------------- */

/* A change of the pending reads: where in the order, and by how much. */
struct event {
  uint64_t place; /* rank among the Puts; 0 where versions are ignored */
  uint64_t tick;
  int32_t change;
};

/* A Put. */
struct made {
  uint64_t version, value;
};

struct check {
  struct history_op *ops;   /* of one key, by call */
  struct history_op *backs; /* the same, by return */
  size_t n;
  struct made *made; /* by version; the rank of a Put is its place + 1 */
  size_t made_n;
  struct event *events;
  int64_t *pending; /* scratch: after each event */
  uint32_t *keys;   /* of each group */
  uint8_t *caused;  /* by group: a cause was found */
  uint32_t limit;   /* bound + 1 */
  struct history_report *report;
};

__attribute__((format(printf, 4, 5))) static void
offence(struct check *c, uint64_t *kind, const char *name, const char *format,
        ...) {
  (*kind)++;
  if (c->report->first[0])
    return;
  va_list args;
  va_start(args, format);
  int n = snprintf(c->report->first, sizeof c->report->first,
                   "%s, key %" PRId64 ": ", name, c->ops[0].key);
  (void)vsnprintf(c->report->first + n, sizeof c->report->first - (size_t)n,
                  format, args);
  va_end(args);
}

static int compare(uint64_t a, uint64_t b) { return a < b ? -1 : a > b; }

static int by_key_and_call(const void *a, const void *b) {
  const struct history_op *x = a, *y = b;
  return x->key != y->key ? (x->key < y->key ? -1 : 1)
                          : compare(x->call, y->call);
}

static int by_back(const void *a, const void *b) {
  return compare(((const struct history_op *)a)->back,
                 ((const struct history_op *)b)->back);
}

static int by_version(const void *a, const void *b) {
  return compare(((const struct made *)a)->version,
                 ((const struct made *)b)->version);
}

static int by_place_and_tick(const void *a, const void *b) {
  const struct event *x = a, *y = b;
  return x->place != y->place ? compare(x->place, y->place)
                              : compare(x->tick, y->tick);
}

static int reads(const struct history_op *op) {
  return op->kind == HISTORY_GET || op->kind == HISTORY_PEEK;
}

/* Place of the version among the Puts, from 1; 0: no Put made it. */
static size_t rank_of(const struct check *c, uint64_t version) {
  struct made want = {version, 0};
  struct made *found =
      bsearch(&want, c->made, c->made_n, sizeof want, by_version);
  return found ? (size_t)(found - c->made) + 1 : 0;
}

static uint64_t order_of(const struct check *c, const struct history_op *op) {
  return 2 * (uint64_t)rank_of(c, op->version) + (uint64_t)reads(op);
}

static void sweep(struct check *c, size_t n, uint64_t *kind, const char *name) {
  int64_t pending = 0;
  qsort(c->events, n, sizeof *c->events, by_place_and_tick);
  for (size_t i = 0; i < n; i++) {
    pending += c->events[i].change;
    if (pending > (int64_t)c->limit)
      offence(c, kind, name,
              "%" PRId64 " pending at tick %" PRIu64 ", and at most %" PRIu32
              " may be out",
              pending, c->events[i].tick, c->limit);
    if (kind == &c->report->joint && pending > (int64_t)c->report->pending_max)
      c->report->pending_max = (uint32_t)pending;
  }
}

static void check_time(struct check *c) {
  size_t n = 0;
  for (size_t i = 0; i < c->n; i++) {
    const struct history_op *op = &c->ops[i];
    if (op->kind == HISTORY_GET)
      c->events[n++] = (struct event){0, op->back, 1};
    else if (op->leases)
      c->events[n++] = (struct event){0, op->call, -(int32_t)op->leases};
  }
  sweep(c, n, &c->report->time, "time");
}

/* Finds the version of a Put that did not return it. */
static void learn(struct check *c, size_t at) {
  struct history_op *op = &c->ops[at];
  for (size_t i = 1; i < c->n && op->version == HISTORY_UNTOLD; i++) {
    const struct history_op *other = &c->ops[(at + i) % c->n];
    if (reads(other) && other->value == op->value)
      op->version = other->version;
  }
  if (op->version == HISTORY_UNTOLD)
    op->kind = HISTORY_RELEASE;
}

/* Collects the Puts in order, each with its vector, and no version twice. */
static void collect(struct check *c) {
  c->made_n = 0;
  for (size_t i = 0; i < c->n; i++)
    if (c->ops[i].kind == HISTORY_PUT)
      c->made[c->made_n++] = (struct made){c->ops[i].version, c->ops[i].value};
  qsort(c->made, c->made_n, sizeof *c->made, by_version);
  for (size_t i = 0; i < c->made_n; i++) {
    if (i && c->made[i].version == c->made[i - 1].version)
      offence(c, &c->report->value, "value",
              "version %" PRIu64 " was made twice", c->made[i].version);
    if (c->made[i].value == HISTORY_SAME)
      c->made[i].value = i ? c->made[i - 1].value : 0;
  }
}

static void check_value(struct check *c) {
  uint64_t highest = 0;
  size_t back = 0;
  for (size_t i = 0; i < c->n; i++) {
    const struct history_op *op = &c->ops[i];
    if (!reads(op) && op->kind != HISTORY_PUT)
      continue;
    size_t rank = rank_of(c, op->version);
    if (!rank) {
      offence(c, &c->report->value, "value",
              "a read saw version %" PRIu64 ", which no write made",
              op->version);
      continue;
    }
    if (reads(op) && op->value != c->made[rank - 1].value)
      offence(c, &c->report->value, "value",
              "version %" PRIu64 " came with vector %" PRIx64
              ", and was put with %" PRIx64,
              op->version, op->value, c->made[rank - 1].value);
    for (; back < c->n && c->backs[back].back < op->call; back++) {
      const struct history_op *before = &c->backs[back];
      if (reads(before) || before->kind == HISTORY_PUT) {
        uint64_t order = order_of(c, before);
        highest = order > highest ? order : highest;
      }
    }
    if (highest > order_of(c, op))
      offence(c, &c->report->value, "value",
              "%s version %" PRIu64 " after version %" PRIu64
              " was there (tick %" PRIu64 ")",
              reads(op) ? "a read saw" : "a put made", op->version,
              c->made[highest / 2 - 1].version, op->call);
  }
}

static void check_joint(struct check *c) {
  uint64_t latest = 0;
  size_t n = 0, back = 0;
  for (size_t i = 0; i < c->n; i++) {
    const struct history_op *op = &c->ops[i];
    for (; back < c->n && c->backs[back].back < op->call; back++) {
      const struct history_op *before = &c->backs[back];
      if (reads(before) || before->kind == HISTORY_PUT) {
        uint64_t rank = rank_of(c, before->version);
        latest = rank > latest ? rank : latest;
      }
    }
    if (op->kind == HISTORY_GET)
      c->events[n++] = (struct event){rank_of(c, op->version), op->back, 1};
    else if (op->kind == HISTORY_PUT && op->leases) /* first in its place */
      c->events[n++] =
          (struct event){rank_of(c, op->version), 0, -(int32_t)op->leases};
    else if (op->kind == HISTORY_RELEASE)
      c->events[n++] = (struct event){latest, op->call, -(int32_t)op->leases};
  }
  sweep(c, n, &c->report->joint, "joint");
}

/* ---- refused Gets -------------------------------------------------------- */

/* The highest number of pending reads: a Get counts from its call on, a Put
** or release from its return.  A refused Get of several keys may have counted
** the other keys for a while; a refused Get of a single key has not. */
static size_t highest_pending(struct check *c) {
  size_t n = 0;
  int64_t pending = 0;
  for (size_t i = 0; i < c->n; i++) {
    const struct history_op *op = &c->ops[i];
    if (op->kind == HISTORY_GET) {
      c->events[n++] = (struct event){0, op->call, 1};
    } else if (op->kind == HISTORY_REFUSED) {
      int32_t counts = c->keys[op->value] > 1;
      c->events[n++] = (struct event){0, op->call, counts};
      c->events[n++] = (struct event){0, op->back, -counts};
    } else if (op->leases) {
      c->events[n++] = (struct event){0, op->back, -(int32_t)op->leases};
    }
  }
  qsort(c->events, n, sizeof *c->events, by_place_and_tick);
  for (size_t i = 0; i < n; i++)
    c->pending[i] = pending += c->events[i].change;
  return n;
}

/* Marks the groups of refused Gets for which this key is a cause. */
static void find_causes(struct check *c) {
  size_t n = highest_pending(c);
  for (size_t i = 0; i < c->n; i++) {
    const struct history_op *op = &c->ops[i];
    if (op->kind != HISTORY_REFUSED || c->caused[op->value])
      continue;
    size_t low = 0, high = n;
    while (low < high) { /* the event of the call itself */
      size_t middle = (low + high) / 2;
      if (c->events[middle].tick < op->call)
        low = middle + 1;
      else
        high = middle;
    }
    for (; low < n && c->events[low].tick < op->back; low++)
      if (c->pending[low] - (c->keys[op->value] > 1) >= (int64_t)c->limit) {
        c->caused[op->value] = 1;
        break;
      }
  }
}

static void check_causes(struct check *c, struct history_op *ops, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (ops[i].kind == HISTORY_REFUSED && !c->caused[ops[i].value]) {
      c->ops = &ops[i];
      offence(c, &c->report->cause, "cause",
              "a Get was refused at tick %" PRIu64 " to %" PRIu64
              " although no key of it was taken",
              ops[i].call, ops[i].back);
      c->caused[ops[i].value] = 1; /* once */
    }
}

/* ---- all keys ------------------------------------------------------------ */

static void check_key(struct check *c, struct history_op *ops, size_t n) {
  c->ops = ops;
  c->n = n;
  for (size_t i = 0; i < n; i++)
    if (ops[i].kind == HISTORY_PUT && ops[i].version == HISTORY_UNTOLD)
      learn(c, i);
  memcpy(c->backs, ops, n * sizeof *ops);
  qsort(c->backs, n, sizeof *ops, by_back);
  collect(c);
  check_time(c);
  check_value(c);
  check_joint(c);
  find_causes(c);
}

/* All operations in one array, and how many keys each group has. */
static void gather(struct check *c, struct history_op *ops,
                   const struct history *histories, size_t count) {
  size_t n = 0;
  for (size_t i = 0; i < count; i++)
    for (size_t k = 0; k < histories[i].n; k++) {
      const struct history_op *op = &histories[i].ops[k];
      ops[n++] = *op;
      if (op->kind == HISTORY_REFUSED)
        c->keys[op->value]++;
    }
  qsort(ops, n, sizeof *ops, by_key_and_call);
}

static int64_t check_all(struct check *c, struct history_op *ops, size_t n) {
  for (size_t from = 0, to; from < n; from = to) {
    for (to = from + 1; to < n && ops[to].key == ops[from].key; to++) {
    }
    check_key(c, ops + from, to - from);
  }
  check_causes(c, ops, n);
  const struct history_report *r = c->report;
  return (int64_t)(r->time + r->value + r->joint + r->cause);
}

int64_t history_check(const struct history *histories, size_t count,
                      uint32_t bound, struct history_report *report) {
  size_t n = 0, groups = 1;
  for (size_t i = 0; i < count; i++) {
    n += histories[i].n;
    for (size_t k = 0; k < histories[i].n; k++) {
      const struct history_op *op = &histories[i].ops[k];
      if (op->kind == HISTORY_REFUSED && op->value >= groups)
        groups = op->value + 1;
    }
  }
  memset(report, 0, sizeof *report);
  struct history_op *ops = malloc((n + 1) * sizeof *ops);
  struct check c = {.backs = malloc((n + 1) * sizeof *ops),
                    .made = malloc((n + 1) * sizeof *c.made),
                    .events = malloc((2 * n + 1) * sizeof *c.events),
                    .pending = malloc((2 * n + 1) * sizeof *c.pending),
                    .keys = calloc(groups, sizeof *c.keys),
                    .caused = calloc(groups, 1),
                    .limit = bound + 1,
                    .report = report};
  int64_t result = -1;
  if (ops && c.backs && c.made && c.events && c.pending && c.keys && c.caused) {
    gather(&c, ops, histories, count);
    result = check_all(&c, ops, n);
  }
  free(ops);
  free(c.backs);
  free(c.made);
  free(c.events);
  free(c.pending);
  free(c.keys);
  free(c.caused);
  return result;
}
