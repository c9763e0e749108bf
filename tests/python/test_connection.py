# SPDX-License-Identifier: MIT
"""Threads, children after fork(), other processes: each has its own connection; and a call
whose owner has gone is repeated."""

import gc
import multiprocessing
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sqlite_emb
from sqlite_emb import connection as connections

FORK = multiprocessing.get_context("fork")


@pytest.fixture(params=["sqlite3", "apsw", "path"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    path = tmp_path / "it's 100%? #1.db"
    if request.param == "apsw":
        where: Any = pytest.importorskip("apsw").Connection(str(path))
    elif request.param == "path":
        sqlite_emb.connect(path).close()
        where = path
    else:
        where = sqlite3.connect(path, isolation_level=None)
    made = sqlite_emb.Table.create(where, "items", 2)
    made.put(np.arange(10), np.ones((10, 2), "f4"))
    return made


def in_thread(call: Callable[[], Any]) -> Any:
    """Runs a call in a new thread; returns its result, or raises its error."""
    result: list[Any] = []

    def run() -> None:
        try:
            result.append(call())
        except BaseException as error:
            result.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(result[0], BaseException):
        raise result[0]
    return result[0]


def in_fork(call: Callable[[], Any]) -> Any:
    """The same in a child."""

    def run(pipe: Any) -> None:
        try:
            pipe.send(call())
        except BaseException as error:
            pipe.send(error)

    mine, other = FORK.Pipe()
    child = FORK.Process(target=run, args=(other,))
    child.start()
    result = mine.recv() if mine.poll(60) else RuntimeError("no answer")
    child.join()
    if isinstance(result, BaseException):
        raise result
    return result


def test_threads(table: sqlite_emb.Table) -> None:
    def work(start: int) -> None:
        for i in range(20):
            keys = np.arange(start, start + 50)
            table.put(keys, np.full((50, 2), i, "f4"))
            assert (table.get(keys) == i).all()

    threads = [threading.Thread(target=work, args=(1000 * i,)) for i in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(table) == 210


def test_a_thread_closes_its_connection(table: sqlite_emb.Table) -> None:
    gc.collect()  # those of other tests
    before = len(connections._process.handles)
    for _ in range(3):
        assert in_thread(lambda: table.get([1]).tolist()) == [[1, 1]]
        gc.collect()
        assert len(connections._process.handles) == before


def test_fork(table: sqlite_emb.Table) -> None:
    def child() -> Any:
        table.put([100], [[7, 7]])
        return table.get([1, 100]).tolist()

    for _ in range(3):
        assert in_fork(child) == [[1, 1], [7, 7]]
    assert table.get([100]).tolist() == [[7, 7]]
    assert table.database.handle().value("PRAGMA integrity_check") == "ok"


def test_fork_in_threads_and_fork_again(table: sqlite_emb.Table) -> None:
    def child() -> Any:
        inner = in_fork(lambda: table.get([2]).tolist())
        return inner, in_thread(lambda: table.get([3]).tolist()), table.get([4]).tolist()

    assert in_thread(lambda: in_fork(child)) == ([[1, 1]], [[1, 1]], [[1, 1]])


def test_the_connection_of_the_program_is_not_closed_in_a_child(tmp_path: Path) -> None:
    db = sqlite_emb.connect(tmp_path / "app.db")
    table = sqlite_emb.Table.create(db, "items", 2)
    del db
    table.put([1], [[1, 1]])

    def child() -> Any:
        value = table.get([1]).tolist()
        gc.collect()
        return value

    assert in_fork(child) == [[1, 1]]
    table.put([2], [[2, 2]])
    assert table.get([2]).tolist() == [[2, 2]]


def test_pickle(table: sqlite_emb.Table) -> None:
    copy = pickle.loads(pickle.dumps(table))
    assert copy.get([1]).tolist() == [[1, 1]] and copy.name == "items"
    code = (
        "import pickle, sys\n"
        "table = pickle.load(sys.stdin.buffer)\n"
        "table.put([200], [[5, 5]])\n"
        "print(table.get([1, 200]).tolist())"
    )
    out = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps(table),
        stdout=subprocess.PIPE,
        check=True,
    )
    assert out.stdout.decode().strip() == "[[1.0, 1.0], [5.0, 5.0]]"
    assert table.get([200]).tolist() == [[5, 5]]


def test_temporary_databases_have_one_connection() -> None:
    table = sqlite_emb.Table.create(sqlite_emb.connect(":memory:"), "items", 2)
    table.put([1], [[1, 1]])
    for other in (in_thread, in_fork):
        with pytest.raises(sqlite_emb.Error, match="use a file"):
            other(lambda: table.get([1]))
    with pytest.raises(sqlite_emb.Error, match="use a file"):
        pickle.dumps(table)


def test_an_attached_database(tmp_path: Path) -> None:
    db = sqlite_emb.connect(tmp_path / "app.db")
    db.execute("ATTACH ? AS other", (str(tmp_path / "other.db"),))
    table = sqlite_emb.Table.create(db, "items", 2, schema="other")
    table.put([1], [[1, 1]])
    for other in (in_thread, in_fork):
        assert other(lambda: table.get([1]).tolist()) == [[1, 1]]
        assert other(lambda: len(table)) == 1


def test_batches_belong_to_their_thread(table: sqlite_emb.Table) -> None:
    batch = table.prefetch([1])
    with pytest.raises(sqlite_emb.Error, match="belongs to the thread"):
        in_thread(batch.result)
    assert batch.result().tolist() == [[1, 1]]
    with pytest.raises(sqlite_emb.Error, match="taken before"):
        batch.result()


def test_sqlalchemy(tmp_path: Path) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    engine = sqlite_emb.load(sqlalchemy.create_engine(f"sqlite:///{tmp_path / 'app.db'}"))
    with engine.connect() as connection:
        table = sqlite_emb.Table.create(connection, "items", 2)
        table.put([1], [[1, 2]])
        assert in_thread(lambda: table.get([1]).tolist()) == [[1, 2]]
    scoped = sqlalchemy.orm.scoped_session(sqlalchemy.orm.sessionmaker(engine))
    with pytest.raises(sqlite_emb.Error, match="no database file"):
        sqlite_emb.Table(sqlalchemy.create_engine("sqlite://"), "items")
    for other in (engine, sqlalchemy.orm.Session(engine), scoped):
        assert sqlite_emb.Table(other, "items").get([1]).tolist() == [[1, 2]]


OWNER = """
import sys, sqlite_emb
table = sqlite_emb.Table(sys.argv[1], "items")
table.put([1], [[1, 1]])
table.command("checkpoint")
print("ready", flush=True)
sys.stdin.read()
"""


def owner(path: Path) -> subprocess.Popen[bytes]:
    """A process that owns the table."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    return process


@pytest.mark.parametrize(
    "call",
    [
        lambda table: table.get([1]).tolist(),
        lambda table: table.get_found([1])[0].tolist(),
        lambda table: (table.put([1], [[1, 1]]), table.get([1]).tolist())[1],
        lambda table: (table.insert([1], [[1, 1]]), table.get([1]).tolist())[1],
        lambda table: table.nearest([1, 1], 1).distances.tolist() and [[1, 1]],
        lambda table: table.to_numpy()[1].tolist(),
        lambda table: table.prefetch([1]).result().tolist(),
    ],
)
def test_calls_are_repeated_when_the_owner_has_died(tmp_path: Path, call: Any) -> None:
    path = tmp_path / "app.db"
    db = sqlite_emb.connect(path)
    sqlite_emb.Table.create(db, "items", 2)
    db.close()
    process = owner(path)
    table = sqlite_emb.Table(path, "items")
    assert table.get([1]).tolist() == [[1, 1]]
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert call(table) == [[1, 1]]
    table.database.handle().close()


def test_batches_are_repeated_when_the_owner_has_died(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    db = sqlite_emb.connect(path)
    sqlite_emb.Table.create(db, "items", 2, staleness=3)
    db.close()
    process = owner(path)
    table = sqlite_emb.Table(path, "items")
    reads = [table.prefetch([1]), table.prefetch([[1, 2]])]
    write = table.write_back([5], [[5, 5]])
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert [read.result().tolist() for read in reads] == [[[1, 1]], [[[1, 1], [0, 0]]]]
    assert write.result() == 1
    assert table.get([5]).tolist() == [[5, 5]]
    table.database.handle().close()


def test_a_transaction_is_not_repeated(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    db = sqlite_emb.connect(path)
    sqlite_emb.Table.create(db, "items", 2)
    db.close()
    process = owner(path)
    db = sqlite_emb.connect(path)
    table = sqlite_emb.Table(db, "items")
    db.execute("BEGIN")
    table.insert([2], [[2, 2]])
    process.send_signal(signal.SIGKILL)
    process.wait()
    with pytest.raises(sqlite_emb.OwnerChanged) as caught:
        table.insert([3], [[3, 3]])
    assert caught.value.sqlite_errorcode == 516
    if db.in_transaction:
        db.execute("ROLLBACK")
    assert table.keys().tolist() == [1]
    db.close()


def test_a_child_of_multiprocessing_closes_its_connection(tmp_path: Path) -> None:
    """Otherwise its end would be that of a killed process, and lose what it has put."""
    path = tmp_path / "app.db"
    db = sqlite_emb.connect(path)
    sqlite_emb.Table.create(db, "items", 2)
    db.close()
    table = sqlite_emb.Table(path, "items")
    table.database.handle().close()
    child = FORK.Process(target=lambda: table.put([1], [[3, 3]]))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert sqlite_emb.Table(path, "items").get([1]).tolist() == [[3, 3]]


def test_connect(tmp_path: Path) -> None:
    db = sqlite_emb.connect(tmp_path / "app.db")
    assert db.isolation_level is None
    assert db.execute("SELECT emb_version()").fetchone()[0]
    with pytest.raises(sqlite_emb.Error, match="unable to open"):
        sqlite_emb.connect(tmp_path / "no" / "app.db")
    assert os.listdir(tmp_path) == ["app.db"]


def test_paths(tmp_path: Path) -> None:
    """A table that is made makes its database; one that is opened does not."""
    with pytest.raises(sqlite_emb.Error, match="no.db"):
        sqlite_emb.Table(tmp_path / "no.db", "items")
    assert os.listdir(tmp_path) == []
    sqlite_emb.Table.create(tmp_path / "yes.db", "items", 2).put([1], [[1, 2]])
    assert sqlite_emb.Table(tmp_path / "yes.db", "items").get(1).tolist() == [1, 2]


@pytest.mark.parametrize("wrong", [5, None, object()])
def test_no_connections(wrong: Any) -> None:
    with pytest.raises(TypeError, match="no connection"):
        sqlite_emb.Table(wrong, "items")


def test_closed_connections(tmp_path: Path) -> None:
    db = sqlite_emb.connect(tmp_path / "app.db")
    table = sqlite_emb.Table.create(db, "items", 2)
    db.close()
    with pytest.raises(sqlite_emb.Error, match="closed"):
        table.get([1])
    with pytest.raises(sqlite_emb.Error, match="closed"):
        sqlite_emb.Table(db, "items")
