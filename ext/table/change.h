/* SPDX-License-Identifier: MIT
**
** change.h -- the change requested by one xUpdate call, parsed once.
**
** PARSE     ext_change_parse tells INSERT, UPDATE, DELETE, batches, gradients
**           and commands apart, and makes all checks that need no row.  It
**           writes nothing.
** APPLY     update.c and gradient.c apply a change.  They do not look at argv.
** MEMORY    A change points into SQLite's values: it is valid during the call.
*/
#ifndef EMB_EXT_TABLE_CHANGE_H
#define EMB_EXT_TABLE_CHANGE_H

#include "aux_columns.h"

enum ext_change_kind {
  EXT_CHANGE_NOTHING,      /* the row is no longer there */
  EXT_CHANGE_COMMAND,      /* command, arg */
  EXT_CHANGE_INSERT,       /* one row: keys.one, vectors, aux */
  EXT_CHANGE_INSERT_BATCH, /* keys, vectors */
  EXT_CHANGE_UPDATE,       /* from; keys.one if it moves; vectors, parts,
                              aux */
  EXT_CHANGE_DELETE,       /* from */
  EXT_CHANGE_GRADIENT,     /* keys, gradients, how, read; the key of an UPDATE
                              or the keys of an INSERT */
};

struct ext_change {
  enum ext_change_kind kind;
  int inserts;               /* an INSERT: the last key becomes SQLite's
                                last_insert_rowid() */
  int moves;                 /* an UPDATE that changes the row's key */
  int64_t from;              /* the row's current key */
  struct ext_keys keys;      /* the new keys of the rows; new texts have no
                                number yet */
  struct ext_floats vectors; /* rows; `at` NULL: an UPDATE that sets none */
  uint32_t parts; /* vector columns that are set, a bit each; 0: all */
  uint32_t time;  /* the new updated_at, 0: the store's clock */
  struct ext_floats gradients, read;
  emb_update how;
  struct ext_aux_values aux;
  sqlite3_value *command, *arg;
};

/* ---- change_parse.c ------------------------------------------------------ */

/* argv as xUpdate gets it.  Call ext_change_free even after an error. */
int ext_change_parse(struct ext_table *table, int argc, sqlite3_value **argv,
                     struct ext_change *change, char **err);
void ext_change_free(struct ext_change *change);
/* Is a parsed change as its kind requires?  change_valid.c, only in
** self-checking builds. */
int ext_change_valid(struct ext_table *table, const struct ext_change *change);
/* Sets the same message as SQLite's core does, without "emb: ". */
int ext_change_constraint(struct ext_table *table, const char *kind);

/* ---- gradient.c ---------------------------------------------------------- */

/* Applies the gradients of an EXT_CHANGE_GRADIENT. */
int ext_gradient_apply(struct ext_table *table, struct ext_change *change,
                       char **err);

#endif
