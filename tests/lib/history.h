/* SPDX-License-Identifier: MIT
**
** history.h -- exact checks of the operations on the keys of a bounded store.
**
** Each session records its operations, one on one key at a time: when the
** call was made and when it returned, as numbers from one counter that all
** threads share (history_tick), and which version it saw or made.
** history_check then decides for each key whether an order of its operations,
** each at one instant between call and return, explains the whole record.  No
** search is needed: versions give the order.
**
**   time    Values are ignored.  The number of pending reads is lowest when
**           each Get acts at its return and each Put or release at its call.
**           If it exceeds bound + 1 even then, more Gets were pending than
**           allowed; if it does not, that order is a valid explanation.
**   value   Versions put the Puts of a key in order.  With Put g at 2g and a
**           Get that saw it at 2g + 1: an operation that returned before
**           another was called must not be above it.  Every version that was
**           seen was made exactly once, and the vector that came with it is
**           the one that was put.
**   joint   Versions also say between which two Puts a Get was.  Sorted by
**           version, and only then by time as above, the number of pending
**           reads must again stay within bound + 1.  A release has no
**           version: it is placed as early as possible, at the latest
**           operation that returned before its call.  This finds an error
**           that `time` cannot: two Gets too many that took long to return.
**   cause   A Get that was refused has a cause: at some instant of the call
**           the pending reads of one of its keys may have been bound + 1.  So
**           a lease that was given back but is still counted is found, too.
**
** A Get that was refused leaves nothing behind.  Its keys share a group (see
** history_group), because the refusal says only that one of them was taken.
*/
#ifndef EMB_HISTORY_H
#define EMB_HISTORY_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
  HISTORY_GET,     /* counts */
  HISTORY_PEEK,    /* a read that does not count */
  HISTORY_PUT,     /* gives back `leases`: 0 or 1 */
  HISTORY_RELEASE, /* gives back `leases` */
  HISTORY_REFUSED, /* a Get that was refused; `value` is the group */
};

/* The value of a Put that leaves the vector as it was (an rmw of zeros). */
#define HISTORY_SAME UINT64_MAX
/* The version of a Put that did not return it (a write-back).  A read that
** saw its vector tells the version; without such a read the Put counts as a
** release.  Not to be used with HISTORY_SAME on one key. */
#define HISTORY_UNTOLD 0

struct history_op {
  int64_t key;
  uint64_t call, back; /* ticks */
  uint64_t version;
  uint64_t value; /* any number that the vector carries */
  uint8_t kind;
  uint8_t leases;
};

/* The record of one thread; starts as zeros. */
struct history {
  struct history_op *ops;
  size_t n, room;
};

struct history_report {
  uint64_t time, value, joint, cause; /* offences */
  uint32_t pending_max; /* most pending reads that `joint` proves */
  char first[400];      /* describes the first offence */
};

/* The counters that all participants share; starts as zeros.  Any thread
** adds: to ticks with sequential consistency, so that a call that returned
** before another was made has the smaller number; to groups relaxed. */
struct history_clock {
  _Atomic uint64_t ticks, groups;
};
/* Several processes keep it in shared memory.  Otherwise, and with NULL, this
** process uses its own. */
void history_clock_at(struct history_clock *clock);

/* The next number of the shared counter. */
uint64_t history_tick(void);
/* A number for the keys of one refused Get. */
uint64_t history_group(void);

/* 0 when there is no memory. */
int history_add(struct history *h, struct history_op op);
void history_free(struct history *h);

/* Checks the histories of `count` threads together.  -1 when there is no
** memory, else the number of offences. */
int64_t history_check(const struct history *histories, size_t count,
                      uint32_t bound, struct history_report *report);

#endif
