/* SPDX-License-Identifier: MIT
**
** schema_text.c -- sql/examples/modyn/schema.sql and models.sql, as text.  Made
** by sql/examples/modyn/schema.tcl: change the files there.
*/
#include "pipeline.h"

/* clang-format off */
const struct ext_schema_text ext_schema_pipeline[] = {
  {"table", "policy",
    "CREATE TABLE {policy}(\n"
    "  kind  TEXT NOT NULL CHECK(kind IN ('trigger', 'criterion', 'selection',\n"
    "                                     'downsampling', 'interval')),\n"
    "  name  TEXT NOT NULL,\n"
    "  about TEXT NOT NULL DEFAULT '',\n"
    "  sql   TEXT NOT NULL,\n"
    "  PRIMARY KEY(kind, name)\n"
    ") WITHOUT ROWID\n"},
  {"table", "policy_option",
    "CREATE TABLE {policy_option}(\n"
    "  kind      TEXT NOT NULL,\n"
    "  policy    TEXT NOT NULL,\n"
    "  name      TEXT NOT NULL,\n"
    "  type      TEXT NOT NULL CHECK(type IN ('integer', 'real', 'share', 'time', 'boolean',\n"
    "              'text', 'sql', 'number or text', 'object', 'array', 'object or array')),\n"
    "  least     REAL,    -- of a number; NULL: no minimum\n"
    "  most      REAL,\n"
    "  one_of    TEXT CHECK(one_of IS NULL OR json_type(one_of) = 'array'), -- texts\n"
    "  \"default\",         -- the value when it is not given\n"
    "  needed    INTEGER NOT NULL DEFAULT 0 CHECK(needed IN (0, 1)), -- 1: no default\n"
    "  about     TEXT NOT NULL DEFAULT '',\n"
    "  PRIMARY KEY(kind, policy, name),\n"
    "  FOREIGN KEY(kind, policy) REFERENCES {policy}(kind, name)\n"
    "    ON UPDATE CASCADE ON DELETE CASCADE\n"
    ") WITHOUT ROWID\n"},
  {NULL, NULL,
    "INSERT INTO {policy}(kind, name, about, sql)\n"
    "  SELECT kind, name, about, sql FROM emb_policies\n"},
  {NULL, NULL,
    "INSERT INTO {policy_option}\n"
    "  SELECT p.kind, p.name, o.value ->> 'name', o.value ->> 'type', o.value ->> 'least',\n"
    "         o.value ->> 'most', o.value -> 'one_of', o.value ->> 'default',\n"
    "         coalesce(o.value ->> 'needed', 0), o.value ->> 'about'\n"
    "    FROM emb_policies p, json_each(p.options) o\n"},
  {"table", "pipeline",
    "CREATE TABLE {pipeline}(\n"
    "  pipeline          INTEGER PRIMARY KEY,\n"
    "  name              TEXT NOT NULL UNIQUE CHECK(length(name) > 0),\n"
    "  samples           TEXT NOT NULL,  -- source of key, timestamp, label\n"
    "  features          TEXT,  -- source of key, value: to measure drift on\n"
    "  predictions       TEXT,  -- source of key, prediction: to measure performance\n"
    "  trigger_policy    TEXT NOT NULL CHECK(json_valid(trigger_policy)),\n"
    "  selection_policy  TEXT NOT NULL DEFAULT '{\"policy\":\"new_data\"}'\n"
    "                    CHECK(json_valid(selection_policy)),\n"
    "  evaluation_policy TEXT CHECK(evaluation_policy IS NULL OR\n"
    "                               json_valid(evaluation_policy)),\n"
    "  seed              INTEGER NOT NULL DEFAULT 0,\n"
    "  -- Samples in a partition of a selection.\n"
    "  partition_size    INTEGER NOT NULL DEFAULT 100000 CHECK(partition_size >= 1),\n"
    "  -- New samples are looked for among those whose timestamp is at least `newest`\n"
    "  -- minus this: 0 if samples always come in order; NULL: among all.\n"
    "  lookback          NUMERIC CHECK(lookback IS NULL OR\n"
    "                                  (typeof(lookback) <> 'text' AND lookback >= 0)),\n"
    "  newest            NUMERIC,  -- by the driver: the highest timestamp seen\n"
    "  -- By the driver: why it cannot decide now, e.g. predictions are missing.\n"
    "  waits_for         TEXT\n"
    ")\n"},
  {"table", "sample_state",
    "CREATE TABLE {sample_state}(\n"
    "  pipeline   INTEGER NOT NULL,\n"
    "  position   INTEGER NOT NULL,\n"
    "  sample_key NOT NULL,  -- INTEGER or TEXT\n"
    "  timestamp  NOT NULL CHECK(typeof(timestamp) IN ('integer', 'real')),\n"
    "  label,\n"
    "  used       INTEGER NOT NULL DEFAULT 0,  -- how often a counting policy chose it\n"
    "  last_used  INTEGER,                     -- the last trigger that chose it\n"
    "  epoch      INTEGER NOT NULL DEFAULT 0,  -- of sampling without replacement\n"
    "  PRIMARY KEY(pipeline, position),\n"
    "  UNIQUE(pipeline, sample_key),\n"
    "  FOREIGN KEY(pipeline) REFERENCES {pipeline} ON DELETE CASCADE\n"
    ") WITHOUT ROWID\n"},
  {"table", "trigger",
    "CREATE TABLE {trigger}(\n"
    "  pipeline        INTEGER NOT NULL REFERENCES {pipeline} ON DELETE CASCADE,\n"
    "  trigger         INTEGER NOT NULL,  -- 0, 1, 2 ...\n"
    "  first_position  INTEGER NOT NULL,\n"
    "  last_position   INTEGER NOT NULL,\n"
    "  first_timestamp NOT NULL,\n"
    "  last_timestamp  NOT NULL,\n"
    "  made_at         REAL NOT NULL,     -- seconds since 1970\n"
    "  candidates      INTEGER NOT NULL,  -- samples that the selection chose from\n"
    "  selected        INTEGER NOT NULL,  -- samples that it chose\n"
    "  PRIMARY KEY(pipeline, trigger),\n"
    "  UNIQUE(pipeline, last_position),\n"
    "  CHECK(first_position <= last_position),\n"
    "  CHECK(selected <= candidates)\n"
    ") WITHOUT ROWID\n"},
  {"table", "decision",
    "CREATE TABLE {decision}(\n"
    "  pipeline  INTEGER NOT NULL REFERENCES {pipeline} ON DELETE CASCADE,\n"
    "  position  INTEGER NOT NULL,  -- of the last sample considered\n"
    "  triggered INTEGER NOT NULL CHECK(triggered IN (0, 1)),\n"
    "  trigger   INTEGER,           -- which one\n"
    "  reason    TEXT NOT NULL,\n"
    "  made_at   REAL NOT NULL,\n"
    "  PRIMARY KEY(pipeline, position),\n"
    "  FOREIGN KEY(pipeline, trigger) REFERENCES {trigger} ON DELETE CASCADE,\n"
    "  CHECK((trigger IS NOT NULL) = triggered)\n"
    ") WITHOUT ROWID\n"},
  {"table", "decision_part",
    "CREATE TABLE {decision_part}(\n"
    "  pipeline  INTEGER NOT NULL,\n"
    "  position  INTEGER NOT NULL,\n"
    "  member    TEXT NOT NULL,     -- its path in the policy, as in '0.1'\n"
    "  policy    TEXT NOT NULL,\n"
    "  triggered INTEGER NOT NULL CHECK(triggered IN (0, 1)),\n"
    "  value     REAL,              -- the measured value\n"
    "  threshold REAL,              -- the value it was compared with\n"
    "  reason    TEXT NOT NULL,\n"
    "  PRIMARY KEY(pipeline, position, member),\n"
    "  FOREIGN KEY(pipeline, position) REFERENCES {decision} ON DELETE CASCADE\n"
    ") WITHOUT ROWID\n"},
  {"table", "selection",
    "CREATE TABLE {selection}(\n"
    "  pipeline   INTEGER NOT NULL,\n"
    "  trigger    INTEGER NOT NULL,\n"
    "  place      INTEGER NOT NULL,  -- 0, 1, 2 ... in the order of the policy\n"
    "  sample_key NOT NULL,\n"
    "  weight     REAL NOT NULL,\n"
    "  PRIMARY KEY(pipeline, trigger, place),\n"
    "  FOREIGN KEY(pipeline, trigger) REFERENCES {trigger} ON DELETE CASCADE\n"
    ") WITHOUT ROWID\n"},
  {"table", "downsampling",
    "CREATE TABLE {downsampling}(\n"
    "  pipeline   INTEGER NOT NULL,\n"
    "  trigger    INTEGER NOT NULL,\n"
    "  epoch      INTEGER NOT NULL,\n"
    "  place      INTEGER NOT NULL,\n"
    "  sample_key NOT NULL,\n"
    "  weight     REAL NOT NULL,\n"
    "  PRIMARY KEY(pipeline, trigger, epoch, place),\n"
    "  FOREIGN KEY(pipeline, trigger) REFERENCES {trigger} ON DELETE CASCADE\n"
    ") WITHOUT ROWID\n"},
  {"table", "partition",
    "CREATE TABLE {partition}(\n"
    "  pipeline    INTEGER NOT NULL,\n"
    "  trigger     INTEGER NOT NULL,\n"
    "  partition   INTEGER NOT NULL,  -- 0, 1, 2 ...\n"
    "  first_place INTEGER NOT NULL,\n"
    "  samples     INTEGER NOT NULL CHECK(samples > 0),\n"
    "  PRIMARY KEY(pipeline, trigger, partition),\n"
    "  FOREIGN KEY(pipeline, trigger) REFERENCES {trigger} ON DELETE CASCADE\n"
    ") WITHOUT ROWID\n"},
  {"table", "score",
    "CREATE TABLE {score}(\n"
    "  pipeline         INTEGER NOT NULL REFERENCES {pipeline} ON DELETE CASCADE,\n"
    "  sample_key       NOT NULL,\n"
    "  loss             REAL,\n"
    "  gradient_norm    REAL,   -- of the last layer\n"
    "  irreducible_loss REAL,   -- of a model trained on held-out samples\n"
    "  probabilities,           -- of the classes: a vector, BLOB or JSON\n"
    "  gradient,                -- a vector, for methods that compare samples\n"
    "  PRIMARY KEY(pipeline, sample_key)\n"
    ") WITHOUT ROWID\n"},
  {"table", "trained_model",
    "CREATE TABLE {trained_model}(\n"
    "  model            INTEGER PRIMARY KEY,\n"
    "  pipeline         INTEGER NOT NULL,\n"
    "  trigger          INTEGER NOT NULL,\n"
    "  parent           INTEGER REFERENCES {trained_model}, -- training started from it\n"
    "  trained_at       REAL,     -- seconds since 1970\n"
    "  samples          INTEGER,  -- that it was trained on\n"
    "  training_seconds REAL CHECK(training_seconds >= 0),\n"
    "  storage          INTEGER,  -- its row where models are stored (models.sql)\n"
    "  FOREIGN KEY(pipeline, trigger) REFERENCES {trigger}\n"
    ")\n"},
  {"index", "trained_model_trigger",
    "CREATE INDEX {trained_model_trigger} ON {trained_model}(pipeline, trigger)\n"},
  {"table", "evaluation_interval",
    "CREATE TABLE {evaluation_interval}(\n"
    "  interval INTEGER PRIMARY KEY,\n"
    "  pipeline INTEGER NOT NULL REFERENCES {pipeline} ON DELETE CASCADE,\n"
    "  name     TEXT NOT NULL,\n"
    "  model    INTEGER REFERENCES {trained_model}, -- NULL: for all models\n"
    "  begins   NOT NULL,\n"
    "  ends     NOT NULL,\n"
    "  CHECK(begins < ends),\n"
    "  UNIQUE(pipeline, model, begins, ends)\n"
    ")\n"},
  {"table", "evaluation",
    "CREATE TABLE {evaluation}(\n"
    "  model    INTEGER NOT NULL REFERENCES {trained_model},\n"
    "  interval INTEGER NOT NULL REFERENCES {evaluation_interval} ON DELETE CASCADE,\n"
    "  metric   TEXT NOT NULL,\n"
    "  value    REAL,              -- NULL: there was nothing to measure\n"
    "  samples  INTEGER,           -- that it was measured on\n"
    "  PRIMARY KEY(model, interval, metric)\n"
    ") WITHOUT ROWID\n"},
  {"view", "sample_trigger",
    "CREATE VIEW {sample_trigger} AS\n"
    "  SELECT s.pipeline, s.position, s.sample_key, s.timestamp, s.label,\n"
    "         (SELECT t.trigger FROM {trigger} t\n"
    "           WHERE t.pipeline = s.pipeline AND t.last_position >= s.position\n"
    "           ORDER BY t.last_position LIMIT 1) AS trigger\n"
    "    FROM {sample_state} s\n"},
  {"view", "training_forecast",
    "CREATE VIEW {training_forecast} AS\n"
    "  WITH recent AS (\n"
    "    SELECT pipeline, samples * 1.0 AS x, training_seconds AS y,\n"
    "           row_number() OVER (PARTITION BY pipeline ORDER BY trigger DESC, model DESC) AS rank\n"
    "      FROM {trained_model} WHERE samples IS NOT NULL AND training_seconds IS NOT NULL),\n"
    "  mean AS (\n"
    "    SELECT pipeline, avg(x) AS x, avg(y) AS y FROM recent WHERE rank <= 1000 GROUP BY pipeline),\n"
    "  slope AS (\n"
    "    SELECT m.pipeline,\n"
    "           total((r.x - m.x) * (r.y - m.y)) / (total((r.x - m.x) * (r.x - m.x)) + 1) AS slope\n"
    "      FROM recent r JOIN mean m USING (pipeline) WHERE rank <= 1000 GROUP BY m.pipeline)\n"
    "  SELECT pipeline, m.y - s.slope * m.x AS intercept, s.slope\n"
    "    FROM mean m JOIN slope s USING (pipeline)\n"},
  {"view", "holdout",
    "CREATE VIEW {holdout} AS\n"
    "  SELECT s.pipeline, s.trigger, s.place, s.sample_key,\n"
    "         emb_random(p.seed, s.sample_key, 1000000000 + s.trigger) AS draw\n"
    "    FROM {selection} s JOIN {pipeline} p USING (pipeline)\n"},
  {"view", "evaluation_matrix",
    "CREATE VIEW {evaluation_matrix} AS\n"
    "  WITH trained AS (\n"
    "    SELECT m.model, m.pipeline, t.last_timestamp AS until,\n"
    "           lag(t.last_timestamp) OVER (PARTITION BY m.pipeline ORDER BY m.trigger, m.model) AS before,\n"
    "           lead(t.last_timestamp) OVER (PARTITION BY m.pipeline ORDER BY m.trigger, m.model) AS next\n"
    "      FROM {trained_model} m JOIN {trigger} t USING (pipeline, trigger))\n"
    "  SELECT i.pipeline, m.model, i.interval, i.name, i.begins, i.ends,\n"
    "         m.until < i.begins AND (m.next IS NULL OR m.next >= i.begins) AS active,\n"
    "         m.until >= i.begins AND (m.before IS NULL OR m.before < i.begins) AS training\n"
    "    FROM {evaluation_interval} i JOIN trained m\n"
    "      ON m.pipeline = i.pipeline AND (i.model IS NULL OR i.model = m.model)\n"},
};

