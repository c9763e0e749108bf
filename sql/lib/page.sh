#!/bin/sh
# page.sh -- copies results into a page.
#
#     sql/lib/page.sh PAGE RESULTS
#
# Replaces the text in PAGE between the lines <!-- results --> and
# <!-- end of results --> by the file RESULTS.
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
