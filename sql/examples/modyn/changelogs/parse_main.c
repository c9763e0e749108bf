/* SPDX-License-Identifier: MIT
**
** parse_main.c -- reads change logs into a database.
**
**   gzip -dc changelog.Debian.gz | parse DATABASE
**
** The files are concatenated, with a line that is a form feed between them.
** Makes the tables
**
**   read_entry  the entries as read; load.sql makes samples from them
**   read_count  the numbers of lines, of entries, and of irregularities
**
** A line longer than LINE_BYTES is truncated, and counted.
*/
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../../../lib/database.h"
#include "parse.h"

enum { LINE_BYTES = 1 << 16 };

struct lines {
  char line[LINE_BYTES];
  size_t length, cut;
  int is_cut;
};

static void insert(void *context, const struct entry *entry) {
  sqlite3_stmt *statement = context;
  sqlite3_bind_text(statement, 1, entry->source, -1, SQLITE_STATIC);
  sqlite3_bind_text(statement, 2, entry->version, -1, SQLITE_STATIC);
  sqlite3_bind_text(statement, 3, entry->distribution, -1, SQLITE_STATIC);
  if (*entry->urgency) {
    sqlite3_bind_text(statement, 4, entry->urgency, -1, SQLITE_STATIC);
  }
  sqlite3_bind_int64(statement, 5, entry->at);
  sqlite3_bind_int64(statement, 6, (sqlite3_int64)entry->bugs);
  sqlite3_bind_text(statement, 7, entry->text, -1, SQLITE_STATIC);
  statement_step(statement);
  statement_end(statement);
}

static void end_line(struct lines *lines, struct parse *parse) {
  if (lines->length == 1 && lines->line[0] == '\f') {
    parse_end(parse);
  } else {
    parse_line(parse, lines->line, lines->length);
  }
  lines->cut += (size_t)lines->is_cut;
  lines->is_cut = 0;
  lines->length = 0;
}

static void read_all(struct lines *lines, struct parse *parse) {
  static char block[1 << 16];
  size_t bytes;
  while ((bytes = fread(block, 1, sizeof(block), stdin)) > 0) {
    for (size_t i = 0; i < bytes; i++) {
      if (block[i] == '\n') {
        end_line(lines, parse);
      } else if (lines->length < LINE_BYTES) {
        lines->line[lines->length++] = block[i];
      } else {
        lines->is_cut = 1;
      }
    }
  }
  if (ferror(stdin)) {
    die("cannot read: %s", strerror(errno));
  }
  if (lines->length > 0) {
    end_line(lines, parse);
  }
  parse_end(parse);
}

static void write_counts(sqlite3 *db, const struct parse_counts *counts,
                         size_t cut) {
  const struct {
    const char *what;
    size_t count;
  } row[] = {{"lines", counts->lines},
             {"entries", counts->entries},
             {"entries without an end", counts->unfinished},
             {"entries without a date that can be read", counts->no_date},
             {"entries without urgency", counts->no_urgency},
             {"entries that were cut", counts->cut},
             {"lines that were cut", cut},
             {"lines that were not UTF-8", counts->recoded}};
  database_run(db, "CREATE TABLE read_count(what TEXT PRIMARY KEY, number)");
  for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
    database_run(db, "INSERT INTO read_count VALUES (%Q, %lld)", row[i].what,
                 (sqlite3_int64)row[i].count);
  }
}

int main(int argc, char **argv) {
  static struct lines lines;
  sqlite3 *db = NULL;
  if (argc != 2) {
    die("usage: parse DATABASE");
  }
  if (sqlite3_open(argv[1], &db) != SQLITE_OK) {
    die("%s: %s", argv[1], sqlite3_errmsg(db));
  }
  database_run(db, "BEGIN;"
                   "CREATE TABLE read_entry(source TEXT, version TEXT,"
                   " distribution TEXT, urgency TEXT, at INTEGER, bugs INTEGER,"
                   " text TEXT)");
  sqlite3_stmt *statement = statement_new(
      db, "INSERT INTO read_entry VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)");
  struct parse *parse = parse_new(insert, statement);
  read_all(&lines, parse);
  sqlite3_finalize(statement);
  write_counts(db, parse_counts(parse), lines.cut);
  database_run(db, "COMMIT");
  parse_free(parse);
  database_close(db);
  return 0;
}
