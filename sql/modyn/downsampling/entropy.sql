-- Those whose classes have the most entropy (score.probabilities).
SELECT s.place, s.sample_key,
       (SELECT sum(CASE WHEN value > 0 THEN value * ln(value) ELSE 0 END)
          FROM emb_each(c.probabilities)) AS priority
  FROM selection s
  LEFT JOIN score c ON c.pipeline = s.pipeline AND c.sample_key = s.sample_key
 WHERE s.pipeline = :pipeline AND s.trigger = :trigger
