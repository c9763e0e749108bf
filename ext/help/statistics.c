/* SPDX-License-Identifier: MIT
**
** statistics.c -- the names that emb_stats returns, in its order.
*/
#include "help.h"

#define HELP_STAT(NAME, UNIT, MEANING)                                         \
  {                                                                            \
    .name = NAME, .kind = "statistic",                                         \
    .signature =                                                               \
        "SELECT value FROM emb_stats('items') WHERE name = '" NAME "'",        \
    .arguments = UNIT, .result = MEANING, .errors = HELP_NO_TABLE,             \
    .in_transaction = "read", .page = "metrics.md#a-store"                     \
  }
#define HELP_COUNT(NAME, UNIT, MEANING)                                        \
  HELP_STAT(NAME, "INTEGER, " UNIT, MEANING)
#define HELP_TEXT(NAME, MEANING) HELP_STAT(NAME, "TEXT", MEANING)
/* Background work; DOES as in metrics.md. */
#define HELP_TASK(NAME, DOES)                                                  \
  HELP_COUNT("task_" NAME "_ms_ago", "ms",                                     \
             "time since the last run of the task " NAME ", which " DOES       \
             "; -1: it has not run"),                                          \
      HELP_COUNT("task_" NAME "_us", "us",                                     \
                 "duration of the last run of the task " NAME                  \
                 ", which " DOES),                                             \
      HELP_COUNT("task_" NAME "_pieces", "times",                              \
                 "the task " NAME ", which " DOES                              \
                 ", ran and did something, since the store was opened")

