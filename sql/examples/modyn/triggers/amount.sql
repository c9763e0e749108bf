-- Triggers after a fixed number of samples.
-- option samples: integer, 1 to, needed; the number of samples
SELECT max(:first + :samples - 1, :evaluated + 1) AS position, 1 AS triggered,
       :samples AS value, :samples AS threshold,
       printf('%d samples since the last trigger', :samples) AS reason
 WHERE max(:first + :samples - 1, :evaluated + 1) <= :last
UNION ALL
SELECT :last, 0, :last - :first + 1, :samples,
       printf('%d of %d samples since the last trigger', :last - :first + 1, :samples)
 WHERE :first + :samples - 1 > :last AND :last > :evaluated
