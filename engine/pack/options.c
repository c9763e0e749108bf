/* SPDX-License-Identifier: MIT
**
** options.c -- see options.h.
*/
#include "options.h"

#include <string.h>

static const char *const encodings[] = {"none", "float16", "int8", "int4"};

enum { WORD_MAX = 80 };

/* The next word that ends at one of `until`, without spaces around it; 0: it
** is too long. */
static int take(const char **at, const char *until, char *to) {
  *at += strspn(*at, " ");
  size_t n = strcspn(*at, until);
  const char *from = *at;
  *at += n;
  while (n && from[n - 1] == ' ') {
    n--;
  }
  if (n >= WORD_MAX) {
    return 0;
  }
  memcpy(to, from, n);
  to[n] = 0;
  return 1;
}

int pack_encoding(const char *name) {
  for (int i = 0; i < (int)(sizeof encodings / sizeof *encodings); i++) {
    if (strcmp(name, encodings[i]) == 0) {
      return i;
    }
  }
  return -1;
}

static int set_encoding(struct pack_options *o, const char *value,
                        emb_err *err) {
  int encoding = pack_encoding(value);
  if (encoding < 0) {
    return err_set(err, EMB_RANGE,
                   "quantize must be none, float16, int8 or int4, got '%s'",
                   value);
  }
  o->encoding = (uint32_t)encoding;
  return EMB_OK;
}

static int set_number(uint32_t *to, const char *name, const char *value,
                      uint32_t max, emb_err *err) {
  uint32_t n = 0;
  size_t digits = strspn(value, "0123456789");
  for (size_t i = 0; i < digits && n <= max; i++) {
    n = n * 10 + (uint32_t)(value[i] - '0');
  }
  if (!digits || value[digits] || n > max) {
    return err_set(err, EMB_RANGE, "%s must be between 0 and %u, got '%s'",
                   name, max, value);
  }
  *to = n;
  return EMB_OK;
}

static int set_base(struct pack_options *o, const char *value, emb_err *err) {
  size_t n = strlen(value);
  if (n == 0 || n >= sizeof o->base) {
    return err_set(err, EMB_RANGE, "base must be the name of a snapshot");
  }
  memcpy(o->base, value, n + 1);
  return EMB_OK;
}

static int set(struct pack_options *o, const char *name, const char *value,
               int takes, emb_err *err) {
  if (strcmp(name, "quantize") == 0) {
    return set_encoding(o, value, err);
  }
  if (strcmp(name, "level") == 0) {
    return set_number(&o->level, name, value, PACK_LEVEL_MAX, err);
  }
  if (strcmp(name, "state") == 0) {
    return set_number(&o->state, name, value, 1, err);
  }
  if (takes & PACK_TAKES_INDEX && strcmp(name, "index") == 0) {
    return set_number(&o->index, name, value, 1, err);
  }
  if (takes & PACK_TAKES_BASE && strcmp(name, "base") == 0) {
    return set_base(o, value, err);
  }
  return err_set(err, EMB_RANGE, "unknown option '%s'", name);
}

int pack_options_parse(struct pack_options *options, const char *text,
                       int takes, emb_err *err) {
  const char *at = text ? text : "";
  memset(options, 0, sizeof *options);
  options->level = PACK_LEVEL_DEFAULT;
  options->state = 1;
  options->index = (takes & PACK_TAKES_INDEX) != 0;
  at += strspn(at, " ");
  while (*at) {
    char name[WORD_MAX], value[WORD_MAX];
    if (!take(&at, "=,", name) || *at++ != '=' || !take(&at, ",", value)) {
      return err_set(err, EMB_RANGE,
                     "options are name=value, separated by commas, got '%.80s'",
                     text);
    }
    int rc = set(options, name, value, takes, err);
    if (rc) {
      return rc;
    }
    at += *at == ',';
    at += strspn(at, " ");
  }
  return EMB_OK;
}
