"""Costly instructions cut in two halves that two threads run at the same time.

The halves differ in an outer loop that the result knows, so each writes cells of its own and no sum is cut: the
numbers are the same as on one thread. Handing work over takes some ten microseconds, so only instructions that are
predicted to take much longer are cut.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lookalike.tables.cores import second_thread
from lookalike.tables.numba_kernels import KIND_CELLS, KIND_COPY, KIND_MATRIX, run

WORTH_TWO_THREADS_NS = 3e5
_MATRIX_TABLE, _COPY_TABLE = 13, 7


class Stretch(NamedTuple):
    """Instructions from `first` to before `last`; with `halves`, one for this thread and one for the other instead."""

    first: int
    last: int
    halves: tuple[np.ndarray, np.ndarray] | None


def halved(instruction: list[int]) -> tuple[list[int], list[int]] | None:
    """The instruction on the two halves of its first outer loop, or None if it has none to cut."""
    kind = instruction[0]
    if kind == KIND_CELLS:
        return _cut(instruction, 4, ((1, 1), (2, 1), (3, 1)))
    if kind == KIND_MATRIX and instruction[4] > 0:
        at = _MATRIX_TABLE
        return _cut(instruction, at, tuple((1 + which, instruction[at + 1 + which]) for which in range(3)))
    if kind == KIND_COPY and instruction[3] > 0:
        at = _COPY_TABLE
        return _cut(instruction, at, tuple((1 + which, instruction[at + 1 + which]) for which in range(2)))
    return None


def _cut(instruction: list[int], size_at: int, moved: tuple[tuple[int, int], ...]):
    """Two copies, the second with its offsets (first of each pair in `moved`) advanced by half a loop's strides."""
    size = instruction[size_at]
    if size < 2:
        return None
    first, second = instruction.copy(), instruction.copy()
    first[size_at], second[size_at] = size // 2, size - size // 2
    for at, stride in moved:
        second[at] += (size // 2) * stride
    return first, second


def stretches(code: np.ndarray, starts: np.ndarray, costly: list[bool]) -> list[Stretch]:
    """The program cut into stretches for one thread and instructions for two."""
    ends = np.append(starts[1:], len(code))
    found: list[Stretch] = []
    begin = 0
    for number, is_costly in enumerate(costly):
        halves = halved(code[starts[number] : ends[number]].tolist()) if is_costly else None
        if halves is None:
            continue
        if begin < number:
            found.append(Stretch(begin, number, None))
        one, two = (np.array(half, dtype=np.int64) for half in halves)
        found.append(Stretch(number, number + 1, (one, two)))
        begin = number + 1
    if begin < len(costly):
        found.append(Stretch(begin, len(costly), None))
    return found


_ALONE = np.zeros(1, dtype=np.int64)


def run_stretches(buffer: np.ndarray, code: np.ndarray, starts: np.ndarray, parts: list[Stretch]) -> None:
    """Runs the parts one after the other, halves at the same time."""
    for first, last, halves in parts:
        if halves is None:
            run(buffer, code, starts[first:last], last - first)
            continue
        waiting = second_thread().submit(run, buffer, halves[1], _ALONE, 1)
        try:
            run(buffer, halves[0], _ALONE, 1)
        finally:
            waiting.result()
