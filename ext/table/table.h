/* SPDX-License-Identifier: MIT
**
** table.h -- ext/table/: the virtual table `emb`.
**
** ROLE      sqlite3_module and all that it does: what a table is declared with,
**           its scans, its writes, its part in SQLite's transaction, commands.
**           Used by fn/, backup/ and tvf/, which get a table by its name
**           (named.c).
** OBJECTS   table   one sqlite3_vtab.  Has its names and options; finds its
**                   link when it is first used (open.c), so that a table whose
**                   store is missing can still be dropped.
**           cursor  one scan (table_cursor.h).
** STATES    A table object: connected -> open (ext_table_open) -> in SQLite's
**           transaction and back (txn.c has the table) -> disconnected.  One
**           that a function holds (conn/call.c) is freed when the call ends.
** TABLES    Hidden columns are the rows of EXT_HIDDEN, options those of
**           options.c: declaration, reserved names, parsing, checks and texts
**           come from there.
** INVARIANTS  A table in SQLite's transaction has a link.  An open cursor of a
**           scan is counted in its link.
** THREADS   As conn.h says.
*/
#ifndef EMB_EXT_TABLE_H
#define EMB_EXT_TABLE_H

#include "engine/storage/pack/emb_file.h"
#include "ext/conn/conn.h"

/* ---- columns.c: the columns of a table ---------------------------------- */

/* What xBestIndex passes to xFilter.  idxStr has one letter per argument:
**   '=' key = ?     'i' key IN (...)     '<' 'l' '>' 'g' key < <= > >= ?
**                   where the key is an integer, or of the rowid
**   't' key = ?     'T' key IN (...)     where it is a text
**   'k' keys = ?    'm' mode = ?         'o' OFFSET ?     's' snapshot = ?
** and in a search for neighbours, behind words for a person and a colon,
**   'v' vector MATCH ?    'n' k = ?      'p' probes = ?
**   'a' 'b' 'c' 'd' 'e'   distance < <= > >= = ?
**   'L' LIMIT ?           'O' OFFSET ?   which SQLite sees to all the same
** and in both
**   'B' a condition on an auxiliary column    'I' the same with IN (...)
** of which, behind a semicolon each, the number and the comparison stand behind
** the letters (aux_where.c);
** and idxNum is a sum of these. */
enum {
  EXT_PLAN_ASC = EMB_SCAN_ASC,
  EXT_PLAN_DESC = EMB_SCAN_DESC,
  EXT_PLAN_ORDER = 3, /* mask of the two */
  EXT_PLAN_VECTORS = 4,
  EXT_PLAN_VERSIONS = 8,
  EXT_PLAN_FOUND = 16,
  EXT_PLAN_LAZY = 32, /* an UPDATE: read vectors when asked, a chunk at once */
  EXT_PLAN_BATCH_VERSIONS = 64,
  EXT_PLAN_TRACKS = 128,   /* frequency, updated_at */
  EXT_PLAN_NEAREST = 256,  /* vector MATCH ? */
  EXT_PLAN_ENDLESS = 512,  /* and nothing says how many: an error */
  EXT_PLAN_SEGMENT = 1024, /* times the number of the vector column */
};

/* What a hidden column may be used for. */
enum {
  EXT_ONCE = 1,             /* as an argument of a scan, at most once */
  EXT_GENERATED = 2,        /* it describes a row and cannot be written */
  EXT_INSERT = 4,           /* it may be given in INSERT ... */
  EXT_UPDATE = 8,           /* ... and be set by UPDATE */
  EXT_INSERT_GRADIENT = 16, /* only together with a gradient */
  EXT_UPDATE_GRADIENT = 32,
  EXT_YIELDS = 64, /* newer than tables that have such a name themselves: it is
                      emb_... there */
};

