/* SPDX-License-Identifier: MIT
**
** chain.c -- see chain.h.
*/
#include "chain.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "manifest.h"

static uint64_t sum_of(const struct core *core, const struct chain *chain) {
  return hash_sum((const char *)chain + 8, sizeof *chain - 8, core->salt, 0);
}

static int is_valid(const struct core *core, const struct chain *chain) {
  return memcmp(chain->magic, CHAIN_MAGIC, sizeof chain->magic) == 0 &&
         chain->format == CHAIN_FORMAT &&
         memchr(chain->name, 0, sizeof chain->name) &&
         chain->sum == sum_of(core, chain);
}

static void path_of(char *to, const struct core *core, const char *name) {
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
  path_of(path, core, CHAIN_NAME);
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
  if (!is_valid(core, chain)) {
    memset(chain, 0, sizeof *chain);
    return err_set(err, EMB_CORRUPT,
                   "%s is damaged: the next file must hold a whole table",
                   path);
  }
  return EMB_OK;
}

int chain_check(const struct chain *chain, const struct pack_head *head,
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
    return err_set(err, EMB_MISMATCH,
                   "%s comes from another table than what was restored before",
                   path);
  }
  if (chain->from != chain->to) {
    return chain->to == head->end.id
               ? EMB_OK
               : err_set(err, EMB_GAP,
                         "the file that leads to '%s' was not applied to its "
                         "end: apply it again before %s",
                         chain->name, path);
  }
  if (chain->to == head->base.id || chain->to == head->end.id) {
    return EMB_OK; /* the latter was applied already: it changes nothing */
  }
  return err_set(err, EMB_GAP,
                 "%s begins at '%s', the table is at '%s': what leads from one "
                 "to the other is missing",
                 path, head->base_name, chain->name);
}

static int write_file(struct core *core, const char *path,
                      const struct chain *chain) {
  struct env *env = core->env;
  struct env_file *file;
  env->unlink(env, path); /* of one that was cut off */
  int os = env->open(env, path, ENV_WRITE | ENV_CREATE | ENV_EXCLUSIVE, &file);
  if (os) {
    return os;
  }
  os = env->write(env, file, chain, sizeof *chain, 0);
  os = os ? os : env->sync(env, file);
  env->close(env, file);
  return os;
}

static int save(struct core *core, struct chain *chain, emb_err *err) {
  struct env *env = core->env;
  char path[PATH_BYTES], to[PATH_BYTES];
  chain->sum = sum_of(core, chain);
  if (core->temporary) {
    return EMB_OK;
  }
  path_of(path, core, CHAIN_NEW_NAME);
  path_of(to, core, CHAIN_NAME);
  int os = write_file(core, path, chain);
  os = os ? os : env->rename(env, path, to);
  os = os ? os : env->sync_dir(env, core->dir);
  if (os) {
    env->unlink(env, path);
  }
  return os ? err_os(err, EMB_IOERR, os, "cannot write %s", to) : EMB_OK;
}

int chain_begin(struct core *core, struct chain *chain,
                const struct pack_head *head, emb_err *err) {
  struct chain next = {.format = CHAIN_FORMAT,
                       .from = chain->from,
                       .to = head->end.id,
                       .number = head->number};
  if (head->base.id && chain->to == head->end.id) {
    next.from = chain->from == chain->to ? head->base.id : chain->from;
  } else if (head->base.id == 0) {
    next.from = 0;
  }
  memcpy(next.magic, CHAIN_MAGIC, sizeof next.magic);
  memcpy(next.uuid, head->uuid, sizeof next.uuid);
  memcpy(next.name, head->name, sizeof next.name);
  int rc = EMB_SEED(113) ? EMB_OK : save(core, &next, err);
  if (!rc) {
    *chain = next;
  }
  return rc;
}

/* If that fails, too, the chain goes on to know of both. */
void chain_undo(struct core *core, struct chain *chain,
                const struct chain *before) {
  struct chain old = *before;
  if (before->to == 0 && !core->temporary) {
    char path[PATH_BYTES];
    path_of(path, core, CHAIN_NAME);
    if (core->env->unlink(core->env, path) == 0 &&
        core->env->sync_dir(core->env, core->dir) == 0) {
      *chain = old;
    }
  } else if (save(core, &old, NULL) == EMB_OK) {
    *chain = old;
  }
}

int chain_end(struct core *core, struct chain *chain, emb_err *err) {
  chain->from = chain->to;
  return save(core, chain, err);
}
