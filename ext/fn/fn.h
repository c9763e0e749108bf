/* SPDX-License-Identifier: MIT
**
** fn.h -- ext/fn/: the scalar and aggregate functions emb_*.
**
** ROLE      Vector arithmetic needs no table and touches no file.  It is
**           INNOCUOUS and DETERMINISTIC, and every entry point of the extension
**           registers it.  A vector argument is a BLOB or JSON, and a result is
**           a BLOB of little-endian float32, except from emb_quantize.  A NULL
**           argument gives a NULL result; vectors of different dimensions, and
**           results that float32 cannot hold, are errors.  The functions on a
**           table act on the engine at once and are SQLITE_DIRECTONLY.  Each
**           file registers its own functions on the connection, and each
**           function holds a reference to it.
** FILES     fn.c, column.c (common code of functions on tables); vector.c,
**           aggregate.c, each.c, quantize.c (arithmetic); pieces.c (loops over
**           long vectors); store.c, async.c, delta.c, file.c, gc.c, serve.c,
**           sample.c, bag.c, bank_lookup.c (on tables); fn_state.h and
**           fn_valid.c (states that are checked).  tvf/ uses fn.c, delta.c and
**           sample.c for its arguments, and serve.c.
** STATE     None here: tickets and versions belong to the link.
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
**   emb_normalize(V)           V / |V|; a zero vector is left unchanged
**   emb_quantize(V,type)       V in fewer bits: type 'float16', 'int8', 'int4';
**                              emb.h gives the format and the error
**   emb_dequantize(B,type)     back to float32
**   emb_dequantize(B,type,dimensions)   also for an odd number of int4
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

/* Its parts, each in its own file. */
int ext_register_vector_aggregates(sqlite3 *db);
int ext_register_vector_tables(sqlite3 *db);
int ext_register_vector_quantizers(sqlite3 *db);

/* ---- pieces.c ------------------------------------------------------------ */

/* A loop over the elements of a vector, which an interrupt ends between two
** pieces of EXT_ARG_BYTES:
**     struct ext_pieces piece = {.context = context, .all = n};
**     while (ext_pieces_next(&piece))
**       work(vec + piece.at, piece.n);
** After the loop `stopped` says whether it was interrupted; the error is then
** the result. */
struct ext_pieces {
  sqlite3_context *context;
  uint32_t all;   /* elements */
  uint32_t at, n; /* of the piece */
  int stopped;
  uint64_t ticked_us; /* as in struct ext_conn */
};
int ext_pieces_next(struct ext_pieces *piece);

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

/* A table whose store this process owns and serves.  Must be zeroed before use;
** the caller must close it, even after an error. */
struct ext_serve {
  struct ext_conn *conn; /* the user's: its interrupt is polled */
  sqlite3 *db;           /* a connection for the table alone, */
  struct ext_conn *own;  /* the state of that connection, */
  char *name;            /* and the table's name there */
  uint64_t doubt_us;     /* when to check again what is in doubt */
};
uint64_t ext_serve_now_us(void);
/* Becomes the owner, waiting at most as long as the timeout of the table. */
int ext_serve_open(struct ext_serve *serve, struct ext_conn *conn,
                   struct ext_table *table, char **err);
/* Must be called periodically: decides transactions in doubt, reports progress
** in emb_progress, and owns the table again if it was dropped and
** re-created. */
int ext_serve_keep(struct ext_serve *serve, int owns_again, char **err);
/* Sleeps briefly, at most `us`; SQLITE_INTERRUPT if interrupted. */
int ext_serve_nap(const struct ext_serve *serve, uint64_t us, char **err);
void ext_serve_close(struct ext_serve *serve);

/* ---- sample.c ------------------------------------------------------------ */

/* The arguments of a draw. */
struct ext_sample {
  struct ext_table *table;
  size_t n; /* rows; without replacement at most those of the table */
  emb_sample_how how;
  struct ext_keys without;
};
/* Reads the arguments table, n, distribution, options, without; those from the
** third on may be absent (NULL).  *ask must be zeroed before, and the caller
** must call ext_sample_free in any case.  how.without lives as long as the
** argument. */
int ext_sample_read(struct ext_conn *conn, sqlite3_value **argv,
                    struct ext_sample *ask, char **err);
void ext_sample_free(struct ext_sample *ask);
/* Draws into arrays of ask->n rows; *n is the number drawn. */
int ext_sample_draw(const struct ext_sample *ask, const emb_samples *to,
                    size_t *n, char **err);

