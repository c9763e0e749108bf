# SPDX-License-Identifier: MIT
"""Batches that are read or written while the program goes on."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from .connection import ATTEMPTS
from .errors import Error, OwnerChanged, translated

if TYPE_CHECKING:
    from .arrays import Shape
    from .results import Float32
    from .table import Table

__all__ = ["ApplyAsync", "Prefetch", "WriteBack"]


class _Batch:
    """A call in the background.  It belongs to the thread that began it."""

    begin = end = ""

    def __init__(self, table: Table, *arguments: Any) -> None:
        self._table = table
        self._handle = table.database.handle()
        self._arguments = arguments
        self._done = False
        self._start()

    def _start(self) -> None:
        marks = ", ?" * len(self._arguments)
        self._ticket = self._handle.value(
            f"SELECT {self.begin}(?{marks})", self._table._function_name(), *self._arguments
        )

    def _finish(self) -> Any:
        if self._done:
            raise Error(f"emb: the result of this {type(self).__name__} was taken before")
        if self._table.database.handle() is not self._handle:
            raise Error(f"emb: this {type(self).__name__} belongs to the thread that began it")
        for attempt in range(ATTEMPTS):
            try:
                value = self._wait()
                break
            except OwnerChanged:  # and with it the batch: begin it again
                if self._handle.in_transaction or attempt == ATTEMPTS - 1:
                    raise
                self._start()
        self._done = True
        return value

    def _wait(self) -> Any:
        try:
            return self._handle.execute(
                f"SELECT {self.end}(?, ?)", (self._table._function_name(), self._ticket)
            ).fetchone()[0]
        except self._handle.errors as error:
            raise translated(error) from error

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._done:
            try:
                self._finish()
            except Error:
                if error is None:
                    raise


class Prefetch(_Batch):
    """A batch that is being read (`Table.prefetch`)."""

    begin, end = "emb_prefetch", "emb_prefetch_synchronize"

    def __init__(self, table: Table, packed: Any, shape: Shape) -> None:
        self._shape = shape
        super().__init__(table, packed)

    def __enter__(self) -> Prefetch:
        return self

    def result(self) -> Float32:
        """Waits for the vectors: float32 of the shape of the keys and `dim`, as from
        `Table.get`.  If the owner of the table has gone, reads them again."""
        return self._table._shaped(self._finish() or b"", self._shape, None)


class WriteBack(_Batch):
    """A batch that is being written (`Table.write_back`)."""

    begin, end = "emb_write_back", "emb_write_back_synchronize"

    def __enter__(self) -> WriteBack:
        return self

    def result(self) -> int:
        """Waits until the vectors are written; returns the number of keys."""
        return int(self._finish())


class ApplyAsync(WriteBack):
    """Gradients that are being applied (`Table.apply_async`)."""

    begin = "emb_apply_async"

    def __enter__(self) -> ApplyAsync:
        return self
