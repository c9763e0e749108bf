/* SPDX-License-Identifier: MIT
**
** fail_help.h -- a workload over emb.h in which calls of the env are failed,
** and an oracle of the rows that may be left.
**
** BODY      A function that works on a store: each public call goes through
**           one of the operations below, which states the possible outcomes
**           beforehand and checks the actual one.  A body continues after an
**           error.
** ORACLE    For each key two sets of values, as bits: `now`, those that a
**           read may give, and `after`, those that may be there when the
**           store is reopened.  Bit 0: the key is absent.  A write that
**           failed may have happened or not, so its value is added; one that
**           succeeded is the only value.  A checkpoint, or a commit after a
**           prepare, makes `after` the same as `now`.  Keys of transactions
**           change together.
** LOOP      fail_each runs a body from a copy of a prepared directory, once
**           for each call that stacks.h chooses.  Without LONG, failures that
**           last are tried for one call in FAIL_STRIDE only.
** AFTER     a run: reads continue; writes are refused if the log or the
**           manifest could not be written, unless there was no space, then
**           they continue; closing gives everything back to the env; the
**           store, or a copy of its files made before the close, as a kill
**           would leave them, opens, has only rows that may be there,
**           verifies, and takes writes.
*/
#ifndef EMB_FAIL_HELP_H
#define EMB_FAIL_HELP_H

#include "store_help.h"

#include "engine/table/owner/registry.h"
#include "failing.h"
#include "seen_help.h"

/* A record fills a page, 64 an extent; 1024 fit into the least memory. */
enum {
  FAIL_DIM = 1000,
  FAIL_KEYS = 1150, /* of immediate writes */
  FAIL_TXN = 24,    /* of transactions, above the others */
  FAIL_ALL = FAIL_KEYS + FAIL_TXN,
  FAIL_SAVES = 4,
  FAIL_STRIDE = 5,
  FAIL_CAPACITY = 1000,
};

#define FAIL_ABSENT UINT64_C(1)

struct fail {
  struct failing f;
  char dir[300];
  uint32_t flags; /* of emb_open, besides CREATE */
  int memory;     /* memory fails: nothing else is affected */
  uint32_t codes; /* bits of the codes that a call may give */

  emb_store *store;
  emb_session *s;
  uint64_t now[FAIL_ALL], after[FAIL_ALL];
  uint64_t mine[FAIL_TXN]; /* as seen by the open transaction; 0: as now */
  uint64_t saves[FAIL_SAVES][FAIL_TXN];
  int saved[FAIL_SAVES];
  uint64_t number, decided; /* prepared now; newest that was committed */
  int destroyed;            /* the store may be gone as a whole */
  int forgets;              /* any row may have been evicted, or expired */
  uint64_t counted, counted_most; /* a key without a row came this often, */
  uint64_t kept; /* and at least this often when the store is reopened, */
  uint64_t kept_before; /* or this often, if it could not be written since */
  int refused;          /* some call has failed */
  int whole;            /* nothing had failed when the store was opened */
  int stop;             /* a check failed: the rest would only repeat it */

  int64_t keys[FAIL_ALL];
  uint8_t found[FAIL_ALL];
  float *vectors; /* FAIL_ALL rows */
  char what[200]; /* the run, for messages */
};

/* ---- outcomes ------------------------------------------------------------ */

#define FAIL_CHECK(w_, holds_, ...)                                            \
  fail_check((w_), (holds_) ? 1 : 0, __LINE__, __VA_ARGS__)

__attribute__((format(printf, 4, 5))) int
fail_check(struct fail *w, int holds, int line, const char *format, ...);

/* The result of a public call: 1 for success.  An error needs a cause, one of
** the expected codes, and a text; NULL for a call that gives none. */
int fail_did(struct fail *w, int rc, const char *text, const char *call);

/* A call of the session.  When memory failed once, the next try works. */
#define FAIL_TRY(w_, call_)                                                    \
  (fail_did((w_), (call_), emb_errmsg((w_)->s), #call_) ||                     \
   ((w_)->memory && !(w_)->f.forever &&                                        \
    FAIL_CHECK((w_), (call_) == EMB_OK, "a second %s: %s", #call_,             \
               emb_errmsg((w_)->s))))

/* ---- opening and closing ------------------------------------------------- */

int fail_open(struct fail *w);

void fail_close(struct fail *w);

/* There is no key, and there was none. */
void fail_is_empty(struct fail *w);

/* ---- operations ---------------------------------------------------------- */

void fail_fill(struct fail *w, int from, int n, int stride, int32_t value);

/* The n keys that were filled in may get these values, or got them. */
void fail_may(struct fail *w, int n, uint64_t bits);

void fail_has(struct fail *w, int n, uint64_t bits);

void fail_put(struct fail *w, int from, int n, int stride, int32_t value);

void fail_write_back(struct fail *w, int from, int n, int stride,
                     int32_t value);

void fail_delete(struct fail *w, int from, int n, int stride);

/* Adds 1 to each element: the value becomes the next one. */
void fail_rmw(struct fail *w, int from, int n, int stride);

/* The rows that a read gave are possible ones; from now on they are the only
** ones. */
void fail_saw(struct fail *w, int n);

enum { FAIL_GET, FAIL_PEEK, FAIL_PREFETCH };

void fail_read(struct fail *w, int how, int from, int n, int stride);

void fail_checkpoint(struct fail *w);

void fail_optimize(struct fail *w);

/* A key that is not admitted comes n times.  Failed calls may have been
** counted. */
void fail_count(struct fail *w, int n);

/* The counts are those of a checkpoint, or zero if the file could not be
** read.  A checkpoint goes on if there was no space to write the counts: then
** they are those of an earlier checkpoint, at least of the last one before
** anything failed. */
void fail_counts(struct fail *w);

/* Background work until there is none, at most n pieces.  It has no text. */
void fail_step(struct fail *w, int n);

/* ---- transactions: all of their keys, with one value --------------------- */

int fail_begin(struct fail *w);

void fail_txn_write(struct fail *w, int from, int n, int32_t value);

void fail_savepoint(struct fail *w, int number);

/* Rolls back to a savepoint that was made. */
void fail_rollback_to(struct fail *w, int number);

void fail_prepare(struct fail *w);

void fail_commit(struct fail *w);

void fail_rollback(struct fail *w);

/* ---- runs ---------------------------------------------------------------- */

void fail_remove(const char *dir);

/* Copies a directory as a kill would leave it now. */
void fail_copy(const char *from, const char *to);

struct fail_case {
  const char *name;
  void (*body)(struct fail *);
  uint32_t flags;
};

struct fail_base { /* a prepared directory, and its content */
  char dir[320];
  uint64_t after[FAIL_ALL];
  uint64_t decided;
};

/* The present run.  An alarm means that it hangs; fail_alarm says so and ends
** the process: signal(SIGALRM, fail_alarm). */
extern char fail_watched[200];
void fail_alarm(int signal);

/* Fails the calls of these kinds that stacks.h chooses.  Returns how many runs
** there were. */
uint64_t fail_each(struct fail *w, const struct fail_case *c,
                   const struct fail_base *base, uint32_t kinds, int error);

#endif
