-- Chooses unused samples (which no trigger has used) and used ones in fixed shares,
-- as many as the shares allow. At the first trigger all samples are unused.
-- option unused_share: share, 0.01 to 0.99, needed; share of unused samples in the selection
WITH
there AS MATERIALIZED (
  SELECT count(*) FILTER (WHERE used = 0) AS unused, count(*) FILTER (WHERE used > 0) AS used
    FROM {sample_state} WHERE pipeline = :pipeline AND position BETWEEN :low AND :high),
-- A share like 0.7 is not exact in binary: 1 + 1e-14 makes up for its error.
most AS (
  SELECT CASE WHEN used = 0 THEN min(:size, unused)
              ELSE min(:size, unused / :unused_share * (1 + 1e-14),
                       used / (1 - :unused_share) * (1 + 1e-14)) END AS n, there.*
    FROM there),
share AS MATERIALIZED (
  SELECT CASE WHEN used = 0 THEN n
              ELSE CAST(round(n * :unused_share) AS INTEGER) END AS unused,
         CASE WHEN used = 0 THEN 0
              ELSE CAST(n AS INTEGER) - CAST(round(n * :unused_share) AS INTEGER)
         END AS used
    FROM most)
SELECT sample_key FROM (
  SELECT * FROM (
    SELECT sample_key, position FROM {sample_state}
     WHERE pipeline = :pipeline AND position BETWEEN :low AND :high AND used = 0
     ORDER BY emb_random(:seed, sample_key, :stream), position
     LIMIT (SELECT unused FROM share))
  UNION ALL
  SELECT * FROM (
    SELECT sample_key, position FROM {sample_state}
     WHERE pipeline = :pipeline AND position BETWEEN :low AND :high AND used > 0
     ORDER BY emb_random(:seed, sample_key, :stream), position
     LIMIT (SELECT used FROM share)))
 ORDER BY emb_random(:seed, sample_key, :stream), position;

UPDATE {sample_state} SET used = used + 1, last_used = :trigger
 WHERE pipeline = :pipeline
   AND sample_key IN (SELECT sample_key FROM {selection}
                       WHERE pipeline = :pipeline AND trigger = :trigger)
