-- schema.sql -- pipelines: which data to train on, when, and the results.
--
--     SELECT emb_pipeline_create();
--
-- makes these tables in a database, and puts a prefix before their names:
-- modyn_pipeline, modyn_trigger ...  Reading this file makes them without a
-- prefix, as emb_pipeline_create('') does.  These are ordinary tables: read
-- them, join them, correct them.  `emb_pipeline_run` fills those marked "by the
-- driver"; you fill the others.  The manual page is sql/manual/pipelines.md.
--
-- PIPELINE  reads samples, decides when to train (a trigger), and on which of
--           them (a selection).
-- POSITION  Samples have positions 1, 2, 3 ... in a pipeline, in the order in
--           which they were seen; samples that were new at the same time are
--           ordered by timestamp, then by key.  A trigger is a range of
--           positions, so a sample's trigger needs no column and no UPDATE.
-- TIME      A timestamp is a number in any unit, usually seconds since 1970.
-- POLICY    is SQL text, a row of the table `policy`; a pipeline names a policy
--           and gives its options, in JSON.
-- CRASH     Each call of the driver is one transaction.
-- NAMES     schema.tcl makes ext/data/pipeline/schema_text.c from this file and
--           models.sql.  The name of a table that is also the name of a column
--           is in double quotes here, so that the script can tell them apart.

PRAGMA foreign_keys = ON;
BEGIN;

-- ---- policies ---------------------------------------------------------------

-- A policy: `sql` has named parameters.  Those listed in `policy_option` are
-- options; the driver sets the others (the manual page lists them).
-- Change a policy by UPDATE, add your own by INSERT.
CREATE TABLE "policy"(
  kind  TEXT NOT NULL CHECK(kind IN ('trigger', 'criterion', 'selection',
                                     'downsampling', 'interval')),
  name  TEXT NOT NULL,
  about TEXT NOT NULL DEFAULT '',
  sql   TEXT NOT NULL,
  PRIMARY KEY(kind, name)
) WITHOUT ROWID;

CREATE TABLE policy_option(
  kind      TEXT NOT NULL,
  policy    TEXT NOT NULL,
  name      TEXT NOT NULL,
  type      TEXT NOT NULL CHECK(type IN ('integer', 'real', 'share', 'time', 'boolean',
              'text', 'sql', 'number or text', 'object', 'array', 'object or array')),
  least     REAL,    -- of a number; NULL: no minimum
  most      REAL,
  one_of    TEXT CHECK(one_of IS NULL OR json_type(one_of) = 'array'), -- texts
  "default",         -- the value when it is not given
  needed    INTEGER NOT NULL DEFAULT 0 CHECK(needed IN (0, 1)), -- 1: no default
  about     TEXT NOT NULL DEFAULT '',
  PRIMARY KEY(kind, policy, name),
  FOREIGN KEY(kind, policy) REFERENCES "policy"(kind, name)
    ON UPDATE CASCADE ON DELETE CASCADE
) WITHOUT ROWID;

INSERT INTO "policy"(kind, name, about, sql)
  SELECT kind, name, about, sql FROM emb_policies;
INSERT INTO policy_option
  SELECT p.kind, p.name, o.value ->> 'name', o.value ->> 'type', o.value ->> 'least',
         o.value ->> 'most', o.value -> 'one_of', o.value ->> 'default',
         coalesce(o.value ->> 'needed', 0), o.value ->> 'about'
    FROM emb_policies p, json_each(p.options) o;

-- ---- pipelines --------------------------------------------------------------

