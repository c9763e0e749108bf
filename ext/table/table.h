/* SPDX-License-Identifier: MIT
**
** table.h -- ext/table/: the virtual table `emb`.
**
** ROLE      The sqlite3_module: declaration of a table, scans, writes, the
**           table's part in SQLite's transaction, commands.  Used by fn/,
**           backup/ and tvf/, which look up a table by name (named.c).
** OBJECTS   table   one sqlite3_vtab.  Has its names and options; finds its
**                   link on first use (open.c), so that a table whose store is
**                   missing can still be dropped.
**           cursor  one scan (table_cursor.h).
** STATES    A table object: connected -> open (ext_table_open) -> in SQLite's
**           transaction and back (state table in txn.c) -> disconnected.  If a
**           function holds it (conn/call.c), it is freed when the call ends.
** TABLES    EXT_HIDDEN has a row per hidden column, options.c a row per option:
**           declaration, reserved names, parsing, checks and messages are
**           derived from these rows.
** INVARIANTS  A table in SQLite's transaction has a link.  An open cursor of a
**           scan is counted in its link.
** THREADS   See conn.h.
*/
#ifndef EMB_EXT_TABLE_H
#define EMB_EXT_TABLE_H

#include "engine/storage/pack/emb_file.h"
#include "ext/conn/conn.h"

/* ---- columns.c: the columns of a table ----------------------------------- */

/* What xBestIndex passes to xFilter.  idxStr has one letter per argument:
**   '=' key = ?     'i' key IN (...)     '<' 'l' '>' 'g' key < <= > >= ?
**                   for an integer key, or for the rowid
**   't' key = ?     'T' key IN (...)     for a text key
**   'k' keys = ?    'm' mode = ?         'o' OFFSET ?     's' snapshot = ?
** in a search for neighbours, after a readable description and a colon,
**   'v' vector MATCH ?    'n' k = ?      'p' probes = ?
**   'r' recall = ?
**   'a' 'b' 'c' 'd' 'e'   distance < <= > >= = ?
**   'L' LIMIT ?           'O' OFFSET ?   which SQLite still applies itself
** and in both
**   'B' a condition on an auxiliary column    'I' the same with IN (...)
** For each of these, a semicolon, the column's number and the comparison follow
** the letters (aux_where.c).
** idxNum is a sum of the following. */
enum {
  EXT_PLAN_ASC = EMB_SCAN_ASC,
  EXT_PLAN_DESC = EMB_SCAN_DESC,
  EXT_PLAN_ORDER = 3, /* mask of the two above */
  EXT_PLAN_VECTORS = 4,
  EXT_PLAN_VERSIONS = 8,
  EXT_PLAN_FOUND = 16,
  EXT_PLAN_LAZY = 32, /* an UPDATE: read vectors on demand, by chunk */
  EXT_PLAN_BATCH_VERSIONS = 64,
  EXT_PLAN_TRACKS = 128,   /* frequency, updated_at */
  EXT_PLAN_NEAREST = 256,  /* vector MATCH ? */
  EXT_PLAN_ENDLESS = 512,  /* MATCH with no limit on the rows: an error */
  EXT_PLAN_SEGMENT = 1024, /* multiplied by the vector column's number */
};

/* What a hidden column may be used for. */
enum {
  EXT_ONCE = 1,             /* at most once as an argument of a scan */
  EXT_GENERATED = 2,        /* describes a row and cannot be written */
  EXT_INSERT = 4,           /* may be given in INSERT ... */
  EXT_UPDATE = 8,           /* ... and be set by UPDATE */
  EXT_INSERT_GRADIENT = 16, /* only together with a gradient */
  EXT_UPDATE_GRADIENT = 32,
  EXT_YIELDS = 64, /* yields to a user's column of that name in an older table,
                      and is called emb_... there */
};

