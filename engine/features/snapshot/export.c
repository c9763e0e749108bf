/* SPDX-License-Identifier: MIT
**
** export.c -- writes a snapshot to a file: emb_snapshot_export.
**
** WHOLE      The rows come in log order, an extent at a time, while training
**            continues.  Then the index of keys: the entries of the snapshot's
**            own file have the order it needs, and the number of a row is the
**            rank of its bit among the bits of the scan.
** INCREMENT  Both snapshots' entries are ordered by hash: one pass over the two
**            finds deletions, and addresses that differ.  Of the records there,
**            those written since the base count (snapshot.h); the others were
**            moved by compaction.
** MEMORY     As for a scan of the snapshot; the index takes eight more bytes
**            for each 64 of its bits; the writer's blocks.
*/
#include <string.h>

#include "engine/storage/schema/form.h"
#include "engine/table/jobs/progress.h"
#include "engine/storage/pack/options.h"
#include "snap.h"

struct export {
  emb_session *s;
  emb_snap *snap, *base; /* base: of an increment, else NULL */
  struct pack_options options;
  struct pack_head head;
  struct form form;
  struct pack_writer *writer;
  char *row;       /* of the file */
  float *vectors;  /* scratch */
  uint64_t *ranks; /* bits set before each 64 */
  uint64_t rows;
  int begun; /* progress is reported */
};

static int export_out_of_memory(emb_session *s) {
  return session_error(s, EMB_NOMEM, "out of memory");
}

/* ---- rows ---------------------------------------------------------------- */

static int export_add_row(struct export *e, int64_t key, uint64_t version,
                          const char *value) {
  emb_session *s = e->s;
  struct pack_row row = {key, version, PACK_PUT, e->row};
  if (form_encode(&e->form, value, e->row, e->vectors)) {
    return session_error(s, EMB_NONFINITE, "key %lld does not fit into float16",
                         (long long)key);
  }
  progress_at(s, e->begun, ++e->rows);
  return pack_add(e->writer, &row, &s->err);
}

/* Was it written after the base? */
static int export_is_new(const struct export *e, uint64_t version) {
  const struct snapshot_head *base = &e->base->snapshot->head;
  return version > base->version ||
         (!EMB_SEED(SEED_INCREMENT_WITHOUT_OPEN_PAGES) &&
          snap__page(e->snap) < base->mark);
}

static int export_write_rows(struct export *e) {
  int64_t key;
  uint64_t version;
  const char *value;
  int rc;
  do {
    rc = snap__next(e->snap, &key, &version, &value);
    if (!rc && value && (!e->base || export_is_new(e, version))) {
      rc = export_add_row(e, key, version, value);
    }
  } while (!rc && value);
  return rc;
}

/* ---- the index of keys --------------------------------------------------- */

static uint64_t bits_at(const struct export *e, uint64_t word) {
  uint64_t bits = 0, at = word * 8, bytes = snap__bit_bytes(e->snap);
  memcpy(&bits, e->snap->bits + at, bytes - at < 8 ? bytes - at : 8);
  return bits;
}

static uint64_t rank_words(const struct export *e) {
  return (snap__bit_bytes(e->snap) + 7) / 8;
}

static int make_ranks(struct export *e) {
  struct env *env = e->s->core->env;
  uint64_t sum = 0, words = rank_words(e);
  e->ranks = env->map(env, words * sizeof *e->ranks, 0);
  if (!e->ranks) {
    return export_out_of_memory(e->s);
  }
  for (uint64_t i = 0; i < words; i++) {
    e->ranks[i] = sum;
    sum += (uint64_t)__builtin_popcountll(bits_at(e, i));
  }
  return EMB_OK;
}

static int export_add_entry(struct export *e, int64_t key, uint64_t address) {
  uint64_t bit;
  int rc = snap__bit(e->snap, address, &bit);
  if (rc) {
    return rc;
  }
  uint64_t below = bits_at(e, bit / 64) & ((UINT64_C(1) << bit % 64) - 1);
  uint64_t row = e->ranks[bit / 64] + (uint64_t)__builtin_popcountll(below);
  return pack_add_entry(e->writer, key, row, &e->s->err);
}

static int export_write_index(struct export *e) {
  uint64_t blocks = snapshot_entry_blocks(e->snap->snapshot);
  int rc = make_ranks(e);
  for (uint64_t b = 0; !rc && b < blocks; b++) {
    const struct block *block;
    rc = snap_entries(e->snap, b, &block);
    for (uint32_t i = 0; !rc && i < block->count; i++) {
      rc = export_add_entry(e, (int64_t)block->u.pairs[i * 2],
                            block->u.pairs[i * 2 + 1]);
    }
    rc = rc ? rc : session_interrupted(e->s);
  }
  return rc;
}

/* ---- changes since the base ---------------------------------------------- */

struct export_walk { /* over the entries of a snapshot, by hash */
  emb_snap *snap;
  uint64_t at;
  const struct block *block;
  int64_t key;
  uint64_t address, hash;
  int end;
};

static int walk_next(struct export_walk *w) {
  uint32_t i = (uint32_t)(w->at % BLOCK_PAIRS);
  w->end = w->at >= w->snap->snapshot->head.keys;
  if (w->end) {
    return EMB_OK;
  }
  if (i == 0) {
    int rc = snap_entries(w->snap, w->at / BLOCK_PAIRS, &w->block);
    rc = rc ? rc : session_interrupted(w->snap->s);
    if (rc) {
      return rc;
    }
  }
  w->at++;
  w->key = (int64_t)w->block->u.pairs[i * 2];
  w->address = w->block->u.pairs[i * 2 + 1];
  w->hash = hash_key(w->key);
  return EMB_OK;
}

