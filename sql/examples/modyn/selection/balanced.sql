-- Chooses the same number of samples from each group: labels, or the values of `by`.
-- A smaller group gives all its samples, and the others share the rest (water
-- filling), so the total is exactly the number requested.
-- option by: sql, default label; the group, an expression of label, timestamp, trigger and sample_key
-- option strict: boolean, default false; no group gives more than the smallest group has
WITH
candidate AS (
  SELECT s.sample_key, s.position, ({by}) AS kind,
         emb_random(:seed, s.sample_key, :stream) AS draw
    FROM (SELECT sample_key, position, label, timestamp, t.trigger
            FROM {trigger} t CROSS JOIN {sample_state} s
           WHERE t.pipeline = :pipeline AND t.last_position >= :low
             AND s.pipeline = :pipeline AND s.position BETWEEN :low AND :high
             AND s.position BETWEEN t.first_position AND t.last_position) AS s),
counted AS MATERIALIZED (
  SELECT kind, count(*) AS n, count(*) OVER () AS kinds, min(count(*)) OVER () AS smallest
    FROM candidate GROUP BY kind),
-- From the smallest group to the largest: the number left for it and later groups.
filled AS (
  SELECT kind, n, kinds - row_number() OVER size + 1 AS after, smallest,
         :size - coalesce(sum(n) OVER (size ROWS BETWEEN UNBOUNDED PRECEDING
                                                     AND 1 PRECEDING), 0) AS rest
    FROM counted WINDOW size AS (ORDER BY n, kind)),
-- The first group that has more than its equal share sets the level for the rest.
level AS (
  SELECT max(rest) AS rest, max(after) AS after FROM filled WHERE n * after > rest),
share AS MATERIALIZED (
  SELECT kind, n,
         CASE WHEN :strict THEN min(smallest, :size / (SELECT max(after) FROM filled))
              WHEN n * f.after <= f.rest THEN n
              ELSE level.rest / level.after + (level.after - f.after < level.rest % level.after)
         END AS share
    FROM filled f, level)
SELECT sample_key FROM (
  SELECT c.sample_key, c.draw, s.share,
         row_number() OVER (PARTITION BY s.kind ORDER BY c.draw, c.position) AS rank
    FROM candidate c JOIN share s ON s.kind IS c.kind
   WHERE c.draw < (s.share + min(s.share / 16.0 + 256, s.share / 256.0 + 4096) + 64) / s.n)
 WHERE rank <= share
 ORDER BY draw
