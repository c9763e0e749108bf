#!/bin/sh
# wheel.sh -- packs the Python package: `make wheel`.
#
#     ext/python/wheel.sh DIR
#
# DIR contains emb.so with its libraries linked in.  Builds in a copy of this
# folder, DIR/source, so that nothing is written into the source, and leaves one
# wheel in DIR.  The licences of the libraries ask for their texts to come along.
set -eu
here=$(dirname "$0") dir=$1
python=/usr/bin/python3
for module in build setuptools wheel; do
  "$python" -c "import $module" 2>/dev/null || {
    echo "wheel.sh: $python has no module $module: run tests/install-deps.sh python" >&2
    exit 1
  }
done

rm -rf "$dir/source" "$dir"/*.whl
mkdir -p "$dir/source"
cp -R "$here/." "$here/../../LICENSE" "$here/../../engine/emb.h" "$dir/source"
find "$dir/source" -name __pycache__ -prune -exec rm -rf {} +
cp "$dir/emb.so" "$dir/source/sqlite_emb/emb.so"
for library in uring xxhash zstd; do
  text=/usr/share/doc/lib$library-dev/copyright
  [ -e "$text" ] || {
    echo "wheel.sh: there is no $text, which the licence asks to pass on" >&2
    exit 1
  }
  cp -L "$text" "$dir/source/LICENSE.$library"
done

(cd "$dir/source" && "$python" -m build --wheel --no-isolation --outdir .. . \
  >../build.log 2>&1) || {
  cat "$dir/build.log" >&2
  exit 1
}
ls "$dir"/*.whl
