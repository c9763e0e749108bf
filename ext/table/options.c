/* SPDX-License-Identifier: MIT
**
** options.c -- the table of options, and how a value is stored in a
** configuration.
**
** A row of option_rows defines an option completely: parsing (arguments.c),
** error messages, what 'set' may change (settings.c), and the check of the
** manual's table (tests/unit/ext/table/options.c) are derived from it.
**
** SIZES      16MB is 16 million bytes and 16MiB is 16 * 1048576.
*/
#include "aux_columns.h"
SQLITE_EXTENSION_INIT3

#include <stddef.h>
#include <string.h>

#define TIMEOUT_MS_DEFAULT 5000
#define PREFIX_MAX 32

/* The location of a value; IN_COLUMN: of a vector column's own value. */
#define IN_COLUMN(field) .in_column = offsetof(emb_segment, field)
#define IN(field)                                                              \
  .at = offsetof(struct ext_options, field),                                   \
  .width = sizeof((struct ext_options *)0)->field
#define TUNES(least_, most_)                                                   \
  .kind = EXT_NUMBER, .change = EXT_AT_OPEN, .least = (least_), .most = (most_)

/* The names are used without quotes. */
static int check_prefix(const char *text, emb_err *why) {
  size_t n = text_name(text);
  if (n > 0 && n <= PREFIX_MAX && text[n] == 0 && !text_is_digit(text[0]))
    return EMB_OK;
  sqlite3_snprintf((int)sizeof why->text, why->text,
                   "hidden_prefix must be a letter or _, then letters, digits "
                   "and _, at most %d in all, got '%s'",
                   PREFIX_MAX, text);
  return EMB_RANGE;
}

