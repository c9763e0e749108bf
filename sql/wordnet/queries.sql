.load build/emb
.mode column --wrap 90

-- Synsets near one, of all 116,650: by the cosine of their vectors.
WITH near AS (
  SELECT key AS synset, 1 - distance AS cosine FROM embedding
   WHERE vector MATCH (SELECT vector FROM embedding WHERE key =
           (SELECT id FROM synset WHERE name = 'violin.n.01'))
     AND k = 6
)
SELECT name, printf('%.3f', cosine) AS cosine, substr(gloss, 1, 44) AS gloss
  FROM near JOIN synset ON id = near.synset ORDER BY near.cosine DESC;

-- The table is a table: rows, batches, statistics.
SELECT synset, emb_length(vector) AS floats FROM entities LIMIT 3;
SELECT emb_length(vectors) AS floats FROM entities('[102084071, 104536866]');
SELECT name, value FROM emb_stats('entities') WHERE name LIKE 'get%';
