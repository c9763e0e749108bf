-- One, for all models.
-- option start: real, needed; where it begins
-- option end: real, needed; where it ends, not included
SELECT 'static' AS name, NULL AS model, :start AS begins, :end AS ends
