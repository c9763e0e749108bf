#!/bin/bash
# lint.sh -- checks rules that the compiler cannot: see the functions below.
#
#     OBJECTS=build/release EMB_SO=build/emb.so tests/lint.sh
#     tests/lint.sh -format        formats all C instead
set -u
cd "$(dirname "$0")/.." || exit 2
failed=0

complain() {
  echo "lint: $1"
  failed=1
}

files() {
  find . \( -name build -o -name .git \) -prune -o -name '*.[ch]' -print | sort
}

# All C is as clang-format leaves it.
check_format() {
  files | xargs -P "$(nproc)" -n 100 clang-format --dry-run -Werror || complain "format"
}

# An overlong comment line, as broken by clang-format: within a comment, with
# one asterisk and a word.
check_comments() {
  local broken
  broken=$(files | xargs awk '
    FNR == 1 { inside = 0 }
    inside && /^ *\*[^*\/]/ { print FILENAME ":" FNR ":" $0 }
    { line = $0
      while (match(line, inside ? "[*]/" : "/[*]")) {
        inside = !inside
        line = substr(line, RSTART + 2)
      } }')
  [ -z "$broken" ] || complain "comments broken in the middle:
$broken"
}

# A ruler between two parts of a file is one line of 80 columns, or begins a
# comment:
#
#     /* ---- reading ------------------------------------------------------ */
check_rulers() {
  local broken
  broken=$(files | xargs awk '
    ruler && $0 !~ /^ *\*\*/ { print ruler }
    { ruler = "" }
    /^ *\/\* ---- / {
      if ($0 !~ /\*\/$/) ruler = FILENAME ":" FNR
      else if (length($0) != 80) print FILENAME ":" FNR
    }
    /^ *\*+ ---/ { print FILENAME ":" FNR }'
    find engine ext sql tests bench -regex '.*\.\(test\|tcl\|sh\|sql\|txt\)' |
      sort | xargs awk '
      /^(#|--) ---- .* ---/ && length($0) != 80 { print FILENAME ":" FNR }')
  [ -z "$broken" ] || complain "rulers that are not one line of 80 columns:
$broken"
}

# The layers, from the lowest, and the folders of each, from the lowest.  A
# file includes and calls only files in its own folder or below it.  A header
# named after its folder, as env/env_os.h, is private to it.
layers='base base/env base/process base/epoch base/mem
math/vec math/ivf
storage/rec storage/pack storage/schema storage/index storage/log storage/cache
storage/kernel storage/ckpt storage/consumer
table/store table/session table/owner table/jobs table/bound table/rows table/bank
table/bag table/txn table/scan
features/retention features/memory features/lookahead features/warmup features/snapshot
features/nearest features/negatives features/delta features/backup features/verify
features/stats features/background
remote/serve
api
data/dataset data/choose data/diff
ext/value ext/help ext/dict ext/conn ext/table ext/fn ext/backup ext/tvf
ext/data/choose ext/data/dataset ext/data/join ext/data/models ext/data/pipeline ext/data
ext'
# A feature not named there comes after the named ones.
for path in engine/features/*/; do
  feature=features/$(basename "$path")
  [[ " $(echo $layers) " == *" $feature "* ]] ||
    layers=${layers/features\/background/features\/background $feature}
done
# Headers that any file of engine/ and ext/ may include.
everywhere='engine/emb.h engine/remote/calls.def engine/storage/pack/emb_file.h engine/base/seed.h'
everywhere+=' engine/base/near.h engine/base/debug.h engine/base/text.h'
everywhere+=' engine/base/unit.h engine/base/sort.h'
declare -A rank # of a layer: 1 is the lowest
number=0
for layer in $layers; do rank[$layer]=$((++number)); done

# folder VAR FILE: the folder of a file, as rank names it.
folder() {
  local path=${2%/*}
  printf -v "$1" %s "${path#engine/}"
}

# Choosing data is a separate product: the tables do not depend on it, and it
# does not depend on stores.  $1 and $2: folders.
crosses_products() {
  case $1 in
  data/*) [[ $2 != data/* && $2 != base* && $2 != math/* && $2 != storage/pack ]] ;;
  ext | ext/data*) false ;;
  *) [[ $2 == data/* || $2 == ext/data* ]] ;;
  esac
}

# One include: $1 the file, $2 the included path, from the top or in its own
# folder.
check_include() {
  local path=$2 from to name
  [ -e "${1%/*}/$2" ] && path=${1%/*}/$2
  [[ $path == *..* ]] && path=$(realpath -m --relative-to=. "$path")
  [ "$2" = emb.h ] && path=engine/emb.h # of a public header
  folder from "$1"
  folder to "$path"
  name=${path##*/} name=${name%.h}
  [ -e "$path" ] || complain "$1 includes $2, which is not there"
  [[ " $everywhere " == *" $path "* ]] && return
  [[ $from == *data/* && $path == engine/data/emb_data.h ]] && return
  if [ "$from" = "$to" ]; then return; fi
  if [ -z "${rank[$from]:-}" ]; then
    complain "$1 is in a folder that lint.sh does not know"
  elif [[ $from == ext* && $path == engine/* ]]; then
    complain "$1 includes $path: ext/ sees only the public headers of engine/"
  elif [ "${rank[$to]:-99999}" -ge "${rank[$from]}" ]; then
    complain "$1 includes $path, which is not below it"
  elif crosses_products "$from" "$to"; then
    complain "$1 includes $path, which is of another product"
  elif [[ $name == "${to##*/}_"* ]]; then
    complain "$1 includes $path, which is private to $to/"
  fi
}

check_order() {
  local file name
  while IFS=: read -r file name; do
    check_include "$file" "$name"
  done < <(grep -rHoP '^\s*#\s*include\s+"\K[^"]+' engine ext --include='*.[ch]')
}

# All sources of a product, and their objects.
sources() { find "$@" -name '*.c' | LC_ALL=C sort; }
objects() { sources "$@" | sed "s|^|$OBJECTS/|; s|c\$|o|"; }

# Which source calls which other one, and by which name.  Functions in a list,
# such as the tasks and files of a store, are not called by name.
calls() {
  objects engine ext | xargs nm -AP | awk -v prefix="$OBJECTS/" '
    { sub(/:$/, "", $1); sub(prefix, "", $1); sub(/o$/, "c", $1) }
    $3 == "T" { at[$2] = $1 }
    $3 == "U" { from[NR] = $1; name[NR] = $2 }
    END { for (i in from) if (name[i] in at && at[name[i]] != from[i])
            print from[i], at[name[i]], name[i] }' | sort -u
}

# Calls go down, like includes, whatever the function's name; and no file
# calls itself through others.
check_calls() {
  local from to name circle a b
  while read -r from to name; do
    folder a "$from"
    folder b "$to"
    if [ "$a" = "$b" ]; then continue; fi
    if [[ $a == ext* && $b != ext* ]]; then
      [[ $b != data/* || $a == ext/data/* ]] ||
        complain "$from calls $name of $to, which is of another product"
    elif [ "${rank[$b]:-99999}" -ge "${rank[$a]:-0}" ]; then
      complain "$from calls $name of $to, which is not below it"
    elif crosses_products "$a" "$b"; then
      complain "$from calls $name of $to, which is of another product"
    fi
  done < <(calls | awk '{ d = $1; e = $2; sub(/[^\/]*$/, "", d); sub(/[^\/]*$/, "", e) }
      d != e')
  circle=$(calls | awk '{print $1, $2}' | sort -u | tsort 2>&1 >/dev/null | head -20)
  [ -z "$circle" ] || complain "files that call each other in a circle:
$circle"
}

# The name of a function shows its scope: in engine/ it begins with a prefix
# used in one folder only, followed by two underscores exactly if nothing
# outside the folder calls it; in ext/ it begins with ext_.
check_reach() {
  local found
  found=$(objects engine | xargs nm -AP | awk '
    { sub(/:$/, "", $1); n = split($1, path, "/"); folder = path[n - 1] }
    $2 ~ /^(emb|local)_/ { next }
    $3 == "T" { at[$2] = folder }
    $3 == "U" { if (!($2 in first)) first[$2] = folder
                if (first[$2] != folder) many[$2] = 1; user[$2, folder] = 1 }
    END {
      for (name in at) {
        word = name; sub(/_.*/, "", word)
        if (word in home && home[word] != at[name])
          print "functions of " home[word] "/ and " at[name] "/ begin with " word "_"
        home[word] = at[name]
        if (!(name in first)) continue
        outside = name in many || first[name] != at[name]
        if (!outside && name !~ /__/)
          print name " is called in " at[name] "/ only: its name takes two underscores"
      }
    }' | sort -u
    objects ext | xargs nm -AP | awk '$3 == "T" && $2 !~ /^(ext_|sqlite3_emb_)/ {
      print $2 " of ext/ does not begin with ext_" }')
  # In another folder's file such a name can only stand in an inline function.
  found+=$(grep -rnoE '\b[a-z]+__[a-z_]+\(' engine --include='*.[ch]' | awk -F: '
    { sub(/\($/, "", $3); folder = $1; sub(/[^\/]*$/, "", folder) }
    !(($3, folder) in seen) { seen[$3, folder]; folders[$3]++ }
    $1 ~ /c$/ { caller[$1 " calls " $3] = $3 }
    END { for (line in caller) if (folders[caller[line]] > 1)
            print line ", which is private to another folder" }' | sort)
  [ -z "$found" ] || complain "names:
$found"
}

# A source file named with its folder exists: like kernel/core.h, since the
# names of folders are unique, or with its full path.  A file named without a
# folder, in a comment or a text, also exists somewhere.
check_mentions() {
  local file line name
  while IFS=: read -r file line name; do
    complain "$file:$line names $name, which does not exist"
  done < <(grep -rnoP '^(?!\s*#\s*include).*?(?<![\w/.*$%<-])\K[a-z][a-z0-9_]*\.[ch]\b(?!["(\w])' \
    engine ext --include='*.[ch]' |
    awk -F: 'NR == FNR { known[$0]; next } !($3 in known)' \
      <(find engine ext tests sql bench -name '*.[ch]' -printf '%f\n') -)
  while IFS=: read -r file line name; do
    [ -e "$name" ] || [ -e "engine/$name" ] || [ -e "ext/$name" ] ||
      [ -e "$(dirname "$file")/$name" ] ||
      compgen -G "engine/*/$name" >/dev/null || compgen -G "ext/*/$name" >/dev/null ||
      complain "$file:$line names $name, which is not there"
  done < <(grep -rnoP '^(?!\s*#\s*include).*?(?<![\w/.$-])\K(?!sys/)[a-z]+/([a-z_]+/)*[a-z_]+\.[ch]\b' \
    engine ext tests/unit tests/fault tests/concurrent tests/long tests/lib --include='*.[ch]')
}

# emb.so shows its entry points and nothing else.
check_exports() {
  local shown
  shown=$(nm -D --defined-only "$EMB_SO" | awk '{print $3}' | sort | xargs)
  [ "$shown" = "sqlite3_emb_data_init sqlite3_emb_init sqlite3_emb_nofile_init" ] ||
    complain "$EMB_SO exports: $shown"
}

# In engine/, only env/ calls the operating system: other folders may use
# outside functions that compute, but none that allocate, wait, read or print.
check_system() {
  local allowed symbol
  allowed='mem(cpy|move|set|cmp|chr)|str[a-z_]*|__xpg_strerror_r|v?snprintf'
  allowed+='|pthread_(mutex|cond|condattr)_[a-z]*|sched_yield' # locks are memory; threads are env's
  allowed+='|qsort|bsearch|XXH.*|ZSTD_.*|__stack_chk_fail'
  allowed+='|_GLOBAL_OFFSET_TABLE_|__mem.*_chk|__v?snprintf_chk|__tls_get_addr'
  allowed+='|(sqrt|exp|log|log2|log10|log1p|expm1|pow|floor|ceil|round|fm(ax?|in)|ldexp|nextafter)f?'
  allowed+='|__isoc.*_strto.*|__popcountdi2|__cpu_model|__cpu_features2|__cpu_indicator_init'
  mapfile -t objects < <(objects engine)
  mapfile -t outside < <(printf '%s\n' "${objects[@]}" | grep -v '/engine/base/env/')
  while read -r symbol; do
    complain "engine/ calls $symbol outside env/"
  done < <(
    comm -23 \
      <(nm -u "${outside[@]}" | awk 'NF == 2 {print $2}' | sort -u) \
      <(nm --defined-only "${objects[@]}" | awk 'NF == 3 {print $3}' |
          sort -u) |
      grep -Evx "$allowed"
  )
}

# Seeded defects (engine/base/seed.h) leave nothing in a product.
check_seeds() {
  nm "$EMB_SO" $(objects engine ext) 2>/dev/null |
    grep -q emb_defect && complain "a seeded defect in $OBJECTS"
}

# Each seed of engine/base/seed.h has its place in the code, and its line in
# tests/defects.txt; neither names any other seed.
check_seed_names() {
  local names other
  names=$(grep -oP '^  \KSEED_\w+' engine/base/seed.h | sort -u)
  other=$(diff <(echo "$names") <(grep -oP '^SEED_\w+' tests/defects.txt | sort -u))
  [ -z "$other" ] || complain "seeds (<) and tests/defects.txt (>) differ:
$other"
  other=$(diff <(echo "$names") <(grep -rhozP 'EMB_SEED\(\s*\KSEED_\w+' engine ext \
    --include='*.[ch]' | tr '\0' '\n' | sort -u))
  [ -z "$other" ] || complain "seeds (<) and their places in the code (>) differ:
$other"
}

# A product never aborts its process: its assertions are those of
# engine/base/debug.h, which leave no code in it.
check_aborts() {
  local found
  found=$(nm -u $(objects engine ext) |
    grep -E ' (__assert_fail|abort|exit|_exit|debug_failed)$' | sort -u)
  [ -z "$found" ] || complain "$OBJECTS can end its process: $found"
}

# A function with seven parameters takes a struct instead, whose fields are
# named in the call.  Prototypes and definitions outside all braces are
# counted, after removing characters, strings, comments, attributes and
# bodies.
check_parameters() {
  local many
  many=$(find engine ext -name '*.[ch]' -print0 | xargs -0 awk '
    function count_all(  name, list) {
      gsub(/\047\\?[^\047]\047/, "", text)
      gsub(/"([^"\\\n]|\\.)*"/, "", text)
      gsub(/\/\*([^*]|\*+[^*\/])*\*+\//, "", text)
      while (gsub(/\{[^{}]*\}/, ";", text)) {}
      gsub(/__attribute__ *\(\([^()]*(\([^()]*\))?[^()]*\)\)/, "", text)
      while (match(text, /[A-Za-z_0-9]+\([^()]*(\([^()]*\)[^()]*)*\)/)) {
        list = substr(text, RSTART, RLENGTH)
        text = substr(text, RSTART + RLENGTH)
        name = list
        sub(/\(.*/, "", name)
        list = substr(list, length(name) + 2)
        gsub(/\([^()]*\)/, "", list)
        if (gsub(/,/, "", list) >= 6) print file, name
      }
      text = ""
    }
    FNR == 1 { count_all(); file = FILENAME }
    /^ *#/ || directive { directive = /\\$/; next }
    { text = text $0 "\n" }
    END { count_all() }')
  [ -z "$many" ] || complain "functions with more than six parameters:
$many"
}

# The Python package and its tests have right types, and the form that flake8 wants,
# as ext/python/pyproject.toml and setup.cfg say.  Other Python may have neither.
check_python() {
  local python=/usr/bin/python3
  if "$python" -c 'import mypy' 2>/dev/null; then
    "$python" -m mypy --config-file ext/python/pyproject.toml --no-error-summary \
      --cache-dir "$OBJECTS/mypy" ext/python tests/python || complain "types in Python"
  fi
  if "$python" -c 'import flake8' 2>/dev/null; then
    "$python" -m flake8 --config ext/python/setup.cfg ext/python tests/python ||
      complain "format of Python"
  fi
}

# Open work belongs in an issue, not in the text.
check_open_work() {
  grep -rnwE 'TO''DO|FIX''ME' --exclude-dir=build --exclude-dir=.git . &&
    complain "open work in the text"
}

if [ "${1:-}" = -format ]; then
  files | xargs clang-format -i
  exit
fi
check_format
check_comments
check_rulers
check_order
check_calls
check_reach
check_mentions
check_exports
check_system
check_seeds
check_seed_names
check_aborts
check_parameters
check_python
check_open_work
[ $failed = 0 ] && echo "lint: clean"
exit $failed
