.load build/emb
.mode column --wrap 90

-- Words near a word: cosine of the vectors of all 116,650 synsets.
SELECT name, printf('%.3f', 1 - emb_distance_cosine(vector, (
         SELECT vector FROM embedding WHERE name = 'violin.n.01'))) AS cosine,
       substr(gloss, 1, 44) AS gloss
  FROM embedding ORDER BY cosine DESC LIMIT 6;

-- The same for several words in one scan of the table.
WITH word(name) AS (
  VALUES ('dog.n.01'), ('paris.n.01'), ('walk.v.01'), ('happy.a.01')
), given AS MATERIALIZED (
  SELECT name, vector FROM word JOIN embedding USING (name)
), near AS (
  SELECT given.name AS word, embedding.name AS name,
         row_number() OVER (PARTITION BY given.name ORDER BY
           emb_distance_cosine(embedding.vector, given.vector)) AS place
    FROM embedding CROSS JOIN given
   WHERE embedding.name <> given.name
)
SELECT word, group_concat(name, ', ') AS nearest
  FROM near WHERE place <= 5 GROUP BY word;

-- The table is a table: rows, batches, statistics.
SELECT synset, emb_length(vector) AS floats FROM entities LIMIT 3;
SELECT emb_length(vectors) AS floats FROM entities('[102084071, 104536866]');
SELECT name, value FROM emb_stats('entities') WHERE name LIKE 'get%';
