-- policies.sql -- when these pipelines train, and on what.
--
-- Read after ../schema.sql; driver.c runs them.  Each is one SELECT.  Their
-- parameters: :pipeline, :trigger, which it is or would be; :now, seconds since
-- 1970; :position, of the last sample; :trained, of the last that the last
-- trigger saw; :seed; and the options that a pipeline gives in its JSON.

BEGIN;

-- What was guessed of a sample when it came, by the model that there was.
CREATE TABLE prediction(
  pipeline   INTEGER NOT NULL REFERENCES pipeline ON DELETE CASCADE,
  sample_key INTEGER NOT NULL,
  timestamp  INTEGER NOT NULL,
  label      INTEGER NOT NULL,
  prediction INTEGER NOT NULL,
  PRIMARY KEY(pipeline, sample_key)
) WITHOUT ROWID;

-- ---- triggers: value, threshold, 1 to train --------------------------------

INSERT INTO policy(kind, name, about, sql) VALUES
('trigger', 'never', 'after the first training none', '
  SELECT 0, 0, 0'),

('trigger', 'always', 'at each look, if there is anything new', '
  SELECT :position - :trained, 1, :position > :trained'),

('trigger', 'time', 'every so many seconds of the samples'' time', '
  SELECT :now - last_timestamp, :every, :now - last_timestamp >= :every
    FROM trigger WHERE (pipeline, trigger) = (:pipeline, :trigger - 1)'),

('trigger', 'amount', 'every so many samples', '
  SELECT :position - :trained, :samples, :position - :trained >= :samples'),

-- The Hellinger distance of two distributions of labels: of the newest samples,
-- and of the newest at the last training.
('trigger', 'label_drift', 'when labels are distributed otherwise', '
  WITH share AS (
    SELECT label, sum(position > :position - :window) * 1.0 / :window AS now,
           sum(position BETWEEN :trained - :window + 1 AND :trained) * 1.0 / :window AS before
      FROM sample_state
     WHERE pipeline = :pipeline
       AND (position > :position - :window
            OR position BETWEEN :trained - :window + 1 AND :trained)
     GROUP BY label),
  distance AS (SELECT sqrt(max(0, 1 - sum(sqrt(now * before)))) AS value FROM share)
  SELECT value, :threshold, value > :threshold AND :position - :trained >= :window
    FROM distance'),

('trigger', 'performance', 'when too few of the newest samples were guessed right', '
  WITH newest AS (
    SELECT p.label = p.prediction AS is_right
      FROM sample_state s JOIN prediction p USING (pipeline, sample_key)
     WHERE s.pipeline = :pipeline AND s.position > max(:trained, :position - :window))
  SELECT avg(is_right), :least, coalesce(avg(is_right) < :least AND count(*) = :window, 0)
    FROM newest');

-- ---- selections: key, weight, in the order to keep -------------------------

INSERT INTO policy(kind, name, about, sql) VALUES
('selection', 'all', 'all samples that there are', '
  SELECT sample_key, 1.0 FROM sample_state
   WHERE pipeline = :pipeline AND position <= :position ORDER BY position'),

('selection', 'new', 'those since the last trigger', '
  SELECT sample_key, 1.0 FROM sample_state
   WHERE pipeline = :pipeline AND position > :trained AND position <= :position
   ORDER BY position'),

('selection', 'last', 'the newest so many', '
  SELECT sample_key, 1.0 FROM sample_state
   WHERE pipeline = :pipeline AND position > :position - :limit AND position <= :position
   ORDER BY position'),

('selection', 'uniform', 'so many at random', '
  SELECT sample_key, 1.0 FROM sample_state
   WHERE pipeline = :pipeline AND position <= :position
   ORDER BY emb_random(:seed, sample_key, :trigger) LIMIT :limit'),

-- The first of each label, the second of each ...: what one label lacks to its
-- fair share goes to the others.
('selection', 'balanced', 'so many at random, of each label as many', '
  SELECT sample_key, 1.0 FROM (
    SELECT sample_key, emb_random(:seed, sample_key, :trigger) AS random,
           row_number() OVER (PARTITION BY label
             ORDER BY emb_random(:seed, sample_key, :trigger)) AS turn
      FROM sample_state WHERE pipeline = :pipeline AND position <= :position)
   ORDER BY turn, random LIMIT :limit'),

-- Drawn one after the other, without replacement, each time in proportion to the
-- loss, and weighted so that sums stay what they are: Efraimidis and Spirakis,
-- "Weighted random sampling with a reservoir", 2006.
('selection', 'loss', 'so many at random, in proportion to their loss', '
  WITH scored AS (
    SELECT sample_key, coalesce(loss, 1) + 1e-3 AS loss
      FROM sample_state LEFT JOIN score USING (pipeline, sample_key)
     WHERE pipeline = :pipeline AND position <= :position)
  SELECT sample_key, (SELECT avg(loss) FROM scored) / loss FROM scored
   ORDER BY -ln(1 - emb_random(:seed, sample_key, :trigger)) / loss LIMIT :limit');

COMMIT;
