#!/bin/sh
# run.sh -- trains the graph network with look-ahead and without; see README.md.
#
#     sql/examples/gnn/run.sh [page]
#
# Called by `make gnn`, which builds the programs first.  Starts from scratch;
# leaves results.tsv and gnn.md in build/gnn/.  With `page` it copies the table
# into README.md.
#
# Environment: OUT (default build).
set -eu

cd "$(dirname "$0")/../../.."
out=${OUT:-build}
here=$out/gnn
data=$here/data
export OMP_NUM_THREADS=1

. sql/lib/fresh.sh
fresh "$data"
sqlite3 -bail "$data/wordnet.db" <sql/examples/wordnet/load.sql >/dev/null
sqlite3 -bail "$data/wordnet.db" <sql/examples/bank/load.sql

# Alternates, so that disturbances of the machine affect both.
: >"$here/results.tsv"
for turn in 1 2; do
  for ahead in off on; do
    mkdir "$data/run"
    "$here/gnn" "$data/wordnet.db" "$out/emb.so" "$data/run" --seed $turn \
      --ahead $ahead >>"$here/results.tsv"
    rm -rf "$data/run"
  done
done
"$here/report" "$here/results.tsv" "$here"
rm -rf "$data"
echo
cat "$here/gnn.md"
if [ "${1:-}" = page ]; then
  sql/lib/page.sh sql/examples/gnn/README.md "$here/gnn.md"
fi
