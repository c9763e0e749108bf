/* SPDX-License-Identifier: MIT
**
** identity.c -- see identity.h.
*/
#include "identity.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/emb.h"

/* Number of tries while another thread writes the manifest: a read during the
** write may see half a slot. */
#define TRIES 3

enum { ID_MANIFEST, ID_LOG, ID_LOCK, ID_COUNT };
static const char *const identity_names[ID_COUNT] = {MANIFEST_NAME, FILE_LOG,
                                                     FILE_LOCK};

/* What is wrong with the files. */
struct verdict {
  const char *file; /* "": the directory; NULL: nothing is wrong */
  const char *what;
  const char *remedy; /* needed before the store is reopened */
};

/* ---- names --------------------------------------------------------------- */

static int is_no_path(int os) { return os == ENOENT || os == ENOTDIR; }

static int is_same(const uint64_t a[2], const uint64_t b[2]) {
  return a[0] == b[0] && a[1] == b[1];
}

static int id_of(struct core *core, int i, uint64_t id[2]) {
  char path[PATH_BYTES];
  return path_join(path, sizeof path, core->dir, identity_names[i], NULL)
             ? ENAMETOOLONG
             : core->env->identity(core->env, path, id);
}

int identity_begin(struct core *core, int recovered, emb_err *err) {
  struct identity *own = &core->identity;
  struct env *env = core->env;
  struct env_about manifest, log;
  char path[PATH_BYTES];
  (void)recovered;
  if (core->temporary) {
    return EMB_OK;
  }
  identity_free(core);
  int rc = path_join(path, sizeof path, core->dir, MANIFEST_NAME, err);
  if (rc) {
    return rc;
  }
  struct env_file *file;
  int os = env->open(env, path, ENV_WRITE, &file);
  if (os) {
    return err_os(err, EMB_CANTOPEN, os, "cannot open %s", path);
  }
  os = env->about(env, file, NULL, &manifest);
  env->close(env, file);
  os = os ? os : env->about(env, core->log.file, NULL, &log);
  os = os ? os : id_of(core, ID_LOCK, own->ids[ID_LOCK]);
  os = os ? os : env->identity(env, core->dir, own->directory);
  if (os) {
    return err_os(err, EMB_IOERR, os, "cannot stat %s", core->dir);
  }
  memcpy(own->ids[ID_MANIFEST], manifest.id, sizeof manifest.id);
  memcpy(own->ids[ID_LOG], log.id, sizeof log.id);
  own->is_noted = 1;
  return EMB_OK;
}

void identity__expect(struct core *core, uint64_t from, uint64_t to) {
  struct identity *own = &core->identity;
  emb_assert(own->is_noted && from <= to && to >= atomic_load(&own->to));
  atomic_store(&own->to, to);
  atomic_store(&own->from, from);
}

void identity_free(struct core *core) {
  struct identity *own = &core->identity;
  own->is_noted = 0;
  atomic_store(&own->from, 0);
  atomic_store(&own->to, 0);
}

/* Judges a file that is missing or has been replaced.  Was the whole directory
** moved or replaced? */
static int judge_name(struct core *core, int i, int os,
                      struct verdict *verdict) {
  uint64_t id[2];
  int above = core->env->identity(core->env, core->dir, id);
  if (above && !is_no_path(above)) {
    return above;
  }
  int is_other = !above && !is_same(id, core->identity.directory);
  int is_gone = above || (os && !is_other);
  verdict->file = above || is_other ? "" : identity_names[i];
  verdict->what = is_gone ? "was moved away or deleted" : "was replaced";
  verdict->remedy = is_gone ? "put it back, " : "";
  return 0;
}

static int look_at_names(struct core *core, struct verdict *verdict) {
  for (int i = 0; i < ID_COUNT; i++) {
    uint64_t id[2];
    int os = id_of(core, i, id);
    if (os && !is_no_path(os)) {
      return os;
    }
    if (os || !is_same(id, core->identity.ids[i])) {
      return judge_name(core, i, os, verdict);
    }
  }
  return 0;
}

/* ---- the manifest -------------------------------------------------------- */

struct stamp { /* bytes 24..47 of a slot */
  uint8_t uuid[16];
  uint64_t generation;
};
_Static_assert(offsetof(struct manifest, uuid) == 24, "stamp");
_Static_assert(offsetof(struct manifest, generation) == 40, "stamp");

#define STAMPS_BYTES (MANIFEST_SLOT + sizeof(struct stamp))

