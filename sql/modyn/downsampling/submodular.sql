-- Samples that maximise a submodular function (score.gradient).
-- option function: text, one of facility_location|graph_cut|log_determinant, default facility_location; which one
-- option greedy: text, one of naive|lazy|stochastic, default lazy; how it is maximised
SELECT chosen.key AS sample_key, chosen.weight
  FROM emb_chosen((
    SELECT emb_coreset(s.sample_key, c.gradient, :size, printf('submodular(%s, greedy=%s)', :function, :greedy))
      FROM (SELECT * FROM selection WHERE pipeline = :pipeline AND trigger = :trigger
               AND place >= :from AND place < :to ORDER BY place) AS s
      LEFT JOIN score c ON c.pipeline = s.pipeline AND c.sample_key = s.sample_key)) AS chosen
 ORDER BY chosen.rank
