-- load.sql -- prepares WordNet for the examples of the knowledge bank.
--
--   sqlite3 -bail build/bank/wordnet.db <sql/examples/bank/load.sql
--
-- after sql/examples/wordnet/load.sql in the same database.  Synsets get node
-- numbers 0, 1, ..., by which the programs index arrays; in the embedding
-- tables they keep their own ids.
--
--   node      synset, class, and part ('train', 'valid' or 'test')
--   class     the 45 lexicographer files, of lexnames(5WN)
--   edge      pairs of nodes that a pointer connects, both ways
--   word      stemmed words of glosses, but not of one gloss in ten
--   piece     the pieces of lemmas: stemmed words, and triples of characters
--   gloss_word, lemma_piece   the words and pieces of each node

BEGIN;

CREATE TABLE class(id INTEGER PRIMARY KEY, name TEXT UNIQUE);
INSERT INTO class(id, name) VALUES
  (0, 'adj.all'), (1, 'adj.pert'), (2, 'adv.all'), (3, 'noun.Tops'),
  (4, 'noun.act'), (5, 'noun.animal'), (6, 'noun.artifact'),
  (7, 'noun.attribute'), (8, 'noun.body'), (9, 'noun.cognition'),
  (10, 'noun.communication'), (11, 'noun.event'), (12, 'noun.feeling'),
  (13, 'noun.food'), (14, 'noun.group'), (15, 'noun.location'),
  (16, 'noun.motive'), (17, 'noun.object'), (18, 'noun.person'),
  (19, 'noun.phenomenon'), (20, 'noun.plant'), (21, 'noun.possession'),
  (22, 'noun.process'), (23, 'noun.quantity'), (24, 'noun.relation'),
  (25, 'noun.shape'), (26, 'noun.state'), (27, 'noun.substance'),
  (28, 'noun.time'), (29, 'verb.body'), (30, 'verb.change'),
  (31, 'verb.cognition'), (32, 'verb.communication'), (33, 'verb.competition'),
  (34, 'verb.consumption'), (35, 'verb.contact'), (36, 'verb.creation'),
  (37, 'verb.emotion'), (38, 'verb.motion'), (39, 'verb.perception'),
  (40, 'verb.possession'), (41, 'verb.social'), (42, 'verb.stative'),
  (43, 'verb.weather'), (44, 'adj.ppl');

-- A tenth of the synsets is for testing, and 2,000 decide when training stops;
-- the order is the hash of sql/examples/wordnet/load.sql.

CREATE TABLE node(
  number INTEGER PRIMARY KEY,
  synset INTEGER UNIQUE REFERENCES synset(id),
  class INTEGER REFERENCES class(id),
  part TEXT  -- 'train', 'valid' or 'test'
);
INSERT INTO node(number, synset, class, part)
SELECT number, id, file,
       CASE WHEN row_number() OVER (ORDER BY hash * hash % 2147483647, number)
                 <= 2000 THEN 'valid'
            WHEN row_number() OVER (ORDER BY hash * hash % 2147483647, number)
                 <= 2000 + count(*) OVER () / 10 THEN 'test'
            ELSE 'train' END
  FROM (SELECT id, file, row_number() OVER (ORDER BY id) - 1 AS number,
               row_number() OVER (ORDER BY id) * 48271 % 2147483647 AS hash
          FROM synset);

-- A synset can be a kind of another, a part of it, or like it only if both have
-- the same part of speech.  The topic, region or usage of a synset is not like
-- the synset at all, so those relations are left out.

CREATE TABLE edge(
  node INTEGER, other INTEGER, PRIMARY KEY(node, other)
) WITHOUT ROWID;
INSERT OR IGNORE INTO edge
SELECT a.number, b.number
  FROM triple JOIN node AS a ON a.synset = head JOIN node AS b ON b.synset = tail
 WHERE head <> tail AND head / 100000000 = tail / 100000000
   AND relation NOT IN (SELECT id FROM relation WHERE name LIKE '%domain%');
INSERT OR IGNORE INTO edge SELECT other, node FROM edge;

