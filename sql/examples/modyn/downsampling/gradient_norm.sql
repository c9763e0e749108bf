-- Draws samples in proportion to the norm of the last layer's gradient (score.gradient_norm); weights correct for it.
SELECT s.place, s.sample_key, c.gradient_norm AS share
  FROM {selection} s
  LEFT JOIN {score} c ON c.pipeline = s.pipeline AND c.sample_key = s.sample_key
 WHERE s.pipeline = :pipeline AND s.trigger = :trigger
