/* SPDX-License-Identifier: MIT
**
** load.c -- loads the indexes from their file and brings them up to date; see
** saved.h.
**
** 1  curves     of the recall, and the queries that were asked
** 2  centres    and the number of lists.  From here on observers remove keys
**               from the set being built, and recent rows are put into it
** 3  lists      as saved
** 4  bits       of rows that were in the wrong list
** 5  keys       of the store's index, part by part.  A key missing from the
**               lists becomes recent; a key above the mark or with its bit set
**               becomes dirty
** 6  strangers  keys in the lists that are not in the store's index die
**
** Events are recorded from the start, so a row added or changed during the load
** is found either by its event or in step 5.  A row removed before its list was
** read is among the strangers.
*/
#include <errno.h>
#include <string.h>

#include "engine/emb.h"
#include "engine/storage/kernel/store_file.h"
#include "index.h"

/* Groups of entries in a piece. */
#define PIECE_GROUPS 64

/* ---- the file ------------------------------------------------------------ */

static void index_file_path(const struct core *core, char *path) {
  (void)path_join(path, PATH_BYTES, core->dir, NEAREST_NAME, NULL);
}

static int bad_index_file(const struct core *core, emb_err *err,
                          const char *what, uint64_t number) {
  char path[PATH_BYTES];
  index_file_path(core, path);
  return err_set(err, EMB_CORRUPT, "%s: block %llu is damaged%s", path,
                 (unsigned long long)number, what);
}

/* Reads block `number` and some that follow into memory, and checks them. */
static int load_blocks(struct core *core, struct loading *l, uint64_t number) {
  struct env *env = core->env;
  uint64_t n = l->blocks_all - number;
  n = n < BLOCKS_BUFFER ? n : BLOCKS_BUFFER;
  int os =
      env->read(env, l->file, l->blocks, n * BLOCK_BYTES, number * BLOCK_BYTES);
  if (os) {
    return err_os(&l->why, EMB_IOERR, os, "cannot read %s/" NEAREST_NAME,
                  core->dir);
  }
  count_add(&core->counters.read_bytes, n * BLOCK_BYTES);
  for (uint64_t i = 0; i < n; i++) {
    if (!blocks_valid(&l->blocks[i], core->salt, number + i) &&
        !EMB_SEED(SEED_NEIGHBOURS_FILE_UNCHECKED)) {
      return bad_index_file(core, &l->why, "", number + i);
    }
    if (l->blocks[i].kind !=
        (number + i ? BLOCK_NEAREST : BLOCK_NEAREST_HEAD)) {
      return bad_index_file(core, &l->why, ": another kind", number + i);
    }
  }
  l->first = number;
  l->filled = n;
  return EMB_OK;
}

/* Does the head match the file's length, and are its numbers possible? */
static int head_fits(const struct saved_head *head, uint64_t blocks) {
  uint64_t bytes = head->bits / 8;
  if (head->count > EMB_SEGMENTS_MAX || !head->bits || head->bits % 64 ||
      (head->bits & (head->bits - 1)) || head->bits > UINT64_C(1) << 40) {
    return 0;
  }
  for (uint32_t i = 0; i < head->count; i++) {
    const struct saved_part *part = &head->parts[i];
    struct ivf_form form;
    if (part->dim < 1 || part->dim > EMB_DIM_MAX || part->bits > 8 ||
        part->centres < 1 || part->shells < 1 || part->shells > SHELLS_MAX ||
        part->centres > LISTS_MAX / part->shells || part->asked > ASKED_KEPT ||
        part->groups > UINT32_MAX) {
      return 0;
    }
    ivf_form_make(&form, part->dim, part->bits, part->metric);
    bytes +=
        sizeof(struct recall_curve) +
        ((uint64_t)part->asked + part->centres) * part->dim * sizeof(float) +
        part->centres * (2 * (uint64_t)part->shells - 1) * sizeof(float) +
        part->groups * saved_group_bytes(form.words, form.marks);
  }
  return bytes == head->bytes &&
         blocks == 1 + (bytes + STREAM_BYTES - 1) / STREAM_BYTES;
}

