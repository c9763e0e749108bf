/* SPDX-License-Identifier: MIT
**
** spill.c -- see spill.h.  Memory holds the newest items.  When it is full, its
** older half is appended to the file; when it is empty, half of its capacity is
** read back.  So alternating pushes and pops at the edge do not write every
** time.
*/
#include "spill.h"

#include <stdio.h>
#include <string.h>

#define SPILL_BYTES (128u * 1024)
#define SPILL_PATH_MAX 4096

void spill_init(struct spill *spill, struct env *env, const char *dir,
                uint32_t item_bytes) {
  memset(spill, 0, sizeof *spill);
  spill->env = env;
  spill->dir = dir;
  spill->item_bytes = item_bytes;
  spill->room = SPILL_BYTES / item_bytes;
}

void spill_free(struct spill *spill) {
  if (spill->env) {
    if (spill->file) {
      spill->env->close(spill->env, spill->file);
    }
    spill->env->release(spill->env, spill->memory);
    spill_init(spill, spill->env, spill->dir, spill->item_bytes);
  }
}

int spill_file(struct env *env, const char *dir, struct env_file **file,
               emb_err *err) {
  char path[SPILL_PATH_MAX];
  uint64_t name;
  *file = NULL;
  int os = env->random(env, &name, sizeof name);
  int n = snprintf(path, sizeof path, "%s/spill-%016llx", dir,
                   (unsigned long long)name);
  if (!os && n >= SPILL_PATH_MAX) {
    return err_set(err, EMB_CANTOPEN, "path too long: %s", dir);
  }
  if (!os) {
    os = env->open(env, path, ENV_WRITE | ENV_CREATE | ENV_EXCLUSIVE, file);
  }
  if (!os) {
    env->unlink(env, path);
    return EMB_OK;
  }
  *file = NULL;
  return err_os(err, EMB_CANTOPEN, os, "cannot create %s", path);
}

int spill_push(struct spill *spill, const void *item, emb_err *err) {
  if (!spill->memory) {
    spill->memory = spill->env->resize(spill->env, NULL,
                                       (size_t)spill->room * spill->item_bytes);
    if (!spill->memory) {
      return err_set(err, EMB_NOMEM, "out of memory");
    }
  }
  if (spill->above == spill->room) {
    int rc = spill->file
                 ? EMB_OK
                 : spill_file(spill->env, spill->dir, &spill->file, err);
    if (rc) {
      return rc;
    }
    uint32_t half = spill->room / 2;
    size_t bytes = (size_t)half * spill->item_bytes;
    int os = spill->env->write(spill->env, spill->file, spill->memory, bytes,
                               spill->below * spill->item_bytes);
    if (os) {
      return err_os(err, EMB_IOERR, os, "cannot write a spill file in %s",
                    spill->dir);
    }
    spill->below += half;
    spill->above -= half;
    memmove(spill->memory, spill->memory + bytes,
            (size_t)spill->above * spill->item_bytes);
  }
  memcpy(spill->memory + (size_t)spill->above * spill->item_bytes, item,
         spill->item_bytes);
  spill->above++;
  emb_assert(spill->above <= spill->room);
  return EMB_OK;
}

int spill_pop(struct spill *spill, void *item, emb_err *err) {
  emb_assert(spill_count(spill) > 0);
  if (spill->above == 0) {
    uint64_t half = spill->room / 2;
    uint32_t n = (uint32_t)(spill->below < half ? spill->below : half);
    uint64_t from = (spill->below - n) * spill->item_bytes;
    int os = spill->env->read(spill->env, spill->file, spill->memory,
                              (size_t)n * spill->item_bytes, from);
    if (os) {
      return err_os(err, EMB_IOERR, os, "cannot read a spill file in %s",
                    spill->dir);
    }
    spill->below -= n;
    spill->above = n;
  }
  spill->above--;
  memcpy(item, spill->memory + (size_t)spill->above * spill->item_bytes,
         spill->item_bytes);
  return EMB_OK;
}
