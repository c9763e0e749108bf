-- Chooses samples at random, none a second time before all others have been chosen:
-- samples not yet drawn in this epoch come first; if they are too few, the next epoch
-- begins.
WITH epoch(now) AS MATERIALIZED (
  SELECT max(1, max(epoch)) FROM {sample_state}
   WHERE pipeline = :pipeline AND position BETWEEN :low AND :high)
SELECT sample_key FROM {sample_state}, epoch
 WHERE pipeline = :pipeline AND position BETWEEN :low AND :high
 ORDER BY epoch >= now, emb_random(:seed, sample_key, :stream), position
 LIMIT :size;

UPDATE {sample_state}
   SET used = used + 1, last_used = :trigger,
       epoch = epoch.now + (epoch >= epoch.now)
  FROM (SELECT max(1, max(epoch)) AS now FROM {sample_state}
         WHERE pipeline = :pipeline AND position BETWEEN :low AND :high) AS epoch
 WHERE pipeline = :pipeline
   AND sample_key IN (SELECT sample_key FROM {selection}
                       WHERE pipeline = :pipeline AND trigger = :trigger)
