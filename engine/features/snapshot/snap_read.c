/* SPDX-License-Identifier: MIT
**
** snap_read.c -- reading a snapshot by key and as a whole; see snap.h.
*/
#include <stdlib.h>
#include <string.h>

#include "snap.h"
#include "engine/table/owner/own.h"

static int snap_read_out_of_memory(emb_session *s) {
  return session_error(s, EMB_NOMEM, "out of memory");
}

/* ---- pages --------------------------------------------------------------- */

/* Returns where a page is in the file; UINT64_MAX: this process has no such
** page, because it is a reader, and the snapshot is newer than the checkpoint
** it sees. 0: the page is in memory, and `pages` pages from it on were
** copied. */
static uint64_t snap_read_look(emb_session *s, uint64_t page, uint32_t pages,
                               char *to) {
  struct core *core = s->core;
  const struct layout *l = &core->layout;
  uint64_t offset = UINT64_MAX, number = page >> l->extent_bits;
  epoch_enter(&core->epoch, s->slot);
  if (number >= core->log.first &&
      number <= atomic_load(&core->log.tail) >> l->extent_bits) {
    const char *bytes = log_page(&core->log, page);
    for (uint32_t i = 0; bytes && i < pages; i++) {
      /* A flush may be writing the checksum. */
      rec_copy_out(to + (size_t)i * l->page_bytes + 8,
                   bytes + (size_t)i * l->page_bytes + 8, l->page_bytes - 8);
    }
    offset = bytes ? 0 : log_offset(&core->log, page);
  }
  epoch_leave(s->slot);
  return offset;
}

/* Reads pages of one extent, below the mark, into memory.  wanted: pages that
** must be intact; NULL: all. */
static int snap_read_read_pages(emb_snap *snap, uint64_t page, uint32_t pages,
                                char *to, const uint8_t *wanted) {
  emb_session *s = snap->s;
  struct core *core = s->core;
  const struct layout *l = &core->layout;
  uint64_t before = UINT64_MAX;
  for (int tries = 0;; tries++) {
    uint64_t offset = snap_read_look(s, page, pages, to);
    if (offset == 0) {
      return EMB_OK;
    }
    if (offset == UINT64_MAX) {
      return session_error(s, EMB_BUSY,
                           "snapshot '%s' is newer than the owner's last "
                           "checkpoint, or was dropped",
                           snap->snapshot->name);
    }
    int os = core->env->read(core->env, core->log.file, to,
                             (size_t)pages * l->page_bytes, offset);
    if (os) {
      return err_os(&s->err, EMB_IOERR, os, "cannot read %s/log at offset %llu",
                    core->dir, (unsigned long long)offset);
    }
    count_add(&core->counters.read_pages, pages);
    count_add(&core->counters.read_bytes, (uint64_t)pages * l->page_bytes);
    uint64_t bad = snap__bad_page(snap, page, pages, to, wanted);
    if (!bad) {
      return EMB_OK;
    }
    if (offset == before) {
      return session_error(s, EMB_CORRUPT,
                           "%s/log: page %llu (offset %llu) is damaged, "
                           "snapshot '%s' needs it",
                           core->dir, (unsigned long long)bad,
                           (unsigned long long)offset, snap->snapshot->name);
    }
    before = offset;
    int rc = own_reload(s);
    if (rc) {
      return rc;
    }
  }
}

static const struct rec *rec_in(const struct layout *l, const char *page,
                                uint32_t slot) {
  return (const struct rec *)(const void *)(page + PAGE_HEAD_BYTES +
                                            (size_t)slot * l->rec_bytes);
}

/* ---- by key -------------------------------------------------------------- */

