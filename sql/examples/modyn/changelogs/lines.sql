-- lines.sql -- the results that need no model, as lines for report.c (options.h
-- has the format).

.mode tabs

-- The numbers of entries and their labels.
SELECT 'data', 1, year, column1,
       CASE column1 WHEN 'entries' THEN entries WHEN 'low' THEN low WHEN 'medium' THEN medium
                    WHEN 'high' THEN high ELSE closes END
  FROM year, (VALUES ('entries'), ('low'), ('medium'), ('high'), ('closes'));
SELECT 'read', 1, what, 'number', number FROM read_count;

-- The accuracy without reading a word: in each year, always predict the most
-- frequent label of all years before, or of the last year.
WITH
sample AS (
  SELECT 'urgency' AS task, year, urgency AS label FROM entry WHERE urgency IS NOT NULL
  UNION ALL
  SELECT 'closes', year, closes FROM entry),
counted AS (
  SELECT task, year, label, count(*) AS entries FROM sample GROUP BY task, year, label),
evaluated AS (
  SELECT task, name AS year, sum(label = guess) * 1.0 / count(*) AS value, floor
    FROM (SELECT s.task, s.year AS name, s.label, floor,
                 (SELECT c.label FROM counted AS c
                   WHERE c.task = s.task AND c.year < s.year
                     AND (floor = 'majority of all years' OR c.year = s.year - 1)
                   GROUP BY c.label ORDER BY sum(entries) DESC, c.label LIMIT 1) AS guess
            FROM sample AS s,
                 (SELECT 'majority of all years' AS floor
                  UNION ALL SELECT 'majority of the last year')
           WHERE s.year >= 2002)
   GROUP BY task, name, floor)
SELECT task, 1, floor, 'year ' || year, value FROM evaluated
UNION ALL
SELECT task, 1, floor, 'years', avg(value) FROM evaluated GROUP BY task, floor;
