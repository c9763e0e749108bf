# SPDX-License-Identifier: MIT
"""What the methods of `Table` return, made of the rows of SQL."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .arrays import FLOAT32, Shape, unpack_texts

__all__ = ["Array", "DeltaBatch", "Fact", "Float32", "Neighbours", "Sample"]

Array: TypeAlias = NDArray[Any]
Float32: TypeAlias = NDArray[np.float32]
Rows: TypeAlias = list[tuple[Any, ...]]


class Neighbours(NamedTuple):
    """What `Table.nearest` found; shapes [queries, k], or [k] for one query."""

    keys: Array  # int64, or texts; -1 or None where there are fewer rows
    distances: NDArray[np.float64]  # infinity there


class Sample(NamedTuple):
    """What `Table.sample_batch` drew; n rows."""

    keys: Array  # int64 or texts, [n]
    vectors: Float32  # [n, dim]
    probabilities: Float32  # [n]
    expected_counts: Float32  # [n]


class DeltaBatch(NamedTuple):
    """A part of a delta: rows that were put, or keys that were removed."""

    keys: Array  # int64 or texts, [n]: put
    vectors: Float32  # [n, dim]
    versions: NDArray[np.int64]  # [n]
    removed: Array  # int64 or texts, [m]
    reasons: list[str]  # [m]: 'delete', 'expire' or 'evict'


class Fact(NamedTuple):
    """A line of `Table.describe`."""

    name: str
    value: int | str
    remark: str | None


def keys_of(keys: list[Any], text_keys: bool) -> Array:
    """Keys that SQL returned, as an array."""
    return unpack_texts(keys) if text_keys else np.array(keys, np.int64)


def neighbours(rows: Rows, shape: Shape, k: int, text_keys: bool) -> Neighbours:
    """Rows of query, rank, key and distance; shape is that of the queries."""
    count = shape[0] if shape else 1
    keys: Array = np.full((count, k), -1, np.int64)
    if text_keys:
        keys = np.full((count, k), None, object)
    distances = np.full((count, k), np.inf)
    if rows:
        query, rank, key, distance = map(list, zip(*rows))
        place = np.array(query), np.array(rank) - 1
        keys[place] = keys_of(key, text_keys)
        distances[place] = distance
    return Neighbours(keys.reshape(*shape, k), distances.reshape(*shape, k))


def delta_batch(rows: Rows, dim: int, text_keys: bool) -> DeltaBatch:
    """Rows of key, op, vector and version."""
    put = [row for row in rows if row[1] == "put"]
    gone = [row for row in rows if row[1] != "put"]
    vectors = np.frombuffer(b"".join(row[2] for row in put), FLOAT32)
    return DeltaBatch(
        keys_of([row[0] for row in put], text_keys),
        vectors.reshape(len(put), dim),
        np.array([row[3] for row in put], np.int64),
        keys_of([row[0] for row in gone], text_keys),
        [row[1] for row in gone],
    )