/* The hidden columns, one per row:
**   X(id, name, declared type, letter in the plan if `column = ?` is an
**     argument of a scan, what the scan must read for it, what it may be used
**     for)
** The order is that of the table's arguments when called as a function, and
** programs may refer to the columns by number: new columns go last.
** ext_cursor_column returns their values. */
#define EXT_HIDDEN(X)                                                          \
  X(KEYS, "keys", "", 'k', 0, EXT_ONCE | EXT_INSERT)                           \
  X(MODE, "mode", "", 'm', 0, 0)                                               \
  X(VECTORS, "vectors", "", 0, EXT_PLAN_VECTORS,                               \
    EXT_INSERT | EXT_UPDATE | EXT_UPDATE_GRADIENT)                             \
  X(FOUND, "found", "", 0, EXT_PLAN_FOUND, EXT_GENERATED)                      \
  X(VERSIONS, "versions", "", 0, EXT_PLAN_BATCH_VERSIONS, EXT_GENERATED)       \
  X(VERSION, "version", "INTEGER", 0, EXT_PLAN_VERSIONS, EXT_GENERATED)        \
  X(CLOCK, "clock", "INTEGER", 0, 0, EXT_GENERATED)                            \
  X(COMMAND, NULL, "", 0, EXT_PLAN_LAZY,                                       \
    EXT_INSERT) /* named like the table */                                     \
  X(ARG, "arg", "", 0, 0, 0)                                                   \
  X(GRADIENT, "gradient", "", 0, 0, EXT_INSERT | EXT_UPDATE)                   \
  X(GRADIENTS, "gradients", "", 0, 0, EXT_INSERT)                              \
  X(LR, "lr", "", 0, 0,                                                        \
    EXT_INSERT | EXT_UPDATE | EXT_INSERT_GRADIENT | EXT_UPDATE_GRADIENT)       \
  X(STEP, "step", "", 0, 0,                                                    \
    EXT_INSERT | EXT_UPDATE | EXT_INSERT_GRADIENT | EXT_UPDATE_GRADIENT)       \
  X(FREQUENCY, "frequency", "INTEGER", 0, EXT_PLAN_TRACKS, EXT_GENERATED)      \
  X(UPDATED_AT, "updated_at", "INTEGER", 0, EXT_PLAN_TRACKS,                   \
    EXT_INSERT | EXT_UPDATE)                                                   \
  X(SNAPSHOT, "snapshot", "", 's', 0, EXT_ONCE)                                \
  X(DISTANCE, "distance", "REAL", 0, 0, EXT_GENERATED | EXT_YIELDS)            \
  X(K, "k", "INTEGER", 'n', 0, EXT_YIELDS)                                     \
  X(PROBES, "probes", "INTEGER", 'p', 0, EXT_YIELDS)                           \
  X(RECALL, "recall", "REAL", 'r', 0, EXT_YIELDS)

/* All columns as declared to SQLite: EXT_KEY, EXT_VECTOR, the hidden columns
** EXT_KEYS ..., from EXT_MORE on the second and further vectors, then the
** auxiliary columns, then the number of a text key (number_column). */
#define EXT_ID(id, name, type, argument, reads, rules) EXT_##id,
enum { EXT_KEY = 0, EXT_VECTOR, EXT_HIDDEN(EXT_ID) EXT_MORE };
#undef EXT_ID
enum { EXT_FIRST_HIDDEN = EXT_VECTOR + 1, EXT_NO_COLUMN = -2 };

struct ext_column {
  const char *name; /* NULL: the table's name */
  const char *type;
  char argument;
  int reads; /* EXT_PLAN_* */
  int rules;
};

/* The description of a hidden column, EXT_FIRST_HIDDEN <= column < EXT_MORE. */
const struct ext_column *ext_column(int column);
static inline int ext_column_is_hidden(int column) {
  return column >= EXT_FIRST_HIDDEN && column < EXT_MORE;
}
/* The column's bit in a set of hidden columns. */
static inline int ext_column_bit(int column) {
  return 1 << (column - EXT_FIRST_HIDDEN);
}

/* ---- options.c: the options of a table ----------------------------------- */

/* How a column's values are compared (SQLite's datatype3.html). */
enum ext_affinity { EXT_AFFINITY_NONE, EXT_AFFINITY_TEXT, EXT_AFFINITY_NUMBER };

/* An auxiliary column (aux_columns.h). */
struct ext_aux_column {
  char *name, *type; /* the type may be empty */
  enum ext_affinity affinity;
  int indexed;
};

