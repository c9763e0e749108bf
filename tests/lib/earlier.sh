#!/bin/bash
# earlier.sh -- builds emb.so of an earlier commit, once.
#
#     tests/lib/earlier.sh COMMIT
#
# Prints the path of the library, below build/earlier/.  Exit status 1, and the
# reason as the output: the commit is not here, as in a release or in a
# shallow clone, or it cannot be built.
set -u
cd "$(dirname "$0")/../.." || exit 2
commit=$1
to=$PWD/build/earlier/$commit

give_up() {
  echo "$1"
  exit 1
}

[ -e .git ] || give_up "this is no checkout of git"
[ "$(git rev-parse --is-shallow-repository 2>/dev/null)" = false ] ||
  give_up "a shallow clone has no earlier commits"
git cat-file -e "$commit^{commit}" 2>/dev/null || give_up "$commit is not here"
[ -e "$to/emb.so" ] || {
  mkdir -p "$to"
  exec 9>"$to/lock"
  flock 9
  [ -e "$to/emb.so" ] || {
    rm -rf "$to/source"
    mkdir "$to/source"
    # Not the variables of the make that runs the tests.
    git archive "$commit" Makefile engine ext | tar -x -C "$to/source" &&
      env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS -u VARIANT -u OUT -u CC \
        make -C "$to/source" -j2 CFLAGS="-O0 -w" build/emb.so >"$to/log" 2>&1 &&
      mv "$to/source/build/emb.so" "$to/emb.so.new" &&
      mv "$to/emb.so.new" "$to/emb.so" &&
      rm -rf "$to/source"
  } || give_up "it cannot be built: see $to/log"
}
echo "$to/emb.so"
