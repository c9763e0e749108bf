/* SPDX-License-Identifier: MIT
**
** position.c -- see position.h.
*/
#include "position.h"

#include <errno.h>
#include <string.h>

#include "engine/storage/kernel/store_file.h"

static const char position_magic[8] = {'e', 'm', 'b', 'p', 'o', 's', 'i', 't'};

struct position_file {
  uint64_t sum;       /* 000-007 */
  char magic[8];      /* 008-015 */
  uint32_t format;    /* 016-019 */
  uint32_t zero_a;    /* 020-023 */
  uint8_t uuid[16];   /* 024-039 */
  uint8_t source[16]; /* 040-055 */
  uint64_t number;    /* 056-063 */
  uint64_t end;       /* 064-071 */
  char consumer[128]; /* 072-199 */
  uint8_t zero[312];  /* 200-511 */
};
_Static_assert(sizeof(struct position_file) == 512, "position file");
_Static_assert(EMB_CONSUMER_NAME_MAX < 128, "name in the position file");

static uint64_t position_sum_of(const struct core *core,
                                const struct position_file *f) {
  return hash_sum((const char *)f + 8, sizeof *f - 8, core->salt, 0);
}

static int position_is_sound(const struct core *core,
                             const struct position_file *f) {
  static const char zeros[sizeof f->zero];
  size_t n = strnlen(f->consumer, sizeof f->consumer);
  return f->sum == position_sum_of(core, f) &&
         memcmp(f->magic, position_magic, sizeof position_magic) == 0 &&
         f->format == 1 && f->zero_a == 0 &&
         memcmp(f->zero, zeros, sizeof zeros) == 0 &&
         memcmp(f->uuid, core->uuid, sizeof f->uuid) == 0 &&
         n <= EMB_CONSUMER_NAME_MAX && (n == 0) == (f->number == 0) &&
         f->end > 0;
}

int position__read(struct core *core, struct position *position, emb_err *err) {
  struct position_file f;
  int missing;
  memset(position, 0, sizeof *position);
  int rc = small__read(core, POSITION_FILE, &f, sizeof f, &missing, err);
  if (rc == EMB_CANTOPEN && missing) {
    err_clear(err);
    return EMB_OK;
  }
  if (!rc && !position_is_sound(core, &f)) {
    rc =
        err_set(err, EMB_CORRUPT, "%s/" POSITION_FILE " is damaged", core->dir);
  }
  if (!rc) {
    memcpy(position->source, f.source, sizeof f.source);
    memcpy(position->consumer, f.consumer, sizeof position->consumer);
    position->number = f.number;
    position->end = f.end;
  }
  return rc;
}

static int position_forget(struct core *core, emb_err *err) {
  char path[PATH_BYTES];
  int rc = path_join(path, sizeof path, core->dir, POSITION_FILE, err);
  if (rc) {
    return rc;
  }
  int os = core->env->unlink(core->env, path);
  if (os != ENOENT) {
    os = os ? os : core_sync_names(core);
  } else {
    os = 0;
  }
  return os ? err_os(err, EMB_IOERR, os, "cannot remove %s", path) : EMB_OK;
}

int position__write(struct core *core, const struct position *position,
                    emb_err *err) {
  struct position_file f;
  if (!position->end) {
    return position_forget(core, err);
  }
  memset(&f, 0, sizeof f);
  memcpy(f.magic, position_magic, sizeof position_magic);
  f.format = 1;
  memcpy(f.uuid, core->uuid, sizeof f.uuid);
  memcpy(f.source, position->source, sizeof f.source);
  f.number = position->number;
  f.end = position->end;
  memcpy(f.consumer, position->consumer, sizeof position->consumer);
  f.sum = position_sum_of(core, &f);
  return small__write(core, POSITION_NEW, POSITION_FILE, &f, sizeof f, err);
}

static int position_check(struct core *core, const char *name, emb_err *err) {
  struct position position;
  (void)name;
  return position__read(core, &position, err);
}

const struct store_file file_position = {
    .name = POSITION_FILE, .temporary = POSITION_NEW, .check = position_check};
