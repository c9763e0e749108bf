/* SPDX-License-Identifier: MIT
**
** delta_apply.c -- a store takes the file of a delta of another one.
**
**   1  the file is read as a whole: its checksums, how many rows there are,
**      that they fit the table                             [check_file]
**   2  a transaction begins: nobody else applies           [emb_begin]
**   3  is it the next one of the chain? (delta/position.h) [check_chain]
**   4  the rows are put and deleted, as they come; what a delta from the
**      beginning does not name is deleted                  [apply_rows]
**   5  commit; sync
**   6  the position is written
**
** Until 5 a failure leaves the table as it was, and readers see it so.  After a
** crash between 5 and 6 the delta is taken again: its values are absolute.
**
** VERSIONS  are the store's own, as for any other write: they say when a row
**           came here.  So it can be the source of deltas and snapshots, and a
**           row never has an older version than before.
** MEMORY    24 bytes for each key that changes, and a block of the file.
*/
#include <stdio.h>
#include <string.h>

#include "../core/form.h"
#include "delta.h"
#include "txn.h"
#include "value.h"

struct applying {
  emb_session *s;
  const char *path;
  const emb_delta_options *how;
  struct pack_reader *pack;
  const struct pack_head *head;
  struct form form;
  struct position position;
  char *value;
  float *scratch;
  emb_delta_file *about;
};

/* ---- does it fit? -------------------------------------------------------- */

static int ask(void *arg) { return session_ask(arg) != EMB_OK; }

static int check_columns(struct applying *a) {
  char label[PACK_NAME_BYTES];
  delta_label(a->how->columns, label);
  return a->how->columns && a->head->base_name[0] &&
                 strcmp(label, a->head->base_name) != 0
             ? session_error(a->s, EMB_MISMATCH,
                             "%s holds the columns %s, the table has %s",
                             a->path, a->head->base_name, label)
             : EMB_OK;
}

static int check_file(struct applying *a) {
  emb_session *s = a->s;
  struct core *core = s->core;
  int rc = pack_open(core->env, a->path, &a->pack, &s->err);
  if (rc) {
    return rc;
  }
  a->head = pack_reader_head(a->pack);
  const struct pack_end *end = pack_reader_end(a->pack);
  if (a->head->kind != PACK_DELTA) {
    return session_error(s, EMB_MISMATCH, "%s is a snapshot, and no delta",
                         a->path);
  }
  if (!a->head->number || !a->head->name[0] ||
      a->head->base.page > a->head->end.page || !a->head->end.page) {
    return session_error(s, EMB_CORRUPT, "%s is damaged: it has no place",
                         a->path);
  }
  a->about->number = a->head->number;
  a->about->from = a->head->base.page;
  a->about->to = a->head->end.page;
  a->about->puts = (int64_t)end->rows[PACK_PUT];
  for (int op = PACK_DELETE; op < PACK_OPS; op++) {
    a->about->deletions += (int64_t)end->rows[op];
  }
  rc = form_read(&a->form, &core->schema, core->vec, a->head, a->path, &s->err);
  rc = rc ? rc : check_columns(a);
  return rc || EMB_SEED(92) ? rc : pack_verify(a->pack, ask, s, &s->err);
}

static const char *hex(const uint8_t uuid[16], char text[33]) {
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
                         "%s is of the store %s; %s takes deltas of %s",
                         a->path, hex(a->head->uuid, theirs), a->s->core->dir,
                         hex(p->source, ours));
  }
  return strcmp(p->consumer, a->head->name) == 0
             ? EMB_OK
             : session_error(a->s, EMB_MISMATCH,
                             "%s is for the consumer %s; %s is %s", a->path,
                             a->head->name, a->s->core->dir, p->consumer);
}

