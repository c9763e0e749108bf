/* SPDX-License-Identifier: MIT
**
** options.c -- see options.h.
*/
#include "options.h"
#include "engine/base/near.h"
#include "engine/base/text.h"

#include <string.h>

static const char *const encodings[] = {"none", "float16", "int8", "int4"};

enum { WORD_MAX = 80 };

/* Reads the next word, up to one of `until`, without surrounding spaces; 0: it
** is too long. */
static int options_take(const char **at, const char *until, char *to) {
  const char *from = *at = text_space(*at);
  size_t n = strcspn(from, until);
  *at += n;
  n = text_trimmed(from, n);
  if (n >= WORD_MAX) {
    return 0;
  }
  memcpy(to, from, n);
  to[n] = 0;
  return 1;
}

int pack_encoding(const char *name) {
  for (int i = 0; i < (int)(sizeof encodings / sizeof *encodings); i++) {
    if (near_is(encodings[i], name)) {
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
  uint64_t n;
  if (!text_whole(value, 0, max, &n)) {
    return err_set(err, EMB_RANGE, "%s must be between 0 and %u, got '%s'",
                   name, max, value);
  }
  *to = (uint32_t)n;
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

static int options_set(struct pack_options *o, const char *name,
                       const char *value, int takes, emb_err *err) {
  if (near_is("quantize", name)) {
    return set_encoding(o, value, err);
  }
  if (near_is("level", name)) {
    return set_number(&o->level, name, value, PACK_LEVEL_MAX, err);
  }
  if (near_is("state", name)) {
    return set_number(&o->state, name, value, 1, err);
  }
  if (takes & PACK_TAKES_INDEX && near_is("index", name)) {
    return set_number(&o->index, name, value, 1, err);
  }
  if (takes & PACK_TAKES_BASE && near_is("base", name)) {
    return set_base(o, value, err);
  }
  struct near near;
  near_start(&near, name, strlen(name));
  near_offer(&near, "quantize");
  near_offer(&near, "level");
  near_offer(&near, "state");
  if (takes & PACK_TAKES_INDEX) {
    near_offer(&near, "index");
  }
  if (takes & PACK_TAKES_BASE) {
    near_offer(&near, "base");
  }
  return err_set(err, EMB_RANGE, "unknown option '%s'%s", name,
                 near_text(&near));
}

int pack_options_parse(struct pack_options *options, const char *text,
                       int takes, emb_err *err) {
  const char *at = text ? text : "";
  memset(options, 0, sizeof *options);
  options->level = PACK_LEVEL_DEFAULT;
  options->state = 1;
  options->index = (takes & PACK_TAKES_INDEX) != 0;
  at = text_space(at);
  while (*at) {
    char name[WORD_MAX], value[WORD_MAX];
    if (!options_take(&at, "=,", name) || *at++ != '=' ||
        !options_take(&at, ",", value)) {
      return err_set(err, EMB_RANGE,
                     "options are name=value, separated by commas, got '%.80s'",
                     text);
    }
    int rc = options_set(options, name, value, takes, err);
    if (rc) {
      return rc;
    }
    at += *at == ',';
    at = text_space(at);
  }
  return EMB_OK;
}
