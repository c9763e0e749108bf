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
** SPACE     An extent begins only in a file slot that is ready: one that the
**           file system has given its blocks (log_make_ready).  So a disk is
**           found full before a row is taken, not when it is to be written.
**           Some ready file slots are kept for pages that end in space being
**           given back: deletions, the ends of transactions, what compaction
**           moves.  While these are not all there no other page is begun.
**
** INVARIANT L1  synced <= flushed <= safe <= read_only <= tail (page numbers)
**           L2  Pages below read_only are closed: no slot of them is handed
**               out any more.  No session writes to pages below safe.
**           L3  Pages reach the file in order; so what recovery finds is a
**               prefix of what was written.
**           L5  The file slot of an extent that is in memory has its blocks.
**           L4  extent.live = number of committed words whose log address is
**               in the extent.  It never grows once the extent is full.
** FAILURE   A failed write or sync fails the log for good (`failed`); reads go
**           on.  Not so a write for which there is no space (L5 does not hold
**           where a file system cannot reserve blocks): its pages stay in
**           memory, and are written when there is.
** THREADS   log_take: any session inside an epoch (mutex `lock`, short).
**           log_seal, log_flush, log_page_out, log_restore: one at a time,
**           outside any epoch (core's flush lock).  The rest says so.
*/
#ifndef EMB_LOG_H
#define EMB_LOG_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "engine/base/debug.h"
#include "engine/base/err.h"
#include "engine/base/env/env.h"
#include "engine/base/epoch/epoch.h"
#include "engine/base/mem/frames.h"
#include "engine/storage/rec/layout.h"
#include "engine/storage/rec/page.h"
#include "engine/storage/rec/rec.h"

/* log_take: no frame or table entry is free.  Leave the epoch, let the flush
** work (core_wait_room), and try again. */
#define LOG_ROOM (-2)

/* File slots that are ready at a time, and of these that are kept: a sixteenth
** of what is used, within these bounds. */
#define LOG_READY_MAX 128
#define LOG_KEEP_MIN 2
#define LOG_KEEP_MAX 64

#define EXTENT_NOWHERE UINT32_MAX
#define EXTENT_NEVER UINT32_MAX
/* The log's file starts with one block that names the store. */
#define LOG_FILE_HEAD 4096
/* Bits of a word that hold an address (index/word.h); asserted in core.h. */
#define WORD_ADDRESS_LIMIT_BITS 47

struct extent {
  /* Memory of the extent or NULL.  Stored release by log_take, log_restore and
  ** log_page_out, loaded acquire by sessions inside an epoch. */
  _Atomic(char *) frame;
  /* Place in the file, EXTENT_NOWHERE when the number is not in use; inverted,
  ** so that a table of zeros has none.  See extent_phys.  The highest bit:
  ** there may be deletions in it (EXTENT_TOMBS).  Changed under the log's lock.
  */
  _Atomic uint32_t phys_inverted;
  /* See L4; relaxed, it only steers. */
  _Atomic int32_t live;
  /* In a table whose rows expire: no record in it is due earlier, seconds since
  ** 1970; 0: not known, EXTENT_NEVER: none is.  Lowered when a slot is filled,
  ** set by retention/expire.c; relaxed. */
  _Atomic uint32_t due;
  /* When it left memory: log.paged_out then; 0: not since the store was opened.
  ** Written by log_page_out, relaxed. */
  _Atomic uint32_t left;
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
static inline void extent_set_phys(struct extent *extent, uint32_t phys) {
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
** keeps a log of n extents below 8 n (retention/compact.c), but moves nothing
** that a snapshot needs. */
#define LOG_SPAN_MAX (UINT64_C(1) << 26)
/* No rows are written any more.  The other half is for compaction, which must
** write to give the oldest extents back, and for recovery, which leaves numbers
** out. */
#define LOG_SPAN_ROWS (LOG_SPAN_MAX / 2)

enum { LOG_IMMEDIATE = 0, LOG_TXN = 1, LOG_STREAMS = 2 };

struct log_open { /* the page that a stream is filling */
  uint64_t page;  /* 0: none */
  uint32_t kind;
  uint32_t used;
  uint64_t txn;
};

struct log_left {
  uint32_t phys;
  uint64_t gone; /* the first index file that does not name it; 0: the next */
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
  uint64_t page_out_next;     /* flush lock: lowest extent perhaps in memory */
  _Atomic uint32_t resident;  /* frames that hold extents */
  _Atomic uint32_t paged_out; /* extents that have left; flush lock, relaxed */
  /* First error of a write or sync, or why there will be none; never cleared.
  ** Written by log_give_up, under lock, after `why`, which does not change any
  ** more; read by any thread. */
  _Atomic int failed;
  char why[256]; /* "what is wrong; what to do" */

  /* Ring of extents, index number & mask; replaced only while the epoch is
  ** closed.  Mapped: no memory until it is touched. */
  struct extent *table;
  uint64_t table_mask;
  /* Lowest number in use: written under lock, read anywhere; it only grows. */
  _Atomic uint64_t first;
  uint64_t *phys_used; /* bitmap */
  uint32_t phys_words;
  uint32_t phys_end;  /* extents in the file */
  uint32_t phys_free; /* of them not in use */
  uint32_t phys_hint;
  struct log_left *left; /* file slots that extents moved away from */
  uint32_t left_count, left_room;
  int withheld; /* free file slots are not used: log_withhold */
  /* Held while file slots get blocks or the file is cut; before `lock`, never
  ** inside an epoch. */
  pthread_mutex_t file_slot_lock;
  uint32_t ready[LOG_READY_MAX]; /* file slots; lock, as the next two */
  uint32_t ready_count;
  uint32_t keep;     /* so many of them are kept */
  uint32_t keep_min; /* LOG_KEEP_MIN, or 0: none; set before */
  /* The last that was asked for blocks had none; any, relaxed. */
  _Atomic int full;
  /* Grows with every write of log_flush that found no space; any, relaxed. */
  _Atomic uint32_t refused;
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
/* Numbers from the oldest extent to the tail's. */
static inline uint64_t log_span(const struct log *log) {
  uint64_t first = atomic_load_explicit(&log->first, memory_order_relaxed);
  uint64_t tail = atomic_load_explicit(&log->tail, memory_order_relaxed) >>
                  log->layout->extent_bits;
  return tail > first ? tail - first : 0;
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
  return EMB_SEED(SEED_SEALED_PAGE_CHANGED) ||
         layout_page(log->layout, address) >=
             atomic_load_explicit(&log->read_only, memory_order_acquire);
}
/* May the record at this address be changed where it is?  For assertions,
** inside the epoch in which log_mutable said so: since then its page may have
** been sealed, but not written. */
static inline int log_unwritten(const struct log *log, uint64_t address) {
  uint64_t page = layout_page(log->layout, address);
  return page >= atomic_load(&log->flushed) && page < atomic_load(&log->tail);
}
/* L4: a word counts for its extent before it points there and until after it
** has left, so the count is never too low. */
static inline void log_live(struct log *log, uint64_t address, int change) {
  int32_t was = atomic_fetch_add_explicit(
      &log_extent(log, layout_extent(log->layout, address))->live, change,
      memory_order_relaxed);
  emb_assert(was + change >= 0);
}
/* Was the extent of this address, which is not in memory, among the last
** `extents` that left it?  Inside an epoch. */
static inline int log_left_lately(const struct log *log, uint64_t address,
                                  uint32_t extents) {
  uint32_t left = atomic_load_explicit(
      &log_extent(log, layout_extent(log->layout, address))->left,
      memory_order_relaxed);
  uint32_t now = atomic_load_explicit(&log->paged_out, memory_order_relaxed);
  return left && now - left < extents;
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

/* Slots (PAGE_DATA) or items (other kinds) that follow each other in one page
** of a stream, and what they are for. */
struct log_run {
  uint64_t page; /* set by log_take, as slot and left */
  uint32_t slot; /* the next one */
  uint32_t left;
  int stream; /* LOG_IMMEDIATE or LOG_TXN */
  int kept; /* a record is only moved: file slots that are kept may be taken */
  uint64_t txn; /* of LOG_TXN */
};
/* Hands out up to want more.  kind may carry flags above PAGE_FLAG_SHIFT, which
** all of the page then has; for other kinds than PAGE_DATA kept file slots may
** be taken, too.  A new page starts zeroed.  LOG_ROOM, EMB_FULL (address space
** used up). */
int log_take(struct log *log, struct log_run *run, uint32_t kind,
             uint32_t want);
/* Is a file slot ready for the next extent, kept: or one of those that are
 * kept? */
int log_has_file_slot(struct log *log, int kept);
/* Makes up to `more` file slots ready beyond those to be kept, the lowest
** first: ENOMEM, ENOSPC or whatever the file system says, and fewer are.  Under
** file_slot_lock. */
int log_make_ready(struct log *log, uint32_t more);
/* Gives the blocks of one ready file slot, if there is one, back to the file
** system. */
void log_yield(struct log *log);
/* Closes the stream's page, if it has one. */
void log_close(struct log *log, int stream);
/* Closes the last page of a transaction, with flags; if none is open, an empty
** one that carries them.  LOG_ROOM. */
int log_end_txn(struct log *log, uint32_t flags, uint64_t txn);
/* Closes the stream's page if it is not above `page`. */
void log_close_older(struct log *log, int stream, uint64_t page);
/* Fills the tail's extent with empty pages if it stands at or above file slot
** `phys`, so that the next one can start lower.  1: it did. */
int log_pad(struct log *log, uint64_t phys);
/* Leaves one page empty, *page: the tail grows.  LOG_ROOM. */
int log_skip_page(struct log *log, uint64_t *page);
/* Closes the open pages.  Returns the tail: slots will be handed out from this
** page on.  *first (or NULL): the lowest page there may be. */
uint64_t log_cut(struct log *log, uint64_t *first);
/* Address that the stream's next record will at least have. */
uint64_t log_position(struct log *log, int stream);

/* Makes all pages below `page` immutable, or below the tail if that is lower:
** then whatever comes after the call returned lies above what it returns, and
** so does what is written after something that lies above. */
uint64_t log_seal(struct log *log, uint64_t page);
/* Writes the sealed pages out; *wrote: bytes.  EMB_FULL without `failed`: may
** be called again; after any other error the queue is closed and NULL. */
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
void log_page_out(struct log *log, const uint64_t *numbers, uint32_t n);
/* The extent is in memory again, in this frame, as it is in the file: all of
** its pages are written and were checked, and the stamps settled.  0: the
** extent was freed, or came back meanwhile; the frame stays the caller's. */
int log_restore(struct log *log, uint64_t number, char *frame);
/* Frees the extent of this number: disk space and frame. */
void log_drop(struct log *log, uint64_t number);
/* Moving an extent to a lower file slot (retention/shorten.c, under core's
** ckpt_lock). log_reserve_lower: byte offsets of its file slot and of a free
** lower one, which is taken; 0 if there is none.  log_move: the copy is
** complete, use it; the old file slot is kept until log_free_left.
** log_cancel_move: give it back. */
int log_reserve_lower(struct log *log, uint64_t number, uint64_t *from,
                      uint64_t *to);
int log_move(struct log *log, uint64_t number, uint64_t to);
void log_cancel_move(struct log *log, uint64_t to);
/* A checkpoint that names the new file slots is durable, with the index file of
** this generation; 0: there is no new one.  Frees the file slots that no index
** file from `needed` on names, and returns how many. */
uint64_t log_free_left(struct log *log, uint64_t generation, uint64_t needed);
/* Free file slots may still be read by other processes: on, and extents
** are put behind all that is there. */
void log_withhold(struct log *log, int on);
/* Shrinks the file to the last extent in use, or file slot that is kept ready;
** punches free ones if asked.  Under core's ckpt_lock and flush lock: nothing
** is written meanwhile. */
int log_trim(struct log *log, int punch, emb_err *err);
/* Makes room in the tables of extents and file slots, for one more; outside any
** epoch.  EMB_FULL: the log spans LOG_SPAN_MAX. */
int log_grow_table(struct log *log);
int log_table_full(struct log *log);

/* Recovery: puts an extent at a known file slot.  The caller is alone, and the
** number less than LOG_SPAN_MAX above the first. */
int log_adopt(struct log *log, uint64_t number, uint32_t phys);
/* Recovery: makes the table hold this number, before the tail gets there: a
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

/* Nothing is written any more, for this reason if it is the first. */
void log_give_up(struct log *log, int rc, const char *why);
/* The same for a write or sync that failed; the error. */
int log_fail(struct log *log, emb_err *err, int os_error, const char *what);

/* ---- log_slots.c --------------------------------------------------------- */

/* Under log.lock.  Room to note whether this file slot is in use: EMB_NOMEM. */
int log__slot_room(struct log *log, uint32_t phys);
void log__slot_set(struct log *log, uint32_t phys, int used);
/* The lowest file slot that is ready; there is one. */
uint32_t log__slot_take(struct log *log);
/* No extent may be begun: the table of extents has no number left; or there is
** no room to note its file slot either. */
int log__numbers_full(const struct log *log);
int log__is_full(const struct log *log);

/* ---- log_valid.c, for emb_check ------------------------------------------ */

/* L1 and L2: the positions are in order, the open pages above them.  Under the
** flush lock. */
int log_valid(struct log *log);
/* The same, and the tables of extents and of file slots agree; under the flush
** lock and ckpt_lock, or alone. */
int log_file_slots_valid(struct log *log);

#endif
