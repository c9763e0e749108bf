-- All samples, by default of all triggers; with "tail": 0 those that came since the
-- last trigger. Of more than the limit the last ones, or some at random.
-- option limit_by: text, one of last|random, default last; which ones
SELECT sample_key FROM sample_state
 WHERE pipeline = :pipeline
   AND position BETWEEN CASE :limit_by WHEN 'last' THEN :high - :size + 1 ELSE :low END AND :high
   AND (:limit_by = 'last' OR :size = :candidates OR
        emb_random(:seed, sample_key, :stream) <
          (:size + 8 * sqrt(:size) + 64.0) / :candidates)
 ORDER BY CASE WHEN :limit_by = 'random' AND :size < :candidates
               THEN emb_random(:seed, sample_key, :stream) END, position
 LIMIT :size
