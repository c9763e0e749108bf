/* SPDX-License-Identifier: MIT
**
** own.c -- which process may write, and which state the others see.
**
** STATES  reader  the checkpoint of some manifest is loaded, no lock is held
**         owner   this process holds the lock file, and the manifest says so
**                 (clean = 0), from its first write to its close
**
**   reader -> reader  the manifest has a newer generation      [own_refresh]
**                     or the owner has reused the place of a record that was
**                     about to be read                         [own_reload]
**   reader -> client  another process owns the store and serves this one:
**                     nothing stays loaded here (unloaded)       [own_unload]
**   reader -> owner   first write                              [own_claim]
**   reader -> owner   the owner died: recovery is needed       [own_refresh]
**
** After recovery, an owner must take a checkpoint before it writes.  That
** checkpoint needs no space that the store does not have (kernel/reserve.h),
** unless its spare is missing.  If there is no space, the checkpoint is owed:
** reads continue, and each write tries the checkpoint first [pay_owed].
**
** A store that was closed cleanly is opened as a reader, so several processes
** may read it, and the first one to write owns it.  The lock dies with the
** process.
**
** WHAT A READER MAY SHOW  No process may show less than was committed before it
** looked, because SQLite's file may already refer to it.  If the owner serves,
** a reader therefore shows nothing itself but asks the owner (serve/).  If the
** owner does not serve (serve='off'), a reader shows the owner's last
** checkpoint, and is expected to lag behind.  After the owner's death it shows
** everything that was durable, as the recovering process does.  Two signs tell
** the cases apart:
**
**   manifest   lock         what a reader does
**   clean      -            shows the checkpoint, which is complete: an owner
**                           claims the manifest before its first write
**   not clean  FREE         recovers; if read-only, it cannot, and shows the
**                           checkpoint
**   not clean  UNSETTLED    waits; if the owner already serves, asks it;
**                           after the timeout EMB_BUSY
**   not clean  SERVES       asks the owner; waits until it answers; after the
**                           timeout EMB_BUSY             [route__find_owner]
**   not clean  ALONE        reads the manifest again, and shows that
**                           checkpoint                           [see_owner]
**
** A process takes the lock as UNSETTLED, in one step, and settles it when a
** checkpoint contains everything recovered and nothing is in doubt
** [own_settle].  The manifest is read again because the owner may have settled
** between the first read and the look at the lock.  A process that opened the
** store with EMB_OPEN_ALONE asks no owner, and treats SERVES as ALONE.  A
** reader looks at most every REFRESH_US, or after a hint that there may be
** something newer [emb_look].  A scan keeps its checkpoint [hold.c] for its
** own reads.  If an owner has come and gone during the scan, the next other
** read loads the state that owner left, and the scan ends with EMB_BUSY.
**
** A call that has begun to read and finds a record replaced [own_reload] may
** continue with the owner's last checkpoint, which is not older than the one
** the call began with.
*/
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/storage/kernel/reserve.h"
#include "engine/storage/kernel/row_write.h"
#include "engine/table/store/dir.h"
#include "own.h"
#include "engine/table/session/patience.h"

#define REFRESH_US 5000
#define SEEK_US 2000
#define SEEK_TRIES 50
#define IN_FLIGHT_US 300000
#define TRY_LOCK_US 1000
/* The owner's byte lock on the log file, above all index file numbers. */
#define LOG_OWNER ((UINT64_C(1) << 61) - 1)

int own_look(emb_store *store, enum env_lock_state *state, int64_t *holder,
             emb_err *err) {
  struct core *core = &store->core;
  char path[PATH_BYTES];
  *state = ENV_LOCK_UNSETTLED;
  *holder = 0;
  int rc = path_join(path, sizeof path, core->dir, FILE_LOCK, err);
  if (rc) {
    return rc;
  }
  int os = core->env->lock_look(core->env, path, state, holder);
  if (os == EACCES) { /* another user's: it serves no other user */
    *state = ENV_LOCK_ALONE;
    os = 0;
  }
  if (os) {
    *state = ENV_LOCK_UNSETTLED; /* not known: nothing may be shown */
    return err_os(err, EMB_CANTOPEN, os, "cannot stat %s", path);
  }
  return EMB_OK;
}

