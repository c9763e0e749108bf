#!/bin/bash
# defects.sh -- turns on each defect of defects.txt in turn and demands that
# the suite named next to it notices, with the first seed (SEED, default 1) or
# one of the next two: random work does not reach every defect.  Also says
# which defects an assertion (engine/base/debug.h) noticed: the program
# continues after it, because the test must notice by itself.
#
#     OUT=build/defect tests/defects.sh [NAME ...]
set -u
cd "$(dirname "$0")/.." || exit 2
OUT=${OUT:-build/defect}
passed=0 failed=0 skipped=0 asserted=0
first=${SEED:-1}
export SEED EMB_SO=$OUT/emb.so EMB_ASSERT=report
mapfile -t names < <(grep -oP '^  \KSEED_\w+' engine/base/seed.h)

# number NAME: its number in the enumeration, which begins with 1.
number() {
  local i
  for ((i = 0; i < ${#names[@]}; i++)); do
    if [ "${names[i]}" = "$1" ]; then
      echo $((i + 1))
      return
    fi
  done
  echo "$1 is no name of engine/base/seed.h" >&2
  return 1
}

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

# by: which check noticed it first.  A test reports failures when it ends, so
# any assertion's message came before.
by() {
  local place
  place=$(grep -aoEm1 "assertion failed: [^ :]+:[0-9]+" "$log")
  echo "${place:+assertion ${place##* }}"
}

for name; do number "$name" >/dev/null || exit 2; done
log=$(mktemp)
trap 'rm -f "$log"' EXIT
while read -r defect name what; do
  case $defect in '' | '#'*) continue ;; esac
  if [ $# -gt 0 ] && [[ " $* " != *" $defect "* ]]; then continue; fi
  EMB_DEFECT=$(number "$defect") || exit 2
  export EMB_DEFECT
  if ! there "$name"; then
    echo "$defect: $name is not there"
    skipped=$((skipped + 1))
  elif misses "$name"; then
    echo "$defect: $name did not notice that $what"
    failed=$((failed + 1))
  else
    place=$(by)
    echo "$defect: $name noticed that $what (by: ${place:-test})"
    passed=$((passed + 1))
    [ -z "$place" ] || asserted=$((asserted + 1))
  fi
done <tests/defects.txt
echo "counted: $passed defects noticed"
echo "counted: $asserted defects noticed by an assertion first"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
