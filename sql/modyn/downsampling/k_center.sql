-- Centres: each next one is the sample farthest from those chosen (score.gradient).
SELECT chosen.key AS sample_key, chosen.weight
  FROM emb_chosen((
    SELECT emb_coreset(s.sample_key, c.gradient, :size, 'k-center')
      FROM (SELECT * FROM selection WHERE pipeline = :pipeline AND trigger = :trigger
               AND place >= :from AND place < :to ORDER BY place) AS s
      LEFT JOIN score c ON c.pipeline = s.pipeline AND c.sample_key = s.sample_key)) AS chosen
 ORDER BY chosen.rank
