# SPDX-License-Identifier: MIT
"""Loads emb into the connections of sqlite3, apsw and SQLAlchemy.

apsw and SQLAlchemy are never imported here: a connection of theirs shows that the
program has imported them.

apsw from PyPI contains an SQLite of its own, and one file emb.so serves one SQLite
library.  The library that comes second gets a copy of the file.
"""

import os
import shutil
import sqlite3
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from .errors import Error

OLDEST_SQLITE = (3, 38)

NO_EXTENSIONS = """emb: this Python's sqlite3 cannot load extensions. Use one of these:
  * Debian's and Ubuntu's own Python: /usr/bin/python3 -m venv --system-site-packages DIR
  * the package apsw: sqlite_emb.load(apsw.Connection("app.db"))
  * another build of Python: conda's, or one configured with
    --enable-loadable-sqlite-extensions"""

# What emb.so answers to a second SQLite library.
OTHER_SQLITE = "another SQLite library"

C = TypeVar("C")

_lock = threading.Lock()
_copies: dict[str, str] = {}  # paths of emb.so, and of their copies that are loaded


def loadable_path() -> str:
    """The path of emb.so, for `SELECT load_extension(...)` or `.load` in other programs.

    The environment variable EMB_SO, which is for developers of emb, names another one.
    Raises Error if there is no such file.
    """
    override = os.environ.get("EMB_SO")
    path = Path(override) if override else Path(__file__).with_name("emb.so")
    if not path.is_file():
        cure = "correct or unset the environment variable EMB_SO"
        if not override:
            cure = "install the package sqlite-emb again, from its wheel"
        raise Error(f"emb: there is no file {path}; {cure}")
    return str(path.resolve())


def load(connection: C) -> C:
    """Loads emb into a connection, and returns the connection.

    `connection` is one of
        sqlite3.Connection, apsw.Connection
        sqlalchemy Connection: its connection to the database
        sqlalchemy Engine: each connection of its pool, now and later
        sqlalchemy Session: the Engine or Connection that it is bound to

    Loading twice is harmless. Loading of extensions is enabled only for the moment, and
    disabled afterwards.

    Raises Error if this build of Python or of SQLite cannot load emb, and TypeError if
    the object is no connection.
    """
    _load_any(connection)
    return connection


def _load_any(connection: object) -> None:
    apsw, sqlalchemy = sys.modules.get("apsw"), sys.modules.get("sqlalchemy")
    if isinstance(connection, sqlite3.Connection):
        _load_sqlite3(connection)
    elif apsw and isinstance(connection, apsw.Connection):
        _load_apsw(connection, apsw)
    elif sqlalchemy is None or not _load_sqlalchemy(connection):
        raise TypeError(
            f"emb: {type(connection).__qualname__} is no connection; give one of sqlite3 "
            "or apsw, or SQLAlchemy's Engine, Connection or Session"
        )


def _load_sqlalchemy(connection: object) -> bool:
    """Returns False if the object is not SQLAlchemy's."""
    from . import alchemy

    return alchemy.load(connection)


def _load_sqlite3(connection: sqlite3.Connection) -> None:
    _check_version("Python's sqlite3", sqlite3.sqlite_version)
    try:
        connection.enable_load_extension(True)
    except (AttributeError, sqlite3.OperationalError) as error:
        raise Error(NO_EXTENSIONS) from error
    try:
        _load_file(connection.load_extension, sqlite3.OperationalError)
    finally:
        connection.enable_load_extension(False)


def _load_apsw(connection: Any, apsw: ModuleType) -> None:
    _check_version("apsw", apsw.sqlitelibversion())
    try:
        connection.enableloadextension(True)
    except AttributeError as error:
        raise Error("emb: this apsw was built without loading of extensions; "
                    "install the package apsw of Debian or of PyPI") from error
    try:
        _load_file(connection.loadextension, apsw.Error)
    finally:
        connection.enableloadextension(False)


def _load_file(load_extension: Callable[[str], object], refused: type[Exception]) -> None:
    """Gives emb.so to SQLite, or a copy if another SQLite of this process has it."""
    path = loadable_path()
    try:
        try:
            load_extension(_stem(path))
        except refused as error:
            if OTHER_SQLITE not in str(error):
                raise
            _load_copy(path, load_extension)
    except (refused, OSError) as error:
        raise Error(f"emb: SQLite cannot load emb.so: {error}") from error


def _load_copy(path: str, load_extension: Callable[[str], object]) -> None:
    """Gives SQLite a copy of emb.so, one for the process, whose file is removed at once.

    glibc knows a loaded library by its name, so it can be loaded again without the file.
    """
    with _lock:
        if path in _copies:
            load_extension(_stem(_copies[path]))
            return
        with tempfile.TemporaryDirectory(prefix="sqlite-emb-") as directory:
            copy = str(Path(directory, "emb.so"))
            shutil.copy(path, copy)
            load_extension(_stem(copy))
        _copies[path] = copy


def _stem(path: str) -> str:
    """Without .so, which SQLite adds: with it, its error is about a file .so.so."""
    return path.removesuffix(".so")


def _check_version(driver: str, version: str) -> None:
    """Raises Error if the SQLite of this driver is too old."""
    if tuple(int(number) for number in version.split(".")[:2]) < OLDEST_SQLITE:
        raise Error(
            f"emb: SQLite 3.38 or newer is needed, and {driver} has {version}; "
            "use a newer Python, or the package apsw, which brings its own SQLite"
        )