/* Only the owner may decide a transaction in doubt: that writes. */
static void forget_doubt(emb_store *store) {
  recovery_free(store->own.doubt);
  store->own.doubt = NULL;
  atomic_store(&store->own.in_doubt, 0);
}

int own_load(emb_store *store, const struct manifest *m, int replay,
             emb_err *err) {
  struct core *core = &store->core;
  struct recovery *doubt = NULL;
  emb_assert(!atomic_load(&store->own.is_owner)); /* its rows are the newest */
  pthread_mutex_lock(&core->flush_lock);          /* nothing is paged out now */
  epoch_close(&core->epoch);
  forget_doubt(store);
  struct resident kept;
  core_set_aside(core, store->checkpoint.manifest.tail, &kept);
  rows_reset(core);
  store->checkpoint.manifest = *m;
  atomic_fetch_add(&store->own.loads, 1);
  int rc = recover(core, &store->checkpoint.manifest, replay, &doubt, err);
  atomic_store(&store->own.unloaded, rc != 0);
  store->own.replayed = replay;
  if (rc) {
    rows_reset(core);
    atomic_store(&core->txn_first_page, 0); /* of a transaction in doubt */
    /* No manifest matches this one, so the next look loads what it finds. */
    store->checkpoint.manifest.generation = 0;
    store->checkpoint.manifest.tail = 0;
  } else if (doubt) {
    store->own.doubt = doubt;
    atomic_store(&store->own.in_doubt, doubt->in_doubt);
  }
  core_take_back(core, &kept);
  epoch_open(&core->epoch);
  pthread_mutex_unlock(&core->flush_lock);
  atomic_fetch_add(&store->own.loaded, 1);
  emb_check(own_valid(store));
  core_changed(core);
  return rc;
}

static int same_store(emb_store *store, const struct manifest *m,
                      emb_err *err) {
  struct core *core = &store->core;
  if (memcmp(m->uuid, core->uuid, sizeof m->uuid) != 0 ||
      m->dim != core->schema.dim || m->type != core->schema.segments[0].type) {
    return err_set(err, EMB_CORRUPT, "%s was replaced by another store",
                   core->dir);
  }
  if (m->generation < store->own.newest_seen) {
    return err_set(err, EMB_CORRUPT,
                   "%s was replaced by an older state of it; close it in every "
                   "connection, and open it again",
                   core->dir);
  }
  store->own.newest_seen = m->generation;
  return EMB_OK;
}

struct index_files {
  const char *present;
  char other[40]; /* an index file other than the present one, or "" */
  int spare;      /* the spare exists */
};

static void look_at_index(void *arg, const char *name) {
  struct index_files *files = arg;
  if (strcmp(name, RESERVE_SPARE) == 0) {
    files->spare = 1;
  } else if (strncmp(name, "index-", 6) == 0 &&
             strlen(name) < sizeof files->other &&
             strcmp(name, files->present) != 0) {
    snprintf(files->other, sizeof files->other, "%s", name);
  }
}

/* The previous owner died during a checkpoint: its spare is now an index file
** that the manifest does not name, or that only the manifest's older slot
** names.  Makes that slot, too, name the present index file, and renames the
** file back to the spare. */
static int regain_spare(emb_store *store, emb_err *err) {
  struct core *core = &store->core;
  struct env *env = core->env;
  struct manifest *m = &store->checkpoint.manifest;
  char present[40], from[PATH_BYTES], to[PATH_BYTES];
  struct index_files files = {present, "", 0};
  snprintf(present, sizeof present, "index-%016llx",
           (unsigned long long)m->index_generation);
  env->list_dir(env, core->dir, look_at_index, &files);
  if (files.spare || !files.other[0] ||
      path_join(from, sizeof from, core->dir, files.other, NULL) ||
      path_join(to, sizeof to, core->dir, RESERVE_SPARE, NULL)) {
    return EMB_OK;
  }
  int rc = manifest_write(env, core->dir, m, 1, err);
  if (!rc) {
    env->rename(env, from, to);
  }
  return rc;
}

