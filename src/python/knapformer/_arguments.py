# SPDX-FileCopyrightText: The KnapFormer authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Python values as the numbers and arrays that the planner takes.

A value of the wrong type is a TypeError, one out of range an Error; both name the argument.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._core import Error

_INT64 = np.iinfo(np.int64)


def int64(name: str, value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}; expected a whole number") from None
    if not _INT64.min <= number <= _INT64.max:
        raise Error(f"{name} is {number}; expected a number of 64 bits")
    return number


def limit(name: str, value: Any, unlimited: int) -> int:
    """A count, 0 or more, or None for `unlimited`."""
    if value is None:
        return unlimited
    number = int64(name, value)
    if number < 0:
        raise Error(f"{name} is {number}; expected 0 or more, or None")
    return number


def real(name: str, value: Any) -> float:
    try:
        if isinstance(value, str):
            raise TypeError
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {value!r}; expected a number") from None
    except OverflowError:
        raise Error(f"{name} is {value}; expected a number that a float can hold") from None


def floats(name: str, values: Any) -> list[float]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"{name} is {values!r}; expected a sequence of numbers")
    return [real(f"{name}[{i}]", value) for i, value in enumerate(values)]


def integers(name: str, values: Any) -> NDArray[np.int64]:
    """One-dimensional, contiguous, aligned, int64: without a copy when `values` are that."""
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError) as error:  # ragged
        raise TypeError(f"{name}: {error}; expected a one-dimensional array of integers") from None
    if array.ndim != 1:
        raise TypeError(f"{name} has {array.ndim} dimensions; expected one, of integers")
    if array.dtype == np.int64:
        return np.require(array, requirements=["C", "A"])
    if array.size == 0 and not isinstance(values, np.ndarray):
        return np.empty(0, dtype=np.int64)  # an empty list has no type
    if array.dtype == object:  # whole numbers of more than 64 bits, perhaps
        for i, value in enumerate(array):
            int64(f"{name}[{i}]", value)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} has elements of type {array.dtype}; expected integers")
    if array.dtype.kind == "u" and array.size and int(array.max()) > _INT64.max:
        raise Error(f"{name} has the element {int(array.max())}; expected at most {_INT64.max}")
    return array.astype(np.int64)


def plural(count: int, what: str) -> str:
    """"1 rank", "2 ranks"."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def by_rank(name: str, rows: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of numbers, one for each rank, as one array and the offsets of its rows."""
    if isinstance(rows, (str, bytes)) or not isinstance(rows, Iterable):
        raise TypeError(f"{name} is {type(rows).__name__}; expected integers of each rank")
    arrays = [integers(f"{name}[{rank}]", row) for rank, row in enumerate(rows)]
    offsets = np.zeros(len(arrays) + 1, dtype=np.int64)
    np.cumsum([array.size for array in arrays], out=offsets[1:])
    flat = np.concatenate(arrays) if arrays else np.empty(0, dtype=np.int64)
    return flat, offsets
