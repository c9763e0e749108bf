/* SPDX-License-Identifier: MIT
**
** delta_apply.c -- applies the file of another store's delta.
**
**   1  the whole file is read: its checksums, the number of rows, and whether
**      they fit the table                                  [check_file]
**   2  no other call takes a file from here to the end     [restore_enter],
**      and a transaction begins                            [emb_begin]
**   3  the position (consumer/position.h) tells whether this delta was taken
**      already, is the next one, or another is missing    [check_chain]
**   4  the rows are put and deleted, in order; after a delta from the
**      beginning all keys it does not name are deleted     [restore_rows]
**   5  commit by the engine alone; sync
**   6  the position is written
**
** Until 5 a failure leaves the table unchanged, and readers see it unchanged.
** After a crash between 5 and 6 the delta is taken again, which changes
** nothing: its values are absolute.
**
** VERSIONS  are the store's own, as for any other write: they say when a row
**           came here.  So the store can be the source of deltas and snapshots,
**           and a row never has an older version than before.
** MEMORY    24 bytes for each key that changes, and a block of the file.
*/
#include <stdio.h>
#include <string.h>

#include "delta.h"
#include "engine/table/jobs/progress.h"
#include "engine/table/jobs/begin.h"
#include "engine/table/owner/own.h"
#include "engine/features/snapshot/restore.h"

struct applying {
  emb_session *s;
  const emb_delta_options *how;
  struct restore file;
  const struct pack_head *head;
  struct position position;
  struct chain chain; /* of snapshots, as before */
  emb_delta_file *about;
};

/* ---- does it fit? -------------------------------------------------------- */

static int check_columns(struct applying *a) {
  char label[PACK_NAME_BYTES];
  delta__label(a->how->columns, label);
  return a->how->columns && a->head->base_name[0] &&
                 strcmp(label, a->head->base_name) != 0
             ? session_error(a->s, EMB_MISMATCH,
                             "%s holds the columns %s, the table has %s",
                             a->file.path, a->head->base_name, label)
             : EMB_OK;
}

static int check_file(struct applying *a) {
  int rc = restore_open(&a->file);
  if (rc) {
    return rc;
  }
  a->head = pack_reader_head(a->file.reader);
  const struct pack_end *end = pack_reader_end(a->file.reader);
  if (a->head->kind != PACK_DELTA) {
    return session_error(a->s, EMB_MISMATCH, "%s is a snapshot, not a delta",
                         a->file.path);
  }
  if (!a->head->number || !a->head->name[0] ||
      strlen(a->head->name) > EMB_CONSUMER_NAME_MAX ||
      a->head->base.page > a->head->end.page || !a->head->end.page) {
    return session_error(a->s, EMB_CORRUPT,
                         "%s is damaged: its position in the chain is missing",
                         a->file.path);
  }
  a->about->number = a->head->number;
  a->about->from = a->head->base.page;
  a->about->to = a->head->end.page;
  a->about->puts = (int64_t)end->rows[PACK_PUT];
  for (int op = PACK_DELETE; op < PACK_OPS; op++) {
    a->about->deletions += (int64_t)end->rows[op];
  }
  rc = check_columns(a);
  return rc ? rc : restore_verify(&a->file);
}

static const char *delta_apply_hex(const uint8_t uuid[16], char text[33]) {
  for (int i = 0; i < 16; i++) {
    snprintf(text + i * 2, 3, "%02x", uuid[i]);
  }
  return text;
}

static int check_source(struct applying *a) {
  const struct position *p = &a->position;
  char ours[33], theirs[33];
  if (memcmp(p->source, a->head->uuid, sizeof p->source) != 0) {
    return session_error(a->s, EMB_MISMATCH,
                         "%s comes from the store %s; %s takes deltas from %s",
                         a->file.path, delta_apply_hex(a->head->uuid, theirs),
                         a->s->core->dir, delta_apply_hex(p->source, ours));
  }
  return !p->number || strcmp(p->consumer, a->head->name) == 0
             ? EMB_OK
             : session_error(
                   a->s, EMB_MISMATCH, "%s is for the consumer %s; %s is %s",
                   a->file.path, a->head->name, a->s->core->dir, p->consumer);
}

static int check_gap(struct applying *a) {
  const struct position *p = &a->position;
  const struct pack_head *head = a->head;
  if (head->base.page <= p->end || EMB_SEED(SEED_DELTA_GAP_IGNORED)) {
    return EMB_OK;
  }
  if (p->end == 0) {
    return session_error(a->s, EMB_GAP,
                         "%s is delta %llu and begins at mark %llu: delta 1, "
                         "from the beginning, is missing",
                         a->file.path, (unsigned long long)head->number,
                         (unsigned long long)head->base.page);
  }
  /* The delta at our position may have been exported again, and acknowledged in
  ** its newer form. */
  uint64_t first = head->number > p->number + 1 ? p->number + 1 : p->number;
  return session_error(
      a->s, EMB_GAP,
      "%s is delta %llu and begins at mark %llu: delta %llu, from mark %llu "
      "or before to mark %llu or before, is missing",
      a->file.path, (unsigned long long)head->number,
      (unsigned long long)head->base.page, (unsigned long long)first,
      (unsigned long long)p->end, (unsigned long long)head->base.page);
}