/* ---- column.c ------------------------------------------------------------ */

#define EXT_FN_ALL_COLUMNS UINT32_MAX
/* The number of a vector column, by its name. */
int ext_fn_column(const struct ext_options *options, const char *name,
                  uint32_t *column, char **err);
/* Reads the options 'column=name'; without, EXT_FN_ALL_COLUMNS. */
int ext_fn_column_option(const struct ext_table *table, sqlite3_value *value,
                         uint32_t *column, char **err);
/* That column as the engine's `parts`; 0: all. */
uint32_t ext_fn_column_parts(const struct ext_table *table, uint32_t column);
/* "items", or "other.items"; "title of items".  For sqlite3_free; NULL if
** memory runs out. */
char *ext_fn_column_name(const struct ext_table *table, uint32_t column);
/* SQLITE_ERROR if the column, or every column, is without an optimizer. */
int ext_fn_column_steps(const struct ext_table *table, uint32_t column,
                        char **err);
/* An argument of n vectors of a column. */
struct ext_fn_column_rows {
  const char *what; /* the argument's name */
  uint32_t column;
  size_t n;
  float others; /* for the elements of the other columns */
};
/* Reads it as rows of all columns. */
int ext_fn_column_read(const struct ext_table *table, sqlite3_value *value,
                       const struct ext_fn_column_rows *rows,
                       struct ext_floats *vectors, char **err);
/* Leaves out the other columns of n rows; returns the bytes that remain. */
size_t ext_fn_column_keep(const struct ext_table *table, uint32_t column,
                          float *vectors, size_t n);

/* ---- fn.c ---------------------------------------------------------------- */

typedef void ext_function_call(sqlite3_context *, int, sqlite3_value **);
/* A function, as registered with SQLite. */
struct ext_function {
  const char *name;
  int argc;
  ext_function_call *call;
};
/* Each call of a registered function runs between ext_call_begin and
** ext_call_end, and gets its connection with ext_fn_conn. */
int ext_fn_register(struct ext_conn *conn, const struct ext_function *functions,
                    size_t n);
struct ext_conn *ext_fn_conn(sqlite3_context *context);
/* Finds the table that the argument names. */
int ext_fn_table(struct ext_conn *conn, sqlite3_value *name,
                 struct ext_table **table, char **err);
int ext_fn_table_to_write(struct ext_conn *conn, sqlite3_value *name,
                          struct ext_table **table, char **err);
/* Reads the argument `what`.  The caller must call ext_keys_free, even after an
** error. */
int ext_fn_keys(struct ext_table *table, sqlite3_value *value, const char *what,
                struct ext_keys *keys, char **err);
/* ext_keys_add_now and ext_keys_look, for use in functions.  ext_keys_settle
** may be called directly: it follows the engine call, which may have written
** and must not be repeated. */
int ext_fn_keys_add(struct ext_table *table, struct ext_keys *keys, char **err);
int ext_fn_keys_look(struct ext_table *table, struct ext_keys *keys,
                     char **err);
/* Must be called before an immediate write that may create rows of these keys:
** new rows begin without auxiliary columns. */
int ext_fn_rows_begin(struct ext_table *table, const int64_t *keys, size_t n,
                      char **err);
/* Runs `call`, which must run its SQL before the engine call, unless the engine
** call may be repeated.  SQLITE_SCHEMA if the schema changes during `call`. */
int ext_fn_same_schema(struct ext_table *table,
                       int (*call)(struct ext_table *, void *, char **),
                       void *arg, char **err);
/* ext_file_keys_begin, for use in functions. */
int ext_fn_file_keys(struct ext_table *table, const char *path,
                     struct ext_file_keys *file, char **err);
/* Reads an argument of n vectors. */
int ext_fn_vectors(sqlite3_value *value, const char *what,
                   const struct ext_table *table, size_t n,
                   struct ext_floats *vectors, char **err);
/* Reads a table that will be written at once, and a consumer's name. */
int ext_delta_arguments(struct ext_conn *conn, sqlite3_value **argv,
                        struct ext_table **table, const char **name,
                        char **err);
/* Allocates a result of n vectors, to be freed with sqlite3_free. */
int ext_fn_new_vectors(const struct ext_table *table, size_t n, float **vectors,
                       size_t *size, char **err);

#endif
