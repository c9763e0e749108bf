/* SPDX-License-Identifier: MIT
**
** fn_vector.h -- vector arithmetic in SQL.
**
** ROLE      The functions that need no table and touch no file.  All are
**           INNOCUOUS and DETERMINISTIC, accept a vector as BLOB or JSON, and
**           give vectors as BLOBs of little-endian float32, but for
**           emb_quantize.  A NULL argument makes a NULL result; vectors of
**           different dimension, and results that float32 cannot hold, are
**           errors.
** USED BY   Both entry points of the extension.
*/
#ifndef EMB_EXT_FN_VECTOR_H
#define EMB_EXT_FN_VECTOR_H

#include <sqlite3ext.h>
#include <stdint.h>

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
**   emb_normalize(V)           V / |V|; a zero vector stays as it is
**   emb_quantize(V,type)       V in fewer bits: type 'float16', 'int8', 'int4';
**                              emb.h says in which form and how far off
**   emb_dequantize(B,type)     and back, to float32
**   emb_dequantize(B,type,dimensions)   the same; for an odd number of int4
**   emb_slot_key(slot,id)      key with this slot (0 to 32767) in bits 48 to 62
**   emb_slot(key)              its slot
**   emb_version()              "0.1.0"
**   emb_debug()                versions of emb, SQLite and the compiler
**   emb_sum(V)  emb_avg(V)     aggregates and window functions
**   emb_pack(key)              aggregate: keys as a BLOB of int64, in the
**                              order of the rows
**   emb_each(V)                table (idx, value)
**   emb_keys(B)                table (value)
*/
int emb_register_vector_functions(sqlite3 *db);

/* The parts of it, each in a file of its own. */
int emb_register_vector_aggregates(sqlite3 *db);
int emb_register_vector_tables(sqlite3 *db);
int emb_register_vector_quantizers(sqlite3 *db);

/* Makes a vector the result of an SQL function and gives it to SQLite, which
** frees it.  name: the function, for the error if an element is not finite. */
void emb_result_vec(sqlite3_context *context, const char *name, float *vec,
                    uint32_t n);

#endif
