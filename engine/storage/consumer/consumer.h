/* SPDX-License-Identifier: MIT
**
** consumer.h -- what takes deltas of a store, and how far each of them is.
**
** MARK      A position in the log and a version.  What changes after it lies
**           at or above `page` and has a version above `version`:
**
**             version  the store's counter, read first
**             page     the tail at which the log is sealed, between two
**                      commits (core_mark), after every session that took a
**                      version by then has left the epoch: what is changed
**                      later is copied to above
**             end      the same.  Where a transaction was open, page and
**                      version are those of its beginning, for its records
**                      count only when it commits; `end` is what names the
**                      mark.  It grows with every change, also across crashes
**                      and where a commit takes no slot (core_mark).
**
**           A delta goes from the mark that was acknowledged last to one that
**           is taken when it begins, and all below that is synced before
**           anything is delivered: what a consumer has seen is never undone
**           by a crash.
** STATES    of a consumer
**
**             at the beginning (acked.end 0)   its delta is the whole table
**               -- acknowledged -->  at a mark
**             at a mark            its delta is what changed since.  Extents
**                                  with deletions from the mark on are kept
**               -- too much is kept, or the log since the mark spans more than
**                  CONSUMER_SPAN_MAX extents [consumer_settle] -->  lost
**             lost                 it must take a snapshot and begin anew; its
**                                  file says why, and how much it was
**             damaged              its file is: the same
**
**           sent: the mark of its newest complete delta, which is what it may
**           acknowledge.
** HOLES     Where a process died, pages were given out and never written.  A
**           delta that passes them must distinguish them from damage: every
**           owner that has found where the log ends adds [end, new tail) to the
**           files of all consumers that have a mark below, before anything is
**           written above.  A hole is a fact of the log: the list in memory is
**           one for all, and a file has of it what lies above its consumer's
**           mark.  Neighbours are joined, so processes that wrote nothing add
**           none.  There are as many as there were crashes since the mark, 16
**           bytes each; each ends with an extent, so CONSUMER_SPAN_MAX bounds
**           them, too.
** FILE      One each, `consumer-` and the hash of its name, FORMAT.md.  Written
**           to `consumer-new`, synced, renamed; then the list in memory
**           changes.
** INVARIANT D1  Nothing that a consumer needs is freed before its file says
**               that it is lost.
**           D2  What a consumer has acknowledged never goes back, and one that
**               is lost stays so until it begins anew: what lies before may be
**               gone.  So all changes are made under the lock, from what is
**               there then (consumer_change).
**           D3  The store's counter of versions is never below the version of a
**               consumer's mark: a crash takes back versions that were given
**               out, so consumers_load raises it.
** THREADS   consumers.lock for everything; held while a file is written.  After
**           ckpt_lock, before nothing.
*/
#ifndef EMB_CONSUMER_H
#define EMB_CONSUMER_H

#include "engine/storage/kernel/retention.h"
#include "position.h"

#define CONSUMER_PREFIX "consumer-"
#define CONSUMER_NEW "consumer-new"
/* Extents between the mark of a consumer and the tail: 2 TiB of log. */
#define CONSUMER_SPAN_MAX (LOG_SPAN_MAX / 8)

struct mark {
  uint64_t page, version, end;
};

/* Pages [from, to) were never written: a process died, or began an extent of
** its own.  A page that is not valid anywhere else is damage. */
struct hole {
  uint64_t from, to;
};

enum consumer_state { CONSUMER_GOOD, CONSUMER_LOST, CONSUMER_DAMAGED };

/* Why it is lost; UNKNOWN: its file is of a time that did not say. */
enum consumer_reason { LOST_UNKNOWN, LOST_KEPT, LOST_SPAN };

struct consumer {
  struct consumer *next;
  uint64_t number; /* hash of the name: of its file */
  uint32_t state;
  uint32_t acks;       /* deltas that it acknowledged since its beginning */
  uint32_t reason;     /* of a lost one, and how many bytes it was then */
  uint64_t lost_bytes; /* kept for it, or of the log since its mark */
  uint64_t keep_bytes; /* what may be kept for it */
  uint64_t holes_to;   /* end of the newest hole that its file has; 0: none */
  struct mark acked, sent;
  char name[EMB_CONSUMER_NAME_MAX + 1];
};

/* Holes, ascending; none touches the next. */
struct holes {
  struct hole *list;
  size_t count, room;
};

/* Keeps what lies at or above a page while a first delta is under way. */
struct hold {
  struct hold *next;
  uint64_t page;
};