static const struct ext_option option_rows[] = {
    {.name = "memory",
     .kind = EXT_SIZE,
     .change = EXT_AT_COMMIT,
     IN(config.memory_bytes),
     .legal = "bytes, or a size like '64MB'",
     .initial = "64MiB",
     .help = "Budget for vectors in memory"},
    {.name = "timeout",
     .kind = EXT_NUMBER,
     .change = EXT_AT_COMMIT,
     IN(config.timeout_ms),
     .most = INT32_MAX,
     .unit = "milliseconds, ",
     .initial = "5000",
     .help = "How long to wait for a key or a store"},
    {.name = "commit",
     .kind = EXT_CHOICE,
     IN(engine_commit),
     .words = {"atomic", "engine"},
     .initial = "atomic",
     .help = "How a COMMIT reaches the disk"},
    {.name = "io",
     .kind = EXT_CHOICE,
     .change = EXT_AT_OPEN,
     IN(config.io),
     .words = {"auto", "uring", "pread"},
     .initial = "auto",
     .help = "How the disk is read and written"},
    {.name = "staleness",
     .kind = EXT_NUMBER,
     IN(config.staleness),
     .most = EMB_STALENESS_MAX,
     .words = {"none"},
     .flag = EMB_OPEN_BOUNDED,
     .initial = "none",
     .help = "A read of a key goes ahead while at most this many others are "
             "pending"},
    {.name = "optimizer",
     .kind = EXT_TEXT,
     IN(config.optimizer),
     IN_COLUMN(optimizer),
     .legal = "one optimizer for all vectors",
     .initial = "none",
     .note = " (lr may be given with each update)",
     .help = "How gradients are applied"},
    {.name = "initializer",
     .kind = EXT_TEXT,
     IN(config.initializer),
     IN_COLUMN(initializer),
     .legal = "one initializer for all vectors",
     .initial = "zeros",
     .help = "The vector of a row that was created without one"},
    {.name = "metric",
     .kind = EXT_TEXT,
     .change = EXT_AT_OPEN,
     IN(config.metric),
     IN_COLUMN(metric),
     .legal = "one metric for all vectors",
     .initial = "l2",
     .unset = "l2",
     .help = "The distance between vectors"},
    {.name = "index",
     .kind = EXT_TEXT,
     .change = EXT_AT_OPEN,
     IN(config.index),
     IN_COLUMN(index),
     .check = emb_check_index,
     .legal = "one index for all vectors",
     .initial = "none",
     .unset = "none",
     .help = "An index that finds neighbours without comparing all rows"},
    {.name = "gradients",
     .kind = EXT_TEXT,
     .change = EXT_AT_OPEN,
     IN(config.gradients),
     .check = emb_check_gradients,
     .legal = "one for all vectors",
     .initial = "none",
     .unset = "none",
     .help = "Gradients of a key are averaged before they are applied"},
    {.name = "insert_on",
     .kind = EXT_CHOICE,
     IN(config.insert_on),
     .least = EMB_INSERT_ON_PUT,
     .words = {"put", "update", "lookup"},
     .initial = "",
     .help = "When a key becomes a row"},
    {.name = "track",
     .kind = EXT_CHOICE,
     IN(config.track),
     .least = EMB_TRACK_NONE,
     .words = {"none", "wall", "data"},
     .initial = "none",
     .help = "Each row records how often it was updated and when last"},
    {.name = "ttl",
     .kind = EXT_TEXT,
     .change = EXT_AT_OPEN,
     IN(config.ttl),
     .legal = "one for all slots",
     .initial = "",
     .unset = "none",
     .help = "Rows that were not updated for this long expire"},
    {.name = "capacity",
     .kind = EXT_NUMBER,
     .change = EXT_AT_OPEN,
     IN(config.capacity),
     .least = 1,
     .most = INT64_MAX,
     .words = {"none"},
     .none = EMB_CAPACITY_NONE,
     .legal = "none, or a number of rows from 1",
     .initial = "none",
     .unset = "none",
     .help = "The largest number of rows"},
    {.name = "evict",
     .kind = EXT_CHOICE,
     .change = EXT_AT_OPEN,
     IN(config.evict),
     .least = EMB_EVICT_LRU,
     .words = {"lru", "lfu"},
     .initial = "lru",
     .unset = "lru",
     .help = "Which rows are evicted first"},
    {.name = "admission",
     .kind = EXT_TEXT,
     IN(config.admission),
     .legal = "one rule",
     .initial = "none",
     .help = "Which new keys become rows"},
    {.name = "seed",
     .kind = EXT_NUMBER,
     IN(config.seed),
     .least = 1,
     .most = INT64_MAX,
     .initial = "",
     .help = "Of the initializers"},
    {.name = "io_depth_min",
     TUNES(1, EMB_IO_DEPTH_MAX),
     IN(config.io_depth_min),
     .initial = "32",
     .help = "Requests in flight"},
    {.name = "io_depth_max",
     TUNES(1, EMB_IO_DEPTH_MAX),
     IN(config.io_depth_max),
     .initial = "256",
     .help = "Requests in flight"},
    {.name = "io_workers_min",
     TUNES(1, EMB_IO_WORKERS_MAX),
     IN(config.io_workers_min),
     .initial = "1",
     .help = "The same for the threads"},
    {.name = "io_workers_max",
     TUNES(1, EMB_IO_WORKERS_MAX),
     IN(config.io_workers_max),
     .initial = "4",
     .help = "The same for the threads"},
    {.name = "warm",
     .kind = EXT_SWITCH,
     .words = {"on", "off"},
     .flag = EMB_OPEN_COLD,
     .initial = "on",
     .help = "Reads rows into memory after opening, as many as fit, in the "
             "background"},
    {.name = "serve",
     .kind = EXT_SWITCH,
     .words = {"on", "off"},
     .flag = EMB_OPEN_ALONE,
     .initial = "on",
     .help = "Several processes use the table through the one that owns it"},
    {.name = "hidden_prefix",
     .kind = EXT_TEXT,
     IN(hidden_prefix),
     .check = check_prefix,
     .legal = "one prefix",
     .initial = "",
     .help = "The names of the hidden columns begin with it"},
};
enum { OPTIONS = sizeof option_rows / sizeof option_rows[0] };

_Static_assert((int)OPTIONS <= (int)EXT_OPTIONS_MAX,
               "ext_settings has room for each");
