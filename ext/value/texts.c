/* SPDX-License-Identifier: MIT
**
** texts.c -- texts as SQL passes them: one, or a JSON array of strings.
**
** A string without escapes is used in place, inside the value.  A string with
** escapes is decoded into a separate buffer; decoding never makes it longer.
** An unpaired escaped surrogate becomes three bytes, as in SQLite's JSON
** functions.
*/
#include "value.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

/* A JSON text and how far it has been read. */
struct texts_scan {
  const char *text;
  size_t size, at;
  const char *what; /* the argument's name */
  char *to;         /* next free byte of out->memory; NULL: none needed yet */
  struct ext_texts *out;
  size_t room; /* of out->at */
  const struct ext_arg *arg;
  size_t polled; /* where it was last asked */
  char **err;
};

void ext_texts_free(struct ext_texts *texts) {
  sqlite3_free(texts->at);
  sqlite3_free(texts->memory);
  *texts = (struct ext_texts){0};
}

int ext_texts_keep(struct ext_texts *texts) {
  size_t bytes = 1;
  char *memory, *to;
  emb_check(ext_texts_valid(texts));
  for (size_t i = 0; i < texts->n; i++)
    bytes += texts->at[i].n;
  memory = to = sqlite3_malloc64(bytes);
  if (memory == NULL)
    return SQLITE_NOMEM;
  for (size_t i = 0; i < texts->n; i++) {
    struct ext_text *text = &texts->at[i];
    if (text->n)
      memcpy(to, text->at, text->n);
    text->at = to;
    to += text->n;
  }
  sqlite3_free(texts->memory);
  texts->memory = memory;
  return SQLITE_OK;
}

static int texts_fail(struct texts_scan *s) {
  return ext_error(s->err, SQLITE_ERROR, "invalid JSON %s at character %lld",
                   s->what, (long long)s->at + 1);
}

/* The next byte that is not white space, or 0 at the end. */
static char texts_peek(struct texts_scan *s) {
  for (; s->at < s->size; s->at++) {
    char c = s->text[s->at];
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r')
      return c;
  }
  return 0;
}

/* The value of four hex digits at `at`, or -1. */
static int32_t texts_hex(const struct texts_scan *s, size_t at) {
  int32_t code = 0;
  if (s->size - at < 4)
    return -1;
  for (size_t i = at; i < at + 4; i++) {
    char c = s->text[i], low = (char)(c | 32);
    if (c >= '0' && c <= '9')
      code = code * 16 + (c - '0');
    else if (low >= 'a' && low <= 'f')
      code = code * 16 + (low - 'a' + 10);
    else
      return -1;
  }
  return code;
}

static char *texts_put_utf8(char *to, int32_t code) {
  if (code < 0x80) {
    *to++ = (char)code;
  } else if (code < 0x800) {
    *to++ = (char)(0xc0 | code >> 6);
    *to++ = (char)(0x80 | (code & 63));
  } else if (code < 0x10000) {
    *to++ = (char)(0xe0 | code >> 12);
    *to++ = (char)(0x80 | (code >> 6 & 63));
    *to++ = (char)(0x80 | (code & 63));
  } else {
    *to++ = (char)(0xf0 | code >> 18);
    *to++ = (char)(0x80 | (code >> 12 & 63));
    *to++ = (char)(0x80 | (code >> 6 & 63));
    *to++ = (char)(0x80 | (code & 63));
  }
  return to;
}

/* After \u: one code unit, or a surrogate pair. */
static int texts_unicode(struct texts_scan *s) {
  int32_t code = texts_hex(s, s->at), low;
  if (code < 0)
    return texts_fail(s);
  s->at += 4;
  if (code >= 0xd800 && code < 0xdc00 && s->size - s->at >= 6 &&
      s->text[s->at] == '\\' && s->text[s->at + 1] == 'u') {
    low = texts_hex(s, s->at + 2);
    if (low >= 0xdc00 && low < 0xe000 && !EMB_SEED(SEED_SURROGATES_APART)) {
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
      s->at += 6;
    }
  }
  s->to = texts_put_utf8(s->to, code);
  return SQLITE_OK;
}

/* After a backslash. */
static int texts_escape(struct texts_scan *s) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  const char *at;
  char c = s->at < s->size ? s->text[s->at] : 0;
  if (c == 'u') {
    s->at++;
    return texts_unicode(s);
  }
  at = c ? strchr(from, c) : NULL;
  if (at == NULL)
    return texts_fail(s);
  s->at++;
  *s->to++ = to[at - from];
  return SQLITE_OK;
}

/* Decodes a string whose first backslash is at `first`. */
static int texts_unescape(struct texts_scan *s, size_t first) {
  char *begin;
  if (s->to == NULL)
    s->to = s->out->memory = sqlite3_malloc64(s->size);
  if (s->to == NULL)
    return SQLITE_NOMEM;
  begin = s->to;
  memcpy(s->to, s->text + s->at, first - s->at);
  s->to += first - s->at;
  s->at = first;
  while (s->at < s->size && s->text[s->at] != '"') {
    char c = s->text[s->at];
    if ((unsigned char)c < ' ')
      return texts_fail(s);
    s->at++;
    if (c == '\\') {
      int rc = texts_escape(s);
      if (rc != SQLITE_OK)
        return rc;
    } else {
      *s->to++ = c;
    }
  }
  if (s->at == s->size)
    return texts_fail(s);
  s->at++;
  s->out->at[s->out->n++] = (struct ext_text){begin, (size_t)(s->to - begin)};
  return SQLITE_OK;
}

