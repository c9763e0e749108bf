-- load.sql -- WordNet 3.0 as a graph: synsets, words, triples and their split.
--
--   sqlite3 -bail build/demo/wordnet.db <sql/examples/wordnet/load.sql
--
-- Reads the data and index files of Debian's package wordnet-base; their
-- format is in wndb(5WN).  Stops with an error unless the graph has exactly
-- the size of WordNet 3.0.  Needs only the sqlite3 shell.
--
-- A synset's id is WordNet's own (as in its Prolog files): part of speech
-- (1 noun, 2 verb, 3 adjective, 4 adverb) times 10^8 plus the byte offset of
-- its line.  A triple (head, relation, tail) is a pointer from one synset to
-- another; several pointers between words of the same two synsets count as one.

BEGIN;

CREATE TABLE synset(
  id INTEGER PRIMARY KEY,
  name TEXT,   -- first word, part of speech, sense number: dog.n.01
  words TEXT,  -- JSON array of all its words
  gloss TEXT,
  file INTEGER -- number of its lexicographer file, of lexnames(5WN)
);

CREATE TABLE sense(  -- the senses of a word, the most frequent first
  word TEXT, pos TEXT, number INTEGER, synset INTEGER,
  PRIMARY KEY(word, pos, number)
) WITHOUT ROWID;

CREATE TABLE relation(id INTEGER PRIMARY KEY, symbol TEXT UNIQUE, name TEXT);

CREATE TABLE triple(
  head INTEGER, relation INTEGER, tail INTEGER,
  split TEXT,  -- 'train', 'valid' or 'test'
  PRIMARY KEY(head, relation, tail)
) WITHOUT ROWID;

