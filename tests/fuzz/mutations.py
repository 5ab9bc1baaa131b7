"""How valid files are spoiled: single bytes, pieces of text, and values of a parsed document."""

from __future__ import annotations

import copy
import os
import random
import resource
from collections.abc import Callable
from typing import Any

GROWTH_LIMIT = 2**30
"""Bytes by which reading hostile files may raise a process's peak memory."""

TEXTS = (
    "", "x", "NaN", "inf", "-1", "0", "1e308", "9" * 400, "<script>alert(1)</script>", "[/b]", "[bold]", "\x1b[31m",
    "\u202e", "2024-02-30", "9999-12-31", "0001-01-01", "%", "%s%f%Q", "string", "integer", "dictionary<values=string>",
    "timestamp[us, tz=Nowhere]", "decimal128(99, 3)", "a" * 5000, "=1+1", "../../etc/passwd", "null", "~", "true",
)  # fmt: skip
MARKS = (b"\n", b",", b'"', b"\0", b"\xff", b":", b"- ", b"{", b"[", b"&a ", b"*a")
NUMBERS = (0, 1, -1, 2, 3, 7, 100, 99_999, 2**31, 2**53, 10**18, -(10**18), 2**63, 10**400, 0.5, -0.5, 1e-320, 1e308)
ODD = (None, True, False, float("nan"), float("inf"), -float("inf"))


def hostile(rng: random.Random) -> Any:
    """A value that some field will not expect."""
    kind = rng.randrange(7)
    if kind == 0:
        return rng.choice(TEXTS)
    if kind in (1, 2):
        return rng.choice(NUMBERS)
    if kind == 3:
        return rng.choice(ODD)
    if kind == 4:
        return [hostile(rng) for _ in range(rng.randrange(4))]
    if kind == 5:
        return {rng.choice(TEXTS): hostile(rng) for _ in range(rng.randrange(3))}
    value: Any = 0
    for _ in range(rng.choice((5, 40, 200))):
        value = [value] if rng.random() < 0.5 else {"a": value}
    return value


def spoil_tree(tree: Any, rng: random.Random) -> Any:
    """The parsed document, changed in place in one to three spots chosen evenly among all its values."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        spots = list(_spots(tree))
        if not spots:
            return hostile(rng)
        holder, key = rng.choice(spots)
        action, value = rng.randrange(8), holder[key]
        if rng.random() < 0.4 and isinstance(value, str | int | float) and not isinstance(value, bool):
            holder[key] = _near(value, rng)
        elif action == 0:
            del holder[key]
        elif action == 1:
            other, place = rng.choice(spots)
            holder[key] = copy.deepcopy(other[place])
        elif action == 2 and isinstance(holder, dict):
            holder[rng.choice(TEXTS)] = holder.pop(key)
        elif action == 3 and isinstance(holder, list):
            holder.insert(key, holder[key])
        else:
            holder[key] = hostile(rng)
    return tree


def _near(value: Any, rng: random.Random) -> Any:
    """Another value of the same type: what looks right is what gets furthest."""
    if isinstance(value, str) or abs(value) > 2**62:
        return rng.choice(TEXTS)
    changed = value * rng.choice((-1, 0, 1, 2, 0.5, 1000)) + rng.choice((0, 1, -1))
    return int(changed) if isinstance(value, int) else float(changed)


def _spots(tree: Any) -> Any:
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(pairs):
        yield tree, key
        yield from _spots(value)


def spoil_bytes(data: bytes, rng: random.Random) -> bytes:
    """The bytes with a few changed, cut out, doubled or put in, or with the end missing."""
    spoiled = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        at, length = rng.randrange(len(spoiled) + 1), rng.choice((1, 1, 2, 8, 64))
        action = rng.randrange(6)
        if action == 0:
            spoiled = spoiled[:at] if rng.random() < 0.2 else spoiled
        elif action == 1:
            del spoiled[at : at + length]
        elif action == 2:
            spoiled[at:at] = spoiled[at : at + length]
        elif action == 3:
            spoiled[at:at] = rng.choice(TEXTS).encode()
        elif action == 4:
            spoiled[at : at + 1] = rng.choice(
                (b"\n", b",", b'"', b"\0", b"\xff", b":", b"- ", b"{", b"[", b"&a ", b"*a")
            )
        elif at < len(spoiled):
            spoiled[at] ^= 1 << rng.randrange(8)
    return bytes(spoiled)


def peak_memory() -> int:
    """Largest resident memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def many() -> int:
    """Number of attempts of a long test: thousands, and as many as LOOKALIKE_FUZZ says in `make fuzz`."""
    return int(os.environ.get("LOOKALIKE_FUZZ", "2500"))


def survive(cases: int, seed: int, attempt: Callable[[random.Random], bool]) -> int:
    """Make so many attempts, each with numbers of its own; returns how many said that the file still worked.

    An attempt raises nothing but what it expects. Warnings are errors in the whole suite.
    """
    before, working = peak_memory(), 0
    for case in range(cases):
        try:
            working += attempt(random.Random(seed * 1_000_003 + case))
        except Exception as error:
            raise AssertionError(f"case {case} of seed {seed} ended in {type(error).__name__}: {error}") from error
    assert peak_memory() - before < GROWTH_LIMIT
    return working
