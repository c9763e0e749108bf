-- From a trigger's first sample to the next trigger's: what each model was trained on
-- last.
SELECT 'trigger ' || trigger AS name, NULL AS model, first_timestamp AS begins,
       coalesce(lead(first_timestamp) OVER (ORDER BY trigger), last_timestamp + 1) AS ends
  FROM trigger
 WHERE pipeline = :pipeline