/* Compares both slots without their checksums; 1: they are what this process
** wrote last. */
static int stamps_fit(struct core *core, const char *bytes, uint64_t from) {
  uint64_t to = atomic_load(&core->identity.to), newest = 0;
  for (int i = 0; i < 2; i++) {
    struct stamp stamp;
    memcpy(&stamp, bytes + i * MANIFEST_SLOT, sizeof stamp);
    if (memcmp(stamp.uuid, core->uuid, sizeof stamp.uuid) != 0 ||
        stamp.generation > to) {
      return 0;
    }
    newest = stamp.generation > newest ? stamp.generation : newest;
  }
  return newest >= from;
}

/* Checks the newest valid slot; *fits as above.  Each state is in both slots,
** so if the newer slot is damaged the other has the generation before it. */
static int slots_fit(struct core *core, struct env_file *file, uint64_t from,
                     int *fits) {
  struct identity *own = &core->identity;
  struct manifest newest;
  int os = manifest__newest(core->env, file, &newest);
  *fits = !os && memcmp(newest.uuid, core->uuid, sizeof newest.uuid) == 0 &&
          newest.generation + MANIFEST_STEP > from &&
          newest.generation <= atomic_load(&own->to);
  return os;
}

static int look_at_manifest(struct core *core, struct env_file *file,
                            struct verdict *verdict) {
  struct identity *own = &core->identity;
  char bytes[STAMPS_BYTES];
  int os = 0, fits = EMB_SEED(SEED_GENERATION_NOT_CHECKED);
  for (int i = 0; !os && !fits && i < TRIES; i++) {
    uint64_t from = atomic_load(&own->from);
    emb_assert(from > 0);
    os = core->env->read(core->env, file, bytes, sizeof bytes,
                         offsetof(struct manifest, uuid));
    fits = !os && stamps_fit(core, bytes, from);
    if (!os && !fits) {
      os = slots_fit(core, file, from, &fits);
    }
  }
  if (!os && !fits) {
    verdict->file = MANIFEST_NAME;
    verdict->what = "was written by another process";
    verdict->remedy = "";
  }
  return os;
}

/* Opens the manifest if it is still the owner's; otherwise returns 0 and a
** verdict. */
static int open_manifest(struct core *core, int flags, struct env_file **file,
                         struct verdict *verdict) {
  struct env *env = core->env;
  struct env_about about;
  char path[PATH_BYTES];
  if (path_join(path, sizeof path, core->dir, MANIFEST_NAME, NULL)) {
    return ENAMETOOLONG;
  }
  int os = env->open(env, path, flags, file);
  if (os) {
    *file = NULL;
    return is_no_path(os) ? judge_name(core, ID_MANIFEST, os, verdict) : os;
  }
  os = env->about(env, *file, NULL, &about);
  int is_other = !os && !is_same(about.id, core->identity.ids[ID_MANIFEST]);
  if (is_other) {
    os = judge_name(core, ID_MANIFEST, 0, verdict);
  }
  if (os || is_other) {
    env->close(env, *file);
    *file = NULL;
  }
  return os;
}

/* ---- both ---------------------------------------------------------------- */

static int identity_lost(struct core *core, const struct verdict *verdict,
                         emb_err *err) {
  char why[256];
  (void)snprintf(why, sizeof why,
                 "its %s%s %s; %sclose it in every connection, and open it "
                 "again",
                 *verdict->file ? "file " : "directory", verdict->file,
                 verdict->what, verdict->remedy);
  log_give_up(&core->log, EMB_FAILED, why);
  core_signal_room(core); /* no frame will become free */
  core_changed(core);
  return core_failed(core, err);
}

int identity_check(struct core *core, emb_err *err) {
  struct verdict verdict = {NULL, NULL, NULL};
  int rc = core_failed(core, err);
  if (rc || core->temporary) {
    return rc;
  }
  emb_assert(core->identity.is_noted);
  struct env_file *file = NULL;
  int os = look_at_names(core, &verdict);
  if (!os && !verdict.file) {
    os = open_manifest(core, ENV_READ, &file, &verdict);
  }
  if (file) {
    os = look_at_manifest(core, file, &verdict);
    core->env->close(core->env, file);
  }
  if (os) {
    return err_os(err, EMB_IOERR, os, "cannot read the files of %s", core->dir);
  }
  return verdict.file ? identity_lost(core, &verdict, err) : EMB_OK;
}

int identity__open(struct core *core, struct env_file **file, emb_err *err) {
  struct verdict verdict = {NULL, NULL, NULL};
  emb_assert(core->identity.is_noted); /* P3 */
  int os = open_manifest(core, ENV_WRITE, file, &verdict);
  if (os) {
    return err_os(err, EMB_IOERR, os, "cannot open %s/" MANIFEST_NAME,
                  core->dir);
  }
  return verdict.file ? identity_lost(core, &verdict, err) : EMB_OK;
}
