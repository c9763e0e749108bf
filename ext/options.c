/* SPDX-License-Identifier: MIT
**
** options.c -- the arguments of CREATE VIRTUAL TABLE ... USING emb(...).
**
** ARGUMENT   SQLite hands over each argument as text, comments removed and
**            quotes kept.  One that goes `name =` is an option, any other a
**            column definition:
**                key INTEGER PRIMARY KEY     at most once; default name "key"
**                vector FLOAT[64]            once or more, and behind it
**                                            perhaps optimizer=...
**                                            initializer=...
** NAMES      are identifiers, bare or quoted in any of SQLite's four ways.
** SIZES      16MB is 16 million bytes and 16MiB is 16 * 1048576.
*/
#include "ext.h"
SQLITE_EXTENSION_INIT3

#include <assert.h>
#include <string.h>

#define TIMEOUT_MS_DEFAULT 5000

static int is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static int is_name(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
         (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || (c & 0x80) != 0;
}

static const char *skip_space(const char *at) {
  while (is_space(*at))
    at++;
  return at;
}

/* Length without the space at the end. */
static int trimmed(const char *at) {
  size_t n = strlen(at);
  while (n > 0 && is_space(at[n - 1]))
    n--;
  return (int)n;
}

/* Reads an identifier or a quoted text at *at and moves on.  *out: NULL if
** there is none.  SQLITE_NOMEM without memory. */
static int read_name(const char **at, char **out) {
  const char *from = *at;
  const char *to = from;
  char close = *from == '[' ? ']' : *from;
  if (close == '"' || close == '\'' || close == '`' || close == ']') {
    char *name;
    int n = 0;
    *out = NULL;
    for (to++; *to && (*to != close || (close != ']' && to[1] == close)); to++)
      if (*to == close)
        to++;
    if (*to == 0)
      return SQLITE_OK;
    if ((name = sqlite3_malloc64((size_t)(to - from))) == NULL)
      return SQLITE_NOMEM;
    for (from++; from < to; from++) {
      name[n++] = *from;
      if (*from == close)
        from++;
    }
    name[n] = 0;
    *at = to + 1;
    *out = name;
    return SQLITE_OK;
  }
  while (is_name(*to))
    to++;
  *at = to;
  *out = to == from ? NULL : sqlite3_mprintf("%.*s", (int)(to - from), from);
  return to == from || *out ? SQLITE_OK : SQLITE_NOMEM;
}

/* Moves over a keyword, whatever its case. */
static int read_word(const char **at, const char *word) {
  size_t n = strlen(word);
  if (sqlite3_strnicmp(*at, word, (int)n) != 0 || is_name((*at)[n]))
    return 0;
  *at = skip_space(*at + n);
  return 1;
}

/* An integer of decimal digits; 0 when there is none or it is too large. */
static int read_number(const char **at, uint64_t *number) {
  const char *from = *at;
  *number = 0;
  for (; **at >= '0' && **at <= '9'; (*at)++) {
    uint64_t digit = (uint64_t)(**at - '0');
    if (*number > (UINT64_MAX - digit) / 10)
      return 0;
    *number = *number * 10 + digit;
  }
  return *at != from;
}

/* ---- columns ------------------------------------------------------------- */

/* Declared beside the key and the vectors, so no name for either. */
static const char *const reserved[] = {
    "keys",    "mode",  "vectors",   "found",      "versions",
    "version", "clock", "arg",       "gradient",   "gradients",
    "lr",      "step",  "frequency", "updated_at", "snapshot"};

static int check_name(const struct ext_options *options, const char *name,
                      char **err) {
  int times = 0;
  for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++)
    if (sqlite3_stricmp(name, reserved[i]) == 0)
      return ext_error(err, SQLITE_ERROR, "column name is reserved: %s", name);
  if (options->key)
    times += sqlite3_stricmp(name, options->key) == 0;
  for (uint32_t i = 0; i < ext_vectors(options); i++)
    times += sqlite3_stricmp(name, options->vectors[i]) == 0;
  return times > 1
             ? ext_error(err, SQLITE_ERROR, "duplicate column name: %s", name)
             : SQLITE_OK;
}

