#!/bin/bash
# soak.sh -- the long form of the suites that look for what is lost, wrong or
# raced, in turn and with new seeds, until the time is over (make soak HOURS=n).
#
#     HOURS=2 OUT=build tests/soak.sh
#
# A line for each run says its seed, so that SEED=... LONG=... repeats it; the
# output of one that failed stays in $OUT/soak/.  The time is looked at between
# two runs, so the last one may end late.  The last line gives the sums.
set -u
cd "$(dirname "$0")/.." || exit 2
HOURS=${HOURS:-1} OUT=${OUT:-build} LONG=${LONG:-4}
end=$(awk -v h="$HOURS" -v now="$(date +%s)" 'BEGIN {printf "%d", now + h * 3600}')
passed=0 failed=0 runs=0
mkdir -p "$OUT/soak"

# run NAME COMMAND ...: with a seed of its own
run() {
  local name=$1 log=$OUT/soak/$1.txt seed start=$SECONDS sums p f
  shift
  [ "$(date +%s)" -lt "$end" ] || return
  seed=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')
  SEED=$seed LONG=$LONG "$@" >"$log" 2>&1
  status=$?
  sums=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
  read -r p _ f _ <<<"${sums:-0 passed, 1 failed}"
  f=${f%,}
  if [ $status != 0 ] && [ "$f" = 0 ]; then f=1; fi
  if [ "$f" != 0 ]; then cp "$log" "$OUT/soak/failed-$name-$seed.txt"; fi
  passed=$((passed + p)) failed=$((failed + f)) runs=$((runs + 1))
  echo "$name: $p passed, $f failed, $((SECONDS - start)) s, SEED=$seed LONG=$LONG"
}

unit='power ext/power_sql ext/kill_sql fail_io fail_memory ext/fail_io_sql
  ext/fail_memory_sql rot rot_pages recover staleness_history store_model
  store_threads store_space'
sql='differential kill concurrent large'

while [ "$(date +%s)" -lt "$end" ]; do
  for name in $unit; do
    run "$(basename "$name")" "$OUT/release/unit/$name"
  done
  for name in $sql; do
    run "$name" env EMB_SO="$OUT/emb.so" \
      "$OUT/testfixture" "tests/sql/$name.test"
  done
  run model tests/model/spin.sh
  run fuzz env OUT="$OUT" RUNS="${RUNS:-1000000}" SECONDS_MAX=900 tests/fuzz/run.sh
  run defects env OUT="$OUT/defect" tests/defects.sh
done
echo "$runs runs"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
