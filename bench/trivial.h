/* SPDX-License-Identifier: MIT
**
** trivial.h -- the least that a virtual table can do: vectors in an array, the
** key is the position.  What SQLite itself costs per row shows here.
*/
#ifndef BENCH_TRIVIAL_H
#define BENCH_TRIVIAL_H

#include <sqlite3.h>
#include <stddef.h>

/* Modules "trivial", whose values are pointers into the array, and
** "trivial_copied", whose values SQLite copies (as a module must whose memory
** may change).  CREATE VIRTUAL TABLE items USING trivial: columns key and
** vector. */
void trivial_register(sqlite3 *db, float *vectors, size_t dim, size_t keys);

#endif