-- FTS5 cuts texts into words and stems them (Porter's algorithm), and its
-- vocabulary tables say which words occur where.

CREATE VIRTUAL TABLE temp.gloss USING fts5(text, content='', tokenize='porter');
INSERT INTO gloss(rowid, text)
SELECT number, gloss FROM node JOIN synset ON id = node.synset;
CREATE VIRTUAL TABLE temp.gloss_term USING fts5vocab(temp, gloss, row);
CREATE VIRTUAL TABLE temp.gloss_at USING fts5vocab(temp, gloss, instance);

CREATE TABLE word(id INTEGER PRIMARY KEY, term TEXT UNIQUE);
INSERT INTO word(id, term)
SELECT row_number() OVER (ORDER BY doc DESC, term) - 1, term
  FROM gloss_term WHERE doc BETWEEN 5 AND (SELECT count(*) / 10 FROM node);

CREATE TABLE gloss_word(
  node INTEGER, word INTEGER, PRIMARY KEY(node, word)
) WITHOUT ROWID;
INSERT OR IGNORE INTO gloss_word
SELECT doc, id FROM gloss_at JOIN word USING (term);

-- Lemmas: most of their words occur in only one or two synsets.  Triples of
-- characters, also across word boundaries, carry what the words cannot.

CREATE TEMP TABLE lemma AS
SELECT number, (SELECT ' ' || group_concat(replace(value, '_', ' '), '  ') || ' '
                  FROM json_each(words)) AS text
  FROM node JOIN synset ON id = node.synset;
CREATE VIRTUAL TABLE temp.stems USING fts5(text, content='', tokenize='porter');
CREATE VIRTUAL TABLE temp.triples USING fts5(text, content='', tokenize='trigram');
INSERT INTO stems(rowid, text) SELECT number, text FROM lemma;
INSERT INTO triples(rowid, text) SELECT number, text FROM lemma;
CREATE VIRTUAL TABLE temp.stem_term USING fts5vocab(temp, stems, row);
CREATE VIRTUAL TABLE temp.stem_at USING fts5vocab(temp, stems, instance);
CREATE VIRTUAL TABLE temp.triple_term USING fts5vocab(temp, triples, row);
CREATE VIRTUAL TABLE temp.triple_at USING fts5vocab(temp, triples, instance);

CREATE TABLE piece(id INTEGER PRIMARY KEY, kind TEXT, term TEXT,
                   UNIQUE(kind, term));
INSERT INTO piece(id, kind, term)
SELECT row_number() OVER (ORDER BY kind, term) - 1, kind, term
  FROM (SELECT 'stem' AS kind, term FROM stem_term WHERE doc >= 3
         UNION ALL SELECT 'triple', term FROM triple_term WHERE doc >= 10);

CREATE TABLE lemma_piece(
  node INTEGER, piece INTEGER, PRIMARY KEY(node, piece)
) WITHOUT ROWID;
INSERT OR IGNORE INTO lemma_piece
SELECT doc, id FROM stem_at JOIN piece USING (term) WHERE kind = 'stem';
INSERT OR IGNORE INTO lemma_piece
SELECT doc, id FROM triple_at JOIN piece USING (term) WHERE kind = 'triple';

COMMIT;

SELECT printf('  %-38s %8d', what, rows) FROM (
  SELECT 'synsets' AS what, count(*) AS rows FROM node
   UNION ALL SELECT 'classes', count(DISTINCT class) FROM node
   UNION ALL SELECT 'edges, both ways', count(*) FROM edge
   UNION ALL SELECT 'of these within a class, in %', sum(a.class = b.class) * 100 / count(*)
     FROM edge JOIN node AS a ON a.number = edge.node JOIN node AS b ON b.number = edge.other
   UNION ALL SELECT 'words of glosses', count(*) FROM word
   UNION ALL SELECT 'occurrences', count(*) FROM gloss_word
   UNION ALL SELECT 'pieces of lemmas', count(*) FROM piece
   UNION ALL SELECT 'occurrences', count(*) FROM lemma_piece);
