#!/bin/bash
# defects.sh -- turns on each defect of defects.txt in turn and demands that
# the suite named beside it notices, with the first seed (SEED, default 1) or one
# of the next two: random work does not come by every defect.
#
#     OUT=build/defect tests/defects.sh [NUMBER ...]
set -u
cd "$(dirname "$0")/.." || exit 2
OUT=${OUT:-build/defect}
passed=0 failed=0 skipped=0
first=${SEED:-1}
export SEED EMB_SO=$OUT/emb.so

# suite NAME: runs it (its long form after a +); its status says whether it
# passed.
suite() {
  case $1 in
  sql/*) timeout 120 "$OUT/testfixture" "tests/$1.test" ;;
  *+) LONG=2 timeout 300 "$OUT/unit/${1%+}" ;;
  *) timeout 120 "$OUT/unit/$1" ;;
  esac >"$log" 2>&1
}

# there NAME: the suite exists.
there() {
  case $1 in
  sql/*) [ -e "tests/$1.test" ] ;;
  *) [ -x "$OUT/unit/${1%+}" ] ;;
  esac
}

# misses NAME: it passes with every seed.
misses() {
  for ((SEED = first; SEED < first + 3; SEED++)); do
    suite "$1" || return 1
  done
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
while read -r number name what; do
  case $number in '' | '#'*) continue ;; esac
  if [ $# -gt 0 ] && [[ " $* " != *" $number "* ]]; then continue; fi
  if ! there "$name"; then
    echo "defect $number: $name is not there"
    skipped=$((skipped + 1))
  elif EMB_DEFECT=$number misses "$name"; then
    echo "defect $number: $name did not notice that $what"
    failed=$((failed + 1))
  else
    echo "defect $number: $name noticed that $what"
    passed=$((passed + 1))
  fi
done <tests/defects.txt
echo "counted: $passed defects noticed"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
