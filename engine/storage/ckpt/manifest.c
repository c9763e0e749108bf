/* SPDX-License-Identifier: MIT
**
** manifest.c -- see manifest.h.
*/
#include "manifest.h"

#include <errno.h>
#include <string.h>

#include "engine/emb.h"

static const char manifest_magic[8] = {'e', 'm', 'b', 's', 't', 'o', 'r', 'e'};

static uint64_t manifest_sum_of(const struct manifest *m) {
  return hash_sum((const char *)m + 8, MANIFEST_SLOT - 8, 0, 0);
}

static int manifest_is_zero(const uint8_t *bytes, size_t n) {
  while (n && !*bytes) {
    bytes++;
    n--;
  }
  return n == 0;
}

static int is_manifest(const struct manifest *slot) {
  return memcmp(slot->magic, manifest_magic, sizeof manifest_magic) == 0;
}

/* Is it a text followed only by zeros? */
static int is_text(const char *text, size_t size) {
  size_t n = strnlen(text, size);
  return n < size && manifest_is_zero((const uint8_t *)text + n, size - n);
}

/* Returns the oldest format that can express the slot's contents, so that older
** libraries can read every store they support. */
static uint32_t format_of(const struct manifest *m) {
  return !m->schema[0]                                                   ? 1
         : strstr(m->schema, " metric=") || strstr(m->schema, " index=") ? 4
         : strstr(m->schema, "\ntrack=")                                 ? 3
                                                                         : 2;
}

/* Is slot i valid, whatever its format? */
static int manifest_is_valid(const struct manifest *slot, int i) {
  return is_manifest(slot) && slot->sum == manifest_sum_of(slot) &&
         (slot->format > MANIFEST_FORMAT ||
          (manifest_is_zero(slot->zero, sizeof slot->zero) &&
           (slot->format >= 3 || slot->newest == 0) &&
           is_text(slot->schema, sizeof slot->schema) && slot->generation > 0 &&
           slot->generation % 2 == (uint64_t)i));
}

/* path: receives the file's path, PATH_BYTES. */
static int manifest_read_slots(struct env *env, const char *dir, char *path,
                               struct manifest slots[2], emb_err *err) {
  struct env_file *file;
  int rc = path_join(path, PATH_BYTES, dir, MANIFEST_NAME, err);
  if (rc) {
    return rc;
  }
  int os = env->open(env, path, ENV_READ, &file);
  if (os) {
    return err_os(err, EMB_CANTOPEN, os, "cannot open %s", path);
  }
  os = env->read(env, file, slots, 2 * sizeof *slots, 0);
  env->close(env, file);
  return os ? err_os(err, EMB_IOERR, os, "cannot read %s", path) : EMB_OK;
}

/* Returns the newer valid slot, or NULL. */
static const struct manifest *manifest_best(const struct manifest slots[2]) {
  const struct manifest *best = NULL;
  for (int i = 0; i < 2; i++) {
    if (manifest_is_valid(&slots[i], i) &&
        (!best || slots[i].generation > best->generation)) {
      best = &slots[i];
    }
  }
  return best;
}

int manifest_read(struct env *env, const char *dir, struct manifest *manifest,
                  emb_err *err) {
  char path[PATH_BYTES];
  struct manifest slots[2];
  int rc = manifest_read_slots(env, dir, path, slots, err);
  if (rc) {
    return rc;
  }
  const struct manifest *best = manifest_best(slots);
  if (!best) {
    return is_manifest(&slots[0]) || is_manifest(&slots[1])
               ? err_set(err, EMB_CORRUPT, "%s: both of its slots are damaged",
                         path)
               : err_set(err, EMB_NOTADB, "%s: not an emb store", path);
  }
  if (best->format < 1 || best->format > MANIFEST_FORMAT) {
    return err_set(err, EMB_NOTADB,
                   "%s: its files have format %u, and this emb %s reads "
                   "formats up to %u; use the newer emb that wrote them",
                   dir, best->format, EMB_VERSION, MANIFEST_FORMAT);
  }
  *manifest = *best;
  return EMB_OK;
}

