#!/bin/sh
# page.sh -- takes what was measured over into a page.
#
#     sql/lib/page.sh PAGE RESULTS
#
# What stands in PAGE between the lines <!-- results --> and <!-- end of results
# --> is replaced by the file RESULTS.
set -eu

awk -v results="$2" '
  /^<!-- end of results -->$/ { inside = 0 }
  !inside { print }
  /^<!-- results -->$/ {
    inside = 1
    while ((getline line < results) > 0) print line
  }' "$1" >"$1.new"
cat "$1.new" >"$1"
rm "$1.new"
