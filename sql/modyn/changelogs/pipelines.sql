-- pipelines.sql -- the combinations of trigger and selection that are compared,
-- each for two tasks.
--
-- Read after policies.sql.  report.c says what the page calls them.

BEGIN;

ALTER TABLE pipeline ADD COLUMN task TEXT;
ALTER TABLE pipeline ADD COLUMN combination TEXT;
-- 1: a training goes on from the last model, 0: it begins anew.
ALTER TABLE pipeline ADD COLUMN warm INTEGER NOT NULL DEFAULT 0;

-- What is guessed: how urgent an entry says it is, 0 to 2, and whether it closes
-- a bug.  A model of the second is right less often, hence another threshold.
CREATE TEMP TABLE task AS
SELECT column1 AS task, column2 AS samples, column3 AS least FROM (VALUES
  ('urgency', 'SELECT key, at AS timestamp, urgency AS label FROM entry WHERE urgency IS NOT NULL', 0.8),
  ('closes',  'SELECT key, at AS timestamp, closes AS label FROM entry', 0.65));

-- Twelve months of thirty days, so that no year is passed over.
CREATE TEMP TABLE combination AS
SELECT column1 AS combination, column2 AS warm, column3 AS trigger_policy,
       column4 AS selection_policy FROM (VALUES
  ('once',             0, '{"policy":"never"}', '{"policy":"all"}'),
  ('year-all',         0, '{"policy":"time","every":31104000}', '{"policy":"all"}'),
  ('year-new',         0, '{"policy":"time","every":31104000}', '{"policy":"new"}'),
  ('year-new-warm',    1, '{"policy":"time","every":31104000}', '{"policy":"new"}'),
  ('year-uniform',     0, '{"policy":"time","every":31104000}', '{"policy":"uniform","limit":500}'),
  ('year-balanced',    0, '{"policy":"time","every":31104000}', '{"policy":"balanced","limit":500}'),
  ('year-loss',        0, '{"policy":"time","every":31104000}', '{"policy":"loss","limit":500}'),
  ('quarter-all',      0, '{"policy":"always"}', '{"policy":"all"}'),
  ('quarter-last',     0, '{"policy":"always"}', '{"policy":"last","limit":500}'),
  ('amount-last',      0, '{"policy":"amount","samples":500}', '{"policy":"last","limit":500}'),
  ('drift-all',        0, '{"policy":"label_drift","window":100,"threshold":0.15}', '{"policy":"all"}'),
  ('drift-last',       0, '{"policy":"label_drift","window":100,"threshold":0.15}', '{"policy":"last","limit":500}'),
  ('performance-last', 0, '{"policy":"performance","window":100}', '{"policy":"last","limit":500}'));

INSERT INTO pipeline(name, task, combination, warm, samples, trigger_policy, selection_policy)
SELECT task || ', ' || combination, task, combination, warm, samples,
       CASE json_extract(trigger_policy, '$.policy') WHEN 'performance'
            THEN json_set(trigger_policy, '$.least', least) ELSE trigger_policy END,
       selection_policy
  FROM task, combination;

COMMIT;
