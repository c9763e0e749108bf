#!/bin/bash
# run.sh -- extends copies of the source, and uses what was added.
#
#     tests/extended/run.sh              all extensions
#     tests/extended/run.sh NAME ...     these
#
# An extension is a folder beside this file, with
#     files/    what is added, each file at its path in the source
#     lists     what existing files get: lines of path, TAB, the text of a line
#               there, TAB, the line that is put behind it
#     use.c     the program that uses it, and ends with "N passed, N failed"
# A file that is there already cannot be added, so all that changes is in lists.
# The copy of engine/ and ext/, its amalgamation (which -O0 compiles in seconds)
# and the program are in extended/NAME beside $EMB_SO (build/emb.so).
set -u
cd "$(dirname "$0")/../.." || exit 2
here=tests/extended out=$(dirname "${EMB_SO:-build/emb.so}")/extended
passed=0 failed=0

# add FROM TO: the files.
add_files() {
  local file
  (cd "$1" && find . -type f) | while read -r file; do
    if [ -e "$2/$file" ]; then
      echo "$file is there already"
      return 1
    fi
    mkdir -p "$2/$(dirname "$file")"
    cp "$1/$file" "$2/$file" || return
  done
}

# add_lines LISTS TO
add_lines() {
  local file behind line
  while IFS=$'\t' read -r file behind line; do
    awk -v behind="$behind" -v line="$line" '
      { print }
      $0 == behind { print line; found++ }
      END { exit found != 1 }' "$2/$file" >"$2/changed" || {
      echo "$file has not one line $behind"
      return 1
    }
    mv "$2/changed" "$2/$file" || return
  done <"$1"
}

# compile FROM TO
compile() {
  (cd "$2" && find engine ext -name '*.c' | LC_ALL=C sort |
    xargs tclsh ext/amalgamation.tcl one) &&
    ${CC:-cc} -std=gnu11 -O0 -ffp-contract=off -Wall -Wno-unused-function -Werror \
      -DSQLITE_CORE -I"$2/one" -o "$2/use" "$1/use.c" "$2/one/emb.c" \
      -luring -lxxhash -lzstd -lpthread -lm -lsqlite3
}

# extend NAME
extend() {
  local from=$here/$1 to=$out/$1
  rm -rf "$to"
  mkdir -p "$to" && cp -r engine ext "$to" && add_files "$from/files" "$to" &&
    add_lines "$from/lists" "$to" && compile "$from" "$to" && "$to/use"
}

[ $# -gt 0 ] || set -- $(cd "$here" && ls -d */ | tr -d /)
for name in "$@"; do
  output=$(extend "$name" 2>&1)
  echo "$output"
  if [[ ${output##*$'\n'} =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
    passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2]))
  else
    failed=$((failed + 1))
  fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
