#!/bin/bash
# spin.sh -- explores the models with Spin: word.pml, a key's word; flush.pml,
# epoch and flush; commit.pml, COMMIT over two files; owner.pml, the processes
# that use one store; takeover.pml, their view while it changes hands;
# tickets.pml, the calls in flight then; fork.pml, the lock and a fork's
# child.  Each protocol must hold in several sizes, and each of its seeded
# defects must be found.
#
#     tests/model/spin.sh              prints a line for each, then the sums
#     SHARE=8 tests/model/spin.sh      of the largest one in 8, which SEED chooses
#     LONG=2 tests/model/spin.sh       larger sizes, some minutes
#     tests/model/spin.sh word -DSPLIT ...
#                                      one, with the steps that lead to its error
set -u
cd "$(dirname "$0")" || exit 2
CC=${CC:-cc}
# A defect is found after few states: what takes long is to compile them.
fast=$(command -v tcc || echo "$CC -O0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
here=$PWD
# The results of this model, these sizes and this script: they do not change.
kept=$(cd ../.. && mkdir -p "$(dirname "${EMB_SO:-build/emb.so}")/model" &&
  cd "$(dirname "${EMB_SO:-build/emb.so}")/model" && pwd)

if ! command -v spin >/dev/null; then
  echo "spin.sh: skipped: there is no spin (tests/install-deps.sh test)"
  echo "0 passed, 0 failed, 1 skipped"
  exit
fi

# One exploration in its own directory; its result is in the file result.
# Processes that wait forever are an error, except in commit.pml, which a
# crash ends.
explore() {
  local known dir=$1 model=$here/$2.pml compile="$CC -O0" ends= table=
  [ "$2" = commit ] && ends=-E
  shift 2
  # Smaller, and slower: what LONG adds would need tens of gigabytes.
  [ "${LONG:-1}" = 1 ] || compile="$CC -O2 -DCOLLAPSE"
  [ "$want" = $holds ] || compile=$fast table=-w20
  mkdir -p "$dir" && cd "$dir" || return
  known=$kept/$({ cat "$model" "$here/spin.sh"; spin -V; echo "$@"; } |
    sha1sum | cut -d' ' -f1)
  if [ -e "$known" ]; then
    cp "$known" result
    return
  fi
  # Partial failures show in result: it is then neither "errors: 0" nor 1.
  spin -a "$@" "$model" >result 2>&1 &&
    $compile -w -DSAFETY -DMEMLIM=4000 -o pan pan.c \
      >>result 2>&1 &&
    ./pan $ends $table -m100000 >result 2>&1 && echo "$known" >known
}

holds=0 found=1
if [ $# -gt 0 ]; then
  want=$found
  kept=$work
  (explore "$work/one" "$@")
  cat "$work/one/result"
  cd "$work/one" && [ -f "$1.pml.trail" ] &&
    spin -t -p -g -l "${@:2}" -k "$1.pml.trail" "$here/$1.pml"
  exit
fi

names=()
wants=()
# start WANTED MODEL DEFINES: two explorations at a time
start() {
  local want=$1
  shift
  while [ "$(jobs -rp | wc -l)" -ge 2 ]; do wait -n; done
  explore "$work/${#names[@]}" "$@" &
  names+=("$*")
  wants+=("$want")
}

# Seconds each, more than half of the time of all.
large=${SEED:-$RANDOM}
start_large() {
  large=$((large + 1))
  [ $((large % ${SHARE:-1})) != 0 ] || start "$@"
}

start_large $holds word -DSESSIONS=2 -DSTEPS=2 -DBOUND=0
start $holds word -DSESSIONS=2 -DSTEPS=1 -DBOUND=1
start_large $holds word -DSESSIONS=1 -DSTEPS=2 -DBOUND=0 -DTXN
if [ "${LONG:-1}" != 1 ]; then
  start $holds word -DSESSIONS=2 -DSTEPS=2 -DBOUND=1 -DCOLD
  start $holds word -DSESSIONS=2 -DSTEPS=3 -DBOUND=0
  start $holds word -DSESSIONS=1 -DSTEPS=3 -DBOUND=0 -DTXN
  start $holds word -DSESSIONS=3 -DSTEPS=1 -DBOUND=0
  start $holds word -DSESSIONS=2 -DSTEPS=1 -DBOUND=0 -DROUNDS=2
fi
for defect in COLD_IGNORES_BOUND SPLIT EARLY_GIVE RELOCATE_FORGETS EMPTIED \
  OWNER_LATE OWNER_NOT_ASKED PROMOTE_FORGETS; do
  start $found word -D$defect
done
start $holds flush
start_large $holds flush -DWRITERS=2 -DROUNDS=1
if [ "${LONG:-1}" != 1 ]; then
  start $holds flush -DWRITERS=2 -DROUNDS=2
  start $holds flush -DREADERS=2 -DROUNDS=2
fi
for defect in NO_WAIT_SEAL NO_WAIT_REUSE SEAL_LATE ASKED_OUTSIDE \
  OUT_UNWRITTEN NO_CHECK; do
  start $found flush -D$defect
done
start $holds commit
for defect in PREPARE_UNSYNCED DOUBT_YES DOUBT_NO NO_ABORT NO_WAIT \
  CHECKPOINT_OPEN; do
  start $found commit -D$defect
done
start $holds owner -DCALLS=1 -DSTOPS=1
start $holds owner -DCALLS=1 -DSTOPS=1 -DTXN
start $holds owner -DKILLS=0
start $holds owner -DKILLS=0 -DTXN
start $holds owner -DCALLS=1 -DKILLS=0 -DSTOPS=1
start $holds owner -DCALLS=1 -DKILLS=0 -DSTOPS=1 -DTXN
start_large $holds owner
if [ "${LONG:-1}" != 1 ]; then
  start $holds owner -DTXN
  start $holds owner -DSTOPS=1
  start $holds owner -DKILLS=0 -DSTOPS=1 -DTXN
  start $holds owner -DPROCESSES=3 -DCALLS=1 -DKILLS=0
  start $holds owner -DPROCESSES=3 -DCALLS=1 -DKILLS=0 -DTXN
  start $holds owner -DPROCESSES=3 -DCALLS=1 -DVOLATILE
fi
for defect in CLAIM_LATE SOCKET_FIRST NAME_REMOVED NAME_ASKED LOCK_EARLY \
  NO_LOOK NOT_AGAIN WITHDRAW_PLAIN ASKED_AGAIN KILLED_AGAIN LEFT_EARLY \
  NO_ERROR NO_NOTICE; do
  start $found owner -D$defect
done
start $found owner -DNO_TIMEOUT -DKILLS=0 -DSTOPS=1
for defect in PREPARED_UNDONE PREPARED_CLEAN RESOLVE_EARLY COMMIT_WITHDRAWN \
  COMMIT_ANY_TURN; do
  start $found owner -D$defect -DTXN
done
start $holds takeover -DCALLS=1
start $holds takeover -DCALLS=1 -DFLUSHED
start $holds takeover -DCALLS=1 -DOFF
start_large $holds takeover -DKILLS=0
start $holds takeover -DKILLS=0 -DOFF
start $holds takeover -DCALLS=1 -DKILLS=0 -DLOCK_DROPPED
if [ "${LONG:-1}" != 1 ]; then
  start $holds takeover -DCALLS=1 -DKILLS=2
  start $holds takeover -DCALLS=1 -DKILLS=2 -DOFF
  start $holds takeover -DPROCESSES=3 -DCALLS=1 -DKILLS=0
  # Without -DOFF it is 77 million states and 3.7 GB; it holds, too.
  start $holds takeover -DOFF
  start $holds takeover -DKILLS=0 -DLOCK_DROPPED
  start $holds takeover -DPROCESSES=3 -DCALLS=1 -DKILLS=0 -DOFF
fi
for defect in CHECKPOINT_SHOWN UNSETTLED_SHOWN DOUBT_READ_PAST NOT_AWAITED \
  OLD_ROW_DECIDES UNDONE_UNLOCKED PREPARED_CLEAN; do
  start $found takeover -D$defect -DCALLS=1
done
start_large $found takeover -DNUMBER_NOT_NAMED -DCALLS=1 -DKILLS=2
start $found takeover -DORPHAN_KEPT
start $found takeover -DSETTLED_EARLY -DCALLS=1 -DOFF
start $found takeover -DCLAIMED_IS_NEWEST -DCALLS=1 -DOFF
start $found takeover -DNO_GENERATION_CHECK -DCALLS=1 -DKILLS=0 -DLOCK_DROPPED
start $holds tickets
start $holds tickets -DOWNERS=4
for defect in TICKET_WITHOUT_OWNER TICKETS_CANCELLED CANCELLED_IS_ERROR \
  LEFT_EARLY READY_EARLY GOES_WITH_LINK TICKET_KEPT NO_NOTICE; do
  start $found tickets -D$defect
done
start $holds fork
start $holds fork -DROUNDS=3
for defect in CHILD_KEEPS CHILD_UNLOCKS CLOSED_ONLY FORK_BETWEEN; do
  start $found fork -D$defect
done
wait

passed=0 failed=0
for i in "${!names[@]}"; do
  result=$work/$i/result
  states=$(grep -o '[0-9.e+]* states, stored' "$result" | cut -d' ' -f1)
  how=$(sed -n 's/^pan:1: \(.*\) (at depth.*/\1/p' "$result")
  if grep -q "errors: ${wants[i]}\$" "$result" &&
    ! grep -qE 'truncated|search depth too small|out of memory|MEMLIM' "$result"
  then
    passed=$((passed + 1)) verdict=ok
    [ ! -e "$work/$i/known" ] || cp "$result" "$(<"$work/$i/known")"
  else
    failed=$((failed + 1)) verdict=FAILED
    [ "${wants[i]}" = $holds ] || how="the defect was not found; $how"
  fi
  printf '%-42s %-7s %s states%s\n' "${names[i]}" $verdict "${states:-no}" \
    "${how:+: $how}"
  if [ $verdict = FAILED ] && [ -z "$states" ]; then cat "$result"; fi
done
echo "counted: $passed explorations"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
