#!/bin/sh
# run.sh -- trains with PyTorch: with layers of sqlite_emb, and in two processes; see
# README.md.
#
#     sql/examples/torch/run.sh [layers [OPTION ...]]        of training.py
#     sql/examples/torch/run.sh processes [OPTION ...]       of compare.py
#
# Called by `make torch`, which builds emb.so and the Python package and installs the
# tools first; runs both.  Starts from scratch; leaves build/torch/.
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
what=${1:-all}
[ $# -eq 0 ] || shift
case $what in
all | layers | processes) ;;
*)
  echo "run.sh: $what is neither 'layers' nor 'processes'" >&2
  exit 2
  ;;
esac

. sql/lib/fresh.sh
fresh "$here"
export PYTHONDONTWRITEBYTECODE=1

if [ "$what" != processes ]; then
  /usr/bin/python3 -m venv --system-site-packages "$here/venv"
  "$here/venv/bin/python" -m pip --isolated install -q --no-index --no-deps "$out"/wheel/*.whl
  "$here/venv/bin/python" sql/examples/torch/training.py "$here" "$@"
fi
if [ "$what" != layers ]; then
  printf '\nTwo processes, one table\n\n'
  echo "WordNet 3.0 as a graph, loaded and split in SQL (sql/examples/wordnet/load.sql)"
  sqlite3 -bail "$here/wordnet.db" <sql/examples/wordnet/load.sql
  /usr/bin/python3 sql/examples/torch/compare.py "$here/wordnet.db" "$out/emb.so" "$here" "$@"
  printf '\nAll losses: %s\n' "$here/curves.tsv"
fi