/* Prepares for writes: checkpoints the recovered state, and makes the manifest
** name this process as the writer. */
static int own_settle_state(emb_store *store, emb_err *err) {
  struct core *core = &store->core;
  const struct manifest *m = &store->checkpoint.manifest;
  int rc = EMB_OK, clean = m->clean != 0;
  /* A store that was never written names no index file.  It must name one
  ** before its log is written: a reader that falls back to this checkpoint,
  ** because the next one is damaged, learns from the missing file that extents
  ** may be missing, too. */
  if (!clean || m->index_blocks == 0) {
    pthread_mutex_lock(&core->ckpt_lock);
    rc = consumers_load(&store->consumers, core->log_end, err);
    rc = rc ? rc
            : checkpoint_take(core, store->work_slot, &store->checkpoint, 0,
                              err);
    pthread_mutex_unlock(&core->ckpt_lock);
  }
  if (!rc && clean) {
    rc = checkpoint_claim(core, &store->checkpoint, err);
  }
  if (!rc) {
    /* Until now, a slot of the manifest may have named these files. */
    dir_remove_leftovers(core, m->index_generation);
  }
  return rc;
}

/* The lock was just taken: loads the newest state.  *recovered: the previous
** owner had died. */
static int become_owner(emb_store *store, int *recovered, emb_err *err) {
  struct core *core = &store->core;
  struct manifest m;
  int rc = manifest_read(core->env, core->dir, &m, err);
  rc = rc ? rc : same_store(store, &m, err);
  if (rc) {
    return rc;
  }
  int stale = m.generation != store->checkpoint.manifest.generation;
  if (stale || !m.clean) {
    rc = own_load(store, &m, !m.clean, err);
  }
  if (!rc && m.clean) {
    /* An open scan took the present tail as its end.  No record may be written
    ** below that, so the log continues in a new extent. */
    pthread_mutex_lock(&core->flush_lock); /* and no extent is read back in */
    pthread_mutex_lock(&core->scan_lock);
    rc = watch_any(core) ? EMB_OK : log_resume(&core->log, m.tail, err);
    if (atomic_load(&core->log.tail) == m.tail) {
      atomic_store(&core->blank_end, m.tail); /* later pages get written */
    }
    pthread_mutex_unlock(&core->scan_lock);
    pthread_mutex_unlock(&core->flush_lock);
  }
  if (rc) {
    return rc;
  }
  reserve_begin(core, m.index_blocks ? m.index_generation : 0);
  *recovered = !m.clean;
  rc = m.clean ? EMB_OK : regain_spare(store, err);
  if (!rc) { /* before anything is freed or written */
    pthread_mutex_lock(&core->ckpt_lock);
    readers_begin(core, m.index_generation);
    rc = dir_load(core, *recovered, err);
    pthread_mutex_unlock(&core->ckpt_lock);
  }
  return rc;
}

/* Settles the lock: the recovered state is in a checkpoint now, unless a
** transaction is in doubt or that checkpoint is owed. */
static void own_settle(emb_store *store) {
  struct env *env = store->core.env;
  if (store->own.file && !atomic_load(&store->own.in_doubt) &&
      !atomic_load(&store->own.owed)) {
    env->lock_settle(env, store->own.file,
                     store->remote.server ? ENV_LOCK_SERVES : ENV_LOCK_ALONE);
  }
}

/* The log was replayed here, but another process may now recover it and reuse
** its file slots: nothing read from it may be shown. */
static void forget_log(emb_store *store) {
  if (store->own.replayed) {
    forget_doubt(store);
    atomic_store(&store->core.txn_first_page, 0); /* of that transaction */
    atomic_store(&store->own.unloaded, 1);
    store->checkpoint.manifest.generation = 0;
    store->checkpoint.manifest.tail = 0;
  }
}