INSERT INTO relation(id, symbol, name) VALUES
  (1, '!', 'antonym'),
  (2, '@', 'hypernym'),
  (3, '@i', 'instance hypernym'),
  (4, '~', 'hyponym'),
  (5, '~i', 'instance hyponym'),
  (6, '#m', 'member holonym'),
  (7, '#s', 'substance holonym'),
  (8, '#p', 'part holonym'),
  (9, '%m', 'member meronym'),
  (10, '%s', 'substance meronym'),
  (11, '%p', 'part meronym'),
  (12, '=', 'attribute'),
  (13, '+', 'derivationally related form'),
  (14, ';c', 'domain of synset: topic'),
  (15, '-c', 'member of this domain: topic'),
  (16, ';r', 'domain of synset: region'),
  (17, '-r', 'member of this domain: region'),
  (18, ';u', 'domain of synset: usage'),
  (19, '-u', 'member of this domain: usage'),
  (20, '*', 'entailment'),
  (21, '>', 'cause'),
  (22, '^', 'also see'),
  (23, '$', 'verb group'),
  (24, '&', 'similar to'),
  (25, '<', 'participle of verb'),
  (26, '\', 'pertainym or derived from adjective');

-- The files, line by line.  No line contains the column separator.

CREATE TEMP TABLE data_line(text TEXT);
CREATE TEMP TABLE index_line(text TEXT);
.mode ascii
.separator "\037" "\n"
.import /usr/share/wordnet/data.noun data_line
.import /usr/share/wordnet/data.verb data_line
.import /usr/share/wordnet/data.adj data_line
.import /usr/share/wordnet/data.adv data_line
.import /usr/share/wordnet/index.noun index_line
.import /usr/share/wordnet/index.verb index_line
.import /usr/share/wordnet/index.adj index_line
.import /usr/share/wordnet/index.adv index_line
.mode list
.separator "|" "\n"

-- A data line:  offset file type w_cnt (word lex_id)*w_cnt
--               p_cnt (symbol offset pos source/target)*p_cnt [frames] | gloss
-- where w_cnt is hexadecimal.  Its fields become a JSON array.  The licence
-- at the head of each file is indented.

CREATE TEMP TABLE pos(letter TEXT PRIMARY KEY, digit INTEGER, file TEXT);
INSERT INTO pos VALUES
  ('n', 1, 'n'), ('v', 2, 'v'), ('a', 3, 'a'), ('s', 3, 'a'), ('r', 4, 'r');

CREATE TEMP TABLE data AS
SELECT pos.digit * 100000000 + substr(text, 1, 8) AS id,
       pos.file AS pos,
       CAST(substr(text, 10, 2) AS INTEGER) AS file,
       16 * instr('123456789abcdef', substr(text, 15, 1))
          + instr('123456789abcdef', substr(text, 16, 1)) AS words,
       '[' || replace(json_quote(substr(text, 1, instr(text, ' | ') - 1)),
                      ' ', '","') || ']' AS field,
       trim(substr(text, instr(text, ' | ') + 3)) AS gloss
  FROM data_line JOIN pos ON pos.letter = substr(text, 13, 1)
 WHERE text NOT LIKE '  %';

-- Words are the fields 4, 6, ...; an adjective's may end in a marker: (p).
-- An index line:  word pos synset_cnt p_cnt symbol*p_cnt sense_cnt tag_cnt
--                 offset*synset_cnt

INSERT INTO sense(word, pos, number, synset)
SELECT word, pos, row_number() OVER (PARTITION BY word, pos ORDER BY k), synset
  FROM (SELECT field ->> 0 AS word, field ->> 1 AS pos, each.key AS k,
               pos.digit * 100000000 + each.value AS synset
          FROM (SELECT '[' || replace(json_quote(trim(text)), ' ', '","')
                           || ']' AS field
                  FROM index_line WHERE text NOT LIKE '  %')
          JOIN pos ON pos.letter = field ->> 1
          JOIN json_each(field) AS each ON each.key >= 6 + (field ->> 3));

INSERT INTO synset(id, name, words, gloss, file)
SELECT id,
       (SELECT printf('%s.%s.%02d', sense.word, sense.pos, sense.number)
          FROM sense
         WHERE sense.word = lower(words ->> 0) AND sense.pos = data.pos
           AND sense.synset = data.id),
       words, gloss, file
  FROM (SELECT id, pos, gloss, file,
               (SELECT json_group_array(
                         CASE WHEN value LIKE '%(%)'
                              THEN substr(value, 1, instr(value, '(') - 1)
                              ELSE value END)
                  FROM json_each(field)
                 WHERE key >= 4 AND key < 4 + 2 * words AND key % 2 = 0)
                 AS words
          FROM data) AS data;

INSERT OR IGNORE INTO triple(head, relation, tail)
SELECT data.id, relation.id,
       pos.digit * 100000000 + (field ->> (symbol.key + 1))
  FROM data
  JOIN json_each(field) AS symbol
    ON symbol.key >= 5 + 2 * words
   AND symbol.key < 5 + 2 * words + 4 * (field ->> (4 + 2 * words))
   AND (symbol.key - (5 + 2 * words)) % 4 = 0
  JOIN pos ON pos.letter = field ->> (symbol.key + 2)
  LEFT JOIN relation ON relation.symbol = symbol.value;

-- The split: random by triple, as in WN18, so a held-out triple's reverse is
-- usually in training.  The order is a hash of the triple's number in key
-- order (a multiplication and a squaring modulo the prime 2^31 - 1), the same
-- on every machine.  The first 11,000 triples are candidates.  A candidate
-- whose head or tail occurs only in candidates stays in training, so that
-- everything tested has been trained; the next 5,000 and 5,000 are valid and
-- test.

CREATE TEMP TABLE candidate(
  head INTEGER, relation INTEGER, tail INTEGER, hash INTEGER,
  PRIMARY KEY(head, relation, tail)
) WITHOUT ROWID;
INSERT INTO candidate
SELECT head, relation, tail, hash * hash % 2147483647
  FROM (SELECT *, row_number() OVER (ORDER BY head, relation, tail)
                  * 48271 % 2147483647 AS hash FROM triple)
 ORDER BY 4, 1, 2, 3 LIMIT 11000;

UPDATE triple SET split = 'train'
 WHERE NOT EXISTS (SELECT 1 FROM candidate AS c
                    WHERE (c.head, c.relation, c.tail)
                        = (triple.head, triple.relation, triple.tail));

CREATE TEMP TABLE trained(id INTEGER PRIMARY KEY);
INSERT INTO trained
SELECT head FROM triple WHERE split = 'train'
 UNION SELECT tail FROM triple WHERE split = 'train';

UPDATE triple SET split = CASE WHEN rank <= 5000 THEN 'valid'
                               WHEN rank <= 10000 THEN 'test'
                               ELSE 'train' END
  FROM (SELECT head, relation, tail,
               row_number() OVER (ORDER BY hash, head, relation, tail) AS rank
          FROM candidate
         WHERE head IN trained AND tail IN trained) AS c
 WHERE (triple.head, triple.relation, triple.tail)
     = (c.head, c.relation, c.tail);

UPDATE triple SET split = 'train' WHERE split IS NULL;

-- The entities of the embedding table: every synset that is in a triple.

CREATE VIEW entity AS
SELECT head AS id FROM triple UNION SELECT tail FROM triple;

CREATE INDEX synset_name ON synset(name);

-- The expected sizes.  A difference ends the script: the CHECK names the row.

CREATE TEMP TABLE found(what TEXT, rows INTEGER, expected INTEGER);
INSERT INTO found VALUES
  ('synsets', (SELECT count(*) FROM synset), 117659),
  ('synsets in triples', (SELECT count(*) FROM entity), 116650),
  ('relation types',
   (SELECT count(DISTINCT relation) FROM triple), 26),
  ('triples', (SELECT count(*) FROM triple), 364552),
  ('of these training',
   (SELECT count(*) FROM triple WHERE split = 'train'), 354552),
  ('validation', (SELECT count(*) FROM triple WHERE split = 'valid'), 5000),
  ('test', (SELECT count(*) FROM triple WHERE split = 'test'), 5000),
  ('test triples with an untrained synset',
   (SELECT count(*) FROM triple WHERE split = 'test' AND NOT (
      head IN (SELECT head FROM triple WHERE split = 'train'
               UNION SELECT tail FROM triple WHERE split = 'train')
      AND tail IN (SELECT head FROM triple WHERE split = 'train'
                   UNION SELECT tail FROM triple WHERE split = 'train'))), 0),
  ('synsets without a name',
   (SELECT count(*) FROM synset WHERE name IS NULL), 0);

SELECT printf('  %-38s %7d', what, rows) FROM found;
CREATE TEMP TABLE wordnet_3_0(
  what TEXT, rows INTEGER, expected INTEGER,
  CONSTRAINT "the graph differs from WordNet 3.0: see the counts above"
  CHECK (rows = expected)
);
INSERT INTO wordnet_3_0 SELECT * FROM found;

COMMIT;