static int write_deletion(struct export *e, int64_t key) {
  struct pack_row row = {key, e->head.end.version, PACK_DELETE, NULL};
  e->rows++;
  return pack_add(e->writer, &row, &e->s->err);
}

static int choose_changed(struct export *e) {
  struct export_walk then = {.snap = e->base}, now = {.snap = e->snap};
  int rc = snap__choose_none(e->snap);
  rc = rc ? rc : walk_next(&then);
  rc = rc ? rc : walk_next(&now);
  while (!rc && !(then.end && now.end)) {
    if (!then.end && (now.end || then.hash < now.hash)) {
      rc = EMB_SEED(SEED_INCREMENT_WITHOUT_DELETIONS)
               ? EMB_OK
               : write_deletion(e, then.key);
      rc = rc ? rc : walk_next(&then);
    } else if (then.end || now.hash < then.hash) {
      rc = snap__choose(e->snap, now.address);
      rc = rc ? rc : walk_next(&now);
    } else {
      rc = then.address != now.address ? snap__choose(e->snap, now.address)
                                       : EMB_OK;
      rc = rc ? rc : walk_next(&then);
      rc = rc ? rc : walk_next(&now);
    }
  }
  return rc;
}

/* ---- the call ------------------------------------------------------------ */

static struct pack_mark mark_of(const emb_snap *snap) {
  const struct snapshot_head *head = &snap->snapshot->head;
  return (struct pack_mark){head->id, head->mark, head->version};
}

static int export_prepare(struct export *e) {
  emb_session *s = e->s;
  struct core *core = s->core;
  struct pack_head *h = &e->head;
  int rc =
      form_write(&e->form, &core->schema, core->vec, &e->options, h, &s->err);
  if (rc) {
    return rc;
  }
  h->kind = e->base ? PACK_INCREMENT : PACK_SNAPSHOT;
  h->flags |= e->options.index && !e->base ? PACK_INDEX : 0u;
  memcpy(h->uuid, core->uuid, sizeof h->uuid);
  h->end = mark_of(e->snap);
  memcpy(h->name, e->snap->snapshot->name, sizeof e->snap->snapshot->name);
  if (e->base) {
    h->base = mark_of(e->base);
    memcpy(h->base_name, e->base->snapshot->name,
           sizeof e->base->snapshot->name);
  }
  if (e->base && h->base.version > h->end.version) {
    return session_error(s, EMB_RANGE, "snapshot '%s' is newer than '%s'",
                         e->base->snapshot->name, e->snap->snapshot->name);
  }
  e->row = core->env->allocate(core->env, e->form.value_bytes + 8);
  e->vectors =
      core->env->allocate(core->env, core->schema.dim * sizeof *e->vectors);
  return e->row && e->vectors ? EMB_OK : export_out_of_memory(s);
}

static int export_write_file(struct export *e, const char *path,
                             uint64_t *bytes) {
  emb_session *s = e->s;
  int rc = pack_create(s->core->env, path, &e->head, (int)e->options.level,
                       &e->writer, &s->err);
  if (!rc && !(s->store->config.flags & EMB_OPEN_STEP)) {
    pack_hurry(e->writer, s->core->queue_kind);
    snap_hurry(e->snap);
  }
  rc = rc || !e->base ? rc : choose_changed(e);
  rc = rc ? rc : export_write_rows(e);
  rc = rc || !(e->head.flags & PACK_INDEX) ? rc : export_write_index(e);
  rc = rc ? rc : session_interrupted(s);
  if (rc) {
    pack_abandon(e->writer);
    return rc;
  }
  return pack_finish(e->writer, bytes, &s->err);
}

int local_snapshot_export(emb_session *s, const char *name, const char *path,
                          const char *options, uint64_t *rows,
                          uint64_t *bytes) {
  struct env *env = s->core->env;
  struct export *e;
  int rc = session_begin(s);
  if (rc) {
    return rc;
  }
  e = env->allocate(env, sizeof *e);
  if (!e) {
    return export_out_of_memory(s);
  }
  e->s = s;
  rc = pack_options_parse(&e->options, options,
                          PACK_TAKES_INDEX | PACK_TAKES_BASE, &s->err);
  rc = rc ? rc : local_snapshot_open(s, name, &e->snap);
  rc = rc || !e->options.base[0]
           ? rc
           : local_snapshot_open(s, e->options.base, &e->base);
  rc = rc ? rc : export_prepare(e);
  if (!rc) {
    e->begun = progress_begin(s, "export", "rows",
                              e->base ? 0 : e->snap->snapshot->head.keys);
    rc = export_write_file(e, path, bytes);
    progress_end(s, e->begun);
  }
  if (!rc && rows) {
    *rows = e->rows;
  }
  if (e->ranks) {
    env->unmap(env, e->ranks, rank_words(e) * sizeof *e->ranks);
  }
  local_snapshot_close(e->base);
  local_snapshot_close(e->snap);
  env->release(env, e->row);
  env->release(env, e->vectors);
  env->release(env, e);
  return rc;
}
