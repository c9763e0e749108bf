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
** An extent is the unit of disk space and of memory.  Extent numbers grow with
** time; the place of an extent in the file (phys) is a table entry, so freed
** space in the middle of the file is reused.  Pages are handed out one at a
** time to two streams: immediate writes, and the transaction.
**
** SPACE     An extent begins only in a ready file slot: one whose blocks the
**           file system has allocated (log_make_ready).  So a full disk is
**           detected before a row is accepted, not when the row is written.
**           Some ready file slots are kept for pages that lead to space being
**           freed: deletions, the ends of transactions, records moved by
**           compaction.  Until all kept slots are ready no other page begins.
**
** INVARIANT L1  synced <= flushed <= safe <= read_only <= tail (page numbers)
**           L2  Pages below read_only are closed: none of their slots is
**               handed out any more.  No session writes to pages below safe.
**           L3  Pages reach the file in order, so recovery finds a prefix of
**               the pages written.
**           L4  extent.live = number of committed words whose log address is
**               in the extent.  It never grows once the extent is full.
**           L5  The file slot of an extent in memory has its blocks.
** FAILURE   A failed write or sync fails the log permanently (`failed`); reads
**           go on.  A write that finds no space does not (L5 does not hold
**           where a file system cannot reserve blocks): its pages stay in
**           memory, and are written once there is space.
** THREADS   log_take: any session inside an epoch (mutex `lock`, short).
**           log_seal, log_flush, log_page_out, log_restore: one at a time,
**           outside any epoch (core's flush lock).  Others: see each function.
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

/* log_take: no frame, table entry or file slot is free.  Leave the epoch, let
** the flush work (core_wait_room), and retry. */
#define LOG_ROOM (-2)

/* Maximum number of ready file slots, and bounds of the number kept: a
** sixteenth of the extents in use, within these bounds. */
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
  /* Memory of the extent, or NULL.  Release stores by log_take, log_restore and
  ** log_page_out; acquire loads by sessions inside an epoch. */
  _Atomic(char *) frame;
  /* Place in the file, EXTENT_NOWHERE if the number is not in use; inverted, so
  ** that a zeroed table has no places.  See extent_phys.  The highest bit: the
  ** extent may hold deletions (EXTENT_TOMBS).  Changed under the log's lock. */
  _Atomic uint32_t phys_inverted;
  /* See L4; relaxed, because it is only a hint. */
  _Atomic int32_t live;
  /* In a table whose rows expire: the time before which no record in the extent
  ** is due, in seconds since 1970; 0: unknown, EXTENT_NEVER: no record is due.
  ** Lowered when a slot is filled, set by retention/expire.c; relaxed. */
  _Atomic uint32_t due;
  /* The value of log.paged_out when the extent left memory; 0: it has not left
  ** since the store was opened.  Written by log_page_out, relaxed. */
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
/* Puts the number in use, at phys, or (EXTENT_NOWHERE) out of use. */
static inline void extent_set_phys(struct extent *extent, uint32_t phys) {
  atomic_store_explicit(&extent->phys_inverted, ~phys & EXTENT_PHYS_MASK,
                        memory_order_release);
}
/* Records that the extent has moved within the file, unchanged. */
static inline void extent_replace(struct extent *extent, uint32_t phys) {
  uint32_t tombs =
      atomic_load_explicit(&extent->phys_inverted, memory_order_relaxed) &
      EXTENT_TOMBS;
  atomic_store_explicit(&extent->phys_inverted,
                        (~phys & EXTENT_PHYS_MASK) | tombs,
                        memory_order_release);
}
/* May the extent hold deletions? */
static inline int extent_tombs(const struct extent *extent) {
  return (atomic_load_explicit(&extent->phys_inverted, memory_order_acquire) &
          EXTENT_TOMBS) != 0;
}
static inline void extent_set_tombs(struct extent *extent) {
  atomic_fetch_or_explicit(&extent->phys_inverted, EXTENT_TOMBS,
                           memory_order_release);
}

/* Maximum span of extent numbers, from the oldest extent to the tail: 1.5
** gigabytes if every number were in use.  Unused numbers take no memory, so the
** memory used is proportional to the contents of the files.  Compaction keeps a
** log of n extents below 8 n (retention/compact.c), but moves nothing that a
** snapshot needs. */
#define LOG_SPAN_MAX (UINT64_C(1) << 26)
/* Above this span rows are no longer written.  The other half is for
** compaction, which must write to free the oldest extents, and for recovery,
** which skips numbers. */
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
  uint64_t gone; /* first index file that does not name it; 0: the next one */
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
  _Atomic uint64_t last_tomb; /* newest page of tombstones */
  uint64_t safe;              /* flush lock */
  _Atomic uint64_t flushed;   /* written under the flush lock */
  _Atomic uint64_t synced;    /* written under the flush lock */
  uint64_t page_out_next;     /* flush lock: lowest extent perhaps in memory */
  _Atomic uint32_t resident;  /* frames that hold extents */
  _Atomic uint32_t paged_out; /* extents paged out; flush lock, relaxed */
  /* First error of a write or sync, or the reason why writing ended; never
  ** cleared.  Written by log_give_up, under lock, after `why`, which does not
  ** change from then on; read by any thread. */
  _Atomic int failed;
  char why[256]; /* "what is wrong; what to do" */

  /* Ring of extents, index number & mask; replaced only while the epoch is
  ** closed.  Mapped: takes no memory until touched. */
  struct extent *table;
  uint64_t table_mask;
  /* Lowest number in use: written under lock, read anywhere; it only grows. */
  _Atomic uint64_t first;
  uint64_t *phys_used; /* bitmap */
  uint32_t phys_words;
  uint32_t phys_end;  /* file slots in the file */
  uint32_t phys_free; /* file slots below phys_end not in use */
  uint32_t phys_hint;
  struct log_left *left; /* file slots that extents have left */
  uint32_t left_count, left_room;
  int withheld; /* free file slots are not used: log_withhold */
  /* Held while file slots get blocks or the file is truncated; taken before
  ** `lock`, never inside an epoch. */
  pthread_mutex_t file_slot_lock;
  uint32_t ready[LOG_READY_MAX]; /* file slots; lock, as the next two */
  uint32_t ready_count;
  uint32_t keep;     /* number of ready slots kept */
  uint32_t keep_min; /* LOG_KEEP_MIN, or 0: none; set before */
  /* The last request for blocks failed; any thread, relaxed. */
  _Atomic int full;
  /* Counts the writes of log_flush that found no space; any thread, relaxed. */
  _Atomic uint32_t refused;
  /* Something was written outside log_flush, so the next sync must not be
  ** skipped. */
  _Atomic int moved;
};

