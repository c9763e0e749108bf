-- Chooses the samples whose most probable class has the lowest probability (score.probabilities).
SELECT s.place, s.sample_key,
       (SELECT max(value) FROM emb_each(c.probabilities)) AS priority
  FROM {selection} s
  LEFT JOIN {score} c ON c.pipeline = s.pipeline AND c.sample_key = s.sample_key
 WHERE s.pipeline = :pipeline AND s.trigger = :trigger
