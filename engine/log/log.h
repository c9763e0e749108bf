/* SPDX-License-Identifier: MIT
**
** log.h -- the hybrid log: all records in time order, the newest in memory.
**
**            first          flushed      read-only           tail
**   -----------|---------------|-------------|----------------|--->  pages
**    freed     |  on disk, and perhaps       | in memory,     |
**              |  in a frame   | being       | changed in     | not yet
**              |               | written     | place          | allocated
**
** An extent is the unit of disk space and of memory.  Its number grows with
** time; where it is in the file (phys) is a table entry, so freed space in the
** middle of the file is used again.  Pages are handed out one at a time to two
** streams: immediate writes, and the transaction.
**
** INVARIANT L1  synced <= flushed <= safe <= read_only <= tail (page numbers)
**           L2  Pages below read_only are closed: no slot of them is handed
**               out any more.  Pages below safe are not written by anybody.
**           L3  Pages reach the file in order; so what recovery finds is a
**               prefix of what was written.
**           L4  extent.live = number of committed words whose log address is
**               in the extent.  It never grows once the extent is full.
** FAILURE   A failed write or sync fails the log for good (log_failed); reads
**           go on.
** THREADS   log_take: any session inside an epoch (mutex `lock`, short).
**           log_seal, log_flush, log_evict: one at a time, outside any epoch
**           (core's flush lock).  The rest says so.
*/
#ifndef EMB_LOG_H
#define EMB_LOG_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "../base/err.h"
#include "../env/env.h"
#include "../epoch/epoch.h"
#include "../io/frames.h"
#include "../rec/layout.h"
#include "../rec/page.h"
#include "../rec/rec.h"

/* log_take: no frame or table entry is free.  Leave the epoch, let the flush
** work (core_wait_room), and try again. */
#define LOG_ROOM (-2)

#define EXTENT_NOWHERE UINT32_MAX
#define EXTENT_NEVER UINT32_MAX
/* The log's file starts with one block that names the store. */
#define LOG_FILE_HEAD 4096
/* Bits of a word that hold an address (index/word.h); asserted in core.h. */
#define WORD_ADDRESS_LIMIT_BITS 47

struct extent {
  /* Memory of the extent or NULL.  Stored release by log_take and log_evict,
  ** loaded acquire by everybody inside an epoch. */
  _Atomic(char *) frame;
  /* Place in the file, EXTENT_NOWHERE when the number is not in use; inverted,
  ** so that a table of zeros has none.  See extent_phys.  The highest bit:
  ** there may be deletions in it (EXTENT_TOMBS).  Changed under the log's lock.
  */
  _Atomic uint32_t phys_inverted;
  /* See L4; relaxed, it only steers. */
  _Atomic int32_t live;
  /* In a table whose rows expire: no record in it is due earlier, seconds since
  ** 1970; 0: not known, EXTENT_NEVER: none is.  Lowered by who fills a slot,
  ** set by life/expire.c; relaxed. */
  _Atomic uint32_t due;
};

#define EXTENT_TOMBS (UINT32_C(1) << 31)
#define EXTENT_PHYS_MASK (EXTENT_TOMBS - 1)

static inline uint32_t extent_phys(const struct extent *extent) {
  uint32_t inverted =
      atomic_load_explicit(&extent->phys_inverted, memory_order_acquire) &
      EXTENT_PHYS_MASK;
  return inverted ? inverted ^ EXTENT_PHYS_MASK : EXTENT_NOWHERE;
}
/* Its number begins or ends to be in use. */
static inline void extent_place(struct extent *extent, uint32_t phys) {
  atomic_store_explicit(&extent->phys_inverted, ~phys & EXTENT_PHYS_MASK,
                        memory_order_release);
}
/* It is elsewhere in the file now, as it was. */
static inline void extent_replace(struct extent *extent, uint32_t phys) {
  uint32_t tombs =
      atomic_load_explicit(&extent->phys_inverted, memory_order_relaxed) &
      EXTENT_TOMBS;
  atomic_store_explicit(&extent->phys_inverted,
                        (~phys & EXTENT_PHYS_MASK) | tombs,
                        memory_order_release);
}
/* Deletions may be in it. */
static inline int extent_tombs(const struct extent *extent) {
  return (atomic_load_explicit(&extent->phys_inverted, memory_order_acquire) &
          EXTENT_TOMBS) != 0;
}
static inline void extent_set_tombs(struct extent *extent) {
  atomic_fetch_or_explicit(&extent->phys_inverted, EXTENT_TOMBS,
                           memory_order_release);
}

