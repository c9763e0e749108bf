# SPDX-License-Identifier: MIT
"""Keys and vectors between numpy and the BLOBs of SQL.

SQL sees bytes, not types, so everything is checked here: what another type can hold
without loss is converted, and the rest is refused with a text that says what to write.
Nothing is copied that already has the right type and layout.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Collection, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .errors import DTypeError, ShapeError

__all__ = [
    "Keys",
    "Vectors",
    "pack_keys",
    "pack_texts",
    "pack_vectors",
    "unpack_keys",
    "unpack_texts",
]

# Anything that numpy makes an array of; torch tensors, pandas columns, lists.
Keys: TypeAlias = Any
Vectors: TypeAlias = Any
Shape: TypeAlias = tuple[int, ...]

INT64 = np.dtype("<i8")
FLOAT32 = np.dtype("<f4")
_LARGEST = 2**63 - 1


def _from_torch(value: Any, what: str) -> Any:
    """A tensor as an array that shares its memory; other values as they are."""
    if not type(value).__module__.startswith("torch"):
        return value
    value = value.detach()
    if value.device.type != "cpu":
        raise DTypeError(f"{what} are on {value.device}: pass {what}.cpu()")
    if str(value.dtype) == "torch.bfloat16":  # numpy has no such type; no loss
        value = value.float()
    return value.numpy()


def _as_array(value: Any, what: str) -> NDArray[Any]:
    if isinstance(value, (bytes, bytearray, memoryview)) and not getattr(value, "shape", None):
        raise DTypeError(f"{what} are bytes, whose type is not known: pass np.frombuffer(...)")
    if isinstance(value, Collection | Iterator) and not isinstance(value, Sequence):
        value = value if hasattr(value, "__array__") else list(value)
    try:
        array = np.asarray(_from_torch(value, what))
    except OverflowError as error:
        raise DTypeError(f"{what}: an integer does not fit 64 bits") from error
    except ValueError as error:  # rows of different lengths
        raise ShapeError(f"{what} are not a rectangular array: {error}") from error
    if not array.dtype.isnative:
        raise DTypeError(
            f"{what} have the byte order of another machine ({array.dtype.str}): pass "
            f"{what}.astype({array.dtype.newbyteorder('=').str!r})"
        )
    return array


def _integers(objects: NDArray[Any]) -> NDArray[np.int64]:
    """Python's integers, of an array of objects."""
    numbers = np.empty(objects.shape, INT64)
    flat = numbers.reshape(-1)
    for i, value in enumerate(objects.reshape(-1)):
        if isinstance(value, (bool, np.bool_)):
            raise DTypeError(f"key {i} is {value!r}: a key is an integer")
        try:
            flat[i] = operator.index(value)
        except TypeError as error:
            raise DTypeError(f"key {i} is {value!r}: a key is an integer") from error
        except OverflowError as error:
            raise DTypeError(f"key {i} is {value}, which does not fit 64 bits") from error
    return numbers


def pack_keys(keys: Keys) -> tuple[NDArray[np.int64], Shape]:
    """Integer keys as contiguous int64, and their shape.

    Takes integers of any size, as numpy, torch, pandas or Python have them.  Refuses
    booleans, floats, and unsigned numbers above 2^63 - 1.
    """
    if type(keys) is np.ndarray and keys.dtype == INT64 and keys.flags.c_contiguous:
        return keys, keys.shape
    array = _as_array(keys, "keys")
    kind = array.dtype.kind
    if array.size == 0 and kind in "fO":  # np.asarray([]) is float64
        array = array.astype(INT64)
    elif kind == "O":
        array = _integers(array)
    elif kind == "u" and array.dtype.itemsize == 8:
        if array.size and int(array.max()) > _LARGEST:
            raise DTypeError(f"key {array.max()} is above 2^63 - 1, the largest key")
    elif kind in "US":
        raise DTypeError("keys are texts, and the table's keys are integers")
    elif kind not in "iu":
        raise DTypeError(
            f"keys are {array.dtype}, and must be integers: pass keys.astype(np.int64) if "
            "they are whole numbers"
        )
    return np.ascontiguousarray(array, INT64).reshape(array.shape), array.shape


def pack_texts(keys: Keys) -> tuple[str, Shape]:
    """Text keys as a JSON array, and their shape.

    Takes a str, or lists and arrays of them (numpy's `U`, `StringDType` and `object`).
    """
    if isinstance(keys, str):
        return json.dumps([keys]), ()
    if isinstance(keys, (list, tuple)) and all(type(key) is str for key in keys):
        return json.dumps(keys), (len(keys),)
    if not isinstance(keys, np.ndarray):
        if isinstance(keys, Collection | Iterator) and not isinstance(keys, Sequence):
            keys = keys if hasattr(keys, "__array__") else list(keys)
        keys = np.asarray(keys, object)
    array = keys
    flat = array.reshape(-1).tolist()
    for i, key in enumerate(flat):
        if not isinstance(key, str):
            if isinstance(key, bytes):
                raise DTypeError(f"key {i} is bytes, and the table's keys are texts: decode it")
            raise DTypeError(f"key {i} is {key!r}, and the table's keys are texts")
    return json.dumps(flat), array.shape


def pack_vectors(
    vectors: Vectors, shape: Shape, dim: int | None, what: str = "vectors", cast: bool = False
) -> NDArray[np.float32]:
    """Vectors as contiguous float32 of the shape of their keys, and `dim` of each.

    float16 and bfloat16, and integers of 8 and 16 bits, are converted; float64 and larger
    integers only with `cast`, because they lose digits.  Python's numbers have no type
    that could be mistaken, and are rounded.
    """
    array = _as_array(vectors, what)
    if array.dtype != FLOAT32:
        exact = np.can_cast(array.dtype, FLOAT32, "safe") and array.dtype.kind in "fiu"
        python = not hasattr(vectors, "dtype") and array.dtype.kind in "fiu"
        if array.dtype.kind not in "fiu":
            raise DTypeError(f"{what} are {array.dtype}, and must be numbers")
        if not (exact or python or cast):
            raise DTypeError(
                f"{what} are {array.dtype}, which float32 cannot hold exactly: pass cast=True to "
                f"round them, or {what}.astype(np.float32)"
            )
        with np.errstate(over="ignore"):  # emb names the element that is infinite
            array = array.astype(FLOAT32)
    wanted = shape if dim is None else (*shape, dim)
    if array.shape != wanted:
        raise ShapeError(f"{what} have shape {_shape(array.shape)}, and need {_shape(wanted)}")
    return np.ascontiguousarray(array).reshape(wanted)


def _shape(shape: Shape) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


def unpack_keys(blob: bytes | None) -> NDArray[np.int64]:
    """The int64 of a BLOB, read-only; shares its memory."""
    return np.frombuffer(blob, INT64) if blob else np.empty(0, INT64)


def unpack_texts(texts: Sequence[Any]) -> NDArray[Any]:
    """Texts as an array of objects."""
    array = np.empty(len(texts), object)
    array[:] = [t.decode() if isinstance(t, bytes) else t for t in texts]
    return array