struct ext_options {
  char *key;                       /* name of the key column */
  int text_key;                    /* the key is TEXT, not INTEGER */
  char *vectors[EMB_SEGMENTS_MAX]; /* names of the vector columns */
  struct ext_aux_column *aux;
  int aux_count;
  int engine_commit;   /* commit='engine' */
  char *hidden_prefix; /* of the hidden columns' names; NULL: none */
  emb_config config;   /* all but patience and flags that depend on the opening;
                          dim is that of a row, segments points to the next */
  emb_segment segments[EMB_SEGMENTS_MAX];
  int optimized; /* some vector has an optimizer */
};

/* Is this the name of a hidden column that no other column may have? */
int ext_column_is_reserved(const struct ext_options *options, const char *name);
/* What the names of the hidden columns begin with, except the command's. */
static inline const char *ext_column_prefix(const struct ext_options *options) {
  return options->hidden_prefix ? options->hidden_prefix : "";
}

/* The number of vector columns. */
static inline uint32_t ext_vectors(const struct ext_options *options) {
  return options->config.segment_count;
}
/* The number of a vector column, from 0; negative if it is not a vector. */
static inline int ext_vector_of(const struct ext_options *options, int column) {
  int i = column == EXT_VECTOR ? 0 : column - EXT_MORE + 1;
  return column == EXT_VECTOR ||
                 (column >= EXT_MORE && (uint32_t)i < ext_vectors(options))
             ? i
             : -1;
}
static inline int ext_vector_column(uint32_t i) {
  return i == 0 ? EXT_VECTOR : EXT_MORE + (int)i - 1;
}
/* The index in a row of the vector's first element. */
uint32_t ext_vector_first(const struct ext_options *options, uint32_t i);

enum ext_kind { EXT_NUMBER, EXT_SIZE, EXT_CHOICE, EXT_SWITCH, EXT_TEXT };
/* May 'set name' change the option, and when does the change take effect? */
enum ext_changeable { EXT_FIXED, EXT_AT_COMMIT, EXT_AT_OPEN };

/* An option; options.c has the table of options.  The value is a field of
** struct ext_options, `width` bytes at offset `at`; width 0: only the flag. */
struct ext_option {
  const char *name;
  enum ext_kind kind;
  enum ext_changeable change;
  size_t at, width;
  size_t in_column; /* for a text that a vector column may override: its
                       offset in emb_segment; else 0 */
  /* Of a text: returns EMB_OK, or sets why the text is not valid. */
  int (*check)(const char *text, emb_err *why);
  uint64_t least, most; /* of a number; a choice's first word is `least` */
  const char *words[4]; /* of a choice; for a number, the word for "none" */
  uint64_t none;        /* the value for that word */
  uint32_t flag;        /* of config.flags: set if a number is given, or for the
                           second word of a choice */
  const char *unit;     /* printed before a number's range */
  const char *legal;    /* the legal values, if not implied by the above */
  const char *initial; /* the default as a user would write it; "": it varies */
  const char *unset;   /* what 'set name', NULL sets if CREATE does not name the
                          option, because the store remembers its setting;
                          NULL: it does not */
  const char *note;    /* added to the error about a fixed option, or NULL */
  const char *help;
};

enum { EXT_OPTIONS_MAX = 32, EXT_LEGAL_MAX = 120 };

/* Option number i; NULL past the last. */
const struct ext_option *ext_option_at(size_t i);
/* The option of this name, in any case; NULL if there is none. */
const struct ext_option *ext_option_find(const char *name);
/* SQLITE_ERROR: no such option; the message suggests a similar name. */
int ext_option_unknown(const char *name, char **err);
/* The legal values in words. */
const char *ext_option_legal(const struct ext_option *option,
                             char legal[EXT_LEGAL_MAX]);
/* Sets the option.  A text is copied, and must not have been set before. */
int ext_option_set(struct ext_options *options, const struct ext_option *option,
                   const char *value, char **err);
/* Does CREATE name the option?  Only for options with `unset`. */
int ext_option_is_set(const struct ext_options *options,
                      const struct ext_option *option);
