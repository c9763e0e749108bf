# SPDX-License-Identifier: MIT
"""`Ahead`: the rows of the next batches are read, and the gradients of the last one applied,
while this one is computed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from .embedding import Embedding

__all__ = ["Ahead"]

Batch = TypeVar("Batch")


class Ahead(Generic[Batch]):
    """Batches of a loader, whose rows are being read when they come, and whose gradients are
    applied in the background.

        for users, items, ratings in Ahead(loader, lambda b: {user_rows: b[0], item_rows: b[1]}):
            loss = ((user_rows(users) * item_rows(items)).sum(1) - ratings)...

    loader   a `DataLoader`, or anything that can be iterated
    keys     of a batch: a dict from `Embedding` to the keys that its forward() will get,
             the very same objects
    batches  how many batches to read ahead

    A batch that was begun sees neither the gradients of the batches before it that are not
    applied yet, nor waits for them, as far as the table's `staleness=` allows.  With
    `staleness=0` a key of two batches in a row is read when the first is applied.
    """

    def __init__(
        self,
        loader: Iterable[Batch],
        keys: Callable[[Batch], Mapping[Embedding, Any]],
        batches: int = 1,
    ) -> None:
        if batches < 1:
            raise ValueError(f"batches is {batches}, and must be at least 1")
        self.loader = loader
        self.keys = keys
        self.batches = batches

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Batch]:
        begun: deque[tuple[Batch, Mapping[Embedding, Any]]] = deque()
        layers: set[Embedding] = set()
        try:
            for batch in self.loader:
                keys = self.keys(batch)
                for layer, of_layer in keys.items():
                    layer.begin(of_layer)
                    layer.apply_later(True)
                    layers.add(layer)
                begun.append((batch, keys))
                if len(begun) > self.batches:
                    yield begun[0][0]
                    self._forget(begun.popleft()[1])
            while begun:
                yield begun[0][0]
                self._forget(begun.popleft()[1])
        finally:
            for _, keys in begun:
                self._forget(keys)
            for layer in layers:
                layer.apply_later(False)

    def _forget(self, keys: Mapping[Embedding, Any]) -> None:
        """Gives up what the program did not use."""
        for layer, of_layer in keys.items():
            layer.forget(of_layer)