/* EMB_CANTOPEN: there is no file. */
static int open_index_file(struct core *core, struct loading *l) {
  struct env *env = core->env;
  char path[PATH_BYTES];
  uint64_t bytes = 0;
  index_file_path(core, path);
  int os = env->open(env, path, ENV_READ | ENV_DIRECT, &l->file);
  if (os) {
    l->file = NULL;
    return err_os(&l->why, os == ENOENT ? EMB_CANTOPEN : EMB_IOERR, os,
                  "cannot open %s", path);
  }
  l->blocks = env->map(env, BLOCKS_BUFFER * sizeof *l->blocks, 0);
  if (!l->blocks) {
    return err_set(&l->why, EMB_NOMEM, "out of memory");
  }
  os = env->size(env, l->file, &bytes);
  if (os) {
    return err_os(&l->why, EMB_IOERR, os, "cannot read %s", path);
  }
  l->blocks_all = bytes / BLOCK_BYTES;
  if (bytes % BLOCK_BYTES || !bytes) {
    return bad_index_file(core, &l->why, ": the file is truncated",
                          l->blocks_all);
  }
  int rc = load_blocks(core, l, 0);
  if (rc) {
    return rc;
  }
  memcpy(&l->head, l->blocks[0].u.bytes, sizeof l->head);
  if (memcmp(l->head.uuid, core->uuid, sizeof l->head.uuid) != 0) {
    return bad_index_file(core, &l->why, ": of another store", 0);
  }
  if (memcmp(l->head.magic, SAVED_MAGIC, sizeof l->head.magic) != 0) {
    return EMB_MISMATCH;
  }
  return head_fits(&l->head, l->blocks_all)
             ? EMB_OK
             : bad_index_file(core, &l->why, ": its head does not match", 0);
}

static void close_index_file(struct core *core, struct loading *l) {
  struct env *env = core->env;
  if (l->blocks) {
    env->unmap(env, l->blocks, BLOCKS_BUFFER * sizeof *l->blocks);
  }
  if (l->file) {
    env->close(env, l->file);
  }
  l->blocks = NULL;
  l->file = NULL;
}

/* Reads the next n bytes of the stream. */
static int load_bytes(struct core *core, struct loading *l, void *to,
                      size_t n) {
  char *out = to;
  while (n) {
    uint64_t number = 1 + l->at / STREAM_BYTES, at = l->at % STREAM_BYTES;
    size_t m = n < STREAM_BYTES - at ? n : (size_t)(STREAM_BYTES - at);
    if (number < l->first || number >= l->first + l->filled) {
      int rc = load_blocks(core, l, number);
      if (rc) {
        return rc;
      }
    }
    memcpy(out, l->blocks[number - l->first].u.bytes + at, m);
    out += m;
    n -= m;
    l->at += m;
  }
  return EMB_OK;
}

/* For emb_verify: checks every block. */
static int check_index_file(struct core *core, const char *name, emb_err *err) {
  struct loading l = {0};
  (void)name;
  int rc = open_index_file(core, &l);
  for (uint64_t at = 1; !rc && at < l.blocks_all; at += BLOCKS_BUFFER) {
    rc = load_blocks(core, &l, at);
  }
  close_index_file(core, &l);
  if (rc == EMB_CANTOPEN || rc == EMB_MISMATCH) {
    return EMB_OK;
  }
  return rc ? err_set(err, rc, "%s", l.why.text) : EMB_OK;
}

const struct store_file file_nearest = {
    .name = NEAREST_NAME, .temporary = NEAREST_NEW, .check = check_index_file};

/* ---- the beginning ------------------------------------------------------- */

/* Does the file have exactly the indexes that the store should have?  parts:
** per segment. */
static int is_asked_for(const struct nearest_index *x,
                        const struct saved_head *head,
                        const struct saved_part *parts[EMB_SEGMENTS_MAX]) {
  const struct schema *schema = &x->store->core.schema;
  uint32_t n = 0;
  for (uint32_t k = 0; k < schema->count; k++) {
    const struct segment *of = &schema->segments[k];
    const struct saved_part *part = &head->parts[n];
    if (!index_has(x, k)) {
      continue;
    }
    if (n++ == head->count || part->segment != k || part->dim != of->dim ||
        part->bits != (uint32_t)of->index.code || part->metric != of->metric ||
        (of->index.lists > 0 && part->centres != (uint32_t)of->index.lists)) {
      return 0;
    }
    parts[k] = part;
  }
  return n == head->count;
}

static int load_memory(struct nearest_index *x,
                       const struct saved_part *const *parts) {
  struct loading *l = &x->loading;
  struct core *core = &x->store->core;
  struct env *env = core->env;
  uint64_t rows = (uint64_t)atomic_load(&core->count);
  size_t words = 0, marks = 0;
  x->making = (struct building){0};
  x->making.set = build__new_set(x, rows, parts);
  for (uint32_t k = 0; x->making.set && k < core->schema.count; k++) {
    const struct ivf_form *form = &x->making.set->ivf[k].form;
    words = form->words > words ? form->words : words;
    marks = form->marks > marks ? form->marks : marks;
  }
  l->group.keys = env->allocate(env, IVF_BLOCK * sizeof(int64_t));
  l->group.words = env->allocate(env, IVF_BLOCK * 4 * (words + 1));
  l->group.marks = env->allocate(env, IVF_BLOCK * (marks + 1));
  l->bits = env->allocate(env, l->head.bits / 8);
  l->gather.core = core;
  return x->making.set && l->group.keys && l->group.words && l->group.marks &&
                 l->bits && nearest_observe__dirty(x, rows * 2)
             ? EMB_OK
             : err_set(&l->why, EMB_NOMEM, "out of memory");
}

