# SPDX-License-Identifier: MIT
"""`Table` against an ordinary table and numpy, in random steps; and each of its methods."""

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sqlite_emb

DIM = 4


@pytest.fixture(params=["sqlite3", "apsw", "rows", "bytes"])
def connection(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Connections of both drivers; and with other row and text factories."""
    path = str(tmp_path / "app.db")
    if request.param == "apsw":
        apsw = pytest.importorskip("apsw")
        db = apsw.Connection(path)
    else:
        db = sqlite3.connect(path, isolation_level=None)
        if request.param == "rows":
            db.row_factory = lambda cursor, row: {"row": row}
        if request.param == "bytes":
            db.text_factory = bytes
    yield sqlite_emb.load(db)
    db.close()


@pytest.mark.parametrize("seed", range(4))
def test_random_steps(connection: Any, seed: int) -> None:
    random = np.random.default_rng(seed)
    table = sqlite_emb.Table.create(connection, "items", DIM)
    expected: dict[int, Any] = {}
    for _ in range(60):
        n = int(random.integers(1, 40))
        keys = random.integers(0, 50, n)
        vectors = random.normal(size=(n, DIM)).astype("f4")
        what = random.choice(["put", "insert", "add", "delete", "write_back", "from_numpy"])
        if what == "add":
            known = sum(int(k) in expected for k in keys)
            for key, vector in zip(keys.tolist(), vectors):
                if key in expected:
                    expected[key] = expected[key] + vector
            assert table.add(keys, vectors) == known
        elif what == "delete":
            gone = {int(k) for k in keys} & expected.keys()
            assert table.delete(keys) == len(gone)
            for key in gone:
                del expected[key]
        else:
            expected.update(zip(keys.tolist(), vectors))
            if what == "write_back":
                with table.write_back(keys, vectors) as batch:
                    assert batch.result() == n
            else:
                assert getattr(table, what)(keys, vectors) == n
        ask = random.integers(0, 60, (3, 5))
        zeros = np.zeros(DIM, "f4")
        want = np.array([expected.get(int(k), zeros) for k in ask.flat]).reshape(3, 5, DIM)
        with table.prefetch(ask) as later:
            for rows in (
                table.get(ask),
                table.peek(ask),
                table.get_found(ask)[0],
                later.result(),
            ):
                assert np.allclose(rows, want, atol=1e-5)
        found = np.isin(ask, list(expected))
        assert np.array_equal(table.found(ask), found)
        assert np.array_equal(table.get_found(ask, peek=True)[1], found)
    keys, vectors = table.to_numpy(batch_size=7)
    assert keys.tolist() == sorted(expected) and len(table) == len(expected)
    assert np.allclose(vectors, [expected[k] for k in sorted(expected)], atol=1e-5)
    assert (0 in table) == (0 in expected)


def test_transactions(tmp_path: Path) -> None:
    db = sqlite_emb.connect(tmp_path / "app.db")
    table = sqlite_emb.Table.create(db, "items", DIM)
    db.execute("CREATE TABLE names(id INTEGER PRIMARY KEY)")
    ones = np.ones((2, DIM), "f4")
    db.execute("BEGIN")
    db.execute("INSERT INTO names VALUES (1)")
    table.insert([1, 2], ones)
    table.from_numpy([3, 4], ones, batch_size=1)
    with pytest.raises(sqlite_emb.ShapeError):
        table.from_numpy([5, 6], np.ones((2, DIM + 1), "f4"))
    assert len(table) == 4
    db.execute("ROLLBACK")
    assert len(table) == 0
    with pytest.raises(sqlite_emb.Error, match="non-finite"):
        table.from_numpy([5, 6], [[1] * DIM, [np.nan] * DIM], batch_size=1)
    assert len(table) == 0 and not db.in_transaction
    db.execute("BEGIN")
    table.insert([1], ones[:1])
    with pytest.raises(sqlite_emb.Locked):
        table.put([1], ones[:1])
    db.execute("COMMIT")
    assert table.keys().tolist() == [1]


def test_optimizer(db: Any) -> None:
    table = sqlite_emb.Table.create(db, "items", 2, optimizer="sgd(lr=0.5)")
    table.put([1, 2], [[1, 1], [2, 2]])
    assert table.apply([1, 1, 9], np.ones((3, 2), "f4")) == 2
    assert table.get([1, 2, 9]).tolist() == [[0, 0], [2, 2], [-0.5, -0.5]]
    table.apply([2], np.ones((1, 2), "f4"), lr=2)
    assert table.get(2).tolist() == [0, 0]
    with pytest.raises(sqlite_emb.Error, match="emb_apply"):
        table.add([1], [[1, 1]])


@pytest.mark.parametrize("mode", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_bags(db: Any, mode: str, last: bool, seed: int) -> None:
    random = np.random.default_rng(seed)
    table = sqlite_emb.Table.create(db, "items", DIM, optimizer="sgd(lr=1)")
    rows = random.normal(size=(20, DIM)).astype("f4")
    table.put(np.arange(20), rows)
    lengths = random.integers(0, 5, 6)
    edges = np.concatenate([[0], np.cumsum(lengths)])
    keys = random.integers(0, 20, edges[-1])
    weights = random.normal(size=len(keys)).astype("f4")
    divisors = {"sum": lengths * 0 + 1, "mean": lengths, "sqrtn": np.sqrt(lengths)}[mode]
    want = np.array(
        [
            (rows[keys[a:b]] * weights[a:b, None]).sum(0) / max(d, 1)
            for a, b, d in zip(edges, edges[1:], divisors)
        ]
    )
    offsets = edges if last else edges[:-1]
    for peek in (False, True):
        got = table.bag(
            keys, offsets, mode, weights=weights, include_last_offset=last, peek=peek
        )
        assert np.allclose(got, want, atol=1e-5) and got.shape == (6, DIM)
    gradients = random.normal(size=(6, DIM)).astype("f4")
    table.bag_apply(keys, offsets, gradients, mode, weights=weights, include_last_offset=last)
    bag = np.repeat(np.arange(6), lengths)
    factors = weights / np.maximum(divisors, 1)[bag]
    np.subtract.at(rows, keys, factors[:, None] * gradients[bag])
    assert np.allclose(table.get(np.arange(20)), rows, atol=1e-5)


def test_bags_of_one_length(db: Any) -> None:
    table = sqlite_emb.Table.create(db, "items", 2)
    table.put([1, 2, 3], [[1, 1], [2, 2], [3, 3]])
    assert table.bag([[1, 2], [3, 3]]).tolist() == [[3, 3], [6, 6]]
    assert table.bag([[1, 2], [3, 3]], mode="mean", peek=True).tolist() == [[1.5, 1.5], [3, 3]]
    assert table.bag([], []).shape == (0, 2) == table.bag([], [], peek=True).shape
    for keys, offsets in (([1], None), ([[1]], [0]), ([1], [[0]])):
        with pytest.raises(sqlite_emb.ShapeError):
            table.bag(keys, offsets)
    for peek in (False, True):
        for offsets in ([1], [0, 2, 1], [0, 9]):
            with pytest.raises(sqlite_emb.Error):
                table.bag([1, 2, 3], offsets, peek=peek)
        with pytest.raises(sqlite_emb.Error):
            table.bag([1], [0], "max", peek=peek)


@pytest.mark.parametrize("seed", range(3))
def test_nearest(connection: Any, seed: int) -> None:
    random = np.random.default_rng(seed)
    table = sqlite_emb.Table.create(connection, "items", DIM)
    keys = random.permutation(1000)[:30]
    rows = random.normal(size=(30, DIM)).astype("f4")
    table.put(keys, rows)
    queries = random.normal(size=(5, DIM)).astype("f4")
    distances = np.sqrt(((queries[:, None].astype("f8") - rows[None]) ** 2).sum(-1))
    order = distances.argsort(1)[:, :7]
    got = table.nearest(queries, 7)
    assert np.array_equal(got.keys, keys[order])
    assert np.allclose(got.distances, np.take_along_axis(distances, order, 1))
    assert np.array_equal(table.nearest(queries[2], 7).keys, keys[order[2]])
    among = table.nearest(queries, 7, among=keys[order[0, :3]])
    assert np.array_equal(among.keys[0], [*keys[order[0, :3]], -1, -1, -1, -1])
    assert np.isinf(among.distances[:, 3:]).all()
    assert table.nearest(np.empty((0, DIM), "f4")).keys.shape == (0, 10)
    with pytest.raises(sqlite_emb.ShapeError):
        table.nearest(queries[:, :3])


def test_several_vectors(db: Any) -> None:
    table = sqlite_emb.Table.create(db, "pages", {"title": 2, "body, text": 3}, dtype="float16")
    rows = np.arange(10, dtype="f4").reshape(2, 5)
    table.put([1, 2], rows)
    assert table.dim == 5
    assert np.array_equal(table.get([2, 1]), rows[::-1])
    assert np.array_equal(table.get([2, 1], column="body, text"), rows[::-1, 2:])
    assert np.array_equal(table.peek(1, column="title"), rows[0, :2])
    assert table.nearest([0, 1], 1).keys.tolist() == [1]
    assert table.nearest([7, 8, 9], 1, column="body, text").keys.tolist() == [2]
    with pytest.raises(sqlite_emb.Error, match="text"):
        table.get([1], column="text")
    table.put([1, 3], [[7, 7], [8, 8]], column="title")
    assert table.get([1, 3]).tolist() == [[7, 7, 2, 3, 4], [8, 8, 0, 0, 0]]
    assert table.add([3, 9], [[1, 2, 3], [1, 1, 1]], column="body, text") == 1
    assert table.get(3).tolist() == [8, 8, 1, 2, 3]
    for peek in (False, True):
        bags = table.bag([1, 3], [0], column="title", peek=peek)
        assert bags.tolist() == [[15, 15]]
    with pytest.raises(sqlite_emb.ShapeError, match=r"need \[1, 2\]"):
        table.put([1], [[1, 2, 3]], column="title")


def test_gradients_of_one_vector(db: Any) -> None:
    table = sqlite_emb.Table.create(db, "pages", {"a": 1, "b": 2}, optimizer="sgd(lr=1)")
    table.put([1], [[1, 1, 1]])
    table.apply([1, 1], [[1], [1]], column="a")
    table.bag_apply([1], [0], [[3, 4]], column="b")
    assert table.get(1).tolist() == [-1, -2, -3]


def test_samples(db: Any) -> None:
    table = sqlite_emb.Table.create(db, "items", 2, track="wall")
    table.put(np.arange(100), np.arange(200).reshape(100, 2), cast=True)
    keys = table.sample(10, seed=1, without=np.arange(50))
    assert len(set(keys.tolist())) == 10 and keys.min() >= 50
    assert np.array_equal(keys, table.sample(10, seed=1, without=np.arange(50)))
    batch = table.sample_batch(10, "log-uniform", range=100)
    assert np.array_equal(batch.vectors, table.get(batch.keys))
    assert batch.probabilities.shape == batch.expected_counts.shape == (10,)
    assert len(table.sample(1000)) == 100 and table.sample(0).shape == (0,)


def test_samples_of_texts(db: Any) -> None:
    table = sqlite_emb.Table.create(db, "words", 2, text_keys=True)
    table.put(["a", "b"], [[1, 1], [2, 2]])
    assert sorted(table.sample(5)) == ["a", "b"]
    batch = table.sample_batch(5)
    assert np.array_equal(batch.vectors, table.get(batch.keys))


def test_snapshots_and_files(tmp_path: Path) -> None:
    db = sqlite_emb.connect(tmp_path / "app.db")
    table = sqlite_emb.Table.create(db, "items", 2)
    rows = np.arange(20, dtype="f4").reshape(10, 2)
    table.from_numpy(np.arange(10), rows)
    assert table.snapshot("monday") == 10
    table.put([0, 50], [[9, 9], [9, 9]])
    assert np.array_equal(table.get([[0], [50]], snapshot="monday")[:, 0], [[0, 1], [0, 0]])
    keys, vectors = table.to_numpy(snapshot="monday")
    assert np.array_equal(keys, np.arange(10)) and np.array_equal(vectors, rows)
    file = tmp_path / "monday.emb"
    assert table.snapshot_export("monday", file, quantize="float16") == 10
    other = sqlite_emb.Table.create(db, "other", 2)
    assert other.restore(file) == 10
    assert np.array_equal(other.to_numpy()[1], rows)
    assert table.snapshots() == ["monday"]
    table.snapshot_drop("monday")
    with pytest.raises(sqlite_emb.Error, match="monday"):
        table.get([1], snapshot="monday")


@pytest.mark.parametrize("text", [False, True])
def test_deltas(tmp_path: Path, text: bool) -> None:
    db = sqlite_emb.connect(tmp_path / "app.db")
    table = sqlite_emb.Table.create(db, "items", 2, text_keys=text)
    name = np.array([f"k{i}" for i in range(30)], object) if text else np.arange(30)
    copy: dict[Any, Any] = {}
    random = np.random.default_rng(1)
    for _ in range(5):
        some = random.permutation(30)[:12]
        table.put(name[some], random.normal(size=(12, 2)).astype("f4"))
        table.delete(name[random.permutation(30)[:5]])
        for batch in table.delta("copy", batch_size=4):
            assert len(batch.keys) == len(batch.vectors) == len(batch.versions)
            copy.update(zip(batch.keys.tolist(), batch.vectors))
            assert batch.reasons == ["delete"] * len(batch.removed)
            for key in batch.removed:
                copy.pop(key, None)
        table.delta_ack("copy")
        keys, vectors = table.to_numpy()
        assert sorted(copy) == keys.tolist()
        assert np.array_equal([copy[k] for k in keys], vectors)
    assert list(table.delta("copy")) == []
    table.delta_drop("copy")
    assert table.delta_export("file", tmp_path / "delta", state=0) == len(copy)
    other = sqlite_emb.Table.create(db, "other", 2, text_keys=text)
    assert other.delta_apply(tmp_path / "delta") == len(copy)
    assert np.array_equal(np.sort(other.keys()), np.sort(table.keys()))


def test_what_a_table_says(tmp_path: Path) -> None:
    db = sqlite_emb.connect(tmp_path / "app.db")
    table = sqlite_emb.Table.create(db, "items", 2, memory="8MB")
    table.put([1], [[1, 2]])
    assert table.stats()["keys"] == 1
    assert [fact.value for fact in table.describe() if fact.name == "rows"] == [1]
    table.command("checkpoint")
    table.command("memory", "16MiB")
    assert table.stats()["memory_bytes"] == 16 << 20
    assert table.lookahead([1]) == 0
    assert "items" in repr(table)
    table.drop()
    with pytest.raises(sqlite_emb.Error, match="does not exist"):
        sqlite_emb.Table(db, "items")


def test_names(tmp_path: Path) -> None:
    db = sqlite_emb.connect(tmp_path / "app.db")
    db.execute("ATTACH ? AS other", (str(tmp_path / "other.db"),))
    for name in ("a b", 'a"b', "a.b", "select", "ä'"):
        for schema in ("main", "other"):
            table = sqlite_emb.Table.create(
                db, name, {"v": 2}, schema=schema, key="the key", columns={"label": "TEXT"}
            )
            table.put([1], [[1, 2]])
            table.command("checkpoint")
            assert table.delete([1]) == 1 and len(table) == 0
    again = sqlite_emb.Table.create(db, "a b", 2, if_not_exists=True)
    assert again.dim == 2
    with pytest.raises(sqlite_emb.ShapeError, match="rows of 2 floats, not 3"):
        sqlite_emb.Table.create(db, "a b", 3, if_not_exists=True)
    with pytest.raises(sqlite_emb.Error, match="already exists"):
        sqlite_emb.Table.create(db, "a b", 2)
    db.execute("CREATE TABLE plain(a)")
    for name, text in (("plain", "is not an emb table"), ("nothing", "does not exist")):
        with pytest.raises(sqlite_emb.Error, match=text):
            sqlite_emb.Table(db, name)
    with pytest.raises(sqlite_emb.Error, match="no database"):
        sqlite_emb.Table(db, "a b", schema="third")


@pytest.mark.parametrize(
    "columns, settings", [({"vector": 2}, {"hidden_prefix": "emb_"}), ({"k": 2}, {})]
)
def test_hidden_columns_of_other_names(
    tmp_path: Path, columns: dict[str, int], settings: dict[str, Any]
) -> None:
    db = sqlite_emb.connect(tmp_path / "app.db")
    table = sqlite_emb.Table.create(db, "items", columns, **settings)
    table.insert([1], [[1, 2]])
    table.command("checkpoint")
    table.snapshot("a")
    table.put([1, 2], [[3, 4], [5, 6]])
    assert table.get_found([1, 7])[1].tolist() == [True, False]
    assert table.get([1, 2], snapshot="a").tolist() == [[1, 2], [0, 0]]
    assert table.to_numpy(snapshot="a")[0].tolist() == [1]
    assert table.nearest([5, 6], 1).keys.tolist() == [2]


def test_a_table_made_again(db: Any) -> None:
    table = sqlite_emb.Table.create(db, "items", 2)
    assert table.dim == 2
    table.drop()
    sqlite_emb.Table.create(db, "items", 3)
    table.put([1], [[1, 2, 3]])
    assert table.get([1]).tolist() == [[1, 2, 3]]


def test_options(db: Any) -> None:
    with pytest.raises(sqlite_emb.Error, match="memroy"):
        sqlite_emb.Table.create(db, "items", 2, memroy="1GB")
    with pytest.raises(sqlite_emb.DTypeError, match="float32"):
        sqlite_emb.Table.create(db, "items", 2, dtype="int8")
    for dim in ("8", 8.5, None):
        with pytest.raises(sqlite_emb.DTypeError, match="whole number"):
            sqlite_emb.Table.create(db, "items", dim)  # type: ignore[arg-type]
    with pytest.raises(sqlite_emb.Error, match="dimension must be"):
        sqlite_emb.Table.create(db, "items", 0)
    table = sqlite_emb.Table.create(
        db, "items", 2, initializer="constant(value=7)", warm=False, staleness=4, timeout=100
    )
    assert table.get([5]).tolist() == [[7, 7]]


def test_staleness(tmp_path: Path) -> None:
    db = sqlite_emb.connect(tmp_path / "app.db")
    table = sqlite_emb.Table.create(db, "items", 2, staleness=0, timeout=50)
    other = sqlite_emb.Table(tmp_path / "app.db", "items")
    table.put([1], [[1, 1]])
    table.get([1])
    with pytest.raises(sqlite_emb.StaleError, match="key 1 has 1 pending read") as caught:
        other.get([1])
    assert isinstance(caught.value, sqlite_emb.Busy) and caught.value.sqlite_errorcode == 5
    assert other.peek([1]).tolist() == [[1, 1]]
    assert table.release() == 1
    other.get([1])
    other.put([1], [[2, 2]])
    assert table.get([1]).tolist() == [[2, 2]]


def test_errors_are_those_of_sqlite(db: Any) -> None:
    table = sqlite_emb.Table.create(db, "items", 2)
    with pytest.raises(sqlite3.DatabaseError) as caught:
        table.snapshot("no/name")
    assert isinstance(caught.value, sqlite_emb.Error)
    assert caught.value.__cause__ is not None and caught.value.sqlite_errorcode
    db.execute("PRAGMA query_only = ON")
    with pytest.raises(sqlite_emb.ReadOnly):
        table.put([1], [[1, 1]])
    with pytest.raises(TypeError):
        table.get(["a"])
    with pytest.raises(ValueError):
        table.put([1], [[1, 1, 1]])
