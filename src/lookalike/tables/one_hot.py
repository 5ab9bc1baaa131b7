"""Rows of codes as rows of zeros and ones, one place per value of every column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from scipy import sparse  # pyright: ignore[reportMissingTypeStubs]

_sparse = cast(Any, sparse)


def first_places(sizes: Sequence[int]) -> np.ndarray:
    """Where the values of each column begin when those of all columns stand side by side.

    >>> first_places((2, 3, 4)).tolist()
    [0, 2, 5]
    """
    return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int32)


def one_hot(codes: np.ndarray, sizes: Sequence[int]) -> Any:
    """A sparse matrix (rows, values of all columns) of float32 with a 1 at every value that a row has.

    >>> one_hot(np.array([[1, 0], [0, 2]]), (2, 3)).toarray().astype(int).tolist()
    [[0, 1, 1, 0, 0], [1, 0, 0, 0, 1]]
    """
    rows, columns = codes.shape
    places = np.ascontiguousarray(codes.astype(np.int32) + first_places(sizes)).ravel()
    ends = np.arange(0, places.size + 1, columns, dtype=np.int32)
    return _sparse.csr_matrix((np.ones(places.size, np.float32), places, ends), shape=(rows, sum(sizes)))
