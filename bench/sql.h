/* SPDX-License-Identifier: MIT
**
** sql.h -- SQLite in a few lines; an error ends the program.
*/
#ifndef BENCH_SQL_H
#define BENCH_SQL_H

#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

/* extension NULL: none is loaded. */
sqlite3 *sql_open(const char *file, const char *extension);
void sql_close(sqlite3 *db);
/* By SQLite's printf rules: %Q quotes a value. */
void sql_run(sqlite3 *db, const char *format, ...);
sqlite3_stmt *sql_prepare(sqlite3 *db, const char *sql);
/* 1: a row; 0: the end. */
int sql_step(sqlite3_stmt *statement);
/* Steps to the end, resets. */
void sql_do(sqlite3_stmt *statement);
/* First column of the first row. */
sqlite3_int64 sql_number(sqlite3 *db, const char *format, ...);
/* A statement of a vector (?1) and k (?2) with columns key and distance, for
** each of n queries; keys 0 where there are fewer than k. */
void sql_neighbours(sqlite3_stmt *statement, size_t dim, const float *queries,
                    size_t n, size_t k, int64_t *keys, double *distances);

#endif
