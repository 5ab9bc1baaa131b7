"""Valid models of every kind over one small table, as the files inside their archives."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lookalike.models.bayes_net import BayesNet, PrefixHistogram
from lookalike.models.dense import DenseModel
from lookalike.models.network import Generator, NetworkModel
from lookalike.models.refine import RefinedModel
from lookalike.models.relaxed_rows import RelaxedRows
from lookalike.models.rows import GumRows, ReleasedRows, RowsModel
from lookalike.pipeline import synthesize
from lookalike.release import FittedModel
from lookalike.schema.domain import Domain

Members = dict[str, bytes]
"""Content of each file of an archive."""

ROWS = 300
FIELDS = [
    {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}, "dp": {"bins": 4}},
    {
        "name": "sex",
        "type": "string",
        "constraints": {"enum": ["F", "M"], "required": True},
        "dp": {"outside": "other"},
    },
    {
        "name": "seen",
        "type": "date",
        "constraints": {"minimum": "2020-01-01", "maximum": "2021-12-31", "required": True},
        "dp": {"bins": 3},
    },
    {
        "name": "weight",
        "type": "number",
        "constraints": {"minimum": 0, "maximum": 10, "required": True},
        "dp": {"bins": 2, "decimals": 1},
    },
    {"name": "id", "type": "string", "constraints": {"required": True}, "dp": {"pattern": "p-####"}},
]
SCHEMA = {"fields": FIELDS, "dp": {"constraints": [{"never": "sex = M and weight >= 5"}]}}


@cache
def released(method: str) -> FittedModel:
    """The model of a run on made-up rows."""
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "age": [str(x) for x in rng.integers(0, 100, ROWS)],
            "sex": np.where(rng.random(ROWS) < 0.5, "F", "M"),
            "seen": [f"2020-{month:02}-15" for month in rng.integers(1, 13, ROWS)],
            "weight": [f"{x:.1f}" for x in rng.random(ROWS) * 4],
            "id": [f"p-{i:04}" for i in range(ROWS)],
        }
    )
    return synthesize(table, schema=SCHEMA, epsilon=2.0, seed=1, method=method).fitted


def _network() -> BayesNet:
    model = released("privbayes").model
    assert isinstance(model, BayesNet)
    return model


def _rows() -> GumRows:
    model = released("privsyn").model
    assert isinstance(model, GumRows)
    return model


def _codes(domain: Domain) -> np.ndarray:
    return np.random.default_rng(1).integers(0, domain.sizes, (40, len(domain)))


def _margins(domain: Domain) -> list[np.ndarray]:
    return [np.full(size, 1 / size) for size in domain.sizes]


def _prefixes(domain: Domain) -> PrefixHistogram:
    sizes = [domain.size(name) for name in _network().order[:2]]
    cells = np.indices(sizes).reshape(2, -1).T[:3].astype(np.int32)
    return PrefixHistogram(_network(), cells, np.array([9.0, 20.0, 30.0]))


def _refined(domain: Domain) -> RefinedModel:
    coarse = Domain(domain.names, (2, *domain.sizes[1:]))
    even = DenseModel(coarse, np.full(coarse.sizes, 1 / coarse.cells()), 300.0)
    kept = np.arange(domain.sizes[0]) % 2
    return RefinedModel(domain, even, {"age": kept}, {"age": 1 / np.bincount(kept)[kept]})


MADE: dict[str, Callable[[Domain], Any]] = {
    "reconstructed": lambda domain: replace(_rows(), reconstructed=True),
    "prefix-histogram": _prefixes,
    "released-rows": lambda domain: ReleasedRows.of(_network(), _codes(domain).astype(np.int32)),
    "rows": lambda domain: RowsModel(domain, 300.0, _codes(domain)),
    "relaxed-rows": lambda domain: RelaxedRows(domain, 300.0, np.concatenate(_margins(domain))[:, None].repeat(7, 1)),
    "network": lambda domain: NetworkModel(
        domain, 300.0, Generator.start(_margins(domain), 3, 5, np.random.default_rng(0))
    ),
    "refined": _refined,
}
"""Kinds whose methods take long, or that a method makes only at times; "reconstructed" is a variant of "gum-rows"."""

RUN = {
    "graphical": "mst",
    "reweighted": "mosaic",
    "gum-rows": "privsyn",
    "bayes-net": "privbayes",
    "dense": "mwem",
    "copula": "dp-copula",
}
"""Kinds with a method that makes them."""

KINDS = (*RUN, *MADE)


@cache
def members(kind: str) -> Members:
    """The files inside a valid model file of that kind."""
    if kind in RUN:
        fitted = released(RUN[kind])
    else:
        base = released("mst")
        fitted = replace(base, model=MADE[kind](base.schema.domain))
    assert fitted.model.kind == ("gum-rows" if kind == "reconstructed" else kind)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.lookalike"
        fitted.save(path)
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist()}


def pack(files: Members, path: Path) -> None:
    """Write an archive of these files."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