/* Number of blocks to read from this one on.  After the block before it,
** several, to the end of a half of snap->blocks: the reader takes them in
** order, and a read costs as much as 64 KiB more. */
static uint32_t snap_read_ahead(const emb_snap *snap, uint64_t number) {
  uint64_t left = snapshot_entry_blocks(snap->snapshot) - number;
  uint32_t at = (uint32_t)(number % SNAP_BLOCKS);
  int follows = number && snap->numbers[(number - 1) % SNAP_BLOCKS] == number;
  uint32_t most = follows ? SNAP_BLOCKS / 2 - at % (SNAP_BLOCKS / 2) : 1;
  return left < most ? (uint32_t)left : most;
}

int snap_entries(emb_snap *snap, uint64_t number, const struct block **out) {
  emb_session *s = snap->s;
  struct env *env = s->core->env;
  if (!snap->blocks) {
    snap->blocks = env->map(env, SNAP_BLOCKS * sizeof *snap->blocks, 0);
    if (!snap->blocks) {
      return snap_read_out_of_memory(s);
    }
  }
  uint32_t at = (uint32_t)(number % SNAP_BLOCKS);
  *out = &snap->blocks[at];
  if (snap->numbers[at] == number + 1) {
    return EMB_OK;
  }
  uint32_t n = snap_read_ahead(snap, number);
  memset(&snap->numbers[at], 0, n * sizeof *snap->numbers);
  int rc = snapshot__read_entries(s->core, snap->snapshot, number, n,
                                  &snap->blocks[at], &s->err);
  if (rc && n > 1 && !EMB_SEED(SEED_DAMAGE_AHEAD_REPORTED)) {
    err_clear(&s->err); /* it may be one of the others that is damaged */
    n = 1;
    rc = snapshot__read_entries(s->core, snap->snapshot, number, n,
                                &snap->blocks[at], &s->err);
  }
  for (uint32_t i = 0; !rc && i < n; i++) {
    snap->numbers[at + i] = number + i + 1;
  }
  return rc;
}

static uint64_t snap_read_hash_at(const struct block *block, uint64_t i) {
  return hash_key((int64_t)block->u.pairs[i * 2]);
}

int snap__find(emb_snap *snap, int64_t key, uint64_t *address) {
  const uint64_t *starts = snap->snapshot->starts;
  uint64_t hash = hash_key(key);
  uint64_t p = hash >> (64 - INDEX_PART_BITS_MAX);
  uint64_t low = starts[p], high = starts[p + 1]; /* it is in [low, high) */
  uint64_t within = hash << INDEX_PART_BITS_MAX >> 32;
  uint64_t guess = low + ((high - low) * within >> 32);
  *address = 0;
  while (low < high) {
    const struct block *block;
    uint64_t first = guess / BLOCK_PAIRS * BLOCK_PAIRS;
    int rc = snap_entries(snap, guess / BLOCK_PAIRS, &block);
    if (rc) {
      return rc;
    }
    uint64_t from = low > first ? low - first : 0;
    uint64_t to = high - first < block->count ? high - first : block->count;
    if (snap_read_hash_at(block, from) > hash) {
      high = first + from;
    } else if (snap_read_hash_at(block, to - 1) < hash) {
      low = first + to;
    } else {
      while (to - from > 1) {
        uint64_t middle = (from + to) / 2;
        if (snap_read_hash_at(block, middle) <= hash) {
          from = middle;
        } else {
          to = middle;
        }
      }
      if (snap_read_hash_at(block, from) == hash) {
        *address = block->u.pairs[from * 2 + 1];
      }
      break;
    }
    guess = low + (high - low) / 2;
  }
  return EMB_OK;
}

static int snap_read_by_address(const void *a, const void *b) {
  const struct snap_row *x = a, *y = b;
  if (x->address != y->address) {
    return x->address < y->address ? -1 : 1;
  }
  return x->row < y->row ? -1 : x->row > y->row;
}

