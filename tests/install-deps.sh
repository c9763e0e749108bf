#!/bin/sh
# install-deps.sh -- installs the Debian packages that a target needs.
#
#     tests/install-deps.sh build test      (also: demo, online, torch, bank, modyn,
#                                           python, lint, fuzz, bench)
#
# Does nothing, and needs no network, when all are installed.  Without apt-get
# it names the packages and continues: they have other names there, and a
# missing one will show.
set -eu

packages=
for group; do
  case $group in
  build) packages="$packages gcc libc6-dev make libsqlite3-dev liburing-dev
                   libxxhash-dev libzstd-dev" ;;
  test) packages="$packages tcl tcl-dev libsqlite3-tcl sqlite3 python3 python3-numpy
                  python3-scipy pkg-config locales spin tcc lld wordnet-base libopenblas-openmp-dev" ;;
  demo) packages="$packages sqlite3 wordnet-base libopenblas-openmp-dev" ;;
  online) packages="$packages sqlite3" ;;
  bank) packages="$packages sqlite3 wordnet-base libopenblas-openmp-dev" ;;
  modyn) packages="$packages sqlite3 libopenblas-openmp-dev" ;;
  torch) packages="$packages sqlite3 wordnet-base python3-numpy python3-torch
                   python3-build python3-setuptools python3-wheel python3-venv binutils" ;;
  python) packages="$packages python3 python3-build python3-setuptools python3-wheel
                    python3-venv python3-pytest python3-numpy python3-torch
                    python3-apsw python3-sqlalchemy binutils mypy flake8" ;;
  lint) packages="$packages clang clang-format libclang-rt-14-dev mypy flake8" ;;
  fuzz) packages="$packages clang libclang-rt-14-dev" ;;
  bench) packages="$packages liblmdb-dev librocksdb-dev g++ libfaiss-dev
                   libopenblas-openmp-dev tcl sqlite3 wordnet-base
                   python3-numpy" ;;
  *) echo "install-deps.sh: no group $group" >&2; exit 2 ;;
  esac
done

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  cat >&2 <<END
There is no apt-get here.  What is needed, by its names in Debian 12:
  $(echo $packages)
that is: a C11 compiler and make; headers and libraries of SQLite 3.38 or
newer, liburing, xxHash, zstd and Tcl 8.6 with its sqlite3 package; and for the
tests and the examples the sqlite3 shell, python3 with numpy and PyTorch, OpenBLAS, Spin and
WordNet 3.0 (dict files).
END
  exit 0
fi

missing=
for package in $packages; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || :
  [ "$status" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

echo "Installing:$missing"
root=
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "Please run as root: apt-get install$missing" >&2
    exit 1
  fi
  root=sudo
fi
$root apt-get update -q || echo "apt-get update failed; trying to go on" >&2
# shellcheck disable=SC2086
$root env DEBIAN_FRONTEND=noninteractive \
  apt-get install -q -y --no-install-recommends $missing
