-- Chooses all samples, by default of all triggers; with "tail": 0 those since the last
-- trigger. If there are more than the limit, takes the last ones or random ones.
-- option limit_by: text, one of last|random, default last; which samples to take
SELECT sample_key FROM {sample_state}
 WHERE pipeline = :pipeline
   AND position BETWEEN :low AND :high
   AND (:limit_by <> 'last' OR position > coalesce(
         (SELECT position FROM {sample_state}
           WHERE pipeline = :pipeline AND position BETWEEN :low AND :high
           ORDER BY position DESC LIMIT 1 OFFSET :size), 0))
   AND (:limit_by = 'last' OR :size = :candidates OR
        emb_random(:seed, sample_key, :stream) <
          (:size + min(:size / 16.0 + 256, :size / 256.0 + 4096) + 64) / :candidates)
 ORDER BY CASE WHEN :limit_by = 'random' AND :size < :candidates
               THEN emb_random(:seed, sample_key, :stream) END, position
 LIMIT :size
