-- Chooses samples uniformly at random, in random order.
-- Sorts only a random share of the candidates, slightly larger than needed.  The share
-- is too small with a probability below 1e-13: it exceeds the size n by at least
-- 8 sqrt(n).  Both terms of min() are upper bounds of that, since n / k + 16 k is one
-- for any k; not every SQLite has sqrt().
SELECT sample_key FROM {sample_state}
 WHERE pipeline = :pipeline AND position BETWEEN :low AND :high
   AND emb_random(:seed, sample_key, :stream) <
         (:size + min(:size / 16.0 + 256, :size / 256.0 + 4096) + 64) / :candidates
 ORDER BY emb_random(:seed, sample_key, :stream), position
 LIMIT :size