/* The address of a text option's value. */
char **ext_option_text(struct ext_options *options,
                       const struct ext_option *option);
char **ext_option_column_text(emb_segment *segment,
                              const struct ext_option *option);
/* SQLITE_ERROR: not a valid text for the table (column NULL) or for a
** column. */
int ext_option_check(const struct ext_option *option, const char *column,
                     const char *value, char **err);
/* SQLITE_ERROR: options contradict each other. */
int ext_options_check(const struct ext_options *options, char **err);
void ext_options_init(struct ext_options *options);
void ext_options_clear(struct ext_options *options);

/* Only in self-checking builds (table_valid.c). */
int ext_options_valid(const struct ext_options *options);

/* ---- arguments.c: the arguments of USING emb(...) ------------------------ */

/* argv as xCreate gets it; the arguments start at argv[3].  The caller must
** call ext_options_clear, even after an error. */
int ext_arguments_parse(struct ext_options *options, int argc,
                        const char *const *argv, char **err);

/* ---- the object ---------------------------------------------------------- */

struct ext_vtab {
  struct ext_table table; /* must be first */
  struct ext_options options;
  char *key_what; /* "items.key" and "items.vector", for errors */
  char *vector_what[EMB_SEGMENTS_MAX];
  int number_column; /* shows the number of a text key, or EXT_NO_COLUMN */
  struct ext_cursor *spare; /* a closed cursor, or NULL (cursor.c) */
  uint64_t shown_plans;     /* searches for neighbours whose vectors were asked
                               for, a bit each (nearest.c) */
  int update_reads; /* hidden columns that the last UPDATE has read, a bit each
                       (change_parse.c) */
  struct ext_aux *aux;       /* statements for the auxiliary columns, or NULL */
  struct ext_aux_sets *sets; /* cached sets for conditions on them, or NULL */
};

/* A table object between two calls.  Only in self-checking builds. */
int ext_table_valid(const struct ext_table *table);

/* The table object that contains `table`. */
static inline struct ext_vtab *ext_vtab(const struct ext_table *table) {
  return (struct ext_vtab *)table;
}

/* ---- settings.c: options changed after CREATE ---------------------------- */

/* Suffix of the shadow table with the changed options. */
#define EXT_SETTINGS "emboptions"

/* A table's current options. */
struct ext_settings {
  struct ext_options options;            /* its texts belong to the table, */
  char *texts[EXT_OPTIONS_MAX];          /* or are these, by option number, */
  emb_segment columns[EMB_SEGMENTS_MAX]; /* or these for vector columns */
};

/* The option that a row of that table sets. */
struct ext_setting {
  const struct ext_option *option; /* NULL: no such option */
  int column; /* the number of the vector, or -1: the table */
};
/* Parses "index" or "title.index". */
struct ext_setting ext_setting_find(const struct ext_options *options,
                                    const char *name);
/* The inverse, for sqlite3_free; NULL if memory runs out. */
char *ext_setting_name(const struct ext_options *options,
                       const struct ext_setting *setting);
/* *there: does the shadow table exist? */
int ext_settings_find_table(struct ext_table *table, int *there, char **err);

/* Start from CREATE's options; apply one value; apply all stored values. */
void ext_settings_begin(struct ext_table *table, struct ext_settings *settings);
int ext_settings_take(struct ext_settings *settings,
                      const struct ext_setting *setting, const char *value,
                      char **err);
int ext_settings_take_rows(struct ext_table *table,
                           struct ext_settings *settings, char **err);
/* The options of CREATE, the stored values and the environment; for a new table
** without stored values.  Call ext_settings_free even after an error. */
int ext_settings_read(struct ext_table *table, struct ext_settings *settings,
                      char **err);
int ext_settings_create(struct ext_table *table, struct ext_settings *settings,
                        char **err);
/* ext_settings_read for opening the store; also checks the memory option. */
int ext_settings_open(struct ext_table *table, struct ext_settings *settings,
                      char **err);