static int check_gap(struct applying *a) {
  const struct position *p = &a->position;
  const struct pack_head *head = a->head;
  if (head->base.page <= p->end || EMB_SEED(93)) {
    return EMB_OK;
  }
  if (p->number == 0) {
    return session_error(a->s, EMB_RANGE,
                         "%s is delta %llu and begins at mark %llu: delta 1, "
                         "from the beginning, is missing",
                         a->path, (unsigned long long)head->number,
                         (unsigned long long)head->base.page);
  }
  /* Ours may have been exported again, and acknowledged in the newer form. */
  uint64_t first = head->number > p->number + 1 ? p->number + 1 : p->number;
  return session_error(
      a->s, EMB_RANGE,
      "%s is delta %llu and begins at mark %llu: delta %llu, from mark %llu "
      "or before to mark %llu or before, is missing",
      a->path, (unsigned long long)head->number,
      (unsigned long long)head->base.page, (unsigned long long)first,
      (unsigned long long)p->end, (unsigned long long)head->base.page);
}

/* *again: it was taken already.  Nobody else applies. */
static int check_chain(struct applying *a, int *again) {
  struct core *core = a->s->core;
  struct position *p = &a->position;
  struct consumers *consumers = &a->s->store->consumers;
  *again = 0;
  int rc = EMB_OK;
  if (core->temporary) {
    pthread_mutex_lock(&consumers->lock);
    *p = consumers->position;
    pthread_mutex_unlock(&consumers->lock);
  } else {
    rc = position_read(core, p, &a->s->err);
  }
  if (a->how->join && (!rc || rc == EMB_CORRUPT)) {
    err_clear(&a->s->err);
    return EMB_OK;
  }
  if (rc || !p->number) {
    return rc ? rc : check_gap(a);
  }
  rc = check_source(a);
  if (!rc && a->head->end.page <= p->end && !EMB_SEED(94)) {
    *again = 1;
    return EMB_OK;
  }
  return rc ? rc : check_gap(a);
}

/* ---- rows ---------------------------------------------------------------- */

static int apply_row(struct applying *a, const struct pack_row *row) {
  emb_session *s = a->s;
  const struct schema *schema = &s->core->schema;
  if (row->op != PACK_PUT) {
    return emb_txn_delete(s, &row->key, 1, NULL);
  }
  memset(a->value, 0, s->core->layout.value_bytes);
  int rc = form_decode(&a->form, row->value, a->value, a->scratch);
  if (rc) {
    return session_error(s, rc, "%s: the row of key %lld is damaged", a->path,
                         (long long)row->key);
  }
  if (schema_tracks(schema)) {
    value_tell_time(s->core, schema_track(schema, a->value).updated_at);
  }
  return txn_put_value(s, row->key, a->value);
}

struct others {
  int64_t *keys;
  size_t n, room;
};

static void collect(void *arg, int64_t key, uint64_t word) {
  struct others *o = arg;
  if (word_address(word)) {
    if (o->n < o->room) {
      o->keys[o->n] = key;
    }
    o->n++;
  }
}

/* The keys of a partition. */
static int list_part(emb_session *s, uint32_t part, struct others *o) {
  struct core *core = s->core;
  struct env *env = core->env;
  for (;;) {
    o->n = 0;
    epoch_enter(&core->epoch, s->slot);
    index_each(&core->index, part, collect, o);
    epoch_leave(s->slot);
    if (o->n <= o->room) {
      return EMB_OK;
    }
    size_t room = o->n + o->n / 8 + 64;
    void *keys = env->resize(env, o->keys, room * sizeof *o->keys);
    if (!keys) {
      return session_error(s, EMB_NOMEM, "out of memory");
    }
    o->keys = keys;
    o->room = room;
  }
}

/* What the transaction has not touched is not named by the delta. */
static int delete_others(struct applying *a) {
  emb_session *s = a->s;
  struct core *core = s->core;
  struct others o = {NULL, 0, 0};
  int rc = EMB_OK;
  for (uint32_t p = 0; !rc && p < index_parts(&core->index); p++) {
    rc = session_ask(s);
    rc = rc ? rc : list_part(s, p, &o);
    for (size_t i = 0; !rc && i < o.n; i++) {
      int own = 0;
      txn_find(s->txn, o.keys[i], hash_key(o.keys[i]), &own);
      rc = own ? EMB_OK : emb_txn_delete(s, &o.keys[i], 1, NULL);
    }
  }
  core->env->release(core->env, o.keys);
  return rc;
}