/* The hidden columns, each a row:
**   X(id, name, declared type, letter in the plan if `column = ?` is an
**     argument of a scan, what the scan must read for it, what it may be used
**     for)
** Their order is that of the arguments of the table called as a function, and
** of `SELECT keys, mode, ...` in programs that number them: new ones come last.
** What a row of the table shows there is in ext_cursor_column. */
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
  X(PROBES, "probes", "INTEGER", 'p', 0, EXT_YIELDS)

/* All columns as declared to SQLite: EXT_KEY, EXT_VECTOR, the hidden ones
** EXT_KEYS ..., from EXT_MORE on the second vector and so on, and behind these
** the auxiliary columns. */
#define EXT_ID(id, name, type, argument, reads, rules) EXT_##id,
enum { EXT_KEY = 0, EXT_VECTOR, EXT_HIDDEN(EXT_ID) EXT_MORE };
#undef EXT_ID
enum { EXT_FIRST_HIDDEN = EXT_VECTOR + 1 };

struct ext_column {
  const char *name; /* NULL: the table's */
  const char *type;
  char argument;
  int reads; /* EXT_PLAN_* */
  int rules;
};

/* Of a hidden column, EXT_FIRST_HIDDEN <= column < EXT_MORE. */
const struct ext_column *ext_column(int column);
static inline int ext_column_is_hidden(int column) {
  return column >= EXT_FIRST_HIDDEN && column < EXT_MORE;
}
/* Whether a hidden column has this name and no other can have it. */
int ext_column_is_reserved(const char *name);
/* A set of hidden columns has this bit for one. */
static inline int ext_column_bit(int column) {
  return 1 << (column - EXT_FIRST_HIDDEN);
}

/* ---- options.c: the options of a table ---------------------------------- */

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
  int text_key;                    /* it is TEXT, not INTEGER */
  char *vectors[EMB_SEGMENTS_MAX]; /* names of the vector columns */
  struct ext_aux_column *aux;
  int aux_count;
  int engine_commit; /* commit='engine' */
  emb_config config; /* all but flags beside EMB_OPEN_BOUNDED; dim is that of a
                        row, segments points to the next */
  emb_segment segments[EMB_SEGMENTS_MAX];
  int optimized; /* some vector has an optimizer */
};

/* Vector columns of a table. */
static inline uint32_t ext_vectors(const struct ext_options *options) {
  return options->config.segment_count;
}
/* Which one a column is, from 0; below 0: none. */
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
/* First element of a row that belongs to it. */
uint32_t ext_vector_first(const struct ext_options *options, uint32_t i);

enum ext_kind { EXT_NUMBER, EXT_SIZE, EXT_CHOICE, EXT_TEXT };
/* Whether 'set name' may change it, and when that takes effect. */
enum ext_changeable { EXT_FIXED, EXT_AT_COMMIT, EXT_AT_OPEN };

/* An option; options.c has the table of all.  The value is a field of struct
** ext_options, `width` bytes `at` its beginning; width 0: only the flag. */
struct ext_option {
  const char *name;
  enum ext_kind kind;
  enum ext_changeable change;
  size_t at, width;
  size_t in_column; /* of a text that a vector column may have of its own:
                       where, in emb_segment; else 0 */
  /* Of a text: EMB_OK, or why it is none. */
  int (*check)(const char *text, emb_err *why);
  uint64_t least, most; /* of a number; a choice's first word is `least` */
  const char *words[4]; /* of a choice; of a number what stands for none */
  uint64_t none;        /* the value of that */
  uint32_t flag;       /* of config.flags: a number is given, or the second word
                          of a choice */
  const char *unit;    /* in front of a number's range */
  const char *legal;   /* which values there are, where the above do not say */
  const char *initial; /* the default as one would write it; "": it depends */
  const char *unset;   /* what 'set name', NULL sets if CREATE does not name the
                          option: the store keeps its setting.  NULL: it
                          does not */
  const char *note;    /* what the error about a fixed one adds, or NULL */
  const char *help;
};

