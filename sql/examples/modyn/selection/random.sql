-- Samples at random, each alike, in random order.
-- Only those are sorted that have a chance: of a share of the candidates that is a
-- little more than what is wanted.  That it were too few has a probability below 1e-13:
-- it is more by 8 roots of what is wanted, of which both terms of min() are bounds, as
-- n / k + 16 k is for any k; sqrt() is not in every SQLite.
SELECT sample_key FROM sample_state
 WHERE pipeline = :pipeline AND position BETWEEN :low AND :high
   AND emb_random(:seed, sample_key, :stream) <
         (:size + min(:size / 16.0 + 256, :size / 256.0 + 4096) + 64) / :candidates
 ORDER BY emb_random(:seed, sample_key, :stream), position
 LIMIT :size
