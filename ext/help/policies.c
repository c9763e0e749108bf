/* SPDX-License-Identifier: MIT
**
** policies.c -- the policies of pipelines.
*/
#include "help.h"

#ifndef EMB_OMIT_DATA

#define HELP_SELECTIONS                                                        \
  "; of all selections: tail, share, share_max, limit, warmup_triggers, "      \
  "downsampling, thresholds"
#define HELP_DOWNSAMPLINGS                                                     \
  "; of all downsamplings: share, share_max, period, batch_size"

const struct ext_help ext_help_policies[] = {
    {.name = "amount",
     .kind = "policy",
     .signature = "trigger_policy: {\"policy\": \"amount\", ...}",
     .arguments = "samples INTEGER",
     .result = "triggers after this number of samples",
     .errors = "SQLITE_ERROR from emb_pipeline_run or emb_evaluation_intervals "
               "if an option is missing or unknown",
     .in_transaction = "yes",
     .page = "pipelines.md#triggers"},
    {.name = "time",
     .kind = "policy",
     .signature = "trigger_policy: {\"policy\": \"time\", ...}",
     .arguments =
         "every, start: in the unit of the timestamps; every also \"30 days\"",
     .result = "triggers after each period of the samples' timestamps",
     .errors = "SQLITE_ERROR from emb_pipeline_run or emb_evaluation_intervals "
               "if an option is missing or unknown",
     .in_transaction = "yes",
     .page = "pipelines.md#triggers"},
    {.name = "drift",
     .kind = "policy",
     .signature = "trigger_policy: {\"policy\": \"drift\", ...}",
     .arguments = "metric, interval, reference, current, window, overlap, "
                  "sample_size, criterion",
     .result = "triggers when recent samples differ from those before the last "
               "trigger",
     .errors = "SQLITE_ERROR from emb_pipeline_run or emb_evaluation_intervals "
               "if an option is missing or unknown",
     .in_transaction = "yes",
     .page = "pipelines.md#triggers"},
    {.name = "performance",
     .kind = "policy",
     .signature = "trigger_policy: {\"policy\": \"performance\", ...}",
     .arguments = "metric, interval, higher_is_worse, criterion",
     .result = "triggers when the model does worse on recent samples",
     .errors = "SQLITE_ERROR from emb_pipeline_run or emb_evaluation_intervals "
               "if an option is missing or unknown",
     .in_transaction = "yes",
     .page = "pipelines.md#triggers"},
    {.name = "avoidable",
     .kind = "policy",
     .signature = "trigger_policy: {\"policy\": \"avoidable\", ...}",
     .arguments = "threshold, expected_accuracy, allow_reduction, interval",
     .result = "triggers when the model has made more mistakes than expected",
     .errors = "SQLITE_ERROR from emb_pipeline_run or emb_evaluation_intervals "
               "if an option is missing or unknown",
     .in_transaction = "yes",
     .page = "pipelines.md#triggers"},
    {.name = "latency",
     .kind = "policy",
     .signature = "trigger_policy: {\"policy\": \"latency\", ...}",
     .arguments = "incorporation_delay_per_training_second, interval",
     .result = "triggers when the samples have waited long enough to be worth "
               "a training",
     .errors = "SQLITE_ERROR from emb_pipeline_run or emb_evaluation_intervals "
               "if an option is missing or unknown",
     .in_transaction = "yes",
     .page = "pipelines.md#triggers"},
    {.name = "avoidable_count",
     .kind = "policy",
     .signature = "trigger_policy: {\"policy\": \"avoidable_count\", ...}",
     .arguments = "training_seconds_per_mistake, expected_accuracy, "
                  "allow_reduction, interval",
     .result = "triggers when the number of avoidable mistakes, times the "
               "training time that one is worth, reaches the expected "
               "training time",
     .errors = "SQLITE_ERROR from emb_pipeline_run or emb_evaluation_intervals "
               "if an option is missing or unknown",
     .in_transaction = "yes",
     .page = "pipelines.md#triggers"},
    {.name = "avoidable_latency",
     .kind = "policy",
     .signature = "trigger_policy: {\"policy\": \"avoidable_latency\", ...}",
     .arguments = "avoidable_misclassification_latency_per_training_second, "
                  "expected_accuracy, allow_reduction, interval",
     .result = "triggers when the time that avoidable mistakes have lasted, "
               "times a factor, reaches the expected training time, as in "
               "Modyn",
     .errors = "SQLITE_ERROR from emb_pipeline_run or emb_evaluation_intervals "
               "if an option is missing or unknown",
     .in_transaction = "yes",
     .page = "pipelines.md#triggers"},
    {.name = "ensemble",
     .kind = "policy",
     .signature = "trigger_policy: {\"policy\": \"ensemble\", ...}",
     .arguments = "members, interval, aggregate (majority, at_least with n, "
                  "custom with when)",
     .result = "triggers when enough of several policies do",
     .errors = "SQLITE_ERROR from emb_pipeline_run or emb_evaluation_intervals "
               "if an option is missing or unknown",
     .in_transaction = "yes",
     .page = "pipelines.md#triggers"},
    {.name = "threshold",
     .kind = "policy",
     .signature = "\"criterion\": {\"policy\": \"threshold\", ...}",
     .arguments = "threshold REAL",
     .result = "worse than a fixed value",
     .errors = "SQLITE_ERROR from emb_pipeline_run or emb_evaluation_intervals "
               "if an option is missing or unknown",
     .in_transaction = "yes",
     .page = "pipelines.md#triggers"},
    {.name = "quantile",
     .kind = "policy",
     .signature = "\"criterion\": {\"policy\": \"quantile\", ...}",
     .arguments = "window, quantile",
     .result = "worse than a quantile of the last values",
     .errors = "SQLITE_ERROR from emb_pipeline_run or emb_evaluation_intervals "
               "if an option is missing or unknown",
     .in_transaction = "yes",
     .page = "pipelines.md#triggers"},
    {.name = "rolling_average",
     .kind = "policy",
     .signature = "\"criterion\": {\"policy\": \"rolling_average\", ...}",
     .arguments = "window, deviation, absolute",
     .result =
         "worse than the average of the last values, by more than a deviation",
     .errors = "SQLITE_ERROR from emb_pipeline_run or emb_evaluation_intervals "
               "if an option is missing or unknown",
     .in_transaction = "yes",
     .page = "pipelines.md#triggers"},
    {.name = "new_data",
     .kind = "policy",
     .signature = "selection_policy: {\"policy\": \"new_data\", ...}",
     .arguments = "limit_by" HELP_SELECTIONS,
     .result =
         "chooses all samples, or the last or random ones up to the limit",
     .errors = "SQLITE_ERROR from emb_pipeline_run or emb_evaluation_intervals "
               "if an option is missing or unknown",
     .in_transaction = "yes",
     .page = "pipelines.md#selections"},
    {.name = "random",
     .kind = "policy",
     .signature = "selection_policy: {\"policy\": \"random\", ...}",
     .arguments = "of all selections: tail, share, share_max, limit, "
                  "warmup_triggers, downsampling, thresholds",
     .result = "chooses samples uniformly at random",
     .errors = "SQLITE_ERROR from emb_pipeline_run or emb_evaluation_intervals "
               "if an option is missing or unknown",
     .in_transaction = "yes",
     .page = "pipelines.md#selections"},
    {.name = "random_no_replacement",
     .kind = "policy",
     .signature =
         "selection_policy: {\"policy\": \"random_no_replacement\", ...}",
     .arguments = "of all selections: tail, share, share_max, limit, "
                  "warmup_triggers, downsampling, thresholds",
     .result =
         "chooses no sample a second time before all others have been chosen",
     .errors = "SQLITE_ERROR from emb_pipeline_run or emb_evaluation_intervals "
               "if an option is missing or unknown",
     .in_transaction = "yes",
     .page = "pipelines.md#selections"},
    {.name = "balanced",
     .kind = "policy",
     .signature = "selection_policy: {\"policy\": \"balanced\", ...}",
     .arguments = "by, strict" HELP_SELECTIONS,
     .result = "chooses the same number of samples from each group",
     .errors = "SQLITE_ERROR from emb_pipeline_run or emb_evaluation_intervals "
               "if an option is missing or unknown",
     .in_transaction = "yes",
     .page = "pipelines.md#selections"},
    {.name = "freshness",
     .kind = "policy",
     .signature = "selection_policy: {\"policy\": \"freshness\", ...}",
     .arguments = "unused_share" HELP_SELECTIONS,
     .result = "chooses unused and used samples in fixed shares",
     .errors = "SQLITE_ERROR from emb_pipeline_run or emb_evaluation_intervals "
               "if an option is missing or unknown",
     .in_transaction = "yes",
     .page = "pipelines.md#selections"},
    {.name = "loss",
     .kind = "policy",
     .signature = "\"downsampling\": {\"policy\": \"loss\", ...}",
     .arguments = "of all downsamplings: share, share_max, period, batch_size",
     .result = "draws samples in proportion to score.loss, with weights",
     .errors =
         "SQLITE_ERROR from emb_downsample if an option is missing or unknown",
     .in_transaction = "yes",
     .page = "pipelines.md#downsampling"},
    {.name = "gradient_norm",
     .kind = "policy",
     .signature = "\"downsampling\": {\"policy\": \"gradient_norm\", ...}",
     .arguments = "of all downsamplings: share, share_max, period, batch_size",
     .result =
         "draws samples in proportion to score.gradient_norm, with weights",
     .errors =
         "SQLITE_ERROR from emb_downsample if an option is missing or unknown",
     .in_transaction = "yes",
     .page = "pipelines.md#downsampling"},
    {.name = "rho_loss",
     .kind = "policy",
     .signature = "\"downsampling\": {\"policy\": \"rho_loss\", ...}",
     .arguments = "of all downsamplings: share, share_max, period, batch_size",
     .result = "chooses the samples most above their irreducible loss",
     .errors =
         "SQLITE_ERROR from emb_downsample if an option is missing or unknown",
     .in_transaction = "yes",
     .page = "pipelines.md#downsampling"},
    {.name = "rs2",
     .kind = "policy",
     .signature = "\"downsampling\": {\"policy\": \"rs2\", ...}",
     .arguments = "with_replacement" HELP_DOWNSAMPLINGS,
     .result = "chooses a different random subset in each epoch",
     .errors =
         "SQLITE_ERROR from emb_downsample if an option is missing or unknown",
     .in_transaction = "yes",
     .page = "pipelines.md#downsampling"},
    {.name = "least_confidence",
     .kind = "policy",
     .signature = "\"downsampling\": {\"policy\": \"least_confidence\", ...}",
     .arguments = "of all downsamplings: share, share_max, period, batch_size",
     .result = "chooses the samples whose most probable class has the lowest "
               "probability",
     .errors =
         "SQLITE_ERROR from emb_downsample if an option is missing or unknown",
     .in_transaction = "yes",
     .page = "pipelines.md#downsampling"},
    {.name = "entropy",
     .kind = "policy",
     .signature = "\"downsampling\": {\"policy\": \"entropy\", ...}",
     .arguments = "of all downsamplings: share, share_max, period, batch_size",
     .result = "chooses the samples whose class probabilities have the highest "
               "entropy",
     .errors =
         "SQLITE_ERROR from emb_downsample if an option is missing or unknown",
     .in_transaction = "yes",
     .page = "pipelines.md#downsampling"},
    {.name = "margin",
     .kind = "policy",
     .signature = "\"downsampling\": {\"policy\": \"margin\", ...}",
     .arguments = "of all downsamplings: share, share_max, period, batch_size",
     .result =
         "chooses the samples whose two most probable classes are closest",
     .errors =
         "SQLITE_ERROR from emb_downsample if an option is missing or unknown",
     .in_transaction = "yes",
     .page = "pipelines.md#downsampling"},
    {.name = "k_center",
     .kind = "policy",
     .signature = "\"downsampling\": {\"policy\": \"k_center\", ...}",
     .arguments = "of all downsamplings: share, share_max, period, batch_size",
     .result = "chooses centres: each next one is the sample farthest from "
               "those chosen",
     .errors =
         "SQLITE_ERROR from emb_downsample if an option is missing or unknown",
     .in_transaction = "yes",
     .page = "pipelines.md#downsampling"},
    {.name = "craig",
     .kind = "policy",
     .signature = "\"downsampling\": {\"policy\": \"craig\", ...}",
     .arguments = "greedy, epsilon" HELP_DOWNSAMPLINGS,
     .result = "chooses samples whose weighted gradients represent all, by "
               "facility location",
     .errors =
         "SQLITE_ERROR from emb_downsample if an option is missing or unknown",
     .in_transaction = "yes",
     .page = "pipelines.md#downsampling"},
    {.name = "gradmatch",
     .kind = "policy",
     .signature = "\"downsampling\": {\"policy\": \"gradmatch\", ...}",
     .arguments = "lambda" HELP_DOWNSAMPLINGS,
     .result =
         "chooses samples whose weighted gradients sum to the gradient of all",
     .errors =
         "SQLITE_ERROR from emb_downsample if an option is missing or unknown",
     .in_transaction = "yes",
     .page = "pipelines.md#downsampling"},
    {.name = "submodular",
     .kind = "policy",
     .signature = "\"downsampling\": {\"policy\": \"submodular\", ...}",
     .arguments = "function, greedy, epsilon, lambda" HELP_DOWNSAMPLINGS,
     .result = "chooses samples that maximise a submodular function",
     .errors =
         "SQLITE_ERROR from emb_downsample if an option is missing or unknown",
     .in_transaction = "yes",
     .page = "pipelines.md#downsampling"},
    {.name = "slices",
     .kind = "policy",
     .signature = "evaluation_policy: {\"policy\": \"slices\", ...}",
     .arguments = "every, start, end",
     .result = "consecutive intervals",
     .errors = "SQLITE_ERROR from emb_pipeline_run or emb_evaluation_intervals "
               "if an option is missing or unknown",
     .in_transaction = "yes",
     .page = "pipelines.md#evaluation"},
    {.name = "periodic",
     .kind = "policy",
     .signature = "evaluation_policy: {\"policy\": \"periodic\", ...}",
     .arguments = "every, start, end, left, right",
     .result = "intervals around equally spaced moments",
     .errors = "SQLITE_ERROR from emb_pipeline_run or emb_evaluation_intervals "
               "if an option is missing or unknown",
     .in_transaction = "yes",
     .page = "pipelines.md#evaluation"},
    {.name = "between_triggers",
     .kind = "policy",
     .signature = "evaluation_policy: {\"policy\": \"between_triggers\", ...}",
     .arguments = "none",
     .result =
         "from a trigger's first sample to the next trigger's first sample",
     .errors = "SQLITE_ERROR from emb_pipeline_run or emb_evaluation_intervals "
               "if an option is missing or unknown",
     .in_transaction = "yes",
     .page = "pipelines.md#evaluation"},
    {.name = "offset",
     .kind = "policy",
     .signature = "evaluation_policy: {\"policy\": \"offset\", ...}",
     .arguments = "length",
     .result = "for each model, the time after or before its last sample",
     .errors = "SQLITE_ERROR from emb_pipeline_run or emb_evaluation_intervals "
               "if an option is missing or unknown",
     .in_transaction = "yes",
     .page = "pipelines.md#evaluation"},
    {.name = "static",
     .kind = "policy",
     .signature = "evaluation_policy: {\"policy\": \"static\", ...}",
     .arguments = "start, end",
     .result = "one interval, for all models",
     .errors = "SQLITE_ERROR from emb_pipeline_run or emb_evaluation_intervals "
               "if an option is missing or unknown",
     .in_transaction = "yes",
     .page = "pipelines.md#evaluation"},
    {.name = NULL}};

#endif
