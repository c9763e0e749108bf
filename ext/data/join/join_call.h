/* SPDX-License-Identifier: MIT
**
** join_call.h -- private to join/: a joiner in memory, and one call of it.
*/
#ifndef EMB_EXT_JOIN_CALL_H
#define EMB_EXT_JOIN_CALL_H

#include "engine/base/debug.h"
#include "join.h"

/* ---- value.c: ids and features ------------------------------------------- */

/* The most bytes of an id. */
#define JOIN_ID_MAX 1024

/* An SQL value that is read in place, not copied. */
struct join_value {
  int type;       /* SQLITE_INTEGER ... */
  const void *at; /* of a TEXT or BLOB; NULL: `bits` */
  size_t n;
  uint64_t bits; /* an INTEGER's or a REAL's */
};

static inline const void *join_bytes(const struct join_value *value) {
  return value->at ? value->at : &value->bits;
}

int ext_join_column(sqlite3_stmt *row, int i, struct join_value *value);
int ext_join_bind(sqlite3_stmt *statement, int i,
                  const struct join_value *value);
uint64_t ext_join_hash(const struct join_value *id);

/* ---- filter.c: sets of hashes -------------------------------------------- */

/* A Bloom filter in words of 64 bits: each hash sets four bits of one word. */
struct join_filter {
  uint64_t *words; /* NULL: may have anything */
  size_t n;
};

size_t ext_join_filter_words(size_t hashes);
int ext_join_filter_new(struct join_filter *filter, size_t words);
void ext_join_filter_free(struct join_filter *filter);
void ext_join_filter_add(struct join_filter *filter, uint64_t hash);
int ext_join_filter_may_have(const struct join_filter *filter, uint64_t hash);

/* ---- memory.c: the newest requests --------------------------------------- */

/* A request in memory; multiples of 8 bytes. */
struct join_record {
  int64_t n, time;
  uint64_t hash;
  uint32_t id_n, features_n;
  uint8_t id_type, features_type;
  uint8_t whole; /* else the features are in the table only */
  char data[];   /* id, then features */
};

struct join_half {
  uint64_t *slots; /* as in dict/cache.c: a part of the hash, and the place */
  size_t slots_n, slots_most, records;
  char *arena;
  size_t used, room;
};

/* Sizes an empty half. */
void ext_join_half_limit(struct join_half *half, size_t bytes);
/* *added = 0: the half is full. */
int ext_join_half_add(struct join_half *half, const struct join_value *id,
                      const struct join_value *features,
                      const struct join_record *head, int *added);
/* NULL: there is no such request newer than `forgotten`. */
const struct join_record *ext_join_half_find(const struct join_half *half,
                                             const struct join_value *id,
                                             uint64_t hash, int64_t forgotten);
/* Start with *place = 0; NULL: no more records. */
const struct join_record *ext_join_half_next(const struct join_half *half,
                                             size_t *place);
void ext_join_half_free(struct join_half *half);
struct join_value ext_join_record_features(const struct join_record *record);
/* Only in self-checking builds [join_valid.c]. */
int ext_join_half_valid(const struct join_half *half);

/* ---- a joiner ------------------------------------------------------------ */

/* Columns of the one row of `counts` (schema.c), in its order. */
enum join_number {
  JOIN_STAMP,
  JOIN_NEXT_REQUEST, /* number of the next request */
  JOIN_NEXT_EXAMPLE,
  JOIN_NEXT_RUN,
  JOIN_SPILLED_TO, /* requests up to it are in runs, */
  JOIN_SWEPT,      /* those with a time up to it do not wait, */
  JOIN_FORGOTTEN,  /* and those with a time up to it are removed */
  JOIN_WATERMARK,
  JOIN_REQUESTS,
  JOIN_WAITING,
  JOIN_DUPLICATE,
  JOIN_OLD,
  JOIN_ACTIONS,
  JOIN_JOINED,
  JOIN_REPEATED,
  JOIN_OUTSIDE,
  JOIN_OTHER,
  JOIN_EARLY,
  JOIN_UNMATCHED,
  JOIN_LATE,
  JOIN_CORRECTED,
  JOIN_NEGATIVES,
  JOIN_DROPPED,
  JOIN_PENDING,
  JOIN_RESENT,
  JOIN_SPILLED,
  JOIN_NUMBERS
};

