/* SPDX-License-Identifier: MIT
**
** pipeline.h -- ext/data/pipeline/: makes the tables of
** sql/examples/modyn/schema.sql and models.sql, and drives the pipelines there.
**
** ROLE      The tables are ordinary tables; the policies are SQL text in one
**           of them.  This folder does what SQL cannot do: it chooses the text,
**           checks its options, binds them, and moves from step to step.
** CALLS     emb_pipeline_create(prefix), emb_models_create(prefix)  create.c
**           emb_pipeline_run(pipeline, prefix)                  run.c
**           emb_downsample(pipeline, trigger, epoch, prefix)    downsample.c
**           emb_evaluation_intervals(pipeline, prefix)          intervals.c
**           emb_selected(...), a table                          selected.c
**           emb_policies, a table                               policies.c
** RUN       inform.c (new samples get positions), decide.c with ask.c (is it
**           time to train?), select.c (on which samples?).  source.c reads the
**           pipeline's row, scope.c runs SQL with named parameters, policy.c
**           prepares policies, options.c checks their options, tables.c knows
**           the tables' names.
** CRASH     Each call is one savepoint: it is applied completely or not at
**           all.  Nothing is kept in memory between calls.
** TRUST     A pipeline names SQL, which runs when one of these functions is
**           called.  The functions are SQLITE_DIRECTONLY: only a statement of
**           the application can call them.
** THREADS   As conn.h says.
*/
#ifndef EMB_EXT_PIPELINE_H
#define EMB_EXT_PIPELINE_H

#include "engine/base/debug.h"
#include "ext/tvf/tvf.h"

/* ---- schema_text.c, made by sql/examples/modyn/schema.tcl ---------------- */

/* A statement, and what it creates.  Its names are written as {name}. */
struct ext_schema_text {
  const char *kind, *name; /* "table", "view" ...; NULL: creates nothing */
  const char *sql;
};
extern const struct ext_schema_text ext_schema_pipeline[], ext_schema_models[];
extern const size_t ext_schema_pipeline_n, ext_schema_models_n;

/* ---- tables.c: names of the tables --------------------------------------- */

#define EXT_TABLES_PREFIX "modyn_"

/* Is there a table, a view or another object of this name in the schema? */
int ext_tables_have(const char *name, size_t size);
/* *to: the SQL with the prefix and the name for each {name} of a table; NULL is
** no prefix.  Free it with sqlite3_free. */
int ext_tables_expand(const char *prefix, const char *sql, char **to);
/* The prefix that an argument gives, checked.  Free it with sqlite3_free. */
int ext_tables_prefix(sqlite3_value *value, char **prefix, char **err);
/* The prefix of the tables to use: the given one, or, if given is NULL, that of
** the tables there are.  Free it with sqlite3_free, also after an error. */
int ext_tables_find(sqlite3 *db, sqlite3_value *given, char **prefix,
                    char **err);

/* ---- scope.c: SQL with named parameters ---------------------------------- */

/* The value of a parameter. */
struct ext_given {
  const char *name;
  int type; /* SQLITE_INTEGER, SQLITE_FLOAT, SQLITE_TEXT or SQLITE_NULL */
  sqlite3_int64 integer;
  double real;
  const char *text; /* valid as long as it is in scope */
};

/* More values than the driver gives in any scope. */
#define EXT_SCOPE_MAX 32

/* A parameter's value is looked up in the given values, then in the options, a
** JSON object; a parameter found in neither is NULL. */
struct ext_scope {
  sqlite3 *db;
  const char *prefix; /* of the tables; NULL: none */
  struct ext_given given[EXT_SCOPE_MAX];
  int n;
  const char *options; /* NULL: none */
};

/* Only in self-checking builds [pipeline_valid.c]. */
int ext_scope_valid(const struct ext_scope *scope);
void ext_scope_integer(struct ext_scope *scope, const char *name,
                       sqlite3_int64 value);
