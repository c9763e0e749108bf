/* SPDX-License-Identifier: MIT
**
** database.h -- SQLite helpers of the examples.
**
** Everything uses SQLite's public interface; the extension is loaded like any
** other.  The examples are programs, not libraries: an error ends them with a
** message.
*/
#ifndef LIB_DATABASE_H
#define LIB_DATABASE_H

#include <sqlite3.h>
#include <stddef.h>

/* Prints the program's name and the message, then ends it with status 1. */
void die(const char *format, ...)
    __attribute__((noreturn, format(printf, 1, 2)));

/* malloc of count * size bytes, zeroed; dies if memory is short. */
void *need(size_t count, size_t size);

/* Opens a database and loads the extension into the connection. */
sqlite3 *database_open(const char *file, const char *extension);

/* Closes it; dies if its last work fails. */
void database_close(sqlite3 *db);

/* Runs SQL made by printf rules (SQLite's: %Q quotes a value, %w a name). */
void database_run(sqlite3 *db, const char *format, ...);

/* The first column of the first row, as an integer; 0 without a row. */
sqlite3_int64 database_number(sqlite3 *db, const char *format, ...);

sqlite3_stmt *statement_new(sqlite3 *db, const char *sql);

/* 1 if there is a row, 0 at the end. */
int statement_step(sqlite3_stmt *statement);

/* Resets the statement, ready to be bound and run again. */
void statement_end(sqlite3_stmt *statement);

#endif
