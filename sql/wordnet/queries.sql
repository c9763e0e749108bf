.load build/emb
.mode column --wrap 90

-- Synsets near one: cosine of its vector with those of all 116,650.
WITH given AS MATERIALIZED (
  SELECT vector FROM embedding
   WHERE synset = (SELECT id FROM synset WHERE name = 'violin.n.01')
), near AS (
  SELECT synset,
         1 - emb_distance_cosine(vector, (SELECT vector FROM given)) AS cosine
    FROM embedding ORDER BY cosine DESC LIMIT 6
)
SELECT name, printf('%.3f', cosine) AS cosine, substr(gloss, 1, 44) AS gloss
  FROM near JOIN synset ON id = near.synset ORDER BY near.cosine DESC;

-- The same for several at once, in one scan of the table.
WITH given AS MATERIALIZED (
  SELECT name, synset, vector FROM synset JOIN embedding ON synset = id
   WHERE name IN ('dog.n.01', 'paris.n.01', 'walk.v.01', 'happy.a.01')
), near AS (
  SELECT given.name AS word, embedding.synset,
         row_number() OVER (PARTITION BY given.name ORDER BY
           emb_distance_cosine(embedding.vector, given.vector)) AS place
    FROM embedding CROSS JOIN given
   WHERE embedding.synset <> given.synset
)
SELECT word, group_concat(name, ', ') AS nearest
  FROM (SELECT word, name FROM near JOIN synset ON id = synset
         WHERE place <= 5 ORDER BY word, place)
 GROUP BY word;

-- The table is a table: rows, batches, statistics.
SELECT synset, emb_length(vector) AS floats FROM entities LIMIT 3;
SELECT emb_length(vectors) AS floats FROM entities('[102084071, 104536866]');
SELECT name, value FROM emb_stats('entities') WHERE name LIKE 'get%';
