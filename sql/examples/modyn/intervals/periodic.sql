-- Around equally spaced moments, for example from two days before to one day after.
-- option every: time, 0.000001 to, needed; time between two moments
-- option start: real; the first moment; default: the first sample's
-- option end: real; the last moment, at most; default: the last sample's
-- option left: time, needed; beginning of an interval, relative to its moment; negative: before it
-- option right: time, needed; end of an interval, relative to its moment
WITH RECURSIVE moment(i, at) AS (
  SELECT 0, coalesce(:start, :first_timestamp)
   WHERE coalesce(:start, :first_timestamp) <= coalesce(:end, :last_timestamp)
  UNION ALL
  SELECT i + 1, coalesce(:start, :first_timestamp) + (i + 1) * :every FROM moment
   WHERE coalesce(:start, :first_timestamp) + (i + 1) * :every
           <= coalesce(:end, :last_timestamp))
SELECT 'period ' || i AS name, NULL AS model, at + :left AS begins, at + :right AS ends FROM moment
