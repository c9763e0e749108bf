/* SPDX-License-Identifier: MIT
**
** consumer.h -- who takes deltas of a store, and how far each of them is.
**
** MARK      A position in the log and a version.  What changes after it lies
**           at or above `page` and has a version above `version`:
**
**             version  the store's counter, read first
**             page     the tail at which the log is sealed, between two
**                      commits (core_mark), after everybody who took a version
**                      by then has left the epoch: what is changed later is
**                      copied to above
**             end      the same.  Where a transaction was open, page and
**                      version are those of its beginning, for its records
**                      count only when it commits; `end` is what names the
**                      mark.  It grows with every change, also across crashes.
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
**               -- too much is kept [settle] -->  lost
**             lost                 it must take a snapshot and begin anew
**             damaged              its file is: the same
**
**           sent: the mark of its newest complete delta, which is what it may
**           acknowledge.
** FILE      One each, `consumer-` and the hash of its name, FORMAT.md.  Written
**           to `consumer-new`, synced, renamed; then the list in memory
** changes.
** INVARIANT D1  Nothing that a consumer needs is freed before its file says
**               that it is lost.
**           D2  The store's counter of versions is never below the version of a
**               consumer's mark: a crash takes back versions that were given
**               out, so consumers_load raises it.
** THREADS   consumers.lock for everything; held while a file is written.  After
**           ckpt_lock, before nothing.
*/
#ifndef EMB_DELTA_CONSUMER_H
#define EMB_DELTA_CONSUMER_H

#include "../core/keep.h"
#include "position.h"

#define CONSUMER_PREFIX "consumer-"
#define CONSUMER_NEW "consumer-new"
#define CONSUMER_HOLES 32

struct mark {
  uint64_t page, version, end;
};

/* Pages [from, to) were never written: a process died, or began an extent of
** its own.  A page that is not valid anywhere else is damage. */
struct hole {
  uint64_t from, to;
};

enum consumer_state { CONSUMER_GOOD, CONSUMER_LOST, CONSUMER_DAMAGED };

struct consumer {
  struct consumer *next;
  uint64_t number; /* hash of the name: of its file */
  uint32_t state;
  uint32_t hole_count;
  uint32_t acks;       /* deltas that it acknowledged since its beginning */
  uint64_t keep_bytes; /* what may be kept for it */
  struct mark acked, sent;
  char name[EMB_CONSUMER_NAME_MAX + 1];
  struct hole holes[CONSUMER_HOLES];
};

/* Keeps what lies at or above a page while a first delta is under way. */
struct hold {
  struct hold *next;
  uint64_t page;
};

struct consumers {
  struct core *core;
  struct keeper keeper; /* of all of them */
  int keeps;            /* it is in the list; ckpt_lock */
  pthread_mutex_t lock;
  struct consumer *first;
  struct hold *holds;
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
/* Makes it be so, durably; name tells which. */
int consumer_save(struct consumers *consumers, const struct consumer *as,
                  emb_err *err);
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

/* Which deltas the store itself has taken: position_read and position_write,
** for temporary stores, too. */
int consumers_position(struct consumers *consumers, struct position *position,
                       emb_err *err);
int consumers_move(struct consumers *consumers, const struct position *position,
                   emb_err *err);

/* Is it the name of a consumer's file? */
int consumer_is_file(const char *name);
/* Reads and checks the file of this name. */
int consumer_read(struct core *core, const char *file,
                  struct consumer *consumer, emb_err *err);

#endif