/* A value: quoted, or what goes up to `end` or space at depth 0 of parentheses.
** Moves on behind it.  *value: NULL when there is none. */
static int read_value(const char **at, const char *end, char **value) {
  const char *from = *at;
  int depth = 0;
  if (*from == '\'' || *from == '"')
    return read_name(at, value);
  for (; **at && (depth || !strchr(end, **at)); (*at)++)
    depth += (**at == '(') - (**at == ')');
  *value =
      *at == from ? NULL : sqlite3_mprintf("%.*s", (int)(*at - from), from);
  return *at == from || *value ? SQLITE_OK : SQLITE_NOMEM;
}

/* What may follow a vector's type: optimizer=..., initializer=... */
static int parse_attribute(emb_segment *segment, const char **at,
                           const char *column, char **err) {
  const char **to = NULL;
  const char *from = *at;
  char *name, *value = NULL;
  int rc = read_name(at, &name);
  if (rc != SQLITE_OK)
    return rc;
  *at = skip_space(*at);
  if (name && sqlite3_stricmp(name, "optimizer") == 0)
    to = &segment->optimizer;
  else if (name && sqlite3_stricmp(name, "initializer") == 0)
    to = &segment->initializer;
  sqlite3_free(name);
  if (to == NULL || **at != '=')
    return ext_error(err, SQLITE_ERROR,
                     "cannot understand: %.*s; expected optimizer= or "
                     "initializer= after the type of %s",
                     trimmed(from), from, column);
  if (*to)
    return ext_error(err, SQLITE_ERROR, "said twice: %.*s", trimmed(from),
                     from);
  *at = skip_space(*at + 1);
  rc = read_value(at, " \t\r\n", &value);
  if (rc == SQLITE_OK && value == NULL)
    rc = ext_error(err, SQLITE_ERROR, "cannot understand the value of %.*s",
                   trimmed(from), from);
  *to = value;
  *at = skip_space(*at);
  return rc;
}

/* "FLOAT[": moves behind it. */
static int read_type(const char **at, uint32_t *type) {
  static const struct {
    const char *word;
    uint32_t type;
  } types[] = {{"float", EMB_F32},
               {"float32", EMB_F32},
               {"f32", EMB_F32},
               {"float16", EMB_F16},
               {"f16", EMB_F16}};
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
    if (read_word(at, types[i].word)) {
      *type = types[i].type;
      return *(*at)++ == '[';
    }
  return 0;
}

/* What follows the name of a vector column: FLOAT[64] ... */
static int parse_vector(struct ext_options *options, char *name, const char *at,
                        char **err) {
  uint32_t i = options->config.segment_count;
  emb_segment *segment = &options->segments[i < EMB_SEGMENTS_MAX ? i : 0];
  const char *from = at;
  const char *dim_from;
  uint64_t dim = 0;
  uint32_t type = EMB_F32;
  int valid, rc;
  if (!read_type(&at, &type)) {
    rc = ext_error(err, SQLITE_ERROR,
                   "unknown column type: %.*s; expected FLOAT[N] or "
                   "FLOAT16[N], or INTEGER PRIMARY KEY",
                   trimmed(from), from);
  } else if (i == EMB_SEGMENTS_MAX) {
    rc = ext_error(err, SQLITE_ERROR, "more than %d vector columns",
                   EMB_SEGMENTS_MAX);
  } else {
    rc = SQLITE_OK;
  }
  if (rc != SQLITE_OK) {
    sqlite3_free(name);
    return rc;
  }
  options->vectors[i] = name;
  options->config.segment_count++;
  at = dim_from = skip_space(at);
  valid = read_number(&at, &dim) && dim >= 1 && dim <= EMB_DIM_MAX;
  at = skip_space(at);
  if (!valid || *at != ']')
    return ext_error(err, SQLITE_ERROR,
                     "dimension must be between 1 and %d, got %.*s",
                     EMB_DIM_MAX, (int)strcspn(dim_from, "] \t\r\n"), dim_from);
  segment->dim = (uint32_t)dim;
  segment->type = type;
  at = skip_space(at + 1);
  while (rc == SQLITE_OK && *at)
    rc = parse_attribute(segment, &at, name, err);
  return rc == SQLITE_OK ? check_name(options, name, err) : rc;
}

