/* SPDX-License-Identifier: MIT
**
** snap.h -- private to snap.c (taking, dropping, listing) and snap_read.c: a
** snapshot that is being read.
**
** LOOKUP  The entries in the file are ordered by hash_key, and it says how many
**         each of 1024 partitions has.  Hashes are spread evenly, so the
**         block of a key is guessed right nearly always: one read of 64 KiB, or
**         none, since 16 blocks are kept.
** SCAN    In the order of the log, an extent at a time.  Which of its slots
**         belong to the snapshot is a bit for each, set in one pass over the
**         entries when the first scan begins.
** PAGES   All that is named lies below the mark, where nothing is written any
**         more.  It is taken from the log's memory, or read from disk.  An
**         extent may be moved in the file meanwhile: the page's checksum shows
**         that.
*/
#ifndef EMB_SNAPSHOT_SNAP_H
#define EMB_SNAPSHOT_SNAP_H

#include "snapshot.h"
#include "engine/table/session/session.h"

#define SNAP_BLOCKS 16
#define SNAP_PAGES_MAX (EXTENT_BYTES_TARGET / PAGE_UNIT)

struct snap_ahead;

struct emb_snap {
  struct link *link; /* first: NULL */
  emb_session *s;
  struct snapshot *snapshot;
  int listed; /* it is the owner's; else this reader's own */

  struct block *blocks; /* SNAP_BLOCKS; block n is at n % SNAP_BLOCKS */
  uint64_t numbers[SNAP_BLOCKS]; /* 1 + number of the block, 0: none */
  char *page;                    /* of a lookup */

  uint8_t *bits;            /* slots of all extents */
  char *extent;             /* the present one */
  uint64_t at;              /* number of the extent in the snapshot */
  uint32_t row;             /* next slot in it, counted from its first page */
  int have;                 /* extent is filled */
  struct snap_ahead *ahead; /* or NULL */
};

/* The next row; *value points to its stored form until the next call, or is
** NULL at the end. */
int snap__next(emb_snap *snap, int64_t *key, uint64_t *version,
               const char **value);
/* The next extent instead: its number, which of its first pages hold rows of
** the snapshot (the others mean nothing), and its bytes until the next call;
** *bytes is NULL at the end.  The pages have no checksum. */
int snap_next_extent(emb_snap *snap, uint64_t *number,
                     uint8_t wanted[SNAP_PAGES_MAX], uint32_t *pages,
                     char **bytes);
/* The next one is not needed. */
void snap_pass_extent(emb_snap *snap);
/* Page of the row that snap__next gave. */
uint64_t snap__page(const emb_snap *snap);
/* The scan will give only what is chosen from now on; without this all. */
int snap__choose_none(emb_snap *snap);
int snap__choose(emb_snap *snap, uint64_t address);
/* Number of an address's bit.  The order of bits is that of the scan. */
int snap__bit(const emb_snap *snap, uint64_t address, uint64_t *bit);
/* A block of the entries, valid until the sixteenth other one. */
int snap_entries(emb_snap *snap, uint64_t number, const struct block **out);
/* snap_bits.c */
uint64_t snap__bit_bytes(const emb_snap *snap);
static inline int snap_has_bit(const emb_snap *snap, uint64_t bit) {
  return snap->bits[bit / 8] >> bit % 8 & 1;
}
/* The pages of an extent that hold something chosen, and the number of those up
** to the last one. */
uint32_t snap__wanted(const emb_snap *snap, uint64_t at,
                      uint8_t wanted[SNAP_PAGES_MAX]);
/* The first of these pages that is wanted and damaged, or 0. */
uint64_t snap__bad_page(const emb_snap *snap, uint64_t page, uint32_t pages,
                        const char *bytes, const uint8_t *wanted);

/* snap_ahead.c */
/* From now on the scan reads ahead, if there can be a queue for that. */
void snap_hurry(emb_snap *snap);
/* Was the present extent read ahead?  Then its pages are in snap->extent. */
int snap__ahead_take(emb_snap *snap, uint32_t pages, const uint8_t *wanted);
void snap__ahead_fill(emb_snap *snap);
void snap__ahead_free(emb_snap *snap);

/* Log address of a key, 0 if it is not there. */
int snap__find(emb_snap *snap, int64_t key, uint64_t *address);
/* Stored values of n rows; address 0: nothing is done.  use gets the row's
** number, its version and its value. */
struct snap_row {
  uint64_t address;
  int64_t key;
  size_t row;
};
int snap_read_rows(emb_snap *snap, struct snap_row *rows, size_t n,
                   void (*use)(void *arg, size_t row, uint64_t version,
                               const char *value),
                   void *arg);

/* Reads it as a whole: EMB_CORRUPT says what is wrong. */
int snap_verify(emb_session *s, const char *name);

#endif
