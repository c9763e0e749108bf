-- Triggers when the model does worse on recent samples.  The first trigger comes at
-- the first decision, because there is no model yet.
-- option metric: sql, default avg(prediction = label); an aggregate of prediction, label, sample_key and timestamp
-- option interval: integer, 1 to, needed; number of samples that are measured, and samples between two decisions
-- option higher_is_worse: boolean, default false; true for a loss
-- option criterion: object, needed; decides which values trigger
WITH
at(position) AS (
  SELECT (:evaluated / :step + 1) * :step WHERE (:evaluated / :step + 1) * :step <= :last),
measured AS (
  SELECT ({metric}) AS value, count(*) AS n, total(missing) AS missing
    FROM (SELECT s.sample_key, s.timestamp, s.label, p.prediction, p.key IS NULL AS missing
            FROM at JOIN {sample_state} s LEFT JOIN {predictions} AS p ON p.key = s.sample_key
           WHERE s.pipeline = :pipeline AND s.position <= at.position
             AND s.position > at.position - :interval AND :first > 1))
SELECT at.position,
       CASE WHEN :first = 1 THEN 1 END AS triggered,
       CASE WHEN missing = 0 THEN value END AS value,
       CASE WHEN :higher_is_worse THEN 1 ELSE -1 END AS sign,
       CASE WHEN :first = 1 THEN 'no model before the first trigger'
            WHEN missing > 0 THEN printf('%d of %d samples up to position %d have no prediction',
                                         missing, n, at.position)
            WHEN value IS NULL THEN printf('the metric is NULL up to position %d', at.position)
            ELSE printf('on %d samples', n) END AS reason
  FROM at, measured
