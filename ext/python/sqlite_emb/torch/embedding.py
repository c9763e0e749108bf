# SPDX-License-Identifier: MIT
"""Layers whose rows are in an embedding table.

`forward` reads the rows of a batch by one call, and `backward` applies their gradients by
another.  Neither needs the keys to be unique: the table reads a repeated key once, and adds
up its gradients before it makes one step.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ..arrays import pack_keys
from ..batch import ApplyAsync, Prefetch
from ..errors import Error
from ..table import Table

__all__ = ["Collection", "Embedding", "EmbeddingBag"]

Keys = Any  # a tensor of integers; for text keys, lists of str


class _Rows(torch.autograd.Function):
    """apply(anchor, rows, send): rows of a table, which are no parameters: `send` gets their
    gradients."""

    @staticmethod
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Tensor:
        _, rows, ctx.send = args
        result: Tensor = rows
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, None]:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "rows of an embedding table have no second derivative: call backward() "
                "without create_graph=True"
            )
        ctx.send(gradients[0])
        return None, None, None


class _Layer(nn.Module):
    """What the layers have in common."""

    def __init__(
        self,
        table: Table,
        padding_idx: int | None,
        max_norm: float | None,
        scale_grad_by_freq: bool,
        lr: float | None,
    ) -> None:
        super().__init__()
        if not isinstance(table, Table):
            raise TypeError(
                f"table is {type(table).__name__}, and must be a sqlite_emb.Table: its rows are "
                "those of the layer, so num_embeddings is not given"
            )
        if max_norm is not None:
            raise ValueError(
                "max_norm would write rows in forward(), while other workers train them: "
                "normalize the vectors in the loss, or with emb_normalize() in SQL"
            )
        if scale_grad_by_freq:
            raise ValueError(
                "scale_grad_by_freq: the table adds up the gradients of a repeated key; divide "
                "the loss of each row by the key's count in the batch"
            )
        if padding_idx is not None and table.text_keys:
            raise ValueError("padding_idx is an integer, and the table's keys are texts")
        self.table = table
        self.padding_idx = padding_idx
        self.lr = lr
        self.snapshot_name: str | None = None  # of what state_dict() names
        # Something that needs a gradient, so that backward() comes here.
        self._anchor = torch.zeros((), requires_grad=True)

    @classmethod
    def create(cls, connection: Any, name: str, dim: int, **options: Any) -> Any:
        """Makes the table if it does not exist, by `Table.create`, and its layer.

        The layer's own arguments may be among the options.
        """
        own = {
            "padding_idx",
            "max_norm",
            "scale_grad_by_freq",
            "lr",
            "mode",
            "include_last_offset",
        }
        mine = {option: options.pop(option) for option in own & options.keys()}
        return cls(Table.create(connection, name, dim, if_not_exists=True, **options), **mine)

    @property
    def embedding_dim(self) -> int:
        """Length of a row."""
        return self.table.dim

    @property
    def num_embeddings(self) -> int:
        """The number of rows that the table has now."""
        return len(self.table)

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.table.name!r}, {self.table.dim}{padding}"

    def snapshot(self, name: str) -> None:
        """Keeps the table's rows as they are now, and lets `state_dict()` name them."""
        self.table.snapshot(name)
        self.snapshot_name = name

    def get_extra_state(self) -> dict[str, Any]:
        """The table's name and that of its snapshot, for `state_dict()`."""
        return {"table": self.table.name, "dim": self.table.dim, "snapshot": self.snapshot_name}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """For `load_state_dict()`: makes the table's rows those of the snapshot, if one is
        named; otherwise the table stays as it is."""
        if state["dim"] != self.table.dim:
            name, dim = self.table.name, self.table.dim
            raise Error(f"emb: the state has rows of {state['dim']} floats, {name} of {dim}")
        self.snapshot_name = state["snapshot"]
        if self.snapshot_name is None:
            return
        folder = Path(self.table.database.path).parent if self.table.database.path else None
        with tempfile.TemporaryDirectory(dir=folder) as directory:
            file = str(Path(directory) / "snapshot")
            self.table.snapshot_export(self.snapshot_name, file)
            self.table.restore(file)

    def release(self) -> None:
        """Gives back the reads of batches without a backward pass (`Table.release`)."""
        self.table.release()

    @property
    def _trains(self) -> bool:
        return self.training and torch.is_grad_enabled()


