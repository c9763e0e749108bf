-- Triggers when the mistakes that a new model would have avoided cost as much as
-- training it: their number since the last trigger, times the training time that one
-- of them is worth, is compared with the expected training time (the view
-- training_forecast).  The first trigger comes at the first decision.
-- option interval: integer, 1 to, needed; samples between two decisions
-- option training_seconds_per_mistake: time, 0 to, needed; the training time that one mistake is worth
-- option expected_accuracy: share, 0 to 1, needed; accuracy of a model that is up to date
-- option allow_reduction: boolean, default false; an interval with fewer mistakes than expected reduces the sum
WITH
at(position) AS (
  SELECT (:evaluated / :step + 1) * :step WHERE (:evaluated / :step + 1) * :step <= :last),
each AS (
  SELECT :expected_accuracy * count(*) - total(p.prediction = s.label) AS avoidable,
         total(p.key IS NULL) AS missing
    FROM at JOIN {sample_state} s LEFT JOIN {predictions} AS p ON p.key = s.sample_key
   WHERE s.pipeline = :pipeline AND s.position BETWEEN :first AND at.position AND :first > 1
   GROUP BY (s.position - 1) / :interval),
measured AS (
  SELECT total(CASE WHEN :allow_reduction THEN avoidable ELSE max(avoidable, 0) END)
           * :training_seconds_per_mistake AS value,
         total(missing) AS missing
    FROM each)
SELECT at.position,
       CASE WHEN :first = 1 THEN 1 WHEN missing = 0
            THEN value >= intercept + slope * (at.position - :first + 1) END AS triggered,
       CASE WHEN :first > 1 AND missing = 0 AND intercept IS NOT NULL THEN value END AS value,
       intercept + slope * (at.position - :first + 1) AS threshold,
       CASE WHEN :first = 1 THEN 'no model before the first trigger'
            WHEN missing > 0 THEN printf('%d samples up to position %d have no prediction',
                                         missing, at.position)
            WHEN intercept IS NULL
              THEN 'no row of {trained_model} says how long training takes'
            ELSE printf('avoidable mistakes worth %g', value) END AS reason
  FROM at, measured
  LEFT JOIN {training_forecast} f ON f.pipeline = :pipeline