/* Does anything still read in this process?  A linked session reads at the
** owner, but reads it began here before would find keys absent.  Called after
** `unloaded` is set; a new reader first counts itself (a session, a session
** without its link, a scan) and then reads `unloaded`, so one of the two sees
** the other. */
static int is_read(const emb_store *store) {
  return atomic_load(&store->own.is_owner) || atomic_load(&store->dropped) ||
         atomic_load(&store->remote.session_links) <
             atomic_load(&store->sessions.count) ||
         atomic_load(&store->sessions.scans) ||
         atomic_load(&store->sessions.snaps) ||
         atomic_load(&store->sessions.tickets);
}

/* For a reader only.  Under own.lock. */
static void close_manifest(emb_store *store) {
  if (store->own.manifest) {
    store->core.env->close(store->core.env, store->own.manifest);
    store->own.manifest = NULL;
  }
}

void own_unload(emb_store *store) {
  struct core *core = &store->core;
  if (!atomic_load(&store->remote.links) || atomic_load(&store->own.unloaded)) {
    return;
  }
  pthread_mutex_lock(&store->own.lock);
  int unloaded = atomic_exchange(&store->own.unloaded, 1);
  if (is_read(store) || unloaded) {
    atomic_store(&store->own.unloaded, unloaded);
  } else {
    close_manifest(store);
    pthread_mutex_lock(&core->flush_lock); /* nothing is paged out now */
    epoch_close(&core->epoch);
    atomic_fetch_add(&store->own.loads, 1);
    rows_reset(core);
    index_discard(&core->index);
    frames_discard(&core->frames);
    store->own.replayed = 0;
    /* The next look loads what it finds. */
    store->checkpoint.manifest.generation = 0;
    store->checkpoint.manifest.tail = 0;
    epoch_open(&core->epoch);
    pthread_mutex_unlock(&core->flush_lock);
    atomic_fetch_add(&store->own.loaded, 1);
    emb_check(own_valid(store));
    core_changed(core); /* data derived from the rows is dropped, too */
  }
  pthread_mutex_unlock(&store->own.lock);
}

/* Locks the log file itself: deleting the lock file as a leftover does not end
** its owner.  Has no effect on a file system without byte locks. */
static int lock_log(emb_store *store, emb_err *err) {
  struct core *core = &store->core;
  struct env *env = core->env;
  uint64_t start = env->now_us(env);
  int os;
  /* The file of a killed process stays open until the requests it had in flight
  ** in a ring have ended. */
  while ((os = env->byte_lock(env, core->log.file, LOG_OWNER,
                              ENV_BYTE_EXCLUSIVE)) == EAGAIN &&
         env->now_us(env) - start < IN_FLIGHT_US) {
    env->sleep_us(env, TRY_LOCK_US);
  }
  store->own.is_log_held = os == EAGAIN;
  return os == EAGAIN && !EMB_SEED(SEED_LOG_NOT_LOCKED)
             ? err_set(err, EMB_BUSY,
                       "%s is owned by another process, and its lock file was "
                       "deleted: close the table there",
                       core->dir)
             : EMB_OK;
}

void own_unlock(emb_store *store) {
  struct core *core = &store->core;
  if (store->own.file) {
    if (core->log.file) {
      (void)core->env->byte_lock(core->env, core->log.file, LOG_OWNER,
                                 ENV_BYTE_NONE);
    }
    core->env->unlock(core->env, store->own.file);
    store->own.file = NULL;
  }
}