static int texts_make_room(struct texts_scan *s) {
  if (s->out->n == s->room) {
    size_t room = s->room ? 2 * s->room : 64;
    void *at = sqlite3_realloc64(s->out->at, room * sizeof *s->out->at);
    if (at == NULL)
      return SQLITE_NOMEM;
    s->out->at = at;
    s->room = room;
  }
  return SQLITE_OK;
}

/* Returns the end of the run of literal bytes: at a quote, a backslash, a byte
** less than a space, or the end of the text.  Scans eight bytes at a time. */
static size_t texts_plain(const struct texts_scan *s) {
  const uint64_t ones = UINT64_C(0x0101010101010101), highs = ones << 7;
  size_t at = s->at;
  for (; at + 8 <= s->size; at += 8) {
    uint64_t word, quote, slash, low;
    memcpy(&word, s->text + at, 8);
    quote = word ^ ones * '"';
    slash = word ^ ones * '\\';
    low = (word - ones * ' ') & ~word;
    quote = (quote - ones) & ~quote;
    slash = (slash - ones) & ~slash;
    low = (low | quote | slash) & highs;
    if (low)
      return at + (size_t)__builtin_ctzll(low) / 8;
  }
  while (at < s->size && s->text[at] != '"' && s->text[at] != '\\' &&
         (unsigned char)s->text[at] >= ' ')
    at++;
  return at;
}

static int texts_string(struct texts_scan *s) {
  size_t end;
  char c;
  int rc = texts_make_room(s);
  if (rc == SQLITE_OK && s->at - s->polled >= EXT_ARG_BYTES) {
    s->polled = s->at;
    if (ext_arg_stops(s->arg))
      rc = ext_error(s->err, SQLITE_INTERRUPT, "interrupted");
  }
  if (rc != SQLITE_OK)
    return rc;
  c = texts_peek(s);
  if ((c >= '0' && c <= '9') || c == '-')
    return ext_error(s->err, SQLITE_MISMATCH,
                     "element %lld of %s is a number, not a text key: write "
                     "it in quotes",
                     (long long)s->out->n, s->what);
  if (c != '"')
    return texts_fail(s);
  s->at++;
  end = texts_plain(s);
  if (end < s->size && s->text[end] == '\\')
    return texts_unescape(s, end);
  if (end < s->size && s->text[end] != '"') { /* less than a space */
    s->at = end;
    return texts_fail(s);
  }
  if (end == s->size) {
    s->at = end;
    return texts_fail(s);
  }
  s->out->at[s->out->n++] = (struct ext_text){s->text + s->at, end - s->at};
  s->at = end + 1;
  return SQLITE_OK;
}

static int texts_array(struct texts_scan *s) {
  if (texts_peek(s) != '[')
    return texts_fail(s);
  s->at++;
  if (texts_peek(s) != ']') {
    for (;;) {
      int rc = texts_string(s);
      if (rc != SQLITE_OK)
        return rc;
      if (texts_peek(s) == ']')
        break;
      if (texts_peek(s) != ',')
        return texts_fail(s);
      s->at++;
    }
  }
  s->at++;
  texts_peek(s);
  return s->at == s->size ? SQLITE_OK : texts_fail(s);
}

int ext_texts_from_value(sqlite3_value *value, const struct ext_arg *arg,
                         struct ext_texts *out, char **err) {
  const char *what = arg->what;
  struct texts_scan s = {.what = what, .out = out, .arg = arg, .err = err};
  int rc;
  *out = (struct ext_texts){0};
  if (sqlite3_value_type(value) != SQLITE_TEXT)
    return ext_error(err, SQLITE_MISMATCH,
                     "%s must be a JSON array of texts, as the keys are, got "
                     "%s",
                     what, ext_value_type_name(value));
  s.text = (const char *)sqlite3_value_text(value);
  if (s.text == NULL)
    return SQLITE_NOMEM;
  s.size = (size_t)sqlite3_value_bytes(value);
  rc = texts_array(&s);
  if (rc != SQLITE_OK)
    ext_texts_free(out);
  emb_check(ext_texts_valid(out));
  return rc;
}

int ext_text_from_value(sqlite3_value *value, const char *what,
                        struct ext_text *out, char **err) {
  int type = sqlite3_value_type(value);
  if (type == SQLITE_BLOB || type == SQLITE_NULL)
    return ext_error(err, SQLITE_MISMATCH, "%s must be TEXT, got %s", what,
                     ext_value_type_name(value));
  out->at = (const char *)sqlite3_value_text(value);
  out->n = (size_t)sqlite3_value_bytes(value);
  return out->at ? SQLITE_OK : SQLITE_NOMEM;
}

void ext_text_to_json(sqlite3_str *to, const struct ext_text *text) {
  size_t from = 0;
  sqlite3_str_appendchar(to, 1, '"');
  for (size_t i = 0; i < text->n; i++) {
    unsigned char c = (unsigned char)text->at[i];
    if (c >= ' ' && c != '"' && c != '\\')
      continue;
    sqlite3_str_append(to, text->at + from, (int)(i - from));
    from = i + 1;
    if (c < ' ')
      sqlite3_str_appendf(to, "\\u%04x", c);
    else
      sqlite3_str_appendf(to, "\\%c", c);
  }
  sqlite3_str_append(to, text->at + from, (int)(text->n - from));
  sqlite3_str_appendchar(to, 1, '"');
}
