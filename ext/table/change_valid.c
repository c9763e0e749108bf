/* SPDX-License-Identifier: MIT
**
** change_valid.c -- checks that a parsed change has what its kind requires
** (change.h).  Only in builds with self-checks (engine/base/debug.h).
*/
#include "change.h"
SQLITE_EXTENSION_INIT3

#if EMB_DEBUG > 0

static void check_change_keys(const struct ext_vtab *vtab,
                              const struct ext_change *change) {
  const struct ext_keys *keys = &change->keys;
  int is_one =
      change->kind == EXT_CHANGE_INSERT || change->kind == EXT_CHANGE_UPDATE;
  emb_assert(!is_one || (keys->n == 1 && keys->at == &keys->one));
  emb_assert(keys->absent <= keys->n);
  emb_assert(!keys->absent || vtab->options.text_key);
  emb_assert(!change->moves || change->kind == EXT_CHANGE_UPDATE);
}

static void check_change_rows(const struct ext_vtab *vtab,
                              const struct ext_change *change) {
  size_t n = change->keys.n, dim = vtab->options.config.dim;
  uint32_t vectors = ext_vectors(&vtab->options);
  int is_gradient = change->kind == EXT_CHANGE_GRADIENT;
  emb_assert(change->kind != EXT_CHANGE_INSERT || change->vectors.at);
  emb_assert(change->kind != EXT_CHANGE_INSERT_BATCH ||
             change->vectors.n == n * dim);
  emb_assert(!is_gradient || !change->vectors.at);
  emb_assert(change->gradients.n == (is_gradient ? n * dim : 0));
  emb_assert(change->how.read == change->read.at);
  emb_assert(!change->read.n || change->read.n == change->gradients.n);
  /* Some vectors of an UPDATE, but not all. */
  emb_assert(!change->parts ||
             (change->kind == EXT_CHANGE_UPDATE && change->vectors.at));
  emb_assert((uint64_t)change->parts < (UINT64_C(1) << vectors) - 1 ||
             !change->parts);
}

int ext_change_valid(struct ext_table *table, const struct ext_change *change) {
  int is_command = change->kind == EXT_CHANGE_COMMAND;
  emb_assert(is_command == (change->command != NULL));
  emb_assert(!change->inserts || (change->kind != EXT_CHANGE_UPDATE &&
                                  change->kind != EXT_CHANGE_DELETE));
  check_change_keys(ext_vtab(table), change);
  check_change_rows(ext_vtab(table), change);
  return 1;
}

#endif