int own_take(emb_store *store, emb_err *err) {
  struct core *core = &store->core;
  struct env *env = core->env;
  char path[PATH_BYTES];
  emb_assert(!atomic_load(&store->own.is_owner) && !store->own.file);
  int rc = path_join(path, sizeof path, core->dir, FILE_LOCK, err);
  if (rc) {
    return rc;
  }
  store->own.is_log_held = 0;
  int os = env->lock(env, path, &store->own.file);
  store->own.may_not_lock = os == EACCES;
  if (os) {
    store->own.file = NULL;
    return os == EAGAIN || os == EACCES
               ? err_set(err, EMB_BUSY, "%s is owned by another process",
                         core->dir)
               : err_os(err, EMB_CANTOPEN, os, "cannot lock %s", path);
  }
  int recovered = 0;
  rc = lock_log(store, err);
  rc = rc ? rc : become_owner(store, &recovered, err);
  /* A transaction in doubt must be decided before anything becomes durable. */
  if (!rc && !atomic_load(&store->own.in_doubt)) {
    rc = own_settle_state(store, err);
    if (rc == EMB_FULL && recovered && !EMB_SEED(SEED_FULL_STORE_NOT_OPENED)) {
      atomic_store(&store->own.owed, 1);
      err_clear(err);
      rc = EMB_OK;
    }
  }
  if (rc) {
    own_unlock(store);
    forget_log(store);
    emb_check(own_valid(store));
    return rc;
  }
  if (store->remote.serve) {
    store->remote.serve(store);
  }
  own_settle(store); /* a process that sees SERVES finds the socket */
  close_manifest(store);
  atomic_store(&store->own.is_owner, 1);
  emb_check(own_valid(store));
  core_changed(core);
  return EMB_OK;
}

int own_is_current(emb_store *store) {
  struct core *core = &store->core;
  uint64_t newest = 0;
  if (atomic_load(&store->own.unloaded)) {
    return 0;
  }
  pthread_mutex_lock(&store->own.lock);
  if (atomic_load(
          &store->own.is_owner)) { /* the owner by now: always current */
    pthread_mutex_unlock(&store->own.lock);
    return 1;
  }
  if (!store->own.manifest) {
    char path[PATH_BYTES];
    if (path_join(path, sizeof path, core->dir, MANIFEST_NAME, NULL) ||
        core->env->open(core->env, path, ENV_READ, &store->own.manifest)) {
      store->own.manifest = NULL;
    }
  }
  /* If the loaded manifest is not clean, its owner has moved on from it: when
  ** the manifest was loaded, the owner had the lock and did not serve yet. */
  int is = store->own.manifest &&
           (store->checkpoint.manifest.clean ||
            EMB_SEED(SEED_CLAIMED_STATE_IS_NEWEST)) &&
           manifest_look(core->env, store->own.manifest, &newest) == 0 &&
           newest == store->checkpoint.manifest.generation;
  pthread_mutex_unlock(&store->own.lock);
  return is;
}

/* Another process has the lock, or had it a moment ago.  Decides what this one
** may show. */
static int see_owner(emb_store *store, struct manifest *m, emb_err *err) {
  struct core *core = &store->core;
  int64_t holder;
  enum env_lock_state state;
  int rc = own_look(store, &state, &holder, err);
  if (rc) {
    return rc;
  }
  if (state == ENV_LOCK_UNSETTLED && !EMB_SEED(SEED_READER_DOES_NOT_WAIT)) {
    return OWN_RECOVERING;
  }
  if (state == ENV_LOCK_FREE && !atomic_load(&store->own.readonly) &&
      !store->own.may_not_lock) {
    return OWN_RECOVERING; /* the owner has ended: retry */
  }
  if (state == ENV_LOCK_SERVES && own_may_ask(store) &&
      !EMB_SEED(SEED_CHECKPOINT_SHOWN_BESIDE_OWNER)) {
    return OWN_SERVED;
  }
  atomic_store(&store->own.unrecovered, state == ENV_LOCK_FREE);
  /* The owner may have recovered since the manifest was read. */
  rc = manifest_read(core->env, core->dir, m, err);
  return rc ? rc : EMB_BUSY;
}

int own_take_if_dead(emb_store *store, struct manifest *m, emb_err *err) {
  emb_err failure;
  atomic_store(&store->own.unrecovered, 0);
  if (m->clean) {
    return EMB_BUSY;
  }
  if (atomic_load(&store->own.readonly)) {
    return see_owner(store, m, err);
  }
  int rc = own_take(store, &failure);
  if (rc == EMB_BUSY) {
    return see_owner(store, m, err);
  }
  if (rc && err) {
    *err = failure;
  }
  return rc;
}

