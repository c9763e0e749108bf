# SPDX-License-Identifier: MIT
"""Datasets over SQL.  Each worker of a `DataLoader`, of each process of a distributed
program, opens its own read-only connection, and gets its own part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from ..arrays import pack_keys
from ..connection import Database
from ..errors import Error
from ..sql import quoted

__all__ = ["Query", "Rows", "Samples"]


def _part() -> tuple[int, int]:
    """The number of this worker, and of all: processes times workers of each."""
    info = get_worker_info()  # type: ignore[no-untyped-call]
    worker, workers = (info.id, info.num_workers) if info else (0, 1)
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
        return rank * workers + worker, ranks * workers
    return worker, workers


class Query(IterableDataset):  # type: ignore[type-arg]
    """The rows of a SELECT, as tuples.

    connection  of the database, or its path
    sql         a SELECT with an order that does not change, such as ORDER BY rowid
    arguments   of the SELECT
    split       a column of the SELECT whose integers say which worker a row belongs to.
                Without it the rows are counted, and each worker runs the whole SELECT; then
                nobody may write its tables meanwhile

    Each row comes exactly once, in one of the workers.
    """

    def __init__(
        self,
        connection: Any,
        sql: str,
        arguments: Sequence[Any] = (),
        *,
        split: str | None = None,
    ) -> None:
        self.database = Database(connection)
        self.sql = sql
        self.arguments = tuple(arguments)
        self.split = split

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        part, parts = _part()
        handle = self.database.handle()
        if parts == 1:
            yield from handle.each(self.sql, *self.arguments)
        elif self.split is None:
            for number, row in enumerate(handle.each(self.sql, *self.arguments)):
                if number % parts == part:
                    yield row
        else:
            column = quoted(self.split)
            yield from handle.each(
                f"SELECT * FROM ({self.sql}) "
                f"WHERE ({column} % {parts} + {parts}) % {parts} = {part}",
                *self.arguments,
            )


class Rows(Dataset):  # type: ignore[type-arg]
    """Rows by their ids, for a `DataLoader` that shuffles; a map-style dataset.

    connection  of the database, or its path
    ids         an array of ids; or a SELECT of them, which is run once, at once
    sql         a SELECT of one row with one parameter, its id:
                'SELECT user, item, rating FROM ratings WHERE id = ?'

    rows[i] is the row of ids[i], a tuple.
    """

    def __init__(self, connection: Any, ids: Any, sql: str) -> None:
        self.database = Database(connection)
        if isinstance(ids, str):
            ids = [id for id, in self.database.handle().rows(ids)]
        self.ids = pack_keys(ids)[0]
        self.sql = sql

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, i: int) -> tuple[Any, ...]:
        id = int(self.ids[i])
        row: tuple[Any, ...] | None = self.database.handle().row(self.sql, id)
        if row is None:
            raise Error(f"emb: the SELECT of Rows has no row for the id {id}")
        return row


class Samples(IterableDataset):  # type: ignore[type-arg]
    """The samples of an `emb_samples` table, as tuples.

    columns     of `emb_samples_worker`: 'key', 'payload', 'label', 'timestamp', 'dataset',
                'path'
    start, end  only samples from this time on, and before this time

    Each sample comes exactly once, in one of the workers, which read long pieces of the
    files.
    """

    def __init__(
        self,
        connection: Any,
        name: str,
        columns: Sequence[str] = ("payload", "label"),
        *,
        start: int | None = None,
        end: int | None = None,
    ) -> None:
        self.database = Database(connection)
        self.name = name
        self.columns = tuple(columns)
        self.interval = start, end

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        columns = ", ".join(map(quoted, self.columns))
        return self.database.handle().each(
            f"SELECT {columns} FROM emb_samples_worker(?, ?, ?, ?, ?)",
            self.name,
            *_part(),
            *self.interval,
        )
