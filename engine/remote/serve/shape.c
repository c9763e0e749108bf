/* SPDX-License-Identifier: MIT
**
** shape.c -- see shape.h.
*/
#include "shape.h"

#include <string.h>

#include "engine/base/hash.h"
#include "engine/features/nearest/filter.h"
#include "engine/table/store/dir.h"
#include "stat_row.h"

/* ---- calls.def as data --------------------------------------------------- */

#define AT(call, member) offsetof(struct args_##call, member)
#define ARRAY(call, kind_, name, n)                                            \
  .kind = (kind_), .at = AT(call, name), .count = AT(call, n)

#define SHAPE_OF_NONE(call, none) {0},
#define SHAPE_OF_VALUE(call, type, name)                                       \
  {.kind = SHAPE_VALUE, .at = AT(call, name), .bytes = sizeof(type)},
#define SHAPE_OF_IN(call, type, name, n)                                       \
  {ARRAY(call, SHAPE_IN, name, n), .needed = 1, .bytes = sizeof(type)},
#define SHAPE_OF_MAYBE_IN(call, type, name, n)                                 \
  {ARRAY(call, SHAPE_IN, name, n), .bytes = sizeof(type)},
#define SHAPE_OF_VECTOR_IN(call, name)                                         \
  {.kind = SHAPE_IN, .at = AT(call, name), .needed = 1, .unit = UNIT_VECTOR},
#define SHAPE_OF_VECTORS_IN(call, name, n)                                     \
  {ARRAY(call, SHAPE_IN, name, n), .needed = 1, .unit = UNIT_VECTOR},
#define SHAPE_OF_VECTORS_MAYBE_IN(call, name, n)                               \
  {ARRAY(call, SHAPE_IN, name, n), .unit = UNIT_VECTOR},
#define SHAPE_OF_QUERIES(call, name, n, how)                                   \
  {ARRAY(call, SHAPE_IN, name, n), .needed = 1, .unit = UNIT_SEGMENT,          \
   .times = AT(call, how.segment)},
#define SHAPE_OF_OUT(call, type, name, n)                                      \
  {ARRAY(call, SHAPE_OUT, name, n), .bytes = sizeof(type)},
#define SHAPE_OF_NEEDED(call, type, name, n)                                   \
  {ARRAY(call, SHAPE_OUT, name, n), .needed = 1, .bytes = sizeof(type)},
#define SHAPE_OF_OUT_TIMES(call, type, name, n, k)                             \
  {ARRAY(call, SHAPE_OUT, name, n), .times = AT(call, k),                      \
   .bytes = sizeof(type)},
#define SHAPE_OF_NEEDED_TIMES(call, type, name, n, k)                          \
  {ARRAY(call, SHAPE_OUT, name, n), .times = AT(call, k), .needed = 1,         \
   .bytes = sizeof(type)},
#define SHAPE_OF_VECTORS_TIMES(call, name, n, k)                               \
  {ARRAY(call, SHAPE_OUT, name, n), .times = AT(call, k), .unit = UNIT_VECTOR},
#define SHAPE_OF_SOME(call, type, name, n, to)                                 \
  {ARRAY(call, SHAPE_OUT, name, n), .filled = AT(call, to),                    \
   .bytes = sizeof(type)},
#define SHAPE_OF_NEEDED_SOME(call, type, name, n, to)                          \
  {ARRAY(call, SHAPE_OUT, name, n), .filled = AT(call, to), .needed = 1,       \
   .bytes = sizeof(type)},
#define SHAPE_OF_VECTORS_OUT(call, name, n)                                    \
  {ARRAY(call, SHAPE_OUT, name, n), .unit = UNIT_VECTOR},
#define SHAPE_OF_VECTORS_NEEDED(call, name, n)                                 \
  {ARRAY(call, SHAPE_OUT, name, n), .needed = 1, .unit = UNIT_VECTOR},
#define SHAPE_OF_VECTORS_SOME(call, name, n, to)                               \
  {ARRAY(call, SHAPE_OUT, name, n), .filled = AT(call, to),                    \
   .unit = UNIT_VECTOR},
#define SHAPE_OF_STATES_SOME(call, name, n, to)                                \
  {ARRAY(call, SHAPE_OUT, name, n), .filled = AT(call, to), .unit = UNIT_STATE},
#define SHAPE_OF_LATER(call, type, name, n)                                    \
  {ARRAY(call, SHAPE_LATER, name, n), .bytes = sizeof(type)},
#define SHAPE_OF_VECTORS_LATER(call, name, n)                                  \
  {ARRAY(call, SHAPE_LATER, name, n), .unit = UNIT_VECTOR},
#define SHAPE_OF_ONE(call, type, name)                                         \
  {.kind = SHAPE_OUT, .at = AT(call, name), .bytes = sizeof(type)},
#define SHAPE_OF_PAIR(call, type, name)                                        \
  {.kind = SHAPE_OUT, .at = AT(call, name), .bytes = 2 * sizeof(type)},
#define SHAPE_OF_TEXT(call, name)                                              \
  {.kind = SHAPE_TEXT, .at = AT(call, name), .needed = 1},
