/* SPDX-License-Identifier: MIT
**
** fn.h -- ext/fn/: the scalar and aggregate functions emb_*.
**
** ROLE      Vector arithmetic needs no table and touches no file: INNOCUOUS and
**           DETERMINISTIC, all entry points of the extension have it.  A
**           vector is taken as BLOB or JSON and given as a BLOB of
**           little-endian float32, but for emb_quantize; a NULL argument makes
**           a NULL result; vectors of different dimension, and results that
**           float32 cannot hold, are errors. The functions on a table act on
**           the engine at once and are SQLITE_DIRECTONLY.  Each file registers
**           its own on the connection and takes references to it.
** FILES     fn.c (what those on a table have in common), vector.c, aggregate.c,
**           each.c, quantize.c (arithmetic), store.c, async.c,
**           delta.c, file.c, gc.c, serve.c, sample.c, bag.c (on tables).  tvf/
**           uses fn.c, delta.c and sample.c for its arguments, and serve.c.
** STATE     None here: tickets and versions are the link's.
** THREADS   As conn.h says.
*/
#ifndef EMB_EXT_FN_H
#define EMB_EXT_FN_H

#include "ext/table/table.h"

/* ---- vector arithmetic --------------------------------------------------- */

/* Registers everything below on a connection.  Returns an SQLite code.
**
**   emb_f32(X)                 X as a BLOB
**   emb_to_json(V)             JSON array, the fewest digits that read back
**                              as the same floats; JSON subtype
**   emb_length(V)              number of elements
**   emb_add(A,B)  emb_sub(A,B)  emb_mul(A,B)   element by element
**   emb_scale(V,r)             V * r
**   emb_dot(A,B)               sum of A[i]*B[i]
**   emb_distance_l2(A,B)       Euclidean distance (not squared)
**   emb_distance_cosine(A,B)   1 - cosine, 0 to 2; NULL if A or B is zero
**   emb_distance_dot(A,B)      -emb_dot(A,B)
**   emb_normalize(V)           V / |V|; a zero vector stays as it is
**   emb_quantize(V,type)       V in fewer bits: type 'float16', 'int8', 'int4';
**                              emb.h says in which form and how far off
**   emb_dequantize(B,type)     and back, to float32
**   emb_dequantize(B,type,dimensions)   the same; for an odd number of int4
**   emb_slot_key(slot,id)      key with this slot (0 to 32767) in bits 48 to 62
**   emb_slot(key)              its slot
**   emb_version()              "0.1.0"
**   emb_debug()                versions of emb, its commit, SQLite, compiler
**   emb_sum(V)  emb_avg(V)     aggregates and window functions
**   emb_pack(key)              aggregate: keys as a BLOB of int64, in the
**                              order of the rows
**   emb_each(V)                table (idx, value)
**   emb_keys(B)                table (value)
*/
int ext_register_vector_functions(sqlite3 *db);

/* The parts of it, each in a file of its own. */
int ext_register_vector_aggregates(sqlite3 *db);
int ext_register_vector_tables(sqlite3 *db);
int ext_register_vector_quantizers(sqlite3 *db);

/* ---- functions on a table ------------------------------------------------ */

int ext_fn_store_register(struct ext_conn *conn);
int ext_fn_async_register(struct ext_conn *conn);
int ext_fn_file_register(struct ext_conn *conn);
int ext_fn_delta_register(struct ext_conn *conn);
int ext_fn_serve_register(struct ext_conn *conn);
int ext_fn_sample_register(struct ext_conn *conn);
int ext_fn_lookup_register(struct ext_conn *conn);
int ext_fn_bag_register(struct ext_conn *conn);
/* emb_gc(). */
void ext_fn_gc(sqlite3_context *context, int argc, sqlite3_value **argv);

/* ---- serve.c ------------------------------------------------------------- */

/* A table whose store this process owns for others.  Zeros before; the caller
** closes it, after an error too. */
struct ext_serve {
  struct ext_conn *conn; /* the user's: its interrupt is polled */
  sqlite3 *db;           /* a connection for it alone, */
  struct ext_conn *own;  /* what belongs to that, */
  char *name;            /* and the table's name there */
  uint64_t doubt_us;     /* when what is in doubt is looked at again */
};
uint64_t ext_serve_now_us(void);
/* Owns it, for which it may wait as long as the table's timeout says. */
int ext_serve_open(struct ext_serve *serve, struct ext_conn *conn,
                   struct ext_table *table, char **err);
