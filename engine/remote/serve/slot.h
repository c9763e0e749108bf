/* SPDX-License-Identifier: MIT
**
** slot.h -- what a client's session and the owner of the store have in common:
** the slot in shared memory, and the messages on the socket.  Both ends include
** it; neither trusts what the other has written.
**
** STATES of a slot, by `turn`; who makes each step
**
**     IDLE -> ASKED                the client: a request is in `data`
**     ASKED -> RUNNING             the owner, compare-and-swap
**     ASKED -> IDLE                the client takes it back, compare-and-swap:
**                                  the owner has not begun it and never will
**     ASKED -> LEFT                the owner leaves, and has not begun it
**     RUNNING -> ANSWERED          the owner: the answer is in `data`
**     RUNNING -> LEFT              the owner leaves; the call has changed
**                                  nothing
**     RUNNING -> QUESTION          the owner needs to know something meanwhile
**     QUESTION -> RUNNING          the client: it is in `reply`
**     ANSWERED -> ASKED            the next request
**     IDLE, ANSWERED -> CLOSING    the client closes its session
**     CLOSING -> LEFT              the owner has closed it
**
** In the other state it is the client's turn to look, in these the owner's.
**
** LENT MEMORY  A request or an answer that `data` is too small for is in memory
** that the client lends for one call: what it asks in one that it cannot write
** any more, so that the owner need not copy it; what is answered in another.
*/
#ifndef EMB_SERVE_SLOT_H
#define EMB_SERVE_SLOT_H

#include <assert.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>

#define FILE_SOCKET "socket"

#define SLOT_MAGIC UINT64_C(0x31746f6c53626d65)
/* The protocol: changes with anything here, in the table of calls [shape.c] or
** in what a call's arguments mean.  Processes with different ones do not serve
** each other, and say so [hello.h]. */
#ifndef SLOT_VERSION /* a test has another one */
#define SLOT_VERSION 7
#endif
/* Not resident until touched: a batch touches what it needs. */
#define SLOT_DATA_BYTES ((size_t)4 << 20)
#define SLOT_TEXT_BYTES 508
/* Of requests and answers: arrays begin at multiples of it. */
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

/* Keys of a scan that a client remembers, to go on elsewhere [remote_scan.c].
 */
#define SCAN_REMEMBERED ((size_t)1 << 20)

/* What the owner's session holds, after a call: bits of slot.holds. */
enum {
  SLOT_HAS_TXN = 1,
  SLOT_HAS_PREPARED = 2,
  SLOT_HAS_LEASES = 4,
  SLOT_HAS_TICKETS = 8,
  SLOT_MET_DOUBT = 16, /* the call met slot.met_doubt, which is not decided, */
  SLOT_MET_ORPHAN = 32 /* and which no session will decide */
};

/* Prefetches and write-backs that a session may have under way. */
#define SLOT_TICKETS 1024

struct slot_ticket { /* one that was under way when the owner left, and ended */
  uint64_t ticket;
  int32_t code;
  uint32_t reserved;
};

struct link_slot {
  _Atomic uint32_t turn; /* both, compare-and-swap; acquire, release */
  /* Written by the client. */
  alignas(64) _Atomic uint32_t cancel; /* this call is to end; relaxed */
  uint32_t request_bytes;
  uint32_t lent; /* request and answer are in memory of their own */
  uint32_t reply;
  uint32_t processor; /* that it runs on */
  /* Written by the owner. */
  alignas(64) _Atomic uint32_t left; /* it has closed the store in peace */
  _Atomic uint32_t dropped;          /* emb_is_dropped; release, acquire */
  /* The session has no thread: who asks sends MESSAGE_WAKE, too.  Sequentially
  ** consistent, and so is `turn` beside it. */
  _Atomic uint32_t parked;
  _Atomic uint64_t in_doubt; /* emb_in_doubt; release, acquire */
  uint64_t result;
  uint64_t met_doubt;
  int32_t code; /* of the session's error, with `text` */
  uint32_t holds;
  uint32_t question, what;
  char text[SLOT_TEXT_BYTES];
  uint32_t ended_count; /* before `left` is set */
  alignas(4096) struct slot_ticket ended[SLOT_TICKETS];
  alignas(4096) char data[SLOT_DATA_BYTES];
};
static_assert(sizeof(struct link_slot) == 4096 + 16384 + SLOT_DATA_BYTES,
              "a page, then what has ended, then data");

