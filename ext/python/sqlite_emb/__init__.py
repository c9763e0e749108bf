# SPDX-License-Identifier: MIT
"""Embedding tables for SQLite, larger than memory.

    import sqlite_emb
    db = sqlite_emb.connect("app.db")          # or load(), into a connection that you have
    items = sqlite_emb.Table.create(db, "items", dim=64, optimizer="adagrad(lr=0.05)")
    items.put(keys, vectors)                   # numpy arrays
    rows = items.get(keys)

`Table` needs numpy; importing this module and loading emb do not.  Layers of PyTorch are
in `sqlite_emb.torch`.
"""

from typing import TYPE_CHECKING, Any

from .connection import connect
from .errors import (
    Busy,
    DTypeError,
    Error,
    Locked,
    OwnerChanged,
    ReadOnly,
    ShapeError,
    StaleError,
)
from .extension import load, loadable_path

if TYPE_CHECKING:
    from .table import Table

__all__ = [
    "Busy",
    "DTypeError",
    "Error",
    "Locked",
    "OwnerChanged",
    "ReadOnly",
    "ShapeError",
    "StaleError",
    "Table",
    "connect",
    "load",
    "loadable_path",
]


def __getattr__(name: str) -> Any:
    if name == "Table":
        from .table import Table

        return Table
    if name == "__version__":  # that of the installed package, which is emb_version()
        from importlib.metadata import version

        return version("sqlite-emb")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