/* Creates an empty log; table and bitmap start small. */
int log_init(struct log *log, struct env *env, struct epoch *epoch,
             struct frames *frames, const struct layout *layout);
void log_free(struct log *log);

static inline struct extent *log_extent(const struct log *log,
                                        uint64_t number) {
  return &log->table[number & log->table_mask];
}
/* Span of extent numbers, from the oldest extent to the tail's. */
static inline uint64_t log_span(const struct log *log) {
  uint64_t first = atomic_load_explicit(&log->first, memory_order_relaxed);
  uint64_t tail = atomic_load_explicit(&log->tail, memory_order_relaxed) >>
                  log->layout->extent_bits;
  return tail > first ? tail - first : 0;
}
/* Returns the record at a log address, or NULL if its extent is not in
** memory. */
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
/* Returns the page, or NULL if it is not in memory. */
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
/* May the record at this address be changed in place?  For assertions, inside
** the epoch in which log_mutable said yes: its page may have been sealed since,
** but not written. */
static inline int log_unwritten(const struct log *log, uint64_t address) {
  uint64_t page = layout_page(log->layout, address);
  return page >= atomic_load(&log->flushed) && page < atomic_load(&log->tail);
}
/* L4: a word is counted for its extent before it points there, and until after
** it points elsewhere, so the count is never too low. */
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
/* Notes that a record at this address is due at `due`; call inside an epoch. */
static inline void log_due(struct log *log, uint64_t address, uint32_t due) {
  _Atomic uint32_t *at =
      &log_extent(log, layout_extent(log->layout, address))->due;
  uint32_t first = atomic_load_explicit(at, memory_order_relaxed);
  while (due < first &&
         !atomic_compare_exchange_weak_explicit(
             at, &first, due, memory_order_relaxed, memory_order_relaxed)) {
  }
}
/* Returns the offset of a page in the file; UINT64_MAX if its extent was
** freed. */
uint64_t log_offset(const struct log *log, uint64_t page);

