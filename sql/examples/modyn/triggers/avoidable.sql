-- Triggers when the model has made `threshold` more mistakes than expected, summed
-- over all intervals since the last trigger.  The first trigger comes at the first
-- decision, because there is no model yet.
-- option interval: integer, 1 to, needed; samples between two decisions
-- option threshold: real, 0 to, needed; number of mistakes beyond the expected ones
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
  SELECT total(CASE WHEN :allow_reduction THEN avoidable ELSE max(avoidable, 0) END) AS value,
         total(missing) AS missing
    FROM each)
SELECT at.position,
       CASE WHEN :first = 1 THEN 1 WHEN missing = 0 THEN value >= :threshold END AS triggered,
       CASE WHEN :first > 1 AND missing = 0 THEN value END AS value,
       :threshold AS threshold,
       CASE WHEN :first = 1 THEN 'no model before the first trigger'
            WHEN missing > 0 THEN printf('%d samples up to position %d have no prediction',
                                         missing, at.position)
            ELSE printf('%g avoidable mistakes', value) END AS reason
  FROM at, measured
