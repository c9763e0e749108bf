/* SPDX-License-Identifier: MIT
**
** choose.h -- ext/data/choose/: the functions that choose what to train on.
**
** ROLE      They take SQL values, pass them to the engine (engine/data/choose/,
**           through emb_data.h), and return its answer.  They use no table and
**           no file: INNOCUOUS and DETERMINISTIC, in all entry points of the
**           extension.
** FILES     random.c (emb_random, emb_exponential), entropy.c (emb_entropy),
**           points.c (rows with vectors that aggregates gather), coreset.c
**           (emb_coreset), chosen.c (the table-valued emb_chosen, which both
**           entry points could have, but table-valued functions need a
**           connection), drift.c (emb_drift_*), points_valid.c (self-checks),
**           choose.c (registers all).
** THREADS   No state.
*/
#ifndef EMB_EXT_CHOOSE_H
#define EMB_EXT_CHOOSE_H

#include "engine/base/debug.h"
#include "ext/tvf/tvf.h"

#define CHOOSE_FLAGS (SQLITE_UTF8 | SQLITE_INNOCUOUS | SQLITE_DETERMINISTIC)

/* Registers all of them on a connection.  Returns an SQLite code. */
int ext_choose_register(sqlite3 *db);

/* Its parts, each in its own file. */
int ext_choose_random_register(sqlite3 *db);
int ext_choose_entropy_register(sqlite3 *db);
int ext_choose_coreset_register(sqlite3 *db);
int ext_choose_drift_register(sqlite3 *db);
/* emb_chosen. */
int ext_choose_chosen_register(struct ext_conn *conn);

/* ---- points.c ------------------------------------------------------------ */

/* Vectors of one dimension, in order of arrival; all zeros: empty. */
struct ext_points {
  float *vectors;
  size_t n, capacity;
  uint32_t dim; /* 0 before the first */
};
/* Only in self-checking builds [points_valid.c]. */
int ext_points_valid(const struct ext_points *points);
/* name: the function; argument: the number of the argument, from 1. */
int ext_points_add(struct ext_points *points, sqlite3_value *value,
                   const char *name, int argument, char **err);
void ext_points_free(struct ext_points *points);
/* A connection with which long work checks now and then whether it must stop:
** sqlite3_interrupt was called, or the progress handler asks for it. */
struct ext_conn ext_choose_asked(sqlite3_context *context);

/* ---- coreset.c ----------------------------------------------------------- */

/* The rows of an aggregate emb_coreset; all zeros before the first. */
struct ext_coreset {
  struct ext_points points;
  int64_t *keys;
  size_t capacity; /* of keys */
  int64_t k;       /* 0: not known yet */
  char *method;
  int failed;
};
/* Only in self-checking builds [points_valid.c].  For rows without an error. */
int ext_coreset_valid(const struct ext_coreset *coreset);

/* ---- chosen.c ------------------------------------------------------------ */

/* A coreset as a value: 16 bytes (CHOSEN_MAGIC, then the number of rows), then
** that many structs, in the order in which they were chosen.  Little-endian. */
#define CHOSEN_MAGIC UINT64_C(0x31534f4843424d45) /* "EMBCHOS1" */
struct ext_chosen {
  int64_t key;
  double weight;
  double gain; /* NaN: it has none */
};
_Static_assert(sizeof(struct ext_chosen) == 24, "as in the BLOB");
enum { CHOSEN_HEAD = 16 };

#endif
