#!/bin/sh
# serve.sh -- a trainer and a server, two processes; see README.md.
#
#     sql/examples/online/serve.sh [HOURS]         of the stream, default 48
#
# Called by `make online-serve`, which builds the programs first.  Starts from
# scratch; leaves build/online/serve/.  An hour takes half a second.
#
# Environment: OUT (default build).
set -eu

cd "$(dirname "$0")/../../.."
hours=${1:-48}
out=${OUT:-build}
case $out in
/*) ;;
*) out=$PWD/$out ;;
esac
here=$out/online/serve

. sql/lib/fresh.sh
fresh "$here"
"$out/online/trainer" "$out/emb.so" "$here" &
trainer=$!
"$out/online/server" "$out/emb.so" "$here" --hours "$hours" || {
  kill "$trainer"
  exit 1
}
wait "$trainer"
# Fetches the last files that the trainer sent.
"$out/online/server" "$out/emb.so" "$here" --hours "$hours"

cat >"$here/compare.sql" <<END
.load $out/emb
.mode column
ATTACH '$here/server.db' AS copy;
SELECT (SELECT count(*) FROM main.items) AS items,
       (SELECT count(*) FROM copy.items) AS copied,
       (SELECT count(*) FROM main.items AS a JOIN copy.items AS b USING (key)
         WHERE a.bias = b.bias AND a.vector = b.vector) AS equal;
SELECT id, a.weight, b.weight AS copied
  FROM main.dense AS a JOIN copy.dense AS b USING (id) LIMIT 3;
END
printf '\nTheir tables (sqlite3 %s):\n\n' "$here/trainer.db"
cat "$here/compare.sql"
echo
sqlite3 -bail "$here/trainer.db" <"$here/compare.sql"