/* struct link_slot.question */
enum { QUESTION_BLOCKS = 1, QUESTION_REPORT = 2 };

#define REQUEST_ARGS 16

/* A request: this, then the arrays that go in, in the order of the arguments.
 */
struct link_request {
  uint32_t call; /* enum call */
  uint32_t flags;
  uint64_t object; /* a scan's number, ..; 0: the session */
  uint64_t timeout_ms;
  uint64_t statement;
  uint64_t doubt_seen; /* the transaction in doubt that it reads past, or 0 */
  uint32_t time;
  uint32_t reserved;
  /* A value; of an array that goes in its bytes; of one that comes out 1 if it
  ** is asked for. */
  uint64_t args[REQUEST_ARGS];
  alignas(SLOT_ALIGN) char arrays[];
};

enum {
  REQUEST_BLOCKS = 1, /* the session has a callback that says what it holds */
  REQUEST_MARKS = 2,  /* leases are marked from now on (emb_lease_mark) */
  REQUEST_DECIDES = 4 /* it decides what is in doubt (emb_session_decides) */
};

/* ---- messages on the socket ---------------------------------------------- */

enum {
  MESSAGE_HELLO = 1,
  MESSAGE_LOAN,
  MESSAGE_PING,
  MESSAGE_PONG,
  MESSAGE_WAKE /* the client has asked a session that is parked */
};

/* The head of the first message of each end, which no version changes: so each
** can say what the other one is.  What follows it is the protocol's, and may be
** longer or shorter than what is known here. */
#define GREETING_VERSION_BYTES 32
#define GREETING_COMMIT_BYTES 48

struct greeting {
  uint64_t magic;                       /* 000-007 SLOT_MAGIC */
  uint32_t protocol;                    /* 008-011 SLOT_VERSION */
  uint32_t kind;                        /* 012-015 MESSAGE_HELLO */
  uint32_t bytes;                       /* 016-019 of the message, with this */
  uint32_t reserved;                    /* 020-023 zero */
  char version[GREETING_VERSION_BYTES]; /* 024-055 EMB_VERSION, ends with 0 */
  char commit[GREETING_COMMIT_BYTES];   /* 056-103 emb_source_id(), the same */
};
static_assert(offsetof(struct greeting, magic) == 0 &&
                  offsetof(struct greeting, protocol) == 8 &&
                  offsetof(struct greeting, kind) == 12 &&
                  offsetof(struct greeting, bytes) == 16 &&
                  offsetof(struct greeting, version) == 24 &&
                  offsetof(struct greeting, commit) == 56 &&
                  sizeof(struct greeting) == 104 && MESSAGE_HELLO == 1,
              "the same in every version");

/* Protocols up to this one had no head, but these three fields where it has
** them.  The owner's answer to another protocol was this, and it heard none of
** another length. */
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

#define HELLO_TEXT_BYTES 3584 /* of a schema, SCHEMA_TEXT_BYTES */

/* The client's first message; with it comes the store's log as an open file:
** who can write that may write, who can read it may read. */
struct hello {
  struct greeting head;
  uint8_t uuid[16];
  uint32_t bounded, staleness;
  uint32_t readonly;
  uint32_t is_store; /* the session asks what concerns the store, for others */
  char schema[HELLO_TEXT_BYTES];
};

/* The answer; with it comes the slot if code is 0. */
struct welcome {
  struct greeting head;
  int32_t code;
  uint32_t reserved;
  uint64_t number; /* of the session here */
  uint64_t since;  /* seconds since 1970: when the owner became that */
  int64_t process; /* its number where it runs: perhaps another container */
  char text[SLOT_TEXT_BYTES];
};

struct signal_message { /* LOAN, PING, PONG */
  uint64_t magic;
  uint32_t version, kind;
};

#endif