/* A run of consecutive slots (PAGE_DATA) or items (other kinds) in one page of
** a stream, and its purpose. */
struct log_run {
  uint64_t page; /* set by log_take, along with slot and left */
  uint32_t slot; /* the next one */
  uint32_t left;
  int stream;   /* LOG_IMMEDIATE or LOG_TXN */
  int kept;     /* a record is only being moved: may use the kept file slots */
  uint64_t txn; /* of LOG_TXN */
};
/* Hands out up to `want` more slots or items.  kind may carry flags above
** PAGE_FLAG_SHIFT, which then apply to the whole page; kinds other than
** PAGE_DATA may also use the kept file slots.  A new page starts zeroed.
** LOG_ROOM, EMB_FULL (address space used up). */
int log_take(struct log *log, struct log_run *run, uint32_t kind,
             uint32_t want);
/* Is a file slot ready for the next extent?  kept: the kept ones count too. */
int log_has_file_slot(struct log *log, int kept);
/* Makes file slots ready, the lowest first, until there are `more` beyond the
** kept ones.  On ENOMEM, ENOSPC or another error of the file system there are
** fewer.  Under file_slot_lock. */
int log_make_ready(struct log *log, uint32_t more);
/* Returns the blocks of one ready file slot, if any, to the file system. */
void log_yield(struct log *log);
/* Closes the stream's page, if it has one. */
void log_close(struct log *log, int stream);
/* Closes the last page of a transaction, with flags; if no page is open, writes
** an empty page that carries them.  LOG_ROOM. */
int log_end_txn(struct log *log, uint32_t flags, uint64_t txn);
/* Closes the stream's page if it is not above `page`. */
void log_close_older(struct log *log, int stream, uint64_t page);
/* Fills the tail's extent with empty pages if it is at or above file slot
** `phys`, so that the next extent can start lower.  Returns 1 if it added
** pages. */
int log_pad(struct log *log, uint64_t phys);
/* Skips one page, *page, leaving it empty: the tail grows.  LOG_ROOM. */
int log_skip_page(struct log *log, uint64_t *page);
/* Closes the open pages.  Returns the tail: from now on slots are handed out
** from this page on.  *first (or NULL): the lowest page that may exist. */
uint64_t log_cut(struct log *log, uint64_t *first);
/* Returns a lower bound for the address of the stream's next record. */
uint64_t log_position(struct log *log, int stream);

/* Makes all pages below `page`, or below the tail if that is lower, immutable,
** and returns that bound.  Everything written after the call returns is at or
** above the bound, and so is everything written after something that is. */
uint64_t log_seal(struct log *log, uint64_t page);
/* Writes the sealed pages out; *wrote: bytes written.  After EMB_FULL without
** `failed` the call may be repeated.  Any other failed write sets `failed`,
** closes the queue and sets it to NULL. */
int log_flush(struct log *log, struct env_queue **queue, uint64_t *wrote,
              emb_err *err);
/* As log_flush, but for a few extents only, below page `upto`. */
int log_flush_piece(struct log *log, struct env_queue **queue, uint64_t upto,
                    uint64_t *wrote, emb_err *err);
/* Makes everything flushed durable.  May run concurrently with a flush. */
int log_sync(struct log *log, emb_err *err);
/* Chooses up to n (at most LOG_CHOOSE_MAX) written extents to page out: those
** with the fewest live records, the oldest first among equals, since records
** copied to the tail no longer need memory here.  open: first extent of an open
** transaction, or 0. */
#define LOG_CHOOSE_MAX 64
uint32_t log_choose(struct log *log, uint64_t open, uint64_t *numbers,
                    uint32_t n);