void ext_scope_real(struct ext_scope *scope, const char *name, double value);
/* NULL: SQL's NULL. */
void ext_scope_text(struct ext_scope *scope, const char *name,
                    const char *value);
/* Prepares and binds one statement, in which {name} is a table (tables.c).  If
** tail is NULL, nothing may follow.  Otherwise *tail is set to the text after
** it, and the text is taken as it is: a policy's, which policy.c has expanded.
*/
int ext_scope_prepare(const struct ext_scope *scope, const char *sql,
                      sqlite3_stmt **statement, const char **tail, char **err);
/* Runs one statement to its end. */
int ext_scope_run(const struct ext_scope *scope, const char *sql, char **err);
/* The first column of the first row; 0 if there is no row or it is NULL. */
int ext_scope_number(const struct ext_scope *scope, const char *sql,
                     sqlite3_int64 *number, char **err);
/* As above, as text; NULL if there is no row or the column is NULL.  Free it
** with sqlite3_free. */
int ext_scope_string(const struct ext_scope *scope, const char *sql,
                     char **text, char **err);
/* An option; NULL and zeros if it is missing. */
int ext_scope_option(const struct ext_scope *scope, const char *name,
                     struct ext_given *option, char **err);

/* ---- source.c: a pipeline ------------------------------------------------ */

struct ext_pipeline {
  struct ext_conn *conn;
  sqlite3 *db;
  char *prefix; /* of its tables */
  char *name, *samples, *features, *predictions;
  char *trigger_policy, *selection_policy, *evaluation_policy;
  sqlite3_int64 id, partition_size;
  int looks_back;         /* limited by `lookback`, and `newest` is known */
  struct ext_scope scope; /* with "pipeline" and "seed" */
  struct ext_savepoint savepoint;
};

/* Only in self-checking builds [pipeline_valid.c].  For a pipeline that was
** loaded. */
int ext_pipeline_valid(const struct ext_pipeline *pipeline);
/* By name or number, as given to a function, and the argument `prefix`, NULL if
** it was not given.  Free it with ext_pipeline_free, also after an error. */
int ext_pipeline_load(struct ext_conn *conn, sqlite3_value *which,
                      sqlite3_value *prefix, struct ext_pipeline *pipeline,
                      char **err);
