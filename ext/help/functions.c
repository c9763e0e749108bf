/* SPDX-License-Identifier: MIT
**
** functions.c -- the functions that use a table.
*/
#include "help.h"

#define HELP_BUSY                                                              \
  "SQLITE_BUSY if another connection holds a key for longer than timeout"
#define HELP_LOCKED                                                            \
  "SQLITE_LOCKED if this connection's open transaction has changed one of "    \
  "the keys"
#define HELP_TIME                                                              \
  "updated_at INTEGER: time of the update, seconds since 1970; needs track="
#define HELP_COLUMN "options TEXT: column=name, of a table with several vectors"
#define HELP_DIM                                                               \
  "; with column= the vectors have only that column's dimensions, the other "  \
  "columns keep their vectors, and begin with the initial one in a new row"
#define HELP_BAG                                                               \
  "offsets: BLOB of int64 or a JSON array, the position in keys where each "   \
  "bag begins, the first 0; mode TEXT: 'sum', 'mean' or 'sqrtn', also with "   \
  "(include_last_offset=1)"

const struct ext_help ext_help_functions[] = {
    {.name = "emb_get",
     .kind = "function",
     .signature = "emb_get(table, keys [, options])",
     .arguments = HELP_TABLE "; " HELP_KEYS "; " HELP_COLUMN,
     .result = "BLOB of n*dim float32: the vectors in the order of the keys; a "
               "missing key has the vector that its row would begin with",
     .errors = HELP_NO_TABLE
     " or no such column"
     "; " HELP_TYPE
     "; SQLITE_TOOBIG if the vectors do not fit one value; SQLITE_BUSY if a "
     "key stays at its staleness bound for longer than timeout",
     .in_transaction = "read",
     .page = "sql.md#immediate-functions"},
    {.name = "emb_peek",
     .kind = "function",
     .signature = "emb_peek(table, keys [, options])",
     .arguments = HELP_TABLE "; " HELP_KEYS "; options TEXT: as in emb_get",
     .result = "BLOB of n*dim float32, as emb_get returns it; leaves the "
               "record cache and the pending reads unchanged, and adds no row",
     .errors = HELP_NO_TABLE
     "; " HELP_TYPE "; SQLITE_TOOBIG if the vectors do not fit one value",
     .in_transaction = "read",
     .page = "sql.md#immediate-functions"},
    {.name = "emb_found",
     .kind = "function",
     .signature = "emb_found(table, keys)",
     .arguments = HELP_TABLE "; " HELP_KEYS,
     .result = "BLOB of n bytes, in the order of the keys: 1 if the table has "
               "the key, otherwise 0; reads no vector and adds no row",
     .errors = HELP_NO_TABLE "; " HELP_TYPE,
     .in_transaction = "read",
     .page = "sql.md#immediate-functions"},
    {.name = "emb_put",
     .kind = "function",
     .signature = "emb_put(table, keys, vectors [, updated_at [, options]])",
     .arguments = HELP_TABLE "; " HELP_KEYS "; vectors: " HELP_VECTORS
                             "; " HELP_TIME "; " HELP_COLUMN,
     .result = "INTEGER: inserts or replaces the rows of the keys; returns the "
               "number of keys given" HELP_DIM,
     .errors = HELP_NO_TABLE
     " or no such column, or updated_at is given without track=; " HELP_TYPE
     "; SQLITE_CONSTRAINT if an element is not finite; " HELP_LOCKED
     "; " HELP_BUSY "; " HELP_READONLY,
     .in_transaction = "no",
     .page = "sql.md#immediate-functions"},
    {.name = "emb_rmw",
     .kind = "function",
     .signature = "emb_rmw(table, keys, deltas [, updated_at [, options]])",
     .arguments = HELP_TABLE "; " HELP_KEYS "; deltas: " HELP_VECTORS
                             "; " HELP_TIME "; " HELP_COLUMN,
     .result = "INTEGER: adds each delta to the existing vector, atomically "
               "for each key, and drops deltas of absent keys unless "
               "insert_on= says otherwise; returns the number of keys "
               "found" HELP_DIM,
     .errors = HELP_NO_TABLE
     " or no such column, or it has an optimizer (call emb_apply); " HELP_TYPE
     "; SQLITE_CONSTRAINT if a result is not finite; " HELP_LOCKED
     "; " HELP_BUSY "; " HELP_READONLY,
     .in_transaction = "no",
     .page = "sql.md#immediate-functions"},
    {.name = "emb_apply",
     .kind = "function",
     .signature = "emb_apply(table, keys, gradients [, lr [, step [, "
                  "updated_at [, options]]]])",
     .arguments = HELP_TABLE
     "; " HELP_KEYS "; gradients: " HELP_VECTORS
     "; lr REAL: learning rate of this call, 1e-30 to 1000000, or NULL; step "
     "INTEGER: step number for Adam's bias correction, or NULL; " HELP_TIME
     "; " HELP_COLUMN,
     .result =
         "INTEGER: makes a step of the table's optimizer with each "
         "gradient, atomically for each key; returns the number of keys "
         "that already existed; with column= only that column's optimizer "
         "makes a step, and gradients have only its dimensions",
     .errors = HELP_NO_TABLE
     " or no such column, it has no optimizer, or lr is out of "
     "range; " HELP_TYPE
     "; SQLITE_CONSTRAINT if a result is not finite (the rows before it stay "
     "written); " HELP_LOCKED "; " HELP_BUSY "; " HELP_READONLY,
     .in_transaction = "no",
     .page = "sql.md#immediate-functions"},
    {.name = "emb_put_versions",
     .kind = "function",
     .signature = "emb_put_versions(table)",
     .arguments = HELP_TABLE,
     .result = "BLOB of n int64: the versions written by this connection's "
               "last emb_put, emb_rmw or emb_apply, in the order of its keys; "
               "0 for a key not found; NULL if there was no such call",
     .errors = HELP_NO_TABLE,
     .in_transaction = "read",
     .page = "sql.md#immediate-functions"},
    {.name = "emb_bag",
     .kind = "function",
     .signature = "emb_bag(table, keys, offsets, mode [, weights [, options]])",
     .arguments = HELP_TABLE
     "; " HELP_KEYS "; " HELP_BAG
     "; weights: n float32 or a JSON array, or NULL; " HELP_COLUMN,
     .result = "BLOB of bags*dim float32: the pooled vector of each bag; zeros "
               "for an empty bag",
     .errors = HELP_NO_TABLE
     " or no such column, offsets do not begin with 0 or decrease, or "
     "the mode is unknown; " HELP_TYPE
     "; SQLITE_CONSTRAINT if a pooled vector is not "
     "finite; SQLITE_BUSY as for emb_get",
     .in_transaction = "read",
     .page = "bags.md#arguments"},
    {.name = "emb_bag_apply",
     .kind = "function",
     .signature = "emb_bag_apply(table, keys, offsets, mode, gradients [, "
                  "weights [, lr [, step [, updated_at [, options]]]]])",
     .arguments =
         HELP_TABLE "; " HELP_KEYS "; " HELP_BAG
                    "; gradients: BLOB of bags*dim float32 or a JSON array; "
                    "weights: n float32 or a JSON array, or NULL; lr REAL, "
                    "step INTEGER, updated_at INTEGER and options TEXT as for "
                    "emb_apply",
     .result =
         "INTEGER: makes a step of the table's optimizer with the gradient "
         "that reaches each row; returns the number of keys found",
     .errors = HELP_NO_TABLE
     ", it has no optimizer, offsets do not begin with 0 or decrease, or the "
     "mode is unknown; " HELP_TYPE
     "; SQLITE_CONSTRAINT if a sum or a result is not finite; " HELP_LOCKED
     "; " HELP_BUSY "; " HELP_READONLY,
     .in_transaction = "no",
     .page = "bags.md#arguments"},
    {.name = "emb_lookup",
     .kind = "function",
     .signature = "emb_lookup(table, keys, update [, options])",
     .arguments =
         HELP_TABLE "; " HELP_KEYS "; update INTEGER: 1 adds absent keys and "
                    "counts the lookup, 0 changes nothing; " HELP_COLUMN,
     .result =
         "BLOB of n*dim float32: the vectors; with update 1 an absent key "
         "first becomes a row with its initial vector, with 0 it has zeros",
     .errors =
         HELP_NO_TABLE " or no such column, or update is not 0 or 1; " HELP_TYPE
                       "; " HELP_BUSY "; " HELP_READONLY " and update is 1",
     .in_transaction = "no",
     .page = "knowledge-bank.md#lookups-that-insert-and-count"},
    {.name = "emb_flush_gradients",
     .kind = "function",
     .signature = "emb_flush_gradients(table)",
     .arguments = HELP_TABLE,
     .result = "INTEGER: applies all gradients that wait to be averaged; "
               "returns the number of keys that made a step",
     .errors = HELP_NO_TABLE "; " HELP_READONLY,
     .in_transaction = "no",
     .page = "knowledge-bank.md#averaged-gradients"},
    {.name = "emb_release",
     .kind = "function",
     .signature = "emb_release(table)",
     .arguments = HELP_TABLE,
     .result = "INTEGER: gives back all leases (pending reads) of this "
               "connection; returns their number",
     .errors = HELP_NO_TABLE,
     .in_transaction = "no",
     .page = "staleness.md#leases"},
    {.name = "emb_prefetch",
     .kind = "function",
     .signature = "emb_prefetch(table, keys)",
     .arguments = HELP_TABLE "; " HELP_KEYS,
     .result = "INTEGER: starts an emb_get in the background and returns its "
               "ticket, above 0",
     .errors = HELP_NO_TABLE
     "; " HELP_TYPE "; SQLITE_TOOBIG if the vectors do not fit one value",
     .in_transaction = "read",
     .page = "prefetch.md#asynchronous-batches"},
    {.name = "emb_prefetch_synchronize",
     .kind = "function",
     .signature = "emb_prefetch_synchronize(table [, ticket])",
     .arguments = HELP_TABLE "; ticket INTEGER: the number that emb_prefetch "
                             "returned; without it the oldest is awaited",
     .result = "BLOB of n*dim float32: waits for the prefetch and returns its "
               "vectors, as emb_get does; NULL if there is none",
     .errors =
         HELP_NO_TABLE " or no prefetch in flight with this ticket; " HELP_TYPE
                       "; SQLITE_BUSY if a key stays at its staleness bound "
                       "for longer than timeout",
     .in_transaction = "read",
     .page = "prefetch.md#asynchronous-batches"},
    {.name = "emb_write_back",
     .kind = "function",
     .signature = "emb_write_back(table, keys, vectors)",
     .arguments = HELP_TABLE "; " HELP_KEYS "; vectors: " HELP_VECTORS,
     .result = "INTEGER: starts an emb_put in the background and returns its "
               "ticket, above 0",
     .errors = HELP_NO_TABLE
     "; " HELP_TYPE
     "; SQLITE_CONSTRAINT if an element is not finite; " HELP_CHANGED
     "; " HELP_READONLY,
     .in_transaction = "no",
     .page = "prefetch.md#asynchronous-batches"},
    {.name = "emb_apply_async",
     .kind = "function",
     .signature = "emb_apply_async(table, keys, gradients [, lr [, step [, "
                  "updated_at]]])",
     .arguments = HELP_TABLE "; " HELP_KEYS "; gradients: " HELP_VECTORS
                             "; lr REAL, step INTEGER and updated_at INTEGER "
                             "as for emb_apply",
     .result = "INTEGER: starts an emb_apply in the background and returns its "
               "ticket, above 0; wait for it with emb_write_back_synchronize",
     .errors = HELP_NO_TABLE
     ", it has no optimizer, or lr is out of range; " HELP_TYPE
     "; SQLITE_CONSTRAINT if an element is not finite; " HELP_CHANGED
     "; " HELP_READONLY,
     .in_transaction = "no",
     .page = "prefetch.md#asynchronous-batches"},
    {.name = "emb_write_back_synchronize",
     .kind = "function",
     .signature = "emb_write_back_synchronize(table [, ticket])",
     .arguments = HELP_TABLE
     "; ticket INTEGER: the number that emb_write_back or emb_apply_async "
     "returned; without it the oldest is awaited",
     .result = "INTEGER: waits for the batch and returns the number of its "
               "keys; NULL if there is none",
     .errors = HELP_NO_TABLE
     " or no write-back in flight with this ticket; " HELP_TYPE
     "; SQLITE_CONSTRAINT if a vector would not be finite; " HELP_BUSY,
     .in_transaction = "no",
     .page = "prefetch.md#asynchronous-batches"},
    {.name = "emb_lookahead_wait",
     .kind = "function",
     .signature = "emb_lookahead_wait(table [, number])",
     .arguments = HELP_TABLE "; number INTEGER: of a look-ahead of this "
                             "connection; without it the newest is awaited",
     .result = "INTEGER: waits until the look-ahead is done; returns its "
               "number, or NULL if there was none",
     .errors = HELP_NO_TABLE
     ", or the number is not among the last 64 look-aheads; " HELP_TYPE,
     .in_transaction = "read",
     .page = "prefetch.md#look-ahead"},
    {.name = "emb_snapshot",
     .kind = "function",
     .signature = "emb_snapshot(table, name)",
     .arguments =
         HELP_TABLE "; name TEXT: 1 to 64 letters, digits, '_', '-' and '.'",
     .result = "INTEGER: takes a snapshot of the table, without copying "
               "vectors; returns the number of its keys",
     .errors = HELP_NO_TABLE
     ", the name is malformed, or a snapshot has this name; " HELP_READONLY,
     .in_transaction = "no",
     .page = "snapshots.md#taking-and-reading"},
    {.name = "emb_snapshot_drop",
     .kind = "function",
     .signature = "emb_snapshot_drop(table, name)",
     .arguments = HELP_TABLE "; name TEXT: of a snapshot",
     .result = "INTEGER: removes the snapshot; returns 1",
     .errors = HELP_NO_TABLE " or no such snapshot; " HELP_READONLY,
     .in_transaction = "no",
     .page = "snapshots.md#taking-and-reading"},
    {.name = "emb_snapshot_export",
     .kind = "function",
     .signature = "emb_snapshot_export(table, name, path [, options])",
     .arguments = HELP_TABLE
     "; name TEXT: of a snapshot; path TEXT: of the file to write; options "
     "TEXT: quantize=none, float16, int8 or int4; level=0 to 19; state=0 or 1; "
     "index=0 or 1; base=NAME of an older snapshot, to write only the changes "
     "since",
     .result = "INTEGER: writes the snapshot to a file; returns the number of "
               "rows written",
     .errors = HELP_NO_TABLE
     ", no such snapshot, or an unknown option; SQLITE_CANTOPEN if path cannot "
     "be written or is another kind of file; SQLITE_FULL if the disk is "
     "full; " HELP_READONLY,
     .in_transaction = "no",
     .page = "snapshots.md#files"},
    {.name = "emb_snapshot_restore",
     .kind = "function",
     .signature = "emb_snapshot_restore(table, path)",
     .arguments = HELP_TABLE "; path TEXT: of a snapshot's file",
     .result = "INTEGER: makes the table's contents those of the file, in a "
               "transaction of its own; returns the number of rows read",
     .errors = HELP_NO_TABLE
     "; SQLITE_CANTOPEN if the file cannot be opened; SQLITE_NOTADB if it is "
     "no emb file; SQLITE_CORRUPT if it is damaged; SQLITE_CONSTRAINT if an "
     "earlier increment is missing; " HELP_CHANGED "; " HELP_READONLY,
     .in_transaction = "no",
     .page = "snapshots.md#files"},
    {.name = "emb_delta_begin",
     .kind = "function",
     .signature = "emb_delta_begin(table, consumer [, where [, keep_bytes]])",
     .arguments =
         HELP_TABLE "; " HELP_CONSUMER
                    "; where TEXT: 'all' (the next delta is the whole table, "
                    "the default) or 'now'; keep_bytes INTEGER: space to keep "
                    "for unacknowledged deletions, in bytes, default 1 GiB",
     .result = "NULL: makes the consumer start over",
     .errors = HELP_NO_TABLE ", or where is unknown; " HELP_CHANGED
                             "; " HELP_READONLY,
     .in_transaction = "no",
     .page = "deltas.md#consumers"},
    {.name = "emb_delta_ack",
     .kind = "function",
     .signature = "emb_delta_ack(table, consumer [, upto])",
     .arguments = HELP_TABLE
     "; " HELP_CONSUMER
     "; upto INTEGER: the hidden column upto of the delta that was read",
     .result = "NULL: acknowledges the consumer's newest complete delta, so "
               "that the next one begins there",
     .errors =
         HELP_NO_TABLE " or no such consumer; " HELP_CHANGED "; " HELP_READONLY,
     .in_transaction = "no",
     .page = "deltas.md#consumers"},
    {.name = "emb_delta_drop",
     .kind = "function",
     .signature = "emb_delta_drop(table, consumer)",
     .arguments = HELP_TABLE "; " HELP_CONSUMER,
     .result = "INTEGER: removes the consumer, and no longer keeps deletions "
               "for it; returns 1",
     .errors =
         HELP_NO_TABLE " or no such consumer; " HELP_CHANGED "; " HELP_READONLY,
     .in_transaction = "no",
     .page = "deltas.md#consumers"},
    {.name = "emb_delta_export",
     .kind = "function",
     .signature = "emb_delta_export(table, consumer, path [, options])",
     .arguments = HELP_TABLE
     "; " HELP_CONSUMER
     "; path TEXT: of the file to write; options TEXT: quantize=none, float16, "
     "int8 or int4; level=0 to 19; state=0 or 1",
     .result = "INTEGER: writes the consumer's next delta to a file; returns "
               "the number of rows",
     .errors = HELP_NO_TABLE
     ", or an unknown option; SQLITE_CANTOPEN if path cannot be written or is "
     "another kind of file; SQLITE_CONSTRAINT if the consumer is "
     "lost; " HELP_CHANGED "; " HELP_READONLY,
     .in_transaction = "no",
     .page = "deltas.md#files"},
    {.name = "emb_delta_apply",
     .kind = "function",
     .signature = "emb_delta_apply(table, path [, join])",
     .arguments = HELP_TABLE "; path TEXT: of a delta's file; join TEXT: "
                             "'join' accepts the delta whatever came before",
     .result = "INTEGER: applies the file in a transaction of its own; returns "
               "the number of rows put and deleted, 0 if it was applied before",
     .errors = HELP_NO_TABLE
     "; SQLITE_CANTOPEN if the file cannot be opened; SQLITE_NOTADB if it is "
     "no emb file; SQLITE_CORRUPT if it is damaged; SQLITE_CONSTRAINT if an "
     "earlier delta is missing; " HELP_CHANGED "; " HELP_READONLY,
     .in_transaction = "no",
     .page = "deltas.md#files"},
    {.name = "emb_delta_position",
     .kind = "function",
     .signature = "emb_delta_position(table)",
     .arguments = HELP_TABLE,
     .result = "TEXT: the last delta applied, a JSON object with source, "
               "consumer, number and mark; NULL if there was none",
     .errors = HELP_NO_TABLE,
     .in_transaction = "read",
     .page = "deltas.md#files"},
    {.name = "emb_sample_keys",
     .kind = "function",
     .signature =
         "emb_sample_keys(table, n [, distribution [, options [, without]]])",
     .arguments = HELP_TABLE "; " HELP_DRAW,
     .result =
         "BLOB of int64 (JSON in a table with text keys): keys drawn at random",
     .errors = HELP_NO_TABLE
     ", n is out of range, or the distribution or an option is unknown; "
     "SQLITE_MISMATCH if a value has the wrong type",
     .in_transaction = "read",
     .page = "sampling.md#arguments"},
    {.name = "emb_serve",
     .kind = "function",
     .signature = "emb_serve([table, ...])",
     .arguments = "table TEXT, any number: 'items' or 'schema.items'; none: "
                  "all tables of main",
     .result = "nothing: owns the tables' stores and serves other processes "
               "until it is interrupted",
     .errors = "SQLITE_INTERRUPT when it ends; SQLITE_BUSY if another process "
               "owns a store for longer than timeout; SQLITE_LOCKED in a "
               "transaction or a SELECT with FROM; " HELP_NO_TABLE,
     .in_transaction = "no",
     .page = "processes.md#a-process-that-only-serves"},
    {.name = "emb_gc",
     .kind = "function",
     .signature = "emb_gc()",
     .arguments = "none",
     .result = "INTEGER: removes the directories of stores that belong to no "
               "table; returns how many",
     .errors = "SQLITE_LOCKED inside a transaction; " HELP_READONLY,
     .in_transaction = "no",
     .page = "files-and-backup.md#stores-that-were-left-behind"},
    {.name = NULL}};