const struct ext_help ext_help_statistics[] = {
    /* State and configuration */
    HELP_TEXT("directory", "the store's directory"),
    HELP_TEXT("io", "I/O method in use, uring or pread"),
    HELP_TEXT("simd",
              "instructions used for conversions: scalar, avx2, avx512"),
    HELP_TEXT("type", "float32 or float16, as stored; of several vector "
                      "columns each, as float16, float32"),
    HELP_COUNT("dimensions", "floats", "length of a vector"),
    HELP_COUNT("keys", "keys", "committed keys"),
    HELP_COUNT("failed", "code",
               "0, or the engine's error code for the write that failed; 12: "
               "the directory was moved, deleted or replaced; writes are "
               "refused until the store is reopened"),
    HELP_TEXT("failed_reason", "the reason, as in the error of each refused "
                               "write; empty while nothing has failed"),
    HELP_COUNT("in_doubt", "number",
               "transaction that a crash left undecided, or 0"),
    HELP_COUNT("transaction", "number",
               "last transaction committed together with the database"),
    /* Memory and disk space */
    HELP_COUNT("memory_bytes", "bytes", "the budget, in whole frames"),
    HELP_COUNT("index_bytes", "bytes",
               "memory of the index, in addition to the budget"),
    HELP_COUNT("log_bytes_in_memory", "bytes",
               "part of the budget that holds the newest records"),
    HELP_COUNT("cache_bytes", "bytes",
               "part of the budget that holds hot records from disk"),
    HELP_COUNT("cache_records", "records", "records in the cache"),
    HELP_COUNT("log_bytes", "bytes", "used in the log file"),
    HELP_COUNT("live_bytes", "bytes",
               "part of log_bytes filled by present records"),
    HELP_COUNT("dead_bytes", "bytes",
               "part of log_bytes that the next checkpoint will free"),
    HELP_COUNT("kept_bytes", "bytes",
               "part of log_bytes in extents retained for snapshots or "
               "consumers of deltas"),
    HELP_COUNT("record_bytes", "bytes", "size of one record"),
    HELP_COUNT("page_bytes", "bytes", "size of one page"),
    /* Input, output and waits */
    HELP_COUNT("read_pages", "pages", "pages read to find keys"),
    HELP_COUNT("read_bytes", "bytes",
               "bytes read, including scans and compaction"),
    HELP_COUNT("write_bytes", "bytes",
               "bytes written to the log and the index file"),
    HELP_COUNT("syncs", "times", "the log was synced"),
    HELP_COUNT("flushes", "times", "the log was written out"),
    HELP_COUNT("evictions", "frames", "frames taken from the log or the cache"),
    HELP_COUNT("checkpoints", "times", "a checkpoint was taken"),
    HELP_COUNT("cache_admitted", "records",
               "records put into the cache by reads"),
    HELP_COUNT("cache_evicted", "records", "records that left the cache"),
    HELP_COUNT("waits_for_memory", "times", "a writer waited for the disk"),
    HELP_COUNT("waits_for_key", "times",
               "a writer waited 0.2 ms for a key of an open transaction"),
    HELP_COUNT("manifest_damaged", "times",
               "opening found one slot of the manifest damaged and used the "
               "other, which has the same contents"),
    /* Reads, writes and transactions */
    HELP_COUNT("get_keys", "keys", "keys read singly and in batches"),
    HELP_COUNT("get_memory", "keys",
               "of get_keys, found among the newest records"),
    HELP_COUNT("get_cache", "keys", "of get_keys, found in the cache"),
    HELP_COUNT("get_disk", "keys", "of get_keys, read from disk"),
    HELP_COUNT("get_absent", "keys", "of get_keys, not in the table"),
    HELP_COUNT("put_keys", "rows", "rows written"),
    HELP_COUNT("put_in_place", "rows",
               "of put_keys, changed in place, in memory"),
    HELP_COUNT("rmw_keys", "rows", "rows passed to emb_rmw"),
    HELP_COUNT("delete_keys", "keys", "keys passed to deletions"),
    HELP_COUNT("commits", "times", "a transaction was committed"),
    HELP_COUNT("rollbacks", "times", "a transaction was rolled back"),
    HELP_COUNT("sessions", "sessions", "sessions open now, one per connection"),
    /* The staleness bound */
    HELP_COUNT("staleness", "reads", "the bound, or the text none"),
    HELP_COUNT("staleness_waits", "times",
               "a read waited because a key was at the bound"),
    HELP_COUNT("staleness_busy", "times", "such a wait ended with SQLITE_BUSY"),
    /* Asynchronous batches */
    HELP_COUNT(
        "io_depth", "requests",
        "requests that each worker of asynchronous batches keeps in flight"),
    HELP_COUNT("io_workers", "threads",
               "threads that serve asynchronous batches"),
    HELP_COUNT("io_us", "us", "duration of the last batch's I/O"),
    HELP_COUNT("compute_us", "us",
               "time the batch's connection spent computing during the I/O"),
    HELP_COUNT("wait_us", "us",
               "time the batch's connection then spent waiting for the I/O"),
    HELP_COUNT("io_ratio_percent", "%",
               "io_us as a percentage of compute_us; if it is above 110 in "
               "three batches in a row, io_depth or io_workers is raised; "
               "below 70, lowered"),
    HELP_COUNT("io_raised", "times", "one of the two was raised"),
    HELP_COUNT("io_lowered", "times", "one of the two was lowered"),
    HELP_TEXT("io_decision", "after the last batch: hold, raise or lower"),
    /* Background work */
    HELP_TEXT("background_error", "the newest error of background work, after "
                                  "the name of the task; empty: no error"),
    HELP_COUNT("background_errors", "times",
               "background work failed, since the store was opened"),
    HELP_COUNT("background_error_ms_ago", "ms",
               "time since the newest error; -1: no error"),
    /* Rows removed and records moved in the background */
    HELP_COUNT("expired_keys", "keys",
               "keys removed because their time to live had passed"),
    HELP_COUNT("evicted_keys", "keys",
               "keys removed because the table was over its capacity"),
    HELP_COUNT("compacted_records", "records", "records moved to free space"),
    HELP_COUNT("moved_extents", "pieces of 256 KiB",
               "pieces of the log moved to shorten its file"),
    /* Look-aheads and asynchronous batches */
    HELP_COUNT("lookahead_asked", "keys",
               "keys passed to look-aheads, each counted once per call"),
    HELP_COUNT("lookahead_in_memory", "keys",
               "of lookahead_asked, already in memory"),
    HELP_COUNT("lookahead_absent", "keys",
               "of lookahead_asked, not in the table"),
    HELP_COUNT("lookahead_read", "keys",
               "of lookahead_asked, since read from disk"),
    HELP_COUNT("lookahead_refused", "keys",
               "of lookahead_asked, not kept, because all room was taken by "
               "records looked ahead and not yet used"),
    HELP_COUNT(
        "lookahead_pinned", "records",
        "records now in the cache that were looked ahead and not yet used"),
    HELP_COUNT("prefetch_batches", "batches",
               "batches started by emb_prefetch"),
    HELP_COUNT("write_back_batches", "batches",
               "batches started by emb_write_back and emb_apply_async"),
    /* How effective the memory is */
    HELP_COUNT("hit_permille", "thousandths",
               "share of reads of existing keys answered from memory, since "
               "the store was opened; -1: no such reads"),
    HELP_COUNT("hit_permille_recent", "thousandths",
               "the same for the last minute, or since the memory was changed"),
    HELP_COUNT(
        "hit_permille_twice_memory", "thousandths",
        "what hit_permille_recent would have been with twice the memory"),
    HELP_TEXT("memory_advice", "advice that follows from these numbers"),
    /* The warm-up */
    HELP_TEXT("warm", "the warm-up: off, running or done"),
    HELP_COUNT("warm_bytes", "bytes", "bytes read by the warm-up"),
    HELP_COUNT("warm_rows", "rows", "rows put into memory by the warm-up"),
    HELP_COUNT("warm_ms", "milliseconds",
               "working time of the warm-up, without its pauses"),
    HELP_COUNT("warm_errors", "times",
               "the warm-up could not read something, or the hot set could not "
               "be written"),
    HELP_COUNT("warm_damaged", "times",
               "the file of the hot set could not be used"),
    HELP_COUNT("rows_in_memory", "rows",
               "of keys, the rows whose vector is in memory now"),
    /* Admission */
    HELP_COUNT("filtered_keys", "keys",
               "absent keys that were not admitted, counted each time"),
    HELP_COUNT("filtered_updates", "rows",
               "dropped gradients and deltas for such keys"),
    HELP_COUNT("admission_damaged", "times",
               "the counts of admission could not be read from their file and "
               "restarted from zero"),
    /* Nearest neighbours found with an index */
    HELP_TEXT(
        "nearest_index",
        "off: no vector has an index. waiting for rows: the table has fewer "
        "than 1,024 rows. more than memory=, failed: there is no index. "
        "loading, sampling, training, filling, measuring: the index is being "
        "built, and searches compare all rows. ready: searches use the index"),
    HELP_TEXT(
        "nearest_file",
        "state of the index file, at the last opening or since: none, loaded, "
        "saved, damaged, another (written with other options, or in another "
        "format), cannot be read, no space, cannot be written. If the file is "
        "not loaded, the index is rebuilt in the background"),
    HELP_COUNT("nearest_rows", "rows",
               "rows in the index lists, over all vectors with an index"),
    HELP_COUNT("nearest_recent", "rows",
               "rows not yet in a list, which are compared with each query"),
    HELP_COUNT(
        "nearest_behind", "rows, about",
        "rows that training has changed since they were put into their lists"),
    HELP_COUNT("nearest_lists", "lists",
               "number of lists, over all vectors with an index"),
    HELP_COUNT("nearest_bytes", "bytes", "memory used by the index"),
    HELP_COUNT("nearest_made", "times",
               "the index was built from the rows, since the store was opened"),
    HELP_COUNT("nearest_saved", "times",
               "the index was written to its file, since the store was opened"),
    HELP_COUNT("nearest_queries", "queries", "queries answered with the index"),
    HELP_COUNT("nearest_promised_permille", "thousandths",
               "recall that the index promises; of several, the one whose "
               "measured recall exceeds it least; 0: none"),
    HELP_COUNT("nearest_recall_permille", "thousandths",
               "recall of that index in the last measurement, the lowest for "
               "1, 10 and 100 rows"),
    HELP_COUNT("nearest_measured_at", "Unix s",
               "time of that measurement; 0: none since the index was built"),
    HELP_COUNT(
        "nearest_measured", "times",
        "the recall of an index was measured, since the store was opened"),
    HELP_COUNT("nearest_candidates", "rows", "rows compared for these queries"),
    /* Samples */
    HELP_COUNT("samples", "calls", "calls that drew rows at random"),
    HELP_COUNT("sample_bytes", "bytes",
               "memory used by the update counts, for draws by frequency"),
    HELP_COUNT("sample_counted", "times",
               "the updates were counted by a pass over the table, since the "
               "store was opened"),
    /* Averaged gradients */
    HELP_COUNT("gradients_pending", "gradients",
               "gradients now waiting to be averaged; those of a key in one "
               "call count as one"),
    HELP_COUNT("gradients_pending_keys", "keys", "keys with pending gradients"),
    HELP_COUNT("gradients_pending_bytes", "bytes",
               "memory used by pending gradients, at most about an eighth of "
               "memory_bytes"),
    HELP_COUNT("gradients_kept", "gradients",
               "gradients received for averaging"),
    HELP_COUNT("gradients_steps", "steps",
               "optimizer steps made with averages"),
    HELP_COUNT("gradients_outliers", "gradients",
               "gradients left out as outliers"),
    HELP_COUNT("gradients_refused", "gradients",
               "gradients in averages whose step would not have been finite"),
    HELP_COUNT("gradients_overflows", "times",
               "the oldest gradients were applied for lack of memory"),
    /* Other processes */
    HELP_COUNT("owner", "0 or 1",
               "1 if this process itself owns the store for writing"),
    HELP_COUNT(
        "owner_pid", "number",
        "process that owns the store; 0: none, or a process that cannot be "
        "seen. While the owner does not answer, this is the only row"),
    HELP_COUNT("owner_since", "seconds since 1970",
               "when that process became the owner; 0: not known"),
    HELP_COUNT("clients", "sessions",
               "sessions of other processes that the owner serves"),
    HELP_TASK("flush",
              "writes records from memory to disk, and makes room in memory"),
    HELP_TASK("identity", "checks that the store's files are still its own, "
                          "twice a second while anything changes"),
    HELP_TASK("snapshots", "frees space that only dropped snapshots needed"),
    HELP_TASK("readers", "frees space that other processes were still reading, "
                         "once they have finished"),
    HELP_TASK("expire", "removes rows whose time to live has passed"),
    HELP_TASK("evict", "removes rows beyond the capacity"),
    HELP_TASK("compact", "moves the live records of an extent together"),
    HELP_TASK("checkpoint", "makes writes durable, and frees dead space"),
    HELP_TASK("shorten",
              "moves extents down in a file that is longer than necessary"),
    HELP_TASK("advice",
              "begins the next half-minute of observations for memory_advice"),
    HELP_TASK("warm", "reads in rows that will be needed"),
    HELP_TASK("nearest", "builds the index, saves it, and keeps it up to date"),
    HELP_TASK("gradients", "applies averages that have waited long enough"),
    HELP_TASK("control",
              "in a client, closes the link through which the process asks for "
              "its tables, after 3 s without a request"),
    {.name = NULL}};
