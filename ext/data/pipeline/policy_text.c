/* SPDX-License-Identifier: MIT
**
** policy_text.c -- the policies of sql/examples/modyn/, as text.  Made by
** sql/examples/modyn/policies.tcl: change the files there.
*/
#include "pipeline.h"

/* clang-format off */
const struct ext_policy_text ext_policy_texts[] = {
  {"trigger", "amount",
    "Triggers after a fixed number of samples.",
    "[{\"name\":\"samples\",\"type\":\"integer\",\"least\":1,\"needed\":1,\"about\":\"the number of samples\"}]",
    "-- Triggers after a fixed number of samples.\n"
    "-- option samples: integer, 1 to, needed; the number of samples\n"
    "SELECT max(:first + :samples - 1, :evaluated + 1) AS position, 1 AS triggered,\n"
    "       :samples AS value, :samples AS threshold,\n"
    "       printf('%d samples since the last trigger', :samples) AS reason\n"
    " WHERE max(:first + :samples - 1, :evaluated + 1) <= :last\n"
    "UNION ALL\n"
    "SELECT :last, 0, :last - :first + 1, :samples,\n"
    "       printf('%d of %d samples since the last trigger', :last - :first + 1, :samples)\n"
    " WHERE :first + :samples - 1 > :last AND :last > :evaluated\n"},
  {"trigger", "avoidable",
    "Triggers when the model has made `threshold` more mistakes than expected, summed over all intervals since the last trigger.  The first trigger comes at the first decision, because there is no model yet.",
    "[{\"name\":\"interval\",\"type\":\"integer\",\"least\":1,\"needed\":1,\"about\":\"samples between two decisions\"},{\"name\":\"threshold\",\"type\":\"real\",\"least\":0,\"needed\":1,\"about\":\"number of mistakes beyond the expected ones\"},{\"name\":\"expected_accuracy\",\"type\":\"share\",\"least\":0,\"most\":1,\"needed\":1,\"about\":\"accuracy of a model that is up to date\"},{\"name\":\"allow_reduction\",\"type\":\"boolean\",\"default\":false,\"about\":\"an interval with fewer mistakes than expected reduces the sum\"}]",
    "-- Triggers when the model has made `threshold` more mistakes than expected, summed\n"
    "-- over all intervals since the last trigger.  The first trigger comes at the first\n"
    "-- decision, because there is no model yet.\n"
    "-- option interval: integer, 1 to, needed; samples between two decisions\n"
    "-- option threshold: real, 0 to, needed; number of mistakes beyond the expected ones\n"
    "-- option expected_accuracy: share, 0 to 1, needed; accuracy of a model that is up to date\n"
    "-- option allow_reduction: boolean, default false; an interval with fewer mistakes than expected reduces the sum\n"
    "WITH\n"
    "at(position) AS (\n"
    "  SELECT (:evaluated / :step + 1) * :step WHERE (:evaluated / :step + 1) * :step <= :last),\n"
    "each AS (\n"
    "  SELECT :expected_accuracy * count(*) - total(p.prediction = s.label) AS avoidable,\n"
    "         total(p.key IS NULL) AS missing\n"
    "    FROM at JOIN {sample_state} s LEFT JOIN {predictions} AS p ON p.key = s.sample_key\n"
    "   WHERE s.pipeline = :pipeline AND s.position BETWEEN :first AND at.position AND :first > 1\n"
    "   GROUP BY (s.position - 1) / :interval),\n"
    "measured AS (\n"
    "  SELECT total(CASE WHEN :allow_reduction THEN avoidable ELSE max(avoidable, 0) END) AS value,\n"
    "         total(missing) AS missing\n"
    "    FROM each)\n"
    "SELECT at.position,\n"
    "       CASE WHEN :first = 1 THEN 1 WHEN missing = 0 THEN value >= :threshold END AS triggered,\n"
    "       CASE WHEN :first > 1 AND missing = 0 THEN value END AS value,\n"
    "       :threshold AS threshold,\n"
    "       CASE WHEN :first = 1 THEN 'no model before the first trigger'\n"
    "            WHEN missing > 0 THEN printf('%d samples up to position %d have no prediction',\n"
    "                                         missing, at.position)\n"
    "            ELSE printf('%g avoidable mistakes', value) END AS reason\n"
    "  FROM at, measured\n"},
  {"trigger", "avoidable_count",
    "Triggers when the mistakes that a new model would have avoided cost as much as training it: their number since the last trigger, times the training time that one of them is worth, is compared with the expected training time (the view training_forecast).  The first trigger comes at the first decision.",
    "[{\"name\":\"interval\",\"type\":\"integer\",\"least\":1,\"needed\":1,\"about\":\"samples between two decisions\"},{\"name\":\"training_seconds_per_mistake\",\"type\":\"time\",\"least\":0,\"needed\":1,\"about\":\"the training time that one mistake is worth\"},{\"name\":\"expected_accuracy\",\"type\":\"share\",\"least\":0,\"most\":1,\"needed\":1,\"about\":\"accuracy of a model that is up to date\"},{\"name\":\"allow_reduction\",\"type\":\"boolean\",\"default\":false,\"about\":\"an interval with fewer mistakes than expected reduces the sum\"}]",
    "-- Triggers when the mistakes that a new model would have avoided cost as much as\n"
    "-- training it: their number since the last trigger, times the training time that one\n"
    "-- of them is worth, is compared with the expected training time (the view\n"
    "-- training_forecast).  The first trigger comes at the first decision.\n"
    "-- option interval: integer, 1 to, needed; samples between two decisions\n"
    "-- option training_seconds_per_mistake: time, 0 to, needed; the training time that one mistake is worth\n"
    "-- option expected_accuracy: share, 0 to 1, needed; accuracy of a model that is up to date\n"
    "-- option allow_reduction: boolean, default false; an interval with fewer mistakes than expected reduces the sum\n"
    "WITH\n"
    "at(position) AS (\n"
    "  SELECT (:evaluated / :step + 1) * :step WHERE (:evaluated / :step + 1) * :step <= :last),\n"
    "each AS (\n"
    "  SELECT :expected_accuracy * count(*) - total(p.prediction = s.label) AS avoidable,\n"
    "         total(p.key IS NULL) AS missing\n"
    "    FROM at JOIN {sample_state} s LEFT JOIN {predictions} AS p ON p.key = s.sample_key\n"
    "   WHERE s.pipeline = :pipeline AND s.position BETWEEN :first AND at.position AND :first > 1\n"
    "   GROUP BY (s.position - 1) / :interval),\n"
    "measured AS (\n"
    "  SELECT total(CASE WHEN :allow_reduction THEN avoidable ELSE max(avoidable, 0) END)\n"
    "           * :training_seconds_per_mistake AS value,\n"
    "         total(missing) AS missing\n"
    "    FROM each)\n"
    "SELECT at.position,\n"
    "       CASE WHEN :first = 1 THEN 1 WHEN missing = 0\n"
    "            THEN value >= intercept + slope * (at.position - :first + 1) END AS triggered,\n"
    "       CASE WHEN :first > 1 AND missing = 0 AND intercept IS NOT NULL THEN value END AS value,\n"
    "       intercept + slope * (at.position - :first + 1) AS threshold,\n"
    "       CASE WHEN :first = 1 THEN 'no model before the first trigger'\n"
    "            WHEN missing > 0 THEN printf('%d samples up to position %d have no prediction',\n"
    "                                         missing, at.position)\n"
    "            WHEN intercept IS NULL\n"
    "              THEN 'no row of {trained_model} says how long training takes'\n"
    "            ELSE printf('avoidable mistakes worth %g', value) END AS reason\n"
    "  FROM at, measured\n"
    "  LEFT JOIN {training_forecast} f ON f.pipeline = :pipeline\n"},
  {"trigger", "avoidable_latency",
    "Triggers when the mistakes that a new model would have avoided have lasted long enough to be worth a training: the area under the curve of their number over time since the last trigger, times a factor, is compared with the expected training time (the view training_forecast).  The mistakes of an interval arrive evenly over its time, and last from then on.  The first trigger comes at the first decision.",
    "[{\"name\":\"interval\",\"type\":\"integer\",\"least\":1,\"needed\":1,\"about\":\"samples between two decisions\"},{\"name\":\"avoidable_misclassification_latency_per_training_second\",\"type\":\"real\",\"least\":0,\"needed\":1,\"about\":\"the factor\"},{\"name\":\"expected_accuracy\",\"type\":\"share\",\"least\":0,\"most\":1,\"needed\":1,\"about\":\"accuracy of a model that is up to date\"},{\"name\":\"allow_reduction\",\"type\":\"boolean\",\"default\":false,\"about\":\"an interval with fewer mistakes than expected reduces the sum\"}]",
    "-- Triggers when the mistakes that a new model would have avoided have lasted long\n"
    "-- enough to be worth a training: the area under the curve of their number over time\n"
    "-- since the last trigger, times a factor, is compared with the expected training time\n"
    "-- (the view training_forecast).  The mistakes of an interval arrive evenly over its\n"
    "-- time, and last from then on.  The first trigger comes at the first decision.\n"
    "-- option interval: integer, 1 to, needed; samples between two decisions\n"
    "-- option avoidable_misclassification_latency_per_training_second: real, 0 to, needed; the factor\n"
    "-- option expected_accuracy: share, 0 to 1, needed; accuracy of a model that is up to date\n"
    "-- option allow_reduction: boolean, default false; an interval with fewer mistakes than expected reduces the sum\n"
    "WITH\n"
    "at(position) AS (\n"
    "  SELECT (:evaluated / :step + 1) * :step WHERE (:evaluated / :step + 1) * :step <= :last),\n"
    "each AS (\n"
    "  SELECT :expected_accuracy * count(*) - total(p.prediction = s.label) AS avoidable,\n"
    "         total(p.key IS NULL) AS missing, min(s.position) AS low, max(s.position) AS high\n"
    "    FROM at JOIN {sample_state} s LEFT JOIN {predictions} AS p ON p.key = s.sample_key\n"
    "   WHERE s.pipeline = :pipeline AND s.position BETWEEN :first AND at.position AND :first > 1\n"
    "   GROUP BY (s.position - 1) / :interval),\n"
    "-- An interval lasts from the last sample before it to its own last sample.\n"
    "timed AS (\n"
    "  SELECT CASE WHEN :allow_reduction THEN avoidable ELSE max(avoidable, 0) END AS avoidable,\n"
    "         missing,\n"
    "         coalesce((SELECT timestamp FROM {sample_state}\n"
    "                    WHERE pipeline = :pipeline AND position < low\n"
    "                    ORDER BY position DESC LIMIT 1),\n"
    "                  (SELECT timestamp FROM {sample_state}\n"
    "                    WHERE pipeline = :pipeline AND position = low)) AS begins,\n"
    "         (SELECT timestamp FROM {sample_state}\n"
    "           WHERE pipeline = :pipeline AND position = high) AS ends\n"
    "    FROM each),\n"
    "measured AS (\n"
    "  SELECT total(avoidable * ((SELECT timestamp FROM {sample_state}\n"
    "                              WHERE pipeline = :pipeline AND position <= at.position\n"
    "                              ORDER BY position DESC LIMIT 1) - (begins + ends) / 2.0)) AS area,\n"
    "         total(missing) AS missing\n"
    "    FROM at, timed)\n"
    "SELECT at.position,\n"
    "       CASE WHEN :first = 1 THEN 1 WHEN missing = 0\n"
    "            THEN area * :avoidable_misclassification_latency_per_training_second\n"
    "                   >= intercept + slope * (at.position - :first + 1) END AS triggered,\n"
    "       CASE WHEN :first > 1 AND missing = 0 AND intercept IS NOT NULL\n"
    "            THEN area * :avoidable_misclassification_latency_per_training_second END AS value,\n"
    "       intercept + slope * (at.position - :first + 1) AS threshold,\n"
    "       CASE WHEN :first = 1 THEN 'no model before the first trigger'\n"
    "            WHEN missing > 0 THEN printf('%d samples up to position %d have no prediction',\n"
    "                                         missing, at.position)\n"
    "            WHEN intercept IS NULL\n"
    "              THEN 'no row of {trained_model} says how long training takes'\n"
    "            ELSE printf('avoidable mistakes have lasted %g', area) END AS reason\n"
    "  FROM at, measured\n"
    "  LEFT JOIN {training_forecast} f ON f.pipeline = :pipeline\n"},
  {"trigger", "common",
    "Options of every trigger policy of a pipeline.",
    "[{\"name\":\"warmup_intervals\",\"type\":\"integer\",\"least\":0,\"default\":0,\"about\":\"number of first decisions that warmup_policy makes\"},{\"name\":\"warmup_policy\",\"type\":\"object\",\"about\":\"the trigger policy for these decisions\"}]",
    "-- Options of every trigger policy of a pipeline.\n"
    "-- option warmup_intervals: integer, 0 to, default 0; number of first decisions that warmup_policy makes\n"
    "-- option warmup_policy: object; the trigger policy for these decisions\n"},
  {"trigger", "drift",
    "Triggers when recent samples differ from those before the last trigger.  The first trigger comes at the first decision, because there is nothing to compare with.",
    "[{\"name\":\"metric\",\"type\":\"sql\",\"needed\":1,\"about\":\"an aggregate of value, is_reference, sample_key, label and timestamp\"},{\"name\":\"interval\",\"type\":\"integer\",\"least\":1,\"needed\":1,\"about\":\"samples between two decisions\"},{\"name\":\"window\",\"type\":\"text\",\"one_of\":[\"amount\",\"time\"],\"default\":\"amount\",\"about\":\"the unit of reference and current: samples or time\"},{\"name\":\"reference\",\"type\":\"real\",\"least\":0,\"needed\":1,\"about\":\"length of the window that ends at the last trigger\"},{\"name\":\"current\",\"type\":\"real\",\"least\":0,\"needed\":1,\"about\":\"length of the window that ends now\"},{\"name\":\"overlap\",\"type\":\"boolean\",\"default\":false,\"about\":\"the current window may begin before the last trigger\"},{\"name\":\"sample_size\",\"type\":\"integer\",\"least\":1,\"about\":\"maximum number of samples per window, drawn at random\"},{\"name\":\"criterion\",\"type\":\"object\",\"needed\":1,\"about\":\"decides which values trigger\"}]",
    "-- Triggers when recent samples differ from those before the last trigger.  The first\n"
    "-- trigger comes at the first decision, because there is nothing to compare with.\n"
    "-- option metric: sql, needed; an aggregate of value, is_reference, sample_key, label and timestamp\n"
    "-- option interval: integer, 1 to, needed; samples between two decisions\n"
    "-- option window: text, one of amount|time, default amount; the unit of reference and current: samples or time\n"
    "-- option reference: real, 0 to, needed; length of the window that ends at the last trigger\n"
    "-- option current: real, 0 to, needed; length of the window that ends now\n"
    "-- option overlap: boolean, default false; the current window may begin before the last trigger\n"
    "-- option sample_size: integer, 1 to; maximum number of samples per window, drawn at random\n"
    "-- option criterion: object, needed; decides which values trigger\n"
    "WITH\n"
    "at(position) AS (\n"
    "  SELECT (:evaluated / :step + 1) * :step WHERE (:evaluated / :step + 1) * :step <= :last),\n"
    "old AS (\n"
    "  SELECT s.sample_key, s.timestamp, s.label FROM at, {sample_state} s\n"
    "   WHERE s.pipeline = :pipeline AND s.position < :first\n"
    "     AND s.position >= CASE :window WHEN 'amount' THEN :first - :reference ELSE 1 END\n"
    "     AND (:window = 'amount' OR s.timestamp > -:reference +\n"
    "          (SELECT timestamp FROM {sample_state}\n"
    "            WHERE pipeline = :pipeline AND position < :first\n"
    "            ORDER BY position DESC LIMIT 1))),\n"
    "new AS (\n"
    "  SELECT s.sample_key, s.timestamp, s.label FROM at, {sample_state} s\n"
    "   WHERE s.pipeline = :pipeline AND s.position <= at.position\n"
    "     AND s.position >= CASE WHEN :overlap THEN 1 ELSE :first END\n"
    "     AND s.position > CASE :window WHEN 'amount' THEN at.position - :current ELSE 0 END\n"
    "     AND (:window = 'amount' OR s.timestamp > -:current +\n"
    "          (SELECT timestamp FROM {sample_state}\n"
    "            WHERE pipeline = :pipeline AND position <= at.position\n"
    "            ORDER BY position DESC LIMIT 1))),\n"
    "drawn AS (\n"
    "  SELECT *, 1 AS is_reference\n"
    "    FROM (SELECT * FROM old\n"
    "           ORDER BY CASE WHEN :sample_size > 0 THEN emb_random(:seed, sample_key) END\n"
    "           LIMIT coalesce(:sample_size, -1))\n"
    "  UNION ALL\n"
    "  SELECT *, 0\n"
    "    FROM (SELECT * FROM new\n"
    "           ORDER BY CASE WHEN :sample_size > 0 THEN emb_random(:seed, sample_key) END\n"
    "           LIMIT coalesce(:sample_size, -1))),\n"
    "measured AS (\n"
    "  SELECT ({metric}) AS value, total(is_reference) AS olds, count(*) AS n,\n"
    "         total(missing) AS missing\n"
    "    FROM (SELECT d.*, f.value, f.key IS NULL AS missing\n"
    "            FROM drawn d LEFT JOIN {features} AS f ON f.key = d.sample_key))\n"
    "SELECT at.position,\n"
    "       CASE WHEN olds = 0 THEN 1 WHEN olds = n THEN 0 WHEN value IS NULL AND missing = 0 THEN 0\n"
    "            END AS triggered,\n"
    "       CASE WHEN olds > 0 AND olds < n AND\n"
    "                 (missing = 0 OR (SELECT features IS NULL FROM {pipeline}\n"
    "                                   WHERE pipeline = :pipeline)) THEN value END AS value,\n"
    "       CASE WHEN olds = 0 THEN 'nothing to compare with before the first trigger'\n"
    "            WHEN olds = n THEN 'no samples since the last trigger'\n"
    "            WHEN missing > 0 AND (SELECT features IS NOT NULL FROM {pipeline}\n"
    "                                   WHERE pipeline = :pipeline)\n"
    "              THEN printf('%d of %d samples up to position %d have no features',\n"
    "                          missing, n, at.position)\n"
    "            WHEN value IS NULL THEN 'the metric is NULL'\n"
    "            ELSE printf('%d samples against %d', n - olds, olds) END AS reason\n"
    "  FROM at, measured\n"},
  {"trigger", "ensemble",
    "Triggers when enough of several policies do.  Each is asked at every multiple of the interval.",
    "[{\"name\":\"members\",\"type\":\"array\",\"needed\":1,\"about\":\"the trigger policies\"},{\"name\":\"interval\",\"type\":\"integer\",\"least\":1,\"needed\":1,\"about\":\"samples between two decisions\"},{\"name\":\"aggregate\",\"type\":\"text\",\"one_of\":[\"majority\",\"at_least\",\"custom\"],\"default\":\"majority\",\"about\":\"the rule for \\\"enough\\\"\"},{\"name\":\"n\",\"type\":\"integer\",\"least\":1,\"default\":1,\"about\":\"with at_least: the number of policies\"},{\"name\":\"when\",\"type\":\"sql\",\"default\":\"fired * 2 > members\",\"about\":\"with custom: an expression of fired, members and votes (a JSON array of 0 and 1)\"}]",
    "-- Triggers when enough of several policies do.  Each is asked at every multiple of\n"
    "-- the interval.\n"
    "-- option members: array, needed; the trigger policies\n"
    "-- option interval: integer, 1 to, needed; samples between two decisions\n"
    "-- option aggregate: text, one of majority|at_least|custom, default majority; the rule for \"enough\"\n"
    "-- option n: integer, 1 to, default 1; with at_least: the number of policies\n"
    "-- option when: sql, default fired * 2 > members; with custom: an expression of fired, members and votes (a JSON array of 0 and 1)\n"
    "SELECT CASE :aggregate WHEN 'majority' THEN fired * 2 > members\n"
    "                       WHEN 'at_least' THEN fired >= :n\n"
    "                       ELSE ({when}) END AS triggered,\n"
    "       printf('%d of %d policies: %s', fired, members, votes) AS reason\n"
    "  FROM (SELECT :fired AS fired, :count AS members, :votes AS votes)\n"},
  {"trigger", "latency",
    "Triggers when the samples have waited long enough to be worth a training: the sum of their waiting times, times a factor, is compared with the expected time of training on them (the view training_forecast).  The first trigger comes at the first decision.",
    "[{\"name\":\"interval\",\"type\":\"integer\",\"least\":1,\"needed\":1,\"about\":\"samples between two decisions\"},{\"name\":\"incorporation_delay_per_training_second\",\"type\":\"real\",\"least\":0,\"needed\":1,\"about\":\"the factor\"}]",
    "-- Triggers when the samples have waited long enough to be worth a training: the sum\n"
    "-- of their waiting times, times a factor, is compared with the expected time of\n"
    "-- training on them (the view training_forecast).  The first trigger comes at the\n"
    "-- first decision.\n"
    "-- option interval: integer, 1 to, needed; samples between two decisions\n"
    "-- option incorporation_delay_per_training_second: real, 0 to, needed; the factor\n"
    "WITH\n"
    "at(position) AS (\n"
    "  SELECT (:evaluated / :step + 1) * :step WHERE (:evaluated / :step + 1) * :step <= :last),\n"
    "waited AS (\n"
    "  SELECT total((SELECT timestamp FROM {sample_state}\n"
    "                 WHERE pipeline = :pipeline AND position <= at.position\n"
    "                 ORDER BY position DESC LIMIT 1) - s.timestamp) AS area\n"
    "    FROM at, {sample_state} s\n"
    "   WHERE s.pipeline = :pipeline AND s.position BETWEEN :first AND at.position)\n"
    "SELECT at.position,\n"
    "       CASE WHEN :first = 1 THEN 1 ELSE\n"
    "         area * :incorporation_delay_per_training_second\n"
    "           >= intercept + slope * (at.position - :first + 1) END AS triggered,\n"
    "       CASE WHEN intercept IS NOT NULL\n"
    "            THEN area * :incorporation_delay_per_training_second END AS value,\n"
    "       intercept + slope * (at.position - :first + 1) AS threshold,\n"
    "       CASE WHEN :first = 1 THEN 'no model before the first trigger'\n"
    "            WHEN intercept IS NULL\n"
    "              THEN 'no row of {trained_model} says how long training takes'\n"
    "            ELSE printf('%d samples have waited %g', at.position - :first + 1, area) END AS reason\n"
    "  FROM at, waited\n"
    "  LEFT JOIN {training_forecast} f ON f.pipeline = :pipeline\n"},
  {"trigger", "performance",
    "Triggers when the model does worse on recent samples.  The first trigger comes at the first decision, because there is no model yet.",
    "[{\"name\":\"metric\",\"type\":\"sql\",\"default\":\"avg(prediction = label)\",\"about\":\"an aggregate of prediction, label, sample_key and timestamp\"},{\"name\":\"interval\",\"type\":\"integer\",\"least\":1,\"needed\":1,\"about\":\"number of samples that are measured, and samples between two decisions\"},{\"name\":\"higher_is_worse\",\"type\":\"boolean\",\"default\":false,\"about\":\"true for a loss\"},{\"name\":\"criterion\",\"type\":\"object\",\"needed\":1,\"about\":\"decides which values trigger\"}]",
    "-- Triggers when the model does worse on recent samples.  The first trigger comes at\n"
    "-- the first decision, because there is no model yet.\n"
    "-- option metric: sql, default avg(prediction = label); an aggregate of prediction, label, sample_key and timestamp\n"
    "-- option interval: integer, 1 to, needed; number of samples that are measured, and samples between two decisions\n"
    "-- option higher_is_worse: boolean, default false; true for a loss\n"
    "-- option criterion: object, needed; decides which values trigger\n"
    "WITH\n"
    "at(position) AS (\n"
    "  SELECT (:evaluated / :step + 1) * :step WHERE (:evaluated / :step + 1) * :step <= :last),\n"
    "measured AS (\n"
    "  SELECT ({metric}) AS value, count(*) AS n, total(missing) AS missing\n"
    "    FROM (SELECT s.sample_key, s.timestamp, s.label, p.prediction, p.key IS NULL AS missing\n"
    "            FROM at JOIN {sample_state} s LEFT JOIN {predictions} AS p ON p.key = s.sample_key\n"
    "           WHERE s.pipeline = :pipeline AND s.position <= at.position\n"
    "             AND s.position > at.position - :interval AND :first > 1))\n"
    "SELECT at.position,\n"
    "       CASE WHEN :first = 1 THEN 1 END AS triggered,\n"
    "       CASE WHEN missing = 0 THEN value END AS value,\n"
    "       CASE WHEN :higher_is_worse THEN 1 ELSE -1 END AS sign,\n"
    "       CASE WHEN :first = 1 THEN 'no model before the first trigger'\n"
    "            WHEN missing > 0 THEN printf('%d of %d samples up to position %d have no prediction',\n"
    "                                         missing, n, at.position)\n"
    "            WHEN value IS NULL THEN printf('the metric is NULL up to position %d', at.position)\n"
    "            ELSE printf('on %d samples', n) END AS reason\n"
    "  FROM at, measured\n"},
  {"trigger", "time",
    "Triggers after each period of the samples' timestamps.  A trigger ends before the first sample of the next period; periods without a sample are skipped.",
    "[{\"name\":\"every\",\"type\":\"time\",\"least\":0.000001,\"needed\":1,\"about\":\"length of a period, in units of the timestamps\"},{\"name\":\"start\",\"type\":\"real\",\"about\":\"beginning of a period; default: the first sample\"}]",
    "-- Triggers after each period of the samples' timestamps.  A trigger ends before the\n"
    "-- first sample of the next period; periods without a sample are skipped.\n"
    "-- option every: time, 0.000001 to, needed; length of a period, in units of the timestamps\n"
    "-- option start: real; beginning of a period; default: the first sample\n"
    "WITH\n"
    "origin(at) AS (\n"
    "  SELECT coalesce(:start, (SELECT timestamp FROM {sample_state}\n"
    "                            WHERE pipeline = :pipeline ORDER BY position LIMIT 1))),\n"
    "due(at) AS (\n"
    "  SELECT CASE WHEN s.timestamp < o.at THEN o.at\n"
    "              ELSE o.at + (CAST((s.timestamp - o.at) / :every AS INTEGER) + 1) * :every END\n"
    "    FROM origin o, {sample_state} s\n"
    "   WHERE s.pipeline = :pipeline AND s.position >= :first AND s.position <= :last\n"
    "   ORDER BY s.position LIMIT 1),\n"
    "next(position, timestamp) AS (\n"
    "  SELECT s.position, s.timestamp FROM {sample_state} s, due\n"
    "   WHERE s.pipeline = :pipeline AND s.position > max(:evaluated, :first)\n"
    "     AND s.position <= :last AND s.timestamp >= due.at\n"
    "   ORDER BY s.position LIMIT 1)\n"
    "SELECT position, position - 1 AS through, 1 AS triggered, timestamp AS value,\n"
    "       due.at AS threshold,\n"
    "       printf('a sample of %s, from %s on', timestamp, due.at) AS reason\n"
    "  FROM next, due\n"
    "UNION ALL\n"
    "SELECT :last, NULL, 0, NULL, (SELECT at FROM due),\n"
    "       printf('no sample from %s on', (SELECT at FROM due))\n"
    " WHERE NOT EXISTS(SELECT 1 FROM next) AND :last > :evaluated\n"},
  {"criterion", "quantile",
    "Worse than a quantile of the last values.  The first value triggers.",
    "[{\"name\":\"window\",\"type\":\"integer\",\"least\":1,\"default\":10,\"about\":\"number of values compared with\"},{\"name\":\"quantile\",\"type\":\"share\",\"least\":0,\"most\":1,\"default\":0.05,\"about\":\"the share of the worst values\"}]",
    "-- Worse than a quantile of the last values.  The first value triggers.\n"
    "-- option window: integer, 1 to, default 10; number of values compared with\n"
    "-- option quantile: share, 0 to 1, default 0.05; the share of the worst values\n"
    "WITH\n"
    "past AS (\n"
    "  SELECT value FROM {decision_part}\n"
    "   WHERE pipeline = :pipeline AND member = :member AND value IS NOT NULL\n"
    "   ORDER BY position DESC LIMIT :window),\n"
    "ranked AS (SELECT value, row_number() OVER (ORDER BY :sign * value) - 1 AS rank FROM past),\n"
    "-- Position of the quantile among the values; like numpy, it interpolates linearly.\n"
    "place(at) AS (SELECT (1.0 - :quantile) * (count(*) - 1) FROM past),\n"
    "bound(threshold) AS (\n"
    "  SELECT a.value + (b.value - a.value) * (place.at - a.rank)\n"
    "    FROM place JOIN ranked a ON a.rank = CAST(place.at AS INTEGER)\n"
    "               JOIN ranked b ON b.rank = min(a.rank + 1, (SELECT count(*) - 1 FROM past)))\n"
    "SELECT threshold, coalesce(:sign * :value > :sign * threshold, 1) AS triggered,\n"
    "       CASE WHEN threshold IS NULL THEN printf('%g, the first value', :value)\n"
    "            ELSE printf('%g against %g', :value, threshold) END AS reason\n"
    "  FROM (SELECT (SELECT threshold FROM bound) AS threshold)\n"},
  {"criterion", "rolling_average",
    "Worse than the average of the last values, by more than a deviation.  The first value triggers.",
    "[{\"name\":\"window\",\"type\":\"integer\",\"least\":1,\"default\":10,\"about\":\"number of values in the average\"},{\"name\":\"deviation\",\"type\":\"share\",\"least\":0,\"default\":0.05,\"about\":\"the deviation allowed\"},{\"name\":\"absolute\",\"type\":\"boolean\",\"default\":false,\"about\":\"the deviation is a difference, not a share of the average\"}]",
    "-- Worse than the average of the last values, by more than a deviation.  The first\n"
    "-- value triggers.\n"
    "-- option window: integer, 1 to, default 10; number of values in the average\n"
    "-- option deviation: share, 0 to, default 0.05; the deviation allowed\n"
    "-- option absolute: boolean, default false; the deviation is a difference, not a share of the average\n"
    "WITH past(average) AS (\n"
    "  SELECT avg(value) FROM (\n"
    "    SELECT value FROM {decision_part}\n"
    "     WHERE pipeline = :pipeline AND member = :member AND value IS NOT NULL\n"
    "     ORDER BY position DESC LIMIT :window))\n"
    "SELECT threshold, coalesce(:sign * :value > :sign * threshold, 1) AS triggered,\n"
    "       CASE WHEN threshold IS NULL THEN printf('%g, the first value', :value)\n"
    "            ELSE printf('%g against %g', :value, threshold) END AS reason\n"
    "  FROM (SELECT average + :sign * :deviation *\n"
    "               CASE WHEN :absolute THEN 1 ELSE abs(average) END AS threshold FROM past)\n"},
  {"criterion", "threshold",
    "Worse than a fixed value.",
    "[{\"name\":\"threshold\",\"type\":\"real\",\"needed\":1,\"about\":\"the value\"}]",
    "-- Worse than a fixed value.\n"
    "-- option threshold: real, needed; the value\n"
    "SELECT :threshold AS threshold, :sign * :value > :sign * :threshold AS triggered,\n"
    "       printf('%g against %g', :value, :threshold) AS reason\n"},
  {"selection", "balanced",
    "Chooses the same number of samples from each group: labels, or the values of `by`. A smaller group gives all its samples, and the others share the rest (water filling), so the total is exactly the number requested.",
    "[{\"name\":\"by\",\"type\":\"sql\",\"default\":\"label\",\"about\":\"the group, an expression of label, timestamp, trigger and sample_key\"},{\"name\":\"strict\",\"type\":\"boolean\",\"default\":false,\"about\":\"no group gives more than the smallest group has\"}]",
    "-- Chooses the same number of samples from each group: labels, or the values of `by`.\n"
    "-- A smaller group gives all its samples, and the others share the rest (water\n"
    "-- filling), so the total is exactly the number requested.\n"
    "-- option by: sql, default label; the group, an expression of label, timestamp, trigger and sample_key\n"
    "-- option strict: boolean, default false; no group gives more than the smallest group has\n"
    "WITH\n"
    "candidate AS (\n"
    "  SELECT s.sample_key, s.position, ({by}) AS kind,\n"
    "         emb_random(:seed, s.sample_key, :stream) AS draw\n"
    "    FROM (SELECT sample_key, position, label, timestamp, t.trigger\n"
    "            FROM {trigger} t CROSS JOIN {sample_state} s\n"
    "           WHERE t.pipeline = :pipeline AND t.last_position >= :low\n"
    "             AND s.pipeline = :pipeline AND s.position BETWEEN :low AND :high\n"
    "             AND s.position BETWEEN t.first_position AND t.last_position) AS s),\n"
    "counted AS MATERIALIZED (\n"
    "  SELECT kind, count(*) AS n, count(*) OVER () AS kinds, min(count(*)) OVER () AS smallest\n"
    "    FROM candidate GROUP BY kind),\n"
    "-- From the smallest group to the largest: the number left for it and later groups.\n"
    "filled AS (\n"
    "  SELECT kind, n, kinds - row_number() OVER size + 1 AS after, smallest,\n"
    "         :size - coalesce(sum(n) OVER (size ROWS BETWEEN UNBOUNDED PRECEDING\n"
    "                                                     AND 1 PRECEDING), 0) AS rest\n"
    "    FROM counted WINDOW size AS (ORDER BY n, kind)),\n"
    "-- The first group that has more than its equal share sets the level for the rest.\n"
    "level AS (\n"
    "  SELECT max(rest) AS rest, max(after) AS after FROM filled WHERE n * after > rest),\n"
    "share AS MATERIALIZED (\n"
    "  SELECT kind, n,\n"
    "         CASE WHEN :strict THEN min(smallest, :size / (SELECT max(after) FROM filled))\n"
    "              WHEN n * f.after <= f.rest THEN n\n"
    "              ELSE level.rest / level.after + (level.after - f.after < level.rest % level.after)\n"
    "         END AS share\n"
    "    FROM filled f, level)\n"
    "SELECT sample_key FROM (\n"
    "  SELECT c.sample_key, c.draw, s.share,\n"
    "         row_number() OVER (PARTITION BY s.kind ORDER BY c.draw, c.position) AS rank\n"
    "    FROM candidate c JOIN share s ON s.kind IS c.kind\n"
    "   WHERE c.draw < (s.share + min(s.share / 16.0 + 256, s.share / 256.0 + 4096) + 64) / s.n)\n"
    " WHERE rank <= share\n"
    " ORDER BY draw\n"},
  {"selection", "common",
    "Options of every selection policy.",
    "[{\"name\":\"tail\",\"type\":\"integer\",\"least\":0,\"about\":\"chooses from the samples of this trigger and of this many triggers before it; default: all\"},{\"name\":\"share\",\"type\":\"share\",\"least\":0,\"about\":\"chooses this share of the samples, at least one\"},{\"name\":\"share_max\",\"type\":\"share\",\"least\":0.000001,\"default\":1,\"about\":\"the share that means all samples\"},{\"name\":\"limit\",\"type\":\"integer\",\"least\":0,\"about\":\"maximum number of samples\"},{\"name\":\"warmup_triggers\",\"type\":\"integer\",\"least\":0,\"default\":0,\"about\":\"number of first triggers in which new_data chooses and nothing is downsampled\"},{\"name\":\"downsampling\",\"type\":\"object or array\",\"about\":\"policies for emb_downsample\"},{\"name\":\"thresholds\",\"type\":\"array\",\"about\":\"for a list of downsampling policies: all but the last apply to triggers below the number given here\"}]",
    "-- Options of every selection policy.\n"
    "-- option tail: integer, 0 to; chooses from the samples of this trigger and of this many triggers before it; default: all\n"
    "-- option share: share, 0 to; chooses this share of the samples, at least one\n"
    "-- option share_max: share, 0.000001 to, default 1; the share that means all samples\n"
    "-- option limit: integer, 0 to; maximum number of samples\n"
    "-- option warmup_triggers: integer, 0 to, default 0; number of first triggers in which new_data chooses and nothing is downsampled\n"
    "-- option downsampling: object or array; policies for emb_downsample\n"
    "-- option thresholds: array; for a list of downsampling policies: all but the last apply to triggers below the number given here\n"},
  {"selection", "freshness",
    "Chooses unused samples (which no trigger has used) and used ones in fixed shares, as many as the shares allow. At the first trigger all samples are unused.",
    "[{\"name\":\"unused_share\",\"type\":\"share\",\"least\":0.01,\"most\":0.99,\"needed\":1,\"about\":\"share of unused samples in the selection\"}]",
    "-- Chooses unused samples (which no trigger has used) and used ones in fixed shares,\n"
    "-- as many as the shares allow. At the first trigger all samples are unused.\n"
    "-- option unused_share: share, 0.01 to 0.99, needed; share of unused samples in the selection\n"
    "WITH\n"
    "there AS MATERIALIZED (\n"
    "  SELECT count(*) FILTER (WHERE used = 0) AS unused, count(*) FILTER (WHERE used > 0) AS used\n"
    "    FROM {sample_state} WHERE pipeline = :pipeline AND position BETWEEN :low AND :high),\n"
    "-- A share like 0.7 is not exact in binary: 1 + 1e-14 makes up for its error.\n"
    "most AS (\n"
    "  SELECT CASE WHEN used = 0 THEN min(:size, unused)\n"
    "              ELSE min(:size, unused / :unused_share * (1 + 1e-14),\n"
    "                       used / (1 - :unused_share) * (1 + 1e-14)) END AS n, there.*\n"
    "    FROM there),\n"
    "share AS MATERIALIZED (\n"
    "  SELECT CASE WHEN used = 0 THEN n\n"
    "              ELSE CAST(round(n * :unused_share) AS INTEGER) END AS unused,\n"
    "         CASE WHEN used = 0 THEN 0\n"
    "              ELSE CAST(n AS INTEGER) - CAST(round(n * :unused_share) AS INTEGER)\n"
    "         END AS used\n"
    "    FROM most)\n"
    "SELECT sample_key FROM (\n"
    "  SELECT * FROM (\n"
    "    SELECT sample_key, position FROM {sample_state}\n"
    "     WHERE pipeline = :pipeline AND position BETWEEN :low AND :high AND used = 0\n"
    "     ORDER BY emb_random(:seed, sample_key, :stream), position\n"
    "     LIMIT (SELECT unused FROM share))\n"
    "  UNION ALL\n"
    "  SELECT * FROM (\n"
    "    SELECT sample_key, position FROM {sample_state}\n"
    "     WHERE pipeline = :pipeline AND position BETWEEN :low AND :high AND used > 0\n"
    "     ORDER BY emb_random(:seed, sample_key, :stream), position\n"
    "     LIMIT (SELECT used FROM share)))\n"
    " ORDER BY emb_random(:seed, sample_key, :stream), position;\n"
    "\n"
    "UPDATE {sample_state} SET used = used + 1, last_used = :trigger\n"
    " WHERE pipeline = :pipeline\n"
    "   AND sample_key IN (SELECT sample_key FROM {selection}\n"
    "                       WHERE pipeline = :pipeline AND trigger = :trigger)\n"},
  {"selection", "new_data",
    "Chooses all samples, by default of all triggers; with \"tail\": 0 those since the last trigger. If there are more than the limit, takes the last ones or random ones.",
    "[{\"name\":\"limit_by\",\"type\":\"text\",\"one_of\":[\"last\",\"random\"],\"default\":\"last\",\"about\":\"which samples to take\"}]",
    "-- Chooses all samples, by default of all triggers; with \"tail\": 0 those since the last\n"
    "-- trigger. If there are more than the limit, takes the last ones or random ones.\n"
    "-- option limit_by: text, one of last|random, default last; which samples to take\n"
    "SELECT sample_key FROM {sample_state}\n"
    " WHERE pipeline = :pipeline\n"
    "   AND position BETWEEN :low AND :high\n"
    "   AND (:limit_by <> 'last' OR position > coalesce(\n"
    "         (SELECT position FROM {sample_state}\n"
    "           WHERE pipeline = :pipeline AND position BETWEEN :low AND :high\n"
    "           ORDER BY position DESC LIMIT 1 OFFSET :size), 0))\n"
    "   AND (:limit_by = 'last' OR :size = :candidates OR\n"
    "        emb_random(:seed, sample_key, :stream) <\n"
    "          (:size + min(:size / 16.0 + 256, :size / 256.0 + 4096) + 64) / :candidates)\n"
    " ORDER BY CASE WHEN :limit_by = 'random' AND :size < :candidates\n"
    "               THEN emb_random(:seed, sample_key, :stream) END, position\n"
    " LIMIT :size\n"},
  {"selection", "random",
    "Chooses samples uniformly at random, in random order. Sorts only a random share of the candidates, slightly larger than needed.  The share is too small with a probability below 1e-13: it exceeds the size n by at least 8 sqrt(n).  Both terms of min() are upper bounds of that, since n / k + 16 k is one for any k; not every SQLite has sqrt().",
    "[]",
    "-- Chooses samples uniformly at random, in random order.\n"
    "-- Sorts only a random share of the candidates, slightly larger than needed.  The share\n"
    "-- is too small with a probability below 1e-13: it exceeds the size n by at least\n"
    "-- 8 sqrt(n).  Both terms of min() are upper bounds of that, since n / k + 16 k is one\n"
    "-- for any k; not every SQLite has sqrt().\n"
    "SELECT sample_key FROM {sample_state}\n"
    " WHERE pipeline = :pipeline AND position BETWEEN :low AND :high\n"
    "   AND emb_random(:seed, sample_key, :stream) <\n"
    "         (:size + min(:size / 16.0 + 256, :size / 256.0 + 4096) + 64) / :candidates\n"
    " ORDER BY emb_random(:seed, sample_key, :stream), position\n"
    " LIMIT :size\n"},
  {"selection", "random_no_replacement",
    "Chooses samples at random, none a second time before all others have been chosen: samples not yet drawn in this epoch come first; if they are too few, the next epoch begins.",
    "[]",
    "-- Chooses samples at random, none a second time before all others have been chosen:\n"
    "-- samples not yet drawn in this epoch come first; if they are too few, the next epoch\n"
    "-- begins.\n"
    "WITH epoch(now) AS MATERIALIZED (\n"
    "  SELECT max(1, max(epoch)) FROM {sample_state}\n"
    "   WHERE pipeline = :pipeline AND position BETWEEN :low AND :high)\n"
    "SELECT sample_key FROM {sample_state}, epoch\n"
    " WHERE pipeline = :pipeline AND position BETWEEN :low AND :high\n"
    " ORDER BY epoch >= now, emb_random(:seed, sample_key, :stream), position\n"
    " LIMIT :size;\n"
    "\n"
    "UPDATE {sample_state}\n"
    "   SET used = used + 1, last_used = :trigger,\n"
    "       epoch = epoch.now + (epoch >= epoch.now)\n"
    "  FROM (SELECT max(1, max(epoch)) AS now FROM {sample_state}\n"
    "         WHERE pipeline = :pipeline AND position BETWEEN :low AND :high) AS epoch\n"
    " WHERE pipeline = :pipeline\n"
    "   AND sample_key IN (SELECT sample_key FROM {selection}\n"
    "                       WHERE pipeline = :pipeline AND trigger = :trigger)\n"},
  {"downsampling", "common",
    "Options of every downsampling policy.",
    "[{\"name\":\"share\",\"type\":\"share\",\"least\":0,\"needed\":1,\"about\":\"chooses this share of the samples, at least one\"},{\"name\":\"share_max\",\"type\":\"share\",\"least\":0.000001,\"default\":1,\"about\":\"the share that means all samples\"},{\"name\":\"batch_size\",\"type\":\"integer\",\"least\":1,\"about\":\"chooses the share from each batch of this size; default: from all samples\"},{\"name\":\"period\",\"type\":\"integer\",\"least\":0,\"default\":1,\"about\":\"epochs between two choices; 0: chooses once\"}]",
    "-- Options of every downsampling policy.\n"
    "-- option share: share, 0 to, needed; chooses this share of the samples, at least one\n"
    "-- option share_max: share, 0.000001 to, default 1; the share that means all samples\n"
    "-- option batch_size: integer, 1 to; chooses the share from each batch of this size; default: from all samples\n"
    "-- option period: integer, 0 to, default 1; epochs between two choices; 0: chooses once\n"},
  {"downsampling", "craig",
    "Chooses samples whose weighted gradients represent all: facility location, with weights (score.gradient). A sample without a gradient is an error: its row has no weight.",
    "[{\"name\":\"greedy\",\"type\":\"text\",\"one_of\":[\"naive\",\"lazy\",\"stochastic\"],\"default\":\"lazy\",\"about\":\"how the function is maximised\"},{\"name\":\"epsilon\",\"type\":\"real\",\"least\":0.000001,\"most\":0.999999,\"default\":0.9,\"about\":\"parameter of stochastic greedy\"}]",
    "-- Chooses samples whose weighted gradients represent all: facility location, with weights (score.gradient).\n"
    "-- option greedy: text, one of naive|lazy|stochastic, default lazy; how the function is maximised\n"
    "-- option epsilon: real, 0.000001 to 0.999999, default 0.9; parameter of stochastic greedy\n"
    "-- A sample without a gradient is an error: its row has no weight.\n"
    "SELECT s.sample_key, NULL AS weight\n"
    "  FROM {selection} s\n"
    "  LEFT JOIN {score} c ON c.pipeline = s.pipeline AND c.sample_key = s.sample_key\n"
    " WHERE s.pipeline = :pipeline AND s.trigger = :trigger AND s.place >= :from AND s.place < :to\n"
    "   AND c.gradient IS NULL\n"
    "UNION ALL\n"
    "SELECT key, weight FROM (\n"
    "  SELECT * FROM emb_chosen((\n"
    "    SELECT emb_coreset(s.sample_key, c.gradient, :size, \n"
    "             printf('craig(seed=%d, greedy=%s, epsilon=%!.15g)', :seed, :greedy, :epsilon))\n"
    "      FROM {selection} s\n"
    "      JOIN {score} c ON c.pipeline = s.pipeline AND c.sample_key = s.sample_key\n"
    "     WHERE s.pipeline = :pipeline AND s.trigger = :trigger\n"
    "       AND s.place >= :from AND s.place < :to))\n"
    "   ORDER BY rank)\n"},
  {"downsampling", "entropy",
    "Chooses the samples whose class probabilities have the highest entropy (score.probabilities).",
    "[]",
    "-- Chooses the samples whose class probabilities have the highest entropy (score.probabilities).\n"
    "SELECT s.place, s.sample_key, -emb_entropy(c.probabilities) AS priority\n"
    "  FROM {selection} s\n"
    "  LEFT JOIN {score} c ON c.pipeline = s.pipeline AND c.sample_key = s.sample_key\n"
    " WHERE s.pipeline = :pipeline AND s.trigger = :trigger\n"},
  {"downsampling", "gradient_norm",
    "Draws samples in proportion to the norm of the last layer's gradient (score.gradient_norm); weights correct for it.",
    "[]",
    "-- Draws samples in proportion to the norm of the last layer's gradient (score.gradient_norm); weights correct for it.\n"
    "SELECT s.place, s.sample_key, c.gradient_norm AS share\n"
    "  FROM {selection} s\n"
    "  LEFT JOIN {score} c ON c.pipeline = s.pipeline AND c.sample_key = s.sample_key\n"
    " WHERE s.pipeline = :pipeline AND s.trigger = :trigger\n"},
  {"downsampling", "gradmatch",
    "Chooses samples whose weighted gradients sum to the gradient of all: orthogonal matching pursuit (score.gradient). A sample without a gradient is an error: its row has no weight.",
    "[{\"name\":\"lambda\",\"type\":\"real\",\"least\":0,\"default\":1,\"about\":\"weight of the regularisation\"}]",
    "-- Chooses samples whose weighted gradients sum to the gradient of all: orthogonal matching pursuit (score.gradient).\n"
    "-- option lambda: real, 0 to, default 1; weight of the regularisation\n"
    "-- A sample without a gradient is an error: its row has no weight.\n"
    "SELECT s.sample_key, NULL AS weight\n"
    "  FROM {selection} s\n"
    "  LEFT JOIN {score} c ON c.pipeline = s.pipeline AND c.sample_key = s.sample_key\n"
    " WHERE s.pipeline = :pipeline AND s.trigger = :trigger AND s.place >= :from AND s.place < :to\n"
    "   AND c.gradient IS NULL\n"
    "UNION ALL\n"
    "SELECT key, weight FROM (\n"
    "  SELECT * FROM emb_chosen((\n"
    "    SELECT emb_coreset(s.sample_key, c.gradient, :size, printf('gradmatch(lambda=%!.15g)', :lambda))\n"
    "      FROM {selection} s\n"
    "      JOIN {score} c ON c.pipeline = s.pipeline AND c.sample_key = s.sample_key\n"
    "     WHERE s.pipeline = :pipeline AND s.trigger = :trigger\n"
    "       AND s.place >= :from AND s.place < :to))\n"
    "   ORDER BY rank)\n"},
  {"downsampling", "k_center",
    "Chooses centres: each next one is the sample farthest from those already chosen (score.gradient). A sample without a gradient is an error: its row has no weight.",
    "[]",
    "-- Chooses centres: each next one is the sample farthest from those already chosen (score.gradient).\n"
    "-- A sample without a gradient is an error: its row has no weight.\n"
    "SELECT s.sample_key, NULL AS weight\n"
    "  FROM {selection} s\n"
    "  LEFT JOIN {score} c ON c.pipeline = s.pipeline AND c.sample_key = s.sample_key\n"
    " WHERE s.pipeline = :pipeline AND s.trigger = :trigger AND s.place >= :from AND s.place < :to\n"
    "   AND c.gradient IS NULL\n"
    "UNION ALL\n"
    "SELECT key, weight FROM (\n"
    "  SELECT * FROM emb_chosen((\n"
    "    SELECT emb_coreset(s.sample_key, c.gradient, :size, printf('k-center(seed=%d)', :seed))\n"
    "      FROM {selection} s\n"
    "      JOIN {score} c ON c.pipeline = s.pipeline AND c.sample_key = s.sample_key\n"
    "     WHERE s.pipeline = :pipeline AND s.trigger = :trigger\n"
    "       AND s.place >= :from AND s.place < :to))\n"
    "   ORDER BY rank)\n"},
  {"downsampling", "least_confidence",
    "Chooses the samples whose most probable class has the lowest probability (score.probabilities).",
    "[]",
    "-- Chooses the samples whose most probable class has the lowest probability (score.probabilities).\n"
    "SELECT s.place, s.sample_key,\n"
    "       (SELECT max(value) FROM emb_each(c.probabilities)) AS priority\n"
    "  FROM {selection} s\n"
    "  LEFT JOIN {score} c ON c.pipeline = s.pipeline AND c.sample_key = s.sample_key\n"
    " WHERE s.pipeline = :pipeline AND s.trigger = :trigger\n"},
  {"downsampling", "loss",
    "Draws samples in proportion to the loss (score.loss); weights correct for it.",
    "[]",
    "-- Draws samples in proportion to the loss (score.loss); weights correct for it.\n"
    "SELECT s.place, s.sample_key, c.loss AS share\n"
    "  FROM {selection} s\n"
    "  LEFT JOIN {score} c ON c.pipeline = s.pipeline AND c.sample_key = s.sample_key\n"
    " WHERE s.pipeline = :pipeline AND s.trigger = :trigger\n"},
  {"downsampling", "margin",
    "Chooses the samples whose two most probable classes are closest (score.probabilities).",
    "[]",
    "-- Chooses the samples whose two most probable classes are closest (score.probabilities).\n"
    "SELECT s.place, s.sample_key,\n"
    "       (SELECT max(value) FROM emb_each(c.probabilities)) -\n"
    "       (SELECT value FROM emb_each(c.probabilities) ORDER BY value DESC LIMIT 1 OFFSET 1)\n"
    "         AS priority\n"
    "  FROM {selection} s\n"
    "  LEFT JOIN {score} c ON c.pipeline = s.pipeline AND c.sample_key = s.sample_key\n"
    " WHERE s.pipeline = :pipeline AND s.trigger = :trigger\n"},
  {"downsampling", "rho_loss",
    "Chooses the samples whose loss is highest above score.irreducible_loss, the loss of a model that was trained on held-out samples (the view holdout).",
    "[]",
    "-- Chooses the samples whose loss is highest above score.irreducible_loss, the loss of\n"
    "-- a model that was trained on held-out samples (the view holdout).\n"
    "SELECT s.place, s.sample_key, c.irreducible_loss - c.loss AS priority\n"
    "  FROM {selection} s\n"
    "  LEFT JOIN {score} c ON c.pipeline = s.pipeline AND c.sample_key = s.sample_key\n"
    " WHERE s.pipeline = :pipeline AND s.trigger = :trigger\n"},
  {"downsampling", "rs2",
    "Repeated sampling of random subsets: a different one in each epoch. Without replacement the epochs go through the samples in one random order, part by part, and then in another.",
    "[{\"name\":\"with_replacement\",\"type\":\"boolean\",\"default\":false,\"about\":\"each epoch's subset is independent of the others\"}]",
    "-- Repeated sampling of random subsets: a different one in each epoch. Without\n"
    "-- replacement the epochs go through the samples in one random order, part by part,\n"
    "-- and then in another.\n"
    "-- option with_replacement: boolean, default false; each epoch's subset is independent of the others\n"
    "SELECT s.sample_key, 1.0 AS weight\n"
    "  FROM {selection} s\n"
    " WHERE s.pipeline = :pipeline AND s.trigger = :trigger AND s.place >= :from AND s.place < :to\n"
    " ORDER BY emb_random(:seed, s.sample_key, -1 - :trigger * 1000000 -\n"
    "            CASE WHEN :with_replacement THEN :epoch\n"
    "                 ELSE :epoch / max(1, (:to - :from) / :size) END), s.place\n"
    " LIMIT :size\n"
    "OFFSET CASE WHEN :with_replacement THEN 0\n"
    "            ELSE :epoch % max(1, (:to - :from) / :size) * :size END\n"},
  {"downsampling", "submodular",
    "Chooses samples that maximise a submodular function (score.gradient). A sample without a gradient is an error: its row has no weight.",
    "[{\"name\":\"function\",\"type\":\"text\",\"one_of\":[\"facility_location\",\"graph_cut\",\"log_determinant\"],\"default\":\"facility_location\",\"about\":\"the function\"},{\"name\":\"greedy\",\"type\":\"text\",\"one_of\":[\"naive\",\"lazy\",\"stochastic\"],\"default\":\"lazy\",\"about\":\"how the function is maximised\"},{\"name\":\"epsilon\",\"type\":\"real\",\"least\":0.000001,\"most\":0.999999,\"default\":0.9,\"about\":\"parameter of stochastic greedy\"},{\"name\":\"lambda\",\"type\":\"real\",\"least\":0,\"default\":1,\"about\":\"of graph_cut: the weight of representing all samples\"}]",
    "-- Chooses samples that maximise a submodular function (score.gradient).\n"
    "-- option function: text, one of facility_location|graph_cut|log_determinant, default facility_location; the function\n"
    "-- option greedy: text, one of naive|lazy|stochastic, default lazy; how the function is maximised\n"
    "-- option epsilon: real, 0.000001 to 0.999999, default 0.9; parameter of stochastic greedy\n"
    "-- option lambda: real, 0 to, default 1; of graph_cut: the weight of representing all samples\n"
    "-- A sample without a gradient is an error: its row has no weight.\n"
    "SELECT s.sample_key, NULL AS weight\n"
    "  FROM {selection} s\n"
    "  LEFT JOIN {score} c ON c.pipeline = s.pipeline AND c.sample_key = s.sample_key\n"
    " WHERE s.pipeline = :pipeline AND s.trigger = :trigger AND s.place >= :from AND s.place < :to\n"
    "   AND c.gradient IS NULL\n"
    "UNION ALL\n"
    "SELECT key, weight FROM (\n"
    "  SELECT * FROM emb_chosen((\n"
    "    SELECT emb_coreset(s.sample_key, c.gradient, :size, \n"
    "             printf('submodular(%s, seed=%d, greedy=%s, epsilon=%!.15g%s)', :function, :seed,\n"
    "                    :greedy, :epsilon, CASE :function WHEN 'graph_cut'\n"
    "                    THEN printf(', lambda=%!.15g', :lambda) ELSE '' END))\n"
    "      FROM {selection} s\n"
    "      JOIN {score} c ON c.pipeline = s.pipeline AND c.sample_key = s.sample_key\n"
    "     WHERE s.pipeline = :pipeline AND s.trigger = :trigger\n"
    "       AND s.place >= :from AND s.place < :to))\n"
    "   ORDER BY rank)\n"},
  {"interval", "between_triggers",
    "From a trigger's first sample to the next trigger's first sample: the samples each model was last trained on.",
    "[]",
    "-- From a trigger's first sample to the next trigger's first sample: the samples each\n"
    "-- model was last trained on.\n"
    "SELECT 'trigger ' || trigger AS name, NULL AS model, first_timestamp AS begins,\n"
    "       coalesce(lead(first_timestamp) OVER (ORDER BY trigger), last_timestamp + 1) AS ends\n"
    "  FROM {trigger}\n"
    " WHERE pipeline = :pipeline\n"},
  {"interval", "offset",
    "For each model, the time before or after the last sample it was trained on.",
    "[{\"name\":\"length\",\"type\":\"time\",\"needed\":1,\"about\":\"length after that sample; negative: before it\"}]",
    "-- For each model, the time before or after the last sample it was trained on.\n"
    "-- option length: time, needed; length after that sample; negative: before it\n"
    "SELECT 'offset ' || m.model AS name, m.model AS model,\n"
    "       min(t.last_timestamp, t.last_timestamp + :length) AS begins,\n"
    "       max(t.last_timestamp, t.last_timestamp + :length) AS ends\n"
    "  FROM {trained_model} m JOIN {trigger} t USING (pipeline, trigger)\n"
    " WHERE m.pipeline = :pipeline AND :length <> 0\n"},
  {"interval", "periodic",
    "Around equally spaced moments, for example from two days before to one day after.",
    "[{\"name\":\"every\",\"type\":\"time\",\"least\":0.000001,\"needed\":1,\"about\":\"time between two moments\"},{\"name\":\"start\",\"type\":\"real\",\"about\":\"the first moment; default: the first sample's\"},{\"name\":\"end\",\"type\":\"real\",\"about\":\"the last moment, at most; default: the last sample's\"},{\"name\":\"left\",\"type\":\"time\",\"needed\":1,\"about\":\"beginning of an interval, relative to its moment; negative: before it\"},{\"name\":\"right\",\"type\":\"time\",\"needed\":1,\"about\":\"end of an interval, relative to its moment\"}]",
    "-- Around equally spaced moments, for example from two days before to one day after.\n"
    "-- option every: time, 0.000001 to, needed; time between two moments\n"
    "-- option start: real; the first moment; default: the first sample's\n"
    "-- option end: real; the last moment, at most; default: the last sample's\n"
    "-- option left: time, needed; beginning of an interval, relative to its moment; negative: before it\n"
    "-- option right: time, needed; end of an interval, relative to its moment\n"
    "WITH RECURSIVE moment(i, at) AS (\n"
    "  SELECT 0, coalesce(:start, :first_timestamp)\n"
    "   WHERE coalesce(:start, :first_timestamp) <= coalesce(:end, :last_timestamp)\n"
    "  UNION ALL\n"
    "  SELECT i + 1, coalesce(:start, :first_timestamp) + (i + 1) * :every FROM moment\n"
    "   WHERE coalesce(:start, :first_timestamp) + (i + 1) * :every\n"
    "           <= coalesce(:end, :last_timestamp))\n"
    "SELECT 'period ' || i AS name, NULL AS model, at + :left AS begins, at + :right AS ends FROM moment\n"},
  {"interval", "slices",
    "Consecutive intervals, from a start to an end.",
    "[{\"name\":\"every\",\"type\":\"time\",\"least\":0.000001,\"needed\":1,\"about\":\"length of an interval\"},{\"name\":\"start\",\"type\":\"real\",\"about\":\"beginning of the first interval; default: the first sample\"},{\"name\":\"end\",\"type\":\"real\",\"about\":\"end of the last interval, exclusive; default: the last sample\"}]",
    "-- Consecutive intervals, from a start to an end.\n"
    "-- option every: time, 0.000001 to, needed; length of an interval\n"
    "-- option start: real; beginning of the first interval; default: the first sample\n"
    "-- option end: real; end of the last interval, exclusive; default: the last sample\n"
    "WITH RECURSIVE slice(i, begins, ends) AS (\n"
    "  SELECT 0, coalesce(:start, :first_timestamp), coalesce(:start, :first_timestamp) + :every\n"
    "  UNION ALL\n"
    "  SELECT i + 1, coalesce(:start, :first_timestamp) + (i + 1) * :every,\n"
    "         coalesce(:start, :first_timestamp) + (i + 2) * :every FROM slice\n"
    "   WHERE CASE WHEN :end IS NOT NULL THEN ends < :end ELSE ends <= :last_timestamp END)\n"
    "SELECT 'slice ' || i AS name, NULL AS model, begins, min(ends, coalesce(:end, ends)) AS ends\n"
    "  FROM slice\n"
    " WHERE begins < coalesce(:end, begins + 1)\n"},
  {"interval", "static",
    "One interval, for all models.",
    "[{\"name\":\"start\",\"type\":\"real\",\"needed\":1,\"about\":\"beginning of the interval\"},{\"name\":\"end\",\"type\":\"real\",\"needed\":1,\"about\":\"end of the interval, exclusive\"}]",
    "-- One interval, for all models.\n"
    "-- option start: real, needed; beginning of the interval\n"
    "-- option end: real, needed; end of the interval, exclusive\n"
    "SELECT 'static' AS name, NULL AS model, :start AS begins, :end AS ends\n"},
};
/* clang-format on */

const size_t ext_policy_texts_n = 36;
