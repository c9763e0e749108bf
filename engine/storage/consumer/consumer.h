/* SPDX-License-Identifier: MIT
**
** consumer.h -- the consumers of a store's deltas, and the progress of each.
**
** MARK      A position in the log and a version.  A later change is at or above
**           `page` and has a version above `version`:
**
**             version  the store's counter, read first
**             page     the tail at which the log is sealed, between two commits
**                      (core_mark), after every session that had taken a
**                      version by then has left the epoch: later changes are
**                      copied above it
**             end      the same tail.  If a transaction was open, page and
**                      version are instead those of its beginning, because its
**                      records count only once it commits; `end` identifies the
**                      mark.  It grows with every change, even across crashes
**                      and when a commit takes no slot (core_mark).
**
**           A delta runs from the last acknowledged mark to one taken when it
**           begins.  Everything below the latter is synced before anything is
**           delivered, so a crash never undoes what a consumer has seen.
** STATES    of a consumer
**
**             at the beginning (acked.end 0)   its delta is the whole table
**               -- acknowledged -->  at a mark
**             at a mark            its delta is the changes since.  Extents
**                                  with deletions from the mark on are kept
**               -- too much is kept, or the log since the mark spans more than
**                  CONSUMER_SPAN_MAX extents [consumer_settle] -->  lost
**             lost                 it must take a snapshot and start over; its
**                                  file says why, and the number of bytes
**             damaged              its file is damaged; it must do the same
**
**           sent: the mark of its newest complete delta, the only one it may
**           acknowledge.
** HOLES     When a process dies, some pages were allocated but never written.
**           A delta that reads past them must distinguish them from damage.  So
**           every owner, once it has found where the log ends, adds [end, new
**           tail) to the files of all consumers with a mark below, before
**           anything is written above.  Holes belong to the log: memory has one
**           list for all consumers, and a file has the holes above its
**           consumer's mark.  Adjacent holes are merged, so processes that
**           wrote nothing add none.  There is one hole for each crash since the
**           mark, 16 bytes each.  Each ends with an extent, so
**           CONSUMER_SPAN_MAX bounds them, too.
** FILE      One per consumer, `consumer-` and the hash of its name, FORMAT.md.
**           Written to `consumer-new`, synced, renamed; then the list in memory
**           changes.
** INVARIANT D1  Nothing that a consumer needs is freed until its file says that
**               it is lost.
**           D2  An acknowledged mark never moves back, and a lost consumer
**               stays lost until it starts over, because earlier parts of the
**               log may be gone.  So every change is made under the lock, from
**               the state found there (consumer_change).
**           D3  The store's version counter is never below the version of a
**               consumer's mark.  A crash takes back versions already assigned,
**               so consumers_load raises the counter.
** THREADS   consumers.lock protects everything, and is held while a file is
**           written.  Taken after ckpt_lock and before log.lock.
*/
#ifndef EMB_CONSUMER_H
#define EMB_CONSUMER_H

#include "engine/storage/kernel/retention.h"
#include "position.h"

#define CONSUMER_PREFIX "consumer-"
#define CONSUMER_NEW "consumer-new"
/* Most extents between a consumer's mark and the tail: 2 TiB of log. */
#define CONSUMER_SPAN_MAX (LOG_SPAN_MAX / 8)

struct mark {
  uint64_t page, version, end;
};

/* Pages [from, to) were never written: a process died, or began its own extent.
** An invalid page anywhere else is damage. */
struct hole {
  uint64_t from, to;
};

enum consumer_state { CONSUMER_GOOD, CONSUMER_LOST, CONSUMER_DAMAGED };

/* Why it is lost; UNKNOWN: its file is of a version that did not record it. */
enum consumer_reason { LOST_UNKNOWN, LOST_KEPT, LOST_SPAN };

struct consumer {
  struct consumer *next;
  uint64_t number; /* hash of the name; names its file */
  uint32_t state;
  uint32_t acks;       /* deltas it has acknowledged since its beginning */
  uint32_t reason;     /* if lost: enum consumer_reason, and the bytes */
  uint64_t lost_bytes; /* kept for it then, or of log since its mark */
  uint64_t keep_bytes; /* most bytes that may be kept for it */
  uint64_t holes_to;   /* end of the newest hole in its file; 0: none */
  struct mark acked, sent;
  char name[EMB_CONSUMER_NAME_MAX + 1];
};

/* Holes, ascending; no two are adjacent. */
struct holes {
  struct hole *list;
  size_t count, room;
};

/* Keeps everything at or above a page while a first delta is being read. */
struct hold {
  struct hold *next;
  uint64_t page;
};

