-- From a trigger's first sample to the next trigger's first sample: the samples each
-- model was last trained on.
SELECT 'trigger ' || trigger AS name, NULL AS model, first_timestamp AS begins,
       coalesce(lead(first_timestamp) OVER (ORDER BY trigger), last_timestamp + 1) AS ends
  FROM {trigger}
 WHERE pipeline = :pipeline
