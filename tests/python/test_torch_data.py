# SPDX-License-Identifier: MIT
"""Datasets over SQL, split over workers and processes; training by several processes."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sqlite_emb

torch = pytest.importorskip("torch")
layers = pytest.importorskip("sqlite_emb.torch")

N = 203


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with a table of N rows, some of negative ids, and with samples."""
    file = tmp_path / "app.db"
    db = sqlite_emb.connect(file)
    db.execute("BEGIN")
    db.execute("CREATE TABLE ratings(id INTEGER PRIMARY KEY, user INT, rating REAL)")
    db.executemany(
        "INSERT INTO ratings VALUES (?, ?, ?)", [(i - 50, i % 7, i / 2) for i in range(N)]
    )
    db.execute("COMMIT")
    (tmp_path / "data.bin").write_bytes(bytes(i % 256 for i in range(3 * N)))
    db.execute("CREATE VIRTUAL TABLE samples USING emb_samples(record=3, label_offset=0)")
    db.execute("INSERT INTO samples(path) VALUES (?)", (str(tmp_path / "data.bin"),))
    db.close()
    return file


@pytest.mark.parametrize("workers, start, split", [
    (0, None, None), (0, None, "id"), (1, "fork", None), (3, "fork", None), (3, "fork", "id"),
    (2, "spawn", "id"),
])
def test_each_row_comes_once(path: Path, workers: int, split: str | None, start: Any) -> None:
    rows = layers.Query(
        path, "SELECT id, user, rating FROM ratings WHERE user > ?", [1], split=split
    )
    loader = torch.utils.data.DataLoader(
        rows,
        batch_size=16,
        num_workers=workers,
        multiprocessing_context=start,
    )
    got = [
        tuple(row) for batch in loader for row in zip(*(column.tolist() for column in batch))
    ]
    assert sorted(got) == [(i - 50, i % 7, i / 2) for i in range(N) if i % 7 > 1]


@pytest.mark.parametrize("workers", [0, 3])
def test_each_sample_comes_once(path: Path, workers: int) -> None:
    samples = layers.Samples(path, "samples", ("key", "label", "payload"))
    loader = torch.utils.data.DataLoader(samples, batch_size=None, num_workers=workers)
    got = sorted((key, label, bytes(payload)) for key, label, payload in loader)
    assert got == [
        (i + 1, 3 * i % 256, bytes([(3 * i + 1) % 256, (3 * i + 2) % 256])) for i in range(N)
    ]


@pytest.mark.parametrize("workers", [0, 2])
def test_rows_by_their_ids(path: Path, workers: int) -> None:
    ids = "SELECT id FROM ratings WHERE user = 3"
    rows = layers.Rows(path, ids, "SELECT user, rating FROM ratings WHERE id = ?")
    loader = torch.utils.data.DataLoader(rows, batch_size=4, num_workers=workers, shuffle=True)
    users, ratings = (torch.cat(column).tolist() for column in zip(*loader))
    assert users == [3] * len(rows)
    assert sorted(ratings) == [i / 2 for i in range(N) if i % 7 == 3]
    with pytest.raises(sqlite_emb.Error, match="the id 999"):
        layers.Rows(path, [999], rows.sql)[0]


