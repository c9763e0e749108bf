#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes a database of ratings and clicks to train on.

    samples.py DATABASE [--ratings N] [--clicks N] [--users N] [--seed N]

Ratings come from a matrix of low rank with noise, clicks from a model like that of
dlrm.py.  The keys follow a power law.  Each has a table to train on and one that is held
out, in random order.  Beside the database, NAME.npy has the rows with which the table NAME
of factorize.py or dlrm.py begins, so that nn.Embedding can begin with them, too.
"""

import argparse
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np

import sqlite_emb

DIM = 64  # floats of a row
INITIAL: dict[str, Any] = {"initializer": "uniform(low=0, high=0.2)", "seed": 1}  # of the rows
ROW = 2 * 4 * DIM  # bytes: the vector and Adagrad's state
BASE = 3 - DIM * 0.1**2  # what the product of two new rows lacks to the mean rating
RANK = 4  # of what is to be learnt
CHUNK = 100_000  # rows made at once


def sizes(users: int) -> dict[str, int]:
    """The number of keys of each table of vectors."""
    half = users // 2
    return {"user": users, "item": half, "page": half, "advertiser": 2 * users // 5}


def draw(random: Any, keys: int, n: int) -> Any:
    """n keys by a power law: the first are frequent."""
    return (keys * random.random(n) ** 5).astype("i8")


def ratings(random: Any, hidden: dict[str, Any], n: int) -> list[Any]:
    """n ratings: columns user, item, rating."""
    user, item = (draw(random, len(hidden[name]), n) for name in ("user", "item"))
    score = (hidden["user"][user] * hidden["item"][item]).sum(1)
    return [user, item, 3 + (score - 2) / 3 + random.normal(0, 0.3, n)]


def clicks(random: Any, hidden: dict[str, Any], n: int) -> list[Any]:
    """n clicks: columns of the keys, of four dense features, and clicked."""
    keys = [draw(random, len(vectors), n) for vectors in hidden.values()]
    dense = random.normal(size=(n, 4))
    vectors = [vectors[of] for vectors, of in zip(hidden.values(), keys)]
    pairs = sum((a * b).sum(1) for i, a in enumerate(vectors) for b in vectors[:i])
    score = (pairs - 12) / 4 + dense @ [0.8, -0.6, 0.4, 0.2] - 1
    clicked = random.random(n) < 1 / (1 + np.exp(-score))
    return [*keys, *dense.T, clicked.astype("i8")]


def fill(db: sqlite3.Connection, table: str, columns: str, n: int, make: Any) -> None:
    """Makes a table and n rows of it."""
    db.execute(f"CREATE TABLE {table}(id INTEGER PRIMARY KEY, {columns})")
    marks = ", ?" * len(columns.split(","))
    db.execute("BEGIN")
    for start in range(0, n, CHUNK):
        rows = zip(*(column.tolist() for column in make(min(CHUNK, n - start))))
        db.executemany(f"INSERT INTO {table} VALUES (NULL{marks})", rows)
    db.execute("COMMIT")


def initial(directory: Path, keys: dict[str, int]) -> None:
    """Writes the rows with which the tables begin."""
    with sqlite_emb.connect(":memory:") as db:
        table = sqlite_emb.Table.create(db, "initial", DIM, **INITIAL)
        for name, n in keys.items():
            np.save(directory / f"{name}.npy", table.peek(np.arange(n)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("database", type=Path)
    parser.add_argument("--ratings", type=int, default=1_000_000)
    parser.add_argument("--clicks", type=int, default=500_000)
    parser.add_argument("--users", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    keys = sizes(options.users)
    random = np.random.default_rng(options.seed)
    hidden = {name: random.normal(0.7, 1, (n, RANK)) for name, n in keys.items()}
    db = sqlite3.connect(options.database, isolation_level=None)
    for end, share in ("", 1.0), ("_held_out", 0.05):
        columns = "user INTEGER, item INTEGER, rating REAL"
        n = int(options.ratings * share)
        fill(db, "rating" + end, columns, n, lambda n: ratings(random, hidden, n))
        columns = ", ".join([*keys, *(f"dense{i} REAL" for i in range(1, 5)), "clicked"])
        n = int(options.clicks * share)
        fill(db, "click" + end, columns, n, lambda n: clicks(random, hidden, n))
    db.close()
    initial(options.database.parent, keys)


if __name__ == "__main__":
    main()
