/* SPDX-License-Identifier: MIT
**
** restore.c -- a table from files: emb_snapshot_restore.
**
**   1  the file is opened and all of it is checked              [pack_verify]
**   2  a transaction begins; may this file come next?           [chain_check]
**   3  that it is being applied becomes durable                 [chain_begin]
**   4  its rows are put; with a whole snapshot, all other keys are deleted
**   5  commit, checkpoint, and it is noted that the file is in  [chain_end]
**
** Readers see the old table until the commit, and the new one from then on.  A
** failure before the commit leaves the table and its chain as they were.  After
** a crash it is one of the two, and the chain knows of both.
*/
#include "restore.h"
#include "value.h"

#include <string.h>

/* Keys that are deleted in one call. */
enum { DELETE_MAX = 1024 };

static int ask(void *arg) {
  emb_session *s = arg;
  return s->ask && s->ask(s->ask_arg);
}

int restore_open(struct restore *r) {
  emb_session *s = r->s;
  struct core *core = s->core;
  int rc = pack_open(core->env, r->path, &r->reader, &s->err);
  return rc ? rc
            : form_read(&r->form, &core->schema, core->vec,
                        pack_reader_head(r->reader), r->path, &s->err);
}

int restore_verify(struct restore *r) {
  emb_session *s = r->s;
  struct core *core = s->core;
  int rc = EMB_SEED(92) ? EMB_OK : pack_verify(r->reader, ask, s, &s->err);
  if (rc) {
    return rc;
  }
  r->value = core->env->allocate(core->env, core->layout.value_bytes + 8);
  r->vectors =
      core->env->allocate(core->env, core->schema.dim * sizeof *r->vectors);
  return r->value && r->vectors ? EMB_OK
                                : session_error(s, EMB_NOMEM, "out of memory");
}

void restore_close(struct restore *r) {
  struct env *env = r->s->core->env;
  pack_close(r->reader);
  env->release(env, r->value);
  env->release(env, r->vectors);
}

static int apply_row(struct restore *r, const struct pack_row *row) {
  emb_session *s = r->s;
  const struct schema *schema = &s->core->schema;
  if (row->op != PACK_PUT) {
    return emb_txn_delete(s, &row->key, 1, NULL);
  }
  memset(r->value, 0, s->core->layout.value_bytes);
  if (form_decode(&r->form, row->value, r->value, r->vectors)) {
    return session_error(s, EMB_CORRUPT, "%s: key %lld is not finite", r->path,
                         (long long)row->key);
  }
  if (schema_tracks(schema)) {
    uint32_t at = schema_track(schema, r->value).updated_at;
    r->newest = at > r->newest ? at : r->newest;
  }
  return txn_put_value(s, row->key, r->value);
}

/* Was the key put by this transaction? */
static int is_mine(emb_session *s, int64_t key) {
  int own;
  txn_find(s->txn, key, hash_key(key), &own);
  return own;
}

/* Keys that the file does not have. */
static int delete_others(emb_session *s) {
  emb_scan *scan = NULL;
  int64_t keys[DELETE_MAX];
  size_t n = 1;
  int rc = emb_scan_open(s, INT64_MIN, INT64_MAX, EMB_SCAN_KEYS, &scan);
  while (!rc && n) {
    size_t gone = 0;
    rc = emb_scan_next(scan, DELETE_MAX, keys, NULL, NULL, &n);
    for (size_t i = 0; !rc && i < n; i++) {
      keys[gone] = keys[i];
      gone += !EMB_SEED(117) && !is_mine(s, keys[i]);
    }
    rc = rc || !gone ? rc : emb_txn_delete(s, keys, gone, NULL);
    rc = rc ? rc : session_ask(s);
  }
  emb_scan_close(scan);
  return rc;
}

static int apply_rows(struct restore *r) {
  const struct pack_row *row;
  int rc;
  do {
    rc = pack_next(r->reader, &row, &r->s->err);
    if (!rc && row) {
      rc = apply_row(r, row);
      r->rows++;
    }
    rc = rc || r->rows % 1024 ? rc : session_ask(r->s);
  } while (!rc && row);
  return rc;
}

