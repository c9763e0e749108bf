-- models.sql -- the bytes of trained models: full models, and differences.
--
--     SELECT emb_pipeline_create();
--     SELECT emb_models_create();
--
-- makes these tables after those of schema.sql, with the same prefix.
--
-- A model is one or more BLOBs, its parts.  INSERT them into the view
-- model_bytes, and SELECT them from there; DELETE a model from stored_model.
-- The manual page is sql/manual/models.md.
--
-- PARTS     have names or numbers.  One part at a time is in memory; SQLite
--           limits a BLOB to a gigabyte, and a model can be larger.
-- FULL      Each pipeline has a full model every full_every triggers.  The
--           others are differences to the last full one: a model is read from
--           two rows, never from a chain of them.
-- WHOLE     emb_diff makes the BLOBs of both kinds; a full model is the
--           difference to nothing, x''.  A BLOB has checksums of base and
--           result, which emb_patch checks: a read returns the stored bytes,
--           bit for bit, or an error.
-- KEPT      The triggers below work without PRAGMA foreign_keys, too: a model
--           that is the base of others cannot be deleted, and no stored model
--           can be changed.
-- FUNCTIONS of emb that are called here touch no file, so the views and
--           triggers work with PRAGMA trusted_schema = OFF.

BEGIN;

-- Yours, if a pipeline needs other values than these defaults.
CREATE TABLE model_storage(
  pipeline   INTEGER PRIMARY KEY REFERENCES "pipeline" ON DELETE CASCADE,
  full_every INTEGER NOT NULL DEFAULT 10 CHECK(full_every >= 1),
  options    TEXT NOT NULL DEFAULT ''  -- of emb_diff
);

-- Filled by the view below; trained_model.storage refers to it.
CREATE TABLE stored_model(
  storage    INTEGER PRIMARY KEY,
  base       INTEGER REFERENCES stored_model, -- NULL: a full model
  stored_at  REAL NOT NULL                    -- seconds since 1970
);
CREATE INDEX stored_model_base ON stored_model(base) WHERE base IS NOT NULL;
CREATE INDEX trained_model_storage ON trained_model(storage) WHERE storage IS NOT NULL;

-- Filled by the view, too: the parts.  The BLOB is the last column, so queries
-- for the other columns do not read it.
CREATE TABLE stored_part(
  storage    INTEGER NOT NULL REFERENCES stored_model,
  part       NOT NULL CHECK(typeof(part) IN ('text', 'integer')),
  bytes      INTEGER NOT NULL, -- of the model's part
  difference BLOB NOT NULL,    -- to the part of this name of the base, or to x''
  PRIMARY KEY(storage, part)
);

-- Yours: the embeddings of a model, as a snapshot of an emb table.
CREATE TABLE model_embeddings(
  model      INTEGER NOT NULL REFERENCES trained_model,
  "table"    TEXT NOT NULL CHECK(length("table") > 0),
  snapshot   TEXT NOT NULL CHECK(length(snapshot) > 0), -- name in emb_snapshots
  PRIMARY KEY(model, "table")
) WITHOUT ROWID;

-- ---- refused input ----------------------------------------------------------

-- Deletes of models that are needed, deletes of single parts, and all changes.
CREATE TRIGGER stored_model_delete BEFORE DELETE ON stored_model
WHEN EXISTS (SELECT 1 FROM stored_model WHERE base = old.storage) BEGIN
  SELECT RAISE(ABORT, 'other models are stored as differences to this one');
END;
CREATE TRIGGER stored_part_delete BEFORE DELETE ON stored_part
WHEN EXISTS (SELECT 1 FROM stored_model WHERE storage = old.storage) BEGIN
  SELECT RAISE(ABORT, 'a stored model goes with all its parts: delete it from stored_model');
END;
CREATE TRIGGER stored_model_update BEFORE UPDATE ON stored_model BEGIN
  SELECT RAISE(ABORT, 'a stored model cannot be changed');
END;
CREATE TRIGGER stored_part_update BEFORE UPDATE ON stored_part BEGIN
  SELECT RAISE(ABORT, 'a stored model cannot be changed');
END;
-- INSERT OR REPLACE would delete without the triggers above.
CREATE TRIGGER stored_model_insert BEFORE INSERT ON stored_model BEGIN
  SELECT RAISE(ABORT, 'UNIQUE constraint failed: stored_model.storage')
   WHERE EXISTS (SELECT 1 FROM stored_model WHERE storage = new.storage);
  SELECT RAISE(ABORT, 'the base of a stored model is no full model')
   WHERE new.base IS NOT NULL AND
         NOT EXISTS (SELECT 1 FROM stored_model WHERE storage = new.base AND base IS NULL);
END;
-- If a part were added later, existing differences would not be relative to it.
CREATE TRIGGER stored_part_insert BEFORE INSERT ON stored_part BEGIN
  SELECT RAISE(ABORT, 'this part of the model is stored already')
   WHERE EXISTS (SELECT 1 FROM stored_part WHERE (storage, part) = (new.storage, new.part));
  SELECT RAISE(ABORT, 'other models are stored as differences to this one')
   WHERE EXISTS (SELECT 1 FROM stored_model WHERE base = new.storage);
