/* SPDX-License-Identifier: MIT
**
** chain.c -- see chain.h.
*/
#include "chain.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/storage/kernel/store_file.h"
#include "engine/storage/ckpt/manifest.h"

static uint64_t chain_sum_of(const struct core *core,
                             const struct chain *chain) {
  return hash_sum((const char *)chain + 8, sizeof *chain - 8, core->salt, 0);
}

static int chain_is_valid(const struct core *core, const struct chain *chain) {
  return memcmp(chain->magic, CHAIN_MAGIC, sizeof chain->magic) == 0 &&
         chain->format == CHAIN_FORMAT &&
         memchr(chain->name, 0, sizeof chain->name) &&
         chain->sum == chain_sum_of(core, chain);
}

static void chain_path_of(char *to, const struct core *core, const char *name) {
  snprintf(to, PATH_BYTES, "%s/%s", core->dir, name);
}

int chain_read(struct core *core, struct chain *chain, emb_err *err) {
  struct env *env = core->env;
  char path[PATH_BYTES];
  struct env_file *file;
  if (core->temporary) {
    return EMB_OK;
  }
  memset(chain, 0, sizeof *chain);
  chain_path_of(path, core, CHAIN_NAME);
  int os = env->open(env, path, ENV_READ, &file);
  if (os == ENOENT) {
    return EMB_OK;
  }
  if (!os) {
    os = env->read(env, file, chain, sizeof *chain, 0);
    env->close(env, file);
  }
  if (os) {
    return err_os(err, EMB_IOERR, os, "cannot read %s", path);
  }
  if (!chain_is_valid(core, chain)) {
    memset(chain, 0, sizeof *chain);
    return err_set(err, EMB_CORRUPT,
                   "%s is damaged: the next file must hold a whole table",
                   path);
  }
  return EMB_OK;
}

int chain__check(const struct chain *chain, const struct pack_head *head,
                 const char *path, emb_err *err) {
  int same = memcmp(chain->uuid, head->uuid, sizeof chain->uuid) == 0;
  if (head->base.id == 0) {
    return EMB_OK;
  }
  if (chain->to == 0) {
    return err_set(err, EMB_GAP,
                   "%s begins at '%s', and the table was never restored to "
                   "that",
                   path, head->base_name);
  }
  if (!same) {
    return err_set(
        err, EMB_MISMATCH,
        "%s comes from another table than the files restored before it", path);
  }
  if (chain->from != chain->to) {
    return chain->to == head->end.id
               ? EMB_OK
               : err_set(err, EMB_GAP,
                         "the file that leads to '%s' was not applied "
                         "completely; apply it again before %s",
                         chain->name, path);
  }
  if (chain->to == head->base.id || chain->to == head->end.id) {
    return EMB_OK; /* that file was applied already: it changes nothing */
  }
  return err_set(err, EMB_GAP,
                 "%s begins at '%s', but the table is at '%s': the files "
                 "between are missing",
                 path, head->base_name, chain->name);
}

static int chain_save(struct core *core, struct chain *chain, emb_err *err) {
  struct env *env = core->env;
  char path[PATH_BYTES], to[PATH_BYTES];
  chain->sum = chain_sum_of(core, chain);
  if (core->temporary) {
    return EMB_OK;
  }
  chain_path_of(path, core, CHAIN_NEW_NAME);
  chain_path_of(to, core, CHAIN_NAME);
  int os = replace_make(env, path, chain, sizeof *chain);
  os = os ? os : core_replace_name(core, path, to);
  return os ? err_os(err, EMB_IOERR, os, "cannot write %s", to) : EMB_OK;
}

int chain__begin(struct core *core, struct chain *chain,
                 const struct pack_head *head, emb_err *err) {
  struct chain next = {.format = CHAIN_FORMAT,
                       .from = chain->from,
                       .to = head->end.id,
                       .number = head->number};
  emb_assert(debug_is_locked(&core->ckpt_lock));
  if (head->base.id && chain->to == head->end.id) {
    next.from = chain->from == chain->to ? head->base.id : chain->from;
  } else if (head->base.id == 0) {
    next.from = 0;
  }
  memcpy(next.magic, CHAIN_MAGIC, sizeof next.magic);
  memcpy(next.uuid, head->uuid, sizeof next.uuid);
  memcpy(next.name, head->name, sizeof next.name);
  int rc =
      EMB_SEED(SEED_CHAIN_NOT_SAVED) ? EMB_OK : chain_save(core, &next, err);
  if (!rc) {
    *chain = next;
  }
  return rc;
}

/* If the undo fails, too, the chain still names both states. */
void chain_undo(struct core *core, struct chain *chain,
                const struct chain *before) {
  struct chain old = *before;
  emb_assert(debug_is_locked(&core->ckpt_lock));
  if (before->to == 0 && !core->temporary) {
    char path[PATH_BYTES];
    chain_path_of(path, core, CHAIN_NAME);
    if (core->env->unlink(core->env, path) == 0 && core_sync_names(core) == 0) {
      *chain = old;
    }
  } else if (chain_save(core, &old, NULL) == EMB_OK) {
    *chain = old;
  }
}

int chain__end(struct core *core, struct chain *chain, emb_err *err) {
  emb_assert(debug_is_locked(&core->ckpt_lock));
  chain->from = chain->to;
  return chain_save(core, chain, err);
}

static int chain_verify(struct core *core, const char *name, emb_err *err) {
  struct chain chain;
  (void)name;
  return chain_read(core, &chain, err);
}

static const struct store_file file_chain = {
    .name = CHAIN_NAME, .temporary = CHAIN_NEW_NAME, .check = chain_verify};

const struct feature feature_chain = {
    .name = "chain",
    .state_bytes = sizeof(struct chain),
    .files = FEATURE_FILES(&file_chain),
};