struct consumers {
  struct core *core;
  struct retention retention; /* of all of them */
  int keeps;                  /* it is in the list; ckpt_lock */
  pthread_mutex_t lock;
  struct consumer *first;
  struct consumer *spare; /* lock: memory for the next one, or NULL */
  struct hold *holds;
  struct holes holes; /* that the files of consumers have; they only grow */
  struct position position; /* of a temporary store, else its file has it */
  /* The lowest extent that is needed, UINT64_MAX: none.  Written under lock,
  ** read anywhere. */
  _Atomic uint64_t oldest;
};

void consumers_init(struct consumers *consumers, struct core *core);
void consumers_free(struct consumers *consumers);
/* The process becomes the owner: reads all files, before anything is freed.
** [cut, tail) was left unwritten just now.  Under ckpt_lock. */
int consumers_load(struct consumers *consumers, uint64_t cut, emb_err *err);

/* A copy of the consumer of this name; EMB_RANGE: there is none, EMB_CORRUPT:
** its file is damaged.  The caller does not hold the lock. */
int consumer_find(struct consumers *consumers, const char *name,
                  struct consumer *copy, emb_err *err);
#define CONSUMER_SAME (-1)
enum consumer_make { MAKE_NONE, MAKE_ABSENT, MAKE_DAMAGED /* also then */ };
struct consumer_edit {
  enum consumer_make make;
  /* Under the lock, gets a copy, or a new one (consumer_begin) where `make`
  ** says so; CONSUMER_SAME: it stays as it is; an error: the same, and it is
  ** returned. */
  int (*change)(void *arg, struct consumer *consumer, int made, emb_err *err);
  void *arg;
  /* Or NULL.  What it does comes with the change: it is called, under the lock,
  ** when nothing but the disk can fail any more, and if it fails nothing has
  ** changed. */
  int (*last)(void *last_arg);
  void *last_arg;
};
/* Changes it, durably, from what it is then: nothing else changes it in
** between, and no checkpoint gives it up.  Errors: as consumer_find. */
int consumer_change(struct consumers *consumers, const char *name,
                    const struct consumer_edit *edit, emb_err *err);
int consumer_drop(struct consumers *consumers, const char *name, emb_err *err);
/* EMB_RANGE: no name. */
int consumer_name_check(const char *name, emb_err *err);
/* EMB_GAP, in clear words, if it is lost. */
int consumer_check(const struct consumer *consumer, const struct core *core,
                   emb_err *err);
/* A new one at its beginning. */
void consumer_begin(struct consumer *consumer, const char *name);
/* The page from which on deletions are kept for it; 0: none are.  Under the
** lock. */
uint64_t consumer_needs_from(const struct consumer *consumer);
/* Bytes of the log that are kept from this page on. */
uint64_t consumer_kept(const struct core *core, uint64_t page);

void consumers_hold(struct consumers *consumers, struct hold *hold,
                    uint64_t page);
void consumers_let_go(struct consumers *consumers, struct hold *hold);

/* Which deltas the store itself has taken: position__read and position__write,
** for temporary stores, too. */
int consumers_position(struct consumers *consumers, struct position *position,
                       emb_err *err);
int consumers_move(struct consumers *consumers, const struct position *position,
                   emb_err *err);

/* Is this page of the log known to be one that was never written? */
int consumers_know_hole(struct consumers *consumers, uint64_t page);

/* ---- consumer_file.c ----------------------------------------------------- */

#define CONSUMER_FILE_BYTES 32
uint64_t consumer__number(const char *name);
/* The plain name of its file: CONSUMER_FILE_BYTES. */
void consumer__file_name(uint64_t number, char *name);
/* Its file under the name CONSUMER_NEW; the same under its own name; both. */
int consumer__make_file(struct consumers *consumers,
                        const struct consumer *consumer, emb_err *err);
int consumer__name_file(struct core *core, const struct consumer *consumer,
                        emb_err *err);
int consumer__write_file(struct consumers *consumers,
                         const struct consumer *consumer, emb_err *err);
int holes__add(struct core *core, struct holes *holes, const struct hole *from,
               size_t n, emb_err *err);
/* Reads and checks the file of this name.  Its holes are added to the list, if
** that is not NULL. */
int consumer_read(struct core *core, const char *file,
                  struct consumer *consumer, struct holes *holes, emb_err *err);

/* consumer_valid.c, for emb_check; under the lock. */
int consumers_valid(const struct consumers *consumers);
/* D2: may the one become the other? */
int consumer_follows(const struct consumer *old, const struct consumer *next);

#endif
