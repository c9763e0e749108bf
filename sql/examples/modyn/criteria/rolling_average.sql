-- Worse than the average of the last values, by more than a deviation.  The first
-- value triggers.
-- option window: integer, 1 to, default 10; number of values in the average
-- option deviation: share, 0 to, default 0.05; the deviation allowed
-- option absolute: boolean, default false; the deviation is a difference, not a share of the average
WITH past(average) AS (
  SELECT avg(value) FROM (
    SELECT value FROM {decision_part}
     WHERE pipeline = :pipeline AND member = :member AND value IS NOT NULL
     ORDER BY position DESC LIMIT :window))
SELECT threshold, coalesce(:sign * :value > :sign * threshold, 1) AS triggered,
       CASE WHEN threshold IS NULL THEN printf('%g, the first value', :value)
            ELSE printf('%g against %g', :value, threshold) END AS reason
  FROM (SELECT average + :sign * :deviation *
               CASE WHEN :absolute THEN 1 ELSE abs(average) END AS threshold FROM past)
