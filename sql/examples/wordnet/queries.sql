.load build/emb
.mode column --wrap 90

-- Synsets near one, of all 116,650: by the cosine of their vectors.
WITH near AS (
  SELECT synset, 1 - distance AS cosine FROM entities
   WHERE vector MATCH (SELECT vector FROM entities WHERE synset =
           (SELECT id FROM synset WHERE name = 'violin.n.01'))
     AND k = 6
)
SELECT name, printf('%.3f', cosine) AS cosine, substr(gloss, 1, 44) AS gloss
  FROM near JOIN synset ON id = near.synset ORDER BY near.cosine DESC;

-- The same for several: each is its own nearest, so the five behind it.
SELECT given.name AS word, group_concat(found.name, ', ') AS nearest
  FROM synset AS given
  JOIN entities AS e ON e.synset = given.id
  JOIN entities AS n ON n.vector MATCH e.vector AND n.k = 6
                    AND n.synset <> e.synset
  JOIN synset AS found ON found.id = n.synset
 WHERE given.name IN ('dog.n.01', 'paris.n.01', 'walk.v.01', 'happy.a.01')
 GROUP BY word;

-- Among some only: what the dictionary calls a wind instrument.
SELECT name, printf('%.3f', 1 - distance) AS cosine
  FROM entities JOIN synset ON id = entities.synset
 WHERE vector MATCH (SELECT vector FROM entities WHERE synset =
         (SELECT id FROM synset WHERE name = 'violin.n.01'))
   AND entities.synset IN
         (SELECT id FROM synset WHERE gloss LIKE '%wind instrument%')
 ORDER BY distance LIMIT 3;

-- The table is a table: rows, batches, statistics.
SELECT synset, emb_length(vector) AS floats FROM entities LIMIT 3;
SELECT emb_length(vectors) AS floats FROM entities('[102084071, 104536866]');
SELECT name, value FROM emb_stats('entities') WHERE name LIKE 'get%';
