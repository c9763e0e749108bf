-- One interval, for all models.
-- option start: real, needed; beginning of the interval
-- option end: real, needed; end of the interval, exclusive
SELECT 'static' AS name, NULL AS model, :start AS begins, :end AS ends
