/* SPDX-License-Identifier: MIT
**
** shape.h -- what each call's arguments are, as both ends of a link need to
** know it: calls.def as data, and the arithmetic of a request and an answer.
**
** A request has a word for each argument of a call's row, and the arrays that
** go in; an answer those that come out.  Each array stands at a multiple of
** SLOT_ALIGN, in the order of the arguments.  How many elements it has says
** another argument.
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
  SHAPE_IN,     /* an array; NULL is an empty one */
  SHAPE_OUT,    /* an array that may be NULL */
  SHAPE_TEXT,   /* with its zero; may be NULL */
  SHAPE_LATER,  /* an array that is filled after the call, as by a prefetch */
  SHAPE_SPAN,   /* members of a structure, as an array that goes in */
  SHAPE_FILTER, /* an emb_filter, as an array that goes in; may be NULL */
  SHAPE_STRUCT, /* a structure: what is sent of it are other arguments */
  SHAPE_OPEN,   /* where what is opened goes; as the next two, not sent */
  SHAPE_ERROR,
  SHAPE_REPORT, /* a function and its argument */
};

enum shape_unit {
  UNIT_BYTES = 0,
  UNIT_VECTOR, /* of a row */
  UNIT_STATE,  /* what the optimizers keep of it */
  UNIT_SEGMENT /* of a row, as many floats as the segment `times` has */
};

struct arg_shape {
  uint8_t kind;    /* enum shape_kind */
  uint8_t unit;    /* enum shape_unit; OPEN: enum shape_object */
  uint8_t needed;  /* may not be NULL, unless it is empty */
  uint8_t is_path; /* TEXT */
  uint16_t bytes;  /* of an element, with UNIT_BYTES */
  /* Of args_NAME, in bytes: where the argument is, and where the numbers are
  ** that say how many elements it has, their product; 0: one. */
  uint16_t at, count, times;
  uint16_t
      filled;    /* OUT: where the argument is that says how many came, or 0 */
  uint16_t here; /* STRUCT, OPEN: the place that it points to */
};

enum shape_flags {
  SHAPE_ASKED = 1,  /* it may be asked for */
  SHAPE_WRITES = 2, /* a client that may only read gets EMB_READONLY */
  SHAPE_AGAIN = 4,  /* changes nothing: may be broken off, and asked again */
  SHAPE_CODE = 8,   /* its result is a code */
  SHAPE_FILES = 16, /* names files: not for another user, since the owner opens
                       them as itself */
  SHAPE_ENDS = 32   /* only ends something: it is not interrupted */
};

/* What a call is made of, or makes. */
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

/* By enum call. */
extern const struct shape shapes[CALLS];
/* Of this kind the first argument; NULL. */
const struct arg_shape *shape__find(const struct shape *shape,
                                    enum shape_kind kind);
static inline int shape_is_asked(uint32_t call) {
  return call < CALLS && shapes[call].flags & SHAPE_ASKED;
}

/* Of a store's rows: what units are. */
struct units {
  const struct schema *schema;
  size_t vector, state;
};
void shape__units(const emb_session *s, struct units *units);

/* How long a request (behind struct link_request) or an answer is, and where
** its arrays are.  SIZE_MAX: too long for anything. */
struct extent_of {
  size_t bytes;
  size_t at[REQUEST_ARGS];     /* of each array */
  size_t length[REQUEST_ARGS]; /* and its bytes */
};

/* Which file a path is, and in which directory: 0 for NULL.  Two processes with
** different file systems, as in containers, may mean different things by one
** path: then it differs. */
uint64_t shape__view(struct env *env, const char *path);

/* A pointer among the arguments, which are args_NAME. */
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
/* How many elements an array has. */
uint64_t shape__count(const void *args, const struct arg_shape *arg);

/* The words of a request, of the caller's arguments; structures that these
** point to are copied to their places. */
void shape__words(const struct shape *shape, void *args, uint64_t *words);
/* What is sent of an array, of the caller's arguments. */
const void *shape__array(const void *args, const struct arg_shape *arg);
/* At the other end: the numbers of words, and structures that are there. */
void shape__numbers(const struct shape *shape, const uint64_t *words,
                    void *args);
/* The arrays that go in, and those that come out; of the arguments only the
** numbers. */
void shape__request(const struct shape *shape, const struct units *units,
                    const uint64_t *words, const void *args,
                    struct extent_of *extent);
void shape__answer(const struct shape *shape, const struct units *units,
                   const uint64_t *words, const void *args,
                   struct extent_of *extent);

#endif