static int parse_column(struct ext_options *options, const char *text,
                        char **err) {
  const char *at = text;
  char *name;
  int is_key;
  int rc = read_name(&at, &name);
  if (rc != SQLITE_OK)
    return rc;
  if (name == NULL)
    return ext_error(err, SQLITE_ERROR, "cannot understand: %.*s",
                     trimmed(text), text);
  at = skip_space(at);
  {
    const char *type = at;
    is_key = read_word(&type, "integer") && read_word(&type, "primary") &&
             read_word(&type, "key") && *type == 0;
  }
  if (!is_key)
    return parse_vector(options, name, at, err);
  if (options->key) {
    sqlite3_free(name);
    return ext_error(err, SQLITE_ERROR, "more than one key column");
  }
  options->key = name;
  return check_name(options, name, err);
}

/* ---- options ------------------------------------------------------------- */

static int parse_size(const char *text, uint64_t *bytes) {
  static const struct {
    const char *unit;
    uint64_t bytes;
  } units[] = {{"", 1},
               {"b", 1},
               {"kb", 1000},
               {"mb", 1000000},
               {"gb", 1000000000},
               {"tb", 1000000000000},
               {"kib", UINT64_C(1) << 10},
               {"mib", UINT64_C(1) << 20},
               {"gib", UINT64_C(1) << 30},
               {"tib", UINT64_C(1) << 40}};
  uint64_t number;
  if (!read_number(&text, &number))
    return 0;
  text = skip_space(text);
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
    if (sqlite3_stricmp(text, units[i].unit) == 0) {
      *bytes = number * units[i].bytes;
      return number > 0 && number <= (uint64_t)INT64_MAX / units[i].bytes;
    }
  return 0;
}

/* A number from lo to hi and nothing behind it. */
static int parse_number(const char *text, uint64_t lo, uint64_t hi,
                        uint64_t *number) {
  return read_number(&text, number) && *text == 0 && *number >= lo &&
         *number <= hi;
}

static int parse_staleness(const char *value, emb_config *config) {
  uint64_t bound = 0;
  config->flags &= ~(uint32_t)EMB_OPEN_BOUNDED;
  if (sqlite3_stricmp(value, "none") == 0)
    return 1;
  if (!parse_number(value, 0, EMB_STALENESS_MAX, &bound))
    return 0;
  config->staleness = (uint32_t)bound;
  config->flags |= EMB_OPEN_BOUNDED;
  return 1;
}

static int parse_io(const char *value, uint32_t *io) {
  static const char *const names[] = {"auto", "uring", "pread"};
  static const uint32_t values[] = {EMB_IO_AUTO, EMB_IO_URING, EMB_IO_PREAD};
  for (size_t i = 0; i < 3; i++)
    if (sqlite3_stricmp(value, names[i]) == 0) {
      *io = values[i];
      return 1;
    }
  return 0;
}

/* Where the engine's tuner has to stay, and the largest value of it; NULL for
** other options. */
static uint32_t *tuning_limit(emb_config *config, const char *name,
                              uint32_t *max) {
  *max = EMB_IO_DEPTH_MAX;
  if (sqlite3_stricmp(name, "io_depth_min") == 0)
    return &config->io_depth_min;
  if (sqlite3_stricmp(name, "io_depth_max") == 0)
    return &config->io_depth_max;
  *max = EMB_IO_WORKERS_MAX;
  if (sqlite3_stricmp(name, "io_workers_min") == 0)
    return &config->io_workers_min;
  if (sqlite3_stricmp(name, "io_workers_max") == 0)
    return &config->io_workers_max;
  return NULL;
}

/* Keeps a copy, freed by ext_options_clear. */
static int set_text(const char **to, const char *value) {
  if (*to)
    return 0;
  *to = sqlite3_mprintf("%s", value);
  return *to != NULL;
}

static int parse_insert_on(const char *value, uint32_t *insert_on) {
  static const char *const names[] = {"put", "update", "lookup"};
  for (uint32_t i = 0; i < 3; i++)
    if (sqlite3_stricmp(value, names[i]) == 0) {
      *insert_on = EMB_INSERT_ON_PUT + i;
      return 1;
    }
  return 0;
}

