#!/bin/sh
# guard.sh -- compares the speed of this tree with that of another commit.
#
#     bench/guard.sh [COMMIT] [--quick] [--rounds=N] ...
#
# COMMIT, the last one by default, is built in build/guard/; what differs by more
# than the spread is said, and ends this with 1 if it became slower
# (bench/guard.c).  Called by `make bench-guard BASE=COMMIT`, which has built
# this tree.
#
# Environment: OUT (default build).  The machine should have nothing else to do.
set -eu

cd "$(dirname "$0")/.."
out=${OUT:-build}
case ${1:--} in
-*) name=HEAD ;;
*)
  name=$1
  shift
  ;;
esac
commit=$(git rev-parse --verify --quiet "$name^{commit}") || {
  echo "guard.sh: there is no commit $name" >&2
  exit 2
}
dir=$out/guard/$commit
if [ ! -e "$dir/build/emb.so" ]; then
  echo "building $name"
  rm -rf "$dir"
  mkdir -p "$dir"
  git archive "$commit" | tar -x -C "$dir"
  make -s -C "$dir" OUT=build build/emb.so >"$dir.log" 2>&1 || {
    tail -n 20 "$dir.log" >&2
    exit 2
  }
fi
"$out/bench/bench" guard --data="$out/bench/data" --out="$out/guard" \
  --extension="$out/emb.so" --base="$dir/build/emb.so" "$@"
