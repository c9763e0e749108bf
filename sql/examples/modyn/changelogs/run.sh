#!/bin/bash
# run.sh -- replays Debian's change logs through pipelines; see ../README.md.
#
#     sql/examples/modyn/changelogs/run.sh [page]
#
# Called by `make modyn`, which builds the programs first.  Starts from scratch,
# except for downloaded packages (fetch.sh); leaves results.tsv, modyn.md and
# its pictures in build/modyn/.  With `page` it copies them into
# sql/examples/modyn/: README.md has the results of the last run with `page`.
#
# Each replay is a process with one seed and a database of its own; two run at a
# time.
#
# Environment: OUT (default build); MODYN_SHORT=1: a little of everything, as a
# quick check; DOCUMENTS, see fetch.sh.
set -eu

cd "$(dirname "$0")/../../../.."
out=${OUT:-build}
modyn=$out/modyn
data=$modyn/data
begun=$(date +%s)
export OMP_NUM_THREADS=1 out modyn data begun

. sql/lib/fresh.sh
fresh "$data"
say() {
  printf '%4d s  %s\n' $(($(date +%s) - begun)) "$*"
}

# job SEED PIPELINE MATRIX OPTION ...: a replay in a directory of its own.
job() {
  local directory
  directory=$(mktemp -d "$data/job-XXXXXX")
  cp "$data/changelogs.db" "$directory/changelogs.db"
  "$modyn/replay" "$directory/changelogs.db" "$out/emb.so" "$directory" \
    --seed "$1" --pipeline "$2" --matrix "$3" "${@:4}" \
    >"$directory.tsv" 2>"$directory.log" || {
    cat "$directory.log" >&2
    return 255 # the end of all, for xargs
  }
  say "$(cat "$directory.log")"
  rm -rf "$directory"
}
export -f say job

say "Change logs (sql/examples/modyn/changelogs/fetch.sh), parsed, and loaded by SQL"
sql/examples/modyn/changelogs/fetch.sh "$modyn/cache" | "$modyn/parse" "$data/changelogs.db"
for script in load pipelines; do
  sqlite3 -bail -cmd ".load $out/emb" "$data/changelogs.db" \
    <"sql/examples/modyn/changelogs/$script.sql" >/dev/null
done
ask() {
  sqlite3 -bail "$data/changelogs.db" "$@"
}
entries=$(ask 'SELECT count(*) FROM entry')
ask 'SELECT printf("        %9d %s", number, what) FROM read_count ORDER BY rowid'
if [ "$entries" -lt 2000 ]; then
  echo "These are $entries entries, too few to replay years." >&2
  echo "There were no documents in ${DOCUMENTS:-/usr/share/doc}, and apt-get could" \
    "not download packages: it needs a network." >&2
  exit 1
fi

# The longest jobs come first.
if [ "${MODYN_SHORT:-}" ]; then
  seeds=1
  more='--from 2019'
  which="combination IN ('once-all', 'year-all', 'year-new', 'performance-last')"
else
  seeds='1 2 3'
  more=
  which=1
fi
say "Replays: $(ask "SELECT count(*) FROM modyn_pipeline WHERE $which") pipelines, seeds $seeds"
for seed in $seeds; do
  ask -separator ' ' "
    SELECT $seed, pipeline,
           iif(combination IN ('year-all', 'year-new', 'year-new-warm'), 'yes', 'no')
      FROM modyn_pipeline WHERE $which
     ORDER BY combination = 'quarter-all' DESC, combination LIKE '%-all' DESC, pipeline"
done | sed "s/\$/ $more/" | xargs -P 2 -I{} bash -euc 'job {}'

{
  cat "$data"/job-*.tsv
  ask <sql/examples/modyn/changelogs/lines.sql
} | sort >"$modyn/results.tsv"
"$modyn/report" "$modyn/results.tsv" "$modyn"
rm -rf "$data"
echo
cat "$modyn/modyn.md"
say "$modyn/modyn.md, $modyn/results.tsv, and the pictures"
if [ "${1:-}" = page ]; then
  sql/lib/page.sh sql/examples/modyn/README.md "$modyn/modyn.md"
  cp "$modyn"/{data,accuracy-urgency,accuracy-closes,cost-urgency,cost-closes}.svg \
    "$modyn"/{matrix-urgency,matrix-closes}.svg sql/examples/modyn/
fi
