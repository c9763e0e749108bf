#!/bin/bash
# run.sh -- runs the fuzzers, one after the other (make fuzz-run).
#
#     OUT=build RUNS=100000 [FUZZ="sql store"] [SECONDS_MAX=600] tests/fuzz/run.sh
#
# What they find on the way goes to $OUT/fuzz/found/NAME, so that the next run
# begins there; the corpus in tests/fuzz/corpus is only read.  An input that
# fails is left in $OUT/fuzz/crash-NAME-*, and replayed by
# build/release/fuzz/NAME FILE.  The last line gives the sums.
set -u
passed=0 failed=0
for program in "$OUT"/fuzz/fuzzer/*; do
  name=$(basename "$program")
  if [ -n "${FUZZ:-}" ] && [[ " $FUZZ " != *" $name "* ]]; then continue; fi
  mkdir -p "$OUT/fuzz/found/$name"
  log=$OUT/fuzz/$name.log
  if "$program" -runs="$RUNS" -max_total_time="${SECONDS_MAX:-0}" -timeout=20 \
    -rss_limit_mb=2048 -malloc_limit_mb=256 -max_len=2000 -print_final_stats=1 \
    -verbosity=0 -artifact_prefix="$OUT/fuzz/crash-$name-" \
    "$OUT/fuzz/found/$name" "tests/fuzz/corpus/$name" >"$log" 2>&1; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    tail -n 40 "$log"
  fi
  echo "$name: $(sed -n 's/.*number_of_executed_units: *//p' "$log") runs," \
    "$(ls "$OUT/fuzz/found/$name" | wc -l) inputs kept"
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
