#!/bin/sh
# run.sh -- trains with PyTorch: one process, two, and PyTorch alone; see
# README.md.
#
#     sql/examples/torch/run.sh [OPTION ...]        of compare.py
#
# Called by `make torch`, which builds emb.so and installs the tools first.
# Starts from scratch; leaves build/torch/.
#
# Environment: OUT (default build).
set -eu

cd "$(dirname "$0")/../../.."
out=${OUT:-build}
case $out in
/*) ;;
*) out=$PWD/$out ;;
esac
here=$out/torch

. sql/lib/fresh.sh
fresh "$here"
echo "WordNet 3.0 as a graph, loaded and split in SQL (sql/examples/wordnet/load.sql)"
sqlite3 -bail "$here/wordnet.db" <sql/examples/wordnet/load.sql
export PYTHONDONTWRITEBYTECODE=1
/usr/bin/python3 sql/examples/torch/compare.py "$here/wordnet.db" "$out/emb.so" "$here" "$@"
printf '\nAll losses: %s\n' "$here/curves.tsv"
