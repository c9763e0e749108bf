/* SPDX-License-Identifier: MIT
**
** order.c -- rows in key order, from an unordered index.
**
** The next block of keys is selected from the index: one pass that keeps the
** smallest keys above the last one delivered.  Keys are only compared with
** keys, so moves and changes during the pass do not matter.  Memory is one
** block; a whole table of n keys takes n / block passes of some ten nanoseconds
** per key.  If the keys fill most of the range, as dense ids do, no selection
** is needed: every number is tried.
*/
#include <stdlib.h>
#include <string.h>

#include "engine/table/rows/get.h"
#include "scan.h"

#define BLOCK_MAX 65536

/* Rows are delivered in ascending order of this value. */
static int64_t order_mirror(const emb_scan *scan, int64_t key) {
  return scan->order == EMB_SCAN_DESC ? ~key : key;
}

struct select {
  emb_scan *scan;
  int64_t low, high; /* mirrored, inclusive; high falls as the block fills */
  int cut;           /* more keys were seen than the block holds */
};

static void swap_keys(int64_t *a, int64_t *b) {
  int64_t t = *a;
  *a = *b;
  *b = t;
}

/* Puts the k < n smallest of n in front (Hoare's selection, in the form of
** Wirth, Algorithms + Data Structures = Programs). */
static void partition_smallest(int64_t *a, uint64_t n, uint64_t k) {
  int64_t low = 0, high = (int64_t)n - 1, at = (int64_t)k;
  while (low < high) {
    int64_t pivot = a[low + (high - low) / 2];
    int64_t i = low, j = high;
    while (i <= j) {
      while (a[i] < pivot) {
        i++;
      }
      while (a[j] > pivot) {
        j--;
      }
      if (i <= j) {
        swap_keys(&a[i++], &a[j--]);
      }
    }
    if (at <= j) {
      high = j;
    } else if (at >= i) {
      low = i;
    } else {
      return;
    }
  }
}

