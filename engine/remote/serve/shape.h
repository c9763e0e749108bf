/* SPDX-License-Identifier: MIT
**
** shape.h -- the arguments of each call, for both ends of a link: calls.def as
** data, and the layout of requests and answers.
**
** A request has a word for each argument in a call's row, and the input arrays;
** an answer has the output arrays.  Each array is at a multiple of SLOT_ALIGN,
** in argument order.  Another argument holds its number of elements.
*/
#ifndef EMB_SERVE_SHAPE_H
#define EMB_SERVE_SHAPE_H

#include <string.h>

#include "engine/table/session/session.h"
#include "slot.h"

enum call {
  CALL_none,
#define CALL(object, how, returns, name, flags, needs, ...) CALL_##name,
#include "engine/remote/calls.def"
#undef CALL
  CALLS
};

/* The arguments of any call. */
union args {
#define CALL(object, how, returns, name, flags, needs, ...)                    \
  struct args_##name name;
#include "engine/remote/calls.def"
#undef CALL
};

enum shape_kind {
  SHAPE_END = 0,
  SHAPE_VALUE,
  SHAPE_IN,     /* an array; NULL means an empty one */
  SHAPE_OUT,    /* an array that may be NULL */
  SHAPE_TEXT,   /* with its terminating 0; may be NULL */
  SHAPE_LATER,  /* an array filled after the call, as by a prefetch */
  SHAPE_SPAN,   /* members of a structure, as an input array */
  SHAPE_FILTER, /* an emb_filter, as an input array; may be NULL */
  SHAPE_STRUCT, /* a structure, whose members are sent as other arguments */
  SHAPE_OPEN,   /* receives the object; not sent, as the next two */
  SHAPE_ERROR,
  SHAPE_REPORT, /* a function and its argument */
};

enum shape_unit {
  UNIT_BYTES = 0,
  UNIT_VECTOR, /* of a row */
  UNIT_STATE,  /* its optimizer state */
  UNIT_SEGMENT /* of a row: the floats of the segment `times` */
};

struct arg_shape {
  uint8_t kind;    /* enum shape_kind */
  uint8_t unit;    /* enum shape_unit; OPEN: enum shape_object */
  uint8_t needed;  /* must not be NULL, unless empty */
  uint8_t is_path; /* TEXT */
  uint16_t bytes;  /* of an element, with UNIT_BYTES */
  /* Byte offsets in args_NAME: of the argument, and of two numbers whose
  ** product is its number of elements; 0: one element. */
  uint16_t at, count, times;
  uint16_t
      filled;    /* OUT: offset of the argument that says how many came, or 0 */
  uint16_t here; /* STRUCT, OPEN: offset of its target */
};

enum shape_flags {
  SHAPE_ASKED = 1,  /* may be requested */
  SHAPE_WRITES = 2, /* a read-only client gets EMB_READONLY */
  SHAPE_AGAIN = 4,  /* changes nothing: may be aborted and retried */
  SHAPE_CODE = 8,   /* the result is a code */
  SHAPE_FILES = 16, /* names files: not for another user, since the owner opens
                       them as itself */
  SHAPE_ENDS = 32   /* only ends something: not interrupted */
};

/* The object of a call, or the object it opens. */
enum shape_object {
  OF_SESSION,
  OF_STORE,
  OF_SCAN,
  OF_SNAP,
  OF_DELTA,
  OF_BACKUP
};

struct shape {
  const char *name;
  uint8_t object; /* enum shape_object */
  uint8_t flags;
  struct arg_shape args[REQUEST_ARGS];
};

/* Indexed by enum call. */
extern const struct shape shapes[CALLS];
/* Returns the first argument of this kind, or NULL. */
const struct arg_shape *shape__find(const struct shape *shape,
                                    enum shape_kind kind);
static inline int shape_is_asked(uint32_t call) {
  return call < CALLS && shapes[call].flags & SHAPE_ASKED;
}

/* The sizes of units, for a store's rows. */
struct units {
  const struct schema *schema;
  size_t vector, state;
};
void shape__units(const emb_session *s, struct units *units);

/* The length of a request (after struct link_request) or an answer, and the
** offsets of its arrays.  SIZE_MAX: too long. */
struct extent_of {
  size_t bytes;
  size_t at[REQUEST_ARGS];     /* of each array */
  size_t length[REQUEST_ARGS]; /* in bytes */
};

/* Identifies the file of a path, and its directory; 0 for NULL.  The value
** differs if two processes with different file systems, as in containers, mean
** different files by the same path. */
uint64_t shape__view(struct env *env, const char *path);

/* Returns a pointer argument in args_NAME. */
static inline void *shape__pointer(const void *args,
                                   const struct arg_shape *arg) {
  void *pointer;
  memcpy(&pointer, (const char *)args + arg->at, sizeof pointer);
  return pointer;
}
static inline void shape__set_pointer(void *args, const struct arg_shape *arg,
                                      const void *pointer) {
  memcpy((char *)args + arg->at, &pointer, sizeof pointer);
}
/* Returns the number of elements of an array. */
uint64_t shape__count(const void *args, const struct arg_shape *arg);

/* Computes a request's words from the caller's arguments, and copies structures
** they point to into args. */
void shape__words(const struct shape *shape, void *args, uint64_t *words);
/* Returns the data to send for an array in the caller's arguments. */
const void *shape__array(const void *args, const struct arg_shape *arg);
/* At the other end: sets the numbers, and the structures present, from the
** words. */
void shape__numbers(const struct shape *shape, const uint64_t *words,
                    void *args);
/* Lay out the input arrays, and the output arrays; use only the numbers among
** the arguments. */
void shape__request(const struct shape *shape, const struct units *units,
                    const uint64_t *words, const void *args,
                    struct extent_of *extent);
void shape__answer(const struct shape *shape, const struct units *units,
                   const uint64_t *words, const void *args,
                   struct extent_of *extent);

#endif
