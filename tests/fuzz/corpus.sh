#!/bin/bash
# corpus.sh -- the corpora of the fuzzers, one archive each:
# tests/fuzz/corpus/NAME.tar.gz.
#
#     tests/fuzz/corpus.sh unpack NAME DIR       its inputs, to files in DIR
#     tests/fuzz/corpus.sh add NAME FILE ...     more inputs, or others of a name
#     tests/fuzz/corpus.sh remove NAME INPUT ...
#
# An archive depends only on its inputs: they are sorted by name, have no time
# and no owner, and gzip notes neither name nor time.
set -eu
corpus=$(dirname "$0")/corpus

unpack() {
  mkdir -p "$2"
  tar -xzf "$corpus/$1.tar.gz" -C "$2"
}

# pack NAME DIR: all files of DIR.
pack() {
  (cd "$2" && LC_ALL=C ls) |
    tar -c -C "$2" --format=ustar --owner=0 --group=0 --numeric-owner \
      --mode=0644 --mtime=@0 --no-recursion --verbatim-files-from -T - |
    gzip -9n >"$corpus/$1.new"
  mv "$corpus/$1.new" "$corpus/$1.tar.gz"
}

what=${1:?} name=${2:?}
shift 2
if [ "$what" = unpack ]; then
  unpack "$name" "${1:?}"
  exit
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
if [ -e "$corpus/$name.tar.gz" ]; then unpack "$name" "$dir"; fi
case $what in
add) cp -- "$@" "$dir" ;;
remove) (cd "$dir" && rm -- "$@") ;;
*)
  echo "corpus.sh: unpack, add or remove, not $what" >&2
  exit 2
  ;;
esac
pack "$name" "$dir"
