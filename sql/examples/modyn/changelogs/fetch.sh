#!/bin/sh
# fetch.sh -- writes all available change logs, as text, to standard output.
#
#     sql/examples/modyn/changelogs/fetch.sh CACHE >TEXT
#
# Uses the change logs of installed packages, and downloads the missing packages
# of packages.txt, once, into the directory CACHE: slim images have no
# documents.  A line that is a form feed ends each file.  Without apt-get or a
# network it uses the change logs it has.
#
# Environment: DOCUMENTS (default /usr/share/doc).
set -eu

here=$(dirname "$0")
cache=$1
documents=${DOCUMENTS:-/usr/share/doc}

# A native package has its change log where other packages have the upstream
# change log.  The parser finds no entries in upstream change logs.
logs_below() {
  find "$1" -mindepth 2 -maxdepth 2 -type f \
    \( -name 'changelog.Debian*.gz' -o -name changelog.gz \) | LC_ALL=C sort
}

# apt_get PACKAGE ...: downloads packages to the current directory.  Without the
# option, apt-get would drop to a user of its own that may not write there.
apt_get() {
  apt-get download -q -o APT::Sandbox::User=root "$@" >&2
}

# download PACKAGE ...: fails if no package could be downloaded.
download() {
  mkdir -p "$cache/download"
  # One call for all is quick, but fails if a package is gone from the archive.
  (
    cd "$cache/download"
    apt_get "$@" && exit
    failed=0
    for name; do
      apt_get "$name" || failed=$((failed + 1))
      # Three failures and no success: the network is down.
      [ "$failed" -lt 3 ] || [ -n "$(ls)" ] || exit
    done
  )
  ls "$cache/download"/*.deb >/dev/null 2>&1
}

# In the cache each package has a directory, even without a change log.
unpack() {
  for file in "$cache/download"/*.deb; do
    name=$(dpkg-deb --field "$file" Package)
    mkdir -p "$cache/download/$name"
    dpkg-deb --fsys-tarfile "$file" |
      tar -xf - -C "$cache/download/$name" --strip-components=5 --wildcards \
        "./usr/share/doc/$name/changelog*.gz" 2>/dev/null || :
    mv "$cache/download/$name" "$cache/$name"
  done
}

mkdir -p "$cache"
rm -rf "$cache/download"
missing=
for name in $(grep -v '^#' "$here/packages.txt"); do
  for log in "$documents/$name"/changelog*.gz; do
    [ -f "$log" ] || [ -d "$cache/$name" ] || missing="$missing $name"
    break
  done
done

if [ -n "$missing" ]; then
  echo "Downloading $(echo "$missing" | wc -w) packages for their change logs:" \
    "not installed here, or without documents" >&2
  if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
    echo "There is no apt-get here: going on with what this machine has" >&2
  # shellcheck disable=SC2086
  elif download $missing; then
    unpack
  else
    echo "apt-get cannot download (no network? apt-get update?): going on with" \
      "what this machine has" >&2
  fi
  rm -rf "$cache/download"
fi

# A damaged file is read up to the damage.
{ logs_below "$documents"; logs_below "$cache"; } | while read -r log; do
  gzip -dcq "$log" 2>/dev/null || echo "$log: damaged" >&2
  printf '\n\f\n'
done
