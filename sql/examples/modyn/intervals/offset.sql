-- For each model, the time before or after the last sample it was trained on.
-- option length: time, needed; length after that sample; negative: before it
SELECT 'offset ' || m.model AS name, m.model AS model,
       min(t.last_timestamp, t.last_timestamp + :length) AS begins,
       max(t.last_timestamp, t.last_timestamp + :length) AS ends
  FROM {trained_model} m JOIN {trigger} t USING (pipeline, trigger)
 WHERE m.pipeline = :pipeline AND :length <> 0