static int parse_track(const char *value, uint32_t *track) {
  static const char *const names[] = {"none", "wall", "data"};
  for (uint32_t i = 0; i < 3; i++)
    if (sqlite3_stricmp(value, names[i]) == 0) {
      *track = EMB_TRACK_NONE + i;
      return 1;
    }
  return 0;
}

/* Whether value is a legal value of the option, which is then set.  *legal
** says which are; NULL when there is no such option. */
static int set_option(struct ext_options *options, const char *name,
                      const char *value, const char **legal) {
  emb_config *config = &options->config;
  uint32_t max, *limit = tuning_limit(config, name, &max);
  uint64_t number = 0;
  if (sqlite3_stricmp(name, "memory") == 0) {
    *legal = "bytes, or a size like '64MB'";
    return parse_size(value, &config->memory_bytes);
  }
  if (sqlite3_stricmp(name, "timeout") == 0) {
    *legal = "milliseconds, 0 to 2147483647";
    return parse_number(value, 0, INT32_MAX, &config->timeout_ms);
  }
  if (sqlite3_stricmp(name, "commit") == 0) {
    *legal = "atomic or engine";
    options->engine_commit = sqlite3_stricmp(value, "engine") == 0;
    return options->engine_commit || sqlite3_stricmp(value, "atomic") == 0;
  }
  if (sqlite3_stricmp(name, "io") == 0) {
    *legal = "auto, uring or pread";
    return parse_io(value, &config->io);
  }
  if (sqlite3_stricmp(name, "optimizer") == 0) {
    *legal = "one optimizer for all vectors";
    return set_text(&config->optimizer, value);
  }
  if (sqlite3_stricmp(name, "initializer") == 0) {
    *legal = "one initializer for all vectors";
    return set_text(&config->initializer, value);
  }
  if (sqlite3_stricmp(name, "insert_on") == 0) {
    *legal = "put, update or lookup";
    return parse_insert_on(value, &config->insert_on);
  }
  if (sqlite3_stricmp(name, "track") == 0) {
    *legal = "none, wall or data";
    return parse_track(value, &config->track);
  }
  if (sqlite3_stricmp(name, "admission") == 0) {
    *legal = "one rule";
    return set_text(&config->admission, value);
  }
  if (sqlite3_stricmp(name, "ttl") == 0) {
    *legal = "one for all slots";
    return set_text(&config->ttl, value);
  }
  if (sqlite3_stricmp(name, "capacity") == 0) {
    *legal = "none, or a number of rows from 1";
    if (sqlite3_stricmp(value, "none") == 0) {
      config->capacity = EMB_CAPACITY_NONE;
      return 1;
    }
    return parse_number(value, 1, INT64_MAX, &config->capacity);
  }
  if (sqlite3_stricmp(name, "evict") == 0) {
    *legal = "lru or lfu";
    config->evict =
        sqlite3_stricmp(value, "lfu") == 0 ? EMB_EVICT_LFU : EMB_EVICT_LRU;
    return config->evict == EMB_EVICT_LFU || sqlite3_stricmp(value, "lru") == 0;
  }
  if (sqlite3_stricmp(name, "seed") == 0) {
    *legal = "1 to 9223372036854775807";
    return parse_number(value, 1, INT64_MAX, &config->seed);
  }
  if (sqlite3_stricmp(name, "staleness") == 0) {
    *legal = "none, or 0 to 4094";
    return parse_staleness(value, config);
  }
  if (limit) {
    *legal = max == EMB_IO_DEPTH_MAX ? "1 to 1024" : "1 to 32";
    if (!parse_number(value, 1, max, &number))
      return 0;
    *limit = (uint32_t)number;
    return 1;
  }
  *legal = NULL;
  return 0;
}

/* at is behind the `=`. */
static int parse_option(struct ext_options *options, const char *name,
                        const char *at, char **err) {
  int rc = SQLITE_OK;
  const char *legal;
  char *value;
  at = skip_space(at);
  if (*at == '\'' || *at == '"') {
    rc = read_name(&at, &value);
    if (value && *skip_space(at) != 0) {
      sqlite3_free(value);
      value = NULL;
    }
  } else {
    value = sqlite3_mprintf("%.*s", trimmed(at), at);
    rc = value ? SQLITE_OK : SQLITE_NOMEM;
  }
  if (rc != SQLITE_OK)
    return rc;
  if (value == NULL)
    return ext_error(err, SQLITE_ERROR, "cannot understand the value of %s",
                     name);
  if (!set_option(options, name, value, &legal))
    rc = legal ? ext_error(err, SQLITE_ERROR,
                           "unknown value for %s: %s; expected %s", name, value,
                           legal)
               : ext_error(err, SQLITE_ERROR, "unknown option: %s", name);
  sqlite3_free(value);
  return rc;
}