int manifest__newest(struct env *env, struct env_file *file,
                     struct manifest *newest) {
  struct manifest slots[2];
  int os = env->read(env, file, slots, sizeof slots, 0);
  const struct manifest *best = os ? NULL : manifest_best(slots);
  if (best) {
    *newest = *best;
  } else {
    memset(newest, 0, sizeof *newest);
  }
  return os;
}

int manifest_look(struct env *env, struct env_file *file, uint64_t *newest) {
  uint64_t generations[2];
  int os = 0;
  for (size_t i = 0; !os && i < 2; i++) {
    os = env->read(env, file, &generations[i], sizeof generations[i],
                   i * MANIFEST_SLOT + offsetof(struct manifest, generation));
  }
  *newest = os                                ? 0
            : generations[0] > generations[1] ? generations[0]
                                              : generations[1];
  return os;
}

int manifest_check(struct env *env, const char *dir, int *damaged,
                   emb_err *err) {
  char path[PATH_BYTES];
  struct manifest slots[2];
  int rc = manifest_read_slots(env, dir, path, slots, err);
  *damaged = -1;
  for (int i = 0; !rc && i < 2; i++) {
    int unwritten =
        slots[1 - i].generation == 1 &&
        manifest_is_zero((const uint8_t *)&slots[i], sizeof slots[i]);
    if (!manifest_is_valid(&slots[i], i) && !unwritten) {
      *damaged = i;
    }
  }
  return rc;
}

int manifest_is_missing(struct env *env, const char *dir) {
  char path[PATH_BYTES];
  uint64_t id[2];
  return path_join(path, sizeof path, dir, MANIFEST_NAME, NULL) == 0 &&
         env->identity(env, path, id) == ENOENT;
}

/* Writes the next generation to its slot. */
static int write_slot(struct env *env, struct env_file *file,
                      struct manifest *m, int sync) {
  memcpy(m->magic, manifest_magic, sizeof manifest_magic);
  m->format = format_of(m);
  m->generation++;
  memset(m->zero, 0, sizeof m->zero);
  m->sum = manifest_sum_of(m);
  int os =
      env->write(env, file, m, sizeof *m, m->generation % 2 * MANIFEST_SLOT);
  if (!os && sync && !EMB_SEED(SEED_MANIFEST_NOT_SYNCED)) {
    os = env->sync(env, file);
  }
  return os;
}

static int write_slots(struct env *env, struct env_file *file,
                       struct manifest *m, int sync) {
  int os = write_slot(env, file, m, sync);
  return os ? os : write_slot(env, file, m, sync);
}

int manifest__write_open(struct env *env, struct env_file *file,
                         const char *dir, struct manifest *m, int sync,
                         emb_err *err) {
  int os = write_slots(env, file, m, sync);
  return os ? err_os(err, EMB_IOERR, os, "cannot write %s/" MANIFEST_NAME, dir)
            : EMB_OK;
}

int manifest_write(struct env *env, const char *dir, struct manifest *m,
                   int sync, emb_err *err) {
  char path[PATH_BYTES];
  struct env_file *file;
  int rc = path_join(path, sizeof path, dir, MANIFEST_NAME, err);
  if (rc) {
    return rc;
  }
  int os = env->open(env, path, ENV_WRITE, &file);
  if (os) {
    return err_os(err, EMB_CANTOPEN, os, "cannot open %s", path);
  }
  rc = manifest__write_open(env, file, dir, m, sync, err);
  env->close(env, file);
  return rc;
}

int manifest_create(struct env *env, const char *dir, struct env_dir *names,
                    struct manifest *m, emb_err *err) {
  char path[PATH_BYTES], made[PATH_BYTES];
  struct env_file *file;
  int rc = path_join(path, sizeof path, dir, MANIFEST_NAME, err);
  rc = rc ? rc : path_join(made, sizeof made, dir, MANIFEST_NEW_NAME, err);
  if (rc) {
    return rc;
  }
  int os = replace_begin(env, made, 0, &file);
  if (os) {
    return err_os(err, EMB_CANTOPEN, os, "cannot create %s", made);
  }
  os = replace_seal(env, made, file, write_slots(env, file, m, 1));
  /* The names of the other files must be durable before this file's name. */
  os = os ? os : env->sync_dir(env, names);
  os = os ? os : replace_name(env, made, path, names);
  return os ? err_os(err, EMB_IOERR, os, "cannot create %s", path) : EMB_OK;
}