/* Numbers that a table may span, from the oldest extent to the tail: 1.5
** gigabytes if each were in use.  Of those that are not, nothing is in memory;
** so what files ask for is in proportion to what is in them.  Compaction
** keeps a log of n extents below 8 n (life/compact.c). */
#define LOG_SPAN_MAX (UINT64_C(1) << 26)

enum { LOG_IMMEDIATE = 0, LOG_TXN = 1, LOG_STREAMS = 2 };

struct log_open { /* the page that a stream is filling */
  uint64_t page;  /* 0: none */
  uint32_t kind;
  uint32_t used;
  uint64_t txn;
};

struct log {
  struct env *env;
  struct epoch *epoch;
  struct frames *frames;
  const struct layout *layout;
  uint64_t salt;
  struct env_file *file;
  int no_sync; /* temporary store */

  /* Guards open, tail, table growth, phys and first. */
  pthread_mutex_t lock;
  struct log_open open[LOG_STREAMS];
  /* Written under lock, read relaxed or acquire anywhere. */
  _Atomic uint64_t tail;
  _Atomic uint64_t read_only;
  _Atomic uint64_t last_tomb; /* the newest page of tombstones */
  uint64_t safe;              /* flush lock */
  _Atomic uint64_t flushed;   /* written under the flush lock */
  _Atomic uint64_t synced;    /* written under the flush lock */
  uint64_t evict_next;        /* flush lock: lowest extent perhaps in memory */
  _Atomic uint32_t resident;  /* frames that hold extents */
  /* First error of a write or sync; never cleared. */
  _Atomic int failed;

  /* Ring of extents, index number & mask; replaced only while the epoch is
  ** closed.  Mapped: no memory until it is touched. */
  struct extent *table;
  uint64_t table_mask;
  uint64_t first;      /* lowest number in use */
  uint64_t *phys_used; /* bitmap */
  uint32_t phys_words;
  uint32_t phys_end;  /* extents in the file */
  uint32_t phys_free; /* of them not in use */
  uint32_t phys_hint;
  uint32_t *left; /* places that extents moved away from */
  uint32_t left_count, left_room;
  /* Something was written outside log_flush: the next sync must sync. */
  _Atomic int moved;
};

/* An empty log; table and bitmap start small. */
int log_init(struct log *log, struct env *env, struct epoch *epoch,
             struct frames *frames, const struct layout *layout);
void log_free(struct log *log);

static inline struct extent *log_extent(const struct log *log,
                                        uint64_t number) {
  return &log->table[number & log->table_mask];
}
/* The record at a log address, or NULL when its extent is not in memory. */
static inline struct rec *log_rec(const struct log *log, uint64_t address) {
  char *frame = atomic_load_explicit(
      &log_extent(log, layout_extent(log->layout, address))->frame,
      memory_order_acquire);
  if (!frame) {
    return NULL;
  }
  return (struct rec *)(void *)(frame +
                                layout_rec_offset(log->layout, address));
}
/* The page in memory, or NULL. */
static inline char *log_page(const struct log *log, uint64_t page) {
  char *frame = atomic_load_explicit(
      &log_extent(log, page >> log->layout->extent_bits)->frame,
      memory_order_acquire);
  return frame ? frame + layout_page_offset(log->layout, page) : NULL;
}
static inline int log_mutable(const struct log *log, uint64_t address) {
  return EMB_SEED(16) ||
         layout_page(log->layout, address) >=
             atomic_load_explicit(&log->read_only, memory_order_acquire);
}
static inline void log_live(struct log *log, uint64_t address, int change) {
  atomic_fetch_add_explicit(
      &log_extent(log, layout_extent(log->layout, address))->live, change,
      memory_order_relaxed);
}
/* A record at this address is due then; inside an epoch. */
static inline void log_due(struct log *log, uint64_t address, uint32_t due) {
  _Atomic uint32_t *at =
      &log_extent(log, layout_extent(log->layout, address))->due;
  uint32_t first = atomic_load_explicit(at, memory_order_relaxed);
  while (due < first &&
         !atomic_compare_exchange_weak_explicit(
             at, &first, due, memory_order_relaxed, memory_order_relaxed)) {
  }
}
/* Offset of a page in the file; UINT64_MAX when its extent was freed. */
uint64_t log_offset(const struct log *log, uint64_t page);

