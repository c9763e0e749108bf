/* SPDX-License-Identifier: MIT
**
** save.c -- writes the indexes to their file; see saved.h.
**
** Lists already written may change before the others are written: a key that
** moves in between is in the file twice or not at all, and its bit is set.  On
** loading, its first place counts, or the key is recent.
*/
#include <errno.h>
#include <string.h>

#include "engine/emb.h"
#include "engine/table/jobs/tasks.h"
#include "index.h"

/* Save if more than 1/CHANGED_PART of the rows has changed. */
#define CHANGED_PART 8
/* At most this many bytes per microsecond in the long run, and at most one save
** per SAVE_US. */
#define SAVE_BYTES_US 4
#define SAVE_US UINT64_C(60000000)
/* At most 1/ABOVE_PART of the log may be above the mark. */
#define ABOVE_PART 8

/* ---- the stream ---------------------------------------------------------- */

static void save_block(struct saving *s) {
  struct block *block = &s->to.blocks[s->to.filled];
  block->kind = BLOCK_NEAREST;
  block->count = (uint32_t)(s->used + 15) / 16;
  blocks_finish(&s->to);
  s->used = 0;
}

static void save_bytes(struct saving *s, const void *from, size_t n) {
  const char *at = from;
  s->head.bytes += n;
  while (n) {
    size_t room = STREAM_BYTES - s->used, m = n < room ? n : room;
    memcpy(s->to.blocks[s->to.filled].u.bytes + s->used, at, m);
    s->used += m;
    at += m;
    n -= m;
    if (s->used == STREAM_BYTES) {
      save_block(s);
    }
  }
}

/* ---- contents ------------------------------------------------------------ */

static void save_key(struct saving *s, int64_t key) {
  uint64_t bit = hash_key(key) & (s->head.bits - 1);
  s->bits[bit / 64] |= UINT64_C(1) << (bit % 64);
}

void save__note(struct nearest_index *x, const int64_t *keys, size_t n) {
  x->changed += n;
  for (size_t i = 0; x->saving.is_on && i < n; i++) {
    save_key(&x->saving, keys[i]);
  }
}

/* Sets the bits of rows that may be in the wrong list. */
static void save_behind(struct nearest_index *x) {
  struct saving *s = &x->saving;
  const struct dirty *dirty = atomic_load(&x->dirty);
  int64_t keys[RECENT_KEYS];
  uint64_t number = 0;
  size_t n;
  for (uint64_t i = 0; i < s->head.bits / 64; i++) {
    s->bits[i] =
        atomic_load_explicit(&dirty->words[0][i], memory_order_relaxed) |
        atomic_load_explicit(&dirty->words[1][i], memory_order_relaxed);
  }
  while ((n = nearest_observe__piece(x, &number, keys)) != 0) {
    for (size_t i = 0; i < n; i++) {
      save_key(s, keys[i]);
    }
  }
}

static void save_describe(struct nearest_index *x,
                          const struct index_set *set) {
  struct saved_head *head = &x->saving.head;
  memcpy(head->magic, SAVED_MAGIC, sizeof head->magic);
  memcpy(head->uuid, x->store->core.uuid, sizeof head->uuid);
  head->trained_rows = set->trained_rows;
  head->trained_error = set->trained_error;
  for (uint32_t k = 0; k < x->store->core.schema.count; k++) {
    if (index_has(x, k)) {
      const struct ivf *ivf = &set->ivf[k];
      head->parts[head->count++] = (struct saved_part){
          .segment = k,
          .dim = ivf->form.dim,
          .bits = ivf->form.bits,
          .metric = ivf->form.metric,
          .base = ivf->form.base,
          .centres = ivf->centres.count,
          .shells = ivf->shells.count,
      };
    }
  }
}

static void index_file_paths(struct nearest_index *x, char *made, char *path) {
  struct core *core = &x->store->core;
  (void)path_join(made, PATH_BYTES, core->dir, NEAREST_NEW, NULL);
  (void)path_join(path, PATH_BYTES, core->dir, NEAREST_NAME, NULL);
}

/* ---- pieces -------------------------------------------------------------- */

