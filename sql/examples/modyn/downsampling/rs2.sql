-- Repeated sampling of random subsets: a different one in each epoch. Without
-- replacement the epochs go through the samples in one random order, part by part,
-- and then in another.
-- option with_replacement: boolean, default false; each epoch's subset is independent of the others
SELECT s.sample_key, 1.0 AS weight
  FROM {selection} s
 WHERE s.pipeline = :pipeline AND s.trigger = :trigger AND s.place >= :from AND s.place < :to
 ORDER BY emb_random(:seed, s.sample_key, -1 - :trigger * 1000000 -
            CASE WHEN :with_replacement THEN :epoch
                 ELSE :epoch / max(1, (:to - :from) / :size) END), s.place
 LIMIT :size
OFFSET CASE WHEN :with_replacement THEN 0
            ELSE :epoch % max(1, (:to - :from) / :size) * :size END
