# SPDX-License-Identifier: MIT
"""Bags: lists of keys whose rows are summed or averaged."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .arrays import FLOAT32, Shape, pack_keys, pack_vectors
from .errors import Error, ShapeError
from .results import Float32

__all__ = ["Bags", "pack_bags", "pooled"]


class Bags(NamedTuple):
    """The arguments of `emb_bag`."""

    keys: Any  # of all bags, packed
    offsets: NDArray[np.int64]  # [bags], or [bags + 1] with the last
    mode: str
    weights: Float32 | None  # of the shape of the keys
    last: bool  # do the offsets include the last?

    @property
    def how(self) -> str:
        """The mode, with its option."""
        return f"{self.mode}(include_last_offset=1)" if self.last else self.mode

    @property
    def number(self) -> int:
        """The number of bags."""
        return max(len(self.offsets) - self.last, 0)


def pack_bags(
    keys: tuple[Any, Shape], offsets: Any, mode: str, weights: Any, last: bool
) -> Bags:
    """Packed keys with their shape, offsets and weights as `Table.bag` takes them."""
    packed, shape = keys
    if mode not in ("sum", "mean", "sqrtn"):
        raise Error(f"emb: mode is {mode!r}, and must be 'sum', 'mean' or 'sqrtn'")
    if offsets is None:
        if len(shape) != 2:
            raise ShapeError(
                f"keys have shape {list(shape)}: without offsets they need [bags, length]"
            )
        places = np.arange(shape[0] + last, dtype=np.int64) * shape[1]
    else:
        if len(shape) != 1:
            raise ShapeError(f"keys have shape {list(shape)}: with offsets they need [n]")
        places, where = pack_keys(offsets)
        if len(where) != 1:
            raise ShapeError(f"offsets have shape {list(where)}, and need [bags]")
    if weights is not None:
        weights = pack_vectors(weights, shape, None, "weights", cast=True)
    return Bags(packed, places, mode, weights, last)


def pooled(rows: Float32, bags: Bags) -> Float32:
    """What `emb_bag` returns, of rows that were read without it; adds in its order."""
    edges = bags.offsets if bags.last else np.append(bags.offsets, len(rows))
    counts = np.diff(edges)
    if bags.number and (edges[0] != 0 or edges[-1] != len(rows) or counts.min() < 0):
        raise ShapeError(f"offsets must rise from 0 to at most {len(rows)}, the number of keys")
    if bags.weights is not None:
        rows = rows * bags.weights.reshape(-1, 1)
    sums = np.zeros((len(counts), rows.shape[1]), FLOAT32)
    np.add.at(sums, np.repeat(np.arange(len(counts)), counts), rows)
    divisors = np.maximum(counts, 1).astype(FLOAT32)[:, None]
    if bags.mode == "mean":
        sums /= divisors
    elif bags.mode == "sqrtn":
        sums /= np.sqrt(divisors)
    return sums
