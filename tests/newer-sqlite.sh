#!/bin/bash
# newer-sqlite.sh -- runs a command with a recent SQLite in place of the
# system's.
#
#     OUT=build tests/newer-sqlite.sh COMMAND ...
#
# Takes the amalgamation from the npm package better-sqlite3, builds
# libsqlite3.so.0 from it in $OUT/newer, once, and runs COMMAND with it.
# EMB_SQLITE_LIB names a directory with another libsqlite3.so.0 to take
# instead.  Without npm or network it says so and succeeds, with the last line
# "0 passed, 0 failed, 1 skipped"; or, if EMB_SQLITE_ELSE is set, runs COMMAND
# with the system's.
set -eu

package=better-sqlite3@12.11.1 # SQLite 3.53.2
dir=$(realpath -m "${OUT:-build}/newer")

command=("$@")
skip() {
  echo "newer SQLite: skipped: $1"
  if [ -n "${EMB_SQLITE_ELSE:-}" ]; then exec env "${command[@]}"; fi
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
}

fetch() {
  command -v npm >/dev/null || skip "there is no npm"
  (cd "$dir" && npm pack --silent "$package" >/dev/null 2>&1) ||
    skip "npm pack $package failed"
  tar -xzf "$dir"/better-sqlite3-*.tgz -C "$dir" --strip-components=3 \
    package/deps/sqlite3
}

build() {
  ${CC:-cc} -O1 -fPIC -shared -w -Wl,-soname,libsqlite3.so.0 \
    -DSQLITE_THREADSAFE=1 -DHAVE_USLEEP=1 -DSQLITE_ENABLE_COLUMN_METADATA \
    -DSQLITE_ENABLE_PREUPDATE_HOOK -DSQLITE_ENABLE_SESSION \
    -DSQLITE_ENABLE_UNLOCK_NOTIFY -DSQLITE_ENABLE_MATH_FUNCTIONS \
    -DSQLITE_ENABLE_DBSTAT_VTAB -DSQLITE_ENABLE_FTS5 -DSQLITE_ENABLE_RTREE \
    -o "$dir/libsqlite3.so.0.part" "$dir/sqlite3.c" -lm -lpthread -ldl
  mv "$dir/libsqlite3.so.0.part" "$dir/libsqlite3.so.0"
}

if [ -n "${EMB_SQLITE_LIB:-}" ]; then
  dir=$EMB_SQLITE_LIB
elif [ ! -e "$dir/libsqlite3.so.0" ]; then
  mkdir -p "$dir"
  [ -e "$dir/sqlite3.c" ] || fetch
  build
fi
export LD_LIBRARY_PATH="$dir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
echo "SQLite $(echo 'package require sqlite3
sqlite3 db :memory:
puts [db onecolumn {SELECT sqlite_version()}]' | tclsh)"
exec env "$@"
