/* SPDX-License-Identifier: MIT
**
** snap.h -- private to snap.c (taking, dropping, listing) and snap_read.c: a
** snapshot being read.
**
** LOOKUP  The entries in the file are ordered by hash_key, and the file has the
**         count for each of 1024 partitions.  Hashes are spread evenly, so the
**         guessed block of a key is nearly always right: one read of 64 KiB, or
**         none, since 16 blocks are kept.  Who takes them in order reads up to
**         eight at once.
** SCAN    In log order, an extent at a time.  A bit for each slot says whether
**         it belongs to the snapshot; the bits are set in one pass over the
**         entries when the first scan begins.
** PAGES   All records named lie below the mark, where nothing is written any
**         more.  A page is taken from the log's memory, or read from disk.  An
**         extent may be moved in the file during the read: the page's checksum
**         shows that.
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
  int listed; /* the owner's; else this reader's own */

  struct block *blocks; /* SNAP_BLOCKS; block n is at n % SNAP_BLOCKS */
  uint64_t numbers[SNAP_BLOCKS]; /* 1 + number of the block, 0: none */
  char *page;                    /* of a lookup */

  uint8_t *bits;            /* slots of all extents */
  char *extent;             /* the current extent */
  uint64_t at;              /* number of the extent in the snapshot */
  uint32_t row;             /* next slot in it, counted from its first page */
  int have;                 /* extent is filled */
  struct snap_ahead *ahead; /* or NULL */
};

/* Is an open snapshot whose last call did not fail as described here?  Only in
** self-checking builds. */
int snap_valid(const emb_snap *snap);
/* Returns the next row; *value points to its stored form until the next call,
** or is NULL at the end. */
int snap__next(emb_snap *snap, int64_t *key, uint64_t *version,
               const char **value);
/* Returns the next extent instead: its number, a flag for each of its first
** pages that holds rows of the snapshot (other pages are undefined), and its
** bytes, valid until the next call; *bytes is NULL at the end.  The pages have
** no checksum. */
int snap_next_extent(emb_snap *snap, uint64_t *number,
                     uint8_t wanted[SNAP_PAGES_MAX], uint32_t *pages,
                     char **bytes);
/* Skips the next extent. */
void snap_pass_extent(emb_snap *snap);
/* Returns the page of the row last returned by snap__next. */
uint64_t snap__page(const emb_snap *snap);
/* Makes the scan return only what is chosen from now on; by default it returns
** everything. */
int snap__choose_none(emb_snap *snap);
int snap__choose(emb_snap *snap, uint64_t address);
/* Finds the number of an address's bit.  Bits are in scan order. */
int snap__bit(const emb_snap *snap, uint64_t address, uint64_t *bit);
/* Returns a block of entries, valid until eight others have been read. */
int snap_entries(emb_snap *snap, uint64_t number, const struct block **out);
/* snap_bits.c */
uint64_t snap__bit_bytes(const emb_snap *snap);
static inline int snap_has_bit(const emb_snap *snap, uint64_t bit) {
  return snap->bits[bit / 8] >> bit % 8 & 1;
}
/* Marks the pages of an extent that hold chosen slots; returns the number of
** pages up to the last of these. */
uint32_t snap__wanted(const emb_snap *snap, uint64_t at,
                      uint8_t wanted[SNAP_PAGES_MAX]);
/* Returns the first of these pages that is wanted and damaged, or 0. */
uint64_t snap__bad_page(const emb_snap *snap, uint64_t page, uint32_t pages,
                        const char *bytes, const uint8_t *wanted);

/* snap_ahead.c */
/* Makes the scan read ahead from now on, if a queue can be opened for that. */
void snap_hurry(emb_snap *snap);
/* Was the current extent read ahead?  Then its pages are in snap->extent. */
int snap__ahead_take(emb_snap *snap, uint32_t pages, const uint8_t *wanted);
void snap__ahead_fill(emb_snap *snap);
void snap__ahead_free(emb_snap *snap);

/* Finds the log address of a key; 0: the key is absent. */
int snap__find(emb_snap *snap, int64_t key, uint64_t *address);
/* Reads the stored values of n rows, skipping address 0.  `use` gets the row's
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

/* Reads the whole snapshot; EMB_CORRUPT: the error says what is wrong. */
int snap_verify(emb_session *s, const char *name);

#endif