enum { EXT_OPTIONS_MAX = 32, EXT_LEGAL_MAX = 120 };

/* Number i; NULL behind the last. */
const struct ext_option *ext_option_at(size_t i);
/* The one of this name, whatever its case; NULL: there is none. */
const struct ext_option *ext_option_find(const char *name);
/* SQLITE_ERROR: there is none, but these. */
int ext_option_unknown(const char *name, char **err);
/* The legal values in words. */
const char *ext_option_legal(const struct ext_option *option,
                             char legal[EXT_LEGAL_MAX]);
/* Sets it.  A text is a copy, of which there is none before. */
int ext_option_set(struct ext_options *options, const struct ext_option *option,
                   const char *value, char **err);
/* Whether CREATE names it; for those with `unset`. */
int ext_option_is_set(const struct ext_options *options,
                      const struct ext_option *option);
/* Where a text is. */
char **ext_option_text(struct ext_options *options,
                       const struct ext_option *option);
char **ext_option_column_text(emb_segment *segment,
                              const struct ext_option *option);
/* SQLITE_ERROR: the text is none, of the table (column NULL) or of a column. */
int ext_option_check(const struct ext_option *option, const char *column,
                     const char *value, char **err);
/* Do they go together? */
int ext_options_check(const struct ext_options *options, char **err);
void ext_options_init(struct ext_options *options);
void ext_options_clear(struct ext_options *options);

/* ---- arguments.c: what stands in USING emb(...) -------------------------- */

/* argv as xCreate gets it; the arguments start at argv[3].  Whatever happens,
** ext_options_clear frees what is in it. */
int ext_arguments_parse(struct ext_options *options, int argc,
                        const char *const *argv, char **err);

/* ---- the object ---------------------------------------------------------- */

struct ext_vtab {
  struct ext_table table; /* must be first */
  struct ext_options options;
  char *key_what; /* "items.key" and "items.vector", for errors */
  char *vector_what[EMB_SEGMENTS_MAX];
  struct ext_cursor *spare; /* a closed one, or NULL (cursor.c) */
  uint64_t shown_plans; /* of searches for neighbours: their vectors were asked
                           for; a bit each (nearest.c) */
  int update_reads; /* hidden columns that the last UPDATE has read, a bit each
                       (change_parse.c) */
  struct ext_aux *aux;       /* what is kept for the auxiliary columns,
                                      or NULL */
  struct ext_aux_sets *sets; /* the same for conditions on them */
};

/* The whole of a table object. */
static inline struct ext_vtab *ext_vtab(const struct ext_table *table) {
  return (struct ext_vtab *)table;
}

/* ---- settings.c: options that are changed later -------------------------- */

/* The shadow table with what was set is called so, behind the table's name. */
#define EXT_SETTINGS "emboptions"

/* A table's options as they are now. */
struct ext_settings {
  struct ext_options options;   /* its texts are the table's, */
  char *texts[EXT_OPTIONS_MAX]; /* or these, of options with that number, */
  emb_segment columns[EMB_SEGMENTS_MAX]; /* and of vector columns these */
};

/* What a row of that table is about. */
struct ext_setting {
  const struct ext_option *option; /* NULL: nothing of this name */
  int column; /* the number of the vector, or -1: the table */
};
/* Of "index", or "title.index". */
struct ext_setting ext_setting_find(const struct ext_options *options,
                                    const char *name);
/* The same again; NULL without memory. */
char *ext_setting_name(const struct ext_options *options,
                       const struct ext_setting *setting);
/* Whether there is such a table. */
int ext_settings_find_table(struct ext_table *table, int *there, char **err);

/* Those of CREATE; one more value; and all that was set. */
void ext_settings_begin(struct ext_table *table, struct ext_settings *settings);
int ext_settings_take(struct ext_settings *settings,
                      const struct ext_setting *setting, const char *value,
                      char **err);
int ext_settings_take_rows(struct ext_table *table,
                           struct ext_settings *settings, char **err);