static void save_note_state(struct nearest_index *x, int os) {
  atomic_store(&x->file_state, !os ? SAVED_WRITTEN
                               : os == ENOSPC || os == EDQUOT
                                   ? SAVED_FULL
                                   : SAVED_UNWRITABLE);
}

static void save_release(struct nearest_index *x) {
  struct saving *s = &x->saving;
  struct env *env = x->store->core.env;
  if (s->to.blocks) {
    env->unmap(env, s->to.blocks, (BLOCKS_BUFFER + 1) * sizeof(struct block));
  }
  env->release(env, s->bits);
  *s = (struct saving){0};
}

static void save_failed(struct nearest_index *x, int os) {
  struct env *env = x->store->core.env;
  save_note_state(x, os);
  x->save_us = env->now_us(env) + SAVE_US;
  save_release(x);
}

static void save_begin(struct nearest_index *x, const struct index_set *set) {
  struct core *core = &x->store->core;
  struct env *env = core->env;
  struct saving *s = &x->saving;
  const struct dirty *dirty = atomic_load(&x->dirty);
  char made[PATH_BYTES], path[PATH_BYTES];
  index_file_paths(x, made, path);
  *s = (struct saving){.began_us = env->now_us(env)};
  s->to = (struct blocks){.core = core, .salt = core->salt, .written = 1};
  /* Before the bits: every change below the mark has been noted by its
  ** writer. */
  s->head.mark = atomic_load(&core->log.synced);
  s->head.bits = dirty->mask + 1;
  s->bits = env->allocate(env, s->head.bits / 8);
  s->to.blocks = env->map(env, (BLOCKS_BUFFER + 1) * sizeof(struct block), 0);
  int os = s->bits && s->to.blocks ? 0 : ENOMEM;
  os = os ? os : replace_begin(env, made, ENV_DIRECT, &s->to.file);
  if (os) {
    save_failed(x, os);
    return;
  }
  save_describe(x, set);
  save_behind(x);
  s->measurements = atomic_load(&x->measured);
  x->changed = 0;
  s->is_on = 1;
}

static void save_list(struct saving *s, struct ivf *ivf, uint32_t list) {
  for (uint32_t block = ivf_first(ivf, list); block != BLOCK_NONE;) {
    struct ivf_saved group;
    block = ivf_saved(ivf, block, &group);
    if (group.live) {
      uint32_t word = group.list | group.live << 16;
      save_bytes(s, &word, sizeof word);
      save_bytes(s, group.keys, IVF_BLOCK * sizeof *group.keys);
      save_bytes(s, group.words, IVF_BLOCK * ivf_code_bytes(&ivf->form));
      save_bytes(s, group.marks, (size_t)IVF_BLOCK * ivf->form.marks);
      s->head.parts[s->part].groups++;
    }
  }
}

/* Without memory for the sample of queries, it is left out. */
static void save_recall(struct nearest_index *x, const struct index_set *set,
                        struct saved_part *part) {
  struct env *env = x->store->core.env;
  float *asked =
      env->allocate(env, (size_t)ASKED_KEPT * part->dim * sizeof *asked);
  part->asked =
      asked ? asked__copy(&x->asked[part->segment], asked, part->dim) : 0;
  save_bytes(&x->saving, &set->curves[part->segment], sizeof *set->curves);
  save_bytes(&x->saving, asked,
             (size_t)part->asked * part->dim * sizeof *asked);
  env->release(env, asked);
}

static void save_shells(struct saving *s, const struct shells *shells) {
  save_bytes(s, shells->bounds, shells_bounds(shells) * sizeof(float));
  save_bytes(s, shells->radii, shells_radii(shells) * sizeof(float));
}

/* Writes the next curve, the next centre, the next list, or all bits. */
static void save_some(struct nearest_index *x, struct index_set *set) {
  struct saving *s = &x->saving;
  if (s->phase == SAVE_BITS) {
    save_bytes(s, s->bits, s->head.bits / 8);
    s->phase++;
  } else if (s->part == s->head.count) {
    s->part = 0;
    s->phase++;
  } else {
    struct saved_part *part = &s->head.parts[s->part];
    struct ivf *ivf = &set->ivf[part->segment];
    if (s->phase == SAVE_CURVES) {
      save_recall(x, set, part);
      s->part++;
    } else if (s->phase == SAVE_CENTRES && s->row < ivf->centres.count) {
      save_bytes(s, centres_row(&ivf->centres, s->row++),
                 ivf->form.dim * sizeof(float));
    } else if (s->phase == SAVE_LISTS && s->row < ivf->lists.count) {
      save_list(s, ivf, s->row++);
    } else {
      if (s->phase == SAVE_CENTRES) {
        save_shells(s, &ivf->shells);
      }
      s->row = 0;
      s->part++;
    }
  }
}

