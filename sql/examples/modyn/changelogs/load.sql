-- load.sql -- makes samples from the entries that parse.c has read.
--
--     sqlite3 changelogs.db <sql/examples/modyn/changelogs/load.sql
--
-- Packages built from one source have the same change log, so an entry is
-- identified by its source and version.  Keys are in the order of time.

BEGIN;

CREATE TABLE entry(
  key          INTEGER PRIMARY KEY,
  source       TEXT NOT NULL,
  version      TEXT NOT NULL,
  distribution TEXT NOT NULL,
  at           INTEGER NOT NULL,  -- seconds since 1970
  year         INTEGER NOT NULL,
  urgency      INTEGER CHECK(urgency IN (0, 1, 2)),  -- low, medium, high
  closes       INTEGER NOT NULL CHECK(closes IN (0, 1)),
  text         TEXT NOT NULL
);

-- Emergency and critical, one entry in a thousand, count as high; other words,
-- and no word, as unknown.
INSERT INTO entry(source, version, distribution, at, year, urgency, closes, text)
SELECT source, version, distribution, at,
       CAST(strftime('%Y', at, 'unixepoch') AS INTEGER),
       CASE urgency WHEN 'low' THEN 0 WHEN 'medium' THEN 1 WHEN 'high' THEN 2
                    WHEN 'emergency' THEN 2 WHEN 'critical' THEN 2 END,
       bugs > 0, text
  FROM (SELECT *, row_number() OVER (PARTITION BY source, version
                                     ORDER BY at, length(text) DESC, text) AS copy
          FROM read_entry
         -- Excludes entries from wrong clocks.
         WHERE at <= strftime('%s', 'now') + 86400)
 WHERE copy = 1
 ORDER BY at, source, version;

CREATE INDEX entry_at ON entry(at);

-- Entries and labels by year.
CREATE TABLE year AS
SELECT year, count(*) AS entries, avg(urgency = 0) AS low, avg(urgency = 1) AS medium,
       avg(urgency = 2) AS high, avg(closes) AS closes
  FROM entry GROUP BY year;

INSERT INTO read_count VALUES ('entries that are not copies', (SELECT count(*) FROM entry));
INSERT INTO read_count VALUES ('sources', (SELECT count(DISTINCT source) FROM entry));
DROP TABLE read_entry;

COMMIT;
