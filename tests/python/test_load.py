# SPDX-License-Identifier: MIT
"""sqlite_emb.load into sqlite3's and apsw's connections: what works, and each error."""

import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import sqlite_emb

CREATE = "CREATE VIRTUAL TABLE items USING emb(vector FLOAT[2])"
INSERT = "INSERT INTO items VALUES (?, '[1,2]')"
KEYS = "SELECT key FROM items ORDER BY key"


def drivers() -> list[Any]:
    """Functions that open a connection, by driver."""
    try:
        import apsw
    except ImportError:
        skipped = pytest.mark.skip(reason="there is no python3-apsw")
        return [sqlite3.connect, pytest.param(None, marks=skipped)]
    return [sqlite3.connect, lambda path: apsw.Connection(str(path))]


driver = pytest.mark.parametrize("connect", drivers(), ids=["sqlite3", "apsw"])


def rows(db: Any, sql: str, *values: Any) -> list[Any]:
    return list(db.cursor().execute(sql, values))


def load_extension(db: Any, path: str) -> None:
    """The driver's own function."""
    (db.load_extension if isinstance(db, sqlite3.Connection) else db.loadextension)(path)


def python(code: str, *arguments: str, **environment: str) -> str:
    """Runs code in a new interpreter, and returns what it printed."""
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@driver
def test_load(connect: Any, tmp_path: Path) -> None:
    db = connect(tmp_path / "test.db")
    assert sqlite_emb.load(db) is db
    rows(db, CREATE)
    rows(db, INSERT, 7)
    assert rows(db, KEYS) == [(7,)]


@driver
def test_twice(connect: Any, tmp_path: Path) -> None:
    db = sqlite_emb.load(sqlite_emb.load(connect(tmp_path / "test.db")))
    rows(db, CREATE)
    rows(db, INSERT, 7)
    sqlite_emb.load(db)
    assert rows(db, KEYS) == [(7,)]


@driver
def test_in_a_transaction(connect: Any, tmp_path: Path) -> None:
    db = connect(tmp_path / "test.db")
    rows(db, "BEGIN")
    rows(db, "CREATE TABLE plain(x)")
    sqlite_emb.load(db)
    rows(db, CREATE)
    rows(db, "ROLLBACK")
    assert rows(db, "SELECT count(*) FROM sqlite_schema") == [(0,)]


@driver
def test_loading_is_disabled_afterwards(connect: Any) -> None:
    db = sqlite_emb.load(connect(":memory:"))
    with pytest.raises(Exception, match="not authorized"):
        load_extension(db, sqlite_emb.loadable_path())
    with pytest.raises(Exception, match="not authorized"):
        rows(db, "SELECT load_extension(?)", sqlite_emb.loadable_path())


