-- Triggers after each period of the samples' timestamps.  A trigger ends before the
-- first sample of the next period; periods without a sample are skipped.
-- option every: time, 0.000001 to, needed; length of a period, in units of the timestamps
-- option start: real; beginning of a period; default: the first sample
WITH
origin(at) AS (
  SELECT coalesce(:start, (SELECT timestamp FROM {sample_state}
                            WHERE pipeline = :pipeline ORDER BY position LIMIT 1))),
due(at) AS (
  SELECT CASE WHEN s.timestamp < o.at THEN o.at
              ELSE o.at + (CAST((s.timestamp - o.at) / :every AS INTEGER) + 1) * :every END
    FROM origin o, {sample_state} s
   WHERE s.pipeline = :pipeline AND s.position >= :first AND s.position <= :last
   ORDER BY s.position LIMIT 1),
next(position, timestamp) AS (
  SELECT s.position, s.timestamp FROM {sample_state} s, due
   WHERE s.pipeline = :pipeline AND s.position > max(:evaluated, :first)
     AND s.position <= :last AND s.timestamp >= due.at
   ORDER BY s.position LIMIT 1)
SELECT position, position - 1 AS through, 1 AS triggered, timestamp AS value,
       due.at AS threshold,
       printf('a sample of %s, from %s on', timestamp, due.at) AS reason
  FROM next, due
UNION ALL
SELECT :last, NULL, 0, NULL, (SELECT at FROM due),
       printf('no sample from %s on', (SELECT at FROM due))
 WHERE NOT EXISTS(SELECT 1 FROM next) AND :last > :evaluated