void ext_settings_free(struct ext_settings *settings);
/* The stored values as a JSON object; NULL if there are none. */
int ext_settings_json(struct ext_table *table, char **json, char **err);
/* Empty, rename and drop the shadow table along with the table.  CREATE empties
** a leftover one, because SQLite does not allow a DROP at that point. */
int ext_settings_empty(struct ext_table *table, char **err);
int ext_settings_rename(struct ext_table *table, const char *name, char **err);
int ext_settings_drop(struct ext_table *table, char **err);

/* ---- set.c: commands that change options --------------------------------- */

/* The commands 'memory' and 'set name'; the link must be open. */
int ext_settings_memory(struct ext_table *table, sqlite3_value *arg,
                        char **err);
int ext_settings_set(struct ext_table *table, const char *name,
                     sqlite3_value *arg, char **err);
/* SQLITE_ERROR if CREATE gave less than half of the memory that the store
** needs; a little less, such as 4MB for 4 MiB, is raised to it. */
int ext_settings_created(struct ext_table *table, char **err);
/* Called from xSync and xCommit if settings_pending. */
int ext_settings_sync(struct ext_table *table, char **err);
void ext_settings_commit(struct ext_link *link);

/* ---- open.c, create.c ---------------------------------------------------- */

/* Call before a statement or function uses keys: brings the dictionary of texts
** up to date with the database.  ext_table_named does so for functions. */
int ext_keys_begin(struct ext_table *table, char **err);

/* Sets table->link, opening the store if this connection has not done so. */
int ext_table_open(struct ext_table *table, char **err);
/* The process that holds the lock of the table's store, which need not be open;
** 0: no other process, or it cannot be determined. */
int ext_table_owner(struct ext_table *table, int64_t *process, char **err);
/* ext_link_add, with the link's fields set from the options. */
int ext_table_link(struct ext_table *table, emb_store *store, const char *path,
                   char **err);
/* Creates the store of a new table and the shadow table with its row, and links
** the table to the store. */
int ext_table_create(struct ext_table *table, char **err);

/* ---- txn.c --------------------------------------------------------------- */

/* Call before reading.  Afterwards the link is open, and no transaction is in
** doubt that the database can decide now. */
int ext_txn_read(struct ext_table *table, char **err);
/* Call before each transactional write. */
int ext_txn_write(struct ext_table *table, char **err);
/* Call before a write that takes effect at once.  It also fails if database and
** store are at different transactions; this is checked once per link, because
** the files are not replaced while they are open. */
int ext_txn_immediate(struct ext_table *table, char **err);
/* Call after an engine call that needs a store with nothing in doubt, with its
** return code in *rc:
**
**     do
**       rc = emb_delta_ack(...);
**     while (ext_txn_again(table, &attempts, &rc, &err));
**
** 1: retry the call: it found a transaction in doubt, now decided.  This
** happens if the table has changed owners since ext_txn_immediate.  0: *rc is
** an SQLite code.  attempts starts at 0. */
int ext_txn_again(struct ext_table *table, int *attempts, int *rc, char **err);
/* The last transaction of the database's row and of the store.  agree is also 1
** if they differ only because another connection is committing, or because this
** one reads an older state and the newest row cannot be read. */
struct ext_txn_numbers {
  sqlite3_int64 row, store;
  int agree;
};
int ext_txn_compare(struct ext_table *table, struct ext_txn_numbers *numbers,
                    char **err);
/* 'adopt': records the store's transaction number in the database. */
int ext_txn_adopt(struct ext_table *table, char **err);
/* The table object enters SQLite's transaction.  CREATE calls it, because
** SQLite does not call xBegin after it. */
void ext_txn_enter(struct ext_table *table);
/* The table object leaves SQLite's transaction, because the transaction has
** ended or the object goes away. */
void ext_txn_leave(struct ext_table *table);
int ext_txn_begin(sqlite3_vtab *vtab);
int ext_txn_sync(sqlite3_vtab *vtab);
int ext_txn_commit(sqlite3_vtab *vtab);
int ext_txn_rollback(sqlite3_vtab *vtab);
int ext_txn_savepoint(sqlite3_vtab *vtab, int i);
int ext_txn_release(sqlite3_vtab *vtab, int i);
int ext_txn_rollback_to(sqlite3_vtab *vtab, int i);
/* The innermost savepoint open in the link, -1 if none. */
int ext_txn_level(const struct ext_link *link);
/* Rolls back a transaction that has written nothing, e.g. before a DROP. */
void ext_txn_abandon(struct ext_link *link);

