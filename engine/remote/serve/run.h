/* SPDX-License-Identifier: MIT
**
** run.h -- turns a request into a call of the engine.
*/
#ifndef EMB_SERVE_RUN_H
#define EMB_SERVE_RUN_H

#include "shape.h"

#define RUN_OBJECTS 64
#define RUN_ONE_BYTES 256 /* largest single element in an answer */
/* Limits for one session, so that its client cannot exhaust the owner's memory:
** prefetches and write-backs, and nested savepoints. */
#define RUN_TICKETS SLOT_TICKETS
#define RUN_SAVEPOINTS (1 << 20)

/* An object that a client's session has open here. */
struct run_object {
  uint64_t number; /* 0: free */
  uint8_t kind;    /* enum shape_object */
  int is_ordered;  /* a scan: in key order */
  uint64_t rows;   /* returned by a scan */
  void *pointer;
};

struct runner {
  emb_session *s;
  struct units units;
  int readonly, is_foreign; /* another user's client: may not name files */
  uint64_t last;            /* last object number assigned */
  struct run_object objects[RUN_OBJECTS];
  /* Number of the backup that is begun and not frozen, or 0.  It blocks every
  ** checkpoint, so the caller must put an end to it in time. */
  uint64_t moment;
  /* Receives the report of emb_verify. */
  void (*report)(void *, const char *);
  void *report_arg;
};

void run__init(struct runner *run, emb_session *s, int readonly,
               int is_foreign);
/* Closes all open objects; nothing writes to any answer afterwards. */
void run__end(struct runner *run);
/* Closes the backup that is begun and not frozen. */
void run__end_moment(struct runner *run);

/* The memory of a request and its answer. */
struct run_memory {
  const struct link_request *request; /* does not change during the call */
  size_t request_bytes;
  char *answer;
  size_t answer_room;
};

/* Carries out a request.  *result: the call's result; for a call that opens an
** object, its code, with the object's number in the upper 32 bits.  *ticket:
** the ticket begun or ended, or 0.  A code other than EMB_OK, with a text in
** the session's error: nothing was done, because the request is malformed or
** not allowed. */
int run__request(struct runner *run, const struct run_memory *memory,
                 uint64_t *result, uint64_t *ticket);
/* Returns what the session holds: SLOT_HAS_*. */
uint32_t run__holds(const struct runner *run);
/* Does it have anything that cannot continue at another owner?  If so, a
** leaving owner waits for it a while. */
int run__is_awaited(const struct runner *run);
/* Returns the number of its prepared transaction, or 0. */
uint64_t run__prepared(const struct runner *run);

/* Only in self-checking builds (base/debug.h): returns 1; called by the
** session's thread. */
int run_valid(const struct runner *run);

#endif