/* *again: the delta was already taken. */
static int check_chain(struct applying *a, int *again) {
  struct position *p = &a->position;
  *again = 0;
  int rc = consumers_position(&a->s->store->consumers, p, &a->s->err);
  if (a->how->join && (!rc || rc == EMB_CORRUPT)) {
    err_clear(&a->s->err);
    return EMB_OK;
  }
  if (rc || !p->end) {
    return rc ? rc : check_gap(a);
  }
  rc = check_source(a);
  if (!rc && a->head->end.page <= p->end &&
      !EMB_SEED(SEED_DELTA_APPLIED_TWICE)) {
    *again = 1;
    return EMB_OK;
  }
  return rc ? rc : check_gap(a);
}

/* ---- all together -------------------------------------------------------- */

static int delta_apply_note_position(struct applying *a) {
  struct position *p = &a->position;
  memset(p, 0, sizeof *p);
  memcpy(p->source, a->head->uuid, sizeof p->source);
  memcpy(p->consumer, a->head->name, strlen(a->head->name));
  p->number = a->head->number;
  p->end = a->head->end.page;
  return consumers_move(&a->s->store->consumers, p, &a->s->err);
}

/* After a delta, an increment of a snapshot can no longer come next. */
static int leave_chain(struct applying *a) {
  emb_session *s = a->s;
  struct chain none = {0};
  int rc = session_lock(s, &s->core->ckpt_lock);
  if (rc) {
    return rc;
  }
  rc = chain_read(s->core, chain_of(s->store), &s->err);
  if (rc == EMB_CORRUPT) {
    err_clear(&s->err);
    rc = EMB_OK;
  }
  a->chain = *chain_of(s->store);
  if (!rc && a->chain.to) {
    chain_undo(s->core, chain_of(s->store), &none);
    rc = chain_of(s->store)->to
             ? session_error(s, EMB_IOERR, "cannot write %s/%s", s->core->dir,
                             CHAIN_NAME)
             : EMB_OK;
  }
  pthread_mutex_unlock(&s->core->ckpt_lock);
  return rc;
}

/* Rolls the transaction back, and restores the chain. */
static void delta_apply_undo(struct applying *a) {
  emb_session *s = a->s;
  emb_err first = s->err;
  local_rollback(s);
  if (a->chain.to) {
    pthread_mutex_lock(&s->core->ckpt_lock);
    chain_undo(s->core, chain_of(s->store), &a->chain);
    pthread_mutex_unlock(&s->core->ckpt_lock);
  }
  s->err = first;
}

/* Runs in the transaction, and ends it. */
static int apply_once(struct applying *a) {
  emb_session *s = a->s;
  int again;
  int rc = check_chain(a, &again);
  if (!rc && !again) {
    rc = restore_rows(&a->file, a->head->base.page == 0);
    rc = rc ? rc : leave_chain(a);
    rc = rc ? rc : local_commit(s);
  }
  if (rc || again) {
    delta_apply_undo(a);
    return rc;
  }
  a->about->applied = 1;
  restore_settle(&a->file);
  rc = s->core->temporary || EMB_SEED(SEED_APPLIED_DELTA_NOT_SYNCED)
           ? EMB_OK
           : core_flush_all(s->core, 1, NULL, &s->err);
  return rc ? rc : delta_apply_note_position(a);
}

int local_delta_apply(emb_session *s, const char *path,
                      const emb_delta_options *how, emb_delta_file *about) {
  static const emb_delta_options plain = {0};
  emb_delta_file unused;
  struct applying a = {
      .s = s,
      .how = how ? how : &plain,
      .file = {.s = s, .path = path, .keys = how ? how->keys : NULL},
      .about = about ? about : &unused};
  memset(a.about, 0, sizeof *a.about);
  int rc = begin_write(s);
  if (!rc && s->txn) {
    rc = session_error(s, EMB_LOCKED, "no delta inside a transaction");
  }
  rc = rc ? rc : own_claim(s);
  rc = rc ? rc : check_file(&a);
  a.file.begun =
      rc ? 0 : progress_begin(s, "delta apply", "rows", restore_count(&a.file));
  rc = rc ? rc : restore_enter(s);
  if (!rc) {
    rc = local_begin(s);
    rc = rc ? rc : apply_once(&a);
    restore_leave(s);
  }
  progress_end(s, a.file.begun);
  restore_close(&a.file);
  return rc;
}

int local_delta_position(emb_session *s, emb_delta_place *place) {
  struct position p;
  memset(place, 0, sizeof *place);
  int rc = session_begin(s);
  rc = rc ? rc : consumers_position(&s->store->consumers, &p, &s->err);
  if (!rc) {
    memcpy(place->source, p.source, sizeof p.source);
    memcpy(place->consumer, p.consumer, sizeof p.consumer);
    place->number = p.number;
    place->mark = p.end;
  }
  return rc;
}
