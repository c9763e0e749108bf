/* SPDX-License-Identifier: MIT
**
** slot.h -- the protocol between a client's session and the owner of the store:
** the slot in shared memory, and the messages on the socket.  Both ends include
** it; neither trusts what the other has written.
**
** STATES of a slot, by `turn`, and the end that makes each step
**
**     IDLE -> ASKED                the client: a request is in `data`
**     ASKED -> RUNNING             the owner, compare-and-swap
**     ASKED -> IDLE                the client withdraws it, compare-and-swap:
**                                  the owner has not begun it and never will
**     ASKED -> LEFT                the owner leaves without having begun it
**     RUNNING -> ANSWERED          the owner: the answer is in `data`
**     RUNNING -> LEFT              the owner leaves; the call has changed
**                                  nothing
**     RUNNING -> QUESTION          the owner asks the client something during
**                                  the call
**     QUESTION -> RUNNING          the client: the reply is in `reply`
**     ANSWERED -> ASKED            the next request
**     IDLE, ANSWERED -> CLOSING    the client closes its session
**     CLOSING -> LEFT              the owner has closed the session
**
** The owner acts in ASKED, RUNNING and CLOSING, the client in the other states.
**
** LENT MEMORY  A request or an answer too large for `data` is in memory that
** the client lends for one call.  The request is in memory that the client can
** no longer write, so that the owner need not copy it; the answer is in other
** memory.
*/
#ifndef EMB_SERVE_SLOT_H
#define EMB_SERVE_SLOT_H

#include <assert.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>

#define FILE_SOCKET "socket"

#define SLOT_MAGIC UINT64_C(0x31746f6c53626d65)
/* The protocol version: changes with anything here, in the table of calls
** [calls.def] or in the meaning of a call's arguments.  Processes with
** different versions do not serve each other, and report it [hello.h]. */
#ifndef SLOT_VERSION /* a test defines another */
#define SLOT_VERSION 9
#endif
/* Not resident until touched: a batch touches only what it needs. */
#define SLOT_DATA_BYTES ((size_t)4 << 20)
#define SLOT_TEXT_BYTES 508
/* Arrays in requests and answers begin at multiples of this. */
#define SLOT_ALIGN 64

enum slot_turn {
  SLOT_IDLE = 0,
  SLOT_ASKED,
  SLOT_RUNNING,
  SLOT_QUESTION,
  SLOT_ANSWERED,
  SLOT_LEFT,
  SLOT_CLOSING
};

/* Keys a client remembers of a scan, to continue elsewhere [remote_scan.c]. */
#define SCAN_REMEMBERED ((size_t)1 << 20)

/* What the session at the owner holds after a call: bits of slot.holds. */
enum {
  SLOT_HAS_TXN = 1,
  SLOT_HAS_PREPARED = 2,
  SLOT_HAS_LEASES = 4,
  SLOT_HAS_TICKETS = 8,
  SLOT_MET_DOUBT = 16, /* the call met slot.met_doubt undecided */
  SLOT_MET_ORPHAN = 32 /* no session will decide slot.met_doubt */
};

/* Most prefetches and write-backs a session may have in flight. */
#define SLOT_TICKETS 1024

struct slot_ticket { /* in flight when the owner left, and ended since */
  uint64_t ticket;
  int32_t code;
  uint32_t reserved;
};

struct link_slot {
  _Atomic uint32_t turn; /* both, compare-and-swap; acquire, release */
  /* Written by the client. */
  alignas(64) _Atomic uint32_t cancel; /* end this call; relaxed */
  uint32_t request_bytes;
  uint32_t lent; /* request and answer are in lent memory */
  uint32_t reply;
  uint32_t processor; /* the client runs on */
  /* Written by the owner. */
  alignas(64) _Atomic uint32_t left; /* it has closed the store cleanly */
  _Atomic uint32_t dropped;          /* emb_is_dropped; release, acquire */
  /* The session has no thread: a client that asks must also send MESSAGE_WAKE.
  ** Sequentially consistent, as is `turn` when used with it. */
  _Atomic uint32_t parked;
  _Atomic uint64_t in_doubt; /* emb_in_doubt; release, acquire */
  uint64_t result;
  uint64_t met_doubt;
  int32_t code; /* of the session's error, with `text` */
  uint32_t holds;
  uint32_t question, what;
  char text[SLOT_TEXT_BYTES];
  uint32_t ended_count; /* set before `left` */
  alignas(4096) struct slot_ticket ended[SLOT_TICKETS];
  alignas(4096) char data[SLOT_DATA_BYTES];
};
static_assert(sizeof(struct link_slot) == 4096 + 16384 + SLOT_DATA_BYTES,
              "a page, then what has ended, then data");