int restore_rows(struct restore *r, int whole) {
  int rc = apply_rows(r);
  return rc || !whole ? rc : delete_others(r->s);
}

void restore_tell(struct restore *r) { value_tell_time(r->s->core, r->newest); }

/* What is done to the chain, under its lock. */
static int chain_step(struct restore *r, struct chain *before, int end) {
  emb_session *s = r->s;
  struct core *core = s->core;
  struct chain *chain = &s->store->chain;
  const struct pack_head *head = pack_reader_head(r->reader);
  int rc = session_lock(s, &core->ckpt_lock);
  if (rc) {
    return rc;
  }
  if (end) {
    rc = chain_end(core, chain, &s->err);
  } else {
    rc = chain_read(core, chain, &s->err);
    if (rc == EMB_CORRUPT && head->base.id == 0) {
      err_clear(&s->err);
      rc = EMB_OK;
    }
    *before = *chain;
    rc = rc ? rc : chain_check(chain, head, r->path, &s->err);
    rc = rc ? rc : chain_begin(core, chain, head, &s->err);
  }
  pthread_mutex_unlock(&core->ckpt_lock);
  return rc;
}

/* The transaction is undone, and the chain with it. */
static int undo(struct restore *r, const struct chain *before) {
  emb_session *s = r->s;
  emb_err first = s->err;
  emb_rollback(s);
  pthread_mutex_lock(&s->core->ckpt_lock);
  chain_undo(s->core, &s->store->chain, before);
  pthread_mutex_unlock(&s->core->ckpt_lock);
  s->err = first;
  return first.code;
}

/* Which deltas may come next: those after the snapshot. */
static int note_position(struct restore *r) {
  const struct pack_head *head = pack_reader_head(r->reader);
  struct position p = {.end = head->end.page};
  memcpy(p.source, head->uuid, sizeof p.source);
  return consumers_move(&r->s->store->consumers, &p, &r->s->err);
}

static int apply(struct restore *r) {
  emb_session *s = r->s;
  struct consumers *consumers = &s->store->consumers;
  struct position place, none = {.end = 0};
  struct chain before;
  int whole = pack_reader_head(r->reader)->kind == PACK_SNAPSHOT;
  int rc = emb_begin(s);
  if (rc) {
    return rc;
  }
  rc = chain_step(r, &before, 0);
  if (rc) {
    emb_err first = s->err;
    emb_rollback(s);
    s->err = first;
    return rc;
  }
  rc = restore_rows(r, whole);
  int moved = !rc && consumers_position(consumers, &place, NULL) == EMB_OK;
  rc = rc ? rc : consumers_move(consumers, &none, &s->err);
  rc = rc ? rc : emb_commit(s);
  if (rc) {
    rc = undo(r, &before);
    if (moved) {
      consumers_move(consumers, &place, NULL);
    }
    return rc;
  }
  restore_tell(r);
  rc = emb_checkpoint(s);
  rc = rc ? rc : note_position(r);
  return rc ? rc : chain_step(r, NULL, 1);
}

int emb_snapshot_restore(emb_session *s, const char *path, uint64_t *rows) {
  struct env *env = s->core->env;
  struct restore *r;
  int rc = session_begin_write(s);
  if (rc) {
    return rc;
  }
  if (emb_in_transaction(s)) {
    return session_error(s, EMB_LOCKED,
                         "cannot restore within the session's own transaction");
  }
  rc = store_own(s);
  if (rc) {
    return rc;
  }
  r = env->allocate(env, sizeof *r);
  if (!r) {
    return session_error(s, EMB_NOMEM, "out of memory");
  }
  r->s = s;
  r->path = path;
  rc = restore_open(r);
  if (!rc && pack_reader_head(r->reader)->kind == PACK_DELTA) {
    rc = session_error(s, EMB_MISMATCH, "%s is a delta, not a snapshot", path);
  }
  rc = rc ? rc : restore_verify(r);
  rc = rc ? rc : apply(r);
  if (!rc && rows) {
    *rows = r->rows;
  }
  restore_close(r);
  env->release(env, r);
  return rc;
}
