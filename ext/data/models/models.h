/* SPDX-License-Identifier: MIT
**
** models.h -- ext/data/models/: how good models are, and how they are stored.
**
** ROLE      They take SQL values and return results.  They use no table and no
**           file: INNOCUOUS and DETERMINISTIC, in all entry points.
** FILES     evaluate.c (emb_accuracy, emb_auc, emb_log_loss), classes.c
**           (emb_f1), diff.c (emb_diff and emb_patch: a model as its difference
**           from another), models_valid.c (self-checks), models.c
**           (registers all).
** THREADS   No state.
*/
#ifndef EMB_EXT_MODELS_H
#define EMB_EXT_MODELS_H

#include "ext/data/choose/choose.h"

/* Registers all of them on a connection.  Returns an SQLite code.
**
**   emb_diff(base,result)      how to make result from base, bit by bit: BLOBs
**   emb_diff(base,result,options)      'operator=xor, width=2, ...': diff.c
**   emb_patch(base,difference)         and makes it
*/
int ext_models_register(sqlite3 *db);

/* ---- classes.c ----------------------------------------------------------- */

/* A class of emb_f1. */
struct class_count {
  uint64_t word; /* of its name: emb_random_integer, emb_random_bytes */
  char *text;    /* NULL: an integer, or not used */
  size_t size;   /* of the text */
  int used;
  int64_t right, predicted, labels;
};

/* All zeros is the state before the first row. */
struct f1 {
  sqlite3 *db;
  struct class_count *slots;
  size_t n, capacity; /* a power of two, or 0 */
  int64_t rows, right;
  int is_asked, average, failed;
};
/* Only in self-checking builds [models_valid.c]. */
int ext_f1_valid(const struct f1 *f1);

/* ---- parts, each in its own file ----------------------------------------- */

int ext_models_evaluate_register(sqlite3 *db);
int ext_models_classes_register(sqlite3 *db);
int ext_models_diff_register(sqlite3 *db);

#endif
