-- Samples at random, each alike, in random order.
-- Only those are sorted that have a chance: of a share of the candidates that is a
-- little more than what is wanted.  That it were too few has a probability below 1e-13.
SELECT sample_key FROM sample_state
 WHERE pipeline = :pipeline AND position BETWEEN :low AND :high
   AND emb_random(:seed, sample_key, :stream) <
         (:size + 8 * sqrt(:size) + 64.0) / :candidates
 ORDER BY emb_random(:seed, sample_key, :stream), position
 LIMIT :size
