-- Triggers when recent samples differ from those before the last trigger.  The first
-- trigger comes at the first decision, because there is nothing to compare with.
-- option metric: sql, needed; an aggregate of value, is_reference, sample_key, label and timestamp
-- option interval: integer, 1 to, needed; samples between two decisions
-- option window: text, one of amount|time, default amount; the unit of reference and current: samples or time
-- option reference: real, 0 to, needed; length of the window that ends at the last trigger
-- option current: real, 0 to, needed; length of the window that ends now
-- option overlap: boolean, default false; the current window may begin before the last trigger
-- option sample_size: integer, 1 to; maximum number of samples per window, drawn at random
-- option criterion: object, needed; decides which values trigger
WITH
at(position) AS (
  SELECT (:evaluated / :step + 1) * :step WHERE (:evaluated / :step + 1) * :step <= :last),
old AS (
  SELECT s.sample_key, s.timestamp, s.label FROM at, {sample_state} s
   WHERE s.pipeline = :pipeline AND s.position < :first
     AND s.position >= CASE :window WHEN 'amount' THEN :first - :reference ELSE 1 END
     AND (:window = 'amount' OR s.timestamp > -:reference +
          (SELECT timestamp FROM {sample_state}
            WHERE pipeline = :pipeline AND position < :first
            ORDER BY position DESC LIMIT 1))),
new AS (
  SELECT s.sample_key, s.timestamp, s.label FROM at, {sample_state} s
   WHERE s.pipeline = :pipeline AND s.position <= at.position
     AND s.position >= CASE WHEN :overlap THEN 1 ELSE :first END
     AND s.position > CASE :window WHEN 'amount' THEN at.position - :current ELSE 0 END
     AND (:window = 'amount' OR s.timestamp > -:current +
          (SELECT timestamp FROM {sample_state}
            WHERE pipeline = :pipeline AND position <= at.position
            ORDER BY position DESC LIMIT 1))),
drawn AS (
  SELECT *, 1 AS is_reference
    FROM (SELECT * FROM old
           ORDER BY CASE WHEN :sample_size > 0 THEN emb_random(:seed, sample_key) END
           LIMIT coalesce(:sample_size, -1))
  UNION ALL
  SELECT *, 0
    FROM (SELECT * FROM new
           ORDER BY CASE WHEN :sample_size > 0 THEN emb_random(:seed, sample_key) END
           LIMIT coalesce(:sample_size, -1))),
measured AS (
  SELECT ({metric}) AS value, total(is_reference) AS olds, count(*) AS n,
         total(missing) AS missing
    FROM (SELECT d.*, f.value, f.key IS NULL AS missing
            FROM drawn d LEFT JOIN {features} AS f ON f.key = d.sample_key))
SELECT at.position,
       CASE WHEN olds = 0 THEN 1 WHEN olds = n THEN 0 WHEN value IS NULL AND missing = 0 THEN 0
            END AS triggered,
       CASE WHEN olds > 0 AND olds < n AND
                 (missing = 0 OR (SELECT features IS NULL FROM {pipeline}
                                   WHERE pipeline = :pipeline)) THEN value END AS value,
       CASE WHEN olds = 0 THEN 'nothing to compare with before the first trigger'
            WHEN olds = n THEN 'no samples since the last trigger'
            WHEN missing > 0 AND (SELECT features IS NOT NULL FROM {pipeline}
                                   WHERE pipeline = :pipeline)
              THEN printf('%d of %d samples up to position %d have no features',
                          missing, n, at.position)
            WHEN value IS NULL THEN 'the metric is NULL'
            ELSE printf('%d samples against %d', n - olds, olds) END AS reason
  FROM at, measured
