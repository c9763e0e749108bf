-- Triggers when the mistakes that a new model would have avoided have lasted long
-- enough to be worth a training: the area under the curve of their number over time
-- since the last trigger, times a factor, is compared with the expected training time
-- (the view training_forecast).  The mistakes of an interval arrive evenly over its
-- time, and last from then on.  The first trigger comes at the first decision.
-- option interval: integer, 1 to, needed; samples between two decisions
-- option avoidable_misclassification_latency_per_training_second: real, 0 to, needed; the factor
-- option expected_accuracy: share, 0 to 1, needed; accuracy of a model that is up to date
-- option allow_reduction: boolean, default false; an interval with fewer mistakes than expected reduces the sum
WITH
at(position) AS (
  SELECT (:evaluated / :step + 1) * :step WHERE (:evaluated / :step + 1) * :step <= :last),
each AS (
  SELECT :expected_accuracy * count(*) - total(p.prediction = s.label) AS avoidable,
         total(p.key IS NULL) AS missing, min(s.position) AS low, max(s.position) AS high
    FROM at JOIN {sample_state} s LEFT JOIN {predictions} AS p ON p.key = s.sample_key
   WHERE s.pipeline = :pipeline AND s.position BETWEEN :first AND at.position AND :first > 1
   GROUP BY (s.position - 1) / :interval),
-- An interval lasts from the last sample before it to its own last sample.
timed AS (
  SELECT CASE WHEN :allow_reduction THEN avoidable ELSE max(avoidable, 0) END AS avoidable,
         missing,
         coalesce((SELECT timestamp FROM {sample_state}
                    WHERE pipeline = :pipeline AND position < low
                    ORDER BY position DESC LIMIT 1),
                  (SELECT timestamp FROM {sample_state}
                    WHERE pipeline = :pipeline AND position = low)) AS begins,
         (SELECT timestamp FROM {sample_state}
           WHERE pipeline = :pipeline AND position = high) AS ends
    FROM each),
measured AS (
  SELECT total(avoidable * ((SELECT timestamp FROM {sample_state}
                              WHERE pipeline = :pipeline AND position <= at.position
                              ORDER BY position DESC LIMIT 1) - (begins + ends) / 2.0)) AS area,
         total(missing) AS missing
    FROM at, timed)
SELECT at.position,
       CASE WHEN :first = 1 THEN 1 WHEN missing = 0
            THEN area * :avoidable_misclassification_latency_per_training_second
                   >= intercept + slope * (at.position - :first + 1) END AS triggered,
       CASE WHEN :first > 1 AND missing = 0 AND intercept IS NOT NULL
            THEN area * :avoidable_misclassification_latency_per_training_second END AS value,
       intercept + slope * (at.position - :first + 1) AS threshold,
       CASE WHEN :first = 1 THEN 'no model before the first trigger'
            WHEN missing > 0 THEN printf('%d samples up to position %d have no prediction',
                                         missing, at.position)
            WHEN intercept IS NULL
              THEN 'no row of {trained_model} says how long training takes'
            ELSE printf('avoidable mistakes have lasted %g', area) END AS reason
  FROM at, measured
  LEFT JOIN {training_forecast} f ON f.pipeline = :pipeline