const struct ext_schema_text ext_schema_models[] = {
  {"table", "model_storage",
    "CREATE TABLE {model_storage}(\n"
    "  pipeline   INTEGER PRIMARY KEY REFERENCES {pipeline} ON DELETE CASCADE,\n"
    "  full_every INTEGER NOT NULL DEFAULT 10 CHECK(full_every >= 1),\n"
    "  options    TEXT NOT NULL DEFAULT ''  -- of emb_diff\n"
    ")\n"},
  {"table", "stored_model",
    "CREATE TABLE {stored_model}(\n"
    "  storage    INTEGER PRIMARY KEY,\n"
    "  base       INTEGER REFERENCES {stored_model}, -- NULL: a full model\n"
    "  stored_at  REAL NOT NULL                    -- seconds since 1970\n"
    ")\n"},
  {"index", "stored_model_base",
    "CREATE INDEX {stored_model_base} ON {stored_model}(base) WHERE base IS NOT NULL\n"},
  {"index", "trained_model_storage",
    "CREATE INDEX {trained_model_storage} ON {trained_model}(storage) WHERE storage IS NOT NULL\n"},
  {"table", "stored_part",
    "CREATE TABLE {stored_part}(\n"
    "  storage    INTEGER NOT NULL REFERENCES {stored_model},\n"
    "  part       NOT NULL CHECK(typeof(part) IN ('text', 'integer')),\n"
    "  bytes      INTEGER NOT NULL, -- of the model's part\n"
    "  difference BLOB NOT NULL,    -- to the part of this name of the base, or to x''\n"
    "  PRIMARY KEY(storage, part)\n"
    ")\n"},
  {"table", "model_embeddings",
    "CREATE TABLE {model_embeddings}(\n"
    "  model      INTEGER NOT NULL REFERENCES {trained_model},\n"
    "  \"table\"    TEXT NOT NULL CHECK(length(\"table\") > 0),\n"
    "  snapshot   TEXT NOT NULL CHECK(length(snapshot) > 0), -- name in emb_snapshots\n"
    "  PRIMARY KEY(model, \"table\")\n"
    ") WITHOUT ROWID\n"},
  {"trigger", "stored_model_delete",
    "CREATE TRIGGER {stored_model_delete} BEFORE DELETE ON {stored_model}\n"
    "WHEN EXISTS (SELECT 1 FROM {stored_model} WHERE base = old.storage) BEGIN\n"
    "  SELECT RAISE(ABORT, 'other models are stored as differences to this one');\n"
    "END\n"},
  {"trigger", "stored_part_delete",
    "CREATE TRIGGER {stored_part_delete} BEFORE DELETE ON {stored_part}\n"
    "WHEN EXISTS (SELECT 1 FROM {stored_model} WHERE storage = old.storage) BEGIN\n"
    "  SELECT RAISE(ABORT, 'a stored model goes with all its parts: delete it from {stored_model}');\n"
    "END\n"},
  {"trigger", "stored_model_update",
    "CREATE TRIGGER {stored_model_update} BEFORE UPDATE ON {stored_model} BEGIN\n"
    "  SELECT RAISE(ABORT, 'a stored model cannot be changed');\n"
    "END\n"},
  {"trigger", "stored_part_update",
    "CREATE TRIGGER {stored_part_update} BEFORE UPDATE ON {stored_part} BEGIN\n"
    "  SELECT RAISE(ABORT, 'a stored model cannot be changed');\n"
    "END\n"},
  {"trigger", "stored_model_insert",
    "CREATE TRIGGER {stored_model_insert} BEFORE INSERT ON {stored_model} BEGIN\n"
    "  SELECT RAISE(ABORT, 'UNIQUE constraint failed: {stored_model}.storage')\n"
    "   WHERE EXISTS (SELECT 1 FROM {stored_model} WHERE storage = new.storage);\n"
    "  SELECT RAISE(ABORT, 'the base of a stored model is no full model')\n"
    "   WHERE new.base IS NOT NULL AND\n"
    "         NOT EXISTS (SELECT 1 FROM {stored_model} WHERE storage = new.base AND base IS NULL);\n"
    "END\n"},
  {"trigger", "stored_part_insert",
    "CREATE TRIGGER {stored_part_insert} BEFORE INSERT ON {stored_part} BEGIN\n"
    "  SELECT RAISE(ABORT, 'this part of the model is stored already')\n"
    "   WHERE EXISTS (SELECT 1 FROM {stored_part} WHERE (storage, part) = (new.storage, new.part));\n"
    "  SELECT RAISE(ABORT, 'other models are stored as differences to this one')\n"
    "   WHERE EXISTS (SELECT 1 FROM {stored_model} WHERE base = new.storage);\n"
    "END\n"},
  {"trigger", "trained_model_stored",
    "CREATE TRIGGER {trained_model_stored} BEFORE INSERT ON {trained_model}\n"
    "WHEN new.storage IS NOT NULL BEGIN\n"
    "  SELECT RAISE(ABORT, 'no such stored model, or it is that of another')\n"
    "   WHERE NOT EXISTS (SELECT 1 FROM {stored_model} WHERE storage = new.storage)\n"
    "      OR EXISTS (SELECT 1 FROM {trained_model} WHERE storage = new.storage);\n"
    "END\n"},
  {"trigger", "trained_model_restored",
    "CREATE TRIGGER {trained_model_restored} BEFORE UPDATE OF storage ON {trained_model}\n"
    "WHEN new.storage IS NOT old.storage BEGIN\n"
    "  SELECT RAISE(ABORT, 'the bytes of this model are stored: delete them from {stored_model}')\n"
    "   WHERE EXISTS (SELECT 1 FROM {stored_model} WHERE storage = old.storage);\n"
    "  SELECT RAISE(ABORT, 'no such stored model, or it is that of another')\n"
    "   WHERE new.storage IS NOT NULL\n"
    "     AND (NOT EXISTS (SELECT 1 FROM {stored_model} WHERE storage = new.storage)\n"
    "          OR EXISTS (SELECT 1 FROM {trained_model} WHERE storage = new.storage));\n"
    "END\n"},
  {"trigger", "trained_model_delete",
    "CREATE TRIGGER {trained_model_delete} BEFORE DELETE ON {trained_model} BEGIN\n"
    "  SELECT RAISE(ABORT, 'the model has embeddings: drop these snapshots, and the rows of {model_embeddings}')\n"
    "   WHERE EXISTS (SELECT 1 FROM {model_embeddings} WHERE model = old.model);\n"
    "END\n"},
  {"trigger", "trained_model_gone",
    "CREATE TRIGGER {trained_model_gone} AFTER DELETE ON {trained_model} BEGIN\n"
    "  DELETE FROM {stored_model} WHERE storage = old.storage;\n"
    "END\n"},
  {"trigger", "stored_model_gone",
    "CREATE TRIGGER {stored_model_gone} AFTER DELETE ON {stored_model} BEGIN\n"
    "  DELETE FROM {stored_part} WHERE storage = old.storage;\n"
    "  UPDATE {trained_model} SET storage = NULL WHERE storage = old.storage;\n"
    "END\n"},
  {"view", "model_bytes",
    "CREATE VIEW {model_bytes} AS\n"
    "  SELECT m.model, p.part, m.pipeline, m.trigger, m.storage, s.base, p.bytes AS size,\n"
    "         length(p.difference) AS stored_size,\n"
    "         emb_patch(coalesce((SELECT emb_patch(x'', b.difference) FROM {stored_part} b\n"
    "                              WHERE (b.storage, b.part) = (s.base, p.part)), x''),\n"
    "                   p.difference) AS bytes\n"
    "    FROM {trained_model} m JOIN {stored_model} s ON s.storage = m.storage\n"
    "    JOIN {stored_part} p ON p.storage = m.storage\n"},
  {"view", "model_base",
    "CREATE VIEW {model_base} AS\n"
    "  WITH latest AS (\n"
    "    SELECT m.model, m.trigger, coalesce(o.full_every, 10) AS full_every,\n"
    "           (SELECT f.model FROM {trained_model} f\n"
    "             WHERE f.pipeline = m.pipeline AND f.trigger <= m.trigger AND EXISTS\n"
    "                   (SELECT 1 FROM {stored_model} s WHERE s.storage = f.storage AND s.base IS NULL)\n"
    "             ORDER BY f.trigger DESC, f.model DESC LIMIT 1) AS last_full\n"
    "      FROM {trained_model} m LEFT JOIN {model_storage} o USING (pipeline)\n"
    "     WHERE m.storage IS NULL)\n"
    "  SELECT l.model, f.storage AS base\n"
    "    FROM latest l LEFT JOIN {trained_model} f\n"
    "      ON f.model = l.last_full AND l.trigger - f.trigger < l.full_every\n"},
  {"trigger", "model_bytes_insert",
    "CREATE TRIGGER {model_bytes_insert} INSTEAD OF INSERT ON {model_bytes} BEGIN\n"
    "  SELECT RAISE(ABORT, '{model_bytes}.bytes must be a BLOB') WHERE typeof(new.bytes) <> 'blob';\n"
    "  SELECT RAISE(ABORT, '{model_bytes}.part must be a TEXT or an INTEGER')\n"
    "   WHERE typeof(new.part) NOT IN ('text', 'integer', 'null');\n"
    "  SELECT RAISE(ABORT, 'no such model in {trained_model}')\n"
    "   WHERE NOT EXISTS (SELECT 1 FROM {trained_model} WHERE model = new.model);\n"
    "  INSERT INTO {stored_model}(base, stored_at)\n"
    "    SELECT base, (julianday('now') - 2440587.5) * 86400 FROM {model_base} WHERE model = new.model;\n"
    "  UPDATE {trained_model} SET storage = last_insert_rowid()\n"
    "   WHERE model = new.model AND storage IS NULL;\n"
    "  INSERT INTO {stored_part}(storage, part, bytes, difference)\n"
    "    SELECT s.storage, coalesce(new.part, ''), length(new.bytes),\n"
    "           emb_diff(coalesce((SELECT emb_patch(x'', b.difference) FROM {stored_part} b\n"
    "                               WHERE (b.storage, b.part) = (s.base, coalesce(new.part, ''))), x''),\n"
    "                    new.bytes, coalesce(o.options, ''))\n"
    "      FROM {trained_model} m JOIN {stored_model} s ON s.storage = m.storage\n"
    "      LEFT JOIN {model_storage} o ON o.pipeline = m.pipeline\n"
    "     WHERE m.model = new.model;\n"
    "END\n"},
};

/* clang-format on */

const size_t ext_schema_pipeline_n = 21;
const size_t ext_schema_models_n = 20;
