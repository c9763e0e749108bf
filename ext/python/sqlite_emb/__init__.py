# SPDX-License-Identifier: MIT
"""Embedding tables for SQLite, larger than memory.

    import sqlite3, sqlite_emb
    db = sqlite_emb.load(sqlite3.connect("app.db"))
    db.execute("CREATE VIRTUAL TABLE items USING emb(vector FLOAT[64])")

Importing this module and loading emb need no numpy.
"""

from .errors import Error
from .extension import load, loadable_path

__all__ = ["Error", "load", "loadable_path"]


def __getattr__(name: str) -> str:
    """__version__: that of the installed package, which is emb_version()."""
    if name == "__version__":
        from importlib.metadata import version

        return version("sqlite-emb")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
