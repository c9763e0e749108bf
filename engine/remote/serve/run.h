/* SPDX-License-Identifier: MIT
**
** run.h -- a request becomes a call of the engine.
*/
#ifndef EMB_SERVE_RUN_H
#define EMB_SERVE_RUN_H

#include "shape.h"

#define RUN_OBJECTS 64
#define RUN_ONE_BYTES 256 /* at most, of what there is one of in an answer */
/* What a session may have at a time, so that its client cannot fill the memory
** of the owner: prefetches and write-backs, and nested savepoints. */
#define RUN_TICKETS SLOT_TICKETS
#define RUN_SAVEPOINTS (1 << 20)

/* What a client's session has open here. */
struct run_object {
  uint64_t number; /* 0: free */
  uint8_t kind;    /* enum shape_object */
  int is_ordered;  /* of a scan: by key */
  uint64_t rows;   /* that a scan has given */
  void *pointer;
};

struct runner {
  emb_session *s;
  struct units units;
  int readonly, is_foreign; /* another user's: may not name files */
  uint64_t last;            /* number given to an object */
  struct run_object objects[RUN_OBJECTS];
  /* Number of the backup that is begun and not frozen, 0: none.  It keeps the
  ** store from every checkpoint, so that it is for the caller to end that. */
  uint64_t moment;
  /* emb_verify's report goes there. */
  void (*report)(void *, const char *);
  void *report_arg;
};

void run__init(struct runner *run, emb_session *s, int readonly,
               int is_foreign);
/* Closes what is open; nothing writes to any answer any more. */
void run__end(struct runner *run);
/* Closes the backup that is begun and not frozen. */
void run__end_moment(struct runner *run);

/* Where a request and its answer are. */
struct run_memory {
  const struct link_request *request; /* does not change meanwhile */
  size_t request_bytes;
  char *answer;
  size_t answer_room;
};

/* Carries a request out.  *result: what the call has returned; of one that
** opens something its code, and the object's number above 32 bits.  *ticket:
** that was begun, or ended, or 0.  Another code than EMB_OK, with a text in the
** session's error: nothing was done, it is no request or not allowed. */
int run__request(struct runner *run, const struct run_memory *memory,
                 uint64_t *result, uint64_t *ticket);
/* SLOT_HAS_*: what the session holds. */
uint32_t run__holds(const struct runner *run);
/* It has what cannot go on at another owner: this one waits for it a while. */
int run__is_awaited(const struct runner *run);
/* The number of its transaction, if that is prepared, or 0. */
uint64_t run__prepared(const struct runner *run);

#endif
