/* SPDX-License-Identifier: MIT
**
** sql.h -- SQLite in a few lines; an error ends the program.
*/
#ifndef BENCH_SQL_H
#define BENCH_SQL_H

#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

/* extension NULL: load none. */
sqlite3 *sql_open(const char *file, const char *extension);
void sql_close(sqlite3 *db);
/* Formats by SQLite's printf rules: %Q quotes a value. */
void sql_run(sqlite3 *db, const char *format, ...);
sqlite3_stmt *sql_prepare(sqlite3 *db, const char *sql);
/* 1: a row; 0: the end. */
int sql_step(sqlite3_stmt *statement);
/* Steps to the end and resets. */
void sql_do(sqlite3_stmt *statement);
/* First column of the first row. */
sqlite3_int64 sql_number(sqlite3 *db, const char *format, ...);
/* Puts n keys, from `first` on, into the table items by emb_put, each with its
** vector (keys.h). */
void sql_fill(sqlite3 *db, size_t dim, int64_t first, size_t n);
/* Runs a statement with parameters vector (?1) and k (?2) and columns key and
** distance for each of n queries; keys are 0 where there are fewer than k. */
void sql_neighbours(sqlite3_stmt *statement, size_t dim, const float *queries,
                    size_t n, size_t k, int64_t *keys, double *distances);

#endif
