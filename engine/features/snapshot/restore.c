/* SPDX-License-Identifier: MIT
**
** restore.c -- restores a table from files: emb_snapshot_restore.
**
**   1  the file is opened and checked as a whole                [pack_verify]
**   2  no other call takes a file from here to the end          [restore_enter]
**   3  a transaction begins; may this file come next?           [chain__check]
**   4  a durable record says that it is being applied           [chain__begin]
**   5  its rows are put; with a whole snapshot, all other keys are deleted
**   6  commit, checkpoint, and a record of the applied file     [chain__end]
**
** The transaction ends with the commit, and other writers continue; step 2
** ensures that no other file is taken before the chain and the position
** describe this one.  Two files taken at the same time would leave a chain
** that names one of them and rows of the other.  Readers see the old table
** until the commit, and the new one from then on.  A failure before the commit
** leaves the table and its chain unchanged.  After a crash the table is either
** the old or the new one, and the chain names both.
*/
#include "restore.h"
#include "engine/table/jobs/progress.h"
#include "engine/table/jobs/begin.h"
#include "engine/table/owner/own.h"
#include "engine/table/rows/value.h"

#include <string.h>

/* Keys deleted in one call. */
enum { DELETE_MAX = 1024 };

static int restore_interrupted(void *arg) {
  emb_session *s = arg;
  return s->waits.interrupt && s->waits.interrupt(s->waits.interrupt_arg);
}

int restore_enter(emb_session *s) {
  return EMB_SEED(SEED_TWO_RESTORES_AT_ONCE)
             ? EMB_OK
             : session_enter_exclusive(
                   s, &s->store->txn.file_owner,
                   "another connection is restoring or applying a file to");
}

void restore_leave(emb_session *s) {
  session_leave_exclusive(s, &s->store->txn.file_owner);
}

/* The key numbers in a file with texts are those of another store. */
static int restore_check_keys(struct restore *r) {
  const struct pack_head *head = pack_reader_head(r->reader);
  const emb_file_keys *keys = r->keys;
  int has_texts = (head->flags & PACK_TEXTS) != 0;
  if (has_texts != (keys != NULL)) {
    return session_error(r->s, EMB_MISMATCH,
                         has_texts ? "the keys of %s are texts, those of the "
                                     "table are integers"
                                   : "the keys of %s are integers, those of "
                                     "the table are texts",
                         r->path);
  }
  return keys && !EMB_SEED(SEED_FILE_KEYS_OF_ANOTHER) &&
                 (keys->file != head->id || keys->n != restore_count(r))
             ? session_error(r->s, EMB_BUSY,
                             "%s was replaced while it was being read", r->path)
             : EMB_OK;
}

int restore_open(struct restore *r) {
  emb_session *s = r->s;
  struct core *core = s->core;
  int rc = pack_open(core->env, r->path, &r->reader, &s->err);
  rc = rc ? rc
          : form_read(&r->form, &core->schema, core->vec,
                      pack_reader_head(r->reader), r->path, &s->err);
  return rc ? rc : restore_check_keys(r);
}

int restore_verify(struct restore *r) {
  emb_session *s = r->s;
  struct core *core = s->core;
  int rc = EMB_SEED(SEED_FILE_NOT_VERIFIED)
               ? EMB_OK
               : pack_verify(r->reader, restore_interrupted, s, &s->err);
  if (rc) {
    return rc;
  }
  r->value = core->env->allocate(core->env, core->layout.value_bytes + 8);
  r->vectors =
      core->env->allocate(core->env, core->schema.dim * sizeof *r->vectors);
  return r->value && r->vectors ? EMB_OK
                                : session_error(s, EMB_NOMEM, "out of memory");
}

uint64_t restore_count(const struct restore *r) {
  const struct pack_end *end = pack_reader_end(r->reader);
  uint64_t rows = 0;
  for (int i = 0; i < PACK_OPS; i++) {
    rows += end->rows[i];
  }
  return rows;
}

