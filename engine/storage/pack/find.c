/* SPDX-License-Identifier: MIT
**
** find.c -- finding a key in a pack, and verifying a whole pack; see pack.h.
**
** Entries are ordered by hash_key, and hashes are spread evenly.  So the block
** of a key can be guessed, and the guess is nearly always right or off by one.
*/
#include "read.h"

static int64_t key_at(const struct pack_reader *r, uint64_t i) {
  int64_t key;
  memcpy(&key, r->plain + i * ENTRY_BYTES, sizeof key);
  return key;
}

static uint64_t row_at(const struct pack_reader *r, uint64_t i) {
  uint64_t row;
  memcpy(&row, r->plain + i * ENTRY_BYTES + 8, sizeof row);
  return row;
}

static uint64_t find_hash_at(const struct pack_reader *r, uint64_t i) {
  return hash_key(key_at(r, i));
}

/* Searches the block in memory, which has n entries. */
static uint64_t pack_find_in(const struct pack_reader *r, uint64_t n,
                             uint64_t hash) {
  uint64_t low = 0, high = n;
  while (low < high) {
    uint64_t middle = (low + high) / 2;
    if (find_hash_at(r, middle) < hash) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < n && find_hash_at(r, low) == hash ? row_at(r, low) : UINT64_MAX;
}

int pack_find(struct pack_reader *r, int64_t key, uint64_t *row, emb_err *err) {
  uint64_t hash = hash_key(key), low = 0, high = read_index_blocks(r);
  uint64_t guess = (uint64_t)((unsigned __int128)hash * high >> 64);
  *row = UINT64_MAX;
  while (low < high) {
    int rc = read__plain(r, PACK_ENTRIES, guess, err);
    if (rc) {
      return rc;
    }
    uint64_t n = r->end.entries - guess * PACK_ENTRIES_MAX;
    n = n < PACK_ENTRIES_MAX ? n : PACK_ENTRIES_MAX;
    if (hash < find_hash_at(r, 0)) {
      high = guess;
      guess = high - 1;
    } else if (hash > find_hash_at(r, n - 1)) {
      low = guess + 1;
      guess = low;
    } else {
      *row = pack_find_in(r, n, hash);
      break;
    }
  }
  return *row == UINT64_MAX || *row < r->rows
             ? EMB_OK
             : read__bad(r, r->end.index_offset, "a row of the index", err);
}

/* ---- all of it ----------------------------------------------------------- */

static int stop_requested(int (*stop)(void *), void *arg, emb_err *err) {
  return stop && stop(arg) ? err_set(err, EMB_INTERRUPT, "interrupted")
                           : EMB_OK;
}

static int verify_rows(struct pack_reader *r, int (*stop)(void *), void *arg,
                       emb_err *err) {
  const struct pack_row *row;
  uint64_t rows[PACK_OPS] = {0};
  int rc;
  pack_seek(r, 0);
  r->have = UINT64_MAX;
  r->next = 0;
  r->next_offset = sizeof r->head;
  do {
    rc = r->row % r->head.block_rows ? EMB_OK : stop_requested(stop, arg, err);
    rc = rc ? rc : pack_next(r, &row, err);
    if (!rc && row) {
      rows[row->op]++;
    }
  } while (!rc && row);
  if (!rc && (memcmp(rows, r->end.rows, sizeof rows) != 0 ||
              r->next_offset != read_rows_end(r))) {
    rc = read__bad(r, r->next_offset, "its rows do not match its count", err);
  }
  return rc;
}

/* The blocks are contiguous; compares their offsets one by one. */
static int verify_directory(struct pack_reader *r, emb_err *err) {
  uint64_t want = sizeof r->head;
  for (uint64_t b = 0; b < r->end.row_blocks; b++) {
    uint64_t offset;
    struct pack_block block;
    int rc = read__plain(r, PACK_OFFSETS, b / PACK_OFFSETS_MAX, err);
    if (rc) {
      return rc;
    }
    memcpy(&offset, r->plain + b % PACK_OFFSETS_MAX * OFFSET_BYTES,
           OFFSET_BYTES);
    if (offset != want) {
      return read__bad(r, r->end.directory_offset, "a block's place", err);
    }
    int os = r->env->read(r->env, r->file, &block, sizeof block, offset);
    if (os) {
      return err_os(err, EMB_IOERR, os, "cannot read %s", r->path);
    }
    want = offset + sizeof block + block.stored_bytes;
  }
  return EMB_OK;
}

static int verify_index(struct pack_reader *r, emb_err *err) {
  uint64_t before = 0;
  for (uint64_t i = 0; i < r->end.entries; i++) {
    uint64_t at = i % PACK_ENTRIES_MAX;
    int rc = read__plain(r, PACK_ENTRIES, i / PACK_ENTRIES_MAX, err);
    if (rc) {
      return rc;
    }
    if ((i && find_hash_at(r, at) <= before) || row_at(r, at) >= r->rows) {
      return read__bad(r, r->end.index_offset, "its index", err);
    }
    before = find_hash_at(r, at);
  }
  return EMB_OK;
}

int pack_verify(struct pack_reader *r, int (*stop)(void *), void *arg,
                emb_err *err) {
  int rc = verify_rows(r, stop, arg, err);
  rc = rc ? rc : texts__verify(r, stop, arg, err);
  rc = rc ? rc : verify_directory(r, err);
  rc = rc ? rc : verify_index(r, err);
  pack_seek(r, 0);
  return rc;
}
