/* SPDX-License-Identifier: MIT
**
** parse.c -- parses Debian change logs, line by line; see parse.h.
**
**                 heading                    name and date
**   OUTSIDE ------------------> INSIDE ------------------------> OUTSIDE
**                               |    ^                 (an entry is found)
**                               +----+ heading: the one before is unfinished
**                               +----+ other lines: its text
**
** An entry is in one buffer: the heading's fields, each terminated by a zero,
** then the text.
*/
#include "parse.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "../../../lib/database.h"
#include "bugs.h"
#include "date.h"
#include "utf8.h"

struct parse {
  parse_found *found;
  void *context;
  struct parse_counts counts;
  char *buffer; /* of ENTRY_MAX + 1 bytes */
  size_t used;
  int inside, cut;
  size_t version, distribution, urgency, text; /* offsets in it */
};

struct parse *parse_new(parse_found *found, void *context) {
  struct parse *parse = need(1, sizeof(*parse));
  parse->found = found;
  parse->context = context;
  parse->buffer = need(ENTRY_MAX + 1, 1);
  return parse;
}

void parse_free(struct parse *parse) {
  free(parse->buffer);
  free(parse);
}

const struct parse_counts *parse_counts(const struct parse *parse) {
  return &parse->counts;
}

/* Appends bytes; those that do not fit are left out. */
static void add(struct parse *parse, const char *bytes, size_t length) {
  size_t room = ENTRY_MAX - parse->used;
  if (length > room) {
    length = room;
    parse->cut = 1;
  }
  memcpy(parse->buffer + parse->used, bytes, length);
  parse->used += length;
}

/* Appends a field of the heading.  Returns its offset. */
static size_t add_field(struct parse *parse, const char *bytes, size_t length) {
  size_t at = parse->used;
  add(parse, bytes, length);
  add(parse, "", 1);
  return at;
}

/* Appends text as UTF-8, with blanks for control characters. */
static void add_text(struct parse *parse, const char *line, size_t length) {
  int latin = !utf8_valid(line, length);
  parse->counts.recoded += (size_t)latin;
  for (size_t i = 0; i < length; i++) {
    unsigned char c = (unsigned char)line[i];
    if (latin && c >= 0x80) {
      char two[2] = {(char)(0xc0 | c >> 6), (char)(0x80 | (c & 0x3f))};
      add(parse, two, 2);
    } else {
      add(parse, c < ' ' || c == 0x7f ? " " : line + i, 1);
    }
  }
  add(parse, "\n", 1);
}

/* ---- the heading --------------------------------------------------------- */

static int is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.';
}

struct heading {
  const char *source, *version, *distribution, *urgency;
  size_t source_length, version_length, distribution_length, urgency_length;
};

/* The value of urgency=, or of priority=, its first name, up to a blank or a
** comma: "HIGH (for users of ...)" is HIGH. */
static void read_urgency(struct heading *heading, const char *s,
                         const char *end) {
  for (; s + 8 < end; s++) {
    if (strncasecmp(s, "urgency=", 8) && strncasecmp(s, "priority=", 9)) {
      continue;
    }
    s = (const char *)memchr(s, '=', (size_t)(end - s)) + 1;
    heading->urgency = s;
    while (s < end && is_name(*s)) {
      s++;
    }
    heading->urgency_length = (size_t)(s - heading->urgency);
    return;
  }
}

/* 1 if the line is a heading: source (version) distributions; what=value */
static int read_heading(struct heading *heading, const char *line,
                        size_t length) {
  const char *s = line, *end = line + length;
  memset(heading, 0, sizeof(*heading));
  heading->urgency = "";
  heading->source = s;
  while (s < end && is_name(*s)) {
    s++;
  }
  heading->source_length = (size_t)(s - line);
  if (s == line || end - s < 2 || memcmp(s, " (", 2)) {
    return 0;
  }
  heading->version = s += 2;
  while (s<end && * s> ' ' && *s < 0x7f && *s != '(' && *s != ')') {
    s++;
  }
  heading->version_length = (size_t)(s - heading->version);
  if (heading->version_length == 0 || s == end || *s++ != ')') {
    return 0;
  }
  while (s < end && (*s == ' ' || *s == '\t')) {
    s++;
  }
  heading->distribution = s;
  while (s < end && (is_name(*s) || *s == ' ' || *s == '\t')) {
    s++;
  }
  heading->distribution_length = (size_t)(s - heading->distribution);
  if (s == end || *s++ != ';') {
    return 0;
  }
  read_urgency(heading, s, end);
  return 1;
}

static void begin(struct parse *parse, const struct heading *heading) {
  parse->counts.unfinished += (size_t)parse->inside;
  parse->inside = 1;
  parse->cut = 0;
  parse->used = 0;
  add_field(parse, heading->source, heading->source_length);
  parse->version = add_field(parse, heading->version, heading->version_length);
  parse->distribution =
      add_field(parse, heading->distribution, heading->distribution_length);
  parse->urgency = add_field(parse, heading->urgency, heading->urgency_length);
  for (char *c = parse->buffer + parse->urgency; *c; c++) {
    *c = (char)(*c >= 'A' && *c <= 'Z' ? *c + 32 : *c);
  }
  parse->text = parse->used;
}

/* ---- the end of an entry ------------------------------------------------- */

/* The date after "-- name <address>"; NULL if the line is different. */
static const char *date_part(const char *line, size_t length) {
  size_t i = 0;
  while (i < length && i < 3 && (line[i] == ' ' || line[i] == '\t')) {
    i++;
  }
  if (length - i < 3 || memcmp(line + i, "--", 2) ||
      (line[i + 2] != ' ' && line[i + 2] != '\t')) {
    return NULL;
  }
  const char *angle = memrchr(line, '>', length);
  return angle ? angle + 1 : NULL;
}

static void finish(struct parse *parse, int64_t at) {
  char *buffer = parse->buffer;
  while (parse->cut && parse->used > parse->text &&
         buffer[parse->used - 1] != '\n') {
    parse->used--; /* part of a line, perhaps of a character */
  }
  buffer[parse->used] = 0;
  struct entry entry = {.source = buffer,
                        .version = buffer + parse->version,
                        .distribution = buffer + parse->distribution,
                        .urgency = buffer + parse->urgency,
                        .at = at,
                        .text = buffer + parse->text};
  entry.bugs = bugs_take(buffer + parse->text);
  parse->counts.entries++;
  parse->counts.no_urgency += !*entry.urgency;
  parse->counts.cut += (size_t)parse->cut;
  parse->found(parse->context, &entry);
}

/* 1 if the line ends the entry. */
static int end_entry(struct parse *parse, const char *line, size_t length) {
  int64_t at = 0;
  const char *date = date_part(line, length);
  int dated = date && !date_read(date, (size_t)(line + length - date), &at);
  if (dated) {
    finish(parse, at);
  } else if (length >= 4 && !memcmp(line, " -- ", 4)) {
    parse->counts.no_date++;
  } else {
    return 0; /* a list with dashes, say */
  }
  parse->inside = 0;
  return 1;
}

void parse_line(struct parse *parse, const char *line, size_t length) {
  struct heading heading;
  parse->counts.lines++;
  if (read_heading(&heading, line, length)) {
    begin(parse, &heading);
  } else if (parse->inside && !end_entry(parse, line, length)) {
    add_text(parse, line, length);
  }
}

void parse_end(struct parse *parse) {
  parse->counts.unfinished += (size_t)parse->inside;
  parse->inside = 0;
}