void restore_close(struct restore *r) {
  struct env *env = r->s->core->env;
  pack_close(r->reader);
  env->release(env, r->value);
  env->release(env, r->vectors);
}

/* Was the key put by this transaction? */
static int is_mine(emb_session *s, int64_t key) {
  int own;
  session_txn_find(s->txn, key, hash_key(key), &own);
  return own;
}

static int apply_row(struct restore *r, const struct pack_row *row) {
  emb_session *s = r->s;
  const struct schema *schema = &s->core->schema;
  int64_t key = r->keys ? r->keys->keys[r->rows] : row->key;
  if (r->keys && is_mine(s, key) && !EMB_SEED(SEED_FILE_TEXT_TWICE)) {
    return session_error(s, EMB_CORRUPT,
                         "%s has a text twice: row %llu is %lld", r->path,
                         (unsigned long long)r->rows, (long long)key);
  }
  if (row->op != PACK_PUT) {
    return local_txn_delete(s, &key, 1, NULL);
  }
  memset(r->value, 0, s->core->layout.value_bytes);
  if (form_decode(&r->form, row->value, r->value, r->vectors)) {
    return session_error(s, EMB_CORRUPT, "%s: key %lld is not finite", r->path,
                         (long long)key);
  }
  if (schema_tracks(schema)) {
    uint32_t at = schema_track(schema, r->value).updated_at;
    r->newest = at > r->newest ? at : r->newest;
  }
  return txn_put_value(s, key, r->value);
}

/* Deletes the keys that the file does not have. */
static int delete_others(emb_session *s) {
  emb_scan *scan = NULL;
  int64_t keys[DELETE_MAX];
  size_t n = 1;
  int rc = local_scan_open(s, INT64_MIN, INT64_MAX, EMB_SCAN_KEYS, &scan);
  while (!rc && n) {
    size_t gone = 0;
    rc = local_scan_next_rows(scan, DELETE_MAX, &(emb_rows){.keys = keys}, &n);
    for (size_t i = 0; !rc && i < n; i++) {
      keys[gone] = keys[i];
      gone += !EMB_SEED(SEED_RESTORE_KEEPS_OTHER_KEYS) && !is_mine(s, keys[i]);
    }
    rc = rc || !gone ? rc : local_txn_delete(s, keys, gone, NULL);
    rc = rc ? rc : session_interrupted(s);
  }
  local_scan_close(scan);
  return rc;
}

static int apply_rows(struct restore *r) {
  const struct pack_row *row;
  int rc;
  do {
    rc = pack_next(r->reader, &row, &r->s->err);
    if (!rc && row) {
      rc = apply_row(r, row);
      progress_at(r->s, r->begun, ++r->rows);
    }
    rc = rc || r->rows % 1024 ? rc : session_interrupted(r->s);
  } while (!rc && row);
  return rc;
}

int restore_rows(struct restore *r, int whole) {
  emb_assert(r->s->txn);
  emb_assert(EMB_SEED(SEED_TWO_RESTORES_AT_ONCE) ||
             r->s->store->txn.file_owner == r->s); /* restore_enter */
  int rc = apply_rows(r);
  return rc || !whole ? rc : delete_others(r->s);
}

void restore_settle(struct restore *r) {
  emb_assert(!r->s->txn); /* its rows are committed */
  value_saw_time(r->s->core, r->newest);
}

/* Reads and changes the chain, under its lock. */
static int chain_step(struct restore *r, struct chain *before, int end) {
  emb_session *s = r->s;
  struct core *core = s->core;
  struct chain *chain = chain_of(s->store);
  const struct pack_head *head = pack_reader_head(r->reader);
  int rc = session_lock(s, &core->ckpt_lock);
  if (rc) {
    return rc;
  }
  if (end) {
    rc = chain__end(core, chain, &s->err);
  } else {
    rc = chain_read(core, chain, &s->err);
    if (rc == EMB_CORRUPT && head->base.id == 0) {
      err_clear(&s->err);
      rc = EMB_OK;
    }
    *before = *chain;
    rc = rc ? rc : chain__check(chain, head, r->path, &s->err);
    rc = rc ? rc : chain__begin(core, chain, head, &s->err);
  }
  pthread_mutex_unlock(&core->ckpt_lock);
  return rc;
}

