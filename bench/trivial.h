/* SPDX-License-Identifier: MIT
**
** trivial.h -- the minimal virtual table: vectors in an array, the position is
** the key.  It shows SQLite's own cost per row.
*/
#ifndef BENCH_TRIVIAL_H
#define BENCH_TRIVIAL_H

#include <sqlite3.h>
#include <stddef.h>

/* Registers the modules "trivial", whose values are pointers into the array,
** and "trivial_copied", whose values SQLite copies (required of a module whose
** memory may change).  CREATE VIRTUAL TABLE items USING trivial: columns key
** and vector. */
void trivial_register(sqlite3 *db, float *vectors, size_t dim, size_t keys);

#endif