#define SHAPE_OF_MAYBE_TEXT(call, name)                                        \
  {.kind = SHAPE_TEXT, .at = AT(call, name)},
#define SHAPE_OF_PATH(call, name)                                              \
  {.kind = SHAPE_TEXT, .at = AT(call, name), .needed = 1, .is_path = 1},
#define SHAPE_OF_MAYBE_PATH(call, name)                                        \
  {.kind = SHAPE_TEXT, .at = AT(call, name), .is_path = 1},
#define SHAPE_OF_STRUCT(call, type, name)                                      \
  {.kind = SHAPE_STRUCT,                                                       \
   .at = AT(call, name),                                                       \
   .here = AT(call, name##_here),                                              \
   .bytes = sizeof(type),                                                      \
   .needed = 1},
#define SHAPE_OF_INNER(call, type, member, name)                               \
  {.kind = SHAPE_STRUCT,                                                       \
   .at = AT(call, member),                                                     \
   .here = AT(call, name##_here),                                              \
   .bytes = sizeof(type)},
#define SHAPE_OF_MAYBE_STRUCT(call, type, name)                                \
  SHAPE_OF_INNER(call, type, name, name)
#define SHAPE_OF_SPAN(call, type, name, from, end)                             \
  {.kind = SHAPE_SPAN,                                                         \
   .at = AT(call, name.from),                                                  \
   .bytes = offsetof(type, end) - offsetof(type, from)},
#define SHAPE_OF_FILTER(call, name)                                            \
  {.kind = SHAPE_FILTER, .at = AT(call, name)},
#define SHAPE_OF_OPEN(call, type, name)                                        \
  {.kind = SHAPE_OPEN,                                                         \
   .at = AT(call, name),                                                       \
   .here = AT(call, name##_here),                                              \
   .unit = OPENS_##type},
#define SHAPE_OF_ERROR(call, name) {.kind = SHAPE_ERROR, .at = AT(call, name)},
#define SHAPE_OF_REPORT(call, name, arg)                                       \
  {.kind = SHAPE_REPORT, .at = AT(call, name)},
#define SHAPE_OF_FIELD(call, kind, ...) SHAPE_OF_##kind(call, __VA_ARGS__)
#define SHAPE_OF(call, kind, ...) SHAPE_OF_##kind(call, __VA_ARGS__)

#define READ (SHAPE_ASKED | SHAPE_CODE | SHAPE_AGAIN)
#define WRITE (SHAPE_ASKED | SHAPE_CODE | SHAPE_WRITES)
#define WORK (SHAPE_ASKED | SHAPE_CODE)
#define TELL (SHAPE_ASKED | SHAPE_AGAIN)
#define TURN SHAPE_ASKED
#define UNASKED 0
#define AGAIN SHAPE_AGAIN
#define FILES SHAPE_FILES
#define ENDS SHAPE_ENDS

#define OF_CONST_SESSION OF_SESSION
#define OF_CONST_STORE OF_STORE
#define OF_CONST_SNAP OF_SNAP
#define OF_CONST_DELTA OF_DELTA

#define OPENS_emb_scan OF_SCAN
#define OPENS_emb_snap OF_SNAP
#define OPENS_emb_delta OF_DELTA
#define OPENS_emb_backup OF_BACKUP

const struct shape shapes[CALLS] = {
#define CALL(object_, how, returns, name_, flags_, needs, ...)                 \
  [CALL_##name_] = {.name = #name_,                                            \
                    .object = OF_##object_,                                    \
                    .flags = flags_,                                           \
                    .args = {EACH(SHAPE_OF, name_, __VA_ARGS__)}},
#include "engine/remote/calls.def"
#undef CALL
};

const struct arg_shape *shape__find(const struct shape *shape,
                                    enum shape_kind kind) {
  for (int i = 0; i < REQUEST_ARGS && shape->args[i].kind; i++) {
    if (shape->args[i].kind == kind) {
      return &shape->args[i];
    }
  }
  return NULL;
}

/* ---- a request and an answer --------------------------------------------- */

void shape__units(const emb_session *s, struct units *units) {
  units->schema = &s->core->schema;
  units->vector = (size_t)s->core->layout.dim * sizeof(float);
  units->state = emb_state_bytes(s->store);
}

uint64_t shape__view(struct env *env, const char *path) {
  uint64_t id[4] = {0, 0, 0, 0};
  char parent[PATH_BYTES];
  if (!path) {
    return 0;
  }
  (void)env->identity(env, path, id);
  const char *slash = strrchr(path, '/');
  size_t n = slash ? (size_t)(slash - path) + 1 : 0; /* with the slash */
  if (n && n < sizeof parent) {
    memcpy(parent, path, n);
    parent[n] = 0;
    (void)env->identity(env, parent, id + 2);
  }
  uint64_t view = 1;
  for (int i = 0; i < 4; i++) {
    view = hash_mix(view ^ id[i]);
  }
  return view;
}

static uint64_t number_at(const void *args, size_t at, size_t bytes) {
  uint64_t number = 0;
  memcpy(&number, (const char *)args + at, bytes);
  return number;
}

uint64_t shape__count(const void *args, const struct arg_shape *arg) {
  uint64_t n = arg->count ? number_at(args, arg->count, sizeof(size_t)) : 1;
  uint64_t k = arg->times && arg->unit != UNIT_SEGMENT
                   ? number_at(args, arg->times, sizeof(size_t))
                   : 1;
  return __builtin_mul_overflow(n, k, &n) ? UINT64_MAX : n;
}

/* Returns the size of an element. */
static size_t unit_bytes(const struct arg_shape *arg, const struct units *units,
                         const void *args) {
  if (arg->unit == UNIT_SEGMENT) {
    uint64_t i = number_at(args, arg->times, sizeof(uint32_t));
    const struct schema *schema = units->schema;
    /* The call itself rejects any other segment, and reads nothing. */
    return i < schema->count ? schema->segments[i].dim * sizeof(float) : 0;
  }
  return arg->unit == UNIT_VECTOR  ? units->vector
         : arg->unit == UNIT_STATE ? units->state
                                   : arg->bytes;
}

static uint64_t argument_word(const void *args, const struct arg_shape *arg) {
  const void *pointer;
  switch (arg->kind) {
  case SHAPE_VALUE:
    return number_at(args, arg->at, arg->bytes);
  case SHAPE_TEXT:
    pointer = shape__pointer(args, arg);
    return pointer ? strlen(pointer) + 1 : 0;
  case SHAPE_FILTER:
    pointer = shape__pointer(args, arg);
    return pointer ? filter_block(pointer) : 0;
  case SHAPE_SPAN:
    return 1;
  case SHAPE_OPEN:
  case SHAPE_ERROR:
  case SHAPE_REPORT:
    return 0;
  default:
    return shape__pointer(args, arg) != NULL;
  }
}

void shape__words(const struct shape *shape, void *args, uint64_t *words) {
  for (int i = 0; i < REQUEST_ARGS && shape->args[i].kind; i++) {
    const struct arg_shape *arg = &shape->args[i];
    words[i] = argument_word(args, arg);
    if (arg->kind == SHAPE_STRUCT && words[i]) {
      memcpy((char *)args + arg->here, shape__pointer(args, arg), arg->bytes);
    }
  }
}

const void *shape__array(const void *args, const struct arg_shape *arg) {
  return arg->kind == SHAPE_SPAN ? (const char *)args + arg->at
         : arg->kind == SHAPE_FILTER
             ? (const void *)((emb_filter *)shape__pointer(args, arg))->block
             : shape__pointer(args, arg);
}

void shape__numbers(const struct shape *shape, const uint64_t *words,
                    void *args) {
  for (int i = 0; i < REQUEST_ARGS && shape->args[i].kind; i++) {
    const struct arg_shape *arg = &shape->args[i];
    if (arg->kind == SHAPE_VALUE) {
      memcpy((char *)args + arg->at, &words[i], arg->bytes);
    } else if (arg->kind == SHAPE_STRUCT && (words[i] || arg->needed)) {
      shape__set_pointer(args, arg, (char *)args + arg->here);
    }
  }
}

/* Adds an array to the extent. */
static void extent_add(struct extent_of *extent, int arg, uint64_t elements,
                       size_t bytes) {
  size_t length;
  if (extent->bytes == SIZE_MAX ||
      __builtin_mul_overflow(elements, bytes, &length) ||
      length > (size_t)1 << 48) {
    extent->bytes = SIZE_MAX;
    return;
  }
  extent->at[arg] = extent->bytes;
  extent->length[arg] = length;
  extent->bytes += (length + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN;
}

void shape__request(const struct shape *shape, const struct units *units,
                    const uint64_t *words, const void *args,
                    struct extent_of *extent) {
  memset(extent, 0, sizeof *extent);
  for (int i = 0; i < REQUEST_ARGS && shape->args[i].kind; i++) {
    const struct arg_shape *arg = &shape->args[i];
    switch (arg->kind) {
    case SHAPE_IN:
      extent_add(extent, i, words[i] ? shape__count(args, arg) : 0,
                 unit_bytes(arg, units, args));
      break;
    case SHAPE_TEXT:
      extent_add(extent, i, words[i], 1);
      break;
    case SHAPE_FILTER:
      extent_add(extent, i, words[i], sizeof(uint64_t));
      break;
    case SHAPE_SPAN:
      extent_add(extent, i, 1, arg->bytes);
      break;
    default:
      break;
    }
  }
}

void shape__answer(const struct shape *shape, const struct units *units,
                   const uint64_t *words, const void *args,
                   struct extent_of *extent) {
  memset(extent, 0, sizeof *extent);
  for (int i = 0; i < REQUEST_ARGS && shape->args[i].kind; i++) {
    const struct arg_shape *arg = &shape->args[i];
    if ((arg->kind == SHAPE_OUT || arg->kind == SHAPE_LATER) && words[i]) {
      extent_add(extent, i, shape__count(args, arg),
                 unit_bytes(arg, units, args));
    }
  }
}
