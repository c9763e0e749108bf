#!/bin/sh
# demo.sh -- trains a knowledge-graph embedding on WordNet 3.0 through SQL.
#
# Called by `make demo`, which builds emb.so and installs the tools first.
# Compiles the trainer, loads and splits the graph, trains, tests, and shows
# example queries.  Starts from scratch each time; leaves build/demo/wordnet.db
# and, next to it, wordnet.db-emb/.
#
# Environment: CC, CFLAGS (of the trainer), OUT (default build).
set -eu

cd "$(dirname "$0")/../../.."
root=$PWD
here=sql/examples/wordnet
out=${OUT:-build}
case $out in
/*) ;;
*) out=$root/$out ;;
esac
demo=$out/demo
db=$demo/wordnet.db
emb=$out/emb

say() {
  printf '\n%s\n' "$*"
}

. sql/lib/fresh.sh
fresh "$demo"
# -ffp-contract: multiply and add in one instruction, if there is one.
${CC:-cc} -std=c11 -D_GNU_SOURCE ${CFLAGS:--O3} -ffp-contract=fast \
  -Wall -Wextra -Wshadow -Wconversion -Werror \
  -o "$demo/train" $here/*.c sql/lib/*.c -lsqlite3 -lopenblas -lm -lpthread

say "WordNet 3.0 as a graph, loaded and split in SQL ($here/load.sql)"
sqlite3 -bail "$db" <$here/load.sql

say "ComplEx with Adagrad, trained through emb_get and emb_put ($here/train.c)"
"$demo/train" "$db" "$emb"

say "Nearest synsets ($here/queries.sql)"
# With the full path of emb, the queries can be pasted anywhere.
sed "s|build/emb|$emb|" $here/queries.sql >"$demo/queries.sql"
sqlite3 -bail "$db" <"$demo/queries.sql"

say "These were the queries.  To ask your own:  sqlite3 $db"
say "$(cat "$demo/queries.sql")"