/* Writes the head last: it counts what was written. */
static int save_head(struct nearest_index *x) {
  struct saving *s = &x->saving;
  struct env *env = x->store->core.env;
  struct block *block = &s->to.blocks[0];
  if (s->used) {
    save_block(s);
  }
  blocks_flush(&s->to);
  memset(block, 0, sizeof *block);
  memcpy(block->u.bytes, &s->head, sizeof s->head);
  block->kind = BLOCK_NEAREST_HEAD;
  block->count = 1;
  block->sum = hash_sum((char *)block + 8, BLOCK_BYTES - 8, s->to.salt, 0);
  return s->to.os ? s->to.os
                  : env->write(env, s->to.file, block, BLOCK_BYTES, 0);
}

static void save_end(struct nearest_index *x) {
  struct core *core = &x->store->core;
  struct env *env = core->env;
  struct saving *s = &x->saving;
  char made[PATH_BYTES], path[PATH_BYTES];
  index_file_paths(x, made, path);
  int os = replace_seal(env, made, s->to.file, save_head(x));
  os = os ? os : core_replace_name(core, made, path);
  if (os) {
    save_failed(x, os);
    return;
  }
  uint64_t pause = s->head.bytes / SAVE_BYTES_US;
  pause = pause > SAVE_US ? pause : SAVE_US;
  x->save_us = core->step_mode ? 0 : env->now_us(env) + pause;
  x->saved_mark = s->head.mark;
  x->saved_rows = (uint64_t)atomic_load(&core->count);
  x->is_saved = atomic_load(&x->measured) == s->measurements;
  count_add(&x->saves, 1);
  save_note_state(x, 0);
  save_release(x);
}

int save__piece(struct nearest_index *x, struct index_set *set) {
  struct saving *s = &x->saving;
  emb_assert(set == index_set_at(x, SET_USED));
  if (!s->is_on) {
    save_begin(x, set);
    return s->is_on;
  }
  uint64_t until = s->to.written + BLOCKS_BUFFER;
  while (s->phase != SAVE_DONE && s->to.written < until && !s->to.os) {
    save_some(x, set);
  }
  if (s->phase == SAVE_DONE || s->to.os) {
    save_end(x);
  }
  return 1;
}

void save__end(struct nearest_index *x) {
  struct saving *s = &x->saving;
  struct env *env = x->store->core.env;
  char made[PATH_BYTES], path[PATH_BYTES];
  if (s->is_on) {
    index_file_paths(x, made, path);
    env->close(env, s->to.file);
    if (!atomic_load(&x->store->dropped) &&
        !atomic_load(
            &x->store->core.log.failed)) { /* else perhaps another process's */
      env->unlink(env, made);
    }
    x->changed += s->head.trained_rows; /* the save is still due */
    save_release(x);
  }
}

/* ---- when ---------------------------------------------------------------- */

static int has_changed(struct nearest_index *x) {
  uint64_t rows = (uint64_t)atomic_load(&x->store->core.count);
  return !x->is_saved || x->changed > rows / CHANGED_PART ||
         x->saved_rows / 2 > rows;
}

uint64_t save__rest_us(struct nearest_index *x) {
  struct core *core = &x->store->core;
  uint64_t now = core->env->now_us(core->env);
  uint64_t synced = atomic_load(&core->log.synced);
  uint64_t tail = atomic_load(&core->log.tail);
  uint64_t first = atomic_load(&core->log.first) << core->layout.extent_bits;
  if (!atomic_load(&x->store->own.is_owner) || core->temporary ||
      !has_changed(x) || (x->is_saved && synced <= x->saved_mark) ||
      tail - synced > (tail - first) / ABOVE_PART) {
    return TASKS_NEVER;
  }
  return x->save_us > now ? x->save_us - now : 0;
}
