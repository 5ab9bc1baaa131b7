"""Spoiled model files: a model that works in every way, or a ModelFileError. No traceback, no warning, no gigabyte."""

from __future__ import annotations

import io
import json
import random
import re
import struct
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from lookalike.cli import main as cli
from lookalike.errors import BudgetError, ModelFileError, SchemaError
from lookalike.models import bayes_net as prefix_histogram
from lookalike.models import copula, network
from lookalike.release import load

from .models import KINDS, Members, members, pack
from .mutations import many, spoil_bytes, spoil_tree, survive

QUICK = ("graphical", "gum-rows", "bayes-net", "dense", "copula", "refined", "rows", "network")
ENTRIES = (float("nan"), float("inf"), -float("inf"), -1.0, 0.0, 1e300, 1e-300, 255.0, 1e9, -1e18)
SHAPES = ("(8000000000000,)", "(1000000, 1000000)", "()", "(0,)", "(3,)", "(-1,)", "(2, 2, 2)", "(" + "1, " * 40 + ")")
DTYPES = ("'|O'", "'<f8'", "'<c16'", "'|V8'", "'<M8[s]'", "'<U4'", "'|u1'", "[('a', '<f8')]", "'>f8'", "'<i8'")


def spoil_array(data: bytes, rng: random.Random) -> bytes:
    """An array with other entries, another type, another shape, or another header."""
    action = rng.randrange(5)
    if action < 3:
        array = np.load(io.BytesIO(data)).copy()
        if action == 0 and array.size:
            with np.errstate(all="ignore"):
                array.flat[rng.randrange(array.size)] = np.array(rng.choice(ENTRIES)).astype(array.dtype)
        elif action == 1:
            with np.errstate(all="ignore"):
                array = array.astype(rng.choice(("f8", "f4", "i8", "i4", "u1", "b1", "f2", "c16", ">f8")))
        else:
            array = rng.choice((array.ravel(), array[:-1] if array.ndim else array, array.T, array[..., None]))
        stream = io.BytesIO()
        np.save(stream, array)
        return stream.getvalue()
    if action == 3:
        head = data[10 : 10 + struct.unpack("<H", data[8:10])[0]].decode()
        head = re.sub(r"\([\d, ]*\)", lambda _: rng.choice(SHAPES), head) if rng.random() < 0.5 else head
        head = re.sub(r"'[<|]\w+'", lambda _: rng.choice(DTYPES), head, count=1)
        return data[:8] + struct.pack("<H", len(head)) + head.encode() + data[10 + len(head) :]
    return spoil_bytes(data, rng)


def spoil_members(files: Members, rng: random.Random) -> Members:
    """One of the files inside changed, dropped, swapped with another, or one added."""
    files, arrays = dict(files), [name for name in files if name.endswith(".npy")]
    action = rng.randrange(10)
    if action < 5 or not arrays:
        files["model.json"] = json.dumps(spoil_tree(json.loads(files["model.json"]), rng)).encode()
    elif action < 8:
        name = rng.choice(arrays)
        files[name] = spoil_array(files[name], rng)
    elif action == 8:
        one, two = rng.choice(arrays), rng.choice(list(files))
        files[one], files[two] = files[two], files[one]
    else:
        name = rng.choice(list(files))
        files[rng.choice(("../x.npy", "x.npy", "code.py", name.upper(), "measurements-0-groups.npy"))] = files.pop(name)
    return files


@pytest.fixture(autouse=True)
def small_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Marginals that are counted in a large sample take most of the time otherwise."""
    for module in (copula, network, prefix_histogram):
        monkeypatch.setattr(module, "SAMPLE_ROWS", 2000)
    monkeypatch.setattr(sys, "argv", [])


def use(path: Path, full: bool) -> None:
    """Everything that a model is for."""
    fitted = load(path)
    repr(fitted)
    fitted._repr_html_()
    fitted.query("count")
    # Of a few released rows no ten can be made, and what was changed in the schema may make rules that no row keeps.
    with suppress(BudgetError, SchemaError):
        fitted.sample_arrow(10, seed=0)
    if full:
        fitted.report()
        out = path.with_name("out.csv")
        sys.argv = ["lookalike", "sample", str(path), "-o", str(out), "--seed", "1"]
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        assert exit_.value.code in (0, 2)


def attempt(path: Path, kinds: tuple[str, ...], rng: random.Random) -> bool:
    files = members(rng.choice(kinds))
    if rng.random() < 0.1:
        pack(files, path)
        path.write_bytes(spoil_bytes(path.read_bytes(), rng))
    else:
        pack(spoil_members(files, rng), path)
    try:
        load(path)
    except ModelFileError:
        return False
    use(path, full=rng.random() < 0.3)
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_the_files_that_are_spoiled_are_valid(tmp_path: Path, kind: str) -> None:
    pack(members(kind), tmp_path / "m.lookalike")
    use(tmp_path / "m.lookalike", full=True)


def test_spoiled_models(tmp_path: Path) -> None:
    assert survive(300, 1, lambda rng: attempt(tmp_path / "m.lookalike", QUICK, rng)) > 30


@pytest.mark.slow
def test_thousands_of_models(tmp_path: Path) -> None:
    survive(many(), 2, lambda rng: attempt(tmp_path / "m.lookalike", KINDS, rng))