/* Rolls the transaction back, and undoes the change to the chain. */
static int restore_undo(struct restore *r, const struct chain *before) {
  emb_session *s = r->s;
  emb_err first = s->err;
  local_rollback(s);
  pthread_mutex_lock(&s->core->ckpt_lock);
  chain_undo(s->core, chain_of(s->store), before);
  pthread_mutex_unlock(&s->core->ckpt_lock);
  s->err = first;
  return first.code;
}

/* Records which deltas may come next: those after the snapshot. */
static int restore_note_position(struct restore *r) {
  const struct pack_head *head = pack_reader_head(r->reader);
  struct position p = {.end = head->end.page};
  memcpy(p.source, head->uuid, sizeof p.source);
  return consumers_move(&r->s->store->consumers, &p, &r->s->err);
}

static int restore_apply(struct restore *r) {
  emb_session *s = r->s;
  struct consumers *consumers = &s->store->consumers;
  struct position at, none = {.end = 0};
  struct chain before;
  int whole = pack_reader_head(r->reader)->kind == PACK_SNAPSHOT;
  int rc = local_begin(s);
  if (rc) {
    return rc;
  }
  rc = chain_step(r, &before, 0);
  if (rc) {
    emb_err first = s->err;
    local_rollback(s);
    s->err = first;
    return rc;
  }
  rc = restore_rows(r, whole);
  int moved = !rc && consumers_position(consumers, &at, NULL) == EMB_OK;
  rc = rc ? rc : consumers_move(consumers, &none, &s->err);
  rc = rc ? rc : local_commit(s);
  if (rc) {
    rc = restore_undo(r, &before);
    if (moved) {
      consumers_move(consumers, &at, NULL);
    }
    return rc;
  }
  /* The table now equals the file: too late for an interrupt. */
  int (*interrupt_before)(void *) = s->waits.interrupt;
  s->waits.interrupt = NULL;
  restore_settle(r);
  rc = local_checkpoint(s);
  rc = rc ? rc : restore_note_position(r);
  rc = rc ? rc : chain_step(r, NULL, 1);
  s->waits.interrupt = interrupt_before;
  return rc;
}

int local_snapshot_restore(emb_session *s, const char *path, uint64_t *rows) {
  return local_snapshot_restore_keys(s, path, NULL, rows);
}

int local_snapshot_restore_keys(emb_session *s, const char *path,
                                const emb_file_keys *keys, uint64_t *rows) {
  struct env *env = s->core->env;
  struct restore *r;
  int rc = begin_write(s);
  if (rc) {
    return rc;
  }
  if (local_in_transaction(s)) {
    return session_error(s, EMB_LOCKED, "cannot restore inside a transaction");
  }
  rc = own_claim(s);
  if (rc) {
    return rc;
  }
  r = env->allocate(env, sizeof *r);
  if (!r) {
    return session_error(s, EMB_NOMEM, "out of memory");
  }
  r->s = s;
  r->path = path;
  r->keys = keys;
  rc = restore_open(r);
  if (!rc && pack_reader_head(r->reader)->kind == PACK_DELTA) {
    rc = session_error(s, EMB_MISMATCH, "%s is a delta, not a snapshot", path);
  }
  r->begun = rc ? 0 : progress_begin(s, "restore", "rows", restore_count(r));
  rc = rc ? rc : restore_verify(r);
  rc = rc ? rc : restore_enter(s);
  if (!rc) {
    rc = restore_apply(r);
    restore_leave(s);
  }
  progress_end(s, r->begun);
  if (!rc && rows) {
    *rows = r->rows;
  }
  restore_close(r);
  env->release(env, r);
  return rc;
}
