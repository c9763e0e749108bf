#!/bin/bash
# findings.sh -- which seeded defects of defects.txt does one suite alone
# notice?  Prints a page: findings.md of this folder.
#
#     make VARIANT=defect all-tests
#     OUT=build/defect tests/findings.sh > tests/findings.md
#
# REACH     Each suite runs once, short (SHARE), and notes the seeds that it
#           reaches (EMB_SEEDS_REACHED, lib/defect.c).  A suite that does not
#           reach a seed cannot notice it.
# ALONE     For each seed, the other suites that reach it run with the defect,
#           the quickest first, until one fails or SECONDS_MAX are spent.  The
#           suites that defects.txt names are not run: `make check-defects` does.
#
# Takes twenty minutes on two cores.  WORK=DIRECTORY keeps what was found, and a second
# run goes on from there.
set -u
cd "$(dirname "$0")/.." || exit 2
export OUT=${OUT:-build/defect} SECONDS_MAX=${SECONDS_MAX:-12}
export SHARE=${SHARE:-40} SEED=${SEED:-1} EMB_SO=$OUT/emb.so LC_ALL=C.UTF-8
export EMB_ASSERT=report WORK=${WORK:-$(mktemp -d)}
mkdir -p "$WORK/reach" "$WORK/alone"

# suite NAME: a test program, or sql/NAME; its status says whether it passed.
suite() {
  case $1 in
  sql/*) timeout -k 5 "${2:-120}" "$OUT/testfixture" "tests/$1.test" ;;
  *) timeout -k 5 "${2:-120}" "$OUT/unit/$1" ;;
  esac </dev/null >/dev/null 2>&1
}

# reach NAME: notes its time in ms, its status and the numbers of its seeds.
reach() {
  local file=$WORK/reach/${1//\//,} start
  [ -e "$file" ] && return
  start=$(date +%s%N)
  EMB_SEEDS_REACHED=$file.map suite "$1"
  local status=$? ms=$((($(date +%s%N) - start) / 1000000))
  [ -e "$file.map" ] || : >"$file.map"
  echo "$1 $ms $status" \
    "$(od -An -v -tu1 -w1 "$file.map" | awk '$1 {printf "%d ", NR - 1}')" \
    >"$file.new"
  rm -f "$file.map"
  mv "$file.new" "$file"
}

# alone NUMBER SUITE ...: another suite that notices, or how many were tried of
# those that reach it.
alone() {
  local number=$1 file=$WORK/alone/$1 name ms tried=0 all=0 by=
  shift
  [ -e "$file" ] && return
  local end=$(($(date +%s) + SECONDS_MAX))
  while read -r ms name; do
    [[ " $* " == *" $name "* ]] && continue
    all=$((all + 1))
    if [ -n "$by" ] || [ "$(date +%s)" -ge $end ]; then continue; fi
    tried=$((tried + 1))
    EMB_DEFECT=$number suite "$name" 30 || by=$name
  done < <(awk -v n="$number" '$3 == 0 {
    for (i = 4; i <= NF; i++) if ($i == n) print $2, $1}' "$WORK"/reach/* | sort -n)
  echo "$number $tried $all $by" >"$file.new"
  mv "$file.new" "$file"
}
export -f suite reach alone

mapfile -t seeds < <(grep -oP '^  \KSEED_\w+' engine/base/seed.h)
suites() {
  find "$OUT/unit" -type f -executable -printf '%f\n' |
    grep -vE '_valid$|^long_processes$' # with assertions, or in a soak
  find tests/sql -name '*.test' -printf '%P\n' | sed 's/\.test$//; s|^|sql/|'
}
suites | LC_ALL=C sort | xargs -P "$(nproc)" -I{} bash -c 'reach {}'

# listed SEED: the suites that defects.txt names.
listed() { awk -v s="$1" '$1 == s {sub(/\+$/, "", $2); print $2}' tests/defects.txt; }
for ((i = 0; i < ${#seeds[@]}; i++)); do
  listed "${seeds[i]}" | paste -sd' ' | sed "s/^/$((i + 1)) /; s/ *$//"
done | xargs -P "$(nproc)" -L1 bash -c 'alone "$@"' alone

# ---- the page ----------------------------------------------------------------

what_of() {
  awk -v s="$1" '$1 == s {$1 = $2 = ""; sub(/^ +/, ""); print; exit}' tests/defects.txt
}
cat <<PAGE
# What each suite finds that no other does

Written by \`tests/findings.sh\` from the seeded defects of [defects.txt](defects.txt). Each
suite ran once and noted the seeds that it reaches. Then, for each seed, the other suites
that reach it ran with the defect, short (\`SHARE=$SHARE\`) and the quickest first, until one
failed or $SECONDS_MAX seconds were spent: *tried* is how many of them ran. Where that is few of many,
another suite may find the defect, too. These suites did not pass so short in that build,
and took no part: $(awk '$3 != 0 {print $1}' "$WORK"/reach/* | paste -sd, | sed 's/,/, /g').

PAGE
alone=$(mktemp) shared=$(mktemp)
for ((i = 1; i <= ${#seeds[@]}; i++)); do
  read -r _ tried all by <"$WORK/alone/$i"
  mapfile -t names < <(listed "${seeds[i - 1]}")
  if [ -z "$by" ] && [ ${#names[@]} = 1 ]; then
    echo "| ${names[0]} | $(what_of "${seeds[i - 1]}") | $tried of $all |" >>"$alone"
  else
    echo "| $(what_of "${seeds[i - 1]}") | ${names[*]} ${by:+$by }|" >>"$shared"
  fi
done
echo "| suite | what it alone finds | tried |"
echo "|---|---|---|"
LC_ALL=C sort "$alone"
echo
echo "## Found by several suites"
echo
echo "| defect | suites |"
echo "|---|---|"
LC_ALL=C sort "$shared"
echo
echo "## Suites that find none of these defects alone"
echo
echo "They test what has no seeded defect yet, or find again what others find."
echo
echo "| suite | seeds that it reaches |"
echo "|---|---|"
suites | LC_ALL=C sort | while read -r name; do
  grep -q "^| $name |" "$alone" && continue
  echo "| $name | $(awk '{print NF - 3}' "$WORK/reach/${name//\//,}") |"
done
rm -f "$alone" "$shared"
