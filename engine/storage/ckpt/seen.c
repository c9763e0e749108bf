/* SPDX-License-Identifier: MIT
**
** seen.c -- see seen.h.
*/
#include "seen.h"

#include <errno.h>
#include <string.h>

#include "engine/storage/kernel/store_file.h"
#include "engine/emb.h"
#include "manifest.h"

#define MAGIC "EMBSEEN1"

struct head {
  char magic[8];
  char uuid[16];
  char rule[ADMISSION_TEXT_MAX];
  uint64_t bytes; /* of one table */
  uint32_t young; /* which of the two is the younger */
  uint32_t unused;
  uint64_t keys; /* in the younger table */
};

static int counts_requests(const struct core *core) {
  return admission_counts(&core->admission) && !core->temporary;
}

static void seen_path_of(char *to, const struct core *core, const char *name) {
  (void)path_join(to, PATH_BYTES, core->dir, name, NULL);
}

static void seen_describe(struct core *core, struct head *head) {
  memset(head, 0, sizeof *head);
  memcpy(head->magic, MAGIC, sizeof head->magic);
  memcpy(head->uuid, core->uuid, sizeof head->uuid);
  admission_print(&core->schema.admission, head->rule, sizeof head->rule);
  head->bytes = core->admission.bytes;
  admission_state(&core->admission, &head->young, &head->keys);
}

/* ---- writing ------------------------------------------------------------- */

static void seen_write_blocks(struct core *core, struct blocks *w) {
  struct admission *a = &core->admission;
  struct block *head = &w->blocks[0];
  seen_describe(core, (struct head *)(void *)head->u.bytes);
  head->kind = BLOCK_HEAD;
  head->count = 1;
  blocks_finish(w);
  for (size_t at = 0; at < 2 * a->bytes / 16 && !w->os;) {
    struct block *block = &w->blocks[w->filled];
    block->kind = BLOCK_COUNTS;
    block->count = admission_save(a, at, BLOCK_PAIRS, block->u.pairs);
    at += block->count;
    blocks_finish(w);
  }
  blocks_flush(w);
}

static int seen_save(struct core *core, struct epoch_slot *slot, emb_err *err) {
  struct env *env = core->env;
  struct blocks w = {core, NULL, core->salt, NULL, 0, 0, 0};
  char path[PATH_BYTES], to[PATH_BYTES];
  const size_t bytes = (BLOCKS_BUFFER + 1) * sizeof(struct block);
  (void)slot;
  if (!counts_requests(core)) {
    return EMB_OK;
  }
  seen_path_of(path, core, SEEN_NEW);
  seen_path_of(to, core, SEEN_NAME);
  w.os = replace_begin(env, path, ENV_DIRECT, &w.file);
  if (w.os) {
    return err_os(err, EMB_CANTOPEN, w.os, "cannot create %s", path);
  }
  w.blocks = env->map(env, bytes, 0);
  if (w.blocks) {
    seen_write_blocks(core, &w);
    env->unmap(env, w.blocks, bytes);
  }
  int os = replace_seal(env, path, w.file, w.blocks ? w.os : ENOMEM);
  os = os ? os : replace_name(env, path, to, NULL);
  return os ? err_os(err, EMB_IOERR, os, "cannot write %s", path) : EMB_OK;
}

/* ---- reading ------------------------------------------------------------- */

struct seen_reading {
  struct core *core;
  struct env_file *file;
  struct block *block;
  struct head want;
  int load;
  emb_err *err;
  char path[PATH_BYTES];
};

static int bad_block(struct seen_reading *r, uint64_t number) {
  return err_set(r->err, EMB_CORRUPT, "%s: block %llu is damaged", r->path,
                 (unsigned long long)number);
}

static int seen_read_block(struct seen_reading *r, uint64_t number) {
  struct env *env = r->core->env;
  int os = env->read(env, r->file, r->block, BLOCK_BYTES, number * BLOCK_BYTES);
  if (os) {
    return err_os(r->err, EMB_IOERR, os, "cannot read %s", r->path);
  }
  count_add(&r->core->counters.read_bytes, BLOCK_BYTES);
  return blocks_valid(r->block, r->core->salt, number) ? EMB_OK
                                                       : bad_block(r, number);
}

