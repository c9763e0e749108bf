#!/bin/sh
# fetch.sh -- fetches what the benchmarks compare with and Debian does not have:
# sqlite-vec, whose npm package holds the shared library.
#
#     bench/fetch.sh
#
# Leaves build/bench/vec0.so.  Without npm, network or a package for this
# machine it says so, and that comparison is left out.
#
# Environment: OUT (default build).
set -eu

cd "$(dirname "$0")/.."
version=0.1.9
out=${OUT:-build}/bench
[ ! -e "$out/vec0.so" ] || exit 0

skip() {
  echo "sqlite-vec is left out: $1"
  exit 0
}

case $(uname -m) in
x86_64) package=sqlite-vec-linux-x64 ;;
aarch64) package=sqlite-vec-linux-arm64 ;;
*) skip "there is no package for $(uname -m)" ;;
esac
command -v npm >/dev/null || skip "there is no npm"

mkdir -p "$out"
dir=$(mktemp -d "$out/vec.XXXXXX")
trap 'rm -rf "$dir"' EXIT
(cd "$dir" && npm pack --silent "$package@$version" >/dev/null 2>&1) ||
  skip "npm pack $package failed"
tar -xzf "$dir/$package-$version.tgz" -C "$dir"
mv "$dir/package/vec0.so" "$out/vec0.so"