int own_recovering(const char *dir, emb_err *err) {
  return err_set(err, EMB_BUSY, "%s is being recovered by another process",
                 dir);
}

int own_load_newest(emb_store *store, const struct manifest *manifest,
                    emb_err *err) {
  struct core *core = &store->core;
  struct manifest m = *manifest, again;
  for (int tries = 0;; tries++) {
    int rc = own_load(store, &m, 0, err);
    if (!rc || tries == 20 ||
        manifest_read(core->env, core->dir, &again, NULL) ||
        again.generation == m.generation) {
      return rc;
    }
    m = again; /* a checkpoint replaced the files during the read */
  }
}

int own_dropped(emb_session *s) {
  return session_error(s, EMB_CANTOPEN, "%s was deleted: its table was dropped",
                       s->core->dir);
}

/* Takes the checkpoint that is owed, if there is one.  Under own.lock. */
static int pay_owed(emb_store *store, emb_err *err) {
  emb_err first;
  int rc = atomic_load(&store->own.owed) && !atomic_load(&store->own.in_doubt)
               ? own_settle_state(store, &first)
               : EMB_OK;
  if (rc == EMB_FULL) {
    return err_set(err, rc, "%s; free disk space: until then %s is read-only",
                   first.text, store->core.dir);
  }
  if (rc) {
    return err_set(err, rc, "%s", first.text);
  }
  if (atomic_load(&store->own.owed) && !atomic_load(&store->own.in_doubt)) {
    atomic_store(&store->own.owed, 0);
    core_changed(&store->core);
    own_settle(store);
  }
  return EMB_OK;
}

int own_claim(emb_session *s) {
  emb_store *store = s->store;
  if (atomic_load(&store->own.readonly) || s->client.only_reads) {
    return session_error(s, EMB_READONLY, "%s is open read-only", s->core->dir);
  }
  if (atomic_load(&store->dropped)) {
    return own_dropped(s);
  }
  uint64_t waited = 0;
  while (!atomic_load_explicit(&store->own.is_owner, memory_order_acquire)) {
    uint64_t before = s->core->env->now_us(s->core->env);
    pthread_mutex_lock(&store->own.lock);
    int rc =
        atomic_load(&store->own.is_owner) ? EMB_OK : own_take(store, &s->err);
    /* Who holds only the log cannot be found, so it cannot be asked. */
    int may_ask = own_may_ask(store) && !store->own.is_log_held;
    pthread_mutex_unlock(&store->own.lock);
    /* an attempt may wait for the log's lock longer than between attempts */
    waited += s->core->env->now_us(s->core->env) - before;
    if (rc && atomic_load(&store->dropped)) {
      return own_dropped(s);
    }
    if (rc == EMB_BUSY && may_ask) {
      return CALL_ELSEWHERE;
    }
    if (rc == EMB_BUSY && waited < session_timeout_us(s)) {
      rc = session_poll_waiting(s, waited);
      if (!rc) {
        session_sleep(s, 2000, &waited);
        continue;
      }
    }
    if (rc) {
      return rc;
    }
    err_clear(&s->err);
  }
  if (atomic_load_explicit(&store->own.owed, memory_order_acquire)) {
    pthread_mutex_lock(&store->own.lock);
    int rc = pay_owed(store, &s->err);
    pthread_mutex_unlock(&store->own.lock);
    if (rc) {
      return rc;
    }
  }
  int rc = session_check_doubt(s);
  rc = rc ? rc : session_ask_doubt(s);
  return rc ? rc : core_failed(s->core, &s->err);
}

int local_own(emb_session *s) {
  int rc = session_begin(s);
  return rc ? rc : own_claim(s);
}

