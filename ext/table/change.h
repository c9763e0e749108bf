/* SPDX-License-Identifier: MIT
**
** change.h -- what one call of xUpdate asks for, read from its arguments once.
**
** PARSE     ext_change_parse tells INSERT, UPDATE, DELETE, batches, gradients
**           and commands apart, and makes all checks that need no row.  It
**           writes nothing.
** APPLY     update.c and gradient.c carry a change out.  They do not look at
**           argv.
** MEMORY    A change points into SQLite's values: it lives as long as the call.
*/
#ifndef EMB_EXT_TABLE_CHANGE_H
#define EMB_EXT_TABLE_CHANGE_H

#include "aux_columns.h"

enum ext_change_kind {
  EXT_CHANGE_COMMAND,      /* command, arg */
  EXT_CHANGE_INSERT,       /* one row: keys.one, vectors, beside */
  EXT_CHANGE_INSERT_BATCH, /* keys, vectors */
  EXT_CHANGE_UPDATE,       /* from; keys.one if it moves; vectors, parts,
                              beside */
  EXT_CHANGE_DELETE,       /* from */
  EXT_CHANGE_GRADIENT,     /* keys, gradients, how, read; an UPDATE's key or
                              those of an INSERT */
};

struct ext_change {
  enum ext_change_kind kind;
  int inserts;               /* it is an INSERT, after which the last key is
                                SQLite's last_insert_rowid() */
  int moves;                 /* an UPDATE: the row gets another key */
  int64_t from;              /* the key that the row has */
  struct ext_keys keys;      /* the keys that the rows are to have; texts that
                                are new have no number yet */
  struct ext_floats vectors; /* rows; at NULL: an UPDATE that sets none */
  uint32_t parts; /* vector columns that are set, a bit each; 0: all */
  uint32_t time;  /* what updated_at is to be, 0: the store's clock */
  struct ext_floats gradients, read;
  emb_update how;
  struct ext_aux_values aux;
  sqlite3_value *command, *arg;
};

/* ---- change_parse.c ------------------------------------------------------ */

/* argv as xUpdate has it.  ext_change_free, after an error, too. */
int ext_change_parse(struct ext_table *table, int argc, sqlite3_value **argv,
                     struct ext_change *change, char **err);
void ext_change_free(struct ext_change *change);
/* The texts are core's own, without "emb: " in front. */
int ext_change_constraint(struct ext_table *table, const char *kind);

/* ---- gradient.c ---------------------------------------------------------- */

/* Makes the steps of an EXT_CHANGE_GRADIENT. */
int ext_gradient_apply(struct ext_table *table, struct ext_change *change,
                       char **err);

#endif
