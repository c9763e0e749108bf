# SPDX-License-Identifier: MIT
"""Connections: one for each thread of each process, opened as they are needed.

A connection of SQLite belongs to the thread that made it, and does not survive `fork()`.
So a `Database` keeps the user's connection for the thread that passed it, and opens
others of the same driver for other threads, for children after `fork()` and for
processes that unpickle it.
"""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import multiprocessing.util
import os
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from .errors import Error, OwnerChanged, translated
from .extension import load

__all__ = ["Database", "Handle", "connect"]

ATTEMPTS = 5  # of a call whose owner has gone
_AS_THEY_ARE = contextlib.nullcontext()


def connect(
    path: str | os.PathLike[str], timeout: float = 5.0, **options: Any
) -> sqlite3.Connection:
    """Opens a database with `sqlite3`, and loads emb.

    timeout  seconds to wait for a lock of the database
    options  of `sqlite3.connect`; `isolation_level` is None unless it is given, so that
             statements outside BEGIN and COMMIT take effect at once

    Raises `Error` if the file cannot be opened or the extension cannot be loaded.
    """
    options.setdefault("isolation_level", None)
    try:
        connection = sqlite3.connect(path, timeout=timeout, **options)
    except sqlite3.Error as error:
        raise _at(path, error) from error
    try:
        return load(connection)
    except BaseException:
        connection.close()
        raise


class _Process:
    """What was opened in this process; a child after fork() starts with nothing."""

    def __init__(self) -> None:
        self.number = 0
        self.handles: set[Handle] = set()
        # Connections of the parent: to close one, or to drop the last reference to it,
        # would touch the parent's files.
        self.inherited: list[Handle] = []
        self._closes = False

    def forked(self) -> None:
        self.number += 1
        self.inherited.extend(self.handles)
        self.handles = set()
        self._closes = False

    def opened(self, handle: Handle) -> None:
        self.handles.add(handle)
        # A process that multiprocessing has started ends without atexit.
        if not self._closes and multiprocessing.parent_process() is not None:
            self._closes = True
            multiprocessing.util.Finalize(None, self.close, exitpriority=10)

    def close(self) -> None:
        for handle in list(self.handles):
            handle.close()


_process = _Process()
os.register_at_fork(after_in_child=_process.forked)
atexit.register(_process.close)


class Handle:
    """A connection, with what the two drivers have in common."""

    def __init__(self, connection: Any, own: bool) -> None:
        self.connection = connection
        self.own = own
        self.process = _process.number
        self.closed = False
        cursor = connection.cursor()
        self._is_sqlite3 = isinstance(connection, sqlite3.Connection)
        if self._is_sqlite3:
            self.errors: tuple[type[BaseException], ...] = (sqlite3.Error,)
            cursor.row_factory = None
        else:
            self.errors = (sys.modules["apsw"].Error,)
        self._cursor = cursor
        self.execute: Callable[..., Any] = cursor.execute
        if own:
            _process.opened(self)

    def close(self) -> None:
        """Closes a connection that this module opened."""
        if self.own and not self.closed and self.process == _process.number:
            self.closed = True
            _process.handles.discard(self)
            self.connection.close()

    @property
    def in_transaction(self) -> bool:
        return bool(self.connection.in_transaction)

    def row(self, sql: str, *arguments: Any) -> Any:
        """The only row of a statement, or None.  Repeats a call that the manual says to
        repeat: when the process that owned the table has gone."""
        if self._changes_texts():
            return self._repeated(lambda: self.execute(sql, arguments).fetchone())
        try:  # most calls end here
            return self.execute(sql, arguments).fetchone()
        except self.errors as error:
            self._check(error)
        return self._repeated(lambda: self.execute(sql, arguments).fetchone())

    def value(self, sql: str, *arguments: Any) -> Any:
        """The only value of the only row of a statement."""
        row = self.row(sql, *arguments)
        return None if row is None else row[0]

    def blob(self, sql: str, *arguments: Any) -> Any:
        """As `value`, of a statement without texts."""
        try:
            return self.execute(sql, arguments).fetchone()[0]
        except self.errors as error:
            self._check(error)
        return self.value(sql, *arguments)

    def rows(self, sql: str, *arguments: Any) -> list[tuple[Any, ...]]:
        """All rows of a statement."""
        rows: list[tuple[Any, ...]] = self._repeated(lambda: list(self.execute(sql, arguments)))
        return rows

    def _repeated(self, call: Callable[[], Any]) -> Any:
        for attempt in range(ATTEMPTS):
            try:
                with self.texts():
                    return call()
            except self.errors as error:
                self._check(error, attempt == ATTEMPTS - 1)
        return None

    def _check(self, error: BaseException, last: bool = False) -> None:
        """Raises an error, unless the call is to be repeated."""
        new = translated(error)
        if last or not isinstance(new, OwnerChanged) or self.in_transaction:
            raise new from error

    def _changes_texts(self) -> bool:
        """Does the program have texts made into something else than str?"""
        return self._is_sqlite3 and self.connection.text_factory is not str

    def texts(self) -> contextlib.AbstractContextManager[Any]:
        """While it is entered, the program's own `text_factory` is not used."""
        return self._texts() if self._changes_texts() else _AS_THEY_ARE

    @contextlib.contextmanager
    def _texts(self) -> Iterator[None]:
        factory = self.connection.text_factory
        self.connection.text_factory = str
        try:
            yield
        finally:
            self.connection.text_factory = factory

    def each(self, sql: str, *arguments: Any) -> Iterator[tuple[Any, ...]]:
        """The rows of a statement one after the other, while other statements run."""
        cursor = self.connection.cursor()
        if self._is_sqlite3:
            cursor.row_factory = None
        try:
            yield from cursor.execute(sql, arguments)
        except self.errors as error:
            raise translated(error) from error
        finally:
            cursor.close()

    def changed(self, sql: str, *arguments: Any) -> int:
        """Executes a statement; returns the number of rows that it changed."""
        self.rows(sql, *arguments)
        return int(self.value("SELECT changes()"))


