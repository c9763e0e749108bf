# SPDX-License-Identifier: MIT
"""Arrays of every type and layout, against numpy: converted without loss, or refused."""

import array
from typing import Any

import numpy as np
import pytest

import sqlite_emb

INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
OTHERS = ["?", "f2", "f4", "f8", "c8", "U3", "S3", "M8[s]", "m8[s]", "V8"]


@pytest.fixture
def items(db: Any) -> sqlite_emb.Table:
    return sqlite_emb.Table.create(db, "items", 3)


def layouts(values: Any) -> list[Any]:
    """The same array in other places of memory."""
    spread = np.zeros(tuple(2 * n for n in values.shape), values.dtype)
    spread[tuple(slice(None, None, 2) for _ in values.shape)] = values
    unaligned = np.frombuffer(b"x" + values.tobytes(), np.uint8)[1:]
    return [
        values,
        spread[tuple(slice(None, None, 2) for _ in values.shape)],
        np.asfortranarray(values),
        values[::-1].copy()[::-1],
        unaligned.view(values.dtype).reshape(values.shape) if values.size else values,
    ]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("seed", range(3))
def test_keys_of_any_integer_type(items: sqlite_emb.Table, dtype: str, seed: int) -> None:
    random: Any = np.random.default_rng(seed)
    limits = np.iinfo(dtype)
    shape = tuple(random.integers(1, 5, random.integers(1, 4)))
    keys = random.integers(
        limits.min, min(limits.max, 2**63 - 1), shape, dtype, endpoint=True
    )
    vectors = random.normal(size=(*shape, 3)).astype("f4")
    expected = {int(k): v for k, v in zip(keys.reshape(-1), vectors.reshape(-1, 3))}
    items.put(keys, vectors)
    for same in layouts(keys):
        assert np.array_equal(
            items.get(same), np.array([expected[int(k)] for k in keys.flat]).reshape(*shape, 3)
        )
    assert sorted(expected) == items.keys().tolist()


@pytest.mark.parametrize("dtype", OTHERS)
def test_keys_of_other_types_are_refused(items: sqlite_emb.Table, dtype: str) -> None:
    keys = np.zeros(4, dtype)
    calls: list[Any] = [items.get, items.found, items.delete, items.prefetch, items.lookahead]
    for call in calls:
        with pytest.raises(sqlite_emb.DTypeError, match="keys"):
            call(keys)
    with pytest.raises(sqlite_emb.DTypeError, match="keys"):
        items.put(keys, np.zeros((4, 3), "f4"))
    assert len(items) == 0


@pytest.mark.parametrize("dtype", [">i8", ">i4", ">u2"])
def test_keys_of_another_byte_order_are_refused(items: sqlite_emb.Table, dtype: str) -> None:
    with pytest.raises(sqlite_emb.DTypeError, match="byte order"):
        items.get(np.arange(3).astype(dtype))


@pytest.mark.parametrize(
    "keys",
    [
        [1, 2],
        (1, 2),
        range(1, 3),
        {1: 0, 2: 0}.keys(),
        iter([1, 2]),
        array.array("q", [1, 2]),
        array.array("i", [1, 2]),
        [np.int32(1), np.int64(2)],
        memoryview(array.array("l", [1, 2])),
        np.array([1, 2], object),
    ],
)
def test_keys_of_python(items: sqlite_emb.Table, keys: Any) -> None:
    vectors = np.arange(6, dtype="f4").reshape(2, 3)
    items.put([1, 2], vectors)
    assert np.array_equal(items.get(keys), vectors)


@pytest.mark.parametrize(
    "keys, text",
    [
        ([2**63], "2\\^63 - 1|does not fit 64 bits"),
        ([-(2**63) - 1], "does not fit 64 bits"),
        ([2**70], "does not fit 64 bits"),
        ([1, None], "None"),
        ([1, "a"], "texts"),
        ([True], "bool"),
        (np.array([True, 2], object), "True"),
        ([1.0], "float64"),
        (b"12345678", "bytes"),
        (np.array([2**63], "u8"), "2\\^63 - 1"),
        ([[1, 2], [3]], "rectangular"),
    ],
)
def test_wrong_keys_of_python(items: sqlite_emb.Table, keys: Any, text: str) -> None:
    with pytest.raises(sqlite_emb.Error, match=text):
        items.get(keys)


def test_one_key_and_none(items: sqlite_emb.Table) -> None:
    items.put(5, [1, 2, 3])
    assert items.get(5).tolist() == [1, 2, 3]
    assert items.get(np.int16(5)).shape == (3,)
    empty: list[Any] = [[], np.empty(0, "i4"), np.empty((2, 0), int), np.empty((0, 4), int)]
    for nothing in empty:
        assert items.get(nothing).shape == (*np.shape(nothing), 3)
        assert items.found(nothing).shape == np.shape(nothing)
        assert items.put(nothing, np.empty((*np.shape(nothing), 3), "f4")) == 0