/* Another process has just become the owner, or is becoming it: looks for that
** process, to ask it.  For an owner that does not serve, a session looks only
** once, for a moment. */
static int seek_owner(emb_session *s) {
  uint64_t waited = 0;
  if (!s->route.may_ask || s->route.sought == SEEK_TRIES ||
      EMB_SEED(SEED_OWNER_NOT_SOUGHT)) {
    return EMB_OK;
  }
  if (s->route.sought++) {
    session_sleep(s, SEEK_US, &waited);
  }
  s->route.recovering = 1;
  return CALL_ELSEWHERE;
}

int own_may_write(emb_session *s, int *may) {
  emb_store *store = s->store;
  int rc = EMB_OK;
  *may = 0;
  if (atomic_load(&store->own.readonly) || s->client.only_reads) {
    return EMB_OK;
  }
  if (!atomic_load_explicit(&store->own.is_owner, memory_order_acquire)) {
    pthread_mutex_lock(&store->own.lock);
    if (!atomic_load(&store->own.is_owner)) {
      rc = own_take(store, NULL);
    }
    pthread_mutex_unlock(&store->own.lock);
  }
  *may = atomic_load_explicit(&store->own.is_owner, memory_order_acquire);
  if (*may) {
    s->route.sought = 0;
  }
  return rc == EMB_BUSY && !*may ? seek_owner(s) : EMB_OK;
}

int own_counts(emb_session *s, int *counts) {
  *counts = 0;
  return core_bounded(s->core) ? own_may_write(s, counts) : EMB_OK;
}

/* begun: the call has already read something. */
static int refresh_store(emb_store *store, int begun, emb_err *err) {
  struct core *core = &store->core;
  struct manifest m;
  int rc = manifest_read(core->env, core->dir, &m, err);
  rc = rc ? rc : same_store(store, &m, err);
  if (rc) {
    return rc;
  }
  rc = own_take_if_dead(store, &m, err);
  if (rc == OWN_SERVED && begun) { /* see the head of this file */
    rc = manifest_read(core->env, core->dir, &m, err);
    rc = rc ? rc : EMB_BUSY;
  }
  if (rc != EMB_BUSY) {
    return rc;
  }
  rc = same_store(store, &m, err);
  if (rc) {
    return rc;
  }
  if (m.index_generation == store->checkpoint.manifest.index_generation &&
      m.tail == store->checkpoint.manifest.tail) {
    return EMB_OK; /* the same checkpoint */
  }
  return own_load_newest(store, &m, err);
}

static int await_owner_text(emb_session *s, int why) {
  return why == OWN_RECOVERING
             ? own_recovering(s->core->dir, &s->err)
             : session_error(s, EMB_BUSY,
                             "%s is owned by another process, which does not "
                             "answer: try again",
                             s->core->dir);
}

/* Waits while another process recovers the store, or serves it but was not
** found, and while a transaction is in doubt.  A session that may ask the new
** owner does not wait: the owner serves before the transaction is decided, and
** the COMMIT that decides it may be waiting for the caller (COMMIT waits for
** the end of each statement that reads). */
static int refresh_when_recovered(emb_session *s, int begun) {
  emb_store *store = s->store;
  struct env *env = s->core->env;
  uint64_t waited = 0, left = 0;
  for (;;) {
    uint64_t now = env->now_us(env);
    pthread_mutex_lock(&store->own.lock);
    int rc = EMB_OK;
    /* emb_drop holds own.lock, too: `dropped` is set before the files are
    ** deleted. */
    if (!atomic_load(&store->own.is_owner) && !atomic_load(&store->dropped)) {
      int look = atomic_exchange(&store->own.look, 0);
      rc = refresh_store(store, begun, &s->err);
      if (!rc) {
        atomic_store(&store->own.refreshed_us, now);
      } else if (look) {
        atomic_store(&store->own.look, 1);
      }
    }
    pthread_mutex_unlock(&store->own.lock);
    if (rc != OWN_RECOVERING && rc != OWN_SERVED) {
      return rc;
    }
    if (s->route.may_ask && !s->scan.open && !begun) {
      s->route.recovering = 1;
      return CALL_ELSEWHERE;
    }
    int why = rc;
    rc = session_poll_waiting(s, waited);
    if (rc) {
      return rc;
    }
    left = left ? left : patience_left_us(s);
    if (waited >= left) {
      patience_spend(s, 0, waited);
      return await_owner_text(s, why);
    }
    session_sleep(s, 2000, &waited);
  }
}