/* Hands out up to want slots (PAGE_DATA) or items (other kinds) that follow
** each other in one page of a stream: *page, *slot the first, *got how many.
** kind may carry flags above PAGE_FLAG_SHIFT, which all of the page then has.
** A new page starts zeroed.  LOG_ROOM, EMB_FULL (address space used up). */
int log_take(struct log *log, int stream, uint32_t kind, uint64_t txn,
             uint32_t want, uint64_t *page, uint32_t *slot, uint32_t *got);
/* Closes the stream's page, with flags; LOG_ROOM if it has none and `force`
** asks for an empty page to carry them. */
int log_close(struct log *log, int stream, uint32_t flags, int force,
              uint64_t txn);
/* Closes the stream's page if it is not above `page`. */
void log_close_older(struct log *log, int stream, uint64_t page);
/* Fills the tail's extent with empty pages if it stands at or above `place`,
** so that the next one can start lower.  1: it did. */
int log_pad(struct log *log, uint64_t place);
/* Closes the open pages.  Returns the tail: slots will be handed out from this
** page on.  *first (or NULL): the lowest page there may be. */
uint64_t log_cut(struct log *log, uint64_t *first);
/* Address that the stream's next record will at least have. */
uint64_t log_position(struct log *log, int stream);

/* Makes all pages below `page` immutable, or below the tail if that is lower:
** then whatever comes after the call returned lies above what it returns, and
** so does what is written after something that lies above. */
uint64_t log_seal(struct log *log, uint64_t page);
/* Writes the sealed pages out; *wrote: bytes.  After an error the queue is
** closed and NULL. */
int log_flush(struct log *log, struct env_queue **queue, uint64_t *wrote,
              emb_err *err);
/* The same for a few extents of what is below page `upto`. */
int log_flush_piece(struct log *log, struct env_queue **queue, uint64_t upto,
                    uint64_t *wrote, emb_err *err);
/* Everything flushed is made durable.  May run beside a flush. */
int log_sync(struct log *log, emb_err *err);
/* Up to n (at most LOG_CHOOSE_MAX) written extents whose frames may be taken:
** those with the fewest live records, the oldest among equals.  What was copied
** to the tail since needs no memory.  open: first extent of an open
** transaction, or 0. */
#define LOG_CHOOSE_MAX 64
uint32_t log_choose(struct log *log, uint64_t open, uint64_t *numbers,
                    uint32_t n);
/* Takes the frames of these extents. */
void log_evict(struct log *log, const uint64_t *numbers, uint32_t n);
/* Frees the extent of this number: disk space and frame. */
void log_drop(struct log *log, uint64_t number);
/* Moving an extent to a lower place (life/shorten.c, under core's ckpt_lock).
** log_reserve_lower: byte offsets of its place and of a free lower one, which
** is taken; 0 if there is none.  log_move: the copy is complete, use it; the
** old place is kept until log_free_left.  log_cancel_move: give it back. */
int log_reserve_lower(struct log *log, uint64_t number, uint64_t *from,
                      uint64_t *to);
int log_move(struct log *log, uint64_t number, uint64_t to);
void log_cancel_move(struct log *log, uint64_t to);
/* A checkpoint that knows the new places is durable. */
void log_free_left(struct log *log);
/* Shrinks the file to the last extent in use; punches free ones if asked.
** Under core's ckpt_lock and flush lock: nothing is written meanwhile. */
int log_trim(struct log *log, int punch, emb_err *err);
/* Makes room in the tables of extents and places, for one more; outside any
** epoch.  EMB_FULL: the log spans half of LOG_SPAN_MAX. */
int log_grow_table(struct log *log);
int log_table_full(struct log *log);

/* Recovery: puts an extent at a known place.  The caller is alone, and the
** number less than LOG_SPAN_MAX above the first. */
int log_adopt(struct log *log, uint64_t number, uint32_t phys);
/* Recovery: makes the table hold this number, before the tail goes there: a
** number beyond it would be taken for the one whose entry it shares. */
int log_fit_table(struct log *log, uint64_t number);
/* Recovery: the next page will be the first of extent `number`. */
void log_start_at(struct log *log, uint64_t number);
/* The same for a log that was closed cleanly at page `tail`: goes on in the
** extent that is half full. */
int log_resume(struct log *log, uint64_t tail, emb_err *err);
/* Back to empty, all frames given back; the caller is alone. */
void log_reset(struct log *log);
uint64_t log_extents_used(const struct log *log);

int log_fail(struct log *log, emb_err *err, int os_error, const char *what);

#endif
