#!/bin/sh
# run.sh -- runs all benchmarks, one after the other, and makes their report.
#
#     bench/run.sh [--quick] [--only=TEXT] ...     options go to each benchmark
#
# Called by `make bench` and `make bench-quick`, which have built what is
# needed.  Results go to build/bench/: NAME.tsv and NAME.txt of each, and what
# report.tcl makes of them, report.md and NAME.svg.  After a full run
# `tclsh bench/report.tcl build/bench bench` takes the results over into
# bench/README.md.
#
# Environment: OUT (default build).  The machine should have nothing else to do.
set -eu

cd "$(dirname "$0")/.."
out=${OUT:-build}/bench
names='memory rows clock update online export disk skew put growth load steady warm lookahead bound processes nearest text sample samples average choose bag'
case " $* " in
*' --quick '*) ;;
*) names="$names wordnet" ;; # trains for minutes
esac

mkdir -p "$out"
for name in $names drift; do
  rm -f "$out/$name.tsv" "$out/$name.svg"
done
. sql/lib/fresh.sh
fresh "$out/data"
{
  printf 'machine\t%s, %s processors, %s of memory, Linux %s\n' \
    "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" \
    "$(nproc)" \
    "$(awk '/MemTotal/{printf "%.0f GiB", $2 / 1048576}' /proc/meminfo)" \
    "$(uname -r)"
  printf 'commit\t%s\n' "$(git rev-parse --short HEAD 2>/dev/null || echo -)"
} >"$out/machine.txt"

failed=
for name in $names; do
  start=$(date +%s)
  printf '%s ... ' "$name"
  "$out/bench" "$name" --data="$out/data" --out="$out" \
    --extension="${OUT:-build}/emb.so" --trainer="$out/train" "$@" >"$out/$name.txt" 2>&1 ||
    failed="$failed $name"
  echo "$(($(date +%s) - start)) s"
  cat "$out/$name.txt"
done
rm -rf "$out/data"
tclsh bench/report.tcl "$out"
if [ -n "$failed" ]; then
  echo "failed:$failed"
  exit 1
fi