static void note_file(struct nearest_index *x, int rc) {
  enum saved_state state = rc == EMB_OK         ? SAVED_LOADED
                           : rc == EMB_CORRUPT  ? SAVED_DAMAGED
                           : rc == EMB_CANTOPEN ? SAVED_NONE
                           : rc == EMB_MISMATCH ? SAVED_OTHER
                                                : SAVED_UNREADABLE;
  atomic_store(&x->file_state, (int)state);
}

int load__begin(struct nearest_index *x) {
  struct loading *l = &x->loading;
  struct core *core = &x->store->core;
  const struct saved_part *parts[EMB_SEGMENTS_MAX] = {0};
  emb_assert(!l->is_on && !x->making.set);
  *l = (struct loading){.is_on = 1};
  int rc = open_index_file(core, l);
  /* A mark beyond this log's tail belongs to another log. */
  if (!rc && (!is_asked_for(x, &l->head, parts) ||
              l->head.mark > atomic_load(&core->log.tail))) {
    rc = EMB_MISMATCH;
  }
  rc = rc ? rc : load_memory(x, parts);
  rc = rc ? rc : nearest_observe__begin(x);
  if (rc) {
    load__end(x, rc);
  }
  return rc;
}

void load__end(struct nearest_index *x, int rc) {
  struct loading *l = &x->loading;
  struct env *env = x->store->core.env;
  if (!l->is_on) {
    return;
  }
  note_file(x, rc);
  close_index_file(&x->store->core, l);
  env->release(env, l->group.keys);
  env->release(env, l->group.words);
  env->release(env, l->group.marks);
  env->release(env, l->bits);
  env->release(env, l->gather.pairs);
  l->is_on = 0;
  if (rc) {
    x->why = l->why;
    build__end(x);
  } else {
    x->saved_mark = l->head.mark;
    x->saved_rows = l->head.trained_rows;
    x->changed = 0;
    x->is_saved = 1;
  }
}

/* ---- pieces -------------------------------------------------------------- */

static struct ivf *present_part(struct nearest_index *x) {
  struct loading *l = &x->loading;
  return &x->making.set->ivf[l->head.parts[l->part].segment];
}

/* Reads the recall of one index. */
static int load_recall(struct nearest_index *x) {
  struct loading *l = &x->loading;
  struct core *core = &x->store->core;
  struct env *env = core->env;
  const struct saved_part *part = &l->head.parts[l->part];
  struct index_set *set = x->making.set;
  size_t bytes = (size_t)part->asked * part->dim * sizeof(float);
  float *asked = env->allocate(env, bytes + 1);
  if (!asked) {
    return err_set(&l->why, EMB_NOMEM, "out of memory");
  }
  int rc =
      load_bytes(core, l, &set->curves[part->segment], sizeof *set->curves);
  rc = rc ? rc : load_bytes(core, l, asked, bytes);
  if (!rc) {
    set->asked_seen[part->segment] = part->asked;
    asked__set(&x->asked[part->segment], env, asked, part->asked, part->dim);
  }
  env->release(env, asked);
  if (!rc && ++l->part == l->head.count) {
    l->part = 0;
    l->phase++;
  }
  return rc;
}

/* Reads the centres and shells of one index; after the last, makes the set
** visible to observers. */
static int load_centres(struct nearest_index *x) {
  struct loading *l = &x->loading;
  struct ivf *ivf = present_part(x);
  struct core *core = &x->store->core;
  int rc =
      load_bytes(core, l, ivf->centres.rows,
                 (size_t)ivf->centres.count * ivf->form.dim * sizeof(float));
  rc = rc ? rc
          : load_bytes(core, l, ivf->shells.bounds,
                       shells_bounds(&ivf->shells) * sizeof(float));
  rc = rc ? rc
          : load_bytes(core, l, ivf->shells.radii,
                       shells_radii(&ivf->shells) * sizeof(float));
  ivf_restore_form(ivf, l->head.parts[l->part].base);
  if (!rc && ++l->part == l->head.count) {
    l->part = 0;
    l->phase++;
    x->making.set->trained_rows = l->head.trained_rows;
    x->making.set->trained_error = l->head.trained_error;
    atomic_store(&x->sets[SET_MADE], x->making.set);
    epoch_wait(&x->store->core.epoch);
  }
  return rc;
}

