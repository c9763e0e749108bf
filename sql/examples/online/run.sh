#!/bin/sh
# run.sh -- runs the experiment; see README.md.
#
#     sql/examples/online/run.sh [full | quick]
#
# Called by `make online` and `make online-quick`, which build the programs
# first.  Leaves online.md, online.svg and online.tsv in build/online/.
#
# Environment: OUT (default build).
set -eu

cd "$(dirname "$0")/../../.."
size=${1:-full}
out=${OUT:-build}

. sql/lib/fresh.sh
fresh "$out/online/data"
"$out/online/experiment" "$out/emb.so" "$out/online" --size "$size"
rm -rf "$out/online/data"
echo
echo "$out/online/online.md, $out/online/online.svg"