_Static_assert(EMB_IO_AUTO == 0 && EMB_IO_URING == 1 && EMB_IO_PREAD == 2 &&
                   EMB_INSERT_ON_LOOKUP == EMB_INSERT_ON_PUT + 2 &&
                   EMB_TRACK_DATA == EMB_TRACK_NONE + 2 &&
                   EMB_EVICT_LFU == EMB_EVICT_LRU + 1,
               "the words stand in this order");

/* ---- the table ----------------------------------------------------------- */

const struct ext_option *ext_option_at(size_t i) {
  return i < OPTIONS ? &option_rows[i] : NULL;
}

const struct ext_option *ext_option_find(const char *name) {
  for (size_t i = 0; i < OPTIONS; i++)
    if (near_is(option_rows[i].name, name))
      return &option_rows[i];
  return NULL;
}

int ext_option_unknown(const char *name, char **err) {
  struct near near;
  near_start(&near, name, strlen(name));
  for (size_t i = 0; i < OPTIONS; i++)
    near_offer(&near, option_rows[i].name);
  return ext_error(err, SQLITE_ERROR, "unknown option: %s%s", name,
                   near_text(&near));
}

static int option_words(const struct ext_option *option) {
  int n = 0;
  while (n < 4 && option->words[n])
    n++;
  return n;
}

const char *ext_option_legal(const struct ext_option *option,
                             char legal[EXT_LEGAL_MAX]) {
  int n = option_words(option);
  if (option->legal)
    return option->legal;
  if (option->kind == EXT_NUMBER)
    return sqlite3_snprintf(EXT_LEGAL_MAX, legal, "%s%s%s%llu to %llu",
                            n ? option->words[0] : "", n ? ", or " : "",
                            option->unit ? option->unit : "", option->least,
                            option->most);
  legal[0] = 0;
  for (int i = 0; i < n; i++) {
    size_t used = strlen(legal);
    sqlite3_snprintf((int)(EXT_LEGAL_MAX - used), legal + used, "%s%s",
                     i == 0       ? ""
                     : i == n - 1 ? " or "
                                  : ", ",
                     option->words[i]);
  }
  return legal;
}

/* ---- values -------------------------------------------------------------- */

/* A value has 4 or 8 bytes. */
static void option_store(struct ext_options *options,
                         const struct ext_option *option, uint64_t value) {
  uint32_t narrow = (uint32_t)value;
  char *to = (char *)options + option->at;
  if (option->width == sizeof narrow)
    memcpy(to, &narrow, sizeof narrow);
  else if (option->width == sizeof value)
    memcpy(to, &value, sizeof value);
}

static void option_flag(struct ext_options *options,
                        const struct ext_option *option, int on) {
  options->config.flags &= ~option->flag;
  options->config.flags |= on ? option->flag : 0;
}

static int option_set_number(struct ext_options *options,
                             const struct ext_option *option,
                             const char *value) {
  uint64_t number = option->none;
  int none = option->words[0] && near_is(option->words[0], value);
  if (option->unit) {
    if (!unit_time(&value, 1000, &number) || *value || number % 1000 != 0 ||
        number / 1000 < option->least || number / 1000 > option->most)
      return 0;
    number /= 1000;
  } else if (!none &&
             !text_whole(value, option->least, option->most, &number)) {
    return 0;
  }
  option_store(options, option, number);
  option_flag(options, option, !none);
  return 1;
}

static int option_set_choice(struct ext_options *options,
                             const struct ext_option *option,
                             const char *value) {
  for (int i = 0; i < option_words(option); i++)
    if (near_is(option->words[i], value)) {
      option_store(options, option, option->least + (uint64_t)i);
      option_flag(options, option, i == 1);
      return 1;
    }
  return 0;
}

/* `on` is the word 0, and `off` the word 1. */
static int option_set_switch(struct ext_options *options,
                             const struct ext_option *option,
                             const char *value) {
  int on = 0;
  if (!unit_is_bool(value, &on))
    return 0;
  option_store(options, option, option->least + (uint64_t)!on);
  option_flag(options, option, !on);
  return 1;
}