static int load_group(struct nearest_index *x, struct ivf *ivf) {
  struct loading *l = &x->loading;
  struct core *core = &x->store->core;
  uint32_t word;
  int rc = load_bytes(core, l, &word, sizeof word);
  l->group.list = word & 0xffff;
  l->group.live = word >> 16;
  rc =
      rc ? rc : load_bytes(core, l, l->group.keys, IVF_BLOCK * sizeof(int64_t));
  rc = rc ? rc
          : load_bytes(core, l, l->group.words,
                       IVF_BLOCK * ivf_code_bytes(&ivf->form));
  rc = rc ? rc
          : load_bytes(core, l, l->group.marks,
                       (size_t)IVF_BLOCK * ivf->form.marks);
  rc = rc ? rc : ivf_restore(ivf, &l->group);
  if (rc == EMB_CORRUPT && !l->why.code) {
    (void)bad_index_file(core, &l->why, ": unknown list", l->first);
  }
  return rc;
}

static int load_lists(struct nearest_index *x) {
  struct loading *l = &x->loading;
  struct ivf *ivf = present_part(x);
  int rc = EMB_OK;
  for (int i = 0;
       !rc && i < PIECE_GROUPS && l->groups < l->head.parts[l->part].groups;
       i++) {
    rc = load_group(x, ivf);
    l->groups++;
  }
  if (!rc && l->groups == l->head.parts[l->part].groups) {
    l->groups = 0;
    if (++l->part == l->head.count) {
      l->phase++;
    }
  }
  return rc;
}

/* ---- mending ------------------------------------------------------------- */

static int is_behind(const struct loading *l, int64_t key) {
  uint64_t bit = hash_key(key) & (l->head.bits - 1);
  return l->bits[bit / 64] >> (bit % 64) & 1;
}

/* Checks the keys of one part of the store's index, and where their records
** are. */
static int mend_keys(struct nearest_index *x) {
  struct loading *l = &x->loading;
  struct core *core = &x->store->core;
  if (l->row == index_parts(&core->index)) {
    l->phase++;
    l->part = 0;
    return EMB_OK;
  }
  int rc = gather_partition(&l->gather, x->s->slot, l->row++);
  for (uint64_t i = 0; !rc && i < l->gather.count; i++) {
    int64_t key = (int64_t)l->gather.pairs[2 * i];
    uint64_t page = layout_page(&core->layout, l->gather.pairs[2 * i + 1]);
    if (!build__has(x, x->making.set, key)) {
      if (!EMB_SEED(SEED_NEIGHBOURS_NOT_MENDED)) {
        nearest_observe__add(x, key);
      }
    } else if ((page >= l->head.mark || is_behind(l, key)) &&
               !EMB_SEED(SEED_NEIGHBOURS_MARK_IGNORED)) {
      nearest_observe__dirty_key(x, key);
    }
  }
  return rc;
}

static int is_in_table(struct nearest_index *x, int64_t key) {
  struct core *core = &x->store->core;
  uint64_t word;
  epoch_enter(&core->epoch, x->s->slot);
  int there = index_find(&core->index, key, hash_key(key), &word) &&
              word_address(word) != 0;
  epoch_leave(x->s->slot);
  return there;
}

/* A key added again during the check is recent. */
static int mend_strangers(struct nearest_index *x, int *done) {
  struct loading *l = &x->loading;
  struct ivf *ivf = present_part(x);
  int64_t keys[IVF_ROWS];
  if (l->list == ivf->lists.count) {
    l->list = 0;
    *done = ++l->part == l->head.count;
    return EMB_OK;
  }
  size_t n = ivf_keys(ivf, l->list, &l->block, keys, IVF_ROWS);
  for (size_t i = 0; i < n; i++) {
    if (!is_in_table(x, keys[i])) {
      (void)ivf_remove(ivf, keys[i]);
    }
  }
  l->list += l->block == 0;
  return EMB_OK;
}

int load__piece(struct nearest_index *x, int *done) {
  struct loading *l = &x->loading;
  int rc = EMB_OK;
  emb_assert(l->is_on);
  *done = 0;
  switch (l->phase) {
  case LOAD_CURVES:
    rc = load_recall(x);
    break;
  case LOAD_CENTRES:
    rc = load_centres(x);
    break;
  case LOAD_LISTS:
    rc = load_lists(x);
    break;
  case LOAD_BITS:
    rc = load_bytes(&x->store->core, l, l->bits, l->head.bits / 8);
    l->phase++;
    break;
  case LOAD_KEYS:
    rc = mend_keys(x);
    break;
  default:
    rc = mend_strangers(x, done);
    break;
  }
  if (rc) {
    load__end(x, rc);
  }
  return rc;
}