class _Local(threading.local):
    """The connection of a thread."""

    handle: Handle | None = None
    guard: _Guard | None = None


class _Guard:
    """Closes a thread's connection when the thread ends."""

    def __init__(self, handle: Handle) -> None:
        self.handle = handle

    def __del__(self) -> None:
        self.handle.close()


class Database:
    """A database file, and the connections to it.

    connection  of sqlite3, apsw or SQLAlchemy, which this thread uses; or a path
    schema      the database of that connection, as ATTACH named it
    create      makes the file of a path, if there is none
    """

    def __init__(self, connection: Any, schema: str = "main", *, create: bool = False) -> None:
        self._local = _Local()
        if type(connection).__module__.startswith("sqlalchemy."):
            from . import alchemy

            connection = alchemy.place(connection)
        if isinstance(connection, (str, os.PathLike)):
            self.driver, self.schema = "sqlite3", "main"
            self.path = os.path.abspath(connection)
            if create and not os.path.exists(self.path):
                connect(self.path).close()
            self.handle()
            return
        self.driver = type(connection).__module__.partition(".")[0]
        self.schema = schema
        try:
            load(connection)
        except sqlite3.ProgrammingError as error:  # it is closed, or another thread's
            raise translated(error) from error
        self._local.handle = handle = Handle(connection, own=False)
        self.path = _file_of(handle, schema)

    def handle(self) -> Handle:
        """The connection of this thread in this process."""
        handle = self._local.handle
        if handle is not None and handle.process == _process.number:
            return handle
        return self._open()

    def _open(self) -> Handle:
        if not self.path:
            raise Error(
                "emb: a temporary database has one connection, which belongs to another thread "
                "or process: use a file"
            )
        if self._local.handle is not None:
            _process.inherited.append(self._local.handle)
        handle = Handle(load(_open(self.driver, self.path)), own=True)
        self._local.handle = handle
        self._local.guard = _Guard(handle)
        return handle

    @property
    def own_schema(self) -> str:
        """The schema's name in this thread's connection."""
        handle = self.handle()
        return "main" if handle.own else self.schema

    def __reduce__(self) -> tuple[Any, ...]:
        if not self.path:
            raise Error(
                "emb: a temporary database cannot be sent to another process: use a file"
            )
        return _reopened, (self.driver, self.path)


def _reopened(driver: str, path: str) -> Database:
    """A database in another process: opens its connection when it is first used."""
    database = Database.__new__(Database)
    database._local = _Local()
    database.driver, database.schema, database.path = driver, "main", path
    return database


def _file_of(handle: Handle, schema: str) -> str:
    for _, name, path in handle.rows("PRAGMA database_list"):
        if name.lower() == schema.lower():
            return str(path)
    if schema.lower() == "temp":
        return ""
    raise Error(f"emb: the connection has no database {schema}")


def _in_data_loader() -> bool:
    """Is this a worker of a DataLoader?  Such a process ends without a word, and reads
    ahead; it must not own a table, nor may its reads count as those of a training step."""
    data = sys.modules.get("torch.utils.data")
    return data is not None and data.get_worker_info() is not None


def _open(driver: str, path: str) -> Any:
    try:
        if driver == "apsw":
            apsw = sys.modules.get("apsw") or __import__("apsw")
            flags = (
                apsw.SQLITE_OPEN_READONLY if _in_data_loader() else apsw.SQLITE_OPEN_READWRITE
            )
            connection = apsw.Connection(path, flags=flags)
            connection.setbusytimeout(5000)
            return connection
        uri = "file:" + path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
        uri += "?mode=" + ("ro" if _in_data_loader() else "rw")
        return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    except Exception as error:
        raise _at(path, error) from error


def _at(path: str | os.PathLike[str], error: Exception) -> Error:
    """An error of opening a file, with the path."""
    new = translated(error)
    new.args = (f"{new}: {os.fspath(path)}",)
    return new
