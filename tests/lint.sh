#!/bin/bash
# lint.sh -- holds what the compiler cannot: see the functions below.
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
  files | xargs clang-format --dry-run -Werror || complain "format"
}

# A line of a comment that was too long, as clang-format leaves it.
check_comments() {
  local broken
  broken=$(files | xargs grep -nE '^ *\*[A-Za-z][a-z ]*$|^ ?\*[A-Za-z]|^ \*\* ')
  [ -z "$broken" ] || complain "comments broken in the middle:
$broken"
}

# The rows of DESIGN's picture; a folder may include what is lower, and its
# own.  A header named after its folder, as env/env_os.h, is private to it.
rank() {
  case $1 in
  base) echo 1 ;;
  env) echo 2 ;;
  io | epoch) echo 3 ;;
  rec | vec | pack) echo 4 ;;
  index | log | cache) echo 5 ;;
  core) echo 6 ;;
  ckpt | life | delta | knn) echo 7 ;;
  store) echo 8 ;;
  ext) echo 9 ;;
  esac
}

# One include: $1 the file, $2 what it names.
check_include() {
  local path from to name
  path=$(realpath -m --relative-to=. "$(dirname "$1")/$2")
  from=$(basename "$(dirname "$1")")
  to=$(basename "$(dirname "$path")")
  name=$(basename "$path" .h)
  [ -e "$path" ] || complain "$1 includes $2, which is not there"
  if [ "$path" = engine/emb.h ] || [ "$path" = engine/base/seed.h ] ||
    [ "$from" = "$to" ]; then return; fi
  if [ -z "$(rank "$from")" ]; then
    complain "$1 is in a folder that lint.sh does not know"
  elif [ "$from" = ext ]; then
    complain "$1 includes $path: ext/ sees only engine/emb.h"
  elif [ -z "$(rank "$to")" ] || [ "$(rank "$to")" -ge "$(rank "$from")" ]; then
    complain "$1 includes $path, which is not below it"
  elif [[ $name == "${to}_"* ]]; then
    complain "$1 includes $path, which is private to $to/"
  fi
}

check_order() {
  local file name
  while IFS=: read -r file name; do
    check_include "$file" "$name"
  done < <(grep -rHoP '^\s*#\s*include\s+"\K[^"]+' engine ext --include='*.[ch]')
}

# emb.so shows its two entry points and nothing else.
check_exports() {
  local shown
  shown=$(nm -D --defined-only "$EMB_SO" | awk '{print $3}' | sort | xargs)
  [ "$shown" = "sqlite3_emb_init sqlite3_emb_nofile_init" ] ||
    complain "$EMB_SO exports: $shown"
}

# In engine/, only env/ calls the operating system: the others may take from
# outside what computes, and nothing that allocates, waits, reads or prints.
check_system() {
  local allowed symbol
  allowed='mem(cpy|move|set|cmp|chr)|str[a-z_]*|__xpg_strerror_r|v?snprintf'
  allowed+='|pthread_(mutex|cond|condattr)_[a-z]*|sched_yield' # locks are memory; threads are env's
  allowed+='|qsort|bsearch|XXH.*|ZSTD_.*|__stack_chk_fail|__assert_fail'
  allowed+='|_GLOBAL_OFFSET_TABLE_|__mem.*_chk|__v?snprintf_chk|__tls_get_addr'
  allowed+='|(sqrt|exp|log|log2|log10|pow|floor|ceil|round|fm[ao]x?|ldexp)f?'
  allowed+='|__isoc.*_strto.*|__popcountdi2|__cpu_model|__cpu_indicator_init'
  mapfile -t objects < <(printf "$OBJECTS/%s\n" engine/*/*.c | sed 's/c$/o/')
  mapfile -t outside < <(printf '%s\n' "${objects[@]}" | grep -v '/engine/env/')
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
  nm "$EMB_SO" $(printf "$OBJECTS/%s " engine/*/*.o ext/*.o) 2>/dev/null |
    grep -q emb_defect && complain "a seeded defect in $OBJECTS"
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
check_order
check_exports
check_system
check_seeds
check_open_work
[ $failed = 0 ] && echo "lint: clean"
exit $failed