/* ---- scans: plan.c, filter.c, nearest.c, cursor.c ------------------------ */

int ext_plan_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info);

/* Call when the table object goes away. */
void ext_cursor_free_spare(struct ext_table *table);
int ext_cursor_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **cursor);
int ext_cursor_close(sqlite3_vtab_cursor *cursor);
int ext_cursor_filter(sqlite3_vtab_cursor *cursor, int flags, const char *plan,
                      int argc, sqlite3_value **argv);
int ext_cursor_next(sqlite3_vtab_cursor *cursor);
int ext_cursor_eof(sqlite3_vtab_cursor *cursor);
int ext_cursor_column(sqlite3_vtab_cursor *cursor, sqlite3_context *context,
                      int column);
int ext_cursor_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *rowid);

/* ---- writes: change_parse.c, gradient.c, update.c ------------------------ */

/* Reads the time of a write; *time is 0 for NULL or SQL NULL. */
int ext_update_time_read(struct ext_table *table, sqlite3_value *value,
                         uint32_t *time, char **err);
/* Sets the time of the session's writes until ext_update_time_end; NULL or SQL
** NULL: the table's clock. */
int ext_update_time(struct ext_table *table, sqlite3_value *time, char **err);
void ext_update_time_end(struct ext_table *table);
/* Learning rate and step of an update; NULL or SQL NULL: not given. */
int ext_update_how(sqlite3_value *lr, sqlite3_value *step, emb_update *how,
                   char **err);
int ext_update(sqlite3_vtab *vtab, int argc, sqlite3_value **argv,
               sqlite3_int64 *rowid);

/* ---- keys.c -------------------------------------------------------------- */

/* A list of keys, or one key, passed by SQL.  A table with text keys maps texts
** to numbers (dict/dict.h); an absent text has 0, which no row has. */
struct ext_keys {
  int64_t *at;
  size_t n;
  int owned;              /* `at` is allocated */
  size_t absent;          /* number of texts without a number */
  struct ext_texts texts; /* n of them if the keys are texts */
  int64_t removals;       /* dictionary's count when they were looked up */
  int rowless;            /* some may have no row, or were just added */
  int peeks, settles;     /* set by ext_keys_look */
  int64_t one;            /* storage for a single key, */
  struct ext_text one_text;
};

/* Reads a list, or one key.  Call ext_keys_free even after an error.  `keys`
** must be all zeros before, and must not move. */
int ext_keys_read(struct ext_table *table, sqlite3_value *value,
                  const char *what, struct ext_keys *keys, char **err);
int ext_key_read(struct ext_table *table, sqlite3_value *value,
                 struct ext_keys *key, char **err);
/* The two steps of ext_keys_read; only the second runs SQL. */
int ext_keys_parse(struct ext_table *table, sqlite3_value *value,
                   const char *what, struct ext_keys *keys, char **err);
int ext_keys_find(struct ext_table *table, struct ext_keys *keys, char **err);
void ext_keys_free(struct ext_keys *keys);
/* Call _add before writing rows with the keys in SQLite's transaction, _add_now
** before writing them at once, and _settle after the latter.  The first two
** leave no text absent. */
int ext_keys_add(struct ext_table *table, struct ext_keys *keys, char **err);
int ext_keys_add_now(struct ext_table *table, struct ext_keys *keys,
                     char **err);
int ext_keys_settle(struct ext_table *table, struct ext_keys *keys, char **err);
/* Adds and commits the absent texts, without requiring that the others are
** committed; ext_keys_locked is the error if that is not possible. */
int ext_keys_commit(struct ext_table *table, struct ext_keys *keys, char **err);
int ext_keys_locked(const struct ext_table *table, char **err);
/* Does a gradient for a key without a row create one? */
int ext_keys_grow(const struct ext_table *table);
/* Returns a key of the store as a result: the number, or its text, NULL if it
** has none. */
void ext_key_result(sqlite3_context *context, struct ext_link *link,
                    int64_t key);
