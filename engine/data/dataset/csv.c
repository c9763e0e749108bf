/* SPDX-License-Identifier: MIT
**
** csv.c -- finds the ends of records and fields in a text, after RFC 4180.
**
**     record = field *(separator field) (LF / CRLF / end of the file)
**     field  = plain / '"' *(any but '"' / '""') '"'
**
** A quote in the middle of a plain field stands for itself, and so does a CR
** not followed by LF; an empty line is not a record.  Anything after a closing
** quote, except a separator or the end of the record, is an error: the file is
** not what it seems.
**
**     BEGIN  --other--> PLAIN      a separator leads to BEGIN from all but
**       | '"'                      QUOTED and ENDING; LF ends the record from
**       v        '"'               all but QUOTED
**     QUOTED <-------> CLOSED
**                        | CR      BEGIN, PLAIN --CR--> RETURN: LF, or the CR
**                        v                              stands for itself
**                      ENDING      only LF may come
*/
#include "engine/data/emb_data.h"
#include "samples.h"

#include <string.h>

void samples__csv_next(struct samples_csv *csv) {
  csv->state = CSV_BEGIN;
  csv->empty = 1;
  csv->fields = 0;
}

/* Scans one byte of a record; *ended: it was the last byte. */
static int samples_csv_step(struct samples_csv *csv, uint8_t byte, int *ended) {
  if (csv->state == CSV_QUOTED) {
    csv->lines += byte == '\n';
    csv->state = byte == '"' ? CSV_CLOSED : CSV_QUOTED;
    return EMB_OK;
  }
  if (byte == '\n') {
    csv->lines++;
    csv->fields++;
    *ended = 1;
    return EMB_OK;
  }
  if (csv->state == CSV_RETURN) { /* the CR stands for itself */
    csv->state = CSV_PLAIN;
    csv->empty = 0;
  }
  if (byte == csv->separator && csv->state != CSV_ENDING) {
    csv->fields++;
    csv->state = CSV_BEGIN;
    csv->empty = 0;
    return EMB_OK;
  }
  switch (csv->state) {
  case CSV_CLOSED:
    csv->state = byte == '"' ? CSV_QUOTED : CSV_ENDING;
    return byte == '"' || byte == '\r' ? EMB_OK : EMB_MISMATCH;
  case CSV_ENDING:
    return EMB_MISMATCH;
  default:
    if (byte == '\r') {
      csv->state = CSV_RETURN;
      return EMB_OK;
    }
    csv->state =
        byte == '"' && csv->state == CSV_BEGIN ? CSV_QUOTED : CSV_PLAIN;
    csv->empty = 0;
    return EMB_OK;
  }
}

/* Number of bytes from here on that do not change the state. */
static size_t samples_csv_dull(const struct samples_csv *csv,
                               const uint8_t *bytes, size_t n) {
  size_t i = 0;
  if (csv->state == CSV_QUOTED) {
    while (i < n && bytes[i] != '"' && bytes[i] != '\n') {
      i++;
    }
  } else if (csv->state == CSV_PLAIN) {
    while (i < n && bytes[i] != csv->separator && bytes[i] != '\n' &&
           bytes[i] != '\r') {
      i++;
    }
  }
  return i;
}

int samples__csv_scan(struct samples_csv *csv, const uint8_t *bytes, size_t n,
                      size_t *used, int *ended) {
  size_t i = 0;
  *ended = 0;
  while (i < n && !*ended) {
    i += samples_csv_dull(csv, bytes + i, n - i);
    if (i < n) {
      int rc = samples_csv_step(csv, bytes[i], ended);
      i++;
      if (rc) {
        *used = i;
        return rc;
      }
    }
  }
  *used = i;
  emb_check(samples__csv_valid(csv));
  return EMB_OK;
}

/* ---- fields -------------------------------------------------------------- */

/* Is this the end of the record, before its LF or CRLF? */
static int samples_csv_is_end(const uint8_t *at, const uint8_t *end) {
  return at == end || *at == '\n' ||
         (*at == '\r' && (at + 1 == end || at[1] == '\n'));
}

static const uint8_t *samples_csv_quoted(const uint8_t *at, const uint8_t *end,
                                         struct samples_cell *cell) {
  cell->text.at = ++at;
  while (at < end) {
    const uint8_t *quote = memchr(at, '"', (size_t)(end - at));
    if (quote == NULL) {
      at = end;
      break;
    }
    if (quote + 1 == end || quote[1] != '"') {
      cell->text.bytes = (size_t)(quote - cell->text.at);
      return quote + 1;
    }
    cell->doubled = 1;
    at = quote + 2;
  }
  cell->text.bytes = (size_t)(at - cell->text.at);
  return at;
}

int samples__csv_cell(const uint8_t **at, const uint8_t *end, uint8_t separator,
                      struct samples_cell *cell) {
  const uint8_t *from = *at, *to = from;
  if (from == NULL) {
    return 0;
  }
  memset(cell, 0, sizeof *cell);
  cell->from = from;
  if (to < end && *to == '"') {
    to = samples_csv_quoted(to, end, cell);
  } else {
    while (!samples_csv_is_end(to, end) && *to != separator) {
      to++;
    }
    cell->text.at = from;
    cell->text.bytes = (size_t)(to - from);
  }
  cell->to = to;
  /* NULL after the last field. */
  *at = to < end && *to == separator ? to + 1 : NULL;
  return 1;
}

int emb_samples_integer(const emb_samples_part *text, int64_t *number) {
  const uint8_t *at = text->at, *end = at + text->bytes;
  uint64_t value = 0;
  int negative = at < end && *at == '-';
  at += at < end && (*at == '-' || *at == '+');
  if (at == end) {
    return 0;
  }
  for (; at < end; at++) {
    uint64_t digit = (uint64_t)*at - '0';
    if (*at < '0' || *at > '9' ||
        value > ((uint64_t)INT64_MAX + 1 - digit) / 10) {
      return 0;
    }
    value = value * 10 + digit;
  }
  if (value == (uint64_t)INT64_MAX + 1) {
    *number = INT64_MIN;
    return negative;
  }
  *number = negative ? -(int64_t)value : (int64_t)value;
  return 1;
}