/* To be called now and then: decides what is in doubt, says in emb_progress
** what is done, and owns the table again that was dropped and made anew. */
int ext_serve_keep(struct ext_serve *serve, int owns_again, char **err);
/* Sleeps a little, at most so long; SQLITE_INTERRUPT. */
int ext_serve_nap(const struct ext_serve *serve, uint64_t us, char **err);
void ext_serve_close(struct ext_serve *serve);

/* ---- sample.c ------------------------------------------------------------ */

/* What a function is asked to draw. */
struct ext_sample {
  struct ext_table *table;
  size_t n; /* rows; without replacement not more than the table has */
  emb_sample_how how;
  struct ext_keys without;
};
/* From the arguments table, n, distribution, options, without, of which those
** from the third on may be absent (NULL).  *ask is zeros before, and for
** ext_sample_free after, in any case; how.without lives as long as the
** argument. */
int ext_sample_read(struct ext_conn *conn, sqlite3_value **argv,
                    struct ext_sample *ask, char **err);
void ext_sample_free(struct ext_sample *ask);
/* Draws into arrays of ask->n rows; *n of them came. */
int ext_sample_draw(const struct ext_sample *ask, const emb_samples *to,
                    size_t *n, char **err);

/* ---- fn.c ---------------------------------------------------------------- */

typedef void ext_function_call(sqlite3_context *, int, sqlite3_value **);
/* A function as it is registered with SQLite: */
struct ext_function {
  const char *name;
  int argc;
  ext_function_call *call;
};
/* Each call of these runs between ext_call_begin and ext_call_end, and gets its
** connection with ext_fn_conn. */
int ext_fn_register(struct ext_conn *conn, const struct ext_function *functions,
                    size_t n);
struct ext_conn *ext_fn_conn(sqlite3_context *context);
/* The table that the argument names. */
int ext_fn_table(struct ext_conn *conn, sqlite3_value *name,
                 struct ext_table **table, char **err);
int ext_fn_table_to_write(struct ext_conn *conn, sqlite3_value *name,
                          struct ext_table **table, char **err);
/* The argument `what`; ext_keys_free, after an error, too. */
int ext_fn_keys(struct ext_table *table, sqlite3_value *value, const char *what,
                struct ext_keys *keys, char **err);
/* ext_keys_add_now and ext_keys_look, as a function may call them.
** ext_keys_settle it calls as it is: that comes after the call of the engine,
** which may have written and is not to be made once more. */
int ext_fn_keys_add(struct ext_table *table, struct ext_keys *keys, char **err);
int ext_fn_keys_look(struct ext_table *table, struct ext_keys *keys,
                     char **err);
/* Before rows of these keys may appear at once: those that are none yet begin
** without auxiliary columns. */
int ext_fn_rows_begin(struct ext_table *table, const int64_t *keys, size_t n,
                      char **err);
/* What runs SQL before the call of the engine, or may be run once more with it:
** SQLITE_SCHEMA if the schema has changed meanwhile. */
int ext_fn_same_schema(struct ext_table *table,
                       int (*call)(struct ext_table *, void *, char **),
                       void *arg, char **err);
/* ext_file_keys_begin, as a function may call it. */
int ext_fn_file_keys(struct ext_table *table, const char *path,
                     struct ext_file_keys *file, char **err);
/* n vectors. */
int ext_fn_vectors(sqlite3_value *value, const char *what,
                   const struct ext_table *table, size_t n,
                   struct ext_floats *vectors, char **err);
/* The table, to be acted on at once, and a consumer's name. */
int ext_delta_arguments(struct ext_conn *conn, sqlite3_value **argv,
                        struct ext_table **table, const char **name,
                        char **err);
/* Memory for a result of n vectors, for sqlite3_free. */
int ext_fn_new_vectors(const struct ext_table *table, size_t n, float **vectors,
                       size_t *size, char **err);

#endif