@pytest.mark.parametrize("dtype", ["f4", "f2", "i1", "u1", "i2", "u2"])
@pytest.mark.parametrize("seed", range(3))
def test_vectors_that_float32_holds(items: sqlite_emb.Table, dtype: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    vectors = (random.normal(size=(5, 3)) * 100).astype(dtype)
    for same in layouts(vectors):
        items.put(np.arange(5), same)
        assert np.array_equal(items.get(np.arange(5)), vectors.astype("f4"))


@pytest.mark.parametrize("dtype", ["f8", "i4", "u4", "i8", "u8"])
def test_vectors_that_float32_may_not_hold(items: sqlite_emb.Table, dtype: str) -> None:
    vectors = np.array([[1, 2, 2**24 + 1]]).astype(dtype)
    with pytest.raises(sqlite_emb.DTypeError, match="cast=True"):
        items.put([1], vectors)
    assert len(items) == 0
    items.put([1], vectors, cast=True)
    assert np.array_equal(items.get([1]), vectors.astype("f4"))


@pytest.mark.parametrize("dtype", ["?", "c8", "U3", "O", ">f4", "M8[s]"])
def test_vectors_of_other_types(items: sqlite_emb.Table, dtype: str) -> None:
    for cast in (False, True):
        with pytest.raises(sqlite_emb.DTypeError):
            items.put([1], np.zeros((1, 3)).astype(dtype), cast=cast)


def test_numbers_of_python_are_rounded(items: sqlite_emb.Table) -> None:
    items.put([1], [[0.1, 1, 2**24 + 1]])
    assert np.array_equal(items.get([1]), np.array([[0.1, 1, 2**24 + 1]], "f4"))


@pytest.mark.parametrize(
    "shape", [(3,), (2,), (1, 3), (2, 4), (2, 2), (3, 3), (2, 1, 3), (6,), ()]
)
def test_vectors_of_wrong_shapes(items: sqlite_emb.Table, shape: tuple[int, ...]) -> None:
    writes: list[Any] = [items.put, items.add, items.insert, items.write_back]
    for write in writes:
        with pytest.raises(sqlite_emb.ShapeError, match=r"need \[2, 3\]"):
            write([1, 2], np.zeros(shape, "f4"))
    assert len(items) == 0


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e39])
def test_vectors_that_are_not_finite(items: sqlite_emb.Table, value: float) -> None:
    with pytest.raises(sqlite_emb.Error, match="element 1 of row 1"):
        items.put([1, 2], np.array([[1, 2, 3], [4, value, 6]]), cast=True)
    assert len(items) == 0


def test_results_share_the_memory_of_sqlite(items: sqlite_emb.Table) -> None:
    items.put([1], [[1, 2, 3]])
    rows = items.get([1])
    assert not rows.flags.owndata and not rows.flags.writeable
    with pytest.raises(ValueError):
        rows[0] = 0


@pytest.mark.parametrize(
    "keys",
    [
        ["a", "ß", ""],
        ("a", "ß", ""),
        np.array(["a", "ß", ""]),
        np.array(["a", "ß", ""], object),
    ],
)
def test_texts(db: Any, keys: Any) -> None:
    words = sqlite_emb.Table.create(db, "words", 2, text_keys=True)
    vectors = np.arange(6, dtype="f4").reshape(3, 2)
    words.put(keys, vectors)
    assert np.array_equal(words.get(keys), vectors)
    assert np.array_equal(words.get("ß"), vectors[1])
    assert sorted(words.keys()) == ["", "a", "ß"]
    assert words.found(["a", "b"]).tolist() == [True, False]
    assert words.delete(keys) == 3


@pytest.mark.parametrize("text", ["a\0b", "\n\t\"\\'", "\u2028", "😀", "x" * 100_000])
def test_odd_texts(db: Any, text: str) -> None:
    words = sqlite_emb.Table.create(db, "words", 1, text_keys=True)
    words.put([text, text + "!"], [[1], [2]])
    assert words.get([text + "!", text]).tolist() == [[2], [1]]
    assert set(words.keys()) == {text, text + "!"}


@pytest.mark.parametrize(
    "keys", [[1], [b"a"], ["a", None], np.array([b"a"]), np.arange(2), b"a"]
)
def test_wrong_texts(db: Any, keys: Any) -> None:
    words = sqlite_emb.Table.create(db, "words", 2, text_keys=True)
    with pytest.raises(sqlite_emb.DTypeError, match="texts"):
        words.get(keys)
