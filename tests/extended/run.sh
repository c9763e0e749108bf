#!/bin/bash
# run.sh -- extends copies of the source, and uses the additions.
#
#     tests/extended/run.sh              all extensions
#     tests/extended/run.sh NAME ...     these
#
# An extension is a folder next to this file, with
#     files/    the added files, each at its path in the source
#     lists     additions to existing files: lines of path, TAB, the text of a
#               line there, TAB, the line to insert after it
#     places    everything that may differ then, sorted: a new file or folder
#               by its path, an existing file with its number of new lines
#     refused   optional: changes as in lists, of a line to another one; each
#               makes a declaration in emb.h differ from calls.def, so that it
#               does not compile
#     use.c     the program that uses it, and ends with "N passed, N failed"
# An existing file cannot be added, so all changes are in lists.  Each extension
# is added to a copy of engine/ and ext/ of its own, in extended/NAME next to
# $EMB_SO (build/emb.so), which is compared with the source.  The programs use
# the amalgamation of a copy with all extensions, extended/all.
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

# change_line PATH LINE HOW OTHER: OTHER is put after the line, or replaces
# it.
change_line() {
  awk -v behind="$2" -v how="$3" -v line="$4" '
    $0 != behind || how == "behind" { print }
    $0 == behind { print line; found++ }
    END { exit found != 1 }' "$1" >"$1.changed" || {
    echo "$1 has not one line $2"
    return 1
  }
  mv "$1.changed" "$1"
}

# add_lines LISTS TO
add_lines() {
  local file behind line
  while IFS=$'\t' read -r file behind line; do
    change_line "$2/$file" "$behind" behind "$line" || return
  done <"$1"
}

# places TO: the differences from the source.
places() {
  local line path
  { LC_ALL=C diff -rq engine "$1/engine"; LC_ALL=C diff -rq ext "$1/ext"; } |
    while read -r line; do
      case $line in
      "Only in $1/"*)
        line=${line#"Only in $1/"}
        echo "${line/: //}"
        ;;
      "Files "*" differ")
        path=${line#Files } path=${path%% and *}
        echo "$path $(diff "$path" "$1/$path" | grep -c '^[<>]')"
        ;;
      *) echo "$line" ;;
      esac
    done | LC_ALL=C sort
}

# check_places FROM TO
check_places() {
  places "$2" >"$2/places"
  diff "$1/places" "$2/places" || {
    echo "these are not the places of $1/places"
    return 1
  }
  echo "$(wc -l <"$2/places") places:" $(paste -sd, "$2/places")
}

# check_refused FROM TO: each of these changes stops the source from
# compiling.
check_refused() {
  local file line other
  local check="${CC:-cc} -std=gnu11 -D_GNU_SOURCE -fsyntax-only -iquote . \
    -iquote engine engine/api/calls.c"
  [ -e "$1/refused" ] || return 0
  (cd "$2" && $check) || return
  while IFS=$'\t' read -r file line other; do
    cp "$2/$file" "$2/kept" && change_line "$2/$file" "$line" instead "$other" ||
      return
    if (cd "$2" && LC_ALL=C $check) >"$2/errors" 2>&1 ||
      ! grep -q 'conflicting types for .*emb_' "$2/errors"; then
      cat "$2/errors"
      echo "it compiles, or fails otherwise, with $other"
      return 1
    fi
    mv "$2/kept" "$2/$file"
  done <"$1/refused"
  echo "$(wc -l <"$1/refused") declarations refused"
}

# copy_source TO NAME ...: the source with these extensions.
copy_source() {
  local to=$1 name
  shift
  rm -rf "$to"
  mkdir -p "$to" && cp -r engine ext "$to" || return
  for name; do
    add_files "$here/$name/files" "$to" && add_lines "$here/$name/lists" "$to" ||
      return
  done
}

# compile TO: the amalgamation of a copy.
compile() {
  (cd "$1" && find engine ext -name '*.c' | LC_ALL=C sort |
    xargs tclsh ext/amalgamation.tcl one) &&
    ${CC:-cc} -std=gnu11 -O0 -ffp-contract=off -Wall -Wno-unused-function -Werror \
      -DSQLITE_CORE -c -o "$1/emb.o" "$1/one/emb.c"
}

# extend NAME: what it changes.
extend() {
  copy_source "$out/$1" "$1" && check_places "$here/$1" "$out/$1" &&
    check_refused "$here/$1" "$out/$1"
}

# use NAME: its program, with the copy that has all extensions.
use() {
  ${CC:-cc} -std=gnu11 -O0 -Wall -Werror -I"$out/all/one" -o "$out/$1/use" \
    "$here/$1/use.c" "$out/all/emb.o" \
    -luring -lxxhash -lzstd -lpthread -lm -lsqlite3 && "$out/$1/use"
}

[ $# -gt 0 ] || set -- $(cd "$here" && ls -d */ | tr -d /)
copy_source "$out/all" "$@" && compile "$out/all" || failed=1
for name in "$@"; do
  output=$(extend "$name" 2>&1 && use "$name" 2>&1)
  echo "$output"
  if [[ ${output##*$'\n'} =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
    passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2]))
  else
    failed=$((failed + 1))
  fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
