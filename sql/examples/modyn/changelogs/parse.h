/* SPDX-License-Identifier: MIT
**
** parse.h -- parses Debian change logs, line by line.
**
**   source (version) distribution; urgency=medium
**
**     * What was done. (Closes: #123456)
**
**    -- Maintainer <address>  Tue, 20 Sep 2022 12:17:15 -0400
**
** The format is deb-changelog(5).  Maintainers have written change logs
** manually for thirty years, and other files have the same name, so anything
** that is not an entry is skipped and counted, and is never an error.  Memory
** is bounded for any input.
*/
#ifndef CHANGELOGS_PARSE_H
#define CHANGELOGS_PARSE_H

#include <stddef.h>
#include <stdint.h>

struct entry {
  const char *source, *version, *distribution;
  const char *urgency; /* in lower case; "" if there is none */
  int64_t at;          /* seconds since 1970, UTC */
  size_t bugs;         /* that it closes */
  const char *text;    /* UTF-8, without the words that close bugs */
};

struct parse_counts {
  size_t lines, entries;
  size_t unfinished; /* entries: a heading, or the end, comes before the name */
  size_t no_date;    /* entries whose date cannot be read */
  size_t no_urgency; /* entries; they are kept */
  size_t cut;        /* entries: bytes beyond ENTRY_MAX are left out */
  size_t recoded;    /* lines that were not UTF-8; taken as Latin-1 */
};

enum { ENTRY_MAX = 1 << 20 };

/* The entry's pointers are valid during the call. */
typedef void parse_found(void *context, const struct entry *entry);

struct parse;
struct parse *parse_new(parse_found *found, void *context);
void parse_line(struct parse *parse, const char *line, size_t length);
/* The end of the file; another may follow. */
void parse_end(struct parse *parse);
const struct parse_counts *parse_counts(const struct parse *parse);
void parse_free(struct parse *parse);

#endif
