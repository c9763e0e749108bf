/* SPDX-License-Identifier: MIT
**
** calls.h -- the calls of emb.h that concern a store, as calls.def describes
** them: turns each of its rows into C.
**
** local_NAME is the engine's own implementation, in the file of its feature.
** args_NAME has the arguments of a call as members: first the object, then the
** declared arguments; a structure passed by pointer is stored after the
** pointer, as NAME_here.
*/
#ifndef EMB_STORE_CALLS_H
#define EMB_STORE_CALLS_H

#include "engine/base/each.h"
#include "engine/emb.h"

/* Returned by a call that was not carried out, because another process owns the
** store, or no longer owns it. */
#define CALL_ELSEWHERE (-4)

/* How a session, or an object it has opened (a scan, a snapshot, a delta, a
** backup), reaches the process that serves it: first member of each.  NULL:
** this process serves it. */
struct link;
struct stat_row; /* a metric on its way to a client */

typedef void (*call_report)(void *, const char *);

/* ---- the object of a call ------------------------------------------------ */

#define OBJECT_SESSION emb_session *session
#define OBJECT_CONST_SESSION const emb_session *session
#define OBJECT_STORE emb_store *store
#define OBJECT_CONST_STORE const emb_store *store
#define OBJECT_SCAN emb_scan *scan
#define OBJECT_SNAP emb_snap *snap
#define OBJECT_CONST_SNAP const emb_snap *snap
#define OBJECT_DELTA emb_delta *delta
#define OBJECT_CONST_DELTA const emb_delta *delta
#define OBJECT_BACKUP emb_backup *backup
/* The object as an argument. */
#define SELF_SESSION session
#define SELF_CONST_SESSION session
#define SELF_STORE store
#define SELF_CONST_STORE store
#define SELF_SCAN scan
#define SELF_SNAP snap
#define SELF_CONST_SNAP snap
#define SELF_DELTA delta
#define SELF_CONST_DELTA delta
#define SELF_BACKUP backup

/* ---- its arguments ------------------------------------------------------- */

/* How each kind is declared: to(type, name), and to##_HERE for storage. */
#define ARG_NONE(to, none)
#define ARG_VALUE(to, type, name) to(type, name)
#define ARG_IN(to, type, name, n) to(const type *, name)
#define ARG_MAYBE_IN ARG_IN
#define ARG_VECTOR_IN(to, name) to(const float *, name)
#define ARG_VECTORS_IN(to, name, n) to(const float *, name)
#define ARG_QUERIES(to, name, n, how) to(const float *, name)
#define ARG_OUT(to, type, name, n) to(type *, name)
#define ARG_NEEDED ARG_OUT
#define ARG_SOME(to, type, name, n, filled) to(type *, name)
#define ARG_NEEDED_SOME ARG_SOME
#define ARG_VECTORS_OUT(to, name, n) to(float *, name)
#define ARG_VECTORS_NEEDED ARG_VECTORS_OUT
#define ARG_VECTORS_SOME(to, name, n, filled) to(float *, name)
#define ARG_ONE(to, type, name) to(type *, name)
#define ARG_PAIR ARG_ONE
#define ARG_TEXT(to, name) to(const char *, name)
#define ARG_MAYBE_TEXT ARG_TEXT
#define ARG_PATH ARG_TEXT
#define ARG_MAYBE_PATH ARG_TEXT
#define ARG_STRUCT(to, type, name)                                             \
  to(const type *, name) to##_HERE(type, name##_here)
#define ARG_MAYBE_STRUCT ARG_STRUCT
#define ARG_OPEN(to, type, name)                                               \
  to(type **, name) to##_HERE(type *, name##_here)
#define ARG_ERROR(to, name) to(emb_err *, name)
#define ARG_REPORT(to, name, arg) to(call_report, name) to(void *, arg)
#define ARG_FIELD(to, ...)
#define ARG_INNER(to, type, member, name) to##_HERE(type, name##_here)

/* As parameters, as arguments, as members, and as the members' initializers. */
#define AS_PARAMETER(type, name) , type name
#define AS_PARAMETER_HERE(type, name)
#define AS_ARGUMENT(type, name) , name
#define AS_ARGUMENT_HERE(type, name)
#define AS_MEMBER(type, name) type name;
#define AS_MEMBER_HERE(type, name) type name;
#define AS_INITIALIZER(type, name) , .name = name
#define AS_INITIALIZER_HERE(type, name)

#define CALL_ARGUMENT(to, kind, ...) ARG_##kind(to, __VA_ARGS__)
#define CALL_ARGUMENTS(to, ...) EACH(CALL_ARGUMENT, to, __VA_ARGS__)

/* ---- declarations -------------------------------------------------------- */

#define CALL_DECLARE(object, returns, name, ...)                               \
  returns name(OBJECT_##object CALL_ARGUMENTS(AS_PARAMETER, __VA_ARGS__));
/* emb.h declares it, too; if the declarations differ, this does not compile. */
#define PUBLIC_ASK(...) CALL_DECLARE(__VA_ARGS__)
#define PUBLIC_OPEN PUBLIC_ASK
#define PUBLIC_CLOSE PUBLIC_ASK
#define PUBLIC_OWN PUBLIC_ASK
#define PUBLIC_FACT PUBLIC_ASK
#define PUBLIC_HAND PUBLIC_ASK
#define PUBLIC_PRIVATE(...)

#define CALL(object, how, returns, name, flags, needs, ...)                    \
  CALL_DECLARE(object, returns, local_##name, __VA_ARGS__)                     \
  PUBLIC_##how(object, returns, emb_##name, __VA_ARGS__) struct args_##name {  \
    OBJECT_##object;                                                           \
    CALL_ARGUMENTS(AS_MEMBER, __VA_ARGS__)                                     \
  };                                                                           \
  __attribute__((unused)) static inline struct args_##name args_of_##name(     \
      OBJECT_##object CALL_ARGUMENTS(AS_PARAMETER, __VA_ARGS__)) {             \
    return (struct args_##name){                                               \
        SELF_##object CALL_ARGUMENTS(AS_INITIALIZER, __VA_ARGS__)};            \
  }
#include "engine/remote/calls.def"
#undef CALL

#endif
