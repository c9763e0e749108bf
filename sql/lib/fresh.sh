# fresh.sh -- for scripts that begin from scratch.
#
#     . sql/lib/fresh.sh
#     fresh DIRECTORY        makes it, or empties it
#
# OUT can name any directory, so what is emptied must have been made by this
# function before, or lie in the repository's build/.

fresh() {
  case $1 in
  build/* | "$PWD"/build/*) ;;
  *)
    if [ -e "$1" ] && [ ! -e "$1/.made-by-emb" ]; then
      echo "$1 is there and was not made here: move it away, or set OUT" >&2
      exit 1
    fi
    ;;
  esac
  rm -rf "$1"
  mkdir -p "$1"
  touch "$1/.made-by-emb"
}