-- A source is the name of a table or view, or the text of a SELECT.
CREATE TABLE "pipeline"(
  pipeline          INTEGER PRIMARY KEY,
  name              TEXT NOT NULL UNIQUE CHECK(length(name) > 0),
  samples           TEXT NOT NULL,  -- source of key, timestamp, label
  features          TEXT,  -- source of key, value: to measure drift on
  predictions       TEXT,  -- source of key, prediction: to measure performance
  trigger_policy    TEXT NOT NULL CHECK(json_valid(trigger_policy)),
  selection_policy  TEXT NOT NULL DEFAULT '{"policy":"new_data"}'
                    CHECK(json_valid(selection_policy)),
  evaluation_policy TEXT CHECK(evaluation_policy IS NULL OR
                               json_valid(evaluation_policy)),
  seed              INTEGER NOT NULL DEFAULT 0,
  -- Samples in a partition of a selection.
  partition_size    INTEGER NOT NULL DEFAULT 100000 CHECK(partition_size >= 1),
  -- New samples are looked for among those whose timestamp is at least `newest`
  -- minus this: 0 if samples always come in order; NULL: among all.
  lookback          NUMERIC CHECK(lookback IS NULL OR
                                  (typeof(lookback) <> 'text' AND lookback >= 0)),
  newest            NUMERIC,  -- by the driver: the highest timestamp seen
  -- By the driver: why it cannot decide now, e.g. predictions are missing.
  waits_for         TEXT
);

-- By the driver: the state of a sample.
CREATE TABLE sample_state(
  pipeline   INTEGER NOT NULL,
  position   INTEGER NOT NULL,
  sample_key NOT NULL,  -- INTEGER or TEXT
  timestamp  NOT NULL CHECK(typeof(timestamp) IN ('integer', 'real')),
  label,
  used       INTEGER NOT NULL DEFAULT 0,  -- how often a counting policy chose it
  last_used  INTEGER,                     -- the last trigger that chose it
  epoch      INTEGER NOT NULL DEFAULT 0,  -- of sampling without replacement
  PRIMARY KEY(pipeline, position),
  UNIQUE(pipeline, sample_key),
  FOREIGN KEY(pipeline) REFERENCES "pipeline" ON DELETE CASCADE
) WITHOUT ROWID;

-- ---- triggers ---------------------------------------------------------------

-- By the driver: training is due for the samples from first_position on.
CREATE TABLE "trigger"(
  pipeline        INTEGER NOT NULL REFERENCES "pipeline" ON DELETE CASCADE,
  trigger         INTEGER NOT NULL,  -- 0, 1, 2 ...
  first_position  INTEGER NOT NULL,
  last_position   INTEGER NOT NULL,
  first_timestamp NOT NULL,
  last_timestamp  NOT NULL,
  made_at         REAL NOT NULL,     -- seconds since 1970
  candidates      INTEGER NOT NULL,  -- samples that the selection chose from
  selected        INTEGER NOT NULL,  -- samples that it chose
  PRIMARY KEY(pipeline, trigger),
  UNIQUE(pipeline, last_position),
  CHECK(first_position <= last_position),
  CHECK(selected <= candidates)
) WITHOUT ROWID;

-- By the driver: each evaluation of a policy, and its decision.
CREATE TABLE "decision"(
  pipeline  INTEGER NOT NULL REFERENCES "pipeline" ON DELETE CASCADE,
  position  INTEGER NOT NULL,  -- of the last sample considered
  triggered INTEGER NOT NULL CHECK(triggered IN (0, 1)),
  trigger   INTEGER,           -- which one
  reason    TEXT NOT NULL,
  made_at   REAL NOT NULL,
  PRIMARY KEY(pipeline, position),
  FOREIGN KEY(pipeline, trigger) REFERENCES "trigger" ON DELETE CASCADE,
  CHECK((trigger IS NOT NULL) = triggered)
) WITHOUT ROWID;

