#!/bin/bash
# soak.sh -- the long form of all tests that look for losses, errors, races
# and leaks, in turn and with new seeds, until the time is over (make soak
# HOURS=n).
#
#     HOURS=2 OUT=build tests/soak.sh
#     ROUNDS=1 LONG=1 RUNS=1000 LIFE_SECONDS=30 ONLY="R7 R15" tests/soak.sh
#
# HOURS  (1) No run begins after that; the last may end late.  A round of all
#        tests takes some hours.
# ROUNDS Ends after this many rounds instead.
# LONG   (4) and LIFE_SECONDS (600): amounts of the suites; see their heads.
# RUNS   (1000000) of each fuzzer, or as many as it does in SECONDS_MAX (3600).
# ONLY   Rows of the score.
#
# A line for each run gives its seed, so that SEED=... LONG=... repeats it;
# the output of a failed run stays in $OUT/soak/.  At the end comes the score:
# for each row the tests, how often they ran, and their counts (its lines
# "counted: 12 kill points", added up).  The last line gives the sums.
set -u
cd "$(dirname "$0")/.." || exit 2
HOURS=${HOURS:-1} OUT=${OUT:-build} LONG=${LONG:-4}
end=$(awk -v h="$HOURS" -v now="$(date +%s)" 'BEGIN {printf "%d", now + h * 3600}')
life=${LIFE_SECONDS:-600}
unset LIFE_SECONDS # is for one run
passed=0 failed=0 runs=0 rounds=0
declare -A names times fails counts
mkdir -p "$OUT/soak"

rows=(
  "R1 killed at any moment"
  "R2 power loss"
  "R3 no memory"
  "R4 errors of I/O"
  "R5 flipped bits"
  "R6 damaged structure"
  "R7 hostile input"
  "R8 SQL against an ordinary table"
  "R9 the engine against a model"
  "R10 data races, under ThreadSanitizer"
  "R11 the staleness bound"
  "R12 protocols, by models"
  "R13 seeded defects"
  "R14 leaks and undefined behaviour, under ASan and UBSan"
  "R15 a long life"
  "R16 SQL crossed: other owners, text keys, transactions, interrupts"
)

is_over() {
  if [ -n "${ROUNDS:-}" ]; then [ $rounds -ge "$ROUNDS" ]; else
    [ "$(date +%s)" -ge "$end" ]
  fi
}

# add ROW LOG: adds a run's counts to its row's counts ("R1:kill points").
add() {
  local n what
  while read -r _ n what; do
    counts[$1:$what]=$((${counts[$1:$what]:-0} + n))
  done < <(grep -E '^counted: [0-9]+ ' "$2")
}

# run ROW NAME COMMAND ...: with its own seed
run() {
  local row=$1 name=$2 log=$OUT/soak/$2.txt seed start=$SECONDS status sums p f
  shift 2
  if is_over || [[ -n "${ONLY:-}" && " $ONLY " != *" $row "* ]]; then return; fi
  seed=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')
  SEED=$seed LONG=$LONG "$@" >"$log" 2>&1
  status=$?
  sums=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
  read -r p _ f _ <<<"${sums:-0 passed, 1 failed}"
  f=${f%,}
  if [ $status != 0 ] && [ "$f" = 0 ]; then f=1; fi
  if [ "$f" != 0 ]; then cp "$log" "$OUT/soak/failed-$name-$seed.txt"; fi
  passed=$((passed + p)) failed=$((failed + f)) runs=$((runs + 1))
  [[ " ${names[$row]:-} " == *" $name "* ]] || names[$row]="${names[$row]:-} $name"
  times[$row]=$((${times[$row]:-0} + 1))
  fails[$row]=$((${fails[$row]:-0} + f))
  add "$row" "$log"
  echo "$name: $p passed, $f failed, $((SECONDS - start)) s, SEED=$seed LONG=$LONG"
}

# unit ROW PROGRAM ..., sql ROW SCRIPT ...
unit() {
  local row=$1 name
  shift
  for name in "$@"; do
    run "$row" "$name" "$OUT/release/unit/$name"
  done
}

sql() {
  local row=$1 name
  shift
  for name in "$@"; do
    run "$row" "$name" env EMB_SO="$OUT/emb.so" "$OUT/testfixture" \
      "tests/sql/$name.test"
  done
}

score() {
  local row id what key line
  echo "| # | property | what ran | runs | counted | failures |"
  echo "|---|---|---|---|---|---|"
  for row in "${rows[@]}"; do
    id=${row%% *} what=${row#* } line=
    while read -r key; do
      line="$line${line:+; }${counts[$key]} ${key#*:}"
    done < <(printf '%s\n' "${!counts[@]}" | grep "^$id:" | sort)
    echo "| $id | $what | $(echo "${names[$id]:-}" | sed 's/^ //; s/ /, /g')" \
      "| ${times[$id]:-0} | $line | ${fails[$id]:-0} |"
  done
}

while ! is_over; do
  unit R1 recover kill_sql kill_processes takeover
  sql R1 kill
  unit R2 power power_files power_delta power_sql
  unit R3 fail_memory fail_memory_sql
  unit R4 fail_io fail_files fail_io_sql
  unit R5 rot
  unit R6 rot_pages recover_damage pack delta_file
  sql R8 differential large
  unit R9 store_model snapshot export delta_model expire evict
  run R9 store_model-served env SERVED=1 "$OUT/release/unit/store_model"
  sql R10 concurrent
  LONG=1 run R10 tsan make VARIANT=tsan OUT="$OUT" check-concurrent
  unit R11 staleness_history history_processes
  run R11 staleness_history-served env SERVED=1 \
    "$OUT/release/unit/staleness_history"
  run R12 model tests/model/spin.sh
  run R13 defects env OUT="$OUT/defect" LONG=1 tests/defects.sh
  LONG=1 run R14 asan make VARIANT=asan OUT="$OUT" check-sql
  for name in long_life long_serve long_processes; do
    run R15 $name env LIFE_SECONDS="$life" "$OUT/release/unit/$name"
  done
  unit R15 store_space
  LONG=1 run R16 crossed make OUT="$OUT" test-crossed
  unit R7 hostile
  run R7 fuzz env OUT="$OUT" RUNS="${RUNS:-1000000}" \
    SECONDS_MAX="${SECONDS_MAX:-3600}" tests/fuzz/run.sh
  rounds=$((rounds + 1))
done
echo "$runs runs in $rounds whole rounds"
score
echo "$passed passed, $failed failed"
[ $failed = 0 ]