int snap_read_rows(emb_snap *snap, struct snap_row *rows, size_t n,
                   void (*use)(void *arg, size_t row, uint64_t version,
                               const char *value),
                   void *arg) {
  emb_session *s = snap->s;
  struct env *env = s->core->env;
  const struct layout *l = &s->core->layout;
  uint64_t have = UINT64_MAX;
  int rc = EMB_OK;
  if (!snap->page) {
    snap->page = env->map(env, l->page_bytes, 0);
    if (!snap->page) {
      return snap_read_out_of_memory(s);
    }
  }
  qsort(rows, n, sizeof *rows, snap_read_by_address);
  for (size_t i = 0; !rc && i < n; i++) {
    uint64_t page = layout_page(l, rows[i].address);
    uint32_t slot = layout_slot(l, rows[i].address);
    if (!rows[i].address) {
      continue;
    }
    if (page != have) {
      rc = snap_read_read_pages(snap, page, 1, snap->page, NULL);
      rc = rc ? rc : session_interrupted(s);
      have = page;
    }
    const struct rec *rec = rec_in(l, snap->page, slot);
    if (!rc && (slot >= l->slots || rec->key != rows[i].key)) {
      rc = session_error(s, EMB_CORRUPT,
                         "snapshot '%s': key %lld is not in page %llu",
                         snap->snapshot->name, (long long)rows[i].key,
                         (unsigned long long)page);
    }
    if (!rc) {
      use(arg, rows[i].row, rec_version(rec->stamp), rec->vector);
    }
  }
  return rc;
}

struct snap_read_get {
  emb_session *s;
  float *vectors;
  uint64_t *versions;
};

static void use_row(void *arg, size_t row, uint64_t version,
                    const char *value) {
  struct snap_read_get *g = arg;
  if (g->vectors) {
    session_decode(g->s, g->vectors + row * g->s->core->layout.dim, value);
  }
  if (g->versions) {
    g->versions[row] = version;
  }
}

int local_snapshot_get(emb_snap *snap, const int64_t *keys, size_t n,
                       float *vectors, uint8_t *found, uint64_t *versions) {
  emb_session *s = snap->s;
  struct env *env = s->core->env;
  uint32_t dim = s->core->layout.dim;
  struct snap_read_get g = {s, vectors, versions};
  int rc = session_begin(s);
  if (rc || n == 0) {
    return rc;
  }
  struct snap_row *rows = env->allocate(env, n * sizeof *rows);
  if (!rows) {
    return snap_read_out_of_memory(s);
  }
  for (size_t i = 0; !rc && i < n; i++) {
    rows[i].key = keys[i];
    rows[i].row = i;
    rc = snap__find(snap, keys[i], &rows[i].address);
    if (found) {
      found[i] = rows[i].address != 0;
    }
    if (versions) {
      versions[i] = 0;
    }
    if (vectors && !rows[i].address) {
      memset(vectors + i * dim, 0, dim * sizeof(float));
    }
  }
  if (!rc && (vectors || versions)) {
    rc = snap_read_rows(snap, rows, n, use_row, &g);
  }
  env->release(env, rows);
  return rc;
}

/* ---- all rows ------------------------------------------------------------ */

int snap__choose_none(emb_snap *snap) {
  struct env *env = snap->s->core->env;
  snap->extent = snap->extent
                     ? snap->extent
                     : env->map(env, snap->s->core->layout.extent_bytes, 0);
  snap->bits = env->map(env, snap__bit_bytes(snap), 0);
  return snap->extent && snap->bits ? EMB_OK : snap_read_out_of_memory(snap->s);
}

static int choose_all(emb_snap *snap) {
  uint64_t blocks = snapshot_entry_blocks(snap->snapshot);
  int rc = snap__choose_none(snap);
  for (uint64_t b = 0; !rc && b < blocks; b++) {
    const struct block *block;
    rc = snap_entries(snap, b, &block);
    for (uint32_t i = 0; !rc && i < block->count; i++) {
      rc = snap__choose(snap, block->u.pairs[i * 2 + 1]);
    }
    rc = rc ? rc : session_interrupted(snap->s);
  }
  if (rc && snap->bits) {
    snap->s->core->env->unmap(snap->s->core->env, snap->bits,
                              snap__bit_bytes(snap));
    snap->bits = NULL;
  }
  return rc;
}

