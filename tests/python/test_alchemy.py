# SPDX-License-Identifier: MIT
"""sqlite_emb.load into SQLAlchemy's Engine, Connection and Session."""

import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

import sqlite_emb

sqlalchemy = pytest.importorskip("sqlalchemy")
from sqlalchemy import orm, pool  # noqa: E402

VERSION = sqlalchemy.text("SELECT emb_version()")
POOLS = [pool.QueuePool, pool.NullPool, pool.StaticPool, pool.SingletonThreadPool]


def make(path: Path, **options: Any) -> Any:
    arguments = {"check_same_thread": False} | options.pop("connect_args", {})
    return sqlalchemy.create_engine(f"sqlite:///{path}", connect_args=arguments, **options)


def has_emb(connection: Any) -> bool:
    try:
        connection.execute(VERSION).scalar()
        return True
    except sqlalchemy.exc.OperationalError as error:
        assert "no such function: emb_version" in str(error)
        return False


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "test.db"


@pytest.mark.parametrize("kind", POOLS)
def test_engine(kind: Any, path: Path) -> None:
    engine = make(path, poolclass=kind)
    assert sqlite_emb.load(engine) is engine
    sqlite_emb.load(engine)
    for _ in range(3):
        with engine.connect() as one, engine.connect() as two:
            assert has_emb(one) and has_emb(two)
    engine.dispose()
    sqlite_emb.load(engine)
    with engine.connect() as one:
        assert has_emb(one)


@pytest.mark.parametrize("kind", POOLS)
def test_connections_that_the_pool_has_already(kind: Any, path: Path) -> None:
    engine = make(path, poolclass=kind)
    used = [engine.connect() for _ in range(3)]
    idle = [engine.connect() for _ in range(2)]
    for connection in idle:
        connection.close()
    sqlite_emb.load(engine)
    again = [engine.connect() for _ in range(2)]
    for connection in used:
        connection.close()
    again += [engine.connect() for _ in range(3)]
    assert all(has_emb(connection) for connection in again)


def test_connection_in_use_when_its_thread_has_one_for_all() -> None:
    engine = sqlalchemy.create_engine("sqlite://")
    with engine.connect() as connection:
        assert not has_emb(connection)
        sqlite_emb.load(engine)
        assert has_emb(connection)


def test_emb_is_loaded_once_into_each(path: Path) -> None:
    loaded = []
    load = sqlite3.Connection.load_extension

    class Counts(sqlite3.Connection):
        def load_extension(self, name: str, /) -> None:
            loaded.append(id(self))
            load(self, name)

    engine = make(path, poolclass=pool.QueuePool, connect_args={"factory": Counts})
    sqlite_emb.load(engine)
    for _ in range(5):
        with engine.connect(), engine.connect():
            pass
    assert 2 <= len(loaded) <= 3 and len(set(loaded)) == 2


def test_threads(path: Path) -> None:
    engine = sqlite_emb.load(make(path, poolclass=pool.QueuePool))
    results: list[bool] = []

    def work() -> None:
        for _ in range(20):
            with engine.connect() as connection:
                results.append(has_emb(connection))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 80


def test_connection(path: Path) -> None:
    engine = make(path, poolclass=pool.NullPool)
    with engine.connect() as one, engine.connect() as two:
        assert sqlite_emb.load(one) is one
        sqlite_emb.load(one)
        assert has_emb(one) and not has_emb(two)


def test_session(path: Path) -> None:
    session = orm.Session(make(path, poolclass=pool.NullPool))
    assert not has_emb(session)
    assert sqlite_emb.load(session) is session
    assert has_emb(session)  # in the transaction that is open
    session.commit()
    assert has_emb(session)
    session.close()
    assert has_emb(session)


def test_session_with_a_connection(path: Path) -> None:
    engine = make(path, poolclass=pool.NullPool)
    with engine.connect() as one, engine.connect() as two:
        assert has_emb(sqlite_emb.load(orm.Session(one)))
        assert has_emb(one) and not has_emb(two)


def test_scoped_session(path: Path) -> None:
    registry = orm.scoped_session(orm.sessionmaker(make(path)))
    assert sqlite_emb.load(registry) is registry
    registry.execute(sqlalchemy.text("CREATE VIRTUAL TABLE items USING emb(vector FLOAT[2])"))
    registry.execute(sqlalchemy.text("INSERT INTO items VALUES (7, '[1,2]')"))
    registry.commit()
    registry.remove()
    assert registry.execute(sqlalchemy.text("SELECT key FROM items")).scalar() == 7


def test_session_without_engine() -> None:
    with pytest.raises(sqlite_emb.Error, match="give load.. the Engine"):
        sqlite_emb.load(orm.Session())


def test_engine_that_cannot_is_left_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make(path)
    monkeypatch.setenv("EMB_SO", "/nowhere/emb.so")
    with pytest.raises(sqlite_emb.Error, match="there is no file /nowhere/emb.so"):
        sqlite_emb.load(engine)
    with engine.connect() as connection:
        assert not has_emb(connection)


def test_another_database(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = make(path)
    monkeypatch.setattr(engine.dialect, "name", "postgresql")
    with pytest.raises(sqlite_emb.Error, match="this database is postgresql's"):
        sqlite_emb.load(engine)
    with engine.connect() as connection:
        with pytest.raises(sqlite_emb.Error, match="this database is postgresql's"):
            sqlite_emb.load(connection)


def test_another_driver(path: Path) -> None:
    class Wrapped:
        def __init__(self) -> None:
            self.db = sqlite3.connect(path)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.db, name)

    engine = sqlalchemy.create_engine("sqlite://", creator=Wrapped)
    with pytest.raises(sqlite_emb.Error, match="a driver that emb does not know"):
        sqlite_emb.load(engine)


def test_no_connection(path: Path) -> None:
    with pytest.raises(TypeError, match="emb: MetaData is no connection"):
        sqlite_emb.load(sqlalchemy.MetaData())