struct consumers {
  struct core *core;
  struct retention retention; /* of all consumers */
  int keeps;                  /* `retention` is in the list; ckpt_lock */
  pthread_mutex_t lock;
  struct consumer *first;
  struct consumer *spare; /* lock: memory for the next consumer, or NULL */
  struct hold *holds;
  struct holes holes;       /* those in the consumers' files; only grows */
  struct position position; /* of a temporary store; else in its file */
  /* The lowest extent needed, or UINT64_MAX.  Written under `lock`, read
  ** anywhere. */
  _Atomic uint64_t oldest;
};

void consumers_init(struct consumers *consumers, struct core *core);
void consumers_free(struct consumers *consumers);
/* Called when the process becomes the owner, before anything is freed: reads
** all files.  [cut, tail) is a new hole.  Under ckpt_lock. */
int consumers_load(struct consumers *consumers, uint64_t cut, emb_err *err);

/* Copies the consumer of this name.  EMB_RANGE: there is none; EMB_CORRUPT: its
** file is damaged.  The caller must not hold the lock. */
int consumer_find(struct consumers *consumers, const char *name,
                  struct consumer *copy, emb_err *err);
#define CONSUMER_SAME (-1)
enum consumer_make { MAKE_NONE, MAKE_ABSENT, MAKE_DAMAGED /* or absent */ };
struct consumer_edit {
  enum consumer_make make;
  /* Called under the lock with a copy, or with a new consumer (consumer_begin)
  ** if `make` says so.  CONSUMER_SAME leaves the consumer unchanged; so does an
  ** error, which is returned. */
  int (*change)(void *arg, struct consumer *consumer, int made, emb_err *err);
  void *arg;
  /* Or NULL.  Takes effect together with the change: it is called under the
  ** lock when only the disk can still fail.  If it fails, nothing has
  ** changed. */
  int (*last)(void *last_arg);
  void *last_arg;
};
/* Changes the consumer's current state, durably and atomically: nothing else
** changes it in between, and no checkpoint gives it up.  Errors: as
** consumer_find. */
int consumer_change(struct consumers *consumers, const char *name,
                    const struct consumer_edit *edit, emb_err *err);
int consumer_drop(struct consumers *consumers, const char *name, emb_err *err);
/* EMB_RANGE: not a valid name. */
int consumer_name_check(const char *name, emb_err *err);
/* EMB_GAP, with an explanation, if the consumer is lost. */
int consumer_check(const struct consumer *consumer, const struct core *core,
                   emb_err *err);
/* Initialises a new consumer at its beginning. */
void consumer_begin(struct consumer *consumer, const char *name);
/* Returns the page from which deletions are kept for it; 0: none are.  Under
** the lock. */
uint64_t consumer_needs_from(const struct consumer *consumer);
/* Returns the bytes of the log kept from this page on. */
uint64_t consumer_kept(const struct core *core, uint64_t page);

void consumers_hold(struct consumers *consumers, struct hold *hold,
                    uint64_t page);
void consumers_let_go(struct consumers *consumers, struct hold *hold);

/* Which deltas the store itself has applied: as position__read and
** position__write, but for temporary stores, too. */
int consumers_position(struct consumers *consumers, struct position *position,
                       emb_err *err);
int consumers_move(struct consumers *consumers, const struct position *position,
                   emb_err *err);

/* Is this page of the log known never to have been written? */
int consumers_know_hole(struct consumers *consumers, uint64_t page);

/* ---- consumer_file.c ----------------------------------------------------- */

#define CONSUMER_FILE_BYTES 32
uint64_t consumer__number(const char *name);
/* Writes the base name of its file to `name`, CONSUMER_FILE_BYTES. */
void consumer__file_name(uint64_t number, char *name);
/* These write its file as CONSUMER_NEW, rename that file to its own name, and
** do both. */
int consumer__make_file(struct consumers *consumers,
                        const struct consumer *consumer, emb_err *err);
int consumer__name_file(struct core *core, const struct consumer *consumer,
                        emb_err *err);
int consumer__write_file(struct consumers *consumers,
                         const struct consumer *consumer, emb_err *err);
int holes__add(struct core *core, struct holes *holes, const struct hole *from,
               size_t n, emb_err *err);
/* Reads and checks the file of this name.  Adds its holes to `holes`, unless
** NULL. */
int consumer_read(struct core *core, const char *file,
                  struct consumer *consumer, struct holes *holes, emb_err *err);

/* consumer_valid.c, for emb_check; under the lock. */
int consumers_valid(const struct consumers *consumers);
/* D2: may `old` become `next`? */
int consumer_follows(const struct consumer *old, const struct consumer *next);

#endif