-- By the driver: each part of a decision; a policy that is not an ensemble has
-- one part, member ''.  Dynamic criteria read the past values here.
CREATE TABLE decision_part(
  pipeline  INTEGER NOT NULL,
  position  INTEGER NOT NULL,
  member    TEXT NOT NULL,     -- its path in the policy, as in '0.1'
  policy    TEXT NOT NULL,
  triggered INTEGER NOT NULL CHECK(triggered IN (0, 1)),
  value     REAL,              -- the measured value
  threshold REAL,              -- the value it was compared with
  reason    TEXT NOT NULL,
  PRIMARY KEY(pipeline, position, member),
  FOREIGN KEY(pipeline, position) REFERENCES "decision" ON DELETE CASCADE
) WITHOUT ROWID;

-- ---- selections -------------------------------------------------------------

-- By the driver: the samples to train on.  With downsampling, the samples that
-- downsampling chooses from.
CREATE TABLE "selection"(
  pipeline   INTEGER NOT NULL,
  trigger    INTEGER NOT NULL,
  place      INTEGER NOT NULL,  -- 0, 1, 2 ... in the order of the policy
  sample_key NOT NULL,
  weight     REAL NOT NULL,
  PRIMARY KEY(pipeline, trigger, place),
  FOREIGN KEY(pipeline, trigger) REFERENCES "trigger" ON DELETE CASCADE
) WITHOUT ROWID;

-- By the driver: the same for each epoch of a downsampling policy.
CREATE TABLE "downsampling"(
  pipeline   INTEGER NOT NULL,
  trigger    INTEGER NOT NULL,
  epoch      INTEGER NOT NULL,
  place      INTEGER NOT NULL,
  sample_key NOT NULL,
  weight     REAL NOT NULL,
  PRIMARY KEY(pipeline, trigger, epoch, place),
  FOREIGN KEY(pipeline, trigger) REFERENCES "trigger" ON DELETE CASCADE
) WITHOUT ROWID;

-- By the driver: the parts of a selection that fit in memory.
CREATE TABLE "partition"(
  pipeline    INTEGER NOT NULL,
  trigger     INTEGER NOT NULL,
  partition   INTEGER NOT NULL,  -- 0, 1, 2 ...
  first_place INTEGER NOT NULL,
  samples     INTEGER NOT NULL CHECK(samples > 0),
  PRIMARY KEY(pipeline, trigger, partition),
  FOREIGN KEY(pipeline, trigger) REFERENCES "trigger" ON DELETE CASCADE
) WITHOUT ROWID;

-- Yours, for downsampling: the model's output for a sample.
CREATE TABLE "score"(
  pipeline         INTEGER NOT NULL REFERENCES "pipeline" ON DELETE CASCADE,
  sample_key       NOT NULL,
  loss             REAL,
  gradient_norm    REAL,   -- of the last layer
  irreducible_loss REAL,   -- of a model trained on held-out samples
  probabilities,           -- of the classes: a vector, BLOB or JSON
  gradient,                -- a vector, for methods that compare samples
  PRIMARY KEY(pipeline, sample_key)
) WITHOUT ROWID;

-- ---- models and their evaluation --------------------------------------------

-- Yours: the model that a trigger led to.
CREATE TABLE trained_model(
  model            INTEGER PRIMARY KEY,
  pipeline         INTEGER NOT NULL,
  trigger          INTEGER NOT NULL,
  parent           INTEGER REFERENCES trained_model, -- training started from it
  trained_at       REAL,     -- seconds since 1970
  samples          INTEGER,  -- that it was trained on
  training_seconds REAL CHECK(training_seconds >= 0),
  storage          INTEGER,  -- its row where models are stored (models.sql)
  FOREIGN KEY(pipeline, trigger) REFERENCES "trigger"
);
CREATE INDEX trained_model_trigger ON trained_model(pipeline, trigger);

-- By emb_evaluation_intervals, or yours: [begins, ends) in the time of samples.
CREATE TABLE evaluation_interval(
  interval INTEGER PRIMARY KEY,
  pipeline INTEGER NOT NULL REFERENCES "pipeline" ON DELETE CASCADE,
  name     TEXT NOT NULL,
  model    INTEGER REFERENCES trained_model, -- NULL: for all models
  begins   NOT NULL,
  ends     NOT NULL,
  CHECK(begins < ends),
  UNIQUE(pipeline, model, begins, ends)
);

