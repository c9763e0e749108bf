-- In proportion to the loss (score.loss), with weights that make up for it.
SELECT s.place, s.sample_key, c.loss AS share
  FROM selection s
  LEFT JOIN score c ON c.pipeline = s.pipeline AND c.sample_key = s.sample_key
 WHERE s.pipeline = :pipeline AND s.trigger = :trigger
