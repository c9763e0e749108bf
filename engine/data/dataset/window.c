/* SPDX-License-Identifier: MIT
**
** window.c -- reads a file from beginning to end, a megabyte at a time, with as
** much of it in memory as its longest record needs.
*/
#include "engine/data/emb_data.h"
#include "samples.h"

#include "engine/base/env/env.h"

#include <string.h>

#define WINDOW_BYTES ((size_t)1 << 20)

int samples__window_open(struct samples_window *window, const char *path,
                         int hashes, emb_err *err) {
  struct env *env = env_default();
  struct env_about about;
  memset(window, 0, sizeof *window);
  window->env = env;
  window->path = path;
  int os = env->open(env, path, ENV_READ | ENV_FOLLOW, &window->file);
  if (os) {
    window->file = NULL;
    return samples__cannot_open(os, path, err);
  }
  os = env->about(env, window->file, NULL, &about);
  if (os) {
    return err_os(err, EMB_IOERR, os, "cannot stat %s", path);
  }
  window->size = about.bytes;
  window->capacity = 2 * WINDOW_BYTES;
  window->buffer = env->resize(env, NULL, window->capacity);
  window->hash = env->allocate(env, sizeof *window->hash);
  if (window->buffer == NULL || window->hash == NULL) {
    return err_set(err, EMB_NOMEM, "out of memory");
  }
  window->hashes = hashes;
  return XXH3_64bits_reset(window->hash) == XXH_OK
             ? EMB_OK
             : err_set(err, EMB_NOMEM, "out of memory");
}

void samples__window_close(struct samples_window *window) {
  struct env *env = window->env;
  if (window->file) {
    env->close(env, window->file);
  }
  if (env) {
    env->release(env, window->buffer);
    env->release(env, window->hash);
  }
  memset(window, 0, sizeof *window);
}

static int samples_window_grow(struct samples_window *window, size_t need,
                               emb_err *err) {
  size_t capacity = window->capacity;
  while (capacity < need + WINDOW_BYTES) {
    capacity *= 2;
  }
  if (capacity == window->capacity) {
    return EMB_OK;
  }
  uint8_t *buffer = window->env->resize(window->env, window->buffer, capacity);
  if (buffer == NULL) {
    return err_set(err, EMB_NOMEM, "out of memory");
  }
  window->buffer = buffer;
  window->capacity = capacity;
  return EMB_OK;
}

int samples__window_need(struct samples_window *window, uint64_t need,
                         emb_err *err) {
  size_t have = samples__window_have(window);
  if (need <= have || window->next == window->size) {
    return EMB_OK;
  }
  if (need > (uint64_t)EMB_SAMPLES_RECORD_MAX + WINDOW_BYTES) {
    return err_set(err, EMB_MISMATCH,
                   "%s: the record at byte %llu has more than %u bytes",
                   window->path, (unsigned long long)window->offset,
                   EMB_SAMPLES_RECORD_MAX);
  }
  memmove(window->buffer, samples__window_at(window), have);
  window->at = 0;
  window->filled = have;
  int rc = samples_window_grow(window, (size_t)need, err);
  while (!rc && window->filled < need && window->next < window->size) {
    uint64_t left = window->size - window->next;
    size_t room = window->capacity - window->filled;
    size_t n = left < room ? (size_t)left : room;
    uint8_t *to = window->buffer + window->filled;
    n = n < WINDOW_BYTES ? n : WINDOW_BYTES;
    if (window->stop && window->stop(window->arg)) {
      return err_set(err, EMB_INTERRUPT, "interrupted");
    }
    int os = window->env->read(window->env, window->file, to, n, window->next);
    if (os) {
      return err_os(err, EMB_IOERR, os, "cannot read %s", window->path);
    }
    if (window->hashes) {
      (void)XXH3_64bits_update(window->hash, to, n);
    }
    window->filled += n;
    window->next += n;
    emb_check(samples__window_valid(window));
  }
  return rc;
}