def _tensor(rows: Any) -> Tensor:
    """Rows as a tensor that may be changed."""
    return torch.from_numpy(rows.copy())


def _array(gradients: Tensor) -> Any:
    return gradients.detach().float().numpy()


class _Begun(NamedTuple):
    """A batch whose rows are read, or being read."""

    keys: Keys  # as the program gave them
    packed: Any  # the keys to read, those that are not padding
    real: Any  # which of all keys they are, bool of `shape`; None: all
    shape: Any
    rows: Any  # float32, or a Prefetch

    def give_up(self) -> None:
        if isinstance(self.rows, Prefetch):
            self.rows.result()


class Embedding(_Layer):
    """Rows by their keys, as `torch.nn.Embedding`.

    table        a `sqlite_emb.Table`
    padding_idx  this key's rows are zeros, and have no gradient
    lr           learning rate of each step, instead of that of the table's optimizer; may be
                 changed, as by a schedule
    max_norm, scale_grad_by_freq
                 are refused, with the reason

    forward(keys): integers of any shape, or texts; float32 of their shape and `dim`.  The
    backward pass makes a step of the table's optimizer at once.  In `eval()` mode and under
    `no_grad()` rows are peeked: such a read is not counted, and adds no row.

    Keys are on the CPU, and so are the rows: layer(keys.cpu()).to(device).

    Sparse gradients, `num_embeddings` and an initial weight have no meaning here: the table
    grows, and its `initializer=` says what a new row is.
    """

    def __init__(
        self,
        table: Table,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        scale_grad_by_freq: bool = False,
        *,
        lr: float | None = None,
    ) -> None:
        super().__init__(table, padding_idx, max_norm, scale_grad_by_freq, lr)
        self._begun: deque[_Begun] = deque()
        self._steps: deque[ApplyAsync] | None = None  # in flight; None: made at once

    def forward(self, keys: Keys) -> Tensor:
        return self._finish(self._begin(keys, later=False))

    def begin(self, keys: Keys) -> None:
        """Begins to read the rows that `forward(keys)` will need, with the same object."""
        self._begun.append(self._read(keys, later=True))

    def forget(self, keys: Keys) -> None:
        """Gives up the rows of a batch that was begun and not used, and of those before."""
        if any(begun.keys is keys for begun in self._begun):
            self._take(keys).give_up()

    def apply_later(self, later: bool) -> None:
        """Makes steps in the background, one at a time, or waits for them from now on."""
        if later and self._steps is None:
            self._steps = deque()
        elif not later and self._steps is not None:
            steps, self._steps = self._steps, None
            for step in steps:
                step.result()

    def _step(self, keys: Any, gradients: Any) -> None:
        if self._steps is None:
            self.table.apply(keys, gradients, lr=self.lr)
            return
        while self._steps:
            self._steps.popleft().result()
        self._steps.append(self.table.apply_async(keys, gradients, lr=self.lr))

    def _take(self, keys: Keys) -> _Begun:
        """The batch of these keys; those before it are given up."""
        while True:
            begun = self._begun.popleft()
            if begun.keys is keys:
                return begun
            begun.give_up()

    def _begin(self, keys: Keys, later: bool) -> _Begun:
        if any(begun.keys is keys for begun in self._begun):
            return self._take(keys)
        return self._read(keys, later)

    def _read(self, keys: Keys, later: bool) -> _Begun:
        """Reads the rows of a batch, or begins to."""
        packed, real, shape = keys, None, None
        if not self.table.text_keys:
            packed, shape = pack_keys(keys)
            if self.padding_idx is not None:
                real = packed != self.padding_idx
                packed = packed[real]
        if not self._trains:
            rows: Any = self.table.peek(packed)
        elif later:
            rows = self.table.prefetch(packed)
        else:
            rows = self.table.get(packed)
        return _Begun(keys, packed, real, shape, rows)

    def _finish(self, begun: _Begun) -> Tensor:
        packed, real = begun.packed, begun.real
        rows = begun.rows.result() if isinstance(begun.rows, Prefetch) else begun.rows
        if real is not None:
            all_rows = np.zeros((*begun.shape, self.table.dim), np.float32)
            all_rows[real] = rows
            rows = all_rows
        tensor = _tensor(rows)
        if not self._trains:
            return tensor

        def apply(gradients: Tensor) -> None:
            array = _array(gradients)
            self._step(packed, array if real is None else array[real])

        result: Tensor = _Rows.apply(self._anchor, tensor, apply)
        return result