/* A file for another rule is not damaged: sets *other. */
static int seen_read_head(struct seen_reading *r, struct head *head,
                          int *other) {
  uint64_t bytes = 0, pairs = 2 * r->want.bytes / 16;
  uint64_t blocks = 1 + (pairs + BLOCK_PAIRS - 1) / BLOCK_PAIRS;
  int os = r->core->env->size(r->core->env, r->file, &bytes);
  int rc = os ? err_os(r->err, EMB_IOERR, os, "cannot read %s", r->path)
              : seen_read_block(r, 0);
  if (rc) {
    return rc;
  }
  memcpy(head, r->block->u.bytes, sizeof *head);
  if (r->block->kind != BLOCK_HEAD ||
      memcmp(head->magic, r->want.magic, sizeof head->magic) != 0 ||
      memcmp(head->uuid, r->want.uuid, sizeof head->uuid) != 0) {
    return bad_block(r, 0);
  }
  *other = memcmp(head->rule, r->want.rule, sizeof head->rule) != 0;
  if (!*other && (head->bytes != r->want.bytes || head->young > 1 ||
                  bytes != blocks * BLOCK_BYTES)) {
    return bad_block(r, 0);
  }
  return EMB_OK;
}

static int read_tables(struct seen_reading *r) {
  size_t pairs = 2 * r->want.bytes / 16;
  uint64_t number = 1;
  for (size_t at = 0; at < pairs; number++) {
    int rc = seen_read_block(r, number);
    if (rc) {
      return rc;
    }
    if (r->block->kind != BLOCK_COUNTS || !r->block->count ||
        r->block->count > pairs - at) {
      return bad_block(r, number);
    }
    if (r->load) {
      admission_load(&r->core->admission, at, r->block->count,
                     r->block->u.pairs);
    }
    at += r->block->count;
  }
  return EMB_OK;
}

static int read_file(struct core *core, int load, emb_err *err) {
  struct env *env = core->env;
  struct seen_reading r = {.core = core, .load = load, .err = err};
  struct head head;
  int other = 0;
  if (!counts_requests(core)) {
    return EMB_OK;
  }
  seen_path_of(r.path, core, SEEN_NAME);
  seen_describe(core, &r.want);
  int os = env->open(env, r.path, ENV_READ | ENV_DIRECT, &r.file);
  if (os) {
    return os == ENOENT
               ? EMB_OK
               : err_os(err, EMB_CANTOPEN, os, "cannot open %s", r.path);
  }
  r.block = env->map(env, BLOCK_BYTES, 0);
  int rc = r.block ? seen_read_head(&r, &head, &other)
                   : err_set(err, EMB_NOMEM, "out of memory");
  if (!rc && !other) {
    rc = read_tables(&r);
  }
  if (!rc && !other && load &&
      !admission_resume(&core->admission, head.young, head.keys)) {
    rc = bad_block(&r, 0);
  }
  if (r.block) {
    env->unmap(env, r.block, BLOCK_BYTES);
  }
  env->close(env, r.file);
  return rc;
}

/* Counting resumes from the file if it exists and is valid; otherwise it starts
** over.  Soon only the metric shows that a file was unusable: the next
** checkpoint replaces the file. */
static int seen_load(struct core *core, int recovered, emb_err *err) {
  int rc = read_file(core, 1, err);
  (void)recovered;
  if (rc) {
    admission_clear(&core->admission);
  }
  if (rc == EMB_NOMEM || rc == EMB_OK) {
    return rc;
  }
  err_clear(err);
  count_add(&core->counters.admission_damaged, 1);
  return EMB_OK;
}

static int seen_check(struct core *core, const char *name, emb_err *err) {
  (void)name;
  return read_file(core, 0, err);
}

const struct store_file file_seen = {.name = SEEN_NAME,
                                     .temporary = SEEN_NEW,
                                     .load = seen_load,
                                     .save = seen_save,
                                     .check = seen_check};
