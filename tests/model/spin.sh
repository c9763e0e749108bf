#!/bin/bash
# spin.sh -- explores word.pml with Spin: the protocol in several sizes, which
# must hold, and each of its seeded defects, which must be found.
#
#     tests/model/spin.sh              prints a line for each, then the sums
#     LONG=2 tests/model/spin.sh       larger sizes, some minutes
#     tests/model/spin.sh -DSPLIT ...  one, with the steps that lead to its error
set -u
cd "$(dirname "$0")" || exit 2
CC=${CC:-cc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
model=$PWD/word.pml

if ! command -v spin >/dev/null; then
  echo "spin.sh: skipped: there is no spin (tests/install-deps.sh test)"
  echo "0 passed, 0 failed, 1 skipped"
  exit
fi

# One exploration in a directory of its own; its result is in the file result.
explore() {
  local dir=$1 optimize=-O0
  shift
  [ "${LONG:-1}" = 1 ] || optimize=-O2
  mkdir -p "$dir" && cd "$dir" || return
  # Partial failures show in result: it is then neither "errors: 0" nor 1.
  spin -a "$@" "$model" >result 2>&1 &&
    $CC $optimize -w -DSAFETY -DCOLLAPSE -DMEMLIM=4000 -o pan pan.c \
      >>result 2>&1 &&
    ./pan -m100000 >result 2>&1
}

if [ $# -gt 0 ]; then
  (explore "$work/one" "$@")
  cat "$work/one/result"
  cd "$work/one" && [ -f word.pml.trail ] &&
    spin -t -p -g -l "$@" -k word.pml.trail "$model"
  exit
fi

names=()
wants=()
# start WANTED DEFINES: two explorations at a time
start() {
  local want=$1
  shift
  while [ "$(jobs -rp | wc -l)" -ge 2 ]; do wait -n; done
  explore "$work/${#names[@]}" "$@" &
  names+=("$*")
  wants+=("$want")
}

holds=0 found=1
start $holds -DSESSIONS=2 -DSTEPS=2 -DBOUND=0
start $holds -DSESSIONS=2 -DSTEPS=1 -DBOUND=1
start $holds -DSESSIONS=1 -DSTEPS=2 -DBOUND=0 -DTXN
if [ "${LONG:-1}" != 1 ]; then
  start $holds -DSESSIONS=2 -DSTEPS=2 -DBOUND=1 -DCOLD
  start $holds -DSESSIONS=2 -DSTEPS=3 -DBOUND=0
  start $holds -DSESSIONS=1 -DSTEPS=3 -DBOUND=0 -DTXN
  start $holds -DSESSIONS=3 -DSTEPS=1 -DBOUND=0
  start $holds -DSESSIONS=2 -DSTEPS=1 -DBOUND=0 -DROUNDS=2
fi
for defect in COLD_IGNORES_BOUND SPLIT EARLY_GIVE RELOCATE_FORGETS EMPTIED \
  OWNER_LATE OWNER_NOT_ASKED ADMIT_FORGETS; do
  start $found -D$defect
done
wait

passed=0 failed=0
for i in "${!names[@]}"; do
  result=$work/$i/result
  states=$(grep -o '[0-9.e+]* states, stored' "$result" | cut -d' ' -f1)
  how=$(sed -n 's/^pan:1: \(.*\) (at depth.*/\1/p' "$result")
  if grep -q "errors: ${wants[i]}\$" "$result" &&
    ! grep -qE 'truncated|max search depth too small|out of memory' "$result"
  then
    passed=$((passed + 1)) verdict=ok
  else
    failed=$((failed + 1)) verdict=FAILED
    [ "${wants[i]}" = $holds ] || how="the defect was not found; $how"
  fi
  printf '%-42s %-7s %s states%s\n' "${names[i]}" $verdict "${states:-no}" \
    "${how:+: $how}"
  if [ $verdict = FAILED ] && [ -z "$states" ]; then cat "$result"; fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