/* The keys' texts as a JSON array, for sqlite3_free; keys without a text are
** left out. */
int ext_keys_json(struct ext_link *link, const int64_t *keys, size_t n,
                  char **json, char **err);
/* Removes texts without rows, unless a snapshot or consumer may name them. */
int ext_keys_clean(struct ext_table *table, char **err);
/* Appends a line to report if rows have no text. */
int ext_keys_verify(struct ext_table *table, sqlite3_str *report, char **err);

/* The connection that can commit texts now: *other, which the caller closes, or
** if NULL the user's. */
int ext_keys_writer(struct ext_table *table, sqlite3 **other, char **err);
/* Opens a second connection to the file; it waits for locks as the table
** does. */
int ext_keys_connect(struct ext_table *table, sqlite3 **other, char **err);
/* Closes it unless NULL; returns rc, or SQLITE_INTERRUPT if an interrupt ended
** its wait. */
int ext_keys_disconnect(struct ext_table *table, sqlite3 *other, int rc,
                        char **err);
/* Callback of struct ext_dict_rows; arg is the link. */
int ext_keys_exist(void *link, const int64_t *ids, size_t n, uint8_t *are,
                   char **err);

/* ---- appear.c ------------------------------------------------------------ */

/* Does a lookup of a missing key make it a row (insert_on='lookup')? */
int ext_inserts_on_lookup(const struct ext_table *table);
/* Does looking up a text key create its row? */
int ext_keys_appear(const struct ext_table *table);
/* Does a lookup by this connection create rows, for any kind of key? */
int ext_keys_come(const struct ext_table *table);
/* Call before a Get that creates rows.  Afterwards either no text is absent, or
** `peeks` is set and the Get must be an emb_peek.  With `settles`, call
** ext_keys_settle after the Get. */
int ext_keys_look(struct ext_table *table, struct ext_keys *keys, char **err);

/* ---- keys_file.c --------------------------------------------------------- */

/* The keys of a file of rows that a table is about to import. */
struct ext_file_keys {
  emb_file_keys keys;        /* of its rows */
  const emb_file_keys *give; /* for the engine; NULL: integer keys */
  sqlite3 *other;            /* connection that adds texts; NULL: the user's */
  struct ext_dict_held held; /* prevents removal of the texts */
};
/* For a table with text keys, checks the file and commits its texts to the
** dictionary, where they stay until ext_file_keys_end, which must be called
** even after an error.  *file must be all zeros before. */
int ext_file_keys_begin(struct ext_table *table, const char *path,
                        struct ext_file_keys *file, char **err);
void ext_file_keys_end(struct ext_file_keys *file);
/* For export: the name, for sqlite3_free, of a temporary file next to path that
** holds the rows with their numbers. */
char *ext_file_rows_name(const char *path);
/* Removes that file and writes one with the texts, complete but not yet at
** path: call emb_file_finish or emb_file_abandon. */
int ext_file_add_texts(struct ext_table *table, const char *rows,
                       const char *path, const char *options,
                       emb_file_writer **writer, char **err);

/* ---- command.c ----------------------------------------------------------- */

int ext_command(struct ext_table *table, sqlite3_value *command,
                sqlite3_value *arg, char **err);
/* Appends a line to report for each problem of the table; quick skips checks
** that must read the disk. */
int ext_command_verify(struct ext_table *table, int quick, sqlite3_str *report,
                       char **err);

/* ---- vtab.c -------------------------------------------------------------- */

const sqlite3_module *ext_vtab_module(void);

/* ---- named.c ------------------------------------------------------------- */

/* Finds the table of this name and holds it. */
int ext_table_find(struct ext_conn *conn, const char *text,
                   struct ext_table **table, char **err);
/* As above, and prepares the table for reading, or for writes that take effect
** at once: SQLITE_READONLY, or an error of ext_txn_immediate, if that fails.
** Does not query SQLite about the table after that. */
int ext_table_named(struct ext_conn *conn, const char *text, int writes,
                    struct ext_table **table, char **err);

#endif
