-- Chooses the samples whose class probabilities have the highest entropy (score.probabilities).
SELECT s.place, s.sample_key, -emb_entropy(c.probabilities) AS priority
  FROM {selection} s
  LEFT JOIN {score} c ON c.pipeline = s.pipeline AND c.sample_key = s.sample_key
 WHERE s.pipeline = :pipeline AND s.trigger = :trigger