enum join_state {
  JOIN_IS_WAITING,
  JOIN_IS_JOINED,
  JOIN_IS_NEGATIVE,
  JOIN_IS_DROPPED
};

/* Requests whose states share one row; two rows fill a page. */
#define JOIN_CHUNK 8000
#define JOIN_CHUNK_BYTES (JOIN_CHUNK / 4)

struct join_chunk {
  int changed;
  uint8_t states[JOIN_CHUNK_BYTES];
};

struct join_run {
  int64_t run, newest; /* time */
  struct join_filter filter;
};

struct ext_joiner {
  char *name, *schema, *table; /* as given, and its two parts */
  struct ext_joiner *next;
  int in_use;  /* in use by a call */
  int current; /* the fields below match the tables at the stamp */
  int64_t numbers[JOIN_NUMBERS];

  size_t memory; /* the option that sized these */
  struct join_half young, old;
  struct join_run *runs; /* oldest first */
  size_t runs_n, runs_room;
  size_t filter_words; /* of all runs */

  struct join_chunk **chunks; /* from chunk number `chunks_first` on; or NULL */
  int64_t chunks_first;
  size_t chunks_n, chunks_loaded;

  struct join_filter early; /* the hashes in the table `actions` */
  size_t early_n;           /* and how many it has */
};

/* The joiners of a connection. */
struct ext_joiners {
  struct ext_joiner *first;
};

/* Only in self-checking builds [join_valid.c].  Outside a call, a joiner that
** is current has nothing left to write, and one that is not is empty. */
int ext_joiner_valid(const struct ext_joiner *joiner);

/* ---- a call -------------------------------------------------------------- */

struct join_options {
  double share;
  int64_t seed, delay, remember, early, memory;
  int highest; /* label = 'highest', else 'first' */
  int correct; /* late = 'correct', else 'drop' */
};

struct join_kind {
  char *name;
  size_t n;
  int64_t window;
  double label;
};

/* SQL of a call, prepared when it is first needed (statement.c). */
enum join_statement {
  JOIN_ADD_REQUEST,
  JOIN_ROW,
  JOIN_FEATURES,
  JOIN_SINCE,
  JOIN_DUE,
  JOIN_ADD_EXAMPLE,
  JOIN_CHUNK_READ,
  JOIN_CHUNK_WRITE,
  JOIN_PLACE,
  JOIN_ADD_PLACE,
  JOIN_ADD_RUN,
  JOIN_ADD_ACTION,
  JOIN_ACTIONS_OF,
  JOIN_REMOVE_ACTIONS,
  JOIN_BEST,
  JOIN_SET_BEST,
  JOIN_REMOVE_BEST,
  JOIN_REMOVE_REQUESTS,
  JOIN_FIRST_REQUEST,
  JOIN_REMOVE_CHUNKS,
  JOIN_REMOVE_PLACES,
  JOIN_REMOVE_RUN,
  JOIN_EXPIRE_ACTIONS,
  JOIN_STATEMENTS
};

struct join_call {
  sqlite3 *db;
  struct ext_joiner *joiner;
  struct join_options options;
  struct join_kind *kinds;
  size_t kinds_n;
  int64_t window;   /* the longest of a kind */
  double label_max; /* the highest */

  const char *source;
  int64_t position, begun; /* of the last row, and at the start */
  int timed;               /* the source has a time: */
  int64_t time;            /* the newest */
  int others_timed;        /* all others have one: */
  int64_t others;          /* their least; INT64_MAX if there are none */

  sqlite3_stmt *statements[JOIN_STATEMENTS];
  char **err;
};

/* A request that was found. */
struct join_found {
  int64_t n, time;
  const struct join_record *record; /* NULL: it is in the tables only */
};

/* Only in self-checking builds [join_valid.c].  For a call that has read its
** options, kinds and source. */
int ext_join_call_valid(const struct join_call *call);

static inline int64_t *join_number(struct join_call *call, int i) {
  return &call->joiner->numbers[i];
}

