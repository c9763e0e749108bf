-- Chooses the samples whose loss is highest above score.irreducible_loss, the loss of
-- a model that was trained on held-out samples (the view holdout).
SELECT s.place, s.sample_key, c.irreducible_loss - c.loss AS priority
  FROM {selection} s
  LEFT JOIN {score} c ON c.pipeline = s.pipeline AND c.sample_key = s.sample_key
 WHERE s.pipeline = :pipeline AND s.trigger = :trigger
