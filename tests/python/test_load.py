# SPDX-License-Identifier: MIT
"""sqlite_emb.load: the drivers, their errors, and that loading stays disabled."""

import sqlite3
from pathlib import Path

import sqlite_emb


def test_sqlite3(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "test.db")
    assert sqlite_emb.load(db) is db
    db.execute("CREATE VIRTUAL TABLE items USING emb(vector FLOAT[4])")
    assert db.execute("SELECT count(*) FROM items").fetchone() == (0,)