/* Adds a span to a time, saturating.  The times that events may have and the
** spans that CHECK allows never overflow, but others may have created the
** table. */
static inline int64_t join_sum(int64_t time, int64_t span) {
  int64_t sum;
  if (__builtin_add_overflow(time, span, &sum))
    sum = span < 0 ? INT64_MIN : INT64_MAX;
  return sum;
}

/* INT64_MIN: no watermark yet. */
static inline int64_t join_watermark(const struct join_call *call) {
  int64_t least = call->time < call->others ? call->time : call->others;
  return call->timed && call->others_timed
             ? join_sum(least, -call->options.delay)
             : INT64_MIN;
}

/* Has the watermark reached the time plus `after`? */
static inline int join_is_over(const struct join_call *call, int64_t time,
                               int64_t after) {
  return join_sum(time, after) <= join_watermark(call);
}

/* Requests with a time up to this are treated as if they had never existed. */
static inline int64_t join_forgotten(const struct join_call *call) {
  return join_sum(join_sum(join_watermark(call), -call->window),
                  -call->options.remember);
}

/* ---- statement.c --------------------------------------------------------- */

/* SQL with $name for a table of the joiner and @name for it without schema. */
char *ext_join_sql(const struct ext_joiner *joiner, const char *text);
int ext_join_exec(sqlite3 *db, const struct ext_joiner *joiner,
                  const char *text, char **err);
int ext_join_prepare(sqlite3 *db, const struct ext_joiner *joiner,
                     const char *text, sqlite3_stmt **statement, char **err);
int ext_join_statement(struct join_call *call, enum join_statement which,
                       sqlite3_stmt **statement);
/* *row is 1 if there is a row. */
int ext_join_step(struct join_call *call, sqlite3_stmt *statement, int *row);
/* Runs a statement that returns no rows. */
int ext_join_do(struct join_call *call, sqlite3_stmt *statement);
void ext_join_finalize(struct join_call *call);

/* ---- schema.c ------------------------------------------------------------ */

extern const char *const ext_join_numbers[JOIN_NUMBERS];
/* Splits a joiner's name into its two parts; free them with ext_join_unname. */
int ext_join_name(struct ext_joiner *joiner, sqlite3_value *name, char **err);
void ext_join_unname(struct ext_joiner *joiner);

/* ---- states.c, find.c, spill.c, load.c ----------------------------------- */

int ext_join_state(struct join_call *call, int64_t n, enum join_state *state);
int ext_join_set_state(struct join_call *call, int64_t n,
                       enum join_state state);
/* Writes the chunks that have changed. */
int ext_join_save_states(struct join_call *call);
void ext_join_free_states(struct ext_joiner *joiner);

/* found->n is 0 where the id is unknown. */
int ext_join_find(struct join_call *call, const struct join_value *id,
                  uint64_t hash, struct join_found *found);

/* Adds a request to memory, whose older half may become a run. */
int ext_join_remember(struct join_call *call, const struct join_record *head,
                      const struct join_value *id,
                      const struct join_value *features);
int ext_join_runs_add(struct ext_joiner *joiner, int64_t run, int64_t newest,
                      struct join_filter *filter);
void ext_join_run_remove(struct ext_joiner *joiner, size_t i);

/* Reloads memory from the tables. */
int ext_join_load(struct join_call *call);
int ext_join_load_early(struct join_call *call);
void ext_join_forget(struct ext_joiner *joiner);

/* ---- settle.c, event.c --------------------------------------------------- */

/* Gives a positive example, from the action's kind. */
int ext_join_give_positive(struct join_call *call,
                           const struct join_found *found,
                           const struct join_value *id, const char *kind,
                           double label);
/* Takes back the negative example that was given. */
int ext_join_take_back(struct join_call *call, const struct join_found *found,
                       const struct join_value *id);
/* Settles a waiting request whose window is over.  row: NULL, or the features
** are in its last column. */
int ext_join_settle(struct join_call *call, const struct join_found *found,
                    const struct join_value *id, sqlite3_stmt *row);
/* Settles the requests due since the last call, and removes those too old. */
int ext_join_sweep(struct join_call *call);

/* One row: position, request, time, kind, features. */
int ext_join_event(struct join_call *call, sqlite3_stmt *row);

#endif
