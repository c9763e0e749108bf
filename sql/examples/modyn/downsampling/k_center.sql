-- Chooses centres: each next one is the sample farthest from those already chosen (score.gradient).
-- A sample without a gradient is an error: its row has no weight.
SELECT s.sample_key, NULL AS weight
  FROM {selection} s
  LEFT JOIN {score} c ON c.pipeline = s.pipeline AND c.sample_key = s.sample_key
 WHERE s.pipeline = :pipeline AND s.trigger = :trigger AND s.place >= :from AND s.place < :to
   AND c.gradient IS NULL
UNION ALL
SELECT key, weight FROM (
  SELECT * FROM emb_chosen((
    SELECT emb_coreset(s.sample_key, c.gradient, :size, printf('k-center(seed=%d)', :seed))
      FROM {selection} s
      JOIN {score} c ON c.pipeline = s.pipeline AND c.sample_key = s.sample_key
     WHERE s.pipeline = :pipeline AND s.trigger = :trigger
       AND s.place >= :from AND s.place < :to))
   ORDER BY rank)
