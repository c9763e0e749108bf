-- Samples whose weighted gradients sum to that of all: orthogonal matching pursuit (score.gradient).
-- option lambda: real, 0 to, default 1; of the regularisation
SELECT chosen.key AS sample_key, chosen.weight
  FROM emb_chosen((
    SELECT emb_coreset(s.sample_key, c.gradient, :size, printf('gradmatch(lambda=%!g)', :lambda))
      FROM (SELECT * FROM selection WHERE pipeline = :pipeline AND trigger = :trigger
               AND place >= :from AND place < :to ORDER BY place) AS s
      LEFT JOIN score c ON c.pipeline = s.pipeline AND c.sample_key = s.sample_key)) AS chosen
 ORDER BY chosen.rank
