-- Those whose loss is most above what it cannot get below: score.irreducible_loss,
-- by a model that was trained on held-out samples (the view holdout).
SELECT s.place, s.sample_key, c.irreducible_loss - c.loss AS priority
  FROM selection s
  LEFT JOIN score c ON c.pipeline = s.pipeline AND c.sample_key = s.sample_key
 WHERE s.pipeline = :pipeline AND s.trigger = :trigger
