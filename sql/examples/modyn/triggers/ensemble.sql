-- Triggers when enough of several policies do.  Each is asked at every multiple of
-- the interval.
-- option members: array, needed; the trigger policies
-- option interval: integer, 1 to, needed; samples between two decisions
-- option aggregate: text, one of majority|at_least|custom, default majority; the rule for "enough"
-- option n: integer, 1 to, default 1; with at_least: the number of policies
-- option when: sql, default fired * 2 > members; with custom: an expression of fired, members and votes (a JSON array of 0 and 1)
SELECT CASE :aggregate WHEN 'majority' THEN fired * 2 > members
                       WHEN 'at_least' THEN fired >= :n
                       ELSE ({when}) END AS triggered,
       printf('%d of %d policies: %s', fired, members, votes) AS reason
  FROM (SELECT :fired AS fired, :count AS members, :votes AS votes)