static int fill_extent(emb_snap *snap) {
  const struct layout *l = &snap->s->core->layout;
  uint64_t first = snap->snapshot->extents[snap->at][0] << l->extent_bits;
  uint8_t wanted[SNAP_PAGES_MAX];
  uint32_t pages = snap__wanted(snap, snap->at, wanted);
  int rc = EMB_OK;
  if (pages && !(snap->ahead && snap__ahead_take(snap, pages, wanted))) {
    rc = snap_read_read_pages(snap, first, pages, snap->extent, wanted);
  }
  if (snap->ahead) {
    snap__ahead_fill(snap);
  }
  rc = rc ? rc : session_interrupted(snap->s);
  snap->have = !rc;
  return rc;
}

int snap__next(emb_snap *snap, int64_t *key, uint64_t *version,
               const char **value) {
  const struct layout *l = &snap->s->core->layout;
  uint32_t rows = l->extent_pages * l->slots;
  *value = NULL;
  if (!snap->bits) {
    int rc = choose_all(snap);
    if (rc) {
      return rc;
    }
  }
  while (snap->at < snap->snapshot->head.extents) {
    if (!snap->have) {
      int rc = fill_extent(snap);
      if (rc) {
        return rc;
      }
    }
    while (snap->row < rows) {
      uint32_t row = snap->row++;
      if (snap_has_bit(snap, snap->at * rows + row)) {
        const struct rec *rec =
            rec_in(l, snap->extent + (size_t)(row / l->slots) * l->page_bytes,
                   row % l->slots);
        *key = rec->key;
        *version = rec_version(rec->stamp);
        *value = rec->vector;
        emb_check_some(64, snap_valid(snap));
        return EMB_OK;
      }
    }
    snap->row = 0;
    snap->have = 0;
    snap->at++;
  }
  return EMB_OK;
}

int snap_next_extent(emb_snap *snap, uint64_t *number,
                     uint8_t wanted[SNAP_PAGES_MAX], uint32_t *pages,
                     char **bytes) {
  int rc = snap->bits ? EMB_OK : choose_all(snap);
  *bytes = NULL;
  if (rc || snap->at == snap->snapshot->head.extents) {
    return rc;
  }
  rc = fill_extent(snap);
  if (!rc) {
    *number = snap->snapshot->extents[snap->at][0];
    *pages = snap__wanted(snap, snap->at, wanted);
    *bytes = snap->extent;
    snap->have = 0;
    snap->at++;
    emb_check(snap_valid(snap));
  }
  return rc;
}

void snap_pass_extent(emb_snap *snap) {
  emb_assert(!snap->have && !snap->row); /* between two extents */
  snap->at++;
  emb_check(snap_valid(snap));
}

uint64_t snap__page(const emb_snap *snap) {
  const struct layout *l = &snap->s->core->layout;
  return (snap->snapshot->extents[snap->at][0] << l->extent_bits) +
         (snap->row - 1) / l->slots;
}

int local_snapshot_scan(emb_snap *snap, size_t max, int64_t *keys,
                        float *vectors, uint64_t *versions, size_t *n) {
  emb_session *s = snap->s;
  size_t dim = s->core->layout.dim;
  int rc = session_begin(s);
  *n = 0;
  while (!rc && *n < max) {
    uint64_t version;
    const char *value;
    rc = snap__next(snap, &keys[*n], &version, &value);
    if (rc || !value) {
      break;
    }
    if (vectors) {
      session_decode(s, vectors + *n * dim, value);
    }
    if (versions) {
      versions[*n] = version;
    }
    (*n)++;
  }
  return rc && *n ? EMB_OK : rc; /* return the rows read; then the error */
}

void local_snapshot_rewind(emb_snap *snap) {
  snap->at = 0;
  snap->row = 0;
  snap->have = 0;
}