class EmbeddingBag(_Layer):
    """Sums or means of rows, as `torch.nn.EmbeddingBag`.

    mode                 'sum', 'mean' or 'sqrtn'; 'max' is refused
    include_last_offset  `offsets` has one more entry, the number of keys

    forward(keys, offsets=None, per_sample_weights=None): keys [n] with offsets [bags], or
    keys [bags, L]; weights of the shape of the keys, with any mode.  Returns float32
    [bags, dim].  There is no gradient of the weights.
    """

    def __init__(
        self,
        table: Table,
        mode: str = "mean",
        padding_idx: int | None = None,
        include_last_offset: bool = False,
        max_norm: float | None = None,
        scale_grad_by_freq: bool = False,
        *,
        lr: float | None = None,
    ) -> None:
        super().__init__(table, padding_idx, max_norm, scale_grad_by_freq, lr)
        if mode not in ("sum", "mean", "sqrtn"):
            raise ValueError(
                f"mode is {mode!r}, and must be 'sum', 'mean' or 'sqrtn': the gradient of "
                "a maximum needs the rows themselves, which a bag does not read out"
            )
        self.mode = mode
        self.include_last_offset = include_last_offset

    def forward(
        self, keys: Keys, offsets: Any = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        if per_sample_weights is not None and per_sample_weights.requires_grad:
            raise ValueError(
                "per_sample_weights has no gradient here: pass per_sample_weights.detach()"
            )
        weights = None if per_sample_weights is None else per_sample_weights.numpy()
        keys, offsets, weights = self._unpadded(keys, offsets, weights)
        options = {"weights": weights, "include_last_offset": self.include_last_offset}
        rows = self.table.bag(keys, offsets, self.mode, peek=not self._trains, **options)
        tensor = _tensor(rows)
        if not self._trains:
            return tensor

        def apply(gradients: Tensor) -> None:
            self.table.bag_apply(
                keys, offsets, _array(gradients), self.mode, lr=self.lr, **options
            )

        result: Tensor = _Rows.apply(self._anchor, tensor, apply)
        return result

    def _unpadded(self, keys: Keys, offsets: Any, weights: Any) -> tuple[Any, Any, Any]:
        """The bags without the padding key."""
        if self.padding_idx is None:
            return keys, offsets, weights
        packed, shape = pack_keys(keys)
        real = packed != self.padding_idx
        if real.all():
            return keys, offsets, weights
        if offsets is None:
            places = np.arange(shape[0] + self.include_last_offset, dtype=np.int64) * shape[1]
        else:
            places = pack_keys(offsets)[0]
        before = np.concatenate([[0], np.cumsum(real.reshape(-1))]).astype(np.int64)
        return (
            packed[real],
            before[places],
            None if weights is None else weights.reshape(shape)[real],
        )


class Collection(nn.Module):
    """Several layers in one call: the rows of all tables are read at the same time.

    layers  a dict of `Embedding`s

    forward(keys): a dict from names to keys; returns a dict of their rows.
    """

    def __init__(self, layers: Mapping[str, Embedding]) -> None:
        super().__init__()
        self.layers = nn.ModuleDict(layers)

    def forward(self, keys: Mapping[str, Keys]) -> dict[str, Tensor]:
        begun = {
            name: self.layers[name]._begin(batch, later=True) for name, batch in keys.items()
        }
        return {name: self.layers[name]._finish(batch) for name, batch in begun.items()}
