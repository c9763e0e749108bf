-- Chooses samples whose weighted gradients represent all: facility location, with weights (score.gradient).
-- option greedy: text, one of naive|lazy|stochastic, default lazy; how the function is maximised
-- option epsilon: real, 0.000001 to 0.999999, default 0.9; parameter of stochastic greedy
-- A sample without a gradient is an error: its row has no weight.
SELECT s.sample_key, NULL AS weight
  FROM {selection} s
  LEFT JOIN {score} c ON c.pipeline = s.pipeline AND c.sample_key = s.sample_key
 WHERE s.pipeline = :pipeline AND s.trigger = :trigger AND s.place >= :from AND s.place < :to
   AND c.gradient IS NULL
UNION ALL
SELECT key, weight FROM (
  SELECT * FROM emb_chosen((
    SELECT emb_coreset(s.sample_key, c.gradient, :size, 
             printf('craig(seed=%d, greedy=%s, epsilon=%!.15g)', :seed, :greedy, :epsilon))
      FROM {selection} s
      JOIN {score} c ON c.pipeline = s.pipeline AND c.sample_key = s.sample_key
     WHERE s.pipeline = :pipeline AND s.trigger = :trigger
       AND s.place >= :from AND s.place < :to))
   ORDER BY rank)
