#!/bin/bash
# pytest.sh -- tests the Python package as a user has it: installed from its wheel.
#
#     tests/python/pytest.sh [ARGUMENTS OF pytest]        (make test-python)
#
# Packs build/wheel/emb.so (make wheel), installs the wheel into a new virtual
# environment, build/wheel/venv, which sees Debian's packages, and runs pytest in
# an empty directory with that environment's programs alone: no compiler, and
# nothing of the source.  Without a Debian package that all need, it is skipped;
# tests/install-deps.sh python installs them.
set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 2
cd "$here/../.." || exit 2
wheel=$(dirname "${EMB_SO:-build/emb.so}")/wheel
python=/usr/bin/python3

skip() {
  echo "skipped: $1"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
}

fail() {
  echo "$1"
  echo "0 passed, 1 failed"
  exit 1
}

for module in build venv pytest numpy setuptools wheel; do
  "$python" -c "import $module" 2>/dev/null || skip "$python has no module $module"
done
[ -e "$wheel/emb.so" ] || skip "there is no $wheel/emb.so: make wheel says why"
ext/python/wheel.sh "$wheel" || fail "the wheel was not built"

wheel=$(realpath "$wheel") venv=$wheel/venv work=$wheel/work
rm -rf "$venv" "$work"
mkdir "$work" || exit 2
{ "$python" -m venv --system-site-packages "$venv" &&
  "$venv/bin/python" -m pip --isolated install -q --no-index --no-deps "$wheel"/*.whl; } ||
  fail "the wheel was not installed"

unset EMB_SO PYTHONPATH
export PATH=$venv/bin PYTHONDONTWRITEBYTECODE=1 EMB_WHEEL=$(echo "$wheel"/*.whl)
cd "$work" || exit 2
exec python -m pytest -q --tb=short -p no:cacheprovider --import-mode=importlib --rootdir="$here" \
  "$@" "$here"
