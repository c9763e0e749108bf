/* SPDX-License-Identifier: MIT
**
** job.h -- reads and writes that run while their session computes.
**
** ROLE      emb_lookahead, emb_prefetch and emb_write_back immediately do what
**           can be done in memory, and leave the rest as a job: records to
**           read, or rows to write.  emb_apply_async leaves all to the job.
**           Worker threads of the store take slices of jobs; tune.h decides how
**           many workers run, and how many requests each keeps in flight.
**           Without threads (EMB_OPEN_STEP), emb_step runs a slice, and so does
**           a call that waits for a job.
** STATES    of a job; all changes under jobs.lock:
**
**     made -> queued -> running (some slices) -> done -> freed by its session
**               \\--------- nothing to do --------/
**
** INVARIANT J1  A job belongs to one session, which waits for the job before it
**               closes; workers touch no other part of that session.
**           J2  The write jobs of one session run one at a time, in order.
**           J3  A worker's own session holds no lease.
** FAILURE   The first error of a slice is the job's (rc, err); its other slices
**           still run.
*/
#ifndef EMB_JOBS_JOB_H
#define EMB_JOBS_JOB_H

#include "engine/table/session/session.h"

/* The state of a row of a background batch. */
enum {
  FETCH_DONE = 0,
  FETCH_COLD = 1,    /* a worker reads it */
  FETCH_BLOCKED = 2, /* at its bound when the batch began */
  FETCH_AGAIN = 3,   /* moved while it was read, or must be read again */
  FETCH_KEPT = 4,    /* was read from disk, before it is counted again */
};

enum { JOB_READ = 1, JOB_AHEAD, JOB_KEEP, JOB_WRITE };

struct job {
  struct job *next;    /* in the queue; jobs.lock */
  struct job *sibling; /* next ticket of the session; its thread only */
  emb_session *session;
  int kind;
  /* Processes rows or records [from, to); w is a worker's own session. */
  int (*run)(emb_session *w, struct job *job, size_t from, size_t to);
  cold_use use;    /* for job_read */
  uint64_t number; /* ticket, or number of the look-ahead */

  /* The keys that were asked for. */
  int64_t *keys;
  size_t key_count;
  /* The work: for JOB_WRITE, rows [0, n); else the records cold[0..n), by
  ** address.  cold[i].row is an index into keys for JOB_READ; for other kinds
  ** it is i, and the key is in cold_keys. */
  struct cold *cold;
  int64_t *cold_keys;
  size_t n;
  size_t taken;    /* handed to workers; jobs.lock */
  size_t finished; /* jobs.lock */
  size_t slice;    /* records per slice */
  int whole;       /* one slice: gradients of a repeated key are summed */
  int writing;     /* a slice of a JOB_WRITE runs; jobs.lock */
  int done;        /* jobs.lock */
  int rc;          /* first error; jobs.lock until done */
  emb_err err;
  uint64_t started_us, done_us, returned_us;
  uint32_t call;      /* number of the call that counts its Gets, or 0 */
  uint64_t statement; /* in which it began, and the statement's first call */
  uint32_t statement_call;

  /* JOB_READ: the caller's arrays, and the state of each row (FETCH_*). */
  float *vectors;
  uint8_t *found;
  uint64_t *versions;
  uint8_t *state;
  uint8_t *counted; /* or NULL: 1 for each row that the job has counted */
  int blocked;      /* 1: no row is counted, as a key was at its bound;
                       session's thread */

  /* JOB_WRITE: a copy of the rows, and which of them give back a Get. */
  float *copy;
  uint8_t *give;
  uint32_t time; /* the session's */
  /* JOB_WRITE of gradients: how, and the version of each row written. */
  emb_update how;
  uint64_t *written;

  /* JOB_KEEP: for each record, stored vector, version and state (KEPT_*). */
  char *kept;
  uint64_t *kept_versions;
  uint8_t *kept_state;
  size_t kept_bytes; /* memory of these three arrays */
  size_t kept_left;  /* records that may still be used; session's thread */
  int merged;        /* session's thread */

  /* Look-aheads: the constant metrics, and the ones that change. */
  emb_ahead ahead;
  _Atomic uint64_t read, refused;
};

enum { KEPT_NOT = 0, KEPT_READY = 1, KEPT_USED = 2 };

/* Only in self-checking builds; under jobs.lock. */
int job_valid(const struct job *job);
int jobs_valid(const struct jobs *jobs);

/* The caller sets `run` and the fields that it needs. */
struct job *job_new(emb_session *s, int kind, const int64_t *keys, size_t n);
/* A `run`: reads the records, and passes each to job->use, with the job. */
int job_read(emb_session *w, struct job *job, size_t from, size_t to);
void job_free(struct job *job);
/* Sorts the job's work and queues it for the workers; a job without work is
** done immediately. */
int job_start(struct job *job);
int job_is_done(struct job *job);
/* Waits for the end of the job; in step mode, runs it.  EMB_INTERRUPT when the
** session's callback asks for it (not if stops = 0): the job continues. */
int job_wait(struct job *job, int stops);
/* Drops the work that no worker has begun (except writes), and waits for the
** rest. */
void job_cancel(struct job *job);
/* Waits for all write jobs of the session. */
int job__settle_writes(emb_session *s);
/* Step mode: runs one slice of some job; *did = 0: there was none. */
int job_step(emb_store *store, int *did, emb_err *err);
/* Step mode: runs all jobs, for a call that may wait for leases they hold.
** Otherwise does nothing. */
int job_step_all(emb_session *s);

void jobs_init(emb_store *store);
void jobs_stop(emb_store *store);

#endif
