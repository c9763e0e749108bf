-- Around moments at equal distances, as from two days before each to one after.
-- option every: real, 0.000001 to, needed; between two moments
-- option start: real; the first; without it, the first sample's
-- option end: real; the last at most; without it, the last sample's
-- option left: real, needed; where an interval begins, from its moment on: -2 days
-- option right: real, needed; where it ends
WITH RECURSIVE moment(i, at) AS (
  SELECT 0, coalesce(:start, :first_timestamp)
   WHERE coalesce(:start, :first_timestamp) <= coalesce(:end, :last_timestamp)
  UNION ALL
  SELECT i + 1, coalesce(:start, :first_timestamp) + (i + 1) * :every FROM moment
   WHERE coalesce(:start, :first_timestamp) + (i + 1) * :every
           <= coalesce(:end, :last_timestamp))
SELECT 'period ' || i AS name, NULL AS model, at + :left AS begins, at + :right AS ends FROM moment
