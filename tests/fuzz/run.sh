#!/bin/bash
# run.sh -- runs the fuzzers, two at a time (make fuzz-run).
#
#     OUT=build RUNS=100000 [FUZZ="sql store"] [SECONDS_MAX=600] [JOBS=2]
#       [SEED=1] tests/fuzz/run.sh
#
# New inputs go to $OUT/fuzz/found/NAME, so that the next run begins with
# them; the corpora are unpacked to $OUT/fuzz/corpus (see corpus.sh), and only
# read.  A failing input is left in $OUT/fuzz/crash-NAME-*;
# build/release/fuzz/NAME FILE replays it.  The last lines give the sums.
set -u
JOBS=${JOBS:-2}
# As much as one input can free; the replay under ASan reports the full stacks
# of allocations.
export ASAN_OPTIONS=quarantine_size_mb=64:malloc_context_size=4

# fuzz NAME: its log gives the result.
fuzz() {
  local name=$1
  mkdir -p "$OUT/fuzz/found/$name"
  rm -rf "$OUT/fuzz/corpus/$name"
  if tests/fuzz/corpus.sh unpack "$name" "$OUT/fuzz/corpus/$name" &&
    "$OUT/fuzz/fuzzer/$name" -runs="$RUNS" -seed="${SEED:-0}" \
    -max_total_time="${SECONDS_MAX:-0}" -timeout=20 \
    -rss_limit_mb=2048 -malloc_limit_mb=256 -max_len=2000 -print_final_stats=1 \
    -verbosity=0 -artifact_prefix="$OUT/fuzz/crash-$name-" \
    "$OUT/fuzz/found/$name" "$OUT/fuzz/corpus/$name" >"$OUT/fuzz/$name.log" 2>&1
  then echo ok; else echo FAILED; fi >"$OUT/fuzz/$name.verdict"
}

names=()
for program in "$OUT"/fuzz/fuzzer/*; do
  name=$(basename "$program")
  if [ -n "${FUZZ:-}" ] && [[ " $FUZZ " != *" $name "* ]]; then continue; fi
  names+=("$name")
  while [ "$(jobs -rp | wc -l)" -ge "$JOBS" ]; do wait -n; done
  fuzz "$name" &
done
wait

passed=0 failed=0 all=0
for name in "${names[@]}"; do
  log=$OUT/fuzz/$name.log
  if [ "$(cat "$OUT/fuzz/$name.verdict")" = ok ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    tail -n 40 "$log"
  fi
  runs=$(sed -n 's/.*number_of_executed_units: *//p' "$log")
  speed=$(sed -n 's/.*average_exec_per_sec: *//p' "$log")
  all=$((all + ${runs:-0}))
  echo "$name: ${runs:-0} runs, ${speed:-0} a second," \
    "$(ls "$OUT/fuzz/found/$name" | wc -l) inputs kept"
done
echo "counted: $all inputs of fuzzers"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