static_assert(EMB_STALENESS_MAX == 4094 && EMB_IO_DEPTH_MAX == 1024 &&
                  EMB_IO_WORKERS_MAX == 32,
              "the texts say so");

/* A least value that is more than the greatest; 0 is the engine's default. */
static int check_limits(const emb_config *config, char **err) {
  const char *what = NULL;
  if (config->io_depth_max && config->io_depth_min > config->io_depth_max)
    what = "depth";
  if (config->io_workers_max && config->io_workers_min > config->io_workers_max)
    what = "workers";
  return what ? ext_error(err, SQLITE_ERROR, "io_%s_min is more than io_%s_max",
                          what, what)
              : SQLITE_OK;
}

static int parse_argument(struct ext_options *options, const char *text,
                          char **err) {
  const char *at = text = skip_space(text);
  char *name;
  int rc = read_name(&at, &name);
  if (rc != SQLITE_OK)
    return rc;
  at = skip_space(at);
  if (name && *at == '=')
    rc = parse_option(options, name, at + 1, err);
  else
    rc = parse_column(options, text, err);
  sqlite3_free(name);
  return rc;
}

/* What follows from all arguments together. */
static int finish(struct ext_options *options, char **err) {
  emb_config *config = &options->config;
  uint32_t n = ext_vectors(options);
  uint64_t dim = ext_vector_first(options, n);
  if (dim > EMB_DIM_MAX)
    return ext_error(err, SQLITE_ERROR,
                     "the dimensions of all vectors must be at most %d "
                     "together, got %llu",
                     EMB_DIM_MAX, (unsigned long long)dim);
  options->optimized = config->optimizer != NULL;
  for (uint32_t i = 0; i < n; i++)
    options->optimized |= options->segments[i].optimizer != NULL;
  config->dim = (uint32_t)dim;
  config->type = options->segments[0].type;
  config->segments = options->segments;
  return SQLITE_OK;
}

int ext_options_parse(struct ext_options *options, int argc,
                      const char *const *argv, char **err) {
  int rc = SQLITE_OK;
  memset(options, 0, sizeof *options);
  options->config.memory_bytes = EMB_MEMORY_DEFAULT;
  options->config.timeout_ms = TIMEOUT_MS_DEFAULT;
  for (int i = 3; i < argc && rc == SQLITE_OK; i++)
    rc = parse_argument(options, argv[i], err);
  if (rc == SQLITE_OK)
    rc = check_limits(&options->config, err);
  if (rc != SQLITE_OK)
    return rc;
  if (ext_vectors(options) == 0)
    return ext_error(err, SQLITE_ERROR,
                     "no vector column declared; expected e.g. vector "
                     "FLOAT[64]");
  if (options->key == NULL)
    options->key = sqlite3_mprintf("key");
  return options->key ? finish(options, err) : SQLITE_NOMEM;
}

uint32_t ext_vector_first(const struct ext_options *options, uint32_t i) {
  uint32_t first = 0;
  while (i > 0)
    first += options->segments[--i].dim;
  return first;
}

void ext_options_clear(struct ext_options *options) {
  sqlite3_free(options->key);
  options->key = NULL;
  for (uint32_t i = 0; i < EMB_SEGMENTS_MAX; i++) {
    sqlite3_free(options->vectors[i]);
    sqlite3_free((char *)options->segments[i].optimizer);
    sqlite3_free((char *)options->segments[i].initializer);
    options->vectors[i] = NULL;
    options->segments[i].optimizer = options->segments[i].initializer = NULL;
  }
  sqlite3_free((char *)options->config.optimizer);
  sqlite3_free((char *)options->config.initializer);
  sqlite3_free((char *)options->config.ttl);
  sqlite3_free((char *)options->config.admission);
  options->config.optimizer = options->config.initializer = NULL;
  options->config.ttl = options->config.admission = NULL;
}