/* A scan keeps the loaded checkpoint for its own reads.  Other reads, including
** those of its session, keep it only if it is the newest: otherwise they would
** show less than was committed, and perhaps shown, at an owner that has left
** since. */
static int is_held(const emb_session *s) {
  emb_store *store = s->store;
  return atomic_load(&store->sessions.scans) &&
         (s->scan.is_reading || !own_may_ask(store) || own_is_current(store));
}

int own_refresh(emb_session *s) {
  emb_store *store = s->store;
  if (atomic_load_explicit(&store->own.is_owner, memory_order_acquire) ||
      atomic_load(&store->dropped)) {
    /* A dropped store gets no newer state. */
    return session_ask_doubt(s);
  }
  struct env *env = s->core->env;
  uint64_t now = env->now_us(env);
  uint64_t then =
      atomic_load_explicit(&store->own.refreshed_us, memory_order_relaxed);
  int recent = now - then < REFRESH_US && !atomic_load(&store->own.look);
  if (!atomic_load(&store->own.unloaded) && (recent || is_held(s))) {
    return EMB_OK;
  }
  int rc = refresh_when_recovered(s, 0);
  return rc ? rc : session_ask_doubt(s);
}

int own_reload(emb_session *s) {
  return atomic_load(&s->store->own.is_owner) || atomic_load(&s->store->dropped)
             ? EMB_OK
             : refresh_when_recovered(s, 1);
}

uint64_t local_in_doubt(const emb_store *store) {
  return atomic_load(&store->own.in_doubt);
}

uint64_t local_committed(const emb_store *store) {
  return atomic_load(&store->core.txn_committed);
}

void local_state(const emb_store *store, uint64_t *state) {
  state[0] = atomic_load(&store->core.version);
  state[1] = atomic_load(&store->core.txn_committed);
}

void emb_look(emb_store *store) { atomic_store(&store->own.look, 1); }

int emb_is_unrecovered(const emb_store *store) {
  return !atomic_load(&store->own.is_owner) &&
         !atomic_load(&store->remote.links) &&
         atomic_load(&store->own.unrecovered);
}

int local_is_owner(const emb_store *store) {
  return atomic_load(&store->own.is_owner) &&
         store_check(store, NULL) == EMB_OK;
}

int own_resolve(emb_store *store, uint64_t number, int commit, emb_err *err) {
  struct core *core = &store->core;
  int rc = EMB_OK;
  pthread_mutex_lock(&store->own.lock);
  if (store->own.doubt && atomic_load(&store->own.in_doubt) == number) {
    pthread_mutex_lock(&core->flush_lock);
    epoch_close(&core->epoch);
    if (commit) {
      rc = recover_commit(store->own.doubt, err);
    }
    epoch_open(&core->epoch);
    pthread_mutex_unlock(&core->flush_lock);
    /* For a recovering process, the doubt ends only with a checkpoint that no
    ** longer replays the transaction; until then it asks the same coordinator
    ** again. */
    uint64_t first = atomic_exchange(&core->txn_first_page, 0);
    if (!rc) {
      rc = own_settle_state(store, err);
      if (rc == EMB_FULL) { /* nothing is written before that checkpoint */
        atomic_store(&store->own.owed, 1);
        err_clear(err);
        rc = EMB_OK;
      }
    }
    if (!rc) {
      recovery_free(store->own.doubt);
      store->own.doubt = NULL;
      atomic_store(&store->own.in_doubt, 0);
      core_changed(core);
      own_settle(store);
    } else {
      atomic_store(&core->txn_first_page, first);
    }
  }
  emb_check(own_valid(store));
  pthread_mutex_unlock(&store->own.lock);
  return rc;
}
