-- Worse than a fixed value.
-- option threshold: real, needed; the value
SELECT :threshold AS threshold, :sign * :value > :sign * :threshold AS triggered,
       printf('%g against %g', :value, :threshold) AS reason
