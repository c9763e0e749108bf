-- One after the other, from a start to an end.
-- option every: real, 0.000001 to, needed; how long each is
-- option start: real; where the first begins; without it, at the first sample
-- option end: real; up to here, not included; without it, to the last sample
WITH RECURSIVE slice(i, begins, ends) AS (
  SELECT 0, coalesce(:start, :first_timestamp), coalesce(:start, :first_timestamp) + :every
  UNION ALL
  SELECT i + 1, coalesce(:start, :first_timestamp) + (i + 1) * :every,
         coalesce(:start, :first_timestamp) + (i + 2) * :every FROM slice
   WHERE CASE WHEN :end IS NOT NULL THEN ends < :end ELSE ends <= :last_timestamp END)
SELECT 'slice ' || i AS name, NULL AS model, begins, min(ends, coalesce(:end, ends)) AS ends
  FROM slice
 WHERE begins < coalesce(:end, begins + 1)
