-- pipelines.sql -- the compared combinations of trigger and selection, each for
-- two tasks.
--
-- The tables are those of emb_pipeline_create(), and the policies those of
-- ../triggers and ../selection.  report.c has the combinations' names on the page.

BEGIN;

SELECT emb_pipeline_create();
ALTER TABLE modyn_pipeline ADD COLUMN task TEXT;
ALTER TABLE modyn_pipeline ADD COLUMN combination TEXT;
-- 1: training continues from the last model, 0: it starts from scratch.
ALTER TABLE modyn_pipeline ADD COLUMN warm INTEGER NOT NULL DEFAULT 0;

-- The current time of the replay; later entries are invisible.
CREATE TABLE clock(now INTEGER NOT NULL);
INSERT INTO clock VALUES (0);

-- The prediction for a sample when it came, by the model of that time.
CREATE TABLE prediction(
  key        INTEGER PRIMARY KEY,
  timestamp  INTEGER NOT NULL,
  label      INTEGER NOT NULL,
  prediction INTEGER NOT NULL
);

-- The labels to predict: the urgency of an entry, 0 to 2, and whether it closes
-- a bug.  Models of the second are less accurate, hence another threshold.
CREATE TEMP TABLE task AS
SELECT column1 AS task, column2 AS samples, column3 AS threshold FROM (VALUES
  ('urgency', 'SELECT key, at AS timestamp, urgency AS label FROM entry'
           || ' WHERE urgency IS NOT NULL AND at < (SELECT now FROM clock)', 0.8),
  ('closes',  'SELECT key, at AS timestamp, closes AS label FROM entry'
           || ' WHERE at < (SELECT now FROM clock)', 0.65));

-- 1009843200 is the beginning of 2002, when there were a thousand entries;
-- 31536000 and 7884000 seconds are a year and a quarter of a year.  Drift is
-- the Hellinger distance of the newest hundred labels from the last two hundred
-- before the last training; each label from 0 to 2 has a bin of its own.
CREATE TEMP TABLE policy_text(name TEXT, text TEXT);
INSERT INTO policy_text VALUES
  ('once',    '{"policy":"time","start":1009843200,"every":1e12}'),
  ('year',    '{"policy":"time","start":1009843200,"every":31536000}'),
  ('quarter', '{"policy":"time","start":1009843200,"every":7884000}'),
  ('amount',  '{"policy":"amount","samples":500}'),
  ('drift',   '{"policy":"drift","interval":100,"reference":200,"current":100,'
           || '"metric":"emb_drift_hellinger(label, is_reference, ''bins=3'')",'
           || '"criterion":{"policy":"threshold","threshold":0.15}}'),
  ('performance', '{"policy":"performance","interval":100,"criterion":{"policy":"threshold"}}'),
  ('all',      '{"policy":"new_data"}'),
  ('new',      '{"policy":"new_data","tail":0}'),
  ('last',     '{"policy":"new_data","limit":500}'),
  ('random',   '{"policy":"random","share":0.25}'),
  ('balanced', '{"policy":"balanced","share":0.25}'),
  ('loss',     '{"policy":"new_data","warmup_triggers":1,"downsampling":{"policy":"loss","share":0.25,"period":0}}');

CREATE TEMP TABLE combination AS
SELECT column1 AS trigger, column2 AS selection, column3 AS warm FROM (VALUES
  ('once', 'all', 0),
  ('year', 'all', 0), ('year', 'new', 0), ('year', 'new', 1),
  ('year', 'random', 0), ('year', 'balanced', 0), ('year', 'loss', 0),
  ('quarter', 'all', 0), ('quarter', 'last', 0),
  ('amount', 'last', 0),
  ('drift', 'all', 0), ('drift', 'last', 0),
  ('performance', 'last', 0));

INSERT INTO modyn_pipeline(name, task, combination, warm, samples, predictions, lookback,
                           trigger_policy, selection_policy)
SELECT task || ', ' || combination, task, combination, warm, samples, 'prediction', 0,
       CASE trigger WHEN 'performance'
            THEN json_set(trigger_policy, '$.criterion.threshold', threshold)
            ELSE trigger_policy END,
       selection_policy
  FROM task,
       (SELECT c.trigger || '-' || selection || iif(warm, '-warm', '') AS combination,
               c.trigger, warm, t.text AS trigger_policy, s.text AS selection_policy
          FROM combination c JOIN policy_text t ON t.name = c.trigger
                             JOIN policy_text s ON s.name = selection);

COMMIT;