/* struct link_slot.question */
enum { QUESTION_BLOCKS = 1, QUESTION_REPORT = 2 };

#define REQUEST_ARGS 16
#define REQUEST_PATHS 2

/* A request: this header, then the input arrays, in argument order. */
struct link_request {
  uint32_t call; /* enum call */
  uint32_t flags;
  uint64_t object; /* number of a scan etc.; 0: the session */
  uint64_t timeout_ms;
  uint64_t statement;
  uint64_t doubt_seen; /* the transaction in doubt that it ignores, or 0 */
  uint32_t time;
  uint32_t reserved;
  uint64_t views[REQUEST_PATHS]; /* of the paths, in order: shape__view */
  /* A number; the bytes of a text; the words of a filter; 1 for an input array
  ** that is present, or an output array that is asked for. */
  uint64_t words[REQUEST_ARGS];
  alignas(SLOT_ALIGN) char arrays[];
};

enum {
  REQUEST_BLOCKS = 1, /* it has a callback: emb_session_blocks */
  REQUEST_MARKS = 2,  /* mark leases from now on (emb_lease_mark) */
  REQUEST_DECIDES = 4 /* it has a callback: emb_session_decides */
};

/* ---- messages on the socket ---------------------------------------------- */

enum {
  MESSAGE_HELLO = 1,
  MESSAGE_LOAN,
  MESSAGE_PING,
  MESSAGE_PONG,
  MESSAGE_WAKE /* the client has a request for a parked session */
};

/* The head of the first message of each end.  It is the same in every version,
** so that each end can tell what the other is.  The part after it depends on
** the protocol, and may be longer or shorter than the one known here. */
#define GREETING_VERSION_BYTES 32
#define GREETING_COMMIT_BYTES 48

struct greeting {
  uint64_t magic;                       /* 000-007 SLOT_MAGIC */
  uint32_t protocol;                    /* 008-011 SLOT_VERSION */
  uint32_t kind;                        /* 012-015 MESSAGE_HELLO */
  uint32_t bytes;                       /* 016-019 of the message, with this */
  uint32_t reserved;                    /* 020-023 zero */
  char version[GREETING_VERSION_BYTES]; /* 024-055 EMB_VERSION, 0-terminated */
  char commit[GREETING_COMMIT_BYTES];   /* 056-103 emb_source_id(), likewise */
};
static_assert(offsetof(struct greeting, magic) == 0 &&
                  offsetof(struct greeting, protocol) == 8 &&
                  offsetof(struct greeting, kind) == 12 &&
                  offsetof(struct greeting, bytes) == 16 &&
                  offsetof(struct greeting, version) == 24 &&
                  offsetof(struct greeting, commit) == 56 &&
                  sizeof(struct greeting) == 104 && MESSAGE_HELLO == 1,
              "the same in every version");

/* Protocols up to this one had no head, but had its first three fields at the
** same offsets.  An owner answered another protocol with old_welcome, and
** accepted only a hello of its own length. */
#define OLD_PROTOCOL 5

struct old_hello {
  uint64_t magic;
  uint32_t protocol, kind;
  char rest[3616];
};

struct old_welcome {
  uint64_t magic;
  uint32_t protocol, kind;
  int32_t code;
  uint32_t reserved;
  uint64_t number, since;
  int64_t process;
  char text[508];
};
static_assert(sizeof(struct old_hello) == 3632 &&
                  sizeof(struct old_welcome) == 560 &&
                  offsetof(struct old_welcome, code) == 16 &&
                  offsetof(struct old_welcome, text) == 48,
              "as they were");

#define HELLO_TEXT_BYTES 3584 /* for a schema, SCHEMA_TEXT_BYTES */

/* The client's first message; carries the store's log as an open file.  A
** client that can write that file may write, one that can read it may read. */
struct hello {
  struct greeting head;
  uint8_t uuid[16];
  uint32_t bounded, staleness;
  uint32_t readonly;
  uint32_t is_store; /* the session is for calls of the store, not of a user */
  char schema[HELLO_TEXT_BYTES];
};

/* The answer; carries the slot if code is 0. */
struct welcome {
  struct greeting head;
  int32_t code;
  uint32_t reserved;
  uint64_t number; /* of the session at the owner */
  uint64_t since;  /* when the owner became owner: seconds since 1970 */
  int64_t process; /* its pid where it runs, perhaps in another container */
  char text[SLOT_TEXT_BYTES];
};

struct signal_message { /* LOAN, PING, PONG */
  uint64_t magic;
  uint32_t version, kind;
};

#endif