void ext_pipeline_free(struct ext_pipeline *pipeline);
/* The text for a source in FROM: a name, or a SELECT in parentheses. */
char *ext_pipeline_source(const char *source);
/* One function call is one transaction.  The end commits it, or rolls it back
** if rc is an error, and returns the result. */
int ext_pipeline_begin(struct ext_pipeline *pipeline, char **err);
int ext_pipeline_end(struct ext_pipeline *pipeline, int rc, char **err);
/* Puts "policy random of pipeline clicks: " before an error. */
int ext_pipeline_error(char **err, int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- policy.c ------------------------------------------------------------ */

/* A policy with its options, checked. */
struct ext_policy {
  const char *kind;
  char *name;
  char *sql;     /* with each {name} replaced */
  char *options; /* JSON, with the defaults filled in */
};

/* json: {"policy": name, option: value, ...}.  Free it with ext_policy_free,
** also after an error. */
int ext_policy_read(struct ext_pipeline *pipeline, const char *kind,
                    const char *json, struct ext_policy *policy, char **err);
void ext_policy_free(struct ext_policy *policy);
/* Prepares its statement and binds the pipeline's scope and the policy's
** options.  then: NULL, or *then is set to the statements that follow, to be
** freed with sqlite3_free. */
int ext_policy_prepare(struct ext_pipeline *pipeline,
                       const struct ext_policy *policy,
                       sqlite3_stmt **statement, char **then, char **err);
/* The column of that name, or -1 if there is none. */
int ext_policy_column(sqlite3_stmt *statement, const char *name);

/* ---- options.c ----------------------------------------------------------- */

/* Checks the options of a policy.  scope: with "kind" and "policy".  *options:
** the JSON with the defaults filled in, for sqlite3_free, also after an error.
*/
int ext_policy_options(const struct ext_scope *scope, const char *json,
                       char **options, char **err);

/* ---- ask.c: decisions of a trigger policy -------------------------------- */

struct ext_part; /* part of a decision: a row of decision_part */

struct ext_asker {
  struct ext_pipeline *pipeline;
  struct ext_part *parts; /* of the last answer; ext_ask_free frees them */
};

/* A question: samples from `first` to `last`, decided up to `evaluated`. */
struct ext_question {
  sqlite3_int64 first, evaluated, last;
  const char *member; /* the member asked: '', or '0.1' for example */
  int within;         /* number of enclosing ensembles; if any, the step is 1 */
};

enum ext_verdict { EXT_NOTHING, EXT_NO, EXT_YES, EXT_WAITS };

struct ext_answer {
  enum ext_verdict verdict; /* EXT_NOTHING: nothing else is set */
  sqlite3_int64 position, through;
  char *reason; /* for sqlite3_free, after an error too */
};

/* Only in self-checking builds [pipeline_valid.c].  For an answer without an
** error. */
int ext_answer_valid(const struct ext_question *question,
                     const struct ext_answer *answer);
/* json: the policy.  The caller zeroes *answer first. */
int ext_ask(struct ext_asker *asker, const char *json,
            const struct ext_question *question, struct ext_answer *answer,
            char **err);
/* Records the parts of the decision at the scope's :pipeline and :position. */
int ext_ask_record(const struct ext_asker *asker, const struct ext_scope *of,
                   char **err);
void ext_ask_free(struct ext_asker *asker);

/* ---- inform.c, decide.c, select.c ---------------------------------------- */

/* Gives positions to new samples; *n: their number. */
int ext_pipeline_inform(struct ext_pipeline *pipeline, sqlite3_int64 *n,
                        char **err);
/* Decides until it records a trigger (*trigger), or nothing is left to decide
** (-1). */
int ext_pipeline_decide(struct ext_pipeline *pipeline, sqlite3_int64 *trigger,
                        char **err);
/* Chooses the samples that the trigger is trained on. */
int ext_pipeline_select(struct ext_pipeline *pipeline, sqlite3_int64 trigger,
                        char **err);

/* Checks the options downsampling and thresholds of a selection policy. */
int ext_downsampling_check(struct ext_pipeline *pipeline,
                           const struct ext_policy *selection, char **err);

/* ---- take.c -------------------------------------------------------------- */

/* Number of samples chosen from n, by the options share, share_max and
** limit. */
int ext_take_size(const struct ext_scope *scope, sqlite3_int64 n,
                  sqlite3_int64 *size, char **err);
/* Copies the rows (sample_key, weight) of a statement into a table, from *place
** on.  insert: an INSERT with :place, :key and :weight. */
int ext_take_rows(struct ext_pipeline *pipeline, sqlite3_stmt *rows,
                  const char *insert, sqlite3_int64 *place, char **err);

/* ---- policy_text.c, made by sql/examples/modyn/policies.tcl -------------- */

struct ext_policy_text {
  const char *kind, *name, *about, *options, *sql; /* options: a JSON array */
};
extern const struct ext_policy_text ext_policy_texts[];
extern const size_t ext_policy_texts_n;

/* ---- registration -------------------------------------------------------- */

int ext_pipeline_register(struct ext_conn *conn);
/* Parts of it. */
int ext_selected_register(struct ext_conn *conn);
int ext_policies_register(struct ext_conn *conn);
void ext_fn_pipeline_create(sqlite3_context *context, int argc,
                            sqlite3_value **argv);
void ext_fn_models_create(sqlite3_context *context, int argc,
                          sqlite3_value **argv);
void ext_fn_downsample(sqlite3_context *context, int argc,
                       sqlite3_value **argv);
void ext_fn_intervals(sqlite3_context *context, int argc, sqlite3_value **argv);

#endif
