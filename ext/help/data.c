/* SPDX-License-Identifier: MIT
**
** data.c -- what chooses training data: functions, tables of samples, methods.
*/
#include "help.h"

#ifndef EMB_OMIT_DATA

#define HELP_PIPELINE                                                          \
  "SQLITE_ERROR if there is no such pipeline, its tables are missing "         \
  "(emb_pipeline_create), the prefix is no plain name or a policy is wrong"

#define HELP_PREFIX                                                            \
  "; prefix TEXT: of the tables, default 'modyn_', or none if there is no "    \
  "table modyn_pipeline"

#define HELP_CREATE                                                            \
  "SQLITE_ERROR if something has one of the names already or the prefix is "   \
  "no plain name; SQLITE_MISMATCH if it is no TEXT; SQLITE_READONLY if "       \
  "nothing may be written"

const struct ext_help ext_help_data[] = {
    {.name = "emb_random",
     .kind = "function",
     .signature = "emb_random(seed, key [, stream])",
     .arguments = "seed, key, stream: each INTEGER, TEXT or BLOB; another "
                  "stream (default 0) gives unrelated numbers for the same key",
     .result = "REAL from 0 to below 1, always the same for the same "
               "arguments; NULL if an argument is NULL",
     .errors =
         "SQLITE_MISMATCH if an argument is a REAL that is not an integer",
     .in_transaction = "read",
     .page = "choosing.md#random-numbers"},
    {.name = "emb_exponential",
     .kind = "function",
     .signature = "emb_exponential(seed, key [, stream])",
     .arguments = "seed, key, stream: each INTEGER, TEXT or BLOB; another "
                  "stream (default 0) gives unrelated numbers for the same key",
     .result = "REAL: -ln(1 - emb_random(...)); ORDER BY it divided by a "
               "weight draws rows in proportion to the weight",
     .errors =
         "SQLITE_MISMATCH if an argument is a REAL that is not an integer",
     .in_transaction = "read",
     .page = "choosing.md#random-numbers"},
    {.name = "emb_drift_mmd",
     .kind = "aggregate",
     .signature = "emb_drift_mmd(value, is_reference [, options])",
     .arguments = "value: a number or a vector, of the same type in all rows; "
                  "is_reference INTEGER: 0 for one sample, any other number "
                  "for the other; options TEXT: gamma=x, bandwidth=x, "
                  "median=all, estimate=biased",
     .result = "REAL: the squared maximum mean discrepancy of the two samples; "
               "NULL with fewer than two rows of one of them",
     .errors = "SQLITE_MISMATCH if values differ in type or dimension; "
               "SQLITE_ERROR if JSON is malformed or an option is unknown; "
               "SQLITE_CONSTRAINT if a value is not finite",
     .in_transaction = "read",
     .page = "choosing.md#drift"},
    {.name = "emb_drift_ks",
     .kind = "aggregate",
     .signature = "emb_drift_ks(value, is_reference)",
     .arguments = "value: a number or a vector, of the same type in all rows; "
                  "is_reference INTEGER: 0 for one sample, any other number "
                  "for the other",
     .result = "REAL: the Kolmogorov-Smirnov statistic, 0 to 1; NULL without "
               "rows of one sample",
     .errors =
         "SQLITE_MISMATCH if values differ in type or dimension; SQLITE_ERROR "
         "if JSON is malformed; SQLITE_CONSTRAINT if a value is not finite",
     .in_transaction = "read",
     .page = "choosing.md#drift"},
    {.name = "emb_drift_cvm",
     .kind = "aggregate",
     .signature = "emb_drift_cvm(value, is_reference)",
     .arguments = "value: a number or a vector, of the same type in all rows; "
                  "is_reference INTEGER: 0 for one sample, any other number "
                  "for the other",
     .result = "REAL: the Cramer-von Mises statistic; NULL without rows of one "
               "sample",
     .errors =
         "SQLITE_MISMATCH if values differ in type or dimension; SQLITE_ERROR "
         "if JSON is malformed; SQLITE_CONSTRAINT if a value is not finite",
     .in_transaction = "read",
     .page = "choosing.md#drift"},
    {.name = "emb_drift_hellinger",
     .kind = "aggregate",
     .signature = "emb_drift_hellinger(value, is_reference [, options])",
     .arguments = "value: a number or a vector, of the same type in all rows; "
                  "is_reference INTEGER: 0 for one sample, any other number "
                  "for the other; options TEXT: bins=n",
     .result = "REAL: the Hellinger distance between the two histograms, 0 to "
               "1; NULL without rows of one sample",
     .errors = "SQLITE_MISMATCH if values differ in type or dimension; "
               "SQLITE_ERROR if JSON is malformed or an option is unknown; "
               "SQLITE_CONSTRAINT if a value is not finite",
     .in_transaction = "read",
     .page = "choosing.md#drift"},
    {.name = "emb_coreset",
     .kind = "aggregate",
     .signature = "emb_coreset(key, vector, n, method)",
     .arguments =
         "key INTEGER: unique in the group; vector: " HELP_VECTOR
         "; n INTEGER: how many rows to choose; method TEXT: 'k-center', "
         "'craig', 'gradmatch' or 'submodular(...)', with options",
     .result = "BLOB: the n most representative rows, for emb_chosen; NULL "
               "without rows",
     .errors = "SQLITE_ERROR if the method or an option is unknown or n is "
               "below 1; SQLITE_MISMATCH if the dimensions differ or a value "
               "has the wrong type; SQLITE_CONSTRAINT if a key comes twice",
     .in_transaction = "read",
     .page = "choosing.md#coresets"},
    {.name = "emb_chosen",
     .kind = "table-valued function",
     .signature = "emb_chosen(emb_coreset)",
     .arguments = "emb_coreset BLOB: from emb_coreset",
     .result = "rows of rank INTEGER (from 1), key INTEGER, weight REAL, gain "
               "REAL: the chosen rows, in the order in which they were chosen",
     .errors = "SQLITE_ERROR without an argument; SQLITE_MISMATCH if it is no "
               "BLOB of emb_coreset",
     .in_transaction = "read",
     .page = "choosing.md#coresets"},
    {.name = "emb_entropy",
     .kind = "function",
     .signature = "emb_entropy(probabilities)",
     .arguments = "probabilities: " HELP_VECTOR,
     .result = "REAL: -sum of p ln p; 0 if one class is certain",
     .errors = HELP_NO_VECTOR,
     .in_transaction = "read",
     .page = "choosing.md#uncertainty"},
    {.name = "emb_accuracy",
     .kind = "aggregate",
     .signature = "emb_accuracy(scores, label [, top])",
     .arguments =
         "scores: " HELP_VECTOR
         ", a score for each class, or an INTEGER to compare with the label; "
         "label INTEGER: a class, from 0; top INTEGER: default 1",
     .result = "REAL: the share of rows whose label is among the top greatest "
               "scores; NULL without rows",
     .errors = "SQLITE_ERROR if JSON is malformed or the label is no class; "
               "SQLITE_MISMATCH if a value has the wrong type",
     .in_transaction = "read",
     .page = "choosing.md#how-good-a-model-is"},
    {.name = "emb_f1",
     .kind = "aggregate",
     .signature = "emb_f1(predicted, label [, average])",
     .arguments = "predicted, label: a class, INTEGER or TEXT; average TEXT: "
                  "'macro' (default), 'micro', 'weighted' or 'binary'",
     .result = "REAL: F1; NULL without rows",
     .errors = "SQLITE_ERROR if the average is unknown; SQLITE_MISMATCH if a "
               "class is neither INTEGER nor TEXT",
     .in_transaction = "read",
     .page = "choosing.md#how-good-a-model-is"},
    {.name = "emb_auc",
     .kind = "aggregate",
     .signature = "emb_auc(score, label)",
     .arguments = "score: a number; label INTEGER: 0 or 1",
     .result =
         "REAL: the area under the ROC curve; NULL without rows of both labels",
     .errors =
         "SQLITE_MISMATCH if the score is no number or the label is not 0 or 1",
     .in_transaction = "read",
     .page = "choosing.md#how-good-a-model-is"},
    {.name = "emb_log_loss",
     .kind = "aggregate",
     .signature = "emb_log_loss(score, label)",
     .arguments =
         "score: the probability of label 1, or a vector with the probability "
         "of each class; label INTEGER: 0 or 1, or a class from 0",
     .result =
         "REAL: the mean of -ln(probability of the label); NULL without rows",
     .errors = "SQLITE_CONSTRAINT if a probability is outside 0 to 1; "
               "SQLITE_MISMATCH if the label is no class",
     .in_transaction = "read",
     .page = "choosing.md#how-good-a-model-is"},
    {.name = "emb_diff",
     .kind = "function",
     .signature = "emb_diff(base, result [, options])",
     .arguments =
         "base, result BLOB: of any length; options TEXT: operator=sub or xor, "
         "width=1, 2, 4 or 8 (bytes of an element), split_exponent=on or off, "
         "rle=on or off, level=0 to 19",
     .result = "BLOB: how to make result from base, for emb_patch; NULL if an "
               "argument is NULL",
     .errors = "SQLITE_MISMATCH if base or result is not a BLOB; SQLITE_ERROR "
               "if an option is unknown",
     .in_transaction = "read",
     .page = "models.md#differences"},
    {.name = "emb_patch",
     .kind = "function",
     .signature = "emb_patch(base, difference)",
     .arguments = "base BLOB; difference BLOB: from emb_diff",
     .result = "BLOB: the result that emb_diff was given, bit for bit",
     .errors = "SQLITE_MISMATCH if base is another one; SQLITE_CORRUPT if the "
               "difference is damaged; SQLITE_NOTADB if it is no difference",
     .in_transaction = "read",
     .page = "models.md#differences"},
    {.name = "emb_pipeline_create",
     .kind = "function",
     .signature = "emb_pipeline_create([prefix])",
     .arguments = "prefix TEXT: of the tables' names, default 'modyn_', '' for "
                  "none",
     .result = "INTEGER: makes the tables of pipelines and returns their "
               "number; 0 if all are there already",
     .errors = HELP_CREATE,
     .in_transaction = "yes",
     .page = "pipelines.md#the-tables"},
    {.name = "emb_models_create",
     .kind = "function",
     .signature = "emb_models_create([prefix])",
     .arguments = "prefix TEXT: of the tables' names, default 'modyn_', '' for "
                  "none",
     .result = "INTEGER: makes the tables of models and returns their number; "
               "0 if all are there already",
     .errors = HELP_CREATE ", or the tables of pipelines are missing",
     .in_transaction = "yes",
     .page = "models.md#the-tables"},
    {.name = "emb_pipeline_run",
     .kind = "function",
     .signature = "emb_pipeline_run(pipeline [, prefix])",
     .arguments = "pipeline: its name or its number" HELP_PREFIX,
     .result = "INTEGER: asks the trigger policy, makes the next trigger's "
               "selection and returns the trigger's number; NULL if there is "
               "nothing more to decide or the pipeline waits",
     .errors = HELP_PIPELINE,
     .in_transaction = "yes",
     .page = "pipelines.md#triggers"},
    {.name = "emb_downsample",
     .kind = "function",
     .signature = "emb_downsample(pipeline, trigger [, epoch [, prefix]])",
     .arguments = "pipeline: its name or its number; trigger INTEGER; epoch "
                  "INTEGER: default 0" HELP_PREFIX,
     .result = "INTEGER: chooses again among the selected samples, by the "
               "model's scores; returns their number",
     .errors = HELP_PIPELINE ", or no such trigger",
     .in_transaction = "yes",
     .page = "pipelines.md#downsampling"},
    {.name = "emb_evaluation_intervals",
     .kind = "function",
     .signature = "emb_evaluation_intervals(pipeline [, prefix])",
     .arguments = "pipeline: its name or its number" HELP_PREFIX,
     .result = "INTEGER: writes the intervals of the evaluation policy; "
               "returns the number of new ones",
     .errors = HELP_PIPELINE,
     .in_transaction = "yes",
     .page = "pipelines.md#evaluation"},
    {.name = "emb_selected",
     .kind = "table-valued function",
     .signature = "emb_selected(pipeline, trigger [, partition [, worker [, "
                  "workers [, epoch [, prefix]]]]])",
     .arguments = "pipeline: its name or its number; trigger INTEGER; "
                  "partition INTEGER: from 0, NULL for all; worker, workers "
                  "INTEGER: a worker's share, worker from 0; epoch INTEGER: of "
                  "emb_downsample" HELP_PREFIX,
     .result = "rows of place INTEGER (from 0), key, weight REAL: the samples "
               "to train on",
     .errors = HELP_PIPELINE ", or no such trigger",
     .in_transaction = "read",
     .page = "pipelines.md#the-tables"},
    {.name = "emb_policies",
     .kind = "table-valued function",
     .signature = "emb_policies",
     .arguments = "none",
     .result = "rows of kind, name, about, options (JSON), sql, all TEXT: the "
               "built-in policies of pipelines",
     .errors = "none",
     .in_transaction = "read",
     .page = "pipelines.md#policies-of-your-own"},
    {.name = "emb_join_create",
     .kind = "function",
     .signature = "emb_join_create(joiner)",
     .arguments = "joiner TEXT: a name or 'schema.name'",
     .result = "NULL: creates the tables of a joiner",
     .errors = "SQLITE_ERROR if the name is malformed or taken, or there is no "
               "such schema",
     .in_transaction = "yes",
     .page = "joining.md#events"},
    {.name = "emb_join_drop",
     .kind = "function",
     .signature = "emb_join_drop(joiner)",
     .arguments = "joiner TEXT: a name or 'schema.name'",
     .result = "INTEGER: removes the joiner with its tables; returns 1",
     .errors = "SQLITE_ERROR if there is no such joiner",
     .in_transaction = "yes",
     .page = "joining.md#events"},
    {.name = "emb_join",
     .kind = "table-valued function",
     .signature = "emb_join(joiner, source, query [, batch])",
     .arguments =
         "joiner TEXT: a name or 'schema.name'; source TEXT: a row of the "
         "joiner's sources; query TEXT: a SELECT of position, request, time, "
         "kind and features; batch: any value, ?2 in the query",
     .result = "rows of number INTEGER, request, time INTEGER, kind TEXT, "
               "label REAL, weight REAL, log_odds REAL, features: takes in the "
               "events and returns the examples made from them",
     .errors = "SQLITE_ERROR if there is no such joiner or source, or an event "
               "is malformed; then nothing changes",
     .in_transaction = "yes",
     .page = "joining.md#events"},
    {.name = "emb_samples_get",
     .kind = "table-valued function",
     .signature = "emb_samples_get(table, keys)",
     .arguments = "table TEXT: a table of emb_samples; " HELP_KEYS,
     .result = "rows of pos INTEGER (from 0), found INTEGER, key INTEGER, "
               "payload, label, timestamp INTEGER, dataset TEXT, path TEXT: "
               "one per key, in the order of the list",
     .errors =
         "SQLITE_ERROR if it is no table of emb_samples; SQLITE_MISMATCH if a "
         "file has changed; SQLITE_CANTOPEN or SQLITE_IOERR if it cannot be "
         "read; SQLITE_MISMATCH also if keys has the wrong type",
     .in_transaction = "read",
     .page = "samples.md#calls"},
    {.name = "emb_samples_worker",
     .kind = "table-valued function",
     .signature =
         "emb_samples_worker(table, worker, workers [, start [, end]])",
     .arguments = "table TEXT: a table of emb_samples; worker INTEGER: 0 to "
                  "workers - 1; workers INTEGER; start, end INTEGER: "
                  "timestamps, from start on and before end, or NULL",
     .result = "rows of key INTEGER, payload, label, timestamp INTEGER, "
               "dataset TEXT, path TEXT: this worker's share of the samples, "
               "in the order of keys",
     .errors = "SQLITE_ERROR if it is no table of emb_samples; SQLITE_MISMATCH "
               "if a file has changed; SQLITE_CANTOPEN or SQLITE_IOERR if it "
               "cannot be read",
     .in_transaction = "read",
     .page = "samples.md#workers"},
    {.name = "emb_samples_directory",
     .kind = "table-valued function",
     .signature = "emb_samples_directory(directory [, pattern])",
     .arguments = "directory TEXT: its path; pattern TEXT: a GLOB pattern for "
                  "the file names",
     .result = "rows of path TEXT, bytes INTEGER, changed INTEGER (seconds "
               "since 1970): the files of the directory, by name",
     .errors =
         "SQLITE_CANTOPEN if the directory does not exist or cannot be read",
     .in_transaction = "read",
     .page = "samples.md#directories"},
    {.name = "emb_samples",
     .kind = "table",
     .signature =
         "CREATE VIRTUAL TABLE samples USING emb_samples([option=value, ...])",
     .arguments =
         "options of the files' format, such as record=3073 or format=csv",
     .result = "a table of training samples in files and rows, with the "
               "columns key, payload, label, timestamp, dataset and path",
     .errors = "SQLITE_ERROR if an option or its value is unknown",
     .in_transaction = "yes",
     .page = "samples.md#calls"},
    {.name = "format",
     .kind = "samples option",
     .signature = "format=fixed",
     .arguments =
         "fixed, framed, indexed or csv; default fixed if record is given",
     .result = "how a file divides into records",
     .errors = "SQLITE_ERROR if the value is not one of these",
     .in_transaction = "yes",
     .page = "samples.md#files"},
    {.name = "record",
     .kind = "samples option",
     .signature = "record=3073",
     .arguments = "bytes, 1 to 67108864, or a size like 4KiB",
     .result = "size of a record of format=fixed",
     .errors = "SQLITE_ERROR if the value is not one of these",
     .in_transaction = "yes",
     .page = "samples.md#files"},
    {.name = "header",
     .kind = "samples option",
     .signature = "header=16",
     .arguments =
         "bytes, or a size like 1KiB; records of a CSV file; default 0",
     .result = "what comes before the first record",
     .errors = "SQLITE_ERROR if the value is not one of these",
     .in_transaction = "yes",
     .page = "samples.md#files"},
    {.name = "prefix",
     .kind = "samples option",
     .signature = "prefix=4",
     .arguments = "1, 2, 4 or 8 bytes; default 4",
     .result = "size of the length before each record of format=framed",
     .errors = "SQLITE_ERROR if the value is not one of these",
     .in_transaction = "yes",
     .page = "samples.md#files"},
    {.name = "index",
     .kind = "samples option",
     .signature = "index=.idx",
     .arguments = "a suffix of the path",
     .result =
         "the file that holds the offset of each record of format=indexed",
     .errors = "SQLITE_ERROR if the value is not one of these",
     .in_transaction = "yes",
     .page = "samples.md#files"},
    {.name = "separator",
     .kind = "samples option",
     .signature = "separator=comma",
     .arguments =
         "a character, or comma, semicolon, tab, pipe or space; default comma",
     .result = "what separates the fields of a CSV record",
     .errors = "SQLITE_ERROR if the value is not one of these",
     .in_transaction = "yes",
     .page = "samples.md#files"},
    {.name = "byteorder",
     .kind = "samples option",
     .signature = "byteorder=little",
     .arguments = "little or big; default little",
     .result = "of lengths, offsets, labels and timestamps",
     .errors = "SQLITE_ERROR if the value is not one of these",
     .in_transaction = "yes",
     .page = "samples.md#files"},
    {.name = "io",
     .kind = "samples option",
     .signature = "io=direct",
     .arguments = "direct or cached; default direct; for the whole table only",
     .result = "whether reads bypass the system's page cache",
     .errors = "SQLITE_ERROR if the value is not one of these",
     .in_transaction = "yes",
     .page = "samples.md#files"},
    {.name = "label_offset",
     .kind = "samples option",
     .signature = "label_offset=0",
     .arguments = "bytes from the record's beginning",
     .result = "where the label is in a record",
     .errors = "SQLITE_ERROR if the value is not one of these",
     .in_transaction = "yes",
     .page = "samples.md#files"},
    {.name = "label_size",
     .kind = "samples option",
     .signature = "label_size=1",
     .arguments = "bytes; default 1",
     .result = "size of the label",
     .errors = "SQLITE_ERROR if the value is not one of these",
     .in_transaction = "yes",
     .page = "samples.md#files"},
    {.name = "label_type",
     .kind = "samples option",
     .signature = "label_type=uint",
     .arguments = "none, uint, int, float or bytes; default uint",
     .result = "type of the label; none: the records have none",
     .errors = "SQLITE_ERROR if the value is not one of these",
     .in_transaction = "yes",
     .page = "samples.md#files"},
    {.name = "label_column",
     .kind = "samples option",
     .signature = "label_column=label",
     .arguments = "a name in the header, or a number from 0",
     .result = "which column of a CSV file is the label",
     .errors = "SQLITE_ERROR if the value is not one of these",
     .in_transaction = "yes",
     .page = "samples.md#files"},
    {.name = "timestamp_offset",
     .kind = "samples option",
     .signature = "timestamp_offset=0",
     .arguments = "bytes from the record's beginning",
     .result = "where the timestamp is in a record",
     .errors = "SQLITE_ERROR if the value is not one of these",
     .in_transaction = "yes",
     .page = "samples.md#files"},
    {.name = "timestamp_size",
     .kind = "samples option",
     .signature = "timestamp_size=8",
     .arguments = "bytes; default 8",
     .result = "size of the timestamp",
     .errors = "SQLITE_ERROR if the value is not one of these",
     .in_transaction = "yes",
     .page = "samples.md#files"},
    {.name = "timestamp_type",
     .kind = "samples option",
     .signature = "timestamp_type=int",
     .arguments = "none, uint, int, float or bytes; default int",
     .result = "type of the timestamp; none: the records have none",
     .errors = "SQLITE_ERROR if the value is not one of these",
     .in_transaction = "yes",
     .page = "samples.md#files"},
    {.name = "timestamp_column",
     .kind = "samples option",
     .signature = "timestamp_column=timestamp",
     .arguments = "a name in the header, or a number from 0",
     .result = "which column of a CSV file is the timestamp",
     .errors = "SQLITE_ERROR if the value is not one of these",
     .in_transaction = "yes",
     .page = "samples.md#files"},
    {.name = "check",
     .kind = "samples command",
     .signature = "INSERT INTO samples(samples) VALUES ('check')",
     .arguments = "none",
     .result = "checks that no registered file has changed",
     .errors = "SQLITE_ERROR if the command, or a file to drop, is unknown; "
               "SQLITE_MISMATCH if a file has changed",
     .in_transaction = "read",
     .page = "samples.md#files"},
    {.name = "drop",
     .kind = "samples command",
     .signature = "INSERT INTO samples(samples, path) VALUES ('drop', path)",
     .arguments = "path TEXT of a file, or dataset TEXT in its place",
     .result = "forgets a file, or a dataset with its inserted samples, and "
               "their keys",
     .errors = "SQLITE_ERROR if the command, or a file to drop, is unknown",
     .in_transaction = "yes",
     .page = "samples.md#files"},
    {.name = "k-center",
     .kind = "coreset method",
     .signature = "emb_coreset(key, vector, n, 'k-center')",
     .arguments = "options in parentheses: seed=n, greedy=lazy, naive or "
                  "stochastic, epsilon=x, selection_batch=n, lambda=x, "
                  "ridge=x, as far as the method uses them",
     .result = "chooses the row farthest from those already chosen",
     .errors = "SQLITE_ERROR if an option is unknown",
     .in_transaction = "read",
     .page = "choosing.md#coresets"},
    {.name = "craig",
     .kind = "coreset method",
     .signature = "emb_coreset(key, vector, n, 'craig')",
     .arguments = "options in parentheses: seed=n, greedy=lazy, naive or "
                  "stochastic, epsilon=x, selection_batch=n, lambda=x, "
                  "ridge=x, as far as the method uses them",
     .result = "chooses by facility location, with weights; for gradients",
     .errors = "SQLITE_ERROR if an option is unknown",
     .in_transaction = "read",
     .page = "choosing.md#coresets"},
    {.name = "gradmatch",
     .kind = "coreset method",
     .signature = "emb_coreset(key, vector, n, 'gradmatch')",
     .arguments = "options in parentheses: seed=n, greedy=lazy, naive or "
                  "stochastic, epsilon=x, selection_batch=n, lambda=x, "
                  "ridge=x, as far as the method uses them",
     .result = "chooses rows whose weighted sum is nearest to the sum of all, "
               "by orthogonal matching pursuit",
     .errors = "SQLITE_ERROR if an option is unknown",
     .in_transaction = "read",
     .page = "choosing.md#coresets"},
    {.name = "submodular",
     .kind = "coreset method",
     .signature =
         "emb_coreset(key, vector, n, 'submodular(facility_location)')",
     .arguments =
         "facility_location, graph_cut or log_determinant, then options in "
         "parentheses: seed=n, greedy=lazy, naive or stochastic, epsilon=x, "
         "selection_batch=n, lambda=x, ridge=x, as far as the method uses them",
     .result = "chooses rows that maximise facility_location, graph_cut or "
               "log_determinant",
     .errors = "SQLITE_ERROR if an option is unknown",
     .in_transaction = "read",
     .page = "choosing.md#coresets"},
    {.name = NULL}};

#endif