/* CREATE's, what was set, and the environment; of a new table without what was
** set.  ext_settings_free, whatever they return. */
int ext_settings_read(struct ext_table *table, struct ext_settings *settings,
                      char **err);
int ext_settings_create(struct ext_table *table, struct ext_settings *settings,
                        char **err);
/* The same for opening the store, which needs so much memory. */
int ext_settings_open(struct ext_table *table, struct ext_settings *settings,
                      char **err);
void ext_settings_free(struct ext_settings *settings);
/* What was set, as a JSON object; NULL: nothing. */
int ext_settings_json(struct ext_table *table, char **json, char **err);
/* The shadow table follows a rename and a DROP.  At a CREATE, where SQLite has
** it that nothing is dropped, one that is left is emptied. */
int ext_settings_empty(struct ext_table *table, char **err);
int ext_settings_rename(struct ext_table *table, const char *name, char **err);
int ext_settings_drop(struct ext_table *table, char **err);

/* ---- set.c: commands that change options -------------------------------- */

/* The commands 'memory' and 'set name'; the link is open. */
int ext_settings_memory(struct ext_table *table, sqlite3_value *arg,
                        char **err);
int ext_settings_set(struct ext_table *table, const char *name,
                     sqlite3_value *arg, char **err);
/* From xSync and xCommit, while settings_pending. */
int ext_settings_sync(struct ext_table *table, char **err);
void ext_settings_commit(struct ext_link *link);

/* ---- open.c, create.c ---------------------------------------------------- */

/* Before a statement or call uses keys: the dictionary of texts is as the
** database is now.  ext_table_named does it for functions. */
int ext_keys_begin(struct ext_table *table, char **err);

/* Sets table->link, opening the store if this connection has not. */
int ext_table_open(struct ext_table *table, char **err);
/* Another process that has the lock of the table's store, which need not be
** open; 0: none, or it cannot be seen. */
int ext_table_owner(struct ext_table *table, int64_t *process, char **err);
/* ext_link_add, with what the options say of the link. */
int ext_table_link(struct ext_table *table, emb_store *store, const char *path,
                   char **err);
/* Makes the store of a new table and the shadow table with its row, and links
** the table to it. */
int ext_table_create(struct ext_table *table, char **err);

/* ---- txn.c -------------------------------------------------------------- */

/* To be called before reading: the link is open and nothing is in doubt that
** the database can decide now. */
int ext_txn_read(struct ext_table *table, char **err);
/* To be called before each transactional write. */
int ext_txn_write(struct ext_table *table, char **err);
/* Before a write that acts at once: refused, too, when database and store are
** not of the same age.  Looks once for each link: the files are not replaced
** while they are open. */
int ext_txn_immediate(struct ext_table *table, char **err);
/* Behind a call of the engine that needs a store in which nothing is in doubt,
** and *rc, what it gave:
**
**     do
**       rc = emb_delta_ack(...);
**     while (ext_txn_again(table, &attempts, &rc, &err));
**
** 1: it is to be made again, for what it found in doubt is decided now.  That
** is so when the table got another owner since ext_txn_immediate.  0: *rc is
** SQLite's code.  attempts begins with 0. */
int ext_txn_again(struct ext_table *table, int *attempts, int *rc, char **err);
/* The last transaction of the database's row and of the store.  agree: 1, too,
** where they differ only because another connection commits, or because this
** one reads an older state and the newest row cannot be had. */
struct ext_txn_numbers {
  sqlite3_int64 row, store;
  int agree;
};
int ext_txn_compare(struct ext_table *table, struct ext_txn_numbers *numbers,
                    char **err);
