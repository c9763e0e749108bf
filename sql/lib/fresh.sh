# fresh.sh -- for scripts that start from scratch.
#
#     . sql/lib/fresh.sh
#     fresh DIRECTORY        makes it, or empties it
#
# OUT can name any directory, so only a directory that this function has made
# before, or one in the repository's build/, is emptied.

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