static int apply_rows(struct applying *a) {
  const struct pack_row *row;
  int rc;
  pack_seek(a->pack, 0);
  for (uint32_t n = 1;; n++) {
    rc = pack_next(a->pack, &row, &a->s->err);
    rc = rc || n % 1024 ? rc : session_ask(a->s);
    if (rc || !row) {
      break;
    }
    rc = apply_row(a, row);
    if (rc) {
      break;
    }
  }
  return rc || a->head->base.page ? rc : delete_others(a);
}

/* ---- the whole ------------------------------------------------------------
 */

static int note_position(struct applying *a) {
  struct core *core = a->s->core;
  struct position *p = &a->position;
  struct consumers *consumers = &a->s->store->consumers;
  memset(p, 0, sizeof *p);
  memcpy(p->source, a->head->uuid, sizeof p->source);
  memcpy(p->consumer, a->head->name, strlen(a->head->name));
  p->number = a->head->number;
  p->end = a->head->end.page;
  if (!core->temporary) {
    return position_write(core, p, &a->s->err);
  }
  pthread_mutex_lock(&consumers->lock);
  consumers->position = *p;
  pthread_mutex_unlock(&consumers->lock);
  return EMB_OK;
}

/* In the transaction, which is over afterwards. */
static int apply_once(struct applying *a) {
  emb_session *s = a->s;
  int again;
  int rc = check_chain(a, &again);
  if (!rc && !again) {
    rc = apply_rows(a);
    rc = rc ? rc : emb_commit(s);
  }
  if (rc || again) {
    emb_err first = s->err;
    emb_rollback(s);
    s->err = first;
    return rc;
  }
  a->about->applied = 1;
  rc = s->core->temporary || EMB_SEED(95)
           ? EMB_OK
           : core_flush_all(s->core, 1, NULL, &s->err);
  return rc ? rc : note_position(a);
}

static int apply(struct applying *a) {
  struct core *core = a->s->core;
  int rc = check_file(a);
  if (rc) {
    return rc;
  }
  a->value = core->env->allocate(core->env, core->layout.value_bytes + 8);
  a->scratch =
      core->env->allocate(core->env, core->layout.dim * sizeof *a->scratch);
  if (!a->value || !a->scratch) {
    return session_error(a->s, EMB_NOMEM, "out of memory");
  }
  rc = emb_begin(a->s);
  return rc ? rc : apply_once(a);
}

int emb_delta_apply(emb_session *s, const char *path,
                    const emb_delta_options *how, emb_delta_file *about) {
  static const emb_delta_options plain = {0};
  emb_delta_file unused;
  struct applying a = {.s = s,
                       .path = path,
                       .how = how ? how : &plain,
                       .about = about ? about : &unused};
  memset(a.about, 0, sizeof *a.about);
  int rc = session_begin_write(s);
  if (!rc && s->txn) {
    rc = session_error(s, EMB_LOCKED, "no delta inside a transaction");
  }
  rc = rc ? rc : store_own(s);
  if (!rc) {
    rc = apply(&a);
    s->core->env->release(s->core->env, a.value);
    s->core->env->release(s->core->env, a.scratch);
    pack_close(a.pack);
  }
  return rc;
}

int emb_delta_position(emb_session *s, emb_delta_place *place) {
  struct consumers *consumers = &s->store->consumers;
  struct position p;
  memset(place, 0, sizeof *place);
  int rc = session_begin(s);
  if (!rc && s->core->temporary) {
    pthread_mutex_lock(&consumers->lock);
    p = consumers->position;
    pthread_mutex_unlock(&consumers->lock);
  } else if (!rc) {
    rc = position_read(s->core, &p, &s->err);
  }
  if (!rc) {
    memcpy(place->source, p.source, sizeof p.source);
    memcpy(place->consumer, p.consumer, sizeof p.consumer);
    place->number = p.number;
    place->mark = p.end;
  }
  return rc;
}