class Vectors(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
    """Reads vectors in a worker."""

    def __init__(self, table: sqlite_emb.Table) -> None:
        self.table = table

    def __len__(self) -> int:
        return 10

    def __getitem__(self, i: int) -> Any:
        return self.table.get(i).copy()


@pytest.mark.parametrize("first", ["trainer", "worker"])
def test_tables_in_workers(path: Path, first: str) -> None:
    """Their reads are not counted, and they do not own the table."""
    table = sqlite_emb.Table.create(sqlite_emb.connect(path), "items", 2, staleness=0)
    table.put(np.arange(10), np.arange(20).reshape(10, 2), cast=True)
    if first == "worker":
        table.database.handle().connection.close()
        table = sqlite_emb.Table(path, "items")
        table.database.handle().close()
        table = sqlite_emb.Table(path, "items")
    for _ in range(2):
        loader = torch.utils.data.DataLoader(Vectors(table), batch_size=5, num_workers=2)
        assert torch.cat(list(loader)).tolist() == np.arange(20).reshape(10, 2).tolist()
        table.put([11], [[1, 1]])
    assert sum(clock for clock, in table.database.handle().rows("SELECT clock FROM items")) == 0


TRAINER = """
import sys, torch, sqlite_emb, sqlite_emb.torch as layers
from torch import distributed
path, rank, ranks, port, steps = sys.argv[1], *map(int, sys.argv[2:])
torch.manual_seed(0)
distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
users = layers.Embedding(sqlite_emb.Table(path, "users"))
dense = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(dense.parameters(), lr=0.01)
rows = layers.Query(path, "SELECT id, user, rating FROM ratings ORDER BY id", split="id")
seen = []
for epoch in range(steps):
    for id, user, rating in torch.utils.data.DataLoader(rows, batch_size=8):
        seen += id.tolist()
        loss = (dense(users(user)).squeeze(1) - rating.float()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    distributed.barrier()
print(sorted(seen), [p.tolist() for p in dense.parameters()], sep="\\n")
users.table.database.handle().close()
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_distributed_data_parallel(path: Path) -> None:
    """Two processes train one table; each row is in one of them; dense layers stay the same."""
    db = sqlite_emb.connect(path)
    db.execute("DELETE FROM ratings WHERE id >= 46")  # 96 rows: as many for each
    sqlite_emb.Table.create(
        db, "users", 4, optimizer="adagrad(lr=0.1)", staleness=8, initializer="normal(std=0.1)"
    )
    db.close()
    port = free_port()
    trainers = [
        subprocess.Popen(
            [sys.executable, "-c", TRAINER, str(path), str(rank), "2", str(port), "3"],
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    out = [trainer.communicate(timeout=120)[0].splitlines() for trainer in trainers]
    assert [trainer.returncode for trainer in trainers] == [0, 0]
    seen = [eval(lines[0]) for lines in out]
    assert sorted(seen[0] + seen[1]) == sorted(3 * list(range(-50, 46)))
    assert not set(seen[0]) & set(seen[1])
    assert out[0][1] == out[1][1]
    table = sqlite_emb.Table(path, "users")
    assert table.keys().tolist() == list(range(7))
    assert sum(clock for clock, in table.database.handle().rows("SELECT clock FROM users")) == 0


WORKER = """
import sys, torch, sqlite_emb, sqlite_emb.torch as layers
layer = layers.Embedding(sqlite_emb.Table(sys.argv[1], "users"))
keys = torch.arange(50)
print("ready", flush=True)
for step in range(int(sys.argv[2])):
    layer(keys).square().sum().backward()
print(layer.table.peek([1]).tolist(), flush=True)
layer.table.database.handle().close()
"""


@pytest.mark.parametrize("killed", [0, 1])
def test_a_trainer_is_killed(path: Path, killed: int) -> None:
    """The other goes on: as the owner of the table, or with its owner."""
    db = sqlite_emb.connect(path)
    sqlite_emb.Table.create(
        db, "users", 4, optimizer="sgd(lr=0.0001)", staleness=3, initializer="constant(value=1)"
    )
    db.close()
    trainers = []
    for steps in ("1000000", "400") if killed == 0 else ("400", "1000000"):
        trainers.append(
            subprocess.Popen(
                [sys.executable, "-c", WORKER, str(path), steps],
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        out = trainers[-1].stdout
        assert out is not None and out.readline() == "ready\n"
    trainers[killed].send_signal(signal.SIGKILL)
    trainers[killed].wait()
    text, _ = trainers[1 - killed].communicate(timeout=120)
    assert trainers[1 - killed].returncode == 0
    table = sqlite_emb.Table(path, "users")
    assert len(table) == 50 and 0 < table.get(1)[0] < 1
    table.command("integrity-check")
    assert text.startswith("[[0.9")


def test_the_interpreter_ends_with_batches_in_flight(path: Path) -> None:
    code = textwrap.dedent(
        """
        import sys, torch, sqlite_emb, sqlite_emb.torch as layers
        layer = layers.Embedding.create(sys.argv[1], "users", 4, optimizer="sgd(lr=1)")
        layer.begin(torch.arange(1000))
        layer.table.write_back([1], [[1, 1, 1, 1]])
        rows = layer(torch.tensor([1]))
        print("end")
    """
    )
    out = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error::ResourceWarning", "-c", code, str(path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONASYNCIODEBUG": "0"},
    )
    assert (out.returncode, out.stdout) == (0, "end\n"), out.stderr
    assert sqlite_emb.Table(path, "users").get([1]).tolist() == [[1, 1, 1, 1]]
