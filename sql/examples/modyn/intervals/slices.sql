-- Consecutive intervals, from a start to an end.
-- option every: time, 0.000001 to, needed; length of an interval
-- option start: real; beginning of the first interval; default: the first sample
-- option end: real; end of the last interval, exclusive; default: the last sample
WITH RECURSIVE slice(i, begins, ends) AS (
  SELECT 0, coalesce(:start, :first_timestamp), coalesce(:start, :first_timestamp) + :every
  UNION ALL
  SELECT i + 1, coalesce(:start, :first_timestamp) + (i + 1) * :every,
         coalesce(:start, :first_timestamp) + (i + 2) * :every FROM slice
   WHERE CASE WHEN :end IS NOT NULL THEN ends < :end ELSE ends <= :last_timestamp END)
SELECT 'slice ' || i AS name, NULL AS model, begins, min(ends, coalesce(:end, ends)) AS ends
  FROM slice
 WHERE begins < coalesce(:end, begins + 1)