static int ascending_keys(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

static void consider_key(void *arg, int64_t key, uint64_t word) {
  struct select *sel = arg;
  emb_scan *scan = sel->scan;
  (void)word;
  int64_t mirrored = order_mirror(scan, key);
  if (mirrored < sel->low || mirrored > sel->high) {
    return;
  }
  scan->keys[scan->key_count++] = mirrored;
  if (scan->key_count == scan->key_room) {
    partition_smallest(scan->keys, scan->key_count, scan->block);
    scan->key_count = scan->block;
    int64_t top = scan->keys[0];
    for (uint64_t i = 1; i < scan->block; i++) {
      top = scan->keys[i] > top ? scan->keys[i] : top;
    }
    sel->high = top;
    sel->cut = 1;
  }
}

static int key_memory(emb_scan *scan) {
  struct env *env = scan->s->core->env;
  uint64_t room = scan->block * 2;
  if (room > scan->key_room) {
    void *larger = env->resize(env, scan->keys, room * sizeof *scan->keys);
    if (!larger) {
      return session_error(scan->s, EMB_NOMEM, "out of memory");
    }
    scan->keys = larger;
    scan->key_room = room;
  }
  return EMB_OK;
}

/* First mirrored key to deliver; 0 if no key above the last is possible. */
static int next_low(const emb_scan *scan, int64_t *low) {
  if (!scan->started) {
    *low = scan->order == EMB_SCAN_DESC ? ~scan->hi : scan->lo;
    return 1;
  }
  if (scan->last == INT64_MAX) {
    return 0;
  }
  *low = scan->last + !EMB_SEED(SEED_SCAN_KEY_TWICE);
  return 1;
}

static int64_t turned_high(const emb_scan *scan) {
  return scan->order == EMB_SCAN_DESC ? ~scan->lo : scan->hi;
}

/* Takes the numbers [low, high] themselves, at most a block. */
static void take_all(emb_scan *scan, int64_t low, int64_t high) {
  uint64_t left = (uint64_t)high - (uint64_t)low;
  uint64_t n = left < scan->block - 1 ? left + 1 : scan->block;
  for (uint64_t i = 0; i < n; i++) {
    scan->keys[i] = (int64_t)((uint64_t)low + i);
  }
  scan->key_count = n;
  scan->exhausted = n == left + 1;
}

/* Fills scan->keys with the next block, in order of delivery. */
static int order_fill(emb_scan *scan) {
  struct core *core = scan->s->core;
  int64_t low, high = turned_high(scan);
  scan->key_at = scan->key_count = 0;
  if (scan->exhausted || !next_low(scan, &low) || low > high) {
    scan->exhausted = 1;
    return EMB_OK;
  }
  if (scan->started && scan->block < BLOCK_MAX) {
    scan->block *= 8;
  }
  int rc = key_memory(scan);
  if (rc) {
    return rc;
  }
  uint64_t span = (uint64_t)high - (uint64_t)low;
  uint64_t keys = index_count(&core->index);
  if (span < 256 || span / 2 < keys) {
    take_all(scan, low, high);
  } else {
    struct select sel = {scan, low, high, 0};
    for (uint32_t p = 0; p < index_parts(&core->index); p++) {
      index_each(&core->index, p, consider_key, &sel);
    }
    if (scan->key_count > scan->block) {
      partition_smallest(scan->keys, scan->key_count, scan->block);
      scan->key_count = scan->block;
      sel.cut = 1;
    }
    qsort(scan->keys, scan->key_count, sizeof *scan->keys, ascending_keys);
    scan->exhausted = !sel.cut;
  }
  if (scan->key_count) {
    scan->started = 1;
    scan->last = scan->keys[scan->key_count - 1];
  }
  return EMB_OK;
}

int order__next(emb_scan *scan, size_t max, const emb_rows *to, size_t *n) {
  emb_session *s = scan->s;
  /* Not to->keys, which another process may be able to write. */
  int64_t keys[256];
  uint8_t found[256];
  uint32_t dim = s->core->layout.dim;
  while (*n < max) {
    if (scan->key_at == scan->key_count) {
      int rc = session_interrupted(s);
      rc = rc ? rc : order_fill(scan);
      if (rc || scan->key_count == 0) {
        return *n ? EMB_OK : rc; /* first deliver these rows, then the error */
      }
    }
    size_t m = scan->key_count - scan->key_at;
    m = m < max - *n ? m : max - *n;
    m = m < sizeof found ? m : sizeof found;
    for (size_t i = 0; i < m; i++) {
      keys[i] = order_mirror(scan, scan->keys[scan->key_at + i]);
    }
    emb_rows part = scan_rows_from(scan, to, *n);
    part.found = found;
    int rc = to->vectors || to->versions || to->tracks
                 ? get_peek(s, keys, m, &part)
                 : local_exists(s, keys, m, found);
    if (rc) {
      return *n ? EMB_OK : rc;
    }
    scan->key_at += m;
    size_t kept = *n;
    for (size_t i = *n; i < *n + m; i++) {
      if (!found[i - *n]) {
        continue;
      }
      to->keys[kept] = keys[i - *n];
      if (kept != i) {
        if (to->vectors) {
          memcpy(to->vectors + kept * dim, to->vectors + i * dim,
                 dim * sizeof(float));
        }
        if (to->versions) {
          to->versions[kept] = to->versions[i];
        }
        if (to->tracks) {
          to->tracks[kept] = to->tracks[i];
        }
      }
      kept++;
    }
    *n = kept;
  }
  return EMB_OK;
}

/* ---- keys alone ---------------------------------------------------------- */

struct part_keys {
  emb_scan *scan;
  int too_many;
};

static void keep_key(void *arg, int64_t key, uint64_t word) {
  struct part_keys *p = arg;
  emb_scan *scan = p->scan;
  uint64_t seen = txn_word(scan->s, key, hash_key(key), word & ~WORD_LATCH);
  if (!seen || key < scan->lo || key > scan->hi) {
    return;
  }
  if (scan->key_count == scan->key_room) {
    p->too_many = 1;
  } else {
    scan->keys[scan->key_count++] = key;
  }
}

/* Collects the next partition's keys; allocates before taking its lock. */
static int fill_keys(emb_scan *scan) {
  struct index *index = &scan->s->core->index;
  struct part_keys p = {scan, 0};
  do {
    uint64_t count = atomic_load_explicit(&index->parts[scan->part].count,
                                          memory_order_relaxed);
    scan->block = count + 64;
    int rc = key_memory(scan);
    if (rc) {
      return rc;
    }
    scan->key_at = scan->key_count = 0;
    p.too_many = 0;
    epoch_enter(&scan->s->core->epoch, scan->s->slot);
    index_each(index, scan->part, keep_key, &p);
    epoch_leave(scan->s->slot);
  } while (p.too_many);
  scan->part++;
  return EMB_OK;
}

int keys__next(emb_scan *scan, size_t max, int64_t *keys, size_t *n) {
  while (*n < max) {
    if (scan->key_at < scan->key_count) {
      keys[(*n)++] = scan->keys[scan->key_at++];
      continue;
    }
    if (scan->part == index_parts(&scan->s->core->index)) {
      return EMB_OK;
    }
    int rc = session_interrupted(scan->s);
    rc = rc ? rc : fill_keys(scan);
    if (rc) {
      return *n ? EMB_OK : rc;
    }
  }
  return EMB_OK;
}