/* 'adopt': the database takes over the store's number. */
int ext_txn_adopt(struct ext_table *table, char **err);
/* The table object is in SQLite's transaction from now on: after CREATE, which
** is not followed by xBegin. */
void ext_txn_enter(struct ext_table *table);
/* And not any more: it ended, or the object goes. */
void ext_txn_leave(struct ext_table *table);
int ext_txn_begin(sqlite3_vtab *vtab);
int ext_txn_sync(sqlite3_vtab *vtab);
int ext_txn_commit(sqlite3_vtab *vtab);
int ext_txn_rollback(sqlite3_vtab *vtab);
int ext_txn_savepoint(sqlite3_vtab *vtab, int i);
int ext_txn_release(sqlite3_vtab *vtab, int i);
int ext_txn_rollback_to(sqlite3_vtab *vtab, int i);
/* The innermost savepoint that is open in the link, -1 none. */
int ext_txn_level(const struct ext_link *link);
/* Throws an unwritten transaction away; before a DROP. */
void ext_txn_abandon(struct ext_link *link);

/* ---- scans: plan.c, filter.c, nearest.c, cursor.c ------------------------ */

int ext_plan_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info);

/* When the table object goes. */
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

/* The time of a write, 0: NULL, or SQL's NULL, is given. */
int ext_update_time_read(struct ext_table *table, sqlite3_value *value,
                         uint32_t *time, char **err);
/* The time of what the table's session writes until ext_update_time_end: NULL,
** or SQL's NULL, is the table's clock. */
int ext_update_time(struct ext_table *table, sqlite3_value *time, char **err);
void ext_update_time_end(struct ext_table *table);
/* Learning rate and step of an update; NULL, or SQL's NULL: not given. */
int ext_update_how(sqlite3_value *lr, sqlite3_value *step, emb_update *how,
                   char **err);
int ext_update(sqlite3_vtab *vtab, int argc, sqlite3_value **argv,
               sqlite3_int64 *rowid);

/* ---- keys.c ---------------------------------------------------------------
 */

/* The keys of a list, or one, that SQL has passed.  A table with text keys has
** numbers for them (dict/dict.h); an absent text has 0, which no row has. */
struct ext_keys {
  int64_t *at;
  size_t n;
  int owned;              /* `at` is memory of its own */
  size_t absent;          /* texts that have no number */
  struct ext_texts texts; /* n of them where the keys are texts */
  int64_t removals;       /* as of when they were looked up */
  int rowless;            /* some may have no row, or have been added */
  int peeks, settles;     /* what ext_keys_look says */
  int64_t one;            /* where `at` is, of a single key, */
  struct ext_text one_text;
};

/* Reads a list, or one key.  ext_keys_free, after an error, too.  `keys` is
** zeros before, and stays where it is. */
int ext_keys_read(struct ext_table *table, sqlite3_value *value,
                  const char *what, struct ext_keys *keys, char **err);
int ext_key_read(struct ext_table *table, sqlite3_value *value,
                 struct ext_keys *key, char **err);
/* The two steps of the first: only the second one runs SQL. */
int ext_keys_parse(struct ext_table *table, sqlite3_value *value,
                   const char *what, struct ext_keys *keys, char **err);
int ext_keys_find(struct ext_table *table, struct ext_keys *keys, char **err);
void ext_keys_free(struct ext_keys *keys);
/* Before rows are written with them, in SQLite's transaction; before the same
** at once; and behind the latter.  No absent text is left. */
int ext_keys_add(struct ext_table *table, struct ext_keys *keys, char **err);
int ext_keys_add_now(struct ext_table *table, struct ext_keys *keys,
                     char **err);
int ext_keys_settle(struct ext_table *table, struct ext_keys *keys, char **err);
/* Adds those that are absent, and the others may be any; and the error where
** that is not possible. */
int ext_keys_commit(struct ext_table *table, struct ext_keys *keys, char **err);
int ext_keys_locked(const struct ext_table *table, char **err);
/* Whether a gradient for a key without a row makes one. */
int ext_keys_grow(const struct ext_table *table);
/* A key of the store as a result: the number or its text, NULL where it has
** none. */
void ext_key_result(sqlite3_context *context, struct ext_link *link,
                    int64_t key);
