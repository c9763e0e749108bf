-- Chooses the samples whose two most probable classes are closest (score.probabilities).
SELECT s.place, s.sample_key,
       (SELECT max(value) FROM emb_each(c.probabilities)) -
       (SELECT value FROM emb_each(c.probabilities) ORDER BY value DESC LIMIT 1 OFFSET 1)
         AS priority
  FROM {selection} s
  LEFT JOIN {score} c ON c.pipeline = s.pipeline AND c.sample_key = s.sample_key
 WHERE s.pipeline = :pipeline AND s.trigger = :trigger
