# SPDX-License-Identifier: MIT
"""What can go wrong, as exceptions.

All derive from `Error`, which derives from `sqlite3.DatabaseError`: a program that
already catches SQLite's errors catches these.
"""

from __future__ import annotations

import sqlite3

__all__ = [
    "Busy",
    "DTypeError",
    "Error",
    "Locked",
    "OwnerChanged",
    "ReadOnly",
    "ShapeError",
    "StaleError",
    "translated",
]


class Error(sqlite3.DatabaseError):
    """An error of SQLite or of emb, or a wrong argument.

    `sqlite_errorcode` is SQLite's extended result code, and `sqlite_errorname` its name;
    both are None if the error was found before SQL was executed.
    """

    sqlite_errorcode: int | None = None  # type: ignore[assignment]
    sqlite_errorname: str | None = None  # type: ignore[assignment]


class Busy(Error):
    """Another connection or process holds a key, a lock or the store (SQLITE_BUSY).

    Make the call, or begin the transaction, again.
    """


class StaleError(Busy):
    """A read waited too long for its staleness bound: other readers of the key have not
    written it yet."""


class Locked(Error):
    """The transaction of this connection is in the way (SQLITE_LOCKED)."""


class OwnerChanged(Error):
    """The process that owned the table has gone, and something was lost with it.

    Calls outside a transaction are repeated before this is raised.  Inside one, roll the
    transaction back and begin it again.
    """


class ReadOnly(Error):
    """The database, or this connection to it, cannot be written (SQLITE_READONLY)."""


class DTypeError(Error, TypeError):
    """An array has a type that cannot be converted without loss."""


class ShapeError(Error, ValueError):
    """An array has a wrong shape, or arrays do not fit together."""


_ABORT_ROLLBACK = 516  # SQLITE_ABORT_ROLLBACK
# By the primary result code.
_CLASSES: dict[int, type[Error]] = {5: Busy, 6: Locked, 8: ReadOnly}


def _class_of(code: int, text: str) -> type[Error]:
    if code == _ABORT_ROLLBACK:
        return OwnerChanged
    if code & 0xFF == 5 and "the staleness bound is" in text:
        return StaleError
    return _CLASSES.get(code & 0xFF, Error)


def translated(error: BaseException) -> Error:
    """The `Error` that says what an exception of sqlite3 or apsw says."""
    if isinstance(error, Error):
        return error
    code = getattr(error, "sqlite_errorcode", None)  # sqlite3's
    if code is None:
        code = getattr(error, "extendedresult", None)  # apsw's
    if code is None:
        return Error(str(error))
    # apsw begins with the name of its exception, "SQLError: emb: ...".
    text = str(error)
    name = type(error).__name__ + ": "
    new = _class_of(code, text)(text.removeprefix(name))
    new.sqlite_errorcode = code
    new.sqlite_errorname = getattr(error, "sqlite_errorname", None)
    return new