-- Yours.
CREATE TABLE "evaluation"(
  model    INTEGER NOT NULL REFERENCES trained_model,
  interval INTEGER NOT NULL REFERENCES evaluation_interval ON DELETE CASCADE,
  metric   TEXT NOT NULL,
  value    REAL,              -- NULL: there was nothing to measure
  samples  INTEGER,           -- that it was measured on
  PRIMARY KEY(model, interval, metric)
) WITHOUT ROWID;

-- ---- views ------------------------------------------------------------------

-- The trigger in which a sample was seen; NULL: none yet.
CREATE VIEW sample_trigger AS
  SELECT s.pipeline, s.position, s.sample_key, s.timestamp, s.label,
         (SELECT t.trigger FROM "trigger" t
           WHERE t.pipeline = s.pipeline AND t.last_position >= s.position
           ORDER BY t.last_position LIMIT 1) AS trigger
    FROM sample_state s;

-- How long training on n samples takes: intercept + slope * n, by ridge regression
-- (lambda 1) over the last 1000 models whose training was timed.
CREATE VIEW training_forecast AS
  WITH recent AS (
    SELECT pipeline, samples * 1.0 AS x, training_seconds AS y,
           row_number() OVER (PARTITION BY pipeline ORDER BY trigger DESC, model DESC) AS rank
      FROM trained_model WHERE samples IS NOT NULL AND training_seconds IS NOT NULL),
  mean AS (
    SELECT pipeline, avg(x) AS x, avg(y) AS y FROM recent WHERE rank <= 1000 GROUP BY pipeline),
  slope AS (
    SELECT m.pipeline,
           total((r.x - m.x) * (r.y - m.y)) / (total((r.x - m.x) * (r.x - m.x)) + 1) AS slope
      FROM recent r JOIN mean m USING (pipeline) WHERE rank <= 1000 GROUP BY m.pipeline)
  SELECT pipeline, m.y - s.slope * m.x AS intercept, s.slope
    FROM mean m JOIN slope s USING (pipeline);

-- Which samples of a selection to hold out, for the irreducible loss of
-- RHO-LOSS: those with a draw below the wanted share, say a tenth.  Or, for
-- twins, each of two models learns one half (draw < 0.5) and scores the other.
CREATE VIEW "holdout" AS
  SELECT s.pipeline, s.trigger, s.place, s.sample_key,
         emb_random(p.seed, s.sample_key, 1000000000 + s.trigger) AS draw
    FROM "selection" s JOIN "pipeline" p USING (pipeline);

-- Which model to evaluate on which interval; all pairs are the matrix.
-- `active` marks the newest model that had seen nothing from the interval's
-- begin on, which would have been in service then.  `training` marks the next
-- model, in whose data the interval begins.
CREATE VIEW evaluation_matrix AS
  WITH trained AS (
    SELECT m.model, m.pipeline, t.last_timestamp AS until,
           lag(t.last_timestamp) OVER (PARTITION BY m.pipeline ORDER BY m.trigger, m.model) AS before,
           lead(t.last_timestamp) OVER (PARTITION BY m.pipeline ORDER BY m.trigger, m.model) AS next
      FROM trained_model m JOIN "trigger" t USING (pipeline, trigger))
  SELECT i.pipeline, m.model, i.interval, i.name, i.begins, i.ends,
         m.until < i.begins AND (m.next IS NULL OR m.next >= i.begins) AS active,
         m.until >= i.begins AND (m.before IS NULL OR m.before < i.begins) AS training
    FROM evaluation_interval i JOIN trained m
      ON m.pipeline = i.pipeline AND (i.model IS NULL OR i.model = m.model);

COMMIT;
