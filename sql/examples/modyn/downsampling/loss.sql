-- Draws samples in proportion to the loss (score.loss); weights correct for it.
SELECT s.place, s.sample_key, c.loss AS share
  FROM {selection} s
  LEFT JOIN {score} c ON c.pipeline = s.pipeline AND c.sample_key = s.sample_key
 WHERE s.pipeline = :pipeline AND s.trigger = :trigger
