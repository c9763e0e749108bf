#!/bin/bash
# run.sh -- runs the examples of the knowledge bank; see README.md.
#
#     sql/examples/bank/run.sh [page]
#
# Called by `make bank`, which builds the programs first.  Starts from scratch;
# leaves results.tsv, bank.md and its charts, and robust.txt, in build/bank/.
# With `page` it copies them into this directory: README.md has the results of
# the last run with `page`.
#
# Jobs with a seed run two at a time, each in its own process.  Jobs that
# measure milliseconds, and jobs with a knowledge maker process, run alone.
#
# Environment: OUT (default build); BANK_SHORT=1: a little of everything, as a
# quick check.
set -eu

cd "$(dirname "$0")/../../.."
out=${OUT:-build}
here=$out/bank
data=$here/data
export OMP_NUM_THREADS=1 out here data

. sql/lib/fresh.sh
fresh "$data"
SECONDS=0
say() {
  printf '%4d s  %s\n' "$SECONDS" "$*"
}

# job PROGRAM OPTION ...: runs a program in a directory of its own.
job() {
  local directory
  directory=$(mktemp -d "$data/job-XXXXXX")
  "$here/$1" "$data/wordnet.db" "$out/emb.so" "$directory" "${@:2}" >"$directory.tsv"
  rm -rf "$directory"
}
export -f job

# alone <LINES: each line has the arguments of job.
alone() {
  local line
  while read -r line; do
    job $line </dev/null
  done
}
together() {
  xargs -P 2 -I{} bash -euc 'job {}'
}

say "WordNet 3.0, loaded and split in SQL (sql/examples/wordnet/load.sql, sql/examples/bank/load.sql)"
sqlite3 -bail "$data/wordnet.db" <sql/examples/wordnet/load.sql >/dev/null
sqlite3 -bail "$data/wordnet.db" <sql/examples/bank/load.sql

. sql/examples/bank/jobs.sh
say "Neighbours, labels, negatives: accuracy"
accuracy_jobs | together
say "With a knowledge maker"
maker_jobs | alone
say "Times of steps"
time_jobs | alone

say "Averaged gradients, of which one in ten is a hundred times too large"
so=$(realpath "$out/emb.so")
robust=$(realpath "$here/robust")
(cd "$data" && "$robust" "$so" ${BANK_SHORT:+20}) >"$here/robust.txt"

cat "$data"/job-*.tsv | sort >"$here/results.tsv"
"$here/report" "$here/results.tsv" "$here"
rm -rf "$data"
echo
cat "$here/bank.md" "$here/robust.txt"
say "$here/bank.md, $here/results.tsv, and the charts"
if [ "${1:-}" = page ]; then
  sql/lib/page.sh sql/examples/bank/README.md "$here/bank.md"
  cp "$here"/{neighbours,negatives,recall}.svg sql/examples/bank/
fi
