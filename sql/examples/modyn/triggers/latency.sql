-- Triggers when the samples have waited long enough to be worth a training: the sum
-- of their waiting times, times a factor, is compared with the expected time of
-- training on them (the view training_forecast).  The first trigger comes at the
-- first decision.
-- option interval: integer, 1 to, needed; samples between two decisions
-- option incorporation_delay_per_training_second: real, 0 to, needed; the factor
WITH
at(position) AS (
  SELECT (:evaluated / :step + 1) * :step WHERE (:evaluated / :step + 1) * :step <= :last),
waited AS (
  SELECT total((SELECT timestamp FROM {sample_state}
                 WHERE pipeline = :pipeline AND position <= at.position
                 ORDER BY position DESC LIMIT 1) - s.timestamp) AS area
    FROM at, {sample_state} s
   WHERE s.pipeline = :pipeline AND s.position BETWEEN :first AND at.position)
SELECT at.position,
       CASE WHEN :first = 1 THEN 1 ELSE
         area * :incorporation_delay_per_training_second
           >= intercept + slope * (at.position - :first + 1) END AS triggered,
       CASE WHEN intercept IS NOT NULL
            THEN area * :incorporation_delay_per_training_second END AS value,
       intercept + slope * (at.position - :first + 1) AS threshold,
       CASE WHEN :first = 1 THEN 'no model before the first trigger'
            WHEN intercept IS NULL
              THEN 'no row of {trained_model} says how long training takes'
            ELSE printf('%d samples have waited %g', at.position - :first + 1, area) END AS reason
  FROM at, waited
  LEFT JOIN {training_forecast} f ON f.pipeline = :pipeline