/* Texts as a JSON array, for sqlite3_free; those that are gone are left out. */
int ext_keys_json(struct ext_link *link, const int64_t *keys, size_t n,
                  char **json, char **err);
/* The texts without rows are removed, as far as nothing else names them. */
int ext_keys_clean(struct ext_table *table, char **err);
/* Appends a line to report for the rows that have no text. */
int ext_keys_verify(struct ext_table *table, sqlite3_str *report, char **err);

/* The connection that may commit texts now: *other, which the caller closes, or
** with NULL the user's. */
int ext_keys_writer(struct ext_table *table, sqlite3 **other, char **err);
/* Another connection to the same file, which waits for locks as the table. */
int ext_keys_connect(struct ext_table *table, sqlite3 **other, char **err);
/* Closes it, or nothing; rc, or SQLITE_INTERRUPT if that has ended its wait. */
int ext_keys_disconnect(struct ext_table *table, sqlite3 *other, int rc,
                        char **err);
/* Of struct ext_dict_rows; arg is the link. */
int ext_keys_exist(void *link, const int64_t *ids, size_t n, uint8_t *are,
                   char **err);

/* ---- appear.c ------------------------------------------------------------ */

/* Do rows of texts appear when they are looked up? */
int ext_keys_appear(const struct ext_table *table);
/* Do rows, of whatever keys, appear when this connection looks them up? */
int ext_keys_come(const struct ext_table *table);
/* Before a Get by which they do: none of the texts is absent behind it, or
** `peeks` is set, and it is to be an emb_peek.  With `settles`, ext_keys_settle
** is to be called behind the Get. */
int ext_keys_look(struct ext_table *table, struct ext_keys *keys, char **err);

/* ---- keys_file.c --------------------------------------------------------- */

/* A file of rows that a table is about to take. */
struct ext_file_keys {
  emb_file_keys keys;        /* of its rows, */
  const emb_file_keys *give; /* for the engine; NULL: they are integers */
  sqlite3 *other;            /* what adds texts; NULL: the user's */
  struct ext_dict_held held; /* what keeps them */
};
/* Of a table with text keys the file is checked, and its texts are in the
** dictionary, committed, and stay there until ext_file_keys_end, which is to
** be called after an error, too.  *file is zeros before. */
int ext_file_keys_begin(struct ext_table *table, const char *path,
                        struct ext_file_keys *file, char **err);
void ext_file_keys_end(struct ext_file_keys *file);
/* The other way: the name, for sqlite3_free, of a file beside path for the rows
** with their numbers. */
char *ext_file_rows_name(const char *path);
/* That file goes, and one with the texts is complete, but not yet at path:
** emb_file_finish, emb_file_abandon. */
int ext_file_add_texts(struct ext_table *table, const char *rows,
                       const char *path, const char *options,
                       emb_file_writer **writer, char **err);

/* ---- command.c ----------------------------------------------------------- */

int ext_command(struct ext_table *table, sqlite3_value *command,
                sqlite3_value *arg, char **err);
/* Appends what is wrong with the table, a line each, to report; quick leaves
** out what must read the disk. */
int ext_command_verify(struct ext_table *table, int quick, sqlite3_str *report,
                       char **err);

/* ---- vtab.c -------------------------------------------------------------- */

const sqlite3_module *ext_vtab_module(void);

/* ---- named.c ------------------------------------------------------------- */

/* The table of this name, held. */
int ext_table_find(struct ext_conn *conn, const char *text,
                   struct ext_table **table, char **err);
/* The same, ready to be read, or to be written to at once:
** SQLITE_READONLY, or an error of ext_txn_immediate, when it cannot be.
** Nothing is asked of SQLite about it after that. */
int ext_table_named(struct ext_conn *conn, const char *text, int writes,
                    struct ext_table **table, char **err);

#endif