static int option_set_size(struct ext_options *options,
                           const struct ext_option *option, const char *value) {
  uint64_t bytes = 0;
  if (!unit_size(&value, &bytes) || bytes == 0 || *value)
    return 0;
  option_store(options, option, bytes);
  return 1;
}

char **ext_option_text(struct ext_options *options,
                       const struct ext_option *option) {
  return (char **)(void *)((char *)options + option->at);
}

char **ext_option_column_text(emb_segment *segment,
                              const struct ext_option *option) {
  return (char **)(void *)((char *)segment + option->in_column);
}

int ext_option_check(const struct ext_option *option, const char *column,
                     const char *value, char **err) {
  emb_err why;
  if (option->check == NULL || option->check(value, &why) == EMB_OK)
    return SQLITE_OK;
  return column ? ext_error(err, SQLITE_ERROR, "%s of %s: %s", option->name,
                            column, why.text)
                : ext_error(err, SQLITE_ERROR, "%s", why.text);
}

int ext_option_set(struct ext_options *options, const struct ext_option *option,
                   const char *value, char **err) {
  char legal[EXT_LEGAL_MAX];
  char **text;
  int is_legal = 0;
  switch (option->kind) {
  case EXT_NUMBER:
    is_legal = option_set_number(options, option, value);
    break;
  case EXT_CHOICE:
    is_legal = option_set_choice(options, option, value);
    break;
  case EXT_SWITCH:
    is_legal = option_set_switch(options, option, value);
    break;
  case EXT_SIZE:
    is_legal = option_set_size(options, option, value);
    break;
  case EXT_TEXT:
    text = ext_option_text(options, option);
    is_legal = *text == NULL;
    if (is_legal && ext_option_check(option, NULL, value, err) != SQLITE_OK)
      return SQLITE_ERROR;
    if (is_legal && (*text = sqlite3_mprintf("%s", value)) == NULL)
      return SQLITE_NOMEM;
  }
  return is_legal
             ? SQLITE_OK
             : ext_error(err, SQLITE_ERROR,
                         "unknown value for %s: %s; expected %s", option->name,
                         value, ext_option_legal(option, legal));
}

int ext_option_is_set(const struct ext_options *options,
                      const struct ext_option *option) {
  static const char zeros[sizeof(uint64_t)];
  return memcmp((const char *)options + option->at, zeros, option->width) != 0;
}

/* ---- all options --------------------------------------------------------- */

/* Is a minimum above its maximum?  0 is the engine's default. */
int ext_options_check(const struct ext_options *options, char **err) {
  const emb_config *config = &options->config;
  const char *what = NULL;
  if (config->io_depth_max && config->io_depth_min > config->io_depth_max)
    what = "depth";
  if (config->io_workers_max && config->io_workers_min > config->io_workers_max)
    what = "workers";
  return what ? ext_error(err, SQLITE_ERROR, "io_%s_min is more than io_%s_max",
                          what, what)
              : SQLITE_OK;
}

uint32_t ext_vector_first(const struct ext_options *options, uint32_t i) {
  uint32_t first = 0;
  while (i > 0)
    first += options->segments[--i].dim;
  return first;
}

void ext_options_init(struct ext_options *options) {
  memset(options, 0, sizeof *options);
  options->config.memory_bytes = EMB_MEMORY_DEFAULT;
  options->config.timeout_ms = TIMEOUT_MS_DEFAULT;
}

void ext_options_clear(struct ext_options *options) {
  sqlite3_free(options->key);
  for (uint32_t i = 0; i < EMB_SEGMENTS_MAX; i++) {
    sqlite3_free(options->vectors[i]);
    for (size_t o = 0; o < OPTIONS; o++)
      if (option_rows[o].in_column)
        sqlite3_free(
            *ext_option_column_text(&options->segments[i], &option_rows[o]));
  }
  for (size_t i = 0; i < OPTIONS; i++)
    if (option_rows[i].kind == EXT_TEXT)
      sqlite3_free(*ext_option_text(options, &option_rows[i]));
  ext_aux_clear(options);
  memset(options, 0, sizeof *options);
}
