# SPDX-License-Identifier: MIT
"""`Table`: an embedding table, with numpy arrays in and out."""

from __future__ import annotations

import itertools
import operator
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrays import (
    FLOAT32,
    Keys,
    Shape,
    Vectors,
    pack_keys,
    pack_texts,
    pack_vectors,
    unpack_keys,
    unpack_texts,
)
from .batch import ApplyAsync, Prefetch, WriteBack
from .connection import Database, Handle
from .errors import DTypeError, Error, ShapeError
from .bags import pack_bags, pooled
from .results import (
    Array,
    DeltaBatch,
    Fact,
    Float32,
    Neighbours,
    Sample,
    delta_batch,
    neighbours,
)
from .sql import create_table, option, options, quoted

__all__ = ["Table"]

_CHUNK = 16_384  # keys of a batch where the caller does not choose


class Table:
    """An embedding table of a database.

    connection  of sqlite3, apsw or SQLAlchemy; or the path of the database.  Loads emb if
                the connection has not loaded it.  Other threads, children after `fork()`,
                and processes to which the table is pickled, open connections of their own
    name        of the table
    schema      the database of the connection, as ATTACH named it

    Keys are integers: numpy arrays, torch tensors or lists, of any integer type and any
    shape.  For a table with text keys they are texts: lists, or arrays of str.  Vectors are
    float32; a result has the shape of the keys and one more axis, `dim`, and is read-only
    where it shares the memory of the BLOB that SQL returned: copy it to change it.

    `put`, `add`, `apply` and `bag_apply` act at once and are not part of a transaction;
    `insert`, `delete` and `from_numpy` are.

    Raises `Error` if there is no such table.  All methods raise `DTypeError` and
    `ShapeError` for wrong arrays, before anything is changed, and `Error` or one of its
    subclasses for what SQL reports.
    """

    def __init__(self, connection: Any, name: str, schema: str = "main") -> None:
        self.database = (
            connection if isinstance(connection, Database) else Database(connection, schema)
        )
        self.name = name
        self._names = f"{self.database.schema}.{name}", f"main.{name}"
        self._dims: dict[str | None, int] = {}
        self._statements: dict[str, str] = {}
        self._read_schema()

    @classmethod
    def create(
        cls,
        connection: Any,
        name: str,
        dim: int | Mapping[str, int],
        *,
        dtype: str = "float32",
        text_keys: bool = False,
        key: str = "key",
        columns: Mapping[str, str] | None = None,
        if_not_exists: bool = False,
        schema: str = "main",
        **settings: Any,
    ) -> Table:
        """Creates the table, and returns it.

        dim            length of the vector; or of several, by the names of their columns
        dtype          'float32' or 'float16': how vectors are stored
        text_keys      keys are texts, not integers
        key            name of the key's column
        columns        auxiliary columns with their types: {'label': 'INTEGER INDEXED'}
        if_not_exists  an existing table of this name is returned as it is, whatever its
                       options; its rows must be as long
        settings       options of the table: memory='1GB', optimizer='adagrad(lr=0.05)'

        The table is made in the connection's transaction, if it has one.
        """
        database = connection
        if not isinstance(connection, Database):
            database = Database(connection, schema, create=True)
        vectors = dim if isinstance(dim, Mapping) else {"vector": dim}
        dims = [_whole(one) for one in vectors.values()]
        stored = str(np.dtype(dtype))
        if stored not in ("float32", "float16"):
            raise DTypeError(f"dtype is {dtype!r}, and must be 'float32' or 'float16'")
        database.handle().rows(
            create_table(
                f"{quoted(database.own_schema)}.{quoted(name)}",
                dict(zip(vectors, dims)),
                dtype=stored,
                text_keys=text_keys,
                key=key,
                columns=columns or {},
                if_not_exists=if_not_exists,
                settings=settings,
            )
        )
        table = cls(database, name)
        if if_not_exists and table.dim != sum(dims):
            raise ShapeError(
                f"the table {name} exists, with rows of {table.dim} floats, not {sum(dims)}"
            )
        return table

    def __repr__(self) -> str:
        where = self.database.path or "a temporary database"
        return f"<sqlite_emb.Table {self.name!r} of {where}>"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_statements": {}}

    def __len__(self) -> int:
        """The number of rows."""
        return int(self._handle().value(f"SELECT count(*) FROM {self._place()}"))

    def __contains__(self, key: Any) -> bool:
        return bool(self.found([key])[0])

    @property
    def dim(self) -> int:
        """Length of a row: of its vector, or of all its vectors together."""
        return self._dim(None)

    # ---- reading -------------------------------------------------------------

    def get(
        self,
        keys: Keys,
        *,
        column: str | None = None,
        peek: bool = False,
        snapshot: str | None = None,
    ) -> Float32:
        """Reads vectors: float32 of the shape of the keys and `dim`.

        column    only the vectors of this column
        peek      do not count the read, nor wait for the staleness bound (see `peek`)
        snapshot  as of this snapshot

        A key may occur several times.  A missing key has the vector that its row would
        begin with.  On a table with `staleness=` each existing key is counted, until this
        thread writes it, and the read may have to wait: `StaleError` after the table's
        timeout.
        """
        packed, shape = self._pack(keys)
        if snapshot is not None:
            return self._get_snapshot(packed, shape, column, snapshot)
        blob = self._call("emb_peek" if peek else "emb_get", packed, column)
        return self._shaped(blob, shape, column)

    def peek(self, keys: Keys, *, column: str | None = None) -> Float32:
        """Reads vectors as `get` does, but is not counted and never waits, and does not
        change which rows are in memory."""
        packed, shape = self._pack(keys)
        return self._shaped(self._call("emb_peek", packed, column), shape, column)

    def found(self, keys: Keys) -> NDArray[np.bool_]:
        """Which keys have a row: bool of the shape of the keys."""
        packed, shape = self._pack(keys)
        blob = self._handle().value("SELECT emb_found(?, ?)", self._function_name(), packed)
        return (
            np.frombuffer(blob, np.bool_).reshape(shape) if blob else np.empty(shape, np.bool_)
        )

    def get_found(self, keys: Keys, *, peek: bool = False) -> tuple[Float32, NDArray[np.bool_]]:
        """The vectors, and which keys have a row, of one moment."""
        packed, shape = self._pack(keys)
        vectors, found = self._handle().row(
            f"SELECT {self._hidden('vectors')}, {self._hidden('found')} "
            f"FROM {self._place()}(?, ?)",
            packed,
            "peek" if peek else None,
        )
        flags = np.frombuffer(found, np.bool_) if found else np.empty(0, np.bool_)
        return self._shaped(vectors, shape, None), flags.reshape(shape)

    def bag(
        self,
        keys: Keys,
        offsets: Any = None,
        mode: str = "sum",
        *,
        weights: Any = None,
        include_last_offset: bool = False,
        column: str | None = None,
        peek: bool = False,
    ) -> Float32:
        """Sums or means of rows, one for each bag: float32 [bags, dim].

        keys     [n], with `offsets`; or [bags, L]: each row is a bag
        offsets  int64 [bags]: where each bag begins; with `include_last_offset`
                 [bags + 1], and the last is n
        mode     'sum', 'mean' or 'sqrtn'
        weights  of the keys, float32 of their shape
        column   only the vectors of this column
        peek     do not count the read, as `peek`
        """
        bags = pack_bags(self._pack(keys), offsets, mode, weights, include_last_offset)
        if peek:
            rows = _floats(self._call("emb_peek", bags.keys, column), (-1, self._dim(column)))
            return pooled(rows, bags)
        arguments = bags.keys, bags.offsets, bags.how, bags.weights, _of(column)
        blob = self._function("emb_bag", *arguments)
        return _floats(blob or b"", (bags.number, self._dim(column)))

    def nearest(
        self,
        queries: Vectors,
        k: int = 10,
        *,
        column: str | None = None,
        exact: bool = False,
        recall: float | None = None,
        probes: int | None = None,
        radius: float | None = None,
        threads: int | None = None,
        snapshot: str | None = None,
        among: Keys | None = None,
        cast: bool = False,
    ) -> Neighbours:
        """The k nearest rows of each query, nearest first.

        queries  float32 [queries, dim]; or [dim]: one query
        column   the vector column; default: the first
        exact    compare every row, even if there is an index
        recall   share of the nearest rows to find with an index, on average over queries,
                 above 0 and at most 1; default: the index's
        probes   how many lists of the index to search, instead of `recall`
        radius   only rows at this distance or less
        among    only rows with these keys

        Distances are those of the table's metric, in double precision.  Returns `Neighbours`
        of shape [queries, k], or [k] for one query.  Where there are fewer than k rows, keys
        are -1 (None for texts) and distances infinity.
        """
        dim = self._dim(column or self._first)
        array = np.asarray(queries)
        shape = array.shape[:-1]
        if array.ndim not in (1, 2):
            axes = f"{array.ndim} axes"
            raise ShapeError(f"queries have {axes}, and need shape [queries, {dim}] or [{dim}]")
        packed = pack_vectors(queries, shape, dim, "queries", cast)
        chosen = [
            ("column", column),
            ("mode", "exact" if exact else None),
            ("recall", recall),
            ("probes", probes),
            ("radius", radius),
            ("threads", threads),
            ("snapshot", snapshot),
        ]
        keys = None if among is None else self._pack(among)[0]
        text = ", ".join(
            f"{name}={option(value)}" for name, value in chosen if value is not None
        )
        rows = (
            self._handle().rows(
                "SELECT query, rank, key, distance FROM emb_nearest(?, ?, ?, ?, ?)",
                self._function_name(),
                packed,
                k,
                text or None,
                keys,
            )
            if packed.size
            else []
        )
        return neighbours(rows, shape, k, self.text_keys)

    def sample(
        self, n: int, distribution: str = "uniform", *, without: Keys | None = None, **more: Any
    ) -> Array:
        """Draws n random keys: [n], or fewer if there are fewer rows.

        distribution  'uniform', 'log-uniform' or 'frequency(0.75)'
        without       keys that are not drawn
        more          seed=, unique=, range=
        """
        keys = None if without is None else self._pack(without)[0]
        return self._unpack(
            self._handle().value(
                "SELECT emb_sample_keys(?, ?, ?, ?, ?)",
                self._function_name(),
                n,
                distribution,
                options(more),
                keys,
            )
        )

    def sample_batch(
        self, n: int, distribution: str = "uniform", *, without: Keys | None = None, **more: Any
    ) -> Sample:
        """Draws n random rows, with the probability and the expected count of each."""
        without_keys = None if without is None else self._pack(without)[0]
        keys, *floats = self._handle().row(
            "SELECT keys, vectors, probabilities, expected_counts "
            "FROM emb_sample_batch(?, ?, ?, ?, ?)",
            self._function_name(),
            n,
            distribution,
            options(more),
            without_keys,
        )
        drawn = self._unpack(keys)
        vectors, probabilities, expected = (_floats(blob, (len(drawn), -1)) for blob in floats)
        return Sample(
            drawn,
            vectors.reshape(-1, self.dim),
            probabilities.reshape(-1),
            expected.reshape(-1),
        )

    def keys(self) -> Array:
        """All keys, in order: int64 or texts, [n]."""
        column = quoted(self._key)
        sql = f"SELECT {column} FROM {self._place()} ORDER BY {column}"
        if self.text_keys:
            return unpack_texts([key for key, in self._handle().rows(sql)])
        blob = self._handle().value(f"SELECT emb_pack({column}) FROM {self._place()}")
        return np.sort(unpack_keys(blob))

    def to_numpy(
        self, *, snapshot: str | None = None, batch_size: int = _CHUNK
    ) -> tuple[Array, Float32]:
        """All keys, in order, and their vectors: [n] and float32 [n, dim].

        snapshot  as of this snapshot; otherwise rows that change meanwhile are read as
                  they are when their batch is read
        """
        if snapshot is None:
            keys = self.keys()
        else:
            sql = f"SELECT {quoted(self._key)} FROM {self._place()} "
            sql += f"WHERE {self._hidden('snapshot')} = ?"
            found = [key for key, in self._handle().rows(sql, snapshot)]
            keys = np.sort(unpack_texts(found) if self.text_keys else np.array(found, np.int64))
        vectors = np.empty((len(keys), self.dim), FLOAT32)
        for start in range(0, len(keys), batch_size):
            batch = keys[start : start + batch_size]
            vectors[start : start + batch_size] = self.get(batch, peek=True, snapshot=snapshot)
        return keys, vectors

    # ---- writing -------------------------------------------------------------

    def put(
        self,
        keys: Keys,
        vectors: Vectors,
        *,
        updated_at: float | None = None,
        column: str | None = None,
        cast: bool = False,
    ) -> int:
        """Writes vectors at once, outside any transaction; returns the number of keys.

        vectors     of the shape of the keys and `dim`
        column      writes only this column; `dim` is its length.  So for `add`, `apply`
                    and `bag_apply`
        updated_at  seconds since 1970, on a table with track='data'
        cast        round float64 and large integers
        """
        packed, shape = self._pack(keys)
        rows = self._rows(vectors, shape, "vectors", cast, column)
        return int(self._function("emb_put", packed, rows, updated_at, _of(column)))

    def add(
        self,
        keys: Keys,
        deltas: Vectors,
        *,
        updated_at: float | None = None,
        column: str | None = None,
        cast: bool = False,
    ) -> int:
        """Adds to the vectors of existing keys, at once and atomically for each key; returns
        the number of keys found.  Deltas of a repeated key add up."""
        packed, shape = self._pack(keys)
        rows = self._rows(deltas, shape, "deltas", cast, column)
        return int(self._function("emb_rmw", packed, rows, updated_at, _of(column)))

    def apply(
        self,
        keys: Keys,
        gradients: Vectors,
        *,
        lr: float | None = None,
        step: int | None = None,
        updated_at: float | None = None,
        column: str | None = None,
        cast: bool = False,
    ) -> int:
        """Makes a step of the table's optimizer with each gradient, at once; returns the
        number of keys that already had a row.

        gradients  of the shape of the keys and `dim`; those of a repeated key add up
        lr, step   replace the optimizer's learning rate, and the row's number of steps
        """
        packed, shape = self._pack(keys)
        rows = self._rows(gradients, shape, "gradients", cast, column)
        how = lr, step, updated_at, _of(column)
        return int(self._function("emb_apply", packed, rows, *how))

    def bag_apply(
        self,
        keys: Keys,
        offsets: Any,
        gradients: Vectors,
        mode: str = "sum",
        *,
        weights: Any = None,
        include_last_offset: bool = False,
        lr: float | None = None,
        step: int | None = None,
        column: str | None = None,
        cast: bool = False,
    ) -> int:
        """Applies the gradients of the vectors that `bag` returned, float32 [bags, dim];
        returns the number of keys found."""
        bags = pack_bags(self._pack(keys), offsets, mode, weights, include_last_offset)
        rows = self._rows(gradients, (bags.number,), "gradients", cast, column)
        how = bags.weights, lr, step, None, _of(column)
        return int(
            self._function("emb_bag_apply", bags.keys, bags.offsets, bags.how, rows, *how)
        )

    def insert(self, keys: Keys, vectors: Vectors, *, cast: bool = False) -> int:
        """Writes vectors as part of the connection's transaction, together with its ordinary
        rows; returns the number of keys.  Outside a transaction all rows are written, durably,
        or none."""
        packed, shape = self._pack(keys)
        rows = self._rows(vectors, shape, "vectors", cast)
        self._handle().rows(
            f"INSERT INTO {self._place()}({self._hidden('keys')}, {self._hidden('vectors')}) "
            "VALUES (?, ?)",
            packed,
            rows,
        )
        return int(np.prod(shape))

    def delete(self, keys: Keys) -> int:
        """Deletes rows, as part of the connection's transaction; returns their number."""
        packed, _ = self._pack(keys)
        values = "json_each(?)" if self.text_keys else "emb_keys(?)"
        return self._handle().changed(
            f"DELETE FROM {self._place()} "
            f"WHERE {quoted(self._key)} IN (SELECT value FROM {values})",
            packed,
        )

    def from_numpy(
        self, keys: Keys, vectors: Vectors, *, batch_size: int = _CHUNK, cast: bool = False
    ) -> int:
        """Writes many rows in one transaction, or as part of the connection's; returns their
        number.  Rows of other keys stay."""
        array = (
            keys
            if isinstance(keys, np.ndarray)
            else np.asarray(keys, object if self.text_keys else None)
        )
        rows = vectors if hasattr(vectors, "__getitem__") else list(vectors)
        if array.ndim != 1 or len(array) != len(rows):
            raise ShapeError(f"{len(rows)} vectors for keys of shape {list(array.shape)}")
        handle = self._handle()
        own = not handle.in_transaction
        handle.rows("BEGIN IMMEDIATE" if own else "SAVEPOINT from_numpy")
        try:
            for start in range(0, len(array), batch_size):
                self.insert(
                    array[start : start + batch_size],
                    rows[start : start + batch_size],
                    cast=cast,
                )
        except BaseException:
            handle.rows("ROLLBACK" if own else "ROLLBACK TO from_numpy")
            if not own:
                handle.rows("RELEASE from_numpy")
            raise
        handle.rows("COMMIT" if own else "RELEASE from_numpy")
        return len(array)

    def release(self) -> int:
        """Gives back all reads of this thread that are counted (see `get`); returns their
        number."""
        return int(self._handle().value("SELECT emb_release(?)", self._function_name()))

    # ---- in the background ---------------------------------------------------

    def prefetch(self, keys: Keys) -> Prefetch:
        """Begins to read vectors while this thread goes on:

            with items.prefetch(next_keys) as batch:
                compute(vectors)
                vectors = batch.result()

        The read counts as `get` does.
        """
        packed, shape = self._pack(keys)
        return Prefetch(self, packed, shape)

    def write_back(self, keys: Keys, vectors: Vectors, *, cast: bool = False) -> WriteBack:
        """Begins to write vectors, as `put` does, while this thread goes on; the end of a
        `with` block, or `result()`, waits for it."""
        packed, shape = self._pack(keys)
        return WriteBack(self, packed, self._rows(vectors, shape, "vectors", cast))

    def apply_async(
        self,
        keys: Keys,
        gradients: Vectors,
        *,
        lr: float | None = None,
        step: int | None = None,
        cast: bool = False,
    ) -> ApplyAsync:
        """Begins to make steps of the optimizer, as `apply` does, while this thread goes on;
        the end of a `with` block, or `result()`, waits for them."""
        packed, shape = self._pack(keys)
        rows = self._rows(gradients, shape, "gradients", cast)
        return ApplyAsync(self, packed, rows, lr, step)

    def lookahead(self, keys: Keys) -> int:
        """Begins to bring rows from the disk into memory, for any reader; returns how many
        are on the disk."""
        packed, _ = self._pack(keys)
        return int(
            self._handle().value(
                "SELECT to_read FROM emb_lookahead(?, ?)", self._function_name(), packed
            )
        )

    # ---- snapshots and deltas ------------------------------------------------

    def snapshot(self, name: str) -> int:
        """Keeps the table as it is now, under a name; returns the number of rows."""
        return int(self._function("emb_snapshot", name))

    def snapshots(self) -> list[str]:
        """The names of the snapshots, oldest first."""
        return [
            name
            for name, in self._handle().rows(
                "SELECT name FROM emb_snapshots(?)", self._function_name()
            )
        ]

    def snapshot_drop(self, name: str) -> None:
        """Removes a snapshot."""
        self._function("emb_snapshot_drop", name)

    def snapshot_export(self, name: str, path: str | os.PathLike[str], **more: Any) -> int:
        """Writes a snapshot to a file; returns the number of rows.  Options: quantize=, level=,
        state=, index=, base=."""
        return int(self._function("emb_snapshot_export", name, os.fspath(path), options(more)))

    def restore(self, path: str | os.PathLike[str]) -> int:
        """Makes the table's contents those of a snapshot's file; returns the number of rows."""
        return int(self._function("emb_snapshot_restore", os.fspath(path)))

    def delta(self, consumer: str, *, batch_size: int = _CHUNK) -> Iterator[DeltaBatch]:
        """The changes since the consumer's last `delta_ack`, in batches: all rows that were
        put, then all keys that were removed.  After the last batch, `delta_ack(consumer)`
        acknowledges them; otherwise they come again."""
        handle = self._handle()
        rows = handle.each(
            "SELECT key, op, vector, version FROM emb_delta(?, ?)",
            self._function_name(),
            consumer,
        )
        while True:
            with handle.texts():
                part = list(itertools.islice(rows, batch_size))
            if not part:
                break
            yield delta_batch(part, self.dim, self.text_keys)

    def delta_ack(self, consumer: str) -> None:
        """Acknowledges the consumer's newest complete delta."""
        self._function("emb_delta_ack", consumer)

    def delta_begin(self, consumer: str, where: str = "all") -> None:
        """Makes a consumer start over: with 'all' rows, or with changes from 'now' on."""
        self._function("emb_delta_begin", consumer, where)

    def delta_drop(self, consumer: str) -> None:
        """Removes a consumer."""
        self._function("emb_delta_drop", consumer)

    def delta_export(self, consumer: str, path: str | os.PathLike[str], **more: Any) -> int:
        """Writes the consumer's next delta to a file; returns the number of rows."""
        return int(self._function("emb_delta_export", consumer, os.fspath(path), options(more)))

    def delta_apply(self, path: str | os.PathLike[str]) -> int:
        """Applies a delta's file to this table; returns the number of rows changed."""
        return int(self._function("emb_delta_apply", os.fspath(path)))

    # ---- the table itself ----------------------------------------------------

    def stats(self) -> dict[str, Any]:
        """The metrics of the store, by name."""
        rows = self._handle().rows(
            "SELECT name, value FROM emb_stats(?)", self._function_name()
        )
        return {name: value for name, value in rows}

    def describe(self) -> list[Fact]:
        """What one asks of a table first: rows, memory, hit rate, owner, what to change."""
        return [
            Fact(*row)
            for row in self._handle().rows(
                "SELECT name, value, remark FROM emb_describe(?)", self._function_name()
            )
        ]

    def command(self, command: str, argument: Any = None) -> None:
        """Runs a command of the table: 'checkpoint', 'optimize', 'memory', 'set timeout'..."""
        self._handle().rows(
            f"INSERT INTO {self._place()}({quoted(self._command)}, {self._hidden('arg')}) "
            "VALUES (?, ?)",
            command,
            argument,
        )

    def drop(self) -> None:
        """Drops the table, as part of the connection's transaction."""
        self._handle().rows(f"DROP TABLE {self._place()}")

    # ---- how names and arrays reach SQL --------------------------------------

    def _handle(self) -> Handle:
        return self.database.handle()

    def _place(self) -> str:
        return f"{quoted(self.database.own_schema)}.{quoted(self.name)}"

    def _function_name(self) -> str:
        """The table in this thread's connection, as the functions take it."""
        return self._names[self.database.handle().own]

    def _read_schema(self) -> None:
        columns = self._handle().rows(
            "SELECT name, type, pk, hidden FROM pragma_table_xinfo(?, ?)",
            self.name,
            self.database.own_schema,
        )
        hidden = [name for name, _, _, how in columns if how == 1]
        # With the option hidden_prefix the names of all hidden columns begin with it.
        prefix = next((name[:-8] for name in hidden if name.endswith("versions")), None)
        if prefix is None:
            what = "is not an emb table" if columns else "does not exist"
            raise Error(f"emb: the table {self.name} {what}; Table.create() makes one")
        self._key, kind = next((name, kind) for name, kind, pk, _ in columns if pk)
        self.text_keys = kind == "TEXT"
        self._pack: Callable[[Keys], tuple[Any, Shape]] = (
            pack_texts if self.text_keys else pack_keys
        )
        self._first = columns[1][0]  # the first vector
        self._command = self.name if self.name in hidden else prefix + "command"
        self._prefix = prefix

    def _hidden(self, name: str) -> str:
        """The quoted name of a hidden column."""
        return quoted(self._prefix + name)

    def _dim(self, column: str | None) -> int:
        if column not in self._dims:
            packed = self._pack(["" if self.text_keys else 0])[0]
            self._dims[column] = len(self._call("emb_peek", packed, column)) // 4
        return self._dims[column]

    def _unpack(self, keys: Any) -> Array:
        if not self.text_keys:
            return unpack_keys(keys)
        import json

        return unpack_texts(json.loads(keys) if keys else [])

    def _call(self, function: str, packed: Any, column: str | None) -> bytes:
        """`emb_get` or `emb_peek`."""
        if column is None:
            handle = self.database.handle()
            sql = f"SELECT {function}(?, ?)"
            return handle.blob(sql, self._names[handle.own], packed) or b""
        return self._function(function, packed, _of(column)) or b""

    def _rows(
        self, vectors: Vectors, shape: Shape, what: str, cast: bool, column: str | None = None
    ) -> Float32:
        """Rows of the table, or of a column, for keys of this shape."""
        try:
            return pack_vectors(vectors, shape, self._dim(column), what, cast)
        except ShapeError:
            self._dims.clear()  # the table may have been made again
            return pack_vectors(vectors, shape, self._dim(column), what, cast)

    def _function(self, function: str, *arguments: Any) -> Any:
        marks = ", ?" * len(arguments)
        return self._handle().value(
            f"SELECT {function}(?{marks})", self._function_name(), *arguments
        )

    def _shaped(self, blob: bytes, shape: Shape, column: str | None) -> Float32:
        dim = self._dims.get(column) or self._dim(column)
        if not blob:
            return np.empty((*shape, dim), FLOAT32)
        try:
            return np.frombuffer(blob, FLOAT32).reshape((*shape, dim))
        except ValueError:  # the table was made again, with another dimension
            self._dims.clear()
            return _floats(blob, (*shape, self._dim(column)))

    def _get_snapshot(
        self, packed: Any, shape: Shape, column: str | None, snapshot: str
    ) -> Float32:
        if column is not None:
            raise Error("emb: a snapshot is read with all columns: leave column= away")
        blob = self._handle().value(
            f"SELECT {self._hidden('vectors')} FROM {self._place()}(?) "
            f"WHERE {self._hidden('snapshot')} = ?",
            packed,
            snapshot,
        )
        return self._shaped(blob or b"", shape, None)


def _of(column: str | None) -> str | None:
    """The option of a call that is for one column."""
    return None if column is None else f"column={option(column)}"


def _whole(dim: Any) -> int:
    try:
        return operator.index(dim)
    except TypeError as error:
        raise DTypeError(f"dim is {dim!r}, and must be a whole number") from error


def _floats(blob: bytes, shape: Shape) -> Float32:
    return np.frombuffer(blob, FLOAT32).reshape(shape)
