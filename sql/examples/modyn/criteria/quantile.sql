-- Worse than a quantile of the last values.  The first value triggers.
-- option window: integer, 1 to, default 10; number of values compared with
-- option quantile: share, 0 to 1, default 0.05; the share of the worst values
WITH
past AS (
  SELECT value FROM {decision_part}
   WHERE pipeline = :pipeline AND member = :member AND value IS NOT NULL
   ORDER BY position DESC LIMIT :window),
ranked AS (SELECT value, row_number() OVER (ORDER BY :sign * value) - 1 AS rank FROM past),
-- Position of the quantile among the values; like numpy, it interpolates linearly.
place(at) AS (SELECT (1.0 - :quantile) * (count(*) - 1) FROM past),
bound(threshold) AS (
  SELECT a.value + (b.value - a.value) * (place.at - a.rank)
    FROM place JOIN ranked a ON a.rank = CAST(place.at AS INTEGER)
               JOIN ranked b ON b.rank = min(a.rank + 1, (SELECT count(*) - 1 FROM past)))
SELECT threshold, coalesce(:sign * :value > :sign * threshold, 1) AS triggered,
       CASE WHEN threshold IS NULL THEN printf('%g, the first value', :value)
            ELSE printf('%g against %g', :value, threshold) END AS reason
  FROM (SELECT (SELECT threshold FROM bound) AS threshold)