/* Pages these extents out and frees their frames. */
void log_page_out(struct log *log, const uint64_t *numbers, uint32_t n);
/* Puts the extent back into memory, in this frame, which holds the extent's
** content in the file: all pages were written and checked, and their stamps
** settled.  Returns 0 if the extent was freed, or is in memory again already;
** the caller then keeps the frame. */
int log_restore(struct log *log, uint64_t number, char *frame);
/* Frees the extent with this number: disk space and frame. */
void log_drop(struct log *log, uint64_t number);
/* Moving an extent to a lower file slot (retention/shorten.c, under core's
** ckpt_lock).  log_reserve_lower: takes a free lower file slot, and sets the
** byte offsets of the old and the new slot; returns 0 if there is none.
** log_move: switches to the copy, which is complete; the old file slot is kept
** until log_free_left, and after EMB_NOMEM the new one is free again.
** log_cancel_move: frees the new file slot. */
int log_reserve_lower(struct log *log, uint64_t number, uint64_t *from,
                      uint64_t *to);
int log_move(struct log *log, uint64_t number, uint64_t to);
void log_cancel_move(struct log *log, uint64_t to);
/* Called when a checkpoint that names the new file slots is durable, with the
** index file of this generation; 0: there is no new index file.  Frees the file
** slots that no index file from `needed` on names, and returns their number. */
uint64_t log_free_left(struct log *log, uint64_t generation, uint64_t needed);
/* on: other processes may still read free file slots, so new extents are placed
** beyond the present end of the file. */
void log_withhold(struct log *log, int on);
/* Shrinks the file to the last extent in use or kept ready file slot; punches
** free file slots if asked.  Under core's ckpt_lock and flush lock: nothing is
** written during the call. */
int log_trim(struct log *log, int punch, emb_err *err);
/* Makes room for one more in the tables of extents and file slots; call outside
** any epoch.  EMB_FULL: the log spans LOG_SPAN_MAX. */
int log_grow_table(struct log *log);
int log_table_full(struct log *log);

/* Recovery: puts an extent at a known file slot.  The caller is alone, and the
** number must be less than LOG_SPAN_MAX above the first. */
int log_adopt(struct log *log, uint64_t number, uint32_t phys);
/* Recovery: grows the table to hold this number before the tail gets there: a
** number beyond the table would be taken for the number whose entry it
** shares. */
int log_fit_table(struct log *log, uint64_t number);
/* Recovery: the next page will be the first of extent `number`. */
void log_start_at(struct log *log, uint64_t number);
/* As log_start_at, for a log that was closed cleanly at page `tail`: continues
** in the partly filled extent. */
int log_resume(struct log *log, uint64_t tail, emb_err *err);
/* Empties the log and returns all frames; the caller is alone. */
void log_reset(struct log *log);
uint64_t log_extents_used(const struct log *log);

/* Ends all writing, for this reason if it is the first. */
void log_give_up(struct log *log, int rc, const char *why);
/* Ends all writing after a failed write or sync; returns the error. */
int log_fail(struct log *log, emb_err *err, int os_error, const char *what);

/* ---- log_slots.c --------------------------------------------------------- */

/* Under log.lock.  Makes room to record whether this file slot is in use:
** EMB_NOMEM. */
int log__slot_room(struct log *log, uint32_t phys);
void log__slot_set(struct log *log, uint32_t phys, int used);
/* Takes the lowest ready file slot; there must be one. */
uint32_t log__slot_take(struct log *log);
/* log__numbers_full: no number is left in the table of extents, so no extent
** may begin; log__is_full: as before, or no room is left to record a file
** slot. */
int log__numbers_full(const struct log *log);
int log__is_full(const struct log *log);

/* ---- log_valid.c, for emb_check ------------------------------------------ */

/* L1 and L2: are the positions in order, and the open pages above them?  Under
** the flush lock. */
int log_valid(struct log *log);
/* As log_valid; and do the tables of extents and of file slots agree?  Under
** the flush lock and ckpt_lock, or alone. */
int log_file_slots_valid(struct log *log);

#endif