END;

-- trained_model.storage names an existing stored model, and no other model's.
CREATE TRIGGER trained_model_stored BEFORE INSERT ON trained_model
WHEN new.storage IS NOT NULL BEGIN
  SELECT RAISE(ABORT, 'no such stored model, or it is that of another')
   WHERE NOT EXISTS (SELECT 1 FROM stored_model WHERE storage = new.storage)
      OR EXISTS (SELECT 1 FROM trained_model WHERE storage = new.storage);
END;
CREATE TRIGGER trained_model_restored BEFORE UPDATE OF storage ON trained_model
WHEN new.storage IS NOT old.storage BEGIN
  SELECT RAISE(ABORT, 'the bytes of this model are stored: delete them from stored_model')
   WHERE EXISTS (SELECT 1 FROM stored_model WHERE storage = old.storage);
  SELECT RAISE(ABORT, 'no such stored model, or it is that of another')
   WHERE new.storage IS NOT NULL
     AND (NOT EXISTS (SELECT 1 FROM stored_model WHERE storage = new.storage)
          OR EXISTS (SELECT 1 FROM trained_model WHERE storage = new.storage));
END;

-- Deleting a trained model deletes its bytes, unless others need them; only you
-- can drop snapshots.  (INSERT OR REPLACE of a trained model orphans its
-- bytes.)
CREATE TRIGGER trained_model_delete BEFORE DELETE ON trained_model BEGIN
  SELECT RAISE(ABORT, 'the model has embeddings: drop these snapshots, and the rows of model_embeddings')
   WHERE EXISTS (SELECT 1 FROM model_embeddings WHERE model = old.model);
END;
CREATE TRIGGER trained_model_gone AFTER DELETE ON trained_model BEGIN
  DELETE FROM stored_model WHERE storage = old.storage;
END;
CREATE TRIGGER stored_model_gone AFTER DELETE ON stored_model BEGIN
  DELETE FROM stored_part WHERE storage = old.storage;
  UPDATE trained_model SET storage = NULL WHERE storage = old.storage;
END;

-- ---- the bytes --------------------------------------------------------------

-- If the base is missing, which only happens by force, emb_patch reports it.
CREATE VIEW model_bytes AS
  SELECT m.model, p.part, m.pipeline, m.trigger, m.storage, s.base, p.bytes AS size,
         length(p.difference) AS stored_size,
         emb_patch(coalesce((SELECT emb_patch(x'', b.difference) FROM stored_part b
                              WHERE (b.storage, b.part) = (s.base, p.part)), x''),
                   p.difference) AS bytes
    FROM trained_model m JOIN stored_model s ON s.storage = m.storage
    JOIN stored_part p ON p.storage = m.storage;

-- The full model that a trained model not yet stored would be a difference to:
-- that of the latest trigger up to its own, if less than full_every ago.
CREATE VIEW model_base AS
  WITH latest AS (
    SELECT m.model, m.trigger, coalesce(o.full_every, 10) AS full_every,
           (SELECT f.model FROM trained_model f
             WHERE f.pipeline = m.pipeline AND f.trigger <= m.trigger AND EXISTS
                   (SELECT 1 FROM stored_model s WHERE s.storage = f.storage AND s.base IS NULL)
             ORDER BY f.trigger DESC, f.model DESC LIMIT 1) AS last_full
      FROM trained_model m LEFT JOIN model_storage o USING (pipeline)
     WHERE m.storage IS NULL)
  SELECT l.model, f.storage AS base
    FROM latest l LEFT JOIN trained_model f
      ON f.model = l.last_full AND l.trigger - f.trigger < l.full_every;

-- The first part of a model to be inserted determines the model's base.
CREATE TRIGGER model_bytes_insert INSTEAD OF INSERT ON model_bytes BEGIN
  SELECT RAISE(ABORT, 'model_bytes.bytes must be a BLOB') WHERE typeof(new.bytes) <> 'blob';
  SELECT RAISE(ABORT, 'model_bytes.part must be a TEXT or an INTEGER')
   WHERE typeof(new.part) NOT IN ('text', 'integer', 'null');
  SELECT RAISE(ABORT, 'no such model in trained_model')
   WHERE NOT EXISTS (SELECT 1 FROM trained_model WHERE model = new.model);
  INSERT INTO stored_model(base, stored_at)
    SELECT base, (julianday('now') - 2440587.5) * 86400 FROM model_base WHERE model = new.model;
  UPDATE trained_model SET storage = last_insert_rowid()
   WHERE model = new.model AND storage IS NULL;
  INSERT INTO stored_part(storage, part, bytes, difference)
    SELECT s.storage, coalesce(new.part, ''), length(new.bytes),
           emb_diff(coalesce((SELECT emb_patch(x'', b.difference) FROM stored_part b
                               WHERE (b.storage, b.part) = (s.base, coalesce(new.part, ''))), x''),
                    new.bytes, coalesce(o.options, ''))
      FROM trained_model m JOIN stored_model s ON s.storage = m.storage
      LEFT JOIN model_storage o ON o.pipeline = m.pipeline
     WHERE m.model = new.model;
END;

COMMIT;
