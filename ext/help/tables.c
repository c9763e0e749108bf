/* SPDX-License-Identifier: MIT
**
** tables.c -- the table-valued functions.
*/
#include "help.h"

const struct ext_help ext_help_tables[] = {
    {.name = "emb_help",
     .kind = "table-valued function",
     .signature = "emb_help([word])",
     .arguments = "word TEXT: a name, with or without emb_, or any word",
     .result = "rows of name, kind, signature, arguments, result, errors, "
               "in_transaction, page, all TEXT: what emb has of this name; if "
               "nothing has it, what mentions the word, or the nearest name",
     .errors = "none",
     .in_transaction = "read",
     .page = "reference.md"},
    {.name = "emb_each",
     .kind = "table-valued function",
     .signature = "emb_each(vector)",
     .arguments = "vector: " HELP_VECTOR,
     .result = "rows of idx INTEGER (from 0), value REAL: one per element",
     .errors = HELP_NO_VECTOR,
     .in_transaction = "read",
     .page = "sql.md#lists-as-tables"},
    {.name = "emb_keys",
     .kind = "table-valued function",
     .signature = "emb_keys(keys)",
     .arguments = HELP_KEYS,
     .result = "rows of value INTEGER: one per key",
     .errors = "SQLITE_MISMATCH if keys is no list of 64-bit integers",
     .in_transaction = "read",
     .page = "sql.md#lists-as-tables"},
    {.name = "emb_keys_check",
     .kind = "table-valued function",
     .signature = "emb_keys_check(table, list)",
     .arguments = HELP_TABLE "; list: BLOB of keys of an unknown type",
     .result = "one row of keys, found, smallest, largest INTEGER, looks_like "
               "TEXT, message TEXT: the likely type of the keys; message is "
               "NULL if all are in the table",
     .errors = HELP_NO_TABLE "; " HELP_TYPE,
     .in_transaction = "read",
     .page = "sql.md#lists-as-tables"},
    {.name = "emb_nearest",
     .kind = "table-valued function",
     .signature = "emb_nearest(table, queries, k [, options [, among]])",
     .arguments = HELP_TABLE
     "; queries: BLOB of m*dim float32, a JSON array, or 'rows' for every row; "
     "k INTEGER: 1 to 1048576; options TEXT: column=name, mode=exact, "
     "recall=r, probes=n, radius=r, threads=n, snapshot=name; among: keys of "
     "the "
     "possible neighbours, a BLOB of int64 or a JSON array",
     .result = "rows of query (from 0, or the key of the row), rank INTEGER "
               "(from 1), key, distance REAL: the "
               "k nearest neighbours (most similar rows) of each query",
     .errors = HELP_NO_TABLE
     ", k is out of range, or an option is unknown; " HELP_TYPE
     "; SQLITE_INTERRUPT",
     .in_transaction = "read",
     .page = "nearest.md#many-queries"},
    {.name = "emb_sample",
     .kind = "table-valued function",
     .signature =
         "emb_sample(table, n [, distribution [, options [, without]]])",
     .arguments = HELP_TABLE "; " HELP_DRAW,
     .result = "rows of key, vector BLOB, probability REAL, expected_count "
               "REAL: keys drawn at random, such as negatives",
     .errors = HELP_NO_TABLE
     ", n is out of range, or the distribution or an option is unknown; "
     "SQLITE_MISMATCH if a value has the wrong type",
     .in_transaction = "read",
     .page = "sampling.md#arguments"},
    {.name = "emb_sample_batch",
     .kind = "table-valued function",
     .signature =
         "emb_sample_batch(table, n [, distribution [, options [, without]]])",
     .arguments = HELP_TABLE "; " HELP_DRAW,
     .result =
         "one row of keys (n int64), vectors (n*dim float32), probabilities "
         "and expected_counts (n float32 each): keys drawn at random",
     .errors = HELP_NO_TABLE
     ", n is out of range, or the distribution or an option is unknown; "
     "SQLITE_MISMATCH if a value has the wrong type",
     .in_transaction = "read",
     .page = "sampling.md#arguments"},
    {.name = "emb_lookahead",
     .kind = "table-valued function",
     .signature = "emb_lookahead(table [, keys [, dest]])",
     .arguments = HELP_TABLE
     "; " HELP_KEYS ", or nothing to see the last 64 look-aheads; dest TEXT: "
     "'buffer' (default) or 'cache' (of this connection)",
     .result = "rows of number, asked, in_memory, absent, to_read, read, "
               "refused, done, all INTEGER: starts to read the keys into "
               "memory, without waiting",
     .errors = HELP_NO_TABLE ", or dest is unknown; " HELP_TYPE,
     .in_transaction = "read",
     .page = "prefetch.md#look-ahead"},
    {.name = "emb_pending",
     .kind = "table-valued function",
     .signature = "emb_pending(table)",
     .arguments = HELP_TABLE,
     .result = "rows of key, n INTEGER, age_ms INTEGER: the keys whose "
               "gradients wait to be averaged",
     .errors = HELP_NO_TABLE,
     .in_transaction = "read",
     .page = "knowledge-bank.md#averaged-gradients"},
    {.name = "emb_evicted",
     .kind = "table-valued function",
     .signature = "emb_evicted(table [, since])",
     .arguments = HELP_TABLE
     "; since INTEGER: a position returned before; default: the oldest",
     .result = "rows of key, op TEXT ('expire' or 'evict'), position INTEGER: "
               "the rows that expired or were evicted, in order of removal",
     .errors = HELP_NO_TABLE ", or it is temporary; " HELP_TYPE,
     .in_transaction = "read",
     .page = "options.md#removed-rows"},
    {.name = "emb_snapshot",
     .kind = "table-valued function",
     .signature = "emb_snapshot(table, name)",
     .arguments = HELP_TABLE "; name TEXT: of a snapshot",
     .result = "rows of key, vector BLOB, version INTEGER: the snapshot's rows",
     .errors = HELP_NO_TABLE " or no such snapshot",
     .in_transaction = "read",
     .page = "snapshots.md#taking-and-reading"},
    {.name = "emb_snapshots",
     .kind = "table-valued function",
     .signature = "emb_snapshots(table)",
     .arguments = HELP_TABLE,
     .result = "rows of name TEXT, keys INTEGER, version INTEGER, bytes "
               "INTEGER, state TEXT: the snapshots, oldest first",
     .errors = HELP_NO_TABLE,
     .in_transaction = "read",
     .page = "snapshots.md#taking-and-reading"},
    {.name = "emb_snapshot_file",
     .kind = "table-valued function",
     .signature = "emb_snapshot_file(path)",
     .arguments = "path TEXT: of a snapshot's file",
     .result = "rows of key, vector BLOB, version INTEGER, updated_at INTEGER, "
               "frequency INTEGER, deleted INTEGER: the file's rows",
     .errors = "SQLITE_CANTOPEN if the file cannot be opened; SQLITE_NOTADB if "
               "it is no emb file; SQLITE_CORRUPT if it is damaged",
     .in_transaction = "read",
     .page = "snapshots.md#files"},
    {.name = "emb_delta",
     .kind = "table-valued function",
     .signature = "emb_delta(table, consumer)",
     .arguments = HELP_TABLE "; " HELP_CONSUMER,
     .result = "rows of key, op TEXT ('put', 'delete', 'expire' or 'evict'), "
               "vector BLOB, version INTEGER: the changes since the consumer's "
               "last emb_delta_ack; creates the consumer at its first use",
     .errors = HELP_NO_TABLE
     ", or the consumer's name is malformed; " HELP_CHANGED
     "; SQLITE_CONSTRAINT if the consumer is lost; " HELP_READONLY,
     .in_transaction = "no",
     .page = "deltas.md#reading-a-delta"},
    {.name = "emb_delta_consumers",
     .kind = "table-valued function",
     .signature = "emb_delta_consumers(table)",
     .arguments = HELP_TABLE,
     .result = "rows of name TEXT, state TEXT, acked, sent, kept_bytes, "
               "keep_bytes INTEGER: the consumers of the table's deltas",
     .errors = HELP_NO_TABLE "; " HELP_CHANGED,
     .in_transaction = "read",
     .page = "deltas.md#consumers"},
    {.name = "emb_stats",
     .kind = "table-valued function",
     .signature = "emb_stats(table)",
     .arguments = HELP_TABLE,
     .result = "rows of name TEXT, value: the metrics of the table's store, "
               "such as keys, memory_bytes, hit_permille and memory_advice",
     .errors = HELP_NO_TABLE,
     .in_transaction = "read",
     .page = "metrics.md#a-store"},
    {.name = "emb_describe",
     .kind = "table-valued function",
     .signature = "emb_describe(table)",
     .arguments = HELP_TABLE,
     .result = "rows of name TEXT, value, remark TEXT: what a person asks of a "
               "table, such as its rows, memory, hit rate, size on disk, "
               "owner, snapshots and index, and as advice the SQL to run",
     .errors = HELP_NO_TABLE,
     .in_transaction = "read",
     .page = "metrics.md#a-table-in-words"},
    {.name = "emb_tables",
     .kind = "table-valued function",
     .signature = "emb_tables",
     .arguments = "none",
     .result = "rows of schema, name, path, key, vector TEXT, dimensions "
               "INTEGER, type TEXT, rows INTEGER, state TEXT, owner INTEGER, "
               "commit_mode TEXT, txn, store_txn INTEGER, uuid, message, "
               "options TEXT, owner_pid, owner_since, clients INTEGER: every "
               "embedding table of the connection",
     .errors = "none: state and message describe a table that cannot be opened",
     .in_transaction = "read",
     .page = "metrics.md#tables"},
    {.name = "emb_progress",
     .kind = "table-valued function",
     .signature = "emb_progress([table])",
     .arguments = HELP_TABLE "; without it the calls of this process",
     .result = "rows of what, path TEXT, done, total INTEGER, unit TEXT, "
               "seconds REAL, process INTEGER: the long calls that run now",
     .errors = HELP_NO_TABLE,
     .in_transaction = "read",
     .page = "metrics.md#progress"},
    {.name = "emb_clients",
     .kind = "table-valued function",
     .signature = "emb_clients(table)",
     .arguments = HELP_TABLE,
     .result = "rows of process, user, since INTEGER, role TEXT, calls "
               "INTEGER, doing TEXT, connection INTEGER: the processes that "
               "use the table, and its owner",
     .errors = HELP_NO_TABLE,
     .in_transaction = "read",
     .page = "processes.md#who-owns"},
    {.name = "emb_serve",
     .kind = "table-valued function",
     .signature = "emb_serve(table [, every [, times]])",
     .arguments = HELP_TABLE
     ", in a database other than main; every REAL: seconds between rows, or a "
     "time like '1 min'; from 0.1 s, default 10; times INTEGER: rows to "
     "return, default no limit",
     .result = "rows of time INTEGER, seconds REAL, clients, calls, rows "
               "INTEGER, state TEXT: owns the table's store, serves other "
               "processes and reports",
     .errors =
         HELP_NO_TABLE ", or every or times is too small; SQLITE_INTERRUPT "
                       "when it is interrupted; SQLITE_LOCKED for a table of "
                       "main; SQLITE_BUSY if another process owns the store",
     .in_transaction = "no",
     .page = "processes.md#a-process-that-only-serves"},
    {.name = "emb_backup",
     .kind = "table-valued function",
     .signature = "emb_backup(path [, schema])",
     .arguments = "path TEXT: of the copy; schema TEXT: of an attached "
                  "database, default main",
     .result = "rows of table TEXT, rows INTEGER, bytes INTEGER, copied "
               "INTEGER, mode TEXT: copies the database and all its embedding "
               "tables, as of one moment",
     .errors = "SQLITE_CANTOPEN if path cannot be written, or is not a backup "
               "of this database; SQLITE_LOCKED in a transaction that has "
               "written; SQLITE_ERROR if there is no such schema; SQLITE_FULL "
               "if the disk is full",
     .in_transaction = "no",
     .page = "files-and-backup.md#a-backup"},
    {.name = "emb_backup_check",
     .kind = "table-valued function",
     .signature = "emb_backup_check(path)",
     .arguments = "path TEXT: of a copy",
     .result = "rows of table TEXT, rows INTEGER, bytes INTEGER, problem TEXT "
               "(NULL: none): reads the whole copy",
     .errors = "SQLITE_CANTOPEN if the copy cannot be opened",
     .in_transaction = "read",
     .page = "files-and-backup.md#checking-one"},
    {.name = NULL}};
