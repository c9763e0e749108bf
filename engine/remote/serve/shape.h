/* SPDX-License-Identifier: MIT
**
** shape.h -- what each call's arguments are, as both ends of a link need to
** know it: one table, and the arithmetic of a request and an answer.
**
** The arguments of a call, but for the object it is made of, are words.  A
** structure of pointers (emb_rows) is one argument for each.  An array that
** goes in stands in the request, one that comes out in the answer, each at a
** multiple of SLOT_ALIGN, in the order of the arguments.  How many elements an
** array has is another argument, or a constant.
*/
#ifndef EMB_SERVE_SHAPE_H
#define EMB_SERVE_SHAPE_H

#include "engine/table/session/session.h"
#include "slot.h"

enum call {
  CALL_none,
#define CALL_NUMBER(type, name, parameters, arguments) CALL_##name,
  ALL_CALLS(CALL_NUMBER)
#undef CALL_NUMBER
      CALLS
};

union word {
  uint64_t u;
  int64_t i;
  void *p;
  const void *c; /* the client's: of what goes in */
};

enum shape_kind {
  SHAPE_END = 0,
  SHAPE_VALUE,
  SHAPE_IN,    /* an array; NULL is an empty one */
  SHAPE_OUT,   /* an array that may be NULL */
  SHAPE_TEXT,  /* with its zero; may be NULL */
  SHAPE_LATER, /* an array that is filled after the call, as by a prefetch */
};

enum shape_unit { UNIT_BYTES = 0, UNIT_VECTOR, UNIT_STATE };

#define COUNT_ONE 0xff
#define COUNT_ALL 0xff

struct arg_shape {
  uint8_t kind, unit; /* enums */
  uint8_t count;      /* index of the argument that says how many elements */
  uint8_t filled;     /* OUT: index of the one that says how many came */
  uint8_t needed;     /* OUT, TEXT: may not be NULL, unless it is empty */
  uint8_t view;       /* TEXT: a path; index of its shape_view, 0: none */
  uint16_t bytes;     /* of an element, with UNIT_BYTES */
};

enum shape_flags {
  SHAPE_WRITES = 1, /* a client that may only read gets EMB_READONLY */
  SHAPE_AGAIN = 2,  /* changes nothing: may be broken off, and asked again */
  SHAPE_CODE = 4,   /* its result is a code */
  SHAPE_FILES = 8,  /* names files: not for another user, since the owner opens
                       them as itself */
};

/* What a call is made of, or makes. */
enum shape_object {
  OBJECT_SESSION,
  OBJECT_STORE,
  OBJECT_SCAN,
  OBJECT_SNAP,
  OBJECT_DELTA,
  OBJECT_BACKUP
};

struct shape {
  const char *name;
  uint8_t object, opens, closes; /* enum shape_object; opens: 0 nothing */
  uint8_t flags;
  struct arg_shape args[REQUEST_ARGS];
};

/* By enum call.  One without a name is not asked. */
extern const struct shape shapes[CALLS];

/* Of a store's rows: what units are. */
struct units {
  size_t vector, state;
};

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

/* The arrays that go in, and those that come out; args are those of the
** request. */
void shape__request(const struct shape *shape, const struct units *units,
                    const uint64_t *args, struct extent_of *extent);
void shape__answer(const struct shape *shape, const struct units *units,
                   const uint64_t *args, struct extent_of *extent);

#endif