@driver
def test_no_library(connect: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = tmp_path / "emb.so"
    text.write_text("no library " * 100)
    monkeypatch.setenv("EMB_SO", str(text))
    db = connect(":memory:")
    with pytest.raises(sqlite_emb.Error, match=f"cannot load emb.so: .*{text}: .*ELF"):
        sqlite_emb.load(db)
    with pytest.raises(Exception, match="not authorized"):
        load_extension(db, str(text))


def test_emb_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "emb.so"
    monkeypatch.setenv("EMB_SO", str(other))
    with pytest.raises(sqlite_emb.Error, match=f"no file {other}; correct or unset .*EMB_SO"):
        sqlite_emb.loadable_path()
    other.touch()
    assert sqlite_emb.loadable_path() == str(other)
    monkeypatch.setenv("EMB_SO", "")
    assert Path(sqlite_emb.loadable_path()).is_relative_to(sys.prefix)


class Without(sqlite3.Connection):
    """As in a Python that cannot load extensions."""

    @property
    def enable_load_extension(self) -> Any:
        raise AttributeError("enable_load_extension")


class Refuses(sqlite3.Connection):
    """As with an SQLite that cannot."""

    def enable_load_extension(self, enable: bool, /) -> None:
        raise sqlite3.OperationalError("Error enabling load extension")


@pytest.mark.parametrize("factory", [Without, Refuses])
def test_python_without_extensions(factory: type[sqlite3.Connection]) -> None:
    with pytest.raises(sqlite_emb.Error) as caught:
        sqlite_emb.load(sqlite3.connect(":memory:", factory=factory))
    for way in ("/usr/bin/python3 -m venv --system-site-packages", "apsw", "conda",
                "--enable-loadable-sqlite-extensions"):
        assert way in str(caught.value)


def test_old_sqlite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version", "3.37.2")
    with pytest.raises(sqlite_emb.Error, match="3.38 or newer is needed, .*has 3.37.2"):
        sqlite_emb.load(sqlite3.connect(":memory:"))


def test_old_sqlite_of_apsw(monkeypatch: pytest.MonkeyPatch) -> None:
    apsw = pytest.importorskip("apsw")
    monkeypatch.setattr(apsw, "sqlitelibversion", lambda: "3.9.0")
    with pytest.raises(sqlite_emb.Error, match="3.38 or newer is needed, and apsw has 3.9.0"):
        sqlite_emb.load(apsw.Connection(":memory:"))


@pytest.mark.parametrize("thing", [None, 7, "app.db", sqlite3, sqlite3.connect])
def test_no_connection(thing: object) -> None:
    with pytest.raises(TypeError, match=f"emb: {type(thing).__qualname__} is no connection"):
        sqlite_emb.load(thing)


def test_cursor() -> None:
    with pytest.raises(TypeError, match="emb: Cursor is no connection"):
        sqlite_emb.load(sqlite3.connect(":memory:").cursor())


def test_closed() -> None:
    db = sqlite3.connect(":memory:")
    db.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
        sqlite_emb.load(db)


def test_error_is_a_database_error() -> None:
    assert issubclass(sqlite_emb.Error, sqlite3.DatabaseError)


def test_imports_nothing() -> None:
    assert python(
        "import sqlite3, sys, sqlite_emb; sqlite_emb.load(sqlite3.connect(':memory:'));"
        "print({'numpy', 'apsw', 'sqlalchemy', 'torch'} & set(sys.modules))"
    ) == "set()\n"


def test_threads() -> None:
    failed: list[Exception] = []

    def work() -> None:
        try:
            for _ in range(50):
                sqlite_emb.load(sqlite3.connect(":memory:")).close()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_two_drivers_on_one_database(tmp_path: Path) -> None:
    apsw = pytest.importorskip("apsw")
    path = str(tmp_path / "test.db")
    one = sqlite_emb.load(sqlite3.connect(path, isolation_level=None))
    two = sqlite_emb.load(apsw.Connection(path))
    rows(one, CREATE)
    rows(two, INSERT, 1)
    rows(one, INSERT, 2)
    rows(two, "BEGIN")
    rows(two, INSERT, 3)
    assert rows(one, KEYS) == [(1,), (2,)]
    rows(two, "COMMIT")
    assert rows(one, KEYS) == rows(two, KEYS) == [(1,), (2,), (3,)]
    one.close()
    assert rows(two, KEYS) == [(1,), (2,), (3,)]


# ---- apsw with an SQLite of its own, as PyPI has it ---------------------------

TWO_SQLITES = f"""
import apsw, sqlite3, sqlite_emb, sys
first, so, one, two = sys.argv[1:]
def connect(driver, path):
    if driver == "apsw":
        return apsw.Connection(path)
    return sqlite3.connect(path, isolation_level=None)
def keys(db):
    return list(db.cursor().execute("{KEYS}"))
other = "sqlite3" if first == "apsw" else "apsw"
a = sqlite_emb.load(connect(first, one))
b = connect(other, two)
getattr(b, "enable_load_extension" if other == "sqlite3" else "enableloadextension")(True)
try:
    getattr(b, "load_extension" if other == "sqlite3" else "loadextension")(so)
except Exception as error:
    print(error)
sqlite_emb.load(b)
sqlite_emb.load(sqlite_emb.load(connect(other, two))).close()
for db in a, b:
    db.cursor().execute("{CREATE}")
for i in range(100):
    for db in a, b:
        db.cursor().execute("{INSERT}", (i,))
assert keys(a) == keys(b) == [(i,) for i in range(100)]
c, d = sqlite_emb.load(connect(first, one)), sqlite_emb.load(connect(other, two))
assert keys(c) == keys(d) == keys(a)
try:
    b.cursor().execute("{INSERT}", (5,))
except Exception as error:
    print(error)
print(sum("emb.so" in line and "r-xp" in line for line in open("/proc/self/maps")))
"""


def own_sqlite(directory: Path) -> None:
    """Makes an apsw there that has another SQLite library: both with another soname."""
    apsw = pytest.importorskip("apsw")
    name, other = b"libsqlite3.so.0", b"libsqlite3own.0"
    maps = Path("/proc/self/maps").read_text().split()
    library = next((path for path in maps if "/libsqlite3.so.0" in path), None)
    module = Path(apsw.__file__)
    if library is None or module.read_bytes().count(name) != 1:
        pytest.skip("Python or apsw has no libsqlite3.so.0")
    (directory / "apsw").mkdir()
    (directory / "apsw" / module.name).write_bytes(module.read_bytes().replace(name, other))
    (directory / other.decode()).write_bytes(Path(library).read_bytes().replace(name, other))


@pytest.mark.parametrize("first", ["sqlite3", "apsw"])
def test_two_sqlites(first: str, tmp_path: Path) -> None:
    own_sqlite(tmp_path)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    said = python(
        TWO_SQLITES, first, sqlite_emb.loadable_path(), str(tmp_path / "1.db"),
        str(tmp_path / "2.db"), LD_LIBRARY_PATH=str(tmp_path), PYTHONPATH=str(tmp_path),
        TMPDIR=str(temporary),
    ).splitlines()
    assert len(said) == 3
    assert "emb: another SQLite library in this process has loaded this file" in said[0]
    assert "UNIQUE constraint failed: items.key" in said[1]
    assert said[2] == "2"
    assert list(temporary.iterdir()) == []


def test_copy_cannot_be_made(tmp_path: Path) -> None:
    """No room in TMPDIR: the reason, and the next load works."""
    own_sqlite(tmp_path)
    assert python(
        """
import apsw, sqlite3, sqlite_emb, shutil
from sqlite_emb import extension
sqlite_emb.load(sqlite3.connect(":memory:"))
def full(path, target):
    raise OSError(28, "No space left on device")
copy, shutil.copy = shutil.copy, full
try:
    sqlite_emb.load(apsw.Connection(":memory:"))
except sqlite_emb.Error as error:
    print(error)
shutil.copy = copy
sqlite_emb.load(apsw.Connection(":memory:"))
""",
        LD_LIBRARY_PATH=str(tmp_path), PYTHONPATH=str(tmp_path),
    ).count("No space left on device") == 1
